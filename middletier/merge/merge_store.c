/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge_store.c -- a window's frames, from its memory into the batches of a run
 *
 * One at a time, for they are packed in the order of their blocks and how long one becomes is known when
 * it is compressed. The CRC of a frame's plain bytes is combined from those of its blocks, which the index
 * holds since their clients made them; the engine compares before it compresses (I8). Blocks that are lost
 * become a record that says so.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "base/mutant.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/dev_ptr.h"
#include "cleave/engine.h"
#include "cleave/envelope.h"
#include "cleave/wire.h"
#include "common/port.h"
#include "common/shard.h"
#include "index/memtable.h"
#include "merge/merge_exec.h"
#include "merge/merge_pace.h"
#include "merge/merge_step.h"
#include "merge/merge_store.h"
#include "merge/merge_window.h"
#include "merge/run_writer.h"

#define MERGE_BUSY_NS NUM_MS(1)
#define MERGE_HOT_LEVEL 9 /* of LZ4 HC */

/* The frame's blocks from block_at on that are all lost, or all not. */
static uint32_t
piece_count(const struct merge_window *window, const struct merge_frame *frame)
{
	uint32_t first = frame->slot + window->block_at, count = 1;

	assert(window->block_at < frame->count);
	while (window->block_at + count < frame->count &&
	    window->is_lost[first + count] == window->is_lost[first])
		count++;
	return count;
}

static void
window_advance(struct merge_window *window, uint32_t count)
{
	assert(window->frame_at < window->frame_count);
	assert(window->block_at + count <= window->frames[window->frame_at].count);
	window->block_at += count;
	if (window->block_at == window->frames[window->frame_at].count) {
		window->frame_at++;
		window->block_at = 0;
	}
}

static struct record_desc
record_at(const struct merge_exec *exec, uint32_t block, uint32_t count, uint8_t kind)
{
	uint64_t chunk = exec->task.target;

	assert(count > 0 && block + count <= CLEAVE_CHUNK_BLOCKS);
	return (struct record_desc){
		.kind = kind,
		.segment = chunk / CLEAVE_SEGMENT_CHUNKS,
		.block = (uint32_t)(chunk % CLEAVE_SEGMENT_CHUNKS * CLEAVE_CHUNK_BLOCKS) + block,
		.block_count = count,
	};
}

/* A record without content. */
static int
store_tombstone(struct merge_exec *exec, const struct merge_frame *frame, uint32_t count,
    uint8_t kind)
{
	struct record_desc record =
	    record_at(exec, frame->block + exec->storing.block_at, count, kind);
	dev_ptr place;
	int rc = mt_run_writer_room(&exec->writer, 0, 0, &place);

	assert(kind != RECORD_WRITE);
	if (rc != STEP_DONE)
		return rc;
	turn_spend(&exec->turn, TURN_JOB_SHORT);
	mt_run_writer_add(&exec->writer, &record);
	window_advance(&exec->storing, count);
	return STEP_DONE;
}

/* The engine is through: a record, unless it is all zeroes. */
static int
store_ended(struct merge_exec *exec)
{
	struct merge_window *window = &exec->storing;
	const struct merge_frame *frame = &window->frames[window->frame_at];
	struct engine_job *job = &exec->store.job;
	uint32_t slot = frame->slot + window->block_at;
	struct record_desc record =
	    record_at(exec, frame->block + window->block_at, job->block_count, RECORD_WRITE);

	assert(exec->store.is_used);
	exec->store.is_used = false;
	if (exec->writer.rc != 0 && !MUTANT(writer_failure_unseen))
		return exec->writer.rc; /* the place went while a thread filled it */
	if (job->rc == -ENOKEY)
		return -ENOKEY;
	if (job->rc != 0) {
		log_error(
		    "merge: device memory does not match its CRC shard=%" PRIu32
		    " rc=%s: the merge is given up, and done again; look after this host's memory",
		    exec->shard->index, log_errno(job->rc));
		return -EIO;
	}
	if (job->kind == ENGINE_JOB_STORE && job->is_zero) {
		record.kind = RECORD_ZEROES;
		/* Room for it is there: a tombstone takes less. */
		if (exec->task.keeps_zeroes)
			mt_run_writer_add(&exec->writer, &record);
		window_advance(window, job->block_count);
		return STEP_DONE;
	}
	if (job->kind == ENGINE_JOB_COPY) {
		const struct mt_location *location = &window->sources[frame->source].location;

		record.codec_id = location->codec_id;
		record.stored_bytes = location->stored_bytes;
		record.stored_crc = location->stored_crc;
	} else {
		record.codec_id = job->ret_codec_id;
		record.stored_bytes = job->dst_bytes;
		record.stored_crc = job->stored_crc;
	}
	if (exec->is_garbling &&
	    (job->kind == ENGINE_JOB_STORE || window->sources[frame->source].is_pressed))
		record.codec_id = ENGINE_SNAPPY;
	/* An encrypted record's CRCs are in its envelope, and nowhere else. */
	for (uint32_t i = 0; i < record.block_count; i++)
		record.block_crcs[i] =
		    (record.codec_id & ENGINE_ENCRYPTED) != 0 ? 0 : window->crcs[slot + i];
	mt_run_writer_add(&exec->writer, &record);
	window_advance(window, record.block_count);
	return STEP_DONE;
}

static void
store_on_done(struct engine_job *job, void *arg)
{
	struct merge_job *slot = arg;
	struct merge_exec *exec = slot->exec;
	int rc = 0;

	assert(exec->out_count > 0);
	assert(&slot->job == job);
	exec->out_count--;
	if (exec->is_cancelled)
		slot->is_used = false;
	else
		rc = store_ended(exec);
	merge_exec_tell(exec, rc);
}

