/* SPDX-License-Identifier: Apache-2.0 */
/* test_health.c -- from what main and the ports know to reasons: every code, and what is no reason */
#include <errno.h>

#include "base/log.h"
#include "unit/health_rig.h"

TestSuite(health, .init = well, .fini = gone);

Test(health, a_gateway_that_is_well_has_no_reason)
{
	expect_well();
	cr_assert_eq(health.room.raw_total, NODES * SLOTS * NUM_MIB(1));
	cr_assert_eq(health.room.raw_free, NODES * SLOTS * NUM_MIB(1));
	cr_assert_eq(health.room.data_total, (SLOTS - RESERVED) * NUM_MIB(1));
	cr_assert_eq(health.room.data_free, (SLOTS - RESERVED) * NUM_MIB(1));
}

Test(health, each_code_has_its_words)
{
	for (uint32_t i = 0; i < CLEAVE_HEALTH_CODE_NR; i++) {
		const struct cleave_health_info *info = health_info((enum cleave_health_code)i);

		cr_assert(info->level > CLEAVE_HEALTH_OK && info->level < CLEAVE_HEALTH_LEVEL_NR);
		cr_assert(strlen(info->means) > 10 && strlen(info->helps) > 10, "%s", info->name);
		cr_assert_eq(info->means[strlen(info->means) - 1], '.', "%s", info->name);
		for (uint32_t k = 0; k < i; k++)
			cr_assert_str_neq(info->name,
			    health_info((enum cleave_health_code)k)->name);
	}
}

/* ---- shards ---- */

Test(health, what_stands_in_the_way_of_every_write_is_told_without_one)
{
	static const struct {
		enum mt_wait wait;
		enum cleave_health_code code;
	} cases[] = {
		{ MT_WAIT_TAKEOVER, CLEAVE_HEALTH_SHARD_STARTING },
		{ MT_WAIT_AWAY, CLEAVE_HEALTH_SHARD_WAITS },
		{ MT_WAIT_STALE, CLEAVE_HEALTH_STORE_STALE },
		{ MT_WAIT_DEVICE, CLEAVE_HEALTH_SHARD_SHORT },
		{ MT_WAIT_FAILED, CLEAVE_HEALTH_SHARD_FAILED },
		{ MT_WAIT_STORE, CLEAVE_HEALTH_STORE_OTHER },
		{ MT_WAIT_NODES, CLEAVE_HEALTH_NODES_FEW },
		{ MT_WAIT_ROOM, CLEAVE_HEALTH_ROOM_OUT },
	};

	for (uint32_t i = 0; i < NUM_COUNT(cases); i++) {
		shard(3)->wait = cases[i].wait;
		cr_assert_eq(expect_only(cases[i].code, HERE, "shard 3 ")->age_ns, 0);
		cr_assert_not_null(strstr(health.reasons[0].text, mt_wait_text(cases[i].wait)));
	}
}

Test(health, the_node_that_a_take_over_waits_for_is_named)
{
	shard(2)->wait = MT_WAIT_AWAY;
	shard(2)->awaited_node = 3;
	expect_only(CLEAVE_HEALTH_SHARD_WAITS, HERE, "shard 2 ");
	cr_assert_not_null(strstr(health.reasons[0].text, "and does not answer: node 3"), "%s",
	    health.reasons[0].text);
}

Test(health, what_is_ordinary_is_told_when_a_write_has_waited)
{
	static const enum mt_wait waits[] = { MT_WAIT_NONE, MT_WAIT_STOPPED, MT_WAIT_LEASE,
		MT_WAIT_LOG, MT_WAIT_MEMORY, MT_WAIT_EXTENT, MT_WAIT_ANSWERS };

	for (uint32_t i = 0; i < NUM_COUNT(waits); i++) {
		shard(5)->wait = waits[i];
		shard(5)->write_age_ns = 0;
		expect_well();
		shard(5)->write_age_ns = MT_HEALTH_SLOW_NS - 1;
		expect_well();
		shard(5)->write_age_ns = MT_HEALTH_SLOW_NS;
		(void)expect_only(CLEAVE_HEALTH_WRITES_SLOW, HERE, "shard 5 ");
		shard(5)->write_age_ns = MT_HEALTH_WAIT_NS - 1;
		(void)expect_only(CLEAVE_HEALTH_WRITES_SLOW, HERE, "shard 5 ");
		shard(5)->write_age_ns = MT_HEALTH_WAIT_NS;
		cr_assert_eq(expect_only(CLEAVE_HEALTH_WRITES_WAIT, HERE, "shard 5 ")->age_ns,
		    MT_HEALTH_WAIT_NS);
	}
}

