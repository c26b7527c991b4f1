/* SPDX-License-Identifier: Apache-2.0 */
/* read_ahead.c -- see read_ahead.h */
#include "read/read_ahead.h"

#include "base/check.h"
#include "cleave/engine.h"
#include "cleave/wire.h"
#include "common/port.h"
#include "common/settings.h"
#include "common/shard.h"
#include "extent/extent.h"
#include "extent/extent_table.h"
#include "index/chunk.h"
#include "index/heat.h"
#include "index/run_index.h"
#include "read/read_frames.h"
#include "read/read_path.h"
#include "read/read_stretch.h"
#include "session/session.h"

/* The block of the stretch's chunk that it begins with. */
static uint32_t
chunk_block(const struct read_stretch *stretch, const struct mt_read *read)
{
	return mt_block_in_chunk(
	    (uint32_t)(read->io.offset_bytes / CLEAVE_BLOCK_BYTES) + stretch->first);
}

/* Does it want less than frames usually have? */
static bool
read_is_small(const struct mt_read *read)
{
	return read->block_count * CLEAVE_BLOCK_BYTES < read->shard->port->settings->frame_bytes;
}

/* A frame is decompressed for this read alone: it may be worth to be stored for readers. Capacity volumes want space. */
void
mt_read_warm(const struct read_stretch *stretch, const struct mt_read *read, bool is_first)
{
	assert(stretch->what == READ_STORED);
	if (stretch->index_run == NULL || read->session->volume.service_class == SERVICE_CAPACITY)
		return;
	if (is_first)
		mt_heat_on_read(stretch->index_run, &stretch->location, read_is_small(read));
	else
		mt_heat_on_more(stretch->index_run, &stretch->location);
}

/* The last of its fill: those behind it are filled before they are asked for. */
static void
ahead_of(struct read_frame *frame, const struct read_stretch *stretch, const struct mt_read *read)
{
	uint32_t next = frame->chunk_block + frame->block_count;
	bool is_ready = frame->sm.state == READ_FRAME_READY;

	frame->is_last = false;
	if (next >= CLEAVE_CHUNK_BLOCKS)
		return;
	if (is_ready)
		mt_read_frame_hold(frame); /* so that it is not taken for one of them */
	(void)mt_read_frames_fill(read->shard->port->read->frames, read->shard, stretch->index_run,
	    next);
	if (is_ready)
		mt_read_frame_release(frame);
}

/* The next read wants the rest of the frame then, or the next frames, which are small as well. */
static bool
ahead_is_worth(const struct read_stretch *stretch, const struct mt_read *read)
{
	return read->is_sequential &&
	    (stretch->count < stretch->location.record_blocks || read_is_small(read));
}

static struct read_frame *
ahead_find(const struct read_stretch *stretch, const struct mt_read *read)
{
	const struct mt_location *location = &stretch->location;
	struct mt_read_frames *frames = read->shard->port->read->frames;
	const struct mt_extent *extent;
	struct read_frame *frame;

	if (frames == NULL || (location->codec_id & ENGINE_ENCRYPTED) != 0)
		return NULL;
	extent = mt_shard_extent(read->shard, location->extent_index);
	if (extent == NULL)
		return NULL;
	frame = mt_read_frames_find(frames, extent_id_pack(&extent->id), location->offset_bytes);
	if (frame == NULL && ahead_is_worth(stretch, read))
		return mt_read_frames_fill(frames, read->shard, stretch->index_run,
		    chunk_block(stretch, read));
	if (frame != NULL && read->is_sequential && frame->is_last)
		ahead_of(frame, stretch, read);
	return frame;
}

struct read_frame *
mt_read_ahead(const struct read_stretch *stretch, const struct mt_read *read)
{
	struct read_frame *frame;

	assert(stretch->what == READ_STORED);
	if (stretch->index_run == NULL)
		return NULL; /* in the log */
	frame = ahead_find(stretch, read);
	if (frame == NULL)
		mt_read_warm(stretch, read, true);
	return frame;
}
