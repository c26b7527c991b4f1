/* SPDX-License-Identifier: Apache-2.0 */
/* reclaim.h -- extents that hold nothing any more are deleted */
#ifndef CLEAVE_MIDDLETIER_MERGE_RECLAIM_H
#define CLEAVE_MIDDLETIER_MERGE_RECLAIM_H

struct mt_shard;

/*
 * mt_reclaim_kick -- layers or runs have gone: look which log extents (from the oldest on, those before
 * the oldest layer's first_extent) and which run extents (no run left, sealed) can go
 */
void mt_reclaim_kick(struct mt_shard *shard);

/* mt_reclaim_init -- shard->reclaim, stopped. 0; -ENOMEM. mt_reclaim_fini -- in any state, also without init. */
int mt_reclaim_init(struct mt_shard *shard);
/* mt_reclaim_start -- the shard is SERVING. */
void mt_reclaim_start(struct mt_shard *shard);
/* mt_reclaim_stop -- before the manifest's. Nothing of it comes back behind that. */
void mt_reclaim_stop(struct mt_shard *shard);
void mt_reclaim_fini(struct mt_shard *shard);

#endif /* CLEAVE_MIDDLETIER_MERGE_RECLAIM_H */
