/* SPDX-License-Identifier: Apache-2.0 */
/* test_placement.c -- which nodes get an extent */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "base/sm.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "middletier/common/port.h"
#include "middletier/common/replica.h"
#include "middletier/common/settings.h"
#include "middletier/extent/capacity.h"
#include "middletier/extent/extent.h"
#include "middletier/extent/node_link.h"
#include "middletier/extent/placement.h"
#include "splitlib/sim/loop_sim.h"

#define NODES 6u
#define COPY_BYTES NUM_MIB(1)

static struct sim_world *world;
static struct mt_settings settings;
static struct mt_port port;
static struct mt_link links[NODES];
static struct mt_link *picked[MT_REPLICAS_MAX];

static const struct sm_state up_table[] = {
	[MT_LINK_DOWN] = { "down", 0, SM_INITIAL },
	[MT_LINK_UP] = { "up", 0, SM_INITIAL },
};

static void
set_up(uint32_t index, bool is_up)
{
	sm_init(&links[index].sm, "link", up_table, is_up ? MT_LINK_UP : MT_LINK_DOWN, index);
}

static void
setup(void)
{
	world = sim_world_create(1);
	settings.min_replicas = 2;
	port = (struct mt_port){ .loop = sim_world_nature(world),
		.settings = &settings,
		.links = links,
		.link_count = NODES };
	memset(links, 0, sizeof(links));
	for (uint32_t i = 0; i < NODES; i++) {
		links[i].magic = 0x4b4e494cu; /* LINK_MAGIC: a refresh looks at it */
		links[i].port = &port;
		links[i].node_id = i + 1;
		links[i].slots_total = 100;
		links[i].slots_free = 50;
		links[i].slot_bytes = 2 * COPY_BYTES;
		set_up(i, true);
		/* Asked just now: nothing is asked again. */
		links[i].status.asked_ns = loop_now_ns(port.loop);
	}
}

static void
teardown(void)
{
	sim_world_destroy(world);
}

TestSuite(placement, .init = setup, .fini = teardown);

static bool
is_picked(uint32_t index)
{
	for (uint32_t i = 0; i < MT_REPLICAS_MAX; i++) {
		if (picked[i] == &links[index])
			return true;
	}
	return false;
}

static void
set_domain(uint32_t index, const char *domain)
{
	(void)snprintf(links[index].config.domain, sizeof(links[index].config.domain), "%s",
	    domain);
}

Test(placement, picks_different_nodes)
{
	for (uint32_t i = 0; i < 100; i++) {
		cr_assert_eq(mt_placement_pick(&port, EXTENT_LOG, 3, picked), 0);
		cr_assert(
		    picked[0] != picked[1] && picked[1] != picked[2] && picked[0] != picked[2]);
	}
}

Test(placement, equals_take_turns_by_chance)
{
	uint32_t counts[NODES] = { 0 };

	for (uint32_t i = 0; i < 600; i++) {
		cr_assert_eq(mt_placement_pick(&port, EXTENT_LOG, 3, picked), 0);
		for (uint32_t k = 0; k < NODES; k++)
			counts[k] += is_picked(k);
	}
	for (uint32_t k = 0; k < NODES; k++)
		cr_assert(counts[k] > 200 && counts[k] < 400, "%u: %u", k, counts[k]);
}

Test(placement, the_emptiest_go_first)
{
	links[1].slots_free = links[3].slots_free = links[5].slots_free = 90;
	cr_assert_eq(mt_placement_pick(&port, EXTENT_LOG, 3, picked), 0);
	cr_assert(is_picked(1) && is_picked(3) && is_picked(5));
}

Test(placement, share_counts_not_number)
{
	for (uint32_t i = 0; i < 3; i++) {
		links[i].slots_total = 1000; /* larger disks, as many free: fuller */
		links[i].slots_free = 60;
	}
	cr_assert_eq(mt_placement_pick(&port, EXTENT_LOG, 3, picked), 0);
	cr_assert(is_picked(3) && is_picked(4) && is_picked(5));
}

