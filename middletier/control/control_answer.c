/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_answer.c -- what answers to control requests are made of
 *
 * Answers are built from copies that main holds, never from a port's memory but its metrics, which are
 * made to be read from outside.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/metrics.h"
#include "base/num.h"
#include "base/sm.h"
#include "catalog/volume_table.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "cluster/ask.h"
#include "cluster/assign.h"
#include "cluster/flatten.h"
#include "cluster/gateway_state.h"
#include "cluster/member.h"
#include "cluster/member_view.h"
#include "cluster/node_table.h"
#include "common/lease.h"
#include "common/metric.h"
#include "common/port.h"
#include "control/control_answer.h"
#include "control/metrics.h"
#include "control/metrics_limits.h"
#include "extent/extent_copies.h"
#include "port/port_status.h"
#include "upkeep/orphans.h"

/* A NULL from jansson is out of memory; its packers pass it on. */

/* ---- the map: where each shard is, or should be ---- */

/* Clients take as many addresses, of all gateways together. */
#define JSON_MAP_PORTS_MAX 64u

struct json_map {
	const char *addresses[JSON_MAP_PORTS_MAX];
	uint32_t count;
};

/* The number of @address, which is added when it is not known; 0 when there is no room. */
static uint32_t
json_map_port(struct json_map *map, const char *address)
{
	assert(map->count <= JSON_MAP_PORTS_MAX);
	for (uint32_t i = 0; i < map->count; i++) {
		if (strcmp(map->addresses[i], address) == 0)
			return i;
	}
	if (map->count == JSON_MAP_PORTS_MAX)
		return 0;
	map->addresses[map->count] = address;
	return map->count++;
}

static bool
json_is_ours(enum mt_shard_state state)
{
	assert(state < MT_SHARD_STATE_NR);
	return state != MT_SHARD_IDLE && state != MT_SHARD_CLAIMING && state != MT_SHARD_STOPPED;
}

/*
 * Ours when our port has claimed it; else its root's owner, while that lives; else whoever shall own it,
 * who keeps requests until it does. Its epoch is not known then: the old one makes clients ask again.
 */
static const char *
json_map_shard(const struct mt_gateway *gateway, const struct mt_shard_status *own, uint32_t index,
    uint32_t *ret_epoch)
{
	const struct mt_port *port = &gateway->ports[index % gateway->port_count];
	const struct mt_member *member = &gateway->member;
	const struct mt_member_shard *shard;
	const struct mt_member_peer *peer;

	assert(index < gateway->cluster.shard_count);
	assert(own == NULL || own->index == index);
	*ret_epoch = own == NULL ? 0 : own->epoch;
	if ((own != NULL && json_is_ours(own->state)) || member->shards == NULL)
		return port->address;
	shard = &member->shards[index];
	if (shard->has_root && shard->epoch > *ret_epoch)
		*ret_epoch = shard->epoch;
	if (shard->has_root && !shard->is_released &&
	    shard->gateway_id != gateway->options.gateway_id &&
	    mt_view_is_live(member, shard->gateway_id, shard->boot_id))
		return shard->address;
	peer = mt_view_pick(member, index);
	return peer == NULL || peer->gateway_id == gateway->options.gateway_id
	    ? port->address
	    : peer->ports[index % peer->port_count];
}

json_t *
mt_json_map(const struct mt_gateway *gateway, const struct mt_ask *ask)
{
	json_t *ports = json_array(), *port_of = json_array(), *epoch_of = json_array();
	uint32_t shard_count = gateway->cluster.shard_count;
	struct json_map map = { .count = 0 };

	assert(gateway->port_count > 0 && ask->gateway == gateway);
	assert(ask->left_count == 0 && shard_count > 0);
	for (uint32_t i = 0; i < gateway->port_count; i++)
		(void)json_map_port(&map, gateway->ports[i].address);
	for (uint32_t i = 0; i < shard_count; i++) {
		const struct mt_port_status *status = &ask->legs[i % gateway->port_count].status;
		uint32_t at = i / gateway->port_count, epoch, port;
		bool is_known = status->shards != NULL && at < status->shard_count;

		port = json_map_port(&map,
		    json_map_shard(gateway, is_known ? &status->shards[at] : NULL, i, &epoch));
		json_array_append_new(port_of, json_integer(port));
		json_array_append_new(epoch_of, json_integer(epoch));
	}
	/* Gateways that own nothing can be asked, too. */
	for (uint32_t i = 0; i < gateway->member.peer_count; i++)
		(void)json_map_port(&map, gateway->member.peers[i].ports[0]);
	for (uint32_t i = 0; i < map.count; i++)
		json_array_append_new(ports, json_string(map.addresses[i]));
	return json_pack("{s:i, s:o, s:o, s:o}", "shard_count", (int)shard_count, "ports", ports,
	    "port_of_shard", port_of, "epoch_of_shard", epoch_of);
}

