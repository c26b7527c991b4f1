/* SPDX-License-Identifier: Apache-2.0 */
/*
 * revoked.c -- this gateway's key, and the lists of revoked ones as the store has them
 *
 *	watch "revoked" --> read --> signed by an authority of our file, newer? --> another key --> every port:
 *	                                                                    split_port_rekey: connections end
 *	SIGHUP: a renewed file, with the lists of before ------------------------^   link_revoked: the nodes are told
 *
 * The store is believed in nothing here: what is no list, or is of another authority, is a line in the log, and what was
 * known before counts. So whoever can write the store can hold a list back, and cannot take one away from a gateway
 * that has it.
 */
#include "cluster/revoked.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/num.h"
#include "cleave/meta.h"
#include "cleave/secure.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "cluster/volume_refresh.h"
#include "common/event.h"

#define REVOKED_RETRY_NS NUM_MS(200)

static void revoked_try(struct mt_gateway *gateway);

/* The last act. */
static void
revoked_finish(struct mt_gateway *gateway, int rc)
{
	struct mt_revoked *revoked = &gateway->revoked;
	struct loop *loop = gateway->options.loop;
	struct loop_link readers;

	assert(revoked->is_reading);
	revoked->is_reading = false;
	if (rc == 0)
		revoked->is_loaded = true;
	list_init(&readers);
	mt_waiters_move(&revoked->readers, &readers);
	if (gateway->sm.state >= MT_GATEWAY_STOPPING) {
		loop_timer_stop(loop, &revoked->timer);
	} else if (rc != 0 && revoked->is_watching) {
		log_limited(LOG_WARN,
		    "revoked: cannot be read, the lists of before count, asking again rc=%s",
		    log_errno(rc));
		revoked->is_dirty = true;
		loop_timer_start(loop, &revoked->timer,
		    REVOKED_RETRY_NS + loop_random_below(loop, REVOKED_RETRY_NS));
	} else if (revoked->is_dirty || !list_is_empty(&revoked->waiters)) {
		loop_timer_start(loop, &revoked->timer, 0);
	}
	mt_waiters_answer(&readers, rc);
}

static void
revoked_on_told(struct mt_ask *ask, void *arg)
{
	struct mt_gateway *gateway = arg;

	/* SIGHUP may have brought another one meanwhile: that is told by itself, and once more with the next reading. */
	gateway->revoked.is_untold = ask->key != gateway->revoked.key;
	revoked_finish(gateway, 0);
}

static void
revoked_on_rekeyed(struct mt_ask *ask, void *arg)
{
	(void)ask;
	(void)arg;
}

static void
revoked_set_key(struct mt_gateway *gateway, struct split_key *key)
{
	split_key_free(gateway->revoked.key);
	gateway->revoked.key = key;
	gateway->options.key = key;
	gateway->revoked.is_untold = true;
	if (split_key_is_revoked(key))
		log_error("gateway: its own key was revoked, and who knows refuses it: cleave key "
			  "issue, then reload");
}

/* 0; -ENOMEM. */
static int
revoked_take_item(struct mt_gateway *gateway, const struct meta_item *item)
{
	struct mt_revoked *revoked = &gateway->revoked;
	char why[SPLIT_KEY_WHY_BYTES_MAX];
	struct split_key *next;

	next = split_key_revoke(revoked->key, item->value, item->value_bytes, why);
	if (next == NULL && errno == ENOMEM)
		return -ENOMEM;
	if (next == NULL && errno != EALREADY)
		log_limited(LOG_ERROR, "revoked: the metadata store's lists are not taken: %s",
		    why);
	else if (why[0] != '\0' && next != NULL)
		log_limited(LOG_WARN,
		    "revoked: not all of the metadata store's lists are taken: %s", why);
	if (next == NULL)
		return 0;
	mt_event(gateway->shared.events, loop_now_ns(gateway->options.loop),
	    CLEAVE_EVENT_KEYS_REVOKED, "gateway", "audit: a list of revoked keys has come");
	revoked_set_key(gateway, next);
	return 0;
}

/* The store's lists; @item NULL: there are none. A store that was put back may have less than we know. 0; -ENOMEM. */
static int
revoked_take(struct mt_gateway *gateway, const struct meta_item *item)
{
	struct mt_revoked *revoked = &gateway->revoked;
	int rc = item == NULL ? 0 : revoked_take_item(gateway, item);
	const char *lists;
	size_t bytes;

	lists = split_key_revoked(revoked->key, &bytes);
	revoked->version = item == NULL ? 0 : item->version;
	revoked->is_stored = item == NULL
	    ? bytes == 0
	    : item->value_bytes == bytes && memcmp(item->value, lists, bytes) == 0;
	return rc;
}

