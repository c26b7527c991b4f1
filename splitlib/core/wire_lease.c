/* SPDX-License-Identifier: Apache-2.0 */
/* wire_lease.c -- LEASE: read leases asked for, returned and told, decoded and encoded; the keys of pages: wire_hot.c */
#include <errno.h>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/field.h"
#include "base/num.h"
#include "cleave/lease_read.h"
#include "cleave/status.h"
#include "wire.h"

#define LEASE_FORMAT 1u

#define WIRE_EXPECT(condition, name) FIELD_EXPECT(condition, name, -EPROTO)

/* An answer's payload is what there is; a request's, of a client that reads at nodes, what it has read. */
static bool
lease_is_as_long(const struct wire_header *header)
{
	uint32_t bytes = header->payload_bytes;

	if ((header->opcode & WIRE_REPLY) == 0)
		return bytes == 0 ||
		    (bytes > WIRE_LEASE_READS_HEAD_BYTES && bytes <= WIRE_LEASE_READS_BYTES_MAX &&
			(bytes - WIRE_LEASE_READS_HEAD_BYTES) % WIRE_LEASE_READ_BYTES == 0);
	return header->status == 0 ? bytes >= WIRE_LEASE_HEAD_BYTES && bytes <= WIRE_LEASE_BYTES_MAX
				   : bytes == 0;
}

int
wire_lease_decode(const struct wire_header *header, struct wire_lease *ret_lease,
    const char **ret_field)
{
	bool is_reply = (header->opcode & WIRE_REPLY) != 0;
	bool wants_hot = (header->flags & WIRE_LEASE_HOT) != 0;

	assert(ret_lease != NULL && ret_field != NULL);
	WIRE_EXPECT((header->opcode & ~WIRE_REPLY) == WIRE_LEASE, "opcode");
	WIRE_EXPECT(header->service_class == 0, "service_class");
	WIRE_EXPECT(header->engine == 0, "engine");
	WIRE_EXPECT(header->object_id == 0 ||
		(!is_reply && extent_id_unpack(header->object_id).shard < CLEAVE_SHARDS_MAX),
	    "object_id");
	WIRE_EXPECT(header->length_bytes == 0 || !is_reply, "length_bytes");
	WIRE_EXPECT(header->offset_bytes == 0 || header->length_bytes > 0, "offset_bytes");
	WIRE_EXPECT(lease_is_as_long(header), "payload_bytes");
	WIRE_EXPECT(header->epoch == 0 || (wants_hot && !is_reply), "epoch");
	WIRE_EXPECT((header->vm_id == 0) == (header->object_id == 0), "vm_id");
	WIRE_EXPECT((header->flags & ~(WIRE_LEASE_RETURN | WIRE_LEASE_HOT)) == 0 &&
		header->flags != (WIRE_LEASE_RETURN | WIRE_LEASE_HOT),
	    "flags");
	WIRE_EXPECT(is_reply ? header->status < CLEAVE_STATUS_NR : header->status == 0, "status");
	WIRE_EXPECT(header->payload_crc == 0 || (is_reply && header->payload_bytes > 0) ||
		(wants_hot && !is_reply),
	    "payload_crc");
	*ret_lease = (struct wire_lease){
		.request_id = header->request_id,
		.is_return = (header->flags & WIRE_LEASE_RETURN) != 0,
		.wants_hot = wants_hot,
		.is_reply = is_reply,
		.generation = header->epoch,
		.peeked_count = is_reply ? 0 : header->payload_crc,
		.read_count = header->length_bytes,
		.read_bytes = header->offset_bytes,
		.suspect = header->object_id,
		.suspect_node = header->vm_id,
		.rc = status_to_errno(header->status),
		.payload_bytes = header->payload_bytes,
		.payload_crc = is_reply ? header->payload_crc : 0,
	};
	return 0;
}

void
wire_lease_encode(struct wire_header *header, const struct wire_lease *lease)
{
	assert(lease->rc <= 0);
	assert(lease->is_reply || (lease->rc == 0 && lease->payload_crc == 0));
	assert((lease->generation == 0 && lease->peeked_count == 0) ||
	    (lease->wants_hot && !lease->is_reply));
	assert(!lease->is_return || !lease->wants_hot);
	assert(lease->read_count == 0 ? lease->read_bytes == 0 : !lease->is_reply);
	assert((lease->suspect == 0) == (lease->suspect_node == 0));
	assert(lease->suspect == 0 || !lease->is_reply);
	*header = (struct wire_header){
		.opcode = (uint8_t)(WIRE_LEASE | (lease->is_reply ? WIRE_REPLY : 0)),
		.request_id = lease->request_id,
		.object_id = lease->suspect,
		.offset_bytes = lease->read_bytes,
		.length_bytes = lease->read_count,
		.epoch = lease->generation,
		.vm_id = lease->suspect_node,
		.flags = (uint16_t)((lease->is_return ? WIRE_LEASE_RETURN : 0) |
		    (lease->wants_hot ? WIRE_LEASE_HOT : 0)),
		.status = status_from_errno(lease->rc),
		.payload_crc = lease->is_reply ? lease->payload_crc : lease->peeked_count,
	};
}

void
wire_lease_head_encode(uint8_t out[WIRE_LEASE_HEAD_BYTES], const struct wire_lease_head *head)
{
	assert(head->lease_ms > 0 && head->lease_ms <= WIRE_READ_LEASE_MS_MAX);
	assert(head->shard_count <= CLEAVE_SHARDS_MAX && head->page_count <= WIRE_LEASE_PAGES_MAX);
	assert(head->generation > 0 || head->page_count == 0);
	num_put_le32(out, LEASE_FORMAT);
	num_put_le32(out + 4, head->lease_ms);
	num_put_le16(out + 8, (uint16_t)head->shard_count);
	num_put_le16(out + 10, (uint16_t)head->page_count);
	num_put_le32(out + 12, head->generation);
}

