/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read_path.c -- a read message, from its arrival to its answer; BLOCK_STATUS and CHUNK_MAP come the same way
 *
 *	        shard serves          every piece is back
 *	PARKED -------------> RUNNING ---------------------> FREE (answered)
 *	                       ^    |
 *	                       +----+ STARVED: no piece is free, or the turn's share is used up
 *
 * The request's range is cut into stretches, blocks that lie next to each other in one place
 * (read_stretch.h), which pieces fetch (read_piece.c), several at a time. They assemble the answer in the READ message's own payload buffer, so a read needs no memory
 * but what its message came with. The answer's CRC is combined from those of its blocks, which the
 * index holds; it is computed over nothing (I8).
 *
 * The newest acknowledged version of each block is found in the index when it is looked up, and
 * acknowledged writes enter the index before they are answered: a read sees every write that was
 * answered before it came (I7). When the shard has stopped meanwhile, or the gateway's lease has ended,
 * another owner may have accepted newer ones: the answer is then an error.
 */
#include <errno.h>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/list.h"
#include "base/metrics.h"
#include "base/mutant.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/dev_ptr.h"
#include "cleave/engine.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/lease.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/settings.h"
#include "common/shard.h"
#include "common/turn.h"
#include "read/block_status.h"
#include "read/chunk_map.h"
#include "read/hot.h"
#include "read/read_frames.h"
#include "read/read_hops.h"
#include "read/read_path.h"
#include "read/read_piece.h"
#include "read/read_pieces.h"
#include "session/read_lease.h"
#include "session/reply.h"
#include "session/session.h"
#include "write/write_path.h"

#define READ_MAGIC 0x44414552u       /* "READ" */
#define READ_STATE_MAGIC 0x54534452u /* "RDST" */

static const struct sm_state read_table[READ_STATE_NR] = {
	[READ_FREE] = { "free", SM_TO(READ_PARKED) | SM_TO(READ_RUNNING), SM_INITIAL },
	[READ_PARKED] = { "parked", SM_TO(READ_RUNNING) | SM_TO(READ_FREE), 0 },
	[READ_STARVED] = { "starved", SM_TO(READ_RUNNING) | SM_TO(READ_FREE), 0 },
	[READ_RUNNING] = { "running", SM_TO(READ_STARVED) | SM_TO(READ_FREE), 0 },
};

static struct mt_read *
read_of(struct loop_link *link)
{
	struct mt_read *read = LIST_ENTRY(link, struct mt_read, link);

	CHECK_OBJ(read, READ_MAGIC);
	return read;
}

/* A request that is answered with what the index knows. */
static bool
read_is_painted(const struct mt_read *read)
{
	return read->io.opcode != WIRE_READ;
}

static uint32_t
read_payload_crc(const struct mt_read *read)
{
	uint32_t crc = read->crcs[0];

	assert(read->block_count >= 1);
	assert(read->block_count <= ENGINE_RECORD_BLOCKS_MAX);
	for (uint32_t i = 1; i < read->block_count; i++)
		crc = crc32c_combine(crc, read->crcs[i], CLEAVE_BLOCK_BYTES);
	return crc;
}

static void
read_reply_ok(struct mt_read *read)
{
	uint64_t *metrics = read->shard->port->metrics;
	struct dev_piece piece = { read->msg->payload, read->io.length_bytes };
	struct wire_header header;

	assert(!read_is_painted(read) || read->payload_bytes > 0);
	metric_add(&read->shard->request_count, 1);
	if (read_is_painted(read)) {
		metric_add(&metrics[read->io.opcode == WIRE_CHUNK_MAP ? MT_METRIC_chunk_maps
								      : MT_METRIC_block_statuses],
		    1);
		piece.bytes = read->payload_bytes;
	} else {
		metric_add(&metrics[MT_METRIC_reads], 1);
		metric_add(&metrics[MT_METRIC_read_bytes], read->io.length_bytes);
		metric_add(&read->shard->request_bytes, read->io.length_bytes);
		read->payload_crc = read_payload_crc(read);
	}
	wire_io_reply(&header, &read->io, 0, read->payload_crc, read->shard->epoch);
	mt_reply_tag(read->session, &header);
	mt_read_lease_stamp(read->session, read->shard, &header);
	if ((header.flags & WIRE_FLAG_LEASED) != 0 && read->is_in_run &&
	    mt_read_lease_has_maps(read->session))
		header.flags |= WIRE_FLAG_MAPPED;
	split_msg_reply(read->msg, &header, &piece, 1, NULL, NULL);
}

