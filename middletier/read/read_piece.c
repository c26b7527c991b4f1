/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read_piece.c -- some blocks of a read: from the ring, from the hot table, from a replica, or zeros
 *
 *	        in the ring, hot, zeros                 inline engine: within CHOOSING
 *	     +----------------------> LOADING ------+
 *	     |                           ^          |
 *	CHOOSING ----> ASKING -----------+          +--> next stretch, or FREE
 *	     ^           | bad copy, node gone      |
 *	     +-----------+--------------------------+ does not match its CRC
 *	     |
 *	     +-----------> INDEXING  the index of a run on the nodes is being read: then looked up again. Where a node
 *	     |                       has sent the record along, it is LOADING at once
 *	     |
 *	     +-----------> FILLING   a frame is being decompressed for all who read it piece by piece: then looked up again
 *	     |
 *	     +-----------> KEEPING   what a copy had is hot, and is put into the table of hot blocks: then the next stretch
 *	     |
 *	     +-----------> WAITING   nobody to ask now: until a link comes up, or the read's deadline
 *
 * Whatever its source, a record is checked by the engine: the CRC of its stored bytes before, the
 * CRC of each block after (I8). A copy that is not what the index says is counted, named in one line,
 * and marked for repair; choose.h names the next replica. When all copies are bad, the index is looked at
 * once more: the blocks may have been written, or moved, meanwhile. Only then is it an error. The same holds
 * where an extent has gone: flush and compaction have moved its blocks.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/mutant.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/batch.h"
#include "cleave/dev_ptr.h"
#include "cleave/engine.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/shard.h"
#include "extent/choose.h"
#include "extent/extent.h"
#include "extent/extent_copies.h"
#include "extent/extent_table.h"
#include "extent/node_error.h"
#include "extent/node_link.h"
#include "index/memtable.h"
#include "index/ring.h"
#include "index/run_load.h"
#include "read/hot.h"
#include "read/read_ahead.h"
#include "read/read_frames.h"
#include "read/read_hops.h"
#include "read/read_hot.h"
#include "read/read_note.h"
#include "read/read_path.h"
#include "read/read_piece.h"
#include "read/read_piece_index.h"
#include "session/session.h"
#include "write/write_path.h"

static bool piece_follow(struct read_piece *piece);

/* The stretch at block @first of the read, as it is now; nobody was asked for it yet. */
void
mt_read_piece_look_up(struct read_piece *piece, uint32_t first)
{
	struct read_stretch *stretch = &piece->stretch;

	assert(piece->sm.state == READ_PIECE_CHOOSING);
	mt_read_stretch_look_up(stretch, piece->read, first, piece->end);
	assert(stretch->count <= NUM_COUNT(piece->job.block_crcs));
	memcpy(piece->job.block_crcs, piece->read->crcs + first,
	    stretch->count * sizeof(piece->job.block_crcs[0]));
	piece->read->is_in_run |= stretch->what == READ_STORED && stretch->index_run != NULL &&
	    (stretch->location.codec_id & ENGINE_ENCRYPTED) == 0;
	mt_chooser_reset(&piece->chooser);
	piece->is_ring_bad = piece->is_frameless = piece->is_cold = false;
}

static struct mt_extent *
piece_extent(const struct read_piece *piece)
{
	return mt_shard_extent(piece->read->shard, piece->stretch.location.extent_index);
}

/* ---- ends ---- */

void
mt_read_piece_finish(struct read_piece *piece, int rc)
{
	struct mt_read *read = piece->read;

	assert(piece->source == NULL);
	assert(!piece->is_in_ring);
	assert(rc <= 0);
	assert(piece->sm.state == READ_PIECE_CHOOSING);
	piece->read = NULL;
	sm_move(&piece->sm, READ_PIECE_FREE);
	list_push_front(&piece->state->free_pieces, &piece->link);
	mt_read_on_piece(read, rc);
}

static void
piece_wait(struct read_piece *piece)
{
	struct mt_read_state *state = piece->state;

	assert(piece->source == NULL);
	assert(!piece->is_in_ring); /* what waits holds nothing that others wait for */
	sm_move(&piece->sm, READ_PIECE_WAITING);
	list_push_back(&state->waiting, &piece->link);
	if (!state->tick_timer.is_active)
		loop_timer_start(state->port->loop, &state->tick_timer, READ_TICK_NS);
}

