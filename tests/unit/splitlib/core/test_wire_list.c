/* SPDX-License-Identifier: Apache-2.0 */
/* test_wire_list.c -- what a node may list, and that its list ends */
#include <criterion/criterion.h>
#include <errno.h>

#include "cleave/wire.h"

static void
listed_expect(struct wire_extent_entry entry, uint32_t shard, const char *name)
{
	struct wire_listed listed = { .incarnation = 77 };
	const char *field = NULL;

	cr_assert_eq(wire_listed_decode(&entry, shard, &listed, &field), -EPROTO, "%s", name);
	cr_assert_str_eq(field, name);
	cr_assert_eq(listed.incarnation, 77, "it filled its output");
}

Test(wire_list, listed_fields_are_checked)
{
	static const struct extent_id id = { 4095, 3, 9 }, no_epoch = { 0, 0, 1 };
	const struct wire_extent_entry good = { .extent = extent_id_pack(&id),
		.incarnation = 5,
		.length_bytes = 8192,
		.kind = EXTENT_RUN,
		.state = WIRE_EXTENT_FROZEN,
		.flags = WIRE_FLAG_DAMAGED,
		.fence_epoch = 4 };
	struct wire_extent_entry bad = good;
	struct wire_listed listed;
	const char *field = NULL;

	cr_assert_eq(wire_listed_decode(&good, UINT32_MAX, &listed, &field), 0);
	cr_assert_eq(wire_listed_decode(&good, 4095, &listed, &field), 0);
	cr_assert_eq(listed.id.shard, 4095);
	cr_assert_eq(listed.id.epoch, 3);
	cr_assert_eq(listed.incarnation, 5);
	cr_assert_eq(listed.length_bytes, 8192);
	cr_assert_eq(listed.kind, EXTENT_RUN);
	cr_assert_eq(listed.state, WIRE_EXTENT_FROZEN);
	cr_assert_eq(listed.fence_epoch, 4);
	cr_assert(listed.is_damaged);
	listed_expect(good, 0, "shard");
	bad.extent = UINT64_C(4096) << 50 |
	    UINT64_C(3) << 26; /* it fits, and there is no such shard */
	listed_expect(bad, UINT32_MAX, "extent");
	bad.extent = UINT64_MAX;
	listed_expect(bad, UINT32_MAX, "extent");
	bad.extent = extent_id_pack(&no_epoch);
	listed_expect(bad, 0, "extent");
#define LISTED_BAD(member, value, name)                                                            \
	bad = good;                                                                                \
	bad.member = (value);                                                                      \
	listed_expect(bad, UINT32_MAX, name)
	LISTED_BAD(kind, 0, "extent_kind");
	LISTED_BAD(kind, EXTENT_MANIFEST + 1, "extent_kind");
	LISTED_BAD(state, 0, "extent_state");
	LISTED_BAD(state, WIRE_EXTENT_SEALED + 1, "extent_state");
	LISTED_BAD(flags, WIRE_FLAG_SEALED, "extent_flags");
	LISTED_BAD(length_bytes, 4095, "length_bytes");
	LISTED_BAD(length_bytes, CLEAVE_CHUNK_BYTES + 4096, "length_bytes");
	LISTED_BAD(fence_epoch, EXTENT_EPOCH_MAX + 1, "fence_epoch");
}

Test(wire_list, a_list_ends)
{
	const char *field = NULL;

	cr_assert_eq(wire_list_check_cursor(0, 0, 0, &field), 0);
	cr_assert_eq(wire_list_check_cursor(0, 3, 3, &field), 0);
	cr_assert_eq(wire_list_check_cursor(10, 3, 90, &field), 0);
	cr_assert_eq(wire_list_check_cursor(10, 3, 0, &field), 0);
	cr_assert_null(field);
	cr_assert_eq(wire_list_check_cursor(10, 3, 10, &field), -EPROTO, "it stands still");
	cr_assert_str_eq(field, "cursor");
	cr_assert_eq(wire_list_check_cursor(10, 3, 9, &field), -EPROTO, "it goes back");
	cr_assert_eq(wire_list_check_cursor(10, 3, 12, &field), -EPROTO, "a slot has two copies");
	cr_assert_eq(wire_list_check_cursor(10, 0, 11, &field), -EPROTO, "an empty page");
	cr_assert_eq(wire_list_check_cursor(0, 1, UINT64_MAX, &field), -EPROTO, "no such slot");
}
