/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.c -- what people and gateways ask about a node: LIST, and JSON
 *
 * A control message is a JSON object with "op"; so is the answer: {"op":"status"}, and {"op":"revoked"} (revoked.c).
 * An answer that is an error has a status and {"error": text}. Both ways through host memory, by
 * counted copies: there is no block in it.
 */
#include "control.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "base/check.h"
#include "base/log.h"
#include "cleave/secure.h"
#include "cleave/split.h"
#include "cleave/status.h"
#include "cleave/wire.h"
#include "extent.h"
#include "fence.h"
#include "metrics.h"
#include "node_state.h"
#include "peer.h"
#include "reader.h"
#include "request.h"
#include "revoked.h"
#include "store.h"

#define SN_LIST_BYTES_MAX 65536u /* of a control answer, and of entries in one LIST answer */
#define SN_REQUEST_BYTES_MAX                                                                       \
	SN_LIST_BYTES_MAX /* of a control request, which is read into the same text */
_Static_assert(SN_REQUEST_BYTES_MAX > SPLIT_REVOKED_BYTES_MAX + SPLIT_REVOKED_BYTES_MAX / 32,
    "lists of revoked keys fit, with two bytes for the end of each line");
_Static_assert(SN_LIST_BYTES_MAX <= SN_RECEIVE_BYTES, "an answer fits a receive");

/* ---- LIST ---- */

static void
list_entry_fill(struct wire_extent_entry *entry, const struct sn_extent *extent)
{
	*entry = (struct wire_extent_entry){
		.extent = extent_id_pack(&extent->slot.id),
		.incarnation = extent->slot.incarnation,
		.length_bytes = extent->durable_bytes,
		.mark_bytes = extent->mark_bytes,
		.kind = (uint8_t)extent->slot.kind,
		.state = (uint8_t)sn_extent_wire_state(extent),
		.flags = sn_extent_is_damaged(extent) ? WIRE_FLAG_DAMAGED : 0,
		.fence_epoch = sn_fence_epoch(extent->node, extent->slot.id.shard),
	};
}

void
sn_list_run(struct sn_request *req)
{
	struct node *node = req->node;
	uint32_t shard = req->wire.id.shard;
	struct wire_node_reply reply = { .rc = 0 };
	struct dev_piece piece = { .ptr = req->msg->payload };
	uint64_t slot = req->wire.offset_bytes;

	assert(req->wire.opcode == WIRE_EXTENT_LIST);
	assert(node->sm.state == NODE_READY);
	/* The cursor is a slot: creates and deletes between two pages shift nothing. */
	for (; slot < node->super.slot_count; slot++) {
		const struct sn_extent *extent = &node->extents[slot];
		struct wire_extent_entry entry;

		if (!sn_extent_is_held(extent))
			continue;
		if (shard != UINT32_MAX && extent->slot.id.shard != shard)
			continue;
		if (piece.bytes + sizeof(entry) > SN_LIST_BYTES_MAX)
			break;
		list_entry_fill(&entry, extent);
		memcpy(node->text + piece.bytes, &entry, sizeof(entry));
		piece.bytes += (uint32_t)sizeof(entry);
	}
	reply.offset_bytes = slot < node->super.slot_count ? slot : 0;
	reply.length_bytes = piece.bytes;
	dev_copy_from_host(node->port, piece.ptr, node->text, piece.bytes);
	sn_request_finish(req, &reply, piece.bytes > 0 ? &piece : NULL);
}

/* ---- JSON ---- */

static json_t *
control_counters_of(const void *counters, const struct metric_member *members, size_t count)
{
	json_t *object = json_object();

	for (size_t i = 0; i < count; i++) {
		/* A counter that does not fit memory is left out; the whole is checked at its end. */
		(void)json_object_set_new(object, members[i].info.name,
		    json_integer((json_int_t)metric_member_read(counters, &members[i])));
	}
	return object;
}

