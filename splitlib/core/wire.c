/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.c -- messages decoded and encoded: every field of a header is checked here, and only here
 *
 * A header is 64 bytes that a peer chose. wire_frame_check looks at what frames a message, for all
 * messages alike; the decoder of its group looks at the rest: what a group does not use must be zero,
 * so that it can get a meaning later. Each decoder either fills its output or leaves it alone and
 * names the first field that is wrong; the names are static strings. `credits` belongs to the split
 * library and passes every decoder.
 *
 * Where the groups put what has no field of its own:
 *
 *	node requests    engine = enum extent_kind (CREATE, APPEND)
 *	FREEZE replies   payload_crc = chain CRC, length_bytes = mark
 *	FENCE, LIST      object_id = shard, not packed
 */
#include "cleave/wire.h"
#include "base/field.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/num.h"
#include "cleave/status.h"
#include "wire.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "headers are used as they travel");

#define WIRE_HEADER_CRC_BYTES 60u
#define WIRE_FLAGS_KNOWN (WIRE_FLAG_RECOVERY | WIRE_FLAG_SEALED | WIRE_FLAG_DAMAGED)

#define EXTENT_COUNTER_BITS 26u
#define EXTENT_EPOCH_BITS 24u

#define WIRE_EXPECT(condition, name) FIELD_EXPECT(condition, name, -EPROTO)

int
wire_frame_check(const struct wire_header *header, const char **ret_field)
{
	if (header->magic != WIRE_MAGIC) {
		*ret_field = "magic";
		return -EPROTO;
	}
	if (header->version != WIRE_VERSION) {
		*ret_field = "version";
		return -EPROTONOSUPPORT;
	}
	WIRE_EXPECT(header->header_crc == crc32c(0, header, WIRE_HEADER_CRC_BYTES), "header_crc");
	WIRE_EXPECT(header->payload_bytes <= WIRE_PAYLOAD_BYTES_MAX, "payload_bytes");
	WIRE_EXPECT(header->reserved == 0, "reserved");
	return 0;
}

void
wire_frame_stamp(struct wire_header *header, uint32_t payload_bytes, uint16_t credits)
{
	header->magic = WIRE_MAGIC;
	header->version = WIRE_VERSION;
	header->payload_bytes = payload_bytes;
	header->credits = credits;
	header->reserved = 0;
	header->header_crc = crc32c(0, header, WIRE_HEADER_CRC_BYTES);
}

/*
 * Private data of a connection. It carries magic and version itself, because over librdmacm no
 * header goes before it:
 *
 *	0 u32 magic  4 u8 version  5 u8 role  6 u16 zero  8 u32 node_id  12 u32 zero
 *	16 u64 cluster_id  24 u64 volume_id  32 u64 session_id  40 u64 attach  48 u64 incarnation
 */
void
wire_hello_encode(uint8_t out[WIRE_HELLO_BYTES], const struct wire_hello *hello)
{
	memset(out, 0, WIRE_HELLO_BYTES);
	num_put_le32(out, WIRE_MAGIC);
	out[4] = WIRE_VERSION;
	out[5] = hello->role;
	num_put_le32(out + 8, hello->node_id);
	num_put_le64(out + 16, hello->cluster_id);
	num_put_le64(out + 24, hello->volume_id);
	num_put_le64(out + 32, hello->session_id);
	num_put_le64(out + 40, hello->attach);
	num_put_le64(out + 48, hello->incarnation);
}

int
wire_hello_decode(const uint8_t *in, uint32_t bytes, struct wire_hello *ret_hello,
    const char **ret_field)
{
	struct wire_hello hello;

	WIRE_EXPECT(bytes == WIRE_HELLO_BYTES, "hello_bytes");
	WIRE_EXPECT(num_get_le32(in) == WIRE_MAGIC, "magic");
	if (in[4] != WIRE_VERSION) {
		*ret_field = "version";
		return -EPROTONOSUPPORT;
	}
	hello = (struct wire_hello){
		.role = in[5],
		.node_id = num_get_le32(in + 8),
		.cluster_id = num_get_le64(in + 16),
		.volume_id = num_get_le64(in + 24),
		.session_id = num_get_le64(in + 32),
		.attach = num_get_le64(in + 40),
		.incarnation = num_get_le64(in + 48),
	};
	WIRE_EXPECT(hello.role >= WIRE_ROLE_CLIENT && hello.role <= WIRE_ROLE_NODE, "role");
	WIRE_EXPECT(num_get_le16(in + 6) == 0 && num_get_le32(in + 12) == 0, "reserved");
	WIRE_EXPECT(hello.role == WIRE_ROLE_NODE || hello.node_id == 0, "node_id");
	if (hello.role == WIRE_ROLE_NODE) {
		WIRE_EXPECT(hello.volume_id == 0, "volume_id");
		WIRE_EXPECT(hello.incarnation == 0, "incarnation");
	}
	*ret_hello = hello;
	return 0;
}

