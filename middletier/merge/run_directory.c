/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_directory.c -- the directory that a run ends with: where its batches are, and which blocks it holds
 *
 * A run_writer's part of a few batches or more ends with one, so that nobody who knows nothing of the run, as after a
 * take-over, has to read all its heads. It is made when all batches of the part are acknowledged, for only then is it
 * known which these are, and room for it is kept back in the extent. The part waits for it; a part that ended because
 * its extent broke has none, and is as good without. The manifest names its length and its CRC with the run.
 */
#include "merge/run_directory.h"

#include <errno.h>
#include <stdatomic.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/batch_directory.h"
#include "cleave/level.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/port.h"
#include "common/settings.h"
#include "common/shard.h"
#include "extent/extent.h"
#include "extent/replicate.h"
#include "index/run_dir.h"
#include "index/run_index.h"
#include "merge/run_part.h"
#include "merge/run_roll.h"
#include "merge/run_writer.h"

#define DIRECTORY_DESC_BYTES_MAX (SPLIT_HEADER_BYTES_MAX - WIRE_HEADER_BYTES - BATCH_HEADER_BYTES)

static uint32_t
batches_min(const struct run_writer *writer)
{
	uint32_t min = writer->port->settings->directory_batches_min;

	return min == 0 ? RUN_DIRECTORY_BATCHES_MIN : min;
}

/* May nodes and gateways be shown one? */
static bool
level_allows(const struct run_writer *writer)
{
	return atomic_load_explicit(&writer->port->shared->cluster_level, memory_order_relaxed) >=
	    CLEAVE_LEVEL_DIRECTORIES;
}

/* The extent that takes batches; NULL: none does. */
static struct mt_extent *
open_extent(const struct run_writer *writer)
{
	const struct mt_run_roll *roll = writer->shard->run_roll;

	if (roll->sm.state != RUN_ROLL_OPEN || roll->extent->sm.state != MT_EXTENT_OPEN)
		return NULL;
	return roll->extent;
}

static uint32_t
sent_count(const struct run_writer *writer)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < writer->batch_count; i++)
		count += writer->batches[i].sm.state == RUN_BATCH_SENT;
	return count;
}

/* The part that goes on in @extent; NULL: nothing of it is acknowledged yet. */
static struct run_part *
open_part(struct run_writer *writer, const struct mt_extent *extent)
{
	struct run_part *part = writer->part_count == 0 ? NULL
							: &writer->parts[writer->part_count - 1];

	if (part == NULL || part->extent_index != extent->index || part->directory_bytes != 0)
		return NULL;
	return part;
}

/* The room that a directory takes of @count batches, whose blocks are @gap_count + 1 stretches at most. */
static uint32_t
directory_bytes_max(uint32_t count, uint32_t gap_count)
{
	uint32_t bound_count = 2 * (gap_count + 1);

	if (bound_count * sizeof(uint16_t) > BATCH_SET_BYTES_MAX)
		bound_count = 0; /* bits */
	return (
	    uint32_t)num_round_up(BATCH_HEADER_BYTES + batch_directory_bytes(count, bound_count),
	    BATCH_ALIGN);
}

uint32_t
mt_run_directory_bytes(const struct run_writer *writer, const struct run_batch *next)
{
	const struct mt_extent *extent = open_extent(writer);
	const struct run_part *part;
	uint32_t count, gap_count;

	if (extent == NULL || extent->end_bytes == 0 || !level_allows(writer))
		return 0;
	part = open_part((struct run_writer *)writer, extent);
	count = (part == NULL ? 0 : part->batch_count) + sent_count(writer) + 1;
	if (count < batches_min(writer) || count > MERGE_PLACES_MAX)
		return 0;
	gap_count = part == NULL ? 0 : part->gap_count;
	for (uint32_t i = 0; i < RUN_BATCHES_MAX; i++) {
		if (writer->batches[i].sm.state == RUN_BATCH_SENT)
			gap_count += writer->batches[i].gap_count;
	}
	gap_count += next != NULL ? next->gap_count : gap_count / count + RUN_DIRECTORY_GAPS_MORE;
	return directory_bytes_max(count, gap_count);
}

static void
directory_on_done(struct mt_append *append, int rc, void *arg)
{
	struct run_writer *writer = arg;

	assert(append == &writer->directory);
	assert(writer->is_directory_out);
	writer->is_directory_out = false;
	if (rc == 0 && writer->rc == 0) {
		struct run_part *part = &writer->parts[writer->part_count - 1];

		assert(part->offset_bytes + part->length_bytes == append->info.offset_bytes);
		part->length_bytes += append->info.batch_bytes;
		part->directory_bytes = append->info.batch_bytes;
		part->directory_crc = append->info.batch_crc;
	}
	mt_run_writer_returned(writer, rc);
}

/* Writes the bytes of the part's directory. Returns how many; 0: there is none. */
static uint32_t
directory_encode(const struct run_writer *writer, struct run_part *part)
{
	const struct mt_run_index *index = mt_run_part_index(writer, part);
	struct mt_run_dir *dir = index == NULL ? NULL : mt_run_dir_create(index);
	uint32_t bytes = dir == NULL ? 0 : mt_run_dir_encoded_bytes(dir);

	if (bytes > DIRECTORY_DESC_BYTES_MAX)
		bytes = 0;
	if (bytes > 0)
		mt_run_dir_encode(dir,
		    writer->directory.hosts[0] + WIRE_HEADER_BYTES + BATCH_HEADER_BYTES);
	mt_run_dir_free(dir);
	return bytes;
}

static bool
directory_send(struct run_writer *writer, struct mt_extent *extent, struct run_part *part)
{
	uint32_t desc_bytes = directory_encode(writer, part);
	uint32_t used_bytes = BATCH_HEADER_BYTES + desc_bytes;

	assert(!writer->is_directory_out);
	if (desc_bytes == 0)
		return false;
	writer->directory.info = (struct batch_info){
		.is_directory = true,
		.cut = writer->cut,
		.chunk = writer->chunk,
		.flushed_sequence = writer->flushed_sequence,
		.used_bytes = used_bytes,
		.batch_bytes = (uint32_t)num_round_up(used_bytes, BATCH_ALIGN),
		.desc_bytes = desc_bytes,
	};
	writer->is_directory_out = mt_extent_append(extent, &writer->directory) == 0;
	return writer->is_directory_out;
}

bool
mt_run_directory_step(struct run_writer *writer)
{
	struct mt_extent *extent = open_extent(writer);
	struct run_part *part;
	uint32_t count;

	if (writer->is_directory_out)
		return true;
	if (extent == NULL || !level_allows(writer))
		return false;
	part = open_part(writer, extent);
	count = (part == NULL ? 0 : part->batch_count) + sent_count(writer);
	if (count < batches_min(writer))
		return false;
	if (sent_count(writer) > 0)
		return true;
	if (part->offset_bytes + part->length_bytes != extent->end_bytes)
		return false;
	return directory_send(writer, extent, part);
}

int
mt_run_directory_init(struct run_writer *writer, struct mt_port *port)
{
	if (mt_append_init(&writer->directory, port) != 0)
		return -ENOMEM;
	writer->directory.fn = directory_on_done;
	writer->directory.arg = writer;
	return 0;
}
