/* SPDX-License-Identifier: Apache-2.0 */
/*
 * block_status.c -- what a range of a volume holds, from the index alone
 *
 *	discarded, never written    hole, zeros
 *	WRITE_ZEROES                zeros
 *	written, also zeros; lost   allocated
 *
 * The scope of a difference (scope.c) shows what has changed: a hole there is what has not. Zeros of it are not told:
 * its spans are of either end, in no order, and a tombstone may be what the older end alone has, or lie under data that
 * both have. Who wants to know asks the newer end.
 *
 * The range lies in one chunk; of a chunk about which something is known, the first
 * READ_STATUS_BLOCKS_MAX blocks are answered for. A byte a block is painted over: span by span, run by run,
 * layer by layer, the oldest first. That takes as long as there are frames and keys, however many runs
 * lie over each other; asking for each block would take the product of both. Indexes of runs that are not
 * in memory are waited for.
 */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/list.h"
#include "base/num.h"
#include "base/search.h"
#include "catalog/scope.h"
#include "cleave/batch.h"
#include "cleave/engine.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/port.h"
#include "common/shard.h"
#include "index/index.h"
#include "index/memtable.h"
#include "index/run_index.h"
#include "index/run_load.h"
#include "read/block_status.h"
#include "read/read_path.h"
#include "session/session.h"
#include "write/write_path.h"

/* The blocks in question: of the chunk, and what is known of them. */
struct status_window {
	uint32_t first, count;
	uint8_t *flags;
	uint8_t mask; /* flags that may be told; of a difference none: what is seen has changed */
};

static uint8_t
status_flags(uint8_t record_kind)
{
	switch (record_kind) {
	case RECORD_DISCARD:
		return WIRE_STATUS_HOLE | WIRE_STATUS_ZERO;
	case RECORD_ZEROES:
		return WIRE_STATUS_ZERO;
	default:
		return 0;
	}
}

/* ---- painting ---- */

static bool
span_shows(const struct mt_span *span, uint64_t cut)
{
	return cut >= span->cut_from && cut < span->cut_below;
}

/* The chunk of span @index in which the read's blocks are; NULL: nothing is known of it. */
static struct mt_chunk *
status_chunk(const struct mt_read *read, uint32_t index)
{
	const struct mt_scope *scope = &read->session->volume.scope;
	uint64_t in_volume = read->io.segment - scope->spans[0].segment_base;
	uint32_t block = (uint32_t)(read->io.offset_bytes / CLEAVE_BLOCK_BYTES);

	assert(index < read->session->volume.scope.span_count);
	return mt_index_chunk(read->shard->block_index,
	    mt_chunk_number(scope->spans[index].segment_base + in_volume, block));
}

static void
paint(const struct status_window *window, uint32_t block, uint32_t block_count, uint8_t flags)
{
	uint32_t from = (uint32_t)num_max(block, window->first);
	uint32_t to = (uint32_t)num_min(block + block_count, window->first + window->count);

	assert(window->count > 0);
	assert(window->count <= READ_STATUS_BLOCKS_MAX);
	if (from < to)
		memset(window->flags + (from - window->first), flags & window->mask, to - from);
}

static void
paint_run(const struct status_window *window, const struct mt_run_index *index)
{
	const struct mt_frame *frames = index->frames;
	uint32_t at;

	assert(index != NULL); /* status_unloaded has found none without */
	/* The first frame that ends behind the window's beginning. */
	SEARCH_FIRST(at, index->frame_count,
	    frames[at].block + frames[at].block_count <= window->first);
	for (; at < index->frame_count; at++) {
		const struct mt_frame *frame = &frames[at];

		if (frame->block >= window->first + window->count)
			return;
		paint(window, frame->block, frame->block_count, status_flags(frame->record_kind));
	}
}

static void
paint_layer(const struct status_window *window, const struct mt_layer *layer)
{
	if (layer->hides_all)
		paint(window, window->first, window->count, status_flags(layer->hides_kind));
	for (uint32_t i = 0; i < window->count; i++) {
		const struct mt_location *location =
		    mt_memtable_get(&layer->table, window->first + i);

		if (location != NULL)
			window->flags[i] = status_flags(location->record_kind) & window->mask;
	}
}

static void
paint_chunk(const struct status_window *window, const struct mt_chunk *chunk,
    const struct mt_span *span)
{
	const struct loop_link *link;

	for (link = chunk->runs.prev; link != &chunk->runs; link = link->prev) {
		const struct mt_run *run = LIST_ENTRY(link, struct mt_run, link);

		if (span_shows(span, run->cut))
			paint_run(window, run->index);
	}
	for (link = chunk->layers.prev; link != &chunk->layers; link = link->prev) {
		const struct mt_layer *layer = LIST_ENTRY(link, struct mt_layer, link);

		if (span_shows(span, layer->cut))
			paint_layer(window, layer);
	}
}

