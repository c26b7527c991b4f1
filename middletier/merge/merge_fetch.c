/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge_fetch.c -- a window's blocks, from where they are stored, into the window's memory
 *
 *	        a READ goes out        it is there             the engine is through
 *	WANTED -----------------> ASKED ----------> LOADING --------------------> DONE
 *	 |  ^  |                    |                ^   |                          ^
 *	 |  |  +-- from the ring ---|----------------+   |                          |
 *	 |  +-- a bad copy, --------+--------------------+                          |
 *	 |      a lost node, a full queue of the engine                             |
 *	 +-- every copy is bad for good: lost (merge_loss.c) -----------------------+
 *
 * What the ring still holds is taken from there. The rest is read from replicas (merge_read.c), several messages at a
 * time, each released as soon as the engine has been through it. A source that failed is read by itself from the next
 * replica. When no replica is left to ask, merge_loss.c says whether it is waited for, lost, or the end of the merge.
 *
 * A long record that is stored plain, and becomes one frame (HASTE.md), is *pressed*: the engine checks and compresses it
 * from where it came in, so its blocks are gone over once, and are never in the window's memory. What is there is its
 * frame, which is taken from now on as those that are copied.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mutant.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/dev_ptr.h"
#include "cleave/engine.h"
#include "cleave/loop.h"
#include "common/port.h"
#include "common/settings.h"
#include "common/shard.h"
#include "common/shard_events.h"
#include "extent/choose.h"
#include "index/memtable.h"
#include "index/ring.h"
#include "merge/merge_exec.h"
#include "merge/merge_fetch.h"
#include "merge/merge_loss.h"
#include "merge/merge_pace.h"
#include "merge/merge_read.h"
#include "merge/merge_step.h"
#include "merge/merge_window.h"

#define MERGE_RETRY_NS NUM_MS(50)
#define MERGE_BUSY_NS NUM_MS(1)
#define MERGE_SHORT_BLOCKS 4u /* decompressed, by LZ4, and checked in some 10 us */

static const struct sm_state merge_source_table[MERGE_SOURCE_STATE_NR] = {
	[MERGE_SOURCE_WANTED] = { "wanted",
	    SM_TO(MERGE_SOURCE_ASKED) | SM_TO(MERGE_SOURCE_LOADING) | SM_TO(MERGE_SOURCE_DONE),
	    SM_INITIAL },
	[MERGE_SOURCE_ASKED] = { "asked", SM_TO(MERGE_SOURCE_LOADING) | SM_TO(MERGE_SOURCE_WANTED),
	    0 },
	[MERGE_SOURCE_LOADING] = { "loading", SM_TO(MERGE_SOURCE_DONE) | SM_TO(MERGE_SOURCE_WANTED),
	    0 },
	[MERGE_SOURCE_DONE] = { "done", 0, SM_FINAL },
};

/* ---- the beginning ---- */

static bool
source_is_before(const struct merge_source *a, const struct merge_source *b)
{
	if (a->location.extent_index != b->location.extent_index)
		return a->location.extent_index < b->location.extent_index;
	return a->location.offset_bytes < b->location.offset_bytes;
}

/* Heap sort: at most 256, and no memory. */
static void
window_sift(struct merge_window *window, uint32_t at, uint32_t count)
{
	uint32_t *order = window->order;

	for (;;) {
		uint32_t child = 2 * at + 1, kept = order[at];

		if (child >= count)
			return;
		if (child + 1 < count &&
		    source_is_before(&window->sources[order[child]],
			&window->sources[order[child + 1]]))
			child++;
		if (!source_is_before(&window->sources[kept], &window->sources[order[child]]))
			return;
		order[at] = order[child];
		order[child] = kept;
		at = child;
	}
}

static void
window_sort(struct merge_window *window)
{
	uint32_t count = window->source_count;

	for (uint32_t i = 0; i < count; i++)
		window->order[i] = i;
	for (uint32_t i = count / 2; i-- > 0;)
		window_sift(window, i, count);
	for (uint32_t end = count; end-- > 1;) {
		uint32_t last = window->order[end];

		window->order[end] = window->order[0];
		window->order[0] = last;
		window_sift(window, 0, end);
	}
}

/* Is anything of the window to be encrypted? Then frames are, whatever their blocks were. */
static bool
window_has_key(const struct merge_exec *exec)
{
	const struct merge_window *window = &exec->window;

	if (exec->task.key_id != 0 || exec->key_id != 0)
		return true;
	for (uint32_t i = 0; i < window->source_count; i++) {
		if ((window->sources[i].location.codec_id & ENGINE_ENCRYPTED) != 0)
			return true;
	}
	return false;
}

