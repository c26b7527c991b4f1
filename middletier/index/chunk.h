/* SPDX-License-Identifier: Apache-2.0 */
/* chunk.h -- chunks of a shard's index, with their layers and runs; index.h says what these are */
#ifndef CLEAVE_MIDDLETIER_INDEX_CHUNK_H
#define CLEAVE_MIDDLETIER_INDEX_CHUNK_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "index/memtable.h"

struct mt_index;
struct mt_run_dir;
struct mt_run_index;
struct mt_run_load;
struct mt_segment;

struct mt_layer {
	struct loop_link link;     /* chunk->layers, newest first */
	struct loop_link age_link; /* index->layers_by_age; in it from its first record on */
	struct mt_chunk *chunk;
	struct mt_memtable table;
	uint64_t cut;
	uint64_t first_sequence, last_sequence; /* of its records */
	uint32_t first_extent;                  /* index of the log extent of its first record */
	uint64_t stored_bytes;                  /* of the records that it took */
	bool is_frozen;                         /* takes no more records */
	bool
	    hides_all; /* a discard of the whole chunk: what is beneath is zeros, in this span too */
	uint8_t hides_kind; /* its RECORD_* */
	bool is_merging;
};

struct mt_run {
	struct loop_link link; /* chunk->runs: flushed_sequence, the greatest first */
	struct mt_chunk *chunk;
	uint32_t extent_index;
	uint32_t offset_bytes, length_bytes; /* in the extent: whole batches */
	uint32_t directory_bytes;            /* the last of these: a directory; 0: there is none */
	uint32_t directory_crc;              /* of that batch */
	uint32_t read_units; /* heat.c: stored bytes that were read of it, in HEAT_UNIT_BYTES */
	uint64_t flushed_sequence;
	uint64_t cut;
	uint64_t live_bytes; /* compact.c: of it and what is newer in its group; 0: not counted */
	struct mt_run_index *index; /* whole; NULL: not loaded */
	struct mt_run_dir *dir;     /* what is known without; NULL: nothing, or there is no need */
	struct mt_run_load *load;   /* of the whole index, or of the directory alone */
	uint16_t hold_count;        /* index stays while > 0 */
	uint16_t heat_age;   /* heat.c: the index's, when read_units was brought up to date */
	uint8_t small_share; /* heat.c: of its last reads, those of a part of a frame, in 255ths */
	/* Frames that were made in haste, of its bytes; 0 while no whole index was here. */
	uint8_t hasty_percent;
	bool is_merging : 1;
	bool is_dir_bad : 1; /* no copy of its directory passed: it is as if there were none */
	/* Nor is there one of those that are not away: likewise, until its heads were read, or could not. */
	bool is_dir_away : 1;
	bool is_reread : 1;    /* its index was dropped since a merge could not read what it says */
	bool is_of_stream : 1; /* a flush of what was written in order made it (merge/stream.h) */
};

/* Why the last merge of a chunk's layers could not move them: they stay in memory, and pin the log. */
enum mt_pin {
	MT_PIN_NONE,
	MT_PIN_KEY,  /* a data key is not here */
	MT_PIN_COPY, /* no copy of what they have passes */
};

struct mt_chunk {
	struct loop_link hash_link;
	struct loop_link link; /* index->chunks */
	struct mt_index *index;
	struct mt_segment *segment; /* counts what is in it, too */
	uint64_t number;
	struct loop_link layers, runs;
	uint32_t layer_count, run_count;
	uint64_t run_bytes;      /* of all its runs */
	uint64_t layer_bytes;    /* stored_bytes of all its layers */
	uint32_t promised_count; /* keys that admitted writes may still add */
	enum mt_pin pin;         /* not MT_PIN_NONE: nothing of it is merged before retry_ns */
	uint64_t retry_ns;       /* flush.c, segment_drop.c: its runs are not merged before */
};

