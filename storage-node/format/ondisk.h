/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ondisk.h -- the bytes of a storage node's disk; ONDISK.md is the same by byte
 *
 *	0        superblock, copy 0
 *	4096     fence pages: 8 of them, two copies each
 *	69632    claim pages: 13 of them, one copy each
 *	126976   superblock, copy 1
 *	131072   slot 0, slot 1, ... each slot_bytes long
 *
 *	slot:    header page, state page copy 0, copy 1, then batches (batch.h)
 *
 * ondisk.h and ondisk.c alone know the layout; all others see decoded structs. Encoders fill a whole
 * 4 KiB page; decoders check every field once and name the first that is wrong, by a static string.
 * Fields that must survive a torn write lie in a page's first 512 bytes, the unit that a disk writes
 * whole; pages that are updated in place have two copies besides, of which the younger good one counts.
 * Threads: any; nothing here has a state.
 */
#ifndef CLEAVE_STORAGE_ONDISK_H
#define CLEAVE_STORAGE_ONDISK_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/batch.h"
#include "cleave/wire.h"

#define ONDISK_VERSION 1u
#define ONDISK_PAGE_BYTES 4096u
#define ONDISK_SECTOR_BYTES 512u
#define ONDISK_UUID_BYTES 16u

#define ONDISK_SUPER_COPIES 2u
#define ONDISK_FENCE_PAGES 8u
#define ONDISK_FENCE_SHARDS 512u /* shards a fence page holds */
#define ONDISK_CLAIM_PAGES 13u
#define ONDISK_CLAIM_SHARDS 338u /* shards a claim page holds */
#define ONDISK_SLOTS_OFFSET 131072u
#define ONDISK_SLOT_PAGES 3u /* header, two states */
#define ONDISK_SLOT_HEAD_BYTES (ONDISK_SLOT_PAGES * ONDISK_PAGE_BYTES)
#define ONDISK_SLOT_BYTES_MIN WIRE_NODE_SLOT_BYTES_MIN
#define ONDISK_SLOT_BYTES_MAX WIRE_NODE_SLOT_BYTES_MAX
#define ONDISK_SLOTS_MAX WIRE_NODE_SLOTS_MAX
_Static_assert((uint64_t)ONDISK_SLOTS_MAX *ONDISK_SLOT_BYTES_MAX < UINT64_C(1) << 62,
    "an offset on the disk cannot wrap, nor become negative as an off_t");
/* The most that a generation or incarnation may be: so counting up cannot wrap. */
#define ONDISK_COUNT_MAX (UINT64_C(1) << 62)

/* The disk's identity. Written by format; is_failed is set, best effort, when a flush has failed (I3). */
struct ondisk_super {
	uint64_t cluster_id;
	uint32_t node_id;
	uint8_t disk_uuid[ONDISK_UUID_BYTES];
	uint64_t slot_bytes;
	uint32_t slot_count;
	uint64_t created_unix_ns; /* for people */
	uint64_t generation;      /* the younger copy counts */
	bool is_failed;
};

struct ondisk_fence {
	uint32_t page_index;
	uint64_t generation;
	struct store_id store; /* page 0: the metadata store that the node obeys; zero: none yet */
	uint32_t epochs[ONDISK_FENCE_SHARDS]; /* of shard page_index * 512 + i */
};

/* Which gateway has come with a shard's epoch; all zero: nobody is known to. */
struct ondisk_claim {
	uint32_t epoch;
	uint64_t gateway;
};

struct ondisk_claims {
	uint32_t page_index;
	struct ondisk_claim
	    shards[ONDISK_CLAIM_SHARDS]; /* shard page_index * 338 + i; zero beyond the last */
};

/* Which extent a slot holds: written once, when it is created. */
struct ondisk_slot {
	uint32_t slot_index;
	struct extent_id id;
	enum extent_kind kind;
	uint32_t create_epoch; /* of the owner that created this copy: id.epoch or newer */
	uint64_t incarnation;  /* of this copy; grows with each create on this disk */
};

enum ondisk_slot_state {
	ONDISK_SLOT_OPEN = 0, /* no state page yet */
	ONDISK_SLOT_FROZEN = 1,
	ONDISK_SLOT_SEALED = 2,
	ONDISK_SLOT_DELETED = 3,
};