int
wire_lease_head_decode(const uint8_t *in, uint32_t bytes, struct wire_lease_head *ret_head,
    const char **ret_field)
{
	struct wire_lease_head head;

	assert(ret_head != NULL && ret_field != NULL);
	WIRE_EXPECT(bytes >= WIRE_LEASE_HEAD_BYTES, "lease_bytes");
	WIRE_EXPECT(num_get_le32(in) == LEASE_FORMAT, "lease_format");
	head = (struct wire_lease_head){ num_get_le32(in + 4), num_get_le16(in + 8),
		num_get_le16(in + 10), num_get_le32(in + 12) };
	WIRE_EXPECT(head.lease_ms > 0 && head.lease_ms <= WIRE_READ_LEASE_MS_MAX, "lease_ms");
	WIRE_EXPECT(head.shard_count <= CLEAVE_SHARDS_MAX, "lease_shards");
	WIRE_EXPECT(head.page_count <= WIRE_LEASE_PAGES_MAX, "lease_pages");
	WIRE_EXPECT(bytes ==
		WIRE_LEASE_HEAD_BYTES + head.shard_count * WIRE_LEASE_ENTRY_BYTES +
		    head.page_count * WIRE_LEASE_PAGE_BYTES,
	    "lease_bytes");
	WIRE_EXPECT(head.generation > 0 || head.page_count == 0, "lease_generation");
	*ret_head = head;
	return 0;
}

void
wire_lease_entry_encode(uint8_t out[WIRE_LEASE_ENTRY_BYTES], const struct wire_lease_entry *entry)
{
	assert(entry->shard < CLEAVE_SHARDS_MAX);
	assert(entry->epoch > 0 && entry->epoch <= EXTENT_EPOCH_MAX);
	num_put_le32(out, entry->shard);
	num_put_le32(out + 4, entry->epoch);
}

int
wire_lease_entry_decode(const uint8_t in[WIRE_LEASE_ENTRY_BYTES], uint32_t from_shard,
    uint32_t shard_count, struct wire_lease_entry *ret_entry, const char **ret_field)
{
	struct wire_lease_entry entry = { num_get_le32(in), num_get_le32(in + 4) };

	assert(ret_entry != NULL && ret_field != NULL);
	WIRE_EXPECT(entry.shard >= from_shard && entry.shard < shard_count, "lease_shard");
	WIRE_EXPECT(entry.epoch > 0 && entry.epoch <= EXTENT_EPOCH_MAX, "lease_epoch");
	*ret_entry = entry;
	return 0;
}

uint32_t
wire_lease_reads_seal(uint8_t *payload, uint32_t count)
{
	uint32_t bytes = count * WIRE_LEASE_READ_BYTES;

	assert(count > 0 && count <= WIRE_LEASE_READS_MAX);
	num_put_le32(payload, crc32c(0, payload + WIRE_LEASE_READS_HEAD_BYTES, bytes));
	num_put_le32(payload + 4, 0);
	return WIRE_LEASE_READS_HEAD_BYTES + bytes;
}

bool
wire_lease_reads_are_whole(const uint8_t *payload, uint32_t bytes)
{
	assert(bytes > WIRE_LEASE_READS_HEAD_BYTES);
	return num_get_le32(payload + 4) == 0 &&
	    crc32c(0, payload + WIRE_LEASE_READS_HEAD_BYTES, bytes - WIRE_LEASE_READS_HEAD_BYTES) ==
	    num_get_le32(payload);
}

void
wire_lease_read_encode(uint8_t out[WIRE_LEASE_READ_BYTES], const struct wire_lease_read *read)
{
	assert(read->chunk < CLEAVE_SEGMENT_CHUNKS && read->stored_bytes > 0);
	assert(read->read_count > 0 && read->read_count <= UINT16_MAX);
	assert(read->small_count <= read->read_count);
	num_put_le64(out, read->segment);
	num_put_le64(out + 8, read->extent);
	num_put_le32(out + 16, read->from_bytes);
	num_put_le32(out + 20, read->stored_bytes);
	num_put_le16(out + 24, (uint16_t)read->chunk);
	num_put_le16(out + 26, (uint16_t)read->read_count);
	num_put_le16(out + 28, (uint16_t)read->small_count);
	out[30] = read->codec_id;
	out[31] = 0;
}

int
wire_lease_read_decode(const uint8_t in[WIRE_LEASE_READ_BYTES], struct wire_lease_read *ret_read,
    const char **ret_field)
{
	struct wire_lease_read read = { .segment = num_get_le64(in),
		.chunk = num_get_le16(in + 24),
		.extent = num_get_le64(in + 8),
		.from_bytes = num_get_le32(in + 16),
		.stored_bytes = num_get_le32(in + 20),
		.read_count = num_get_le16(in + 26),
		.small_count = num_get_le16(in + 28),
		.codec_id = in[30] };

	assert(ret_read != NULL && ret_field != NULL);
	WIRE_EXPECT(read.chunk < CLEAVE_SEGMENT_CHUNKS, "read_chunk");
	WIRE_EXPECT(extent_id_unpack(read.extent).shard < CLEAVE_SHARDS_MAX, "read_extent");
	WIRE_EXPECT(read.stored_bytes > 0, "read_stored_bytes");
	WIRE_EXPECT(read.read_count > 0, "read_count");
	WIRE_EXPECT(read.small_count <= read.read_count, "read_small_count");
	WIRE_EXPECT(in[31] == 0, "read_reserved");
	*ret_read = read;
	return 0;
}
