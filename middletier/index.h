/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index.h -- where each block of a shard is: chunks, their layers in memory, their runs on the nodes
 *
 *	index                                  one a shard
 *	  chunk  by number (segment * 512 + index in the segment)
 *	    layers   newest first: what the log holds of the chunk and no run does yet. The first may be
 *	             active (takes records), the others are frozen: cut off by a snapshot, or being flushed
 *	    runs     newest first: sorted, packed, immutable, in run extents; a frame index each, in
 *	             memory only while it is wanted (run_index.c)
 *
 * What is newer is found first: layers before runs, layers in their order, runs by flushed_sequence,
 * the greatest first. Of runs with the same flushed_sequence the one that was added later is found first:
 * those that one stage of a merge made never hold the same block, but those that it has not yet done
 * with may hold older versions (merge_commit.c).
 *
 * *Cut*: the number of the newest snapshot that the shard had been told of when a record was batched;
 * snapshots are numbered cluster-wide, upwards. A layer and a run hold records between two cuts that
 * matter to their chunk, and say the greatest cut of these records; snapshot n sees what has a cut
 * below n. A cut matters to the chunks of the segments that it was made for, until it is dropped:
 * merges never mix both sides of it (mt_index_is_cut_between).
 *
 * *Scope*: what a reader of a volume or snapshot sees, as spans of segments and cuts, newest first. Span
 * 0 of a volume is where it is written. A clone's spans are its own, then those of the snapshot that it
 * was made from; a volume that was rolled back sees its own segments in two spans, with a gap between.
 *
 * *Flushed*: a record of the log whose sequence is at or below the greatest flushed_sequence of its
 * chunk's runs is in a run (or under one); a take-over does not replay it, and a log extent is deleted
 * when no layer has a record in it or in one before it (reclaim.c). For that the layers are in a list
 * by age, oldest first.
 *
 * Everything here belongs to the port's thread. Nothing here waits but mt_run_load.
 */
#ifndef CLEAVE_MIDDLETIER_INDEX_H
#define CLEAVE_MIDDLETIER_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "internal.h"

/* ---- memtable.c: one layer's blocks, block in chunk -> location ---- */

/*
 * Open addressing, doubles; at most CLEAVE_CHUNK_BLOCKS keys, so a growth is short and done at once.
 */
struct mt_memtable_slot;
struct mt_memtable {
	struct mt_memtable_slot *slots; /* NULL: none yet */
	uint32_t slot_count, key_count;
};
void mt_memtable_init(struct mt_memtable *table);
void mt_memtable_fini(struct mt_memtable *table);
/* mt_memtable_reserve -- room for @count more keys, so that as many puts cannot fail. -ENOMEM. */
int mt_memtable_reserve(struct mt_memtable *table, uint32_t count);
void mt_memtable_put(struct mt_memtable *table, uint32_t block, const struct mt_location *location);
/* mt_memtable_get -- NULL: not here. Valid until the next put. */
const struct mt_location *mt_memtable_get(const struct mt_memtable *table, uint32_t block);
/* mt_memtable_clear -- forgets its keys, and keeps its room. */
void mt_memtable_clear(struct mt_memtable *table);
/* mt_memtable_prefetch -- the cache line that get and put of this block begin with. */
void mt_memtable_prefetch(const struct mt_memtable *table, uint32_t block);
/* mt_memtable_next -- the first key at or behind slot *@at, which moves on; NULL at the end. Unsorted. */
const struct mt_location *mt_memtable_next(const struct mt_memtable *table, uint32_t *at,
    uint32_t *ret_block);
uint64_t mt_memtable_bytes(const struct mt_memtable *table);

/* ---- index.c ---- */

struct mt_chunk;

struct mt_layer {
	struct loop_link link;     /* chunk->layers, newest first */
	struct loop_link age_link; /* index->layers_by_age; in it from its first record on */
	struct mt_chunk *chunk;
	struct mt_memtable table;
	uint64_t cut;
	uint64_t first_sequence, last_sequence; /* of its records */
	uint32_t first_extent;                  /* index of the log extent of its first record */
	uint64_t stored_bytes;                  /* of the records that it took */
	bool is_frozen;                         /* takes no more records */
	bool
	    hides_all; /* a discard of the whole chunk: what is beneath is zeros, in this span too */
	uint8_t hides_kind; /* its RECORD_* */
	bool is_merging;
};