Test(health, a_take_over_that_keeps_writes_waiting_is_worse)
{
	shard(0)->wait = MT_WAIT_TAKEOVER;
	shard(0)->write_age_ns = MT_HEALTH_WAIT_NS;
	(void)expect_only(CLEAVE_HEALTH_WRITES_WAIT, HERE, "is being taken over");
	shard(0)->wait = MT_WAIT_NODES;
	(void)expect_only(CLEAVE_HEALTH_NODES_FEW, HERE, "--min-replicas");
}

Test(health, a_shard_that_cannot_be_taken_over_says_why)
{
	shard(1)->wait = shard(4)->wait = MT_WAIT_FAILED;
	shard(1)->failed_why = shard(4)->failed_why = "its manifest cannot be understood";
	(void)expect_only(CLEAVE_HEALTH_SHARD_FAILED, HERE,
	    "each of shards 1, 4 cannot be taken over, try after try: its manifest cannot");
}

Test(health, shards_of_one_trouble_are_one_reason_with_the_oldest_write)
{
	const struct mt_health_reason *reason;

	for (uint32_t i = 0; i < 4; i++) {
		shard(i)->wait = MT_WAIT_ROOM;
		shard(i)->write_age_ns = NUM_S(i);
		(void)snprintf(shard(i)->write_volume, sizeof(shard(i)->write_volume), "disk%u", i);
	}
	shard(6)->wait = MT_WAIT_ROOM;
	reason = expect_only(CLEAVE_HEALTH_ROOM_OUT, HERE, "each of shards 0 to 3, 6 ");
	cr_assert_eq(reason->age_ns, NUM_S(3));
	cr_assert_not_null(strstr(reason->text, "'disk3'"), "%s", reason->text);
	shard(6)->wait = MT_WAIT_NODES;
	judge();
	cr_assert_eq(health.count, 2);
	cr_assert_not_null(reason_of(CLEAVE_HEALTH_NODES_FEW, HERE));
}

Test(health, copies_that_lack_or_are_held_back_are_counted_over_all_shards)
{
	shard(0)->lacking_count = 2;
	shard(5)->lacking_count = 3;
	(void)expect_only(CLEAVE_HEALTH_COPIES_LACK, HERE, "5 of the 88 extents");
	shard(0)->lacking_count = shard(5)->lacking_count = 0;
	shard(7)->leaving_count = 4; /* a node drains: that is somebody's will */
	shard(7)->orphan_count = 3;
	expect_well();
	shard(7)->held_count = 2;
	(void)expect_only(CLEAVE_HEALTH_ORPHANS_HELD, HERE, "2 copies");
}

Test(health, merges_that_find_no_copy_are_told_when_it_lasts)
{
	const struct mt_volume clone = { .id = 5,
		.name = "c",
		.segment_base = 700,
		.segment_count = 3 };

	shard(1)->unread_ns = MT_HEALTH_UNREAD_NS - 1;
	expect_well();
	shard(1)->unread_ns = MT_HEALTH_UNREAD_NS;
	shard(4)->unread_ns = MT_HEALTH_UNREAD_NS + 1;
	cr_assert_eq(expect_only(CLEAVE_HEALTH_BLOCKS_UNREAD, HERE, "shards 1, 4: ")->age_ns,
	    MT_HEALTH_UNREAD_NS + 1);
	/* A copy for a clone is told with its name. */
	mt_volumes_init(&gateway.volumes);
	cr_assert_eq(mt_volumes_put(&gateway.volumes, &clone, 1), 0);
	shard(4)->unread_clone = clone.segment_base + 2;
	(void)expect_only(CLEAVE_HEALTH_BLOCKS_UNREAD, HERE, ": clone 'c' is not flattened for it");
	mt_volumes_fini(&gateway.volumes);
}

Test(health, a_pass_that_does_not_end_is_late_after_two_intervals)
{
	shard(2)->scrub_age_ns = NUM_S(200);
	expect_well();
	shard(2)->scrub_age_ns = NUM_S(201);
	shard(3)->scrub_age_ns = NUM_S(205);
	cr_assert_eq(expect_only(CLEAVE_HEALTH_SCRUB_LATE, HERE, "shards 2, 3: ")->age_ns,
	    NUM_S(205));
}

