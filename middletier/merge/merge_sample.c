/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge_sample.c -- frames that somebody has made, some or all of them, are read as a reader would
 *
 *	      runs are said to be right            an answer                the engine
 *	IDLE ---------------------------> WANTED <----------> ASKED ------> LOADING
 *	 ^                                 |  ^    no answer                  |
 *	 +--- none is left; every copy is -+  +--- passed: the next frames ---+
 *	      bad, or away for too long            not: another copy
 *
 * Heads say which blocks a frame has, with the CRCs that clients made, and what its stored bytes' CRC is: all of it may be
 * right, and the stored bytes be others (a worker with bad memory, or one that lies). Nobody sees that but who decompresses
 * them; and when a reader does, the log that had the blocks has gone. So it is done before the runs are named: of frames
 * that are chosen when all of them are at the nodes, which who made them cannot know.
 *
 * One replica is asked: all have the same descriptors (merge_readback.c), and a node takes no append whose stored bytes
 * are not those that these say. Another one is asked where a copy has rotted since.
 */
#include "merge/merge_sample.h"

#include <errno.h>
#include <stddef.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/level.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/limits.h"
#include "common/port.h"
#include "common/settings.h"
#include "common/shard.h"
#include "extent/extent.h"
#include "extent/extent_copies.h"
#include "extent/extent_table.h"
#include "extent/node_error.h"
#include "extent/node_link.h"
#include "index/run_index.h"
#include "merge/merge_pace.h"
#include "merge/merge_result.h"
#include "merge/merge_step.h"
#include "merge/recipe_decode.h"

#define SAMPLE_RETRY_NS NUM_MS(50)
#define SAMPLE_BUSY_NS NUM_MS(1)

static const struct sm_state sample_table[SAMPLE_STATE_NR] = {
	[SAMPLE_IDLE] = { "idle", SM_TO(SAMPLE_WANTED), SM_INITIAL },
	[SAMPLE_WANTED] = { "wanted", SM_TO(SAMPLE_ASKED) | SM_TO(SAMPLE_IDLE), 0 },
	[SAMPLE_ASKED] = { "asked",
	    SM_TO(SAMPLE_LOADING) | SM_TO(SAMPLE_WANTED) | SM_TO(SAMPLE_IDLE), 0 },
	[SAMPLE_LOADING] = { "loading", SM_TO(SAMPLE_WANTED) | SM_TO(SAMPLE_IDLE), 0 },
};

void
mt_merge_sample_init(struct merge_sample *sample, void (*tell)(void *arg), void *arg)
{
	assert(tell != NULL);
	*sample = (struct merge_sample){ .tell = tell, .arg = arg };
	sm_init(&sample->sm, "merge_sample", sample_table, SAMPLE_IDLE, 0);
}

/* ---- which frames ---- */

/* Is @made, which has passed merge_verify.c, of a frame of the recipe that is taken as it is stored? */
static bool
frame_is_copy(struct sample_walk *walk, const struct mt_recipe *recipe, const struct mt_frame *made)
{
	struct mt_recipe_frame frame;

	/* Frames of zeros are not made. */
	while (walk->of_recipe < recipe->head.frame_count) {
		frame = mt_recipe_frame(recipe, walk->of_recipe++);
		if (frame.block == made->block)
			return frame.is_copy;
	}
	return false;
}

/* The next frame that was made anew, and the index that has it; NULL: there is none. */
static const struct mt_frame *
walk_next(const struct merge_sample *sample, struct sample_walk *walk,
    const struct mt_run_index **ret_index)
{
	while (walk->part < sample->result->part_count) {
		const struct mt_run_index *index = sample->result->indexes[walk->part];

		while (walk->frame < index->frame_count) {
			const struct mt_frame *frame = &index->frames[walk->frame++];

			if (frame_is_copy(walk, sample->recipe, frame) ||
			    frame->record_kind != RECORD_WRITE)
				continue;
			*ret_index = index;
			return frame;
		}
		walk->part++;
		walk->frame = 0;
	}
	return NULL;
}

/* The next frame that is to be read. */
static const struct mt_frame *
sample_next(struct merge_sample *sample, struct sample_walk *walk, uint32_t *skip_count,
    const struct mt_run_index **ret_index)
{
	const struct mt_frame *frame;

	do {
		frame = walk_next(sample, walk, ret_index);
	} while (frame != NULL && (*skip_count)-- > 0);
	*skip_count = sample->stride - 1;
	return frame;
}

