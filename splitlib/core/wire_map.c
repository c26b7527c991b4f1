/* SPDX-License-Identifier: Apache-2.0 */
/* wire_map.c -- CHUNK_MAP: the answer's head, sources and entries, decoded and encoded */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/field.h"
#include "base/num.h"
#include "wire.h"

#define MAP_FORMAT 1u
#define MAP_COPY_BYTES 24u
#define MAP_STORED_BYTES_MASK 0xffffffu
#define MAP_CODEC_SHIFT 24

_Static_assert(WIRE_MAP_SOURCE_BYTES == 16 + CLEAVE_COPIES * MAP_COPY_BYTES, "map source");
_Static_assert(WIRE_MAP_SOURCES_MAX <= WIRE_MAP_ZEROS, "a source's number fits an entry");
_Static_assert(ENGINE_STORED_BYTES_MAX <= MAP_STORED_BYTES_MASK, "stored bytes fit an entry");

#define WIRE_EXPECT(condition, name) FIELD_EXPECT(condition, name, -EPROTO)

void
wire_map_head_encode(uint8_t out[WIRE_MAP_HEAD_BYTES], const struct wire_map_head *head)
{
	assert(head->block_count > 0 && head->block_count <= WIRE_MAP_BLOCKS_MAX);
	assert(head->source_count <= WIRE_MAP_SOURCES_MAX);
	num_put_le32(out, MAP_FORMAT);
	num_put_le32(out + 4, head->block_count);
	num_put_le32(out + 8, head->source_count);
	num_put_le32(out + 12, head->entry_bytes);
}

int
wire_map_head_decode(const uint8_t *in, uint32_t bytes, uint32_t left_count,
    struct wire_map_head *ret_head, const char **ret_field)
{
	struct wire_map_head head;

	assert(ret_head != NULL && ret_field != NULL);
	WIRE_EXPECT(bytes >= WIRE_MAP_HEAD_BYTES, "map_bytes");
	WIRE_EXPECT(num_get_le32(in) == MAP_FORMAT, "map_format");
	head = (struct wire_map_head){ num_get_le32(in + 4), num_get_le32(in + 8),
		num_get_le32(in + 12) };
	WIRE_EXPECT(head.block_count > 0 && head.block_count <= WIRE_MAP_BLOCKS_MAX &&
		head.block_count <= left_count,
	    "map_blocks");
	WIRE_EXPECT(head.source_count <= WIRE_MAP_SOURCES_MAX, "map_sources");
	WIRE_EXPECT(head.entry_bytes ==
		(uint64_t)bytes - WIRE_MAP_HEAD_BYTES -
		    (uint64_t)head.source_count * WIRE_MAP_SOURCE_BYTES,
	    "map_entry_bytes");
	*ret_head = head;
	return 0;
}

void
wire_map_source_encode(uint8_t out[WIRE_MAP_SOURCE_BYTES], const struct wire_map_source *source)
{
	assert(source->from_bytes < source->to_bytes);
	assert(source->copies[0].node_id != 0);
	num_put_le64(out, source->extent);
	num_put_le32(out + 8, source->from_bytes);
	num_put_le32(out + 12, source->to_bytes);
	out += 16;
	for (uint32_t i = 0; i < CLEAVE_COPIES; i++, out += MAP_COPY_BYTES) {
		num_put_le32(out, source->copies[i].node_id);
		num_put_le32(out + 4, source->copies[i].key_number);
		memcpy(out + 8, source->copies[i].mac, WIRE_TICKET_MAC_BYTES);
	}
}

/* 0, or -EPROTO and the field's name. No copy, no ticket; and none behind one that is not there. */
static int
map_copy_decode(const uint8_t *in, bool is_last, struct wire_map_copy *ret_copy,
    const char **ret_field)
{
	static const uint8_t none[WIRE_TICKET_MAC_BYTES];

	ret_copy->node_id = num_get_le32(in);
	ret_copy->key_number = num_get_le32(in + 4);
	memcpy(ret_copy->mac, in + 8, WIRE_TICKET_MAC_BYTES);
	WIRE_EXPECT(ret_copy->node_id == 0 || !is_last, "map_node");
	WIRE_EXPECT(ret_copy->node_id != 0 || ret_copy->key_number == 0, "map_ticket");
	WIRE_EXPECT(ret_copy->key_number != 0 || memcmp(ret_copy->mac, none, sizeof(none)) == 0,
	    "map_ticket");
	return 0;
}

int
wire_map_source_decode(const uint8_t in[WIRE_MAP_SOURCE_BYTES], struct wire_map_source *ret_source,
    const char **ret_field)
{
	struct wire_map_source source = { num_get_le64(in), num_get_le32(in + 8),
		num_get_le32(in + 12), { { .node_id = 0 } } };
	int rc = 0;

	assert(ret_source != NULL && ret_field != NULL);
	WIRE_EXPECT(extent_id_unpack(source.extent).shard < CLEAVE_SHARDS_MAX, "map_extent");
	WIRE_EXPECT(source.from_bytes < source.to_bytes && source.to_bytes <= CLEAVE_CHUNK_BYTES,
	    "map_range");
	for (uint32_t i = 0; i < CLEAVE_COPIES && rc == 0; i++)
		rc = map_copy_decode(in + 16 + i * MAP_COPY_BYTES,
		    i > 0 && source.copies[i - 1].node_id == 0, &source.copies[i], ret_field);
	if (rc != 0)
		return rc;
	WIRE_EXPECT(source.copies[0].node_id != 0, "map_node");
	*ret_source = source;
	return 0;
}

