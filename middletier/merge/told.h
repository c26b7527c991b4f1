/* SPDX-License-Identifier: Apache-2.0 */
/*
 * told.h -- what who has executed a recipe says has come of it: checked, and as bytes
 *
 * Little-endian, at most TOLD_BYTES_MAX, one behind the other:
 *
 *	| head, 32 bytes | parts, 16 each | suspects, 4 each |
 *
 *	head      0 u32 magic "TOLD"      4 u16 version, 1    6 u16 flags: 1 the extent broke behind the last part
 *	          8 u32 frame_count      12 u32 part_count   16 u32 suspect_count   20 u32 CRC-32C of all, this one as zeros
 *	         24 u64 read_bytes
 *	part      0 u32 offset_bytes      4 u32 length_bytes  8 u32 directory_bytes 12 u32 directory_crc
 *	suspect   0 u16 extent, an index of the recipe's      2 u8 replica           3 u8 zero
 *
 * Parts are of the recipe's target, gapless from where it was lent on, and within what it can hold.
 */
#ifndef CLEAVE_MIDDLETIER_MERGE_TOLD_H
#define CLEAVE_MIDDLETIER_MERGE_TOLD_H

#include <stdbool.h>
#include <stdint.h>

#include "merge/merge_exec.h"
#include "merge/merge_result.h"

struct mt_extent;
struct mt_recipe;

#define TOLD_MAGIC 0x444c4f54u /* "TOLD" */
#define TOLD_VERSION 1u
#define TOLD_HEAD_BYTES 32u
#define TOLD_PART_BYTES 16u
#define TOLD_SUSPECT_BYTES 4u
#define TOLD_CRC_AT 20u
#define TOLD_BYTES_MAX                                                                             \
	(TOLD_HEAD_BYTES + MERGE_PARTS_MAX * TOLD_PART_BYTES +                                     \
	    MERGE_SUSPECTS_MAX * TOLD_SUSPECT_BYTES)

struct mt_told {
	uint32_t frame_count; /* of the recipe's, its first ones, that were made */
	bool is_broken;       /* the extent takes no more behind the last part */
	uint64_t read_bytes;
	uint32_t part_count;
	struct mt_told_part {
		uint32_t offset_bytes, length_bytes, directory_bytes, directory_crc;
	} parts[MERGE_PARTS_MAX];
	uint32_t suspect_count;
	struct mt_told_suspect {
		uint32_t extent, replica; /* indexes of the recipe's */
	} suspects[MERGE_SUSPECTS_MAX];
};

/*
 * mt_told_check -- could that have come of @recipe, which has a target?
 *
 * There are frames made; parts are whole batches, one behind the other from where the target was lent on, and within
 * its capacity; there is none without a record before its directory. Returns 0; -EBADMSG, and *@ret_field is a static
 * name of what is wrong.
 */
int mt_told_check(const struct mt_told *told, const struct mt_recipe *recipe,
    const char **ret_field);
/* mt_told_encode -- @told, of what we have executed, to TOLD_BYTES_MAX @bytes: how long it is. */
uint32_t mt_told_encode(const struct mt_told *told, uint8_t *bytes);
/*
 * mt_told_decode -- @length_bytes from elsewhere, about @recipe, which has a target: every field is checked, once
 *
 * 0, and mt_told_check has passed; -EBADMSG, and *@ret_field. Threads: any.
 */
int mt_told_decode(const uint8_t *bytes, uint32_t length_bytes, const struct mt_recipe *recipe,
    struct mt_told *ret_told, const char **ret_field);
/* mt_told_of_result -- @told's parts are @result's. */
void mt_told_of_result(struct mt_told *told, const struct merge_result *result);
/*
 * mt_told_to_result -- @result, which has no part, is what was @told, in the owner's object of what was @lent, and not believed yet
 *
 * Each part uses @lent: mt_merge_result_release lets go of it.
 */
void mt_told_to_result(const struct mt_told *told, uint64_t flushed_sequence,
    struct mt_extent *lent, struct merge_result *result);

#endif /* CLEAVE_MIDDLETIER_MERGE_TOLD_H */
