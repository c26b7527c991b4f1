/* SPDX-License-Identifier: Apache-2.0 */
/*
 * member_view.c -- which gateways live, who owns each shard, and which of them we shall own
 *
 *	watch "gateways/", "shards/" --> list "gateways/" --> list "shards/" --> judge
 *
 * Gateways are listed first: a root that was read later than its owner's key says at least as much.
 * A watch that fires during a reading makes one more, and no two begin within VIEW_READ_MIN_NS, or what the store
 * asks for.
 *
 * Among the roots lies MT_LEVEL_KEY: where it says more than we know, "cluster" is read anew.
 *
 * Judging is a pure function of what was read, of what our ports report and of whether we are a member.
 * A shard shall be ours when it falls to us among those that live and are not drained (assign.h); ports are told of it
 * once its root is free: absent, released, ours, or of a boot of its owner whose key is gone. A claim that
 * fails all the same, since what was read is old, begins a new reading soon: view_take.c.
 *
 * MT_DRAINED_KEY, among the roots as well, names gateways that nothing falls to. Such a gateway keeps what it has until
 * mt_drain_next says that it is given away: from then on it is a shard that falls to another. MT_SEVERED_KEY names those
 * that have marked themselves, since they reach too few nodes (severed.c); they count the same. MT_PLACED_KEY names
 * shards that fall to another gateway than by count, since one had more to do than the others (relief.c).
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mutant.h"
#include "base/num.h"
#include "catalog/drained_key.h"
#include "catalog/placed_key.h"
#include "catalog/root.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cleave/wire.h"
#include "cluster/gateway_state.h"
#include "cluster/holding.h"
#include "cluster/member.h"
#include "cluster/member_view.h"
#include "cluster/view_drain.h"
#include "cluster/view_heir.h"
#include "cluster/view_take.h"
#include "cluster/view_worker.h"
#include "cluster/volume_refresh.h"
#include "common/alloc.h"
#include "common/port.h"
#include "port/port.h"
#include "port/port_shards.h"

#define VIEW_GATEWAYS "gateways/"
#define VIEW_SHARDS "shards/"
#define VIEW_READ_MIN_NS NUM_MS(20)
#define VIEW_RETRY_NS NUM_MS(200)

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

const struct mt_member_peer *
mt_view_pick(const struct mt_member *member, uint32_t shard)
{
	assert(shard < view_shard_count(member));
	assert(member->peer_count == 0 || member->picks[shard] < member->peer_count);
	return member->peer_count == 0 ? NULL : &member->peers[member->picks[shard]];
}

bool
mt_view_is_live(const struct mt_member *member, uint64_t gateway_id, uint64_t boot_id)
{
	assert(member->peer_count <= MT_GATEWAYS_MAX);
	for (uint32_t i = 0; i < member->peer_count; i++) {
		if (member->peers[i].gateway_id == gateway_id)
			return member->peers[i].boot_id == boot_id;
	}
	return false;
}

bool
mt_view_is_judged(const struct mt_member *member)
{
	const struct mt_member_shard *shard = member->shards;

	/* A request may wait for the volumes while the gateway starts, before it is a member. */
	if (member->gateway == NULL)
		return false;
	assert(view_shard_count(member) > 0);
	if (MUTANT(store_unjudged))
		return true;
	if (shard == NULL || !member->has_view)
		return false;
	/* A claim is in the root at once; a manifest under its epoch, when the store was found to be no older than the one before. */
	return shard->is_new || shard->own_state == MT_SHARD_SERVING ||
	    (shard->has_root && shard->is_settled && !shard->is_released &&
		mt_view_is_live(member, shard->gateway_id, shard->boot_id));
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

