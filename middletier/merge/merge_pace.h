/* SPDX-License-Identifier: Apache-2.0 */
/* merge_pace.h -- how much of a port's loop a merge takes while clients write: pace.c says */
#ifndef CLEAVE_MIDDLETIER_MERGE_MERGE_PACE_H
#define CLEAVE_MIDDLETIER_MERGE_MERGE_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "merge/merge_step.h"

struct engine_set;
struct mt_merge;
struct mt_port;

/* mt_merge_turn -- what @merge, at work, may do in this turn of the loop: engine jobs, and READs at nodes at a time. */
void mt_merge_turn(const struct mt_merge *merge, struct merge_turn *turn);
/*
 * mt_merge_engines -- where jobs of @turn run: in the background, or where those of writes do
 *
 * From PACE_BACKGROUND on it is the latter: where writes keep a machine busy the background stands still. Judged once a
 * turn, for that asks each shard of the port.
 */
struct engine_set *mt_merge_engines(const struct mt_port *port, const struct merge_turn *turn);
/* mt_merge_window_blocks -- as many as @merge, at work, is to take in one go: short while clients write, and it is at leisure. */
uint32_t mt_merge_window_blocks(const struct mt_merge *merge);
/* mt_merge_pause_ns -- a window of @bytes is done: how long clients go first. */
uint64_t mt_merge_pause_ns(const struct mt_merge *merge, uint64_t bytes);
/* mt_merge_is_hoping -- @merge has no room for its runs, and looks for it again soon. */
bool mt_merge_is_hoping(const struct mt_merge *merge);
/* mt_merge_next_turn -- @merge, at work, has got as far as it gets: the timer fires where nothing else would take it on. */
void mt_merge_next_turn(const struct mt_merge *merge);

/* mt_merge_port_pressure -- the greatest of the port's shards. */
uint32_t mt_merge_port_pressure(const struct mt_port *port);
/*
 * mt_merge_guest_turn -- as mt_merge_turn, of what is executed for a gateway whose logs are under @pressure
 *
 * It hurries as much as a merge here would under that, however long the logs here are; and it is in the background only
 * where neither is pressed.
 */
void mt_merge_guest_turn(const struct mt_port *port, uint32_t pressure, struct merge_turn *turn);
/* mt_merge_guest_window_blocks -- likewise, as mt_merge_window_blocks. */
uint32_t mt_merge_guest_window_blocks(const struct mt_port *port, uint32_t pressure);
/* mt_merge_guest_pause_ns -- likewise, as mt_merge_pause_ns; *@paid_ns is kept for the next. */
uint64_t mt_merge_guest_pause_ns(const struct mt_port *port, uint32_t pressure, uint64_t *paid_ns,
    uint64_t bytes);

#endif /* CLEAVE_MIDDLETIER_MERGE_MERGE_PACE_H */
