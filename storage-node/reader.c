/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reader.c -- connections of clients that read by tickets: what each may ask, and its tickets
 *
 *	TICKETS      judged once (permit.c), kept in the slot that the client has chosen
 *	DIRECT_READ  slot -> ticket: not ended, this extent, within its range; then it is a read as any other
 *	ECHO, and the status of its own connection
 *
 * Nothing else: no list, no append, no status of the node. A reader has WIRE_TICKET_SLOTS_MAX slots, allocated by
 * blocks as they are used (I9). Readers have SN_READER_PART of the node's places, and those of one key half of these,
 * so that others find one. Gateways always do: until its first ticket is believed a reader is a guest, which gives way
 * to whoever comes (split_qp_keep), and from then on it lodges: it gives its place where there is no guest to do so.
 */
#include "reader.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "cleave/secure.h"
#include "cleave/split.h"
#include "cleave/ticket.h"
#include "node_state.h"
#include "read.h"
#include "request.h"

/* The parts of the node's places that readers have, and those with one key. */
#define SN_READER_PART(places) ((places) / 4 * 3)
#define SN_READER_KEY_PART(places) (SN_READER_PART(places) / 2)

void
sn_readers_init(struct node *node)
{
	assert(node->readers.next == NULL);
	list_init(&node->readers);
}

void
sn_readers_fini(struct node *node)
{
	if (node->readers.next == NULL)
		return;
	while (!list_is_empty(&node->readers))
		sn_reader_close(LIST_ENTRY(list_first(&node->readers), struct sn_reader, link));
}

static uint32_t
reader_count_of(const struct node *node, const struct split_subject *subject)
{
	const struct loop_link *link;
	uint32_t count = 0;

	for (link = node->readers.next; link != &node->readers; link = link->next) {
		const struct split_subject *other = split_qp_subject(
		    LIST_ENTRY(link, struct sn_reader, link)->qp);

		count += other != NULL && other->role == subject->role &&
		    strcmp(other->name, subject->name) == 0;
	}
	return count;
}

/* Is there a place for who comes with @subject (NULL: without a key)? */
static int
reader_judge_places(const struct node *node, const struct split_subject *subject, char *why)
{
	uint32_t places = split_port_accepted_max(node->port);
	uint32_t count;

	if (node->reader_count >= SN_READER_PART(places)) {
		(void)snprintf(why, SPLIT_KEY_WHY_BYTES_MAX,
		    "so many clients are connected already: %u", node->reader_count);
		return -EBUSY;
	}
	count = subject == NULL ? 0 : reader_count_of(node, subject);
	if (count < SN_READER_KEY_PART(places))
		return 0;
	(void)snprintf(why, SPLIT_KEY_WHY_BYTES_MAX,
	    "so many connections with its key are here already: %u", count);
	return -EBUSY;
}

int
sn_reader_judge(const struct node *node, const struct split_qp *qp, char *why)
{
	static const struct split_wanted wanted = { .roles = SPLIT_ROLE_CLIENT | SPLIT_ROLE_ADMIN };
	const struct split_subject *subject = split_qp_subject(qp);

	*why = '\0';
	if (node->options.direct == NODE_DIRECT_OFF) {
		(void)snprintf(why, SPLIT_KEY_WHY_BYTES_MAX,
		    "this node takes no clients (--direct)");
		return -ENOTSUP;
	}
	if (subject == NULL && node->options.direct != NODE_DIRECT_TRUSTED) {
		(void)snprintf(why, SPLIT_KEY_WHY_BYTES_MAX, "this node takes clients with a key");
		return -EKEYREJECTED;
	}
	if (subject != NULL && split_subject_check(subject, &wanted, why) != 0)
		return -EKEYREJECTED;
	return reader_judge_places(node, subject, why);
}

