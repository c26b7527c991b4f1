/* SPDX-License-Identifier: Apache-2.0 */
/* test_link_status.c -- a node's status, as a gateway reads it: what is believed, and what is none */
#include <criterion/criterion.h>
#include <errno.h>

#include "middletier/extent/link_ticket.h"
#include "middletier/gateway/gateway.h"
#include "unit/link_peer.h"

TestSuite(link_status, .init = link_setup, .fini = link_teardown);

Test(link_status, a_clock_on_the_wall_is_compared)
{
	peer_start(PEER_CLOCK);
	wall_now_ms = 1000000 - 30000;
	wait_link(3, true);
	cr_assert_leq(mt_rig_link(rig, 3)->clock_gap_ms, 30000);
	cr_assert_gt(mt_rig_link(rig, 3)->clock_gap_ms, 29000, "less the round trip");
	/* Asked anew, it is what it is then. */
	wall_now_ms = 1000000 + 30000;
	mt_rig_run(rig, NUM_S(2));
	mt_link_refresh(mt_rig_link(rig, 3));
	mt_rig_run(rig, NUM_S(1));
	cr_assert_eq(mt_rig_link(rig, 3)->clock_gap_ms, -30000);
}

/* Clients are told what they can find, or nothing. */
Test(link_status, an_address_for_clients_is_taken_where_it_is_one)
{
#define ADVERTISES(value)                                                                          \
	"{\"slots_total\":10,\"slots_free\":5,\"slot_bytes\":65536,\"advertise\":" value "}"
	static const struct {
		const char *status, *address;
	} said[] = {
		{ ADVERTISES("\"tcp://n1.example:7201\""), "tcp://n1.example:7201" },
		{ ADVERTISES("\"tcp://n1.example:0\""), "" },
		{ ADVERTISES("\"tcp://0.0.0.0:7201\""), "" },
		{ ADVERTISES("\"n1\""), "" },
		{ ADVERTISES("\"\""), "" },
		{ ADVERTISES("7"), "" },
		{ ADVERTISES("\"tcp://[fd00::1]:7201\""), "tcp://[fd00::1]:7201" },
		{ ADVERTISES("null"), "" },
	};
#undef ADVERTISES

	peer_start(PEER_ADVERTISES);
	peer.advertises = said[0].status;
	wait_link(3, true);
	for (size_t i = 0; i < NUM_COUNT(said); i++) {
		peer.advertises = said[i].status;
		mt_rig_run(rig, NUM_S(2));
		mt_link_refresh(mt_rig_link(rig, 3));
		mt_rig_run(rig, NUM_S(1));
		cr_assert_str_eq(mt_rig_link(rig, 3)->advertise, said[i].address, "%s",
		    said[i].status);
	}
}

Test(link_status, a_node_that_tells_no_clock_has_none)
{
	wall_now_ms = 990000;
	peer_start(PEER_CLOCK_TEXT);
	wait_link(3, true);
	cr_assert_eq(mt_rig_link(rig, 3)->clock_gap_ms, 0);
	cr_assert_eq(mt_rig_link(rig, 1)->clock_gap_ms, 0, "of a release before");
}

Test(link_status, status_that_is_no_json)
{
	peer_start(PEER_NO_JSON);
	expect_refused("its status cannot be understood");
}

Test(link_status, a_key_for_tickets_that_is_none)
{
	struct wire_ticket ticket = { .volume_id = 1 };

	peer_start(PEER_NO_KEY);
	peer.hello.level = CLEAVE_LEVEL_READS;
	wait_link(3, true);
	mt_rig_run(rig, NUM_S(1));
	cr_assert(mt_rig_logged(rig, "tells no key for tickets"));
	cr_assert_eq(mt_link_ticket(mt_rig_link(rig, 3), 1, NULL, &ticket), -EAGAIN);
	cr_assert(mt_link_is_up(mt_rig_link(rig, 3)), "it serves all else");
}

Test(link_status, status_that_lacks_a_field)
{
	peer_start(PEER_LACKING_JSON);
	expect_refused("its status cannot be understood");
}

Test(link_status, status_that_contradicts_itself)
{
	peer_start(PEER_WRONG_JSON);
	expect_refused("its status cannot be understood");
}

Test(link_status, status_of_slots_that_no_disk_has)
{
	static const enum peer_answer answers[] = { PEER_SLOTS_WRAP, PEER_SLOTS_MANY,
		PEER_SLOTS_SMALL };

	for (uint32_t i = 0; i < NUM_COUNT(answers); i++) {
		if (i > 0) {
			link_teardown();
			link_setup();
		}
		peer_start(answers[i]);
		expect_refused("its status cannot be understood");
	}
}

Test(link_status, status_that_is_an_error)
{
	peer_start(PEER_ERROR_STATUS);
	expect_refused("its status cannot be understood");
}

Test(link_status, status_that_never_comes)
{
	peer_start(PEER_SILENT);
	expect_refused("a call was not answered in time");
}