/* mt_chunk_number -- of a block of a segment. */
static inline uint64_t
mt_chunk_number(uint64_t segment, uint32_t block)
{
	return segment * CLEAVE_SEGMENT_CHUNKS + block / CLEAVE_CHUNK_BLOCKS;
}
/* mt_chunk_segment -- the segment that chunk @number is a part of. */
static inline uint64_t
mt_chunk_segment(uint64_t number)
{
	return number / CLEAVE_SEGMENT_CHUNKS;
}
/* mt_block_in_chunk -- of a block of a segment: its place in its chunk. */
static inline uint32_t
mt_block_in_chunk(uint32_t block)
{
	return block % (uint32_t)CLEAVE_CHUNK_BLOCKS;
}
static inline struct mt_layer *
mt_layer_of(struct loop_link *link)
{
	return LIST_ENTRY(link, struct mt_layer, link);
}
static inline struct mt_run *
mt_run_of(struct loop_link *link)
{
	return LIST_ENTRY(link, struct mt_run, link);
}
/* mt_layer_is_empty -- it has taken no record: there is nothing in it, and it is in no list by age. */
static inline bool
mt_layer_is_empty(const struct mt_layer *layer)
{
	return !list_contains(&layer->age_link);
}

/* mt_index_chunk -- NULL: nothing is known of it. */
struct mt_chunk *mt_index_chunk(const struct mt_index *index, uint64_t number);
/* mt_chunk_find -- as mt_index_chunk. mt_chunk_create, mt_chunk_find_or_create -- NULL: no memory. */
struct mt_chunk *mt_chunk_find(const struct mt_index *index, uint64_t number);
struct mt_chunk *mt_chunk_create(struct mt_index *index, uint64_t number);
struct mt_chunk *mt_chunk_find_or_create(struct mt_index *index, uint64_t number);
/* mt_chunk_active -- the layer that takes records; NULL: there is none. */
struct mt_layer *mt_chunk_active(struct mt_chunk *chunk);
/* mt_layer_create -- a new active layer, with room for all that is promised. NULL: no memory. */
struct mt_layer *mt_layer_create(struct mt_chunk *chunk);
/* mt_layer_reserve -- room for @count more keys, as far as a chunk can have them. 0; -ENOMEM. */
int mt_layer_reserve(struct mt_layer *layer, uint64_t count);
void mt_layer_free(struct mt_layer *layer);
/* mt_chunk_pin -- its layers count as pinned from here on, or, with MT_PIN_NONE, no more. */
void mt_chunk_pin(struct mt_chunk *chunk, enum mt_pin pin);
/* mt_index_flushed -- the greatest flushed_sequence of the chunk's runs; 0: it has none. */
uint64_t mt_index_flushed(const struct mt_index *index, uint64_t chunk_number);

/*
 * mt_index_freeze -- the active layer, if there is one, takes no more; one without records stays. -ENOMEM
 * (for the next one, where something is promised).
 */
int mt_index_freeze(struct mt_chunk *chunk);
/*
 * mt_index_add_run -- from the manifest, or by a merge that was committed. -ENOMEM. The run's extent is in
 * shard->extents. It comes before those with the same flushed_sequence: the order of calls is the manifest's. mt_index_remove_run forgets one (its index too; nobody holds it).
 */
struct mt_run *mt_index_add_run(struct mt_index *index, uint64_t chunk_number,
    const struct mt_run *like);
void mt_index_remove_run(struct mt_run *run);
/* mt_index_remove_layer -- frozen, and in a run by now (or its volume is deleted). */
void mt_index_remove_layer(struct mt_layer *layer);
/* mt_index_remove_chunk -- with its layers and runs; nothing of it is being merged. */
void mt_index_remove_chunk(struct mt_chunk *chunk);

/*
 * mt_index_drop_empty -- frees the chunk if there is nothing in it and nothing is promised; true: it did
 *
 * Removals leave it: who has removed a chunk's last layer or run says so when he needs it no more.
 */
bool mt_index_drop_empty(struct mt_chunk *chunk);

#endif /* CLEAVE_MIDDLETIER_INDEX_CHUNK_H */
