/* SPDX-License-Identifier: Apache-2.0 */
/*
 * member_view.c -- which gateways live, who owns each shard, and which of them we shall own
 *
 *	watch "gateways/", "shards/" --> list "gateways/" --> list "shards/" --> judge
 *
 * Gateways are listed first: a root that was read later than its owner's key says at least as much.
 * A watch that fires during a reading makes one more, and no two begin within VIEW_READ_MIN_NS.
 *
 * Judging is a pure function of what was read, of what our ports report and of whether we are a member.
 * A shard shall be ours when it falls to us among those that live (mt_view_assign); ports are told of it
 * once its root is free: absent, released, ours, or of an incarnation whose key is gone. A claim that
 * fails all the same, since what was read is old, is tried again by the take timer.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "catalog/root.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cleave/wire.h"
#include "cluster/gateway_state.h"
#include "cluster/holding.h"
#include "cluster/member.h"
#include "cluster/member_view.h"
#include "common/alloc.h"
#include "common/port.h"
#include "port/port.h"
#include "port/port_shards.h"

#define VIEW_GATEWAYS "gateways/"
#define VIEW_SHARDS "shards/"
#define VIEW_READ_MIN_NS NUM_MS(20)
#define VIEW_RETRY_NS NUM_MS(200)
#define VIEW_TAKE_PART 3u

static void view_read(struct mt_member *member);

static struct loop *
view_loop(const struct mt_member *member)
{
	return member->gateway->options.loop;
}

static uint32_t
view_shard_count(const struct mt_member *member)
{
	return member->gateway->cluster.shard_count;
}

/* The owner of each shard. */

/* The finalizer of SplitMix64: every bit of @value moves half of the result's. */
static uint64_t
view_mix(uint64_t value)
{
	value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
	return value ^ value >> 31;
}

uint64_t
mt_view_rank(uint32_t shard, uint64_t gateway_id)
{
	return view_mix(
	    view_mix(gateway_id + UINT64_C(0x9e3779b97f4a7c15)) ^ (shard + UINT64_C(1)));
}

void
mt_view_assign(const uint64_t *ids, uint32_t count, uint32_t shard_count, uint8_t *ret_picks)
{
	uint32_t loads[MT_GATEWAYS_MAX] = { 0 };
	uint32_t share = shard_count / count, extra_count = shard_count % count;

	assert(count > 0 && count <= MT_GATEWAYS_MAX);
	for (uint32_t shard = 0; shard < shard_count; shard++) {
		uint32_t best = count;
		uint64_t best_rank = 0;

		for (uint32_t i = 0; i < count; i++) {
			uint64_t rank = mt_view_rank(shard, ids[i]);

			if (loads[i] > share || (loads[i] == share && extra_count == 0))
				continue;
			if (best == count || rank > best_rank ||
			    (rank == best_rank && ids[i] > ids[best])) {
				best = i;
				best_rank = rank;
			}
		}
		assert(best < count); /* the shares are as many as the shards */
		extra_count -= loads[best] == share;
		loads[best]++;
		ret_picks[shard] = (uint8_t)best;
	}
}

const struct mt_member_peer *
mt_view_pick(const struct mt_member *member, uint32_t shard)
{
	assert(shard < view_shard_count(member));
	return member->peer_count == 0 ? NULL : &member->peers[member->picks[shard]];
}

bool
mt_view_is_live(const struct mt_member *member, uint64_t gateway_id, uint64_t boot_id)
{
	for (uint32_t i = 0; i < member->peer_count; i++) {
		if (member->peers[i].gateway_id == gateway_id)
			return member->peers[i].boot_id == boot_id;
	}
	return false;
}

static bool
view_is_ours_to_take(const struct mt_member *member, uint32_t index)
{
	const struct mt_member_shard *shard = &member->shards[index];
	const struct mt_member_peer *peer = mt_view_pick(member, index);
	uint64_t id = member->gateway->options.gateway_id;

	assert(index < view_shard_count(member));
	if (peer == NULL || peer->gateway_id != id)
		return false;
	return !shard->has_root || shard->is_released || shard->gateway_id == id ||
	    !mt_view_is_live(member, shard->gateway_id, shard->boot_id);
}

/* Judging. */

static void
view_tell_ports(struct mt_member *member, const uint64_t *wanted, int rc)
{
	struct mt_gateway *gateway = member->gateway;

	assert(rc <= 0);
	memcpy(member->wanted, wanted, sizeof(member->wanted));
	for (uint32_t i = 0; i < gateway->port_count; i++)
		mt_port_shards(&gateway->ports[i], member->wanted, rc);
}

