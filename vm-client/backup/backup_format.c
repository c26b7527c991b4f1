/* SPDX-License-Identifier: Apache-2.0 */
/* backup_format.c -- see backup_format.h; FORMAT.md has the offsets */
#include "backup_format.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/num.h"

#define HEADER_MAGIC BACKUP_MAGIC
#define FRAME_MAGIC UINT32_C(0x4d415246) /* "FRAM" */
#define END_MAGIC UINT32_C(0x21444e45)   /* "END!" */
#define RANGE_ZERO UINT64_C(1)           /* the lowest bit of a length, which is of whole blocks */

/* Offsets in the header. */
enum {
	AT_VERSION = 8,
	AT_BLOCK = 12,
	AT_ID = 16,
	AT_POINT = 32,
	AT_PARENT = 64,
	AT_CREATED = 96,
	AT_SIZE = 104,
	AT_CLASS = 112,
	AT_REPLICAS = 116,
	AT_LEVEL = 120,
	AT_ENGINE = 128,
	AT_VOLUME = 144,
	AT_SNAPSHOT = 208,
	AT_PARENT_SNAPSHOT = 272,
	AT_RESERVED = 336,
	AT_CRC = 508,
};
_Static_assert(AT_RESERVED == AT_PARENT_SNAPSHOT + BACKUP_NAME_BYTES, "texts end there");
_Static_assert(AT_CRC + 4 == BACKUP_HEADER_BYTES, "the CRC is last");

static int __attribute__((format(printf, 2, 3))) refuse(char *error, const char *format, ...)
{
	va_list args;

	assert(error != NULL && format != NULL);
	va_start(args, format);
	(void)vsnprintf(error, BACKUP_ERROR_BYTES, format, args); /* cut if too long */
	va_end(args);
	return -EBADMSG;
}

bool
backup_point_is_same(const struct backup_point *a, const struct backup_point *b)
{
	return a->cluster_id == b->cluster_id && a->volume_id == b->volume_id &&
	    a->number == b->number && a->taken_s == b->taken_s;
}

static bool
point_is_none(const struct backup_point *point)
{
	return backup_point_is_same(point, &(const struct backup_point){ 0 });
}

bool
backup_is_full(const struct backup_header *header)
{
	return point_is_none(&header->parent);
}

/* ---- the header ---- */

static void
put_point(uint8_t *bytes, const struct backup_point *point)
{
	num_put_le64(bytes, point->cluster_id);
	num_put_le64(bytes + 8, point->volume_id);
	num_put_le64(bytes + 16, point->number);
	num_put_le64(bytes + 24, point->taken_s);
}

static void
get_point(const uint8_t *bytes, struct backup_point *ret_point)
{
	ret_point->cluster_id = num_get_le64(bytes);
	ret_point->volume_id = num_get_le64(bytes + 8);
	ret_point->number = num_get_le64(bytes + 16);
	ret_point->taken_s = num_get_le64(bytes + 24);
}

void
backup_header_encode(const struct backup_header *header, uint8_t bytes[BACKUP_HEADER_BYTES])
{
	assert(backup_is_full(header) == (header->parent_snapshot[0] == '\0'));
	assert(header->size_bytes > 0 && num_is_aligned(header->size_bytes, CLEAVE_BLOCK_BYTES));
	memset(bytes, 0, BACKUP_HEADER_BYTES);
	memcpy(bytes, HEADER_MAGIC, AT_VERSION);
	num_put_le32(bytes + AT_VERSION, BACKUP_VERSION);
	num_put_le32(bytes + AT_BLOCK, CLEAVE_BLOCK_BYTES);
	memcpy(bytes + AT_ID, header->id, BACKUP_ID_BYTES);
	put_point(bytes + AT_POINT, &header->point);
	put_point(bytes + AT_PARENT, &header->parent);
	num_put_le64(bytes + AT_CREATED, header->created_s);
	num_put_le64(bytes + AT_SIZE, header->size_bytes);
	num_put_le32(bytes + AT_CLASS, header->service_class);
	num_put_le32(bytes + AT_REPLICAS, header->replicas);
	num_put_le32(bytes + AT_LEVEL, (uint32_t)header->level);
	memcpy(bytes + AT_ENGINE, header->engine, strnlen(header->engine, BACKUP_ENGINE_BYTES - 1));
	memcpy(bytes + AT_VOLUME, header->volume, strnlen(header->volume, BACKUP_NAME_BYTES - 1));
	memcpy(bytes + AT_SNAPSHOT, header->snapshot,
	    strnlen(header->snapshot, BACKUP_NAME_BYTES - 1));
	memcpy(bytes + AT_PARENT_SNAPSHOT, header->parent_snapshot,
	    strnlen(header->parent_snapshot, BACKUP_NAME_BYTES - 1));
	num_put_le32(bytes + AT_CRC, crc32c(0, bytes, AT_CRC));
}

