/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link_ticket.c -- see link_ticket.h
 *
 *	a node's status says "direct" --TICKET_KEY--> key, in this link alone --> tickets, for half of WIRE_TICKET_KEY_MS
 *	                ^-- with each status, and for a ticket where the key is old
 *
 * A node tells a key that it believes in for WIRE_TICKET_KEY_MS from then on, at least. The link counts from when it
 * asked, and makes no ticket in the second half of that, so a ticket is good for the other half. The key goes with the
 * connection, and to no log, status or store; the receive that it came in is wiped.
 */
#include "extent/link_ticket.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "catalog/cluster_key.h"
#include "cleave/level.h"
#include "cleave/split.h"
#include "cleave/ticket.h"
#include "common/alloc.h"
#include "common/port.h"
#include "extent/link_call.h"
#include "extent/node_link.h"

#define TICKET_MAKE_NS (NUM_MS(WIRE_TICKET_KEY_MS) / 2)

static bool
link_takes_clients(const struct mt_link *link)
{
	return link->is_direct && mt_link_is_up(link) && link->close_rc == 0 &&
	    link->agreed_level >= CLEAVE_LEVEL_READS;
}

/* ---- the key ---- */

static int
ticket_take_key(struct mt_link *link, const struct split_msg *msg)
{
	static const uint8_t zeros[WIRE_TICKET_KEY_ANSWER_BYTES];
	uint8_t bytes[WIRE_TICKET_KEY_ANSWER_BYTES];
	uint32_t count = (uint32_t)num_min(msg->payload_bytes, sizeof(bytes));
	const char *field;
	int rc;

	dev_copy_to_host(link->port->split, bytes, msg->payload, count);
	rc = wire_ticket_key_decode(bytes, msg->payload_bytes, &link->ticket.key, &field);
	explicit_bzero(bytes, sizeof(bytes));
	dev_copy_from_host(link->port->split, msg->payload, zeros, count);
	return rc == 0 && link->ticket.key.number == 0 ? -EPROTO : rc;
}

static void
ticket_on_key(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg)
{
	struct mt_link *link = arg;

	(void)reply;
	assert(call == &link->ticket.call && link->ticket.is_asked);
	link->ticket.is_asked = false;
	if (rc == 0) {
		rc = msg == NULL ? -EPROTO : ticket_take_key(link, msg);
		link->ticket.told_ns = link->ticket.asked_ns;
	}
	if (msg != NULL)
		split_msg_release(msg);
	if (rc == 0)
		return;
	ticket_key_wipe(&link->ticket.key);
	/* All else that the node does for this gateway goes on. */
	if (rc != -ECONNRESET && rc != -ETIMEDOUT)
		log_limited(LOG_WARN,
		    "node %" PRIu32
		    ": tells no key for tickets, its clients read at gateways address=%s "
		    "rc=%s: its log says why",
		    link->node_id, link->config.address, log_errno(rc));
}

void
mt_link_ticket_ask(struct mt_link *link)
{
	struct mt_link_ticket *ticket = &link->ticket;

	CHECK_OBJ(link, LINK_MAGIC);
	/* A recovery has no store: nodes let it list and read alone, and cut off whoever asks for more. */
	if (!link_takes_clients(link) || ticket->is_asked ||
	    store_id_is_zero(&link->port->cluster->store_id))
		return;
	ticket->asked_ns = loop_now_ns(link->port->loop);
	ticket->call.request =
	    (struct wire_node){ .opcode = WIRE_TICKET_KEY, .id = { .shard = UINT32_MAX } };
	ticket->call.fn = ticket_on_key;
	ticket->call.arg = link;
	/* Where there is no room for one more call it is asked again with the next status. */
	ticket->is_asked = mt_link_submit(link, &ticket->call) == 0;
}

void
mt_link_ticket_lost(struct mt_link *link)
{
	ticket_key_wipe(&link->ticket.key);
}

int
mt_link_ticket(struct mt_link *link, uint64_t session_id, const struct split_subject *subject,
    struct wire_ticket *ticket)
{
	const struct ticket_bearer bearer = { link->node_id, session_id, subject };

	CHECK_OBJ(link, LINK_MAGIC);
	if (!link_takes_clients(link))
		return -ENOTSUP;
	if (link->ticket.key.number == 0 ||
	    loop_now_ns(link->port->loop) - link->ticket.told_ns >= TICKET_MAKE_NS) {
		mt_link_ticket_ask(link);
		return -EAGAIN;
	}
	return ticket_make(&link->ticket.key, &bearer, ticket);
}

/* ---- fences ---- */

struct mt_link_fence {
	struct mt_call call;
	bool is_out;
};

static void
fence_on_answer(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg)
{
	struct mt_link_fence *fence = arg;

	(void)rc; /* a second layer: tickets end by themselves */
	(void)reply;
	assert(call == &fence->call && fence->is_out && msg == NULL);
	fence->is_out = false;
}

static void
fence_send(struct mt_link *link, uint64_t volume_id, uint64_t attach)
{
	struct mt_link_ticket *ticket = &link->ticket;
	struct mt_link_fence *fence = NULL;

	if (ticket->fences == NULL)
		ticket->fences = mt_calloc(LINK_FENCES_MAX, sizeof(*ticket->fences));
	for (uint32_t i = 0; i < LINK_FENCES_MAX && ticket->fences != NULL && fence == NULL; i++) {
		if (!ticket->fences[i].is_out)
			fence = &ticket->fences[i];
	}
	if (fence == NULL)
		return;
	fence->call = (struct mt_call){ .request = { .opcode = WIRE_VOLUME_FENCE,
					    .id = { .shard = UINT32_MAX },
					    .volume_id = volume_id,
					    .offset_bytes = attach },
		.fn = fence_on_answer,
		.arg = fence };
	fence->is_out = mt_link_call(link, &fence->call) == 0;
}

void
mt_port_volume_fence(struct mt_port *port, uint64_t volume_id, uint64_t attach)
{
	assert(volume_id != 0);
	for (uint32_t i = 0; i < port->link_count; i++) {
		if (link_takes_clients(&port->links[i]))
			fence_send(&port->links[i], volume_id, attach);
	}
}

void
mt_link_ticket_fini(struct mt_link *link)
{
	mt_link_ticket_lost(link);
	mt_free(link->ticket.fences);
	link->ticket.fences = NULL;
}