/* A run, or a part of one: the merge that made it may have made several, of disjoint blocks. */
struct mt_run_index; /* run_index.c */
struct mt_run {
	struct loop_link link;     /* chunk->runs: flushed_sequence, the greatest first */
	struct loop_link lru_link; /* run_index.c: of those whose index is loaded */
	struct mt_chunk *chunk;
	uint32_t extent_index;
	uint32_t offset_bytes, length_bytes; /* in the extent: whole batches */
	uint64_t flushed_sequence;
	uint64_t cut;
	uint64_t live_bytes; /* compact.c: of it and what is newer in its group; 0: not counted */
	struct mt_run_index *index; /* NULL: not loaded */
	struct mt_run_load *load;   /* being loaded */
	uint32_t hold_count;        /* index stays while > 0 */
	bool is_merging;
};

struct mt_chunk {
	struct loop_link hash_link;
	struct loop_link link; /* index->chunks */
	struct mt_index *index;
	uint64_t number;
	struct loop_link layers, runs;
	uint32_t layer_count, run_count;
	uint64_t run_bytes;      /* of all its runs */
	uint64_t layer_bytes;    /* stored_bytes of all its layers */
	uint32_t promised_count; /* keys that admitted writes may still add */
	uint64_t retry_ns;       /* flush.c, segment_drop.c: its runs are not merged before */
};

struct mt_index_cut {
	uint64_t cut;
	uint64_t segment_base;
	uint32_t segment_count;
};

#define INDEX_HIDDEN_MAX 64u

struct mt_index {
	uint32_t magic;
	struct mt_shard *shard;
	struct loop_link chunks;
	struct loop_link layers_by_age; /* by first_sequence, oldest first */
	struct mt_index_cut *cuts;      /* that have not been dropped, ascending */
	uint32_t cut_count, cut_max;
	struct mt_hidden hidden[INDEX_HIDDEN_MAX];
	uint32_t hidden_count;
	uint64_t chunk_count, key_count; /* keys: of all layers */
	uint64_t run_count, run_bytes;
	uint64_t
	    memory_bytes; /* of layers: what a flush lowers. Of all else: mt_index_chunk_bytes */
	/* implementation: the hash */
	struct loop_link *buckets;
	uint64_t bucket_count;
};

struct mt_index *mt_index_create(struct mt_shard *shard); /* NULL: errno ENOMEM */
void mt_index_destroy(struct mt_index *index);

/*
 * mt_index_chunk_bytes -- memory of chunks, their table, and what is known of runs without their indexes
 *
 * It grows with what is stored, and goes with it: no flush lowers it, so no write ever waits for it.
 * Indexes of runs are counted by the port (mt_run_cache_bytes).
 */
uint64_t mt_index_chunk_bytes(const struct mt_index *index);

/* mt_chunk_number -- of a block of a segment. */
static inline uint64_t
mt_chunk_number(uint64_t segment, uint32_t block)
{
	return segment * CLEAVE_SEGMENT_CHUNKS + block / CLEAVE_CHUNK_BLOCKS;
}
/* mt_index_chunk -- NULL: nothing is known of it. */
struct mt_chunk *mt_index_chunk(const struct mt_index *index, uint64_t number);
/* mt_index_prefetch -- the cache lines that the next apply of this block will want. */
void mt_index_prefetch(const struct mt_index *index, uint64_t segment, uint32_t block);

/*
 * mt_index_promise -- a write of @count blocks is admitted: memory for its keys is set aside
 *
 * So that apply cannot fail, whatever freezes in between. Returned by mt_index_keep (applied, or given
 * up). -ENOMEM. A chunk to which something is promised has an active layer, maybe one without a record,
 * which goes with the last promise: no flush would take it.
 */
