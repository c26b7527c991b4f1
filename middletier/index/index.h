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
#ifndef CLEAVE_MIDDLETIER_INDEX_INDEX_H
#define CLEAVE_MIDDLETIER_INDEX_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "catalog/hidden.h"
#include "catalog/scope.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "index/memtable.h"

struct mt_chunk;
struct mt_index;
struct mt_run_index;
struct mt_run_load;
struct mt_shard;
struct record_desc;

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

#endif /* CLEAVE_MIDDLETIER_INDEX_INDEX_H */
