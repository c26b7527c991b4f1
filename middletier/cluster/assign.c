/* SPDX-License-Identifier: Apache-2.0 */
/* assign.c -- see assign.h */
#include "cluster/assign.h"

#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "catalog/drained_key.h"
#include "catalog/placed_key.h"
#include "cleave/wire.h"
#include "common/limits.h"

#define ASSIGN_NONE UINT8_MAX

/* ---- the owner of each shard ---- */

/* A number for gateway @gateway_id and @shard, the same at every gateway: the highest shall own it. */
static uint64_t
assign_rank(uint32_t shard, uint64_t gateway_id)
{
	return num_mix_u64(
	    num_mix_u64(gateway_id + UINT64_C(0x9e3779b97f4a7c15)) ^ (shard + UINT64_C(1)));
}

/* Shards of which the pick is ASSIGN_NONE get one; the others are counted to their owners' shares. */
static void
assign_rest(const uint64_t *ids, uint32_t count, uint32_t shard_count, uint8_t *picks)
{
	uint32_t loads[2 * MT_GATEWAYS_MAX] = { 0 };
	uint32_t share = shard_count / count, extra_count = shard_count % count;

	assert(count > 0 && count <= NUM_COUNT(loads));
	for (uint32_t shard = 0; shard < shard_count; shard++) {
		if (picks[shard] != ASSIGN_NONE)
			extra_count -= loads[picks[shard]]++ == share;
	}
	for (uint32_t shard = 0; shard < shard_count; shard++) {
		uint32_t best = count;
		uint64_t best_rank = 0;

		if (picks[shard] != ASSIGN_NONE)
			continue;
		for (uint32_t i = 0; i < count; i++) {
			uint64_t rank = assign_rank(shard, ids[i]);

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
		picks[shard] = (uint8_t)best;
	}
}

void
mt_assign(const uint64_t *ids, uint32_t count, uint32_t shard_count, uint8_t *ret_picks)
{
	assert(count > 0 && count <= MT_GATEWAYS_MAX);
	assert(shard_count > 0 && shard_count <= CLEAVE_SHARDS_MAX);
	memset(ret_picks, ASSIGN_NONE, shard_count);
	assign_rest(ids, count, shard_count, ret_picks);
}

uint32_t
mt_assign_undrained(const uint64_t *ids, uint32_t count, const struct mt_drained *drained,
    uint32_t shard_count, uint8_t *ret_picks)
{
	uint64_t all[2 * MT_GATEWAYS_MAX]; /* those that take shards, then those that are drained */
	uint8_t index_of[MT_GATEWAYS_MAX];
	uint32_t taker_count = 0;

	assert(count > 0 && count <= MT_GATEWAYS_MAX);
	assert(shard_count > 0 && shard_count <= CLEAVE_SHARDS_MAX);
	assert(drained->count <= MT_GATEWAYS_MAX);
	for (uint32_t i = 0; i < count; i++) {
		if (mt_drained_has(drained, ids[i]))
			continue;
		all[taker_count] = ids[i];
		index_of[taker_count++] = (uint8_t)i;
	}
	if (taker_count == 0) {
		mt_assign(ids, count, shard_count, ret_picks);
		return count;
	}
	memcpy(all + taker_count, drained->ids, drained->count * sizeof(all[0]));
	memset(ret_picks, ASSIGN_NONE, shard_count);
	assign_rest(all, taker_count + drained->count, shard_count, ret_picks);
	for (uint32_t i = 0; i < shard_count; i++) {
		if (ret_picks[i] >= taker_count)
			ret_picks[i] = ASSIGN_NONE;
	}
	assign_rest(all, taker_count, shard_count, ret_picks);
	for (uint32_t i = 0; i < shard_count; i++)
		ret_picks[i] = index_of[ret_picks[i]];
	return taker_count;
}

void
mt_assign_placed(const uint64_t *ids, uint32_t count, const struct mt_drained *drained,
    uint32_t taker_count, const struct mt_placed *placed, uint32_t shard_count, uint8_t *picks)
{
	assert(count > 0 && taker_count > 0 && taker_count <= count);
	for (uint32_t i = 0; i < placed->count && placed->shards[i].shard < shard_count; i++) {
		uint64_t id = placed->shards[i].gateway_id;

		if (taker_count < count && mt_drained_has(drained, id))
			continue;
		for (uint32_t k = 0; k < count; k++) {
			if (ids[k] == id)
				picks[placed->shards[i].shard] = (uint8_t)k;
		}
	}
}

/* ---- a gateway is drained ---- */

enum mt_drain_state
mt_drain_state(bool is_marked, uint32_t owned_count)
{
	if (!is_marked)
		return MT_DRAIN_SERVING;
	return owned_count > 0 ? MT_DRAIN_DRAINING : MT_DRAIN_DRAINED;
}

const char *
mt_drain_state_name(enum mt_drain_state state)
{
	static const char *const names[MT_DRAIN_STATE_NR] = { "serving", "draining", "drained" };

	assert(state < MT_DRAIN_STATE_NR);
	return names[state];
}

uint32_t
mt_drain_next(const enum mt_drain_shard *shards, uint32_t count)
{
	uint32_t next = count;
	bool is_any_on_its_way = false;

	assert(shards != NULL);
	for (uint32_t i = count; i-- > 0;) {
		if (shards[i] == MT_DRAIN_HELD_IDLE)
			return i;
		if (shards[i] == MT_DRAIN_HELD)
			next = i;
		is_any_on_its_way = is_any_on_its_way || shards[i] == MT_DRAIN_ON_ITS_WAY;
	}
	return is_any_on_its_way ? count : next;
}
