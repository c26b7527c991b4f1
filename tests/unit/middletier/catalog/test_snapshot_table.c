/* SPDX-License-Identifier: Apache-2.0 */
/* test_snapshot_table.c -- the keys "snapshots/N": text and table */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bucket.h"
#include "base/num.h"
#include "cleave/meta.h"
#include "middletier/catalog/scope.h"
#include "middletier/catalog/snapshot_table.h"
#include "middletier/catalog/volume_table.h"
#include "middletier/catalog/waiting.h"
#include "middletier/common/alloc.h"

#define BASE 0x801u
#define CLONE ((UINT64_C(5) << 32) | BASE)

static struct mt_snapshot
sample(uint64_t number, const char *name, enum mt_snapshot_state state)
{
	struct mt_snapshot snapshot = { .number = number,
		.volume_id = 3,
		.size_bytes = NUM_GIB(33),
		.segment_base = CLONE,
		.segment_count = 2,
		.created_s = 1700000000,
		.state = state,
		.clone_count = 4,
		.scope = { .span_count = 2, .spans = { { CLONE, 0, number }, { BASE, 0, 4 } } } };

	(void)snprintf(snapshot.name, sizeof(snapshot.name), "%s", name);
	return snapshot;
}

static void
put(struct mt_snapshots *snapshots, const struct mt_snapshot *snapshot, const char *waiting)
{
	char *text = mt_snapshot_encode(snapshot, waiting);
	char key[MT_SNAPSHOT_KEY_BYTES];
	struct meta_item item = { .key = key, .value = text, .version = 100 + snapshot->number };

	item.value_bytes = (uint32_t)strlen(text);
	mt_snapshot_key(snapshot->number, key);
	cr_assert_eq(mt_snapshots_put_item(snapshots, &item), 0);
	free(text);
}

Test(snapshot_table, text_comes_back)
{
	for (uint32_t state = 0; state < MT_SNAPSHOT_STATE_NR; state++) {
		struct mt_snapshot snapshot = sample(9, "monday", (enum mt_snapshot_state)state);
		struct mt_snapshot again;
		const char *field = NULL;
		char *waiting = NULL;
		char *text = mt_snapshot_encode(&snapshot, state == 0 ? NULL : "0f");

		cr_assert_eq(mt_snapshot_decode("snapshots/00000000000000000009", text,
				 (uint32_t)strlen(text), &again, &waiting, &field),
		    0, "%s", field);
		cr_assert_eq(again.number, 9);
		cr_assert_str_eq(again.name, "monday");
		cr_assert_eq(again.state, (enum mt_snapshot_state)state);
		cr_assert_eq(again.clone_count, 4);
		cr_assert_eq(again.size_bytes, NUM_GIB(33));
		cr_assert_eq(memcmp(&again.scope.spans, &snapshot.scope.spans,
				 2 * sizeof(struct mt_span)),
		    0);
		cr_assert_eq(waiting == NULL, state == 0);
		mt_free(waiting);
		free(text);
	}
}

Test(snapshot_table, group_comes_back_and_is_absent_in_those_taken_alone)
{
	struct mt_snapshot snapshot = sample(9, "monday", MT_SNAPSHOT_LIVE), again;
	const char *field = NULL;
	char *waiting = NULL;
	char *text = mt_snapshot_encode(&snapshot, NULL);

	cr_assert_null(strstr(text, "group"), "%s", text);
	free(text);
	snapshot.group = 7;
	text = mt_snapshot_encode(&snapshot, NULL);
	cr_assert_eq(mt_snapshot_decode("snapshots/00000000000000000009", text,
			 (uint32_t)strlen(text), &again, &waiting, &field),
	    0, "%s", field);
	cr_assert_eq(again.group, 7);
	free(text);
}

