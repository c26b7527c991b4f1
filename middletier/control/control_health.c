/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_health.c -- health: what is wrong, as this gateway sees it
 *
 *	{"health":{"gateway":ID,"level":"WARN","reasons":[{"code":"node-down","level":"WARN","object":"node 3",
 *	    "text":T,"for_ms":N,"means":T,"helps":T}, ...],"left_out":0,
 *	    "room":{"raw_total":N,"raw_free":N,"data_total":N,"data_free":N,"data_used":N,"volume_bytes":N},
 *	    "no_room":[{"volume":NAME,"waited":N,"refused":N,"last_ms":N}, ...],
 *	    "lately":{"hour_s":N,"hour_write_bytes":N,"hour_stored_bytes":N,"day_s":N,"day_gain_bytes":N},
 *	    "clients":{"span_ms":N,"reads":N,"read_bytes":N,"writes":N,"write_bytes":N},
 *	    "totals":{"sessions":N,"shards_serving":N,"extents":N,"extents_lacking":N,"extents_leaving":N,
 *	        "write_bytes":N,"stored_bytes":N},"latency":{"write":[N, ...],"read":[N, ...]}}}
 *
 * volume_bytes: of all volumes, as large as they say that they are. lately: what this gateway has seen since it started,
 * up to an hour and a day; clients' bytes are those at this gateway, the gain that of the cluster's data_used.
 *
 * sessions: connections that have a volume or a snapshot open; who only asks is none.
 *
 * clients: what they read and wrote at this gateway in the last ten seconds, as its looks have seen it; span_ms 0: nothing
 * is known yet.
 *
 * no_room: writes of a volume that waited for room, or were refused, since the ports know it; the last one so long ago.
 *
 * latency: how many requests of the last minute were in each bucket of base/latency.h. for_ms is there where it is
 * known, by the cause itself or by when health_watch.c saw it first. What a node has is as it was told last: each look
 * has them asked for the next one,
 * and so a node that is silent is found out although nobody writes.
 */
#include "control/control_health.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "base/check.h"
#include "base/latency.h"
#include "base/metrics.h"
#include "base/num.h"
#include "catalog/json.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "cluster/look.h"
#include "common/alloc.h"
#include "common/metric.h"
#include "common/port.h"
#include "control/control_request.h"
#include "health/client_rates.h"
#include "health/health.h"
#include "health/health_watch.h"
#include "health/room_history.h"
#include "port/port_status.h"

static json_t *
json_reason(const struct mt_health_reason *reason)
{
	const struct cleave_health_info *info = health_info(reason->code);
	json_t *object = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "code", info->name, "level",
	    health_level_name(info->level), "object", reason->object, "text", reason->text, "means",
	    info->means, "helps", info->helps);

	assert(reason->object[0] != '\0');
	if (object != NULL && reason->age_ns > 0)
		json_object_set_new(object, "for_ms",
		    json_integer((json_int_t)(reason->age_ns / NUM_MS(1))));
	return object;
}

/* Numbers that those who ask every gateway add up. */
static json_t *
json_totals(const struct mt_ask *ask)
{
	json_int_t sessions = 0, serving = 0, extents = 0, lacking = 0, leaving = 0;
	json_int_t written = 0, stored = 0;

	assert(ask->left_count == 0 && ask->gateway->port_count <= MT_PORTS_MAX);
	for (uint32_t i = 0; i < ask->gateway->port_count; i++) {
		const struct mt_port_status *status = &ask->legs[i].status;
		const uint64_t *metrics = ask->gateway->ports[i].metrics;

		sessions += status->opened_count;
		written += (json_int_t)metric_read(&metrics[MT_METRIC_write_bytes]);
		stored += (json_int_t)metric_read(&metrics[MT_METRIC_stored_bytes]);
		for (uint32_t k = 0; status->shards != NULL && k < status->shard_count; k++) {
			const struct mt_shard_status *shard = &status->shards[k];

			serving += shard->is_serving;
			extents += mt_shard_status_extents(shard);
			lacking += shard->lacking_count;
			leaving += shard->leaving_count;
		}
	}
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "sessions", sessions,
	    "shards_serving", serving, "extents", extents, "extents_lacking", lacking,
	    "extents_leaving", leaving, "write_bytes", written, "stored_bytes", stored);
}

static json_t *
json_buckets(const struct latency *latency)
{
	json_t *buckets = json_array();

	for (uint32_t i = 0; i < LATENCY_BUCKETS; i++)
		json_array_append_new(buckets, json_integer((json_int_t)latency->counts[i]));
	return buckets;
}

/* Buckets are told, for who asks every gateway adds them up: percentiles cannot be. */
static json_t *
json_latency(const struct mt_ask *ask)
{
	struct latency write = { .sum_ns = 0 }, read = { .sum_ns = 0 };

	assert(ask->gateway->port_count <= MT_PORTS_MAX);
	for (uint32_t i = 0; i < ask->gateway->port_count; i++) {
		latency_read(&write, &ask->legs[i].status.write_minute);
		latency_read(&read, &ask->legs[i].status.read_minute);
	}
	return json_pack("{s:o, s:o}", "write", json_buckets(&write), "read", json_buckets(&read));
}

