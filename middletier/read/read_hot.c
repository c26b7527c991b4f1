/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read_hot.c -- see read_hot.h
 *
 * A block's bytes go through an engine both ways (I1), which checks its CRC both ways (I8): as the index has it. What
 * comes in was made by a LOAD that has checked the stored CRC as well.
 */
#include "read/read_hot.h"

#include "base/check.h"
#include "base/metrics.h"
#include "base/mutant.h"
#include "base/sm.h"
#include "cleave/dev_ptr.h"
#include "cleave/engine.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/shard.h"
#include "extent/extent.h"
#include "extent/extent_table.h"
#include "read/hot.h"
#include "read/hot_pages.h"
#include "read/hot_show.h"
#include "read/read_path.h"
#include "read/read_piece.h"
#include "session/session.h"
#include "write/write_path.h"

/* Is there a table for what @piece reads? What is kept of an encrypted record would outlive its key. */
static bool
hot_is_for(const struct read_piece *piece)
{
	return piece->state->hot != NULL && piece->stretch.what == READ_STORED &&
	    piece->read->block_count <= READ_HOT_BLOCKS_MAX &&
	    (piece->stretch.location.codec_id & ENGINE_ENCRYPTED) == 0;
}

/*
 * The key of the stretch's block @at, in the extent @extent_id. A session whose client reads by itself has a name of its
 * own for it, whichever segment it was written to.
 */
static struct mt_hot_key
hot_key_of(const struct read_piece *piece, uint64_t extent_id, uint32_t at)
{
	const struct read_stretch *stretch = &piece->stretch;
	struct mt_hot_object *object = mt_hot_pages_of(piece->read->session);

	return (struct mt_hot_key){ .extent = extent_id,
		.segment = object != NULL ? piece->read->io.segment : stretch->segment,
		.offset_bytes = stretch->location.offset_bytes,
		.block_in_record = stretch->location.block_in_record + at,
		.block = mt_read_stretch_block(stretch, piece->read) + at,
		.object = object };
}

/* The key of the stretch's first block. False: its extent has gone. */
static bool
hot_key(const struct read_piece *piece, struct mt_hot_key *ret_key)
{
	const struct read_stretch *stretch = &piece->stretch;
	const struct mt_extent *extent =
	    mt_shard_extent(piece->read->shard, stretch->location.extent_index);

	if (extent == NULL)
		return false;
	*ret_key = hot_key_of(piece, extent_id_pack(&extent->id), 0);
	return true;
}

/* The key of the block behind it in the same record. */
static void
hot_key_next(struct mt_hot_key *key)
{
	key->block_in_record++;
	key->block++;
}

static void
hot_job(struct engine_job *job, dev_ptr from, uint32_t crc)
{
	job->kind = ENGINE_JOB_LOAD;
	job->codec_id = ENGINE_NONE;
	job->src = from;
	job->src_bytes = CLEAVE_BLOCK_BYTES;
	job->record_blocks = job->block_count = 1;
	job->first_block = 0;
	job->stored_crc = job->block_crcs[0] = crc;
}

/* The session's client may read the stretch's block @at in @slot by itself, if that is the newest. */
static void
hot_show(const struct read_piece *piece, struct mt_hot_slot *slot, uint32_t at)
{
	const struct mt_shard *shard = piece->read->shard;

	if (slot->key.object == NULL || slot->is_shown || shard->write->is_stopped ||
	    (!mt_read_stretch_is_newest(&piece->stretch, piece->read, at) &&
		!MUTANT(hot_shown_stale)))
		return;
	mt_hot_show(piece->state->hot, slot, shard->epoch);
	metric_add(&piece->state->port->metrics[MT_METRIC_hot_shown], 1);
}

/* ---- out of the table ---- */

/* The slot of the first block, where all are there. */
static struct mt_hot_slot *
hot_find_all(struct read_piece *piece, struct mt_hot_key key)
{
	struct mt_hot *hot = piece->state->hot;
	struct mt_hot_slot *first = mt_hot_find(hot, &key);

	for (uint32_t i = 1; first != NULL && i < piece->stretch.count; i++) {
		hot_key_next(&key);
		if (mt_hot_find(hot, &key) == NULL)
			return NULL;
	}
	return first;
}

