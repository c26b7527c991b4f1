/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_rebalance.c -- see control_rebalance.h
 *
 * A gateway answers for its own shards; `cleave cluster rebalance` asks every gateway. Nothing of it is in the metadata
 * store: a gateway that is started again does not go on, and that does no harm.
 */
#include "control/control_rebalance.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "base/reader.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "control/control_request.h"
#include "port/port_status.h"
#include "upkeep/rebalance.h"

json_t *
mt_json_rebalance(const struct mt_ask *ask)
{
	const struct mt_gateway *gateway = ask->gateway;
	struct mt_rebalance_status sum = { .is_on = false };
	char id[17];

	assert(ask->left_count == 0);
	for (uint32_t i = 0; i < gateway->port_count; i++) {
		const struct mt_rebalance_status *balance = &ask->legs[i].status.balance;

		sum.is_on |= balance->is_on;
		sum.is_stopped |= balance->is_stopped;
		sum.copy_count += balance->copy_count;
		sum.bytes += balance->bytes;
		if (sum.wait == MT_REBALANCE_NOTHING) {
			sum.wait = balance->wait;
			sum.wait_node_id = balance->wait_node_id;
		}
	}
	(void)snprintf(id, sizeof(id), "%016" PRIx64, gateway->options.gateway_id);
	return json_pack("{s:s, s:{s:b, s:b, s:I, s:I, s:s, s:I, s:I}}", "gateway", id, "rebalance",
	    "on", sum.is_on, "stopped", sum.is_stopped, "copies", (json_int_t)sum.copy_count,
	    "bytes", (json_int_t)sum.bytes, "waits", mt_rebalance_wait_name(sum.wait), "node",
	    (json_int_t)sum.wait_node_id, "rate",
	    (json_int_t)(num_min(gateway->options.repair_bytes_per_s, INT64_MAX / MT_PORTS_MAX) *
		gateway->port_count));
}

static void
rebalance_on_asked(struct mt_ask *ask, void *arg)
{
	mt_control_finish(arg, mt_json_rebalance(ask));
}

void
mt_control_rebalance(struct mt_control_request *request)
{
	static const struct {
		const char *name;
		enum mt_ask_kind kind;
	} actions[] = { { "show", MT_ASK_REBALANCE_LOOK }, { "start", MT_ASK_REBALANCE },
		{ "stop", MT_ASK_REBALANCE_END } };
	const char *action = NULL;
	char error[MT_ERROR_BYTES];
	const struct reader_member members[] = {
		{ "action", READER_TEXT, true, 0, sizeof("start") - 1, { .text = &action } },
	};
	int rc = reader_strict(request->in, members, NUM_COUNT(members), error);
	size_t i = 0;

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (rc != 0) {
		mt_control_fail(request, rc, error);
		return;
	}
	while (i < NUM_COUNT(actions) && strcmp(action, actions[i].name) != 0)
		i++;
	if (i == NUM_COUNT(actions)) {
		mt_control_refuse(request, -EINVAL, "action: '%s' is neither show, start nor stop",
		    action);
		return;
	}
	if (actions[i].kind != MT_ASK_REBALANCE_LOOK)
		mt_control_event(request, CLEAVE_EVENT_REBALANCE, "cluster",
		    "rebalance: %s by an operator",
		    actions[i].kind == MT_ASK_REBALANCE ? "begun" : "stopped");
	rc = mt_ask_ports(request->gateway, actions[i].kind, NULL, rebalance_on_asked, request);
	if (rc != 0)
		mt_control_fail(request, rc, MT_CONTROL_NOT_NOW);
}
