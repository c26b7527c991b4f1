/* SPDX-License-Identifier: Apache-2.0 */
/*
 * member.c -- our own key "gateways/ID" under a lease: got, kept, lost, got again
 *
 *	OUT --> GRANTING --> REGISTERING --> UP --> LEAVING --> LEFT
 *	 ^         |              |          |
 *	 +---------+--------------+----------+   no answer, the lease is gone, its time is over
 *
 *	key = {"format":1,"boot_id":"0123456789abcdef","ports":["tcp://10.0.0.1:7100", ...],"levels":[1,2]}
 *
 * The store counts a lease from when a renewal arrives, we from when it was sent, and an eighth less,
 * which is more than two clocks drift apart in that time (I7): so nobody sees our key go before we
 * have stopped. When our time ends without an answer every shard stops, whatever the store thinks. The time that
 * the host was suspended for counts: our timers ring late then, and the ports, which ask the clock, answer nothing.
 *
 * A store that does not answer costs nothing until then. A key of ours with another boot id is that of
 * a process before us, whose last words arrived late: it is written again.
 */
#include "cluster/member.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mutant.h"
#include "base/num.h"
#include "base/reader.h"
#include "base/sm.h"
#include "catalog/json.h"
#include "cleave/level.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cluster/gateway_state.h"
#include "cluster/member_view.h"
#include "common/event.h"
#include "common/lease.h"
#include "common/port.h"

#define MEMBER_FORMAT 1u
#define MEMBER_DRIFT_PART 8u
#define MEMBER_RENEW_PART 3u
#define MEMBER_RETRY_PART 12u
#define MEMBER_RETRY_MIN_NS NUM_MS(50)
#define MEMBER_LEAVE_NS NUM_MS(1000)

static const struct sm_state member_table[MT_MEMBER_STATE_NR] = {
	[MT_MEMBER_OUT] = { "out", SM_TO(MT_MEMBER_GRANTING) | SM_TO(MT_MEMBER_LEFT), SM_INITIAL },
	[MT_MEMBER_GRANTING] = { "granting",
	    SM_TO(MT_MEMBER_REGISTERING) | SM_TO(MT_MEMBER_OUT) | SM_TO(MT_MEMBER_LEFT), 0 },
	[MT_MEMBER_REGISTERING] = { "registering",
	    SM_TO(MT_MEMBER_UP) | SM_TO(MT_MEMBER_OUT) | SM_TO(MT_MEMBER_LEAVING), 0 },
	[MT_MEMBER_UP] = { "up", SM_TO(MT_MEMBER_OUT) | SM_TO(MT_MEMBER_LEAVING), 0 },
	[MT_MEMBER_LEAVING] = { "leaving", SM_TO(MT_MEMBER_LEFT), 0 },
	[MT_MEMBER_LEFT] = { "left", 0, SM_FINAL },
};

static void member_grant(struct mt_member *member);
static void member_register(struct mt_member *member);
static void member_renew(struct mt_member *member);
static void member_left(struct mt_member *member);

static struct loop *
member_loop(const struct mt_member *member)
{
	return member->gateway->options.loop;
}

static struct meta *
member_meta(const struct mt_member *member)
{
	return member->gateway->options.meta;
}

/* The key. */

void
mt_member_key(char out[MT_MEMBER_KEY_BYTES], uint64_t gateway_id)
{
	(void)snprintf(out, MT_MEMBER_KEY_BYTES, "gateways/%" PRIu64, gateway_id);
}

uint32_t
mt_member_level_max(const struct mt_gateway *gateway)
{
	return wire_level_answer(CLEAVE_LEVEL_MAX, gateway->settings.level_max);
}

char *
mt_member_encode(const struct mt_gateway *gateway)
{
	json_t *ports = json_array(), *object;
	char boot[17];
	char *text;

	assert(gateway->port_count > 0 && gateway->port_count <= MT_PORTS_MAX);
	(void)snprintf(boot, sizeof(boot), "%016" PRIx64, gateway->options.boot_id);
	for (uint32_t i = 0; i < gateway->port_count; i++)
		json_array_append_new(ports, json_string(gateway->ports[i].address));
	object = json_pack("{s:i, s:s, s:o, s:[i, i]}", "format", (int)MEMBER_FORMAT, "boot_id",
	    boot, "ports", ports, "levels", (int)CLEAVE_LEVEL_MIN,
	    (int)mt_member_level_max(gateway));
	text = object == NULL ? NULL : json_dumps(object, JSON_COMPACT);
	json_decref(object);
	return text;
}

