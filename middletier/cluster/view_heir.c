/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view_heir.c -- see view_heir.h
 *
 *	the view, without us --mt_assign_undrained, mt_assign_placed--> a gateway for each shard --> that one's port
 *
 * It is what the others will reckon when our key is gone, from the same keys. Who joins or dies in between makes another
 * heir, which has to read more from nodes then: nothing else depends on it.
 */
#include "cluster/view_heir.h"

#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "catalog/drained_key.h"
#include "cluster/assign.h"
#include "cluster/gateway_state.h"
#include "cluster/member.h"
#include "cluster/view_drain.h"
#include "common/port.h"
#include "extent/head_push.h"
#include "port/port_mirror.h"

/* A gateway for each shard, if we were not. */
struct heirs_picked {
	const struct mt_member_peer *peers[MT_GATEWAYS_MAX]; /* the others, in the view's order */
	uint32_t count;                                      /* 0: nobody is there */
	uint8_t picks[CLEAVE_SHARDS_MAX];                    /* indexes of peers */
};

static void
heirs_pick(const struct mt_member *member, struct heirs_picked *ret_picked)
{
	uint64_t ids[MT_GATEWAYS_MAX], own = member->gateway->options.gateway_id;
	uint32_t shard_count = member->gateway->cluster.shard_count, count = 0, taker_count;
	uint8_t *picks = ret_picked->picks;
	struct mt_drained marks;

	assert(member->peer_count <= MT_GATEWAYS_MAX && shard_count <= CLEAVE_SHARDS_MAX);
	for (uint32_t i = 0; i < member->peer_count; i++) {
		if (member->peers[i].gateway_id == own || member->peers[i].port_count == 0)
			continue;
		ret_picked->peers[count] = &member->peers[i];
		ids[count++] = member->peers[i].gateway_id;
	}
	ret_picked->count = count;
	if (count == 0)
		return;
	mt_view_marks(member, ids, count, &marks);
	taker_count = mt_assign_undrained(ids, count, &marks, shard_count, picks);
	mt_assign_placed(ids, count, &marks, taker_count, &member->placed, shard_count, picks);
}

/* The index of @address in @heirs, where it is put if it is not there; MT_HEIR_NONE: there is no room. */
static uint8_t
heirs_add(struct mt_heirs *heirs, const char *address)
{
	for (uint32_t i = 0; i < heirs->count; i++) {
		if (strcmp(heirs->addresses[i], address) == 0)
			return (uint8_t)i;
	}
	if (heirs->count == MT_HEIRS_MAX)
		return MT_HEIR_NONE;
	memcpy(heirs->addresses[heirs->count], address, sizeof(heirs->addresses[0]));
	return (uint8_t)heirs->count++;
}

/* The heirs of port @index, which has the shards with its remainder, as each port of an heir has. */
static void
heirs_make(const struct mt_member *member, const struct heirs_picked *picked, uint32_t index,
    struct mt_heirs *ret_heirs)
{
	const struct mt_gateway *gateway = member->gateway;

	memset(ret_heirs, 0, sizeof(*ret_heirs));
	memset(ret_heirs->of, MT_HEIR_NONE, sizeof(ret_heirs->of));
	for (uint32_t shard = index; shard < gateway->cluster.shard_count && picked->count > 0;
	     shard += gateway->port_count) {
		const struct mt_member_peer *peer = picked->peers[picked->picks[shard]];

		ret_heirs->of[shard] = heirs_add(ret_heirs, peer->ports[shard % peer->port_count]);
	}
}

void
mt_heirs_tell(const struct mt_member *member)
{
	struct mt_gateway *gateway = member->gateway;
	struct heirs_picked picked;
	struct mt_heirs heirs;

	if (gateway->settings.mirror_bytes == 0)
		return;
	heirs_pick(member, &picked);
	for (uint32_t i = 0; i < gateway->port_count; i++) {
		heirs_make(member, &picked, i, &heirs);
		mt_port_mirror_heirs(&gateway->ports[i], &heirs);
	}
}
