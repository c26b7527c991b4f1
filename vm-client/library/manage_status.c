/* SPDX-License-Identifier: Apache-2.0 */
/* manage_status.c -- gateways, nodes and shards, as the gateway that is asked sees them */
#include <stdio.h>

#include "base/check.h"
#include "manage.h"

/* Answers. */

/* Gateways of level 1 do not tell levels. */
static void
level_read_range(struct reader *reader, const json_t *object, struct cleave_gateway_entry *entry)
{
	const json_t *levels = json_object_get(object, "levels");

	entry->level_min = entry->level_max = 1;
	if (levels == NULL)
		return;
	levels = reader_array(reader, object, "levels", 2, 2);
	entry->level_min =
	    (uint32_t)reader_number(reader, json_array_get(levels, 0), "levels", 1, UINT8_MAX);
	entry->level_max =
	    (uint32_t)reader_number(reader, json_array_get(levels, 1), "levels", 1, UINT8_MAX);
}

/* @absent: as a gateway that tells none means it. */
static uint32_t
level_read(struct reader *reader, const json_t *object, uint32_t absent)
{
	assert(absent <= 1);
	if (json_object_get(object, "level") == NULL)
		return absent;
	return (uint32_t)reader_u64(reader, object, "level", UINT8_MAX);
}

static void
gateway_read(struct reader *reader, const json_t *object, void *ret_entry)
{
	assert(reader->field == NULL);
	struct cleave_gateway_entry *entry = ret_entry;
	const json_t *ports = reader_array(reader, object, "ports", 0, ASK_ENTRIES_MAX);
	const char *address = json_string_value(json_array_get(ports, 0));

	entry->id = reader_id(reader, object, "gateway");
	entry->boot_id = reader_id(reader, object, "boot");
	entry->is_asked = json_is_true(json_object_get(object, "self"));
	entry->port_count = (uint32_t)json_array_size(ports);
	if (address != NULL)
		(void)snprintf(entry->address, sizeof(entry->address), "%s", address);
	entry->shards_owned = (uint32_t)reader_u64(reader, object, "shards_owned", UINT32_MAX);
	entry->shards_share = (uint32_t)reader_u64(reader, object, "shards_share", UINT32_MAX);
	entry->seen_for_ms = reader_u64(reader, object, "seen_for_ms", INT64_MAX);
	if (json_object_get(object, "lease_left_ms") != NULL)
		entry->lease_left_ms = reader_u64(reader, object, "lease_left_ms", INT64_MAX);
	level_read_range(reader, object, entry);
	reader_cut(object, "state", entry->state, sizeof(entry->state));
}

static void
node_read(struct reader *reader, const json_t *object, void *ret_entry)
{
	struct cleave_node_entry *entry = ret_entry;

	assert(reader->field == NULL);
	entry->id = reader_u64(reader, object, "id", INT64_MAX);
	reader_text(reader, object, "address", entry->address, sizeof(entry->address));
	reader_cut(object, "domain", entry->domain, sizeof(entry->domain));
	reader_text(reader, object, "state", entry->state, sizeof(entry->state));
	reader_cut(object, "trouble", entry->trouble, sizeof(entry->trouble));
	entry->slots_total = reader_u64(reader, object, "slots_total", INT64_MAX);
	entry->slots_free = reader_u64(reader, object, "slots_free", INT64_MAX);
	entry->slot_bytes = reader_u64(reader, object, "slot_bytes", INT64_MAX);
	entry->level = level_read(reader, object, 0);
	/* Gateways of before say nothing of these. */
	reader_cut(object, "member", entry->member, sizeof(entry->member));
	reader_cut(object, "note", entry->note, sizeof(entry->note));
	reader_cut(object, "advertise", entry->advertise, sizeof(entry->advertise));
	entry->is_read_only = json_is_true(json_object_get(object, "read_only"));
	if (json_object_get(object, "slots_reserved") != NULL)
		entry->slots_reserved = reader_u64(reader, object, "slots_reserved", INT64_MAX);
	if (json_object_get(object, "weight") != NULL)
		entry->weight = (uint32_t)reader_u64(reader, object, "weight", UINT32_MAX);
	if (json_object_get(object, "maintenance_s") != NULL)
		entry->maintenance_s = reader_u64(reader, object, "maintenance_s", INT64_MAX);
}

static void
shard_read(struct reader *reader, const json_t *object, void *ret_entry)
{
	struct cleave_shard_entry *entry = ret_entry;

	assert(reader->field == NULL);
	entry->shard = (uint32_t)reader_u64(reader, object, "shard", UINT32_MAX);
	entry->port = (uint32_t)reader_u64(reader, object, "port", UINT32_MAX);
	reader_text(reader, object, "state", entry->state, sizeof(entry->state));
	entry->epoch = reader_u64(reader, object, "epoch", INT64_MAX);
	entry->extents = reader_u64(reader, object, "extents", INT64_MAX);
	entry->extents_lacking = reader_u64(reader, object, "extents_lacking", INT64_MAX);
	entry->log_bytes = reader_u64(reader, object, "log_bytes", INT64_MAX);
	entry->run_bytes = reader_u64(reader, object, "run_bytes", INT64_MAX);
	entry->index_blocks = reader_u64(reader, object, "index_blocks", INT64_MAX);
}

