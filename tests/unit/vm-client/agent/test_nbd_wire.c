/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "vm-client/agent/nbd_wire.h"

static uint32_t
put_text(uint8_t *out, const char *text)
{
	nbd_put32(out, (uint32_t)strlen(text));
	memcpy(out + 4, text, strlen(text));
	return 4 + (uint32_t)strlen(text);
}

Test(nbd_wire, numbers_are_big_endian)
{
	uint8_t out[8];
	const uint8_t expected[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };

	nbd_put64(out, UINT64_C(0x0102030405060708));
	cr_assert_eq(memcmp(out, expected, 8), 0);
}

Test(nbd_wire, option_head_needs_its_magic)
{
	uint8_t in[NBD_OPTION_BYTES];
	struct nbd_option_head head;

	nbd_put64(in, NBD_IHAVEOPT);
	nbd_put32(in + 8, NBD_OPT_GO);
	nbd_put32(in + 12, 77);
	cr_assert_eq(nbd_option_head_decode(in, &head), 0);
	cr_assert_eq(head.option, NBD_OPT_GO);
	cr_assert_eq(head.length_bytes, 77);
	in[7] ^= 1;
	cr_assert_eq(nbd_option_head_decode(in, &head), -EPROTO);
}

/* Every shorter option is refused, and so is every longer one. */
Test(nbd_wire, info_fits_its_option_exactly)
{
	uint8_t in[64] = { 0 };
	struct nbd_info_request request;
	const char *text = NULL;
	uint32_t bytes = put_text(in, "disk");

	nbd_put16(in + bytes, 2);
	nbd_put16(in + bytes + 2, NBD_INFO_BLOCK_SIZE);
	nbd_put16(in + bytes + 4, NBD_INFO_NAME);
	bytes += 6;
	cr_assert_eq(nbd_info_decode(in, bytes, &request, &text), 0);
	cr_assert_eq(request.name_bytes, 4);
	cr_assert_eq(memcmp(request.name, "disk", 4), 0);
	cr_assert(request.wants_block_size);
	cr_assert(request.wants_name);
	for (uint32_t other = 0; other < sizeof(in); other++) {
		if (other == bytes)
			continue;
		cr_assert_eq(nbd_info_decode(in, other, &request, &text), -EINVAL, "%u", other);
		cr_assert_not_null(text);
	}
}

static uint32_t
put_meta(uint8_t *in, const char *query)
{
	uint32_t bytes = put_text(in, "disk");

	nbd_put32(in + bytes, query == NULL ? 0 : 1);
	bytes += 4;
	return query == NULL ? bytes : bytes + put_text(in + bytes, query);
}

Test(nbd_wire, meta_knows_two_kinds_of_contexts)
{
	static const struct {
		const char *query;
		bool is_list, has_allocation, has_all_bitmaps;
		const char *bitmap;
	} cases[] = {
		{ "base:allocation", false, true, false, NULL },
		{ "base:allocation", true, true, false, NULL },
		{ "base:", false, false, false, NULL },
		{ "base:", true, true, false, NULL },
		{ NULL, true, true, true, NULL },
		{ NULL, false, false, false, NULL },
		{ "qemu:dirty-bitmap:x", false, false, false, "x" },
		{ "qemu:dirty-bitmap:x:y", true, false, false, "x:y" },
		{ "qemu:dirty-bitmap:", false, false, false, NULL },
		{ "qemu:dirty-bitmap:", true, false, true, NULL },
		{ "qemu:", true, false, true, NULL },
		{ "qemu:", false, false, false, NULL },
		{ "qemu:allocation-depth", false, false, false, NULL },
		{ "base:allocatio", false, false, false, NULL },
		{ "", true, false, false, NULL },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint8_t in[64];
		struct nbd_meta_request request;
		const char *text;
		uint32_t bytes = put_meta(in, cases[i].query);

		cr_assert_eq(nbd_meta_decode(in, bytes, cases[i].is_list, &request, &text), 0);
		cr_assert_eq(request.has_allocation, cases[i].has_allocation, "case %zu", i);
		cr_assert_eq(request.has_all_bitmaps, cases[i].has_all_bitmaps, "case %zu", i);
		cr_assert_eq(request.bitmap_count, cases[i].bitmap != NULL, "case %zu", i);
		if (cases[i].bitmap != NULL)
			cr_assert(request.bitmaps[0].name_bytes == strlen(cases[i].bitmap) &&
			    memcmp(request.bitmaps[0].name, cases[i].bitmap,
				request.bitmaps[0].name_bytes) == 0);
		for (uint32_t shorter = 0; shorter < bytes; shorter++)
			cr_assert_eq(nbd_meta_decode(in, shorter, cases[i].is_list, &request,
					 &text),
			    -EINVAL);
	}
}

