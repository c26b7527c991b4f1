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

#include "cleave/loop.h"
#include "cleave/wire.h"
#include "index/chunk.h"
#include "index/segment.h"

struct mt_index_cuts;
struct mt_scope;
struct mt_shard;

#define MT_INDEX_MAGIC 0x58444e49u /* "INDX" */

struct mt_index {
	uint32_t magic;
	struct mt_shard *shard;
	struct loop_link chunks;
	struct loop_link layers_by_age;  /* by first_sequence, oldest first */
	struct mt_index_cuts *cuts;      /* index_cuts.c */
	struct mt_run *hot_run;          /* heat.c: worth a merge for its readers; NULL: none is */
	uint16_t heat_age;               /* heat.c: half-lives that have passed */
	uint64_t chunk_count, key_count; /* keys: of all layers */
	uint64_t run_count, run_bytes;
	uint64_t hasty_count; /* of runs that have a hasty_percent */
	uint64_t
	    memory_bytes; /* of layers: what a flush lowers. Of all else: mt_index_chunk_bytes */
	uint64_t pinned_bytes; /* of that, of chunks that are pinned: no flush lowers it now */
	/* implementation: the hash */
	struct loop_link *buckets;
	uint64_t bucket_count;
	struct mt_segment *segments[MT_SEGMENT_BUCKETS]; /* segment.c */
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

/* mt_index_prefetch -- the cache lines that the next apply of this block will want. */
void mt_index_prefetch(const struct mt_index *index, uint64_t segment, uint32_t block);

/*
 * mt_index_promise -- a write of @count blocks is admitted: memory for its keys is set aside
 *
 * So that apply cannot fail, whatever freezes in between. Returned by mt_index_unpromise (applied, or given
 * up). -ENOMEM. A chunk to which something is promised has an active layer, maybe one without a record,
 * which goes with the last promise: no flush would take it.
 */
int mt_index_promise(struct mt_index *index, uint64_t segment, uint32_t block, uint32_t count);
void mt_index_unpromise(struct mt_index *index, uint64_t segment, uint32_t block, uint32_t count);
enum mt_found {
	MT_FOUND_NOTHING, /* never written, within this scope: zeros */
	/* stored_bytes 0: a tombstone, zeros. record_kind RECORD_LOST: EIO. *ret_run has it; NULL: the log */
	MT_FOUND_RECORD,
	MT_FOUND_UNLOADED, /* ask again when *ret_run's index is loaded (mt_run_load) */
};
/*
 * mt_index_find -- the newest version of a block that @scope shows
 *
 * @segment is that of the scope's span 0 (which the client names), @block in the segment.
 */
enum mt_found mt_index_find(struct mt_index *index, const struct mt_scope *scope, uint64_t segment,
    uint32_t block, struct mt_location *ret_location, struct mt_run **ret_run);
/* mt_index_find_at -- likewise; RECORD: @ret_segment is the one that it was written to, as its envelope has it. */
enum mt_found mt_index_find_at(struct mt_index *index, const struct mt_scope *scope,
    uint64_t segment, uint32_t block, struct mt_location *ret_location, struct mt_run **ret_run,
    uint64_t *ret_segment);

#endif /* CLEAVE_MIDDLETIER_INDEX_INDEX_H */