struct sn_reader *
sn_reader_open(struct node *node, const struct split_qp *qp, uint64_t session_id)
{
	struct sn_reader *reader = sn_calloc(1, sizeof(*reader));

	assert(node->permit != NULL && session_id != 0);
	if (reader == NULL)
		return NULL;
	reader->peer = (struct sn_peer){ .node = node, .is_reader = true };
	reader->qp = qp;
	reader->session_id = session_id;
	list_push_back(&node->readers, &reader->link);
	node->reader_count++;
	return reader;
}

struct sn_reader *
sn_reader_of(struct sn_peer *peer)
{
	assert(peer->is_reader);
	return NUM_CONTAINER_OF(peer, struct sn_reader, peer);
}

void
sn_reader_close(struct sn_reader *reader)
{
	struct node *node = reader->peer.node;

	CHECK_OBJ(node, SN_NODE_MAGIC);
	assert(node->reader_count > 0);
	node->reader_count--;
	list_remove(&reader->link);
	for (uint32_t i = 0; i < SN_READER_BLOCKS_MAX; i++)
		free(reader->blocks[i]);
	free(reader);
}

static const char *
reader_text(const struct split_qp *qp, char text[SPLIT_SUBJECT_TEXT_BYTES_MAX])
{
	const struct split_subject *subject = split_qp_subject(qp);

	return subject == NULL ? "-" : split_subject_text(subject, text);
}

void
sn_reader_note_refused(const struct sn_reader *reader, const struct split_msg *msg)
{
	char by[SPLIT_SUBJECT_TEXT_BYTES_MAX];

	SN_COUNT(reader->peer.node, direct_refused, 1);
	log_limited(LOG_WARN,
	    "audit: refused, a client asks for what gateways alone may opcode=0x%02x by=%s peer=%s",
	    msg->header->opcode, reader_text(msg->qp, by), split_qp_peer(msg->qp));
}

/* ---- tickets ---- */

static struct sn_ticket *
reader_slot(const struct sn_reader *reader, uint32_t slot)
{
	struct sn_ticket *block = reader->blocks[slot / SN_READER_BLOCK];

	assert(slot < WIRE_TICKET_SLOTS_MAX);
	return block == NULL ? NULL : &block[slot % SN_READER_BLOCK];
}

/* Is @ticket in its slot now? A slot that was used before holds nothing if it is not. */
static bool
reader_put(struct sn_reader *reader, const struct split_msg *msg, const struct wire_ticket *ticket)
{
	struct sn_ticket **block = &reader->blocks[ticket->slot / SN_READER_BLOCK];
	struct sn_ticket believed = { .expires_ns = 0 };
	const struct ticket_bearer bearer = { reader->peer.node->super.node_id, reader->session_id,
		split_qp_subject(msg->qp) };
	int rc =
	    sn_permit_judge(reader->peer.node, ticket, &bearer, split_qp_peer(msg->qp), &believed);

	if (rc == 0 && *block == NULL)
		*block = sn_calloc(SN_READER_BLOCK, sizeof(**block));
	if (*block == NULL)
		return false;
	*reader_slot(reader, ticket->slot) = believed;
	return rc == 0;
}

static int
reader_take_tickets(struct sn_reader *reader, struct split_msg *msg,
    const struct wire_direct *direct, const char **ret_field)
{
	uint8_t bytes[WIRE_TICKETS_MAX * WIRE_TICKET_BYTES];
	const struct wire_node wire = { .opcode = WIRE_TICKETS,
		.request_id = direct->request_id,
		.id = { .shard = UINT32_MAX } };
	struct wire_node_reply reply = { .rc = 0 };
	struct node *node = reader->peer.node;
	struct wire_ticket ticket;

	assert(direct->ticket_count > 0 && direct->ticket_count <= WIRE_TICKETS_MAX);
	dev_copy_to_host(node->port, bytes, msg->payload, direct->ticket_count * WIRE_TICKET_BYTES);
	for (uint32_t i = 0; i < direct->ticket_count; i++) {
		int rc = wire_ticket_decode(bytes + i * WIRE_TICKET_BYTES, &ticket, ret_field);

		if (rc != 0)
			return rc;
		if (reader_put(reader, msg, &ticket))
			reply.offset_bytes |= UINT64_C(1) << i;
	}
	SN_COUNT(node, tickets, (uint64_t)__builtin_popcountll(reply.offset_bytes));
	SN_COUNT(node, tickets_refused,
	    direct->ticket_count - (uint64_t)__builtin_popcountll(reply.offset_bytes));
	if (reply.offset_bytes != 0)
		split_qp_lodge(msg->qp);
	sn_request_finish(sn_request_take(node, msg, &wire), &reply, NULL);
	return 0;
}