static void
revoked_on_list(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct mt_gateway *gateway = arg;
	struct mt_revoked *revoked = &gateway->revoked;
	const struct meta_item *found = NULL;

	assert(revoked->is_reading);
	for (uint32_t i = 0; rc == 0 && i < count; i++) {
		if (strcmp(items[i].key, MT_REVOKED_KEY) == 0)
			found = &items[i];
	}
	if (rc == 0)
		rc = revoked_take(gateway, found);
	if (rc == 0 && revoked->is_untold)
		rc = mt_ask_key(gateway, revoked->key, revoked_on_told, gateway);
	if (rc != 0 || !revoked->is_untold)
		revoked_finish(gateway, rc);
}

static void
revoked_try(struct mt_gateway *gateway)
{
	struct mt_revoked *revoked = &gateway->revoked;
	struct meta *meta = gateway->options.meta;
	int rc;

	if (revoked->is_reading || (!revoked->is_dirty && list_is_empty(&revoked->waiters)))
		return;
	mt_waiters_move(&revoked->waiters, &revoked->readers);
	loop_timer_stop(gateway->options.loop, &revoked->timer);
	revoked->is_reading = true;
	revoked->is_dirty = false;
	rc = meta->ops->list(meta, MT_REVOKED_KEY, revoked_on_list, gateway);
	if (rc != 0)
		revoked_finish(gateway, rc);
}

static void
revoked_on_timer(struct loop_timer *timer, void *arg)
{
	(void)timer;
	revoked_try(arg);
}

static void
revoked_on_watch(void *arg)
{
	struct mt_gateway *gateway = arg;

	gateway->revoked.is_dirty = true;
	revoked_try(gateway);
}

bool
mt_revoked_is_ready(const struct mt_gateway *gateway)
{
	return gateway->revoked.key == NULL || gateway->revoked.is_loaded;
}

void
mt_revoked_read(struct mt_gateway *gateway, struct mt_volumes_waiter *waiter)
{
	assert(gateway->revoked.key != NULL);
	assert(waiter->fn != NULL && !list_contains(&waiter->link));
	list_push_back(&gateway->revoked.waiters, &waiter->link);
	revoked_try(gateway);
}

/* The ports are told at once, whether the store answers or not; a new authority's list may be there to be read, too. */
void
mt_revoked_rekey(struct mt_gateway *gateway, const struct split_key *key)
{
	struct mt_revoked *revoked = &gateway->revoked;

	assert(revoked->key != NULL);
	if (gateway->sm.state >= MT_GATEWAY_STOPPING)
		return;
	revoked_set_key(gateway, split_key_share(key));
	if (mt_ask_key(gateway, key, revoked_on_rekeyed, gateway) != 0)
		log_error("gateway: out of memory: its ports get the renewed key in a moment");
	revoked->is_dirty = true;
	revoked_try(gateway);
}

void
mt_revoked_init(struct mt_gateway *gateway, const struct split_key *key)
{
	struct mt_revoked *revoked = &gateway->revoked;

	revoked->key = key == NULL ? NULL : split_key_share(key);
	list_init(&revoked->waiters);
	list_init(&revoked->readers);
	loop_timer_init(&revoked->timer, revoked_on_timer, gateway);
}

void
mt_revoked_fini(struct mt_gateway *gateway)
{
	struct mt_revoked *revoked = &gateway->revoked;

	mt_revoked_unwatch(gateway);
	mt_waiters_answer(&revoked->readers, -ECANCELED);
	mt_waiters_answer(&revoked->waiters, -ECANCELED);
	split_key_free(revoked->key);
	revoked->key = NULL;
}

int
mt_revoked_watch(struct mt_gateway *gateway)
{
	struct mt_revoked *revoked = &gateway->revoked;
	struct meta *meta = gateway->options.meta;
	int rc = meta->ops->watch(meta, MT_REVOKED_KEY, revoked_on_watch, gateway);

	assert(!revoked->is_watching && revoked->key != NULL);
	if (rc != 0)
		return rc;
	revoked->is_watching = true;
	revoked->is_dirty = true;
	revoked_try(gateway);
	return 0;
}

void
mt_revoked_unwatch(struct mt_gateway *gateway)
{
	struct mt_revoked *revoked = &gateway->revoked;
	struct meta *meta = gateway->options.meta;

	loop_timer_stop(gateway->options.loop, &revoked->timer);
	if (!revoked->is_watching)
		return;
	revoked->is_watching = false;
	if (!gateway->shared.is_killed)
		meta->ops->unwatch(meta, revoked_on_watch, gateway);
}
