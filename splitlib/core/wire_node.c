/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire_node.c -- messages between gateways and storage nodes, decoded and encoded, as wire.c does it
 *
 * Where they put what has no field of its own:
 *
 *	requests         engine = enum extent_kind (CREATE, APPEND)
 *	FREEZE replies   payload_crc = chain CRC, length_bytes = mark
 *	APPEND replies   length_bytes = times (wire_node_times)
 *	FENCE, LIST      object_id = shard, not packed
 *	FIND             vm_id = block in its lower half, block_count in the upper one
 *	GATHER           payload = stretches (wire_gather.c)
 *	VOLUME_FENCE     object_id = volume, offset_bytes = attach
 *
 * The replies to what clients ask nodes for (wire_direct.c) are as others.
 */
#include <errno.h>

#include "base/check.h"
#include "base/field.h"
#include "base/num.h"
#include "cleave/gather.h"
#include "cleave/status.h"
#include "cleave/wire.h"

#define WIRE_FLAGS_KNOWN (WIRE_FLAG_RECOVERY | WIRE_FLAG_SEALED | WIRE_FLAG_DAMAGED)
#define WIRE_EXPECT(condition, name) FIELD_EXPECT(condition, name, -EPROTO)

static bool
wire_node_is_opcode(uint8_t opcode)
{
	return opcode >= WIRE_EXTENT_CREATE && opcode <= WIRE_EXTENT_LEND;
}

static bool
wire_node_is_answer(uint8_t opcode)
{
	return wire_node_is_opcode(opcode) || opcode == WIRE_TICKETS || opcode == WIRE_DIRECT_READ;
}

/* Messages about tickets alone: of no extent, and of no shard. */
static bool
wire_node_names_none(enum wire_opcode opcode)
{
	return opcode == WIRE_TICKET_KEY || opcode == WIRE_VOLUME_FENCE || opcode == WIRE_TICKETS;
}

static bool
wire_node_names_shard(enum wire_opcode opcode)
{
	return opcode == WIRE_EXTENT_LIST || opcode == WIRE_SHARD_FENCE;
}

static bool
wire_node_has_kind(enum wire_opcode opcode)
{
	return opcode == WIRE_EXTENT_CREATE || opcode == WIRE_EXTENT_APPEND;
}

static uint64_t
wire_node_object(enum wire_opcode opcode, const struct extent_id *id)
{
	if (wire_node_names_none(opcode))
		return 0;
	assert(opcode == WIRE_EXTENT_LIST || id->shard < CLEAVE_SHARDS_MAX);
	return wire_node_names_shard(opcode) ? id->shard : extent_id_pack(id);
}

static int
wire_node_decode_object(const struct wire_header *header, enum wire_opcode opcode,
    struct extent_id *ret_id, const char **ret_field)
{
	struct extent_id id = { 0 };

	if (wire_node_names_none(opcode)) {
		if (header->opcode == WIRE_VOLUME_FENCE)
			WIRE_EXPECT(header->object_id != 0, "object_id");
		else
			WIRE_EXPECT(header->object_id == 0, "object_id");
		id.shard = UINT32_MAX;
	} else if (wire_node_names_shard(opcode)) {
		bool is_every = opcode == WIRE_EXTENT_LIST && header->object_id == UINT32_MAX;

		WIRE_EXPECT(is_every || header->object_id < CLEAVE_SHARDS_MAX, "object_id");
		id.shard = (uint32_t)header->object_id;
	} else {
		id = extent_id_unpack(header->object_id);
		WIRE_EXPECT(id.shard < CLEAVE_SHARDS_MAX, "object_id");
	}
	*ret_id = id;
	return 0;
}