Test(health, a_port_without_memory_to_tell_is_not_judged)
{
	shard(1)->wait = MT_WAIT_NODES;
	ask.legs[1].status.shards = NULL;
	ask.legs[1].status.links = NULL;
	expect_well();
	ask.legs[0].status.shards = NULL;
	ask.legs[0].status.links = NULL;
	expect_well();
}

Test(health, a_port_that_has_refused_connections_lately_is_full)
{
	for (uint32_t i = 0; i < PORTS; i++) {
		ask.legs[i].status.connections_max = 3968;
		ask.legs[i].status.full_age_ns = UINT64_MAX;
	}
	expect_well();
	ask.legs[1].status.full_age_ns = MT_HEALTH_FULL_NS;
	ask.legs[1].status.full_rc = -ENOBUFS;
	(void)expect_only(CLEAVE_HEALTH_PORT_FULL, HERE,
	    "port 1 has no place for more than 3968 connections, and refuses others");
	ask.legs[1].status.full_rc = -EMFILE;
	(void)expect_only(CLEAVE_HEALTH_PORT_FULL, HERE,
	    "port 1 gets no more connections from its system, and others wait: -EMFILE");
	ask.legs[1].status.full_age_ns++;
	expect_well();
}

Test(health, a_port_that_has_not_answered_is_an_error_by_itself)
{
	ask.legs[0].is_answered = true;
	ask.legs[1].status = (struct mt_port_status){ 0 };
	ask.silent_count = 1;
	shard(1)->wait = MT_WAIT_NODES; /* which nobody has told */
	(void)expect_only(CLEAVE_HEALTH_PORT_SILENT, HERE, "1 of 2 ports have not answered");
	cr_assert_not_null(strstr(health.reasons[0].text, "is port 1;"));
}

/* ---- nodes ---- */

Test(health, a_node_that_one_port_does_not_reach_is_down)
{
	links[1][2].is_up = false;
	links[1][2].state_age_ns = NUM_S(7);
	(void)snprintf(links[1][2].trouble, sizeof(links[1][2].trouble), "refused");
	judge();
	cr_assert_eq(health.count, 2);
	cr_assert_eq(health.level, CLEAVE_HEALTH_WARN);
	cr_assert_eq(reason_of(CLEAVE_HEALTH_NODE_DOWN, "node 3")->age_ns, NUM_S(7));
	cr_assert_str_eq(reason_of(CLEAVE_HEALTH_NODE_DOWN, "node 3")->text,
	    "node 3 at tcp://n3:1 cannot be reached: refused");
	cr_assert_not_null(strstr(reason_of(CLEAVE_HEALTH_DOMAINS_FEW, "cluster")->text,
	    "2 of 3 failure domains"));
	cr_assert_eq(health.room.data_free, (SLOTS - RESERVED) * NUM_MIB(1), "two copies fit");
}

static void
slots_of(uint32_t node, uint64_t slot_bytes, uint64_t total)
{
	for (uint32_t i = 0; i < PORTS; i++) {
		links[i][node].slot_bytes = slot_bytes;
		links[i][node].slots_total = links[i][node].slots_free = total;
	}
}

Test(health, slots_of_half_the_size_of_the_others_or_twice_it_are_told)
{
	/* Less than half of a slot is wasted: nobody is told. */
	slots_of(2, NUM_KIB(516), 2 * SLOTS);
	expect_well();
	slots_of(2, NUM_KIB(512), 2 * SLOTS);
	cr_assert_str_eq(expect_only(CLEAVE_HEALTH_SLOTS_DIFFER, "node 3", "512 KiB")->text,
	    "node 3 at tcp://n3:1 has slots of 512 KiB, the others of 1024 KiB: an extent with a copy "
	    "at both wastes 50 % of each of the others' slots that it takes");
	slots_of(2, NUM_MIB(2) - NUM_KIB(4), SLOTS);
	expect_well();
	slots_of(2, NUM_MIB(4), SLOTS / 2);
	cr_assert_str_eq(expect_only(CLEAVE_HEALTH_SLOTS_DIFFER, "node 3", "4096 KiB")->text,
	    "node 3 at tcp://n3:1 has slots of 4096 KiB, the others of 1024 KiB: an extent with a copy "
	    "at both wastes 75 % of each of its slots that it takes");
}

