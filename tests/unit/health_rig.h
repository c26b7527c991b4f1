/* SPDX-License-Identifier: Apache-2.0 */
/* health_rig.h -- what main and the ports of a gateway know, all well: tests change it, judge, and look for reasons */
#ifndef CLEAVE_TESTS_HEALTH_RIG_H
#define CLEAVE_TESTS_HEALTH_RIG_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "base/sm.h"
#include "middletier/cluster/ask.h"
#include "middletier/cluster/gateway_state.h"
#include "middletier/common/lease.h"
#include "middletier/common/port.h"
#include "middletier/health/health.h"

#define PORTS 2u
#define PORT_SHARDS 4u
#define SHARDS (PORTS * PORT_SHARDS)
#define NODES 3u
#define SLOTS 100u
#define RESERVED 10u

static const struct sm_state states[MT_MEMBER_STATE_NR] = {
	[MT_MEMBER_OUT] = { "out", SM_TO(MT_MEMBER_UP), SM_INITIAL },
	[MT_MEMBER_UP] = { "up", SM_TO(MT_MEMBER_OUT), 0 },
};

static struct mt_gateway gateway;
static struct mt_port ports[PORTS];
static struct mt_ask ask;
static struct mt_shard_status shards[PORTS][PORT_SHARDS];
static struct mt_link_status links[PORTS][NODES];
static struct mt_member_shard owned[SHARDS];
static struct mt_member_peer peers[2];
static uint8_t picks[SHARDS];
static struct mt_health health;
static uint64_t now_ns;

static inline struct mt_link_status
link_of(uint32_t node)
{
	struct mt_link_status link = { .config.state = MT_NODE_IN,
		.node_id = node + 1,
		.state = MT_LINK_UP,
		.is_up = true,
		.state_age_ns = NUM_S(60),
		.slots_total = SLOTS,
		.slots_free = SLOTS,
		.slots_reserved = RESERVED,
		.slot_bytes = NUM_MIB(1) };

	(void)snprintf(link.config.address, sizeof(link.config.address), "tcp://n%u:1", node + 1);
	return link;
}

/* A gateway that is well: two ports, three nodes, another gateway that has no shard. */
static inline void
well(void)
{
	gateway = (struct mt_gateway){ .port_count = PORTS, .ports = ports };
	gateway.options.loop = loop_ev_create(0);
	gateway.options.gateway_id = 0xab;
	gateway.options.min_replicas = 2;
	gateway.options.lease_ns = NUM_S(3);
	gateway.options.scrub_interval_ns = NUM_S(100);
	gateway.cluster.shard_count = SHARDS;
	now_ns = loop_now_ns(gateway.options.loop);
	gateway.member = (struct mt_member){ .gateway = &gateway,
		.has_view = true,
		.until_ns = mt_lease_now_ns(gateway.options.loop) + NUM_S(2),
		.shards = owned,
		.picks = picks,
		.peers = peers,
		.peer_count = 2 };
	sm_init(&gateway.member.sm, "member", states, MT_MEMBER_OUT, 0);
	sm_move(&gateway.member.sm, MT_MEMBER_UP);
	peers[0] = (struct mt_member_peer){ .gateway_id = 0xab, .level_max = 2, .port_count = 1 };
	peers[1] = (struct mt_member_peer){ .gateway_id = 0xcd, .level_max = 2, .port_count = 1 };
	ask = (struct mt_ask){ .gateway = &gateway };
	for (uint32_t i = 0; i < PORTS; i++) {
		ask.legs[i].status = (struct mt_port_status){ .shard_count = PORT_SHARDS,
			.link_count = NODES,
			.shards = shards[i],
			.links = links[i] };
		for (uint32_t k = 0; k < NODES; k++)
			links[i][k] = link_of(k);
		for (uint32_t k = 0; k < PORT_SHARDS; k++)
			shards[i][k] = (struct mt_shard_status){ .index = k * PORTS + i,
				.state = MT_SHARD_SERVING,
				.is_serving = true,
				.extent_count = 10 };
	}
	for (uint32_t i = 0; i < SHARDS; i++)
		owned[i] = (struct mt_member_shard){ .has_root = true,
			.gateway_id = 0xab,
			.own_state = MT_SHARD_SERVING };
}

static inline void
gone(void)
{
	loop_destroy(gateway.options.loop);
}

static inline struct mt_shard_status *
shard(uint32_t index)
{
	return &shards[index % PORTS][index / PORTS];
}

static inline void
judge(void)
{
	mt_health_judge(&gateway, &ask, &health);
}

static inline const struct mt_health_reason *
reason_of(enum cleave_health_code code, const char *object)
{
	for (uint32_t i = 0; i < health.count; i++) {
		if (health.reasons[i].code == code && strcmp(health.reasons[i].object, object) == 0)
			return &health.reasons[i];
	}
	return NULL;
}

/* @code of @object, with @words in its text, is the only reason. */
static inline const struct mt_health_reason *
expect_only(enum cleave_health_code code, const char *object, const char *words)
{
	const struct mt_health_reason *reason;

	judge();
	reason = reason_of(code, object);
	for (uint32_t i = 0; i < health.count; i++)
		cr_expect(reason != NULL && health.count == 1, "%s %s: %s",
		    health_info(health.reasons[i].code)->name, health.reasons[i].object,
		    health.reasons[i].text);
	cr_assert_not_null(reason, "no %s of %s", health_info(code)->name, object);
	cr_assert_eq(health.count, 1);
	cr_assert_not_null(strstr(reason->text, words), "'%s' does not say '%s'", reason->text,
	    words);
	cr_assert_eq(health.level, health_info(code)->level);
	return reason;
}

static inline void
expect_well(void)
{
	judge();
	cr_assert_eq(health.count, 0, "%s: %s", health_info(health.reasons[0].code)->name,
	    health.reasons[0].text);
	cr_assert_eq(health.level, CLEAVE_HEALTH_OK);
}

#define HERE "gateway 00000000000000ab"

#endif /* CLEAVE_TESTS_HEALTH_RIG_H */