static int
wire_node_decode_range(const struct wire_header *header, const char **ret_field)
{
	uint64_t offset = header->offset_bytes;
	uint32_t length = header->length_bytes;
	bool is_append = header->opcode == WIRE_EXTENT_APPEND;

	switch (header->opcode) {
	case WIRE_EXTENT_APPEND:
		WIRE_EXPECT(offset < CLEAVE_CHUNK_BYTES && num_is_aligned(offset, BATCH_ALIGN),
		    "offset_bytes");
		WIRE_EXPECT(length > 0 && length <= BATCH_BYTES_MAX &&
			num_is_aligned(length, BATCH_ALIGN) &&
			offset + length <= CLEAVE_CHUNK_BYTES,
		    "length_bytes");
		break;
	case WIRE_EXTENT_READ:
		WIRE_EXPECT(offset < CLEAVE_CHUNK_BYTES, "offset_bytes");
		WIRE_EXPECT(length > 0 && length <= WIRE_PAYLOAD_BYTES_MAX, "length_bytes");
		break;
	case WIRE_EXTENT_FIND:
		WIRE_EXPECT(offset < CLEAVE_CHUNK_BYTES && num_is_aligned(offset, BATCH_ALIGN),
		    "offset_bytes");
		WIRE_EXPECT(length > BATCH_HEADER_BYTES && length <= BATCH_HEAD_BYTES_MAX,
		    "length_bytes");
		break;
	case WIRE_EXTENT_GATHER:
		WIRE_EXPECT(offset == 0, "offset_bytes");
		WIRE_EXPECT(length > 0 && length <= WIRE_GATHER_BYTES_MAX, "length_bytes");
		break;
	case WIRE_EXTENT_TRUNCATE:
		WIRE_EXPECT(offset <= CLEAVE_CHUNK_BYTES && num_is_aligned(offset, BATCH_ALIGN),
		    "offset_bytes");
		WIRE_EXPECT(length == 0, "length_bytes");
		break;
	case WIRE_EXTENT_DELETE: /* an incarnation */
	case WIRE_EXTENT_LIST:   /* a cursor */
	case WIRE_VOLUME_FENCE:  /* an attach */
	case WIRE_EXTENT_LEND:   /* a gateway */
		WIRE_EXPECT(length == 0, "length_bytes");
		break;
	default:
		WIRE_EXPECT(offset == 0, "offset_bytes");
		WIRE_EXPECT(length == 0, "length_bytes");
		break;
	}
	if (header->opcode == WIRE_EXTENT_GATHER)
		WIRE_EXPECT(num_is_aligned(header->payload_bytes, WIRE_STRETCH_BYTES) &&
			header->payload_bytes >= WIRE_STRETCH_BYTES &&
			header->payload_bytes <= WIRE_GATHER_MAX * WIRE_STRETCH_BYTES,
		    "payload_bytes");
	else
		WIRE_EXPECT(header->payload_bytes == (is_append ? length : 0), "payload_bytes");
	return 0;
}

static uint16_t
wire_node_flags(const struct wire_header *header)
{
	if (header->opcode == WIRE_EXTENT_APPEND)
		return WIRE_FLAG_RECOVERY;
	if (header->opcode == WIRE_EXTENT_CREATE && header->engine == EXTENT_LOG)
		return WIRE_FLAG_RESERVE;
	return 0;
}

/* Which blocks a FIND is about, of all others 0. */
static int
wire_node_decode_blocks(const struct wire_header *header, uint16_t *ret_block, uint16_t *ret_count,
    const char **ret_field)
{
	uint32_t block = header->vm_id & UINT16_MAX, count = header->vm_id >> 16;

	if (header->opcode == WIRE_EXTENT_FIND)
		WIRE_EXPECT(count > 0 && block + count <= CLEAVE_CHUNK_BLOCKS, "vm_id");
	else
		WIRE_EXPECT(header->vm_id == 0, "vm_id");
	*ret_block = (uint16_t)block;
	*ret_count = (uint16_t)count;
	return 0;
}

