/* SPDX-License-Identifier: Apache-2.0 */
/*
 * users.c -- what clients may do, as the store has it: the keys "users/"
 *
 *	watch "users/", a change of ours --> list "users/" --> table --> changed: every port asks anew for its sessions
 *	        ^                               |
 *	        '-- 200 to 400 ms --------------'  the store did not answer: the rights of before stay
 *
 * A gateway whose ports have no key asks nobody for a right: it reads users for those who change them alone, and
 * watches nothing.
 *
 * Ports hold no rights. A session's is asked for when it comes (volume_refresh.c), and again after a change; a control
 * request's each time it is run.
 */
#include "cluster/users.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/num.h"
#include "cleave/meta.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "cluster/volume_refresh.h"

#define USERS_RETRY_NS NUM_MS(200)

static void users_try(struct mt_gateway *gateway);

/* The last act. */
static void
users_finish(struct mt_gateway *gateway, int rc)
{
	struct mt_users *users = &gateway->users;
	struct loop *loop = gateway->options.loop;
	struct loop_link readers;

	assert(users->is_reading);
	users->is_reading = false;
	list_init(&readers);
	mt_waiters_move(&users->readers, &readers);
	if (gateway->sm.state >= MT_GATEWAY_STOPPING) {
		loop_timer_stop(loop, &users->timer);
	} else if (rc != 0 && users->is_watching) {
		log_limited(LOG_WARN,
		    "users: cannot be read, those of before count, asking again rc=%s",
		    log_errno(rc));
		users->is_dirty = true;
		loop_timer_start(loop, &users->timer,
		    USERS_RETRY_NS + loop_random_below(loop, USERS_RETRY_NS));
	} else if (users->is_dirty || !list_is_empty(&users->waiters)) {
		loop_timer_start(loop, &users->timer, 0);
	}
	mt_waiters_answer(&readers, rc);
}

static void
users_on_told(struct mt_ask *ask, void *arg)
{
	struct mt_gateway *gateway = arg;

	(void)ask;
	gateway->users.is_untold = false;
	users_finish(gateway, 0);
}

/* Both are sorted by name. */
static bool
users_differ(const struct mt_user_table *old, const struct mt_user_table *new)
{
	if (old->count != new->count)
		return true;
	for (uint32_t i = 0; i < old->count; i++) {
		if (old->entries[i].version != new->entries[i].version ||
		    strcmp(old->entries[i].name, new->entries[i].name) != 0)
			return true;
	}
	return false;
}

static void
users_on_list(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct mt_gateway *gateway = arg;
	struct mt_users *users = &gateway->users;
	struct mt_user_table table = { 0 };
	uint32_t bad = 0;

	assert(users->is_reading);
	if (rc == 0)
		rc = mt_user_table_read(items, count, &table, &bad);
	if (rc != 0) {
		users_finish(gateway, rc);
		return;
	}
	if (bad > 0)
		log_limited(LOG_ERROR,
		    "users: unreadable in the metadata store, or too many: these have no rights "
		    "count=%" PRIu32,
		    bad);
	if (users->is_watching && users->is_loaded && users_differ(&users->table, &table))
		users->is_untold = true;
	mt_user_table_fini(&users->table);
	users->table = table;
	users->is_loaded = true;
	if (users->is_untold)
		rc = mt_ask_ports(gateway, MT_ASK_RIGHTS, NULL, users_on_told, gateway);
	if (!users->is_untold || rc != 0)
		users_finish(gateway, rc);
}

static void
users_try(struct mt_gateway *gateway)
{
	struct mt_users *users = &gateway->users;
	struct meta *meta = gateway->options.meta;
	int rc;

	if (users->is_reading || (!users->is_dirty && list_is_empty(&users->waiters)))
		return;
	mt_waiters_move(&users->waiters, &users->readers);
	loop_timer_stop(gateway->options.loop, &users->timer);
	users->is_reading = true;
	users->is_dirty = false;
	rc = meta->ops->list(meta, MT_USER_PREFIX, users_on_list, gateway);
	if (rc != 0)
		users_finish(gateway, rc);
}

static void
users_on_timer(struct loop_timer *timer, void *arg)
{
	(void)timer;
	users_try(arg);
}

static void
users_on_watch(void *arg)
{
	struct mt_gateway *gateway = arg;

	gateway->users.is_dirty = true;
	users_try(gateway);
}

void
mt_users_read(struct mt_gateway *gateway, struct mt_volumes_waiter *waiter)
{
	assert(waiter->fn != NULL && !list_contains(&waiter->link));
	list_push_back(&gateway->users.waiters, &waiter->link);
	users_try(gateway);
}

void
mt_users_init(struct mt_gateway *gateway)
{
	struct mt_users *users = &gateway->users;

	list_init(&users->waiters);
	list_init(&users->readers);
	loop_timer_init(&users->timer, users_on_timer, gateway);
}

void
mt_users_fini(struct mt_gateway *gateway)
{
	struct mt_users *users = &gateway->users;

	mt_users_unwatch(gateway);
	mt_waiters_answer(&users->readers, -ECANCELED);
	mt_waiters_answer(&users->waiters, -ECANCELED);
	mt_user_table_fini(&users->table);
}

int
mt_users_watch(struct mt_gateway *gateway)
{
	struct mt_users *users = &gateway->users;
	struct meta *meta = gateway->options.meta;
	int rc = meta->ops->watch(meta, MT_USER_PREFIX, users_on_watch, gateway);

	assert(!users->is_watching);
	if (rc != 0)
		return rc;
	users->is_watching = true;
	users->is_dirty = true;
	users_try(gateway);
	return 0;
}

void
mt_users_unwatch(struct mt_gateway *gateway)
{
	struct mt_users *users = &gateway->users;
	struct meta *meta = gateway->options.meta;

	loop_timer_stop(gateway->options.loop, &users->timer);
	if (!users->is_watching)
		return;
	users->is_watching = false;
	if (!gateway->shared.is_killed)
		meta->ops->unwatch(meta, users_on_watch, gateway);
}
