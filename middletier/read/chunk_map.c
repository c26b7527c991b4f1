/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chunk_map.c -- where the newest blocks of a range lie in runs, for a session that may read them there
 *
 *	zeros, never written     told as zeros, wherever that is known from
 *	in a run                 its frame: where it is, and all CRCs
 *	in the log               nothing: it is in the gateway's memory anyway, and a log has other volumes' blocks beside it
 *	encrypted, lost          nothing: clients have no data key; there is nothing to be read
 *
 * All of it holds at one moment, that of the answer: who reads by it must know of each change since (LEASES.md). A run
 * is in the index when a manifest names it, so all of it is durable at its nodes. A frame that a merge moves away stays
 * true for as long as its extent is there.
 *
 * A source is one run, so bytes of one chunk. Each of its copies has a ticket for the session that asks, where the node
 * takes clients and its key is known; a copy without is read at the gateway alone.
 *
 * A map is painted (paint.h), two pointers a block, and told frame by frame. It is made in one turn of the loop, and
 * uses that turn's share of reading up (read_path.c): so they hold nobody up, however many are asked for.
 */
#include "read/chunk_map.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/list.h"
#include "base/mutant.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/engine.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/port.h"
#include "common/shard.h"
#include "extent/extent.h"
#include "extent/extent_table.h"
#include "extent/link_ticket.h"
#include "extent/node_link.h"
#include "index/chunk.h"
#include "index/run_index.h"
#include "read/paint.h"
#include "read/read_path.h"
#include "session/session.h"

/* Where entries begin in the maker's bytes: sources and head go before them, as many as there are. */
#define MAP_ENTRIES_AT (WIRE_MAP_HEAD_BYTES + WIRE_MAP_SOURCES_MAX * WIRE_MAP_SOURCE_BYTES)

_Static_assert(MAP_ENTRIES_AT + WIRE_MAP_ENTRY_BYTES_MAX <= WIRE_CLIENT_PAYLOAD_BYTES_MAX,
    "an answer tells of a block at least");

/* A block, as it is seen. */
struct map_cell {
	const struct mt_run_index *index; /* NULL: it is in no run, or is not told of */
	const struct mt_frame *frame;     /* NULL: zeros */
};

struct mt_map_maker {
	struct read_canvas canvas;
	struct map_cell cells[WIRE_MAP_BLOCKS_MAX];
	const struct mt_run *runs[WIRE_MAP_SOURCES_MAX]; /* of each source */
	uint32_t source_count;
	uint32_t at; /* in bytes: behind the entries */
	uint8_t bytes[WIRE_CLIENT_PAYLOAD_BYTES_MAX];
};

static const struct mt_frame map_untold; /* of what has no entry */

/* The port's, which most ports never need: it is made with their first map. NULL: no memory. */
static struct mt_map_maker *
map_maker_of(struct mt_read_state *state)
{
	if (state->map_maker == NULL)
		state->map_maker = mt_calloc(1, sizeof(*state->map_maker));
	return state->map_maker;
}

void
mt_map_maker_destroy(struct mt_map_maker *maker)
{
	mt_free(maker);
}

/* ---- painting ---- */

static struct map_cell
map_cell_of(const struct read_stroke *stroke)
{
	if (stroke->record_kind == RECORD_DISCARD || stroke->record_kind == RECORD_ZEROES)
		return (struct map_cell){ NULL, NULL };
	if (stroke->record_kind != RECORD_WRITE || stroke->frame == NULL ||
	    (stroke->frame->codec_id & ENGINE_ENCRYPTED) != 0)
		return (struct map_cell){ NULL, &map_untold };
	return (struct map_cell){ stroke->index, stroke->frame };
}

static void
map_paint(struct read_canvas *canvas, const struct read_stroke *stroke)
{
	struct mt_map_maker *maker = LIST_ENTRY(canvas, struct mt_map_maker, canvas);
	const struct map_cell cell = map_cell_of(stroke);

	if (MUTANT(map_log_ignored) && stroke->frame == NULL && cell.frame != NULL)
		return;
	for (uint32_t i = 0; i < stroke->count; i++)
		maker->cells[stroke->at + i] = cell;
}

