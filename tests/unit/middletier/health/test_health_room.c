/* SPDX-License-Identifier: Apache-2.0 */
/* test_health_room.c -- how much room there is, and when it is said to be short */
#include "unit/health_rig.h"

TestSuite(health_room, .init = well, .fini = gone);

static void
leave_free(uint32_t node, uint64_t slots)
{
	for (uint32_t i = 0; i < PORTS; i++)
		links[i][node].slots_free = slots;
}

Test(health_room, a_node_is_full_where_it_keeps_back_what_it_has)
{
	leave_free(1, RESERVED);
	judge();
	cr_assert_not_null(reason_of(CLEAVE_HEALTH_NODE_FULL, "node 2"));
	cr_assert_not_null(reason_of(CLEAVE_HEALTH_ROOM_END, "cluster"),
	    "three copies fit nowhere");
	cr_assert_eq(health.room.data_free, 0);
	leave_free(1, RESERVED + 1);
	judge();
	cr_assert_null(reason_of(CLEAVE_HEALTH_NODE_FULL, "node 2"));
	links[1][1].is_full = true; /* for some kind of extent */
	judge();
	cr_assert_not_null(reason_of(CLEAVE_HEALTH_NODE_FULL, "node 2"));
}

/* A full node of three: no extent finds three nodes, however much room the others have. Who reads it must know which one. */
Test(health_room, a_full_node_that_stops_writes_is_named)
{
	static const char told[] = "node 2 is full, and others have room";
	const struct mt_health_reason *reason;

	leave_free(1, RESERVED);
	shard(0)->wait = MT_WAIT_ROOM;
	judge();
	reason = reason_of(CLEAVE_HEALTH_ROOM_END, "cluster");
	cr_assert_not_null(reason);
	cr_assert_not_null(strstr(reason->text, told), "%s", reason->text);
	reason = reason_of(CLEAVE_HEALTH_ROOM_OUT, HERE);
	cr_assert_not_null(reason);
	cr_assert_not_null(strstr(reason->text, told), "%s", reason->text);
	leave_free(0, RESERVED);
	judge();
	reason = reason_of(CLEAVE_HEALTH_ROOM_OUT, HERE);
	cr_assert_not_null(strstr(reason->text, "nodes 1, 2 are full, and others have room"), "%s",
	    reason->text);
	leave_free(2, RESERVED);
	judge();
	reason = reason_of(CLEAVE_HEALTH_ROOM_OUT, HERE);
	cr_assert_null(strstr(reason->text, "full"), "all are: %s", reason->text);
}

Test(health_room, room_is_judged_by_what_three_copies_find)
{
	/* 90 slots for data each: 85 % of that are 76.5. */
	for (uint32_t node = 0; node < NODES; node++)
		leave_free(node, RESERVED + 14);
	expect_well();
	leave_free(0, RESERVED + 13);
	(void)expect_only(CLEAVE_HEALTH_ROOM_LOW, "cluster", "85 % of the room");
	cr_assert_eq(health.room.data_free, NUM_MIB(13));
	leave_free(0, RESERVED + 5);
	(void)expect_only(CLEAVE_HEALTH_ROOM_LOW, "cluster", "94 % of the room");
	leave_free(0, RESERVED + 4);
	(void)expect_only(CLEAVE_HEALTH_ROOM_END, "cluster", "95 % of the room");
}

Test(health_room, a_node_that_is_away_makes_the_others_no_fuller)
{
	for (uint32_t node = 0; node < NODES; node++)
		leave_free(node, RESERVED + 50);
	for (uint32_t i = 0; i < PORTS; i++)
		links[i][0].is_up = false;
	judge();
	cr_assert_null(reason_of(CLEAVE_HEALTH_ROOM_LOW, "cluster"));
	cr_assert_eq(health.room.data_free, NUM_MIB(50), "two copies each");
}

/* Room that is left now is of what is left at all, and both are of what the nodes that take data have. */
static void
expect_room(uint64_t total_mib, uint64_t used_mib, uint64_t free_mib)
{
	judge();
	cr_assert_eq(health.room.data_total, NUM_MIB(total_mib));
	cr_assert_eq(health.room.data_used, NUM_MIB(used_mib));
	cr_assert_eq(health.room.data_free, NUM_MIB(free_mib));
	cr_assert_eq(health.room.raw_total, NODES * SLOTS * NUM_MIB(1), "disks are disks");
}

