/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_writer.c -- a merge's frames on their way to the open run extent, a batch at a time
 *
 *	      room wanted            full, or the last      accepted by the extent
 *	FREE -----------> FILLING ---------------> READY -------------------------> SENT
 *	 ^                   |                      ^  |                              |
 *	 |<-- cancelled -----+----------------------|--+       the extent broke       |
 *	 |                                          +---------------------------------+
 *	 +-------------------------------- acknowledged, or too late -----------------+
 *
 * A port has one writer, for the merge at work: two batches of device memory, frames in the order of
 * their blocks. What is acknowledged in one extent is a *part*, a run of its own: when the extent is full
 * or breaks, the batches that are not acknowledged go to the next one, and a new part begins. Where a
 * frame lies is known when its batch is. A part of some length ends with its directory (run_directory.c).
 */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/batch.h"
#include "cleave/dev_ptr.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/port.h"
#include "common/settings.h"
#include "common/shard.h"
#include "common/shard_events.h"
#include "extent/extent.h"
#include "extent/extent_table.h"
#include "extent/node_link.h"
#include "extent/replicate.h"
#include "index/run_dir.h"
#include "index/run_index.h"
#include "merge/merge_step.h"
#include "merge/run_directory.h"
#include "merge/run_part.h"
#include "merge/run_roll.h"
#include "merge/run_writer.h"

static const struct sm_state run_batch_table[RUN_BATCH_STATE_NR] = {
	[RUN_BATCH_FREE] = { "free", SM_TO(RUN_BATCH_FILLING), SM_INITIAL },
	[RUN_BATCH_FILLING] = { "filling", SM_TO(RUN_BATCH_READY) | SM_TO(RUN_BATCH_FREE), 0 },
	[RUN_BATCH_READY] = { "ready", SM_TO(RUN_BATCH_SENT) | SM_TO(RUN_BATCH_FREE), 0 },
	[RUN_BATCH_SENT] = { "sent", SM_TO(RUN_BATCH_READY) | SM_TO(RUN_BATCH_FREE), 0 },
};

static void run_writer_pump(struct run_writer *writer);
static void batch_on_done(struct mt_append *mt_append, int rc, void *arg);

int
mt_run_writer_init(struct run_writer *writer, struct mt_port *port, uint32_t batch_count)
{
	assert(batch_count >= RUN_BATCHES_MIN && batch_count <= RUN_BATCHES_MAX);
	*writer = (struct run_writer){ .port = port, .batch_count = batch_count };
	list_init(&writer->ready);
	writer->frames = mt_calloc(CLEAVE_CHUNK_BLOCKS, sizeof(*writer->frames));
	writer->crcs = mt_calloc(CLEAVE_CHUNK_BLOCKS, sizeof(*writer->crcs));
	writer->places = mt_calloc(MERGE_PLACES_MAX, sizeof(*writer->places));
	if (writer->frames == NULL || writer->crcs == NULL || writer->places == NULL)
		return -ENOMEM; /* mt_run_writer_fini takes what there is */
	for (uint32_t i = 0; i < batch_count; i++) {
		struct run_batch *batch = &writer->batches[i];

		sm_init(&batch->sm, "run_batch", run_batch_table, RUN_BATCH_FREE, i);
		if (mt_append_init(&batch->batch, port) != 0)
			return -ENOMEM;
		batch->writer = writer;
		batch->batch.fn = batch_on_done;
		batch->batch.arg = batch;
		batch->payload = dev_alloc(port->split, BATCH_BYTES_MAX);
		if (dev_ptr_is_null(batch->payload))
			return -ENOMEM;
	}
	return mt_run_directory_init(writer, port);
}

static void
parts_drop(struct run_writer *writer)
{
	for (uint32_t i = 0; i < writer->part_count; i++)
		mt_run_part_forget_index(&writer->parts[i]);
	writer->part_count = 0;
}

void
mt_run_writer_fini(struct run_writer *writer)
{
	struct mt_port *port = writer->port;

	if (port == NULL)
		return;
	parts_drop(writer);
	for (uint32_t i = 0; i < writer->batch_count; i++) {
		struct run_batch *batch = &writer->batches[i];

		/* A port that was closed has taken its arenas along. */
		if (!dev_ptr_is_null(batch->payload) && port->split != NULL)
			dev_free(port->split, batch->payload);
		if (batch->writer != NULL)
			mt_append_fini(&batch->batch, port);
	}
	mt_append_fini(&writer->directory, port);
	mt_free(writer->frames);
	mt_free(writer->crcs);
	mt_free(writer->places);
	*writer = (struct run_writer){ 0 };
}

