/* SPDX-License-Identifier: Apache-2.0 */
/* test_edit.c -- a manifest's edits: every kind as bytes, every field checked; and what they come to */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/level.h"
#include "cleave/wire.h"
#include "middletier/catalog/numbers.h"
#include "middletier/catalog/scope.h"
#include "middletier/catalog/snapshot.h"
#include "middletier/common/alloc.h"
#include "middletier/common/replica.h"
#include "middletier/manifest/edit.h"
#include "middletier/manifest/edit_decode.h"
#include "middletier/manifest/manifest_edits.h"
#include "middletier/manifest/manifest_mirror.h"
#include "middletier/manifest/manifest_parts.h"
#include "middletier/manifest/manifest_state.h"
#include "unit/edit_refusal.h"

#define REPLICA_FIRST 20u /* of an OPENED edit */

static const struct mt_edit samples[] = {
	{ .kind = MT_EDIT_EPOCH, .epoch = 0x00abcdef },
	{ .kind = MT_EDIT_EXTENT_OPENED,
	    .id = { .shard = 7, .epoch = 0x123456, .counter = 0x2345678 },
	    .extent_kind = EXTENT_LOG,
	    .replicas = { { .node_id = 1, .incarnation = 0x1122334455667788 },
		{ .node_id = 2, .incarnation = 2, .is_damaged = true },
		{ .node_id = 0xfffffffe, .incarnation = UINT64_MAX } },
	    .replica_count = 3 },
	{ .kind = MT_EDIT_EXTENT_SEALED,
	    .id = { .shard = 7, .epoch = 0x123456, .counter = 0x2345678 },
	    .length_bytes = 0x123000 },
	{ .kind = MT_EDIT_EXTENT_DELETED, .id = { .shard = 4095, .epoch = 1, .counter = 1 } },
	{ .kind = MT_EDIT_RUN_ADDED,
	    .id = { .shard = 7, .epoch = 3, .counter = 9 },
	    .chunk = 0x0102030405060708,
	    .offset_bytes = 0x10000,
	    .length_bytes = 0x20000,
	    .flushed_sequence = 0x1112131415161718,
	    .cut = 0x2122232425262728 },
	{ .kind = MT_EDIT_RUN_REMOVED,
	    .id = { .shard = 7, .epoch = 3, .counter = 9 },
	    .chunk = 0x0102030405060708,
	    .offset_bytes = 0x10000 },
	{ .kind = MT_EDIT_CUT,
	    .cut = 0x3132333435363738,
	    .sequence = 0x4142434445464748,
	    .segment_base = 0x0000000500000801,
	    .segment_count = 2048 },
	{ .kind = MT_EDIT_CHECKPOINT_END, .sequence = 0x5152535455565758 },
	{ .kind = MT_EDIT_SUCCESSOR, .id = { .shard = 7, .epoch = 4, .counter = 10 } },
	{ .kind = MT_EDIT_VOLUME,
	    .volume = { .id = 0x6162636465666768,
		.name = "a-volume",
		.size_bytes = 33 * NUM_GIB(1),
		.segment_base = 0x7172737475767778,
		.segment_count = 2,
		.service_class = SERVICE_CAPACITY,
		.codec_id = 3,
		.level = -5,
		.replica_count = 2,
		.attach = 0x8182838485868788,
		.session_id = 0x9192939495969798 } },
	{ .kind = MT_EDIT_VOLUME,
	    .volume = { .id = 1,
		.name = "the-longest-name-that-a-volume-may-have-is-of-sixty-three-bytes",
		.size_bytes = 4096,
		.segment_count = 1,
		.replica_count = 3 },
	    .is_deleted = true },
	{ .kind = MT_EDIT_CLUSTER,
	    .next_volume_id = 0xa1a2a3a4a5a6a7a8,
	    .next_segment = 0xb1b2b3b4b5b6b7b8,
	    .shard_count = 4096,
	    .next_snapshot = 0xd1d2d3d4d5d6d7d8,
	    .next_clone = 0xe1e2e3e4e5e6e7e8 },
	{ .kind = MT_EDIT_EXTENT_REPLICAS,
	    .id = { .shard = 7, .epoch = 3, .counter = 9 },
	    .extent_kind = EXTENT_LOG,
	    .replica_count = 2,
	    .replicas = { { .node_id = 5, .incarnation = 0xc1c2c3c4c5c6c7c8 },
		{ .node_id = 6, .incarnation = 2, .is_damaged = true } } },
	{ .kind = MT_EDIT_CUT_DROPPED, .cut = 0x3132333435363738 },
	{ .kind = MT_EDIT_SNAPSHOT,
	    .snapshot = { .number = 0xf1f2f3f4f5f6f7f8,
		.name = "before-the-upgrade",
		.volume_id = 0x6162636465666768,
		.size_bytes = 33 * NUM_GIB(1),
		.segment_base = 0x0000000500000801,
		.segment_count = 2,
		.created_s = 0x0102030405060708,
		.state = MT_SNAPSHOT_DELETED,
		.clone_count = 0x11121314,
		.scope = { .span_count = 2,
		    .spans = { { 0x0000000500000801, 3, 9 }, { 0x801, 0, UINT64_MAX } } } } },
	{ .kind = MT_EDIT_VOLUME,
	    .volume = { .id = 2,
		.name = "a-clone",
		.size_bytes = 4096,
		.segment_base = 0x0000000500000801,
		.segment_count = 1,
		.replica_count = 3,
		.origin = 0x2122232425262728,
		.scope = { .span_count = 2,
		    .spans = { { 0x0000000500000801, 0, UINT64_MAX }, { 0x801, 0, 4 } } } } },
	{ .kind = MT_EDIT_PART,
	    .id = { .shard = 7, .epoch = 3, .counter = 8 },
	    .extent_kind = EXTENT_MANIFEST,
	    .replica_count = 2,
	    .replicas = { { .node_id = 5, .incarnation = 0xc1c2c3c4c5c6c7c8 },
		{ .node_id = 6, .incarnation = 2 } },
	    .length_bytes = 0x123000 },
};