/* ---- gateways ---- */

static json_t *
json_gateway(const struct mt_gateway *gateway, const struct mt_member_peer *peer)
{
	const struct mt_member *member = &gateway->member;
	uint64_t now_ns = loop_now_ns(gateway->options.loop),
		 lease_now_ns = mt_lease_now_ns(gateway->options.loop);
	bool is_self = peer->gateway_id == gateway->options.gateway_id;
	json_t *ports = json_array(), *object;
	uint32_t owned_count = 0, share_count = 0;
	const char *state;
	char boot[17], id[17];

	assert(peer->port_count > 0 && peer->port_count <= MT_PORTS_MAX);
	for (uint32_t i = 0; i < gateway->cluster.shard_count; i++) {
		const struct mt_member_shard *shard = &member->shards[i];

		owned_count += shard->has_root && !shard->is_released &&
		    shard->gateway_id == peer->gateway_id && shard->boot_id == peer->boot_id;
		share_count += mt_view_pick(member, i) == peer;
	}
	for (uint32_t i = 0; i < peer->port_count; i++)
		json_array_append_new(ports, json_string(peer->ports[i]));
	(void)snprintf(boot, sizeof(boot), "%016" PRIx64, peer->boot_id);
	(void)snprintf(id, sizeof(id), "%016" PRIx64, peer->gateway_id);
	state = mt_drain_state_name(
	    mt_drain_state(mt_drained_has(&member->drained, peer->gateway_id), owned_count));
	if (!mt_drained_has(&member->drained, peer->gateway_id) &&
	    mt_drained_has(&member->severed, peer->gateway_id))
		state = "severed";
	object = json_pack("{s:s, s:s, s:s, s:b, s:o, s:i, s:i, s:I, s:[i, i]}", "gateway", id,
	    "state", state, "boot", boot, "self", is_self, "ports", ports, "shards_owned",
	    (int)owned_count, "shards_share", (int)share_count, "seen_for_ms",
	    (json_int_t)((now_ns - peer->seen_ns) / NUM_MS(1)), "levels", (int)peer->level_min,
	    (int)peer->level_max);
	if (object != NULL && is_self && member->until_ns > lease_now_ns)
		json_object_set_new(object, "lease_left_ms",
		    json_integer((json_int_t)((member->until_ns - lease_now_ns) / NUM_MS(1))));
	return object;
}

/* Drained gateways that do not live. */
static json_t *
json_drained_away(const struct mt_member *member)
{
	json_t *away = json_array();

	assert(member->drained.count <= MT_GATEWAYS_MAX);
	for (uint32_t i = 0; i < member->drained.count; i++) {
		bool is_there = false;
		char id[17];

		for (uint32_t k = 0; k < member->peer_count && !is_there; k++)
			is_there = member->peers[k].gateway_id == member->drained.ids[i];
		(void)snprintf(id, sizeof(id), "%016" PRIx64, member->drained.ids[i]);
		if (!is_there)
			json_array_append_new(away, json_string(id));
	}
	return away;
}

json_t *
mt_json_gateways(const struct mt_gateway *gateway)
{
	json_t *gateways = json_array();

	assert(gateway->member.peer_count <= MT_GATEWAYS_MAX);
	for (uint32_t i = 0; i < gateway->member.peer_count; i++)
		json_array_append_new(gateways, json_gateway(gateway, &gateway->member.peers[i]));
	return json_pack("{s:s, s:I, s:o, s:o}", "member",
	    gateway->member.gateway == NULL ? "out" : sm_state_name(&gateway->member.sm),
	    "lease_ms", (json_int_t)(gateway->options.lease_ns / NUM_MS(1)), "gateways", gateways,
	    "drained_away", json_drained_away(&gateway->member));
}

/* The first port that has told of its links; the first of all, where none has. */
static const struct mt_port_status *
json_links(const struct mt_gateway *gateway, const struct mt_ask *ask)
{
	for (uint32_t i = 0; i < gateway->port_count; i++) {
		if (ask->legs[i].status.links != NULL)
			return &ask->legs[i].status;
	}
	return &ask->legs[0].status;
}

/* Up only when every port reaches it, of those that have answered. */
static const char *
json_link_state(const struct mt_gateway *gateway, const struct mt_ask *ask, uint32_t index)
{
	static const char *const names[MT_LINK_STATE_NR] = { "down", "connecting", "up" };
	enum mt_link_state worst = MT_LINK_UP;

	assert(index < MT_NODES_MAX);
	assert(ask->left_count == 0);
	for (uint32_t i = 0; i < gateway->port_count; i++) {
		const struct mt_port_status *status = &ask->legs[i].status;

		if (ask->silent_count > 0 && !ask->legs[i].is_answered)
			continue;
		if (status->links == NULL || index >= status->link_count)
			return names[MT_LINK_DOWN];
		if (status->links[index].state < worst)
			worst = status->links[index].state;
	}
	return names[worst];
}

