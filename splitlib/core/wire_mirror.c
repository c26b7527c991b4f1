/* SPDX-License-Identifier: Apache-2.0 */
/* wire_mirror.c -- MIRROR_HEADS: heads of batches for another gateway's memory, decoded and encoded */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/field.h"
#include "base/num.h"
#include "cleave/split.h"
#include "cleave/status.h"
#include "wire.h"

#define WIRE_EXPECT(condition, name) FIELD_EXPECT(condition, name, -EPROTO)

_Static_assert(WIRE_HEADER_BYTES + WIRE_MIRROR_BYTES_MAX == SPLIT_HEADER_BYTES_MAX,
    "it is sent in one piece");

int
wire_mirror_decode(const struct wire_header *header, struct wire_mirror *ret_mirror,
    const char **ret_field)
{
	bool is_reply = (header->opcode & WIRE_REPLY) != 0;

	assert(ret_mirror != NULL && ret_field != NULL);
	WIRE_EXPECT((header->opcode & ~WIRE_REPLY) == WIRE_MIRROR_HEADS, "opcode");
	WIRE_EXPECT(header->service_class == 0, "service_class");
	WIRE_EXPECT(header->engine == 0, "engine");
	WIRE_EXPECT(header->object_id == 0, "object_id");
	WIRE_EXPECT(header->offset_bytes == 0, "offset_bytes");
	WIRE_EXPECT(header->length_bytes == 0, "length_bytes");
	WIRE_EXPECT(is_reply ? header->payload_bytes == 0
			     : header->payload_bytes >= WIRE_MIRROR_ENTRY_BYTES &&
		    header->payload_bytes <= WIRE_MIRROR_BYTES_MAX,
	    "payload_bytes");
	WIRE_EXPECT(header->epoch == 0, "epoch");
	WIRE_EXPECT(header->vm_id == 0, "vm_id");
	WIRE_EXPECT(header->flags == 0, "flags");
	WIRE_EXPECT(is_reply ? header->status < CLEAVE_STATUS_NR : header->status == 0, "status");
	WIRE_EXPECT(header->payload_crc == 0, "payload_crc");
	*ret_mirror = (struct wire_mirror){
		.request_id = header->request_id,
		.payload_bytes = header->payload_bytes,
		.is_reply = is_reply,
		.rc = status_to_errno(header->status),
	};
	return 0;
}

void
wire_mirror_encode(struct wire_header *header, const struct wire_mirror *mirror)
{
	assert(mirror->rc <= 0);
	assert(mirror->is_reply ? mirror->payload_bytes == 0 : mirror->rc == 0);
	*header = (struct wire_header){
		.opcode = (uint8_t)(WIRE_MIRROR_HEADS | (mirror->is_reply ? WIRE_REPLY : 0)),
		.request_id = mirror->request_id,
		.status = status_from_errno(mirror->rc),
	};
}

uint32_t
wire_mirror_entry_encode(uint8_t *out, const struct wire_mirror_entry *entry, const void *head)
{
	uint32_t bytes = wire_mirror_entry_bytes(entry->head_bytes);

	assert(entry->head_bytes >= BATCH_HEADER_BYTES);
	assert(entry->head_bytes <= BATCH_HEAD_BYTES_MAX);
	num_put_le64(out, extent_id_pack(&entry->id));
	num_put_le64(out + 8, entry->offset_bytes);
	num_put_le32(out + 16, entry->head_bytes);
	num_put_le32(out + 20, 0);
	memcpy(out + WIRE_MIRROR_ENTRY_BYTES, head, entry->head_bytes);
	memset(out + WIRE_MIRROR_ENTRY_BYTES + entry->head_bytes, 0,
	    bytes - WIRE_MIRROR_ENTRY_BYTES - entry->head_bytes);
	return bytes;
}

int
wire_mirror_entry_decode(const uint8_t *in, uint32_t bytes, struct wire_mirror_entry *ret_entry,
    const char **ret_field)
{
	struct wire_mirror_entry entry;

	assert(ret_entry != NULL && ret_field != NULL);
	WIRE_EXPECT(bytes >= WIRE_MIRROR_ENTRY_BYTES, "mirror_bytes");
	entry = (struct wire_mirror_entry){ .id = extent_id_unpack(num_get_le64(in)),
		.offset_bytes = num_get_le64(in + 8),
		.head_bytes = num_get_le32(in + 16) };
	WIRE_EXPECT(entry.id.shard < CLEAVE_SHARDS_MAX && entry.id.epoch > 0, "mirror_extent");
	WIRE_EXPECT(entry.offset_bytes < CLEAVE_CHUNK_BYTES &&
		num_is_aligned(entry.offset_bytes, BATCH_ALIGN),
	    "mirror_offset");
	WIRE_EXPECT(entry.head_bytes >= BATCH_HEADER_BYTES &&
		entry.head_bytes <= BATCH_HEAD_BYTES_MAX &&
		wire_mirror_entry_bytes(entry.head_bytes) <= bytes,
	    "mirror_head");
	WIRE_EXPECT(num_get_le32(in + 20) == 0, "mirror_reserved");
	for (uint32_t i = WIRE_MIRROR_ENTRY_BYTES + entry.head_bytes;
	     i < wire_mirror_entry_bytes(entry.head_bytes); i++)
		WIRE_EXPECT(in[i] == 0, "mirror_padding");
	*ret_entry = entry;
	return 0;
}
