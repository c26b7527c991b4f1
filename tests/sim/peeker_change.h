/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peeker_change.h -- a change that is stored while its gateway, whose lease is about to end, stands still
 *
 *	a hot block is written, and what nodes answer is cut off --> the gateway stands still, and shows what was before
 *	--> the next owner serves the shard, and has the write --> somebody beside the session reads it there
 *	--> the session, whose write is under way still, and whose lease may hold still, reads the block
 *
 * It must not see what was before. All of it happens within a read lease, or it shows nothing.
 */
#ifndef CLEAVE_TESTS_SIM_PEEKER_CHANGE_H
#define CLEAVE_TESTS_SIM_PEEKER_CHANGE_H

#include <stdbool.h>
#include <stdint.h>

struct sim_cluster;
struct sim_peeker_change;
struct workload;

struct sim_peeker_change *sim_peeker_change_create(struct sim_cluster *cluster);
/*
 * sim_peeker_change_begin -- with what @workload's session reads out of gateway @gateway's memory, which runs
 *
 * Where changes are all that happens (sim_peeks_are_changing) the session reads a few blocks again and again before, and
 * nothing else, so that they are shown to it; and several change.
 */
void sim_peeker_change_begin(struct sim_peeker_change *change, struct workload *workload,
    uint32_t gateway);
/* sim_peeker_change_is_over -- it came to nothing: no block was shown, or not any more, when that would have counted. */
bool sim_peeker_change_is_over(const struct sim_peeker_change *change);
/* sim_peeker_change_heal -- all is well from here on; nothing, where nothing was begun. */
void sim_peeker_change_heal(struct sim_peeker_change *change);
void sim_peeker_change_destroy(struct sim_peeker_change *change);

#endif /* CLEAVE_TESTS_SIM_PEEKER_CHANGE_H */
