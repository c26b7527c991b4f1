/* SPDX-License-Identifier: Apache-2.0 */
/* watched.c -- see watched.h */
#include "cluster/watched.h"

#include <errno.h>

#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "catalog/volume.h"
#include "cluster/gateway_state.h"
#include "cluster/volume_refresh.h"

#define WATCHED_RETRY_NS NUM_MS(200)

static struct loop *
watched_loop(const struct mt_watched *watched)
{
	return watched->gateway->options.loop;
}

static void
watched_try(struct mt_watched *watched)
{
	struct meta *meta = watched->gateway->options.meta;
	int rc;

	if (watched->is_reading || (!watched->is_dirty && list_is_empty(&watched->waiters)))
		return;
	mt_waiters_move(&watched->waiters, &watched->readers);
	loop_timer_stop(watched_loop(watched), &watched->timer);
	watched->is_reading = true;
	watched->is_dirty = false;
	rc = meta->ops->list(meta, watched->kind->prefix, watched->kind->on_list, watched->gateway);
	if (rc != 0)
		mt_watched_finish(watched, rc);
}

static void
watched_on_timer(struct loop_timer *timer, void *arg)
{
	(void)timer;
	watched_try(arg);
}

static void
watched_on_watch(void *arg)
{
	mt_watched_again(arg);
}

static void
watched_tell_failure(struct mt_watched *watched, int rc)
{
	if (LOG_WARN >= log_level_get() && log_limit_pass(&watched->limit))
		log_line(LOG_WARN, "%s, asking again rc=%s", watched->kind->failed, log_errno(rc));
}

void
mt_watched_finish(struct mt_watched *watched, int rc)
{
	struct loop *loop = watched_loop(watched);
	struct loop_link readers;

	assert(watched->is_reading);
	watched->is_reading = false;
	list_init(&readers);
	mt_waiters_move(&watched->readers, &readers);
	if (watched->gateway->sm.state >= MT_GATEWAY_STOPPING) {
		loop_timer_stop(loop, &watched->timer);
	} else if (rc != 0 && watched->is_watching) {
		watched_tell_failure(watched, rc);
		watched->is_dirty = true;
		loop_timer_start(loop, &watched->timer,
		    WATCHED_RETRY_NS + loop_random_below(loop, WATCHED_RETRY_NS));
	} else if (watched->is_dirty || !list_is_empty(&watched->waiters)) {
		loop_timer_start(loop, &watched->timer, 0);
	}
	mt_waiters_answer(&readers, rc);
}

void
mt_watched_again(struct mt_watched *watched)
{
	watched->is_dirty = true;
	watched_try(watched);
}

void
mt_watched_read(struct mt_watched *watched, struct mt_volumes_waiter *waiter)
{
	assert(waiter->fn != NULL && !list_contains(&waiter->link));
	list_push_back(&watched->waiters, &waiter->link);
	watched_try(watched);
}

void
mt_watched_init(struct mt_watched *watched, struct mt_gateway *gateway,
    const struct mt_watched_kind *kind)
{
	*watched = (struct mt_watched){ .kind = kind, .gateway = gateway };
	list_init(&watched->waiters);
	list_init(&watched->readers);
	loop_timer_init(&watched->timer, watched_on_timer, watched);
}

void
mt_watched_fini(struct mt_watched *watched)
{
	mt_watched_unwatch(watched);
	mt_waiters_answer(&watched->readers, -ECANCELED);
	mt_waiters_answer(&watched->waiters, -ECANCELED);
}

int
mt_watched_watch(struct mt_watched *watched)
{
	struct meta *meta = watched->gateway->options.meta;
	int rc = meta->ops->watch(meta, watched->kind->prefix, watched_on_watch, watched);

	assert(!watched->is_watching);
	if (rc != 0)
		return rc;
	watched->is_watching = true;
	mt_watched_again(watched);
	return 0;
}

void
mt_watched_unwatch(struct mt_watched *watched)
{
	struct meta *meta = watched->gateway->options.meta;

	loop_timer_stop(watched_loop(watched), &watched->timer);
	if (!watched->is_watching)
		return;
	watched->is_watching = false;
	if (!watched->gateway->shared.is_killed)
		meta->ops->unwatch(meta, watched_on_watch, watched);
}
