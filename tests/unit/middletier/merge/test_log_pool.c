/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_log_pool.c -- what the logs of a port's shards may take of each other's room
 *
 * The pool is built in with two planted bugs, pool_overlent and lender_counted: no seed of the simulator fills its disks
 * with logs alone.
 */
#define CLEAVE_MUTANTS
#include "middletier/merge/log_pool.c"

#include <criterion/criterion.h>

#define SHARDS 4u
#define SOFT NUM_MIB(20)
#define HARD NUM_MIB(30)

struct mutant_set mutants_on;

static struct {
	struct log_pool pool;
	struct log_share told[SHARDS];
} port;

static void
tell(uint32_t shard, uint64_t used_bytes)
{
	const struct log_share now = { SOFT, HARD, used_bytes };

	mt_log_pool_tell(&port.pool, &port.told[shard], &now);
}

static void
leave(uint32_t shard)
{
	mt_log_pool_tell(&port.pool, &port.told[shard], &(struct log_share){ 0 });
}

static void
setup(void)
{
	for (uint32_t i = 0; i < SHARDS; i++)
		tell(i, 0);
}

TestSuite(log_pool, .init = setup);

Test(log_pool, one_log_may_take_what_all_may_and_no_more)
{
	cr_assert_eq(mt_log_pool_left_bytes(&port.pool), SHARDS * HARD);
	tell(0, 3 * HARD);
	cr_assert_eq(mt_log_pool_left_bytes(&port.pool), HARD);
	tell(0, SHARDS * HARD + 1);
	cr_assert_eq(mt_log_pool_left_bytes(&port.pool), 0);
}

Test(log_pool, what_others_take_is_not_lent)
{
	for (uint32_t i = 1; i < SHARDS; i++)
		tell(i, HARD);
	cr_assert_eq(mt_log_pool_left_bytes(&port.pool), HARD);
	tell(0, HARD);
	cr_assert_eq(mt_log_pool_left_bytes(&port.pool), 0);
}

Test(log_pool, what_is_given_back_is_lent_again)
{
	tell(0, SHARDS * HARD);
	tell(0, HARD);
	tell(0, 0);
	cr_assert_eq(mt_log_pool_left_bytes(&port.pool), SHARDS * HARD);
	cr_assert_eq(mt_log_pool_pressure(&port.pool, 0), 0);
}

Test(log_pool, a_shard_that_leaves_takes_its_room_and_its_log_along)
{
	tell(0, 2 * HARD);
	leave(1);
	cr_assert_eq(mt_log_pool_left_bytes(&port.pool), HARD);
	leave(2);
	cr_assert_eq(mt_log_pool_left_bytes(&port.pool), 0);
	leave(0);
	leave(3);
	cr_assert_eq(port.pool.all.soft_bytes, 0);
	cr_assert_eq(port.pool.all.hard_bytes, 0);
	cr_assert_eq(port.pool.all.used_bytes, 0);
	cr_assert_eq(mt_log_pool_pressure(&port.pool, 0), 0);
}

Test(log_pool, pressure_is_that_of_all_logs_together)
{
	tell(0, SHARDS * SOFT / 2);
	cr_assert_eq(mt_log_pool_pressure(&port.pool, 0), 0);
	tell(0, SHARDS * SOFT);
	cr_assert_eq(mt_log_pool_pressure(&port.pool, 0), PACE_HURRY);
	cr_assert_eq(mt_log_pool_pressure(&port.pool, SHARDS * SOFT / 2), 0);
	cr_assert_eq(mt_log_pool_pressure(&port.pool, UINT64_MAX), 0);
	tell(1, SHARDS * (HARD - SOFT));
	cr_assert_eq(mt_log_pool_pressure(&port.pool, 0), PACE_FULL);
}

/* ---- planted bugs ---- */

Test(log_pool, what_others_take_is_lent_where_nobody_looks)
{
	mutant_set_add(&mutants_on, MUTANT_pool_overlent);
	tell(0, SHARDS * HARD);
	cr_assert_gt(mt_log_pool_left_bytes(&port.pool), 0);
}

Test(log_pool, a_shard_that_left_still_lends_where_nobody_looks)
{
	mutant_set_add(&mutants_on, MUTANT_lender_counted);
	for (uint32_t i = 0; i < SHARDS; i++)
		leave(i);
	cr_assert_gt(mt_log_pool_left_bytes(&port.pool), 0);
}

/* ---- writers ---- */

Test(log_pool, shards_that_write_are_counted_once_and_at_once)
{
	uint64_t seen[3] = { 0 };

	for (uint32_t i = 0; i < 10; i++) {
		cr_assert_eq(mt_log_pool_writers(&port.pool, &seen[0], NUM_S(1) + i), 1);
		cr_assert_eq(seen[0], NUM_S(1) + i);
	}
	cr_assert_eq(mt_log_pool_writers(&port.pool, &seen[1], NUM_S(1) + 10), 2);
	cr_assert_eq(mt_log_pool_writers(&port.pool, &seen[0], NUM_S(1) + 11), 2);
	cr_assert_eq(mt_log_pool_writers(&port.pool, &seen[2], NUM_S(1) + 12), 3);
}

Test(log_pool, a_shard_that_writes_no_more_is_forgotten_soon)
{
	uint64_t seen[2] = { 0 };

	(void)mt_log_pool_writers(&port.pool, &seen[0], NUM_S(1));
	cr_assert_eq(mt_log_pool_writers(&port.pool, &seen[1], NUM_S(1) + NUM_MS(1)), 2);
	cr_assert_eq(mt_log_pool_writers(&port.pool, &seen[0], NUM_S(1) + NUM_MS(60)), 2,
	    "not at once: it may wait for its turn");
	cr_assert_eq(mt_log_pool_writers(&port.pool, &seen[0], NUM_S(1) + NUM_MS(120)), 1);
	cr_assert_eq(mt_log_pool_writers(&port.pool, &seen[1], NUM_S(9)), 1);
}