/* ---- loading ---- */

static dev_ptr
piece_destination(const struct read_piece *piece)
{
	assert(piece->stretch.first + piece->stretch.count <= piece->read->block_count);
	return dev_ptr_add(piece->read->msg->payload,
	    (uint64_t)piece->stretch.first * CLEAVE_BLOCK_BYTES);
}

/* Release what the job read from. */
void
mt_read_piece_drop_source(struct read_piece *piece)
{
	assert(piece->source == NULL || !piece->is_in_ring);
	if (piece->source != NULL)
		split_msg_release(piece->source);
	piece->source = NULL;
	if (piece->is_in_ring) {
		mt_ring_release(piece->read->shard->ring, piece->stretch.location.ring_position);
		mt_write_path_kick(piece->read->shard); /* it may be waiting for just that */
	}
	piece->is_in_ring = false;
	if (piece->frame != NULL)
		mt_read_frame_release(piece->frame);
	piece->frame = NULL;
	if (piece->hot != NULL)
		mt_hot_release(piece->hot);
	piece->hot = NULL;
}

/* The stretch is where it belongs: what comes next? */
static void
piece_on_stretch_done(struct read_piece *piece)
{
	uint32_t next = piece->stretch.first + piece->stretch.count;

	assert(piece->sm.state == READ_PIECE_CHOOSING);
	assert(next <= piece->end);
	if (next == piece->end) {
		mt_read_piece_drop_source(piece);
		mt_read_piece_finish(piece, 0);
		return;
	}
	piece->lookup_count = 0;
	mt_read_piece_look_up(piece, next);
	mt_read_piece_choose(piece);
}

/* No copy is to blame, and another would not help. */
static void
piece_fail_without_key(struct read_piece *piece)
{
	mt_read_note_no_key(piece);
	mt_read_piece_drop_source(piece);
	mt_read_piece_finish(piece, -ENOMEDIUM); /* -ENOKEY is a right's */
}

/* CHOOSING again, with the job's outcome. */
static void
piece_on_loaded(struct read_piece *piece)
{
	uint64_t *metrics = piece->state->port->metrics;
	bool was_in_ring = piece->is_in_ring, was_in_frame = piece->frame != NULL;
	bool was_hot = piece->hot != NULL;
	int rc = piece->job.rc;

	assert(piece->sm.state == READ_PIECE_CHOOSING);
	if (rc != 0 && was_in_frame)
		mt_read_frame_spoil(piece->frame);
	if (rc != 0 && was_hot)
		mt_read_hot_spoil(piece);
	if (rc != 0 || was_in_ring || was_in_frame || was_hot)
		mt_read_piece_drop_source(piece); /* else the next stretch may be in it, too */
	if (rc == 0) {
		if (piece->job.ret_key_id != 0 && piece->stretch.what == READ_STORED)
			memcpy(piece->read->crcs + piece->stretch.first, piece->job.block_crcs,
			    piece->stretch.count * sizeof(piece->job.block_crcs[0]));
		if (piece->stretch.what == READ_STORED)
			metric_add(&metrics[was_in_ring   ? MT_METRIC_reads_from_memory
					   : was_in_frame ? MT_METRIC_reads_from_frames
					   : was_hot      ? MT_METRIC_hot_hits
							  : MT_METRIC_reads_from_node],
			    1);
		if (piece->source == NULL || !mt_read_hot_keep(piece))
			piece_on_stretch_done(piece);
		return;
	}
	assert(piece->stretch.what ==
	    READ_STORED); /* there is nothing in making zeros that could fail */
	if (rc == -ENOKEY && !MUTANT(key_missing_is_bad)) {
		piece_fail_without_key(piece);
		return;
	}
	if (was_in_ring || was_in_frame || was_hot) {
		log_limited(LOG_ERROR,
		    "read: device memory does not match its CRC, a copy is read instead: is this "
		    "host's memory sound? shard=%" PRIu32 " rc=%s",
		    piece->read->shard->index, log_errno(rc));
		piece->is_ring_bad = was_in_ring;
	} else {
		mt_read_note_bad_copy(piece, rc);
	}
	mt_read_piece_choose(piece);
}

