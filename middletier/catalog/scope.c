/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scope.c -- what a reader of a volume or a snapshot sees: spans of segments and cuts
 *
 * A record says the newest snapshot that its shard had been told of when it was batched: its cut. So the
 * records with a cut below n are those that snapshot n has. A scope lists, newest first, which segments'
 * records with which cuts are looked at for a block:
 *
 *	a volume                     {own, 0 ..}
 *	its snapshot 5               {own, 0 .. 5}
 *	a clone of that              {clone's, 0 ..} {own, 0 .. 5}
 *	the volume rolled back to 5,
 *	when the newest was 8        {own, 8 ..} {own, 0 .. 5}     what had cuts 5 to 7 is hidden
 */
#include <errno.h>

#include "base/check.h"
#include "catalog/numbers.h"
#include "catalog/scope.h"
#include "cleave/wire.h"

bool
mt_scope_is_plain(const struct mt_scope *scope, uint64_t segment_base)
{
	const struct mt_span *span = &scope->spans[0];

	assert(scope->span_count <= MT_SPANS_MAX);
	return scope->span_count == 0 ||
	    (scope->span_count == 1 && span->segment_base == segment_base && span->cut_from == 0 &&
		span->cut_below == UINT64_MAX);
}

const char *
mt_scope_check(const struct mt_scope *scope, uint64_t segment_base)
{
	if (scope->span_count == 0 || scope->span_count > MT_SPANS_MAX)
		return "span_count";
	if (scope->spans[0].segment_base != segment_base)
		return "segment_base of a span";
	for (uint32_t i = 0; i < scope->span_count; i++) {
		/* Chunks of all spans lie in the same shards. */
		if (wire_segment_root(scope->spans[i].segment_base) !=
		    wire_segment_root(segment_base))
			return "segment_base of a span";
		if (!mt_segments_exist(scope->spans[i].segment_base, 1))
			return "segment_base of a span";
		if (scope->spans[i].cut_from >= scope->spans[i].cut_below ||
		    (scope->spans[i].cut_below > MT_NUMBER_MAX &&
			scope->spans[i].cut_below != UINT64_MAX))
			return "cut_below of a span";
		if (scope->spans[i].cut_from > MT_NUMBER_MAX)
			return "cut_from of a span";
	}
	return NULL;
}

bool
mt_scope_names(const struct mt_scope *scope, uint64_t number)
{
	assert(scope->span_count <= MT_SPANS_MAX);
	for (uint32_t i = 0; i < scope->span_count; i++) {
		if (scope->spans[i].cut_from == number || scope->spans[i].cut_below == number)
			return true;
	}
	return false;
}

void
mt_scope_before(const struct mt_scope *scope, uint64_t number, struct mt_scope *ret_scope)
{
	assert(scope->span_count > 0);
	*ret_scope = *scope;
	assert(number > ret_scope->spans[0].cut_from);
	ret_scope->spans[0].cut_below = number;
}

int
mt_scope_above(uint64_t segment_base, uint64_t number, const struct mt_scope *below,
    struct mt_scope *ret_scope)
{
	struct mt_scope scope = { .span_count = 1 };

	assert(below->span_count <= MT_SPANS_MAX);
	assert(number < UINT64_MAX);
	if (below->span_count == MT_SPANS_MAX)
		return -E2BIG;
	scope.spans[0] = (struct mt_span){ segment_base, number, UINT64_MAX };
	for (uint32_t i = 0; i < below->span_count; i++)
		scope.spans[scope.span_count++] = below->spans[i];
	*ret_scope = scope;
	return 0;
}

uint32_t
mt_scope_tail(const struct mt_scope *scope, uint64_t segment_base)
{
	uint32_t tail = 0;

	assert(scope->span_count <= MT_SPANS_MAX);
	for (uint32_t i = 0; i < scope->span_count; i++) {
		if (scope->spans[i].segment_base == segment_base)
			tail = i + 1;
	}
	/* A copy of the tail lies at the clone's cut 0, below all that it holds. */
	return tail > 0 && scope->spans[tail - 1].cut_from == 0 ? tail : scope->span_count;
}

bool
mt_scope_cut_tail(struct mt_scope *scope, uint64_t segment_base)
{
	uint32_t tail = mt_scope_tail(scope, segment_base);

	assert(tail <= scope->span_count);
	if (tail == scope->span_count)
		return false;
	scope->span_count = tail;
	return true;
}

static bool
scope_sees(const struct mt_scope *scope, uint64_t segment_base, uint64_t cut)
{
	assert(scope->span_count <= MT_SPANS_MAX);
	for (uint32_t i = 0; i < scope->span_count; i++) {
		const struct mt_span *span = &scope->spans[i];

		if (span->segment_base == segment_base && cut >= span->cut_from &&
		    cut < span->cut_below)
			return true;
	}
	return false;
}

/* The first cut above @cut at which a span of these segments begins or ends. */
static uint64_t
scope_next(const struct mt_scope *scope, uint64_t segment_base, uint64_t cut, uint64_t next)
{
	assert(next > cut);
	for (uint32_t i = 0; i < scope->span_count; i++) {
		const struct mt_span *span = &scope->spans[i];

		if (span->segment_base != segment_base)
			continue;
		if (span->cut_from > cut && span->cut_from < next)
			next = span->cut_from;
		if (span->cut_below > cut && span->cut_below < next)
			next = span->cut_below;
	}
	return next;
}

static int
scope_add_difference(const struct mt_scope *a, const struct mt_scope *b, uint64_t segment_base,
    struct mt_scope *scope)
{
	assert(scope->span_count >= 1);
	for (uint64_t cut = 0, next; cut < UINT64_MAX; cut = next) {
		next =
		    scope_next(a, segment_base, cut, scope_next(b, segment_base, cut, UINT64_MAX));
		if (scope_sees(a, segment_base, cut) == scope_sees(b, segment_base, cut))
			continue;
		if (scope->span_count == MT_SPANS_MAX)
			return -E2BIG;
		scope->spans[scope->span_count++] = (struct mt_span){ segment_base, cut, next };
	}
	return 0;
}

static bool
scope_has(const struct mt_scope *scope, uint32_t before, uint64_t segment_base)
{
	assert(before <= scope->span_count);
	for (uint32_t i = 0; i < before; i++) {
		if (scope->spans[i].segment_base == segment_base)
			return true;
	}
	return false;
}

int
mt_scope_difference(const struct mt_scope *a, const struct mt_scope *b, uint64_t segment_base,
    struct mt_scope *ret_scope)
{
	assert(a->span_count <= MT_SPANS_MAX);
	assert(b->span_count <= MT_SPANS_MAX);
	/* The first span, which says where blocks are counted from, shows nothing. */
	struct mt_scope scope = { .span_count = 1, .spans = { { segment_base, 0, 0 } } };
	int rc = 0;

	for (uint32_t i = 0; i < a->span_count && rc == 0; i++) {
		if (!scope_has(a, i, a->spans[i].segment_base))
			rc = scope_add_difference(a, b, a->spans[i].segment_base, &scope);
	}
	for (uint32_t i = 0; i < b->span_count && rc == 0; i++) {
		uint64_t base = b->spans[i].segment_base;

		if (!scope_has(b, i, base) && !scope_has(a, a->span_count, base))
			rc = scope_add_difference(a, b, base, &scope);
	}
	if (rc == 0)
		*ret_scope = scope;
	return rc;
}