static uint64_t
json_left_s(const struct mt_gateway *gateway, uint64_t until_ns)
{
	uint64_t now_ns = loop_now_ns(gateway->options.loop);

	return until_ns > now_ns ? (until_ns - now_ns) / NUM_S(1) + 1 : 0;
}

json_t *
mt_json_nodes(const struct mt_gateway *gateway, const struct mt_ask *ask)
{
	const struct mt_port_status *status = json_links(gateway, ask);
	json_t *nodes = json_array();

	assert(gateway->port_count > 0);
	assert(ask->left_count == 0 && ask->gateway == gateway);
	for (uint32_t i = 0; status->links != NULL && i < status->link_count; i++) {
		struct mt_link_status link = status->links[i];
		const struct mt_node_entry *entry;

		if (mt_node_is_gone(&link.config))
			continue;
		entry = mt_nodes_by_id(gateway, link.config.node_id);
		json_array_append_new(nodes,
		    json_pack(
			"{s:I, s:s, s:s, s:s, s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:b, s:i, s:s, s:i, "
			"s:I, s:s, s:s*}",
			"id", (json_int_t)link.node_id, "trouble", link.trouble, "address",
			link.config.address, "domain", link.config.domain, "state",
			json_link_state(gateway, ask, i), "read_only", link.is_read_only,
			"slots_total", (json_int_t)link.slots_total, "slots_free",
			(json_int_t)link.slots_free, "slots_reserved",
			(json_int_t)link.slots_reserved, "slots_share",
			(json_int_t)link.slots_share, "slot_bytes", (json_int_t)link.slot_bytes,
			"full", link.is_up && link.is_full, "level", (int)link.level, "member",
			entry == NULL ? "" : mt_node_state_name(link.config.state), "weight",
			(int)mt_node_weight(&link.config), "maintenance_s",
			(json_int_t)json_left_s(gateway, link.config.maintenance_until_ns), "note",
			entry == NULL ? "" : entry->node.note, "advertise",
			link.advertise[0] != '\0' ? link.advertise : NULL));
	}
	return nodes;
}

json_t *
mt_json_direct_nodes(const struct mt_gateway *gateway, const struct mt_ask *ask)
{
	const struct mt_port_status *status = json_links(gateway, ask);
	json_t *nodes = json_array();

	assert(ask->left_count == 0 && ask->gateway == gateway);
	for (uint32_t i = 0; status->links != NULL && i < status->link_count; i++) {
		const struct mt_link_status *link = &status->links[i];

		if (link->is_direct && link->node_id != 0 && !mt_node_is_gone(&link->config))
			json_array_append_new(nodes,
			    json_pack("{s:I, s:s, s:b}", "id", (json_int_t)link->node_id, "address",
				mt_link_told(link), "keyed", link->has_ticket_key));
	}
	return nodes;
}

static json_t *
json_members(const void *values, const struct metric_member *members, uint32_t count)
{
	json_t *object = json_object();

	assert(count > 0 && members[0].info.name != NULL);
	for (uint32_t i = 0; i < count; i++)
		json_object_set_new(object, members[i].info.name,
		    json_integer((json_int_t)metric_member_read(values, &members[i])));
	return object;
}

/* A shard: all that monitors read of it (metrics.c), by the same names. */
static json_t *
json_shard(const struct mt_shard_status *shard, uint32_t port)
{
	static const char *const states[MT_SHARD_STATE_NR] = {
		[MT_SHARD_IDLE] = "idle",
		[MT_SHARD_CLAIMING] = "claiming",
		[MT_SHARD_AGREEING] = "agreeing",
		[MT_SHARD_REPLAYING] = "replaying",
		[MT_SHARD_OPENING] = "opening",
		[MT_SHARD_SERVING] = "serving",
		[MT_SHARD_STOPPED] = "stopped",
	};
	json_t *object = json_members(shard, mt_shard_members, mt_shard_member_count);

	assert(port < MT_PORTS_MAX);
	assert(shard->state < MT_SHARD_STATE_NR);
	json_object_set_new(object, "shard", json_integer(shard->index));
	json_object_set_new(object, "port", json_integer(port));
	json_object_set_new(object, "state",
	    json_string(shard->is_short ? "short" : states[shard->state]));
	return object;
}

static json_t *
json_shards(const struct mt_gateway *gateway, const struct mt_ask *ask)
{
	json_t *shards = json_array();

	assert(gateway->port_count > 0);
	for (uint32_t i = 0; i < gateway->cluster.shard_count; i++) {
		uint32_t port = i % gateway->port_count, at = i / gateway->port_count;
		const struct mt_port_status *status = &ask->legs[port].status;

		if (status->shards != NULL && at < status->shard_count)
			json_array_append_new(shards, json_shard(&status->shards[at], port));
	}
	return shards;
}