void
mt_read_piece_on_job(struct engine_job *job, void *arg)
{
	struct read_piece *piece = arg;

	assert(&piece->job == job);
	CHECK_OBJ(piece, READ_PIECE_MAGIC);
	if (piece->sm.state == READ_PIECE_KEEPING) {
		if (!mt_read_hot_kept(piece))
			piece_on_stretch_done(piece);
		return;
	}
	assert(piece->sm.state == READ_PIECE_LOADING);
	sm_move(&piece->sm, READ_PIECE_CHOOSING);
	piece_on_loaded(piece);
}

int
mt_read_piece_run_job(struct read_piece *piece)
{
	struct engine_set *engines = piece->state->port->engines;

	return piece->read->io.service_class == SERVICE_LATENCY
	    ? engine_submit_urgent(engines, &piece->job)
	    : engine_submit(engines, &piece->job);
}

/* Run the piece's job, whose kind and source are set. */
static void
piece_submit(struct read_piece *piece)
{
	int rc;

	assert(piece->sm.state == READ_PIECE_CHOOSING);
	assert(piece->stretch.count > 0);
	piece->job.dst = piece_destination(piece);
	piece->job.dst_cap_bytes = piece->stretch.count * CLEAVE_BLOCK_BYTES;
	rc = mt_read_piece_run_job(piece);
	if (rc == 0) {
		sm_move(&piece->sm, READ_PIECE_LOADING);
		return;
	}
	if (rc == -ENOBUFS) { /* the engine's queue is full: all over again, a little later */
		mt_read_piece_drop_source(piece);
		mt_chooser_retry(&piece->chooser);
		piece->is_cold = false;
		piece_wait(piece);
		return;
	}
	if (rc < 0)
		piece->job.rc = rc; /* an unknown codec */
	piece_on_loaded(piece);
}

static void
piece_load(struct read_piece *piece, dev_ptr source)
{
	mt_read_stretch_load(&piece->stretch, piece->read, source, &piece->job);
	piece_submit(piece);
}

static void
piece_zero(struct read_piece *piece)
{
	assert(piece->stretch.what == READ_ZEROS);
	piece->job.kind = ENGINE_JOB_ZERO;
	piece->job.src_bytes = piece->stretch.count * CLEAVE_BLOCK_BYTES;
	piece_submit(piece);
}

static void
piece_load_from_ring(struct read_piece *piece)
{
	struct mt_ring *ring = piece->read->shard->ring;

	assert(piece->source == NULL);
	assert(!piece->is_in_ring);
	mt_ring_hold(ring, piece->stretch.location.ring_position);
	piece->is_in_ring = true;
	piece_load(piece, mt_ring_at(ring, piece->stretch.location.ring_position));
}

/* ---- frames that are read piece by piece ---- */

/* A frame holds plain blocks: their CRCs, as the index has them, are those of what lies there as well. */
static void
piece_load_from_frame(struct read_piece *piece, struct read_frame *frame)
{
	const struct read_stretch *stretch = &piece->stretch;

	assert(piece->frame == NULL && piece->source == NULL);
	mt_read_frame_hold(frame);
	piece->frame = frame;
	mt_read_stretch_load_plain(stretch, piece->read, frame->plain, &piece->job);
	piece_submit(piece);
}

static void
piece_on_frame(bool is_ready, void *arg)
{
	struct read_piece *piece = arg;

	CHECK_OBJ(piece, READ_PIECE_MAGIC);
	assert(piece->sm.state == READ_PIECE_FILLING);
	sm_move(&piece->sm, READ_PIECE_CHOOSING);
	mt_read_piece_look_up(piece,
	    piece->stretch.first); /* anything may have changed meanwhile */
	piece->is_frameless = !is_ready;
	mt_read_piece_choose(piece);
}

