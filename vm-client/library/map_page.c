/* SPDX-License-Identifier: Apache-2.0 */
/* map_page.c -- see map_page.h: an answer is walked twice, to check and count it, and to keep it */
#include "map_page.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "alloc.h"
#include "base/check.h"
#include "base/search.h"

/* Decoded as far as its sources; what follows them has passed. */
struct map_answer {
	struct wire_map_head head;
	struct wire_map_source sources[WIRE_MAP_SOURCES_MAX];
	const uint8_t *entries;
	uint32_t record_count, crc_count;
};

static struct wire_map_walk
answer_walk(const struct map_answer *answer)
{
	return (struct wire_map_walk){ &answer->head, answer->sources, answer->entries,
		answer->entries + answer->head.entry_bytes, 0 };
}

/* False: it breaks the protocol. */
static bool
answer_decode(const uint8_t *in, uint32_t bytes, uint32_t left_count, struct map_answer *answer)
{
	struct wire_map_entry entry;
	struct wire_map_walk walk;
	const char *field;
	int rc;

	if (wire_map_head_decode(in, bytes, left_count, &answer->head, &field) != 0)
		return false;
	in += WIRE_MAP_HEAD_BYTES;
	for (uint32_t i = 0; i < answer->head.source_count; i++, in += WIRE_MAP_SOURCE_BYTES) {
		if (wire_map_source_decode(in, &answer->sources[i], &field) != 0)
			return false;
	}
	answer->entries = in;
	answer->record_count = answer->crc_count = 0;
	walk = answer_walk(answer);
	while ((rc = wire_map_walk_next(&walk, &entry, &field)) == 1) {
		answer->record_count++;
		if (entry.source != WIRE_MAP_ZEROS)
			answer->crc_count += entry.block_count;
	}
	return rc == 0;
}

static void
page_fill(const struct map_answer *answer, uint32_t first, struct map_record *records,
    uint32_t *crcs)
{
	struct wire_map_walk walk = answer_walk(answer);
	struct wire_map_entry entry;
	const char *field;
	uint32_t crcs_at = 0;

	for (; wire_map_walk_next(&walk, &entry, &field) == 1; records++) {
		*records = (struct map_record){ .block = (uint16_t)(first + entry.block),
			.block_count = (uint16_t)entry.block_count,
			.source = entry.source,
			.codec_id = entry.codec_id,
			.first_block = entry.first_block,
			.record_blocks = entry.record_blocks,
			.offset_bytes = entry.offset_bytes,
			.stored_bytes = entry.stored_bytes,
			.stored_crc = entry.stored_crc,
			.crcs_at = crcs_at };
		if (entry.source == WIRE_MAP_ZEROS)
			continue;
		memcpy(crcs + crcs_at, entry.block_crcs, entry.block_count * sizeof(*crcs));
		crcs_at += entry.block_count;
	}
}

int
map_page_create(const uint8_t *in, uint32_t bytes, uint32_t first, uint32_t left_count,
    struct map_page **ret_page)
{
	struct map_answer answer;
	struct map_page *page;
	size_t sources, records, crcs;
	uint8_t *at;

	assert(first + left_count <= WIRE_MAP_BLOCKS_MAX);
	if (!answer_decode(in, bytes, left_count, &answer))
		return -EPROTO;
	sources = answer.head.source_count * sizeof(struct wire_map_source);
	records = answer.record_count * sizeof(struct map_record);
	crcs = answer.crc_count * sizeof(uint32_t);
	page = client_calloc(1, sizeof(*page) + sources + records + crcs);
	if (page == NULL)
		return -ENOMEM;
	at = (uint8_t *)(page + 1);
	page->end = first + answer.head.block_count;
	page->bytes = (uint32_t)(sizeof(*page) + sources + records + crcs);
	page->record_count = answer.record_count;
	page->sources = memcpy(at, answer.sources, sources);
	page->records = (struct map_record *)(at + sources);
	page->crcs = (uint32_t *)(at + sources + records);
	page_fill(&answer, first, (struct map_record *)(at + sources),
	    (uint32_t *)(at + sources + records));
	*ret_page = page;
	return 0;
}

const struct map_record *
map_page_record(const struct map_page *page, uint32_t block)
{
	const struct map_record *records = page->records;
	uint32_t at;

	/* The first that ends behind the block. */
	SEARCH_FIRST(at, page->record_count,
	    records[at].block + (uint32_t)records[at].block_count <= block);
	return at < page->record_count && records[at].block <= block ? &records[at] : NULL;
}
