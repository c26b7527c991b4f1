/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hot.h -- blocks that are read again and again, kept decompressed in a port's device memory: --hot-bytes
 *
 *	        a block is hotter than       the engine has put it there,
 *	        the coldest of its set       and its CRC is right
 *	EMPTY ---------------------> FILLING ------------------> VALID
 *	  ^                           |    |                       |
 *	  |      its CRC is wrong     |    | its shard stops       | a hotter one wants its place; its memory has
 *	  |<--------------------------+    v                       | changed; its shard stops
 *	  |<---the engine is done------- FORGOTTEN                 |
 *	  '<-------------------------------------------------------'
 *
 * A slot holds one block, and is known by the place that the block was read from: extent, offset, block in the record.
 * What lies there never changes, and an extent's id is never used again. So no write, merge or take-over makes a slot
 * wrong; the index alone says which place a block is read from, and snapshots and clones that read the same place share
 * a slot. (A merge's blocks lie elsewhere. A CRC that is the same does not say that a block is the same: another version
 * has it once in 2^32. So they are read anew: once, for how hot a block is goes by its name.)
 *
 * A block's *name* is its segment and its place in it. It chooses the set: HOT_WAYS slots next to each other, of which
 * the coldest goes. The names are counted (hot_sketch.h); a block comes in that was met HOT_COUNT_MIN times, and more
 * often than the coldest. Where an older version has a slot, that one goes.
 *
 * Some pages are those of sessions whose clients read there by themselves (cleave/hot.h, hot_pages.h): their blocks go
 * there, under their own names for them. Encrypted records are not kept: SECURITY.md says why.
 */
#ifndef CLEAVE_MIDDLETIER_READ_HOT_H
#define CLEAVE_MIDDLETIER_READ_HOT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/num.h"
#include "base/sm.h"
#include "cleave/dev_ptr.h"
#include "cleave/hot.h"
#include "read/hot_sketch.h"

struct mt_hot;
struct mt_hot_object;
struct mt_port;

/* The least that a port's table is made of: a page of one set. */
#define HOT_BYTES_MIN NUM_KIB(64)
#define HOT_COUNT_MIN 2u

enum mt_hot_state {
	MT_HOT_EMPTY,
	MT_HOT_FILLING,   /* an engine writes it */
	MT_HOT_VALID,     /* is found */
	MT_HOT_FORGOTTEN, /* an engine writes it, for nobody */
	MT_HOT_STATE_NR
};

/* A block, by the place it is read from and by its name. */
struct mt_hot_key {
	uint64_t extent; /* extent_id_pack */
	uint64_t segment;
	uint32_t offset_bytes; /* of its record in the extent */
	uint32_t block_in_record;
	uint32_t block; /* of the segment */
	/* Whose client reads it by itself, and names it so; NULL: nobody's. */
	struct mt_hot_object *object;
};

struct mt_hot_slot {
	struct sm sm;
	struct mt_hot_key key; /* EMPTY: nothing */
	uint32_t crc;          /* of the block */
	uint32_t hold_count;   /* jobs that read it: nothing else is put there */
	bool is_shown;         /* VALID: to the client of key.object */
	uint64_t version;      /* grows each time that it is shown */
};

/*
 * mt_hot_device_bytes -- what mt_hot_init takes of the port's device memory, of the @bytes that it may take
 *
 * Whole pages, and what is left in whole sets; 0: less than HOT_BYTES_MIN.
 */
uint64_t mt_hot_device_bytes(uint64_t bytes);
/*
 * mt_hot_init -- after mt_read_path_init: port->read->hot, of settings->hot_bytes; NULL where that is too little for one
 *
 * Returns 0; -ENOMEM: port->read->hot is NULL, or is freed by mt_hot_fini. Threads: the port's, as for all of this header.
 */
int mt_hot_init(struct mt_port *port);
/* mt_hot_fini -- no job is out. NULL is none. */
void mt_hot_fini(struct mt_hot *hot);

/* mt_hot_meet -- a client has read the block of that name. */
void mt_hot_meet(struct mt_hot *hot, const struct mt_hot_key *key);
/* mt_hot_find -- the slot, VALID, of a block that is read from just that place; NULL: there is none. */
struct mt_hot_slot *mt_hot_find(struct mt_hot *hot, const struct mt_hot_key *key);
/*
 * mt_hot_fill -- a slot for a block of @shard whose CRC is @crc: FILLING until mt_hot_filled
 *
 * NULL: it is not hot enough, it is there or comes already, or all slots of its set are in use.
 */
struct mt_hot_slot *mt_hot_fill(struct mt_hot *hot, const struct mt_hot_key *key, uint32_t crc,
    uint32_t shard);
/* mt_hot_filled -- the engine has written it, or will not: @is_right: and the block's CRC was that. */
void mt_hot_filled(struct mt_hot *hot, struct mt_hot_slot *slot, bool is_right);
/* mt_hot_at -- where a slot's block is in device memory. */
dev_ptr mt_hot_at(const struct mt_hot *hot, const struct mt_hot_slot *slot);
/* mt_hot_hold -- VALID: nothing else is put there until mt_hot_release. */
void mt_hot_hold(struct mt_hot_slot *slot);
void mt_hot_release(struct mt_hot_slot *slot);
/* mt_hot_spoil -- held by the caller: its memory is not what it was, and nobody finds it any more. */
void mt_hot_spoil(struct mt_hot *hot, struct mt_hot_slot *slot);
/* mt_hot_is_busy -- it is being read or written: nothing else is put there. */
bool mt_hot_is_busy(const struct mt_hot_slot *slot);
/* mt_hot_forget -- nobody finds it any more, though an engine may write it still. */
void mt_hot_forget(struct mt_hot *hot, struct mt_hot_slot *slot);
/* mt_hot_drop_shard -- the shard stops: nothing of it is kept. */
void mt_hot_drop_shard(struct mt_hot *hot, uint32_t shard);

/* mt_hot_slot_count, mt_hot_used_count -- its slots; those that are VALID. NULL: 0. */
uint32_t mt_hot_slot_count(const struct mt_hot *hot);
uint32_t mt_hot_used_count(const struct mt_hot *hot);

#endif /* CLEAVE_MIDDLETIER_READ_HOT_H */