/* Printable, ended, and zeros behind: one name has one form. */
static bool
text_is_clean(const uint8_t *bytes, size_t count)
{
	size_t length = strnlen((const char *)bytes, count);

	for (size_t i = 0; i < length; i++) {
		if (bytes[i] <= ' ' || bytes[i] > '~')
			return false;
	}
	for (size_t i = length; i < count; i++) {
		if (bytes[i] != 0)
			return false;
	}
	return length < count;
}

static bool
is_zero(const uint8_t *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (bytes[i] != 0)
			return false;
	}
	return true;
}

static int
header_check_texts(const uint8_t *bytes, char *ret_error)
{
	if (!text_is_clean(bytes + AT_ENGINE, BACKUP_ENGINE_BYTES) ||
	    !text_is_clean(bytes + AT_VOLUME, BACKUP_NAME_BYTES) ||
	    !text_is_clean(bytes + AT_SNAPSHOT, BACKUP_NAME_BYTES) ||
	    !text_is_clean(bytes + AT_PARENT_SNAPSHOT, BACKUP_NAME_BYTES))
		return refuse(ret_error, "its head has a name that is none");
	if (bytes[AT_VOLUME] == 0 || bytes[AT_SNAPSHOT] == 0)
		return refuse(ret_error, "its head does not name a volume and a snapshot");
	if (!is_zero(bytes + AT_LEVEL + 4, 4) ||
	    !is_zero(bytes + AT_RESERVED, AT_CRC - AT_RESERVED))
		return refuse(ret_error, "its head has bytes that this release does not know");
	return 0;
}

static int
header_check(const struct backup_header *header, char *ret_error)
{
	const struct backup_point *point = &header->point, *parent = &header->parent;

	if (header->size_bytes == 0 || header->size_bytes > CLEAVE_VOLUME_BYTES_MAX ||
	    !num_is_aligned(header->size_bytes, CLEAVE_BLOCK_BYTES))
		return refuse(ret_error, "its head says a size that no volume has: %" PRIu64,
		    header->size_bytes);
	if (point_is_none(point))
		return refuse(ret_error, "its head does not say which snapshot it is of");
	if (backup_is_full(header) != (header->parent_snapshot[0] == '\0'))
		return refuse(ret_error, "its head says two things of what it is based on");
	if (!backup_is_full(header) &&
	    (parent->cluster_id != point->cluster_id || parent->volume_id != point->volume_id ||
		parent->number >= point->number))
		return refuse(ret_error,
		    "its head says that it is based on what cannot be: another "
		    "volume's snapshot, or a later one");
	return 0;
}

int
backup_header_decode(const uint8_t bytes[BACKUP_HEADER_BYTES], struct backup_header *ret_header,
    char *ret_error)
{
	int rc;

	if (memcmp(bytes, HEADER_MAGIC, AT_VERSION) != 0)
		return refuse(ret_error, "it is no backup of cleave's");
	if (num_get_le32(bytes + AT_VERSION) != BACKUP_VERSION)
		return refuse(ret_error, "it is of version %" PRIu32 ", this release reads %u",
		    num_get_le32(bytes + AT_VERSION), BACKUP_VERSION);
	if (num_get_le32(bytes + AT_CRC) != crc32c(0, bytes, AT_CRC))
		return refuse(ret_error, "its head is damaged: the checksum is wrong");
	if (num_get_le32(bytes + AT_BLOCK) != CLEAVE_BLOCK_BYTES)
		return refuse(ret_error, "its blocks have %" PRIu32 " bytes, not 4096",
		    num_get_le32(bytes + AT_BLOCK));
	rc = header_check_texts(bytes, ret_error);
	if (rc != 0)
		return rc;
	memcpy(ret_header->id, bytes + AT_ID, BACKUP_ID_BYTES);
	get_point(bytes + AT_POINT, &ret_header->point);
	get_point(bytes + AT_PARENT, &ret_header->parent);
	ret_header->created_s = num_get_le64(bytes + AT_CREATED);
	ret_header->size_bytes = num_get_le64(bytes + AT_SIZE);
	ret_header->service_class = num_get_le32(bytes + AT_CLASS);
	ret_header->replicas = num_get_le32(bytes + AT_REPLICAS);
	ret_header->level = (int32_t)num_get_le32(bytes + AT_LEVEL);
	memcpy(ret_header->engine, bytes + AT_ENGINE, BACKUP_ENGINE_BYTES);
	memcpy(ret_header->volume, bytes + AT_VOLUME, BACKUP_NAME_BYTES);
	memcpy(ret_header->snapshot, bytes + AT_SNAPSHOT, BACKUP_NAME_BYTES);
	memcpy(ret_header->parent_snapshot, bytes + AT_PARENT_SNAPSHOT, BACKUP_NAME_BYTES);
	return header_check(ret_header, ret_error);
}