int
wire_node_decode(const struct wire_header *header, struct wire_node *ret_node,
    const char **ret_field)
{
	enum wire_opcode opcode = (enum wire_opcode)header->opcode;
	uint16_t flags_known = wire_node_flags(header);
	uint16_t block, block_count;
	struct extent_id id;
	int rc;

	assert(ret_node != NULL && ret_field != NULL);
	WIRE_EXPECT(wire_node_is_opcode(header->opcode), "opcode");
	WIRE_EXPECT(header->service_class == 0, "service_class");
	if (wire_node_has_kind(opcode))
		WIRE_EXPECT(header->engine >= EXTENT_LOG && header->engine <= EXTENT_MANIFEST,
		    "kind");
	else
		WIRE_EXPECT(header->engine == 0, "kind");
	rc = wire_node_decode_object(header, opcode, &id, ret_field);
	if (rc != 0)
		return rc;
	rc = wire_node_decode_range(header, ret_field);
	if (rc != 0)
		return rc;
	WIRE_EXPECT(header->epoch <= (wire_node_names_none(opcode) ? 0 : EXTENT_EPOCH_MAX),
	    "epoch");
	rc = wire_node_decode_blocks(header, &block, &block_count, ret_field);
	if (rc != 0)
		return rc;
	WIRE_EXPECT((header->flags & ~flags_known) == 0, "flags");
	WIRE_EXPECT(header->status == 0, "status");
	WIRE_EXPECT(header->payload_crc == 0, "payload_crc");
	*ret_node = (struct wire_node){
		.opcode = opcode,
		.request_id = header->request_id,
		.id = id,
		.volume_id = opcode == WIRE_VOLUME_FENCE ? header->object_id : 0,
		.kind = (enum extent_kind)header->engine,
		.offset_bytes = header->offset_bytes,
		.length_bytes = header->length_bytes,
		.stretch_count = opcode == WIRE_EXTENT_GATHER
		    ? (uint16_t)(header->payload_bytes / WIRE_STRETCH_BYTES)
		    : 0,
		.block = block,
		.block_count = block_count,
		.epoch = header->epoch,
		.flags = header->flags,
	};
	return 0;
}

void
wire_node_encode(struct wire_header *header, const struct wire_node *node)
{
	assert(!wire_node_has_kind(node->opcode) ||
	    (node->kind >= EXTENT_LOG && node->kind <= EXTENT_MANIFEST));
	assert(wire_node_is_opcode((uint8_t)node->opcode));
	assert(node->epoch <= EXTENT_EPOCH_MAX);
	assert((node->opcode == WIRE_EXTENT_FIND) == (node->block_count > 0));
	assert((node->opcode == WIRE_EXTENT_GATHER) == (node->stretch_count > 0));
	assert((node->opcode == WIRE_VOLUME_FENCE) == (node->volume_id != 0));
	*header = (struct wire_header){
		.opcode = (uint8_t)node->opcode,
		.engine = wire_node_has_kind(node->opcode) ? (uint8_t)node->kind : 0,
		.request_id = node->request_id,
		.object_id = node->volume_id != 0 ? node->volume_id
						  : wire_node_object(node->opcode, &node->id),
		.offset_bytes = node->offset_bytes,
		.length_bytes = node->length_bytes,
		.epoch = node->epoch,
		.vm_id = node->block | (uint32_t)node->block_count << 16,
		.flags = node->flags,
	};
}

