/* SPDX-License-Identifier: Apache-2.0 */
/* test_backup_format.c -- heads, frames and ends of backups: there and back, and each field that is wrong */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/num.h"
#include "vm-client/backup/backup_format.h"

static char error[BACKUP_ERROR_BYTES];

static struct backup_header
some_header(void)
{
	return (struct backup_header){ .id = { 1, 2, 3 },
		.point = { 7, 8, 9, 1000 },
		.parent = { 7, 8, 5, 900 },
		.created_s = 1001,
		.size_bytes = 1 << 20,
		.service_class = 2,
		.replicas = 3,
		.level = -4,
		.engine = "zstd",
		.volume = "v",
		.snapshot = "new",
		.parent_snapshot = "old" };
}

static void
expect_header_refused(const uint8_t *bytes, const char *text)
{
	struct backup_header header;

	error[0] = '\0';
	cr_assert_eq(backup_header_decode(bytes, &header, error), -EBADMSG, "%s", text);
	cr_assert_not_null(strstr(error, text), "'%s', wanted '%s'", error, text);
}

/* The head with @bytes of @value at @offset, its CRC made right again. */
static void
expect_field_refused(size_t offset, const void *value, size_t bytes, const char *text)
{
	struct backup_header header = some_header();
	uint8_t encoded[BACKUP_HEADER_BYTES];

	backup_header_encode(&header, encoded);
	memcpy(encoded + offset, value, bytes);
	num_put_le32(encoded + 508, crc32c(0, encoded, 508));
	expect_header_refused(encoded, text);
}

Test(backup_format, a_header_comes_back_as_it_was)
{
	struct backup_header header = some_header(), back;
	uint8_t encoded[BACKUP_HEADER_BYTES], again[BACKUP_HEADER_BYTES];

	memset(&back, 0xff, sizeof(back));
	backup_header_encode(&header, encoded);
	cr_assert_eq(backup_header_decode(encoded, &back, error), 0, "%s", error);
	cr_assert_not(backup_is_full(&back));
	cr_assert_eq(back.level, -4);
	cr_assert_str_eq(back.parent_snapshot, "old");
	backup_header_encode(&back, again);
	cr_assert_arr_eq(encoded, again, sizeof(again));
}

Test(backup_format, each_byte_of_a_header_that_changes_is_seen)
{
	struct backup_header header = some_header(), back;
	uint8_t encoded[BACKUP_HEADER_BYTES];

	backup_header_encode(&header, encoded);
	for (size_t i = 0; i < sizeof(encoded); i++) {
		encoded[i] ^= 0x20;
		cr_assert_eq(backup_header_decode(encoded, &back, error), -EBADMSG, "byte %zu", i);
		encoded[i] ^= 0x20;
	}
}

Test(backup_format, a_header_that_is_wrong_in_one_field_is_refused_and_the_text_says_which)
{
	static const uint8_t many[64] = { [0 ... 63] = 'x' };

	expect_field_refused(0, "CLEAVEBL", 8, "no backup");
	expect_field_refused(8, "\2\0\0\0", 4, "version 2");
	expect_field_refused(12, "\0\2\0\0", 4, "512 bytes");
	expect_field_refused(32, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
	    32, "which snapshot");
	expect_field_refused(64, "\1", 1, "cannot be");         /* the parent's cluster */
	expect_field_refused(72, "\1", 1, "cannot be");         /* its volume */
	expect_field_refused(80, "\11", 1, "cannot be");        /* its number */
	expect_field_refused(104, "\0\0\0\0\0\0\0", 8, "size"); /* no bytes */
	expect_field_refused(104, "\1\0\20\0\0\0\0", 8, "size");
	expect_field_refused(104, "\0\0\0\0\0\0\0\1", 8, "size");
	expect_field_refused(124, "\1", 1, "does not know");
	expect_field_refused(128, many, 16, "a name that is none");
	expect_field_refused(144, many, 64, "a name that is none");
	expect_field_refused(144, "v\0x", 3, "a name that is none");
	expect_field_refused(144, "v\n", 2, "a name that is none");
	expect_field_refused(144, "\0\0", 2, "does not name");
	expect_field_refused(208, "\0\0\0", 3, "does not name");
	expect_field_refused(272, "\0\0\0", 3, "two things");
	expect_field_refused(336, "\1", 1, "does not know");
	expect_field_refused(507, "\1", 1, "does not know");
}

/* ---- frames ---- */

static struct backup_frame_header
some_frame(void)
{
	return (struct backup_frame_header){ .index = 3,
		.from_bytes = 4096,
		.to_bytes = 65536,
		.range_count = 2,
		.plain_bytes = 2 * BACKUP_RANGE_BYTES + 8192,
		.stored_bytes = 100,
		.plain_crc = 1,
		.stored_crc = 2,
		.chain_crc = 3 };
}

static int
decode_with(size_t offset, const void *value, size_t bytes)
{
	struct backup_frame_header frame = some_frame();
	uint8_t encoded[BACKUP_FRAME_HEADER_BYTES];
	struct backup_end end;
	enum backup_part part;

	backup_frame_header_encode(&frame, encoded);
	memcpy(encoded + offset, value, bytes);
	num_put_le32(encoded + 60, crc32c(0, encoded, 60));
	error[0] = '\0';
	return backup_part_decode(encoded, &part, &frame, &end, error);
}

static void
expect_frame_refused(size_t offset, const void *value, size_t bytes, const char *text)
{
	cr_assert_eq(decode_with(offset, value, bytes), -EBADMSG, "offset %zu", offset);
	cr_assert_not_null(strstr(error, text), "'%s', wanted '%s'", error, text);
}