json_t *
mt_json_orphans(const struct mt_ask *ask)
{
	json_t *list = json_array();
	json_int_t total = 0, confirmed = 0;

	assert(ask->gateway->port_count <= MT_PORTS_MAX);
	assert(ask->left_count == 0);
	for (uint32_t i = 0; i < ask->gateway->port_count; i++) {
		const struct mt_port_status *status = &ask->legs[i].status;

		total += status->orphan_total;
		confirmed += status->confirmed_count;
		for (uint32_t k = 0;
		     k < status->orphan_count && json_array_size(list) < MT_ORPHANS_LIST_MAX; k++) {
			const struct mt_orphan_status *from = &status->orphans[k];
			char text[MT_EXTENT_TEXT_BYTES];

			(void)snprintf(text, sizeof(text), "%" PRIu32 ".%" PRIu32 ".%" PRIu64,
			    from->id.shard, from->id.epoch, from->id.counter);
			json_array_append_new(list,
			    json_pack("{s:I, s:s, s:I, s:I, s:I, s:b, s:b}", "node",
				(json_int_t)from->node_id, "extent", text, "incarnation",
				(json_int_t)from->incarnation, "seen_s",
				(json_int_t)(from->age_ns / NUM_S(1)), "left_s",
				(json_int_t)(from->left_ns / NUM_S(1)), "held", from->is_held,
				"confirmed", from->is_confirmed));
		}
	}
	return json_pack("{s:o, s:I, s:I}", "orphans", list, "total", total, "confirmed",
	    confirmed);
}

static json_t *
json_split(const struct mt_port *port)
{
	if (port->split == NULL)
		return json_object();
	return json_members(split_port_counters(port->split), mt_split_members, MT_SPLIT_NR);
}

json_t *
mt_json_status(const struct mt_gateway *gateway, const struct mt_ask *ask, bool has_shards)
{
	json_t *ports = json_array(), *status, *flattening = mt_flattening_json(gateway);
	char id[17], boot[17], cluster[17];

	assert(gateway->port_count > 0 && gateway->port_count <= MT_PORTS_MAX);
	assert(ask->left_count == 0 && ask->gateway == gateway);
	(void)snprintf(id, sizeof(id), "%016" PRIx64, gateway->options.gateway_id);
	(void)snprintf(boot, sizeof(boot), "%016" PRIx64, gateway->options.boot_id);
	(void)snprintf(cluster, sizeof(cluster), "%016" PRIx64, gateway->options.cluster_id);
	for (uint32_t i = 0; i < gateway->port_count; i++)
		json_array_append_new(ports,
		    json_pack("{s:i, s:s, s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:I, s:o, s:o, s:o}",
			"port", (int)i, "address", gateway->ports[i].address, "sessions_open",
			(int)ask->legs[i].status.session_count, "receives_free",
			(int)ask->legs[i].status.receives_free, "rings",
			(int)ask->legs[i].status.ring_count, "rings_max",
			(int)ask->legs[i].status.ring_max, "shards_short",
			(int)ask->legs[i].status.short_count, "run_index_bytes",
			(json_int_t)ask->legs[i].status.run_index_bytes, "hot_bytes",
			(json_int_t)ask->legs[i].status.hot_bytes, "hot_bytes_max",
			(json_int_t)ask->legs[i].status.hot_bytes_max, "metrics",
			json_members(gateway->ports[i].metrics, mt_metric_members, MT_METRIC_NR),
			"limits",
			mt_json_limits(ask->legs[i].status.told, ask->legs[i].status.told_count),
			"split", json_split(&gateway->ports[i])));
	status = json_pack("{s:s, s:s, s:s, s:s, s:I, s:i, s:i, s:o}", "gateway", id, "boot", boot,
	    "cluster", cluster, "state", sm_state_name(&gateway->sm), "uptime_ns",
	    (json_int_t)(loop_now_ns(gateway->options.loop) - gateway->started_ns), "shard_count",
	    (int)gateway->cluster.shard_count, "volume_count",
	    (int)mt_volumes_live_count(&gateway->volumes), "ports", ports);
	/* Thousands of shards do not fit into one answer: then their number has to do. */
	if (has_shards && status != NULL)
		json_object_set_new(status, "shards", json_shards(gateway, ask));
	if (status != NULL)
		json_object_set_new(status, "gateway_count",
		    json_integer(gateway->member.peer_count)); /* they have an op of their own */
	if (status != NULL)
		json_object_set_new(status, "level", json_integer(gateway->cluster.level));
	if (status != NULL && flattening != NULL)
		json_object_set(status, "flattening", flattening);
	json_decref(flattening);
	return status;
}