/* ---- reads ---- */

static int
reader_judge_read(const struct sn_reader *reader, const struct split_msg *msg,
    const struct wire_direct *direct)
{
	struct sn_ticket *ticket = reader_slot(reader, direct->slot);
	char by[SPLIT_SUBJECT_TEXT_BYTES_MAX];

	if (ticket == NULL || !sn_permit_is_valid(reader->peer.node, ticket))
		return -EKEYREVOKED;
	if (extent_id_pack(&ticket->id) == extent_id_pack(&direct->id) &&
	    direct->offset_bytes >= ticket->from_bytes &&
	    direct->offset_bytes + direct->length_bytes <= ticket->to_bytes)
		return 0;
	log_limited(LOG_WARN,
	    "audit: refused, a client reads what its ticket is not for by=%s peer=%s extent=%u.%u.%llu "
	    "offset_bytes=%" PRIu64 " length_bytes=%" PRIu32,
	    reader_text(msg->qp, by), split_qp_peer(msg->qp), direct->id.shard, direct->id.epoch,
	    (unsigned long long)direct->id.counter, direct->offset_bytes, direct->length_bytes);
	return -EKEYREVOKED;
}

static void
reader_read(const struct sn_reader *reader, struct split_msg *msg, const struct wire_direct *direct)
{
	const struct wire_node wire = { .opcode = WIRE_DIRECT_READ,
		.request_id = direct->request_id,
		.id = direct->id,
		.offset_bytes = direct->offset_bytes,
		.length_bytes = direct->length_bytes };
	struct node *node = reader->peer.node;
	int rc = node->sm.state != NODE_READY ? -EHOSTDOWN : reader_judge_read(reader, msg, direct);
	struct sn_request *req = sn_request_take(node, msg, &wire);

	if (rc != 0) {
		SN_COUNT(node, direct_refused, 1);
		sn_request_fail(req, rc);
		return;
	}
	SN_COUNT(node, direct_reads, 1);
	sn_read_start(req);
}

int
sn_reader_run(struct sn_reader *reader, struct split_msg *msg, const char **ret_field)
{
	struct wire_direct direct;
	int rc = wire_direct_decode(msg->header, &direct, ret_field);

	CHECK_OBJ(reader->peer.node, SN_NODE_MAGIC);
	if (rc == 0 && direct.opcode == WIRE_TICKETS)
		rc = reader_take_tickets(reader, msg, &direct, ret_field);
	else if (rc == 0)
		reader_read(reader, msg, &direct);
	return rc;
}

/* ---- asking ---- */

json_t *
sn_reader_status(const struct sn_reader *reader)
{
	struct node *node = reader->peer.node;
	json_int_t count = 0;

	for (uint32_t slot = 0; slot < WIRE_TICKET_SLOTS_MAX; slot++) {
		struct sn_ticket *ticket = reader_slot(reader, slot);

		count += ticket != NULL && sn_permit_is_valid(node, ticket);
	}
	return json_pack("{s:s, s:I, s:I, s:i}", "role", "node", "node_id",
	    (json_int_t)node->super.node_id, "tickets", count, "tickets_max",
	    (int)WIRE_TICKET_SLOTS_MAX);
}