static void
status_read(struct reader *reader, const json_t *object, void *ret_entry)
{
	assert(reader->field == NULL);
	struct cleave_gateway_status *status = ret_entry;
	const json_t *ports = reader_array(reader, object, "ports", 0, ASK_ENTRIES_MAX);

	status->id = reader_id(reader, object, "gateway");
	status->boot_id = reader_id(reader, object, "boot");
	status->cluster_id = reader_id(reader, object, "cluster");
	reader_text(reader, object, "state", status->state, sizeof(status->state));
	status->uptime_ns = reader_u64(reader, object, "uptime_ns", INT64_MAX);
	status->port_count = (uint32_t)json_array_size(ports);
	for (size_t i = 0; i < json_array_size(ports); i++)
		status->sessions_open +=
		    reader_u64(reader, json_array_get(ports, i), "sessions_open", UINT32_MAX);
	status->shard_count = reader_u64(reader, object, "shard_count", UINT32_MAX);
	status->volume_count = reader_u64(reader, object, "volume_count", UINT32_MAX);
	status->gateway_count = reader_u64(reader, object, "gateway_count", UINT32_MAX);
	status->level = level_read(reader, object, 1);
}

static void
gateways_deliver(struct cleave_ask *ask, int rc, const struct ask_answer *answer, const char *error)
{
	assert((answer->entries == NULL) == (answer->count == 0));
	ask->fn.gateways(ask, rc, answer->entries, answer->count, error, ask->arg);
}

static void
nodes_deliver(struct cleave_ask *ask, int rc, const struct ask_answer *answer, const char *error)
{
	assert((answer->entries == NULL) == (answer->count == 0));
	ask->fn.nodes(ask, rc, answer->entries, answer->count, error, ask->arg);
}

static void
shards_deliver(struct cleave_ask *ask, int rc, const struct ask_answer *answer, const char *error)
{
	assert((answer->entries == NULL) == (answer->count == 0));
	ask->fn.shards(ask, rc, answer->entries, answer->count, error, ask->arg);
}

static void
status_deliver(struct cleave_ask *ask, int rc, const struct ask_answer *answer, const char *error)
{
	assert(rc != 0 || answer->count == 1);
	ask->fn.gateway(ask, rc, answer->entries, error, ask->arg);
}

static const struct cleave_ask_kind manage_gateways = {
	.many = "gateways",
	.entry_bytes = sizeof(struct cleave_gateway_entry),
	.read = gateway_read,
	.deliver = gateways_deliver,
};

static const struct cleave_ask_kind manage_nodes = {
	.many = "nodes",
	.entry_bytes = sizeof(struct cleave_node_entry),
	.read = node_read,
	.deliver = nodes_deliver,
};

static const struct cleave_ask_kind manage_shards = {
	.many = "shards",
	.entry_bytes = sizeof(struct cleave_shard_entry),
	.is_optional = true, /* thousands do not fit */
	.read = shard_read,
	.deliver = shards_deliver,
};

static const struct cleave_ask_kind manage_status = {
	.one = "",
	.entry_bytes = sizeof(struct cleave_gateway_status),
	.read = status_read,
	.deliver = status_deliver,
};

static const struct ask_op op_gateways = { "gateways", &manage_gateways, false };
static const struct ask_op op_nodes = { "node.list", &manage_nodes, false };
static const struct ask_op op_shards = { "status", &manage_shards, false };
static const struct ask_op op_status = { "status", &manage_status, false };

/* Calls. */

int
cleave_gateway_list(struct cleave_client *client, struct cleave_ask *ask, cleave_gateways_fn fn,
    void *arg)
{
	ask->fn.gateways = fn;
	ask->arg = arg;
	return ask_start(client, ask, &op_gateways, ask_request(&op_gateways));
}

int
cleave_gateway_list_wait(struct cleave *cleave, struct cleave_gateway_entry **ret_gateways,
    uint32_t *ret_count, char *ret_error)
{
	struct ask_answer answer;
	int rc = ask_wait(cleave, &op_gateways, ask_request(&op_gateways), &answer, ret_error);

	if (rc != 0)
		return rc;
	*ret_gateways = answer.entries;
	*ret_count = answer.count;
	return 0;
}

int
cleave_node_list(struct cleave_client *client, struct cleave_ask *ask, cleave_nodes_fn fn,
    void *arg)
{
	ask->fn.nodes = fn;
	ask->arg = arg;
	return ask_start(client, ask, &op_nodes, ask_request(&op_nodes));
}

int
cleave_node_list_wait(struct cleave *cleave, struct cleave_node_entry **ret_nodes,
    uint32_t *ret_count, char *ret_error)
{
	struct ask_answer answer;
	int rc = ask_wait(cleave, &op_nodes, ask_request(&op_nodes), &answer, ret_error);

	if (rc != 0)
		return rc;
	*ret_nodes = answer.entries;
	*ret_count = answer.count;
	return 0;
}

int
cleave_shard_list(struct cleave_client *client, struct cleave_ask *ask, cleave_shards_fn fn,
    void *arg)
{
	ask->fn.shards = fn;
	ask->arg = arg;
	return ask_start(client, ask, &op_shards, ask_request(&op_shards));
}

int
cleave_shard_list_wait(struct cleave *cleave, struct cleave_shard_entry **ret_shards,
    uint32_t *ret_count, char *ret_error)
{
	struct ask_answer answer;
	int rc = ask_wait(cleave, &op_shards, ask_request(&op_shards), &answer, ret_error);

	if (rc != 0)
		return rc;
	*ret_shards = answer.entries;
	*ret_count = answer.count;
	return 0;
}

int
cleave_gateway_status(struct cleave_client *client, struct cleave_ask *ask, cleave_gateway_fn fn,
    void *arg)
{
	ask->fn.gateway = fn;
	ask->arg = arg;
	return ask_start(client, ask, &op_status, ask_request(&op_status));
}

int
cleave_gateway_status_wait(struct cleave *cleave, struct cleave_gateway_status *ret_status,
    char *ret_error)
{
	return ask_wait_one(cleave, &op_status, ask_request(&op_status), ret_status, ret_error);
}
