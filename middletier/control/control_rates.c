/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_rates.c -- rates: what this gateway has answered of each of its busiest volumes
 *
 *	{"op":"rates"}
 *	{"boot":ID,"at_ms":N,"rates":[{"volume":"v","read":{"requests":N,"errors":N,"bytes":N,"took_us":N},
 *	    "write":{...},"direct":{"requests":N,"bytes":N},"held":N,"held_us":N,"qos":{...}}, ...],"latency_us":{"read_p50":N,"read_p99":N,"write_p50":N,"write_p99":N},
 *	    "hot":{"hits":N,"misses":N,"peeks":N}, "index":{"reads":N,"waits":N}}
 *
 * Counters only grow while "boot" is the same and a volume is in the list. at_ms is the gateway's own clock, from any
 * moment on. The last of the list, volume "", is all others together. "direct" are reads that clients say
 * that they have made at storage nodes, and no others count them. "held" are requests that
 * waited for limits or shares before they began, and for how long. Latencies are the last minute's.
 */
#include "control/control_rates.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "base/check.h"
#include "base/latency.h"
#include "base/metrics.h"
#include "base/num.h"
#include "catalog/json.h"
#include "catalog/qos.h"
#include "catalog/volume_table.h"
#include "cleave/loop.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "common/alloc.h"
#include "common/metric.h"
#include "common/port.h"
#include "control/control_request.h"
#include "control/rate_list.h"
#include "session/rates.h"

static json_t *
json_count(const struct mt_rate_count *count)
{
	return json_pack("{s:I, s:I, s:I, s:I}", "requests", (json_int_t)count->requests, "errors",
	    (json_int_t)count->errors, "bytes", (json_int_t)count->bytes, "took_us",
	    (json_int_t)(count->took_ns / NUM_US(1)));
}

/* A row, with the limits that its volume has now. */
static json_t *
json_rate(struct mt_gateway *gateway, const struct mt_rate *rate)
{
	const struct mt_volume_entry *entry = mt_volumes_by_name(&gateway->volumes, rate->name);
	json_t *object = json_pack("{s:s, s:o, s:o, s:{s:I, s:I}, s:I, s:I}", "volume", rate->name,
	    "read", json_count(&rate->counts[MT_RATE_READ]), "write",
	    json_count(&rate->counts[MT_RATE_WRITE]), "direct", "requests",
	    (json_int_t)rate->direct_reads, "bytes", (json_int_t)rate->direct_bytes, "held",
	    (json_int_t)rate->held, "held_us", (json_int_t)(rate->held_ns / NUM_US(1)));

	if (object != NULL && entry != NULL)
		(void)mt_json_put_qos(object, &entry->volume.limits); /* no memory: without */
	return object;
}

json_t *
mt_json_rates(const struct mt_ask *ask, uint32_t max)
{
	uint32_t count;
	struct mt_rate *rates = mt_rate_list(ask, max, &count);
	json_t *list = json_array();

	assert(rates != NULL || count == 0);
	for (uint32_t i = 0; i < count; i++)
		json_array_append_new(list, json_rate(ask->gateway, &rates[i]));
	mt_free(rates);
	return list;
}

json_t *
mt_json_latency(const struct mt_ask *ask)
{
	struct latency read = { 0 }, write = { 0 };

	for (uint32_t i = 0; i < ask->gateway->port_count; i++) {
		latency_read(&read, &ask->legs[i].status.read_minute);
		latency_read(&write, &ask->legs[i].status.write_minute);
	}
	return json_pack("{s:I, s:I, s:I, s:I}", "read_p50",
	    (json_int_t)(latency_quantile_ns(&read, 50) / NUM_US(1)), "read_p99",
	    (json_int_t)(latency_quantile_ns(&read, 99) / NUM_US(1)), "write_p50",
	    (json_int_t)(latency_quantile_ns(&write, 50) / NUM_US(1)), "write_p99",
	    (json_int_t)(latency_quantile_ns(&write, 99) / NUM_US(1)));
}

/* A counter of all ports together. */
static json_int_t
metric_sum(const struct mt_gateway *gateway, enum mt_metric metric)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < gateway->port_count; i++)
		sum += metric_read(&gateway->ports[i].metrics[metric]);
	return (json_int_t)sum;
}

/* Blocks that were looked for in the tables of hot blocks: which of them were there. */
static json_t *
json_hot(const struct mt_gateway *gateway)
{
	return json_pack("{s:I, s:I, s:I}", "hits", metric_sum(gateway, MT_METRIC_hot_hits),
	    "misses", metric_sum(gateway, MT_METRIC_hot_misses), "peeks",
	    metric_sum(gateway, MT_METRIC_hot_peeks));
}

/* Records that were read from nodes, and how often their places had to be asked for first. */
static json_t *
json_index(const struct mt_gateway *gateway)
{
	return json_pack("{s:I, s:I}", "reads", metric_sum(gateway, MT_METRIC_reads_from_node),
	    "waits", metric_sum(gateway, MT_METRIC_index_waits));
}

/* Bytes of runs: that our merges have made, of which others have executed some, and that merges of others' have made here. */
static json_t *
json_merges(const struct mt_gateway *gateway)
{
	return json_pack("{s:I, s:I, s:I}", "bytes",
	    metric_sum(gateway, MT_METRIC_flushed_bytes) +
		metric_sum(gateway, MT_METRIC_compacted_bytes),
	    "away", metric_sum(gateway, MT_METRIC_merged_away_bytes), "jobs",
	    metric_sum(gateway, MT_METRIC_jobs_bytes));
}

static void
rates_on_answer(struct mt_ask *ask, void *arg)
{
	struct mt_gateway *gateway = ask->gateway;
	char boot[17];

	assert(ask->kind == MT_ASK_RATES);
	(void)snprintf(boot, sizeof(boot), "%016" PRIx64, gateway->options.boot_id);
	mt_control_finish(arg,
	    json_pack("{s:s, s:I, s:o, s:o, s:o, s:o, s:o}", "boot", boot, "at_ms",
		(json_int_t)(loop_now_ns(gateway->options.loop) / NUM_MS(1)), "rates",
		mt_json_rates(ask, MT_RATES_BUSIEST_MAX), "latency_us", mt_json_latency(ask), "hot",
		json_hot(gateway), "index", json_index(gateway), "merges", json_merges(gateway)));
}

void
mt_control_rates(struct mt_control_request *request)
{
	char error[MT_ERROR_BYTES];
	int rc = reader_strict(request->in, NULL, 0, error);

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (rc != 0) {
		mt_control_fail(request, rc, error);
		return;
	}
	rc = mt_ask_ports(request->gateway, MT_ASK_RATES, NULL, rates_on_answer, request);
	if (rc != 0)
		mt_control_fail(request, rc, "the ports cannot be asked now");
}
