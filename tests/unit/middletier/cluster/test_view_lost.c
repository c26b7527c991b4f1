/* SPDX-License-Identifier: Apache-2.0 */
/* test_view_lost.c -- gateways that are gone: whoever left shards behind has died, until it comes again */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "middletier/catalog/drained_key.h"
#include "middletier/cluster/gateway_state.h"
#include "middletier/cluster/view_lost.h"
#include "middletier/common/event.h"

#define SHARDS 4u

static struct mt_gateway gateway;
static struct mt_member_peer peers[MT_GATEWAYS_MAX], all[MT_GATEWAYS_MAX];
static struct mt_member_shard shards[SHARDS];

static void
set_up(void)
{
	gateway = (struct mt_gateway){ .cluster.shard_count = SHARDS };
	gateway.options.loop = loop_ev_create(0);
	gateway.options.gateway_id = 1;
	gateway.shared.events = mt_events_create();
	gateway.member = (struct mt_member){ .gateway = &gateway,
		.peers = peers,
		.peer_count = 3,
		.shards = shards };
	for (uint32_t i = 0; i < MT_GATEWAYS_MAX; i++) {
		all[i] = (struct mt_member_peer){ .gateway_id = i + 1,
			.boot_id = 70 + i,
			.port_count = 1 };
		(void)snprintf(all[i].ports[0], sizeof(all[i].ports[0]), "tcp://g%u:1", i + 1);
		peers[i] = all[i];
	}
	for (uint32_t i = 0; i < SHARDS; i++)
		shards[i] =
		    (struct mt_member_shard){ .has_root = true, .gateway_id = 2, .boot_id = 71 };
}

static void
tear_down(void)
{
	mt_events_destroy(gateway.shared.events);
	loop_destroy(gateway.options.loop);
}

TestSuite(view_lost, .init = set_up, .fini = tear_down);

/* A reading of the keys: gateways of these numbers live. */
static void
see(const uint64_t *ids, uint32_t count)
{
	struct mt_member_peer now[MT_GATEWAYS_MAX];

	for (uint32_t i = 0; i < count; i++)
		now[i] = all[ids[i] - 1];
	mt_lost_note(&gateway.member, now, count);
	memcpy(peers, now, count * sizeof(now[0]));
	gateway.member.peer_count = count;
	mt_lost_judge(&gateway.member);
}

#define SEE(...) see((const uint64_t[]){ __VA_ARGS__ }, NUM_COUNT(((uint64_t[]){ __VA_ARGS__ })))

static void
expect_events(uint64_t lost, uint64_t left)
{
	cr_assert_eq(mt_events_count(gateway.shared.events, CLEAVE_EVENT_GATEWAY_LOST), lost);
	cr_assert_eq(mt_events_count(gateway.shared.events, CLEAVE_EVENT_GATEWAY_LEFT), left);
}

Test(view_lost, who_is_named_by_a_root_has_died)
{
	struct mt_event event;

	SEE(1, 2, 3);
	cr_assert_eq(gateway.member.lost.count, 0);
	SEE(1, 3);
	cr_assert_eq(gateway.member.lost.count, 1);
	cr_assert(gateway.member.lost.gateways[0].is_dead);
	cr_assert_str_eq(gateway.member.lost.gateways[0].address, "tcp://g2:1");
	expect_events(1, 0);
	cr_assert_eq(mt_events_read(gateway.shared.events, 0, &event, 1), 1);
	cr_assert_not_null(strstr(event.text, "shards=4"), "%s", event.text);
	cr_assert_str_eq(event.object, "gateway 0000000000000002");
	for (uint32_t i = 0; i < SHARDS; i++)
		shards[i].gateway_id = 3; /* they were taken */
	SEE(1, 3);
	cr_assert_eq(gateway.member.lost.count, 1, "it is missed still");
	expect_events(1, 0);
	all[1].boot_id = 99;
	SEE(1, 2, 3);
	cr_assert_eq(gateway.member.lost.count, 0, "it has come again");
}

Test(view_lost, who_gave_its_shards_back_has_left)
{
	for (uint32_t i = 0; i < SHARDS; i++)
		shards[i].is_released = true;
	SEE(1, 3);
	cr_assert_eq(gateway.member.lost.count, 0);
	expect_events(0, 1);
	shards[0].is_released = false;
	shards[0].gateway_id = 3;
	shards[0].boot_id = 1; /* a process before the one that lived */
	SEE(1);
	expect_events(0, 2);
}

Test(view_lost, who_is_drained_is_waited_for_by_nobody)
{
	SEE(1, 3);
	cr_assert_eq(gateway.member.lost.count, 1);
	cr_assert_eq(mt_drained_add(&gateway.member.drained, 2), 0);
	SEE(1, 3);
	cr_assert_eq(gateway.member.lost.count, 0);
	expect_events(1, 0);
}

Test(view_lost, we_ourselves_are_never_lost)
{
	shards[0].gateway_id = 1;
	shards[0].boot_id = 70;
	SEE(2, 3);
	cr_assert_eq(gateway.member.lost.count, 0);
	expect_events(0, 0);
}

Test(view_lost, of_many_the_latest_are_kept)
{
	gateway.member.peer_count = MT_LOST_MAX + 3;
	for (uint32_t i = 0; i < SHARDS; i++)
		shards[i].gateway_id = MT_LOST_MAX + 3, shards[i].boot_id = 70 + MT_LOST_MAX + 2;
	SEE(1);
	cr_assert_eq(gateway.member.lost.count, 1, "the others had no shard");
	cr_assert_eq(gateway.member.lost.gateways[0].gateway_id, MT_LOST_MAX + 3);
}