int mt_index_promise(struct mt_index *index, uint64_t segment, uint32_t block, uint32_t count);
void mt_index_keep(struct mt_index *index, uint64_t segment, uint32_t block, uint32_t count);
/*
 * mt_index_apply -- an acknowledged (or replayed) record of a batch with @cut becomes the newest
 *
 * In sequence order. A tombstone adds keys only for blocks under which something may lie: a layer, a
 * run, or an origin (the segment is a clone's: wire_segment_is_clone). A tombstone that is there already makes
 * another one of its kind needless, unless a cut that matters lies between them: behind a roll-back
 * only one of the two is seen. @ring_position 0: not in the ring.
 * -ENOMEM can only be returned where nothing was promised (replay), or where a cut begins a new layer: it
 * can be done again then, with the same record.
 */
int mt_index_apply(struct mt_index *index, const struct record_desc *record, uint64_t cut,
    uint32_t extent_index, uint64_t batch_offset_bytes, uint64_t ring_position);
/* mt_index_flushed -- the greatest flushed_sequence of the chunk's runs; 0: it has none. */
uint64_t mt_index_flushed(const struct mt_index *index, uint64_t chunk_number);

enum mt_found {
	MT_FOUND_NOTHING,  /* never written, within this scope: zeros */
	MT_FOUND_RECORD,   /* stored_bytes 0: a tombstone, zeros. record_kind RECORD_LOST: EIO */
	MT_FOUND_UNLOADED, /* ask again when *ret_run's index is loaded (mt_run_load) */
};
/*
 * mt_index_find -- the newest version of a block that @scope shows
 *
 * @segment is that of the scope's span 0 (which the client names), @block in the segment.
 */
enum mt_found mt_index_find(struct mt_index *index, const struct mt_scope *scope, uint64_t segment,
    uint32_t block, struct mt_location *ret_location, struct mt_run **ret_run);

/*
 * mt_index_freeze -- the active layer, if there is one, takes no more; one without records stays. -ENOMEM
 * (for the next one, where something is promised).
 */
int mt_index_freeze(struct mt_chunk *chunk);
/*
 * mt_index_add_run -- from the manifest, or by a merge that was committed. -ENOMEM. The run's extent is in
 * shard->extents. It comes before those with the same flushed_sequence: the order of calls is the manifest's. mt_index_remove_run forgets one (its index too; nobody holds it).
 */
struct mt_run *mt_index_add_run(struct mt_index *index, uint64_t chunk_number,
    const struct mt_run *like);
void mt_index_remove_run(struct mt_run *run);
/* mt_index_remove_layer -- frozen, and in a run by now (or its volume is deleted). */
void mt_index_remove_layer(struct mt_layer *layer);
/* mt_index_remove_chunk -- with its layers and runs; nothing of it is being merged. */
void mt_index_remove_chunk(struct mt_chunk *chunk);

/*
 * mt_index_drop_empty -- frees the chunk if there is nothing in it and nothing is promised; true: it did
 *
 * Removals leave it: who has removed a chunk's last layer or run says so when he needs it no more.
 */
bool mt_index_drop_empty(struct mt_chunk *chunk);

/*
 * Cuts that matter. add: -ENOMEM. One is added before the first record that has it is applied, for this
 * one to begin a new layer.
 */
int mt_index_add_cut(struct mt_index *index, const struct mt_index_cut *cut);
void mt_index_drop_cut(struct mt_index *index, uint64_t cut);
/* mt_index_is_cut_between -- must records of cuts @older and @newer of this chunk be kept apart? */
bool mt_index_is_cut_between(const struct mt_index *index, uint64_t chunk_number, uint64_t older,
    uint64_t newer);

/*
 * mt_index_hide -- nobody sees, or ever will, what @hidden says: merges drop it
 *
 * Only until the shard is taken over: to be said again then. What is more than there is room for is not kept.
 */
void mt_index_hide(struct mt_index *index, const struct mt_hidden *hidden);
/* mt_index_is_hidden -- is all of a layer or run of this chunk, with this cut? */
bool mt_index_is_hidden(const struct mt_index *index, uint64_t chunk_number, uint64_t cut);

/* ---- holes.c: chunks that hold nothing ---- */
/*
 * mt_chunk_is_hole -- nothing is known of the block's chunk in any span of @scope, and no write to it is under way
 *
 * @segment is that of the scope's span 0. The shard is served (all of its log is in the index).
 */
