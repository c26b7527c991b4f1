/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share_window.h -- how many requests of a port may be under way: as many as keep it busy, and no more
 *
 * What is under way cannot be chosen from. With few under way a request takes as long as its work does, its *base*; with
 * more it waits for others, too. A port that ends X a second has X times the base of them at work at once. With twice as
 * many each waits as long as it works, and the port is nearly busy; those beyond only wait for longer. So
 *
 *	max = SHARE_WINDOW_FACTOR * X * base
 *
 * Where requests do not disturb each other (disks that answer late, batches that grow) each takes its base, however many
 * there are: that is more than are under way, and nobody waits. Where they do, X stays as it is while the time of each
 * grows, and that is what X needs. It follows the port when that gets slower or faster, for both factors do.
 *
 * So small a window costs a little, and is not needed while each volume has something to choose from. So it is *wider*
 * by what does no harm: a little more with each tick in which somebody was held, a quarter less with each in which a
 * volume was *short*: it came with a request while others' were held and none of its own, and had had one a moment ago.
 * All that it wants was under way, it had no more than its share, and fewer of the others' would help it. Where such a
 * volume is owed of its minimum, the window gets *narrower* than max, too, by an eighth of it with each tick: a minimum is
 * kept, and what all volumes together lose by that is not.
 *
 * X is counted over about SHARE_SPEED_TICKS. The base is measured by a *probe*, each SHARE_PROBE_TICKS, or later:
 *
 *	OPEN --due_tick--> DRAINING --at most SHARE_WINDOW_MIN under way--> MEASURING --SHARE_PROBE_DONE ended--> OPEN
 *	max + wider        SHARE_WINDOW_MIN                                 SHARE_WINDOW_MIN
 *
 * A phase of a probe that has not ended after SHARE_PROBE_TICKS is given up. The longer a probe took, the later comes the
 * next: they cost a few percent. The base is the least of SHARE_BASES probes: what disturbs a port from outside is not
 * its work, and one of them was spared. X is what it is, disturbed or not.
 *
 * (BBR finds the window of a connection so. Trying whether a few more under way bring more to an end was here before: on
 * a machine that others use, too, what it looked for was less than the noise.)
 *
 * Arithmetic alone: the caller has the clock, and ticks each SHARE_TICK_NS while several volumes want something.
 */
#ifndef CLEAVE_MIDDLETIER_PORT_SHARE_WINDOW_H
#define CLEAVE_MIDDLETIER_PORT_SHARE_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/num.h"

#define SHARE_TICK_NS NUM_MS(10)
#define SHARE_WINDOW_MIN 8u         /* requests: fewer are never held */
#define SHARE_WINDOW_ALL UINT32_MAX /* nobody is held */
#define SHARE_WINDOW_FACTOR 2u
#define SHARE_WIDER_PARTS 64u /* a tick makes it wider by one */
#define SHARE_NARROW_PARTS 4u /* or less wide by one */
#define SHARE_OWED_PARTS 8u   /* or narrower by one */
#define SHARE_SPEED_TICKS 64u
#define SHARE_PROBE_TICKS 100u
#define SHARE_PROBE_APART 25u /* the next is no sooner than so many times what one took */
#define SHARE_PROBE_DONE (4u * SHARE_WINDOW_MIN)
#define SHARE_BASES 8u

enum share_phase { SHARE_OPEN, SHARE_DRAINING, SHARE_MEASURING };

/* A caller has seen so much. */
struct share_seen {
	uint64_t now_ns;
	uint64_t done; /* requests that have ended, ever */
	uint64_t
	    area_ns; /* and how long all of them were under way: grows by a second for each, a second */
	uint32_t under_way; /* now */
	uint32_t held;      /* could be under way, and wait for the window */
};

struct share_window {
	uint32_t max;      /* SHARE_WINDOW_ALL: the base is not known yet */
	uint32_t wider;    /* than max, by so many */
	uint32_t narrower; /* likewise; one of both is 0 */
	bool is_short;     /* somebody was, since the last tick */
	bool is_owed;      /* and was owed of its minimum */
	enum share_phase phase;
	uint32_t tick;                  /* of this phase */
	uint32_t due_tick;              /* of OPEN: a probe begins */
	uint32_t drained;               /* ticks that DRAINING took */
	struct share_seen before;       /* by the last tick */
	struct share_seen probed;       /* as measuring began */
	uint64_t bases_ns[SHARE_BASES]; /* of the newest probes, in a ring; 0: none yet */
	uint32_t next_base;
	uint64_t speed_done, speed_ns; /* what ended lately, and in what time */
};

/* mt_share_window_init -- nobody is held at first. */
void mt_share_window_init(struct share_window *window);
/*
 * mt_share_window_restart -- the first of the ticks that follow is SHARE_TICK_NS after @seen
 *
 * What has been learnt stays, a probe that was under way is given up, and another follows at once.
 */
void mt_share_window_restart(struct share_window *window, const struct share_seen *seen);
/* mt_share_window_tick -- another SHARE_TICK_NS have passed, or more. */
void mt_share_window_tick(struct share_window *window, const struct share_seen *seen);
/* mt_share_window_max -- how many may be under way now. */
uint32_t mt_share_window_max(const struct share_window *window);
/* mt_share_window_moment_ns -- a volume that comes again so soon has been waiting for its own requests */
uint64_t mt_share_window_moment_ns(const struct share_window *window);
/* mt_share_window_short -- a volume is short, and @is_owed of its minimum: see above. */
void mt_share_window_short(struct share_window *window, bool is_owed);

#endif /* CLEAVE_MIDDLETIER_PORT_SHARE_WINDOW_H */
