/* SPDX-License-Identifier: Apache-2.0 */
/* control_waits.c -- what the gateway's shards wait for, as a control request asks (port/waits.c) */
#include "control/control_waits.h"

#include "base/check.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "port/port_status.h"
#include "port/waits.h"

json_t *
mt_json_waits(const struct mt_ask *ask)
{
	json_t *waits = json_array();

	assert(ask->kind == MT_ASK_STATUS && ask->left_count == 0);
	for (uint32_t i = 0; i < ask->gateway->port_count; i++) {
		const struct mt_port_status *status = &ask->legs[i].status;

		for (uint32_t k = 0; status->shards != NULL && k < status->shard_count; k++) {
			const struct mt_shard_status *shard = &status->shards[k];

			if (shard->wait == MT_WAIT_NONE || json_array_size(waits) >= MT_WAITS_MAX)
				continue;
			(void)json_array_append_new(waits,
			    json_pack("{s:I, s:s}", "shard", (json_int_t)shard->index, "text",
				mt_wait_text(shard->wait)));
		}
	}
	return json_pack("{s:o}", "waits", waits);
}
