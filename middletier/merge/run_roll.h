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
	RUN_ROLL_LENT,       /* takes those of a guest alone, who has an object of it himself */
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
	bool is_guest;            /* mt_run_roll_borrow */
	int rc; /* why there is none: the last failure; 0: none since the last success */
	void (*fn)(void *arg); /* told of each change; NULL: nobody is */
	void *arg;
};

/* mt_run_roll_bytes -- what the open extent can take yet; 0: there is none. */
uint64_t mt_run_roll_bytes(const struct mt_shard *shard);
/* mt_run_roll_step -- go on towards an open extent as far as can be. */
void mt_run_roll_step(struct mt_run_roll *roll);
/*
 * mt_run_roll_lend -- OPEN, with nothing out: a guest appends to it from its end on, and nobody else
 *
 * mt_run_roll_return: every replica was seen to have it up to @end_bytes, where the chain is @chain_crc: OPEN, and its
 * owner's again. mt_run_roll_recall: it takes no more, and is sealed where it was lent; what a guest of another process has
 * out is cut off by that, or refused.
 */
void mt_run_roll_lend(struct mt_run_roll *roll);
void mt_run_roll_return(struct mt_run_roll *roll, uint64_t end_bytes, uint32_t chain_crc);
void mt_run_roll_recall(struct mt_run_roll *roll);
/* mt_run_roll_unlend -- OPEN again, as before mt_run_roll_lend: no guest has ever been told of it. */
void mt_run_roll_unlend(struct mt_run_roll *roll);
/* mt_run_roll_borrow -- for a guest's shard: its roll, OPEN, with @extent, which was lent; no other follows. 0; -ENOMEM. */
int mt_run_roll_borrow(struct mt_shard *shard, struct mt_extent *extent);
/* mt_run_roll_over -- OPEN: it takes no more. */
void mt_run_roll_over(struct mt_run_roll *roll);

#endif /* CLEAVE_MIDDLETIER_MERGE_RUN_ROLL_H */
