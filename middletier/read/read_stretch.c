/* SPDX-License-Identifier: Apache-2.0 */
/* read_stretch.c -- see read_stretch.h: looked up block by block, in the index alone */
#include "read/read_stretch.h"

#include <assert.h>

#include "base/crc32c.h"
#include "cleave/batch.h"
#include "cleave/dev_ptr.h"
#include "cleave/engine.h"
#include "cleave/wire.h"
#include "common/port.h"
#include "common/shard.h"
#include "index/index.h"
#include "index/ring.h"
#include "read/read_path.h"
#include "session/session.h"

static enum read_what
read_lookup_at(const struct mt_read *read, uint32_t index, struct mt_location *ret_location,
    struct mt_run **ret_run, uint64_t *ret_segment)
{
	assert(index < read->block_count);
	switch (mt_index_find_at(read->shard->block_index, &read->session->volume.scope,
	    read->io.segment, (uint32_t)(read->io.offset_bytes / CLEAVE_BLOCK_BYTES) + index,
	    ret_location, ret_run, ret_segment)) {
	case MT_FOUND_UNLOADED:
		return READ_UNLOADED;
	case MT_FOUND_RECORD:
		if (ret_location->stored_bytes > 0)
			return READ_STORED;
		return ret_location->record_kind == RECORD_LOST ? READ_LOST : READ_ZEROS;
	case MT_FOUND_NOTHING:
		break;
	}
	return READ_ZEROS;
}

static enum read_what
read_lookup(const struct mt_read *read, uint32_t index, struct mt_location *ret_location,
    struct mt_run **ret_run)
{
	uint64_t segment;

	return read_lookup_at(read, index, ret_location, ret_run, &segment);
}

/* Does @next go on where the stretch, @distance blocks before it, began? 0: is it the same place? */
static bool
stretch_continues(const struct read_stretch *stretch, const struct mt_location *next,
    uint32_t distance)
{
	const struct mt_location *first = &stretch->location;

	assert(stretch->what == READ_STORED);
	return next->extent_index == first->extent_index &&
	    next->offset_bytes == first->offset_bytes &&
	    next->block_in_record == first->block_in_record + distance;
}

/*
 * Records that lie next to each other in an extent, as the frames of a run do, are asked for at once: how
 * far that goes from block @at on, which is at @location.
 */
static void
stretch_look_ahead(struct read_stretch *stretch, const struct mt_read *read, uint32_t at,
    uint32_t end, struct mt_location location)
{
	const struct mt_location *first = &stretch->location;
	struct mt_run *run;

	assert(at == stretch->first + stretch->count);
	assert(at < end);
	while (location.extent_index == first->extent_index &&
	    location.offset_bytes == first->offset_bytes + stretch->fetch_bytes &&
	    stretch->fetch_bytes + location.stored_bytes <= MT_RECEIVE_BYTES &&
	    !mt_ring_contains(read->shard->ring, location.ring_position)) {
		uint32_t offset_bytes = location.offset_bytes;

		stretch->fetch_bytes += location.stored_bytes;
		do {
			at++;
			stretch->fetch_count = at - stretch->first;
			if (at == end || read_lookup(read, at, &location, &run) != READ_STORED)
				return;
		} while (location.extent_index == first->extent_index &&
		    location.offset_bytes == offset_bytes);
	}
}

void
mt_read_stretch_look_up(struct read_stretch *stretch, struct mt_read *read, uint32_t first,
    uint32_t end)
{
	const uint32_t zero_block_crc = read->shard->port->read->zero_block_crc;
	struct mt_location location;
	struct mt_run *run;
	enum read_what what;
	uint32_t at = first;

	assert(first < end);
	assert(end <= read->block_count);
	stretch->first = first;
	what = stretch->what =
	    read_lookup_at(read, at, &stretch->location, &stretch->index_run, &stretch->segment);
	location = stretch->location;
	for (;;) {
		read->crcs[at] = what == READ_STORED ? location.block_crc : zero_block_crc;
		if (++at == end)
			break;
		what = read_lookup(read, at, &location, &run);
		if (what != stretch->what ||
		    (what == READ_STORED && !stretch_continues(stretch, &location, at - first)))
			break;
	}
	stretch->count = stretch->fetch_count = at - first;
	stretch->fetch_bytes = stretch->location.stored_bytes;
	if (at < end && what == READ_STORED && stretch->what == READ_STORED &&
	    !mt_read_stretch_is_in_ring(stretch, read))
		stretch_look_ahead(stretch, read, at, end, location);
}

