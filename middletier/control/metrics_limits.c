/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics_limits.c -- what ports held for the limits of volumes, for monitors and for `cleave status`
 *
 * A client that keeps its volume's limits waits by itself, and no gateway sees that: its own statistics have it
 * (limit_waits, limit_wait_ns).
 */
#include "control/metrics_limits.h"

#include <errno.h>

#include "base/check.h"
#include "base/latency.h"
#include "base/metrics.h"
#include "base/num.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "common/alloc.h"
#include "common/port.h"
#include "port/port_status.h"
#include "port/throttle.h"

static const struct metric_member told_members[] = {
	METRIC_MEMBER(struct mt_throttle_told, held_count, "qos_held", "count",
	    "requests of the volume that wait for its limits now", METRIC_GAUGE),
	METRIC_MEMBER(struct mt_throttle_told, waited_count, "qos_waited", "count",
	    "requests of the volume that have waited for its limits", METRIC_COUNTER),
	METRIC_MEMBER(struct mt_throttle_told, waited_ns, "qos_wait_ns", "ns",
	    "how long they waited", METRIC_COUNTER),
	METRIC_MEMBER(struct mt_throttle_told, refused_count, "qos_refused", "count",
	    "requests of the volume answered BUSY: enough of its were held", METRIC_COUNTER),
};

static void
write_all(FILE *out, const struct mt_gateway *gateway)
{
	struct latency value = { .sum_ns = 0 };
	struct metric_object object = { .values = &value };

	for (uint32_t i = 0; i < gateway->port_count; i++)
		latency_read(&value, &gateway->ports[i].hops.qos_wait);
	latency_print(out, "cleave_gateway_qos_wait",
	    "how long requests were held for their volume's limits, all ports together", &object,
	    1);
	value = (struct latency){ .sum_ns = 0 };
	for (uint32_t i = 0; i < gateway->port_count; i++)
		latency_read(&value, &gateway->ports[i].hops.share_wait);
	latency_print(out, "cleave_gateway_share_wait",
	    "how long requests were held for those of other volumes, all ports together", &object,
	    1);
}

int
mt_metrics_limits(FILE *out, const struct mt_ask *ask)
{
	struct metric_object *objects =
	    mt_calloc((size_t)ask->gateway->port_count * MT_THROTTLE_TOLD_MAX, sizeof(*objects));
	uint32_t count = 0;

	if (objects == NULL)
		return -ENOMEM;
	write_all(out, ask->gateway);
	for (uint32_t i = 0; i < ask->gateway->port_count; i++) {
		const struct mt_port_status *status = &ask->legs[i].status;

		for (uint32_t k = 0; k < status->told_count; k++) {
			objects[count].values = &status->told[k];
			metric_label(&objects[count], "volume", status->told[k].name);
			metric_label_u64(&objects[count++], "port", i);
		}
	}
	metrics_write(out, "cleave_gateway_volume", told_members, NUM_COUNT(told_members), objects,
	    count);
	mt_free(objects);
	return 0;
}

json_t *
mt_json_limits(const struct mt_throttle_told *told, uint32_t count)
{
	json_t *list = json_array();

	assert(told != NULL || count == 0);
	for (uint32_t i = 0; i < count; i++) {
		json_array_append_new(list,
		    json_pack("{s:s, s:I, s:I, s:I, s:I}", "volume", told[i].name, "held",
			(json_int_t)told[i].held_count, "waited", (json_int_t)told[i].waited_count,
			"wait_ms", (json_int_t)(told[i].waited_ns / NUM_MS(1)), "refused",
			(json_int_t)told[i].refused_count));
	}
	return list;
}