void
store_id_text(const struct store_id *id, char out[STORE_ID_TEXT_BYTES])
{
	(void)snprintf(out, STORE_ID_TEXT_BYTES, "%016" PRIx64 "%016" PRIx64, id->high, id->low);
}

uint64_t
extent_id_pack(const struct extent_id *id)
{
	assert(id->shard < CLEAVE_SHARDS_MAX);
	assert(id->epoch <= EXTENT_EPOCH_MAX);
	assert(id->counter <= EXTENT_COUNTER_MAX);
	return (uint64_t)id->shard << (EXTENT_EPOCH_BITS + EXTENT_COUNTER_BITS) |
	    (uint64_t)id->epoch << EXTENT_COUNTER_BITS | id->counter;
}

struct extent_id
extent_id_unpack(uint64_t packed)
{
	return (struct extent_id){
		.shard = (uint32_t)(packed >> (EXTENT_EPOCH_BITS + EXTENT_COUNTER_BITS)),
		.epoch = (uint32_t)(packed >> EXTENT_COUNTER_BITS) & EXTENT_EPOCH_MAX,
		.counter = packed & EXTENT_COUNTER_MAX,
	};
}

uint32_t
wire_shard_of(uint64_t segment, uint64_t offset_bytes, uint32_t shard_count)
{
	uint64_t index = offset_bytes / CLEAVE_CHUNK_BYTES;

	assert(shard_count > 0);
	/* Consecutive chunks of a segment walk the shards; each segment starts somewhere else. */
	return (uint32_t)((num_mix_u64(wire_segment_root(segment)) % shard_count + index) %
	    shard_count);
}

/* Client I/O. */

static bool
wire_io_is_opcode(uint8_t opcode)
{
	return opcode >= WIRE_WRITE && opcode <= WIRE_HOLES;
}

static int
wire_io_decode_range(const struct wire_header *header, const char **ret_field)
{
	bool has_blocks = header->opcode == WIRE_WRITE || header->opcode == WIRE_READ;
	uint64_t length_max = has_blocks ? WIRE_CLIENT_PAYLOAD_BYTES_MAX : CLEAVE_CHUNK_BYTES;
	uint64_t in_chunk = header->offset_bytes % CLEAVE_CHUNK_BYTES;

	if (header->opcode == WIRE_HOLES) {
		WIRE_EXPECT(header->offset_bytes == 0, "offset_bytes");
		WIRE_EXPECT(header->length_bytes == WIRE_HOLES_BYTES, "length_bytes");
		return 0;
	}
	WIRE_EXPECT(header->offset_bytes < CLEAVE_SEGMENT_BYTES &&
		num_is_aligned(header->offset_bytes, CLEAVE_BLOCK_BYTES),
	    "offset_bytes");
	WIRE_EXPECT(header->length_bytes > 0 && header->length_bytes <= length_max &&
		num_is_aligned(header->length_bytes, CLEAVE_BLOCK_BYTES) &&
		in_chunk + header->length_bytes <= CLEAVE_CHUNK_BYTES,
	    "length_bytes");
	return 0;
}

int
wire_io_decode(const struct wire_header *header, struct wire_io *ret_io, const char **ret_field)
{
	bool is_write = header->opcode == WIRE_WRITE;
	int rc;

	WIRE_EXPECT(wire_io_is_opcode(header->opcode), "opcode");
	WIRE_EXPECT(header->service_class < SERVICE_CLASS_NR, "service_class");
	WIRE_EXPECT(header->engine == 0, "engine");
	rc = wire_io_decode_range(header, ret_field);
	if (rc != 0)
		return rc;
	WIRE_EXPECT(header->payload_bytes == (is_write ? header->length_bytes : 0),
	    "payload_bytes");
	WIRE_EXPECT(header->flags == 0, "flags");
	WIRE_EXPECT(header->status == 0, "status");
	WIRE_EXPECT(is_write || header->payload_crc == 0, "payload_crc");
	*ret_io = (struct wire_io){
		.opcode = (enum wire_opcode)header->opcode,
		.service_class = (enum service_class)header->service_class,
		.request_id = header->request_id,
		.segment = header->object_id,
		.offset_bytes = header->offset_bytes,
		.length_bytes = header->length_bytes,
		.epoch = header->epoch,
		.vm_id = header->vm_id,
		.payload_crc = header->payload_crc,
	};
	return 0;
}

