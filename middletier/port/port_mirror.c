/* SPDX-License-Identifier: Apache-2.0 */
/*
 * port_mirror.c -- heads of batches, for take-overs: a port's own go to its heirs, other gateways' come here
 *
 *	main: mt_port_mirror_heirs --the newest--> port: head_push (extent/) --MIRROR_HEADS--> the heir's port
 *	another gateway's port --MIRROR_HEADS--> mt_port_mirror_take --> head_mirror (extent/) --> a take-over's replay
 *
 * A gateway that keeps no heads says so, and is told of none for a while. Who sends heads has said hello as a gateway, and
 * has shown that it is one where the port has a key (session_hello.c). It needs no more right than that, for a head is
 * worth what its chain says, whoever sent it.
 */
#include "port/port_mirror.h"

#include <errno.h>
#include <stdint.h>

#include "base/check.h"
#include "base/metrics.h"
#include "base/sm.h"
#include "cleave/dev_ptr.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/settings.h"
#include "extent/head_mirror.h"
#include "extent/head_push.h"
#include "extent/peer_link.h"
#include "port/port.h"
#include "port/port_life.h"
#include "port/port_mailbox.h"
#include "session/session.h"

struct mt_port_mirror {
	struct mt_port_mailbox *heirs;
	uint8_t payload[WIRE_MIRROR_BYTES_MAX]; /* of the message that is being looked at */
};

/* ---- where ours go ---- */

static void
mirror_on_heirs(void *arg, const void *value)
{
	struct mt_port *port = arg;

	CHECK_OBJ(port, MT_PORT_MAGIC);
	if (port->sm.state <= MT_PORT_RUNNING)
		mt_head_push_heirs(port, value);
}

void
mt_port_mirror_heirs(struct mt_port *port, const struct mt_heirs *heirs)
{
	CHECK_OBJ(port, MT_PORT_MAGIC);
	assert(heirs->count <= MT_HEIRS_MAX);
	if (port->life->mirror != NULL)
		mt_port_mailbox_put(port->life->mirror->heirs, heirs);
}

/* ---- what comes ---- */

/* Heads before a wrong entry are kept, and do no harm. */
static int
mirror_keep(struct mt_port *port, const uint8_t *payload, uint32_t bytes, const char **ret_field)
{
	struct wire_mirror_entry entry;

	for (uint32_t at = 0; at < bytes; at += wire_mirror_entry_bytes(entry.head_bytes)) {
		int rc = wire_mirror_entry_decode(payload + at, bytes - at, &entry, ret_field);

		if (rc != 0)
			return rc;
		mt_head_mirror_put(port->head_mirror, &entry.id, entry.offset_bytes,
		    payload + at + WIRE_MIRROR_ENTRY_BYTES, entry.head_bytes);
		metric_add(&port->metrics[MT_METRIC_heads_kept], 1);
	}
	return 0;
}

int
mt_port_mirror_take(struct mt_session *session, struct split_msg *msg, const char **ret_field)
{
	struct mt_port *port = session->port;
	struct wire_mirror request, answer;
	struct wire_header header;
	int rc = wire_mirror_decode(msg->header, &request, ret_field);

	assert(session->qp != NULL);
	if (rc != 0)
		return rc;
	if (request.is_reply || session->hello.role != WIRE_ROLE_GATEWAY) {
		*ret_field = "opcode";
		return -EPROTO;
	}
	rc = port->head_mirror == NULL ? -ENOTSUP : 0;
	if (rc == 0) {
		uint8_t *payload = port->life->mirror->payload;

		dev_copy_to_host(port->split, payload, msg->payload, request.payload_bytes);
		if (mirror_keep(port, payload, request.payload_bytes, ret_field) != 0)
			return -EPROTO;
	}
	answer =
	    (struct wire_mirror){ .request_id = request.request_id, .is_reply = true, .rc = rc };
	wire_mirror_encode(&header, &answer);
	split_msg_reply(msg, &header, NULL, 0, NULL, NULL);
	return 0;
}

/* ---- its life ---- */

int
mt_port_mirror_init(struct mt_port *port)
{
	uint64_t bytes = port->settings->mirror_bytes;
	struct mt_port_mirror *mirror;
	int rc;

	assert(port->life->mirror == NULL);
	if (bytes == 0)
		return 0;
	port->life->mirror = mirror = mt_calloc(1, sizeof(*mirror));
	if (mirror == NULL)
		return -ENOMEM;
	mirror->heirs =
	    mt_port_mailbox_create(port->loop, sizeof(struct mt_heirs), mirror_on_heirs, port);
	port->head_mirror = mt_head_mirror_create(bytes);
	if (mirror->heirs == NULL || port->head_mirror == NULL)
		return -ENOMEM;
	rc = mt_peer_links_init(port);
	return rc == 0 ? mt_head_push_init(port) : rc;
}

void
mt_port_mirror_fini(struct mt_port *port)
{
	struct mt_port_mirror *mirror = port->life->mirror;

	mt_head_push_fini(port);
	mt_peer_links_fini(port);
	mt_head_mirror_destroy(port->head_mirror);
	if (mirror != NULL)
		mt_port_mailbox_destroy(mirror->heirs);
	mt_free(mirror);
	port->head_mirror = NULL;
	port->life->mirror = NULL;
}
