/* SPDX-License-Identifier: Apache-2.0 */
/* test_edit_snapshot.c -- the edit that mirrors a snapshot: what level 2 has in it */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/num.h"
#include "middletier/manifest/edit.h"
#include "middletier/manifest/edit_decode.h"

#define PLACE_AT 55u /* among those that were taken together */

static struct mt_edit
sample(uint64_t number)
{
	return (struct mt_edit){ .kind = MT_EDIT_SNAPSHOT,
		.snapshot = { .number = number,
		    .name = "monday",
		    .volume_id = 7,
		    .size_bytes = NUM_GIB(1),
		    .segment_base = 1,
		    .segment_count = 1,
		    .created_s = 1700000000,
		    .state = MT_SNAPSHOT_LIVE,
		    .scope = { .span_count = 1, .spans = { { 1, 0, number } } } } };
}

/* The third of a group; level 1 wrote a zero there. */
Test(edit_snapshot, place_in_a_group_stands_where_level_1_had_a_zero)
{
	struct mt_edit edit = sample(9), again;
	uint8_t plain[MT_EDIT_BYTES_MAX], grouped[MT_EDIT_BYTES_MAX];
	uint32_t length = mt_edit_encode(plain, &edit);
	const char *field = NULL;

	edit.snapshot.group = 7;
	cr_assert_eq(mt_edit_encode(grouped, &edit), length);
	for (uint32_t i = 0; i < length; i++)
		cr_assert_eq(grouped[i], i == PLACE_AT ? 3 : plain[i], "byte %u", i);
	cr_assert_eq(mt_edit_decode(grouped, length, &again, &field), (int)length, "%s", field);
	cr_assert_eq(again.snapshot.group, 7);
	cr_assert_eq(mt_edit_decode(plain, length, &again, &field), (int)length, "%s", field);
	cr_assert_eq(again.snapshot.group, 0);
}

/* Numbers begin with 1: a group that began before that is none. */
Test(edit_snapshot, place_before_the_first_number_is_refused)
{
	struct mt_edit edit = sample(2), again;
	uint8_t bytes[MT_EDIT_BYTES_MAX];
	uint32_t length = mt_edit_encode(bytes, &edit);
	const char *field = NULL;

	bytes[PLACE_AT] = 2;
	cr_assert_eq(mt_edit_decode(bytes, length, &again, &field), (int)length, "%s", field);
	bytes[PLACE_AT] = 3;
	cr_assert_eq(mt_edit_decode(bytes, length, &again, &field), -EBADMSG);
	cr_assert_str_eq(field, "group");
}
