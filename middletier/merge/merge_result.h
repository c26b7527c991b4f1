/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge_result.h -- what an execution of a merge gives back: runs that were written, and what they say
 *
 * Whoever has executed, it is all that the deciding part hears of it, beside copies that did not pass: it is told of those
 * as they are met, for a merge that fails has met some, too.
 */
#ifndef CLEAVE_MIDDLETIER_MERGE_MERGE_RESULT_H
#define CLEAVE_MIDDLETIER_MERGE_MERGE_RESULT_H

#include <stdint.h>

#include "merge/run_writer.h"

struct merge_exec;
struct mt_run_index;
struct mt_shard;

struct merge_result {
	uint64_t flushed_sequence;              /* that the batches of all parts say */
	uint64_t read_bytes;                    /* from nodes */
	struct run_part parts[MERGE_PARTS_MAX]; /* in the order of their blocks */
	struct mt_run_index
	    *indexes[MERGE_PARTS_MAX]; /* of each part; NULL: nobody has it, a read loads it */
	uint32_t part_count;
};

/* mt_merge_result_bytes -- stored bytes of all its parts. */
static inline uint64_t
mt_merge_result_bytes(const struct merge_result *result)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < result->part_count; i++)
		bytes += result->parts[i].length_bytes;
	return bytes;
}

/* mt_merge_suspects_take -- copies that did not pass so far: @shard, whose extents they are of, has their nodes verify them. */
void mt_merge_suspects_take(struct merge_exec *exec, const struct mt_shard *shard);
/*
 * mt_merge_result_take -- all that @exec has written is at its replicas: it is @result's now, which was empty
 *
 * Extents of the parts stay in use (mt_extent_use) until mt_merge_result_release.
 */
void mt_merge_result_take(struct merge_result *result, struct merge_exec *exec);
/* mt_merge_result_release -- its parts are named in @shard, or never will be: it is empty, their extents may go. */
void mt_merge_result_release(struct merge_result *result, const struct mt_shard *shard);
/* mt_merge_result_forget -- the same, but the shard's extents go as well. */
void mt_merge_result_forget(struct merge_result *result);

#endif /* CLEAVE_MIDDLETIER_MERGE_MERGE_RESULT_H */