bool mt_chunk_is_hole(const struct mt_index *index, const struct mt_scope *scope, uint64_t segment,
    uint32_t block);

/* ---- run_index.c: which frames a run holds; loaded from its batches' heads ---- */

/* One frame: a record of 1 to 16 neighbouring blocks, or a tombstone of more. */
struct mt_frame {
	uint32_t block;        /* in the chunk */
	uint32_t block_count;  /* WRITE: up to 16 */
	uint32_t offset_bytes; /* of the stored bytes in the extent */
	uint32_t stored_bytes, stored_crc;
	uint8_t codec_id, record_kind;
	uint32_t crcs_at; /* of its block CRCs in the index's array; WRITE alone */
};
struct mt_run_index {
	struct mt_frame *frames; /* by block; disjoint */
	uint32_t frame_count;
	uint32_t *crcs;
	uint32_t crc_count;
	uint64_t live_bytes; /* of stored bytes in all frames */
};

struct mt_run_waiter {
	struct loop_link link;
	void (*fn)(int rc, void *arg);
	void *arg;
};
/*
 * mt_run_load -- read the run's heads, unless that is under way; @waiter->fn once, from the loop
 *
 * rc 0: run->index is there at that moment (hold it to keep it); -EHOSTDOWN: no copy could be read until
 * the port's node time-out; -EBADMSG: no copy is good; -ENOMEM; -ECANCELED: the shard has stopped.
 * A waiter may be withdrawn by mt_run_unwait.
 */
void mt_run_load(struct mt_run *run, struct mt_run_waiter *waiter);
void mt_run_unwait(struct mt_run_waiter *waiter);
void mt_run_hold(struct mt_run *run);
void mt_run_release(struct mt_run *run);
/* mt_run_find -- loaded: the block's location; false: it is not in this run. */
bool mt_run_find(struct mt_run *run, uint32_t block, struct mt_location *ret_location);
/*
 * mt_run_index_give -- the merge that wrote the run knows its index: no need to load it. Takes @index over.
 */
void mt_run_index_give(struct mt_run *run, struct mt_run_index *index);
void mt_run_index_free(struct mt_run_index *index);
/* mt_run_forget -- the run goes: index, load and waiters (rc -ESTALE: look the block up again). */
void mt_run_forget(struct mt_run *run);
/* mt_run_cache_* -- the port's: bounded by gateway option --index-cache; least recently used go first. */
int mt_run_cache_init(struct mt_port *port);
void mt_run_cache_fini(struct mt_port *port);
uint64_t mt_run_cache_bytes(const struct mt_port *port);
/* mt_run_stop -- every load of the shard ends with -ECANCELED. mt_run_is_quiet: no call is out. */
void mt_run_stop(struct mt_shard *shard);
bool mt_run_is_quiet(const struct mt_shard *shard);

/* ---- merge.c: some layers and runs of a chunk become runs ---- */

/*
 * mt_merge_start -- flush and compaction alike
 *
 * Takes frozen layers and runs of @chunk that lie next to each other in age with no cut that matters
 * between them (asserted): every layer from @newest_layer on (NULL: none) down to @oldest_layer, every
 * run from @newest_run on (NULL: none) down to @oldest_run. Where both are given they adjoin. Of each
 * block the newest version goes into new frames (up to the frame size, neighbours only), recompressed;
 * tombstones under which nothing can lie are left out. A block that is bad in every copy becomes
 * RECORD_LOST. The new runs' flushed_sequence and cut are the greatest of the inputs'.
 *
 * One commit adds the runs and removes the inputs'; then the index changes, then @fn: 0; -ENOSPC, no room
 * for a run extent; -EHOSTDOWN; -ENOMEM; -ECANCELED the shard has stopped. On error nothing has changed,
 * but for the stages of a large merge that were committed before (merge_commit.c): the chunk reads the same.
 * One merge a port is at work (flush of any of its shards before compaction); others queue.
 */