bool
mt_read_hot_take(struct read_piece *piece)
{
	struct mt_read *read = piece->read;
	struct read_stretch *stretch = &piece->stretch;
	struct mt_hot_slot *slot;
	struct mt_hot_key key;

	assert(piece->sm.state == READ_PIECE_CHOOSING);
	assert(piece->source == NULL && piece->hot == NULL);
	if (piece->is_cold || !hot_is_for(piece) || !hot_key(piece, &key))
		return false;
	piece->is_cold = true; /* what comes back was not good */
	slot = hot_find_all(piece, key);
	if (slot == NULL)
		return false;
	for (uint32_t i = slot->is_shown ? HOT_TELL_PART : 1; i > 0 && !read->is_sequential; i--)
		mt_hot_meet(piece->state->hot, &key); /* what the client reads by itself, too */
	hot_show(piece, slot, 0);
	piece->state->turn_bytes += CLEAVE_BLOCK_BYTES;
	stretch->count = 1;
	mt_hot_hold(slot);
	piece->hot = slot;
	if (MUTANT(hot_place_unchecked))
		read->crcs[stretch->first] = slot->crc;
	hot_job(&piece->job, mt_hot_at(piece->state->hot, slot), read->crcs[stretch->first]);
	return true;
}

void
mt_read_hot_spoil(struct read_piece *piece)
{
	metric_add(&piece->state->port->metrics[MT_METRIC_hot_spoiled], 1);
	mt_hot_spoil(piece->state->hot, piece->hot);
}

/* ---- into the table ---- */

/* A copy has ended: that of the stretch's block before kept_count. */
static void
hot_end(struct read_piece *piece, bool is_right)
{
	struct mt_hot_slot *slot = piece->hot;

	metric_add(&piece->state->port->metrics[MT_METRIC_hot_fills], is_right);
	mt_hot_filled(piece->state->hot, slot, is_right);
	if (slot->sm.state == MT_HOT_VALID)
		hot_show(piece, slot, piece->kept_count - 1);
	piece->hot = NULL;
}

/* The next blocks of the stretch, as far as engines are done with them at once. */
static bool
hot_go_on(struct read_piece *piece)
{
	const struct read_stretch *stretch = &piece->stretch;
	const struct mt_read *read = piece->read;
	struct mt_hot *hot = piece->state->hot;

	while (piece->kept_count < stretch->count && !read->shard->write->is_stopped) {
		uint32_t at = piece->kept_count++, block = stretch->first + at;
		struct mt_hot_key key = hot_key_of(piece, piece->source_id, at);
		int rc;

		mt_hot_meet(hot, &key);
		piece->hot = mt_hot_fill(hot, &key, read->crcs[block], read->shard->index);
		if (piece->hot == NULL)
			continue;
		hot_job(&piece->job,
		    dev_ptr_add(read->msg->payload, (uint64_t)block * CLEAVE_BLOCK_BYTES),
		    read->crcs[block]);
		piece->job.dst = mt_hot_at(hot, piece->hot);
		piece->job.dst_cap_bytes = CLEAVE_BLOCK_BYTES;
		rc = mt_read_piece_run_job(piece);
		if (rc == 0) {
			sm_move(&piece->sm, READ_PIECE_KEEPING);
			return true;
		}
		hot_end(piece, rc == 1 && piece->job.rc == 0);
	}
	return false;
}

bool
mt_read_hot_keep(struct read_piece *piece)
{
	assert(piece->sm.state == READ_PIECE_CHOOSING);
	assert(piece->source != NULL && piece->hot == NULL);
	if (piece->read->is_sequential || !hot_is_for(piece))
		return false;
	metric_add(&piece->state->port->metrics[MT_METRIC_hot_misses], piece->stretch.count);
	piece->kept_count = 0;
	return hot_go_on(piece);
}

bool
mt_read_hot_kept(struct read_piece *piece)
{
	assert(piece->sm.state == READ_PIECE_KEEPING);
	sm_move(&piece->sm, READ_PIECE_CHOOSING);
	hot_end(piece, piece->job.rc == 0);
	return hot_go_on(piece);
}