Test(placement, busy_nodes_come_last)
{
	links[0].call_count = links[1].call_count = links[2].call_count = 7;
	cr_assert_eq(mt_placement_pick(&port, EXTENT_LOG, 3, picked), 0);
	cr_assert(is_picked(3) && is_picked(4) && is_picked(5));
}

Test(placement, one_of_each_domain)
{
	for (uint32_t i = 0; i < NODES; i++)
		set_domain(i, i < 4 ? "a" : i == 4 ? "b" : "c");
	for (uint32_t i = 0; i < 20; i++) {
		cr_assert_eq(mt_placement_pick(&port, EXTENT_LOG, 3, picked), 0);
		cr_assert(is_picked(4) && is_picked(5));
	}
}

/* The highest level on which three differ is the one that counts. */
Test(placement, domains_are_paths)
{
	static const struct {
		const char *domains[4];
		uint32_t depth;
	} cases[] = {
		{ { "a", "b", "c", "c" }, 1 },
		{ { "dc1/r1/h1", "dc1/r2/h2", "dc1/r3/h3", "dc1/r3/h4" }, 2 },
		{ { "dc1/r1/h1", "dc1/r1/h2", "dc1/r2/h3", "dc1/r2/h4" }, 3 },
		{ { "dc1/r1/h1/d1", "dc1/r1/h1/d2", "dc1/r2/h3", "dc1/r2/h3" }, MT_DOMAIN_WHOLE },
		{ { "dc1", "dc1/r1", "dc2", "dc3/r1" }, 1 },
		{ { "", "", "", "" }, 1 },
		{ { "r1", "r1", "r1", "r1" }, MT_DOMAIN_WHOLE },
	};

	for (uint32_t i = 0; i < NUM_COUNT(cases); i++) {
		for (uint32_t k = 0; k < 4; k++)
			set_domain(k, cases[i].domains[k]);
		cr_assert_eq(mt_domain_depth(links, 4), cases[i].depth, "case %u: %u", i,
		    mt_domain_depth(links, 4));
	}
}

Test(placement, domain_ends_where_its_part_ends)
{
	struct mt_node_config a = { .domain = "dc1/r1" }, b = { .domain = "dc1/r12" },
			      c = { .domain = "dc1" };

	cr_assert(mt_node_is_same_domain(&a, &b, 1));
	cr_assert_not(mt_node_is_same_domain(&a, &b, 2));
	cr_assert(mt_node_is_same_domain(&a, &c, 1));
	cr_assert_not(mt_node_is_same_domain(&a, &c, 2));
	cr_assert_not(mt_node_is_same_domain(&a, &b, MT_DOMAIN_WHOLE));
}

/* A node that is twice as heavy, and half as free, is as good. */
Test(placement, weight_counts)
{
	for (uint32_t i = 0; i < NODES; i++)
		links[i].slots_free = links[i].slots_total / 2;
	links[NODES - 1].slots_free = links[NODES - 1].slots_total / 4;
	for (uint32_t i = 0; i < 20; i++) {
		cr_assert_eq(mt_placement_pick(&port, EXTENT_RUN, 1, picked), 0);
		cr_assert_neq(picked[0], &links[NODES - 1]);
	}
	links[NODES - 1].config.weight = 400;
	for (uint32_t i = 0; i < 20; i++) {
		cr_assert_eq(mt_placement_pick(&port, EXTENT_RUN, 1, picked), 0);
		cr_assert_eq(picked[0], &links[NODES - 1]);
	}
}

Test(placement, too_few_domains_is_unavailable)
{
	for (uint32_t i = 0; i < NODES; i++)
		set_domain(i, i % 2 == 0 ? "a" : "b");
	picked[0] = NULL;
	cr_assert_eq(mt_placement_pick(&port, EXTENT_LOG, 3, picked), -EHOSTDOWN);
	cr_assert_null(picked[0], "output touched");
	cr_assert_eq(mt_placement_pick(&port, EXTENT_LOG, 2, picked), 0);
}