static bool
view_is_wanted(const struct mt_member *member, uint32_t shard)
{
	assert(shard < CLEAVE_SHARDS_MAX);
	return (member->wanted[shard / 64] & UINT64_C(1) << shard % 64) != 0;
}

/* Its owner serves it, as far as we can see. */
static bool
view_is_served(const struct mt_member *member, uint32_t index)
{
	const struct mt_member_shard *shard = &member->shards[index];

	assert(index < view_shard_count(member));
	if (view_is_wanted(member, index))
		return shard->own_state == MT_SHARD_SERVING;
	return shard->has_root && !shard->is_released &&
	    shard->gateway_id != member->gateway->options.gateway_id &&
	    mt_view_is_live(member, shard->gateway_id, shard->boot_id);
}

/* Something here is not yet as it shall be, and may need another word to the ports. */
static bool
view_is_unsettled(const struct mt_member *member, uint32_t index)
{
	const struct mt_member_shard *shard = &member->shards[index];
	const struct mt_gateway_options *options = &member->gateway->options;
	const struct mt_member_peer *peer = mt_view_pick(member, index);
	bool is_idle = shard->own_state == MT_SHARD_IDLE || shard->own_state == MT_SHARD_STOPPED;

	assert(index < view_shard_count(member));
	if (peer != NULL && peer->gateway_id == options->gateway_id)
		return is_idle;
	return is_idle && shard->has_root && !shard->is_released &&
	    shard->gateway_id == options->gateway_id && shard->boot_id == options->boot_id;
}

static void
view_check(struct mt_member *member)
{
	uint32_t count = view_shard_count(member);
	bool is_settled = true, is_served = true;
	struct loop *loop = view_loop(member);
	uint64_t wait_ns = member->gateway->options.lease_ns / VIEW_TAKE_PART;

	if (member->sm.state != MT_MEMBER_UP || !member->has_view || !member->is_watching)
		return;
	for (uint32_t i = 0; i < count; i++) {
		is_settled = is_settled && !view_is_unsettled(member, i);
		is_served = is_served && view_is_served(member, i);
	}
	if (is_settled)
		loop_timer_stop(loop, &member->take_timer);
	else if (!member->is_taking) {
		loop_timer_start(loop, &member->take_timer,
		    wait_ns / 2 + loop_random_below(loop, wait_ns + 1));
	}
	member->is_taking = !is_settled;
	if (!is_served || member->is_ready_told)
		return;
	member->is_ready_told = true;
	member->on_all_served(member->gateway);
}

static void
view_judge(struct mt_member *member, bool is_again)
{
	uint64_t wanted[NUM_COUNT(member->wanted)] = { 0 };

	if (member->sm.state != MT_MEMBER_UP || !member->has_view || !member->is_watching)
		return;
	for (uint32_t i = 0; i < view_shard_count(member); i++) {
		if (view_is_ours_to_take(member, i))
			wanted[i / 64] |= UINT64_C(1) << i % 64;
	}
	if (is_again || memcmp(wanted, member->wanted, sizeof(wanted)) != 0)
		view_tell_ports(member, wanted, 0);
	view_check(member);
}

static void
view_on_take_timer(struct loop_timer *timer, void *arg)
{
	struct mt_member *member = arg;

	(void)timer;
	member->is_taking = false;
	member->is_again = true;
	view_read(member);
}

void
mt_view_on_shard(struct mt_member *member, uint32_t shard, enum mt_shard_state state,
    uint32_t epoch)
{
	assert(shard < view_shard_count(member));
	member->shards[shard].own_state = state;
	member->shards[shard].own_epoch = epoch;
	view_check(member);
}

void
mt_view_on_lease(struct mt_member *member, bool is_member)
{
	static const uint64_t none[CLEAVE_SHARDS_MAX / 64u];

	if (!is_member) {
		loop_timer_stop(view_loop(member), &member->take_timer);
		member->is_taking = false;
		view_tell_ports(member, none, -ESTALE);
		return;
	}
	member->is_again = true;
	view_read(member);
}

/* Reading. */

static void
view_read_later(struct mt_member *member, uint64_t ns)
{
	loop_timer_start(view_loop(member), &member->read_timer, ns);
}

static void
view_fail(struct mt_member *member, int rc)
{
	struct loop *loop = view_loop(member);

	assert(member->is_reading && rc < 0);
	log_limited(LOG_WARN, "gateway: cannot see the other gateways, asking again rc=%s",
	    log_errno(rc));
	member->is_reading = false;
	view_read_later(member, VIEW_RETRY_NS / 2 + loop_random_below(loop, VIEW_RETRY_NS));
}

