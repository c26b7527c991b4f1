/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_chunk_map.c -- arbitrary bytes as the answer to a CHUNK_MAP, as a client walks it
 *
 * The first two bytes say of how many blocks. Whatever passes stays within these, within its source and in order, and
 * encodes to the bytes that it came from; whatever is refused is named.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/num.h"
#include "cleave/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void
check_entry(const struct wire_map_entry *entry, const struct wire_map_source *sources)
{
	const struct wire_map_source *source;

	assert(entry->block_count > 0);
	if (entry->source == WIRE_MAP_ZEROS)
		return;
	source = &sources[entry->source];
	assert(entry->stored_bytes > 0 && entry->stored_bytes <= ENGINE_RECORD_BYTES_MAX);
	assert(entry->offset_bytes >= source->from_bytes);
	assert(entry->offset_bytes + entry->stored_bytes <= source->to_bytes);
	assert(entry->first_block + entry->block_count <= entry->record_blocks);
	assert(entry->record_blocks <= ENGINE_RECORD_BLOCKS_MAX);
}

static void
check_entries(const struct wire_map_head *head, const struct wire_map_source *sources,
    const uint8_t *at)
{
	struct wire_map_walk walk = { head, sources, at, at + head->entry_bytes, 0 };
	uint8_t again[WIRE_MAP_ENTRY_BYTES_MAX];
	struct wire_map_entry entry;
	const char *field = NULL;
	uint32_t from = 0;
	int rc;

	while ((rc = wire_map_walk_next(&walk, &entry, &field)) == 1) {
		uint32_t count = wire_map_entry_encode(again, &entry);

		assert(entry.block >= from && entry.block + entry.block_count <= head->block_count);
		from = entry.block + entry.block_count;
		check_entry(&entry, sources);
		assert(walk.at == at + count);
		assert(memcmp(again, at, count) == 0);
		at = walk.at;
	}
	assert(rc == 0 || field != NULL);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct wire_map_source sources[WIRE_MAP_SOURCES_MAX];
	uint8_t again[WIRE_MAP_SOURCE_BYTES];
	struct wire_map_head head;
	const char *field = NULL;
	uint32_t left_count;

	if (bytes < 2)
		return 0;
	left_count = num_get_le16(data);
	data += 2;
	bytes = num_min(bytes - 2, WIRE_CLIENT_PAYLOAD_BYTES_MAX);
	if (wire_map_head_decode(data, (uint32_t)bytes, left_count, &head, &field) != 0) {
		assert(field != NULL);
		return 0;
	}
	wire_map_head_encode(again, &head);
	assert(memcmp(again, data, WIRE_MAP_HEAD_BYTES) == 0);
	data += WIRE_MAP_HEAD_BYTES;
	for (uint32_t i = 0; i < head.source_count; i++, data += WIRE_MAP_SOURCE_BYTES) {
		if (wire_map_source_decode(data, &sources[i], &field) != 0) {
			assert(field != NULL);
			return 0;
		}
		wire_map_source_encode(again, &sources[i]);
		assert(memcmp(again, data, WIRE_MAP_SOURCE_BYTES) == 0);
	}
	check_entries(&head, sources, data);
	return 0;
}