/* Is @source all that @frame, which was planned in haste, is made of, and stored plain? */
static bool
source_is_pressed(const struct merge_exec *exec, const struct merge_source *source,
    const struct merge_frame *frame)
{
	const struct mt_location *location = &source->location;

	return frame->count > exec->task.frame_blocks && !frame->is_copy &&
	    source->slot == frame->slot && source->count == frame->count &&
	    location->codec_id == ENGINE_NONE && location->record_blocks == frame->count &&
	    location->block_in_record == 0 &&
	    location->stored_bytes == frame->count * CLEAVE_BLOCK_BYTES;
}

static void
window_find_pressed(struct merge_exec *exec)
{
	struct merge_window *window = &exec->window;
	uint32_t at = 0;

	if (window_has_key(exec))
		return;
	for (uint32_t i = 0; i < window->frame_count; i++) {
		struct merge_frame *frame = &window->frames[i];

		if (frame->kind != RECORD_WRITE)
			continue;
		while (window->sources[at].slot + window->sources[at].count <= frame->slot)
			at++;
		assert(at < window->source_count);
		if (!source_is_pressed(exec, &window->sources[at], frame))
			continue;
		window->sources[at].is_pressed = true;
		window->sources[at].frame = i;
		frame->source = at;
	}
}

void
mt_merge_fetch_begin(struct merge_exec *exec)
{
	struct mt_port *port = exec->port;

	assert(!exec->is_cancelled);
	window_find_pressed(exec);
	for (uint32_t i = 0; i < exec->window.source_count; i++)
		sm_init(&exec->window.sources[i].sm, "merge_source", merge_source_table,
		    MERGE_SOURCE_WANTED, i);
	window_sort(&exec->window);
	exec->deadline_ns = loop_now_ns(port->loop) + port->settings->node_timeout_ns;
}

/* ---- ends ---- */

static void
source_done(struct merge_exec *exec, struct merge_source *source)
{
	struct merge_window *window = &exec->window;

	sm_move(&source->sm, MERGE_SOURCE_DONE);
	window->done_count++;
}

/* ---- jobs ---- */

static void
job_drop(struct merge_job *slot)
{
	struct merge_exec *exec = slot->exec;
	struct merge_source *source = slot->source;

	assert(slot->is_used);
	slot->is_used = false;
	if (slot->read != NULL) {
		slot->read->job_count--;
		mt_merge_read_try_release(slot->read);
	} else {
		mt_ring_release(exec->shard->ring, source->location.ring_position);
		mt_shard_on_ring(exec->shard); /* it may be waiting for just that */
	}
}

static void job_run(struct merge_job *slot);
static void job_on_done(struct engine_job *job, void *arg);

/* The stored bytes of the slot's source, from @src, become its blocks in the window, or go there as they are. */
static void
job_load(struct merge_job *slot, dev_ptr src)
{
	struct merge_window *window = &slot->exec->window;
	const struct merge_source *source = slot->source;
	const struct mt_location *location = &source->location;
	struct engine_job *job = &slot->job;

	*job = (struct engine_job){
		.kind = source->is_copy ? ENGINE_JOB_CRC : ENGINE_JOB_LOAD,
		.codec_id = location->codec_id,
		.src = src,
		.src_bytes = location->stored_bytes,
		.dst = dev_ptr_add(window->memory, (uint64_t)source->slot * CLEAVE_BLOCK_BYTES),
		.dst_cap_bytes = source->count * CLEAVE_BLOCK_BYTES,
		.stored_crc = location->stored_crc,
		.record_blocks = location->record_blocks,
		.first_block = location->block_in_record,
		.block_count = source->count,
		.envelope = { .segment = source->chunk / CLEAVE_SEGMENT_CHUNKS,
		    .block =
			(uint32_t)(source->chunk % CLEAVE_SEGMENT_CHUNKS * CLEAVE_CHUNK_BLOCKS) +
			source->block },
		.fn = job_on_done,
		.arg = slot,
	};
	for (uint32_t i = 0; i < source->count; i++)
		job->block_crcs[i] = window->crcs[source->slot + i];
}

/* ... become its frame: what is stored plain has the CRC of its blocks. */
static void
job_press(struct merge_job *slot)
{
	struct engine_job *job = &slot->job;

	assert(slot->source->is_pressed && job->kind == ENGINE_JOB_LOAD);
	job->kind = ENGINE_JOB_STORE;
	job->codec_id = ENGINE_LZ4;
	job->level = MERGE_HASTE_LEVEL;
	job->payload_crc = slot->source->location.stored_crc;
}

