/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view_lost.c -- gateways that lived, and are gone: were they taken out of use, or are they missed?
 *
 * One that was drained has no shards any more when it ends. Any other one, stopped or dead, leaves roots that name it,
 * and whoever takes those shards has read them so before: at least one gateway knows.
 */
#include "cluster/view_lost.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "catalog/drained_key.h"
#include "cleave/loop.h"
#include "cluster/gateway_state.h"
#include "cluster/member.h"
#include "common/event.h"

static bool
lost_has(const struct mt_member_peer *peers, uint32_t count, uint64_t gateway_id)
{
	for (uint32_t i = 0; i < count; i++) {
		if (peers[i].gateway_id == gateway_id)
			return true;
	}
	return false;
}

static void
lost_forget(struct mt_lost *lost, uint32_t index)
{
	assert(index < lost->count && lost->count <= MT_LOST_MAX);
	lost->count--;
	memmove(&lost->gateways[index], &lost->gateways[index + 1],
	    (lost->count - index) * sizeof(lost->gateways[0]));
}

static void
lost_add(struct mt_member *member, const struct mt_member_peer *peer)
{
	struct mt_lost *lost = &member->lost;
	struct mt_lost_gateway *gone;

	assert(peer->gateway_id != member->gateway->options.gateway_id);
	if (lost->count == MT_LOST_MAX)
		lost_forget(lost, 0);
	gone = &lost->gateways[lost->count++];
	*gone = (struct mt_lost_gateway){ .gateway_id = peer->gateway_id,
		.boot_id = peer->boot_id,
		.since_ns = loop_now_ns(member->gateway->options.loop) };
	memcpy(gone->address, peer->ports[0], sizeof(gone->address));
}

void
mt_lost_note(struct mt_member *member, const struct mt_member_peer *peers, uint32_t peer_count)
{
	uint64_t own_id = member->gateway->options.gateway_id;

	for (uint32_t i = member->lost.count; i-- > 0;) {
		if (lost_has(peers, peer_count, member->lost.gateways[i].gateway_id))
			lost_forget(&member->lost, i);
	}
	for (uint32_t i = 0; i < member->peer_count; i++) {
		if (member->peers[i].gateway_id != own_id &&
		    !lost_has(peers, peer_count, member->peers[i].gateway_id))
			lost_add(member, &member->peers[i]);
	}
}

static uint32_t
lost_root_count(const struct mt_member *member, const struct mt_lost_gateway *gone)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < member->gateway->cluster.shard_count; i++) {
		const struct mt_member_shard *shard = &member->shards[i];

		count += shard->has_root && !shard->is_released &&
		    shard->gateway_id == gone->gateway_id && shard->boot_id == gone->boot_id;
	}
	return count;
}

static void
lost_tell(struct mt_member *member, const struct mt_lost_gateway *gone, uint32_t shard_count)
{
	char object[MT_EVENT_OBJECT_BYTES];

	(void)snprintf(object, sizeof(object), "gateway %016" PRIx64, gone->gateway_id);
	if (shard_count > 0)
		mt_event(member->gateway->shared.events, gone->since_ns, CLEAVE_EVENT_GATEWAY_LOST,
		    object,
		    "gateway: %s at %s is gone (it has ended, stands still or is cut off), and had "
		    "shards=%" PRIu32,
		    object, gone->address, shard_count);
	else
		mt_event(member->gateway->shared.events, gone->since_ns, CLEAVE_EVENT_GATEWAY_LEFT,
		    object, "gateway: %s at %s has left", object, gone->address);
}

void
mt_lost_judge(struct mt_member *member)
{
	assert(member->shards != NULL && member->lost.count <= MT_LOST_MAX);
	for (uint32_t i = member->lost.count; i-- > 0;) {
		struct mt_lost_gateway *gone = &member->lost.gateways[i];
		uint32_t shard_count = gone->is_dead ? 0 : lost_root_count(member, gone);

		if (!gone->is_dead)
			lost_tell(member, gone, shard_count);
		gone->is_dead = gone->is_dead || shard_count > 0;
		if (!gone->is_dead || mt_drained_has(&member->drained, gone->gateway_id))
			lost_forget(&member->lost, i);
	}
}