uint32_t
wire_map_entry_encode(uint8_t out[WIRE_MAP_ENTRY_BYTES_MAX], const struct wire_map_entry *entry)
{
	assert(entry->block_count > 0);
	assert(entry->block + entry->block_count <= WIRE_MAP_BLOCKS_MAX);
	num_put_le16(out, (uint16_t)entry->block);
	out[3] = entry->source;
	if (entry->source == WIRE_MAP_ZEROS) {
		out[2] = 0;
		num_put_le32(out + 4, entry->block_count);
		return WIRE_MAP_ZEROS_BYTES;
	}
	assert(entry->block_count <= ENGINE_RECORD_BLOCKS_MAX);
	assert(entry->stored_bytes <= MAP_STORED_BYTES_MASK);
	out[2] = (uint8_t)entry->block_count;
	num_put_le32(out + 4, entry->offset_bytes);
	num_put_le32(out + 8, entry->stored_bytes | (uint32_t)entry->codec_id << MAP_CODEC_SHIFT);
	out[12] = entry->first_block;
	out[13] = entry->record_blocks;
	num_put_le16(out + 14, 0);
	num_put_le32(out + 16, entry->stored_crc);
	for (uint32_t i = 0; i < entry->block_count; i++)
		num_put_le32(out + 20 + 4 * i, entry->block_crcs[i]);
	return WIRE_MAP_RECORD_BYTES(entry->block_count);
}

static int
map_zeros_decode(const uint8_t *in, struct wire_map_entry *entry, const char **ret_field)
{
	WIRE_EXPECT(in[2] == 0, "map_reserved");
	entry->block_count = num_get_le32(in + 4);
	WIRE_EXPECT(entry->block_count > 0, "map_entry_blocks");
	return 0;
}

/* @in has WIRE_MAP_RECORD_BYTES of as many blocks as it says. */
static int
map_record_decode(const uint8_t *in, const struct wire_map_source *source,
    struct wire_map_entry *entry, const char **ret_field)
{
	entry->block_count = in[2];
	entry->offset_bytes = num_get_le32(in + 4);
	entry->stored_bytes = num_get_le32(in + 8) & MAP_STORED_BYTES_MASK;
	entry->codec_id = in[11];
	entry->first_block = in[12];
	entry->record_blocks = in[13];
	entry->stored_crc = num_get_le32(in + 16);
	WIRE_EXPECT(num_get_le16(in + 14) == 0, "map_reserved");
	WIRE_EXPECT(entry->codec_id < ENGINE_ID_NR, "map_codec");
	WIRE_EXPECT(entry->record_blocks <= ENGINE_RECORD_BLOCKS_MAX &&
		entry->first_block + entry->block_count <= entry->record_blocks,
	    "map_record");
	WIRE_EXPECT(entry->stored_bytes > 0 &&
		entry->stored_bytes <= entry->record_blocks * CLEAVE_BLOCK_BYTES,
	    "map_stored_bytes");
	WIRE_EXPECT(entry->offset_bytes >= source->from_bytes &&
		(uint64_t)entry->offset_bytes + entry->stored_bytes <= source->to_bytes,
	    "map_offset");
	for (uint32_t i = 0; i < entry->block_count; i++)
		entry->block_crcs[i] = num_get_le32(in + 20 + 4 * i);
	return 0;
}

int
wire_map_walk_next(struct wire_map_walk *walk, struct wire_map_entry *ret_entry,
    const char **ret_field)
{
	const uint8_t *in = walk->at;
	size_t left = (size_t)(walk->end - in);
	struct wire_map_entry entry = { 0 };
	uint32_t bytes = WIRE_MAP_ZEROS_BYTES;
	int rc;

	assert(ret_entry != NULL && ret_field != NULL);
	if (left == 0)
		return 0;
	WIRE_EXPECT(left >= WIRE_MAP_ZEROS_BYTES, "map_entry_bytes");
	entry.block = num_get_le16(in);
	entry.source = in[3];
	if (entry.source == WIRE_MAP_ZEROS) {
		rc = map_zeros_decode(in, &entry, ret_field);
	} else {
		WIRE_EXPECT(entry.source < walk->head->source_count, "map_source");
		WIRE_EXPECT(in[2] > 0 && in[2] <= ENGINE_RECORD_BLOCKS_MAX, "map_entry_blocks");
		bytes = WIRE_MAP_RECORD_BYTES(in[2]);
		WIRE_EXPECT(left >= bytes, "map_entry_bytes");
		rc = map_record_decode(in, &walk->sources[entry.source], &entry, ret_field);
	}
	if (rc != 0)
		return rc;
	WIRE_EXPECT(entry.block >= walk->from_block &&
		(uint64_t)entry.block + entry.block_count <= walk->head->block_count,
	    "map_block");
	walk->at += bytes;
	walk->from_block = entry.block + entry.block_count;
	*ret_entry = entry;
	return 1;
}