/* ---- telling ---- */

/* The nodes that have copies which are not known to be bad. False: there are none. */
static bool
map_source_fill(const struct mt_shard *shard, const struct mt_run *run,
    struct wire_map_source *source)
{
	const struct mt_extent *extent = mt_shard_extent(shard, run->extent_index);
	uint32_t count = 0;

	assert(extent != NULL && extent->kind == EXTENT_RUN);
	*source = (struct wire_map_source){ .extent = extent_id_pack(&extent->id),
		.from_bytes = run->offset_bytes,
		.to_bytes = run->offset_bytes + run->length_bytes };
	for (uint32_t i = 0; i < extent->replica_count; i++) {
		if (!extent->replicas[i].is_damaged)
			source->copies[count++].node_id = extent->replicas[i].node_id;
	}
	return count > 0;
}

/* Tickets for the session that asks: a copy whose node takes no clients, or whose key is not known now, gets none. */
static void
map_source_sign(const struct mt_read *read, struct wire_map_source *source)
{
	const struct mt_session *session = read->session;
	const struct wire_hello *hello = &session->hello;
	const struct split_subject *subject = session->has_subject ? &session->subject : NULL;

	for (uint32_t i = 0; i < CLEAVE_COPIES && source->copies[i].node_id != 0; i++) {
		struct wire_map_copy *copy = &source->copies[i];
		struct wire_ticket ticket = { .id = extent_id_unpack(source->extent),
			.from_bytes = source->from_bytes,
			.to_bytes = source->to_bytes,
			.volume_id = hello->volume_id,
			.attach = hello->attach };
		struct mt_link *link = mt_port_link(read->shard->port, copy->node_id);

		if (link == NULL || mt_link_ticket(link, hello->session_id, subject, &ticket) != 0)
			continue;
		copy->key_number = ticket.key_number;
		memcpy(copy->mac, ticket.mac, sizeof(copy->mac));
	}
}

/* Which source @run is, the newest first: neighbours are mostly of one run. WIRE_MAP_SOURCES_MAX: there is no room. */
static uint32_t
map_source_of(struct mt_map_maker *maker, const struct mt_run *run)
{
	for (uint32_t i = maker->source_count; i-- > 0;) {
		if (maker->runs[i] == run)
			return i;
	}
	if (maker->source_count == WIRE_MAP_SOURCES_MAX)
		return WIRE_MAP_SOURCES_MAX;
	maker->runs[maker->source_count] = run;
	return maker->source_count++;
}

/* The blocks from @at on that have what that one has: of a frame, no more than there are in it. */
static uint32_t
map_stretch(const struct mt_map_maker *maker, uint32_t at)
{
	const struct map_cell *cells = maker->cells;
	uint32_t end = at + 1;

	while (end < maker->canvas.count && cells[end].frame == cells[at].frame &&
	    cells[end].index == cells[at].index)
		end++;
	return end - at;
}

/* @entry's block is the one of the range that is @block of the chunk. */
static void
map_record_fill(struct wire_map_entry *entry, const struct map_cell *cell, uint32_t block)
{
	const struct mt_frame *frame = cell->frame;
	const uint32_t *crcs = cell->index->crcs + frame->crcs_at + (block - frame->block);

	assert(block >= frame->block);
	assert(block - frame->block + entry->block_count <= frame->block_count);
	assert(frame->block_count <= ENGINE_RECORD_BLOCKS_MAX);
	entry->codec_id = frame->codec_id;
	entry->first_block = (uint8_t)(block - frame->block);
	entry->record_blocks = (uint8_t)frame->block_count;
	entry->offset_bytes = frame->offset_bytes;
	entry->stored_bytes = frame->stored_bytes;
	entry->stored_crc = frame->stored_crc;
	memcpy(entry->block_crcs, crcs, entry->block_count * sizeof(*crcs));
}