/* The sole exit. */
static void
read_finish(struct mt_read *read, int rc)
{
	struct mt_read_state *state = read->shard->port->read;
	struct mt_session *session = read->session;

	CHECK_OBJ(read, READ_MAGIC);
	assert(read->piece_count == 0);
	assert(rc <= 0);
	assert(read->shard->read_count > 0);
	if (read->shard->write->is_stopped)
		rc = read->shard->write->stop_rc;
	/* Now, not when it was looked up: what was read is still the newest, wherever it came from. */
	if (rc == 0 && !mt_port_has_lease(session->port))
		rc = -EREMCHG;
	list_remove(&read->link);
	mt_read_hops_end(read, rc);
	if (rc == 0)
		read_reply_ok(read);
	else
		mt_reply_error(session, read->msg, &read->io, rc, read->shard->epoch);
	read->msg = NULL;
	read->session = NULL;
	read->shard->read_count--;
	sm_move(&read->sm, READ_FREE);
	list_push_front(&state->free_reads, &read->link);
	mt_session_request_done(session, false);
}

/* May @state's reads copy more in this turn of the loop? If not, the next one feeds them. */
static bool
turn_has_room(struct mt_read_state *state)
{
	uint64_t now_ns = loop_now_ns(state->port->loop);

	if (state->turn_ns != now_ns) {
		state->turn_ns = now_ns;
		state->turn_bytes = 0;
	}
	if (state->turn_bytes < READ_TURN_BYTES)
		return true;
	if (!state->turn_timer.is_active)
		loop_timer_start(state->port->loop, &state->turn_timer, 0);
	return false;
}

static void
read_starve(struct mt_read *read)
{
	sm_move(&read->sm, READ_STARVED);
	list_push_back(&read->shard->port->read->starved, &read->link);
}

/* RUNNING: hand out what no piece has taken. */
static void
read_go_on(struct mt_read *read)
{
	struct mt_read_state *state = read->shard->port->read;

	assert(read->sm.state == READ_RUNNING);
	assert(read->io.opcode == WIRE_READ);
	read->piece_count++; /* ours, so that pieces that end at once do not end the read */
	while (read->rc == 0 && read->next_block < read->block_count && turn_has_room(state)) {
		struct loop_link *link = list_pop_front(&state->free_pieces);

		if (link == NULL)
			break;
		read->piece_count++;
		state->turn_bytes +=
		    mt_read_piece_start(LIST_ENTRY(link, struct read_piece, link), read);
	}
	read->piece_count--;
	if (read->rc == 0 && read->next_block < read->block_count) {
		read_starve(read);
		return;
	}
	if (read->piece_count == 0)
		read_finish(read, read->rc);
}

/* A map takes as long as copying a turn's share, or longer: it is the last that is done in its turn. */
static void
read_map(struct mt_read *read)
{
	struct mt_read_state *state = read->shard->port->read;

	/* Indexes that it would ask for now nobody stops. */
	if (read->shard->write->is_stopped) {
		mt_read_on_painted(read, -EREMCHG);
		return;
	}
	if (!turn_has_room(state)) {
		read_starve(read);
		return;
	}
	state->turn_bytes = READ_TURN_BYTES;
	mt_read_chunk_map(read);
}

void
mt_read_again(struct mt_read *read)
{
	CHECK_OBJ(read, READ_MAGIC);
	assert(read->sm.state == READ_RUNNING);
	switch (read->io.opcode) {
	case WIRE_BLOCK_STATUS:
		mt_read_status(read);
		break;
	case WIRE_CHUNK_MAP:
		read_map(read);
		break;
	default:
		read_go_on(read);
	}
}