/* Does the engine need less for @source than another thread for being woken? It is done at once, however idle that is. */
static bool
source_is_short(const struct merge_source *source)
{
	const struct mt_location *location = &source->location;
	uint32_t codec_id = location->codec_id & ~ENGINE_ENCRYPTED;

	assert(location->record_kind == RECORD_WRITE);
	return source->is_copy ||
	    (!source->is_pressed && location->record_blocks <= MERGE_SHORT_BLOCKS &&
		(codec_id == ENGINE_LZ4 || codec_id == ENGINE_NONE));
}

/* An encrypted source: its CRCs were in its envelope. What is made of it is encrypted again. */
static void
source_opened(struct merge_window *window, const struct merge_source *source,
    const struct engine_job *job)
{
	assert(job->ret_key_id != 0 && job->block_count == source->count);
	window->key_id = (uint32_t)num_max(window->key_id, job->ret_key_id);
	for (uint32_t i = 0; i < source->count; i++)
		window->crcs[source->slot + i] = job->block_crcs[i];
}

/* A planted bug. */
static bool
source_is_believed(const struct merge_job *slot)
{
	return MUTANT(gather_believed) && slot->read != NULL && slot->read->stretch_count > 1;
}

/* The engine has read the blocks that the index has: their frame is made, and the store copies it. 0 or -EBADMSG. */
static int
source_pressed(struct merge_window *window, struct merge_source *source,
    const struct engine_job *job)
{
	for (uint32_t i = 0; i < source->count; i++) {
		if (job->block_crcs[i] != window->crcs[source->slot + i])
			return -EBADMSG;
	}
	source->location.codec_id = job->ret_codec_id;
	source->location.stored_bytes = job->dst_bytes;
	source->location.stored_crc = job->stored_crc;
	window->frames[source->frame].is_copy = true;
	return 0;
}

static void
job_ended(struct merge_job *slot)
{
	struct merge_exec *exec = slot->exec;
	struct merge_source *source = slot->source;
	struct engine_job *job = &slot->job;
	int rc = job->rc;

	if (rc == 0 && job->kind == ENGINE_JOB_STORE && job->is_zero) {
		source->is_pressed = false; /* no frame comes of it: the store will see */
		job_load(slot, job->src);
		job_run(slot);
		return;
	}
	if (rc == 0 && source->is_pressed)
		rc = source_pressed(&exec->window, source, job);
	if (rc == 0 && source->is_copy && !slot->is_copying) {
		rc = job->payload_crc == source->location.stored_crc || source_is_believed(slot)
		    ? 0
		    : -EBADMSG;
		if (rc == 0) {
			slot->is_copying = true;
			job->kind = ENGINE_JOB_COPY;
			job_run(slot);
			return;
		}
	}
	if (rc == 0) {
		if (job->kind == ENGINE_JOB_LOAD && job->ret_key_id != 0)
			source_opened(&exec->window, source, job);
		source_done(exec, source);
		job_drop(slot);
		return;
	}
	mt_merge_source_want(&exec->window, source);
	if (rc == -ENOKEY && !MUTANT(key_missing_is_bad)) {
		exec->window.is_keyless = true; /* the copy is none the worse */
	} else if (slot->read != NULL) {
		mt_merge_loss_note_wrong(exec, source, slot->read->replica_index, rc);
	} else {
		log_limited(LOG_ERROR,
		    "merge: device memory does not match its CRC shard=%" PRIu32 " rc=%s",
		    exec->shard->index, log_errno(rc));
		source->is_ring_bad = true;
	}
	job_drop(slot);
}

static void
job_on_done(struct engine_job *job, void *arg)
{
	struct merge_job *slot = arg;
	struct merge_exec *exec = slot->exec;

	assert(exec->out_count > 0);
	assert(&slot->job == job);
	exec->out_count--;
	if (exec->is_cancelled)
		job_drop(slot);
	else
		job_ended(slot);
	merge_exec_tell(exec, exec->window.is_keyless ? -ENOKEY : 0);
}

static void
job_run(struct merge_job *slot)
{
	struct merge_exec *exec = slot->exec;
	struct engine_set *engines = source_is_short(slot->source)
	    ? exec->port->engines
	    : mt_merge_engines(exec->port, &exec->turn);
	int rc = engine_submit(engines, &slot->job);

	if (rc == 0) {
		exec->out_count++;
		return;
	}
	if (rc == -ENOBUFS) { /* clients have filled the queue: all over again, later */
		mt_merge_source_want(&exec->window, slot->source);
		mt_chooser_retry(&slot->source->chooser);
		job_drop(slot);
		turn_hold(&exec->turn, MERGE_BUSY_NS);
		return;
	}
	if (rc < 0)
		slot->job.rc = rc; /* an unknown codec */
	job_ended(slot);
}

