/* SPDX-License-Identifier: Apache-2.0 */
/* test_edit_keys.c -- edits that mirror encrypted volumes: their bytes, each field checked, what they come to */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "middletier/manifest/edit.h"
#include "middletier/manifest/edit_decode.h"
#include "middletier/manifest/manifest_edits.h"
#include "middletier/manifest/manifest_mirror.h"
#include "middletier/manifest/manifest_state.h"
#include "unit/edit_refusal.h"

TestSuite(edit_keys, .timeout = 60);

static const struct mt_edit samples[] = {
	{ .kind = MT_EDIT_VOLUME,
	    .volume = { .id = 3,
		.name = "encrypted-3",
		.size_bytes = 4096,
		.segment_base = 0x0000000500000801,
		.segment_count = 1,
		.replica_count = 3,
		.key_id = 0xf1f2f3f4,
		.trash = { .name = "encrypted-3", .deleted_s = 1, .keep_ms = 2, .left_ms = 3 },
		.limits = { .iops = 5 },
		.origin = 0x2122232425262728,
		.scope = { .span_count = 2,
		    .spans = { { 0x0000000500000801, 0, UINT64_MAX }, { 0x801, 0, 4 } } } } },
	{ .kind = MT_EDIT_CLUSTER,
	    .next_volume_id = 1,
	    .next_segment = 2,
	    .shard_count = 3,
	    .level = 2,
	    .next_snapshot = 4,
	    .next_clone = 5,
	    .next_key = 0x100000000 },
	{ .kind = MT_EDIT_DATA_KEY,
	    .data_key = { .id = 0xfffffffe,
		.volume = 3,
		.state = MT_DATA_KEY_RETIRING,
		.kek = "default",
		.wrapped_bytes = 5,
		.wrapped = { 1, 2, 3, 4, 0xff } } },
	{ .kind = MT_EDIT_NAME,
	    .name = { .number = 3, .key_id = 0xfffffffe, .sealed = { 1, 2, [91] = 0xfe } } },
};

static uint8_t bytes[MT_EDIT_BYTES_MAX];

Test(edit_keys, every_kind_comes_back)
{
	for (uint32_t i = 0; i < NUM_COUNT(samples); i++) {
		uint32_t length = mt_edit_encode(bytes, &samples[i]);
		uint8_t again[MT_EDIT_BYTES_MAX];
		struct mt_edit edit;
		const char *field = NULL;

		cr_assert_leq(length, MT_EDIT_BYTES_MAX);
		cr_assert_eq(mt_edit_decode(bytes, length, &edit, &field), (int)length, "%u: %s", i,
		    field);
		cr_assert_eq(mt_edit_encode(again, &edit), length);
		cr_assert_eq(memcmp(again, bytes, length), 0, "%u", i);
	}
}

/* CLEAVE_GOLDEN_WRITE=1 writes the file: only when the format's version changes. */
Test(edit_keys, golden_bytes)
{
	const char *root = getenv("CLEAVE_SOURCE_DIR");
	uint8_t all[NUM_COUNT(samples) * MT_EDIT_BYTES_MAX], stored[sizeof(all)];
	char path[4096];
	size_t length = 0;
	FILE *file;

	for (uint32_t i = 0; i < NUM_COUNT(samples); i++)
		length += mt_edit_encode(all + length, &samples[i]);
	(void)snprintf(path, sizeof(path), "%s/tests/golden/edits_encrypted.bin",
	    root == NULL ? "." : root);
	if (getenv("CLEAVE_GOLDEN_WRITE") != NULL) {
		file = fopen(path, "wb");
		cr_assert_not_null(file);
		cr_assert_eq(fwrite(all, 1, length, file), length);
		cr_assert_eq(fclose(file), 0);
	}
	file = fopen(path, "rb");
	if (file == NULL && root == NULL)
		cr_skip_test("tests/golden is not here: set CLEAVE_SOURCE_DIR");
	cr_assert_not_null(file, "%s", path);
	cr_assert_eq(fread(stored, 1, sizeof(stored), file), length);
	(void)fclose(file);
	cr_assert_eq(memcmp(all, stored, length), 0);
}

/* Level 1 wrote a zero there: nothing else of it has changed. */
static void
expect_refused(uint32_t sample, uint32_t at, uint8_t value, const char *name)
{
	uint32_t length = mt_edit_encode(bytes, &samples[sample]);
	const char *field = NULL;
	struct mt_edit edit = { .epoch = 77 };

	bytes[at] = value;
	cr_assert_eq(mt_edit_decode(bytes, length, &edit, &field), edit_refusal(name), "%s", name);
	cr_assert_str_eq(field, name, "%s, not %s", field, name);
	cr_assert_eq(edit.epoch, 77, "output touched");
}

