/* SPDX-License-Identifier: Apache-2.0 */
/* merge_plan.h -- which version of each block a merge keeps, and in which frames */
#ifndef CLEAVE_MIDDLETIER_MERGE_MERGE_PLAN_H
#define CLEAVE_MIDDLETIER_MERGE_MERGE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "cleave/dev_ptr.h"
#include "cleave/wire.h"
#include "extent/choose.h"
#include "index/memtable.h"

struct mt_layer;
struct mt_run;

#define MERGE_INPUTS_MAX 120u        /* layers and runs of a merge: one commit takes them away */
#define MERGE_SOURCES_MAX 1000u      /* those of a copy, which takes nothing away */
#define MERGE_WINDOW_BLOCKS_MAX 256u /* 1 MiB of device memory a port */
#define MERGE_WINDOW_FRAMES_MAX 512u /* tombstones take no block */

struct merge_input {
	struct mt_layer *layer; /* or */
	struct mt_run *run;     /* both NULL: it has gone with a stage */
	bool is_held;
};

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
	bool is_copy; /* the stored bytes, not the blocks */
	bool is_ring_bad;
	struct mt_chooser chooser; /* among the copies of its extent */
	uint8_t refused; /* merge_loss.c: bit set by index: its node has answered with an error */
};

struct merge_window {
	uint32_t block_max; /* as many as its memory holds */
	uint32_t block_count;
	dev_ptr memory;
	uint32_t
	    crcs[MERGE_WINDOW_BLOCKS_MAX]; /* of encrypted sources: known when they are loaded */
	bool is_lost[MERGE_WINDOW_BLOCKS_MAX];
	struct merge_source sources[MERGE_WINDOW_BLOCKS_MAX];
	uint32_t order[MERGE_WINDOW_BLOCKS_MAX]; /* of sources, by place */
	uint32_t source_count, done_count;
	uint32_t key_id; /* the highest of its encrypted sources that were loaded; 0: none was */
	bool is_keyless; /* the data key of one of them is not here */
	struct merge_frame frames[MERGE_WINDOW_FRAMES_MAX];
	uint32_t frame_count;
	/* The store's place: frame, and block in it. */
	uint32_t frame_at, block_at;
};

struct merge_plan {
	struct merge_input inputs[MERGE_SOURCES_MAX]; /* newest first */
	uint32_t input_count;
	uint64_t target;                      /* number of the chunk that runs are made of */
	uint16_t newest[CLEAVE_CHUNK_BLOCKS]; /* index of the input + 1; 0: nothing */
	bool has_beneath;                     /* something may lie beneath: tombstones count */
	bool is_staged; /* inputs may stay behind what replaces a part of them */
	bool is_hidden; /* all of it: nothing is kept */
	uint32_t frame_blocks;
	uint8_t recoded;       /* as struct mt_merge_input has it */
	uint32_t at;           /* the first block that no window has had */
	uint64_t stored_bytes; /* of the newest versions, about */
	uint8_t hidden_kind;   /* RECORD_* of a discard of the whole chunk */
};

/* mt_merge_plan_make -- inputs, has_beneath and frame_blocks are set; the runs are loaded. */
void mt_merge_plan_make(struct merge_plan *plan);
/* mt_merge_plan_window -- the next blocks; false: there are none left. */
bool mt_merge_plan_window(struct merge_plan *plan, struct merge_window *window);
/* mt_merge_plan_left_bytes -- stored bytes of the blocks that no window has had, about. */
uint64_t mt_merge_plan_left_bytes(const struct merge_plan *plan);

#endif /* CLEAVE_MIDDLETIER_MERGE_MERGE_PLAN_H */