static void
job_make(struct merge_job *slot, struct merge_source *source, struct merge_read *read, dev_ptr src)
{
	assert(!slot->is_used);
	slot->is_used = true;
	slot->is_copying = false;
	slot->source = source;
	slot->read = read;
	sm_move(&source->sm, MERGE_SOURCE_LOADING);
	turn_spend(&slot->exec->turn, source_is_short(source) ? TURN_JOB_SHORT : TURN_JOB);
	job_load(slot, src);
	if (source->is_pressed)
		job_press(slot);
	job_run(slot);
}

/* ---- what was asked for ---- */

/* Nobody is left to ask about @source now. An error ends the merge. */
static int
source_give_up(struct merge_exec *exec, struct merge_source *source)
{
	int rc = mt_merge_loss_judge(exec, source);

	if (rc == STEP_AGAIN) {
		mt_chooser_retry(&source->chooser);
		turn_again(&exec->turn, MERGE_RETRY_NS);
	} else if (rc == STEP_DONE) {
		for (uint32_t i = 0; i < source->count; i++)
			exec->window.is_lost[source->slot + i] = true;
		source_done(exec, source);
	}
	return rc < 0 ? rc : 0;
}

/* ---- steps ---- */

static struct merge_job *
exec_free_job(struct merge_exec *exec)
{
	for (uint32_t i = 0; i < MERGE_JOBS_MAX; i++) {
		if (!exec->jobs[i].is_used) {
			exec->jobs[i].exec = exec;
			return &exec->jobs[i];
		}
	}
	return NULL;
}

/* Jobs for what has arrived. */
static void
fetch_load_read(struct merge_exec *exec, struct merge_read *read)
{
	struct merge_window *window = &exec->window;
	struct merge_job *slot;

	while (read->is_used && !read->is_out && read->next < read->count &&
	    exec->turn.budget > 0 && (slot = exec_free_job(exec)) != NULL) {
		struct merge_source *source =
		    &window->sources[window->order[read->first + read->next]];

		read->next++;
		read->job_count++;
		job_make(slot, source, read, mt_merge_read_at(read, source));
	}
}

static void
fetch_from_ring(struct merge_exec *exec)
{
	struct merge_window *window = &exec->window;
	struct mt_ring *ring = exec->shard->ring;
	struct merge_job *slot;

	for (uint32_t i = window->ring_at; i < window->source_count && exec->turn.budget > 0; i++) {
		struct merge_source *source = &window->sources[i];
		uint64_t position = source->location.ring_position;

		if (source->sm.state != MERGE_SOURCE_WANTED && i == window->ring_at)
			window->ring_at++;
		if (source->sm.state != MERGE_SOURCE_WANTED || source->is_ring_bad ||
		    !mt_ring_contains(ring, position))
			continue;
		slot = exec_free_job(exec);
		if (slot == NULL)
			return;
		mt_ring_hold(ring, position);
		job_make(slot, source, NULL, mt_ring_at(ring, position));
	}
}

/* READs for what nobody was asked for. */
static int
fetch_ask(struct merge_exec *exec)
{
	struct merge_window *window = &exec->window;
	uint32_t read_max = (uint32_t)num_min(exec->read_max, num_max(1, exec->turn.reads));
	uint32_t slot = 0;

	for (uint32_t i = window->ask_at; i < window->source_count; i++) {
		struct merge_source *source = &window->sources[window->order[i]];

		if (source->sm.state != MERGE_SOURCE_WANTED && i == window->ask_at)
			window->ask_at++;
		if (source->sm.state != MERGE_SOURCE_WANTED ||
		    mt_merge_source_is_in_ring(exec, source))
			continue;
		while (slot < read_max && exec->reads[slot].is_used)
			slot++;
		if (slot == read_max)
			return 0;
		while (source->sm.state == MERGE_SOURCE_WANTED &&
		    mt_merge_read_send(exec, &exec->reads[slot], i))
			;
		if (source->sm.state == MERGE_SOURCE_WANTED) {
			int rc = source_give_up(exec, source);

			if (rc != 0)
				return rc;
		}
	}
	return 0;
}

int
mt_merge_fetch_step(struct merge_exec *exec)
{
	int rc = fetch_ask(exec);

	if (rc != 0)
		return rc;
	for (uint32_t i = 0; i < exec->read_max; i++)
		fetch_load_read(exec, &exec->reads[i]);
	fetch_from_ring(exec);
	if (exec->window.is_keyless)
		return -ENOKEY;
	return exec->window.done_count == exec->window.source_count ? STEP_DONE : STEP_AGAIN;
}

void
mt_merge_fetch_cancel(struct merge_exec *exec)
{
	for (uint32_t i = 0; i < exec->read_max; i++) {
		struct merge_read *read = &exec->reads[i];

		if (!read->is_used)
			continue;
		read->next = read->count;
		mt_merge_read_try_release(read);
	}
}
