/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch_directory.h -- the bytes of a run's directory: where its batches are, and exactly which blocks they hold
 *
 * They stand in the descriptors' place of a run's last batch, so batch_crc covers them. Little-endian:
 *
 *	0 u16 version (1)  2 u16 entry_count  4 u16 bound_count  6 u16 zero
 *	8 an entry for each batch, by place: u32 offset_bytes (in the extent), u32 batch_crc,
 *	  u16 head_bytes (header and descriptors), u16 first_block (in the chunk)
 *	  then the set of blocks: u16 bounds, ascending, where each stretch of blocks begins, and ends;
 *	  bound_count 0: a bit for each block of the chunk in their place, 2048 bytes
 *
 * Offsets and first blocks ascend, the first block of each entry is in the set, nothing of the set is before the first.
 */
#ifndef CLEAVE_BATCH_DIRECTORY_H
#define CLEAVE_BATCH_DIRECTORY_H

#include <stdint.h>

#define BATCH_DIRECTORY_VERSION 1u
#define BATCH_DIRECTORY_HEAD_BYTES 8u
#define BATCH_PLACE_BYTES 12u
#define BATCH_SET_BYTES_MAX 2048u

/* An entry, decoded: a batch of the run. */
struct batch_place {
	uint32_t offset_bytes;
	uint32_t batch_crc;
	uint32_t head_bytes;
	uint32_t first_block;
};

/* A directory that has passed; its bytes are borrowed. */
struct batch_directory {
	const uint8_t *entries;
	const uint8_t *set; /* bounds, or bits */
	uint32_t entry_count;
	uint32_t bound_count; /* 0: bits */
};

/* batch_directory_bytes -- how many a directory takes. @bound_count: 0 is bits. */
uint32_t batch_directory_bytes(uint32_t entry_count, uint32_t bound_count);
/*
 * batch_directory_encode -- the head of a directory, to @out; places and the set are put behind it, all of them
 *
 * Returns its bytes. Threads: any; so is everything here.
 */
uint32_t batch_directory_encode(void *out, uint32_t entry_count, uint32_t bound_count);
void batch_directory_put_place(void *out, uint32_t index, const struct batch_place *place);
void batch_directory_put_bound(void *out, uint32_t index, uint32_t bound);
/* batch_directory_put_bits -- of blocks 64 * @index and those behind it, the lowest bit first. */
void batch_directory_put_bits(void *out, uint32_t index, uint64_t bits);

/*
 * batch_directory_decode -- check @length_bytes of @bytes, which may hold anything
 *
 * 0: *@ret_directory is good, as the head of this file has it. -EBADMSG: *@ret_field, a static string, says what is wrong.
 */
int batch_directory_decode(const void *bytes, uint32_t length_bytes,
    struct batch_directory *ret_directory, const char **ret_field);
void batch_directory_place(const struct batch_directory *directory, uint32_t index,
    struct batch_place *ret_place);
uint32_t batch_directory_bound(const struct batch_directory *directory, uint32_t index);
uint64_t batch_directory_bits(const struct batch_directory *directory, uint32_t index);

#endif /* CLEAVE_BATCH_DIRECTORY_H */
