/* SPDX-License-Identifier: Apache-2.0 */
/* read_frames.c -- see read_frames.h: a table that is gone through, for it is short; fills, and their jobs one by one */
#include "read/read_frames.h"

#include <errno.h>

#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/batch.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/limits.h"
#include "common/port.h"
#include "common/settings.h"
#include "common/shard.h"
#include "extent/call.h"
#include "extent/choose.h"
#include "extent/extent.h"
#include "extent/extent_copies.h"
#include "extent/extent_table.h"
#include "extent/node_link.h"
#include "index/chunk.h"
#include "index/run_index.h"
#include "read/read_path.h"
#include "write/write_path.h"

#define READ_FRAMES_MAGIC 0x534d5246u /* "FRMS" */
#define READ_FRAME_MAGIC 0x454d5246u  /* "FRME" */
#define READ_FILL_MAGIC 0x4c4c4946u   /* "FILL" */

static const struct sm_state read_frame_table[READ_FRAME_STATE_NR] = {
	[READ_FRAME_FREE] = { "free", SM_TO(READ_FRAME_FILLING), SM_INITIAL },
	[READ_FRAME_FILLING] = { "filling", SM_TO(READ_FRAME_READY) | SM_TO(READ_FRAME_FREE), 0 },
	[READ_FRAME_READY] = { "ready", SM_TO(READ_FRAME_FREE), 0 },
};

enum read_fill_state {
	READ_FILL_FREE,
	READ_FILL_ASKING,  /* a copy */
	READ_FILL_LOADING, /* its frames, one after the other */
	READ_FILL_STATE_NR
};

static const struct sm_state read_fill_table[READ_FILL_STATE_NR] = {
	[READ_FILL_FREE] = { "free", SM_TO(READ_FILL_ASKING), SM_INITIAL },
	[READ_FILL_ASKING] = { "asking", SM_TO(READ_FILL_LOADING) | SM_TO(READ_FILL_FREE), 0 },
	[READ_FILL_LOADING] = { "loading", SM_TO(READ_FILL_FREE), 0 },
};

struct read_fill {
	uint32_t magic;
	struct sm sm;
	struct mt_read_frames *frames;
	struct mt_shard *shard;
	struct read_frame *members[READ_FILL_FRAMES_MAX]; /* next to each other in the extent */
	uint32_t count, at;
	/* Where all members lie in the extent: the first may be another frame before the last is loaded. */
	uint32_t offset_bytes, fetch_bytes;
	struct split_msg *msg; /* LOADING */
	struct mt_call call;
	struct engine_job job;
};

struct mt_read_frames {
	uint32_t magic;
	struct mt_port *port;
	uint32_t frame_bytes, frame_count;
	uint32_t kept_count; /* of frames that are not FREE */
	dev_ptr memory;
	struct loop_link all;
	struct read_frame frames[READ_FRAMES_MAX];
	struct read_fill fills[READ_FILLS_MAX];
};

static void fill_go_on(struct read_fill *fill);
static void fill_on_job(struct engine_job *job, void *arg);

/* ---- frames ---- */

static void
frame_use(struct mt_read_frames *frames, struct read_frame *frame)
{
	list_remove(&frame->link);
	list_push_back(&frames->all, &frame->link);
}

struct read_frame *
mt_read_frames_find(struct mt_read_frames *frames, uint64_t extent, uint32_t offset_bytes)
{
	struct loop_link *link;

	CHECK_OBJ(frames, READ_FRAMES_MAGIC);
	if (frames->kept_count == 0)
		return NULL;
	/* From behind: what was used last is asked for again. */
	for (link = frames->all.prev; link != &frames->all; link = link->prev) {
		struct read_frame *frame = LIST_ENTRY(link, struct read_frame, link);

		if (frame->sm.state != READ_FRAME_FREE && frame->extent == extent &&
		    frame->offset_bytes == offset_bytes) {
			frame_use(frames, frame);
			return frame;
		}
	}
	return NULL;
}

