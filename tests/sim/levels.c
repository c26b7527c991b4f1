/* SPDX-License-Identifier: Apache-2.0 */
/* levels.c -- see levels.h */
#include "levels.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "base/random.h"
#include "cleave/client.h"
#include "cleave/level.h"
#include "cleave/loop.h"
#include "cluster.h"
#include "middletier/catalog/cluster_key.h"
#include "middletier/cluster/member.h"
#include "middletier/common/alloc.h"
#include "store.h"

#define LEVELS_WORK_NS                                                                             \
	NUM_S(4) /* between two changes of a process's release, half of it on average */
#define LEVELS_ASK_NS NUM_MS(500)
#define LEVELS_TIMEOUT_NS NUM_S(10)
#define LEVELS_OLD 1u
#define LEVELS_NEW 0u /* all that this release speaks */

/* Gateways' keys and nodes' processes, when the upgrade was asked for. */
struct seen {
	uint64_t
	    versions[SIM_GATEWAYS_MAX]; /* of the key; 0: there is none that speaks too little */
	uint32_t starts[SIM_NODES_MAX]; /* of the process; 0: likewise */
};

struct sim_levels {
	struct sim_cluster *cluster;
	uint64_t dice[4];
	struct sim_host *host;
	struct loop *loop;
	struct cleave_client *client;
	struct cleave_call call;
	struct loop_timer work_timer, ask_timer;
	struct seen seen;
	bool is_asking, is_finishing;
};

static uint32_t
below(struct sim_levels *levels, uint32_t limit)
{
	return (uint32_t)random_below(levels->dice, limit);
}

static bool
is_raised(void *arg)
{
	const struct sim_levels *levels = arg;
	struct meta_item *items = NULL;
	struct mt_cluster cluster;
	uint32_t count = 0;
	const char *field;

	if (sim_store_list(levels->cluster->store, "cluster", &items, &count) != 0 || count != 1 ||
	    mt_cluster_decode(items->value, items->value_bytes, &cluster, &field) != 0)
		sim_cluster_fail(levels->cluster, "the key of the cluster cannot be read");
	mt_free(items);
	return cluster.level > LEVELS_OLD;
}

/* ---- releases ---- */

static void
node_install(struct sim_levels *levels, uint32_t index, uint8_t level_max)
{
	struct sim_cluster *cluster = levels->cluster;
	struct sim_cluster_node *own = &cluster->nodes[index];

	if (own->level_max == level_max)
		return;
	sim_world_trace(cluster->world, "install at node %u level_max=%u", index + 1, level_max);
	own->level_max = level_max;
	if (own->node == NULL)
		return;
	cluster->installed_ns = sim_world_now_ns(cluster->world);
	sim_cluster_node_kill(cluster, index, false);
	sim_cluster_node_start(cluster, index);
}

static void
gateway_install(struct sim_levels *levels, uint32_t index, uint8_t level_max)
{
	struct sim_cluster *cluster = levels->cluster;
	struct sim_cluster_gateway *own = &cluster->gateways[index];

	if (own->level_max == level_max)
		return;
	sim_world_trace(cluster->world, "install at gateway %u level_max=%u", index + 1, level_max);
	own->level_max = level_max;
	if (own->gateway == NULL)
		return;
	cluster->installed_ns = sim_world_now_ns(cluster->world);
	sim_cluster_gateway_kill(cluster, index);
	sim_cluster_gateway_start(cluster, index);
}

/* Nodes go forward alone: a connection to the process of before may look as if it were up still. */
static void
on_work(struct loop_timer *timer, void *arg)
{
	struct sim_levels *levels = arg;
	const struct sim_cluster_options *options = &levels->cluster->options;
	bool is_back;

	loop_timer_start(sim_world_nature(levels->cluster->world), timer,
	    1 + random_below(levels->dice, LEVELS_WORK_NS));
	if (!levels->cluster->is_made)
		return;
	is_back = below(levels, 4) == 0 && !is_raised(levels);
	if (is_back || below(levels, 2) == 0)
		gateway_install(levels, below(levels, options->gateway_count),
		    is_back ? LEVELS_OLD : LEVELS_NEW);
	else
		node_install(levels, below(levels, options->node_count), LEVELS_NEW);
}

/* ---- the upgrade ---- */

static void
see_gateways(struct sim_levels *levels, struct seen *ret_seen)
{
	struct meta_item *items = NULL;
	uint32_t count = 0;

	memset(ret_seen->versions, 0, sizeof(ret_seen->versions));
	if (sim_store_list(levels->cluster->store, META_LEASED_PREFIX, &items, &count) != 0)
		sim_cluster_fail(levels->cluster, "out of memory");
	for (uint32_t i = 0; i < count; i++) {
		uint64_t id = strtoull(items[i].key + strlen(META_LEASED_PREFIX), NULL, 10);
		struct mt_member_peer peer = { .gateway_id = id };
		const char *field;

		if (id >= 1 && id <= SIM_GATEWAYS_MAX &&
		    mt_member_decode(items[i].value, items[i].value_bytes, &peer, &field) == 0 &&
		    peer.level_max == LEVELS_OLD)
			ret_seen->versions[id - 1] = items[i].version;
	}
	mt_free(items);
}

static void
see_nodes(const struct sim_levels *levels, struct seen *ret_seen)
{
	memset(ret_seen->starts, 0, sizeof(ret_seen->starts));
	for (uint32_t i = 0; i < levels->cluster->options.node_count; i++) {
		const struct sim_cluster_node *own = &levels->cluster->nodes[i];

		if (own->node != NULL && own->level_max == LEVELS_OLD)
			ret_seen->starts[i] = own->start_count;
	}
}