Test(backup_format, a_frames_head_that_is_wrong_in_one_field_is_refused)
{
	cr_assert_eq(decode_with(0, "", 0), 0, "%s", error);
	expect_frame_refused(0, "GRAM", 4, "neither");
	expect_frame_refused(4, "\0\0\0\0", 4, "more, or less");
	expect_frame_refused(4, "\1\1\0\0", 4, "more, or less");
	expect_frame_refused(4, "\377\377\377\377", 4, "more, or less");
	expect_frame_refused(16, "\1\20", 2, "no stretch");
	expect_frame_refused(24, "\0\20\0", 3, "no stretch"); /* as long as nothing */
	expect_frame_refused(24, "\1", 1, "no stretch");
	expect_frame_refused(30, "\1", 1, "no stretch"); /* behind any volume's end */
	expect_frame_refused(32, "\37\0\0\0", 4, "more, or less");
	expect_frame_refused(32, "\0\0\0\1", 4, "more, or less");
	expect_frame_refused(36, "\0\0\0\0", 4, "length");
	expect_frame_refused(36, "\0\0\1\0", 4, "length"); /* longer than plain */
	expect_frame_refused(48, "\1", 1, "does not know");
	expect_frame_refused(56, "\1", 1, "does not know");
}

Test(backup_format, an_end_comes_back_and_has_no_byte_that_nobody_knows)
{
	struct backup_end end = { .frame_count = 5,
		.data_bytes = 8192,
		.zero_bytes = 4096,
		.chain_crc = 9 },
			  back;
	uint8_t encoded[BACKUP_FRAME_HEADER_BYTES];
	struct backup_frame_header frame;
	enum backup_part part;

	backup_end_encode(&end, encoded);
	cr_assert_eq(backup_part_decode(encoded, &part, &frame, &back, error), 0, "%s", error);
	cr_assert_eq(part, BACKUP_END);
	cr_assert_eq(back.frame_count + back.data_bytes + back.zero_bytes + back.chain_crc,
	    5u + 8192 + 4096 + 9);
	for (size_t i = 0; i < sizeof(encoded); i++) {
		bool is_known = (i >= 8 && i < 32) || (i >= 52 && i < 56);

		backup_end_encode(&end, encoded);
		encoded[i] ^= 1;
		cr_assert_eq(backup_part_decode(encoded, &part, &frame, &back, error), -EBADMSG);
		num_put_le32(encoded + 60, crc32c(0, encoded, 60));
		cr_assert_eq(backup_part_decode(encoded, &part, &frame, &back, error),
		    is_known || i >= 60 ? 0 : -EBADMSG, "byte %zu", i);
	}
}

/* ---- ranges ---- */

static uint8_t plain[BACKUP_PLAIN_BYTES_MAX];

struct wanted {
	uint64_t offset, length; /* the lowest bit: zeros */
};

static int
decode_ranges(const struct wanted *ranges, uint32_t count, uint32_t data_bytes, bool is_full)
{
	static struct backup_frame frame;
	struct backup_frame_header head = { .from_bytes = 8192,
		.to_bytes = 65536,
		.range_count = count,
		.plain_bytes = count * BACKUP_RANGE_BYTES + data_bytes };

	for (uint32_t i = 0; i < count; i++) {
		num_put_le64(plain + i * BACKUP_RANGE_BYTES, ranges[i].offset);
		num_put_le64(plain + i * BACKUP_RANGE_BYTES + 8, ranges[i].length);
	}
	error[0] = '\0';
	return backup_frame_decode(&head, plain, is_full, &frame, error);
}

#define DECODE(data_bytes, is_full, ...)                                                           \
	decode_ranges((const struct wanted[]){ __VA_ARGS__ },                                      \
	    (uint32_t)NUM_COUNT(((const struct wanted[]){ __VA_ARGS__ })), data_bytes, is_full)

Test(backup_format, ranges_are_blocks_in_order_within_their_frame)
{
	cr_assert_eq(DECODE(4096, false, { 8192, 4096 }, { 16384, 8193 }), 0, "%s", error);
	cr_assert_eq(DECODE(4096, true, { 8192, 4096 }, { 12288, 53249 }), 0, "%s", error);
	cr_assert_eq(DECODE(4096, true, { 8192, 4096 }, { 16384, 49153 }), -EBADMSG); /* a gap */
	cr_assert_eq(DECODE(4096, true, { 8192, 4096 }), -EBADMSG); /* ends early */
	cr_assert_eq(DECODE(0, false, { 4096, 4097 }), -EBADMSG);   /* before */
	cr_assert_eq(DECODE(0, false, { 61440, 8193 }), -EBADMSG);  /* behind */
	cr_assert_eq(DECODE(0, false, { 8192, 1 }), -EBADMSG);      /* empty */
	cr_assert_eq(DECODE(0, false, { 8192, 4099 }), -EBADMSG);   /* no whole blocks */
	cr_assert_eq(DECODE(0, false, { 8193, 4097 }), -EBADMSG);
	cr_assert_eq(DECODE(0, false, { 16384, 4097 }, { 12288, 4097 }), -EBADMSG); /* back */
	cr_assert_eq(DECODE(0, false, { 8192, 8193 }, { 12288, 4097 }), -EBADMSG);  /* overlaps */
	cr_assert_eq(DECODE(4096, false, { 8192, 8192 }), -EBADMSG); /* more than there is */
	cr_assert_eq(DECODE(8192, false, { 8192, 4096 }), -EBADMSG); /* less */
	cr_assert_eq(DECODE(0, false, { 8192, UINT64_MAX & ~UINT64_C(4094) }), -EBADMSG);
	cr_assert_eq(DECODE(0, false, { UINT64_MAX & ~UINT64_C(4095), 8193 }), -EBADMSG);
}