/* Our own key was there when we became a member: did somebody remove it, or write over it? */
static bool
view_is_lost(const struct mt_member *member)
{
	const struct mt_gateway_options *options = &member->gateway->options;

	return member->sm.state == MT_MEMBER_UP && member->read_version == member->key_version &&
	    !mt_view_is_live(member, options->gateway_id, options->boot_id);
}

static void
view_finish(struct mt_member *member)
{
	bool is_again = member->is_again;

	assert(member->is_reading);
	member->is_reading = false;
	member->has_view = true;
	if (member->is_dirty)
		view_read(member);
	if (view_is_lost(member)) {
		mt_member_lose(member, "its key in the metadata store is gone, or another's");
		return;
	}
	if (member->sm.state == MT_MEMBER_UP)
		member->is_again = false;
	view_judge(member, is_again);
}

static void
view_take_root(struct mt_member *member, const struct meta_item *item)
{
	struct mt_member_shard *shard;
	const char *text = item->key + strlen(VIEW_SHARDS);
	struct mt_root root;
	const char *field;
	unsigned long number = strtoul(text, NULL, 10);
	char key[MT_ROOT_KEY_BYTES];

	assert(strncmp(item->key, VIEW_SHARDS, strlen(VIEW_SHARDS)) == 0);
	if (number >= view_shard_count(member))
		return;
	/* "shards/7", or " 00007", is no other name of it: there would be two owners of one shard. */
	mt_root_key(key, (uint32_t)number);
	if (strcmp(item->key, key) != 0)
		return;
	shard = &member->shards[number];
	if (mt_root_decode(item->value, item->value_bytes, (uint32_t)number, &root, &field) != 0) {
		/* The one who is to take it will say so. */
		shard->has_root = false;
		return;
	}
	shard->has_root = true;
	shard->is_released = root.is_released;
	shard->epoch = root.epoch;
	shard->gateway_id = root.gateway_id;
	shard->boot_id = root.boot_id;
	memcpy(shard->address, root.port_address, sizeof(shard->address));
}

static void
view_on_roots(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct mt_member *member = arg;

	assert(member->shards != NULL);
	if (!member->is_watching)
		return;
	if (rc != 0) {
		view_fail(member, rc);
		return;
	}
	for (uint32_t i = 0; i < view_shard_count(member); i++)
		member->shards[i].has_root = false;
	for (uint32_t i = 0; i < count; i++)
		view_take_root(member, &items[i]);
	view_finish(member);
}

static void
view_take_peer(struct mt_member *member, uint32_t *count, const struct meta_item *item)
{
	struct mt_member_peer *peer = &member->next_peers[*count];
	const char *text = item->key + strlen(VIEW_GATEWAYS), *field = "name";
	char key[MT_MEMBER_KEY_BYTES];

	assert(strncmp(item->key, VIEW_GATEWAYS, strlen(VIEW_GATEWAYS)) == 0);
	if (*count == MT_GATEWAYS_MAX) {
		log_limited(LOG_ERROR, "gateway: more than %u of them; the others get no shards",
		    MT_GATEWAYS_MAX);
		return;
	}
	*peer = (struct mt_member_peer){ .version = item->version };
	peer->gateway_id = strtoull(text, NULL, 10);
	/* A gateway has one key: "gateways/02" or "gateways/-1" is nobody's. */
	mt_member_key(key, peer->gateway_id);
	if (strcmp(item->key, key) != 0 ||
	    mt_member_decode(item->value, item->value_bytes, peer, &field) != 0) {
		log_limited(LOG_WARN,
		    "gateway: unreadable in the metadata store key=%.64s field=\"%s\"", item->key,
		    field);
		return;
	}
	peer->seen_ns = loop_now_ns(view_loop(member));
	for (uint32_t i = 0; i < member->peer_count; i++) {
		const struct mt_member_peer *old = &member->peers[i];

		if (old->gateway_id == peer->gateway_id && old->boot_id == peer->boot_id)
			peer->seen_ns = old->seen_ns;
	}
	(*count)++;
}

/* A gateway that was there is not among @peers, or was started anew. */
static bool
view_has_lost(const struct mt_member *member, const struct mt_member_peer *peers,
    uint32_t peer_count)
{
	for (uint32_t i = 0; i < member->peer_count; i++) {
		bool is_there = false;

		for (uint32_t k = 0; k < peer_count && !is_there; k++)
			is_there = peers[k].gateway_id == member->peers[i].gateway_id &&
			    peers[k].boot_id == member->peers[i].boot_id;
		if (!is_there)
			return true;
	}
	return false;
}

