/* SPDX-License-Identifier: Apache-2.0 */
/* merge_sample.h -- frames that somebody has made, some or all of them, are read as a reader would: do they hold their blocks? */
#ifndef CLEAVE_MIDDLETIER_MERGE_MERGE_SAMPLE_H
#define CLEAVE_MIDDLETIER_MERGE_MERGE_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "cleave/dev_ptr.h"
#include "cleave/engine.h"
#include "cleave/gather.h"
#include "cleave/message.h"
#include "extent/call.h"
#include "extent/choose.h"

struct merge_result;
struct merge_turn;
struct mt_frame;
struct mt_recipe;
struct mt_run_index;
struct mt_shard;
struct split_msg;

#define MERGE_SAMPLE_STRIDE 32u /* one frame of so many is read; of a few it is one */

enum merge_sample_state {
	SAMPLE_IDLE,
	SAMPLE_WANTED,  /* the next frames are asked for, or nobody can be asked now */
	SAMPLE_ASKED,   /* some are */
	SAMPLE_LOADING, /* the engine goes through them */
	SAMPLE_STATE_NR
};

/* A walk over the frames that were made anew. */
struct sample_walk {
	uint32_t part, frame;
	uint32_t of_recipe; /* the recipe's frame that is next */
};

struct merge_sample {
	struct sm sm;
	struct mt_shard *shard;
	const struct mt_recipe *recipe;
	const struct merge_result *result;
	struct sample_walk walk;
	uint32_t stride, skip_count; /* so many frames are left out until the next */
	/* The frames that one message asks for: */
	const struct mt_run_index *indexes[WIRE_GATHER_MAX];
	const struct mt_frame *frames[WIRE_GATHER_MAX];
	struct wire_stretch stretches[WIRE_GATHER_MAX];
	uint32_t frame_count, bytes;
	uint32_t extent_index;
	uint32_t loaded_count, loaded_bytes; /* LOADING: of these */
	struct mt_call call;
	uint8_t host[WIRE_HEADER_BYTES + WIRE_GATHER_MAX * WIRE_STRETCH_BYTES]; /* the request */
	struct split_msg *msg;                                                  /* LOADING */
	struct engine_job job;
	dev_ptr memory; /* of ENGINE_RECORD_BYTES_MAX: where the engine puts blocks */
	struct mt_chooser chooser;
	uint8_t replica_index;
	bool is_loaded; /* LOADING: the job is done, and was not looked at */
	bool is_out;    /* the call, or the job; IDLE, too: nobody waits for it then */
	uint64_t deadline_ns;
	void (*tell)(void *arg); /* something came back */
	void *arg;
};

/* mt_merge_sample_init -- @tell is called with @arg, from the loop, when a step may go on. */
void mt_merge_sample_init(struct merge_sample *sample, void (*tell)(void *arg), void *arg);
/*
 * mt_merge_sample_begin -- IDLE, and quiet: @result, runs with their indexes, was compared with @recipe (merge_verify.h)
 *
 * One of @stride frames that were made anew is read, from a random one on, at least one; 1: all are. What was taken as it is stored is
 * not, for its stored CRC is its source's, and each node has checked that. @memory: ENGINE_RECORD_BYTES_MAX of device
 * memory. All are borrowed until the end, @memory until it is quiet.
 */
void mt_merge_sample_begin(struct merge_sample *sample, struct mt_shard *shard,
    const struct mt_recipe *recipe, const struct merge_result *result, uint32_t stride,
    dev_ptr memory);
/*
 * mt_merge_sample_step -- STEP_AGAIN: something is out, or it is tried again by @turn
 *
 * STEP_DONE: what was read holds the blocks that the recipe wants (I8). Negative: -EBADMSG: a frame does so at no
 * replica; -EHOSTDOWN: none could be asked until the node time-out; -ESTALE: an extent has gone; what an engine says.
 * IDLE after both.
 */
int mt_merge_sample_step(struct merge_sample *sample, struct merge_turn *turn);
/* mt_merge_sample_cancel -- IDLE; what is out comes back unseen. Also when it is IDLE. */
void mt_merge_sample_cancel(struct merge_sample *sample);
/* mt_merge_sample_is_quiet -- nothing is out. */
bool mt_merge_sample_is_quiet(const struct merge_sample *sample);

#endif /* CLEAVE_MIDDLETIER_MERGE_MERGE_SAMPLE_H */
