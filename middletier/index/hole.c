/* SPDX-License-Identifier: Apache-2.0 */
/* hole.c -- chunks of which a scope has nothing: they read as zeros */
#include "index/hole.h"

#include "catalog/scope.h"
#include "cleave/wire.h"
#include "index/index.h"

bool
mt_chunk_is_hole(const struct mt_index *index, const struct mt_scope *scope, uint64_t segment,
    uint32_t block)
{
	uint64_t in_volume = segment - scope->spans[0].segment_base;

	assert(scope->span_count > 0);
	assert(scope->span_count <= MT_SPANS_MAX);
	for (uint32_t i = 0; i < scope->span_count; i++) {
		uint64_t in_span = scope->spans[i].segment_base + in_volume;

		if (mt_index_chunk(index, mt_chunk_number(in_span, block)) != NULL)
			return false;
	}
	return true;
}
