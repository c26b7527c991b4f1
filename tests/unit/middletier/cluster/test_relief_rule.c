/* SPDX-License-Identifier: Apache-2.0 */
/* test_relief_rule.c -- which shard goes to which gateway, as a table; and that moving comes to an end */
#include <criterion/criterion.h>

#include "base/num.h"
#include "base/random.h"
#include "middletier/cluster/relief_rule.h"

#define GATEWAYS 4u
#define SHARDS 6u
#define FLOOR 10u
#define NONE (-1)

/* Gateway 0 asks, but where self says another. */
static const struct {
	const char *what;
	uint32_t self;
	struct mt_relief_gateway gateways[GATEWAYS]; /* up to one without ports */
	struct mt_relief_shard shards[SHARDS];       /* up to one without a load */
	int shard, taker;                            /* NONE: nothing goes */
} table[] = {
	{ "the busiest gives what evens out best", 0,
	    { { 1, 1, 300, 9, true }, { 2, 1, 100, 9, true }, { 3, 1, 80, 9, true } },
	    { { 0, 150, true }, { 1, 100, true }, { 2, 50, true } }, 1, 2 },
	{ "equal loads stay", 0, { { 1, 1, 100, 9, true }, { 2, 1, 100, 9, true } },
	    { { 0, 50, true }, { 1, 50, true } }, NONE, NONE },
	{ "no load stays", 0, { { 1, 1, 0, 9, true }, { 2, 1, 0, 9, true } }, { { 0, 0, true } },
	    NONE, NONE },
	{ "a load below the floor stays", 0, { { 1, 1, 10, 9, true }, { 2, 1, 0, 9, true } },
	    { { 0, 5, true }, { 1, 5, true } }, NONE, NONE },
	{ "a lone gateway keeps what it has", 0, { { 1, 1, 500, 9, true } },
	    { { 0, 250, true }, { 1, 250, true } }, NONE, NONE },
	{ "a lone shard that makes the load goes nowhere: the other one would have it", 0,
	    { { 1, 1, 300, 9, true }, { 2, 1, 0, 9, true } }, { { 0, 300, true } }, NONE, NONE },
	{ "beside others it goes, or they do: one move is enough", 0,
	    { { 1, 1, 400, 9, true }, { 2, 1, 0, 9, true } },
	    { { 0, 300, true }, { 1, 60, true }, { 2, 40, true } }, 0, 1 },
	{ "a gain of less than a fifth of the mean is none", 0,
	    { { 1, 1, 120, 9, true }, { 2, 1, 80, 9, true } },
	    { { 0, 101, true }, { 1, 19, true } }, NONE, NONE },
	{ "a gain of a fifth is one", 0, { { 1, 1, 120, 9, true }, { 2, 1, 80, 9, true } },
	    { { 0, 100, true }, { 1, 20, true } }, 1, 1 },
	{ "who is not the busiest keeps what it has", 1,
	    { { 1, 1, 300, 9, true }, { 2, 1, 250, 9, true }, { 3, 1, 0, 9, true } },
	    { { 0, 125, true }, { 1, 125, true } }, NONE, NONE },
	{ "of two that have the same the lower id gives", 0,
	    { { 1, 1, 200, 9, true }, { 2, 1, 200, 9, true }, { 3, 1, 0, 9, true } },
	    { { 0, 100, true }, { 1, 100, true } }, 0, 2 },
	{ "and the higher one waits", 1,
	    { { 1, 1, 200, 9, true }, { 2, 1, 200, 9, true }, { 3, 1, 0, 9, true } },
	    { { 0, 100, true }, { 1, 100, true } }, NONE, NONE },
	{ "an idle third takes it, not the one that has some", 0,
	    { { 1, 1, 200, 9, true }, { 2, 1, 140, 9, true }, { 3, 1, 0, 9, true } },
	    { { 0, 100, true }, { 1, 100, true } }, 0, 2 },
	{ "a drained gateway takes none", 0,
	    { { 1, 1, 300, 9, true }, { 2, 1, 0, 9, false }, { 3, 1, 100, 9, true } },
	    { { 0, 100, true }, { 1, 200, true } }, 0, 2 },
	{ "where all others are drained nothing goes", 0,
	    { { 1, 1, 300, 9, true }, { 2, 1, 0, 9, false } },
	    { { 0, 100, true }, { 1, 200, true } }, NONE, NONE },
	{ "a gateway without memory for it takes none", 0,
	    { { 1, 1, 300, 9, true }, { 2, 1, 0, 0, true }, { 3, 1, 100, 1, true } },
	    { { 0, 100, true }, { 1, 200, true } }, 0, 2 },
	{ "a shard that came lately stays", 0, { { 1, 1, 300, 9, true }, { 2, 1, 0, 9, true } },
	    { { 0, 150, false }, { 1, 100, true }, { 2, 50, true } }, 1, 1 },
	{ "where all came lately nothing goes", 0, { { 1, 1, 300, 9, true }, { 2, 1, 0, 9, true } },
	    { { 0, 150, false }, { 1, 150, false } }, NONE, NONE },
	{ "three times the ports have three times as much to do", 0,
	    { { 1, 3, 300, 9, true }, { 2, 1, 100, 9, true } },
	    { { 0, 100, true }, { 1, 100, true }, { 2, 100, true } }, NONE, NONE },
	{ "who has many ports takes before who has few", 0,
	    { { 1, 1, 300, 9, true }, { 2, 1, 50, 9, true }, { 3, 4, 80, 9, true } },
	    { { 0, 100, true }, { 1, 200, true } }, 1, 2 },
	{ "loads that are no numbers of this world are bounded", 0,
	    { { 1, 1, UINT64_MAX, 9, true }, { 2, 1, UINT64_MAX, 9, true } },
	    { { 0, UINT64_MAX, true } }, NONE, NONE },
};

