/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shard_events.h -- what a shard's parts tell those above them
 *
 * Each runs at once, inside the call: when mt_shard_stop has returned, every part of the shard has been
 * stopped, and so has the caller.
 */
#ifndef CLEAVE_MIDDLETIER_COMMON_SHARD_EVENTS_H
#define CLEAVE_MIDDLETIER_COMMON_SHARD_EVENTS_H

#include <stdint.h>

#include "common/shard.h"

/* A single constant set for all shards; shard.c has it. What each says stands at its call below. */
struct mt_shard_events {
	void (*start)(struct mt_shard *shard);
	void (*stop)(struct mt_shard *shard, int rc);
	void (*on_stale)(struct mt_shard *shard);
	void (*on_room)(struct mt_shard *shard);
	void (*on_freed)(struct mt_shard *shard, uint64_t bytes);
	void (*on_ring)(struct mt_shard *shard);
};

/* mt_shard_start -- the shard is SERVING: all its parts begin, and requests that wait are served. */
static inline void
mt_shard_start(struct mt_shard *shard)
{
	shard->events->start(shard);
}

/* mt_shard_stop -- at once, whatever its state; releases nothing. Requests are answered with @rc. */
static inline void
mt_shard_stop(struct mt_shard *shard, int rc)
{
	shard->events->stop(shard, rc);
}

/*
 * mt_shard_on_stale -- a node knows a newer owner of @shard
 *
 * Its root is read again, and the shard stops either way: it is another's, or the metadata store is stale.
 */
static inline void
mt_shard_on_stale(struct mt_shard *shard)
{
	shard->events->on_stale(shard);
}

/* mt_shard_on_room -- extents have gone, or will not go: writes that wait for room are looked at. */
static inline void
mt_shard_on_room(struct mt_shard *shard)
{
	shard->events->on_room(shard);
}

/* mt_shard_on_freed -- @bytes of the log are about to go. */
static inline void
mt_shard_on_freed(struct mt_shard *shard, uint64_t bytes)
{
	shard->events->on_freed(shard, bytes);
}

/* mt_shard_on_ring -- a merge has let go of a batch in the ring: writes may wait for just that. */
static inline void
mt_shard_on_ring(struct mt_shard *shard)
{
	shard->events->on_ring(shard);
}

#endif /* CLEAVE_MIDDLETIER_COMMON_SHARD_EVENTS_H */
