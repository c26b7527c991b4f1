/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tiers.h -- the arithmetic of flush and compaction: what is worth a merge, and what it takes along
 *
 * No I/O and no objects, so that a model can run it (tests/unit/middletier/merge/test_tiers.c computes the amplification
 * that it comes to).
 */
#ifndef CLEAVE_MIDDLETIER_MERGE_TIERS_H
#define CLEAVE_MIDDLETIER_MERGE_TIERS_H

#include <stdbool.h>
#include <stdint.h>

#define TIERS_RUNS_MAX                                                                             \
	12u /* of a chunk, between two cuts, those of one merge counted once: more are merged */

#define TIERS_FULL_MAX_PER_MILLE                                                                   \
	1500u /* a chunk's garbage at which a flush takes all runs along, whatever the shard is like */

/* The totals of a shard's runs and their extents. */
struct tiers_total {
	uint64_t live_bytes;   /* of the newest versions, at least */
	uint64_t run_bytes;    /* of runs */
	uint64_t extent_bytes; /* of run extents: runs, and what is dead between them */
	uint64_t slot_bytes;
	bool has_stream; /* a chunk is being overwritten in order (stream.h), and nodes have room */
};

/* mt_tiers_is_dirty -- so much is garbage that flushes should take runs along. */
bool mt_tiers_is_dirty(const struct tiers_total *total);
/* mt_tiers_is_overdue -- so much that the worst chunk should be compacted. */
bool mt_tiers_is_overdue(const struct tiers_total *total);
/* mt_tiers_is_holey -- so much of the extents is dead that one of them should be cleared. */
bool mt_tiers_is_holey(const struct tiers_total *total);

/* The runs and layers of a chunk between two cuts that matter. */
struct tiers_group {
	const uint64_t *run_bytes; /* newest first */
	uint32_t run_count;
	uint64_t layer_bytes; /* what a flush brings; 0: none */
	uint64_t live_bytes;  /* of the runs' newest versions, at least; 0: not known */
};

/* mt_tiers_garbage -- dead bytes for each thousand live bytes of @group; may exceed 1000. */
uint32_t mt_tiers_garbage(const struct tiers_group *group);
/* mt_tiers_take -- how many of the newest runs a merge should take; @is_dirty: of the shard. */
uint32_t mt_tiers_take(const struct tiers_group *group, bool is_dirty);

#endif /* CLEAVE_MIDDLETIER_MERGE_TIERS_H */