void
mt_read_on_piece(struct mt_read *read, int rc)
{
	struct mt_read_state *state = read->shard->port->read;

	CHECK_OBJ(read, READ_MAGIC);
	assert(read->piece_count > 0);
	assert(rc <= 0);
	assert(read->io.opcode == WIRE_READ);
	if (read->rc == 0)
		read->rc = rc;
	read->piece_count--;
	if (!list_is_empty(&state->starved))
		loop_defer(state->port->loop, &state->feed_task);
	/* A starved read with nothing out goes on when it is fed, unless it has failed. */
	if (read->piece_count == 0 && (read->sm.state == READ_RUNNING || read->rc != 0))
		read_finish(read, read->rc);
}

static void
read_feed(struct mt_read_state *state)
{
	/* Each that is fed ends, or takes what is left of the pieces, or of the turn. */
	while (!list_is_empty(&state->starved) && !list_is_empty(&state->free_pieces) &&
	    turn_has_room(state)) {
		struct mt_read *read = read_of(list_pop_front(&state->starved));

		sm_move(&read->sm, READ_RUNNING);
		mt_read_again(read);
	}
}

static void
read_on_feed(struct loop_task *task, void *arg)
{
	struct mt_read_state *state = arg;

	(void)task;
	CHECK_OBJ(state, READ_STATE_MAGIC);
	read_feed(state);
}

static void
read_on_turn(struct loop_timer *timer, void *arg)
{
	struct mt_read_state *state = arg;

	(void)timer;
	CHECK_OBJ(state, READ_STATE_MAGIC);
	state->turn_bytes = 0;
	read_feed(state);
}

static void
read_start(struct mt_read *read)
{
	struct mt_port *port = read->shard->port;

	assert(write_path_serves(read->shard));
	sm_move(&read->sm, READ_RUNNING);
	read->deadline_ns = loop_now_ns(port->loop) + port->settings->node_timeout_ns;
	mt_read_again(read);
}

void
mt_read_on_painted(struct mt_read *read, int rc)
{
	CHECK_OBJ(read, READ_MAGIC);
	assert(read->sm.state == READ_RUNNING);
	assert(rc <= 0);
	assert(read_is_painted(read));
	read_finish(read, rc);
}

void
mt_read(struct mt_shard *shard, struct mt_session *session, struct split_msg *msg,
    const struct wire_io *io)
{
	struct mt_read_state *state = shard->port->read;
	struct loop_link *link = list_pop_front(&state->free_reads);
	struct mt_read *read;

	CHECK_OBJ(state, READ_STATE_MAGIC);
	assert(link != NULL); /* one for each receive of the pool, and @msg is one of these */
	assert(session->port == shard->port);
	assert(io->opcode == WIRE_READ || io->opcode == WIRE_BLOCK_STATUS ||
	    io->opcode == WIRE_CHUNK_MAP);
	assert(io->length_bytes > 0);
	assert(io->length_bytes % CLEAVE_BLOCK_BYTES == 0);
	read = read_of(link);
	read->shard = shard;
	shard->read_count++;
	read->session = session;
	read->msg = msg;
	read->io = *io;
	read->block_count = io->length_bytes / CLEAVE_BLOCK_BYTES;
	read->next_block = read->piece_count = 0;
	read->rc = 0;
	read->is_in_run = false;
	read->is_sequential = io->segment == session->read_segment &&
	    io->offset_bytes == session->read_end_bytes;
	if (io->opcode == WIRE_READ) {
		session->read_segment = io->segment;
		session->read_end_bytes = io->offset_bytes + io->length_bytes;
	}
	read->taken_ns = loop_now_ns(shard->port->loop);
	read->node.took_ns = 0;
	mt_turn_on_ahead(shard->port, session->volume.service_class);
	if (write_path_serves(shard)) {
		read_start(read);
		return;
	}
	sm_move(&read->sm, READ_PARKED);
	if (shard->write->is_stopped)
		read_finish(read, -EREMCHG);
	else
		list_push_back(&state->parked, &read->link);
}

/* ---- what others report ---- */