static void
check_raised(struct sim_levels *levels)
{
	struct sim_cluster *cluster = levels->cluster;
	struct seen now;

	see_gateways(levels, &now);
	see_nodes(levels, &now);
	for (uint32_t i = 0; i < SIM_GATEWAYS_MAX; i++)
		if (now.versions[i] != 0 && now.versions[i] == levels->seen.versions[i])
			sim_cluster_fail(cluster,
			    "levels: upgraded though gateway %u lives and does not speak it",
			    i + 1);
	for (uint32_t i = 0; i < SIM_NODES_MAX; i++)
		if (now.starts[i] != 0 && now.starts[i] == levels->seen.starts[i])
			sim_cluster_fail(cluster,
			    "levels: upgraded though node %u runs and does not speak it", i + 1);
}

static void
on_answer(struct cleave_call *call, int rc, const char *reply, const char *error, void *arg)
{
	struct sim_levels *levels = arg;
	json_t *answer = reply == NULL ? NULL : json_loads(reply, 0, NULL);
	json_int_t from = json_integer_value(json_object_get(answer, "from"));
	json_int_t level = json_integer_value(json_object_get(answer, "level"));

	(void)call;
	json_decref(answer);
	levels->is_asking = false;
	sim_world_trace(levels->cluster->world, "upgrade rc=%d from=%d level=%d %s", rc, (int)from,
	    (int)level, error == NULL ? "" : error);
	if (rc == 0 && from < level)
		check_raised(levels);
}

static void
on_ask(struct loop_timer *timer, void *arg)
{
	static const char request[] = "{\"op\":\"cluster.upgrade\"}";
	struct sim_levels *levels = arg;

	loop_timer_start(levels->loop, timer,
	    LEVELS_ASK_NS / 2 + random_below(levels->dice, LEVELS_ASK_NS));
	if (levels->is_asking || !levels->cluster->is_made ||
	    (!levels->is_finishing && below(levels, 4) != 0))
		return;
	see_gateways(levels, &levels->seen);
	see_nodes(levels, &levels->seen);
	levels->call =
	    (struct cleave_call){ .must_not_repeat = true, .fn = on_answer, .arg = levels };
	levels->is_asking = cleave_control(levels->client, &levels->call, request) == 0;
}

/* ---- its life ---- */

static void
create_client(struct sim_levels *levels)
{
	struct sim_cluster *cluster = levels->cluster;
	const char *gateways[SIM_GATEWAYS_MAX];
	struct cleave_client_options options = { .gateways = gateways,
		.key = sim_cluster_client_key(cluster),
		.gateway_count = cluster->options.gateway_count,
		.loop = levels->loop,
		.sim_host = levels->host,
		.control_timeout_ns = LEVELS_TIMEOUT_NS };
	char error[CLEAVE_ERROR_BYTES_MAX] = "";

	for (uint32_t i = 0; i < options.gateway_count; i++)
		gateways[i] = cluster->gateways[i].address;
	if (cleave_client_create(&options, &levels->client, error) != 0)
		sim_cluster_fail(cluster, "client: %s", error);
}

struct sim_levels *
sim_levels_create(struct sim_cluster *cluster, uint64_t seed)
{
	struct sim_levels *levels = calloc(1, sizeof(*levels));

	assert(levels != NULL);
	levels->cluster = cluster;
	random_seed(levels->dice, seed * 2 + 5);
	/* The first node decides at which level the cluster is made. */
	for (uint32_t i = 0; i < cluster->options.node_count; i++)
		cluster->nodes[i].level_max = i == 0 || below(levels, 2) == 0 ? LEVELS_OLD
									      : LEVELS_NEW;
	for (uint32_t i = 0; i < cluster->options.gateway_count; i++)
		cluster->gateways[i].level_max = below(levels, 2) == 0 ? LEVELS_OLD : LEVELS_NEW;
	levels->host = sim_host_create(cluster->net, "operator");
	assert(levels->host != NULL);
	if (!sim_host_is_up(levels->host))
		sim_host_start(levels->host);
	levels->loop = sim_cluster_loop_create(cluster, levels->host);
	create_client(levels);
	loop_timer_init(&levels->work_timer, on_work, levels);
	loop_timer_init(&levels->ask_timer, on_ask, levels);
	loop_timer_start(sim_world_nature(cluster->world), &levels->work_timer, LEVELS_WORK_NS);
	loop_timer_start(levels->loop, &levels->ask_timer, LEVELS_ASK_NS);
	return levels;
}

void
sim_levels_finish(struct sim_levels *levels, uint64_t limit_ns)
{
	struct sim_cluster *cluster = levels->cluster;

	loop_timer_stop(sim_world_nature(cluster->world), &levels->work_timer);
	levels->is_finishing = true;
	for (uint32_t i = 0; i < cluster->options.node_count; i++)
		node_install(levels, i, LEVELS_NEW);
	for (uint32_t i = 0; i < cluster->options.gateway_count; i++)
		gateway_install(levels, i, LEVELS_NEW);
	sim_cluster_start_all(cluster);
	sim_cluster_run_until(cluster, is_raised, levels, limit_ns, "the cluster is upgraded");
	loop_timer_stop(levels->loop, &levels->ask_timer);
}

void
sim_levels_destroy(struct sim_levels *levels)
{
	if (levels == NULL)
		return;
	sim_host_kill(levels->host, SIM_DEATH_RESET);
	loop_timer_stop(sim_world_nature(levels->cluster->world), &levels->work_timer);
	loop_timer_stop(levels->loop, &levels->ask_timer);
	cleave_client_destroy(levels->client);
	loop_destroy(levels->loop);
	free(levels);
}