/* As many as one message takes, of one extent: false: none is left. */
static bool
sample_fill(struct merge_sample *sample)
{
	sample->frame_count = sample->bytes = 0;
	while (sample->frame_count < WIRE_GATHER_MAX) {
		struct sample_walk walk = sample->walk;
		uint32_t skip_count = sample->skip_count;
		const struct mt_run_index *index;
		const struct mt_frame *frame = sample_next(sample, &walk, &skip_count, &index);
		uint32_t extent_index;

		if (frame == NULL)
			break;
		extent_index = sample->result->parts[walk.part].extent_index;
		if (sample->frame_count > 0 &&
		    (sample->bytes + frame->stored_bytes > MT_RECEIVE_BYTES ||
			extent_index != sample->extent_index))
			break;
		sample->extent_index = extent_index;
		sample->stretches[sample->frame_count] =
		    (struct wire_stretch){ .offset_bytes = frame->offset_bytes,
			    .length_bytes = frame->stored_bytes };
		sample->indexes[sample->frame_count] = index;
		sample->frames[sample->frame_count++] = frame;
		sample->bytes += frame->stored_bytes;
		sample->walk = walk;
		sample->skip_count = skip_count;
	}
	mt_chooser_reset(&sample->chooser);
	sample->deadline_ns = loop_now_ns(sample->shard->port->loop) +
	    sample->shard->port->settings->node_timeout_ns;
	return sample->frame_count > 0;
}

void
mt_merge_sample_begin(struct merge_sample *sample, struct mt_shard *shard,
    const struct mt_recipe *recipe, const struct merge_result *result, uint32_t stride,
    dev_ptr memory)
{
	struct sample_walk walk = { 0 };
	const struct mt_run_index *index;
	uint32_t count = 0;

	assert(sample->sm.state == SAMPLE_IDLE && !sample->is_out && stride > 0);
	sample->shard = shard;
	sample->recipe = recipe;
	sample->result = result;
	sample->memory = memory;
	sample->stride = stride;
	sample->walk = walk;
	sample->frame_count = 0;
	sample->is_loaded = false;
	while (count < stride && walk_next(sample, &walk, &index) != NULL)
		count++;
	sample->skip_count = count == 0 ? 0 : (uint32_t)loop_random_below(shard->port->loop, count);
	sm_move(&sample->sm, SAMPLE_WANTED);
}

/* ---- answers ---- */

static void
sample_release(struct merge_sample *sample)
{
	if (sample->msg != NULL)
		split_msg_release(sample->msg);
	sample->msg = NULL;
}

static void
sample_on_answer(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg)
{
	struct merge_sample *sample = arg;

	(void)reply;
	assert(call == &sample->call && sample->is_out && sample->msg == NULL);
	sample->is_out = false;
	sample->msg = msg;
	if (rc == 0 && (msg == NULL || msg->payload_bytes != sample->bytes))
		rc = -EMSGSIZE;
	if (sample->sm.state == SAMPLE_IDLE || rc != 0)
		sample_release(sample);
	if (sample->sm.state == SAMPLE_IDLE) {
		sample->tell(sample->arg);
		return;
	}
	if (rc == 0) {
		sm_move(&sample->sm, SAMPLE_LOADING);
		sample->loaded_count = sample->loaded_bytes = 0;
	} else {
		sm_move(&sample->sm, SAMPLE_WANTED);
		if (mt_is_copy_bad(rc))
			mt_chooser_note_bad(&sample->chooser, sample->replica_index);
		else
			mt_chooser_note_failed(&sample->chooser, sample->replica_index);
	}
	sample->tell(sample->arg);
}

/* ---- the engine ---- */

/* The frame at hand holds its blocks, or this copy does not. Any other error ends it all. */
static int
sample_loaded(struct merge_sample *sample)
{
	int rc = sample->job.rc;

	assert(sample->is_loaded);
	sample->is_loaded = false;
	if (rc == -EBADMSG) {
		sample_release(sample);
		mt_chooser_note_bad(&sample->chooser, sample->replica_index);
		sm_move(&sample->sm, SAMPLE_WANTED);
		return STEP_DONE;
	}
	if (rc != 0)
		return rc;
	sample->loaded_bytes += sample->frames[sample->loaded_count++]->stored_bytes;
	return STEP_DONE;
}

static void
sample_on_loaded(struct engine_job *job, void *arg)
{
	struct merge_sample *sample = arg;

	assert(job == &sample->job && sample->is_out);
	sample->is_out = false;
	sample->is_loaded = true;
	if (sample->sm.state == SAMPLE_IDLE)
		sample_release(sample);
	sample->tell(sample->arg);
}

static void
sample_job(struct merge_sample *sample)
{
	const struct mt_frame *frame = sample->frames[sample->loaded_count];
	const struct mt_run_index *index = sample->indexes[sample->loaded_count];
	struct engine_job *job = &sample->job;

	*job = (struct engine_job){ .kind = ENGINE_JOB_LOAD,
		.codec_id = frame->codec_id,
		.src = dev_ptr_add(sample->msg->payload, sample->loaded_bytes),
		.src_bytes = frame->stored_bytes,
		.dst = sample->memory,
		.dst_cap_bytes = frame->block_count * CLEAVE_BLOCK_BYTES,
		.stored_crc = frame->stored_crc,
		.record_blocks = (uint8_t)frame->block_count,
		.block_count = (uint8_t)frame->block_count,
		.fn = sample_on_loaded,
		.arg = sample };
	assert(frame->block_count <= ENGINE_RECORD_BLOCKS_MAX);
	for (uint32_t i = 0; i < frame->block_count; i++)
		job->block_crcs[i] = index->crcs[frame->crcs_at + i];
}

