/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hidden.c -- which records nobody sees any more, though their volume lives: behind a roll-back
 *
 * A volume that was rolled back to snapshot n, when the newest was m, has a gap in its scope: what has
 * cuts from n to m. Snapshots of that time still show it, up to the newest of them that is left; what is
 * above is hidden for ever, for a new scope only ever shows what another one shows. That is so in the
 * store of one moment: drop.c asks whether the tables still are that (the key "cluster").
 */
#include "catalog/hidden.h"
#include "base/check.h"
#include "base/num.h"
#include "catalog/numbers.h"
#include "catalog/scope.h"
#include "catalog/volume_table.h"

/* From where on nobody sees what lies between @hidden's cuts. */
static uint64_t
scope_covers(const struct mt_scope *scope, const struct mt_hidden *hidden, uint64_t from)
{
	assert(from >= hidden->cut_from);
	for (uint32_t i = 0; i < scope->span_count; i++) {
		const struct mt_span *span = &scope->spans[i];

		if (span->segment_base == hidden->segment_base &&
		    span->cut_from < hidden->cut_below && span->cut_below > from)
			from = span->cut_below;
	}
	return from;
}

static uint64_t
volumes_cover(const struct mt_volumes *volumes, const struct mt_hidden *hidden)
{
	uint64_t from = hidden->cut_from, before;

	assert(hidden->cut_from < hidden->cut_below);
	do {
		before = from;
		for (uint32_t i = 0; i < volumes->count; i++)
			from = scope_covers(&volumes->entries[i].volume.scope, hidden, from);
		for (uint32_t i = 0; i < volumes->snapshots.count; i++) {
			const struct mt_snapshot *snapshot =
			    &volumes->snapshots.entries[i].snapshot;

			if (snapshot->state != MT_SNAPSHOT_DELETED)
				from = scope_covers(&snapshot->scope, hidden, from);
		}
	} while (from != before);
	return from;
}

/* The gap between the @index-th span of @volume's and the one beneath it; false: there is none. */
static bool
volume_gap(const struct mt_volume *volume, uint32_t index, struct mt_hidden *ret_hidden)
{
	const struct mt_span *span = &volume->scope.spans[index];

	assert(index < volume->scope.span_count);
	if (index + 1 >= volume->scope.span_count || span->segment_base != volume->segment_base ||
	    span[1].segment_base != volume->segment_base || span[1].cut_below >= span->cut_from)
		return false;
	*ret_hidden = (struct mt_hidden){ .segment_base = volume->segment_base,
		.segment_count = MT_VOLUME_SEGMENTS,
		.cut_from = span[1].cut_below,
		.cut_below = span->cut_from };
	return true;
}

uint32_t
mt_hidden_find(const struct mt_volumes *volumes, uint32_t *at, struct mt_hidden *ret_hidden,
    uint32_t max)
{
	uint32_t count = 0;

	if (volumes->is_incomplete || volumes->snapshots.is_incomplete)
		return 0;
	for (uint32_t i = *at; i < volumes->count; i++) {
		const struct mt_volume *volume = &volumes->entries[i].volume;

		/* A volume has a gap less than spans, at most. */
		if (count > 0 && count + volume->scope.span_count > max) {
			*at = i;
			return count;
		}
		for (uint32_t k = 0; k < volume->scope.span_count && count < max; k++) {
			struct mt_hidden *hidden = &ret_hidden[count];

			if (!volume_gap(volume, k, hidden))
				continue;
			hidden->cut_from = volumes_cover(volumes, hidden);
			count += hidden->cut_from < hidden->cut_below;
		}
	}
	assert(count <= max);
	*at = 0;
	return count;
}