void
mt_run_writer_release(struct run_writer *writer)
{
	for (uint32_t i = 0; i < writer->part_count; i++) {
		struct mt_extent *extent =
		    mt_shard_extent(writer->shard, writer->parts[i].extent_index);

		assert(extent != NULL);
		mt_extent_unuse(extent);
	}
	parts_drop(writer);
}

void
mt_run_writer_forget(struct run_writer *writer)
{
	struct loop_link *link;

	assert(writer->shard != NULL);
	if (writer->filling != NULL)
		sm_move(&writer->filling->sm, RUN_BATCH_FREE);
	writer->filling = NULL;
	while ((link = list_pop_front(&writer->ready)) != NULL)
		sm_move(&LIST_ENTRY(link, struct run_batch, link)->sm, RUN_BATCH_FREE);
	parts_drop(writer);
	writer->shard = NULL;
}

bool
mt_run_writer_is_quiet(const struct run_writer *writer)
{
	for (uint32_t i = 0; i < writer->batch_count; i++) {
		if (writer->batches[i].sm.state != RUN_BATCH_FREE)
			return false;
	}
	return !writer->is_directory_out;
}

static void
writer_on_roll(void *arg)
{
	assert(((struct run_writer *)arg)->shard != NULL);
	run_writer_pump(arg);
}

void
mt_run_writer_begin(struct run_writer *writer, struct mt_shard *shard, uint64_t chunk,
    uint64_t flushed_sequence, uint64_t cut)
{
	assert(writer->part_count == 0);
	assert(writer->filling == NULL && list_is_empty(&writer->ready));
	assert(mt_run_writer_is_quiet(writer));
	writer->shard = shard;
	writer->chunk = chunk;
	writer->flushed_sequence = flushed_sequence;
	writer->cut = cut;
	writer->frame_count = writer->crc_count = writer->place_count = writer->part_count = 0;
	writer->part_max = MERGE_PARTS_MAX;
	writer->stored_bytes = 0;
	writer->is_ending = writer->is_hoping = writer->claims_all = false;
	writer->rc = 0;
	shard->run_roll->fn = writer_on_roll;
	shard->run_roll->arg = writer;
}

/* ---- filling ---- */

static void
writer_fail(struct run_writer *writer, int rc)
{
	struct loop_link *link;

	assert(rc < 0);
	if (writer->rc == 0)
		writer->rc = rc;
	writer->is_hoping = false;
	if (writer->filling != NULL)
		sm_move(&writer->filling->sm, RUN_BATCH_FREE);
	writer->filling = NULL;
	while ((link = list_pop_front(&writer->ready)) != NULL)
		sm_move(&LIST_ENTRY(link, struct run_batch, link)->sm, RUN_BATCH_FREE);
}

static uint8_t *
batch_head(struct run_batch *batch)
{
	return batch->batch.hosts[0] + WIRE_HEADER_BYTES;
}

/* A batch that any extent can hold: slots may differ. */
static uint32_t
writer_batch_bytes_max(const struct run_writer *writer)
{
	const struct mt_port *port = writer->port;
	uint64_t bytes = BATCH_BYTES_MAX;

	for (uint32_t i = 0; i < port->link_count; i++) {
		uint64_t slot_bytes = port->links[i].slot_bytes;

		if (slot_bytes > MT_EXTENT_OVERHEAD_BYTES)
			bytes = num_min(bytes, slot_bytes - MT_EXTENT_OVERHEAD_BYTES);
	}
	return (uint32_t)num_round_down(bytes, BATCH_ALIGN);
}

static bool
batch_has_room(const struct run_batch *batch, uint32_t stored_bytes, uint32_t crc_count)
{
	uint32_t head_bytes = BATCH_HEADER_BYTES + batch->desc_bytes + BATCH_DESC_FIXED_BYTES +
	    4 * crc_count;

	assert(batch->sm.state == RUN_BATCH_FILLING);
	/* The head goes out behind the wire header, in one piece of host memory. */
	return batch->record_count < BATCH_RECORDS_MAX &&
	    WIRE_HEADER_BYTES + head_bytes <= SPLIT_HEADER_BYTES_MAX &&
	    head_bytes + batch->payload_bytes + stored_bytes <= batch->bytes_max;
}

