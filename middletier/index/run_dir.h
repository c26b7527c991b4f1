/* SPDX-License-Identifier: Apache-2.0 */
/* run_dir.h -- where a run's batches are, and exactly which blocks it holds */
#ifndef CLEAVE_MIDDLETIER_INDEX_RUN_DIR_H
#define CLEAVE_MIDDLETIER_INDEX_RUN_DIR_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/loop.h"

struct batch_directory;
struct mt_run;
struct mt_run_index;

/* A batch of a run. */
struct mt_run_place {
	uint32_t offset_bytes; /* in the extent */
	uint32_t head_bytes;   /* header and descriptors */
	uint32_t batch_crc;
	uint32_t first_block; /* in the chunk: its first frame's */
};

struct mt_run_slot {
	struct mt_run_place place;
	struct mt_run_index *page; /* NULL: not loaded */
};

/* With the set, which lies behind the slots, a single allocation. */
struct mt_run_dir {
	struct loop_link lru_link; /* run_index.c: cache->dirs */
	struct loop_link loads;    /* run_load.c: of pages, until all who wait are told */
	struct mt_run *run;
	uint32_t bytes;      /* of this allocation */
	uint32_t page_count; /* that are loaded */
	uint32_t bound_count;
	uint16_t *
	    bounds; /* blocks, ascending: where each stretch of the run's blocks begins, and ends */
	uint64_t
	    *bits; /* in their place: a bit for each block of the chunk. NULL: bounds are shorter */
	uint32_t slot_count;
	struct mt_run_slot slots[]; /* by place; first_block ascends, too */
};

/*
 * mt_run_dir_create -- the directory of a run whose whole index is @index; no page is loaded
 *
 * NULL: no memory, or the index does not know the run's batches.
 */
struct mt_run_dir *mt_run_dir_create(const struct mt_run_index *index);
/* mt_run_dir_decode -- the directory of a run, from the bytes that stand behind it; no page is loaded. NULL: no memory. */
struct mt_run_dir *mt_run_dir_decode(const struct batch_directory *from);
/* mt_run_dir_encode -- those bytes, to @out: mt_run_dir_encoded_bytes of them. */
void mt_run_dir_encode(const struct mt_run_dir *dir, uint8_t *out);
uint32_t mt_run_dir_encoded_bytes(const struct mt_run_dir *dir);
/* mt_run_dir_is_same -- have @a and @b the same batches, at the same places, and the same blocks? Whatever is loaded. */
bool mt_run_dir_is_same(const struct mt_run_dir *a, const struct mt_run_dir *b);
/* mt_run_dir_free -- without pages and loads. NULL is none. */
void mt_run_dir_free(struct mt_run_dir *dir);
/* mt_run_dir_has -- does the run hold @block of its chunk, as data or as a tombstone? Never wrong. */
bool mt_run_dir_has(const struct mt_run_dir *dir, uint32_t block);
/* mt_run_dir_page -- which slot's batch has @block, which the run holds. */
uint32_t mt_run_dir_page(const struct mt_run_dir *dir, uint32_t block);

/*
 * mt_run_dir_fits -- are the frames of @index, of the batch in slot @page, exactly those blocks of the set that are the batch's?
 *
 * @index: its frames ascend and are disjoint; NULL is one without frames.
 */
bool mt_run_dir_fits(const struct mt_run_dir *dir, uint32_t page, const struct mt_run_index *index);

/* mt_run_dir_join -- all pages are loaded: the whole index, a copy of them. NULL: no memory. */
struct mt_run_index *mt_run_dir_join(const struct mt_run_dir *dir);

#endif /* CLEAVE_MIDDLETIER_INDEX_RUN_DIR_H */
