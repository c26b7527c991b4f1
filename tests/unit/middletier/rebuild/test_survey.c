/* SPDX-License-Identifier: Apache-2.0 */
/* test_survey.c -- what nodes' lists say about a cluster whose metadata store is lost */
#include <criterion/criterion.h>
#include <errno.h>

#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/wire.h"
#include "middletier/common/alloc.h"
#include "middletier/common/replica.h"
#include "middletier/rebuild/survey.h"

static struct mt_survey survey;

static void
teardown(void)
{
	mt_survey_fini(&survey);
}

TestSuite(survey, .fini = teardown);

static struct extent_id
id_of(uint32_t shard, uint32_t epoch, uint64_t counter)
{
	return (struct extent_id){ .shard = shard, .epoch = epoch, .counter = counter };
}

static struct wire_listed
listed_of(struct extent_id id, enum extent_kind kind, uint64_t length_bytes)
{
	return (struct wire_listed){ .id = id,
		.incarnation = 1000 + id.counter,
		.length_bytes = length_bytes,
		.kind = kind,
		.state = WIRE_EXTENT_OPEN };
}

static void
add(uint32_t node_id, const struct wire_listed *listed)
{
	cr_assert_eq(mt_survey_add(&survey, node_id, listed), 0);
}

static void
add_copy(uint32_t node_id, struct extent_id id, enum extent_kind kind, uint64_t length_bytes)
{
	struct wire_listed listed = listed_of(id, kind, length_bytes);

	add(node_id, &listed);
}

Test(survey, nothing_is_nothing)
{
	struct mt_survey_extent extent;

	mt_survey_sort(&survey);
	cr_assert_eq(mt_survey_shard_count(&survey), 0);
	cr_assert_eq(mt_survey_epoch(&survey, 0), 0);
	cr_assert_not(mt_survey_manifest(&survey, 0, 0, &extent));
}

Test(survey, shards_and_epochs_are_the_greatest_seen)
{
	struct wire_listed fenced = listed_of(id_of(5, 2, 1), EXTENT_LOG, 0);

	fenced.fence_epoch = 9;
	add_copy(1, id_of(0, 3, 1), EXTENT_LOG, 0);
	add_copy(2, id_of(0, 4, 1), EXTENT_LOG, 0);
	add(3, &fenced);
	mt_survey_sort(&survey);
	cr_assert_eq(mt_survey_shard_count(&survey), 6);
	cr_assert_eq(mt_survey_epoch(&survey, CLEAVE_SHARDS_MAX - 1), 0);
	cr_assert_eq(mt_survey_epoch(&survey, 0), 4);
	cr_assert_eq(mt_survey_epoch(&survey, 1), 0);
	cr_assert_eq(mt_survey_epoch(&survey, 5), 9);
}

Test(survey, manifests_come_newest_first)
{
	struct mt_survey_extent extent;

	for (uint32_t node_id = 1; node_id <= 3; node_id++) {
		add_copy(node_id, id_of(1, 7, 1), EXTENT_MANIFEST, 4096);
		add_copy(node_id, id_of(1, 6, 500), EXTENT_MANIFEST, 4096);
		add_copy(node_id, id_of(1, 7, 3), EXTENT_LOG, 4096);
		add_copy(node_id, id_of(1, 7, 2), EXTENT_MANIFEST, 4096);
		add_copy(node_id, id_of(2, 99, 1), EXTENT_MANIFEST, 4096);
	}
	mt_survey_sort(&survey);
	cr_assert(mt_survey_manifest(&survey, 1, 0, &extent));
	cr_assert_eq(extent.id.counter, 2);
	cr_assert_eq(extent.count, 3);
	cr_assert(mt_survey_manifest(&survey, 1, 1, &extent));
	cr_assert_eq(extent.id.counter, 1);
	cr_assert(mt_survey_manifest(&survey, 1, 2, &extent));
	cr_assert_eq(extent.id.epoch, 6);
	cr_assert_not(mt_survey_manifest(&survey, 1, 3, &extent));
	cr_assert_not(mt_survey_manifest(&survey, 0, 0, &extent));
}

Test(survey, best_copy_is_whole_and_longest)
{
	struct wire_listed damaged = listed_of(id_of(0, 1, 1), EXTENT_MANIFEST, 12288);
	struct mt_survey_extent extent;
	struct mt_survey_copy *copy;

	damaged.is_damaged = true;
	add(1, &damaged);
	add_copy(2, id_of(0, 1, 1), EXTENT_MANIFEST, 4096);
	add_copy(3, id_of(0, 1, 1), EXTENT_MANIFEST, 8192);
	mt_survey_sort(&survey);
	cr_assert(mt_survey_manifest(&survey, 0, 0, &extent));
	copy = mt_survey_best_copy(&survey, &extent);
	cr_assert_eq(copy->node_id, 3);
	copy->is_tried = true;
	copy = mt_survey_best_copy(&survey, &extent);
	cr_assert_eq(copy->node_id, 2);
	copy->is_tried = true;
	cr_assert_null(mt_survey_best_copy(&survey, &extent));
}

Test(survey, replicas_are_whole_ones_first)
{
	struct wire_listed damaged = listed_of(id_of(0, 1, 1), EXTENT_MANIFEST, 4096);
	struct mt_replica replicas[MT_REPLICAS_MAX];
	struct mt_survey_extent extent;

	damaged.is_damaged = true;
	add(1, &damaged);
	for (uint32_t node_id = 2; node_id <= 5; node_id++)
		add_copy(node_id, id_of(0, 1, 1), EXTENT_MANIFEST, 4096);
	mt_survey_sort(&survey);
	cr_assert(mt_survey_manifest(&survey, 0, 0, &extent));
	cr_assert_eq(mt_survey_replicas(&survey, &extent, replicas), MT_REPLICAS_MAX);
	for (uint32_t i = 0; i < MT_REPLICAS_MAX; i++) {
		cr_assert_eq(replicas[i].node_id, 2 + i);
		cr_assert_eq(replicas[i].incarnation, 1001);
		cr_assert_not(replicas[i].is_damaged);
	}
}

Test(survey, node_is_forgotten_whole)
{
	struct mt_survey_extent extent;

	for (uint64_t i = 1; i <= 10; i++) {
		add_copy(1, id_of(0, 1, i), EXTENT_LOG, 0);
		add_copy(2, id_of(0, 1, i), EXTENT_LOG, 0);
	}
	mt_survey_drop_node(&survey, 1);
	mt_survey_sort(&survey);
	cr_assert_eq(survey.count, 10);
	cr_assert(mt_survey_find(&survey, &(struct extent_id){ 0, 1, 10 }, &extent));
	cr_assert_eq(extent.count, 1);
	cr_assert_eq(survey.copies[extent.first].node_id, 2);
}

Test(survey, nth_allocation_fails)
{
	struct wire_listed listed = listed_of(id_of(0, 1, 1), EXTENT_LOG, 0);

	mt_alloc_fail_at(1);
	cr_assert_eq(mt_survey_add(&survey, 1, &listed), -ENOMEM);
	mt_alloc_fail_at(0);
	for (uint64_t i = 0; i < 1000; i++)
		add_copy(1, id_of(0, 1, 1000 - i), EXTENT_LOG, 0);
	mt_survey_sort(&survey);
	cr_assert_eq(survey.copies[0].id.counter, 1);
}
