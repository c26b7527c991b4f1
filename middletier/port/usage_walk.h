/* SPDX-License-Identifier: Apache-2.0 */
/* usage_walk.h -- what a volume holds in the indexes of a port's shards */
#ifndef CLEAVE_MIDDLETIER_PORT_USAGE_WALK_H
#define CLEAVE_MIDDLETIER_PORT_USAGE_WALK_H

#include <stdint.h>

struct mt_port;
struct mt_volume;

/* The contents of a volume's own segments in the shards that serve here, counted in one copy. */
struct mt_usage {
	uint32_t shard_count;
	uint64_t chunk_count;
	uint64_t layer_bytes;   /* in the log alone, what was written over since included */
	uint64_t run_bytes;     /* flushed */
	uint64_t garbage_bytes; /* of run_bytes: seems to be written over since, or discarded */
	uint64_t run_count;
	uint32_t run_count_max; /* of a chunk */
};

/* mt_usage_take -- walks the port's chunks: for people who ask, not for a timer. */
void mt_usage_take(const struct mt_port *port, const struct mt_volume *volume,
    struct mt_usage *ret_usage);

#endif /* CLEAVE_MIDDLETIER_PORT_USAGE_WALK_H */
