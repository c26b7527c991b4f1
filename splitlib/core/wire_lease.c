/* SPDX-License-Identifier: Apache-2.0 */
/* wire_lease.c -- LEASE: read leases asked for, returned and told, decoded and encoded; the keys of pages: wire_hot.c */
#include <errno.h>

#include "base/check.h"
#include "base/field.h"
#include "base/num.h"
#include "cleave/status.h"
#include "wire.h"

#define LEASE_FORMAT 1u

#define WIRE_EXPECT(condition, name) FIELD_EXPECT(condition, name, -EPROTO)

int
wire_lease_decode(const struct wire_header *header, struct wire_lease *ret_lease,
    const char **ret_field)
{
	bool is_reply = (header->opcode & WIRE_REPLY) != 0;
	bool has_payload = is_reply && header->status == 0;
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
	WIRE_EXPECT(has_payload ? header->payload_bytes >= WIRE_LEASE_HEAD_BYTES &&
		    header->payload_bytes <= WIRE_LEASE_BYTES_MAX
				: header->payload_bytes == 0,
	    "payload_bytes");
	WIRE_EXPECT(header->epoch == 0 || (wants_hot && !is_reply), "epoch");
	WIRE_EXPECT((header->vm_id == 0) == (header->object_id == 0), "vm_id");
	WIRE_EXPECT((header->flags & ~(WIRE_LEASE_RETURN | WIRE_LEASE_HOT)) == 0 &&
		header->flags != (WIRE_LEASE_RETURN | WIRE_LEASE_HOT),
	    "flags");
	WIRE_EXPECT(is_reply ? header->status < CLEAVE_STATUS_NR : header->status == 0, "status");
	WIRE_EXPECT(has_payload || header->payload_crc == 0 || (wants_hot && !is_reply),
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
