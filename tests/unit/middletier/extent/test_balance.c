/* SPDX-License-Identifier: Apache-2.0 */
/* test_balance.c -- whether copies fit, and the nodes' shares of them */
#include <criterion/criterion.h>
#include <stdio.h>

#include "base/num.h"
#include "middletier/extent/balance.h"
#include "middletier/extent/node_config.h"

#define NODES_MAX 8u

static struct mt_node_config configs[NODES_MAX];
static struct mt_balance_node nodes[NODES_MAX];
static uint32_t count;

static void
add(const char *domain, uint64_t slots_total)
{
	(void)snprintf(configs[count].domain, sizeof(configs[count].domain), "%s", domain);
	nodes[count] =
	    (struct mt_balance_node){ .config = &configs[count], .slots_total = slots_total };
	count++;
}

Test(balance, a_domain_has_a_third_at_most)
{
	add("a", 100);
	add("b", 100);
	add("c", 10);
	cr_assert(mt_balance_fits(nodes, count, 30));
	cr_assert_not(mt_balance_fits(nodes, count, 33), "ten copies fit in c");
	add("c", 20);
	cr_assert(mt_balance_fits(nodes, count, 90));
	cr_assert_not(mt_balance_fits(nodes, count, 93));
	add("d", 50);
	cr_assert(mt_balance_fits(nodes, count, 240));
	cr_assert_not(mt_balance_fits(nodes, count, 243));
}

Test(balance, room_is_what_all_copies_find)
{
	const uint64_t some[] = { 50, 7, 30, 4 }, none[] = { 0, 9, 9 };

	cr_assert_eq(mt_balance_room(nodes, 0, some), 0);
	add("a", 100);
	cr_assert_eq(mt_balance_room(nodes, count, some), 50, "one copy each");
	add("b", 100);
	cr_assert_eq(mt_balance_room(nodes, count, some), 7, "two copies");
	add("c", 100);
	cr_assert_eq(mt_balance_room(nodes, count, some), 7);
	cr_assert_eq(mt_balance_room(nodes, count, none), 0);
	add("b", 100);
	cr_assert_eq(mt_balance_room(nodes, count, some), 11, "two nodes of a domain are one");
	(void)snprintf(configs[3].domain, sizeof(configs[3].domain), "d");
	cr_assert_eq(mt_balance_room(nodes, count, some), 11, "7 and 4 are the third copies");
	for (uint64_t extents = 0; extents < 40; extents++) {
		uint64_t usable = 0;

		for (uint32_t i = 0; i < count; i++)
			usable += some[i] < extents ? some[i] : extents;
		cr_assert_eq(usable >= 3 * extents, extents <= 11, "%lu", (unsigned long)extents);
	}
}

Test(balance, fewer_domains_have_fewer_copies)
{
	cr_assert(mt_balance_fits(nodes, 0, 0));
	cr_assert_not(mt_balance_fits(nodes, 0, 1));
	add("a", 100);
	cr_assert(mt_balance_fits(nodes, count, 100));
	add("a", 100);
	cr_assert(mt_balance_fits(nodes, count, 200), "a single domain: copies are on other nodes");
	cr_assert_not(mt_balance_fits(nodes, count, 201));
}

Test(balance, racks_count_where_there_are_three)
{
	add("r1/h1", 100);
	add("r1/h2", 100);
	add("r2/h3", 100);
	add("r3/h4", 50);
	cr_assert(mt_balance_fits(nodes, count, 150));
	cr_assert_not(mt_balance_fits(nodes, count, 153), "r3 has room for fifty");
}

/* ---- shares ---- */

static void
use(uint32_t index, uint64_t slots)
{
	nodes[index].slots_used = slots;
}

static void
expect_share(uint32_t index, uint64_t slots)
{
	cr_assert(nodes[index].slots_share + 1 >= slots && nodes[index].slots_share <= slots + 1,
	    "node %u: %llu, wanted %llu", index, (unsigned long long)nodes[index].slots_share,
	    (unsigned long long)slots);
}

Test(balance, equal_nodes_have_equal_shares)
{
	add("a", 100);
	add("b", 100);
	add("c", 100);
	add("d", 100);
	for (uint32_t i = 0; i < 3; i++)
		use(i, 40);
	mt_balance_shares(nodes, count);
	for (uint32_t i = 0; i < 4; i++)
		expect_share(i, 30);
}

Test(balance, a_larger_node_has_more)
{
	add("a", 100);
	add("b", 100);
	add("c", 100);
	add("d", 100);
	add("e", 200);
	use(0, 60);
	use(1, 60);
	use(2, 60);
	mt_balance_shares(nodes, count);
	for (uint32_t i = 0; i < 4; i++)
		expect_share(i, 30);
	expect_share(4, 60);
}

/* Free room counts the same for all: 70 of a hundred at 100 are as 140 at 50. */
Test(balance, weight_counts)
{
	add("a", 1000);
	add("b", 1000);
	add("c", 1000);
	add("d", 1000);
	configs[3].weight = 200;
	for (uint32_t i = 0; i < 4; i++)
		use(i, 700);
	mt_balance_shares(nodes, count);
	for (uint32_t i = 0; i < 3; i++)
		expect_share(i, 657);
	expect_share(3, 829);
	configs[3].weight = 50;
	for (uint32_t i = 0; i < 4; i++)
		use(i, 100);
	mt_balance_shares(nodes, count);
	expect_share(3, 0);
}

/* Two nodes share what a rack has; the other racks cannot give them more than that. */
Test(balance, no_domain_has_more_than_its_third)
{
	add("a", 100);
	add("b", 100);
	add("c", 100);
	add("c", 100);
	use(0, 60);
	use(1, 60);
	use(2, 60);
	mt_balance_shares(nodes, count);
	expect_share(0, 60);
	expect_share(1, 60);
	expect_share(2, 30);
	expect_share(3, 30);
}

Test(balance, shares_of_nothing_are_nothing)
{
	mt_balance_shares(nodes, 0);
	add("a", 100);
	mt_balance_shares(nodes, count);
	expect_share(0, 0);
	use(0, 100);
	mt_balance_shares(nodes, count);
	expect_share(0, 100);
}
