/* SPDX-License-Identifier: Apache-2.0 */
/* loop_internal.h -- what the two kinds of loop share: loop_ev.c, and splitlib/sim/loop_sim.c */
#ifndef CLEAVE_BASE_LOOP_INTERNAL_H
#define CLEAVE_BASE_LOOP_INTERNAL_H

#include "cleave/loop.h"

#define LOOP_MAGIC 0x504f4f4cu /* "LOOP" */

/* loop_base_init -- fill the part that every implementation begins with. */
void loop_base_init(struct loop *loop, const struct loop_ops *ops, uint64_t seed);

/*
 * loop_tasks_run -- make the deferred calls, in rounds
 *
 * @on_task, when not NULL, is called before each. Stops early, keeping the rest, when the loop is
 * halted. Returns whether any task ran. Tasks beyond LOOP_DEFER_ROUNDS_MAX rounds stay queued.
 */
bool loop_tasks_run(struct loop *loop, void (*on_task)(struct loop *loop));
/* loop_turn_ends_run -- call the hooks in order, until the loop is halted. */
void loop_turn_ends_run(struct loop *loop);
/* loop_post_reverse -- a stack of posts (newest first) as a list, oldest first. */
struct loop_post *loop_post_reverse(struct loop_post *newest);

#endif /* CLEAVE_BASE_LOOP_INTERNAL_H */