/* The frame that nobody has used for longest, and nobody does now; NULL: all are in use. */
static struct read_frame *
frame_take(struct mt_read_frames *frames)
{
	for (struct loop_link *link = frames->all.next; link != &frames->all; link = link->next) {
		struct read_frame *frame = LIST_ENTRY(link, struct read_frame, link);

		CHECK_OBJ(frame, READ_FRAME_MAGIC);
		if (frame->sm.state == READ_FRAME_FILLING || frame->hold_count > 0)
			continue;
		if (frame->sm.state == READ_FRAME_READY)
			sm_move(&frame->sm, READ_FRAME_FREE);
		else
			frames->kept_count++;
		sm_move(&frame->sm, READ_FRAME_FILLING);
		frame_use(frames, frame);
		return frame;
	}
	return NULL;
}

/* FILLING no more: who waited is told. */
static void
frame_end(struct mt_read_frames *frames, struct read_frame *frame, bool is_ready)
{
	struct loop_link waiters;
	struct loop_link *link;

	assert(frame->sm.state == READ_FRAME_FILLING);
	sm_move(&frame->sm, is_ready ? READ_FRAME_READY : READ_FRAME_FREE);
	assert(frames->kept_count > 0);
	frames->kept_count -= !is_ready;
	list_init(&waiters);
	while ((link = list_pop_front(&frame->waiters)) != NULL)
		list_push_back(&waiters, link);
	frame->hold_count += is_ready; /* until all have been there */
	while ((link = list_pop_front(&waiters)) != NULL) {
		struct read_frame_waiter *waiter = LIST_ENTRY(link, struct read_frame_waiter, link);

		waiter->fn(is_ready, waiter->arg);
	}
	frame->hold_count -= is_ready;
}

void
mt_read_frame_wait(struct read_frame *frame, struct read_frame_waiter *waiter)
{
	assert(frame->sm.state == READ_FRAME_FILLING);
	list_push_back(&frame->waiters, &waiter->link);
}

void
mt_read_frame_hold(struct read_frame *frame)
{
	assert(frame->sm.state == READ_FRAME_READY);
	frame->hold_count++;
}

void
mt_read_frame_release(struct read_frame *frame)
{
	assert(frame->hold_count > 0);
	frame->hold_count--;
}

void
mt_read_frame_spoil(struct read_frame *frame)
{
	assert(frame->sm.state == READ_FRAME_READY);
	assert(frame->hold_count > 0);
	frame->extent = 0; /* of no extent */
}

/* ---- fills ---- */

static void
fill_finish(struct read_fill *fill)
{
	struct mt_shard *shard = fill->shard;

	if (fill->msg != NULL)
		split_msg_release(fill->msg);
	fill->msg = NULL;
	fill->shard = NULL;
	sm_move(&fill->sm, READ_FILL_FREE);
	assert(shard->read_count > 0);
	shard->read_count--;
}

/* The frames that are not done yet stay empty. */
static void
fill_fail(struct read_fill *fill)
{
	struct read_frame *left[READ_FILL_FRAMES_MAX];
	uint32_t count = 0;

	while (fill->at < fill->count)
		left[count++] = fill->members[fill->at++];
	fill_finish(fill);
	for (uint32_t i = 0; i < count; i++)
		frame_end(fill->frames, left[i], false);
}

/* LOADING: a job has ended. */
static void
fill_on_loaded(struct read_fill *fill)
{
	struct read_frame *frame = fill->members[fill->at++];

	assert(fill->sm.state == READ_FILL_LOADING);
	frame_end(fill->frames, frame, fill->job.rc == 0);
}

static void
fill_on_job(struct engine_job *job, void *arg)
{
	struct read_fill *fill = arg;

	CHECK_OBJ(fill, READ_FILL_MAGIC);
	assert(&fill->job == job);
	fill_on_loaded(fill);
	fill_go_on(fill);
}

static void
fill_make_job(struct read_fill *fill, const struct read_frame *frame)
{
	struct engine_job *job = &fill->job;

	*job = (struct engine_job){ .kind = ENGINE_JOB_LOAD,
		.codec_id = frame->codec_id,
		.src = dev_ptr_add(fill->msg->payload, frame->offset_bytes - fill->offset_bytes),
		.src_bytes = frame->stored_bytes,
		.dst = frame->plain,
		.dst_cap_bytes = frame->block_count * CLEAVE_BLOCK_BYTES,
		.stored_crc = frame->stored_crc,
		.record_blocks = frame->block_count,
		.block_count = frame->block_count,
		.fn = fill_on_job,
		.arg = fill };
	for (uint32_t i = 0; i < frame->block_count; i++)
		job->block_crcs[i] = frame->crcs[i];
}

