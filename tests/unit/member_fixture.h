/* SPDX-License-Identifier: Apache-2.0 */
/*
 * member_fixture.h -- several real gateways, real nodes and one metadata store in virtual time
 *
 * After every step of the world it is checked that no shard is served by two gateways that both may
 * answer.
 */
#ifndef CLEAVE_TESTS_MEMBER_FIXTURE_H
#define CLEAVE_TESTS_MEMBER_FIXTURE_H

#include <criterion/criterion.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cleave/split.h"
#include "middletier/catalog/drained_key.h"
#include "middletier/cluster/assign.h"
#include "middletier/cluster/gateway_state.h"
#include "middletier/cluster/member_view.h"
#include "middletier/common/alloc.h"
#include "middletier/common/lease.h"
#include "middletier/common/port.h"
#include "middletier/common/shard.h"
#include "middletier/gateway/gateway.h"
#include "middletier/meta/meta_memory.h"
#include "splitlib/sim/loop_sim.h"
#include "support/made_cluster.h"
#include "support/mt_rig.h"
#include "support/sim_gateway.h"

#define PEERS_MAX 4u
#define SHARDS 12u

struct peer {
	uint64_t id;
	struct sim_host *host;
	struct loop *loop;
	struct meta *meta;
	struct mt_gateway *gateway; /* NULL: not running */
	bool is_ready, has_stopped, has_failed;
	uint32_t ready_count;
	uint64_t boot_id;
};

static uint32_t drained_mask; /* bit set: that gateway is drained */
static struct mt_rig *rig;
static struct peer peers[PEERS_MAX];

static inline void
setup(void)
{
	rig = mt_rig_create(&(struct mt_rig_options){ .shard_count = SHARDS,
	    .slot_bytes = NUM_KIB(64),
	    .slot_count = 600 });
	mt_rig_log_start(rig);
	for (uint32_t i = 0; i < 3; i++)
		mt_rig_node_start(rig, i);
}

static inline void
peer_on_ready(void *arg)
{
	struct peer *peer = arg;

	peer->is_ready = true;
	peer->ready_count++;
}

static inline void
peer_on_failed(int rc, const char *text, void *arg)
{
	struct peer *peer = arg;

	(void)rc;
	(void)text;
	peer->has_failed = true;
}

static inline void
peer_start(uint32_t index)
{
	struct peer *peer = &peers[index];
	struct mt_gateway_options options = rig->gateway_options;
	char error[256] = "", name[16];

	peer->id = index + 1;
	(void)snprintf(name, sizeof(name), "peer%u", index);
	if (peer->host == NULL)
		peer->host = sim_host_create(rig->net, name);
	peer->loop = sim_loop_create(rig->world, name);
	peer->meta = meta_memory_open(rig->store, peer->loop);
	made_cluster(rig->store, &options);
	peer->is_ready = peer->has_stopped = peer->has_failed = false;
	options.loop = peer->loop;
	options.meta = peer->meta;
	options.gateway_id = peer->id;
	options.boot_id = peer->id << 32 | ++peer->boot_id;
	options.sim_host = peer->host;
	options.on_ready = peer_on_ready;
	options.on_failed = peer_on_failed;
	options.device_bytes = NUM_MIB(32);
	options.arg = peer;
	(void)snprintf(options.ports[0].address, SPLIT_ADDRESS_BYTES_MAX, "sim://%s:7100", name);
	peer->gateway = mt_gateway_create(&options, error, sizeof(error));
	cr_assert_not_null(peer->gateway, "%s", error);
	cr_assert_eq(mt_gateway_start(peer->gateway, error, sizeof(error)), 0, "%s", error);
}

static inline void
peer_end(struct peer *peer)
{
	mt_gateway_destroy(peer->gateway);
	peer->meta->ops->close(peer->meta);
	loop_destroy(peer->loop);
	peer->gateway = NULL;
	peer->meta = NULL;
	peer->loop = NULL;
}

static inline void
peer_kill(uint32_t index)
{
	sim_host_kill(peers[index].host, SIM_DEATH_RESET);
	peer_end(&peers[index]);
	sim_host_start(peers[index].host);
}

