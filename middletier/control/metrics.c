/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics.c -- what a gateway counts and measures: names, and the text that monitors read
 *
 * A port's counters only grow. The rest is what the ports say of themselves when they are asked, which is
 * what `cleave status` shows. Of shards only those that are this gateway's are told: others tell theirs.
 */
#include <errno.h>

#include "base/check.h"
#include "base/metrics.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cleave/secure_options.h"
#include "cleave/split.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "common/alloc.h"
#include "common/event.h"
#include "common/metric.h"
#include "common/port.h"
#include "control/metrics.h"
#include "control/metrics_latency.h"
#include "control/metrics_limits.h"
#include "control/metrics_rates.h"
#include "control/metrics_room.h"
#include "health/health.h"
#include "port/port_status.h"

const struct metric_member mt_metric_members[MT_METRIC_NR] = {
#define MT_METRIC_MEMBER(name, unit, help)                                                         \
	[MT_METRIC_##name] = { { #name, unit, help, METRIC_COUNTER },                              \
		MT_METRIC_##name * sizeof(uint64_t), sizeof(uint64_t) },
	MT_METRIC_LIST(MT_METRIC_MEMBER)
#undef MT_METRIC_MEMBER
};

const struct metric_member mt_split_members[MT_SPLIT_NR] = {
#define SPLIT_MEMBER(name, unit, help)                                                             \
	METRIC_MEMBER(struct split_counters, name, #name, unit, help, METRIC_COUNTER),
	SPLIT_COUNTER_LIST(SPLIT_MEMBER)
#undef SPLIT_MEMBER
};

struct gateway_sample {
	uint64_t uptime_s, volume_count, shard_count, gateway_count;
};
#define SAMPLE(member, name, unit, help)                                                           \
	METRIC_MEMBER(struct gateway_sample, member, name, unit, help, METRIC_GAUGE)
static const struct metric_member gateway_members[] = {
	SAMPLE(uptime_s, "uptime_seconds", "seconds", "time since it began to serve"),
	SAMPLE(volume_count, "volumes", "count", "volumes of the cluster"),
	SAMPLE(shard_count, "shards", "count", "shards of the cluster"),
	SAMPLE(gateway_count, "gateways", "count", "gateways that live, as this one knows"),
};
#undef SAMPLE

struct key_sample {
	uint64_t days_left;
};
static const struct metric_member key_members[] = {
	METRIC_MEMBER(struct key_sample, days_left, "key_days_left", "days",
	    "until this gateway's key, or its authority's, expires; rounded down", METRIC_GAUGE),
};

struct event_sample {
	uint64_t count;
};
static const struct metric_member event_members[] = {
	METRIC_MEMBER(struct event_sample, count, "events", "count",
	    "what happened here, by code: see cleave events", METRIC_COUNTER),
};

struct health_sample {
	uint64_t count;
};
static const struct metric_member health_members[] = {
	METRIC_MEMBER(struct health_sample, count, "reasons", "count",
	    "reasons for its health not to be OK, by code: see cleave status", METRIC_GAUGE),
};

#define META(member, name, unit, help)                                                             \
	METRIC_MEMBER(struct meta_report, member, name, unit, help, METRIC_GAUGE)
static const struct metric_member meta_members[] = {
	META(unreachable_s, "unreachable_seconds", "seconds",
	    "for so long no request to the metadata store has been answered"),
	META(request_last_ns, "request_last_ns", "ns",
	    "how long its last answer about a lease took"),
	META(request_p99_ns, "request_p99_ns", "ns",
	    "99 of 100 of the last of these took so long or less"),
	META(database_bytes, "database_bytes", "bytes", "its database, at the member asked last"),
	META(quota_bytes, "quota_bytes", "bytes",
	    "a database so large takes no writes: every gateway stops"),
};
#undef META

#define PORT(member, name, unit, help)                                                             \
	METRIC_MEMBER(struct mt_port_status, member, name, unit, help, METRIC_GAUGE)
static const struct metric_member port_members[] = {
	PORT(session_count, "sessions_open", "count", "client queue pairs that are open"),
	PORT(receives_free, "receives_free", "count", "receives that nobody holds"),
	PORT(ring_count, "rings", "count", "shards here: each has a ring in the device memory"),
	PORT(ring_max, "rings_max", "count", "shards that --device-memory has room for at once"),
	PORT(short_count, "shards_short", "count",
	    "shards to be taken over here that find no room: nobody serves them"),
	PORT(run_index_bytes, "run_index_bytes", "bytes", "indexes of runs in memory"),
	PORT(hot_bytes, "hot_bytes", "bytes", "blocks in the table of hot blocks"),
	PORT(hot_bytes_max, "hot_bytes_max", "bytes", "blocks that --hot-bytes has room for there"),
};
#undef PORT

#define SHARD(member, name, unit, help)                                                            \
	METRIC_MEMBER(struct mt_shard_status, member, name, unit, help, METRIC_GAUGE)
#define SHARD_COUNTER(member, name, unit, help)                                                    \
	METRIC_MEMBER(struct mt_shard_status, member, name, unit, help, METRIC_COUNTER)
const struct metric_member mt_shard_members[] = {
	SHARD(is_serving, "serving", "bool", "1 while clients are served"),
	SHARD(is_short, "short", "bool", "1 while it finds no room on its port: nobody serves it"),
	SHARD(epoch, "epoch", "count", "of its present owner"),
	SHARD(extent_count, "extents", "count", "extents, all kinds"),
	SHARD(log_extent_count, "log_extents", "count", "extents of the log"),
	SHARD(run_extent_count, "run_extents", "count", "extents of runs"),
	SHARD(lacking_count, "extents_lacking", "count", "extents with fewer good copies than due"),
	SHARD(leaving_count, "extents_leaving", "count",
	    "extents with a copy at a node that drains, to be moved"),
	SHARD(orphan_count, "orphans_waiting", "count",
	    "copies that no manifest names, not deleted yet"),
	SHARD(held_count, "orphans_held", "count",
	    "of those, held back: enough were deleted for now"),
	SHARD_COUNTER(request_count, "requests", "count",
	    "reads and changes answered here, since this gateway has run"),
	SHARD_COUNTER(request_bytes, "request_bytes", "bytes", "plain bytes of those"),
	SHARD(log_bytes, "log_bytes", "bytes", "length of the log"),
	SHARD(index_blocks, "index_blocks", "count", "blocks whose newest version is in the log"),
	SHARD(index_bytes, "index_bytes", "bytes", "memory of their index"),
	SHARD(chunk_count, "chunks", "count", "chunks of 64 MiB in which something was written"),
	SHARD(chunk_bytes, "chunk_bytes", "bytes", "of index_bytes: chunks and runs, not layers"),
	SHARD(ring_bytes, "ring_bytes", "bytes", "device memory for the log's newest part"),
	SHARD(run_count, "runs", "count", "runs"),
	SHARD(run_bytes, "run_bytes", "bytes", "stored bytes in runs, one copy"),
	SHARD(run_live_bytes, "run_live_bytes", "bytes", "of those not written over since, about"),
	SHARD(run_extent_bytes, "run_extent_bytes", "bytes", "of the extents that runs are in"),
};
#undef SHARD
#undef SHARD_COUNTER
const uint32_t mt_shard_member_count = NUM_COUNT(mt_shard_members);

static const struct metric_member link_members[] = {
	METRIC_MEMBER(struct mt_link_status, is_up, "up", "bool",
	    "1 while the port has a queue pair to it", METRIC_GAUGE),
};

#define NODE(member, name, unit, help)                                                             \
	METRIC_MEMBER(struct mt_link_status, member, name, unit, help, METRIC_GAUGE)
static const struct metric_member node_members[] = {
	NODE(slots_total, "slots", "count", "slots of its disk"),
	NODE(slots_free, "slots_free", "count", "slots without an extent, as last heard"),
	NODE(slot_bytes, "slot_bytes", "bytes", "of a slot"),
};
#undef NODE

/* ---- objects ---- */

static void
write_gateway(FILE *out, const struct mt_gateway *gateway)
{
	struct gateway_sample sample = {
		.uptime_s = (loop_now_ns(gateway->options.loop) - gateway->started_ns) / NUM_S(1),
		.volume_count = mt_volumes_live_count(&gateway->volumes),
		.shard_count = gateway->cluster.shard_count,
		.gateway_count = gateway->member.peer_count,
	};
	struct metric_object object = { .values = &sample };

	assert(loop_now_ns(gateway->options.loop) >= gateway->started_ns);
	metrics_write(out, "cleave_gateway", gateway_members, NUM_COUNT(gateway_members), &object,
	    1);
}

/* Every code, so that an alarm on one of them is known to look at something. */
static int
write_health(FILE *out, const struct mt_gateway *gateway, const struct mt_ask *ask)
{
	struct metric_object objects[CLEAVE_HEALTH_CODE_NR] = { 0 };
	struct health_sample samples[CLEAVE_HEALTH_CODE_NR] = { 0 };
	struct mt_health *health = mt_calloc(1, sizeof(*health));

	assert(ask->gateway == gateway);
	if (health == NULL)
		return -ENOMEM;
	mt_health_judge(gateway, ask, health);
	mt_metrics_write_room(out, ask, &health->room);
	for (uint32_t i = 0; i < health->count; i++)
		samples[health->reasons[i].code].count++;
	for (uint32_t i = 0; i < CLEAVE_HEALTH_CODE_NR; i++) {
		const struct cleave_health_info *info = health_info((enum cleave_health_code)i);

		objects[i].values = &samples[i];
		metric_label(&objects[i], "code", info->name);
		metric_label(&objects[i], "level", health_level_name(info->level));
	}
	metrics_write(out, "cleave_gateway_health", health_members, NUM_COUNT(health_members),
	    objects, CLEAVE_HEALTH_CODE_NR);
	mt_free(health);
	return 0;
}

static void
write_events(FILE *out, const struct mt_gateway *gateway)
{
	struct metric_object objects[CLEAVE_EVENT_CODE_NR] = { 0 };
	struct event_sample samples[CLEAVE_EVENT_CODE_NR];

	assert(gateway->shared.events != NULL);
	for (uint32_t i = 0; i < CLEAVE_EVENT_CODE_NR; i++) {
		enum cleave_event_code code = (enum cleave_event_code)i;

		samples[i].count = mt_events_count(gateway->shared.events, code);
		objects[i].values = &samples[i];
		metric_label(&objects[i], "code", event_info(code)->name);
		metric_label(&objects[i], "level", event_level_name(event_info(code)->level));
	}
	metrics_write(out, "cleave_gateway", event_members, NUM_COUNT(event_members), objects,
	    CLEAVE_EVENT_CODE_NR);
}

static void
write_key(FILE *out, const struct mt_gateway *gateway)
{
	struct key_sample sample;
	struct metric_object object = { .values = &sample };

	if (gateway->revoked.key == NULL)
		return;
	sample.days_left = secure_days_left(split_key_expires_s(gateway->revoked.key));
	metrics_write(out, "cleave_gateway", key_members, NUM_COUNT(key_members), &object, 1);
}

/* A store in a directory has nothing to tell. */
static void
write_meta(FILE *out, const struct mt_gateway *gateway)
{
	struct meta *meta = gateway->options.meta;
	struct meta_report report;
	struct metric_object object = { .values = &report };

	if (meta->ops->report == NULL)
		return;
	meta->ops->report(meta, &report);
	metrics_write(out, "cleave_gateway_meta", meta_members, NUM_COUNT(meta_members), &object,
	    1);
}

static void
write_ports(FILE *out, const struct mt_gateway *gateway, const struct mt_ask *ask)
{
	struct metric_object counters[MT_PORTS_MAX] = { 0 }, gauges[MT_PORTS_MAX] = { 0 };
	struct metric_object splits[MT_PORTS_MAX] = { 0 };
	uint32_t split_count = 0;

	assert(ask->gateway == gateway);
	for (uint32_t i = 0; i < gateway->port_count; i++) {
		const struct mt_port *port = &gateway->ports[i];

		metric_label_u64(&counters[i], "port", i);
		splits[split_count] = gauges[i] = counters[i];
		counters[i].values = port->metrics;
		gauges[i].values = &ask->legs[i].status;
		if (port->split != NULL)
			splits[split_count++].values = split_port_counters(port->split);
	}
	metrics_write(out, "cleave_gateway", mt_metric_members, MT_METRIC_NR, counters,
	    gateway->port_count);
	metrics_write(out, "cleave_gateway", port_members, NUM_COUNT(port_members), gauges,
	    gateway->port_count);
	metrics_write(out, "cleave_gateway_split", mt_split_members, MT_SPLIT_NR, splits,
	    split_count);
}

static int
write_shards(FILE *out, const struct mt_gateway *gateway, const struct mt_ask *ask)
{
	struct metric_object *objects =
	    mt_calloc(num_max(gateway->cluster.shard_count, 1), sizeof(*objects));
	uint32_t count = 0;

	assert(ask->gateway == gateway);
	if (objects == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < gateway->port_count; i++) {
		const struct mt_port_status *status = &ask->legs[i].status;

		for (uint32_t k = 0; status->shards != NULL && k < status->shard_count; k++) {
			const struct mt_shard_status *shard = &status->shards[k];
			struct metric_object *object = &objects[count];

			if (shard->state == MT_SHARD_IDLE && !shard->is_short)
				continue;
			object->values = shard;
			metric_label_u64(object, "shard", shard->index);
			metric_label_u64(object, "port", i);
			count++;
		}
	}
	metrics_write(out, "cleave_gateway_shard", mt_shard_members, mt_shard_member_count, objects,
	    count);
	mt_free(objects);
	return 0;
}

static void
label_node(struct metric_object *object, const struct mt_link_status *link)
{
	assert(object->labels[0] == '\0');
	object->values = link;
	metric_label_u64(object, "node", link->node_id);
	metric_label(object, "address", link->config.address);
	metric_label(object, "domain", link->config.domain);
}

static uint32_t
links_count(const struct mt_ask *ask)
{
	uint32_t count = 0;

	assert(ask->gateway->port_count <= MT_PORTS_MAX);
	for (uint32_t i = 0; i < ask->gateway->port_count; i++)
		count += ask->legs[i].status.link_count;
	return count;
}

/* Up or not is between each port and each node; slots are the node's alone. */
static int
write_nodes(FILE *out, const struct mt_gateway *gateway, const struct mt_ask *ask)
{
	uint32_t link_count = 0, slots_count = 0;
	struct metric_object *links = mt_calloc(num_max(links_count(ask), 1), sizeof(*links));
	struct metric_object *slots =
	    mt_calloc(num_max(ask->legs[0].status.link_count, 1), sizeof(*slots));

	assert(ask->gateway == gateway);
	assert(ask->kind == MT_ASK_STATUS);
	for (uint32_t i = 0; links != NULL && slots != NULL && i < gateway->port_count; i++) {
		const struct mt_port_status *status = &ask->legs[i].status;

		for (uint32_t k = 0; status->links != NULL && k < status->link_count; k++) {
			const struct mt_link_status *link = &status->links[k];

			if (mt_node_is_gone(&link->config))
				continue;
			label_node(&links[link_count], link);
			metric_label_u64(&links[link_count++], "port", i);
			if (i == 0)
				label_node(&slots[slots_count++], link);
		}
	}
	metrics_write(out, "cleave_gateway_node", link_members, NUM_COUNT(link_members), links,
	    link_count);
	metrics_write(out, "cleave_gateway_node", node_members, NUM_COUNT(node_members), slots,
	    slots_count);
	mt_free(slots);
	mt_free(links);
	return links == NULL || slots == NULL ? -ENOMEM : 0;
}

int
mt_metrics_write(FILE *out, const struct mt_ask *ask)
{
	const struct mt_gateway *gateway = ask->gateway;
	int rc;

	assert(ask->left_count == 0 && gateway->port_count <= MT_PORTS_MAX);
	assert(ask->kind == MT_ASK_STATUS);
	write_gateway(out, gateway);
	write_key(out, gateway);
	write_meta(out, gateway);
	write_ports(out, gateway, ask);
	rc = mt_metrics_latency(out, ask);
	if (rc == 0)
		rc = mt_metrics_write_rates(out, ask);
	if (rc == 0)
		rc = mt_metrics_limits(out, ask);
	if (rc != 0)
		return rc;
	write_events(out, gateway);
	rc = write_health(out, gateway, ask);
	if (rc == 0)
		rc = write_shards(out, gateway, ask);
	if (rc == 0)
		rc = write_nodes(out, gateway, ask);
	metrics_write_end(out);
	return rc;
}