static void
view_judge(struct mt_member *member, bool is_again)
{
	uint64_t wanted[NUM_COUNT(member->wanted)] = { 0 };

	if (member->sm.state != MT_MEMBER_UP || !member->has_view || !member->is_watching)
		return;
	assert(member->shards != NULL && member->picks != NULL);
	for (uint32_t i = 0; i < view_shard_count(member); i++) {
		if (view_is_ours_to_take(member, i))
			wanted[i / 64] |= UINT64_C(1) << i % 64;
		else
			member->shards[i].refused_count = 0;
	}
	if (member->is_drained)
		mt_view_keep(member, wanted);
	if (is_again || memcmp(wanted, member->wanted, sizeof(wanted)) != 0)
		view_tell_ports(member, wanted, 0);
	mt_view_check(member);
}

static void
view_on_take_timer(struct loop_timer *timer, void *arg)
{
	struct mt_member *member = arg;

	(void)timer;
	assert(timer == &member->take_timer);
	member->is_taking = false;
	member->is_again = true;
	view_read(member);
}

void
mt_view_on_shard(struct mt_member *member, uint32_t shard, enum mt_shard_state state,
    uint32_t epoch)
{
	struct mt_member_shard *own = &member->shards[shard];
	bool was_taken;

	assert(shard < view_shard_count(member));
	assert(state < MT_SHARD_STATE_NR);
	was_taken = !mt_view_is_idle(own->own_state) && own->own_state != MT_SHARD_SERVING;
	own->own_state = state;
	own->own_epoch = epoch;
	if (state == MT_SHARD_SERVING)
		own->refused_count = 0;
	else if (mt_view_is_idle(state) && was_taken && mt_view_is_wanted(member, shard))
		mt_view_on_refused(member, own);
	mt_view_check(member);
}

void
mt_view_on_lease(struct mt_member *member, bool is_member)
{
	static const uint64_t none[CLEAVE_SHARDS_MAX / 64u];

	assert(is_member == (member->sm.state == MT_MEMBER_UP));
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
	if (member->read_level > member->gateway->cluster.level)
		mt_volumes_refresh_soon(member->gateway);
	view_judge(member, is_again);
	mt_heirs_tell(member);
	mt_view_workers_tell(member);
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
	/* A shard has one key: with "shards/7", or " 00007", as another it would have two owners. */
	mt_root_key(key, (uint32_t)number);
	if (strcmp(item->key, key) != 0)
		return;
	shard = &member->shards[number];
	if (mt_root_decode(item->value, item->value_bytes, (uint32_t)number, &root, &field) != 0) {
		/* The gateway that is to take it says so in its log. */
		shard->has_root = shard->is_new = false;
		return;
	}
	shard->has_root = true;
	shard->is_released = root.is_released;
	shard->is_settled = root.has_manifest && root.manifest.epoch == root.epoch;
	shard->is_new = !root.has_manifest;
	shard->epoch = root.epoch;
	shard->gateway_id = root.gateway_id;
	shard->boot_id = root.boot_id;
	memcpy(shard->address, root.port_address, sizeof(shard->address));
}

static void
view_on_roots(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct mt_member *member = arg;
	const struct meta_item *drained = NULL, *severed = NULL, *placed = NULL;

	assert(member->shards != NULL);
	if (!member->is_watching)
		return;
	if (rc != 0) {
		view_fail(member, rc);
		return;
	}
	assert(member->is_reading);
	for (uint32_t i = 0; i < view_shard_count(member); i++) {
		member->shards[i].has_root = false;
		member->shards[i].is_new = true;
	}
	for (uint32_t i = 0; i < count; i++) {
		if (strcmp(items[i].key, MT_LEVEL_KEY) == 0)
			member->read_level = mt_level_read(&items[i]);
		else if (strcmp(items[i].key, MT_DRAINED_KEY) == 0)
			drained = &items[i];
		else if (strcmp(items[i].key, MT_SEVERED_KEY) == 0)
			severed = &items[i];
		else if (strcmp(items[i].key, MT_PLACED_KEY) == 0)
			placed = &items[i];
		else
			view_take_root(member, &items[i]);
	}
	mt_view_take_drained(member, drained);
	mt_view_take_severed(member, severed);
	mt_view_take_placed(member, placed);
	mt_lost_judge(member);
	view_finish(member);
}

