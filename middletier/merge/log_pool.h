/* SPDX-License-Identifier: Apache-2.0 */
/* log_pool.h -- the room that the logs of a port's shards have together (log_pool.c) */
#ifndef CLEAVE_MIDDLETIER_MERGE_LOG_POOL_H
#define CLEAVE_MIDDLETIER_MERGE_LOG_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "merge/pace.h"

/* A shard's: the limits that it puts in, and what its log has taken. */
struct log_share {
	uint64_t soft_bytes, hard_bytes;
	uint64_t used_bytes; /* without the room that its open extent has yet */
};

/* A port's. All zeros is empty. On the port's thread. */
struct log_pool {
	struct log_share all;    /* the sum of what its shards have told */
	struct pace_drain drain; /* what all its logs lose */
	uint64_t window_ns; /* when it began; writers are counted in it, and in the one before */
	uint32_t writer_count, writers_before;
};

/* mt_log_pool_tell -- a shard that has told @told, zeros at first, tells @now. *@told is that behind it. */
void mt_log_pool_tell(struct log_pool *pool, struct log_share *told, const struct log_share *now);
/* mt_log_pool_pressure -- of all logs together, per mille (pace.h), were @gained_bytes of them gone. */
uint32_t mt_log_pool_pressure(const struct log_pool *pool, uint64_t gained_bytes);
/* mt_log_pool_left_bytes -- what may be borrowed yet. 0: no shard gets more than what is its own. */
uint64_t mt_log_pool_left_bytes(const struct log_pool *pool);
/*
 * mt_log_pool_writers -- how many shards write under pressure: the pool's drain is divided among them
 *
 * The shard that asks is one of them. It did so last at *@seen_ns, 0 at first, which becomes @now_ns.
 */
uint32_t mt_log_pool_writers(struct log_pool *pool, uint64_t *seen_ns, uint64_t now_ns);

#endif /* CLEAVE_MIDDLETIER_MERGE_LOG_POOL_H */