static int
wire_node_reply_decode_payload(const struct wire_header *header, enum wire_opcode opcode,
    const char **ret_field)
{
	bool has_payload = header->status == 0 &&
	    (opcode == WIRE_EXTENT_READ || opcode == WIRE_EXTENT_LIST ||
		opcode == WIRE_EXTENT_FIND || opcode == WIRE_DIRECT_READ ||
		opcode == WIRE_TICKET_KEY || opcode == WIRE_EXTENT_GATHER);

	if (has_payload) {
		WIRE_EXPECT(header->length_bytes <= WIRE_PAYLOAD_BYTES_MAX, "length_bytes");
		WIRE_EXPECT(opcode != WIRE_EXTENT_FIND ||
			header->length_bytes <= WIRE_FIND_BYTES_MAX,
		    "length_bytes");
		WIRE_EXPECT(opcode != WIRE_EXTENT_FIND ||
			header->offset_bytes <= CLEAVE_CHUNK_BYTES,
		    "offset_bytes");
		WIRE_EXPECT(opcode != WIRE_EXTENT_LIST ||
			header->length_bytes % sizeof(struct wire_extent_entry) == 0,
		    "length_bytes");
	}
	WIRE_EXPECT(header->payload_bytes == (has_payload ? header->length_bytes : 0),
	    "payload_bytes");
	return 0;
}

int
wire_node_reply_decode(const struct wire_header *header, struct wire_node_reply *ret_reply,
    const char **ret_field)
{
	enum wire_opcode opcode = (enum wire_opcode)(header->opcode & ~WIRE_REPLY);
	struct extent_id id;
	int rc;

	assert(ret_reply != NULL && ret_field != NULL);
	WIRE_EXPECT((header->opcode & WIRE_REPLY) != 0 && wire_node_is_answer((uint8_t)opcode),
	    "opcode");
	WIRE_EXPECT(header->service_class == 0, "service_class");
	WIRE_EXPECT(header->engine == 0, "kind");
	rc = wire_node_decode_object(header, opcode, &id, ret_field);
	if (rc != 0)
		return rc;
	WIRE_EXPECT(header->status < CLEAVE_STATUS_NR, "status");
	rc = wire_node_reply_decode_payload(header, opcode, ret_field);
	if (rc != 0)
		return rc;
	WIRE_EXPECT(header->epoch <= EXTENT_EPOCH_MAX, "epoch");
	WIRE_EXPECT(header->vm_id == 0, "vm_id");
	WIRE_EXPECT((header->flags & ~WIRE_FLAGS_KNOWN) == 0, "flags");
	WIRE_EXPECT(opcode == WIRE_EXTENT_FREEZE || header->payload_crc == 0, "payload_crc");
	*ret_reply = (struct wire_node_reply){
		.opcode = opcode,
		.request_id = header->request_id,
		.id = id,
		.rc = status_to_errno(header->status),
		.offset_bytes = header->offset_bytes,
		.length_bytes = header->length_bytes,
		.chain_crc = header->payload_crc,
		.epoch = header->epoch,
		.flags = header->flags,
	};
	return 0;
}

void
wire_node_reply_encode(struct wire_header *header, const struct wire_node_reply *reply)
{
	bool is_freeze = reply->opcode == WIRE_EXTENT_FREEZE;

	assert(wire_node_is_answer((uint8_t)reply->opcode));
	assert(reply->rc <= 0);
	assert(reply->epoch <= EXTENT_EPOCH_MAX);
	*header = (struct wire_header){
		.opcode = (uint8_t)(reply->opcode | WIRE_REPLY),
		.request_id = reply->request_id,
		.object_id = wire_node_object(reply->opcode, &reply->id),
		.offset_bytes = reply->offset_bytes,
		.length_bytes = reply->length_bytes,
		.epoch = reply->epoch,
		.flags = reply->flags,
		.status = status_from_errno(reply->rc),
		.payload_crc = is_freeze ? reply->chain_crc : 0,
	};
}

/*
 * Three times in a number:  31 told | 30 zero | 29..20 queue | 19..10 write | 9..0 flush, each of 5 bits of exponent
 * and 5 of mantissa: microseconds below 32 as they are, others as the upper 6 bits, whose first is not sent.
 */
#define TIMES_TOLD (UINT32_C(1) << 31)
#define TIMES_MANTISSA_BITS 5u
#define TIMES_MANTISSAS (1u << TIMES_MANTISSA_BITS)
#define TIMES_BITS 10u
#define TIMES_MASK ((1u << TIMES_BITS) - 1)

