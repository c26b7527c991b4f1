/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compact.h -- compact.c's share of flush.c's work: what the runs of a shard come to, and which of them
 * are worth a merge
 *
 * A *group* is the runs of a chunk between two cuts that matter to it: what may be merged.
 */
#ifndef CLEAVE_MIDDLETIER_MERGE_COMPACT_H
#define CLEAVE_MIDDLETIER_MERGE_COMPACT_H

#include <stdbool.h>
#include <stdint.h>

struct mt_chunk;
struct mt_index;
struct mt_run;
struct mt_shard;
struct tiers_total;

#define COMPACT_RUNS_MAX 110u       /* of a group that are looked at, the newest */
#define COMPACT_GENERATIONS_MAX 64u /* runs that one merge made are one generation */

struct compact_group {
	struct mt_run *newest, *oldest;          /* NULL: there is none */
	uint64_t bytes[COMPACT_GENERATIONS_MAX]; /* newest first */
	uint32_t generation_count, run_count;
	uint64_t live_bytes;
	bool is_merging; /* a part of it; or it is no group, but a part of a split generation */
	bool is_split;   /* its only generation goes on behind it */
};

/* mt_compact_group_from -- the group whose newest run is @newest. */
void mt_compact_group_from(const struct mt_index *index, struct mt_run *newest,
    struct compact_group *ret_group);
/* mt_compact_group_of -- the one that @run is in. */
void mt_compact_group_of(const struct mt_index *index, struct mt_run *run,
    struct compact_group *ret_group);
/* mt_compact_group_run -- the last run of its @count newest generations. */
struct mt_run *mt_compact_group_run(const struct compact_group *group, uint32_t count);
/* mt_compact_count -- the live bytes of @chunk's groups anew, where all indexes are loaded. */
void mt_compact_count(const struct mt_index *index, struct mt_chunk *chunk);
/*
 * mt_compact_scan -- the shard's total, and the newest run of the group with the most garbage
 *
 * Of a thousand live bytes, *@ret_garbage.
 *
 * NULL: none has any. Groups that are being merged, or whose chunk failed lately, are not offered; nor are those in which a
 * stream goes on behind @stream_sequence (stream.h), which count as live.
 */
struct mt_run *mt_compact_scan(const struct mt_shard *shard, uint64_t stream_sequence,
    struct tiers_total *ret_total, uint32_t *ret_garbage);
/*
 * mt_compact_hole -- a run in the extent of which the most is dead
 *
 * NULL: none is worth it, or their groups are at work, or such a stream goes on in them.
 */
struct mt_run *mt_compact_hole(const struct mt_shard *shard, uint64_t stream_sequence);
/* mt_compact_crowded -- the newest run of the group with the most generations; NULL: none has two. */
struct mt_run *mt_compact_crowded(const struct mt_shard *shard);
/*
 * mt_compact_hasty -- a run made in haste, of a chunk that is to a good part so, by flushes before @sequence alone
 *
 * NULL: there is none whose group is not at work, and not put off.
 */
struct mt_run *mt_compact_hasty(const struct mt_shard *shard, uint64_t sequence);
/* mt_compact_hidden -- one that nobody sees; NULL: there is none whose group is not at work, and not put off. */
struct mt_run *mt_compact_hidden(const struct mt_shard *shard);

#endif /* CLEAVE_MIDDLETIER_MERGE_COMPACT_H */
