/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node_tally.c -- what a node holds of all shards, asked of every gateway that lives
 *
 *	our ports, and each other gateway: {"op":"node.usage","node":3,"version":V}
 *	    --> {"current":true,"serving":"ff","extents":3,"bytes":9000,"rate":67108864,
 *		"waits":{"no_room":{"copies":3,"shards":1,"shard":2}}}
 *
 * A node is empty when each shard is served by somebody who names no copy there, and whose ports act on the version of
 * the node's key that was asked about: that one says that nothing new is put there. A shard that is taken over later is
 * so by a gateway that has read the nodes before it began.
 */
#include "cluster/node_tally.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mutant.h"
#include "base/num.h"
#include "base/reader.h"
#include "catalog/waiting.h"
#include "cleave/meta.h"
#include "cleave/wire.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "cluster/node_table.h"
#include "cluster/peer.h"
#include "common/alloc.h"

#define TALLY_WORDS (CLEAVE_SHARDS_MAX / 64u)

struct mt_node_count {
	struct mt_gateway *gateway;
	mt_node_tally_fn fn;
	void *arg;
	uint32_t left_count; /* who has not answered, and whoever is asking still */
	struct mt_node_tally tally;
	uint64_t serving[TALLY_WORDS];
	uint64_t peer_ids[MT_GATEWAYS_MAX];
	struct mt_peer_call calls[MT_GATEWAYS_MAX];
};

bool
mt_node_tally_is_empty(const struct mt_node_tally *tally)
{
	return tally->extent_count == 0 && tally->unserved_count == 0 &&
	    tally->unknown_gateway == 0 && tally->behind_gateway == 0;
}

/* ---- what copies wait for ---- */

json_t *
mt_node_leaving_json(const struct mt_leaving_count leaving[MT_LEAVING_NR])
{
	json_t *object = json_object();

	assert(leaving != NULL);
	for (uint32_t i = 0; i < MT_LEAVING_NR; i++) {
		if (leaving[i].copy_count > 0)
			json_object_set_new(object, mt_leaving_name((enum mt_leaving)i),
			    json_pack("{s:I, s:I, s:I}", "copies",
				(json_int_t)leaving[i].copy_count, "shards",
				(json_int_t)leaving[i].shard_count, "shard",
				(json_int_t)leaving[i].shard));
	}
	return object;
}

/* Counts of another gateway's answer. A release of before says nothing. */
static void
leaving_read(struct reader *reader, json_t *waits, struct mt_leaving_count leaving[MT_LEAVING_NR])
{
	for (uint32_t i = 0; i < MT_LEAVING_NR; i++) {
		json_t *object = json_object_get(waits, mt_leaving_name((enum mt_leaving)i));

		if (object == NULL)
			continue;
		leaving[i].copy_count = (uint32_t)reader_u64(reader, object, "copies", UINT32_MAX);
		leaving[i].shard_count =
		    (uint32_t)reader_u64(reader, object, "shards", CLEAVE_SHARDS_MAX);
		leaving[i].shard =
		    (uint32_t)reader_u64(reader, object, "shard", CLEAVE_SHARDS_MAX - 1);
	}
}

static void
leaving_add(struct mt_leaving_count sum[MT_LEAVING_NR],
    const struct mt_leaving_count leaving[MT_LEAVING_NR])
{
	for (uint32_t i = 0; i < MT_LEAVING_NR; i++) {
		if (leaving[i].copy_count == 0)
			continue;
		if (sum[i].copy_count == 0 || sum[i].shard > leaving[i].shard)
			sum[i].shard = leaving[i].shard;
		sum[i].copy_count += leaving[i].copy_count;
		sum[i].shard_count += leaving[i].shard_count; /* a shard is served by one port */
	}
}

/* ---- this gateway's answer ---- */