/* Is there a frame to load from, or to wait for? */
static bool
piece_take_frame(struct read_piece *piece)
{
	struct read_frame *frame;

	if (piece->is_frameless)
		return false;
	piece->is_frameless =
	    true; /* the run may have gone when this is asked again without a look-up */
	frame = mt_read_ahead(&piece->stretch, piece->read);
	if (frame == NULL)
		return false;
	if (frame->sm.state == READ_FRAME_READY) {
		piece_load_from_frame(piece, frame);
		return true;
	}
	sm_move(&piece->sm, READ_PIECE_FILLING);
	piece->frame_waiter.fn = piece_on_frame;
	piece->frame_waiter.arg = piece;
	mt_read_frame_wait(frame, &piece->frame_waiter);
	return true;
}

/* ---- what a node has answered ---- */

/* The reply for an earlier stretch may hold all that is wanted; if not, it goes. */
static bool
piece_load_from_source(struct read_piece *piece)
{
	const struct mt_location *location = &piece->stretch.location;
	uint64_t from;

	assert(!piece->is_in_ring);
	if (piece->source == NULL)
		return false;
	from = (uint64_t)location->offset_bytes - piece->source_offset_bytes;
	if (piece->read->rc != 0 || piece->stretch.what != READ_STORED ||
	    location->extent_index != piece->source_extent ||
	    location->offset_bytes < piece->source_offset_bytes ||
	    from + location->stored_bytes >
		piece->source->payload_bytes - piece->source_skip_bytes) {
		mt_read_piece_drop_source(piece);
		return false;
	}
	/* Whatever comes of it, the run that the look-up saw may be gone by then. */
	piece->is_frameless = true;
	mt_read_warm(&piece->stretch, piece->read, from == 0);
	piece_load(piece, dev_ptr_add(piece->source->payload, piece->source_skip_bytes + from));
	return true;
}

/* ---- asking a replica ---- */

static void
piece_on_answer(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg)
{
	struct read_piece *piece = arg;

	(void)reply;
	CHECK_OBJ(piece, READ_PIECE_MAGIC);
	assert(&piece->call == call);
	assert(piece->sm.state == READ_PIECE_ASKING);
	assert(piece->source == NULL);
	sm_move(&piece->sm, READ_PIECE_CHOOSING);
	mt_read_hops_answer(piece->read, call, rc);
	if (rc == 0 && (msg == NULL || msg->payload_bytes != piece->stretch.fetch_bytes))
		rc = -EMSGSIZE;
	if (rc == 0) {
		piece->source = msg;
		piece->source_extent = piece->stretch.location.extent_index;
		piece->source_id = extent_id_pack(&call->request.id);
		piece->source_offset_bytes = piece->stretch.location.offset_bytes;
		piece->source_skip_bytes = 0;
		piece_load(piece, msg->payload);
		return;
	}
	if (msg != NULL)
		split_msg_release(msg);
	/* The piece's extent may have been deleted because its blocks are elsewhere now. */
	if (rc == -ENOENT && piece_follow(piece))
		return;
	if (mt_is_copy_bad(rc)) {
		mt_read_note_bad_copy(piece, rc);
	} else {
		mt_chooser_note_failed(&piece->chooser, piece->replica_index);
		metric_add(&piece->state->port->metrics[MT_METRIC_replica_read_errors], 1);
	}
	mt_read_piece_choose(piece);
}

/* Asks copy @index, at @node. False: it cannot be asked. */
static bool
piece_ask(struct read_piece *piece, const struct mt_extent *extent, uint32_t index,
    struct mt_link *node)
{
	struct mt_call *call = &piece->call;

	assert(index < extent->replica_count);
	assert(piece->stretch.fetch_bytes > 0);
	piece->replica_index = (uint8_t)index;
	call->request = (struct wire_node){ .opcode = WIRE_EXTENT_READ,
		.id = extent->id,
		.offset_bytes = piece->stretch.location.offset_bytes,
		.length_bytes = piece->stretch.fetch_bytes,
		.epoch = extent->shard->epoch };
	call->host = NULL;
	call->head_bytes = call->piece_count = 0;
	call->fn = piece_on_answer;
	call->arg = piece;
	if (mt_link_call(node, call) != 0) {
		mt_chooser_note_failed(&piece->chooser, index);
		return false;
	}
	sm_move(&piece->sm, READ_PIECE_ASKING);
	return true;
}

