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

#include <stdbool.h>
#include <string.h>

#include "base/check.h"
#include "cluster/assign.h"
#include "cluster/gateway_state.h"
#include "cluster/member.h"
#include "common/alloc.h"
#include "common/port.h"
#include "extent/head_push.h"
#include "port/port_mirror.h"

/* Heirs as the ports were told of them, and as they are about to be. */
struct mt_member_heirs {
	struct mt_heirs ports[MT_PORTS_MAX], next;
	uint8_t picks[CLEAVE_SHARDS_MAX];
};

/* @peers: the others, in the view's order. Picks are indexes of it. Returns how many there are; 0: nobody's. */
static uint32_t
heirs_pick(const struct mt_member *member, const struct mt_member_peer **peers, uint8_t *picks)
{
	uint64_t ids[MT_GATEWAYS_MAX], own = member->gateway->options.gateway_id;
	uint32_t shard_count = member->gateway->cluster.shard_count, count = 0, taker_count;

	assert(member->peer_count <= MT_GATEWAYS_MAX);
	for (uint32_t i = 0; i < member->peer_count; i++) {
		if (member->peers[i].gateway_id == own || member->peers[i].port_count == 0)
			continue;
		peers[count] = &member->peers[i];
		ids[count++] = member->peers[i].gateway_id;
	}
	if (count == 0)
		return 0;
	taker_count = mt_assign_undrained(ids, count, &member->drained, shard_count, picks);
	mt_assign_placed(ids, count, &member->drained, taker_count, &member->placed, shard_count,
	    picks);
	return count;
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

/*
 * The heirs of port @index, which has the shards with its remainder, as each port of an heir has. @count peers were picked
 * from; 0: nobody is there.
 */
static void
heirs_make(const struct mt_member *member, const struct mt_member_peer *const *peers,
    uint32_t count, uint32_t index, struct mt_heirs *ret_heirs)
{
	const struct mt_gateway *gateway = member->gateway;

	memset(ret_heirs, 0, sizeof(*ret_heirs));
	memset(ret_heirs->of, MT_HEIR_NONE, sizeof(ret_heirs->of));
	for (uint32_t shard = index; shard < gateway->cluster.shard_count && count > 0;
	     shard += gateway->port_count) {
		const struct mt_member_peer *peer = peers[member->heirs->picks[shard]];

		ret_heirs->of[shard] = heirs_add(ret_heirs, peer->ports[shard % peer->port_count]);
	}
}

void
mt_heirs_tell(struct mt_member *member)
{
	struct mt_gateway *gateway = member->gateway;
	const struct mt_member_peer *peers[MT_GATEWAYS_MAX];
	uint32_t count;

	assert(gateway->port_count <= MT_PORTS_MAX);
	if (gateway->settings.mirror_bytes == 0)
		return;
	if (member->heirs == NULL)
		member->heirs = mt_calloc(1, sizeof(*member->heirs));
	if (member->heirs == NULL)
		return;
	count = heirs_pick(member, peers, member->heirs->picks);
	for (uint32_t i = 0; i < gateway->port_count; i++) {
		struct mt_heirs *next = &member->heirs->next;

		heirs_make(member, peers, count, i, next);
		if (memcmp(next, &member->heirs->ports[i], sizeof(*next)) == 0)
			continue;
		member->heirs->ports[i] = *next;
		mt_port_mirror_heirs(&gateway->ports[i], next);
	}
}

void
mt_heirs_fini(struct mt_member *member)
{
	mt_free(member->heirs);
	member->heirs = NULL;
}
