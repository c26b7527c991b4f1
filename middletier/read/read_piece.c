/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read_piece.c -- some blocks of a read: from the ring, from a replica, or zeros
 *
 *	        in the ring, zeros                      inline engine: within CHOOSING
 *	     +----------------------> LOADING ------+
 *	     |                           ^          |
 *	CHOOSING ----> ASKING -----------+          +--> next run, or FREE
 *	     ^           | bad copy, node gone      |
 *	     +-----------+--------------------------+ does not match its CRC
 *	     |
 *	     +-----------> INDEXING  the index of a run on the nodes is being read: then looked up again
 *	     |
 *	     +-----------> WAITING   nobody to ask now: until a link comes up, or the read's deadline
 *
 * Whatever its source, a record is checked by the engine: the CRC of its stored bytes before, the
 * CRC of each block after (I8). A copy that is not what the index says is counted, named in one line,
 * and marked for repair; the next replica is asked. Nobody is asked twice for a run whose copy is bad;
 * one that could not be reached is asked again while the read may wait. When all copies are bad, the
 * index is looked at once more: the blocks may have been written, or moved, meanwhile. Only then is it
 * an error. So it is where an extent has gone: flush and compaction have moved its blocks.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/batch.h"
#include "cleave/dev_ptr.h"
#include "cleave/engine.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/port.h"
#include "common/shard.h"
#include "extent/choose.h"
#include "extent/extent.h"
#include "extent/extent_table.h"
#include "extent/node_link.h"
#include "index/index.h"
#include "index/memtable.h"
#include "index/ring.h"
#include "index/run_load.h"
#include "read/read_path.h"
#include "read/read_piece.h"
#include "session/session.h"
#include "write/write_path.h"

#define READ_PIECE_MAGIC 0x43454950u /* "PIEC" */

static const struct sm_state read_piece_table[READ_PIECE_STATE_NR] = {
	[READ_PIECE_FREE] = { "free", SM_TO(READ_PIECE_CHOOSING), SM_INITIAL },
	[READ_PIECE_CHOOSING] = { "choosing",
	    SM_TO(READ_PIECE_ASKING) | SM_TO(READ_PIECE_LOADING) | SM_TO(READ_PIECE_WAITING) |
		SM_TO(READ_PIECE_INDEXING) | SM_TO(READ_PIECE_FREE),
	    0 },
	[READ_PIECE_INDEXING] = { "indexing", SM_TO(READ_PIECE_CHOOSING), 0 },
	[READ_PIECE_ASKING] = { "asking", SM_TO(READ_PIECE_CHOOSING), 0 },
	[READ_PIECE_LOADING] = { "loading", SM_TO(READ_PIECE_CHOOSING), 0 },
	[READ_PIECE_WAITING] = { "waiting", SM_TO(READ_PIECE_CHOOSING), 0 },
};

static void piece_choose(struct read_piece *piece);
static bool piece_follow(struct read_piece *piece);
static void piece_on_job(struct engine_job *job, void *arg);

int
read_pieces_init(struct mt_read_state *state)
{
	list_init(&state->free_pieces);
	list_init(&state->waiting);
	state->pieces = mt_calloc(READ_PIECES_MAX, sizeof(*state->pieces));
	if (state->pieces == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < READ_PIECES_MAX; i++) {
		struct read_piece *piece = &state->pieces[i];

		piece->magic = READ_PIECE_MAGIC;
		piece->state = state;
		piece->job.fn = piece_on_job;
		piece->job.arg = piece;
		sm_init(&piece->sm, "read_piece", read_piece_table, READ_PIECE_FREE, i);
		list_push_back(&state->free_pieces, &piece->link);
	}
	return 0;
}

void
read_pieces_fini(struct mt_read_state *state)
{
	mt_free(state->pieces);
	state->pieces = NULL;
}

/* ---- runs ---- */

