/* SPDX-License-Identifier: Apache-2.0 */
/* reclaim_room.h -- how long the log may be, how large its layers, and who waits for that */
#ifndef CLEAVE_MIDDLETIER_MERGE_RECLAIM_ROOM_H
#define CLEAVE_MIDDLETIER_MERGE_RECLAIM_ROOM_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/loop.h"
#include "manifest/manifest.h"
#include "merge/log_pool.h"

struct mt_shard;

/*
 * mt_reclaim_is_log_full -- writes wait: the log is beyond its hard limit and no other log of the port leaves room for it,
 * or the layers' memory is beyond its own, or no node has room for a log extent. mt_reclaim_is_memory_full -- the layers' memory is: then tombstones wait, too.
 */
bool mt_reclaim_is_log_full(const struct mt_shard *shard);
/* mt_reclaim_is_log_spent -- what is kept beyond that for the latency class has gone, too. */
bool mt_reclaim_is_log_spent(const struct mt_shard *shard);
bool mt_reclaim_is_memory_full(const struct mt_shard *shard);
/*
 * mt_reclaim_refuses -- writes of the volume with these segments are refused
 *
 * Some of its layers cannot be merged, and the memory of all such layers of the shard is at its limit.
 */
bool mt_reclaim_refuses(const struct mt_shard *shard, uint64_t segment_base,
    uint32_t segment_count);
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
 * last merge has found no room for its runs, or nothing has gone for RECLAIM_HOPE_NS (reclaim_room.c).
 */
bool mt_reclaim_can_gain(const struct mt_shard *shard);
/* mt_reclaim_on_merge -- a merge of the shard has ended with @rc. */
void mt_reclaim_on_merge(struct mt_shard *shard, int rc);

/* ---- for reclaim.c ---- */

struct mt_reclaim {
	uint32_t magic;
	struct mt_shard *shard;
	struct loop_task task;
	struct loop_timer retry_timer;
	bool is_running;
	bool is_committing;
	uint32_t indexes[MT_COMMIT_EDITS_MAX]; /* being deleted */
	uint32_t count;
	uint64_t soft_bytes, hard_bytes;
	uint64_t slot_bytes;   /* of the log's next extent, at least */
	uint64_t memory_bytes; /* of layers: soft; 0: no limit */
	uint64_t pinned_max_bytes;
	uint64_t pinned_bytes; /* of log extents that stay for want of a data key or a copy */
	uint64_t log_bytes;    /* that the log's other extents take at a node */
	uint64_t sealed_bytes; /* of those, sealed ones */
	uint64_t lent_bytes;   /* of soft_bytes: what it puts in the port's pool (log_pool.c) */
	struct log_share told; /* what the pool knows of the log */
	bool is_stuck;         /* the last merge found no room */
	uint64_t progress_ns;  /* when a merge, or an extent, has ended last */
	uint64_t held_ns;      /* when a write was held back for room last; 0: none was */
};

/* mt_reclaim_set_limits -- as the options and the nodes say by now. */
void mt_reclaim_set_limits(struct mt_reclaim *reclaim);
/* mt_reclaim_log_end -- log extents before this one, as extent_id_pack packs it, hold nothing that counts. */
uint64_t mt_reclaim_log_end(const struct mt_reclaim *reclaim);
/* mt_reclaim_measure -- the log's bytes, and which of them are pinned, by what it is now. */
void mt_reclaim_measure(struct mt_reclaim *reclaim);
/* mt_reclaim_tell_pool -- the port's pool, which knows by then what there is of the log; NULL: there is none. */
struct log_pool *mt_reclaim_tell_pool(const struct mt_shard *shard);
/* mt_reclaim_note_progress -- a merge, or an extent, has ended. */
void mt_reclaim_note_progress(struct mt_reclaim *reclaim);

#endif /* CLEAVE_MIDDLETIER_MERGE_RECLAIM_ROOM_H */