/* The ports' usages in one. */
static void
tally_sum(const struct mt_ask *ask, struct mt_node_usage *ret_sum)
{
	memset(ret_sum, 0, sizeof(*ret_sum));
	ret_sum->is_current = true;
	assert(ask->kind == MT_ASK_NODE && ask->left_count == 0);
	for (uint32_t i = 0; i < ask->gateway->port_count; i++) {
		const struct mt_node_usage *usage = &ask->legs[i].status.node;

		ret_sum->is_current &= usage->is_current;
		ret_sum->extent_count += usage->extent_count;
		ret_sum->bytes += usage->bytes;
		leaving_add(ret_sum->leaving, usage->leaving);
		for (uint32_t k = 0; k < TALLY_WORDS; k++)
			ret_sum->serving[k] |= usage->serving[k];
	}
}

/* Bytes a second that this gateway's ports may copy together. */
static uint64_t
tally_rate(const struct mt_gateway *gateway)
{
	assert(gateway->port_count > 0 && gateway->port_count <= MT_PORTS_MAX);
	return num_min(gateway->options.repair_bytes_per_s, INT64_MAX / MT_PORTS_MAX) *
	    gateway->port_count;
}

json_t *
mt_node_tally_json(const struct mt_ask *ask)
{
	uint32_t shard_count = ask->gateway->cluster.shard_count;
	char *text = mt_waiting_all(shard_count);
	struct mt_node_usage sum;
	json_t *object;

	tally_sum(ask, &sum);
	if (text == NULL)
		return NULL;
	(void)mt_waiting_write(text, shard_count, sum.serving); /* none is an answer, too */
	object = json_pack("{s:b, s:s, s:I, s:I, s:I, s:o}", "current", sum.is_current ? 1 : 0,
	    "serving", text, "extents", (json_int_t)sum.extent_count, "bytes",
	    (json_int_t)sum.bytes, "rate", (json_int_t)tally_rate(ask->gateway), "waits",
	    mt_node_leaving_json(sum.leaving));
	mt_free(text);
	return object;
}

/* ---- all answers ---- */

static void
tally_add(struct mt_node_count *count, const struct mt_node_usage *usage, uint64_t gateway_id)
{
	count->tally.extent_count += usage->extent_count;
	count->tally.bytes += usage->bytes;
	leaving_add(count->tally.leaving, usage->leaving);
	if (!usage->is_current)
		count->tally.behind_gateway = gateway_id;
	for (uint32_t i = 0; i < TALLY_WORDS; i++)
		count->serving[i] |= usage->serving[i];
}

/* A gateway, or our ports, has answered. The last act. */
static void
tally_done(struct mt_node_count *count)
{
	struct mt_gateway *gateway = count->gateway;
	struct mt_node_tally tally;
	mt_node_tally_fn fn = count->fn;
	void *arg = count->arg;

	assert(count->left_count > 0 && gateway->nodes->count_out == count);
	if (--count->left_count > 0)
		return;
	for (uint32_t i = 0; i < gateway->cluster.shard_count && !MUTANT(removed_unasked); i++)
		count->tally.unserved_count += (count->serving[i / 64] & UINT64_C(1) << i % 64) ==
		    0;
	tally = count->tally;
	gateway->nodes->count_out = NULL;
	mt_free(count);
	fn(&tally, arg);
}

static void
tally_on_ports(struct mt_ask *ask, void *arg)
{
	struct mt_node_count *count = arg;
	struct mt_node_usage sum;

	assert(count->left_count > 0);
	tally_sum(ask, &sum);
	tally_add(count, &sum, count->gateway->options.gateway_id);
	count->tally.bytes_per_s += tally_rate(count->gateway);
	tally_done(count);
}

