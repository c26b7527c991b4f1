/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_log_borrow.c -- a shard whose log is beyond its limits writes on with room that other shards of its port leave
 *
 * The port has one shard. What another one would tell the pool the test tells it.
 */
#include "base/num.h"
#include "cleave/loop.h"
#include "middletier/merge/log_pool.h"
#include "middletier/merge/merge_work.h"
#include "middletier/merge/pace.h"
#include "middletier/merge/reclaim.h"
#include "middletier/merge/reclaim_room.h"
#include "unit/fake_merge.h"

#define SLOT NUM_KIB(256)
#define EXTENT (SLOT + SLOT / 8) /* at a node, at most */
#define SLOTS 54u                /* of a node: an eighteenth of what they all have is a few */

static struct log_share other;

static void
setup(void)
{
	fake_init(1, false);
	fake_set_slot_bytes(SLOT);
	fake.settings.log_bytes = NUM_MIB(64);
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.links[i].slots_total = SLOTS;
	memset(&other, 0, sizeof(other));
	fake_merges_start();
}

static void
teardown(void)
{
	fake_merges_fini();
}

TestSuite(log_borrow, .init = setup, .fini = teardown);

static struct log_pool *
pool(void)
{
	return &fake.port.merge_work->pool;
}

static void
other_tells(uint64_t soft_bytes, uint64_t used_bytes)
{
	const struct log_share now = { soft_bytes, 2 * soft_bytes, used_bytes };

	mt_log_pool_tell(pool(), &other, &now);
}

/* Sixteen blocks that do not compress: 64 KiB of log. */
static struct fake_msg *
write_more(uint32_t i)
{
	return fake_write(16 * (i % 500), 16, 4);
}

/* Writes until one waits, which is returned. */
static struct fake_msg *
fill_log(void)
{
	return fake_write_until_one_waits(write_more, 200);
}

static const struct mt_reclaim *
own(void)
{
	return fake.shard.reclaim;
}

/* The shard stands still one extent beyond its own hard limit. */
static void
expect_own_room(void)
{
	cr_assert(mt_reclaim_is_log_full(&fake.shard));
	cr_assert_gt(own()->log_bytes, own()->hard_bytes);
	cr_assert_leq(own()->log_bytes, own()->hard_bytes + EXTENT);
}

Test(log_borrow, alone_a_shard_has_what_is_its_own)
{
	(void)fill_log();
	expect_own_room();
}

Test(log_borrow, what_others_leave_is_room_for_writes_that_wait)
{
	struct fake_msg *msg = fill_log();

	other_tells(10 * SLOT, 0);
	cr_assert_eq(fake_wait(msg), 0);
	cr_assert_not(mt_reclaim_is_log_full(&fake.shard));
	cr_assert_lt(mt_reclaim_pressure(&fake.shard, 0), PACE_HURRY);
	(void)fill_log();
	cr_assert_gt(own()->log_bytes, own()->hard_bytes + 10 * SLOT);
	cr_assert_leq(own()->log_bytes, own()->hard_bytes + 20 * SLOT + EXTENT);
}

Test(log_borrow, what_others_have_taken_is_not_there)
{
	other_tells(10 * SLOT, 20 * SLOT);
	(void)fill_log();
	expect_own_room();
}

Test(log_borrow, when_the_lender_wakes_the_borrower_stands_still_and_not_the_lender)
{
	other_tells(10 * SLOT, 0);
	for (uint32_t i = 0; own()->log_bytes <= own()->hard_bytes + EXTENT; i++)
		cr_assert_eq(fake_wait(write_more(i)), 0);
	other_tells(10 * SLOT, 20 * SLOT);
	cr_assert(mt_reclaim_is_log_full(&fake.shard));
	cr_assert_eq(mt_reclaim_pressure(&fake.shard, 0), PACE_FULL);
}

Test(log_borrow, however_long_others_logs_are_a_shard_has_its_own_room)
{
	other_tells(SLOT, 1000 * SLOT);
	cr_assert_eq(mt_reclaim_pressure(&fake.shard, 0), 0);
	for (uint32_t i = 0; i < 4; i++)
		cr_assert_eq(fake_wait(write_more(i)), 0);
	cr_assert_eq(mt_reclaim_pressure(&fake.shard, 0), 0, "below half of its soft limit");
	cr_assert_not(mt_reclaim_is_log_full(&fake.shard));
}

Test(log_borrow, no_log_gets_longer_than_the_option_says)
{
	fake.settings.log_bytes = 4 * SLOT; /* and half as much again */
	other_tells(1000 * SLOT, 0);
	(void)fill_log();
	cr_assert(mt_reclaim_is_log_full(&fake.shard));
	cr_assert_leq(own()->log_bytes, 6 * SLOT + EXTENT);
}

Test(log_borrow, a_shard_that_stops_has_nothing_in_the_pool)
{
	cr_assert_eq(fake_wait(write_more(0)), 0);
	(void)mt_reclaim_pressure(&fake.shard, 0);
	cr_assert_eq(pool()->all.soft_bytes, own()->soft_bytes);
	cr_assert_gt(pool()->all.used_bytes, 0);
	mt_reclaim_stop(&fake.shard);
	cr_assert_eq(pool()->all.soft_bytes, 0);
	cr_assert_eq(pool()->all.hard_bytes, 0);
	cr_assert_eq(pool()->all.used_bytes, 0);
}