/* ---- answering ---- */

/* A run that counts, and whose index is not in memory; NULL: there is none. *@ret_is_known: any chunk is. */
static struct mt_run *
status_unloaded(const struct mt_read *read, bool *ret_is_known)
{
	const struct mt_scope *scope = &read->session->volume.scope;

	assert(scope->span_count >= 1);
	*ret_is_known = false;
	for (uint32_t i = 0; i < scope->span_count; i++) {
		struct mt_chunk *chunk = status_chunk(read, i);

		if (chunk == NULL)
			continue;
		*ret_is_known = true;
		for (struct loop_link *link = chunk->runs.next; link != &chunk->runs;
		     link = link->next) {
			struct mt_run *run = LIST_ENTRY(link, struct mt_run, link);

			if (run->index == NULL && span_shows(&scope->spans[i], run->cut))
				return run;
		}
	}
	return NULL;
}

/* The entries' bytes. */
static uint32_t
status_encode(const struct status_window *window, uint8_t *entries)
{
	uint32_t bytes = 0;

	assert(window->count <= READ_STATUS_BLOCKS_MAX);
	for (uint32_t at = 0; at < window->count;) {
		struct wire_status status = { .flags = window->flags[at] };

		do {
			status.block_count++;
			at++;
		} while (at < window->count && window->flags[at] == status.flags);
		wire_status_encode(entries + bytes, &status);
		bytes += WIRE_STATUS_ENTRY_BYTES;
	}
	return bytes;
}

static uint32_t
status_fill(const struct mt_read *read, uint8_t *entries, uint8_t *flags)
{
	const struct mt_scope *scope = &read->session->volume.scope;
	uint64_t first = read->io.offset_bytes / CLEAVE_BLOCK_BYTES;
	const struct status_window window = {
		.first = (uint32_t)(first % CLEAVE_CHUNK_BLOCKS),
		.count = (uint32_t)num_min(read->block_count, READ_STATUS_BLOCKS_MAX),
		.flags = flags,
		.mask = read->session->volume.is_difference ? 0 : UINT8_MAX,
	};

	assert(read->block_count > 0);
	assert(read->io.offset_bytes % CLEAVE_CHUNK_BYTES + read->io.length_bytes <=
	    CLEAVE_CHUNK_BYTES);
	memset(flags, status_flags(RECORD_DISCARD), window.count);
	for (uint32_t i = scope->span_count; i-- > 0;) {
		struct mt_chunk *chunk = status_chunk(read, i);

		if (chunk != NULL)
			paint_chunk(&window, chunk, &scope->spans[i]);
	}
	return status_encode(&window, entries);
}

static void
status_on_index(int rc, void *arg)
{
	struct mt_read *read = arg;

	assert(read->io.opcode == WIRE_BLOCK_STATUS);
	if (rc == 0 && loop_now_ns(read->shard->port->loop) >= read->deadline_ns)
		rc = -EHOSTDOWN; /* indexes go as fast as they come: the client asks again */
	if (read->shard->write->is_stopped)
		mt_read_on_status(read, -EREMCHG);
	else if (rc == 0 || rc == -ESTALE)
		mt_read_status(read);
	else
		mt_read_on_status(read, rc == -EBADMSG ? -EIO : rc);
}

void
mt_read_status(struct mt_read *read)
{
	struct mt_port *port = read->shard->port;
	uint8_t *entries = port->read->status_entries;
	bool is_known;
	struct mt_run *run = status_unloaded(read, &is_known);

	assert(read->io.opcode == WIRE_BLOCK_STATUS);
	assert(read->sm.state == READ_RUNNING);
	if (run != NULL) {
		read->waiter.fn = status_on_index;
		read->waiter.arg = read;
		mt_run_load(run, &read->waiter);
		return;
	}
	if (is_known) {
		read->payload_bytes = status_fill(read, entries, entries + READ_STATUS_BYTES_MAX);
	} else {
		/* The same is true of all of it, however much that is. */
		wire_status_encode(entries,
		    &(struct wire_status){ read->block_count, status_flags(RECORD_DISCARD) });
		read->payload_bytes = WIRE_STATUS_ENTRY_BYTES;
	}
	read->payload_crc = crc32c(0, entries, read->payload_bytes);
	dev_copy_from_host(port->split, read->msg->payload, entries, read->payload_bytes);
	mt_read_on_status(read, 0);
}
