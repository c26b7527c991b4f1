/* SPDX-License-Identifier: Apache-2.0 */
/* test_edit_limits.c -- limits and shares of volumes, as shard 0's manifest mirrors them */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/num.h"
#include "middletier/manifest/edit.h"
#include "middletier/manifest/edit_decode.h"

static const struct mt_edit clone = { .kind = MT_EDIT_VOLUME,
	.volume = { .id = 2,
	    .name = "a-clone",
	    .size_bytes = 4096,
	    .segment_base = 0x0000000500000801,
	    .segment_count = 1,
	    .replica_count = 3,
	    .origin = 0x2122232425262728,
	    .scope = { .span_count = 2,
		.spans = { { 0x0000000500000801, 0, UINT64_MAX }, { 0x801, 0, 4 } } } } };
static uint8_t bytes[MT_EDIT_BYTES_MAX];

/* Limits and shares of a volume are the last of its edit; a volume without is written as level 1 does. */
Test(edit_limits, limits_are_mirrored)
{
	const char *field = NULL;
	struct mt_edit edit = clone, again;
	uint32_t plain = mt_edit_encode(bytes, &edit), length;

	edit.volume.limits =
	    (struct cleave_limits){ .iops = 5, .burst_ms = 20, .min_iops = 400, .weight = 1000 };
	length = mt_edit_encode(bytes, &edit);
	cr_assert_eq(length, plain + 8 * 9);
	cr_assert_eq(bytes[4 + 51], 4);
	cr_assert_eq(mt_edit_decode(bytes, length, &again, &field), (int)length, "%s", field);
	cr_assert_eq(memcmp(&again.volume.limits, &edit.volume.limits, sizeof(again.volume.limits)),
	    0);
	cr_assert_eq(again.volume.scope.span_count, 2, "what is before them is where it was");
	num_put_le64(bytes + length - 8, 1001);
	cr_assert_eq(mt_edit_decode(bytes, length, &again, &field), -EBADMSG);
	cr_assert_str_eq(field, "limits", "a weight out of its range");
	memset(bytes + length - 8 * 9, 0, 8 * 9);
	cr_assert_eq(mt_edit_decode(bytes, length, &again, &field), -EBADMSG);
	cr_assert_str_eq(field, "limits", "none would be a second text of the same");
}