static inline void
teardown(void)
{
	mt_alloc_fail_at(0);
	for (uint32_t i = 0; i < PEERS_MAX; i++) {
		if (peers[i].gateway != NULL)
			peer_kill(i);
	}
	mt_rig_run(rig, NUM_MS(1));
	mt_rig_destroy(rig);
}

static inline struct mt_shard *
shard_of(uint32_t index, uint32_t shard)
{
	struct mt_port *port = &peers[index].gateway->ports[0];

	return port->shard_by_number == NULL ? NULL : port->shard_by_number[shard];
}

static inline bool
serves(uint32_t index, uint32_t shard)
{
	return peers[index].gateway != NULL && shard_of(index, shard) != NULL &&
	    shard_of(index, shard)->sm.state == MT_SHARD_SERVING;
}

static inline uint32_t
count_served(uint32_t index)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < SHARDS; i++)
		count += serves(index, i);
	return count;
}

/* Two that may answer for one shard at a time are one too many. */
static inline void
check_single_owners(void)
{
	for (uint32_t shard = 0; shard < SHARDS; shard++) {
		uint32_t count = 0;

		for (uint32_t i = 0; i < PEERS_MAX; i++)
			count += serves(i, shard) &&
			    mt_lease_is_held(&peers[i].gateway->shared, peers[i].loop);
		cr_assert_leq(count, 1, "shard %u has %u owners", shard, count);
	}
}

struct goal {
	uint32_t members; /* bit set: these share all shards, by rank, and are ready */
};

static inline uint32_t
winner(uint32_t members, uint32_t shard)
{
	uint64_t ids[PEERS_MAX];
	uint8_t picks[SHARDS];
	struct mt_drained drained = { .count = 0 };
	uint32_t count = 0;

	for (uint32_t i = 0; i < PEERS_MAX; i++) {
		if ((members & 1u << i) != 0)
			ids[count++] = i + 1;
		if ((drained_mask & 1u << i) != 0)
			drained.ids[drained.count++] = i + 1;
	}
	(void)mt_assign_undrained(ids, count, &drained, SHARDS, picks);
	return (uint32_t)ids[picks[shard]] - 1;
}

static inline bool
is_shared(void *arg)
{
	const struct goal *goal = arg;

	check_single_owners();
	for (uint32_t i = 0; i < SHARDS; i++) {
		if (!serves(winner(goal->members, i), i))
			return false;
	}
	for (uint32_t i = 0; i < PEERS_MAX; i++) {
		if ((goal->members & 1u << i) != 0 && !peers[i].is_ready)
			return false;
	}
	return true;
}

static inline uint64_t
wait_shared(uint32_t members)
{
	struct goal goal = { members };
	uint64_t begin_ns = sim_world_now_ns(rig->world);

	cr_assert(mt_rig_run_until(rig, is_shared, &goal), "members %x\n%s", members,
	    getenv("CLEAVE_TEST_LOG") != NULL ? rig->log : "");
	return sim_world_now_ns(rig->world) - begin_ns;
}

static inline void
on_stopped(void *arg)
{
	struct peer *peer = arg;

	peer->has_stopped = true;
}

static inline bool
has_stopped(void *arg)
{
	check_single_owners();
	return ((const struct peer *)arg)->has_stopped;
}

/* two_gateways_up -- gateways 0 and 1 share the shards, and @qp is a control session at the first; @sg is its client's half. */
static inline void
two_gateways_up(struct sg *sg, struct sg_qp *qp)
{
	sg_client_open(sg, rig->world, rig->net, &rig->gateway_options);
	peer_start(0);
	peer_start(1);
	(void)wait_shared(3);
	(void)snprintf(sg->options.ports[0].address, SPLIT_ADDRESS_BYTES_MAX, "sim://peer0:7100");
	sg_connect(sg, qp, NULL);
	cr_assert_eq(sg_wait_open(qp), 0);
}

#endif /* CLEAVE_TESTS_MEMBER_FIXTURE_H */