void
wire_io_encode(struct wire_header *header, const struct wire_io *io)
{
	assert(wire_io_is_opcode((uint8_t)io->opcode));
	*header = (struct wire_header){
		.opcode = (uint8_t)io->opcode,
		.service_class = (uint8_t)io->service_class,
		.request_id = io->request_id,
		.object_id = io->segment,
		.offset_bytes = io->offset_bytes,
		.length_bytes = io->length_bytes,
		.epoch = io->epoch,
		.vm_id = io->vm_id,
		.payload_crc = io->opcode == WIRE_WRITE ? io->payload_crc : 0,
	};
}

static bool
wire_io_is_answered_with_payload(enum wire_opcode opcode)
{
	return opcode == WIRE_READ || opcode == WIRE_BLOCK_STATUS || opcode == WIRE_HOLES;
}

void
wire_io_reply(struct wire_header *header, const struct wire_io *request, int rc,
    uint32_t payload_crc, uint32_t epoch)
{
	bool has_payload = wire_io_is_answered_with_payload(request->opcode) && rc == 0;

	*header = (struct wire_header){
		.opcode = (uint8_t)(request->opcode | WIRE_REPLY),
		.service_class = (uint8_t)request->service_class,
		.request_id = request->request_id,
		.object_id = request->segment,
		.offset_bytes = request->offset_bytes,
		.length_bytes = request->length_bytes,
		.epoch = epoch,
		.vm_id = request->vm_id,
		.status = status_from_errno(rc),
		.payload_crc = has_payload ? payload_crc : 0,
	};
}

int
wire_io_reply_decode(const struct wire_header *header, struct wire_io_reply *ret_reply,
    const char **ret_field)
{
	uint8_t opcode = (uint8_t)(header->opcode & ~WIRE_REPLY);
	bool has_payload = wire_io_is_answered_with_payload((enum wire_opcode)opcode) &&
	    header->status == 0;
	bool has_entries = has_payload && opcode == WIRE_BLOCK_STATUS;

	WIRE_EXPECT((header->opcode & WIRE_REPLY) != 0 && wire_io_is_opcode(opcode), "opcode");
	WIRE_EXPECT(header->service_class < SERVICE_CLASS_NR, "service_class");
	WIRE_EXPECT(header->engine == 0, "engine");
	WIRE_EXPECT(header->length_bytes <= CLEAVE_CHUNK_BYTES, "length_bytes");
	WIRE_EXPECT(opcode != WIRE_HOLES || header->length_bytes == WIRE_HOLES_BYTES,
	    "length_bytes");
	WIRE_EXPECT(has_entries ||
		header->payload_bytes == (has_payload ? header->length_bytes : 0),
	    "payload_bytes");
	WIRE_EXPECT(!has_entries ||
		(header->payload_bytes > 0 &&
		    header->payload_bytes <= WIRE_CLIENT_PAYLOAD_BYTES_MAX &&
		    header->payload_bytes % WIRE_STATUS_ENTRY_BYTES == 0),
	    "payload_bytes");
	WIRE_EXPECT(header->flags == 0, "flags");
	WIRE_EXPECT(header->status < CLEAVE_STATUS_NR, "status");
	WIRE_EXPECT(has_payload || header->payload_crc == 0, "payload_crc");
	*ret_reply = (struct wire_io_reply){
		.opcode = (enum wire_opcode)opcode,
		.request_id = header->request_id,
		.rc = status_to_errno(header->status),
		.length_bytes = header->length_bytes,
		.payload_bytes = header->payload_bytes,
		.payload_crc = header->payload_crc,
		.epoch = header->epoch,
	};
	return 0;
}

void
wire_status_encode(uint8_t out[WIRE_STATUS_ENTRY_BYTES], const struct wire_status *status)
{
	num_put_le32(out, status->block_count);
	num_put_le32(out + 4, status->flags);
}

int
wire_status_decode(const uint8_t in[WIRE_STATUS_ENTRY_BYTES], uint32_t left_count,
    struct wire_status *ret_status, const char **ret_field)
{
	struct wire_status status = { num_get_le32(in), num_get_le32(in + 4) };

	WIRE_EXPECT(status.block_count > 0 && status.block_count <= left_count, "block_count");
	WIRE_EXPECT(status.flags <= (WIRE_STATUS_HOLE | WIRE_STATUS_ZERO), "status_flags");
	*ret_status = status;
	return 0;
}

/* Gateway and storage node. */

static bool
wire_node_is_opcode(uint8_t opcode)
{
	return opcode >= WIRE_EXTENT_CREATE && opcode <= WIRE_EXTENT_VERIFY;
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
	return wire_node_names_shard(opcode) ? id->shard : extent_id_pack(id);
}

static int
wire_node_decode_object(const struct wire_header *header, enum wire_opcode opcode,
    struct extent_id *ret_id, const char **ret_field)
{
	struct extent_id id = { 0 };