void
mt_read_path_claimed(struct mt_shard *shard)
{
	struct mt_read_state *state = shard->port->read;
	struct loop_link *link, *next;

	CHECK_OBJ(state, READ_STATE_MAGIC);
	assert(!write_path_serves(shard));
	LIST_FOREACH_SAFE(&state->parked, link, next) {
		struct mt_read *read = read_of(link);

		if (read->shard == shard && read->io.epoch != shard->epoch)
			read_finish(read, -ESTALE);
	}
}

void
mt_read_path_on_shard(struct mt_shard *shard)
{
	struct mt_read_state *state = shard->port->read;
	struct loop_link *link, *next;

	CHECK_OBJ(state, READ_STATE_MAGIC);
	if (shard->write->is_stopped && state->hot != NULL && !MUTANT(hot_kept_shown))
		mt_hot_drop_shard(state->hot, shard->index);
	LIST_FOREACH_SAFE(&state->parked, link, next) {
		struct mt_read *read = read_of(link);

		if (read->shard != shard)
			continue;
		if (shard->write->is_stopped) {
			read_finish(read, shard->write->stop_rc);
		} else {
			list_remove(&read->link);
			read_start(read);
		}
	}
	mt_read_pieces_retry(state);
}

bool
mt_read_path_is_quiet(const struct mt_shard *shard)
{
	return shard->read_count == 0;
}

void
mt_read_path_on_link(struct mt_port *port)
{
	CHECK_OBJ(port->read, READ_STATE_MAGIC);
	mt_read_pieces_retry(port->read);
}

static void
read_on_tick(struct loop_timer *timer, void *arg)
{
	struct mt_read_state *state = arg;

	CHECK_OBJ(state, READ_STATE_MAGIC);
	assert(timer == &state->tick_timer);
	mt_read_pieces_retry(state);
	if (!list_is_empty(&state->waiting) && !timer->is_active)
		loop_timer_start(state->port->loop, timer, READ_TICK_NS);
}

/* ---- the port's life ---- */

int
mt_read_path_init(struct mt_port *port)
{
	static const uint8_t zeros[CLEAVE_BLOCK_BYTES];
	struct mt_read_state *state = mt_calloc(1, sizeof(*state));
	int rc;

	assert(port->read == NULL);
	assert(port->receive_count > 0);
	if (state == NULL)
		return -ENOMEM;
	state->magic = READ_STATE_MAGIC;
	state->port = port;
	state->zero_block_crc = crc32c(0, zeros, sizeof(zeros));
	port->read = state;
	list_init(&state->free_reads);
	list_init(&state->parked);
	list_init(&state->starved);
	loop_timer_init(&state->tick_timer, read_on_tick, state);
	loop_timer_init(&state->turn_timer, read_on_turn, state);
	loop_task_init(&state->feed_task, read_on_feed, state);
	state->reads = mt_calloc(port->receive_count, sizeof(*state->reads));
	state->status_entries = mt_calloc(1, READ_STATUS_BYTES_MAX + READ_STATUS_BLOCKS_MAX);
	rc = state->reads == NULL || state->status_entries == NULL ? -ENOMEM
								   : mt_read_pieces_init(state);
	if (rc != 0) {
		mt_read_path_fini(port);
		return rc;
	}
	for (uint32_t i = 0; i < port->receive_count; i++) {
		state->reads[i].magic = READ_MAGIC;
		sm_init(&state->reads[i].sm, "read", read_table, READ_FREE, i);
		list_push_back(&state->free_reads, &state->reads[i].link);
	}
	return 0;
}

void
mt_read_path_fini(struct mt_port *port)
{
	struct mt_read_state *state = port->read;

	if (state == NULL)
		return;
	CHECK_OBJ(state, READ_STATE_MAGIC);
	loop_timer_stop(port->loop, &state->tick_timer);
	loop_timer_stop(port->loop, &state->turn_timer);
	loop_task_cancel(port->loop, &state->feed_task);
	mt_read_pieces_fini(state);
	mt_read_frames_fini(state->frames);
	mt_hot_fini(state->hot);
	mt_free(state->reads);
	mt_free(state->status_entries);
	mt_map_maker_destroy(state->map_maker);
	state->magic = 0;
	mt_free(state);
	port->read = NULL;
}