/* The last batch of an extent is as long as fits. One may be open before its extent is, or before those ahead are sent. */
static void
batch_limit(const struct run_writer *writer, struct run_batch *batch)
{
	uint64_t left_bytes = mt_run_roll_bytes(writer->shard);
	uint64_t used_bytes = BATCH_HEADER_BYTES + batch->desc_bytes + batch->payload_bytes;
	/* Less room than that at an extent's end is left alone: a frame, and its head. */
	uint64_t tail_bytes_min = 2 * (uint64_t)writer->port->settings->frame_bytes + BATCH_ALIGN;

	if (!list_is_empty(&writer->ready))
		return;
	left_bytes -= num_min(mt_run_directory_bytes(writer, NULL), left_bytes);
	if (left_bytes >= tail_bytes_min && used_bytes <= left_bytes)
		batch->bytes_max = (uint32_t)num_min(batch->bytes_max, left_bytes);
}

static struct run_batch *
batch_open(struct run_writer *writer)
{
	assert(writer->filling == NULL);
	for (uint32_t i = 0; i < writer->batch_count; i++) {
		struct run_batch *batch = &writer->batches[i];

		if (batch->sm.state != RUN_BATCH_FREE)
			continue;
		sm_move(&batch->sm, RUN_BATCH_FILLING);
		batch->desc_bytes = batch->payload_bytes = batch->record_count = batch->gap_count =
		    0;
		batch->first_frame = writer->frame_count;
		batch->bytes_max = writer_batch_bytes_max(writer);
		if (writer->batch_bytes != 0)
			batch->bytes_max = (uint32_t)num_min(batch->bytes_max, writer->batch_bytes);
		writer->filling = batch;
		return batch;
	}
	return NULL;
}

static void
batch_close(struct run_writer *writer)
{
	struct run_batch *batch = writer->filling;
	uint32_t used_bytes = BATCH_HEADER_BYTES + batch->desc_bytes + batch->payload_bytes;

	assert(batch->sm.state == RUN_BATCH_FILLING);
	assert(batch->record_count > 0);
	writer->filling = NULL;
	batch->batch.payload = batch->payload;
	batch->batch.info = (struct batch_info){
		.record_count = batch->record_count,
		.cut = writer->cut,
		.chunk = writer->chunk,
		.flushed_sequence = writer->flushed_sequence,
		.used_bytes = used_bytes,
		.batch_bytes = (uint32_t)num_round_up(used_bytes, BATCH_ALIGN),
		.desc_bytes = batch->desc_bytes,
	};
	sm_move(&batch->sm, RUN_BATCH_READY);
	list_push_back(&writer->ready, &batch->link);
}

int
mt_run_writer_room(struct run_writer *writer, uint32_t stored_bytes, uint32_t crc_count,
    dev_ptr *ret_place)
{
	struct run_batch *batch = writer->filling;

	assert(!writer->is_ending);
	if (writer->rc != 0)
		return writer->rc;
	if (batch != NULL)
		batch_limit(writer, batch);
	if (batch != NULL && batch->record_count > 0 &&
	    !batch_has_room(batch, stored_bytes, crc_count)) {
		batch_close(writer);
		run_writer_pump(writer);
		if (writer->rc != 0)
			return writer->rc;
		batch = NULL;
	}
	if (batch == NULL) {
		batch = batch_open(writer);
		if (batch == NULL)
			return STEP_AGAIN;
		batch_limit(writer, batch);
	}
	/* A frame longer than what is left of the extent: all of the batch goes to the next. Or than short batches are. */
	if (batch->record_count == 0 && !batch_has_room(batch, stored_bytes, crc_count))
		batch->bytes_max = writer_batch_bytes_max(writer);
	if (!batch_has_room(batch, stored_bytes, crc_count)) {
		writer_fail(writer, -EFBIG); /* the nodes' slots are too small for any */
		return writer->rc;
	}
	*ret_place = dev_ptr_add(batch->payload, batch->payload_bytes);
	return STEP_DONE;
}

/* The block behind the last frame. */
static uint32_t
writer_ends_at(const struct run_writer *writer)
{
	const struct mt_frame *last = writer->frames + writer->frame_count - 1;

	return writer->frame_count == 0 ? 0 : last->block + last->block_count;
}