bool
mt_read_stretch_is_in_ring(const struct read_stretch *stretch, const struct mt_read *read)
{
	return stretch->what == READ_STORED &&
	    mt_ring_contains(read->shard->ring, stretch->location.ring_position);
}

bool
mt_read_stretch_is_at_hand(const struct read_stretch *stretch, const struct mt_read *read)
{
	return stretch->what == READ_ZEROS || mt_read_stretch_is_in_ring(stretch, read);
}

/*
 * A look-up that ends at a page of @run that is not here has met nothing newer in front of the run. What a run has never changes,
 * nor where: so if the location is in this run, it stands.
 */
static bool
location_is_in(const struct mt_location *location, const struct mt_run *run)
{
	return location->extent_index == run->extent_index &&
	    location->offset_bytes >= run->offset_bytes &&
	    location->offset_bytes - run->offset_bytes < run->length_bytes;
}

bool
mt_read_stretch_has_moved(const struct read_stretch *stretch, const struct mt_read *read)
{
	struct mt_location now;
	struct mt_run *run;
	enum read_what what = read_lookup(read, stretch->first, &now, &run);

	assert(stretch->what == READ_STORED);
	if (what == READ_UNLOADED && location_is_in(&stretch->location, run))
		return false;
	return what != READ_STORED || now.extent_index != stretch->location.extent_index ||
	    now.offset_bytes != stretch->location.offset_bytes;
}

bool
mt_read_stretch_is_newest(const struct read_stretch *stretch, const struct mt_read *read,
    uint32_t at)
{
	struct mt_location now;
	struct mt_run *run;
	enum read_what what = read_lookup(read, stretch->first + at, &now, &run);

	assert(stretch->what == READ_STORED && at < stretch->count);
	if (what == READ_UNLOADED && location_is_in(&stretch->location, run))
		return true;
	return what == READ_STORED && stretch_continues(stretch, &now, at) &&
	    now.block_crc == read->crcs[stretch->first + at];
}

/* ---- its job ---- */

uint32_t
mt_read_stretch_block(const struct read_stretch *stretch, const struct mt_read *read)
{
	return (uint32_t)(read->io.offset_bytes / CLEAVE_BLOCK_BYTES) + stretch->first;
}

uint32_t
mt_read_stretch_chunk_block(const struct read_stretch *stretch, const struct mt_read *read)
{
	return mt_block_in_chunk(mt_read_stretch_block(stretch, read));
}

void
mt_read_stretch_load(const struct read_stretch *stretch, const struct mt_read *read, dev_ptr source,
    struct engine_job *job)
{
	const struct mt_location *location = &stretch->location;

	assert(stretch->what == READ_STORED);
	job->kind = ENGINE_JOB_LOAD;
	job->codec_id = location->codec_id;
	job->src = source;
	job->src_bytes = location->stored_bytes;
	job->stored_crc = location->stored_crc;
	job->record_blocks = location->record_blocks;
	job->first_block = location->block_in_record;
	job->block_count = (uint8_t)stretch->count;
	if ((location->codec_id & ENGINE_ENCRYPTED) == 0)
		return;
	assert(location->block_in_record <= mt_read_stretch_block(stretch, read));
	job->envelope.segment = stretch->segment;
	job->envelope.block = mt_read_stretch_block(stretch, read) - location->block_in_record;
}

void
mt_read_stretch_load_plain(const struct read_stretch *stretch, const struct mt_read *read,
    dev_ptr record, struct engine_job *job)
{
	const uint32_t *crcs = read->crcs + stretch->first;

	assert(stretch->what == READ_STORED);
	assert((stretch->location.codec_id & ENGINE_ENCRYPTED) == 0);
	job->kind = ENGINE_JOB_LOAD;
	job->codec_id = ENGINE_NONE;
	job->src =
	    dev_ptr_add(record, (uint64_t)stretch->location.block_in_record * CLEAVE_BLOCK_BYTES);
	job->src_bytes = stretch->count * CLEAVE_BLOCK_BYTES;
	job->record_blocks = job->block_count = (uint8_t)stretch->count;
	job->first_block = 0;
	job->stored_crc = crcs[0];
	for (uint32_t i = 1; i < stretch->count; i++)
		job->stored_crc = crc32c_combine(job->stored_crc, crcs[i], CLEAVE_BLOCK_BYTES);
}