Test(health_room, room_has_one_meaning_whatever_becomes_of_a_node)
{
	for (uint32_t node = 0; node < NODES; node++)
		leave_free(node, RESERVED + 50);
	expect_room(90, 40, 50);
	/* A full node has no room for a third copy; that it goes away gives none. */
	leave_free(0, RESERVED);
	expect_room(90, 90, 0);
	links[0][0].is_up = false;
	expect_room(90, 90, 0);
	links[0][0].is_up = true;
	leave_free(0, RESERVED + 50);
	/* A disk that takes no writes is no room, in all neither: two copies find it at the others. */
	links[0][0].is_read_only = true;
	expect_room(90, 40, 50);
	links[0][1].is_read_only = true;
	expect_room(90, 40, 0); /* --min-replicas is 2 */
	links[0][2].is_read_only = true;
	judge();
	cr_assert_eq(health.room.data_total, 0);
	cr_assert_eq(health.room.data_free, 0);
	links[0][0].is_read_only = links[0][1].is_read_only = links[0][2].is_read_only = false;
	/* A pool below a disk is full: its slots are free, and take nothing now. */
	for (uint32_t node = 0; node < NODES; node++)
		links[0][node].is_left_out = true;
	expect_room(90, 40, 0);
	links[0][1].is_left_out = links[0][2].is_left_out = false;
	expect_room(90, 40, 50);
	links[0][0].is_left_out = false;
	/* A disk that drains is a disk, and no room for data. */
	for (uint32_t i = 0; i < PORTS; i++)
		links[i][0].config.state = MT_NODE_DRAINING;
	expect_room(90, 40, 50);
}

/*
 * As copies are placed: in three racks where there are three, though a rack has two hosts. Those that are away make no
 * fewer racks of them.
 */
Test(health_room, nothing_fits_where_fewer_domains_are_left_than_copies_are_owed)
{
	static const char *const domains[] = { "dc/r1/h1", "dc/r1/h2", "dc/r2/h3", "dc/r3/h4" };
	static const struct {
		bool is_down[NUM_COUNT(domains)], is_read_only[NUM_COUNT(domains)],
		    is_left_out[NUM_COUNT(domains)];
		bool has_room;
	} rows[] = {
		{ .has_room = true },
		{ .is_down = { false, false, false, true }, .has_room = true },
		{ .is_down = { false, false, true, true } },
		{ .is_down = { false, false, true },
		    .is_read_only = { false, false, false, true } },
		{ .is_left_out = { false, false, true, true } },
		{ .is_read_only = { false, false, true, true } },
		{ .is_down = { true, false, true }, .has_room = true },
		{ .is_down = { true, true, false, true } },
	};
	static struct mt_link_status racks[PORTS][NUM_COUNT(domains)];

	for (uint32_t row = 0; row < NUM_COUNT(rows); row++) {
		for (uint32_t i = 0; i < PORTS; i++) {
			for (uint32_t k = 0; k < NUM_COUNT(domains); k++) {
				racks[i][k] = link_of(k);
				(void)snprintf(racks[i][k].config.domain,
				    sizeof(racks[i][k].config.domain), "%s", domains[k]);
				racks[i][k].is_up = !rows[row].is_down[k];
				racks[i][k].is_read_only = rows[row].is_read_only[k];
				racks[i][k].is_left_out = rows[row].is_left_out[k];
			}
			ask.legs[i].status.links = racks[i];
			ask.legs[i].status.link_count = NUM_COUNT(domains);
		}
		judge();
		cr_assert_eq(health.room.data_free > 0, rows[row].has_room, "row %u", row);
	}
}

Test(health_room, what_is_left_is_said_as_of_now_too)
{
	for (uint32_t node = 0; node < NODES; node++)
		leave_free(node, RESERVED + 10);
	judge();
	cr_assert_not_null(strstr(reason_of(CLEAVE_HEALTH_ROOM_LOW, "cluster")->text,
	    "88 % of the room for data is in use: 10 of 90 MiB are left"));
	for (uint32_t node = 0; node < NODES; node++)
		links[0][node].is_left_out = true;
	judge();
	cr_assert_not_null(strstr(reason_of(CLEAVE_HEALTH_ROOM_LOW, "cluster")->text,
	    "10 of 90 MiB are left, 0 of them now"));
}
