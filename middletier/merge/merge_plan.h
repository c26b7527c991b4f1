/* SPDX-License-Identifier: Apache-2.0 */
/* merge_plan.h -- which version of each block a merge keeps, and in which frames */
#ifndef CLEAVE_MIDDLETIER_MERGE_MERGE_PLAN_H
#define CLEAVE_MIDDLETIER_MERGE_MERGE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/wire.h"

struct merge_window;

struct mt_layer;
struct mt_run;

#define MERGE_INPUTS_MAX 120u   /* layers and runs of a merge: one commit takes them away */
#define MERGE_SOURCES_MAX 1000u /* those of a copy, which takes nothing away */

struct merge_input {
	struct mt_layer *layer; /* or */
	struct mt_run *run;     /* both NULL: it has gone with a stage */
	bool is_held;
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
	bool is_read_small;         /* its runs, by small reads: mt_heat_is_small */
	uint32_t read_frame_blocks; /* of frames stored for readers, which may stay so */
	bool
	    is_hasty; /* a record longer than frame_blocks, all of which is newest, is a frame of its own */
	uint8_t recoded;       /* as struct mt_merge_input has it */
	uint32_t at;           /* the first block that no window has had */
	uint64_t stored_bytes; /* of the newest versions, about */
	uint8_t hidden_kind;   /* RECORD_* of a discard of the whole chunk */
};

/* mt_merge_plan_make -- inputs, has_beneath, (read_)frame_blocks and recoded are set; the runs are loaded. */
void mt_merge_plan_make(struct merge_plan *plan);
/* mt_merge_plan_window -- the next blocks; false: there are none left. */
bool mt_merge_plan_window(struct merge_plan *plan, struct merge_window *window);
/* mt_merge_plan_left_bytes -- stored bytes of the blocks that no window has had, about. */
uint64_t mt_merge_plan_left_bytes(const struct merge_plan *plan);

#endif /* CLEAVE_MIDDLETIER_MERGE_MERGE_PLAN_H */
