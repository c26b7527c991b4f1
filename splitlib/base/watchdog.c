/* SPDX-License-Identifier: Apache-2.0 */
/* watchdog.c -- see watchdog.h */
#include "base/watchdog.h"

#include <inttypes.h>

#include "base/check.h"
#include "base/log.h"
#include "base/notify.h"
#include "base/num.h"

#define WATCHDOG_PARTS 4u /* of the manager's patience, between two looks: one may be late */

/* On the other loop's thread. */
static void
other_on_post(struct loop_post *post, void *arg)
{
	struct watchdog_loop *other = arg;

	assert(post == &other->post);
	atomic_store_explicit(&other->has_turned, true, memory_order_release);
}

static void
other_ask(struct watchdog_loop *other)
{
	other->post = (struct loop_post){ .fn = other_on_post, .arg = other };
	atomic_store_explicit(&other->has_turned, false, memory_order_relaxed);
	loop_post(other->loop, &other->post);
}

/* The first loop that has not turned since it was asked; @watchdog->other_count: all have. */
static uint32_t
first_standing(const struct watchdog *watchdog)
{
	for (uint32_t i = 0; i < watchdog->other_count; i++) {
		if (!atomic_load_explicit(&watchdog->others[i].has_turned, memory_order_acquire))
			return i;
	}
	return watchdog->other_count;
}

static void
watchdog_on_timer(struct loop_timer *timer, void *arg)
{
	struct watchdog *watchdog = arg;
	uint64_t now_ns = loop_now_ns(watchdog->loop);
	uint32_t standing = first_standing(watchdog);

	assert(timer == &watchdog->timer);
	loop_timer_start(watchdog->loop, timer, watchdog->interval_ns);
	if (standing < watchdog->other_count) {
		/* Once may be a long turn. */
		if (!watchdog->is_late && now_ns - watchdog->fed_ns > 2 * watchdog->interval_ns) {
			watchdog->is_late = true;
			log_error("%s: a thread stands still, the watchdog is not fed port=%" PRIu32
				  " for_ms=%" PRIu64,
			    watchdog->noun, standing, (now_ns - watchdog->fed_ns) / NUM_MS(1));
		}
		return;
	}
	if (watchdog->is_late)
		log_warn("%s: the thread that stood still turns again after_ms=%" PRIu64,
		    watchdog->noun, (now_ns - watchdog->fed_ns) / NUM_MS(1));
	watchdog->is_late = false;
	watchdog->fed_ns = now_ns;
	(void)notify_alive(watchdog->noun); /* a failure was logged */
	for (uint32_t i = 0; i < watchdog->other_count; i++)
		other_ask(&watchdog->others[i]);
}

void
watchdog_start(struct watchdog *watchdog, struct loop *loop, const char *noun)
{
	uint64_t patience_ns = notify_watchdog_ns(noun);

	assert(loop != NULL);
	*watchdog = (struct watchdog){ .noun = noun };
	if (patience_ns == 0)
		return;
	watchdog->loop = loop;
	watchdog->interval_ns = num_max(patience_ns / WATCHDOG_PARTS, 1);
	watchdog->fed_ns = loop_now_ns(loop);
	loop_timer_init(&watchdog->timer, watchdog_on_timer, watchdog);
	loop_timer_start(loop, &watchdog->timer, 0);
}

void
watchdog_watch(struct watchdog *watchdog, struct loop *other)
{
	struct watchdog_loop *place;

	if (watchdog->loop == NULL)
		return;
	assert(other != watchdog->loop && watchdog->other_count < WATCHDOG_LOOPS_MAX);
	place = &watchdog->others[watchdog->other_count++];
	place->loop = other;
	other_ask(place);
}

void
watchdog_release(struct watchdog *watchdog)
{
	watchdog->other_count = 0;
	watchdog->is_late = false;
}

void
watchdog_stop(struct watchdog *watchdog)
{
	if (watchdog->loop != NULL)
		loop_timer_stop(watchdog->loop, &watchdog->timer);
	watchdog->loop = NULL;
}