/* @from, a part of a good text, is replaced. */
static void
expect_refused(const char *from, const char *to, const char *field)
{
	struct mt_snapshot snapshot = sample(9, "monday", MT_SNAPSHOT_LIVE), again;
	char *text = mt_snapshot_encode(&snapshot, NULL), *waiting = NULL;
	char *at = strstr(text, from);
	char changed[1024];
	const char *found = NULL;

	cr_assert_not_null(at, "%s is not in %s", from, text);
	(void)snprintf(changed, sizeof(changed), "%.*s%s%s", (int)(at - text), text, to,
	    at + strlen(from));
	cr_assert_eq(mt_snapshot_decode("snapshots/00000000000000000009", changed,
			 (uint32_t)strlen(changed), &again, &waiting, &found),
	    -EINVAL);
	cr_assert_not_null(strstr(found, field), "%s, not %s", found, field);
	free(text);
}

Test(snapshot_table, wrong_fields_are_named)
{
	expect_refused("\"number\":9", "\"number\":8", "number");
	expect_refused("\"number\":9", "\"number\":0", "number");
	expect_refused("\"number\":9", "\"number\":4611686018427387904", "number");
	expect_refused("\"volume_id\":3", "\"volume_id\":2305843009213693952", "volume_id");
	expect_refused("\"segment_base\":21474838529", "\"segment_base\":36028797018963968",
	    "segment_base");
	expect_refused("monday", "-x", "name");
	expect_refused("\"live\"", "\"lively\"", "state");
	expect_refused("\"segment_count\":2", "\"segment_count\":3", "segment_count");
	expect_refused("\"clones\":4", "\"clones\":\"4\"", "clones");
	expect_refused("\"spans\":[[", "\"spans\":[[7,", "spans");
	expect_refused("\"spans\":[[", "\"spans\":[[-", "spans");
	expect_refused("\"clones\":4", "\"clones\":4,\"group\":10", "group");
	expect_refused("\"clones\":4", "\"clones\":4,\"group\":0", "group");
	expect_refused("\"volume_id\"", "\"volume\"", "volume");
	expect_refused("{", "[", "not a JSON object");
}

Test(snapshot_table, names_are_of_those_that_are_not_deleted)
{
	struct mt_snapshots snapshots = { 0 };
	struct mt_snapshot first = sample(1, "a", MT_SNAPSHOT_DELETED);
	struct mt_snapshot second = sample(2, "a", MT_SNAPSHOT_PENDING);
	struct mt_snapshot third = sample(5, "b", MT_SNAPSHOT_LIVE);
	const struct meta_item bad = { .key = "snapshots/00000000000000000007",
		.value = "{}",
		.value_bytes = 2 };

	put(&snapshots, &first, "f");
	put(&snapshots, &second, NULL);
	put(&snapshots, &third, NULL);
	cr_assert_eq(snapshots.count, 3);
	cr_assert_eq(mt_snapshots_by_name(&snapshots, 3, "a")->snapshot.number, 2);
	cr_assert_eq(mt_snapshots_by_name(&snapshots, 3, "b")->version, 105);
	cr_assert_null(mt_snapshots_by_name(&snapshots, 4, "b"));
	cr_assert_null(mt_snapshots_by_number(&snapshots, 3));
	cr_assert_not(snapshots.is_incomplete);
	cr_assert_eq(mt_snapshots_put_item(&snapshots, &bad), 0);
	cr_assert(snapshots.is_incomplete, "what it names is not known: nothing may be dropped");
	mt_snapshots_fini(&snapshots);
}

