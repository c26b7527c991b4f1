/* SPDX-License-Identifier: Apache-2.0 */
/* test_edit_run.c -- the edit that names a run with its directory; without one it is as it was (test_edit.c) */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/num.h"
#include "middletier/manifest/edit.h"
#include "middletier/manifest/edit_decode.h"
#include "middletier/manifest/manifest_edits.h"
#include "middletier/manifest/manifest_state.h"

static const struct mt_edit plain = { .kind = MT_EDIT_RUN_ADDED,
	.id = { .shard = 7, .epoch = 3, .counter = 9 },
	.chunk = 0x0102030405060708,
	.offset_bytes = 0x10000,
	.length_bytes = 0x20000,
	.flushed_sequence = 0x1112131415161718,
	.cut = 0x2122232425262728 };

static uint8_t bytes[MT_EDIT_BYTES_MAX];

/* A run that ends with a directory, as bytes; a release of level 1 refuses these. */
static uint32_t
run_with_directory(void)
{
	struct mt_edit edit = plain;

	edit.directory_bytes = 0x2000;
	edit.directory_crc = 0x31323334;
	return mt_edit_encode(bytes, &edit);
}

Test(edit_run, a_run_with_a_directory_comes_back)
{
	static const uint8_t more[] = { 0, 0x20, 0, 0, 0x34, 0x33, 0x32, 0x31 };
	uint32_t plain_bytes = mt_edit_encode(bytes, &plain), length;
	uint8_t before[MT_EDIT_BYTES_MAX], again[MT_EDIT_BYTES_MAX];
	const char *field = NULL;
	struct mt_edit edit;

	memcpy(before, bytes, plain_bytes);
	length = run_with_directory();
	cr_assert_eq(length, plain_bytes + sizeof(more));
	cr_assert_eq(num_get_le16(bytes + 2), 56);
	cr_assert_arr_eq(bytes + 4, before + 4, plain_bytes - 4);
	cr_assert_arr_eq(bytes + plain_bytes, more, sizeof(more));
	cr_assert_eq(mt_edit_decode(bytes, length, &edit, &field), (int)length, "%s", field);
	cr_assert_eq(edit.directory_bytes, 0x2000);
	cr_assert_eq(edit.directory_crc, 0x31323334);
	cr_assert_eq(mt_edit_encode(again, &edit), length);
	cr_assert_arr_eq(again, bytes, length);
}

Test(edit_run, a_wrong_directory_is_refused)
{
	static const uint32_t wrong[] = { 0, 1, 0x1001, 0x5000, 0x20000, UINT32_MAX };
	const char *field = NULL;
	struct mt_edit edit;
	uint32_t length;

	for (uint32_t i = 0; i < NUM_COUNT(wrong); i++) {
		length = run_with_directory();
		num_put_le32(bytes + 52, wrong[i]);
		cr_assert_eq(mt_edit_decode(bytes, length, &edit, &field), -EBADMSG, "%u", i);
		cr_assert_str_eq(field, "directory_bytes", "%u", i);
	}
	for (uint32_t cut = 1; cut < 8; cut++) {
		length = run_with_directory();
		num_put_le16(bytes + 2, (uint16_t)(56 - cut));
		cr_assert_eq(mt_edit_decode(bytes, length - cut, &edit, &field), -EPROTONOSUPPORT);
		cr_assert_str_eq(field, "value_bytes");
	}
}

/* Bytes of all edits of runs in @state's checkpoint. */
static uint64_t
checkpoint_bytes(const struct mt_manifest_state *state)
{
	struct mt_edit edit;
	uint64_t sum = 0;

	for (uint64_t i = 0; mt_manifest_state_edit(state, i, 1, &edit); i++)
		sum += edit.kind == MT_EDIT_RUN_ADDED ? mt_edit_encode(bytes, &edit) : 0;
	return sum;
}

static void
apply(struct mt_manifest_state *state, struct mt_edit edit)
{
	const char *field = NULL;

	cr_assert_eq(mt_manifest_state_apply(state, &edit, &field), 0, "%s", field);
}

Test(edit_run, a_checkpoint_has_the_directories_and_counts_them)
{
	struct mt_manifest_state state;
	struct mt_edit edit = { .kind = MT_EDIT_EXTENT_OPENED,
		.id = plain.id,
		.extent_kind = EXTENT_RUN,
		.replicas = { { .node_id = 1, .incarnation = 1 } },
		.replica_count = 1 };

	mt_manifest_state_init(&state);
	apply(&state, (struct mt_edit){ .kind = MT_EDIT_EPOCH, .epoch = 5 });
	apply(&state, edit);
	for (uint32_t i = 0; i < 7; i++) {
		edit = plain;
		edit.offset_bytes = i * NUM_KIB(256);
		edit.flushed_sequence = edit.cut = 3;
		edit.directory_bytes = i % 2 * 4096;
		edit.directory_crc = i % 2 * 77;
		apply(&state, edit);
		cr_assert_eq(mt_manifest_state_pressed_bytes(&state), checkpoint_bytes(&state));
	}
	cr_assert_eq(state.runs.directory_count, 3);
	for (uint32_t i = 0; i < 7; i++) {
		edit = plain;
		edit.kind = MT_EDIT_RUN_REMOVED;
		edit.offset_bytes = i * NUM_KIB(256);
		apply(&state, edit);
		cr_assert_eq(mt_manifest_state_pressed_bytes(&state), checkpoint_bytes(&state));
	}
	cr_assert_eq(state.runs.directory_count, 0);
	mt_manifest_state_fini(&state);
}