/* From where its first block is now: false where that has not moved, or does so again and again. */
static bool
piece_follow(struct read_piece *piece)
{
	assert(piece->lookup_count <= READ_LOOKUPS_MAX);
	if (piece->lookup_count == READ_LOOKUPS_MAX ||
	    !mt_read_stretch_has_moved(&piece->stretch, piece->read))
		return false;
	piece->lookup_count++;
	mt_read_piece_look_up(piece, piece->stretch.first);
	mt_read_piece_choose(piece);
	return true;
}

void
mt_read_piece_fail_unreadable(struct read_piece *piece)
{
	assert(piece->stretch.what != READ_ZEROS);
	metric_add(&piece->state->port->metrics[MT_METRIC_unreadable_blocks], piece->stretch.count);
	mt_read_piece_finish(piece, -EIO);
}

/* Nobody is left to ask. */
static void
piece_give_up(struct read_piece *piece, const struct mt_extent *extent)
{
	struct mt_read_state *state = piece->state;

	assert(piece->sm.state == READ_PIECE_CHOOSING);
	assert(piece->source == NULL);
	if (piece_follow(piece))
		return;
	if (extent == NULL || mt_chooser_is_hopeless(&piece->chooser, extent->replica_count)) {
		mt_read_piece_fail_unreadable(piece);
	} else if (loop_now_ns(state->port->loop) >= piece->read->deadline_ns) {
		mt_read_piece_finish(piece, -EHOSTDOWN);
	} else {
		mt_chooser_retry(&piece->chooser);
		piece_wait(piece);
	}
}

/* The copy that is to be asked, one after the other while they cannot be. */
static void
piece_ask_replica(struct read_piece *piece)
{
	struct mt_extent *extent = piece_extent(piece);
	struct mt_link *node;
	int index;

	assert(piece->stretch.what == READ_STORED);
	while (extent != NULL) {
		struct mt_copies copies = mt_extent_copies(extent);

		if (piece->stretch.fetch_bytes <= READ_JOIN_BYTES_MAX)
			copies.turn = &piece->state->ask_turn;
		index = mt_chooser_pick(&piece->chooser, extent->shard->port, &copies, &node);
		if (index < 0)
			break;
		if (piece_ask(piece, extent, (uint32_t)index, node))
			return;
	}
	piece_give_up(piece, extent);
}

void
mt_read_piece_choose(struct read_piece *piece)
{
	assert(piece->sm.state == READ_PIECE_CHOOSING);
	if (piece_load_from_source(piece))
		return;
	if (piece->read->rc != 0 || piece->read->shard->write->is_stopped) {
		mt_read_piece_finish(piece, piece->read->rc != 0 ? piece->read->rc : -EREMCHG);
		return;
	}
	switch (piece->stretch.what) {
	case READ_ZEROS:
		piece_zero(piece);
		return;
	case READ_UNLOADED:
		mt_read_piece_load_index(piece);
		return;
	case READ_LOST:
		mt_read_piece_fail_unreadable(piece);
		return;
	case READ_STORED:
		break;
	}
	if (!piece->is_ring_bad && mt_read_stretch_is_in_ring(&piece->stretch, piece->read)) {
		piece_load_from_ring(piece);
		return;
	}
	if (mt_read_hot_take(piece))
		piece_submit(piece);
	else if (!piece_take_frame(piece))
		piece_ask_replica(piece);
}

uint32_t
mt_read_piece_start(struct read_piece *piece, struct mt_read *read)
{
	struct read_stretch *stretch = &piece->stretch;
	uint32_t bytes;

	CHECK_OBJ(piece, READ_PIECE_MAGIC);
	assert(read->next_block < read->block_count);
	assert(piece->sm.state == READ_PIECE_FREE);
	sm_move(&piece->sm, READ_PIECE_CHOOSING);
	piece->read = read;
	piece->end = read->block_count;
	piece->lookup_count = 0;
	mt_read_piece_look_up(piece, read->next_block);
	piece->end = stretch->first + stretch->fetch_count;
	read->next_block = piece->end;
	bytes = mt_read_stretch_is_at_hand(stretch, read) ? stretch->count * CLEAVE_BLOCK_BYTES : 0;
	mt_read_piece_choose(piece);
	return bytes;
}
