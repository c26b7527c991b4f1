/* SPDX-License-Identifier: Apache-2.0 */
/* merge_result.c -- what an execution of a merge gives back: runs that were written, and what they say */
#include "merge/merge_result.h"

#include <stddef.h>

#include "base/check.h"
#include "extent/extent.h"
#include "extent/extent_copies.h"
#include "extent/extent_table.h"
#include "index/run_index.h"
#include "merge/merge_exec.h"
#include "merge/run_part.h"

void
mt_merge_suspects_take(struct merge_exec *exec, const struct mt_shard *shard)
{
	assert(exec->suspect_count <= MERGE_SUSPECTS_MAX);
	for (uint32_t i = 0; i < exec->suspect_count; i++) {
		const struct merge_suspect *suspect = &exec->suspects[i];
		struct mt_extent *extent = mt_shard_extent_named(shard, &suspect->id);

		if (extent != NULL)
			mt_extent_suspect(extent, suspect->node_id);
	}
	exec->suspect_count = 0;
}

void
mt_merge_result_take(struct merge_result *result, struct merge_exec *exec)
{
	struct run_writer *writer = &exec->writer;

	assert(mt_merge_exec_is_quiet(exec));
	assert(result->part_count == 0 || result->flushed_sequence == writer->flushed_sequence);
	assert(result->part_count + writer->part_count <= MERGE_PARTS_MAX);
	result->flushed_sequence = writer->flushed_sequence;
	result->read_bytes = exec->read_bytes;
	exec->read_bytes = 0;
	for (uint32_t i = 0; i < writer->part_count; i++) {
		uint32_t at = result->part_count++;

		result->indexes[at] = mt_run_part_take_index(writer, &writer->parts[i]);
		result->parts[at] = writer->parts[i];
	}
	writer->part_count = 0;
}

void
mt_merge_result_release(struct merge_result *result, const struct mt_shard *shard)
{
	for (uint32_t i = 0; i < result->part_count; i++) {
		struct mt_extent *extent = mt_shard_extent(shard, result->parts[i].extent_index);

		assert(extent != NULL);
		mt_extent_unuse(extent);
	}
	mt_merge_result_forget(result);
}

void
mt_merge_result_forget(struct merge_result *result)
{
	assert(result->part_count <= MERGE_PARTS_MAX);
	for (uint32_t i = 0; i < result->part_count; i++) {
		mt_run_index_free(result->indexes[i]);
		result->indexes[i] = NULL;
	}
	result->part_count = 0;
}