/* A name that is asked for twice is one; of others there are at most three. */
Test(nbd_wire, meta_has_room_for_three_bitmaps)
{
	static const char *const queries[] = { "qemu:dirty-bitmap:a", "qemu:dirty-bitmap:b",
		"qemu:dirty-bitmap:a", "qemu:dirty-bitmap:c", "qemu:dirty-bitmap:d" };
	uint8_t in[256];
	struct nbd_meta_request request;
	const char *text;
	uint32_t bytes = put_meta(in, NULL);
	uint32_t count_at = bytes - 4;

	for (uint32_t i = 0; i < 5; i++) {
		bytes += put_text(in + bytes, queries[i]);
		nbd_put32(in + count_at, i + 1);
		cr_assert_eq(nbd_meta_decode(in, bytes, false, &request, &text),
		    i == 4 ? -E2BIG : 0);
	}
	cr_assert_eq(request.bitmap_count, 3);
	cr_assert_eq(request.bitmaps[2].name[0], 'c');
}

Test(nbd_wire, a_query_count_beyond_the_data_is_refused)
{
	uint8_t in[64];
	struct nbd_meta_request request;
	const char *text;
	uint32_t bytes = put_meta(in, NULL);

	nbd_put32(in + bytes - 4, UINT32_MAX);
	cr_assert_eq(nbd_meta_decode(in, bytes, false, &request, &text), -EINVAL);
}

Test(nbd_wire, requests_of_both_sizes)
{
	uint8_t in[NBD_EXTENDED_REQUEST_BYTES] = { 0 };
	struct nbd_request_head head;

	nbd_put32(in, NBD_REQUEST_MAGIC);
	nbd_put16(in + 4, NBD_CMD_FLAG_FUA);
	nbd_put16(in + 6, NBD_CMD_WRITE);
	nbd_put64(in + 8, 99);
	nbd_put64(in + 16, 1000);
	nbd_put32(in + 24, 2000);
	cr_assert_eq(nbd_request_decode(in, NBD_SIMPLE, &head), 0);
	cr_assert_eq(head.length_bytes, 2000);
	cr_assert_eq(head.cookie, 99);
	cr_assert_eq(nbd_request_decode(in, NBD_EXTENDED, &head), -EPROTO);
	nbd_put32(in, NBD_EXTENDED_REQUEST_MAGIC);
	nbd_put64(in + 24, UINT64_C(1) << 40);
	cr_assert_eq(nbd_request_decode(in, NBD_EXTENDED, &head), 0);
	cr_assert_eq(head.length_bytes, UINT64_C(1) << 40);
	cr_assert_eq(nbd_request_decode(in, NBD_STRUCTURED, &head), -EPROTO);
}

