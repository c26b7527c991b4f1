/* SPDX-License-Identifier: Apache-2.0 */
/* flush.h -- which chunk of a shard is flushed or compacted next, and when */
#ifndef CLEAVE_MIDDLETIER_MERGE_FLUSH_H
#define CLEAVE_MIDDLETIER_MERGE_FLUSH_H

#include <stdbool.h>
#include <stdint.h>

struct flatten;
struct mt_scope;
struct mt_shard;

/* All on the port's thread. */

/* mt_flush_init -- shard->flush, stopped. 0; -ENOMEM. mt_flush_fini -- in any state, also without init. */
int mt_flush_init(struct mt_shard *shard);
void mt_flush_fini(struct mt_shard *shard);
/* mt_flush_start -- the shard is SERVING: merges begin as they are due. */
void mt_flush_start(struct mt_shard *shard);
/* mt_flush_stop -- none begins any more; the one that is queued or at work is mt_merge_stop's to end. */
void mt_flush_stop(struct mt_shard *shard);
/* mt_flush_kick -- something was applied, or room is wanted: look soon. Cheap; a no-op unless it is idle. */
void mt_flush_kick(struct mt_shard *shard);
/* mt_flush_can_gain -- a merge that may give space back is at work or due, and there was room for the last. */
bool mt_flush_can_gain(const struct mt_shard *shard);
/*
 * mt_flush_pressure -- how long the log is, per mille, from where flush begins to where writes stand still
 * (pace.h), as if it were shorter already by the part of the flush at work that is done
 *
 * From PACE_HURRY on nothing counts before it has gone if writes are held back: they wait for extents, which go when the
 * merge has ended.
 */
uint32_t mt_flush_pressure(const struct mt_shard *shard);

/*
 * mt_flush_flatten -- as mt_flatten_ask (flatten.h); -EAGAIN, too, while nothing is merged here
 *
 * @key_id: the clone's newest data key; 0: it has none.
 */
int mt_flush_flatten(struct mt_shard *shard, const struct mt_scope *scope, uint32_t key_id);
/* mt_flush_flatten_of -- the clone that is flattened here, to look at; NULL: nothing is merged. */
const struct flatten *mt_flush_flatten_of(const struct mt_shard *shard);
/* mt_flush_drop -- these segments are going: nothing is copied to them or from them. -EAGAIN: it still is. */
int mt_flush_drop(struct mt_shard *shard, uint64_t segment_base, uint32_t segment_count);

/* mt_flush_unread_ns -- for how long merges have found no copy of some blocks that passes; 0: they do, or have failed once. */
uint64_t mt_flush_unread_ns(const struct mt_shard *shard);
/* mt_flush_unread_clone -- a segment of the clone that cannot be flattened for it; 0: none is, or it waits for nothing. */
uint64_t mt_flush_unread_clone(const struct mt_shard *shard);

/* The totals of a shard's runs, in bytes on one replica. */
struct mt_flush_totals {
	uint64_t run_count, run_bytes;
	uint64_t live_bytes;   /* of those, the newest versions, about */
	uint64_t extent_bytes; /* of the extents that they are in */
};
/* mt_flush_totals -- as last seen by a look for garbage; all zero while the shard does not serve. */
void mt_flush_totals(const struct mt_shard *shard, struct mt_flush_totals *ret_totals);

#endif /* CLEAVE_MIDDLETIER_MERGE_FLUSH_H */