/* Another gateway may say anything: what cannot be is no answer. */
static bool
tally_read(const struct mt_node_count *count, const char *reply, struct mt_node_usage *ret_usage,
    uint64_t *ret_rate)
{
	struct reader reader = { 0 };
	json_t *object = reply == NULL ? NULL : reader_load(&reader, reply, strlen(reply));
	const char *serving = json_string_value(json_object_get(object, "serving"));
	bool is_read;

	memset(ret_usage, 0, sizeof(*ret_usage));
	if (object == NULL)
		return false;
	ret_usage->is_current = reader_bool(&reader, object, "current");
	ret_usage->extent_count = (uint32_t)reader_u64(&reader, object, "extents", UINT32_MAX);
	ret_usage->bytes = reader_u64(&reader, object, "bytes", INT64_MAX);
	*ret_rate = json_object_get(object, "rate") == NULL
	    ? 0
	    : reader_u64(&reader, object, "rate", INT64_MAX / MT_GATEWAYS_MAX);
	leaving_read(&reader, json_object_get(object, "waits"), ret_usage->leaving);
	is_read = mt_waiting_read(serving, count->gateway->cluster.shard_count, ret_usage->serving);
	json_decref(object);
	return reader.field == NULL && is_read;
}

static void
tally_on_peer(struct mt_peer_call *call, void *arg)
{
	struct mt_node_count *count = arg;
	uint64_t gateway_id = count->peer_ids[call - count->calls];
	struct mt_node_usage usage;
	uint64_t rate = 0;

	assert(call >= count->calls && call < count->calls + MT_GATEWAYS_MAX);
	assert(count->left_count > 0);
	if (call->rc == 0 && tally_read(count, call->reply, &usage, &rate)) {
		tally_add(count, &usage, gateway_id);
		count->tally.bytes_per_s += rate;
	} else {
		count->tally.unknown_gateway = gateway_id;
	}
	mt_free(call->reply);
	call->reply = NULL;
	tally_done(count);
}

static void
tally_ask_peers(struct mt_node_count *count, uint32_t node_id, uint64_t version)
{
	struct mt_gateway *gateway = count->gateway;
	const struct mt_member *member = &gateway->member;
	char text[128];

	assert(count->left_count > 0);
	assert(member->peer_count <= MT_GATEWAYS_MAX);
	(void)snprintf(text, sizeof(text),
	    "{\"op\":\"node.usage\",\"node\":%" PRIu32 ",\"version\":%" PRIu64 "}", node_id,
	    version & META_VERSION_COMMON); /* fits */
	for (uint32_t i = 0; i < member->peer_count; i++) {
		const struct mt_member_peer *peer = &member->peers[i];

		if (peer->gateway_id == gateway->options.gateway_id || MUTANT(removed_unasked))
			continue;
		count->peer_ids[i] = peer->gateway_id;
		if (peer->port_count == 0 ||
		    mt_peer_call(gateway, &count->calls[i], peer->ports[0], text, tally_on_peer,
			count) != 0)
			count->tally.unknown_gateway = peer->gateway_id;
		else
			count->left_count++;
	}
}

int
mt_node_tally_start(struct mt_gateway *gateway, uint32_t node_id, uint64_t version,
    mt_node_tally_fn fn, void *arg)
{
	struct mt_node_count *count;
	int rc;

	assert(fn != NULL && node_id != 0);
	if (gateway->nodes->count_out != NULL)
		return -EBUSY;
	count = mt_calloc(1, sizeof(*count));
	if (count == NULL)
		return -ENOMEM;
	count->gateway = gateway;
	count->fn = fn;
	count->arg = arg;
	count->left_count = 1;
	rc = mt_ask_node(gateway, node_id, version, tally_on_ports, count);
	if (rc != 0) {
		mt_free(count);
		return rc;
	}
	gateway->nodes->count_out = count;
	tally_ask_peers(count, node_id, version);
	return 0;
}

void
mt_node_tally_fini(struct mt_gateway *gateway)
{
	struct mt_node_count *count = gateway->nodes->count_out;

	gateway->nodes->count_out = NULL;
	for (uint32_t i = 0; count != NULL && i < MT_GATEWAYS_MAX; i++)
		mt_free(count->calls[i].reply);
	mt_free(count);
}
