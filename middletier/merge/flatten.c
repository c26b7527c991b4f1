/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flatten.c -- see flatten.h
 *
 *	          ask: another clone                 copied          nothing left
 *	no clone ------------------> at chunk "next" ------> "next" ------------> done: ask answers 0
 *	    ^                             |   ^                 |
 *	    +------- ask: none -----------+   +-----------------+
 *
 * Chunks are copied in the order of their numbers. After a take-over it begins anew, and passes over those whose
 * oldest run is a copy: its flushed_sequence is 0, which no flush has. A copy that was merged with runs above it is
 * made once more, which changes nothing that is read.
 */
#include "merge/flatten.h"

#include <errno.h>
#include <inttypes.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/num.h"
#include "catalog/numbers.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "common/port.h"
#include "common/replica.h"
#include "common/settings.h"
#include "common/shard.h"
#include "extent/node_link.h"
#include "index/index.h"
#include "manifest/manifest_room.h"
#include "merge/merge.h"
#include "merge/reclaim_room.h"

#define FLATTEN_LEVEL 2 /* of zstd: what is copied is likely to stay */
#define FLATTEN_RETRY_NS NUM_S(5)
#define FLATTEN_FREE_SHARE                                                                         \
	20u /* of a node's slots one in so many stays free, beside what it keeps back */
#define FLATTEN_NONE UINT64_MAX

int
mt_flatten_ask(struct flatten *flatten, const struct mt_scope *scope)
{
	bool is_same = scope != NULL && flatten->scope.span_count > 0 &&
	    flatten->scope.spans[0].segment_base == scope->spans[0].segment_base;

	assert(scope == NULL || scope->span_count > 0);
	if (is_same && !flatten->is_off)
		return flatten->is_done ? 0 : -EAGAIN;
	if (flatten->is_copying) {
		flatten->is_off = true; /* the next that asks begins */
		return scope == NULL ? 0 : -EAGAIN;
	}
	*flatten = (struct flatten){ .is_done = false };
	if (scope == NULL)
		return 0;
	flatten->scope = *scope;
	return -EAGAIN;
}

/* ---- which chunk ---- */

/* Stored bytes that @span shows of @chunk: no more than are copied of it. */
static uint64_t
chunk_bytes(const struct mt_chunk *chunk, const struct mt_span *span)
{
	uint64_t bytes = 0;

	for (const struct loop_link *link = chunk->layers.next; link != &chunk->layers;
	     link = link->next) {
		const struct mt_layer *layer = NUM_CONTAINER_OF(link, struct mt_layer, link);

		if (mt_span_shows(span, layer->cut))
			bytes += layer->stored_bytes;
	}
	for (const struct loop_link *link = chunk->runs.next; link != &chunk->runs;
	     link = link->next) {
		const struct mt_run *run = NUM_CONTAINER_OF(link, struct mt_run, link);

		if (mt_span_shows(span, run->cut))
			bytes += run->length_bytes;
	}
	return num_min(bytes, CLEAVE_CHUNK_BYTES);
}

static bool
chunk_shows(const struct mt_chunk *chunk, const struct mt_span *span)
{
	for (const struct loop_link *link = chunk->layers.next; link != &chunk->layers;
	     link = link->next) {
		const struct mt_layer *layer = NUM_CONTAINER_OF(link, struct mt_layer, link);

		if (!mt_layer_is_empty(layer) && mt_span_shows(span, layer->cut))
			return true;
	}
	for (const struct loop_link *link = chunk->runs.next; link != &chunk->runs;
	     link = link->next) {
		if (mt_span_shows(span, NUM_CONTAINER_OF(link, struct mt_run, link)->cut))
			return true;
	}
	return false;
}

/* Is the oldest run of the clone's chunk a copy of what lies behind? */
static bool
chunk_is_copied(const struct mt_index *index, uint64_t number)
{
	const struct mt_chunk *chunk = mt_index_chunk(index, number);

	return chunk != NULL && !list_is_empty(&chunk->runs) &&
	    NUM_CONTAINER_OF(chunk->runs.prev, struct mt_run, link)->flushed_sequence == 0;
}

/* The clone's chunk that shows what @chunk has in @span; FLATTEN_NONE: none does. */
static uint64_t
target_of(const struct mt_scope *scope, const struct mt_chunk *chunk, const struct mt_span *span)
{
	uint64_t first = span->segment_base * CLEAVE_SEGMENT_CHUNKS;

	assert(scope->span_count > 0);
	if (chunk->number < first ||
	    chunk->number - first >= (uint64_t)MT_VOLUME_SEGMENTS * CLEAVE_SEGMENT_CHUNKS)
		return FLATTEN_NONE;
	return scope->spans[0].segment_base * CLEAVE_SEGMENT_CHUNKS + chunk->number - first;
}

void
mt_flatten_count(const struct mt_scope *scope, const struct mt_index *index,
    struct mt_flatten_share *share)
{
	uint32_t tail = mt_scope_tail(scope, scope->spans[0].segment_base);

	if (tail == scope->span_count)
		return;
	for (const struct loop_link *at = index->chunks.next; at != &index->chunks; at = at->next) {
		const struct mt_chunk *chunk = NUM_CONTAINER_OF(at, struct mt_chunk, link);

		for (uint32_t i = tail; i < scope->span_count; i++) {
			uint64_t target = target_of(scope, chunk, &scope->spans[i]);
			uint64_t bytes =
			    target == FLATTEN_NONE ? 0 : chunk_bytes(chunk, &scope->spans[i]);

			share->bytes += bytes;
			if (bytes > 0 && chunk_is_copied(index, target))
				share->copied_bytes += bytes;
		}
	}
}