static json_t *
control_kinds(const struct node *node)
{
	return json_pack("{s:i, s:i, s:i}", "log", (int)node->kind_counts[EXTENT_LOG], "run",
	    (int)node->kind_counts[EXTENT_RUN], "manifest",
	    (int)node->kind_counts[EXTENT_MANIFEST]);
}

static json_t *
control_states(const struct node *node)
{
	int counts[EXTENT_STATE_NR] = { 0 };

	for (uint32_t i = 0; i < node->super.slot_count; i++) {
		assert(node->extents[i].sm.state < EXTENT_STATE_NR);
		counts[node->extents[i].sm.state]++;
	}
	return json_pack("{s:i, s:i, s:i, s:i, s:i}", "open", counts[EXTENT_OPEN], "stopped",
	    counts[EXTENT_STOPPED], "frozen", counts[EXTENT_FROZEN], "sealed",
	    counts[EXTENT_SEALED], "damaged", (int)sn_extent_damaged_count(node));
}

/* NULL: it is not told. */
static json_t *
control_wall(const struct node *node)
{
	if (node->options.wall_ms != NULL)
		return json_integer((json_int_t)node->options.wall_ms());
	return node->options.sim_host != NULL ? NULL : json_integer((json_int_t)log_wall_ms());
}

/* NULL: it is not known. */
static json_t *
control_displaced(const struct node *node)
{
	return node->options.is_displaced == NULL
	    ? NULL
	    : json_boolean(node->options.is_displaced(node->options.arg));
}

/* NULL: it has none. */
static json_t *
control_key(const struct node *node)
{
	return node->key == NULL ? NULL : json_integer((json_int_t)split_key_expires_s(node->key));
}

/* NULL: it takes no clients. */
static const char *
control_direct(const struct node *node)
{
	static const char *const words[] = { [NODE_DIRECT_OFF] = NULL,
		[NODE_DIRECT_KEYED] = "on",
		[NODE_DIRECT_TRUSTED] = "trusted" };

	return words[node->options.direct];
}

static json_t *
control_status(const struct node *node)
{
	char uuid[ONDISK_UUID_TEXT_BYTES], cluster[17], store[STORE_ID_TEXT_BYTES];
	const char *gateway;
	json_int_t gateway_count = (json_int_t)sn_peer_gateways(node, &gateway);
	size_t counter_count = SN_COUNTER_NR - (node->permit == NULL ? SN_DIRECT_COUNTER_NR : 0);

	assert(node->super.slot_count > 0); /* the superblock is known */
	sn_store_text(node, store);
	ondisk_uuid_text(node->super.disk_uuid, uuid);
	(void)snprintf(cluster, sizeof(cluster), "%016llx", /* fits: 16 digits */
	    (unsigned long long)node->super.cluster_id);
	return json_pack(
	    "{s:s, s:I, s:s, s:s, s:s, s:s, s:s, s:b, s:s, s:I, s:I, s:I, s:I, s:I, s:I,"
	    " s:o, s:o, s:I, s:I, s:s*, s:o*, s:o*, s:o*, s:s*, s:s*, s:o, s:o}",
	    "role", "node", "node_id", (json_int_t)node->super.node_id, "cluster_id", cluster,
	    "store_id", store, "disk_id", uuid, "disk", node->disk_name, "listen", node->address,
	    "read_only", node->is_read_only, "write_cache",
	    node->options.write_cache == NODE_CACHE_PROTECTED ? "protected" : "volatile",
	    "slot_bytes", (json_int_t)node->super.slot_bytes, "extent_bytes_max",
	    (json_int_t)sn_capacity(node), "slots_total", (json_int_t)node->super.slot_count,
	    "slots_free", (json_int_t)sn_extent_free_count(node), "slots_bad",
	    (json_int_t)node->bad_count, "slots_reserved",
	    (json_int_t)sn_extent_reserve(node, EXTENT_LOG), "extents", control_kinds(node),
	    "states", control_states(node), "receives_free",
	    (json_int_t)split_port_receives_free(node->port), "gateway_connections", gateway_count,
	    "gateway_peer", gateway, "wall_ms", control_wall(node), "key_expires_s",
	    control_key(node), "displaced", control_displaced(node), "direct", control_direct(node),
	    "advertise", node->advertise[0] != '\0' ? node->advertise : NULL, "counters",
	    control_counters_of(&node->counters, sn_counter_members, counter_count), "port",
	    control_counters_of(split_port_counters(node->port), sn_split_members, SN_SPLIT_NR));
}

