/* SPDX-License-Identifier: Apache-2.0 */
/* volume_use.h -- what a port's shards hold of every volume, and which sessions it has */
#ifndef CLEAVE_MIDDLETIER_PORT_VOLUME_USE_H
#define CLEAVE_MIDDLETIER_PORT_VOLUME_USE_H

#include <stdbool.h>
#include <stdint.h>

#include "catalog/volume.h"

struct mt_port;

/* A segment in one of the shards that serve here. */
struct mt_segment_use {
	uint64_t segment;
	uint64_t stored_bytes; /* one copy */
};

/* A live queue pair of a client that has a volume, or something of it, open. */
struct mt_session_use {
	uint64_t volume_id;  /* of its hello: MT_SNAPSHOT_ID and others are in it */
	uint64_t attach;     /* likewise */
	uint64_t session_id; /* the same at all ports: random, once per open volume */
	bool is_reader;
	char peer[MT_HOLDER_ADDRESS_BYTES];
};

struct mt_volume_use {
	struct mt_segment_use *segments; /* NULL: none, or no memory */
	struct mt_session_use *sessions; /* likewise */
	uint32_t segment_count, session_count;
	uint32_t shard_count; /* that serve */
	bool is_incomplete;   /* there was no memory for all of it */
};

/*
 * mt_volume_use_take -- on the port's thread: its cost is the count of segments and sessions, not of chunks
 *
 * Ownership: *@ret_use is the caller's: mt_volume_use_fini.
 */
void mt_volume_use_take(const struct mt_port *port, struct mt_volume_use *ret_use);
/* mt_volume_use_fini -- any thread; also of one that is all zeros. */
void mt_volume_use_fini(struct mt_volume_use *use);

#endif /* CLEAVE_MIDDLETIER_PORT_VOLUME_USE_H */
