/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hot.h -- pages of a gateway's memory with hot blocks, as a client reads them by itself (one-sided)
 *
 *	a page, 1 MiB    | tags, 1 KiB: a u32 a slot | slot | slot ...      31 sets of 8 slots
 *	a slot, 4160 B   | head, 64 B | the block, plain |
 *
 * A session that has read leases is told of pages of its own by the answer to LEASE, and of nobody else's: the key of a
 * page's region is the right to read it. A block's name, its segment and its place in it, says which set of which page
 * has it, if one does; tags say which slot, and may be old.
 *
 *	 0 u64 control: version << 1 | 1 while it is shown    8 u64 segment   16 u32 block   20 u32 shard   24 u32 epoch
 *	28 u32 block_crc  32 u64 volume  40 u64 version  48 12 zeros  60 u32 CRC-32C of 8..59
 *
 * The gateway alone writes; control last when it shows a slot (dev_publish), and first when it hides one, which it does
 * before a change of the block is acknowledged. Versions of a slot only grow. A reader may see bytes of several moments:
 * it believes a slot whose control says that it was shown, whose head is whole and of that version, and whose block has
 * the head's CRC. Then head and block are what was there when control was read (middletier/read/PEEKS.md).
 */
#ifndef CLEAVE_HOT_H
#define CLEAVE_HOT_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/split.h"
#include "cleave/units.h"
#include "cleave/wire.h"

#define HOT_WAYS 8u
#define HOT_PAGE_BYTES (1024u * 1024u)
#define HOT_PAGE_TAG_BYTES 1024u
#define HOT_HEAD_BYTES 64u
#define HOT_SLOT_BYTES (HOT_HEAD_BYTES + CLEAVE_BLOCK_BYTES)
#define HOT_SET_BYTES (HOT_WAYS * HOT_SLOT_BYTES)
#define HOT_PAGE_SETS ((uint32_t)((HOT_PAGE_BYTES - HOT_PAGE_TAG_BYTES) / HOT_SET_BYTES))
#define HOT_PAGE_SLOTS (HOT_PAGE_SETS * HOT_WAYS)
#define HOT_PAGES_MAX WIRE_LEASE_PAGES_MAX /* of one session at one port */
/*
 * A client sends one in so many reads that it could make by itself to the gateway, which counts it as so many: so what
 * is read past it stays as hot as it is.
 */
#define HOT_TELL_PART 32u

struct wire_hot_head {
	uint64_t control;
	uint64_t segment;
	uint32_t block; /* of the segment */
	uint32_t shard, epoch;
	uint32_t block_crc;
	uint64_t volume;
	uint64_t version;
};

/* wire_hot_hash, wire_hot_tag -- of a block's name; a tag is never 0. */
uint64_t wire_hot_hash(uint64_t segment, uint32_t block);
uint32_t wire_hot_tag(uint64_t hash);
/* wire_hot_set -- which of @set_count sets has it, if one does: set i % HOT_PAGE_SETS of page i / HOT_PAGE_SETS. */
uint32_t wire_hot_set(uint64_t hash, uint32_t set_count);
/* wire_hot_at -- where slot @slot of a page begins in it. */
static inline uint32_t
wire_hot_at(uint32_t slot)
{
	return HOT_PAGE_TAG_BYTES + slot * (uint32_t)HOT_SLOT_BYTES;
}

/* wire_hot_head_encode -- all of it, control included. */
void wire_hot_head_encode(uint8_t out[HOT_HEAD_BYTES], const struct wire_hot_head *head);
/*
 * wire_hot_head_decode -- a head that was shown, and is all of one version
 *
 * Returns 0 and *@ret_head; -EAGAIN it is none now, or was being written: *@ret_head is untouched.
 */
int wire_hot_head_decode(const uint8_t in[HOT_HEAD_BYTES], struct wire_hot_head *ret_head);
/* wire_hot_page_decode -- of an answer to LEASE: the key of a page. 0, or -EPROTO and the field's name. */
int wire_hot_page_decode(const uint8_t in[DEV_REMOTE_BYTES], struct dev_remote *ret_page,
    const char **ret_field);

#endif /* CLEAVE_HOT_H */