/* The lengths in the heads count what follows them. */
Test(nbd_wire, replies_say_how_long_they_are)
{
	const struct nbd_request_head head = { .cookie = 5,
		.offset_bytes = 512,
		.length_bytes = 100 };
	const struct nbd_status_head status = { .context_id = 1,
		.extent_count = 3,
		.is_last = true };
	uint8_t out[NBD_REPLY_HEAD_BYTES_MAX];

	cr_assert_eq(nbd_put_done(out, NBD_SIMPLE, &head), 16);
	cr_assert_eq(nbd_put_done(out, NBD_STRUCTURED, &head), 20);
	cr_assert_eq(nbd_put_done(out, NBD_EXTENDED, &head), 32);
	cr_assert_eq(nbd_put_data(out, NBD_SIMPLE, &head), 16);
	cr_assert_eq(nbd_put_data(out, NBD_STRUCTURED, &head), 28);
	cr_assert_eq(out[19], 108);
	cr_assert_eq(nbd_put_data(out, NBD_EXTENDED, &head), 40);
	cr_assert_eq(out[31], 108);
	cr_assert_eq(out[5], 1, "the only one is the last");
	cr_assert_eq(nbd_put_part(out, NBD_STRUCTURED, &head, 520, 30, false), 28);
	cr_assert_eq(out[5], 0);
	cr_assert_eq(out[19], 38);
	cr_assert_arr_eq(out + 20, "\0\0\0\0\0\0\x02\x08", 8);
	cr_assert_eq(nbd_put_part(out, NBD_EXTENDED, &head, 520, 30, true), 40);
	cr_assert_eq(out[5], 1);
	cr_assert_arr_eq(out + 16, "\0\0\0\0\0\0\x02\0", 8, "where the request begins");
	cr_assert_eq(out[31], 38);
	cr_assert_arr_eq(out + 32, "\0\0\0\0\0\0\x02\x08", 8);
	cr_assert_eq(nbd_put_error(out, NBD_STRUCTURED, &head, NBD_EIO, 0), 26);
	cr_assert_eq(out[19], 6);
	cr_assert_eq(nbd_put_status(out, NBD_STRUCTURED, &head, &status), 24);
	cr_assert_eq(out[19], 4 + 3 * 8);
	cr_assert_eq(nbd_put_status(out, NBD_EXTENDED, &head, &status), 40);
	cr_assert_eq(out[31], 8 + 3 * 16);
	cr_assert_eq(out[39], 3);
	cr_assert_eq(nbd_put_extent(out, NBD_STRUCTURED, 0x1000, NBD_STATE_ZERO), 8);
	cr_assert_arr_eq(out, "\0\0\x10\0\0\0\0\2", 8);
	cr_assert_eq(nbd_put_extent(out, NBD_EXTENDED, UINT64_C(1) << 32, NBD_STATE_HOLE), 16);
	cr_assert_arr_eq(out, "\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\1", 16);
}

Test(nbd_wire, errors_are_of_the_protocol)
{
	cr_assert_eq(nbd_error_of(0), NBD_SUCCESS);
	cr_assert_eq(nbd_error_of(-EROFS), NBD_EPERM);
	cr_assert_eq(nbd_error_of(-ENOKEY), NBD_EPERM);
	cr_assert_eq(nbd_error_of(-ENOSPC), NBD_ENOSPC);
	cr_assert_eq(nbd_error_of(-ESHUTDOWN), NBD_ESHUTDOWN);
	cr_assert_eq(nbd_error_of(-ETIMEDOUT), NBD_EIO);
	cr_assert_eq(nbd_error_of(-EBADMSG), NBD_EIO);
}

Test(nbd_wire, requests_are_put_as_they_are_decoded)
{
	const struct nbd_request_head head = { .flags = 0x1122,
		.type = NBD_CMD_RESIZE,
		.cookie = UINT64_C(0x0102030405060708),
		.offset_bytes = UINT64_C(0x1112131415161718),
		.length_bytes = 0x21222324 };

	for (int style = NBD_SIMPLE; style <= NBD_EXTENDED; style++) {
		uint8_t bytes[NBD_EXTENDED_REQUEST_BYTES];
		struct nbd_request_head again;

		cr_assert_eq(nbd_put_request(bytes, (enum nbd_reply_style)style, &head),
		    style == NBD_EXTENDED ? NBD_EXTENDED_REQUEST_BYTES : NBD_REQUEST_BYTES);
		cr_assert_eq(nbd_request_decode(bytes, (enum nbd_reply_style)style, &again), 0);
		cr_assert_eq(again.flags, head.flags);
		cr_assert_eq(again.type, NBD_CMD_RESIZE);
		cr_assert_eq(again.cookie, head.cookie);
		cr_assert_eq(again.offset_bytes, head.offset_bytes);
		cr_assert_eq(again.length_bytes, head.length_bytes);
	}
}
