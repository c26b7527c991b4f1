/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share_window.h -- how many of the requests that are here may be under way: as many as make a port faster
 *
 * Where more requests under way bring more of them to an end (disks that answer late, batches that grow), holding some
 * back costs all volumes, and there is nothing to share: each has what it asks for. Where they do not, because a
 * processor, a disk or a log is busy, those that wait here cost nothing, and one can be chosen. So the part that may
 * be under way is tried a little higher and a little lower in turns, and follows what that brought:
 *
 *	part    higher, SHARE_PHASE_TICKS ticks    lower, likewise
 *	        settles 2, counted 6               settles 2, counted 6     of what more were under way, did 3/4 come back?
 *
 * After SHARE_WINDOW_ROUNDS of these it rises, or falls. A phase is longer than requests take, since they end
 * in batches: of shorter ones noise alone would be seen.
 *
 * Arithmetic alone: the caller has the clock, and ticks each SHARE_TICK_NS while several volumes want something.
 */
#ifndef CLEAVE_MIDDLETIER_PORT_SHARE_WINDOW_H
#define CLEAVE_MIDDLETIER_PORT_SHARE_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/num.h"

#define SHARE_TICK_NS NUM_MS(50)
#define SHARE_WINDOW_MIN 16u /* requests: fewer are never held */
#define SHARE_PART_MIN 50u   /* percent: then as many wait as are under way */
#define SHARE_PART_MAX 100u  /* nobody waits */
#define SHARE_PART_FALL 10u  /* after a decision */
#define SHARE_PART_RISE                                                                            \
	5u /* less: noise looks as if more brought more, and somebody has asked for shares */
#define SHARE_PART_TRIED 30u   /* between higher and lower: what that brings is more than noise */
#define SHARE_PHASE_TICKS 8u   /* 400 ms */
#define SHARE_SETTLE_TICKS 2u  /* of these: of what is under way from before */
#define SHARE_WINDOW_ROUNDS 2u /* of a decision: 1.6 s */

struct share_window {
	uint32_t part;        /* percent of those that are here */
	uint32_t tick, round; /* ticks of this round: of both phases */
	uint64_t done_before; /* when the present tick began */
	uint64_t done_high,
	    done_low; /* in ticks that were counted; half of those before a decision */
};

/* mt_share_window_init -- nobody waits at first. */
void mt_share_window_init(struct share_window *window);
/* mt_share_window_tick -- another SHARE_TICK_NS have passed; @done: requests that have ended so far, ever. */
void mt_share_window_tick(struct share_window *window, uint64_t done);
/* mt_share_window_restart -- others have been here meanwhile: what was counted of this round is not compared. */
void mt_share_window_restart(struct share_window *window, uint64_t done);
/* mt_share_window_max -- how many of @count that are here may be under way now. */
uint32_t mt_share_window_max(const struct share_window *window, uint32_t count);

#endif /* CLEAVE_MIDDLETIER_PORT_SHARE_WINDOW_H */