struct mt_merge;
struct mt_merge_input {
	struct mt_chunk *chunk;
	struct mt_layer *newest_layer, *oldest_layer;
	struct mt_run *newest_run, *oldest_run;
	bool is_urgent; /* the log is longer than it should be: goes before others */
	int level;      /* of zstd */
};
typedef void (*mt_merge_fn)(int rc, void *arg);
int mt_merge_start(struct mt_shard *shard, const struct mt_merge_input *input, mt_merge_fn fn,
    void *arg);

/* mt_merge_stop -- every merge of the shard ends with -ECANCELED, soon. */
void mt_merge_stop(struct mt_shard *shard);
/* mt_merge_progress -- how much of the shard's merge is done, per mille; 0: it has none at work. */
uint32_t mt_merge_progress(const struct mt_shard *shard);
/* mt_merge_is_quiet -- the shard has none, and nothing of it is on its way. */
bool mt_merge_is_quiet(const struct mt_shard *shard);
/* mt_merge_fini -- forget them: the process is being taken down. */
void mt_merge_fini(struct mt_shard *shard);
/* mt_merge_device_bytes -- what mt_merge_port_init takes of a port's device memory. */
uint64_t mt_merge_device_bytes(uint64_t device_bytes);
int mt_merge_port_init(struct mt_port *port, uint64_t device_bytes);
void mt_merge_port_fini(struct mt_port *port);

/* ---- run_roll.c: the extent that a shard's runs go to ---- */
int mt_run_roll_init(struct mt_shard *shard);
/* mt_run_roll_reset -- stopped and quiet: as after init. */
void mt_run_roll_reset(struct mt_shard *shard);
void mt_run_roll_stop(struct mt_shard *shard);
void mt_run_roll_fini(struct mt_shard *shard);
/* mt_run_roll_tend -- seal an extent that is broken, or could have more replicas by now. */
void mt_run_roll_tend(struct mt_shard *shard);

/* ---- flush.c, compact.c: what is merged, when ---- */
int mt_flush_init(struct mt_shard *shard);
void mt_flush_start(struct mt_shard *shard); /* SERVING */
void mt_flush_stop(struct mt_shard *shard);  /* its merge is stopped by mt_merge_stop */
void mt_flush_fini(struct mt_shard *shard);
/* mt_flush_kick -- something was applied, or room is wanted: look soon. Cheap. */
void mt_flush_kick(struct mt_shard *shard);
/* mt_flush_can_gain -- a merge that may give space back is at work or due, and there was room for the last. */
bool mt_flush_can_gain(const struct mt_shard *shard);
/*
 * mt_flush_pressure -- how long the log is, per mille, from where flush begins to where writes stand still
 * (pace.h), as if it were shorter already by the part of the flush at work that is done
 */
uint32_t mt_flush_pressure(const struct mt_shard *shard);
/* What the runs of a shard come to, as last seen. */
struct mt_flush_totals {
	uint64_t run_count, run_bytes;
	uint64_t live_bytes;   /* of those, the newest versions, about */
	uint64_t extent_bytes; /* of the extents that they are in */
};
void mt_flush_totals(const struct mt_shard *shard, struct mt_flush_totals *ret_totals);

/* ---- reclaim.c: extents that hold nothing any more are deleted; room, and who must wait for it ---- */
/*
 * mt_reclaim_kick -- layers or runs have gone: look which log extents (from the oldest on, those before
 * the oldest layer's first_extent) and which run extents (no run left, sealed) can go
 */
void mt_reclaim_kick(struct mt_shard *shard);
/* The log's length, and the layers' memory, against their hard limits, behind which writes wait. No room is
 * both. Behind the memory's tombstones wait, too. */
bool mt_reclaim_is_log_full(const struct mt_shard *shard);
/* mt_reclaim_is_log_spent -- what is kept beyond that for the latency class has gone, too. */
bool mt_reclaim_is_log_spent(const struct mt_shard *shard);
bool mt_reclaim_is_memory_full(const struct mt_shard *shard);
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
/* mt_write_path_on_freed -- write_room.c: @bytes of the log are about to go. */
void mt_write_path_on_freed(struct mt_shard *shard, uint64_t bytes);
/* mt_reclaim_on_merge -- a merge of the shard has ended with @rc. */
void mt_reclaim_on_merge(struct mt_shard *shard, int rc);

#endif /* CLEAVE_MIDDLETIER_INDEX_H */
