/* SPDX-License-Identifier: Apache-2.0 */
/* merge_step.h -- what the parts of a merge tell its driver, which alone moves its state */
#ifndef CLEAVE_MIDDLETIER_MERGE_MERGE_STEP_H
#define CLEAVE_MIDDLETIER_MERGE_MERGE_STEP_H

#include <stdbool.h>
#include <stdint.h>

/* A step says one of these, or a negative errno, which ends the merge. */
enum merge_step {
	STEP_AGAIN, /* what it waits for tells: mt_merge_notify, the writer, or turn->again_ns */
	STEP_DONE,
};

#define TURN_NEVER UINT64_MAX
/* Parts of a turn's budget. A short job takes the engine a few us, less than to hand it to a thread and hear of it again. */
#define TURN_JOB 4u
#define TURN_JOB_SHORT 1u

/* A turn of the loop. */
struct merge_turn {
	uint32_t budget; /* of engine jobs that a merge may begin in it yet: TURN_JOB each */
	uint32_t
	    reads; /* at nodes at a time, but one at least; a merge may be able to have fewer */
	uint32_t batch_bytes; /* what it appends is in batches of no more, longer frames apart */
	bool is_background; /* its engine jobs go where those of writes do not (mt_merge_engines) */
	bool is_held;       /* the engines' queue is full: no more jobs before again_ns is over */
	uint64_t
	    again_ns; /* a step wants to be tried again after this, whatever comes; TURN_NEVER */
};

/* turn_spend -- a job of @units begins; the last may be more than is left. */
static inline void
turn_spend(struct merge_turn *turn, uint32_t units)
{
	turn->budget -= units < turn->budget ? units : turn->budget;
}

/* turn_again -- the engine, or a node, takes nothing now: try again after @ns. */
static inline void
turn_again(struct merge_turn *turn, uint64_t ns)
{
	if (ns < turn->again_ns)
		turn->again_ns = ns;
}

/* turn_hold -- the engines take nothing now: the turn ends here, and the next one begins after @ns, not at once. */
static inline void
turn_hold(struct merge_turn *turn, uint64_t ns)
{
	turn->budget = 0;
	turn->is_held = true;
	turn_again(turn, ns);
}

/* turn_is_spent -- its jobs are begun, and the next turn may begin after whatever else the loop has to do. */
static inline bool
turn_is_spent(const struct merge_turn *turn)
{
	return turn->budget == 0 && !turn->is_held;
}

#endif /* CLEAVE_MIDDLETIER_MERGE_MERGE_STEP_H */