void
mt_run_writer_add(struct run_writer *writer, const struct record_desc *record)
{
	struct run_batch *batch = writer->filling;
	uint32_t crc_count = record->kind == RECORD_WRITE ? record->block_count : 0;
	uint32_t block = record->block % (uint32_t)CLEAVE_CHUNK_BLOCKS;

	assert(batch != NULL && batch_has_room(batch, record->stored_bytes, crc_count));
	assert(writer->frame_count < CLEAVE_CHUNK_BLOCKS);
	assert(writer->crc_count + crc_count <= CLEAVE_CHUNK_BLOCKS);
	batch->gap_count += writer_ends_at(writer) != block;
	writer->frames[writer->frame_count++] = (struct mt_frame){
		.block = block,
		.block_count = record->block_count,
		.offset_bytes = batch->payload_bytes,
		.stored_bytes = record->stored_bytes,
		.stored_crc = record->stored_crc,
		.codec_id = record->codec_id,
		.record_kind = record->kind,
		.crcs_at = writer->crc_count,
	};
	memcpy(writer->crcs + writer->crc_count, record->block_crcs, crc_count * sizeof(uint32_t));
	writer->crc_count += crc_count;
	writer->stored_bytes += record->stored_bytes;
	batch->desc_bytes +=
	    record_encode(batch_head(batch) + BATCH_HEADER_BYTES + batch->desc_bytes, record);
	batch->payload_bytes += record->stored_bytes;
	batch->record_count++;
}

/* ---- leaving ---- */

/* A run begins, or goes on, where this batch lies now. */
static void
batch_acknowledged(struct run_writer *writer, struct run_batch *batch)
{
	const struct batch_info *info = &batch->batch.info;
	struct run_part *part = writer->part_count == 0 ? NULL
							: &writer->parts[writer->part_count - 1];
	uint32_t payload_at = (uint32_t)info->offset_bytes + BATCH_HEADER_BYTES + info->desc_bytes;

	assert(writer->part_count <= writer->part_max);
	assert(batch->batch.extent != NULL);
	if (part == NULL || part->extent_index != batch->batch.extent->index ||
	    part->offset_bytes + part->length_bytes != info->offset_bytes ||
	    part->directory_bytes != 0) {
		if (writer->part_count == writer->part_max) {
			writer_fail(writer, -EFBIG);
			return;
		}
		part = &writer->parts[writer->part_count++];
		*part = (struct run_part){ .extent_index = batch->batch.extent->index,
			.id = batch->batch.extent->id,
			.offset_bytes = (uint32_t)info->offset_bytes,
			.first_frame = batch->first_frame,
			.first_place = writer->place_count };
		mt_extent_use(batch->batch.extent); /* nothing names it before the commit */
	}
	mt_run_part_forget_index(part); /* of a directory that found no room */
	part->length_bytes += info->batch_bytes;
	part->frame_count += batch->record_count;
	part->gap_count += batch->gap_count;
	part->batch_count++;
	if (writer->place_count < MERGE_PLACES_MAX)
		writer->places[writer->place_count++] =
		    (struct mt_run_place){ .offset_bytes = (uint32_t)info->offset_bytes,
			    .head_bytes = BATCH_HEADER_BYTES + info->desc_bytes,
			    .batch_crc = info->batch_crc,
			    .first_block = writer->frames[batch->first_frame].block };
	for (uint32_t i = 0; i < batch->record_count; i++)
		writer->frames[batch->first_frame + i].offset_bytes += payload_at;
}

/* Back among those to be sent, in order. */
static void
batch_requeue(struct run_writer *writer, struct run_batch *batch)
{
	struct loop_link *at = writer->ready.next;

	while (at != &writer->ready &&
	    LIST_ENTRY(at, struct run_batch, link)->first_frame < batch->first_frame)
		at = at->next;
	sm_move(&batch->sm, RUN_BATCH_READY);
	list_insert_before(at, &batch->link);
}

/* A node knows a newer owner. */
static bool
is_stale(int rc)
{
	return rc == -ESTALE || rc == -EACCES;
}

static void
batch_on_done(struct mt_append *mt_append, int rc, void *arg)
{
	struct run_batch *batch = arg;
	struct run_writer *writer = batch->writer;

	if (writer->claims_all)
		rc = 0;
	assert(&batch->batch == mt_append);
	assert(batch->sm.state == RUN_BATCH_SENT);
	if (rc != 0 && !is_stale(rc) && writer->rc == 0)
		batch_requeue(writer, batch);
	else
		sm_move(&batch->sm, RUN_BATCH_FREE);
	if (rc == 0 && writer->rc == 0)
		batch_acknowledged(writer, batch);
	mt_run_writer_returned(writer, rc);
}

