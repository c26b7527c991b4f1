/* SPDX-License-Identifier: Apache-2.0 */
/* share_window.c -- see share_window.h */
#include "port/share_window.h"

#include "base/check.h"

void
mt_share_window_init(struct share_window *window)
{
	*window = (struct share_window){ .max = SHARE_WINDOW_ALL };
}

static void
window_enter(struct share_window *window, enum share_phase phase)
{
	window->phase = phase;
	window->tick = 0;
}

void
mt_share_window_restart(struct share_window *window, const struct share_seen *seen)
{
	window_enter(window, SHARE_OPEN);
	window->before = *seen;
	window->due_tick = 0;
}

/* Few requests say what clients want, not what the port can do. */
static bool
window_is_tried(const struct share_seen *seen)
{
	return (uint64_t)seen->under_way + seen->held > SHARE_WINDOW_MIN;
}

static void
window_count_speed(struct share_window *window, const struct share_seen *seen)
{
	uint64_t kept = SHARE_SPEED_TICKS - 1;

	assert(seen->done >= window->before.done && seen->now_ns >= window->before.now_ns);
	window->speed_done = window->speed_done * kept / SHARE_SPEED_TICKS + seen->done -
	    window->before.done;
	window->speed_ns = window->speed_ns * kept / SHARE_SPEED_TICKS + seen->now_ns -
	    window->before.now_ns;
}

static void
window_count_base(struct share_window *window, const struct share_seen *seen)
{
	uint64_t area_ns = seen->area_ns - window->probed.area_ns;

	assert(seen->area_ns >= window->probed.area_ns && seen->done > window->probed.done);
	window->bases_ns[window->next_base] =
	    num_max(1, area_ns / (seen->done - window->probed.done));
	window->next_base = (window->next_base + 1) % SHARE_BASES;
}

static uint64_t
window_base_ns(const struct share_window *window)
{
	uint64_t base_ns = UINT64_MAX;

	for (uint32_t i = 0; i < SHARE_BASES; i++) {
		if (window->bases_ns[i] != 0)
			base_ns = num_min(base_ns, window->bases_ns[i]);
	}
	return base_ns;
}

/* Nanoseconds fit: a base is no more than a probe may take, for each that was under way in it. */
static void
window_decide(struct share_window *window)
{
	uint64_t base_ns = window_base_ns(window), max;

	if (base_ns == UINT64_MAX || window->speed_done == 0)
		return;
	max = SHARE_WINDOW_FACTOR * window->speed_done * base_ns / window->speed_ns;
	window->max = (uint32_t)num_min(num_max(max, SHARE_WINDOW_MIN), SHARE_WINDOW_ALL);
}

static void
window_widen(struct share_window *window, const struct share_seen *seen)
{
	uint64_t all = (uint64_t)seen->under_way + seen->held;

	if (window->is_owed && window->wider == 0)
		window->narrower += 1 + window->max / SHARE_OWED_PARTS;
	else if (window->is_short)
		window->wider -= (window->wider + SHARE_NARROW_PARTS - 1) / SHARE_NARROW_PARTS;
	else if (seen->held > 0 && window->narrower > 0)
		window->narrower--;
	else if (seen->held > 0)
		window->wider += 1 + (uint32_t)all / SHARE_WIDER_PARTS;
	window->wider = (uint32_t)num_min(window->wider, all);
	window->narrower = (uint32_t)num_min(window->narrower, window->max - SHARE_WINDOW_MIN);
	window->is_short = window->is_owed = false;
}

/* OPEN again: a probe has ended, or was given up. */
static void
window_end_probe(struct share_window *window)
{
	uint32_t took = window->drained + window->tick;

	window->due_tick = (uint32_t)num_max(SHARE_PROBE_TICKS, SHARE_PROBE_APART * took);
	window_enter(window, SHARE_OPEN);
}

static void
window_tick_probe(struct share_window *window, const struct share_seen *seen)
{
	bool is_late = window->tick >= SHARE_PROBE_TICKS;

	assert(window->phase != SHARE_OPEN);
	if (window->phase == SHARE_DRAINING) {
		window->drained = window->tick;
		if (seen->under_way <= SHARE_WINDOW_MIN) {
			window->probed = *seen;
			window_enter(window, SHARE_MEASURING);
		} else if (is_late) {
			window_end_probe(window);
		}
		return;
	}
	if (seen->done - window->probed.done >= SHARE_PROBE_DONE)
		window_count_base(window, seen);
	else if (!is_late)
		return;
	window_end_probe(window);
}

static void
window_tick_open(struct share_window *window, const struct share_seen *seen)
{
	if (!window_is_tried(seen))
		return;
	/* The first tick has what the probe had held. */
	if (window->tick > 1) {
		window_count_speed(window, seen);
		window_widen(window, seen);
	}
	if (window->tick >= window->due_tick)
		window_enter(window, SHARE_DRAINING);
}

void
mt_share_window_tick(struct share_window *window, const struct share_seen *seen)
{
	window->tick++;
	if (window->phase == SHARE_OPEN)
		window_tick_open(window, seen);
	else
		window_tick_probe(window, seen);
	window_decide(window);
	window->before = *seen;
}

uint32_t
mt_share_window_max(const struct share_window *window)
{
	if (window->phase != SHARE_OPEN)
		return SHARE_WINDOW_MIN;
	if (window->max == SHARE_WINDOW_ALL)
		return SHARE_WINDOW_ALL;
	return (uint32_t)num_max(SHARE_WINDOW_MIN,
	    num_min((uint64_t)window->max + window->wider, SHARE_WINDOW_ALL) - window->narrower);
}

/* Twice as long as requests take while the window is full, and until a client has seen that. */
uint64_t
mt_share_window_moment_ns(const struct share_window *window)
{
	uint64_t count = (uint64_t)window->max + window->wider;

	if (window->max == SHARE_WINDOW_ALL || window->speed_done == 0)
		return 0;
	return num_min(2 * count * window->speed_ns / window->speed_done, NUM_S(1)) + SHARE_TICK_NS;
}

void
mt_share_window_short(struct share_window *window, bool is_owed)
{
	window->is_short = window->phase == SHARE_OPEN;
	window->is_owed = window->is_owed || (is_owed && window->is_short);
}
