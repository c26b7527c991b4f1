/* SPDX-License-Identifier: Apache-2.0 */
/* wire_direct.c -- what VM clients ask storage nodes for, tickets, and the key of these, decoded and encoded */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/field.h"
#include "base/num.h"
#include "wire.h"

#define TICKET_KEY_FORMAT 1u
_Static_assert(40u + WIRE_TICKET_MAC_BYTES == WIRE_TICKET_BYTES, "a ticket is full");

#define WIRE_EXPECT(condition, name) FIELD_EXPECT(condition, name, -EPROTO)

static int
direct_decode_tickets(const struct wire_header *header, const char **ret_field)
{
	uint32_t bytes = header->payload_bytes;

	WIRE_EXPECT(header->object_id == 0, "object_id");
	WIRE_EXPECT(header->offset_bytes == 0, "offset_bytes");
	WIRE_EXPECT(header->length_bytes == 0, "length_bytes");
	WIRE_EXPECT(bytes > 0 && bytes % WIRE_TICKET_BYTES == 0 &&
		bytes / WIRE_TICKET_BYTES <= WIRE_TICKETS_MAX,
	    "payload_bytes");
	WIRE_EXPECT(header->vm_id == 0, "vm_id");
	return 0;
}

static int
direct_decode_read(const struct wire_header *header, const char **ret_field)
{
	WIRE_EXPECT(extent_id_unpack(header->object_id).shard < CLEAVE_SHARDS_MAX, "object_id");
	WIRE_EXPECT(header->offset_bytes < CLEAVE_CHUNK_BYTES, "offset_bytes");
	WIRE_EXPECT(header->length_bytes > 0 &&
		header->length_bytes <= WIRE_CLIENT_PAYLOAD_BYTES_MAX,
	    "length_bytes");
	WIRE_EXPECT(header->payload_bytes == 0, "payload_bytes");
	WIRE_EXPECT(header->vm_id < WIRE_TICKET_SLOTS_MAX, "vm_id");
	return 0;
}

int
wire_direct_decode(const struct wire_header *header, struct wire_direct *ret_direct,
    const char **ret_field)
{
	bool is_tickets = header->opcode == WIRE_TICKETS;
	int rc;

	assert(ret_direct != NULL && ret_field != NULL);
	WIRE_EXPECT(is_tickets || header->opcode == WIRE_DIRECT_READ, "opcode");
	WIRE_EXPECT(header->service_class == 0, "service_class");
	WIRE_EXPECT(header->engine == 0, "engine");
	rc = is_tickets ? direct_decode_tickets(header, ret_field)
			: direct_decode_read(header, ret_field);
	if (rc != 0)
		return rc;
	WIRE_EXPECT(header->epoch == 0, "epoch");
	WIRE_EXPECT(header->flags == 0, "flags");
	WIRE_EXPECT(header->status == 0, "status");
	WIRE_EXPECT(header->payload_crc == 0, "payload_crc");
	*ret_direct = (struct wire_direct){
		.opcode = (enum wire_opcode)header->opcode,
		.request_id = header->request_id,
		.ticket_count = header->payload_bytes / WIRE_TICKET_BYTES,
		.id = extent_id_unpack(header->object_id),
		.offset_bytes = header->offset_bytes,
		.length_bytes = header->length_bytes,
		.slot = header->vm_id,
	};
	return 0;
}

void
wire_direct_encode(struct wire_header *header, const struct wire_direct *direct)
{
	bool is_tickets = direct->opcode == WIRE_TICKETS;

	assert(is_tickets || direct->opcode == WIRE_DIRECT_READ);
	assert(is_tickets == (direct->ticket_count > 0));
	*header = (struct wire_header){
		.opcode = (uint8_t)direct->opcode,
		.request_id = direct->request_id,
		.object_id = extent_id_pack(&direct->id),
		.offset_bytes = direct->offset_bytes,
		.length_bytes = direct->length_bytes,
		.vm_id = direct->slot,
	};
}

void
wire_ticket_encode(uint8_t out[WIRE_TICKET_BYTES], const struct wire_ticket *ticket)
{
	num_put_le64(out, extent_id_pack(&ticket->id));
	num_put_le32(out + 8, ticket->from_bytes);
	num_put_le32(out + 12, ticket->to_bytes);
	num_put_le64(out + 16, ticket->volume_id);
	num_put_le64(out + 24, ticket->attach);
	num_put_le32(out + 32, ticket->slot);
	num_put_le32(out + 36, ticket->key_number);
	memcpy(out + 40, ticket->mac, WIRE_TICKET_MAC_BYTES);
}

int
wire_ticket_decode(const uint8_t in[WIRE_TICKET_BYTES], struct wire_ticket *ret_ticket,
    const char **ret_field)
{
	struct wire_ticket ticket = {
		.id = extent_id_unpack(num_get_le64(in)),
		.from_bytes = num_get_le32(in + 8),
		.to_bytes = num_get_le32(in + 12),
		.volume_id = num_get_le64(in + 16),
		.attach = num_get_le64(in + 24),
		.slot = num_get_le32(in + 32),
		.key_number = num_get_le32(in + 36),
	};

	assert(ret_ticket != NULL && ret_field != NULL);
	WIRE_EXPECT(ticket.id.shard < CLEAVE_SHARDS_MAX, "ticket_extent");
	WIRE_EXPECT(ticket.from_bytes < ticket.to_bytes && ticket.to_bytes <= CLEAVE_CHUNK_BYTES,
	    "ticket_range");
	WIRE_EXPECT(ticket.volume_id != 0, "ticket_volume");
	WIRE_EXPECT(ticket.slot < WIRE_TICKET_SLOTS_MAX, "ticket_slot");
	memcpy(ticket.mac, in + 40, WIRE_TICKET_MAC_BYTES);
	*ret_ticket = ticket;
	return 0;
}

void
wire_ticket_key_encode(uint8_t out[WIRE_TICKET_KEY_ANSWER_BYTES], const struct wire_ticket_key *key)
{
	num_put_le32(out, TICKET_KEY_FORMAT);
	num_put_le32(out + 4, key->number);
	memcpy(out + 8, key->key, WIRE_TICKET_KEY_BYTES);
}

int
wire_ticket_key_decode(const uint8_t *in, uint32_t bytes, struct wire_ticket_key *ret_key,
    const char **ret_field)
{
	assert(ret_key != NULL && ret_field != NULL);
	WIRE_EXPECT(bytes == WIRE_TICKET_KEY_ANSWER_BYTES, "payload_bytes");
	WIRE_EXPECT(num_get_le32(in) == TICKET_KEY_FORMAT, "ticket_key_format");
	ret_key->number = num_get_le32(in + 4);
	memcpy(ret_key->key, in + 8, WIRE_TICKET_KEY_BYTES);
	return 0;
}
