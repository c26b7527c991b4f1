/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.h -- what a node holds of a shard, compared with what the shard's manifest says */
#ifndef CLEAVE_MIDDLETIER_UPKEEP_SWEEP_H
#define CLEAVE_MIDDLETIER_UPKEEP_SWEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "extent/call.h"
#include "upkeep/orphans.h"

struct extent_id;
struct mt_shard;

struct mt_sweep {
	struct mt_shard *shard;
	struct sm sm;
	uint64_t due;      /* bit set: links whose nodes are to be asked */
	uint64_t due_ns;   /* when all are asked again */
	uint32_t number;   /* of this sweep */
	uint64_t begun_ns; /* the present one */
	uint32_t node_id;
	uint32_t listed_count; /* copies in its list so far */
	struct mt_orphans orphans;
	struct mt_call call;
	bool is_call_out, is_stopped;
};

/* mt_sweep_init -- stopped. mt_sweep_start -- the shard serves: every node is due; no call of an earlier life is out. */
void mt_sweep_init(struct mt_sweep *sweep, struct mt_shard *shard);
void mt_sweep_start(struct mt_sweep *sweep);
/* mt_sweep_step -- ask the next node that is due. Returns when to look again, UPKEEP_NEVER: when told. */
uint64_t mt_sweep_step(struct mt_sweep *sweep);
/* mt_sweep_node -- ask that node soon: something is there that nobody names. */
void mt_sweep_node(struct mt_sweep *sweep, uint32_t node_id);
/*
 * mt_sweep_know -- this owner knows by itself that a copy is nobody's, and could not have it deleted
 *
 * It has given the copy up by a durable edit, or made it for what never became durable; or its manifest
 * names the extent elsewhere and a repair needs the place. @incarnation 0: whichever is there.
 */
void mt_sweep_know(struct mt_shard *shard, const struct extent_id *id, uint32_t node_id,
    uint64_t incarnation);
/* mt_sweep_confirm -- an operator says that the orphans which wait may go now. Returns how many. */
uint32_t mt_sweep_confirm(struct mt_sweep *sweep);
/* mt_sweep_stop -- no list is judged any more. mt_sweep_fini -- frees what it remembers, in any state. */
void mt_sweep_stop(struct mt_sweep *sweep);
void mt_sweep_fini(struct mt_sweep *sweep);

#endif /* CLEAVE_MIDDLETIER_UPKEEP_SWEEP_H */
