/* SPDX-License-Identifier: Apache-2.0 */
/* usage_walk.h -- what a volume holds in the indexes of a port's shards */
#ifndef CLEAVE_MIDDLETIER_PORT_USAGE_WALK_H
#define CLEAVE_MIDDLETIER_PORT_USAGE_WALK_H

#include <stdint.h>

struct mt_port;
struct mt_volume;

#define MT_USAGE_CUTS_MAX                                                                          \
	256u /* the newest snapshots of a volume; older ones are one with the oldest of these */

/* The snapshots of a volume, by rising number: what they cut apart is counted apart. */
struct mt_usage_cuts {
	uint64_t numbers[MT_USAGE_CUTS_MAX];
	uint32_t count;
};

/* A snapshot's part of a volume: written since the snapshot before it, and still stored. */
struct mt_usage_between {
	uint64_t stored_bytes;
	/*
	 * Bytes of these in chunks that were written again before the next snapshot, or since: no more than
	 * this goes when the snapshot is deleted. How much of it, the indexes of runs alone could tell.
	 */
	uint64_t freed_bytes_max;
};

/* The contents of a volume's own segments in the shards that serve here, counted in one copy. */
struct mt_usage {
	uint32_t shard_count;
	uint64_t chunk_count;
	uint64_t layer_bytes;   /* in the log alone, what was written over since included */
	uint64_t run_bytes;     /* flushed */
	uint64_t garbage_bytes; /* of run_bytes: seems to be written over since, or discarded */
	uint64_t run_count;
	uint32_t run_count_max; /* of a chunk */
	uint64_t
	    origin_bytes; /* a clone's: of its origins, stored, that it sees: merge/flatten.h */
	uint64_t origin_copied_bytes; /* of these: in chunks that were copied, as it is flattened */
	uint64_t flatten_bytes_s;     /* so fast */
	struct mt_usage_between *between; /* as many as there are cuts; NULL: none, or no memory */
};

/*
 * mt_usage_take -- walks the port's chunks: for people who ask about one volume, not for lists or timers
 *
 * Ownership: *@ret_usage is the caller's: mt_usage_fini.
 */
void mt_usage_take(const struct mt_port *port, const struct mt_volume *volume,
    const struct mt_usage_cuts *cuts, struct mt_usage *ret_usage);
/* mt_usage_fini -- any thread; also of one that is all zeros. */
void mt_usage_fini(struct mt_usage *usage);

#endif /* CLEAVE_MIDDLETIER_PORT_USAGE_WALK_H */