static uint8_t bytes[MT_EDIT_BYTES_MAX];

/* ---- bytes ---- */

Test(edit, every_kind_comes_back)
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
		cr_assert_eq(memcmp(again, bytes, length), 0, "kind %u", i + 1);
	}
}

/* CLEAVE_GOLDEN_WRITE=1 writes the file: only when the format's version changes. */
Test(edit, golden_bytes)
{
	const char *root = getenv("CLEAVE_SOURCE_DIR");
	uint8_t all[NUM_COUNT(samples) * MT_EDIT_BYTES_MAX], stored[sizeof(all)];
	char path[4096];
	size_t length = 0;
	FILE *file;

	for (uint32_t i = 0; i < NUM_COUNT(samples); i++)
		length += mt_edit_encode(all + length, &samples[i]);
	(void)snprintf(path, sizeof(path), "%s/tests/golden/edits.bin", root == NULL ? "." : root);
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
Test(edit, level_stands_where_level_1_had_a_zero)
{
	struct mt_edit edit = samples[11], again;
	uint8_t plain[MT_EDIT_BYTES_MAX], raised[MT_EDIT_BYTES_MAX];
	uint32_t length = mt_edit_encode(plain, &edit);
	const char *field = NULL;

	cr_assert_eq(edit.kind, MT_EDIT_CLUSTER);
	edit.level = 2;
	cr_assert_eq(mt_edit_encode(raised, &edit), length);
	cr_assert_eq(mt_edit_decode(raised, length, &again, &field), (int)length, "%s", field);
	cr_assert_eq(again.level, 2);
	cr_assert_eq(raised[24], 2);
	raised[24] = 0;
	cr_assert_arr_eq(raised, plain, length);
}

Test(edit, cut_short_is_refused)
{
	for (uint32_t i = 0; i < NUM_COUNT(samples); i++) {
		uint32_t length = mt_edit_encode(bytes, &samples[i]);
		struct mt_edit edit;

		for (uint32_t part = 0; part < length; part++) {
			const char *field = NULL;
			uint8_t *exact = malloc(part + 1);

			memcpy(exact, bytes, part);
			cr_assert_eq(mt_edit_decode(exact, part, &edit, &field), -EBADMSG);
			cr_assert_str_eq(field, "bytes");
			free(exact);
		}
	}
}

/* Changes a byte of a sample and names the field that must be blamed. */
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

Test(edit, wrong_fields_are_named)
{
	expect_refused(0, 0, 0, "kind");
	expect_refused(0, 0, MT_EDIT_NAME + 1, "kind");
	expect_refused(0, 0, 255, "kind");
	expect_refused(0, 1, 2, "version");
	expect_refused(0, 2, 7, "value_bytes");
	expect_refused(0, 3, 1, "value_bytes");
	expect_refused(0, 7, 1, "epoch");
	expect_refused(0, 8, 1, "reserved");
	expect_refused(1, 2, 15, "value_bytes");
	expect_refused(1, 11, 0xff, "extent");
	expect_refused(1, 12, 0, "extent_kind");
	expect_refused(1, 12, EXTENT_MANIFEST + 1, "extent_kind");
	expect_refused(1, 13, 0, "replica_count");
	expect_refused(1, 13, MT_REPLICAS_MAX + 1, "replica_count");
	expect_refused(1, 13, 2, "value_bytes");
	expect_refused(1, 14, 1, "reserved");
	expect_refused(1, 19, 1, "reserved");
	expect_refused(1, REPLICA_FIRST, 0, "node_id");
	expect_refused(1, REPLICA_FIRST, 2, "node_id"); /* that of the second */
	expect_refused(1, REPLICA_FIRST + 4, 2, "replica_flags");
	expect_refused(1, REPLICA_FIRST + 7, 1, "reserved");
	expect_refused(2, 12, 1, "length_bytes");  /* not aligned */
	expect_refused(2, 15, 16, "length_bytes"); /* longer than an extent */
	expect_refused(4, 20, 1, "offset_bytes");
	expect_refused(4, 23, 4, "offset_bytes");
	expect_refused(4, 30, 0, "length_bytes"); /* nothing in it */
	expect_refused(4, 28, 1, "length_bytes");
	expect_refused(4, 31, 4, "length_bytes"); /* beyond the extent's end */
}

Test(edit, wrong_fields_of_the_mirror_are_named)
{
	expect_refused(9, 2, 119, "value_bytes");
	expect_refused(9, 12 + 7, 1, "size_bytes"); /* more than a volume may have */
	expect_refused(9, 44, 3, "segment_count");
	expect_refused(9, 52, SERVICE_CLASS_NR, "service_class");
	expect_refused(9, 54, 0, "replica_count");
	expect_refused(9, 54, MT_REPLICAS_MAX + 1, "replica_count");
	expect_refused(9, 55, 48, "volume_flags"); /* no way to read it */
	expect_refused(9, 59, 1, "reserved");
	expect_refused(9, 60, 0, "name");
	expect_refused(9, 123, 'x', "name");
	expect_refused(10, 4, 0, "id");
	expect_refused(11, 21, 0, "shard_count");
	expect_refused(11, 24, 1, "level"); /* it is written as 0 */
	expect_refused(11, 24, CLEAVE_LEVEL_MAX + 1, "level");
	expect_refused(11, 27, 1, "level");
	expect_refused(11, 2, 32, "value_bytes");
	expect_refused(11, 2, 24, "value_bytes");
}

Test(edit, wrong_fields_of_snapshots_are_named)
{
	expect_refused(6, 32, 1, "reserved");
	expect_refused(6, 29, 9, "segment_count");
	expect_refused(14, 52, MT_SNAPSHOT_STATE_NR, "state");
	expect_refused(14, 53, 4, "flags");
	expect_refused(14, 54, 0, "span_count");
	expect_refused(14, 54, MT_SPANS_MAX + 1, "span_count");
	expect_refused(14, 54, 1, "value_bytes");
	expect_refused(14, 55, CLEAVE_GROUP_VOLUMES_MAX + 1, "group");
	expect_refused(14, 59, 1, "reserved");
	expect_refused(14, 60, 0, "name");
	expect_refused(14, 124, 0, "segment_base of a span");
	expect_refused(14, 124 + 24, 2, "segment_base of a span"); /* another root */
	expect_refused(14, 124 + 8, 9, "cut_below of a span");
	expect_refused(15, 56, 1, "value_bytes");
	expect_refused(15, 56, MT_SPANS_MAX + 1, "span_count");
}

Test(edit, wrong_fields_of_parts_are_named)
{
	expect_refused(16, 2, 7, "value_bytes");
	expect_refused(16, 2, 48, "value_bytes");
	expect_refused(16, 12, EXTENT_RUN, "extent_kind");
	expect_refused(16, 13, 3, "value_bytes");
	expect_refused(16, 20 + 2 * 16, 1, "length_bytes");
}

/* A value whose length is its own is as long as the longest edit at most, and not empty. */
Test(edit, length_that_no_value_has_is_refused)
{
	static const uint8_t kinds[] = { MT_EDIT_EXTENT_OPENED, MT_EDIT_EXTENT_REPLICAS,
		MT_EDIT_PART, MT_EDIT_VOLUME, MT_EDIT_SNAPSHOT };
	uint8_t large[2 * MT_EDIT_BYTES_MAX] = { 0 };

	for (uint32_t i = 0; i < 2 * NUM_COUNT(kinds); i++) {
		uint32_t value_bytes = i % 2 == 0 ? 0 : MT_EDIT_BYTES_MAX - 3;
		const char *field = NULL;
		struct mt_edit edit;

		large[0] = kinds[i / 2];
		large[1] = 1; /* the version */
		num_put_le16(large + 2, (uint16_t)value_bytes);
		cr_assert_eq(mt_edit_decode(large, sizeof(large), &edit, &field), -EPROTONOSUPPORT);
		cr_assert_str_eq(field, "value_bytes");
	}
}

/* A scope that every new volume has is written as none: another form of it would be a second text. */
Test(edit, plain_scope_is_not_written_out)
{
	const char *field = NULL;
	struct mt_edit edit;
	uint32_t length = mt_edit_encode(bytes, &samples[15]) - 24;

	bytes[56] = 1; /* the clone's own span alone */
	bytes[2] = (uint8_t)(length - 4);
	cr_assert_eq(mt_edit_decode(bytes, length, &edit, &field), -EBADMSG);
	cr_assert_str_eq(field, "span_count");
}

Test(edit, epoch_zero_is_refused)
{
	struct mt_edit edit = { .kind = MT_EDIT_EPOCH };
	uint32_t length = mt_edit_encode(bytes, &edit);
	const char *field = NULL;

	cr_assert_eq(mt_edit_decode(bytes, length, &edit, &field), -EBADMSG);
	cr_assert_str_eq(field, "epoch");
}

/* ---- state ---- */

static struct mt_manifest_state state;

static void
state_setup(void)
{
	struct mt_edit edit = { .kind = MT_EDIT_EPOCH, .epoch = 5 };
	const char *field;

	mt_manifest_state_init(&state);
	cr_assert_eq(mt_manifest_state_apply(&state, &edit, &field), 0);
}

static void
state_teardown(void)
{
	mt_manifest_state_fini(&state);
}

TestSuite(manifest_state, .init = state_setup, .fini = state_teardown);

static struct mt_edit
opened(uint64_t counter)
{
	return (struct mt_edit){ .kind = MT_EDIT_EXTENT_OPENED,
		.id = { .shard = 1, .epoch = 5, .counter = counter },
		.extent_kind = EXTENT_LOG,
		.replicas = { { .node_id = 1, .incarnation = counter } },
		.replica_count = 1 };
}

static struct mt_edit
of_kind(enum mt_edit_kind kind, uint64_t counter, uint64_t length_bytes)
{
	return (struct mt_edit){ .kind = kind,
		.id = { .shard = 1, .epoch = 5, .counter = counter },
		.length_bytes = length_bytes };
}

static struct mt_edit
run(uint64_t counter, uint64_t chunk, uint64_t offset_bytes, uint64_t flushed_sequence)
{
	return (struct mt_edit){ .kind = MT_EDIT_RUN_ADDED,
		.id = { .shard = 1, .epoch = 5, .counter = counter },
		.chunk = chunk,
		.offset_bytes = offset_bytes,
		.length_bytes = 4096,
		.flushed_sequence = flushed_sequence };
}

static struct mt_edit
volume(uint64_t id, const char *name, uint64_t attach)
{
	struct mt_edit edit = { .kind = MT_EDIT_VOLUME,
		.volume = { .id = id,
		    .size_bytes = 4096,
		    .segment_base = id,
		    .segment_count = 1,
		    .replica_count = 3,
		    .attach = attach } };

	(void)snprintf(edit.volume.name, sizeof(edit.volume.name), "%s", name);
	return edit;
}

static void
apply(struct mt_edit edit)
{
	const char *field = NULL;

	cr_assert_eq(mt_manifest_state_apply(&state, &edit, &field), 0, "%s", field);
}

static void
expect_contradiction(struct mt_edit edit, const char *text)
{
	const char *field = NULL;

	cr_assert_eq(mt_manifest_state_apply(&state, &edit, &field), -EBADMSG);
	cr_assert_str_eq(field, text, "%s", field);
}

Test(manifest_state, extents_open_seal_and_go)
{
	struct mt_edit second = opened(2);

	apply(second);
	apply(opened(1));
	apply(opened(3));
	cr_assert_eq(state.extent_count, 3);
	cr_assert_eq(state.extents[0].id.counter, 1);
	cr_assert_eq(state.extents[2].id.counter, 3);
	apply(of_kind(MT_EDIT_EXTENT_SEALED, 2, 8192));
	cr_assert(mt_manifest_state_find(&state, &second.id)->is_sealed);
	cr_assert_eq(mt_manifest_state_find(&state, &second.id)->sealed_bytes, 8192);
	apply(of_kind(MT_EDIT_EXTENT_DELETED, 2, 0));
	cr_assert_null(mt_manifest_state_find(&state, &second.id));
	cr_assert_eq(state.extent_count, 2);
	cr_assert_eq(state.extents[1].id.counter, 3);
}

Test(manifest_state, replicas_of_a_sealed_extent_change)
{
	struct mt_edit edit = opened(1);

	edit.kind = MT_EDIT_EXTENT_REPLICAS;
	edit.replica_count = 2;
	edit.replicas[0] =
	    (struct mt_replica){ .node_id = 8, .incarnation = 80, .is_truncated = true };
	edit.replicas[1] =
	    (struct mt_replica){ .node_id = 9, .incarnation = 90, .is_damaged = true };
	expect_contradiction(edit, "extent with new replicas was not opened");
	apply(opened(1));
	expect_contradiction(edit, "extent with new replicas is not sealed");
	apply(of_kind(MT_EDIT_EXTENT_SEALED, 1, 4096));
	edit.extent_kind = EXTENT_RUN;
	expect_contradiction(edit, "extent with new replicas is of another kind");
	edit.extent_kind = EXTENT_LOG;
	apply(edit);
	apply(edit);
	cr_assert_eq(state.extents[0].replica_count, 2);
	cr_assert_eq(state.extents[0].replicas[0].node_id, 8);
	cr_assert_eq(state.extents[0].replicas[0].incarnation, 80);
	cr_assert_not(state.extents[0].replicas[0].is_truncated);
	cr_assert(state.extents[0].replicas[1].is_damaged);
	cr_assert_eq(state.extents[0].sealed_bytes, 4096);
}

Test(manifest_state, contradictions_are_named)
{
	apply(opened(1));
	expect_contradiction(opened(1), "extent opened twice");
	expect_contradiction(of_kind(MT_EDIT_EXTENT_SEALED, 2, 0), "sealed extent was not opened");
	expect_contradiction(of_kind(MT_EDIT_EXTENT_DELETED, 2, 0),
	    "deleted extent was not opened");
	apply(of_kind(MT_EDIT_EXTENT_SEALED, 1, 4096));
	expect_contradiction(of_kind(MT_EDIT_EXTENT_SEALED, 1, 4096), "extent sealed twice");
	expect_contradiction(run(2, 9, 0, 1), "run's extent was not opened");
	apply(run(1, 9, 0, 1));
	expect_contradiction(run(1, 9, 0, 1), "run added twice");
	expect_contradiction(of_kind(MT_EDIT_EXTENT_DELETED, 1, 0), "deleted extent holds a run");
	expect_contradiction((struct mt_edit){ .kind = MT_EDIT_RUN_REMOVED, .chunk = 8 },
	    "removed run was not added");
	apply((struct mt_edit){ .kind = MT_EDIT_CUT, .cut = 3, .segment_count = 1 });
	expect_contradiction((struct mt_edit){ .kind = MT_EDIT_CUT, .cut = 3 },
	    "cuts out of order");
	expect_contradiction((struct mt_edit){ .kind = MT_EDIT_CUT_DROPPED, .cut = 2 },
	    "dropped cut was not made");
	expect_contradiction((struct mt_edit){ .kind = MT_EDIT_SNAPSHOT,
				 .snapshot = { .number = 2 },
				 .is_deleted = true },
	    "deleted snapshot was not there");
	expect_contradiction((struct mt_edit){ .kind = MT_EDIT_EPOCH, .epoch = 4 },
	    "epochs out of order");
	apply((struct mt_edit){ .kind = MT_EDIT_CHECKPOINT_END });
	expect_contradiction((struct mt_edit){ .kind = MT_EDIT_CHECKPOINT_END }, "two checkpoints");
}

static struct mt_edit
cut(enum mt_edit_kind kind, uint64_t number)
{
	return (struct mt_edit){ .kind = kind,
		.cut = number,
		.segment_base = 100 * number,
		.segment_count = kind == MT_EDIT_CUT ? 1 : 0 };
}

/* A record must never be given a lesser cut than one before it. */
Test(manifest_state, the_greatest_cut_stays_as_a_number)
{
	cr_assert_eq(mt_manifest_state_cut(&state), 0);
	apply(cut(MT_EDIT_CUT, 3));
	apply(cut(MT_EDIT_CUT, 5));
	apply(cut(MT_EDIT_CUT_DROPPED, 5));
	cr_assert_eq(state.cut_count, 2);
	cr_assert_eq(state.cuts[1].segment_count, 0);
	cr_assert_eq(mt_manifest_state_cut(&state), 5);
	expect_contradiction(cut(MT_EDIT_CUT, 4), "cuts out of order");
	apply(cut(MT_EDIT_CUT, 7));
	cr_assert_eq(state.cut_count, 2);
	cr_assert_eq(state.cuts[1].cut, 7);
	cr_assert_eq(state.cuts[1].segment_base, 700);
	apply(cut(MT_EDIT_CUT_DROPPED, 3));
	cr_assert_eq(state.cut_count, 1);
	cr_assert_eq(mt_manifest_state_cut(&state), 7);
}

Test(manifest_state, snapshots_are_kept_by_number)
{
	struct mt_edit edit = samples[14];

	edit.snapshot.volume_id = 3;
	for (uint64_t i = 9; i < 10; i -= 2) {
		edit.snapshot.number = i;
		apply(edit);
	}
	cr_assert_eq(state.snapshot_count, 5);
	cr_assert_eq(mt_manifest_state_snapshot(&state, 5)->number, 5);
	cr_assert_null(mt_manifest_state_snapshot(&state, 4));
	edit.snapshot.number = 5;
	edit.snapshot.clone_count = 1;
	apply(edit);
	cr_assert_eq(mt_manifest_state_snapshot(&state, 5)->clone_count, 1);
	edit.is_deleted = true;
	apply(edit);
	cr_assert_null(mt_manifest_state_snapshot(&state, 5));
	cr_assert_eq(state.snapshot_count, 4);
	cr_assert_eq(state.snapshots[2].number, 7);
}

/* By counting nobody comes there; what is counted on from it would wrap. */
Test(manifest_state, numbers_out_of_range_are_refused)
{
	struct mt_edit edit = volume(7, "v", 1);

	apply(opened(1));
	expect_contradiction(run(1, 9, 0, MT_NUMBER_MAX + 1), "run's sequence or cut out of range");
	expect_contradiction(cut(MT_EDIT_CUT, MT_NUMBER_MAX + 1), "cut out of range");
	expect_contradiction((struct mt_edit){ .kind = MT_EDIT_CUT,
				 .cut = 1,
				 .sequence = UINT64_MAX },
	    "cut out of range");
	expect_contradiction((struct mt_edit){ .kind = MT_EDIT_CHECKPOINT_END,
				 .sequence = MT_NUMBER_MAX + 1 },
	    "next sequence out of range");
	edit.volume.attach = MT_NUMBER_MAX + 1;
	expect_contradiction(edit, "volume's numbers out of range");
	edit = volume(7, "v", 1);
	edit.volume.segment_base = UINT64_C(1) << 55;
	expect_contradiction(edit, "volume's segments out of range");
	edit = samples[14];
	expect_contradiction(edit, "snapshot's numbers out of range");
	edit.snapshot.number = edit.snapshot.volume_id = 5;
	edit.snapshot.segment_base = UINT32_MAX;
	expect_contradiction(edit, "snapshot's segments out of range");
	edit = (struct mt_edit){ .kind = MT_EDIT_CLUSTER,
		.next_volume_id = 1,
		.next_segment = MT_ROOTS_MAX + 1,
		.next_snapshot = 1,
		.next_clone = 1,
		.shard_count = 2 };
	expect_contradiction(edit, "next numbers out of range");
	edit.next_segment = MT_ROOTS_MAX;
	apply(edit);
}

/* Nodes would be asked for the extent under our epoch, which is none of that shard's. */
Test(manifest_state, another_shards_extent_is_refused)
{
	static uint8_t head[BATCH_HEADER_BYTES + MT_EDIT_BYTES_MAX];
	struct mt_edit edit = opened(1);
	struct batch_info info = { .id = { .shard = 1 }, .record_count = 1 };
	const char *field = NULL;

	info.desc_bytes = mt_edit_encode(head + BATCH_HEADER_BYTES, &edit);
	cr_assert_eq(mt_manifest_state_apply_batch(&state, &info, head, &field), 0, "%s", field);
	edit = opened(2);
	edit.id.shard = 2;
	info.desc_bytes = mt_edit_encode(head + BATCH_HEADER_BYTES, &edit);
	cr_assert_eq(mt_manifest_state_apply_batch(&state, &info, head, &field), -EBADMSG);
	cr_assert_str_eq(field, "extent of another shard");
	cr_assert_eq(state.extent_count, 1);
}

Test(manifest_state, later_epochs_extent_is_refused)
{
	struct mt_edit edit = opened(1);

	edit.id.epoch = 6;
	expect_contradiction(edit, "extent of a later epoch");
}

Test(manifest_state, first_edit_is_the_epoch)
{
	struct mt_manifest_state empty = { 0 };
	struct mt_edit edit = opened(1);
	const char *field;

	cr_assert_eq(mt_manifest_state_apply(&empty, &edit, &field), -EBADMSG);
	cr_assert_str_eq(field, "no epoch yet");
}

Test(manifest_state, flushed_is_the_newest_runs)
{
	apply(opened(1));
	apply(run(1, 9, 0, 10));
	apply(run(1, 9, 4096, 30));
	apply(run(1, 9, 8192, 20));
	apply(run(1, 8, 12288, 99));
	cr_assert_eq(mt_manifest_state_flushed(&state, 7), 0);
	cr_assert_eq(mt_manifest_state_flushed(&state, 8), 99);
	cr_assert_eq(mt_manifest_state_flushed(&state, 9), 30);
	cr_assert_eq(mt_manifest_state_flushed(&state, 10), 0);
}

Test(manifest_state, checkpoint_makes_the_same_state)
{
	struct mt_manifest_state copy;
	struct mt_edit edit;
	const char *field = NULL;

	for (uint64_t i = 1; i <= 100; i++) {
		apply(opened(i));
		if (i % 3 != 0)
			apply(of_kind(MT_EDIT_EXTENT_SEALED, i, i * 4096));
		apply(run(i, 1000 - i, 0, i));
		if (i % 10 == 0)
			apply(cut(MT_EDIT_CUT, i));
		if (i % 20 == 0)
			apply(cut(MT_EDIT_CUT_DROPPED, i));
		if (i % 9 == 0)
			apply((struct mt_edit){ .kind = MT_EDIT_SNAPSHOT,
			    .snapshot = { .number = i, .scope = samples[14].snapshot.scope } });
		if (i % 7 == 0)
			apply(volume(i, "name", i));
	}
	apply((struct mt_edit){ .kind = MT_EDIT_CLUSTER,
	    .next_volume_id = 101,
	    .next_segment = 102,
	    .shard_count = 2 });
	mt_manifest_state_init(&copy);
	for (uint64_t i = 0; mt_manifest_state_edit(&state, i, 4711, &edit); i++)
		cr_assert_eq(mt_manifest_state_apply(&copy, &edit, &field), 0, "%s", field);
	cr_assert(copy.is_complete);
	cr_assert_eq(copy.next_sequence, 4711);
	copy.is_complete = state.is_complete;
	for (uint64_t i = 0; mt_manifest_state_edit(&state, i, 4711, &edit); i++) {
		uint8_t expected[MT_EDIT_BYTES_MAX];
		uint32_t length = mt_edit_encode(expected, &edit);

		cr_assert(mt_manifest_state_edit(&copy, i, 4711, &edit));
		cr_assert_eq(mt_edit_encode(bytes, &edit), length);
		cr_assert_eq(memcmp(bytes, expected, length), 0, "edit %lu", (unsigned long)i);
	}
	mt_manifest_state_fini(&copy);
}

static struct mt_edit
part(uint64_t counter)
{
	struct mt_edit edit = samples[16];

	edit.id.counter = counter;
	return edit;
}

/* Each extent of a checkpoint names all those before it, itself no edit of the state. */
Test(manifest_state, parts_are_kept_once_each)
{
	struct mt_edit edit;

	for (uint64_t i = 1; i <= MT_MANIFEST_PARTS_MAX; i++) {
		apply(part(i));
		apply(part(1));
	}
	cr_assert_eq(state.part_count, MT_MANIFEST_PARTS_MAX);
	cr_assert_eq(state.parts[7].id.counter, 8);
	cr_assert_eq(state.parts[7].sealed_bytes, 0x123000);
	cr_assert_eq(state.parts[7].replica_count, 2);
	expect_contradiction(part(1000), "too many extents before this one");
	cr_assert_eq(state.extent_count, 0);
	for (uint64_t i = 0; mt_manifest_state_edit(&state, i, 1, &edit); i++)
		cr_assert_neq(edit.kind, MT_EDIT_PART);
}

/* Back-pressure reckons with these bytes. */
Test(manifest_state, bytes_are_those_of_its_checkpoint)
{
	struct mt_edit edit = opened(1), gone = volume(5, "e", 0);
	uint64_t encoded = 0;

	for (uint64_t i = 1; i <= 20; i++) {
		edit = opened(i);
		edit.replica_count = MT_REPLICAS_MAX;
		for (uint32_t k = 0; k < MT_REPLICAS_MAX; k++)
			edit.replicas[k].node_id = k + 1;
		apply(edit);
		apply(of_kind(MT_EDIT_EXTENT_SEALED, i, 4096));
		apply(run(i, i, 0, 1));
		apply(cut(MT_EDIT_CUT, i));
		edit = samples[i % 2 == 0 ? 9 : 15];
		edit.volume.id = edit.volume.attach = edit.volume.segment_base = i;
		edit.volume.origin = 0;
		if (i % 2 != 0)
			edit.volume.segment_base = edit.volume.scope.spans[0].segment_base;
		apply(edit);
		apply(edit);
		edit = samples[14];
		edit.snapshot.number = edit.snapshot.volume_id = i;
		apply(edit);
	}
	gone.is_deleted = true;
	apply(gone);
	edit = samples[14];
	edit.snapshot.number = edit.snapshot.volume_id = 8;
	edit.is_deleted = true;
	apply(edit);
	apply((struct mt_edit){ .kind = MT_EDIT_CLUSTER, .shard_count = 2 });
	for (uint64_t i = 0; mt_manifest_state_edit(&state, i, 1, &edit); i++)
		encoded += mt_edit_encode(bytes, &edit);
	cr_assert_eq(mt_manifest_state_bytes(&state), encoded);
}

Test(manifest_state, volumes_come_change_and_go)
{
	struct mt_edit gone = volume(5, "e", 0);

	apply(volume(5, "e", 1));
	apply(volume(2, "b", 1));
	apply(volume(9, "i", 1));
	apply(volume(5, "e", 2));
	cr_assert_eq(state.volume_count, 3);
	cr_assert_eq(state.volumes[0].id, 2);
	cr_assert_eq(mt_manifest_state_volume(&state, 5)->attach, 2);
	gone.is_deleted = true;
	apply(gone);
	cr_assert_null(mt_manifest_state_volume(&state, 5));
	cr_assert_eq(state.volume_count, 2);
	cr_assert_eq(state.volumes[1].id, 9);
	expect_contradiction(gone, "deleted volume was not there");
}

Test(manifest_state, number_of_shards_stays)
{
	struct mt_edit edit = { .kind = MT_EDIT_CLUSTER,
		.next_volume_id = 3,
		.next_segment = 4,
		.shard_count = 8 };

	apply(edit);
	edit.next_segment = 5;
	apply(edit);
	cr_assert_eq(state.next_segment, 5);
	edit.shard_count = 9;
	expect_contradiction(edit, "number of shards changed");
}

Test(manifest_state, nth_allocation_changes_nothing)
{
	/* Extents, runs, cuts, volumes: what has grown stays. */
	for (uint32_t nth = 1; nth <= 2; nth++) {
		struct mt_edit edit = opened(1);
		const char *field;

		mt_alloc_fail_at(nth);
		cr_assert_eq(mt_manifest_state_apply(&state, &edit, &field), -ENOMEM);
		cr_assert_eq(state.extent_count, 0);
	}
	mt_alloc_fail_at(0);
	apply(opened(1));
	/* Set aside before, an edit needs nothing. */
	cr_assert_eq(mt_manifest_state_reserve(&state, 100), 0);
	mt_alloc_fail_at(1);
	for (uint64_t i = 2; i <= 101; i++)
		apply(opened(i));
	cr_assert_not(mt_alloc_has_failed());
	mt_alloc_fail_at(0);
}
