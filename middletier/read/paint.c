/* SPDX-License-Identifier: Apache-2.0 */
/*
 * paint.c -- what a scope shows of a range, painted: span by span, run by run, layer by layer, the oldest first
 *
 * The range lies in one chunk. A canvas gets strokes; where two meet, the later one lies above. Indexes of runs that are
 * not in memory are waited for first, whole: nearly all frames will be asked for.
 */
#include "read/paint.h"

#include <errno.h>

#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "base/search.h"
#include "catalog/scope.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "common/port.h"
#include "common/shard.h"
#include "index/index.h"
#include "index/memtable.h"
#include "index/run_index.h"
#include "index/run_load.h"
#include "read/read_path.h"
#include "session/session.h"
#include "write/write_path.h"

/* The chunk of span @index in which the read's blocks are; NULL: nothing is known of it. */
static struct mt_chunk *
paint_chunk_of(const struct mt_read *read, uint32_t index)
{
	const struct mt_scope *scope = &read->session->volume.scope;
	uint64_t in_volume = read->io.segment - scope->spans[0].segment_base;
	uint32_t block = (uint32_t)(read->io.offset_bytes / CLEAVE_BLOCK_BYTES);

	assert(index < scope->span_count);
	return mt_index_chunk(read->shard->block_index,
	    mt_chunk_number(scope->spans[index].segment_base + in_volume, block));
}

/* ---- painting ---- */

/* The blocks of the chunk that are painted. */
struct paint_window {
	uint32_t first, end;
	struct read_canvas *canvas;
};

/* @stroke's place is in the chunk: the part of it that is within the window. */
static void
paint(const struct paint_window *window, struct read_stroke stroke)
{
	uint32_t from = (uint32_t)num_max(stroke.at, window->first);
	uint32_t to = (uint32_t)num_min(stroke.at + stroke.count, window->end);

	if (from >= to)
		return;
	stroke.at = from - window->first;
	stroke.count = to - from;
	window->canvas->paint(window->canvas, &stroke);
}

static void
paint_run(const struct paint_window *window, const struct mt_run_index *index)
{
	const struct mt_frame *frames = index->frames;
	uint32_t at;

	assert(index != NULL); /* paint_unloaded has found none without */
	/* The first frame that ends behind the window's beginning. */
	SEARCH_FIRST(at, index->frame_count,
	    frames[at].block + frames[at].block_count <= window->first);
	for (; at < index->frame_count && frames[at].block < window->end; at++)
		paint(window,
		    (struct read_stroke){ frames[at].block, frames[at].block_count,
			frames[at].record_kind, index, &frames[at] });
}

static void
paint_layer(const struct paint_window *window, const struct mt_layer *layer)
{
	if (layer->hides_all)
		paint(window,
		    (struct read_stroke){ .at = window->first,
			.count = window->end - window->first,
			.record_kind = layer->hides_kind });
	for (uint32_t block = window->first; block < window->end; block++) {
		const struct mt_location *location = mt_memtable_get(&layer->table, block);

		if (location != NULL)
			paint(window,
			    (struct read_stroke){ .at = block,
				.count = 1,
				.record_kind = location->record_kind });
	}
}

static void
paint_chunk(const struct paint_window *window, const struct mt_chunk *chunk,
    const struct mt_span *span)
{
	const struct loop_link *link;

	for (link = chunk->runs.prev; link != &chunk->runs; link = link->prev) {
		const struct mt_run *run = LIST_ENTRY(link, struct mt_run, link);

		if (mt_span_shows(span, run->cut))
			paint_run(window, run->index);
	}
	for (link = chunk->layers.prev; link != &chunk->layers; link = link->prev) {
		const struct mt_layer *layer = LIST_ENTRY(link, struct mt_layer, link);

		if (mt_span_shows(span, layer->cut))
			paint_layer(window, layer);
	}
}

void
mt_read_paint(const struct mt_read *read, struct read_canvas *canvas)
{
	const struct mt_scope *scope = &read->session->volume.scope;
	struct paint_window window = { .canvas = canvas };

	assert(canvas->count > 0 && canvas->count <= read->block_count);
	assert(read->io.offset_bytes % CLEAVE_CHUNK_BYTES + read->io.length_bytes <=
	    CLEAVE_CHUNK_BYTES);
	window.first = mt_block_in_chunk((uint32_t)(read->io.offset_bytes / CLEAVE_BLOCK_BYTES));
	window.end = window.first + canvas->count;
	for (uint32_t i = scope->span_count; i-- > 0;) {
		struct mt_chunk *chunk = paint_chunk_of(read, i);

		if (chunk != NULL)
			paint_chunk(&window, chunk, &scope->spans[i]);
	}
}

/* ---- waiting ---- */

/* A run that counts, and whose index is not in memory; NULL: there is none. *@ret_is_known: any chunk is. */
static struct mt_run *
paint_unloaded(const struct mt_read *read, bool *ret_is_known)
{
	const struct mt_scope *scope = &read->session->volume.scope;

	assert(scope->span_count >= 1);
	*ret_is_known = false;
	for (uint32_t i = 0; i < scope->span_count; i++) {
		struct mt_chunk *chunk = paint_chunk_of(read, i);

		if (chunk == NULL)
			continue;
		*ret_is_known = true;
		for (struct loop_link *link = chunk->runs.next; link != &chunk->runs;
		     link = link->next) {
			struct mt_run *run = LIST_ENTRY(link, struct mt_run, link);

			if (run->index == NULL && mt_span_shows(&scope->spans[i], run->cut))
				return run;
		}
	}
	return NULL;
}

static void
paint_on_index(int rc, void *arg)
{
	struct mt_read *read = arg;

	assert(read->sm.state == READ_RUNNING);
	if (rc == 0 && loop_now_ns(read->shard->port->loop) >= read->deadline_ns)
		rc = -EHOSTDOWN; /* indexes go as fast as they come: the client asks again */
	if (read->shard->write->is_stopped)
		mt_read_on_painted(read, -EREMCHG);
	else if (rc == 0 || rc == -ESTALE)
		mt_read_again(read);
	else
		mt_read_on_painted(read, rc == -EBADMSG ? -EIO : rc);
}

bool
mt_read_paint_is_ready(struct mt_read *read, bool *ret_is_known)
{
	struct mt_run *run = paint_unloaded(read, ret_is_known);

	assert(read->sm.state == READ_RUNNING);
	if (run == NULL)
		return true;
	read->waiter.fn = paint_on_index;
	read->waiter.arg = read;
	mt_run_load(run, &read->waiter);
	return false;
}