Test(placement, too_few_up_is_unavailable)
{
	for (uint32_t i = 2; i < NODES; i++)
		set_up(i, false);
	cr_assert_eq(mt_placement_pick(&port, EXTENT_LOG, 3, picked), -EHOSTDOWN);
	set_up(2, true);
	cr_assert_eq(mt_placement_pick(&port, EXTENT_LOG, 3, picked), 0);
	links[0].is_read_only = true;
	cr_assert_eq(mt_placement_pick(&port, EXTENT_LOG, 3, picked), -EHOSTDOWN);
}

Test(placement, too_few_with_room_is_full)
{
	for (uint32_t i = 2; i < NODES; i++)
		links[i].slots_free = 0;
	cr_assert_eq(mt_placement_pick(&port, EXTENT_LOG, 3, picked), -ENOSPC);
	cr_assert_eq(mt_placement_pick(&port, EXTENT_LOG, 2, picked), 0);
	cr_assert(is_picked(0) && is_picked(1));
}

/* Data would have two copies for good: people decide that, and say so by putting the node away. */
Test(placement, full_node_is_no_dead_one_until_it_is_put_away)
{
	port.link_count = 3;
	links[1].slots_free = 0;
	cr_assert_eq(mt_placement_pick(&port, EXTENT_LOG, 3, picked), -ENOSPC);
	links[1].config.maintenance_until_ns = UINT64_MAX;
	cr_assert_eq(mt_placement_pick(&port, EXTENT_LOG, 3, picked), -EHOSTDOWN);
	cr_assert_eq(mt_placement_pick(&port, EXTENT_LOG, 2, picked), 0);
	cr_assert(is_picked(0) && is_picked(2));
}

Test(placement, room_is_asked_for_by_kind)
{
	for (uint32_t i = 0; i < NODES; i++)
		links[i].full_kinds = 1u << EXTENT_LOG;
	cr_assert_eq(mt_placement_pick(&port, EXTENT_LOG, 3, picked), -ENOSPC);
	cr_assert_eq(mt_placement_pick(&port, EXTENT_MANIFEST, 3, picked), 0);
}

/* ---- one more copy ---- */

static int
pick_one(uint64_t bytes, uint32_t other, uint32_t another, struct mt_link **ret_link)
{
	struct mt_placement_copy copy = { .kind = EXTENT_LOG,
		.bytes = bytes,
		.others = (uint32_t[]){ other, another },
		.other_count = 2 };
	bool has_one = mt_placement_has_one(&port, &copy);
	int rc = mt_placement_pick_one(&port, &copy, ret_link);

	cr_assert_eq(has_one, rc == 0);
	return rc;
}

Test(placement, one_more_is_outside_the_domains_of_the_others)
{
	struct mt_link *link;

	for (uint32_t i = 0; i < NODES; i++)
		set_domain(i, i < 2 ? "a" : i < 4 ? "b" : "c");
	set_up(5, false);
	for (uint32_t i = 0; i < 20; i++) {
		cr_assert_eq(pick_one(COPY_BYTES, 1, 3, &link), 0);
		cr_assert_eq(link, &links[4]);
	}
	links[4].slots_free = 0;
	cr_assert_eq(pick_one(COPY_BYTES, 1, 3, &link), -EHOSTDOWN);
	/* A node that nobody knows has no domain. */
	cr_assert_eq(pick_one(COPY_BYTES, 1, 77, &link), 0);
	cr_assert(link == &links[2] || link == &links[3]);
}

Test(placement, one_more_is_where_a_slot_holds_it)
{
	struct mt_link *link;

	for (uint32_t i = 2; i < NODES; i++)
		links[i].slot_bytes = COPY_BYTES;
	links[4].slot_bytes = COPY_BYTES + MT_EXTENT_OVERHEAD_BYTES;
	links[2].slots_free = links[3].slots_free = 100; /* the emptiest */
	cr_assert_eq(pick_one(COPY_BYTES, 1, 2, &link), 0);
	cr_assert_eq(link, &links[4]);
	cr_assert_eq(pick_one(COPY_BYTES + 1, 1, 2, &link), -EHOSTDOWN);
	cr_assert_eq(pick_one(COPY_BYTES - MT_EXTENT_OVERHEAD_BYTES, 1, 2, &link), 0);
	cr_assert(link == &links[2] || link == &links[3]);
}