/* ---- the 64 bytes before a frame, and at the end ---- */

void
backup_frame_header_encode(const struct backup_frame_header *frame,
    uint8_t bytes[BACKUP_FRAME_HEADER_BYTES])
{
	assert(frame->stored_bytes > 0 && frame->stored_bytes <= frame->plain_bytes);
	assert(frame->range_count <= BACKUP_RANGES_MAX);
	memset(bytes, 0, BACKUP_FRAME_HEADER_BYTES);
	num_put_le32(bytes, FRAME_MAGIC);
	num_put_le32(bytes + 4, frame->range_count);
	num_put_le64(bytes + 8, frame->index);
	num_put_le64(bytes + 16, frame->from_bytes);
	num_put_le64(bytes + 24, frame->to_bytes);
	num_put_le32(bytes + 32, frame->plain_bytes);
	num_put_le32(bytes + 36, frame->stored_bytes);
	num_put_le32(bytes + 40, frame->plain_crc);
	num_put_le32(bytes + 44, frame->stored_crc);
	num_put_le32(bytes + 52, frame->chain_crc);
	num_put_le32(bytes + 60, crc32c(0, bytes, 60));
}

void
backup_end_encode(const struct backup_end *end, uint8_t bytes[BACKUP_FRAME_HEADER_BYTES])
{
	assert(num_is_aligned(end->data_bytes, CLEAVE_BLOCK_BYTES));
	memset(bytes, 0, BACKUP_FRAME_HEADER_BYTES);
	num_put_le32(bytes, END_MAGIC);
	num_put_le64(bytes + 8, end->frame_count);
	num_put_le64(bytes + 16, end->data_bytes);
	num_put_le64(bytes + 24, end->zero_bytes);
	num_put_le32(bytes + 52, end->chain_crc);
	num_put_le32(bytes + 60, crc32c(0, bytes, 60));
}

static int
frame_header_decode(const uint8_t *bytes, struct backup_frame_header *ret_frame, char *ret_error)
{
	*ret_frame = (struct backup_frame_header){
		.range_count = num_get_le32(bytes + 4),
		.index = num_get_le64(bytes + 8),
		.from_bytes = num_get_le64(bytes + 16),
		.to_bytes = num_get_le64(bytes + 24),
		.plain_bytes = num_get_le32(bytes + 32),
		.stored_bytes = num_get_le32(bytes + 36),
		.plain_crc = num_get_le32(bytes + 40),
		.stored_crc = num_get_le32(bytes + 44),
		.chain_crc = num_get_le32(bytes + 52),
	};
	if (!is_zero(bytes + 48, 4) || !is_zero(bytes + 56, 4))
		return refuse(ret_error, "a frame has bytes that this release does not know");
	if (ret_frame->from_bytes >= ret_frame->to_bytes ||
	    ret_frame->to_bytes > CLEAVE_VOLUME_BYTES_MAX ||
	    !num_is_aligned(ret_frame->from_bytes, CLEAVE_BLOCK_BYTES) ||
	    !num_is_aligned(ret_frame->to_bytes, CLEAVE_BLOCK_BYTES))
		return refuse(ret_error, "a frame is of no stretch of a volume");
	if (ret_frame->range_count == 0 || ret_frame->range_count > BACKUP_RANGES_MAX ||
	    ret_frame->plain_bytes < ret_frame->range_count * BACKUP_RANGE_BYTES ||
	    ret_frame->plain_bytes > BACKUP_PLAIN_BYTES_MAX)
		return refuse(ret_error, "a frame has more, or less, than a frame can have");
	if (ret_frame->stored_bytes == 0 || ret_frame->stored_bytes > ret_frame->plain_bytes)
		return refuse(ret_error, "a frame has a length that none has");
	return 0;
}

int
backup_part_decode(const uint8_t bytes[BACKUP_FRAME_HEADER_BYTES], enum backup_part *ret_part,
    struct backup_frame_header *ret_frame, struct backup_end *ret_end, char *ret_error)
{
	uint32_t magic = num_get_le32(bytes);