static uint32_t
time_encode(uint32_t us)
{
	uint32_t shift;

	if (us < TIMES_MANTISSAS)
		return us;
	shift = 31u - (uint32_t)__builtin_clz(us) - TIMES_MANTISSA_BITS;
	assert(us >> shift >= TIMES_MANTISSAS && us >> shift < 2 * TIMES_MANTISSAS);
	return (shift + 1) << TIMES_MANTISSA_BITS | ((us >> shift) - TIMES_MANTISSAS);
}

static uint32_t
time_decode(uint32_t code)
{
	uint32_t exponent = code >> TIMES_MANTISSA_BITS, mantissa = code & (TIMES_MANTISSAS - 1);
	uint64_t us = exponent == 0 ? mantissa
				    : (uint64_t)(TIMES_MANTISSAS + mantissa) << (exponent - 1);

	assert(code <= TIMES_MASK);
	return (uint32_t)num_min(us, UINT32_MAX);
}

uint32_t
wire_node_times_encode(const struct wire_node_times *times)
{
	return TIMES_TOLD | time_encode(times->queue_us) << 2 * TIMES_BITS |
	    time_encode(times->write_us) << TIMES_BITS | time_encode(times->flush_us);
}

struct wire_node_times
wire_node_times_decode(uint32_t told)
{
	if ((told & TIMES_TOLD) == 0)
		return (struct wire_node_times){ .queue_us = 0 };
	return (struct wire_node_times){
		.queue_us = time_decode(told >> 2 * TIMES_BITS & TIMES_MASK),
		.write_us = time_decode(told >> TIMES_BITS & TIMES_MASK),
		.flush_us = time_decode(told & TIMES_MASK),
	};
}

int
wire_listed_decode(const struct wire_extent_entry *entry, uint32_t shard,
    struct wire_listed *ret_listed, const char **ret_field)
{
	struct extent_id id = extent_id_unpack(entry->extent);

	assert(ret_listed != NULL && ret_field != NULL);
	/* A packed id has room for more shards than there are. */
	WIRE_EXPECT(id.shard < CLEAVE_SHARDS_MAX && id.epoch != 0, "extent");
	WIRE_EXPECT(shard == UINT32_MAX || id.shard == shard, "shard");
	WIRE_EXPECT(entry->kind >= EXTENT_LOG && entry->kind <= EXTENT_MANIFEST, "extent_kind");
	WIRE_EXPECT(entry->state >= WIRE_EXTENT_OPEN && entry->state <= WIRE_EXTENT_SEALED,
	    "extent_state");
	WIRE_EXPECT((entry->flags & ~WIRE_FLAG_DAMAGED) == 0, "extent_flags");
	WIRE_EXPECT(entry->length_bytes <= CLEAVE_CHUNK_BYTES &&
		num_is_aligned(entry->length_bytes, BATCH_ALIGN),
	    "length_bytes");
	WIRE_EXPECT(entry->fence_epoch <= EXTENT_EPOCH_MAX, "fence_epoch");
	*ret_listed = (struct wire_listed){
		.id = id,
		.kind = (enum extent_kind)entry->kind,
		.state = (enum wire_extent_state)entry->state,
		.incarnation = entry->incarnation,
		.length_bytes = entry->length_bytes,
		.fence_epoch = entry->fence_epoch,
		.is_damaged = (entry->flags & WIRE_FLAG_DAMAGED) != 0,
	};
	return 0;
}

int
wire_list_check_cursor(uint64_t cursor, uint32_t count, uint64_t next, const char **ret_field)
{
	assert(ret_field != NULL);
	WIRE_EXPECT(next == 0 ||
		(next <= WIRE_LIST_CURSOR_MAX && count > 0 && next > cursor &&
		    next - cursor >= count),
	    "cursor");
	return 0;
}