Test(edit_keys, wrong_fields_are_named)
{
	expect_refused(0, 55, 64, "volume_flags");
	expect_refused(1, 48, 2, "next_key"); /* beyond the last, which says that none is left */
	expect_refused(1, 2, 41, "value_bytes");
	expect_refused(2, 8, 1, "id"); /* above 2^32 */
	expect_refused(2, 19, 0x80, "volume");
	expect_refused(2, 20, MT_DATA_KEY_STATE_NR, "state");
	expect_refused(2, 21, 2, "flags");
	expect_refused(2, 22, 0, "wrapped_bytes");
	expect_refused(2, 22, 6, "wrapped_bytes");
	expect_refused(2, 24, 1, "reserved");
	expect_refused(2, 28, '/', "kek");
	expect_refused(2, 28 + 8, 1, "kek");
	expect_refused(3, 4, 0, "number");
	expect_refused(3, 16, 2, "flags");
	expect_refused(3, 19, 1, "reserved");
	expect_refused(3, 2, 107, "value_bytes");
}

static struct mt_edit
data_key_edit(uint64_t id, uint8_t byte)
{
	return (struct mt_edit){ .kind = MT_EDIT_DATA_KEY,
		.data_key = { .id = id,
		    .volume = 1,
		    .kek = "k",
		    .wrapped_bytes = 1,
		    .wrapped = { byte } } };
}

/* Sorted, replaced, deleted; what a checkpoint has of them comes back; and their bytes are counted. */
Test(edit_keys, data_keys_and_names_are_kept)
{
	struct mt_edit two = data_key_edit(2, 7), one = data_key_edit(1, 8),
		       again = data_key_edit(2, 9);
	struct mt_edit name = { .kind = MT_EDIT_NAME,
		.name = { .number = 5, .key_id = 2, .sealed = { 3 } } };
	struct mt_edit cluster = samples[1], edit;
	struct mt_manifest_state state, back;
	const char *field;
	uint64_t all_bytes = 0;
	uint8_t scratch[MT_EDIT_BYTES_MAX];

	mt_manifest_state_init(&state);
	cr_assert_eq(mt_manifest_state_apply(&state,
			 &(struct mt_edit){ .kind = MT_EDIT_EPOCH, .epoch = 5 }, &field),
	    0);
	cr_assert_eq(mt_manifest_state_apply(&state, &two, &field), 0);
	cr_assert_eq(mt_manifest_state_apply(&state, &one, &field), 0);
	cr_assert_eq(mt_manifest_state_apply(&state, &again, &field), 0);
	cr_assert_eq(mt_manifest_state_apply(&state, &name, &field), 0);
	cr_assert_eq(mt_manifest_state_apply(&state, &cluster, &field), 0);
	cr_assert_eq(state.data_key_count, 2u);
	cr_assert_eq(state.data_keys[0].id, 1u);
	cr_assert_eq(state.data_keys[1].wrapped[0], 9);
	cr_assert_eq(state.next_key, 0x100000000u);
	cr_assert_eq(mt_manifest_state_name(&state, 5)->sealed[0], 3);
	cr_assert_null(mt_manifest_state_name(&state, 4));
	mt_manifest_state_init(&back);
	for (uint64_t i = 0; mt_manifest_state_edit(&state, i, 1, &edit); i++) {
		all_bytes += mt_edit_encode(scratch, &edit);
		if (edit.kind != MT_EDIT_CHECKPOINT_END)
			cr_assert_eq(mt_manifest_state_apply(&back, &edit, &field), 0, "%s", field);
	}
	cr_assert_leq(all_bytes, mt_manifest_state_bytes(&state));
	cr_assert_eq(back.data_key_count, 2u);
	cr_assert_eq(back.name_count, 1u);
	cr_assert_eq(back.next_key, state.next_key);
	cr_assert_eq(back.mirror_bytes, state.mirror_bytes);
	mt_manifest_state_fini(&back);
	two.is_deleted = name.is_deleted = one.is_deleted = true;
	cr_assert_eq(mt_manifest_state_apply(&state, &two, &field), 0);
	cr_assert_eq(mt_manifest_state_apply(&state, &one, &field), 0);
	cr_assert_eq(mt_manifest_state_apply(&state, &name, &field), 0);
	cr_assert_eq(state.mirror_bytes, 0u);
	cr_assert_eq(mt_manifest_state_apply(&state, &name, &field), -EBADMSG);
	cr_assert_not_null(strstr(field, "name"));
	mt_manifest_state_fini(&state);
}
