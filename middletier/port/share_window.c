/* SPDX-License-Identifier: Apache-2.0 */
/* share_window.c -- see share_window.h */
#include "port/share_window.h"

#include "base/check.h"

void
mt_share_window_init(struct share_window *window)
{
	*window = (struct share_window){ .part = SHARE_PART_MAX };
}

void
mt_share_window_restart(struct share_window *window, uint64_t done)
{
	*window = (struct share_window){ .part = window->part, .done_before = done };
}

static uint32_t
window_high(const struct share_window *window)
{
	return (uint32_t)num_min(window->part + SHARE_PART_TRIED / 2, SHARE_PART_MAX);
}

static uint32_t
window_low(const struct share_window *window)
{
	return window->part - SHARE_PART_TRIED / 2;
}

/* Where what ends grew by less than 3/4 of what was under way, the port has all that it can do. */
static void
window_decide(struct share_window *window)
{
	uint64_t more = window->done_high > window->done_low ? window->done_high - window->done_low
							     : 0;
	uint64_t tried = window_high(window) - window_low(window);
	bool is_busy = 4 * more * window_high(window) < 3 * window->done_high * tried;

	if (is_busy)
		window->part = (uint32_t)num_max(window->part - SHARE_PART_FALL, SHARE_PART_MIN);
	else
		window->part = (uint32_t)num_min(window->part + SHARE_PART_RISE, SHARE_PART_MAX);
	/* Half of it stays: a single decision is as much noise as news. */
	window->done_high /= 2;
	window->done_low /= 2;
	window->round = 0;
}

void
mt_share_window_tick(struct share_window *window, uint64_t done)
{
	uint64_t count = done - window->done_before;

	assert(done >= window->done_before && window->tick < 2 * SHARE_PHASE_TICKS);
	if (window->tick % SHARE_PHASE_TICKS >= SHARE_SETTLE_TICKS) {
		if (window->tick < SHARE_PHASE_TICKS)
			window->done_high += count;
		else
			window->done_low += count;
	}
	window->done_before = done;
	window->tick = (window->tick + 1) % (2 * SHARE_PHASE_TICKS);
	if (window->tick == 0 && ++window->round == SHARE_WINDOW_ROUNDS)
		window_decide(window);
}

uint32_t
mt_share_window_max(const struct share_window *window, uint32_t count)
{
	uint64_t part = window->tick >= SHARE_PHASE_TICKS ? window_low(window)
							  : window_high(window);

	return (uint32_t)num_max(SHARE_WINDOW_MIN, (count * part + 99) / 100);
}