/* Releases of level 1 do not say which they speak. */
static void
member_read_levels(struct reader *reader, const json_t *object, struct mt_member_peer *peer)
{
	const json_t *levels = json_object_get(object, "levels");

	peer->level_min = peer->level_max = CLEAVE_LEVEL_MIN;
	if (levels == NULL)
		return;
	peer->level_min =
	    (uint32_t)reader_number(reader, json_array_get(levels, 0), "levels", 1, UINT8_MAX);
	peer->level_max = (uint32_t)reader_number(reader, json_array_get(levels, 1), "levels",
	    num_max(peer->level_min, 1), UINT8_MAX);
}

static void
member_read(struct reader *reader, const json_t *object, struct mt_member_peer *peer)
{
	const json_t *ports;

	(void)reader_range(reader, object, "format", MEMBER_FORMAT, MEMBER_FORMAT);
	peer->boot_id = reader_id(reader, object, "boot_id");
	ports = reader_array(reader, object, "ports", 1, MT_PORTS_MAX);
	peer->port_count = (uint32_t)json_array_size(ports);
	for (uint32_t i = 0; i < peer->port_count; i++)
		reader_copy(reader, json_array_get(ports, i), "ports", peer->ports[i],
		    sizeof(peer->ports[i]));
	member_read_levels(reader, object, peer);
}

int
mt_member_decode(const void *value, uint32_t bytes, struct mt_member_peer *ret_peer,
    const char **ret_field)
{
	struct reader reader = { 0 };
	json_t *object = reader_load(&reader, value, bytes);

	if (object != NULL)
		member_read(&reader, object, ret_peer);
	json_decref(object);
	*ret_field = reader.field;
	return reader_rc(&reader);
}

/* The lease's time. */

/* The end of the lease is read by ports' threads, too. */
static void
member_set_until(struct mt_member *member, uint64_t until_ns)
{
	assert(member->gateway != NULL);
	assert(until_ns == 0 || member->sm.state == MT_MEMBER_UP);
	member->until_ns = until_ns;
	atomic_store_explicit(&member->gateway->shared.lease_until_ns, until_ns,
	    memory_order_release);
}

static uint64_t
member_ttl_ns(const struct mt_member *member)
{
	assert(member->gateway->options.lease_ns > 0);
	return member->gateway->options.lease_ns;
}

/* A time between half of @ns and one and a half of it. */
static uint64_t
member_jitter(const struct mt_member *member, uint64_t ns)
{
	return ns / 2 + loop_random_below(member_loop(member), ns + 1);
}

/* The lease lives since @sent_ns: until when is it surely ours, when is it renewed? */
static void
member_extend(struct mt_member *member, uint64_t sent_ns)
{
	struct loop *loop = member_loop(member);
	uint64_t now_ns = mt_lease_now_ns(loop), ttl_ns = member_ttl_ns(member);
	uint64_t from_ns = MUTANT(lease_from_answer) ? now_ns : sent_ns;
	uint64_t until_ns = from_ns + ttl_ns - ttl_ns / MEMBER_DRIFT_PART;
	uint64_t renew_ns = sent_ns + ttl_ns / MEMBER_RENEW_PART;

	assert(member->sm.state == MT_MEMBER_UP && member->lease != 0);
	assert(sent_ns <= now_ns);
	member->sent_ns = sent_ns;
	member_set_until(member, until_ns);
	loop_timer_start(loop, &member->expiry_timer, until_ns > now_ns ? until_ns - now_ns : 0);
	loop_timer_start(loop, &member->timer, renew_ns > now_ns ? renew_ns - now_ns : 0);
}

/* A lease is lost. */

static void
member_out(struct mt_member *member)
{
	struct loop *loop = member_loop(member);
	uint64_t wait_ns = num_max(member_ttl_ns(member) / MEMBER_RETRY_PART, MEMBER_RETRY_MIN_NS);

	assert(member->lease == 0 && member->key_version == 0);
	assert(member->until_ns == 0);
	sm_move(&member->sm, MT_MEMBER_OUT);
	loop_timer_stop(loop, &member->expiry_timer);
	loop_timer_start(loop, &member->timer,
	    member->failures_in_row == 0 ? 0 : member_jitter(member, wait_ns));
	member->failures_in_row++;
}

void
mt_member_lose(struct mt_member *member, const char *why)
{
	assert(member->gateway != NULL);
	if (member->sm.state != MT_MEMBER_UP)
		return;
	mt_event(member->gateway->shared.events, loop_now_ns(member_loop(member)),
	    CLEAVE_EVENT_LEASE_LOST, "gateway", "gateway: lost its lease, all shards stop: %s",
	    why);
	member->key_version = 0;
	member->lease = 0;
	member_set_until(member, 0);
	member->failures_in_row = 0;
	member_out(member);
	if (!MUTANT(lease_ignored))
		mt_view_on_lease(member, false);
}