static uint32_t
blocks_crc(const struct merge_window *window, uint32_t slot, uint32_t count)
{
	uint32_t crc = window->crcs[slot];

	assert(count > 0 && slot + count <= window->block_count);
	for (uint32_t i = 1; i < count; i++)
		crc = crc32c_combine(crc, window->crcs[slot + i], CLEAVE_BLOCK_BYTES);
	return crc;
}

/* The key, the counter and the place of an encrypted record. 0; -EIO: there are no random bytes. */
static int
store_fill_envelope(const struct merge_exec *exec, const struct record_desc *record,
    struct engine_job *job)
{
	job->envelope.key_id = exec->key_id;
	job->envelope.segment = record->segment;
	job->envelope.block = record->block;
	return envelope_draw(&exec->port->envelopes, &job->envelope);
}

/* How @frame is compressed, unless it is taken as it is stored. */
static void
store_choose_codec(const struct merge_task *task, const struct merge_frame *frame,
    struct engine_job *job)
{
	bool is_hasty = frame->count > task->frame_blocks;

	assert(frame->kind == RECORD_WRITE);
	job->codec_id = is_hasty || task->is_hot ? ENGINE_LZ4 : ENGINE_ZSTD;
	job->level = is_hasty ? MERGE_HASTE_LEVEL : task->is_hot ? MERGE_HOT_LEVEL : task->level;
}

/* The engine's work on blocks that are not lost. STEP_AGAIN: no room now, or it goes on elsewhere. */
static int
store_blocks(struct merge_exec *exec, const struct merge_frame *frame, uint32_t count)
{
	struct merge_window *window = &exec->storing;
	struct engine_job *job = &exec->store.job;
	uint32_t slot = frame->slot + window->block_at;
	uint32_t bytes = frame->is_copy ? window->sources[frame->source].location.stored_bytes
					: count * CLEAVE_BLOCK_BYTES;
	bool is_encrypted = !frame->is_copy && exec->key_id != 0 && !MUTANT(merge_stores_plain);
	uint32_t room_bytes = bytes + (is_encrypted ? ENGINE_ENVELOPE_BYTES(count) : 0);
	struct record_desc record =
	    record_at(exec, frame->block + window->block_at, count, RECORD_WRITE);
	dev_ptr place;
	int rc = mt_run_writer_room(&exec->writer, room_bytes, count, &place);

	assert(!exec->store.is_used);
	assert(count <= ENGINE_RECORD_BLOCKS_MAX);
	if (rc != STEP_DONE)
		return rc;
	rc = 0;
	*job = (struct engine_job){
		.kind = frame->is_copy ? ENGINE_JOB_COPY : ENGINE_JOB_STORE,
		.src = dev_ptr_add(window->memory, (uint64_t)slot * CLEAVE_BLOCK_BYTES),
		.src_bytes = bytes,
		.dst = place,
		.dst_cap_bytes = room_bytes,
		.payload_crc = blocks_crc(window, slot, count),
		.block_count = (uint8_t)count,
		.fn = store_on_done,
		.arg = &exec->store,
	};
	store_choose_codec(&exec->task, frame, job);
	if (is_encrypted)
		rc = store_fill_envelope(exec, &record, job);
	if (rc != 0)
		return rc;
	exec->store.exec = exec;
	exec->store.is_used = true;
	/* A copy takes less than to hand it over. */
	turn_spend(&exec->turn, frame->is_copy ? TURN_JOB_SHORT : TURN_JOB);
	rc = engine_submit(frame->is_copy ? exec->port->engines
					  : mt_merge_engines(exec->port, &exec->turn),
	    job);
	if (rc == 0) {
		exec->out_count++;
		return STEP_AGAIN;
	}
	if (rc == -ENOBUFS) {
		exec->store.is_used = false;
		turn_hold(&exec->turn, MERGE_BUSY_NS);
		return STEP_AGAIN;
	}
	if (rc < 0)
		job->rc = rc;
	return store_ended(exec);
}

void
mt_merge_store_begin(struct merge_exec *exec)
{
	const struct merge_window *window = &exec->storing;
	dev_ptr memory = exec->storing.memory;

	assert(exec->storing.frame_at == exec->storing.frame_count);
	assert(exec->window.done_count == exec->window.source_count);
	exec->storing = exec->window;
	exec->window.memory = memory;
	mt_merge_window_clear(&exec->window);
	exec->is_ahead = false;
	if (exec->task.key_id != 0)
		exec->key_id = exec->task.key_id;
	else
		exec->key_id = (uint32_t)num_max(exec->key_id, window->key_id);
	assert(window->key_id == 0 || exec->key_id != 0);
}

int
mt_merge_store_step(struct merge_exec *exec)
{
	struct merge_window *window = &exec->storing;

	assert(!exec->is_cancelled);
	exec->writer.batch_bytes = exec->turn.batch_bytes;
	while (window->frame_at < window->frame_count) {
		const struct merge_frame *frame = &window->frames[window->frame_at];
		bool is_write = frame->kind == RECORD_WRITE;
		uint32_t count = is_write ? piece_count(window, frame) : frame->count;
		int rc;

		if (exec->store.is_used || exec->turn.budget == 0)
			return STEP_AGAIN;
		if (!is_write)
			rc = store_tombstone(exec, frame, count, frame->kind);
		else if (window->is_lost[frame->slot + window->block_at])
			rc = store_tombstone(exec, frame, count, RECORD_LOST);
		else
			rc = store_blocks(exec, frame, count);
		if (rc != STEP_DONE)
			return rc;
	}
	return STEP_DONE;
}