	if (num_get_le32(bytes + 60) != crc32c(0, bytes, 60))
		return refuse(ret_error, "a frame's head is damaged: the checksum is wrong");
	if (magic == FRAME_MAGIC) {
		*ret_part = BACKUP_FRAME;
		return frame_header_decode(bytes, ret_frame, ret_error);
	}
	if (magic != END_MAGIC)
		return refuse(ret_error, "there is neither a frame nor the end");
	if (!is_zero(bytes + 4, 4) || !is_zero(bytes + 32, 20) || !is_zero(bytes + 56, 4))
		return refuse(ret_error, "its end has bytes that this release does not know");
	*ret_part = BACKUP_END;
	*ret_end = (struct backup_end){
		.frame_count = num_get_le64(bytes + 8),
		.data_bytes = num_get_le64(bytes + 16),
		.zero_bytes = num_get_le64(bytes + 24),
		.chain_crc = num_get_le32(bytes + 52),
	};
	return 0;
}

/* ---- what is in a frame ---- */

int
backup_frame_check(const struct backup_frame *frame, bool is_full, uint64_t *ret_data_bytes,
    char *ret_error)
{
	uint64_t at = frame->from_bytes, data_bytes = 0;

	if (frame->range_count == 0 || frame->range_count > BACKUP_RANGES_MAX)
		return refuse(ret_error, "a frame of %" PRIu32 " ranges", frame->range_count);
	for (uint32_t i = 0; i < frame->range_count; i++) {
		const struct backup_range *range = &frame->ranges[i];

		if (range->length_bytes == 0 || range->offset_bytes < at ||
		    range->offset_bytes > frame->to_bytes ||
		    range->length_bytes > frame->to_bytes - range->offset_bytes ||
		    !num_is_aligned(range->offset_bytes | range->length_bytes, CLEAVE_BLOCK_BYTES))
			return refuse(ret_error,
			    "a range that lies outside of its frame, or in "
			    "another one");
		if (is_full && range->offset_bytes != at)
			return refuse(ret_error, "a full backup that leaves out %" PRIu64 " bytes",
			    range->offset_bytes - at);
		at = range->offset_bytes + range->length_bytes;
		if (range->data == NULL)
			continue;
		if (range->length_bytes > BACKUP_DATA_BYTES_MAX - data_bytes)
			return refuse(ret_error, "a frame has more data than a frame can have");
		data_bytes += range->length_bytes;
	}
	if (is_full && at != frame->to_bytes)
		return refuse(ret_error, "a full backup that leaves out %" PRIu64 " bytes",
		    frame->to_bytes - at);
	*ret_data_bytes = data_bytes;
	return 0;
}

uint32_t
backup_frame_plain(const struct backup_frame *frame, uint8_t *plain)
{
	uint8_t *data = plain + frame->range_count * BACKUP_RANGE_BYTES;

	assert(frame->range_count > 0 && frame->range_count <= BACKUP_RANGES_MAX);
	for (uint32_t i = 0; i < frame->range_count; i++) {
		const struct backup_range *range = &frame->ranges[i];

		num_put_le64(plain + i * BACKUP_RANGE_BYTES, range->offset_bytes);
		num_put_le64(plain + i * BACKUP_RANGE_BYTES + 8,
		    range->length_bytes | (range->data == NULL ? RANGE_ZERO : 0));
		if (range->data == NULL)
			continue;
		assert(range->length_bytes <= BACKUP_PLAIN_BYTES_MAX - (uint64_t)(data - plain));
		memcpy(data, range->data, range->length_bytes);
		data += range->length_bytes;
	}
	return (uint32_t)(data - plain);
}

int
backup_frame_decode(const struct backup_frame_header *header, const uint8_t *plain, bool is_full,
    struct backup_frame *ret_frame, char *ret_error)
{
	uint32_t table_bytes = header->range_count * BACKUP_RANGE_BYTES;
	const uint8_t *data = plain + table_bytes;
	uint64_t left = header->plain_bytes - table_bytes, data_bytes = 0;

	assert(header->range_count <= BACKUP_RANGES_MAX && header->plain_bytes >= table_bytes);
	ret_frame->from_bytes = header->from_bytes;
	ret_frame->to_bytes = header->to_bytes;
	ret_frame->range_count = header->range_count;
	for (uint32_t i = 0; i < header->range_count; i++) {
		struct backup_range *range = &ret_frame->ranges[i];
		uint64_t length = num_get_le64(plain + i * BACKUP_RANGE_BYTES + 8);

		range->offset_bytes = num_get_le64(plain + i * BACKUP_RANGE_BYTES);
		range->length_bytes = length & ~RANGE_ZERO;
		range->data = (length & RANGE_ZERO) != 0 ? NULL : data;
		if (range->data == NULL)
			continue;
		if (range->length_bytes > left)
			return refuse(ret_error, "a range has more data than its frame");
		data += range->length_bytes;
		left -= range->length_bytes;
	}
	if (left != 0)
		return refuse(ret_error, "a frame has data that no range names");
	return backup_frame_check(ret_frame, is_full, &data_bytes, ret_error);
}
