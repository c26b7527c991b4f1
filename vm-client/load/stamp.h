/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stamp.h -- the 48 bytes at the start of each block that the load generator writes
 *
 *	offset  bytes
 *	     0      8  magic
 *	     8      8  volume id
 *	    16      8  block: its index in the volume, in 4096 bytes
 *	    24      8  writer: drawn at random by each run
 *	    32      8  sequence: how many times this run has written the block, this time included
 *	    40      4  CRC-32C of the 4048 bytes that follow the stamp
 *	    44      4  CRC-32C of the 44 bytes before
 *
 * All little-endian. The content's CRC is computed once for each piece of content, so that a write
 * costs a copy and 44 bytes of checksum.
 */
#ifndef CLEAVE_VM_CLIENT_STAMP_H
#define CLEAVE_VM_CLIENT_STAMP_H

#include <stdint.h>

#define STAMP_BYTES 48u
#define STAMP_BLOCK_BYTES 4096u

struct stamp {
	uint64_t volume_id;
	uint64_t block;
	uint64_t writer;
	uint64_t sequence;
	uint32_t content_crc;
};

enum stamp_kind {
	STAMP_VALID,    /* stamp and content are whole */
	STAMP_ZEROS,    /* nothing but zeros */
	STAMP_ABSENT,   /* somebody else's data */
	STAMP_DAMAGED,  /* starts as a stamp does, and its CRC is wrong */
	STAMP_BAD_DATA, /* the stamp is whole, the content is not what it says */
};

/* stamp_put -- the STAMP_BYTES at @ret_bytes. */
void stamp_put(const struct stamp *stamp, void *ret_bytes);
/* stamp_content_crc -- the content_crc of the block of STAMP_BLOCK_BYTES at @block. */
uint32_t stamp_content_crc(const void *block);
/* stamp_check -- the kind of the block of STAMP_BLOCK_BYTES at @block; *@ret_stamp when VALID or BAD_DATA. */
enum stamp_kind stamp_check(const void *block, struct stamp *ret_stamp);
/* stamp_describe -- for people: "sequence 7 of writer 12ab, block 99". @bytes: 128 suffice. */
void stamp_describe(enum stamp_kind kind, const struct stamp *stamp, char *ret_text,
    uint32_t bytes);

#endif /* CLEAVE_VM_CLIENT_STAMP_H */