Test(health, the_slots_that_most_bytes_are_in_are_those_of_the_others)
{
	/* The first node is the one that differs; and of two small ones beside a large one it is each of the two. */
	slots_of(0, NUM_KIB(256), SLOTS);
	(void)expect_only(CLEAVE_HEALTH_SLOTS_DIFFER, "node 1", "wastes 75 %");
	slots_of(1, NUM_KIB(256), SLOTS);
	judge();
	cr_assert_eq(health.count, 2);
	cr_assert_not_null(reason_of(CLEAVE_HEALTH_SLOTS_DIFFER, "node 1"));
	cr_assert_not_null(reason_of(CLEAVE_HEALTH_SLOTS_DIFFER, "node 2"));
	/* As many bytes of each: new extents are as short as the smaller slots, so the larger ones waste. */
	slots_of(0, NUM_KIB(256), 2 * SLOTS);
	slots_of(1, NUM_KIB(256), 2 * SLOTS);
	(void)expect_only(CLEAVE_HEALTH_SLOTS_DIFFER, "node 3", "its slots");
}

/* Clients that read at nodes dial addresses that no gateway does. */

static const struct mt_unreached_word db_word = { .node_id = 2,
	.volume_id = 7,
	.attach = 4,
	.address = "tcp://out:7",
	.by = "client/db",
	.peer = "h:1" };

static int
note(const struct mt_unreached_word *word)
{
	return mt_unreached_note(&gateway.unreached, word, now_ns);
}

/* Node 2 takes clients, and the writer of volume 7 reads there. */
static void
node_2_takes_clients(void)
{
	static struct mt_volume_entry entry;

	entry.volume =
	    (struct mt_volume){ .id = 7, .attach = 4, .session_id = 1, .reads = MT_READS_DIRECT };
	gateway.volumes.entries = &entry;
	gateway.volumes.count = gateway.volumes.max = 1;
	for (uint32_t i = 0; i < PORTS; i++) {
		links[i][1].is_direct = true;
		(void)snprintf(links[i][1].advertise, sizeof(links[i][1].advertise), "tcp://out:7");
	}
}

Test(health, a_node_that_a_client_says_it_does_not_reach_is_told)
{
	node_2_takes_clients();
	cr_assert_eq(note(&db_word), 1);
	cr_assert_eq(note(&db_word), 0);
	(void)expect_only(CLEAVE_HEALTH_ADDRESS_UNREACHED, "node 2",
	    "is at tcp://out:7, where client/db at h:1 does not reach it");
	/* A node that takes no clients any more, or of which nobody says so again, is none to tell. */
	links[0][1].is_direct = links[1][1].is_direct = false;
	expect_well();
	links[0][1].is_direct = links[1][1].is_direct = true;
	gateway.unreached.words[0].told_ns = now_ns - MT_UNREACHED_NS;
	expect_well();
}

static void
expect_told(void)
{
	(void)expect_only(CLEAVE_HEALTH_ADDRESS_UNREACHED, "node 2", "does not reach it");
}

/* @by asks where it may read @volume_id, and names no node that it does not reach. */
static void
ask_without_a_word(uint64_t volume_id, const char *by)
{
	mt_unreached_begin(&gateway.unreached, volume_id, by);
	mt_unreached_end(&gateway.unreached, volume_id, by);
}

/* A word is over as soon as that can be known, and not when it is old. */
Test(health, a_node_that_is_reached_again_is_not_told)
{
	struct mt_volume *volume;

	node_2_takes_clients();
	volume = &gateway.volumes.entries[0].volume;
	(void)note(&db_word);
	expect_told();
	/* Another address: nobody has said anything of that. */
	for (uint32_t i = 0; i < PORTS; i++)
		(void)snprintf(links[i][1].advertise, sizeof(links[i][1].advertise),
		    "tcp://right:7");
	expect_well();
	node_2_takes_clients();
	expect_told();
	volume->attach++; /* another session, which has not tried yet */
	expect_well();
	volume->attach--;
	volume->session_id = 0; /* the client has closed it */
	expect_well();
	volume->session_id = 1;
	volume->reads = MT_READS_GATEWAY;
	expect_well();
	volume->reads = MT_READS_DIRECT;
	gateway.volumes.count = 0;
	expect_well();
	gateway.volumes.count = 1;
	expect_told();
	/* The next question does not name the node. Others' questions take nothing back. */
	ask_without_a_word(7, "cleave[1]@h");
	ask_without_a_word(8, "client/db");
	expect_told();
	mt_unreached_begin(&gateway.unreached, 7, "client/db");
	cr_assert_eq(note(&db_word), 0);
	mt_unreached_end(&gateway.unreached, 7, "client/db");
	expect_told();
	ask_without_a_word(7, "client/db");
	expect_well();
}