static enum read_what
read_lookup(const struct mt_read *read, uint32_t index, struct mt_location *ret_location,
    struct mt_run **ret_run)
{
	switch (mt_index_find(read->shard->block_index, &read->session->volume.scope,
	    read->io.segment, (uint32_t)(read->io.offset_bytes / CLEAVE_BLOCK_BYTES) + index,
	    ret_location, ret_run)) {
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

/* Does @next go on where the piece's run, @distance blocks before it, began? */
static bool
piece_continues(const struct read_piece *piece, const struct mt_location *next, uint32_t distance)
{
	const struct mt_location *run = &piece->location;

	return next->extent_index == run->extent_index && next->offset_bytes == run->offset_bytes &&
	    next->block_in_record == run->block_in_record + distance;
}

/*
 * Records that lie next to each other in an extent, as the frames of a run do, are asked for at once: how
 * far that goes from block @at on, which is at @location.
 */
static void
piece_look_ahead(struct read_piece *piece, uint32_t at, struct mt_location location)
{
	const struct mt_read *read = piece->read;
	const struct mt_location *first = &piece->location;
	struct mt_run *run;

	while (location.extent_index == first->extent_index &&
	    location.offset_bytes == first->offset_bytes + piece->fetch_bytes &&
	    piece->fetch_bytes + location.stored_bytes <= MT_RECEIVE_BYTES &&
	    !mt_ring_contains(read->shard->ring, location.ring_position)) {
		uint32_t offset_bytes = location.offset_bytes;

		piece->fetch_bytes += location.stored_bytes;
		do {
			at++;
			piece->fetch_count = at - piece->first;
			if (at == piece->end ||
			    read_lookup(read, at, &location, &run) != READ_STORED)
				return;
		} while (location.extent_index == first->extent_index &&
		    location.offset_bytes == offset_bytes);
	}
}

void
read_piece_look_up(struct read_piece *piece)
{
	struct mt_read *read = piece->read;
	struct mt_location location;
	struct mt_run *run;
	enum read_what what;
	uint32_t at = piece->first;

	what = piece->what = read_lookup(read, at, &piece->location, &piece->index_run);
	location = piece->location;
	for (;;) {
		uint32_t crc = what == READ_STORED ? location.block_crc
						   : piece->state->zero_block_crc;

		read->crcs[at] = piece->job.block_crcs[at - piece->first] = crc;
		if (++at == piece->end)
			break;
		what = read_lookup(read, at, &location, &run);
		if (what != piece->what ||
		    (what == READ_STORED && !piece_continues(piece, &location, at - piece->first)))
			break;
	}
	piece->count = piece->fetch_count = at - piece->first;
	piece->fetch_bytes = piece->location.stored_bytes;
	mt_chooser_reset(&piece->chooser);
	piece->is_ring_bad = false;
	if (at < piece->end && what == READ_STORED && piece->what == READ_STORED &&
	    !mt_ring_contains(read->shard->ring, piece->location.ring_position))
		piece_look_ahead(piece, at, location);
}

bool
read_piece_is_at_hand(const struct read_piece *piece)
{
	return piece->what == READ_ZEROS ||
	    (piece->what == READ_STORED &&
		mt_ring_contains(piece->read->shard->ring, piece->location.ring_position));
}

static struct mt_extent *
piece_extent(const struct read_piece *piece)
{
	return mt_shard_extent(piece->read->shard, piece->location.extent_index);
}

/* ---- ends ---- */

static void
piece_finish(struct read_piece *piece, int rc)
{
	struct mt_read *read = piece->read;

	assert(piece->source == NULL);
	assert(!piece->is_in_ring);
	piece->read = NULL;
	sm_move(&piece->sm, READ_PIECE_FREE);
	list_push_front(&piece->state->free_pieces, &piece->link);
	read_on_piece(read, rc);
}

static void
piece_wait(struct read_piece *piece)
{
	struct mt_read_state *state = piece->state;

	sm_move(&piece->sm, READ_PIECE_WAITING);
	list_push_back(&state->waiting, &piece->link);
	if (!state->tick_timer.is_active)
		loop_timer_start(state->port->loop, &state->tick_timer, READ_TICK_NS);
}

/* ---- loading ---- */

static dev_ptr
piece_destination(const struct read_piece *piece)
{
	return dev_ptr_add(piece->read->msg->payload, (uint64_t)piece->first * CLEAVE_BLOCK_BYTES);
}

/* Release what the job read from. */
static void
piece_drop_source(struct read_piece *piece)
{
	if (piece->source != NULL)
		split_msg_release(piece->source);
	piece->source = NULL;
	if (piece->is_in_ring) {
		mt_ring_release(piece->read->shard->ring, piece->location.ring_position);
		mt_write_path_kick(piece->read->shard); /* it may be waiting for just that */
	}
	piece->is_in_ring = false;
}

static void
piece_note_bad_copy(struct read_piece *piece, int rc)
{
	uint64_t *metrics = piece->state->port->metrics;
	struct mt_extent *extent = piece_extent(piece);
	const struct wire_io *io = &piece->read->io;
	char text[MT_EXTENT_TEXT_BYTES] = "gone";

	metric_add(&metrics[MT_METRIC_replica_read_errors], 1);
	metric_add(&metrics[MT_METRIC_repairs_queued], 1);
	mt_chooser_note_bad(&piece->chooser, piece->replica_index);
	if (extent != NULL) {
		mt_extent_suspect(extent, piece->call.node->node_id);
		(void)mt_extent_text(extent, text);
	}
	log_limited(LOG_WARN,
	    "read: bad copy node=%" PRIu32 " extent=%s offset_bytes=%" PRIu32 " volume=%" PRIu64
	    " segment=%" PRIu64 " block=%" PRIu64 " rc=%s",
	    piece->call.node->node_id, text, piece->location.offset_bytes,
	    piece->read->session->hello.volume_id, io->segment,
	    io->offset_bytes / CLEAVE_BLOCK_BYTES + piece->first, log_errno(rc));
}

/* The run is where it belongs: what comes next? */
static void
piece_on_run_done(struct read_piece *piece)
{
	piece->first += piece->count;
	if (piece->first == piece->end) {
		piece_drop_source(piece);
		piece_finish(piece, 0);
		return;
	}
	piece->lookup_count = 0;
	read_piece_look_up(piece);
	piece_choose(piece);
}

/* CHOOSING again, with the job's outcome. */
static void
piece_on_loaded(struct read_piece *piece)
{
	uint64_t *metrics = piece->state->port->metrics;
	bool was_in_ring = piece->is_in_ring;
	int rc = piece->job.rc;

	if (rc != 0 || was_in_ring)
		piece_drop_source(piece); /* else the next run may be in it, too */
	if (rc == 0) {
		if (piece->what == READ_STORED)
			metric_add(&metrics[was_in_ring ? MT_METRIC_reads_from_memory
							: MT_METRIC_reads_from_node],
			    1);
		piece_on_run_done(piece);
		return;
	}
	assert(piece->what == READ_STORED); /* there is nothing in making zeros that could fail */
	if (was_in_ring) {
		log_limited(LOG_ERROR,
		    "read: device memory does not match its CRC shard=%" PRIu32 " rc=%s",
		    piece->read->shard->index, log_errno(rc));
		piece->is_ring_bad = true;
	} else {
		piece_note_bad_copy(piece, rc);
	}
	piece_choose(piece);
}

static void
piece_on_job(struct engine_job *job, void *arg)
{
	struct read_piece *piece = arg;

	assert(&piece->job == job);
	CHECK_OBJ(piece, READ_PIECE_MAGIC);
	sm_move(&piece->sm, READ_PIECE_CHOOSING);
	piece_on_loaded(piece);
}

/* Run the piece's job, whose kind and source are set. */
static void
piece_submit(struct read_piece *piece)
{
	struct mt_port *port = piece->state->port;
	int rc;

	piece->job.dst = piece_destination(piece);
	piece->job.dst_cap_bytes = piece->count * CLEAVE_BLOCK_BYTES;
	rc = piece->read->io.service_class == SERVICE_LATENCY
	    ? engine_submit_urgent(port->engines, &piece->job)
	    : engine_submit(port->engines, &piece->job);
	if (rc == 0) {
		sm_move(&piece->sm, READ_PIECE_LOADING);
		return;
	}
	if (rc == -ENOBUFS) { /* the engine's queue is full: all over again, a little later */
		piece_drop_source(piece);
		mt_chooser_retry(&piece->chooser);
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
	const struct mt_location *location = &piece->location;

	piece->job.kind = ENGINE_JOB_LOAD;
	piece->job.codec_id = location->codec_id;
	piece->job.src = source;
	piece->job.src_bytes = location->stored_bytes;
	piece->job.stored_crc = location->stored_crc;
	piece->job.record_blocks = location->record_blocks;
	piece->job.first_block = location->block_in_record;
	piece->job.block_count = (uint8_t)piece->count;
	piece_submit(piece);
}

static void
piece_zero(struct read_piece *piece)
{
	piece->job.kind = ENGINE_JOB_ZERO;
	piece->job.src_bytes = piece->count * CLEAVE_BLOCK_BYTES;
	piece_submit(piece);
}

static void
piece_load_from_ring(struct read_piece *piece)
{
	struct mt_ring *ring = piece->read->shard->ring;

	mt_ring_hold(ring, piece->location.ring_position);
	piece->is_in_ring = true;
	piece_load(piece, mt_ring_at(ring, piece->location.ring_position));
}

/* The reply for an earlier stretch may hold all that is wanted; if not, it goes. */
static bool
piece_load_from_source(struct read_piece *piece)
{
	const struct mt_location *location = &piece->location;
	uint64_t from;

	if (piece->source == NULL)
		return false;
	from = (uint64_t)location->offset_bytes - piece->source_offset_bytes;
	if (piece->read->rc != 0 || piece->what != READ_STORED ||
	    location->extent_index != piece->source_extent ||
	    location->offset_bytes < piece->source_offset_bytes ||
	    from + location->stored_bytes > piece->source->payload_bytes) {
		piece_drop_source(piece);
		return false;
	}
	piece_load(piece, dev_ptr_add(piece->source->payload, from));
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
	sm_move(&piece->sm, READ_PIECE_CHOOSING);
	if (rc == 0 && (msg == NULL || msg->payload_bytes != piece->fetch_bytes))
		rc = -EMSGSIZE;
	if (rc == 0) {
		piece->source = msg;
		piece->source_extent = piece->location.extent_index;
		piece->source_offset_bytes = piece->location.offset_bytes;
		piece_load(piece, msg->payload);
		return;
	}
	if (msg != NULL)
		split_msg_release(msg);
	/* Its extent may have been deleted because its blocks are elsewhere now. */
	if (rc == -ENOENT && piece_follow(piece))
		return;
	if (mt_is_copy_bad(rc)) {
		piece_note_bad_copy(piece, rc);
	} else {
		mt_chooser_note_failed(&piece->chooser, piece->replica_index);
		metric_add(&piece->state->port->metrics[MT_METRIC_replica_read_errors], 1);
	}
	piece_choose(piece);
}

/* Asks copy @index, at @node. False: it cannot be asked. */
static bool
piece_ask(struct read_piece *piece, const struct mt_extent *extent, uint32_t index,
    struct mt_link *node)
{
	struct mt_call *call = &piece->call;

	piece->replica_index = (uint8_t)index;
	call->request = (struct wire_node){ .opcode = WIRE_EXTENT_READ,
		.id = extent->id,
		.offset_bytes = piece->location.offset_bytes,
		.length_bytes = piece->fetch_bytes,
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

/* Has the index changed its mind about the run's first block? */
static bool
piece_has_moved(const struct read_piece *piece)
{
	struct mt_location now;
	struct mt_run *run;

	return read_lookup(piece->read, piece->first, &now, &run) != READ_STORED ||
	    now.extent_index != piece->location.extent_index ||
	    now.offset_bytes != piece->location.offset_bytes;
}

/* If it has, take it from where it is now: false where it has not, or does so again and again. */
static bool
piece_follow(struct read_piece *piece)
{
	if (piece->lookup_count == READ_LOOKUPS_MAX || !piece_has_moved(piece))
		return false;
	piece->lookup_count++;
	read_piece_look_up(piece);
	piece_choose(piece);
	return true;
}

static void
piece_fail_unreadable(struct read_piece *piece)
{
	metric_add(&piece->state->port->metrics[MT_METRIC_unreadable_blocks], piece->count);
	piece_finish(piece, -EIO);
}

/* Nobody is left to ask. */
static void
piece_give_up(struct read_piece *piece, const struct mt_extent *extent)
{
	struct mt_read_state *state = piece->state;

	if (piece_follow(piece))
		return;
	if (extent == NULL || mt_chooser_is_hopeless(&piece->chooser, extent->replica_count)) {
		piece_fail_unreadable(piece);
	} else if (loop_now_ns(state->port->loop) >= piece->read->deadline_ns) {
		piece_finish(piece, -EHOSTDOWN);
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

	while (extent != NULL) {
		struct mt_copies copies = mt_extent_copies(extent);

		index = mt_chooser_pick(&piece->chooser, extent->shard->port, &copies, &node);
		if (index < 0)
			break;
		if (piece_ask(piece, extent, (uint32_t)index, node))
			return;
	}
	piece_give_up(piece, extent);
}

/* ---- waiting for a run's index ---- */

static void
piece_on_index(int rc, void *arg)
{
	struct read_piece *piece = arg;

	CHECK_OBJ(piece, READ_PIECE_MAGIC);
	sm_move(&piece->sm, READ_PIECE_CHOOSING);
	if (rc == 0 && loop_now_ns(piece->state->port->loop) >= piece->read->deadline_ns)
		rc = -EHOSTDOWN; /* indexes go as fast as they come: the client asks again */
	if (rc == -EBADMSG) {
		piece_fail_unreadable(piece);
		return;
	}
	if (rc != 0 && rc != -ESTALE && !piece->read->shard->write->is_stopped) {
		piece_finish(piece, rc);
		return;
	}
	read_piece_look_up(piece); /* anything may have changed meanwhile */
	piece_choose(piece);
}

static void
piece_load_index(struct read_piece *piece)
{
	sm_move(&piece->sm, READ_PIECE_INDEXING);
	piece->waiter.fn = piece_on_index;
	piece->waiter.arg = piece;
	mt_run_load(piece->index_run, &piece->waiter);
}

static void
piece_choose(struct read_piece *piece)
{
	assert(piece->sm.state == READ_PIECE_CHOOSING);
	if (piece_load_from_source(piece))
		return;
	if (piece->read->rc != 0 || piece->read->shard->write->is_stopped) {
		piece_finish(piece, piece->read->rc != 0 ? piece->read->rc : -EREMCHG);
		return;
	}
	switch (piece->what) {
	case READ_ZEROS:
		piece_zero(piece);
		return;
	case READ_UNLOADED:
		piece_load_index(piece);
		return;
	case READ_LOST:
		piece_fail_unreadable(piece);
		return;
	case READ_STORED:
		break;
	}
	if (!piece->is_ring_bad &&
	    mt_ring_contains(piece->read->shard->ring, piece->location.ring_position)) {
		piece_load_from_ring(piece);
		return;
	}
	piece_ask_replica(piece);
}

void
read_piece_start(struct read_piece *piece)
{
	sm_move(&piece->sm, READ_PIECE_CHOOSING);
	piece->lookup_count = 0;
	piece_choose(piece);
}

void
read_pieces_retry(struct mt_read_state *state)
{
	struct loop_link waiting;
	struct loop_link *link;

	/* A list of their own: a piece that has to wait again is not looked at twice. */
	list_init(&waiting);
	while ((link = list_pop_front(&state->waiting)) != NULL)
		list_push_back(&waiting, link);
	while ((link = list_pop_front(&waiting)) != NULL) {
		struct read_piece *piece = LIST_ENTRY(link, struct read_piece, link);

		CHECK_OBJ(piece, READ_PIECE_MAGIC);
		sm_move(&piece->sm, READ_PIECE_CHOOSING);
		piece_choose(piece);
	}
}
