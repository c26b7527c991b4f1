/* SPDX-License-Identifier: Apache-2.0 */
/* scope.h -- which records of which cuts a reader of a volume or snapshot sees */
#ifndef CLEAVE_MIDDLETIER_CATALOG_SCOPE_H
#define CLEAVE_MIDDLETIER_CATALOG_SCOPE_H

#include <stdbool.h>
#include <stdint.h>

#define MT_SPANS_MAX 16u /* clones of clones, and roll-backs, go as deep */

/* The records in a volume's segments whose cut is at least cut_from and below cut_below. */
struct mt_span {
	uint64_t segment_base;
	uint64_t cut_from, cut_below;
};

/* mt_span_shows -- a record of cut @cut, if it is of the span's segments. */
static inline bool
mt_span_shows(const struct mt_span *span, uint64_t cut)
{
	return cut >= span->cut_from && cut < span->cut_below;
}

struct mt_scope {
	uint32_t span_count;                /* 0: not set */
	struct mt_span spans[MT_SPANS_MAX]; /* newest first; [0] is where a volume is written */
};

/* mt_scope_init -- of a volume that is nobody's clone: all that is in its segments. */
static inline void
mt_scope_init(struct mt_scope *scope, uint64_t segment_base)
{
	scope->span_count = 1;
	scope->spans[0] = (struct mt_span){ segment_base, 0, UINT64_MAX };
}

/* mt_scope_is_plain -- as mt_scope_init has left it, or not set at all. */
bool mt_scope_is_plain(const struct mt_scope *scope, uint64_t segment_base);
/* mt_scope_check -- NULL, or what is wrong with it as the scope of something at @segment_base. */
const char *mt_scope_check(const struct mt_scope *scope, uint64_t segment_base);
/* mt_scope_names -- is cut @number where one of its spans begins or ends? */
bool mt_scope_names(const struct mt_scope *scope, uint64_t number);
/* mt_scope_before -- what snapshot @number, above all that @scope names, of a volume with @scope sees. */
void mt_scope_before(const struct mt_scope *scope, uint64_t number, struct mt_scope *ret_scope);
/*
 * mt_scope_difference -- what one of @a and @b sees and the other does not
 *
 * As a scope of something at @segment_base: a block that it shows may differ between the two, no other does.
 * -E2BIG: more than MT_SPANS_MAX spans.
 */
int mt_scope_difference(const struct mt_scope *a, const struct mt_scope *b, uint64_t segment_base,
    struct mt_scope *ret_scope);
/*
 * mt_scope_above -- a volume that is written in @segment_base from cut @number on, over what @below sees
 *
 * A clone, with number 0; a volume that is rolled back. -E2BIG: more than MT_SPANS_MAX spans.
 */
int mt_scope_above(uint64_t segment_base, uint64_t number, const struct mt_scope *below,
    struct mt_scope *ret_scope);
/*
 * mt_scope_tail -- the first span behind all of the segments at @segment_base: what a clone there was made from
 *
 * span_count: there is none behind them, or @scope does not name them, or not from cut 0 on.
 */
uint32_t mt_scope_tail(const struct mt_scope *scope, uint64_t segment_base);
/* mt_scope_cut_tail -- without it. False: there is none. */
bool mt_scope_cut_tail(struct mt_scope *scope, uint64_t segment_base);

#endif /* CLEAVE_MIDDLETIER_CATALOG_SCOPE_H */
