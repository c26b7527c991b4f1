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

#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "cleave/meta.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"

static void
users_on_told(struct mt_ask *ask, void *arg)
{
	struct mt_gateway *gateway = arg;

	(void)ask;
	gateway->users.is_untold = false;
	mt_watched_finish(&gateway->users.watched, 0);
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

	assert(users->watched.is_reading);
	if (rc == 0)
		rc = mt_user_table_read(items, count, &table, &bad);
	if (rc != 0) {
		mt_watched_finish(&users->watched, rc);
		return;
	}
	if (bad > 0)
		log_limited(LOG_ERROR,
		    "users: unreadable in the metadata store, or too many: these have no rights "
		    "count=%" PRIu32,
		    bad);
	if (users->watched.is_watching && users->is_loaded && users_differ(&users->table, &table))
		users->is_untold = true;
	mt_user_table_fini(&users->table);
	users->table = table;
	users->is_loaded = true;
	if (users->is_untold)
		rc = mt_ask_ports(gateway, MT_ASK_RIGHTS, NULL, users_on_told, gateway);
	if (!users->is_untold || rc != 0)
		mt_watched_finish(&gateway->users.watched, rc);
}

static const struct mt_watched_kind users_kind = {
	.prefix = MT_USER_PREFIX,
	.failed = "users: cannot be read, those of before count",
	.on_list = users_on_list,
};

void
mt_users_read(struct mt_gateway *gateway, struct mt_volumes_waiter *waiter)
{
	mt_watched_read(&gateway->users.watched, waiter);
}

void
mt_users_init(struct mt_gateway *gateway)
{
	mt_watched_init(&gateway->users.watched, gateway, &users_kind);
}

void
mt_users_fini(struct mt_gateway *gateway)
{
	mt_watched_fini(&gateway->users.watched);
	mt_user_table_fini(&gateway->users.table);
}

int
mt_users_watch(struct mt_gateway *gateway)
{
	return mt_watched_watch(&gateway->users.watched);
}

void
mt_users_unwatch(struct mt_gateway *gateway)
{
	mt_watched_unwatch(&gateway->users.watched);
}
