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
#include "index/index.h"
#include "index/memtable.h"
#include "merge/merge.h"
#include "merge/merge_pace.h"
#include "merge/merge_plan.h"
#include "merge/merge_step.h"
#include "merge/merge_store.h"
#include "merge/merge_work.h"
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
record_at(const struct mt_merge *merge, uint32_t block, uint32_t count, uint8_t kind)
{
	uint64_t chunk = merge->target;

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
store_tombstone(struct mt_merge *merge, const struct merge_frame *frame, uint32_t count,
    uint8_t kind)
{
	struct merge_work *work = merge_work_of(merge);
	struct record_desc record =
	    record_at(merge, frame->block + work->window.block_at, count, kind);
	dev_ptr place;
	int rc = mt_run_writer_room(&work->writer, 0, 0, &place);

	assert(kind != RECORD_WRITE);
	if (rc != STEP_DONE)
		return rc;
	mt_run_writer_add(&work->writer, &record);
	window_advance(&work->window, count);
	return STEP_DONE;
}

/* The engine is through: a record, unless it is all zeroes. */
static int
store_ended(struct mt_merge *merge)
{
	struct merge_work *work = merge_work_of(merge);
	struct merge_window *window = &work->window;
	const struct merge_frame *frame = &window->frames[window->frame_at];
	struct engine_job *job = &work->store.job;
	uint32_t slot = frame->slot + window->block_at;
	struct record_desc record =
	    record_at(merge, frame->block + window->block_at, job->block_count, RECORD_WRITE);

	assert(work->store.is_used);
	work->store.is_used = false;
	if (work->writer.rc != 0 && !MUTANT(writer_failure_unseen))
		return work->writer.rc; /* the place went while a thread filled it */
	if (job->rc == -ENOKEY)
		return -ENOKEY;
	if (job->rc != 0) {
		log_error(
		    "merge: device memory does not match its CRC shard=%" PRIu32
		    " rc=%s: the merge is given up, and done again; look after this host's memory",
		    merge->shard->index, log_errno(job->rc));
		return -EIO;
	}
	if (job->kind == ENGINE_JOB_STORE && job->is_zero) {
		record.kind = RECORD_ZEROES;
		/* Room for it is there: a tombstone takes less. */
		if (work->plan.has_beneath || work->plan.is_staged)
			mt_run_writer_add(&work->writer, &record);
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
	/* An encrypted record's CRCs are in its envelope, and nowhere else. */
	for (uint32_t i = 0; i < record.block_count; i++)
		record.block_crcs[i] =
		    (record.codec_id & ENGINE_ENCRYPTED) != 0 ? 0 : window->crcs[slot + i];
	mt_run_writer_add(&work->writer, &record);
	window_advance(window, record.block_count);
	return STEP_DONE;
}

static void
store_on_done(struct engine_job *job, void *arg)
{
	struct merge_job *slot = arg;
	struct mt_merge *merge = slot->merge;
	int rc = 0;

	assert(merge_work_of(merge)->out_count > 0);
	assert(&slot->job == job);
	merge_work_of(merge)->out_count--;
	if (merge->sm.state == MERGE_FAILED)
		slot->is_used = false;
	else
		rc = store_ended(merge);
	mt_merge_notify(merge, rc);
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
store_fill_envelope(const struct mt_merge *merge, const struct record_desc *record,
    struct engine_job *job)
{
	job->envelope.key_id = merge->key_id;
	job->envelope.segment = record->segment;
	job->envelope.block = record->block;
	return envelope_draw(&merge->shard->port->envelopes, &job->envelope);
}

/* The engine's work on blocks that are not lost. STEP_AGAIN: no room now, or it goes on elsewhere. */
static int
store_blocks(struct mt_merge *merge, const struct merge_frame *frame, uint32_t count)
{
	struct merge_work *work = merge_work_of(merge);
	struct merge_window *window = &work->window;
	struct engine_job *job = &work->store.job;
	uint32_t slot = frame->slot + window->block_at;
	uint32_t bytes = frame->is_copy ? window->sources[frame->source].location.stored_bytes
					: count * CLEAVE_BLOCK_BYTES;
	bool is_encrypted = !frame->is_copy && merge->key_id != 0 && !MUTANT(merge_stores_plain);
	uint32_t room_bytes = bytes + (is_encrypted ? ENGINE_ENVELOPE_BYTES(count) : 0);
	struct record_desc record =
	    record_at(merge, frame->block + window->block_at, count, RECORD_WRITE);
	dev_ptr place;
	int rc = mt_run_writer_room(&work->writer, room_bytes, count, &place);

	assert(!work->store.is_used);
	assert(count <= ENGINE_RECORD_BLOCKS_MAX);
	if (rc != STEP_DONE)
		return rc;
	rc = 0;
	*job = (struct engine_job){
		.kind = frame->is_copy ? ENGINE_JOB_COPY : ENGINE_JOB_STORE,
		.codec_id = merge->input.is_hot ? ENGINE_LZ4 : ENGINE_ZSTD,
		.level = merge->input.is_hot ? MERGE_HOT_LEVEL : merge->input.level,
		.src = dev_ptr_add(window->memory, (uint64_t)slot * CLEAVE_BLOCK_BYTES),
		.src_bytes = bytes,
		.dst = place,
		.dst_cap_bytes = room_bytes,
		.payload_crc = blocks_crc(window, slot, count),
		.block_count = (uint8_t)count,
		.fn = store_on_done,
		.arg = &work->store,
	};
	if (is_encrypted)
		rc = store_fill_envelope(merge, &record, job);
	if (rc != 0)
		return rc;
	work->store.merge = merge;
	work->store.is_used = true;
	rc = engine_submit(mt_merge_engines(merge), job);
	if (rc == 0) {
		work->out_count++;
		return STEP_AGAIN;
	}
	if (rc == -ENOBUFS) {
		work->store.is_used = false;
		turn_again(&work->turn, MERGE_BUSY_NS);
		return STEP_AGAIN;
	}
	if (rc < 0)
		job->rc = rc;
	return store_ended(merge);
}

void
mt_merge_store_begin(struct mt_merge *merge)
{
	const struct merge_window *window = &merge_work_of(merge)->window;

	/* A copy's is the clone's, where that has one. */
	if (merge->input.from != NULL && merge->input.key_id != 0)
		merge->key_id = merge->input.key_id;
	else
		merge->key_id = (uint32_t)num_max(merge->key_id, window->key_id);
	assert(window->key_id == 0 || merge->key_id != 0);
}

int
mt_merge_store_step(struct mt_merge *merge)
{
	struct merge_work *work = merge_work_of(merge);
	struct merge_window *window = &work->window;

	assert(merge->sm.state == MERGE_STORING);
	while (window->frame_at < window->frame_count) {
		const struct merge_frame *frame = &window->frames[window->frame_at];
		bool is_write = frame->kind == RECORD_WRITE;
		uint32_t count = is_write ? piece_count(window, frame) : frame->count;
		int rc;

		if (work->store.is_used || work->turn.budget == 0)
			return STEP_AGAIN;
		work->turn.budget--;
		if (!is_write)
			rc = store_tombstone(merge, frame, count, frame->kind);
		else if (window->is_lost[frame->slot + window->block_at])
			rc = store_tombstone(merge, frame, count, RECORD_LOST);
		else
			rc = store_blocks(merge, frame, count);
		if (rc != STEP_DONE)
			return rc;
	}
	return STEP_DONE;
}