static json_t *
control_error(const char *text)
{
	assert(text[0] != '\0');
	return json_pack("{s:s}", "error", text);
}

static json_t *
control_answer(struct node *node, struct sn_peer *peer, uint32_t bytes, int *ret_rc)
{
	json_error_t error;
	json_t *request = json_loadb(node->text, bytes, JSON_REJECT_DUPLICATES, &error);
	const char *op = json_string_value(json_object_get(request, "op"));
	json_t *answer;

	assert(bytes <= SN_REQUEST_BYTES_MAX);
	if (request == NULL || op == NULL) {
		*ret_rc = -EINVAL;
		answer = control_error("the request is no JSON object with a string \"op\"");
	} else if (strcmp(op, "status") == 0) {
		*ret_rc = 0;
		answer = peer->is_reader ? sn_reader_status(sn_reader_of(peer))
					 : control_status(node);
	} else if (peer->is_reader) {
		*ret_rc = -ENOTSUP;
		answer = control_error(
		    "a client may ask for the \"status\" of its connection only");
	} else if (strcmp(op, "revoked") == 0) {
		answer = sn_revoked_take(node, request, ret_rc);
	} else {
		*ret_rc = -ENOTSUP;
		answer = control_error(
		    "this is a storage node, which knows the ops \"status\" and \"revoked\" "
		    "alone: commands are for gateways");
	}
	json_decref(request);
	return answer;
}

int
sn_control_run(struct node *node, struct split_msg *msg, const char **ret_field)
{
	struct wire_control control;
	struct wire_header header;
	struct dev_piece piece = { .ptr = msg->payload };
	json_t *answer;
	size_t bytes;
	int rc = wire_control_decode(msg->header, &control, ret_field);

	CHECK_OBJ(node, SN_NODE_MAGIC);
	if (rc != 0)
		return rc;
	if (control.payload_bytes > SN_REQUEST_BYTES_MAX) {
		*ret_field = "payload_bytes";
		return -EPROTO;
	}
	dev_copy_to_host(node->port, node->text, msg->payload, control.payload_bytes);
	answer = control_answer(node, split_qp_arg(msg->qp), control.payload_bytes, &rc);
	if (rc == -ENOTSUP && ((struct sn_peer *)split_qp_arg(msg->qp))->is_reader)
		sn_reader_note_refused(sn_reader_of(split_qp_arg(msg->qp)), msg);
	bytes = answer == NULL ? 0
			       : json_dumpb(answer, node->text, SN_LIST_BYTES_MAX, JSON_COMPACT);
	json_decref(answer);
	if (bytes == 0 || bytes > SN_LIST_BYTES_MAX) {
		bytes = 0;
		rc = -ENOMEM;
	}
	assert(rc != 0 || bytes > 0);
	piece.bytes = (uint32_t)bytes;
	dev_copy_from_host(node->port, piece.ptr, node->text, bytes);
	header = (struct wire_header){
		.opcode = WIRE_CONTROL | WIRE_REPLY,
		.request_id = control.request_id,
		.length_bytes = piece.bytes,
		.status = status_from_errno(rc),
	};
	sn_reply_raw(node, msg, &header, bytes > 0 ? &piece : NULL);
	return 0;
}

int
sn_control_init(struct node *node)
{
	assert(node->text == NULL);
	node->text = sn_calloc(1, SN_LIST_BYTES_MAX);
	return node->text == NULL ? -ENOMEM : 0;
}

void
sn_control_fini(struct node *node)
{
	free(node->text);
	node->text = NULL;
}
