/* SPDX-License-Identifier: Apache-2.0 */
/*
 * observer.h -- a snapshot that is taken just after a write that was given up is over
 *
 * A port that admits a session again has ended what it had been sent, so reads of the volume cannot
 * tell a write that is over from one that may still land (I11). A snapshot can: it reads all shards at
 * one moment, without being a session of theirs. An observer takes one, reads the blocks of that write
 * there, tells the history, and deletes the snapshot. Whatever fails ends it: it is one more user of a
 * cluster in which much fails.
 */
#ifndef CLEAVE_TESTS_SIM_OBSERVER_H
#define CLEAVE_TESTS_SIM_OBSERVER_H

#include "history.h"

struct observer {
	struct sim_cluster *cluster;
	struct history *history;
	struct cleave_client *client;
	const char *volume_name;
	uint32_t session; /* in the history */
	bool is_busy;
	uint32_t count; /* of snapshots taken; makes names */
	char name[48];  /* of the snapshot, with its volume's */
	struct cleave_call call;
	struct cleave_volume *volume; /* the snapshot, opened */
	struct cleave_io io;
	uint64_t offset_bytes;
	uint32_t number; /* of the read */
	uint32_t floors[HISTORY_BLOCKS_MAX];
	uint8_t *data; /* HISTORY_BLOCKS_MAX blocks, the owner's */
};

/*
 * observer_start -- look at what @lost wrote, or did not; @offset_bytes: where that is in the volume
 *
 * Not while it is busy. It is over when is_busy is false; before that only its client's end ends it.
 */
void observer_start(struct observer *observer, const struct history_op *lost,
    uint64_t offset_bytes);

#endif /* CLEAVE_TESTS_SIM_OBSERVER_H */