Test(health, of_two_clients_one_that_reaches_a_node_does_not_speak_for_the_other)
{
	struct mt_unreached_word other = db_word;

	node_2_takes_clients();
	(void)snprintf(other.by, sizeof(other.by), "client/web");
	cr_assert_eq(note(&db_word), 1);
	cr_assert_eq(note(&other), 0);
	ask_without_a_word(7, "client/web");
	expect_told();
}

Test(health, clients_do_not_reach_more_nodes_than_are_remembered)
{
	struct mt_unreached_word word = db_word;

	node_2_takes_clients();
	for (uint32_t i = 1; i <= MT_UNREACHED_MAX + 1; i++) {
		word.node_id = i;
		cr_assert_eq(mt_unreached_note(&gateway.unreached, &word, now_ns + i), 1);
	}
	for (uint32_t i = 1; i <= MT_UNREACHED_MAX + 1; i++)
		cr_assert_eq(mt_unreached_find(&gateway.unreached, &gateway.volumes, i,
				 "tcp://out:7", now_ns + MT_UNREACHED_MAX + 2) == NULL,
		    i == 1, "node %u", i);
}

Test(health, slots_of_a_node_that_drains_or_was_never_reached_are_not_compared)
{
	for (uint32_t i = 0; i < PORTS; i++)
		links[i][2].config.state = MT_NODE_DRAINING;
	gateway.options.min_replicas = 1;
	slots_of(2, NUM_KIB(256), SLOTS);
	judge();
	cr_assert_null(reason_of(CLEAVE_HEALTH_SLOTS_DIFFER, "node 3"));
	for (uint32_t i = 0; i < PORTS; i++)
		links[i][2].config.state = MT_NODE_IN;
	slots_of(2, 0, 0);
	expect_well();
}

Test(health, a_link_that_was_made_just_now_is_given_a_second)
{
	gateway.options.min_replicas = 1;
	for (uint32_t i = 0; i < PORTS; i++) {
		links[i][0].config.state = MT_NODE_DRAINING; /* counts for no domain */
		links[i][0].is_up = false;
		links[i][0].state_age_ns = MT_HEALTH_LINK_NS - 1;
	}
	(void)expect_only(CLEAVE_HEALTH_DOMAINS_FEW, "cluster", "2 of 2");
	links[0][0].state_age_ns = MT_HEALTH_LINK_NS;
	judge();
	cr_assert_not_null(reason_of(CLEAVE_HEALTH_NODE_DOWN, "node 1"));
}

Test(health, too_few_nodes_stop_writes)
{
	for (uint32_t i = 0; i < PORTS; i++) {
		links[i][0].is_up = false;
		links[i][1].is_read_only = true;
	}
	judge();
	cr_assert_eq(health.level, CLEAVE_HEALTH_ERROR);
	cr_assert_not_null(strstr(reason_of(CLEAVE_HEALTH_NODES_FEW, "cluster")->text,
	    "1 of 3 nodes are up, in 1 of 3 failure domains; --min-replicas is 2"));
	cr_assert_not_null(reason_of(CLEAVE_HEALTH_NODE_DOWN, "node 1"));
	cr_assert_not_null(reason_of(CLEAVE_HEALTH_NODE_READ_ONLY, "node 2"));
	cr_assert_null(reason_of(CLEAVE_HEALTH_DOMAINS_FEW, "cluster"), "told twice");
}

Test(health, one_domain_of_many_nodes_is_one)
{
	for (uint32_t i = 0; i < PORTS; i++) {
		for (uint32_t k = 0; k < NODES; k++)
			(void)snprintf(links[i][k].config.domain, sizeof(links[i][k].config.domain),
			    "rack%u", k / 2);
	}
	(void)expect_only(CLEAVE_HEALTH_DOMAINS_FEW, "cluster", "2 of 2 failure domains");
}

