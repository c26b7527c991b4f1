/* SPDX-License-Identifier: Apache-2.0 */
/* run_roll.h -- the extent that a shard's runs go to */
#ifndef CLEAVE_MIDDLETIER_MERGE_RUN_ROLL_H
#define CLEAVE_MIDDLETIER_MERGE_RUN_ROLL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"

struct mt_extent;
struct mt_shard;

/* mt_run_roll_init -- shard->run_roll, without an extent. 0; -ENOMEM. */
int mt_run_roll_init(struct mt_shard *shard);
/* mt_run_roll_reset -- stopped, and the shard's extents are freed: as after init. */
void mt_run_roll_reset(struct mt_shard *shard);
/* mt_run_roll_stop -- nobody is told any more; an extent that is being created is deleted when it is there. */
void mt_run_roll_stop(struct mt_shard *shard);
/* mt_run_roll_fini -- in any state, also without init. */
void mt_run_roll_fini(struct mt_shard *shard);
/* mt_run_roll_tend -- seal an extent that is broken, or could have more replicas by now. */
void mt_run_roll_tend(struct mt_shard *shard);

enum run_roll_state {
	RUN_ROLL_NONE,       /* no extent */
	RUN_ROLL_CREATING,   /* its nodes are asked */
	RUN_ROLL_COMMITTING, /* the edit that names it is on its way */
	RUN_ROLL_OPEN,       /* takes batches, unless it has broken */
	RUN_ROLL_SEALING,    /* its last appends end, then the edit that seals it */
	RUN_ROLL_STOPPED,
	RUN_ROLL_STATE_NR
};

struct mt_run_roll {
	uint32_t magic;
	struct mt_shard *shard;
	struct sm sm;
	struct mt_extent *extent; /* not in NONE */
	bool is_committing;       /* an edit is out */
	int rc; /* why there is none: the last failure; 0: none since the last success */
	void (*fn)(void *arg); /* told of each change; NULL: nobody is */
	void *arg;
};

/* mt_run_roll_bytes -- what the open extent can take yet; 0: there is none. */
uint64_t mt_run_roll_bytes(const struct mt_shard *shard);
/* mt_run_roll_step -- go on towards an open extent as far as can be. */
void mt_run_roll_step(struct mt_run_roll *roll);
/* mt_run_roll_over -- OPEN: it takes no more. */
void mt_run_roll_over(struct mt_run_roll *roll);

#endif /* CLEAVE_MIDDLETIER_MERGE_RUN_ROLL_H */