static void
member_on_expiry(struct loop_timer *timer, void *arg)
{
	struct mt_member *member = arg;

	assert(member->sm.state == MT_MEMBER_UP || member->sm.state == MT_MEMBER_LEAVING);
	(void)timer;
	if (member->sm.state == MT_MEMBER_LEAVING)
		member_left(member);
	else
		mt_member_lose(member, "the metadata store has not renewed it in time");
}

static void
member_on_timer(struct loop_timer *timer, void *arg)
{
	struct mt_member *member = arg;

	assert(member->sm.state == MT_MEMBER_OUT || member->sm.state == MT_MEMBER_UP);
	(void)timer;
	if (member->sm.state == MT_MEMBER_OUT)
		member_grant(member);
	else if (member->sm.state == MT_MEMBER_UP)
		member_renew(member);
}

static void
member_fail(struct mt_member *member, const char *what, int rc)
{
	assert(rc <= 0);
	assert(member->sm.state == MT_MEMBER_GRANTING || member->sm.state == MT_MEMBER_REGISTERING);
	log_limited(LOG_WARN, "gateway: no lease yet, trying again: %s rc=%s", what, log_errno(rc));
	member->lease = 0;
	member_out(member);
}

/* A lease is got. */

static void
member_on_granted(int rc, uint64_t lease, void *arg)
{
	struct mt_member *member = arg;

	assert(rc != 0 || lease != 0);
	if (member->sm.state != MT_MEMBER_GRANTING)
		return; /* left meanwhile; the lease ends by itself */
	if (rc != 0) {
		member_fail(member, "grant", rc);
		return;
	}
	member->lease = lease;
	sm_move(&member->sm, MT_MEMBER_REGISTERING);
	member_register(member);
}

static void
member_grant(struct mt_member *member)
{
	struct meta *meta = member_meta(member);
	int rc;

	assert(member->lease == 0);
	sm_move(&member->sm, MT_MEMBER_GRANTING);
	member->sent_ns = mt_lease_now_ns(member_loop(member));
	rc = meta->ops->lease_grant(meta, member_ttl_ns(member), member_on_granted, member);
	if (rc != 0)
		member_fail(member, "grant", rc);
}

/* Our key is there, and of this boot, or it is not. The transaction's own answer does not matter. */
static void
member_on_read(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct mt_member *member = arg;
	struct mt_member_peer peer;
	uint64_t version = 0;
	const char *field;

	if (member->sm.state != MT_MEMBER_REGISTERING)
		return;
	assert(member->lease != 0 && member->key_version == 0);
	for (uint32_t i = 0; i < count && rc == 0; i++) {
		if (strcmp(items[i].key, member->key) == 0 &&
		    mt_member_decode(items[i].value, items[i].value_bytes, &peer, &field) == 0 &&
		    peer.boot_id == member->gateway->options.boot_id)
			version = items[i].version;
	}
	if (version == 0) {
		member_fail(member, "register", rc);
		return;
	}
	member->key_version = version;
	member->failures_in_row = 0;
	sm_move(&member->sm, MT_MEMBER_UP);
	member_extend(member, member->sent_ns);
	mt_event(member->gateway->shared.events, loop_now_ns(member_loop(member)),
	    CLEAVE_EVENT_LEASE_GOT, "gateway", "gateway: member id=%" PRIu64 " lease_ms=%" PRIu64,
	    member->gateway->options.gateway_id, member_ttl_ns(member) / NUM_MS(1));
	mt_view_on_lease(member, true);
}

static void
member_on_registered(int rc, void *arg)
{
	struct mt_member *member = arg;
	struct meta *meta = member_meta(member);

	if (member->sm.state != MT_MEMBER_REGISTERING)
		return;
	assert(member->lease != 0);
	if (rc == 0 || rc == -ETIMEDOUT)
		rc = meta->ops->list(meta, member->key, member_on_read, member);
	if (rc != 0)
		member_fail(member, "register", rc);
}

static void
member_register(struct mt_member *member)
{
	struct meta *meta = member_meta(member);
	char *text = mt_member_encode(member->gateway);
	int rc = -ENOMEM;

	assert(member->sm.state == MT_MEMBER_REGISTERING && member->lease != 0);
	if (text != NULL) {
		const struct meta_op op = {
			.kind = META_PUT,
			.key = member->key,
			.value = text,
			.value_bytes = (uint32_t)strlen(text),
			.lease = member->lease,
		};

		rc = meta->ops->txn(meta, &op, 1, member_on_registered, member);
		free(text);
	}
	if (rc != 0)
		member_fail(member, "register", rc);
}

/* A lease is kept. */

