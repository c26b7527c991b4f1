/* SPDX-License-Identifier: Apache-2.0 */
/* stall.c -- see stall.h */
#include "stall.h"
#include "base/check.h"
#include "middletier/cluster/gateway_state.h"
#include "middletier/cluster/member.h"
#include "middletier/common/port.h"
#include "middletier/common/shard.h"

static const struct mt_shard *
find_shard(const struct mt_gateway *gateway, uint32_t index)
{
	for (uint32_t i = 0; i < gateway->port_count; i++) {
		const struct mt_port *port = &gateway->ports[i];

		for (uint32_t n = 0; n < port->shard_count; n++)
			if (port->shards[n].index == index &&
			    port->shards[n].sm.state == MT_SHARD_SERVING)
				return &port->shards[n];
	}
	return NULL;
}

/* All are members, know each other, and have what shall be theirs. */
static bool
is_settled(const struct sim_cluster *cluster)
{
	for (uint32_t i = 0; i < cluster->options.gateway_count; i++) {
		const struct mt_gateway *gateway = cluster->gateways[i].gateway;

		if (gateway == NULL || gateway->member.gateway == NULL ||
		    gateway->member.sm.state != MT_MEMBER_UP || gateway->member.is_taking ||
		    gateway->member.peer_count != cluster->options.gateway_count)
			return false;
	}
	return true;
}

void
sim_stall_begin(struct sim_stall *stall, struct sim_cluster *cluster, bool is_disturbed)
{
	assert(cluster->options.gateway_count <= SIM_STALL_GATEWAYS_MAX);
	*stall = (struct sim_stall){ .is_on = true,
		.is_disturbed = is_disturbed || !is_settled(cluster),
		.cluster = cluster,
		.begun_ns = sim_world_now_ns(cluster->world) };
	/* Shards go back to a gateway that was replaced a moment before. */
	stall->is_disturbed |= cluster->installed_ns != 0 &&
	    stall->begun_ns < cluster->installed_ns + 4 * cluster->options.lease_ns;
	for (uint32_t i = 0; i < cluster->options.gateway_count && !stall->is_disturbed; i++) {
		struct sim_stall_gateway *own = &stall->gateways[i];

		own->gateway = cluster->gateways[i].gateway;
		own->lease = own->gateway->member.lease;
		for (uint32_t n = 0; n < SIM_STALL_SHARDS_MAX; n++) {
			const struct mt_shard *shard = find_shard(own->gateway, n);

			own->epochs[n] = shard == NULL ? 0 : shard->epoch;
		}
	}
}

static void
check_gateway(const struct sim_stall *stall, uint32_t index)
{
	const struct sim_stall_gateway *own = &stall->gateways[index];
	const struct mt_gateway *gateway = stall->cluster->gateways[index].gateway;

	if (gateway != own->gateway || gateway->member.sm.state != MT_MEMBER_UP ||
	    gateway->member.lease != own->lease)
		sim_cluster_fail(stall->cluster,
		    "gateway %u lost its lease while the metadata store's disk stalled", index + 1);
	for (uint32_t n = 0; n < SIM_STALL_SHARDS_MAX; n++) {
		const struct mt_shard *shard = find_shard(gateway, n);

		if (own->epochs[n] != 0 && (shard == NULL || shard->epoch != own->epochs[n]))
			sim_cluster_fail(stall->cluster,
			    "gateway %u stopped shard %u while the metadata store's disk stalled",
			    index + 1, n);
	}
}

void
sim_stall_end(struct sim_stall *stall)
{
	stall->is_on = false;
	if (stall->is_disturbed || stall->cluster->installed_ns >= stall->begun_ns)
		return;
	for (uint32_t i = 0; i < stall->cluster->options.gateway_count; i++)
		check_gateway(stall, i);
}
