/* SPDX-License-Identifier: Apache-2.0 */
/*
 * companion.h -- a client beside a volume's writer: it reads, and it asks for the volume without taking it
 *
 * Its reads are of a read-only session, which attaches nothing. They are in the volume's history like the writer's:
 * each must see what was acknowledged, or had been read, when it was submitted. No attach may end that session.
 *
 * Now and then it opens the volume for writing, too, without "take". While the writer's session lives that must
 * be refused: it is let in only when the writer was answered nothing for the better part of the session
 * time, at some time while it asked. Then it closes the volume again, and the writer finds that it was taken.
 */
#ifndef CLEAVE_TESTS_SIM_COMPANION_H
#define CLEAVE_TESTS_SIM_COMPANION_H

#include "history.h"

/* The volume's writer. */
struct companion_writer {
	uint32_t session;     /* in the history; 0: there is none, or it has lost the volume */
	uint64_t answered_ns; /* last; UINT64_MAX: not yet */
	uint64_t
	    silence_ns; /* when it was answered for the first time after COMPANION_SILENT_NS; 0: never */
};
/* Clocks drift by less than an eighth, and an answer may be older than the look that it allows. */
#define COMPANION_SILENT_NS (SIM_SESSION_NS - SIM_SESSION_NS / 4)

struct companion_options {
	struct sim_cluster *cluster;
	struct history *history;
	struct sim_host *host; /* its own */
	const char *volume_name;
	uint32_t block_count;
	struct companion_writer (*writer)(void *arg);
	/* Still at work: afterwards the companion is silent. */
	bool (*is_at_work)(void *arg);
	void *arg;
};

struct companion;
struct companion *companion_create(const struct companion_options *options);
/* companion_destroy -- kill -9 of its process. NULL is a no-op. */
void companion_destroy(struct companion *companion);
/* companion_is_idle -- nothing of it is under way; it begins nothing new when the writer's work is done. */
bool companion_is_idle(const struct companion *companion);
uint64_t companion_read_count(const struct companion *companion);

#endif /* CLEAVE_TESTS_SIM_COMPANION_H */
