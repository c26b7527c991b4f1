/* SPDX-License-Identifier: Apache-2.0 */
/*
 * map_cache.h -- where blocks of a volume lie at nodes, and of which of them that still holds
 *
 * For who reads by a lease (lease.c): direct.c.
 */
#ifndef CLEAVE_VM_CLIENT_MAP_CACHE_H
#define CLEAVE_VM_CLIENT_MAP_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/message.h"
#include "cleave/split.h"
#include "cleave/wire.h"

struct cleave_volume;
struct connection;
struct map_record;
struct map_window;
struct maps;
struct message;

/* 0: the default. */
struct maps_options {
	uint64_t bytes_max; /* of memory, for all windows together */
	uint64_t again_ns;  /* a window is not asked for again before */
	uint32_t miss_max;  /* nor before so many reads that it could not serve */
};

/* CHUNK_MAP on a connection: one at a time. */
struct connection_map {
	bool is_sending; /* the split library holds send and header */
	bool is_out;     /* not answered yet */
	uint64_t request_id;
	uint64_t sent_boot_ns;
	struct map_window *window; /* is_out: what is asked for */
	struct wire_header header;
	struct split_send send;
};

/* A block that may be read by its map. */
struct map_block {
	const struct map_record *record;
	const struct wire_map_source *source; /* NULL: zeros */
	uint32_t block_crc;                   /* of the plain block; zeros: 0 */
	uint32_t in_record;                   /* which block of the record it is */
	uint32_t shard, epoch;                /* a lease of both is what it may be read by */
	uint64_t serial;                      /* of the asking: whose map this is */
};

/*
 * maps_want -- from here on @volume, which is OPEN and wants leases, has maps, as far as it may; again: other options
 *
 * Returns 0; -ENOMEM.
 */
int maps_want(struct cleave_volume *volume, const struct maps_options *options);
/* maps_fini -- its connections are gone. */
void maps_fini(struct cleave_volume *volume);
/*
 * maps_on_start -- @message, just made, is sent later
 *
 * From now on no map says what lies in the blocks that it changes. If it reads what its window could have served
 * better, that is asked for.
 */
void maps_on_start(const struct message *message);
/*
 * maps_look -- may the block at @offset_bytes be read by its map, from this moment on?
 *
 * Only if a lease of its shard and epoch still holds when it has been read (leases_hold) is what was read the newest,
 * but for changes that the volume has made meanwhile. *@ret_block is borrowed until a message is handled.
 */
bool maps_look(struct cleave_volume *volume, uint64_t offset_bytes, struct map_block *ret_block);
/* maps_on_mapped -- @message, a READ, was made at its gateway, which says that a map would name some of it. */
void maps_on_mapped(const struct message *message);
/* maps_are_leased -- does a lease hold, of whichever epoch, on the shard of the block at @offset_bytes? */
bool maps_are_leased(const struct cleave_volume *volume, uint64_t offset_bytes);
/*
 * maps_doubt -- what the map number @serial says of the block at @offset_bytes is not so at the nodes any more
 *
 * Its window is asked for again, as soon as it may be. @is_useless: nothing is read by the map until then. A no-op for
 * a map that is not there any more.
 */
void maps_doubt(struct cleave_volume *volume, uint64_t offset_bytes, uint64_t serial,
    bool is_useless);
/*
 * maps_forget -- the volume has another size: nothing that is known of it, or being asked for, counts any more
 *
 * What was cut off reads as zeros, should it be there again, and no change of the volume's has told.
 */
void maps_forget(struct cleave_volume *volume);
/* maps_on_message -- an answer to CHUNK_MAP; false: it breaks the protocol. */
bool maps_on_message(struct connection *connection, struct split_msg *msg);
/* maps_on_closed -- of a connection: what was asked there is not answered. */
void maps_on_closed(struct connection *connection);
/* maps_bytes -- of memory, for all windows together. */
uint64_t maps_bytes(const struct cleave_volume *volume);

#endif /* CLEAVE_VM_CLIENT_MAP_CACHE_H */