/* The slot's state. Repeats the identity, so that a lost header page does not orphan it. */
struct ondisk_state {
	struct ondisk_slot slot;
	uint64_t generation;
	enum ondisk_slot_state state;
	uint32_t freeze_epoch; /* FROZEN: under which */
	uint64_t length_bytes; /* FROZEN: at least; SEALED: exactly */
	uint64_t mark_bytes;   /* highest mark in those bytes */
	uint32_t chain_crc;    /* batch_crc of the last batch in them, or the seed */
	bool is_damaged;
};

/*
 * Offsets on the disk, in bytes. @copy: 0 or 1; @page_index: below ONDISK_FENCE_PAGES or _CLAIM_PAGES; @slot_index: below
 * super->slot_count. ondisk_data_offset is where a slot's batches begin.
 */
uint64_t ondisk_super_offset(uint32_t copy);
uint64_t ondisk_fence_offset(uint32_t page_index, uint32_t copy);
uint64_t ondisk_claims_offset(uint32_t page_index);
uint64_t ondisk_slot_offset(const struct ondisk_super *super, uint32_t slot_index);
uint64_t ondisk_state_offset(const struct ondisk_super *super, uint32_t slot_index, uint32_t copy);
uint64_t ondisk_data_offset(const struct ondisk_super *super, uint32_t slot_index);
/* ondisk_capacity -- bytes of batches that a slot holds: slot_bytes less its head. */
uint64_t ondisk_capacity(const struct ondisk_super *super);

/*
 * ondisk_super_plan -- choose slot_count for a disk of @capacity_bytes
 *
 * @super: slot_bytes is set. Returns 0, and slot_count is 1..ONDISK_SLOTS_MAX; -EINVAL slot_bytes is out of range or
 * no multiple of 4096; -ENOSPC not even one slot fits.
 */
int ondisk_super_plan(struct ondisk_super *super, uint64_t capacity_bytes);

/*
 * Encoders fill ONDISK_PAGE_BYTES at @page from a struct whose fields are in range. Decoders read as much and return
 * 0; -ENODATA where the page was never written (all zeros in its first sector), or before this disk was formatted;
 * -EBADMSG where a field is wrong; -EPROTONOSUPPORT for another version (superblock). *@ret_field: the wrong field, a
 * static string. Outputs are untouched on failure.
 */
void ondisk_super_encode(void *page, const struct ondisk_super *super);
int ondisk_super_decode(const void *page, uint64_t capacity_bytes, struct ondisk_super *ret_super,
    const char **ret_field);

/* ondisk_crc_is_good -- is the CRC of the superblock at @page right, whatever its version? */
bool ondisk_crc_is_good(const void *page);

void ondisk_fence_encode(void *page, const struct ondisk_super *super,
    const struct ondisk_fence *fence);
int ondisk_fence_decode(const void *page, const struct ondisk_super *super, uint32_t page_index,
    struct ondisk_fence *ret_fence, const char **ret_field);

void ondisk_claims_encode(void *page, const struct ondisk_super *super,
    const struct ondisk_claims *claims);
int ondisk_claims_decode(const void *page, const struct ondisk_super *super, uint32_t page_index,
    struct ondisk_claims *ret_claims, const char **ret_field);

/* A slot or state page of another disk id is -ENODATA: what the disk held before its format. */
void ondisk_slot_encode(void *page, const struct ondisk_super *super,
    const struct ondisk_slot *slot);
int ondisk_slot_decode(const void *page, const struct ondisk_super *super, uint32_t slot_index,
    struct ondisk_slot *ret_slot, const char **ret_field);

void ondisk_state_encode(void *page, const struct ondisk_super *super,
    const struct ondisk_state *state);
int ondisk_state_decode(const void *page, const struct ondisk_super *super, uint32_t slot_index,
    struct ondisk_state *ret_state, const char **ret_field);

/* ondisk_is_fence -- does @page begin as a fence page does? It may be damaged, and of any disk. */
bool ondisk_is_fence(const void *page);
/* ondisk_uuid_text -- @uuid for people: 36 characters, four of them dashes, and a zero. */
#define ONDISK_UUID_TEXT_BYTES 37
void ondisk_uuid_text(const uint8_t uuid[ONDISK_UUID_BYTES], char out[ONDISK_UUID_TEXT_BYTES]);

#endif /* CLEAVE_STORAGE_ONDISK_H */
