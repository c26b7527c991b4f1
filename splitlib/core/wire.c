/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.c -- messages decoded and encoded: every field of a header is checked here, and only here
 *
 * A header is 64 bytes that a peer chose. wire_frame_check looks at what frames a message, for all
 * messages alike; the decoder of its group looks at the rest: what a group does not use must be zero,
 * so that it can get a meaning later. Each decoder either fills its output or leaves it alone and
 * names the first field that is wrong; the names are static strings. `credits` belongs to the split
 * library and passes every decoder. Messages between gateways and nodes are wire_node.c's, those about
 * read leases wire_lease.c's, what a CHUNK_MAP is answered with wire_map.c's.
 */
#include "wire.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/field.h"
#include "base/num.h"
#include "cleave/level.h"
#include "cleave/status.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "headers are used as they travel");

#define WIRE_HEADER_CRC_BYTES 60u

#define EXTENT_COUNTER_BITS 26u
#define EXTENT_EPOCH_BITS 24u

#define WIRE_EXPECT(condition, name) FIELD_EXPECT(condition, name, -EPROTO)

int
wire_frame_check(const struct wire_header *header, const char **ret_field)
{
	assert(ret_field != NULL);
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
	assert(payload_bytes <= WIRE_PAYLOAD_BYTES_MAX);
	header->magic = WIRE_MAGIC;
	header->version = WIRE_VERSION;
	header->payload_bytes = payload_bytes;
	header->credits = credits;
	header->reserved = 0;
	header->header_crc = crc32c(0, header, WIRE_HEADER_CRC_BYTES);
}

/*
 * Private data of a connection. It carries magic and level itself, because over librdmacm no
 * header goes before it:
 *
 *	0 u32 magic  4 u8 level  5 u8 role  6 u16 zero  8 u32 node_id  12 u32 zero
 *	16 u64 cluster_id  24 u64 volume_id  32 u64 session_id  40 u64 attach  48 u64 incarnation
 */
void
wire_hello_encode(uint8_t out[WIRE_HELLO_BYTES], const struct wire_hello *hello)
{
	assert(hello->role >= WIRE_ROLE_CLIENT);
	assert(hello->role <= WIRE_ROLE_NODE);
	memset(out, 0, WIRE_HELLO_BYTES);
	num_put_le32(out, WIRE_MAGIC);
	out[4] = (uint8_t)num_max(hello->level, CLEAVE_LEVEL_MIN);
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

	assert(ret_hello != NULL && ret_field != NULL);
	WIRE_EXPECT(bytes == WIRE_HELLO_BYTES, "hello_bytes");
	WIRE_EXPECT(num_get_le32(in) == WIRE_MAGIC, "magic");
	if (in[4] < CLEAVE_LEVEL_MIN) {
		*ret_field = "level";
		return -EPROTONOSUPPORT;
	}
	hello = (struct wire_hello){
		.level = in[4],
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

	assert(offset_bytes < CLEAVE_SEGMENT_BYTES);
	assert(shard_count > 0);
	/* Consecutive chunks of a segment walk the shards; each segment starts somewhere else. */
	return (uint32_t)((num_mix_u64(wire_segment_root(segment)) % shard_count + index) %
	    shard_count);
}

/* Client I/O. */

static bool
wire_io_is_opcode(uint8_t opcode)
{
	return (opcode >= WIRE_WRITE && opcode <= WIRE_HOLES) || opcode == WIRE_CHUNK_MAP;
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

	assert(ret_io != NULL && ret_field != NULL);
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
	assert((unsigned)io->service_class < SERVICE_CLASS_NR);
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
	return opcode == WIRE_READ || opcode == WIRE_BLOCK_STATUS || opcode == WIRE_HOLES ||
	    opcode == WIRE_CHUNK_MAP;
}

void
wire_io_reply(struct wire_header *header, const struct wire_io *request, int rc,
    uint32_t payload_crc, uint32_t epoch)
{
	bool has_payload = wire_io_is_answered_with_payload(request->opcode) && rc == 0;

	assert(wire_io_is_opcode((uint8_t)request->opcode));
	assert(rc <= 0);
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
	bool has_entries = has_payload && (opcode == WIRE_BLOCK_STATUS || opcode == WIRE_CHUNK_MAP);

	assert(ret_reply != NULL && ret_field != NULL);
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
		    (opcode != WIRE_BLOCK_STATUS ||
			header->payload_bytes % WIRE_STATUS_ENTRY_BYTES == 0) &&
		    (opcode != WIRE_CHUNK_MAP || header->payload_bytes >= WIRE_MAP_HEAD_BYTES)),
	    "payload_bytes");
	WIRE_EXPECT(header->flags == 0 ||
		(header->status == 0 &&
		    ((header->flags == WIRE_FLAG_LEASED && opcode != WIRE_HOLES) ||
			(header->flags == (WIRE_FLAG_LEASED | WIRE_FLAG_MAPPED) &&
			    opcode == WIRE_READ))),
	    "flags");
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
		.limits_tag = header->vm_id,
		.is_leased = (header->flags & WIRE_FLAG_LEASED) != 0,
		.is_mapped = (header->flags & WIRE_FLAG_MAPPED) != 0,
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

	assert(ret_status != NULL && ret_field != NULL);
	WIRE_EXPECT(status.block_count > 0 && status.block_count <= left_count, "block_count");
	WIRE_EXPECT(status.flags <= (WIRE_STATUS_HOLE | WIRE_STATUS_ZERO), "status_flags");
	*ret_status = status;
	return 0;
}

int
wire_control_decode(const struct wire_header *header, struct wire_control *ret_control,
    const char **ret_field)
{
	bool is_reply = (header->opcode & WIRE_REPLY) != 0;

	assert(ret_control != NULL && ret_field != NULL);
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