	if (wire_node_names_shard(opcode)) {
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
	case WIRE_EXTENT_TRUNCATE:
		WIRE_EXPECT(offset <= CLEAVE_CHUNK_BYTES && num_is_aligned(offset, BATCH_ALIGN),
		    "offset_bytes");
		WIRE_EXPECT(length == 0, "length_bytes");
		break;
	case WIRE_EXTENT_DELETE: /* an incarnation */
	case WIRE_EXTENT_LIST:   /* a cursor */
		WIRE_EXPECT(length == 0, "length_bytes");
		break;
	default:
		WIRE_EXPECT(offset == 0, "offset_bytes");
		WIRE_EXPECT(length == 0, "length_bytes");
		break;
	}
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

int
wire_node_decode(const struct wire_header *header, struct wire_node *ret_node,
    const char **ret_field)
{
	enum wire_opcode opcode = (enum wire_opcode)header->opcode;
	uint16_t flags_known = wire_node_flags(header);
	struct extent_id id;
	int rc;

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
	WIRE_EXPECT(header->epoch <= EXTENT_EPOCH_MAX, "epoch");
	WIRE_EXPECT(header->vm_id == 0, "vm_id");
	WIRE_EXPECT((header->flags & ~flags_known) == 0, "flags");
	WIRE_EXPECT(header->status == 0, "status");
	WIRE_EXPECT(header->payload_crc == 0, "payload_crc");
	*ret_node = (struct wire_node){
		.opcode = opcode,
		.request_id = header->request_id,
		.id = id,
		.kind = (enum extent_kind)header->engine,
		.offset_bytes = header->offset_bytes,
		.length_bytes = header->length_bytes,
		.epoch = header->epoch,
		.flags = header->flags,
	};
	return 0;
}

void
wire_node_encode(struct wire_header *header, const struct wire_node *node)
{
	assert(wire_node_is_opcode((uint8_t)node->opcode));
	*header = (struct wire_header){
		.opcode = (uint8_t)node->opcode,
		.engine = wire_node_has_kind(node->opcode) ? (uint8_t)node->kind : 0,
		.request_id = node->request_id,
		.object_id = wire_node_object(node->opcode, &node->id),
		.offset_bytes = node->offset_bytes,
		.length_bytes = node->length_bytes,
		.epoch = node->epoch,
		.flags = node->flags,
	};
}

static int
wire_node_reply_decode_payload(const struct wire_header *header, enum wire_opcode opcode,
    const char **ret_field)
{
	bool has_payload = header->status == 0 &&
	    (opcode == WIRE_EXTENT_READ || opcode == WIRE_EXTENT_LIST);

	if (has_payload) {
		WIRE_EXPECT(header->length_bytes <= WIRE_PAYLOAD_BYTES_MAX, "length_bytes");
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

	WIRE_EXPECT((header->opcode & WIRE_REPLY) != 0 && wire_node_is_opcode((uint8_t)opcode),
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

	assert(wire_node_is_opcode((uint8_t)reply->opcode));
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

int
wire_listed_decode(const struct wire_extent_entry *entry, uint32_t shard,
    struct wire_listed *ret_listed, const char **ret_field)
{
	struct extent_id id = extent_id_unpack(entry->extent);

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
	WIRE_EXPECT(next == 0 ||
		(next <= WIRE_LIST_CURSOR_MAX && count > 0 && next > cursor &&
		    next - cursor >= count),
	    "cursor");
	return 0;
}

int
wire_control_decode(const struct wire_header *header, struct wire_control *ret_control,
    const char **ret_field)
{
	bool is_reply = (header->opcode & WIRE_REPLY) != 0;

	WIRE_EXPECT((header->opcode & ~WIRE_REPLY) == WIRE_CONTROL, "opcode");
	WIRE_EXPECT(header->service_class == 0, "service_class");
	WIRE_EXPECT(header->engine == 0, "engine");
	WIRE_EXPECT(header->object_id == 0, "object_id");
	WIRE_EXPECT(header->offset_bytes == 0, "offset_bytes");
	WIRE_EXPECT(header->length_bytes == 0 || header->length_bytes == header->payload_bytes,
	    "length_bytes");
	WIRE_EXPECT(header->payload_bytes <= WIRE_CLIENT_PAYLOAD_BYTES_MAX, "payload_bytes");
	WIRE_EXPECT(header->epoch == 0, "epoch");
	WIRE_EXPECT(header->vm_id == 0, "vm_id");
	WIRE_EXPECT(header->flags == 0, "flags");
	WIRE_EXPECT(is_reply ? header->status < CLEAVE_STATUS_NR : header->status == 0, "status");
	*ret_control = (struct wire_control){
		.request_id = header->request_id,
		.payload_bytes = header->payload_bytes,
	};
	return 0;
}
