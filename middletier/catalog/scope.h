/* SPDX-License-Identifier: Apache-2.0 */
/* scope.h -- which records of which cuts a reader of a volume or snapshot sees */
#ifndef CLEAVE_MIDDLETIER_CATALOG_SCOPE_H
#define CLEAVE_MIDDLETIER_CATALOG_SCOPE_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/wire.h"

/*
 * Volumes' ids, numbers of snapshots, attaches, and sequences of records count up from 1. Nothing comes to this by
 * counting; what is read and lies above it is damage, or another version's, and would wrap.
 */
#define MT_NUMBER_MAX ((UINT64_C(1) << 60) - 1)
#define MT_ROOTS_MAX                                                                               \
	(UINT64_C(1) << 32) /* of segments; each volume has MT_VOLUME_SEGMENTS of its own */
/* mt_segments_exist -- are @count segments from @base on all ids of segments, of one volume or clone? */
static inline bool
mt_segments_exist(uint64_t base, uint64_t count)
{
	return base >> 32 <= CLEAVE_CLONE_MAX && count <= MT_ROOTS_MAX &&
	    wire_segment_root(base) + count <= MT_ROOTS_MAX;
}

#define MT_SPANS_MAX 16u /* clones of clones, and roll-backs, go as deep */

/* The records in a volume's segments whose cut is at least cut_from and below cut_below. */
struct mt_span {
	uint64_t segment_base;
	uint64_t cut_from, cut_below;
};

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

/* Records that nobody sees, and nobody will: of these segments, with a cut in between. */
struct mt_hidden {
	uint64_t segment_base;
	uint32_t segment_count;
	uint64_t cut_from, cut_below;
};
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

/* Every volume is given as many roots of segments, so that it can grow in place. */
#define MT_VOLUME_SEGMENTS ((uint32_t)(CLEAVE_VOLUME_BYTES_MAX / CLEAVE_SEGMENT_BYTES))

enum mt_snapshot_state {
	MT_SNAPSHOT_PENDING, /* being taken, or given up in the middle */
	MT_SNAPSHOT_LIVE,
	MT_SNAPSHOT_DELETED, /* or never was: its cut may still matter to a volume's scope */
	MT_SNAPSHOT_STATE_NR
};

struct mt_snapshot {
	uint64_t number; /* of the cut */
	char name[CLEAVE_VOLUME_NAME_BYTES_MAX + 1];
	uint64_t volume_id;
	uint64_t size_bytes;
	uint64_t segment_base;
	uint32_t segment_count;
	uint64_t created_s; /* by the clock on the wall; DELETED and 0: it came to nothing */
	enum mt_snapshot_state state;
	uint32_t clone_count;
	struct mt_scope scope;
};
/*
 * The volume id by which a client names a snapshot in its hello, with 1 as its attach; or the difference
 * between the snapshot that is its attach less 1 and that one, or a volume as it is now.
 */
#define MT_SNAPSHOT_ID (UINT64_C(1) << 62)
#define MT_SNAPSHOT_OF_VOLUME (UINT64_C(1) << 61)

#endif /* CLEAVE_MIDDLETIER_CATALOG_SCOPE_H */