/* The work of it grows with shards and gateways: not done again for the same ones. */
static void
view_take_peers(struct mt_member *member, uint32_t peer_count)
{
	struct mt_member_peer *peers = member->next_peers;
	uint64_t ids[MT_GATEWAYS_MAX];
	bool is_same = peer_count == member->peer_count;

	assert(peer_count <= MT_GATEWAYS_MAX);
	for (uint32_t i = 0; i < peer_count; i++) {
		ids[i] = peers[i].gateway_id;
		is_same = is_same && member->peers[i].gateway_id == ids[i];
	}
	if (view_has_lost(member, peers, peer_count))
		mt_holder_on_claim(member->gateway);
	member->next_peers = member->peers;
	member->peers = peers;
	member->peer_count = peer_count;
	if (!is_same && peer_count > 0)
		mt_view_assign(ids, peer_count, view_shard_count(member), member->picks);
}

static void
view_on_gateways(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct mt_member *member = arg;
	struct meta *meta = member->gateway->options.meta;
	uint32_t peer_count = 0;

	if (!member->is_watching)
		return;
	if (rc == 0)
		rc = meta->ops->list(meta, VIEW_SHARDS, view_on_roots, member);
	if (rc != 0) {
		view_fail(member, rc);
		return;
	}
	for (uint32_t i = 0; i < count; i++)
		view_take_peer(member, &peer_count, &items[i]);
	view_take_peers(member, peer_count);
}

static void
view_read(struct mt_member *member)
{
	struct meta *meta = member->gateway->options.meta;
	uint64_t now_ns = loop_now_ns(view_loop(member));
	uint64_t since_ns = now_ns - member->read_ns;
	int rc;

	assert(member->gateway != NULL);
	if (!member->is_watching)
		return;
	if (member->is_reading) {
		member->is_dirty = true;
		return;
	}
	if (member->read_ns != 0 && since_ns < VIEW_READ_MIN_NS) {
		view_read_later(member, VIEW_READ_MIN_NS - since_ns);
		return;
	}
	loop_timer_stop(view_loop(member), &member->read_timer);
	member->is_reading = true;
	member->is_dirty = false;
	member->read_ns = now_ns;
	member->read_version = member->key_version;
	rc = meta->ops->list(meta, VIEW_GATEWAYS, view_on_gateways, member);
	if (rc != 0)
		view_fail(member, rc);
}

static void
view_on_read_timer(struct loop_timer *timer, void *arg)
{
	(void)timer;
	view_read(arg);
}

static void
view_on_watch(void *arg)
{
	view_read(arg);
}

/* Its life. */

int
mt_view_init(struct mt_member *member)
{
	assert(member->peers == NULL && view_shard_count(member) > 0);
	member->peers = mt_calloc(MT_GATEWAYS_MAX, sizeof(*member->peers));
	member->next_peers = mt_calloc(MT_GATEWAYS_MAX, sizeof(*member->next_peers));
	member->shards = mt_calloc(view_shard_count(member), sizeof(*member->shards));
	member->picks = mt_calloc(view_shard_count(member), sizeof(*member->picks));
	loop_timer_init(&member->read_timer, view_on_read_timer, member);
	loop_timer_init(&member->take_timer, view_on_take_timer, member);
	return member->peers == NULL || member->next_peers == NULL || member->shards == NULL ||
		member->picks == NULL
	    ? -ENOMEM
	    : 0;
}

void
mt_view_fini(struct mt_member *member)
{
	mt_free(member->peers);
	mt_free(member->next_peers);
	mt_free(member->shards);
	mt_free(member->picks);
	member->picks = NULL;
	member->peers = member->next_peers = NULL;
	member->shards = NULL;
	member->peer_count = 0;
}

int
mt_view_start(struct mt_member *member)
{
	struct meta *meta = member->gateway->options.meta;
	int rc = meta->ops->watch(meta, VIEW_GATEWAYS, view_on_watch, member);

	assert(!member->is_watching && member->picks != NULL);
	if (rc == 0)
		rc = meta->ops->watch(meta, VIEW_SHARDS, view_on_watch, member);
	if (rc != 0)
		meta->ops->unwatch(meta, view_on_watch, member);
	member->is_watching = rc == 0;
	return rc;
}

void
mt_view_stop(struct mt_member *member)
{
	struct meta *meta = member->gateway->options.meta;

	if (!member->is_watching)
		return;
	member->is_watching = false;
	/* A killed process asks no store for anything. */
	if (!member->gateway->shared.is_killed)
		meta->ops->unwatch(meta, view_on_watch, member);
	loop_timer_stop(view_loop(member), &member->read_timer);
	loop_timer_stop(view_loop(member), &member->take_timer);
}
