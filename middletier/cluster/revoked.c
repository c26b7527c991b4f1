/* SPDX-License-Identifier: Apache-2.0 */
/*
 * revoked.c -- this gateway's key, and the lists of revoked ones as the store has them
 *
 *	watch "revoked" --> read --> signed by an authority of our file, newer? --> another key --> every port:
 *	                                                                    split_port_rekey: connections end
 *	SIGHUP: a renewed file, with the lists of before ------------------------^   link_revoked: the nodes are told
 *
 * The store is believed in nothing here: what is no list, or is of another authority, is a line in the log and a reason of
 * the health (revoked-refused) until it is another, and what was known before counts, beside a newer list that lacks it, too. So whoever can write the store can hold a list back, and
 * cannot take one away from a gateway that has it.
 */
#include "cluster/revoked.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "cleave/meta.h"
#include "cleave/secure.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "common/event.h"

static void
revoked_finish(struct mt_gateway *gateway, int rc)
{
	if (rc == 0)
		gateway->revoked.is_loaded = true;
	mt_watched_finish(&gateway->revoked.watched, rc);
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

static void
revoked_tell(struct mt_gateway *gateway, const struct split_key *next)
{
	struct split_revoked_gaps gaps;
	char lacks[SPLIT_REVOKED_SERIALS_BYTES_MAX + 160] = "";

	split_key_revoked_gaps(next, &gaps);
	if (gaps.lacked_count > 0)
		(void)snprintf(lacks, sizeof(lacks),
		    ": it lacks %" PRIu32 " revoked before, which stay so, but %" PRIu32
		    " that there is no room for serials=\"%s\"",
		    gaps.lacked_count, gaps.lost_count, gaps.serials);
	mt_event(gateway->shared.events, loop_now_ns(gateway->options.loop),
	    CLEAVE_EVENT_KEYS_REVOKED, "gateway", "audit: a list of revoked keys has come%s",
	    lacks);
}

/* @why: "": what the store has is taken. */
static void
revoked_note(struct mt_gateway *gateway, const char *why)
{
	struct mt_revoked *revoked = &gateway->revoked;

	if (revoked->refused[0] == '\0')
		revoked->refused_ns = loop_now_ns(gateway->options.loop);
	(void)snprintf(revoked->refused, sizeof(revoked->refused), "%s", why);
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
	revoked_note(gateway, next == NULL && errno == EALREADY ? "" : why);
	if (next == NULL && errno != EALREADY)
		log_limited(LOG_ERROR, "revoked: the metadata store's lists are not taken: %s",
		    why);
	else if (why[0] != '\0' && next != NULL)
		log_limited(LOG_WARN,
		    "revoked: not all of the metadata store's lists are taken: %s", why);
	if (next == NULL)
		return 0;
	revoked_tell(gateway, next);
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

	if (item == NULL)
		revoked_note(gateway, "");
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

	assert(revoked->watched.is_reading);
	for (uint32_t i = 0; rc == 0 && i < count; i++) {
		if (strcmp(items[i].key, MT_REVOKED_KEY) == 0)
			found = &items[i];
	}
	if (rc == 0)
		rc = revoked_take(gateway, found);
	if (rc == 0 && revoked->is_untold)
		rc = mt_ask_key(gateway, MT_ASK_KEY, revoked->key, revoked_on_told, gateway);
	if (rc != 0 || !revoked->is_untold)
		revoked_finish(gateway, rc);
}

static const struct mt_watched_kind revoked_kind = {
	.prefix = MT_REVOKED_KEY,
	.failed = "revoked: cannot be read, the lists of before count",
	.on_list = revoked_on_list,
};

bool
mt_revoked_is_ready(const struct mt_gateway *gateway)
{
	return gateway->revoked.key == NULL || gateway->revoked.is_loaded;
}

void
mt_revoked_read(struct mt_gateway *gateway, struct mt_volumes_waiter *waiter)
{
	assert(gateway->revoked.key != NULL);
	mt_watched_read(&gateway->revoked.watched, waiter);
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
	if (mt_ask_key(gateway, MT_ASK_KEY, key, revoked_on_rekeyed, gateway) != 0)
		log_error("gateway: out of memory: its ports get the renewed key in a moment");
	mt_watched_again(&revoked->watched);
}

void
mt_revoked_init(struct mt_gateway *gateway, const struct split_key *key)
{
	struct mt_revoked *revoked = &gateway->revoked;

	revoked->key = key == NULL ? NULL : split_key_share(key);
	mt_watched_init(&revoked->watched, gateway, &revoked_kind);
}

void
mt_revoked_fini(struct mt_gateway *gateway)
{
	struct mt_revoked *revoked = &gateway->revoked;

	mt_watched_fini(&revoked->watched);
	split_key_free(revoked->key);
	revoked->key = NULL;
}

int
mt_revoked_watch(struct mt_gateway *gateway)
{
	assert(gateway->revoked.key != NULL);
	return mt_watched_watch(&gateway->revoked.watched);
}

void
mt_revoked_unwatch(struct mt_gateway *gateway)
{
	mt_watched_unwatch(&gateway->revoked.watched);
}