/* Tells of the stretch of @count blocks at @at; @first: the range's first block in the chunk. False: there is no room. */
static bool
map_tell(struct mt_map_maker *maker, uint32_t at, uint32_t count, uint32_t first)
{
	const struct map_cell *cell = &maker->cells[at];
	struct wire_map_entry entry = { .block = at, .block_count = count };
	uint32_t source;

	if (cell->frame == &map_untold)
		return true;
	if (sizeof(maker->bytes) - maker->at < WIRE_MAP_ENTRY_BYTES_MAX)
		return false;
	if (cell->frame == NULL) {
		entry.source = WIRE_MAP_ZEROS;
	} else {
		source = map_source_of(maker, cell->index->run);
		if (source == WIRE_MAP_SOURCES_MAX)
			return false;
		entry.source = (uint8_t)source;
		map_record_fill(&entry, cell, first + at);
	}
	maker->at += wire_map_entry_encode(maker->bytes + maker->at, &entry);
	return true;
}

/* Returns how many blocks are told of. */
static uint32_t
map_tell_all(struct mt_map_maker *maker, uint32_t first)
{
	uint32_t at, count;

	maker->at = MAP_ENTRIES_AT;
	maker->source_count = 0;
	for (at = 0; at < maker->canvas.count; at += count) {
		count = map_stretch(maker, at);
		if (!map_tell(maker, at, count, first))
			break;
	}
	assert(at > 0);
	return at;
}

/* Head and sources, before the entries. Returns where they begin. */
static uint32_t
map_finish(struct mt_map_maker *maker, const struct mt_read *read, uint32_t block_count)
{
	const struct wire_map_head head = { block_count, maker->source_count,
		maker->at - MAP_ENTRIES_AT };
	uint32_t from = MAP_ENTRIES_AT - WIRE_MAP_HEAD_BYTES -
	    maker->source_count * WIRE_MAP_SOURCE_BYTES;
	uint8_t *out = maker->bytes + from;
	struct wire_map_source source;

	wire_map_head_encode(out, &head);
	out += WIRE_MAP_HEAD_BYTES;
	for (uint32_t i = 0; i < maker->source_count; i++, out += WIRE_MAP_SOURCE_BYTES) {
		bool has_copies = map_source_fill(read->shard, maker->runs[i], &source);

		assert(has_copies);
		map_source_sign(read, &source);
		wire_map_source_encode(out, &source);
	}
	return from;
}

/* A run of which no copy is known to be good is read at the gateway, which knows what to do. */
static void
map_hide_unreadable(struct mt_map_maker *maker, const struct mt_shard *shard)
{
	const struct mt_run *asked = NULL;
	struct wire_map_source source;
	bool has_copies = false;

	for (uint32_t i = 0; i < maker->canvas.count; i++) {
		struct map_cell *cell = &maker->cells[i];

		if (cell->index == NULL)
			continue;
		if (cell->index->run != asked) {
			asked = cell->index->run;
			has_copies = map_source_fill(shard, asked, &source);
		}
		if (!has_copies)
			*cell = (struct map_cell){ NULL, &map_untold };
	}
}

void
mt_read_chunk_map(struct mt_read *read)
{
	struct mt_port *port = read->shard->port;
	struct mt_map_maker *maker;
	uint32_t first = mt_block_in_chunk((uint32_t)(read->io.offset_bytes / CLEAVE_BLOCK_BYTES));
	uint32_t told, from;
	bool is_known;

	assert(read->io.opcode == WIRE_CHUNK_MAP);
	if (!mt_read_paint_is_ready(read, &is_known))
		return;
	maker = map_maker_of(port->read);
	if (maker == NULL) {
		mt_read_on_painted(read, -ENOMEM);
		return;
	}
	maker->canvas =
	    (struct read_canvas){ (uint32_t)num_min(read->block_count, WIRE_MAP_BLOCKS_MAX),
		    map_paint };
	memset(maker->cells, 0, maker->canvas.count * sizeof(maker->cells[0]));
	if (is_known) {
		mt_read_paint(read, &maker->canvas);
		map_hide_unreadable(maker, read->shard);
	}
	told = map_tell_all(maker, first);
	from = map_finish(maker, read, told);
	read->payload_bytes = maker->at - from;
	read->payload_crc = crc32c(0, maker->bytes + from, read->payload_bytes);
	dev_copy_from_host(port->split, read->msg->payload, maker->bytes + from,
	    read->payload_bytes);
	mt_read_on_painted(read, 0);
}
