/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log_pool.c -- the room that the logs of a port's shards have together
 *
 * Small disks are divided into short logs, one a shard, and who writes in order writes one shard at a time: its log is
 * full while the others' room is not used. So a log may be longer than its own limits while all logs of the port
 * together are within the pool's:
 *
 *	own limit |----|  |----|  |----|  |----|
 *	log       |#######################|  |#|  |##|  |#|        the first has borrowed
 *	all       |#######################|#|##|#|        |
 *	                                        pool's limit: what each shard puts in, added up
 *
 * What must hold, for others count on room at the nodes, too:
 *
 *	who lends does not feel it: no shard is more pressed, or sooner full, than its own limits make it
 *	nothing is borrowed while all logs together are beyond the pool's hard limit
 *	each shard puts in no more than an eighteenth of its share of the nodes, and half as much again for the
 *	    hard limit (reclaim_room.c); a shard that has gone from the port has nothing in it
 *
 * So all logs together take no more than the sum of their own hard limits and the pool's, however fast the lenders
 * wake. Writes of a shard that has borrowed stand still then, and its merges go before others': what it has borrowed
 * is back when they have ended.
 *
 * How fast logs get shorter is the port's, too, for it has one merge at a time. The shards that write under pressure
 * get equal parts of that. What some do not use of theirs lowers the pressure for all.
 */
#include "merge/log_pool.h"

#include "base/check.h"
#include "base/mutant.h"
#include "base/num.h"

#define LOG_POOL_WINDOW_NS                                                                         \
	NUM_MS(50) /* a shard that took nothing for so long, or twice that, is no writer */

void
mt_log_pool_tell(struct log_pool *pool, struct log_share *told, const struct log_share *now)
{
	struct log_share *all = &pool->all;

	assert(now->soft_bytes <= now->hard_bytes);
	assert(all->used_bytes >= told->used_bytes);
	assert(all->hard_bytes >= told->hard_bytes);
	all->used_bytes += now->used_bytes - told->used_bytes;
	if (!MUTANT(lender_counted) || now->hard_bytes > told->hard_bytes) {
		all->soft_bytes += now->soft_bytes - told->soft_bytes;
		all->hard_bytes += now->hard_bytes - told->hard_bytes;
	}
	*told = *now;
}

uint32_t
mt_log_pool_pressure(const struct log_pool *pool, uint64_t gained_bytes)
{
	uint64_t used_bytes = pool->all.used_bytes;

	assert(pool->all.soft_bytes <= pool->all.hard_bytes);
	used_bytes -= num_min(gained_bytes, used_bytes);
	return mt_pace_pressure(used_bytes, pool->all.soft_bytes, pool->all.hard_bytes);
}

uint64_t
mt_log_pool_left_bytes(const struct log_pool *pool)
{
	uint64_t used_bytes = MUTANT(pool_overlent) ? 0 : pool->all.used_bytes;

	return pool->all.hard_bytes - num_min(used_bytes, pool->all.hard_bytes);
}

uint32_t
mt_log_pool_writers(struct log_pool *pool, uint64_t *seen_ns, uint64_t now_ns)
{
	bool is_new = *seen_ns < pool->window_ns || *seen_ns == 0;

	assert(now_ns >= pool->window_ns && now_ns >= *seen_ns);
	if (now_ns >= pool->window_ns + LOG_POOL_WINDOW_NS) {
		pool->writers_before =
		    now_ns < pool->window_ns + 2 * LOG_POOL_WINDOW_NS ? pool->writer_count : 0;
		pool->writer_count = 0;
		pool->window_ns = now_ns;
		is_new = true;
	}
	*seen_ns = now_ns;
	pool->writer_count += is_new;
	return (uint32_t)num_max(1, num_max(pool->writer_count, pool->writers_before));
}
