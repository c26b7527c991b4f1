/* SPDX-License-Identifier: Apache-2.0 */
/* link_status.c -- see link_status.h */
#include "extent/link_status.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/clock_gap.h"
#include "base/num.h"
#include "base/reader.h"
#include "base/tcp_address.h"
#include "cleave/dev_ptr.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/port.h"
#include "common/settings.h"
#include "extent/capacity.h"
#include "extent/link_call.h"
#include "extent/node_link.h"

#define LINK_STATUS_REPLY_BYTES_MAX MT_RECEIVE_BYTES

static const char link_status_text[] = "{\"op\":\"status\"}";
#define LINK_STATUS_TEXT_BYTES ((uint32_t)sizeof(link_status_text) - 1)

/* A node that does not say knows of none. */
static void
link_take_gateways(struct mt_link *link, const json_t *object)
{
	struct reader reader = { 0 };

	link->gateway_connections = reader_u64(&reader, object, "gateway_connections", UINT64_MAX);
	reader_cut(object, "gateway_peer", link->gateway_peer, sizeof(link->gateway_peer));
	if (link->gateway_peer[0] == '\0')
		(void)snprintf(link->gateway_peer, sizeof(link->gateway_peer),
		    "an unknown address");
}

/* Releases before do not say. */
static uint64_t
link_read_reserved(struct reader *reader, const json_t *object, uint64_t slots_total)
{
	if (json_object_get(object, "slots_reserved") == NULL)
		return 0;
	return num_min(reader_u64(reader, object, "slots_reserved", UINT32_MAX), slots_total);
}

/* Releases before do not say, nor do nodes of the simulator. */
static void
link_take_clock(struct mt_link *link, const json_t *object)
{
	const struct link_status *status = &link->status;
	json_int_t told_ms = json_integer_value(json_object_get(object, "wall_ms"));

	link->clock_gap_ms = 0;
	if (told_ms > 0 && link->port->settings->wall_ms != NULL)
		link->clock_gap_ms = clock_gap_ms(status->asked_ms,
		    loop_now_ns(link->port->loop) - status->asked_ns, (uint64_t)told_ms);
}

/* An address that clients could do nothing with is none. */
static void
link_take_advertise(struct mt_link *link, const json_t *object)
{
	reader_cut(object, "advertise", link->advertise, sizeof(link->advertise));
	if (tcp_address_check(link->advertise, true) != NULL || tcp_address_is_any(link->advertise))
		link->advertise[0] = '\0';
}

/* Reads what is needed of a node's status; it may say more. */
static int
link_status_decode(struct mt_link *link, const char *text, size_t bytes)
{
	struct reader reader = { 0 };
	json_t *object = reader_load(&reader, text, bytes);
	uint64_t total = reader_u64(&reader, object, "slots_total", WIRE_NODE_SLOTS_MAX);
	uint64_t free_count = reader_u64(&reader, object, "slots_free", total);
	uint64_t slot_bytes = reader_range(&reader, object, "slot_bytes", WIRE_NODE_SLOT_BYTES_MIN,
	    WIRE_NODE_SLOT_BYTES_MAX);

	assert(bytes <= LINK_STATUS_REPLY_BYTES_MAX);
	if (reader.field == NULL) {
		link->slots_total = total;
		link->slots_free = free_count;
		link->slot_bytes = slot_bytes;
		link->slots_reserved = link_read_reserved(&reader, object, total);
		mt_capacity_note_slot(link->port->shared, slot_bytes);
		link->full_kinds = 0;
		mt_link_set_read_only(link, json_is_true(json_object_get(object, "read_only")));
		link->is_direct = json_is_string(json_object_get(object, "direct"));
		link_take_advertise(link, object);
		link->is_displaced = json_is_true(json_object_get(object, "displaced"));
		link_take_gateways(link, object);
		link_take_clock(link, object);
		link->key_expires_s = (uint64_t)json_integer_value(
		    json_object_get(object, "key_expires_s"));
		reader_cut(object, "disk_id", link->disk, sizeof(link->disk));
	}
	json_decref(object);
	return reader.field == NULL ? 0 : -EPROTO;
}

static int
link_status_read(struct mt_link *link, struct split_msg *msg)
{
	char *text;
	int rc;

	if (msg == NULL || msg->payload_bytes == 0 ||
	    msg->payload_bytes > LINK_STATUS_REPLY_BYTES_MAX)
		return -EPROTO;
	text = mt_calloc(1, msg->payload_bytes);
	if (text == NULL)
		return -ENOMEM;
	dev_copy_to_host(link->port->split, text, msg->payload, msg->payload_bytes);
	rc = link_status_decode(link, text, msg->payload_bytes);
	mt_free(text);
	return rc;
}

static void
status_on_answer(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg)
{
	struct mt_link *link = arg;

	(void)reply;
	assert(call == &link->status.call);
	assert(link->status.is_asked);
	link->status.is_asked = false;
	if (rc == 0)
		rc = link_status_read(link, msg);
	if (msg != NULL)
		split_msg_release(msg);
	if (link->qp != NULL && link->close_rc == 0)
		link->status.fn(link, rc);
}

void
mt_link_status_ask(struct mt_link *link)
{
	struct link_status *status = &link->status;
	int rc;

	assert(link->qp != NULL);
	if (status->is_asked)
		return;
	status->asked_ns = loop_now_ns(link->port->loop);
	status->asked_ms = link->port->settings->wall_ms == NULL ? 0
								 : link->port->settings->wall_ms();
	status->call.request = (struct wire_node){ .opcode = WIRE_CONTROL };
	status->call.host = status->host;
	status->call.head_bytes = LINK_STATUS_TEXT_BYTES;
	status->call.piece_count = 0;
	status->call.fn = status_on_answer;
	status->call.arg = link;
	rc = mt_link_submit(link, &status->call);
	status->is_asked = rc == 0;
	/* Without room for one more call it is asked again with the next one. */
	if (rc != 0 && link->sm.state == MT_LINK_CONNECTING)
		mt_link_close(link, rc, "its status cannot be asked for");
}

int
mt_link_status_init(struct mt_link *link, mt_link_status_fn fn)
{
	struct link_status *status = &link->status;

	assert(!status->is_asked);
	status->fn = fn;
	status->host = host_alloc(link->port->split, WIRE_HEADER_BYTES + LINK_STATUS_TEXT_BYTES);
	if (status->host == NULL)
		return -ENOMEM;
	memcpy(status->host + WIRE_HEADER_BYTES, link_status_text, LINK_STATUS_TEXT_BYTES);
	return 0;
}
