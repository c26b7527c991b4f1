/* SPDX-License-Identifier: Apache-2.0 */
/* reclaim.h -- extents that hold nothing any more are deleted; room, and who must wait for it */
#ifndef CLEAVE_MIDDLETIER_MERGE_RECLAIM_H
#define CLEAVE_MIDDLETIER_MERGE_RECLAIM_H

#include <stdbool.h>
#include <stdint.h>

struct mt_shard;

/*
 * mt_reclaim_kick -- layers or runs have gone: look which log extents (from the oldest on, those before
 * the oldest layer's first_extent) and which run extents (no run left, sealed) can go
 */
void mt_reclaim_kick(struct mt_shard *shard);
/*
 * mt_reclaim_is_log_full -- writes wait: the log or the layers' memory is beyond its hard limit, or no node
 * has room for a log extent. mt_reclaim_is_memory_full -- the layers' memory is: then tombstones wait, too.
 */
bool mt_reclaim_is_log_full(const struct mt_shard *shard);
/* mt_reclaim_is_log_spent -- what is kept beyond that for the latency class has gone, too. */
bool mt_reclaim_is_log_spent(const struct mt_shard *shard);
bool mt_reclaim_is_memory_full(const struct mt_shard *shard);
/* mt_reclaim_note_held -- a write was held back: the log is at its limit, or gets longer too fast. */
void mt_reclaim_note_held(struct mt_shard *shard);
/* mt_reclaim_holds_writes -- some were, not long ago. */
bool mt_reclaim_holds_writes(const struct mt_shard *shard);
/* mt_reclaim_pressure -- both against their limits, per mille (pace.h), were @gained_bytes of the log gone. */
uint32_t mt_reclaim_pressure(const struct mt_shard *shard, uint64_t gained_bytes);
/* mt_reclaim_left_bytes -- of the log's room before writes wait; of the layers', as a share of that, by @pressure. */
uint64_t mt_reclaim_left_bytes(const struct mt_shard *shard, uint32_t pressure);
/*
 * mt_reclaim_can_gain -- is there hope that extents will go without anybody's discarding anything?
 *
 * While there is, writes that find no room wait; else they are answered -ENOSPC. There is none when the
 * last merge has found no room for its runs, or nothing has gone for RECLAIM_HOPE_NS (reclaim.c).
 */
bool mt_reclaim_can_gain(const struct mt_shard *shard);
/* mt_reclaim_on_merge -- a merge of the shard has ended with @rc. */
void mt_reclaim_on_merge(struct mt_shard *shard, int rc);

/* mt_reclaim_init -- shard->reclaim, stopped. 0; -ENOMEM. mt_reclaim_fini -- in any state, also without init. */
int mt_reclaim_init(struct mt_shard *shard);
/* mt_reclaim_start -- the shard is SERVING. */
void mt_reclaim_start(struct mt_shard *shard);
/* mt_reclaim_stop -- before the manifest's. Nothing of it comes back behind that. */
void mt_reclaim_stop(struct mt_shard *shard);
void mt_reclaim_fini(struct mt_shard *shard);

#endif /* CLEAVE_MIDDLETIER_MERGE_RECLAIM_H */
