/* SPDX-License-Identifier: Apache-2.0 */
/* map_page.h -- an answer to CHUNK_MAP, checked and kept: blocks of a window, and where they lie */
#ifndef CLEAVE_VM_CLIENT_MAP_PAGE_H
#define CLEAVE_VM_CLIENT_MAP_PAGE_H

#include <stdint.h>

#include "cleave/wire.h"

/* Blocks of one record of a source, or zeros. */
struct map_record {
	uint16_t block, block_count; /* of the window */
	uint8_t source;              /* WIRE_MAP_ZEROS: zeros */
	uint8_t codec_id, first_block, record_blocks;
	uint32_t offset_bytes, stored_bytes, stored_crc;
	uint32_t crcs_at; /* of its blocks, in the page's array */
};

struct map_page {
	struct map_page *next; /* of the same window: the blocks behind */
	uint32_t end;          /* the first block of the window behind it */
	uint32_t bytes;        /* of memory */
	uint32_t record_count;
	const struct wire_map_source *sources;
	const struct map_record *records; /* in order */
	const uint32_t *crcs;
};

/*
 * map_page_create -- of an answer of @bytes, which tells of a window from block @first on, @left_count blocks at most
 *
 * Ownership: *@ret_page is one piece of memory, the caller's to free.
 * Returns:   0; -EPROTO: it breaks the protocol; -ENOMEM.
 */
int map_page_create(const uint8_t *in, uint32_t bytes, uint32_t first, uint32_t left_count,
    struct map_page **ret_page);
/* map_page_record -- of the page, the record that @block of the window is in; NULL: none is named. */
const struct map_record *map_page_record(const struct map_page *page, uint32_t block);

#endif /* CLEAVE_VM_CLIENT_MAP_PAGE_H */