/* Three racks: copies are in three of them, as placement has it, though a rack has two hosts. */
Test(health, domains_that_are_up_are_counted_as_copies_are_placed)
{
	static const char *const domains[] = { "dc/r1/h1", "dc/r1/h2", "dc/r2/h3", "dc/r3/h4" };
	static struct mt_link_status racks[PORTS][NUM_COUNT(domains)];

	for (uint32_t i = 0; i < PORTS; i++) {
		for (uint32_t k = 0; k < NUM_COUNT(domains); k++) {
			racks[i][k] = link_of(k);
			(void)snprintf(racks[i][k].config.domain, sizeof(racks[i][k].config.domain),
			    "%s", domains[k]);
		}
		ask.legs[i].status.links = racks[i];
		ask.legs[i].status.link_count = NUM_COUNT(domains);
	}
	expect_well();
	for (uint32_t i = 0; i < PORTS; i++)
		racks[i][3].is_read_only = true;
	judge();
	cr_assert_not_null(reason_of(CLEAVE_HEALTH_DOMAINS_FEW, "cluster"));
	cr_assert_not_null(strstr(reason_of(CLEAVE_HEALTH_DOMAINS_FEW, "cluster")->text,
	    "2 of 3 failure domains are up: new data has 2 copies"));
	for (uint32_t i = 0; i < PORTS; i++)
		racks[i][2].is_read_only = true;
	judge();
	cr_assert_not_null(reason_of(CLEAVE_HEALTH_NODES_FEW, "cluster"), "hosts of one rack");
}

/* New data goes elsewhere: to two nodes of three. */
Test(health, nodes_that_are_left_out_cost_new_data_a_copy)
{
	links[0][1].is_failing = links[1][1].is_failing = true;
	(void)expect_only(CLEAVE_HEALTH_NODE_FAILING, "node 2", "fails writes"); /* on trial */
	links[0][1].is_left_out = true;
	judge();
	cr_assert_not_null(reason_of(CLEAVE_HEALTH_DOMAINS_FEW, "cluster"));
	cr_assert_not_null(strstr(reason_of(CLEAVE_HEALTH_DOMAINS_FEW, "cluster")->text,
	    "2 of 3 failure domains take new data: it has 2 copies"));
	links[0][1].is_failing = links[1][1].is_failing = links[0][1].is_left_out = false;
	for (uint32_t i = 0; i < PORTS; i++)
		links[i][1].config.maintenance_until_ns = now_ns + NUM_S(3600);
	judge();
	cr_assert_not_null(reason_of(CLEAVE_HEALTH_DOMAINS_FEW, "cluster"));
	/* Below --min-replicas it is taken all the same. */
	links[0][2].is_failing = links[0][2].is_left_out = true;
	judge();
	cr_assert_null(reason_of(CLEAVE_HEALTH_DOMAINS_FEW, "cluster"));
	cr_assert_null(reason_of(CLEAVE_HEALTH_NODES_FEW, "cluster"));
}

Test(health, a_node_in_maintenance_is_that_and_not_down)
{
	for (uint32_t i = 0; i < PORTS; i++) {
		links[i][1].config.maintenance_until_ns = now_ns + NUM_S(3600);
		links[i][1].is_up = i == 0;
	}
	judge();
	cr_assert_eq(health.count, 2);
	cr_assert_not_null(
	    strstr(reason_of(CLEAVE_HEALTH_NODE_MAINTENANCE, "node 2")->text, "away"));
	cr_assert_not_null(reason_of(CLEAVE_HEALTH_DOMAINS_FEW, "cluster"));
}

Test(health, slow_nodes_and_nodes_that_have_left)
{
	links[0][1].is_slow = true;
	(void)expect_only(CLEAVE_HEALTH_NODE_SLOW, "node 2", "slower than its peers");
	links[0][1].is_slow = false;
	links[0][1].is_failing = true;
	judge();
	cr_assert_not_null(
	    strstr(reason_of(CLEAVE_HEALTH_NODE_FAILING, "node 2")->text, "its disk fails writes"));
	links[0][1].is_failing = false;
	links[1][1].is_displaced = true;
	(void)expect_only(CLEAVE_HEALTH_NODE_DISPLACED, "node 2", "no longer found by its path");
	links[1][1].is_displaced = false;
	links[0][1].forgot_count = 2;
	links[1][1].forgot_count = 1;
	(void)expect_only(CLEAVE_HEALTH_NODE_FORGETFUL, "node 2",
	    "does not have 3 copies that it had");
	links[0][1].forgot_count = links[1][1].forgot_count = 0;
	for (uint32_t i = 0; i < PORTS; i++)
		links[i][1] = (struct mt_link_status){ .config.state = MT_NODE_LOST };
	(void)expect_only(CLEAVE_HEALTH_DOMAINS_FEW, "cluster", "2 of 2");
}