Test(snapshot_table, sessions_are_let_into_what_is_live)
{
	struct mt_volumes volumes;
	struct mt_snapshot first = sample(1, "a", MT_SNAPSHOT_LIVE);
	struct mt_snapshot second = sample(5, "b", MT_SNAPSHOT_LIVE);
	struct mt_snapshot third = sample(6, "c", MT_SNAPSHOT_DELETED);
	struct mt_volume volume;

	mt_volumes_init(&volumes);
	put(&volumes.snapshots, &first, NULL);
	put(&volumes.snapshots, &second, NULL);
	put(&volumes.snapshots, &third, NULL);
	cr_assert_eq(mt_snapshot_session(&volumes, MT_SNAPSHOT_ID | 5, 1, &volume), 0);
	cr_assert_eq(volume.scope.span_count, 2);
	cr_assert_not(volume.is_difference);
	cr_assert_eq(mt_snapshot_session(&volumes, 5, 1, &volume), -ENOENT);
	cr_assert_eq(mt_snapshot_session(&volumes, MT_SNAPSHOT_ID | 6, 1, &volume), -ENOENT);
	cr_assert_eq(mt_snapshot_session(&volumes, MT_SNAPSHOT_ID | 7, 1, &volume), -ENOENT);
	cr_assert_eq(mt_snapshot_session(&volumes, MT_SNAPSHOT_ID | 5, 0, &volume), -ENOENT);
	cr_assert_eq(mt_snapshot_session(&volumes, MT_SNAPSHOT_ID | 5, 2, &volume), 0);
	cr_assert(volume.is_difference);
	cr_assert_not(limits_are_set(&volume.limits));
	cr_assert_eq(mt_snapshot_session(&volumes, MT_SNAPSHOT_ID | 5, 7, &volume), -ENOENT);
	cr_assert_eq(mt_snapshot_session(&volumes, MT_SNAPSHOT_ID | MT_SNAPSHOT_OF_VOLUME | 3, 2,
			 &volume),
	    -ENOENT);
	mt_volumes_fini(&volumes);
}

/* A backup reads those: nothing keeps it down. */
Test(snapshot_table, a_volume_has_limits_and_its_differences_have_none)
{
	struct mt_volumes volumes;
	struct mt_snapshot first = sample(1, "a", MT_SNAPSHOT_LIVE);
	struct mt_snapshot second = sample(5, "b", MT_SNAPSHOT_LIVE);
	struct mt_volume limited = { .id = 3,
		.name = "v",
		.segment_base = second.segment_base,
		.segment_count = second.segment_count,
		.size_bytes = second.size_bytes,
		.scope = second.scope,
		.limits = { .iops = 5 } };
	struct mt_volume volume;

	mt_volumes_init(&volumes);
	put(&volumes.snapshots, &first, NULL);
	cr_assert_eq(mt_volumes_put(&volumes, &limited, 1), 0);
	cr_assert(limits_are_set(&mt_volumes_by_id(&volumes, 3)->volume.limits));
	cr_assert_eq(mt_snapshot_session(&volumes, MT_SNAPSHOT_ID | MT_SNAPSHOT_OF_VOLUME | 3, 2,
			 &volume),
	    0);
	cr_assert(volume.is_difference);
	cr_assert_not(limits_are_set(&volume.limits));
	mt_volumes_fini(&volumes);
}

Test(snapshot_table, everybody_waits_at_first)
{
	char *text = mt_waiting_all(6);

	cr_assert_str_eq(text, "3f");
	mt_free(text);
	text = mt_waiting_all(8);
	cr_assert_str_eq(text, "ff");
	mt_free(text);
}

/* A pending one may still come to nothing. */
Test(snapshot_table, what_came_to_nothing_is_counted)
{
	struct mt_snapshots snapshots = { 0 };
	struct mt_snapshot nothing = sample(4, "never", MT_SNAPSHOT_PENDING);

	mt_snapshot_void(&nothing);
	cr_assert_eq(nothing.state, MT_SNAPSHOT_DELETED);
	for (uint32_t state = 0; state < MT_SNAPSHOT_STATE_NR; state++) {
		struct mt_snapshot snapshot = sample(1 + state, "s", (enum mt_snapshot_state)state);

		put(&snapshots, &snapshot, NULL);
	}
	cr_assert_eq(mt_snapshots_void_count(&snapshots), 1);
	put(&snapshots, &nothing, "0f");
	cr_assert_eq(mt_snapshots_void_count(&snapshots), 2);
	mt_snapshots_fini(&snapshots);
}
