/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_merge_work.c -- which of the merges that wait is next
 *
 * The shards have no more than a pressure, which mt_reclaim_pressure and mt_reclaim_is_log_full of this file tell.
 */
#include <criterion/criterion.h>

#include "base/list.h"
#include "base/num.h"
#include "middletier/common/shard.h"
#include "middletier/merge/merge_work.h"
#include "middletier/merge/pace.h"
#include "middletier/merge/reclaim_room.h"

#define SHARDS 3u

static struct {
	struct merge_work work;
	struct mt_shard shards[SHARDS];
	struct mt_layer *layer; /* of flushes: nobody looks at it */
	uint32_t pressures[SHARDS];
	bool is_full[SHARDS];
} order;

uint32_t
mt_reclaim_pressure(const struct mt_shard *shard, uint64_t gained_bytes)
{
	(void)gained_bytes;
	return order.pressures[shard->index];
}

bool
mt_reclaim_is_log_full(const struct mt_shard *shard)
{
	return order.is_full[shard->index];
}

static void
setup(void)
{
	order.work.magic = MERGE_WORK_MAGIC;
	order.layer = (struct mt_layer *)(uintptr_t)8;
	list_init(&order.work.queue);
	for (uint32_t i = 0; i < SHARDS; i++)
		order.shards[i].index = i;
}

TestSuite(merge_work, .init = setup);

static void
push(struct mt_merge *merge, uint32_t shard, bool is_flush)
{
	*merge = (struct mt_merge){ .shard = &order.shards[shard] };
	merge->input.newest_layer = is_flush ? order.layer : NULL;
	mt_merge_work_push(&order.work, merge);
}

static void
expect(const struct mt_merge *merge)
{
	cr_assert_eq(mt_merge_work_pop(&order.work), merge);
}

Test(merge_work, flushes_go_before_compactions_and_the_first_before_the_second)
{
	struct mt_merge merges[3];

	push(&merges[0], 0, false);
	push(&merges[1], 1, true);
	push(&merges[2], 2, true);
	expect(&merges[1]);
	expect(&merges[2]);
	expect(&merges[0]);
	expect(NULL);
}

Test(merge_work, the_shard_whose_writes_wait_is_next)
{
	struct mt_merge merges[3];

	push(&merges[0], 0, true);
	push(&merges[1], 1, true);
	push(&merges[2], 2, false);
	order.pressures[0] = PACE_HURRY - 1;
	order.pressures[1] = PACE_HURRY;
	order.pressures[2] = PACE_HURRY + 1;
	expect(&merges[2]); /* its compaction, too: its flush comes after that */
	expect(&merges[1]);
	expect(&merges[0]);
}

Test(merge_work, a_shard_whose_writes_stand_still_is_before_all_others)
{
	struct mt_merge merges[2];

	push(&merges[0], 0, true);
	push(&merges[1], 1, true);
	order.pressures[0] = PACE_FULL - 1;
	order.pressures[1] = PACE_HURRY;
	order.is_full[1] = true;
	expect(&merges[1]);
	expect(&merges[0]);
}

Test(merge_work, as_long_as_no_write_waits_a_longer_log_is_no_reason)
{
	struct mt_merge merges[2];

	push(&merges[0], 0, true);
	push(&merges[1], 1, true);
	order.pressures[1] = PACE_HURRY - 1;
	expect(&merges[0]);
	expect(&merges[1]);
}