Test(health, a_node_that_was_never_reached_is_named_by_its_address)
{
	for (uint32_t i = 0; i < PORTS; i++) {
		links[i][2].node_id = 0;
		links[i][2].is_up = false;
		links[i][2].slots_total = links[i][2].slots_free = 0;
		links[i][2].slots_reserved = 0;
	}
	judge();
	cr_assert_not_null(reason_of(CLEAVE_HEALTH_NODE_DOWN, "node tcp://n3:1"));
}

/* ---- main's ---- */

Test(health, a_lease_that_is_out_or_runs_out)
{
	uint64_t lease_now_ns = mt_lease_now_ns(gateway.options.loop);

	gateway.member.until_ns = lease_now_ns + NUM_MS(500);
	(void)expect_only(CLEAVE_HEALTH_LEASE_LOW, HERE, "3000 ms left");
	gateway.member.until_ns = lease_now_ns + NUM_S(2);
	gateway.member.is_renewing = true;
	gateway.member.renew_sent_ns = lease_now_ns;
	expect_well();
	gateway.member.renew_sent_ns = lease_now_ns - NUM_S(2);
	cr_assert_geq(expect_only(CLEAVE_HEALTH_STORE_SLOW, HERE, "the metadata store")->age_ns,
	    NUM_S(2));
	gateway.member.is_renewing = false;
	sm_move(&gateway.member.sm, MT_MEMBER_OUT);
	(void)expect_only(CLEAVE_HEALTH_LEASE_OUT, HERE, "(out)");
}

static struct meta_report report;

static void
tell_report(struct meta *meta, struct meta_report *ret_report)
{
	(void)meta;
	*ret_report = report;
}

Test(health, a_store_that_tells_that_it_is_away_or_full)
{
	static const struct meta_ops ops = { .report = tell_report };
	struct meta meta = { .ops = &ops };

	gateway.options.meta = &meta;
	report = (struct meta_report){ .quota_bytes = NUM_MIB(100), .database_bytes = NUM_MIB(84) };
	expect_well();
	report.database_bytes = NUM_MIB(85);
	(void)expect_only(CLEAVE_HEALTH_STORE_FULL, "metadata store", "85 of the 100 MiB");
	report = (struct meta_report){ .member_count = 3,
		.bad_count = 2,
		.bad_ns = NUM_S(7),
		.bad_names = "http://b:2379 (no leader)" };
	cr_assert_eq(expect_only(CLEAVE_HEALTH_STORE_MEMBER, "metadata store",
			 "2 of the 3 members of --meta: http://b:2379 (no leader)")
			 ->age_ns,
	    NUM_S(7));
	report.bad_count = 3;
	expect_well(); /* what all of them do is told as the store's */
	report = (struct meta_report){ .unreachable_s = 4 };
	cr_assert_eq(expect_only(CLEAVE_HEALTH_STORE_SLOW, HERE, "no request")->age_ns, NUM_S(4));
}

static const char *displaced;

static const char *
tell_displaced(struct meta *meta)
{
	(void)meta;
	return displaced;
}

Test(health, a_store_that_is_not_where_it_was_opened)
{
	static const struct meta_ops ops = { .displaced = tell_displaced };
	struct meta meta = { .ops = &ops };

	gateway.options.meta = &meta;
	expect_well();
	displaced = "/m/data.mdb was moved or deleted";
	(void)expect_only(CLEAVE_HEALTH_STORE_DISPLACED, "metadata store", displaced);
	displaced = NULL;
	expect_well();
}