static void
view_take_peer(struct mt_member *member, uint32_t *count, const struct meta_item *item)
{
	struct mt_member_peer *peer = &member->next_peers[*count];
	const char *text = item->key + strlen(VIEW_GATEWAYS), *field = "name";
	char key[MT_MEMBER_KEY_BYTES];

	assert(strncmp(item->key, VIEW_GATEWAYS, strlen(VIEW_GATEWAYS)) == 0);
	assert(*count <= MT_GATEWAYS_MAX);
	if (*count == MT_GATEWAYS_MAX) {
		log_limited(LOG_ERROR,
		    "gateway: more than %u gateways have a key; the others get no shards: stop some",
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
	assert(peer_count <= MT_GATEWAYS_MAX);
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

/*
 * A port's address is all that clients know it by: what one port has admitted they would take for the word of the
 * other (debt.c of the library), and half of what they send would be sent back.
 */
static void
view_check_addresses(const struct mt_member *member, const struct mt_member_peer *peers,
    uint32_t peer_count)
{
	const struct mt_gateway *gateway = member->gateway;

	assert(peer_count <= MT_GATEWAYS_MAX);
	for (uint32_t i = 0; i < peer_count; i++) {
		for (uint32_t k = 0; k < peers[i].port_count * gateway->port_count; k++) {
			const char *ours = gateway->ports[k % gateway->port_count].address;

			if (peers[i].gateway_id == gateway->options.gateway_id ||
			    strcmp(peers[i].ports[k / gateway->port_count], ours) != 0)
				continue;
			log_limited(LOG_ERROR,
			    "gateway: it says that it is found where we are: give each port an "
			    "advertise= of its own gateway=%" PRIu64 " port=%s",
			    peers[i].gateway_id, ours);
		}
	}
}

static void
view_take_peers(struct mt_member *member, uint32_t peer_count)
{
	struct mt_member_peer *peers = member->next_peers;
	bool is_same = peer_count == member->peer_count;

	assert(peer_count <= MT_GATEWAYS_MAX);
	assert(peers != member->peers);
	for (uint32_t i = 0; i < peer_count; i++)
		is_same = is_same && member->peers[i].gateway_id == peers[i].gateway_id;
	if (view_has_lost(member, peers, peer_count))
		mt_holder_on_claim(member->gateway);
	mt_lost_note(member, peers, peer_count);
	member->next_peers = member->peers;
	member->peers = peers;
	member->peer_count = peer_count;
	if (!is_same)
		view_check_addresses(member, peers, peer_count);
	if (!is_same)
		mt_view_assign(member);
}

static void
view_on_gateways(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct mt_member *member = arg;
	struct meta *meta = member->gateway->options.meta;
	uint32_t peer_count = 0;

	if (!member->is_watching)
		return;
	assert(member->is_reading);
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
	uint64_t min_ns = num_max(VIEW_READ_MIN_NS, meta->ops->relist_min_ns);
	int rc;

	assert(member->gateway != NULL);
	if (!member->is_watching)
		return;
	if (member->is_reading) {
		member->is_dirty = true;
		return;
	}
	if (member->read_ns != 0 && since_ns < min_ns) {
		view_read_later(member, min_ns - since_ns);
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

void
mt_view_look(struct mt_member *member)
{
	assert(member->is_watching);
	view_read(member);
}

static void
view_on_read_timer(struct loop_timer *timer, void *arg)
{
	struct mt_member *member = arg;

	(void)timer;
	assert(timer == &member->read_timer);
	view_read(member);
}

static void
view_on_watch(void *arg)
{
	view_read(arg);
}

/* A view's life. */

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
	assert(!member->is_watching);
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