/* The engine is through with the frame at hand, or gets it. */
static int
sample_load(struct merge_sample *sample, struct merge_turn *turn)
{
	int rc;

	if (sample->is_loaded)
		return sample_loaded(sample);
	if (sample->loaded_count == sample->frame_count) {
		sample_release(sample);
		sample->frame_count = 0;
		sm_move(&sample->sm, SAMPLE_WANTED);
		return STEP_DONE;
	}
	if (turn->budget == 0) {
		turn_again(turn, turn->is_held ? SAMPLE_BUSY_NS : 0);
		return STEP_AGAIN;
	}
	turn_spend(turn, TURN_JOB);
	sample_job(sample);
	rc = engine_submit(mt_merge_engines(sample->shard->port, turn), &sample->job);
	if (rc == -ENOBUFS) {
		turn_hold(turn, SAMPLE_BUSY_NS);
		return STEP_AGAIN;
	}
	sample->is_out = rc == 0;
	sample->is_loaded = rc != 0;
	if (rc < 0)
		sample->job.rc = -EBADMSG; /* a codec that is none */
	return STEP_DONE;
}

/* ---- questions ---- */

static bool
sample_send(struct merge_sample *sample, const struct mt_extent *extent, struct mt_link *node)
{
	struct mt_call *call = &sample->call;

	call->request = (struct wire_node){ .opcode = WIRE_EXTENT_READ,
		.id = extent->id,
		.offset_bytes = sample->stretches[0].offset_bytes,
		.length_bytes = sample->bytes,
		.epoch = sample->shard->epoch };
	call->host = NULL;
	call->head_bytes = 0;
	if (sample->frame_count > 1) {
		call->request.opcode = WIRE_EXTENT_GATHER;
		call->request.offset_bytes = 0;
		call->request.stretch_count = (uint16_t)sample->frame_count;
		call->host = sample->host;
		call->head_bytes = sample->frame_count * WIRE_STRETCH_BYTES;
		wire_gather_encode(sample->host + WIRE_HEADER_BYTES, sample->stretches,
		    sample->frame_count);
	}
	call->fn = sample_on_answer;
	call->arg = sample;
	return mt_link_call(node, call) == 0;
}

/* A node of before GATHER is asked for the first frame alone; those behind it are not read. */
static void
sample_cut(struct merge_sample *sample, const struct mt_link *node)
{
	if (sample->frame_count == 1 || node->agreed_level >= CLEAVE_LEVEL_GATHER)
		return;
	sample->frame_count = 1;
	sample->bytes = sample->stretches[0].length_bytes;
}

/* STEP_DONE: none is left, and it is IDLE; or it is ASKED. */
static int
sample_ask(struct merge_sample *sample, struct merge_turn *turn)
{
	struct mt_extent *extent;
	struct mt_copies copies;
	struct mt_link *node;
	int index;

	if (sample->frame_count == 0 && !sample_fill(sample)) {
		sm_move(&sample->sm, SAMPLE_IDLE);
		return STEP_DONE;
	}
	extent = mt_shard_extent(sample->shard, sample->extent_index);
	if (extent == NULL)
		return -ESTALE;
	copies = mt_extent_copies(extent);
	while (
	    (index = mt_chooser_pick(&sample->chooser, sample->shard->port, &copies, &node)) >= 0) {
		sample->replica_index = (uint8_t)index;
		sample_cut(sample, node);
		if (sample_send(sample, extent, node)) {
			sample->is_out = true;
			sm_move(&sample->sm, SAMPLE_ASKED);
			return STEP_DONE;
		}
		mt_chooser_note_failed(&sample->chooser, (uint32_t)index);
	}
	if (mt_chooser_is_hopeless(&sample->chooser, extent->replica_count))
		return -EBADMSG;
	if (loop_now_ns(sample->shard->port->loop) >= sample->deadline_ns)
		return -EHOSTDOWN;
	mt_chooser_retry(&sample->chooser);
	turn_again(turn, SAMPLE_RETRY_NS);
	return STEP_AGAIN;
}

int
mt_merge_sample_step(struct merge_sample *sample, struct merge_turn *turn)
{
	int rc = STEP_DONE;

	while (rc == STEP_DONE && sample->sm.state != SAMPLE_IDLE) {
		if (sample->is_out)
			return STEP_AGAIN;
		assert(sample->sm.state != SAMPLE_ASKED);
		rc = sample->sm.state == SAMPLE_WANTED ? sample_ask(sample, turn)
						       : sample_load(sample, turn);
	}
	if (rc < 0)
		mt_merge_sample_cancel(sample);
	return rc;
}

void
mt_merge_sample_cancel(struct merge_sample *sample)
{
	if (sample->sm.state == SAMPLE_IDLE)
		return;
	sm_move(&sample->sm, SAMPLE_IDLE);
	if (!sample->is_out)
		sample_release(sample);
}

bool
mt_merge_sample_is_quiet(const struct merge_sample *sample)
{
	return !sample->is_out;
}