static void
member_on_renewed(int rc, uint64_t lease, void *arg)
{
	struct mt_member *member = arg;

	assert(member->is_renewing);
	(void)lease;
	member->is_renewing = false;
	if (member->sm.state != MT_MEMBER_UP || member->renew_lease != member->lease)
		return;
	if (rc == 0) {
		member_extend(member, member->renew_sent_ns);
	} else if (rc == -ENOENT) {
		mt_member_lose(member, "the metadata store let it expire");
	} else {
		log_limited(LOG_WARN, "gateway: cannot renew its lease, trying again rc=%s",
		    log_errno(rc));
		loop_timer_start(member_loop(member), &member->timer,
		    member_jitter(member, member_ttl_ns(member) / MEMBER_RETRY_PART));
	}
}

static void
member_renew(struct mt_member *member)
{
	struct meta *meta = member_meta(member);
	struct loop *loop = member_loop(member);
	int rc = -EBUSY; /* the one before, of a lease that was lost, is still out */

	assert(member->sm.state == MT_MEMBER_UP && member->lease != 0);
	if (!member->is_renewing) {
		member->renew_sent_ns = mt_lease_now_ns(loop);
		member->renew_lease = member->lease;
		rc = meta->ops->lease_renew(meta, member->lease, member_on_renewed, member);
		member->is_renewing = rc == 0;
	}
	if (rc != 0)
		loop_timer_start(loop, &member->timer,
		    member_jitter(member, member_ttl_ns(member) / MEMBER_RETRY_PART));
}

/* A lease is given back. */

static void
member_left(struct mt_member *member)
{
	void (*fn)(void *arg) = member->left_fn;

	assert(member->key_version == 0 && member->until_ns == 0);
	sm_move(&member->sm, MT_MEMBER_LEFT);
	loop_timer_stop(member_loop(member), &member->timer);
	loop_timer_stop(member_loop(member), &member->expiry_timer);
	member->left_fn = NULL;
	if (fn != NULL)
		fn(member->left_arg);
}

static void
member_on_revoked(int rc, uint64_t lease, void *arg)
{
	struct mt_member *member = arg;

	(void)lease;
	if (member->sm.state != MT_MEMBER_LEAVING)
		return;
	if (rc != 0 && rc != -ENOENT)
		log_warn(
		    "gateway: its lease was not given back rc=%s: its shards are free for others "
		    "when it runs out",
		    log_errno(rc));
	member_left(member);
}

void
mt_member_leave(struct mt_member *member, void (*fn)(void *arg), void *arg)
{
	struct meta *meta = member_meta(member);
	int rc;

	assert(fn != NULL && member->left_fn == NULL);
	member->left_fn = fn;
	member->left_arg = arg;
	mt_view_stop(member);
	member->key_version = 0;
	member_set_until(member, 0);
	if (member->lease == 0) {
		member_left(member);
		return;
	}
	sm_move(&member->sm, MT_MEMBER_LEAVING);
	loop_timer_stop(member_loop(member), &member->timer);
	loop_timer_start(member_loop(member), &member->expiry_timer, MEMBER_LEAVE_NS);
	rc = meta->ops->lease_revoke(meta, member->lease, member_on_revoked, member);
	if (rc != 0)
		member_left(member);
}

/* A member's life. */

int
mt_member_init(struct mt_member *member, struct mt_gateway *gateway,
    void (*on_all_served)(struct mt_gateway *gateway))
{
	assert(member->gateway == NULL && gateway->options.gateway_id != 0);
	*member = (struct mt_member){ .gateway = gateway, .on_all_served = on_all_served };
	mt_member_key(member->key, gateway->options.gateway_id);
	sm_init(&member->sm, "member", member_table, MT_MEMBER_OUT, 0);
	loop_timer_init(&member->timer, member_on_timer, member);
	loop_timer_init(&member->expiry_timer, member_on_expiry, member);
	return mt_view_init(member);
}

int
mt_member_watch(struct mt_member *member)
{
	int rc = mt_view_start(member);

	assert(member->sm.state == MT_MEMBER_OUT);
	if (rc == 0)
		mt_view_look(member);
	return rc;
}

int
mt_member_start(struct mt_member *member)
{
	int rc = member->is_watching ? 0 : mt_view_start(member);

	assert(member->sm.state == MT_MEMBER_OUT && member->lease == 0);
	assert(member->until_ns == 0);
	if (rc == 0)
		member_grant(member);
	return rc;
}

void
mt_member_fini(struct mt_member *member)
{
	if (member->gateway == NULL)
		return;
	loop_timer_stop(member_loop(member), &member->timer);
	loop_timer_stop(member_loop(member), &member->expiry_timer);
	mt_view_stop(member);
	mt_view_fini(member);
	member->gateway = NULL;
}