/* Stored bytes that a copy of chunk @target reads. */
static uint64_t
target_bytes(const struct mt_scope *scope, const struct mt_index *index, uint64_t target)
{
	uint64_t base = scope->spans[0].segment_base, bytes = 0;

	for (uint32_t i = mt_scope_tail(scope, base); i < scope->span_count; i++) {
		const struct mt_chunk *chunk = mt_index_chunk(index,
		    scope->spans[i].segment_base * CLEAVE_SEGMENT_CHUNKS + target -
			base * CLEAVE_SEGMENT_CHUNKS);

		bytes += chunk == NULL ? 0 : chunk_bytes(chunk, &scope->spans[i]);
	}
	return bytes;
}

/* The first chunk from "next" on that is to be copied; FLATTEN_NONE: there is none. */
static uint64_t
next_target(const struct flatten *flatten, const struct mt_index *index)
{
	const struct mt_scope *scope = &flatten->scope;
	uint32_t tail = mt_scope_tail(scope, scope->spans[0].segment_base);
	uint64_t found = FLATTEN_NONE;

	for (const struct loop_link *at = index->chunks.next; at != &index->chunks; at = at->next) {
		const struct mt_chunk *chunk = NUM_CONTAINER_OF(at, struct mt_chunk, link);

		for (uint32_t i = tail; i < scope->span_count; i++) {
			uint64_t target = target_of(scope, chunk, &scope->spans[i]);

			if (target >= flatten->next && target < found &&
			    chunk_shows(chunk, &scope->spans[i]) && !chunk_is_copied(index, target))
				found = target;
		}
	}
	return found;
}

/* ---- whether now ---- */

bool
mt_flatten_has_room(const struct mt_port *port)
{
	return mt_port_has_free(port, FLATTEN_FREE_SHARE);
}

/* Layers that are shown take no more records. -ENOMEM. */
static int
freeze_shown(const struct flatten *flatten, const struct mt_index *index, uint64_t target)
{
	const struct mt_scope *scope = &flatten->scope;
	uint64_t base = scope->spans[0].segment_base;
	uint64_t in_volume = target - base * CLEAVE_SEGMENT_CHUNKS;

	for (uint32_t i = mt_scope_tail(scope, base); i < scope->span_count; i++) {
		const struct mt_span *span = &scope->spans[i];
		struct mt_chunk *chunk =
		    mt_index_chunk(index, span->segment_base * CLEAVE_SEGMENT_CHUNKS + in_volume);
		const struct mt_layer *active = chunk == NULL ? NULL : mt_chunk_active(chunk);

		if (active != NULL && !mt_layer_is_empty(active) &&
		    mt_span_shows(span, active->cut) && mt_index_freeze(chunk) != 0)
			return -ENOMEM;
	}
	return 0;
}

int
mt_flatten_find(struct flatten *flatten, const struct mt_shard *shard,
    struct mt_merge_input *ret_input)
{
	const struct mt_index *index = shard->block_index;
	uint64_t target;
	int rc;

	assert(!flatten->is_copying);
	if (flatten->scope.span_count == 0 || flatten->is_off || flatten->is_done ||
	    loop_now_ns(shard->port->loop) < flatten->retry_ns)
		return -ENOENT;
	if (mt_manifest_is_long(shard) || mt_reclaim_is_log_full(shard) ||
	    !mt_flatten_has_room(shard->port)) {
		flatten->retry_ns = loop_now_ns(shard->port->loop) + FLATTEN_RETRY_NS;
		return -ENOENT;
	}
	if (flatten->began_ns == 0)
		flatten->began_ns = loop_now_ns(shard->port->loop);
	target = next_target(flatten, index);
	flatten->is_done = target == FLATTEN_NONE;
	if (flatten->is_done)
		return -ENOENT;
	flatten->copying_bytes = target_bytes(&flatten->scope, index, target);
	rc = freeze_shown(flatten, index, target);
	*ret_input = (struct mt_merge_input){ .from = &flatten->scope,
		.target = target,
		.key_id = flatten->key_id,
		.level = FLATTEN_LEVEL,
		.is_hot = shard->port->settings->run_codec == MT_RUN_CODEC_LZ4 };
	return rc;
}

uint64_t
mt_flatten_bytes_s(const struct flatten *flatten, uint64_t now_ns)
{
	if (flatten->began_ns == 0 || flatten->is_done || flatten->is_off)
		return 0;
	return flatten->copied_bytes * 1000 / num_max(1, (now_ns - flatten->began_ns) / NUM_MS(1));
}

/* ---- what became of it ---- */

void
mt_flatten_began(struct flatten *flatten)
{
	assert(!flatten->is_copying && flatten->scope.span_count > 0);
	flatten->is_copying = true;
}

void
mt_flatten_ended(struct flatten *flatten, const struct mt_shard *shard, uint64_t target, int rc)
{
	assert(flatten->is_copying && target >= flatten->next);
	flatten->is_copying = false;
	if (rc == 0) {
		flatten->next = target + 1;
		flatten->copied_bytes += flatten->copying_bytes;
		return;
	}
	flatten->retry_ns = loop_now_ns(shard->port->loop) + FLATTEN_RETRY_NS;
	if (rc == -E2BIG)
		log_limited(LOG_WARN,
		    "shard %" PRIu32
		    ": a clone's chunk shows too many runs of its origin to be flattened chunk=%" PRIu64
		    ": delete snapshots of the origin, or copy the clone (cleave export, cleave import)",
		    shard->index, target);
}