static void
fill_go_on(struct read_fill *fill)
{
	assert(fill->sm.state == READ_FILL_LOADING);
	while (fill->at < fill->count) {
		int rc;

		/* At the port's end its engines go before what their threads have finished is looked at. */
		if (fill->shard->write->is_stopped) {
			fill_fail(fill);
			return;
		}
		fill_make_job(fill, fill->members[fill->at]);
		rc = engine_submit(fill->frames->port->engines, &fill->job);
		if (rc == 0)
			return;
		if (rc < 0) {
			fill_fail(fill);
			return;
		}
		fill_on_loaded(fill);
	}
	fill_finish(fill);
}

static void
fill_on_answer(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg)
{
	struct read_fill *fill = arg;

	(void)reply;
	CHECK_OBJ(fill, READ_FILL_MAGIC);
	assert(&fill->call == call);
	assert(fill->sm.state == READ_FILL_ASKING);
	fill->msg = msg;
	if (rc != 0 || msg == NULL || msg->payload_bytes != fill->fetch_bytes) {
		fill_fail(fill);
		return;
	}
	sm_move(&fill->sm, READ_FILL_LOADING);
	fill_go_on(fill);
}

/* Is @frame of a run one that is kept? */
static bool
frame_may_be_kept(const struct mt_read_frames *frames, const struct mt_frame *frame)
{
	return frame->record_kind == RECORD_WRITE && (frame->codec_id & ENGINE_ENCRYPTED) == 0 &&
	    frame->block_count * CLEAVE_BLOCK_BYTES <= frames->frame_bytes;
}

/* The next member is what the run has at @from. */
static void
fill_add(struct read_fill *fill, struct read_frame *frame, uint64_t extent,
    const struct mt_run_index *index, const struct mt_frame *from)
{
	frame->extent = extent;
	frame->offset_bytes = from->offset_bytes;
	frame->stored_bytes = from->stored_bytes;
	frame->stored_crc = from->stored_crc;
	frame->chunk_block = from->block;
	frame->codec_id = from->codec_id;
	frame->block_count = (uint8_t)from->block_count;
	for (uint32_t i = 0; i < from->block_count; i++)
		frame->crcs[i] = index->crcs[from->crcs_at + i];
	frame->is_last = false;
	fill->members[fill->count++] = frame;
	fill->fetch_bytes += from->stored_bytes;
}

/* Frames from @at of the run's index, or of a page of it, on, as far as one READ of a copy brings them. */
static void
fill_gather(struct read_fill *fill, uint64_t extent, const struct mt_run_index *index, uint32_t at)
{
	struct mt_read_frames *frames = fill->frames;
	uint32_t end_bytes = index->frames[at].offset_bytes, block_count = 0;

	fill->count = fill->at = fill->fetch_bytes = 0;
	fill->offset_bytes = end_bytes;
	for (; fill->count < READ_FILL_FRAMES_MAX && at < index->frame_count; at++) {
		const struct mt_frame *from = &index->frames[at];
		struct read_frame *frame;

		block_count += from->block_count;
		if (!frame_may_be_kept(frames, from) || from->offset_bytes != end_bytes ||
		    (fill->count > 0 && block_count > READ_FILL_BLOCKS_MAX) ||
		    fill->fetch_bytes + from->stored_bytes > MT_RECEIVE_BYTES ||
		    mt_read_frames_find(frames, extent, from->offset_bytes) != NULL)
			break;
		frame = frame_take(frames);
		if (frame == NULL)
			break;
		fill_add(fill, frame, extent, index, from);
		end_bytes += from->stored_bytes;
	}
	if (fill->count > 0)
		fill->members[fill->count - 1]->is_last = true;
}

/* Asks one copy. False: there is none to ask. */
static bool
fill_ask(struct read_fill *fill, struct mt_extent *extent)
{
	struct mt_copies copies = mt_extent_copies(extent);
	struct mt_chooser chooser = { 0 };
	struct mt_call *call = &fill->call;
	struct mt_link *node;

	if (mt_chooser_pick(&chooser, fill->frames->port, &copies, &node) < 0)
		return false;
	call->request = (struct wire_node){ .opcode = WIRE_EXTENT_READ,
		.id = extent->id,
		.offset_bytes = fill->offset_bytes,
		.length_bytes = fill->fetch_bytes,
		.epoch = extent->shard->epoch };
	call->host = NULL;
	call->head_bytes = call->piece_count = 0;
	call->fn = fill_on_answer;
	call->arg = fill;
	return mt_link_call(node, call) == 0;
}

