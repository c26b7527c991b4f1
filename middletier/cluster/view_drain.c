/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view_drain.c -- gateways that shall have no shards: what was read of them, and what such a gateway keeps
 *
 *	MT_PLACED_KEY ---.
 *	MT_DRAINED_KEY --> picks, without those that it names
 *	MT_SEVERED_KEY --'
 *	                     |
 *	                     '--> we are one: what we hold is kept, but for one shard at a time (assign.h)
 *
 * The next shard goes when all others are with gateways that live, and these have agreed on the lengths of its extents:
 * then their roots name a manifest of their own epoch. That wakes us, since we watch the roots.
 */
#include "cluster/view_drain.h"

#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "catalog/drained_key.h"
#include "cleave/meta.h"
#include "cleave/wire.h"
#include "cluster/assign.h"
#include "cluster/gateway_state.h"
#include "cluster/member.h"
#include "cluster/member_view.h"
#include "cluster/severed.h"

/* ---- what was read ---- */

static bool
view_has_others(const uint64_t *ids, uint32_t count, const struct mt_drained *marks)
{
	for (uint32_t i = 0; i < count; i++) {
		if (!mt_drained_has(marks, ids[i]))
			return true;
	}
	return false;
}

void
mt_view_marks(const struct mt_member *member, const uint64_t *ids, uint32_t count,
    struct mt_drained *ret_marks)
{
	*ret_marks = member->drained;
	for (uint32_t i = 0; i < member->severed.count; i++)
		(void)mt_drained_add(ret_marks, member->severed.ids[i]);
	if (view_has_others(ids, count, ret_marks))
		return;
	*ret_marks = view_has_others(ids, count, &member->severed) ? member->severed
								   : member->drained;
}

void
mt_view_assign(struct mt_member *member)
{
	uint64_t ids[MT_GATEWAYS_MAX], own = member->gateway->options.gateway_id;
	uint32_t count = member->peer_count, taker_count;
	struct mt_drained marks;

	assert(count <= MT_GATEWAYS_MAX);
	member->is_drained = member->is_severed = false;
	if (count == 0)
		return;
	for (uint32_t i = 0; i < count; i++)
		ids[i] = member->peers[i].gateway_id;
	mt_view_marks(member, ids, count, &marks);
	taker_count = mt_assign_undrained(ids, count, &marks, member->gateway->cluster.shard_count,
	    member->picks);
	mt_assign_placed(ids, count, &marks, taker_count, &member->placed,
	    member->gateway->cluster.shard_count, member->picks);
	member->is_drained = mt_drained_has(&marks, own) && taker_count < count;
	member->is_severed = member->is_drained && !mt_drained_has(&member->drained, own);
	if (taker_count == count && mt_drained_has(&member->drained, ids[0]))
		log_warn(
		    "gateway: every gateway that lives is drained: they have shards until another comes");
}

/* A line for each gateway that has a mark now and had none: it @begins; or the other way round: it @ends. */
static void
view_log_marks(const struct mt_drained *from, const struct mt_drained *to, const char *begins,
    const char *ends)
{
	for (uint32_t i = 0; i < to->count; i++) {
		if (!mt_drained_has(from, to->ids[i]))
			log_info("gateway: gateway %016" PRIx64 " %s", to->ids[i], begins);
	}
	for (uint32_t i = 0; i < from->count; i++) {
		if (!mt_drained_has(to, from->ids[i]))
			log_info("gateway: gateway %016" PRIx64 " %s", from->ids[i], ends);
	}
}

/* @item is not as it was read last, and understood, into *@ret_marks. */
static bool
view_read_marks(const struct meta_item *item, uint64_t version, struct mt_drained *ret_marks)
{
	const char *field;

	*ret_marks = (struct mt_drained){ .count = 0 };
	if (item == NULL ? version == 0 : item->version == version)
		return false;
	if (item != NULL &&
	    mt_drained_decode(item->value, item->value_bytes, ret_marks, &field) != 0) {
		log_limited(LOG_WARN,
		    "gateway: unreadable in the metadata store key=%s field=\"%s\"", item->key,
		    field);
		return false;
	}
	ret_marks->version = item == NULL ? 0 : item->version;
	return true;
}

void
mt_view_take_drained(struct mt_member *member, const struct meta_item *item)
{
	struct mt_drained drained;

	assert(item == NULL || strcmp(item->key, MT_DRAINED_KEY) == 0);
	if (!view_read_marks(item, member->drained.version, &drained))
		return;
	view_log_marks(&member->drained, &drained,
	    "is drained by an operator, and shall have no shards",
	    "is drained no more, and has shards again");
	member->drained = drained;
	mt_view_assign(member);
}

