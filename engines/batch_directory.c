/* SPDX-License-Identifier: Apache-2.0 */
/* batch_directory.c -- a run's directory as bytes: the only code that knows their layout */
#include "cleave/batch_directory.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/batch.h"

#define CHUNK_BLOCKS (8u * BATCH_SET_BYTES_MAX)
#define SET_WORDS (BATCH_SET_BYTES_MAX / sizeof(uint64_t))

static int
refuse(const char **ret_field, const char *field)
{
	assert(field != NULL);
	*ret_field = field;
	return -EBADMSG;
}

uint32_t
batch_directory_bytes(uint32_t entry_count, uint32_t bound_count)
{
	uint32_t set_bytes = bound_count == 0 ? BATCH_SET_BYTES_MAX : 2 * bound_count;

	assert(entry_count <= UINT16_MAX && bound_count <= UINT16_MAX);
	return BATCH_DIRECTORY_HEAD_BYTES + entry_count * BATCH_PLACE_BYTES + set_bytes;
}

/* ---- to bytes ---- */

uint32_t
batch_directory_encode(void *out, uint32_t entry_count, uint32_t bound_count)
{
	uint8_t *head = out;

	assert(entry_count > 0 && bound_count % 2 == 0);
	num_put_le16(head, BATCH_DIRECTORY_VERSION);
	num_put_le16(head + 2, (uint16_t)entry_count);
	num_put_le16(head + 4, (uint16_t)bound_count);
	num_put_le16(head + 6, 0);
	return batch_directory_bytes(entry_count, bound_count);
}

/* Where the set stands in @out, whose head was encoded. */
static uint8_t *
set_at(void *out)
{
	uint8_t *head = out;

	return head + BATCH_DIRECTORY_HEAD_BYTES + num_get_le16(head + 2) * BATCH_PLACE_BYTES;
}

void
batch_directory_put_place(void *out, uint32_t index, const struct batch_place *place)
{
	uint8_t *at = (uint8_t *)out + BATCH_DIRECTORY_HEAD_BYTES + index * BATCH_PLACE_BYTES;

	assert(place->head_bytes <= BATCH_HEAD_BYTES_MAX);
	assert(place->first_block < CHUNK_BLOCKS);
	num_put_le32(at, place->offset_bytes);
	num_put_le32(at + 4, place->batch_crc);
	num_put_le16(at + 8, (uint16_t)place->head_bytes);
	num_put_le16(at + 10, (uint16_t)place->first_block);
}

void
batch_directory_put_bound(void *out, uint32_t index, uint32_t bound)
{
	assert(bound <= CHUNK_BLOCKS);
	num_put_le16(set_at(out) + 2 * index, (uint16_t)bound);
}

void
batch_directory_put_bits(void *out, uint32_t index, uint64_t bits)
{
	assert(index < SET_WORDS);
	num_put_le64(set_at(out) + 8 * index, bits);
}

/* ---- from bytes ---- */

void
batch_directory_place(const struct batch_directory *directory, uint32_t index,
    struct batch_place *ret_place)
{
	const uint8_t *at = directory->entries + index * BATCH_PLACE_BYTES;

	assert(index < directory->entry_count);
	*ret_place = (struct batch_place){ .offset_bytes = num_get_le32(at),
		.batch_crc = num_get_le32(at + 4),
		.head_bytes = num_get_le16(at + 8),
		.first_block = num_get_le16(at + 10) };
}

uint32_t
batch_directory_bound(const struct batch_directory *directory, uint32_t index)
{
	assert(index < directory->bound_count);
	return num_get_le16(directory->set + 2 * index);
}

uint64_t
batch_directory_bits(const struct batch_directory *directory, uint32_t index)
{
	assert(directory->bound_count == 0 && index < SET_WORDS);
	return num_get_le64(directory->set + 8 * index);
}

/* The first block of the set; CHUNK_BLOCKS: it is empty. */
static uint32_t
set_first(const struct batch_directory *directory)
{
	if (directory->bound_count != 0)
		return batch_directory_bound(directory, 0);
	for (uint32_t i = 0; i < SET_WORDS; i++) {
		uint64_t bits = batch_directory_bits(directory, i);

		if (bits != 0)
			return 64 * i + (uint32_t)__builtin_ctzll(bits);
	}
	return CHUNK_BLOCKS;
}

/* Is @block in the set? *@at goes on from bound to bound: blocks are asked for in their order. */
static bool
set_has(const struct batch_directory *directory, uint32_t block, uint32_t *at)
{
	if (directory->bound_count == 0)
		return (batch_directory_bits(directory, block / 64) >> block % 64 & 1) != 0;
	while (*at < directory->bound_count && batch_directory_bound(directory, *at) <= block)
		++*at;
	return *at % 2 == 1;
}

static const char *
bounds_wrong_field(const struct batch_directory *directory)
{
	uint32_t before = 0;

	for (uint32_t i = 0; i < directory->bound_count; i++) {
		uint32_t bound = batch_directory_bound(directory, i);

		if (bound > CHUNK_BLOCKS || (i > 0 && bound <= before))
			return "directory_bounds";
		before = bound;
	}
	return NULL;
}

static const char *
places_wrong_field(const struct batch_directory *directory)
{
	struct batch_place place, before = { 0 };
	uint32_t at = 0;

	for (uint32_t i = 0; i < directory->entry_count; i++, before = place) {
		batch_directory_place(directory, i, &place);
		if (!num_is_aligned(place.offset_bytes, BATCH_ALIGN) ||
		    (i > 0 &&
			place.offset_bytes < (uint64_t)before.offset_bytes +
				num_round_up(before.head_bytes, BATCH_ALIGN)))
			return "directory_offset";
		if (place.head_bytes <= BATCH_HEADER_BYTES ||
		    place.head_bytes > BATCH_HEAD_BYTES_MAX)
			return "directory_head";
		if (place.first_block >= CHUNK_BLOCKS ||
		    (i > 0 && place.first_block <= before.first_block) ||
		    !set_has(directory, place.first_block, &at))
			return "directory_block";
		if (i == 0 && place.first_block != set_first(directory))
			return "directory_block";
	}
	return NULL;
}

int
batch_directory_decode(const void *bytes, uint32_t length_bytes,
    struct batch_directory *ret_directory, const char **ret_field)
{
	struct batch_directory *directory = ret_directory;
	const uint8_t *head = bytes;
	const char *field;

	if (length_bytes < BATCH_DIRECTORY_HEAD_BYTES)
		return refuse(ret_field, "directory_bytes");
	if (num_get_le16(head) != BATCH_DIRECTORY_VERSION)
		return refuse(ret_field, "directory_version");
	*directory = (struct batch_directory){ .entry_count = num_get_le16(head + 2),
		.bound_count = num_get_le16(head + 4),
		.entries = head + BATCH_DIRECTORY_HEAD_BYTES };
	if (directory->entry_count == 0)
		return refuse(ret_field, "directory_entries");
	if (directory->bound_count % 2 != 0)
		return refuse(ret_field, "directory_bounds");
	if (num_get_le16(head + 6) != 0)
		return refuse(ret_field, "directory_reserved");
	if (length_bytes != batch_directory_bytes(directory->entry_count, directory->bound_count))
		return refuse(ret_field, "directory_bytes");
	directory->set = directory->entries + directory->entry_count * BATCH_PLACE_BYTES;
	field = bounds_wrong_field(directory);
	if (field == NULL)
		field = places_wrong_field(directory);
	return field == NULL ? 0 : refuse(ret_field, field);
}