static struct read_fill *
fill_take(struct mt_read_frames *frames)
{
	for (uint32_t i = 0; i < READ_FILLS_MAX; i++) {
		if (frames->fills[i].sm.state == READ_FILL_FREE)
			return &frames->fills[i];
	}
	return NULL;
}

struct read_frame *
mt_read_frames_fill(struct mt_read_frames *frames, struct mt_shard *shard, struct mt_run *run,
    uint32_t chunk_block)
{
	struct mt_extent *extent = mt_shard_extent(shard, run->extent_index);
	struct read_fill *fill = fill_take(frames);
	uint32_t at;
	const struct mt_run_index *index = mt_run_index_at(run, chunk_block, &at);

	CHECK_OBJ(frames, READ_FRAMES_MAGIC);
	assert(shard->port == frames->port);
	if (fill == NULL || extent == NULL || index == NULL)
		return NULL;
	fill_gather(fill, extent_id_pack(&extent->id), index, at);
	if (fill->count == 0)
		return NULL;
	if (!fill_ask(fill, extent)) {
		/* Nobody waits for them yet. */
		for (uint32_t i = 0; i < fill->count; i++)
			frame_end(frames, fill->members[i], false);
		return NULL;
	}
	fill->shard = shard;
	shard->read_count++;
	sm_move(&fill->sm, READ_FILL_ASKING);
	return fill->members[0];
}

/* ---- the port's life ---- */

static uint32_t
frame_count_of(uint32_t frame_bytes, uint64_t device_bytes)
{
	uint64_t count = num_min(device_bytes / READ_FRAMES_SHARE / frame_bytes, READ_FRAMES_MAX);

	assert(frame_bytes >= CLEAVE_BLOCK_BYTES);
	/* Frames of a block are never read piece by piece. */
	return count < READ_FRAMES_MIN || frame_bytes == CLEAVE_BLOCK_BYTES ? 0 : (uint32_t)count;
}

uint64_t
mt_read_frames_device_bytes(uint32_t frame_bytes, uint64_t device_bytes)
{
	return (uint64_t)frame_count_of(frame_bytes, device_bytes) * frame_bytes;
}

int
mt_read_frames_init(struct mt_port *port, uint64_t device_bytes)
{
	uint32_t frame_bytes = port->settings->frame_bytes;
	uint32_t count = frame_count_of(frame_bytes, device_bytes);
	struct mt_read_frames *frames;

	assert(port->read != NULL && port->read->frames == NULL);
	if (count == 0)
		return 0;
	frames = mt_calloc(1, sizeof(*frames));
	if (frames == NULL)
		return -ENOMEM;
	frames->magic = READ_FRAMES_MAGIC;
	frames->port = port;
	frames->frame_bytes = frame_bytes;
	frames->frame_count = count;
	list_init(&frames->all);
	for (uint32_t i = 0; i < READ_FILLS_MAX; i++) {
		frames->fills[i].magic = READ_FILL_MAGIC;
		frames->fills[i].frames = frames;
		sm_init(&frames->fills[i].sm, "read_fill", read_fill_table, READ_FILL_FREE, i);
	}
	port->read->frames = frames;
	frames->memory = dev_alloc(port->split, (size_t)count * frame_bytes);
	if (dev_ptr_is_null(frames->memory))
		return -ENOMEM; /* mt_read_path_fini frees the rest */
	for (uint32_t i = 0; i < count; i++) {
		struct read_frame *frame = &frames->frames[i];

		frame->magic = READ_FRAME_MAGIC;
		frame->plain = dev_ptr_add(frames->memory, (uint64_t)i * frame_bytes);
		list_init(&frame->waiters);
		sm_init(&frame->sm, "read_frame", read_frame_table, READ_FRAME_FREE, i);
		list_push_back(&frames->all, &frame->link);
	}
	return 0;
}

void
mt_read_frames_fini(struct mt_read_frames *frames)
{
	if (frames == NULL)
		return;
	CHECK_OBJ(frames, READ_FRAMES_MAGIC);
	/* A port that was closed has taken its arenas along. */
	if (!dev_ptr_is_null(frames->memory) && frames->port->split != NULL)
		dev_free(frames->port->split, frames->memory);
	frames->magic = 0;
	mt_free(frames);
}
