/* SPDX-License-Identifier: Apache-2.0 */
/* merge_window.h -- the blocks of a merge that are in memory at a time: where they are stored, what becomes of them */
#ifndef CLEAVE_MIDDLETIER_MERGE_MERGE_WINDOW_H
#define CLEAVE_MIDDLETIER_MERGE_MERGE_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "cleave/dev_ptr.h"
#include "extent/choose.h"
#include "index/memtable.h"

#define MERGE_WINDOW_BLOCKS_MAX 256u /* 1 MiB of device memory; a port has two */
#define MERGE_WINDOW_FRAMES_MAX 512u /* tombstones take no block */

/* Blocks next to each other that become one record. */
struct merge_frame {
	uint32_t block, count;
	uint32_t slot; /* WRITE: of its first block in the window */
	uint8_t kind;
	bool is_copy; /* is taken as it is stored: one source */
	uint32_t source;
};

enum merge_source_state {
	MERGE_SOURCE_WANTED,
	MERGE_SOURCE_ASKED,   /* a READ that takes it along is out, or has been answered */
	MERGE_SOURCE_LOADING, /* the engine is at work on it */
	MERGE_SOURCE_DONE,    /* or lost */
	MERGE_SOURCE_STATE_NR
};

/* Blocks next to each other in one stored record and in the window. */
struct merge_source {
	struct sm sm;
	struct mt_location location; /* of the first */
	uint64_t
	    chunk; /* that its record was written to: the target, but where a clone is flattened */
	uint32_t block; /* of the record's first block in that chunk */
	uint32_t slot;
	uint8_t count;
	bool is_copy;    /* the stored bytes, not the blocks */
	bool is_pressed; /* all of a frame, stored plain: compressed on its way into the window */
	uint32_t frame;  /* that one's index in frames */
	bool is_ring_bad;
	bool is_index_sure;        /* its place is not of an index that has led a merge astray */
	struct mt_chooser chooser; /* among the copies of its extent */
	uint8_t refused; /* merge_loss.c: bit set by index: its node has answered with an error */
};

struct merge_window {
	uint32_t block_max; /* as many as it is to have: its memory holds so many, or more */
	uint32_t block_count;
	dev_ptr memory;
	uint32_t
	    crcs[MERGE_WINDOW_BLOCKS_MAX]; /* of encrypted sources: known when they are loaded */
	bool is_lost[MERGE_WINDOW_BLOCKS_MAX];
	struct merge_source sources[MERGE_WINDOW_BLOCKS_MAX];
	uint32_t order[MERGE_WINDOW_BLOCKS_MAX]; /* of sources, by place */
	uint32_t source_count, done_count;
	uint32_t ask_at, ring_at; /* of order, and of sources: those before are not WANTED */
	uint32_t key_id; /* the highest of its encrypted sources that were loaded; 0: none was */
	bool is_keyless; /* the data key of one of them is not here */
	struct merge_frame frames[MERGE_WINDOW_FRAMES_MAX];
	uint32_t frame_count;
	/* The store's place: frame, and block in it. */
	uint32_t frame_at, block_at;
};

/* mt_merge_window_clear -- nothing is in it yet. */
static inline void
mt_merge_window_clear(struct merge_window *window)
{
	window->block_count = window->source_count = window->done_count = 0;
	window->frame_count = window->frame_at = window->block_at = 0;
	window->ask_at = window->ring_at = 0;
	window->key_id = 0;
	window->is_keyless = false;
}

/* mt_merge_source_want -- @source of @window is WANTED again. */
static inline void
mt_merge_source_want(struct merge_window *window, struct merge_source *source)
{
	sm_move(&source->sm, MERGE_SOURCE_WANTED);
	window->ask_at = window->ring_at = 0;
}

/* mt_merge_window_left_bytes -- stored bytes of it that no frame was made of yet, about: all while some are left. */
static inline uint64_t
mt_merge_window_left_bytes(const struct merge_window *window)
{
	uint64_t bytes = 0;

	if (window->frame_at == window->frame_count)
		return 0;
	for (uint32_t i = 0; i < window->source_count; i++) {
		const struct merge_source *source = &window->sources[i];

		bytes += (uint64_t)source->location.stored_bytes * source->count /
		    source->location.record_blocks;
	}
	return bytes;
}

#endif /* CLEAVE_MIDDLETIER_MERGE_MERGE_WINDOW_H */