Test(relief_rule, a_table)
{
	for (uint32_t i = 0; i < NUM_COUNT(table); i++) {
		struct mt_relief_question question = { .gateways = table[i].gateways,
			.self = table[i].self,
			.shards = table[i].shards,
			.floor = FLOOR };
		struct mt_relief_move move = { .shard = 99, .taker = 99 };
		bool goes;

		while (question.gateway_count < GATEWAYS &&
		    table[i].gateways[question.gateway_count].port_count > 0)
			question.gateway_count++;
		while (
		    question.shard_count < SHARDS && table[i].shards[question.shard_count].load > 0)
			question.shard_count++;
		goes = mt_relief_choose(&question, &move);
		cr_expect_eq(goes, table[i].shard != NONE, "%s", table[i].what);
		if (!goes) {
			cr_expect(move.shard == 99 && move.taker == 99, "%s", table[i].what);
			continue;
		}
		cr_expect_eq((int)move.shard, table[i].shard, "%s: shard %u", table[i].what,
		    move.shard);
		cr_expect_eq((int)move.taker, table[i].taker, "%s: taker %u", table[i].what,
		    move.taker);
		cr_expect_leq(move.load_after + move.mean * MT_RELIEF_MARGIN_PERCENT / 100,
		    move.load_before, "%s", table[i].what);
	}
}

Test(relief_rule, a_request_counts_as_four_kib_and_what_it_moves)
{
	cr_assert_eq(mt_relief_load(0, 0, NUM_S(1)), 0);
	cr_assert_eq(mt_relief_load(5, 5, 0), 0);
	cr_assert_eq(mt_relief_load(10, 0, NUM_S(10)), 4096);
	cr_assert_eq(mt_relief_load(1, 65536, NUM_S(1)), 4096 + 65536);
	cr_assert_gt(mt_relief_load(UINT64_MAX, UINT64_MAX, 1), UINT64_C(1) << 40);
}

/* ---- moving comes to an end ---- */

#define MANY_SHARDS 32u

struct world {
	struct mt_relief_gateway gateways[GATEWAYS];
	uint64_t loads[MANY_SHARDS];
	uint32_t owners[MANY_SHARDS];
};

static uint64_t
highest(const struct world *world)
{
	uint64_t most = 0;

	for (uint32_t i = 0; i < GATEWAYS; i++)
		most = num_max(most, world->gateways[i].load / world->gateways[i].port_count);
	return most;
}

/* Every gateway is asked in turn; whether one gave a shard away. */
static bool
round_of(struct world *world)
{
	uint32_t moves = 0;

	for (uint32_t self = 0; self < GATEWAYS; self++) {
		struct mt_relief_shard own[MANY_SHARDS];
		struct mt_relief_question question = { .gateways = world->gateways,
			.gateway_count = GATEWAYS,
			.self = self,
			.shards = own };
		struct mt_relief_move move;

		for (uint32_t i = 0; i < MANY_SHARDS; i++) {
			if (world->owners[i] == self)
				own[question.shard_count++] =
				    (struct mt_relief_shard){ i, world->loads[i], true };
		}
		if (!mt_relief_choose(&question, &move))
			continue;
		moves++;
		world->owners[own[move.shard].number] = move.taker;
		world->gateways[self].load -= own[move.shard].load;
		world->gateways[move.taker].load += own[move.shard].load;
		break;
	}
	return moves > 0;
}

Test(relief_rule, the_highest_load_falls_until_nothing_moves)
{
	uint64_t dice[4];

	random_seed(dice, 7);
	for (uint32_t k = 0; k < 500; k++) {
		struct world world = { .loads = { 0 } };
		uint32_t moves = 0;

		for (uint32_t i = 0; i < GATEWAYS; i++)
			world.gateways[i] = (struct mt_relief_gateway){ .id = i + 1,
				.port_count = 1 + (uint32_t)random_below(dice, 3),
				.room = MANY_SHARDS,
				.is_taker = true };
		for (uint32_t i = 0; i < MANY_SHARDS; i++) {
			world.owners[i] = (uint32_t)random_below(dice, GATEWAYS);
			world.loads[i] = random_below(dice, 8) < 5
			    ? 0
			    : 1 + random_below(dice, UINT64_C(1) << random_below(dice, 30));
			world.gateways[world.owners[i]].load += world.loads[i];
		}
		for (uint64_t before = highest(&world); round_of(&world);) {
			cr_assert_leq(highest(&world), before);
			before = highest(&world);
			cr_assert_leq(++moves, MANY_SHARDS);
		}
	}
}