/* ---- slow nodes ---- */

static void
set_slow(uint32_t index)
{
	links[index].slow.penalty.until_ns = loop_now_ns(port.loop) + NUM_S(1);
}

Test(placement, slow_nodes_are_left_out)
{
	set_slow(0);
	set_slow(1);
	set_slow(2);
	for (uint32_t i = 0; i < 20; i++) {
		cr_assert_eq(mt_placement_pick(&port, EXTENT_LOG, 3, picked), 0);
		cr_assert(!is_picked(0) && !is_picked(1) && !is_picked(2));
	}
	cr_assert_eq(mt_placement_domain_count(&port), 3);
	cr_assert_eq(mt_placement_avoid_ns(&port), loop_now_ns(port.loop) + NUM_S(1));
}

Test(placement, two_good_nodes_are_better_than_three_with_a_slow_one)
{
	for (uint32_t i = 0; i < 4; i++)
		set_slow(i);
	cr_assert_eq(mt_placement_pick(&port, EXTENT_LOG, 3, picked), -EHOSTDOWN);
	cr_assert_eq(mt_placement_pick(&port, EXTENT_LOG, 2, picked), 0);
	cr_assert(is_picked(4) && is_picked(5));
}

Test(placement, slow_nodes_are_better_than_none)
{
	for (uint32_t i = 0; i < 5; i++)
		set_slow(i);
	cr_assert_eq(mt_placement_pick(&port, EXTENT_LOG, 3, picked), 0);
	cr_assert(is_picked(5));
	/* And better than full ones. */
	memset(&links[0].slow.penalty.until_ns, 0, sizeof(links[0].slow.penalty.until_ns));
	links[0].slots_free = links[5].slots_free = 0;
	cr_assert_eq(mt_placement_pick(&port, EXTENT_LOG, 2, picked), 0);
}

Test(placement, a_node_that_drains_or_is_gone_gets_nothing)
{
	uint32_t others[] = { 1, 2 };
	struct mt_link *one;

	links[3].config.state = MT_NODE_DRAINING;
	links[4].config.state = MT_NODE_OUT;
	links[5].config.state = MT_NODE_LOST;
	cr_assert_eq(mt_placement_domain_count(&port), 3);
	for (uint32_t i = 0; i < 20; i++) {
		cr_assert_eq(mt_placement_pick(&port, EXTENT_LOG, 3, picked), 0);
		cr_assert(is_picked(0) && is_picked(1) && is_picked(2));
	}
	links[2].config.state = MT_NODE_DRAINING;
	cr_assert_eq(mt_placement_pick(&port, EXTENT_LOG, 3, picked), -EHOSTDOWN);
	cr_assert_eq(pick_one(COPY_BYTES, others[0], others[1], &one), -EHOSTDOWN);
}

Test(placement, a_node_in_maintenance_is_the_last_choice)
{
	uint64_t now_ns = loop_now_ns(port.loop);

	for (uint32_t i = 2; i < NODES; i++)
		links[i].config.maintenance_until_ns = now_ns + 1;
	cr_assert_eq(mt_placement_domain_count(&port), 2);
	cr_assert_eq(mt_placement_avoid_ns(&port), now_ns + 1);
	cr_assert_eq(mt_placement_pick(&port, EXTENT_LOG, 2, picked), 0);
	cr_assert(picked[0]->node_id <= 2 && picked[1]->node_id <= 2);
	settings.min_replicas = 3;
	cr_assert_eq(mt_placement_pick(&port, EXTENT_LOG, 3, picked), 0, "better than none");
	for (uint32_t i = 2; i < NODES; i++)
		links[i].config.maintenance_until_ns = now_ns;
	cr_assert_eq(mt_placement_domain_count(&port), NODES, "its time has ended");
}
