/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapper.h -- takes snapshots of a volume that a workload writes to, and all that can be done with them
 *
 * A process of its own, on a host that no workload uses, does one thing after the other: takes a
 * snapshot, reads one, clones one, writes to the clone and rolls it back, deletes. Some blocks of the clone
 * are zeroed before the roll-back, and again behind it. It may be flattened in the middle of that, and its origin
 * deleted as soon as that can be. In seeds with read leases (leases.h) the clone is read elsewhere, or cut short, by
 * force before it is rolled back. Each snapshot has an oracle: what the history knew to have happened when it was
 * asked for, what had been submitted when it was answered, and what it held when it was first read, from when on it
 * never changes.
 *
 * What fails is done again, until it is known to have happened, or not to be there.
 */
#ifndef CLEAVE_TESTS_SIM_SNAPPER_H
#define CLEAVE_TESTS_SIM_SNAPPER_H

#include "cluster.h"
#include "history.h"

struct snapper;

struct snapper_options {
	struct sim_cluster *cluster;
	struct sim_host *host;
	struct history *history; /* of the volume */
	const char *volume;
	uint32_t block_count;
	uint64_t seed; /* of what it does, and when */
	bool flattens; /* clones, too: then their origins are deleted */
};

struct snapper *snapper_create(const struct snapper_options *options);
/* snapper_destroy -- its process is killed. NULL is a no-op. */
void snapper_destroy(struct snapper *snapper);
/* snapper_finish -- it begins nothing more; runs the world until what it does has ended. NULL is none. */
void snapper_finish(struct snapper *snapper, uint64_t limit_ns);
/* snapper_verify -- finished: every snapshot and clone is read, and is what it was. Runs the world. */
void snapper_verify(struct snapper *snapper, uint64_t limit_ns);
/* snapper_clear -- finished: all of them are deleted, and no key is left of them. Runs the world. */
void snapper_clear(struct snapper *snapper, uint64_t limit_ns);
/* snapper_taken_count -- snapshots that were answered with success. */
uint32_t snapper_taken_count(const struct snapper *snapper);

#endif /* CLEAVE_TESTS_SIM_SNAPPER_H */