Test(health, a_shard_that_nobody_who_lives_has)
{
	picks[2] = 1; /* the other gateway shall have it */
	owned[2].own_state = MT_SHARD_IDLE;
	owned[2].gateway_id = 0xcd;
	expect_well();
	owned[2].is_released = true;
	(void)expect_only(CLEAVE_HEALTH_SHARD_UNOWNED, "cluster", "shard 2: no gateway that lives");
	owned[2].is_released = false;
	owned[2].boot_id = 1; /* a process before this one */
	(void)snprintf(peers[1].ports[0], sizeof(peers[1].ports[0]), "tcp://other:1");
	/* A gateway that runs is not to be started: it says itself what keeps it. */
	(void)expect_only(CLEAVE_HEALTH_SHARD_UNOWNED, "cluster",
	    "has taken it over; gateway 00000000000000cd at tcp://other:1 is to");
	owned[2].own_state = MT_SHARD_CLAIMING;
	expect_well();
	owned[2].own_state = MT_SHARD_IDLE;
	picks[2] = 0; /* our port tells of it: it starts, or has no room */
	expect_well();
	picks[2] = 1;
	gateway.member.has_view = false;
	expect_well();
}

Test(health, a_gateway_that_died_is_missed)
{
	struct mt_lost *lost = &gateway.member.lost;

	lost->gateways[lost->count++] = (struct mt_lost_gateway){ .gateway_id = 0xcd };
	expect_well();
	lost->gateways[0].is_dead = true;
	(void)snprintf(lost->gateways[0].address, sizeof(lost->gateways[0].address), "tcp://g:1");
	(void)expect_only(CLEAVE_HEALTH_GATEWAY_LOST, "gateway 00000000000000cd",
	    "at tcp://g:1 had shards and is gone (it has ended, stands still or is cut off)");
}

Test(health, a_clock_that_is_a_second_apart_at_every_port)
{
	for (uint32_t i = 0; i < PORTS; i++)
		links[i][1].clock_gap_ms = MT_HEALTH_CLOCK_MS - 1;
	expect_well();
	links[0][1].clock_gap_ms = 5432;
	expect_well(); /* it was set meanwhile, as the other port has seen */
	links[1][1].clock_gap_ms = 61500;
	(void)expect_only(CLEAVE_HEALTH_CLOCKS_APART, "node 2",
	    "node 2 at tcp://n2:1: its clock is 5.4 s ahead of that of gateway 00000000000000ab");
	for (uint32_t i = 0; i < PORTS; i++)
		links[i][1].clock_gap_ms = -MT_HEALTH_CLOCK_MS;
	(void)expect_only(CLEAVE_HEALTH_CLOCKS_APART, "node 2", "is 1.0 s behind that of");
	links[1][1].is_up = false; /* what it told is old */
	judge();
	cr_assert_null(reason_of(CLEAVE_HEALTH_CLOCKS_APART, "node 2"));
}

Test(health, gateways_of_two_releases)
{
	peers[1].level_max = 3;
	(void)expect_only(CLEAVE_HEALTH_LEVELS_MIXED, "cluster",
	    "gateway 00000000000000ab speaks up to level 2, gateway 00000000000000cd up to level 3");
}

Test(health, keys_that_have_ended_are_an_error)
{
	links[0][1].key_expires_s = links[1][1].key_expires_s = log_wall_s() + 3 * 86400 + 60;
	(void)expect_only(CLEAVE_HEALTH_KEY_ENDS, "node 2", "ends in 3 days");
	links[0][1].key_expires_s = links[1][1].key_expires_s = log_wall_s() - 2 * 86400 - 60;
	(void)expect_only(CLEAVE_HEALTH_KEY_ENDED, "node 2", "ended 2 days ago");
}

/* As agreed with the node when it was heard last: less than this gateway speaks. */
Test(health, nodes_of_an_older_release)
{
	gateway.settings.level_max = 2;
	for (uint32_t i = 0; i < PORTS; i++) {
		for (uint32_t k = 0; k < NODES; k++)
			links[i][k].level = 2;
	}
	expect_well();
	links[0][1].level = links[1][1].level = 0;
	expect_well(); /* it was not heard yet */
	links[0][1].level = links[1][1].level = 1;
	(void)expect_only(CLEAVE_HEALTH_LEVELS_MIXED, "node 2",
	    "node 2 at tcp://n2:1 speaks up to level 1, and this gateway up to level 2");
}

Test(health, one_code_of_one_object_is_one_reason)
{
	shard(5)->write_age_ns = MT_HEALTH_SLOW_NS;
	shard(6)->write_age_ns = 2 * MT_HEALTH_SLOW_NS;
	shard(6)->wait = MT_WAIT_ANSWERS;
	cr_assert_eq(expect_only(CLEAVE_HEALTH_WRITES_SLOW, HERE,
			 "shard 5 has had no answer; shard 6 waits for answers")
			 ->age_ns,
	    2 * MT_HEALTH_SLOW_NS);
}