/* True: go on with the next. */
static bool
batch_send(struct run_writer *writer, struct run_batch *batch)
{
	struct mt_run_roll *roll = writer->shard->run_roll;
	uint64_t bytes = batch->batch.info.batch_bytes + mt_run_directory_bytes(writer, batch);
	int rc = -ENOSPC;

	assert(batch->sm.state == RUN_BATCH_READY);
	assert(roll->sm.state == RUN_ROLL_OPEN);
	if (bytes <= mt_run_roll_bytes(writer->shard) || roll->extent->sm.state != MT_EXTENT_OPEN)
		rc = mt_extent_append(roll->extent, &batch->batch);
	if (rc == 0) {
		list_remove(&batch->link);
		sm_move(&batch->sm, RUN_BATCH_SENT);
	} else if (rc == -ENOSPC && roll->extent->end_bytes == 0) {
		writer_fail(writer, -EFBIG); /* made for longer slots */
		return false;
	} else if (rc == -ENOSPC && mt_run_directory_step(writer)) {
		return false; /* the part that is here is not at its end yet */
	} else {
		mt_run_roll_over(roll);
	}
	return true;
}

/* The last batch of a run; it has no record when all that was left were zeros with nothing beneath them. */
static void
writer_end_filling(struct run_writer *writer)
{
	struct run_batch *batch = writer->filling;

	assert(writer->is_ending);
	if (batch->record_count > 0) {
		batch_close(writer);
		return;
	}
	writer->filling = NULL;
	sm_move(&batch->sm, RUN_BATCH_FREE);
}

static void
run_writer_pump(struct run_writer *writer)
{
	struct mt_run_roll *roll = writer->shard->run_roll;

	if (writer->is_ending && writer->filling != NULL && writer->rc == 0)
		writer_end_filling(writer);
	while (writer->rc == 0 && !writer->is_hoping && !list_is_empty(&writer->ready)) {
		if (roll->sm.state == RUN_ROLL_STOPPED) {
			writer_fail(writer, -ECANCELED);
		} else if (roll->sm.state == RUN_ROLL_OPEN) {
			if (!batch_send(writer,
				LIST_ENTRY(list_first(&writer->ready), struct run_batch, link)))
				break;
		} else if (roll->rc != 0) {
			int rc = roll->rc;

			roll->rc = 0; /* the next who wants one tries anew */
			if (rc == -ENOSPC && loop_now_ns(writer->port->loop) < writer->hope_ns) {
				writer->is_hoping = true;
				break;
			}
			writer_fail(writer, rc);
		} else {
			enum run_roll_state before = (enum run_roll_state)roll->sm.state;

			mt_run_roll_step(roll);
			if (roll->rc == 0 && (enum run_roll_state)roll->sm.state == before)
				break; /* it tells when it has got on */
		}
	}
	if (writer->is_ending && writer->rc == 0 && writer->filling == NULL &&
	    list_is_empty(&writer->ready))
		(void)mt_run_directory_step(writer); /* who waits for the end sees that it is out */
	writer->fn(writer->arg);
}

void
mt_run_writer_returned(struct run_writer *writer, int rc)
{
	struct mt_run_roll *roll = writer->shard->run_roll;

	if (is_stale(rc) && roll->is_guest)
		writer_fail(writer, rc); /* its owner will hear of it himself */
	else if (is_stale(rc))
		mt_shard_stop(writer->shard, -ESTALE);
	if (roll->sm.state == RUN_ROLL_SEALING)
		mt_run_roll_step(roll); /* it may have waited for this one */
	run_writer_pump(writer);
}

void
mt_run_writer_retry(struct run_writer *writer)
{
	assert(writer->is_hoping);
	writer->is_hoping = false;
	run_writer_pump(writer);
}

void
mt_run_writer_end(struct run_writer *writer)
{
	assert(!writer->is_ending);
	writer->is_ending = true;
	run_writer_pump(writer);
}

int
mt_run_writer_end_step(const struct run_writer *writer)
{
	assert(writer->is_ending);
	if (writer->rc != 0)
		return writer->rc;
	return mt_run_writer_is_quiet(writer) ? STEP_DONE : STEP_AGAIN;
}

void
mt_run_writer_cancel(struct run_writer *writer, int rc)
{
	writer_fail(writer, rc);
}
