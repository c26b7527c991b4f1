/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page_json.c -- see page_json.h
 *
 * Nothing is asked of other gateways: of them there is what the metadata store says, and "unknown" names those whose
 * judgement is not here. A NULL from jansson is out of memory; its packers pass it on.
 */
#include "page/page_json.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/build_info.h"
#include "base/check.h"
#include "base/metrics.h"
#include "base/num.h"
#include "base/sm.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "common/alloc.h"
#include "common/event.h"
#include "common/metric.h"
#include "common/port.h"
#include "control/control_answer.h"
#include "control/control_events.h"
#include "control/control_health.h"
#include "control/control_rates.h"
#include "control/control_rebalance.h"
#include "control/metrics.h"
#include "health/health.h"
#include "health/health_watch.h"
#include "page/page_volumes.h"

#define PAGE_SCHEMA 1 /* grows when a member goes, or means something else; page.js knows it, too */

/* A member that could not be made takes all with it. */
static int
put(json_t *object, const char *name, json_t *value)
{
	return value == NULL ? -1 : json_object_set_new(object, name, value);
}

/* A NULL of @from has no members. */
static json_t *
taken(json_t *from, const char *name)
{
	json_t *value = json_incref(json_object_get(from, name));

	json_decref(from);
	return value;
}

static json_t *
page_health(const struct mt_ask *ask)
{
	struct mt_health *health = mt_calloc(1, sizeof(*health));
	json_t *value;

	if (health == NULL)
		return NULL;
	mt_health_judge(ask->gateway, ask, health);
	mt_health_watch_date(ask->gateway, health);
	value = taken(mt_json_health(ask, health), "health");
	mt_free(health);
	return value;
}

static json_t *
page_silent(const struct mt_ask *ask)
{
	json_t *ports = json_array();

	for (uint32_t i = 0; ask->silent_count > 0 && i < ask->gateway->port_count; i++) {
		if (!ask->legs[i].is_answered)
			json_array_append_new(ports, json_integer(i));
	}
	return ports;
}

/* Gateways that judge for themselves. */
static json_t *
page_unknown(const struct mt_gateway *gateway)
{
	json_t *ids = json_array();
	char id[17];

	assert(gateway->member.peer_count <= MT_GATEWAYS_MAX);
	for (uint32_t i = 0; i < gateway->member.peer_count; i++) {
		uint64_t peer = gateway->member.peers[i].gateway_id;

		(void)snprintf(id, sizeof(id), "%016" PRIx64, peer);
		if (peer != gateway->options.gateway_id)
			json_array_append_new(ids, json_string(id));
	}
	return json_pack("{s:o, s:s}", "gateways", ids, "text",
	    json_array_size(ids) == 0
		? ""
		: "Not known here: what the other gateways judge, and what their shards wait for. "
		  "cleave status asks them all.");
}

static json_t *
page_counters(const struct mt_gateway *gateway)
{
	static const enum mt_metric shown[] = { MT_METRIC_writes, MT_METRIC_write_bytes,
		MT_METRIC_stored_bytes, MT_METRIC_reads, MT_METRIC_read_bytes,
		MT_METRIC_copies_made, MT_METRIC_copied_bytes, MT_METRIC_requests_refused };
	json_t *counters = json_object();

	for (size_t k = 0; k < NUM_COUNT(shown); k++) {
		uint64_t sum = 0;

		for (uint32_t i = 0; i < gateway->port_count; i++)
			sum += metric_read(&gateway->ports[i].metrics[shown[k]]);
		json_object_set_new(counters, mt_metric_members[shown[k]].info.name,
		    json_integer((json_int_t)sum));
	}
	return counters;
}

static json_t *
page_oldest_write(const struct mt_ask *ask)
{
	uint64_t oldest_ns = 0;

	for (uint32_t i = 0; i < ask->gateway->port_count; i++) {
		const struct mt_port_status *status = &ask->legs[i].status;

		for (uint32_t k = 0; status->shards != NULL && k < status->shard_count; k++)
			oldest_ns = num_max(oldest_ns, status->shards[k].write_age_ns);
	}
	return json_integer((json_int_t)(oldest_ns / NUM_MS(1)));
}