void
mt_view_take_severed(struct mt_member *member, const struct meta_item *item)
{
	struct mt_drained severed;

	assert(item == NULL || strcmp(item->key, MT_SEVERED_KEY) == 0);
	if (!view_read_marks(item, member->severed.version, &severed))
		return;
	view_log_marks(&member->severed, &severed,
	    "says that it reaches too few nodes, and shall have no shards",
	    "reaches enough nodes, or is gone: it counts again");
	member->severed = severed;
	mt_view_assign(member);
}

void
mt_view_take_placed(struct mt_member *member, const struct meta_item *item)
{
	struct mt_placed placed = { .count = 0 };
	const char *field;

	if (item == NULL ? member->placed.version == 0 : item->version == member->placed.version)
		return;
	if (item != NULL &&
	    mt_placed_decode(item->value, item->value_bytes, &placed, &field) != 0) {
		log_limited(LOG_WARN,
		    "gateway: unreadable in the metadata store key=%s field=\"%s\"", item->key,
		    field);
		return;
	}
	placed.version = item == NULL ? 0 : item->version;
	member->placed = placed;
	mt_view_assign(member);
}

/* ---- what is kept ---- */

/* A shard of ours that runs, and that the ports were not told to give away. */
static bool
view_is_held(const struct mt_member *member, uint32_t index)
{
	enum mt_shard_state state = member->shards[index].own_state;

	assert(index < member->gateway->cluster.shard_count);
	return (member->wanted[index / 64] & UINT64_C(1) << index % 64) != 0 &&
	    state != MT_SHARD_IDLE && state != MT_SHARD_STOPPED;
}

static enum mt_drain_shard
view_drain_shard(const struct mt_member *member, uint32_t index)
{
	const struct mt_member_shard *shard = &member->shards[index];

	assert(index < member->gateway->cluster.shard_count);
	if (view_is_held(member, index))
		return shard->own_state == MT_SHARD_SERVING ? MT_DRAIN_HELD : MT_DRAIN_HELD_IDLE;
	if (shard->has_root && !shard->is_released && shard->is_settled &&
	    shard->gateway_id != member->gateway->options.gateway_id &&
	    mt_view_is_live(member, shard->gateway_id, shard->boot_id))
		return MT_DRAIN_THERE;
	return MT_DRAIN_ON_ITS_WAY;
}

/* A severed gateway keeps a shard that falls to one that has not answered that it reaches enough nodes. */
static bool
view_may_go(const struct mt_member *member, uint32_t index)
{
	const struct mt_member_peer *pick = mt_view_pick(member, index);

	return !member->is_severed ||
	    (pick != NULL && mt_severed_may_take(member->gateway, pick->gateway_id));
}

/* The shard that goes now; the count of them: none does. */
static uint32_t
view_choose(const struct mt_member *member, const enum mt_drain_shard *states)
{
	enum mt_drain_shard some[CLEAVE_SHARDS_MAX] = { MT_DRAIN_ON_ITS_WAY };
	uint32_t count = member->gateway->cluster.shard_count;

	assert(count <= CLEAVE_SHARDS_MAX);
	for (uint32_t i = 0; i < count; i++)
		some[i] = states[i] >= MT_DRAIN_HELD && !view_may_go(member, i) ? MT_DRAIN_THERE
										: states[i];
	return mt_drain_next(some, count);
}

void
mt_view_keep(struct mt_member *member, uint64_t *wanted)
{
	enum mt_drain_shard states[CLEAVE_SHARDS_MAX] = { MT_DRAIN_ON_ITS_WAY };
	uint32_t count = member->gateway->cluster.shard_count, next, held_count = 0;

	assert(member->is_drained);
	assert(member->sm.state == MT_MEMBER_UP);
	for (uint32_t i = 0; i < count; i++)
		states[i] = view_drain_shard(member, i);
	next = view_choose(member, states);
	for (uint32_t i = 0; i < count; i++) {
		if (states[i] < MT_DRAIN_HELD)
			continue;
		held_count++;
		if (i != next)
			wanted[i / 64] |= UINT64_C(1) << i % 64;
	}
	if (next < count)
		log_info("shard %" PRIu32 ": given away, this gateway %s left=%" PRIu32, next,
		    member->is_severed ? "reaches too few nodes" : "is drained", held_count - 1);
	if (held_count == 0 && !member->is_drained_told)
		log_info("gateway: it %s, and has no shard",
		    member->is_severed ? "reaches too few nodes" : "is drained");
	member->is_drained_told = held_count == 0;
}
