/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view_worker.c -- see view_worker.h
 *
 * Each port is told of one port of each gateway that lives: that with its own number, modulo how many those have. So where
 * all have as many the jobs of a gateway are spread over all ports of the others. Which of them has room is asked there,
 * when there is something to do (merge/merge_away.h).
 */
#include "cluster/view_worker.h"

#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "cluster/gateway_state.h"
#include "cluster/member.h"
#include "common/port.h"
#include "merge/merge_away.h"
#include "port/port_work.h"

static void
workers_make(const struct mt_member *member, uint32_t index, struct mt_away_names *ret_names)
{
	uint64_t own = member->gateway->options.gateway_id;

	assert(member->peer_count <= MT_GATEWAYS_MAX);
	memset(ret_names, 0, sizeof(*ret_names));
	for (uint32_t i = 0; i < member->peer_count; i++) {
		const struct mt_member_peer *peer = &member->peers[i];

		if (peer->gateway_id == own || peer->port_count == 0)
			continue;
		memcpy(ret_names->addresses[ret_names->count++],
		    peer->ports[index % peer->port_count], sizeof(ret_names->addresses[0]));
	}
}

void
mt_view_workers_tell(const struct mt_member *member)
{
	struct mt_gateway *gateway = member->gateway;
	struct mt_away_names names;

	if (!gateway->settings.has_offload)
		return;
	for (uint32_t i = 0; i < gateway->port_count; i++) {
		workers_make(member, i, &names);
		mt_port_work_names(&gateway->ports[i], &names);
	}
}
