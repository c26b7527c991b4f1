/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_wire_hot.c -- heads of slots and keys of pages round trip, and what is wrong with one is seen; the bytes stay
 *
 * tests/golden/wire_hot.bin holds a head, and a name's tag and set. CLEAVE_GOLDEN_WRITE=1 writes it anew.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/num.h"
#include "cleave/hot.h"
#include "unit/wire_fields.h"

#define BYTES (HOT_HEAD_BYTES + 8u)
#define SETS (3 * HOT_PAGE_SETS)

static const struct wire_hot_head head = { .control = 17 << 1 | 1,
	.segment = 0x1122334455667788,
	.block = 0x01020304,
	.shard = 5,
	.epoch = 6,
	.block_crc = 0x51525354,
	.volume = 0x2122232425262728,
	.version = 17 };

static void
make(uint8_t bytes[BYTES])
{
	uint64_t hash = wire_hot_hash(head.segment, head.block);

	wire_hot_head_encode(bytes, &head);
	num_put_le32(bytes + HOT_HEAD_BYTES, wire_hot_tag(hash));
	num_put_le32(bytes + HOT_HEAD_BYTES + 4, wire_hot_set(hash, SETS));
}

Test(wire_hot, bytes_stay)
{
	uint8_t bytes[BYTES];

	make(bytes);
	golden_check("hot", bytes, sizeof(bytes));
}

Test(wire_hot, a_head_round_trips)
{
	uint8_t bytes[HOT_HEAD_BYTES];
	struct wire_hot_head out;

	wire_hot_head_encode(bytes, &head);
	cr_assert_eq(wire_hot_head_decode(bytes, &out), 0);
	cr_assert_eq(memcmp(&out, &head, sizeof(out)), 0);
}

Test(wire_hot, one_that_is_hidden_or_torn_is_none)
{
	uint8_t bytes[HOT_HEAD_BYTES];
	struct wire_hot_head out, other = head;

	wire_hot_head_encode(bytes, &head);
	num_put_le64(bytes, head.version << 1); /* hidden */
	cr_assert_eq(wire_hot_head_decode(bytes, &out), -EAGAIN);
	num_put_le64(bytes, (head.version + 1) << 1 | 1); /* control of a later version */
	cr_assert_eq(wire_hot_head_decode(bytes, &out), -EAGAIN);
	for (uint32_t i = 8; i < HOT_HEAD_BYTES; i++) {
		wire_hot_head_encode(bytes, &head);
		bytes[i] ^= 1;
		cr_assert_eq(wire_hot_head_decode(bytes, &out), -EAGAIN, "byte %u", i);
	}
	/* The CRC of a block of another version. */
	other.version = 18;
	other.control = 18 << 1 | 1;
	other.block_crc++;
	wire_hot_head_encode(bytes, &other);
	num_put_le32(bytes + 28, head.block_crc);
	cr_assert_eq(wire_hot_head_decode(bytes, &out), -EAGAIN);
}

Test(wire_hot, names_have_tags_and_sets)
{
	uint32_t seen = 0;

	for (uint32_t block = 0; block < 20 * SETS; block++) {
		uint64_t hash = wire_hot_hash(7, block);

		cr_assert_neq(wire_hot_tag(hash), 0);
		cr_assert_lt(wire_hot_set(hash, SETS), SETS);
		seen += wire_hot_set(hash, SETS) == SETS - 1;
	}
	cr_assert_gt(seen, 5);
	cr_assert_lt(seen, 50);
}

Test(wire_hot, wrong_pages_are_named)
{
	struct dev_remote page = { .address = 4096,
		.bytes = HOT_PAGE_BYTES,
		.key = 1,
		.rights = DEV_REGION_READ },
			  out;
	uint8_t bytes[DEV_REMOTE_BYTES];
	const char *field = NULL;

	dev_remote_encode(bytes, &page);
	cr_assert_eq(wire_hot_page_decode(bytes, &out, &field), 0);
	cr_assert_eq(memcmp(&out, &page, sizeof(out)), 0);
	num_put_le64(bytes, UINT64_MAX);
	cr_assert_eq(wire_hot_page_decode(bytes, &out, &field), -EPROTO);
	cr_assert_str_eq(field, "hot_page");
	page.bytes = HOT_PAGE_BYTES / 2;
	dev_remote_encode(bytes, &page);
	cr_assert_eq(wire_hot_page_decode(bytes, &out, &field), -EPROTO);
	cr_assert_str_eq(field, "hot_page_bytes");
	page.bytes = HOT_PAGE_BYTES;
	page.rights = DEV_REGION_READ | DEV_REGION_WRITE;
	dev_remote_encode(bytes, &page);
	cr_assert_eq(wire_hot_page_decode(bytes, &out, &field), -EPROTO);
	cr_assert_str_eq(field, "hot_page_rights");
}