static json_t *
json_room(const struct mt_gateway *gateway, const struct mt_room *room)
{
	uint64_t volume_bytes = 0;

	assert(room->data_used <= room->data_total);
	for (uint32_t i = 0; i < gateway->volumes.count; i++)
		volume_bytes += gateway->volumes.entries[i].volume.size_bytes; /* the trash, too */
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "raw_total", (json_int_t)room->raw_total,
	    "raw_free", (json_int_t)room->raw_free, "data_total", (json_int_t)room->data_total,
	    "data_free", (json_int_t)room->data_free, "data_used", (json_int_t)room->data_used,
	    "volume_bytes", (json_int_t)volume_bytes);
}

/* An entry for each volume and port: a volume's writes come to all of them, and who asks adds up. */
static json_t *
json_no_room(const struct mt_ask *ask)
{
	uint64_t now_ns = loop_now_ns(ask->gateway->options.loop);
	json_t *list = json_array();

	assert(ask->gateway->port_count <= MT_PORTS_MAX);
	for (uint32_t i = 0; i < ask->gateway->port_count; i++) {
		const struct mt_room_waits *waits = &ask->legs[i].status.room_waits;

		for (uint32_t k = 0; k < MT_ROOM_WAITS_MAX; k++) {
			const struct mt_room_wait *wait = &waits->volumes[k];

			if (wait->volume_id == 0)
				continue;
			json_array_append_new(list,
			    json_pack("{s:s, s:I, s:I, s:I}", "volume", wait->name, "waited",
				(json_int_t)wait->waited_count, "refused",
				(json_int_t)wait->refused_count, "last_ms",
				(json_int_t)((now_ns - num_min(wait->last_ns, now_ns)) /
				    NUM_MS(1))));
		}
	}
	return list;
}

static json_t *
json_lately(const struct mt_gateway *gateway)
{
	struct mt_room_rates rates;

	mt_health_watch_rates(gateway, &rates);
	return json_pack("{s:I, s:I, s:I, s:I, s:I}", "hour_s",
	    (json_int_t)(rates.hour_ns / NUM_S(1)), "hour_write_bytes",
	    (json_int_t)rates.hour_write_bytes, "hour_stored_bytes",
	    (json_int_t)rates.hour_stored_bytes, "day_s", (json_int_t)(rates.day_ns / NUM_S(1)),
	    "day_gain_bytes", (json_int_t)rates.day_gain_bytes);
}

static json_t *
json_clients(const struct mt_gateway *gateway)
{
	struct mt_client_sample grown;

	mt_health_watch_clients(gateway, &grown);
	return json_pack("{s:I, s:I, s:I, s:I, s:I}", "span_ms",
	    (json_int_t)(grown.at_ns / NUM_MS(1)), "reads", (json_int_t)grown.reads, "read_bytes",
	    (json_int_t)grown.read_bytes, "writes", (json_int_t)grown.writes, "write_bytes",
	    (json_int_t)grown.write_bytes);
}

json_t *
mt_json_health(const struct mt_ask *ask, const struct mt_health *health)
{
	const struct mt_gateway *gateway = ask->gateway;
	json_t *reasons = json_array();
	char id[17];

	assert(health->count <= MT_HEALTH_REASONS_MAX);
	(void)snprintf(id, sizeof(id), "%016" PRIx64, gateway->options.gateway_id);
	for (uint32_t i = 0; i < health->count; i++)
		json_array_append_new(reasons, json_reason(&health->reasons[i]));
	return json_pack("{s:{s:s, s:s, s:o, s:i, s:o, s:o, s:o, s:o, s:o, s:o}}", "health",
	    "gateway", id, "level", health_level_name(health->level), "reasons", reasons,
	    "left_out", (int)health->left_out, "room", json_room(gateway, &health->room), "lately",
	    json_lately(gateway), "clients", json_clients(gateway), "no_room", json_no_room(ask),
	    "totals", json_totals(ask), "latency", json_latency(ask));
}

/* By the ports that have answered within a second; that others have not is a reason. */
static void
health_on_ports(const struct mt_ask *ask, void *arg)
{
	struct mt_health *health = ask == NULL ? NULL : mt_calloc(1, sizeof(*health));

	if (health != NULL) {
		mt_health_judge(ask->gateway, ask, health);
		mt_health_watch_date(ask->gateway, health);
	}
	mt_control_finish(arg, health == NULL ? NULL : mt_json_health(ask, health));
	mt_free(health);
}

void
mt_control_health(struct mt_control_request *request)
{
	char error[MT_ERROR_BYTES];
	int rc = reader_strict(request->in, NULL, 0, error);

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (rc == 0) {
		(void)snprintf(error, sizeof(error), MT_CONTROL_NOT_NOW);
		rc = mt_look(&request->gateway->health_look, health_on_ports, request);
	}
	if (rc != 0)
		mt_control_fail(request, rc, error);
}