/* The last ones, newest first. */
static json_t *
page_events(const struct mt_gateway *gateway)
{
	struct mt_event *events = mt_calloc(MT_PAGE_EVENTS_MAX, sizeof(*events));
	uint64_t now_ns = loop_now_ns(gateway->options.loop), total = 0;
	json_t *list = json_array();
	uint32_t count;

	if (events == NULL) {
		json_decref(list);
		return NULL;
	}
	/* Numbers are given in order, from 1 on: as many as there were is the last one. */
	for (uint32_t i = 0; i < CLEAVE_EVENT_CODE_NR; i++)
		total += mt_events_count(gateway->shared.events, (enum cleave_event_code)i);
	count = mt_events_read(gateway->shared.events,
	    total - num_min(total, (uint64_t)MT_PAGE_EVENTS_MAX), events, MT_PAGE_EVENTS_MAX);
	while (count-- > 0)
		json_array_append_new(list, mt_json_event(&events[count], now_ns));
	mt_free(events);
	return list;
}

static json_t *
page_head(const struct mt_ask *ask)
{
	const struct mt_gateway *gateway = ask->gateway;
	uint64_t now_ns = loop_now_ns(gateway->options.loop);
	char cluster[17], id[17], boot[17];
	uint32_t first;

	(void)snprintf(cluster, sizeof(cluster), "%016" PRIx64, gateway->options.cluster_id);
	(void)snprintf(id, sizeof(id), "%016" PRIx64, gateway->options.gateway_id);
	(void)snprintf(boot, sizeof(boot), "%016" PRIx64, gateway->options.boot_id);
	assert(now_ns >= gateway->started_ns);
	return json_pack(
	    "{s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:i, s:I, s:b, s:{s:i}, s:I, s:I}", "schema",
	    PAGE_SCHEMA, "version", build_info_version(), "commit", build_info_commit(), "cluster",
	    cluster, "gateway", id, "boot", boot, "state", sm_state_name(&gateway->sm), "uptime_s",
	    (json_int_t)((now_ns - gateway->started_ns) / NUM_S(1)), "level",
	    (int)gateway->cluster.level, "time_ms", (json_int_t)(now_ns / NUM_MS(1)), "partial",
	    ask->silent_count > 0, "shards", "count", (int)gateway->cluster.shard_count,
	    "volume_count", (json_int_t)mt_volumes_live_count(&gateway->volumes), "trash_count",
	    (json_int_t)mt_volumes_trash(&gateway->volumes, &first));
}

json_t *
mt_page_json(const struct mt_ask *ask)
{
	const struct mt_gateway *gateway = ask->gateway;
	json_t *page = page_head(ask);

	assert(ask->left_count == 0);
	if (put(page, "silent_ports", page_silent(ask)) == 0 &&
	    put(page, "health", page_health(ask)) == 0 &&
	    put(page, "unknown", page_unknown(gateway)) == 0 &&
	    put(page, "nodes", mt_json_nodes(gateway, ask)) == 0 &&
	    put(page, "gateways", mt_json_gateways(gateway)) == 0 &&
	    put(page, "rebalance", taken(mt_json_rebalance(ask), "rebalance")) == 0 &&
	    put(page, "volumes", mt_page_volumes(gateway)) == 0 &&
	    put(page, "waits", mt_page_waits(ask)) == 0 &&
	    put(page, "trash", mt_page_trash(gateway)) == 0 &&
	    put(page, "counters", page_counters(gateway)) == 0 &&
	    put(page, "rates", mt_json_rates(ask, MT_PAGE_RATES_MAX)) == 0 &&
	    put(page, "latency_us", mt_json_latency(ask)) == 0 &&
	    put(page, "oldest_write_ms", page_oldest_write(ask)) == 0 &&
	    put(page, "events", page_events(gateway)) == 0)
		return page;
	json_decref(page);
	return NULL;
}
