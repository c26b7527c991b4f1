/* SPDX-License-Identifier: Apache-2.0 */
/*
 * restored.c -- an operator sets the metadata store back to an old copy; see check.h
 *
 * Every shard has had other owners since. No gateway may serve any of them: the nodes know later epochs.
 * Then the operator finds the newer store after all, or has it made anew from the nodes, as `cleave
 * recover` does; and everything is there again.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "check.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "deletes.h"
#include "middletier/catalog/drained_key.h"
#include "middletier/cluster/gateway_state.h"
#include "middletier/common/alloc.h"
#include "middletier/common/port.h"
#include "middletier/common/shard.h"
#include "middletier/rebuild/rebuild.h"

#define STALE_NS NUM_S(30)
#define REBUILD_LIMIT_NS NUM_S(60)
#define REBUILD_TRIES 15u /* a second each: nodes miss a gateway that died silently after 10 s */

static void
gateways_kill(struct sim_cluster *cluster)
{
	for (uint32_t i = 0; i < cluster->options.gateway_count; i++)
		sim_cluster_gateway_kill(cluster, i);
}

static void
store_restore(struct sim_cluster *cluster, const struct sim_store_copy *copy)
{
	sim_deletes_note(cluster->deletes);
	sim_store_restore(cluster->store, copy);
}

static void
check_nobody_serves(struct sim_cluster *cluster)
{
	for (uint32_t i = 0; i < cluster->options.gateway_count; i++) {
		const struct mt_gateway *gateway = cluster->gateways[i].gateway;

		for (uint32_t k = 0; gateway != NULL && k < gateway->port_count; k++) {
			const struct mt_port *port = &gateway->ports[k];

			for (uint32_t n = 0; n < port->shard_count; n++)
				if (port->shards[n].sm.state == MT_SHARD_SERVING)
					sim_cluster_fail(cluster,
					    "%s serves shard %u by an old metadata store",
					    cluster->gateways[i].address, port->shards[n].index);
		}
	}
}

/* ---- made anew ---- */

struct anew {
	bool is_done;
	int rc;
	char text[256];
};

static void
on_rebuilt(int rc, const char *text, void *arg)
{
	struct anew *anew = arg;

	anew->is_done = true;
	anew->rc = rc;
	(void)snprintf(anew->text, sizeof(anew->text), "%s", text);
}

static bool
is_rebuilt(void *arg)
{
	return ((const struct anew *)arg)->is_done;
}

static void
on_undrained(int rc, void *arg)
{
	*(bool *)arg = rc == 0;
}

static bool
is_true(void *arg)
{
	return *(bool *)arg;
}

/*
 * Marks of drained gateways are as the old store has them, which says so: those of a moment ago may leave a gateway that
 * has no room for all shards alone. The operator, as told, undrains whom he finds.
 */
static void
undrain_all(struct sim_cluster *cluster, struct meta *meta)
{
	const struct mt_drained none = { .count = 0 };
	struct meta_item *items = NULL;
	uint32_t count = 0;
	char *text = mt_drained_encode(&none);
	bool is_done = false;

	if (text == NULL || sim_store_list(cluster->store, MT_DRAINED_KEY, &items, &count) != 0)
		sim_cluster_fail(cluster, "out of memory");
	if (count > 0) {
		const struct meta_op op = { .kind = META_PUT,
			.key = MT_DRAINED_KEY,
			.value = text,
			.value_bytes = (uint32_t)strlen(text) };

		if (meta->ops->txn(meta, &op, 1, on_undrained, &is_done) != 0)
			sim_cluster_fail(cluster, "out of memory");
		sim_cluster_run_until(cluster, is_true, &is_done, REBUILD_LIMIT_NS,
		    "no gateway is drained");
	}
	mt_free(items);
	free(text);
}

static void
rebuild_once(struct sim_cluster *cluster, struct anew *anew)
{
	struct sim_cluster_gateway *own = &cluster->gateways[0];
	struct mt_rebuild_options options = { .fn = on_rebuilt, .arg = anew };
	struct mt_rebuild *rebuild;

	*anew = (struct anew){ 0 };
	sim_host_start(own->host);
	sim_cluster_gateway_options(own, &options.gateway);
	options.gateway.loop = sim_cluster_loop_create(cluster, own->host);
	options.gateway.meta = sim_cluster_tool_open(cluster, options.gateway.loop);
	rebuild = mt_rebuild_start(&options, anew->text, sizeof(anew->text));
	if (rebuild == NULL)
		sim_cluster_fail(cluster, "no recovery: %s", anew->text);
	sim_cluster_run_until(cluster, is_rebuilt, anew, REBUILD_LIMIT_NS,
	    "the store is recovered");
	mt_rebuild_destroy(rebuild);
	if (anew->rc == 0)
		undrain_all(cluster, options.gateway.meta);
	sim_store_close(cluster->store, options.gateway.meta);
	sim_host_kill(own->host, SIM_DEATH_RESET);
	loop_destroy(options.gateway.loop);
}

/* A gateway that was killed is registered until its lease ends. */
static void
store_rebuild(struct sim_cluster *cluster)
{
	struct anew anew;

	for (uint32_t i = 0; i < REBUILD_TRIES; i++) {
		rebuild_once(cluster, &anew);
		log_info("sim: recover: rc=%d %s", anew.rc, anew.text);
		if (anew.rc == 0)
			return;
		sim_cluster_run(cluster, NUM_S(1));
	}
	sim_cluster_fail(cluster, "the store cannot be recovered: %s", anew.text);
}

/*
 * A copy from just before a node went away: what that one holds is what the copy names. The others have
 * had newer owners since. NULL: so few nodes are enough for none.
 */
static struct sim_store_copy *
store_age(struct sim_cluster *cluster)
{
	uint32_t away = sim_cluster_below(cluster, cluster->options.node_count);
	struct sim_store_copy *old;

	if (sim_cluster_here_count(cluster) - 1 < cluster->options.min_replicas ||
	    sim_cluster_below(cluster, 2) == 0)
		return NULL;
	/* Extents made while another node was away are on two: without one of these nobody may serve them. */
	sim_check_copied(cluster);
	old = sim_store_copy(cluster->store);
	sim_cluster_node_kill(cluster, away, false);
	gateways_kill(cluster);
	sim_cluster_start_gateways(cluster);
	gateways_kill(cluster);
	sim_cluster_node_start(cluster, away);
	return old;
}

void
sim_check_restored(struct sim_cluster *cluster, const struct sim_store_copy *old)
{
	struct sim_store_copy *newest, *younger = store_age(cluster);

	gateways_kill(cluster);
	newest = sim_store_copy(cluster->store);
	store_restore(cluster, younger != NULL ? younger : old);
	sim_store_copy_destroy(younger);
	for (uint32_t i = 0; i < cluster->options.gateway_count; i++)
		sim_cluster_gateway_start(cluster, i);
	for (uint64_t ns = 0; ns < STALE_NS; ns += NUM_MS(100)) {
		sim_cluster_run(cluster, NUM_MS(100));
		check_nobody_serves(cluster);
	}
	gateways_kill(cluster);
	if (sim_cluster_below(cluster, 2) == 0)
		store_restore(cluster, newest);
	else
		store_rebuild(cluster);
	sim_store_copy_destroy(newest);
	sim_cluster_start(cluster);
}

/* ---- from before the first manifest ---- */

static bool
store_has_root(void *arg)
{
	struct sim_cluster *cluster = arg;
	struct meta_item *items = NULL;
	uint32_t count = 0;
	int rc = sim_store_list(cluster->store, "shards/", &items, &count);

	mt_free(items);
	return rc == 0 && count > 0;
}

static struct sim_store_copy *
start_and_copy(struct sim_cluster *cluster)
{
	struct sim_store_copy *early;

	for (uint32_t i = 0; i < cluster->options.node_count; i++)
		sim_cluster_node_start(cluster, i);
	sim_cluster_make(cluster);
	for (uint32_t i = 0; i < cluster->options.gateway_count; i++)
		sim_cluster_gateway_start(cluster, i);
	sim_cluster_run_until(cluster, store_has_root, cluster, STALE_NS, "a shard is claimed");
	early = sim_store_copy(cluster->store);
	sim_cluster_start_gateways(cluster);
	return early;
}

void
sim_check_unmanifested(struct sim_cluster *cluster)
{
	struct sim_store_copy *newest, *early = start_and_copy(cluster);

	sim_cluster_run(cluster, NUM_S(1)); /* each shard has begun a log */
	gateways_kill(cluster);
	newest = sim_store_copy(cluster->store);
	store_restore(cluster, early);
	sim_store_copy_destroy(early);
	for (uint32_t i = 0; i < cluster->options.gateway_count; i++)
		sim_cluster_gateway_start(cluster, i);
	for (uint64_t ns = 0; ns < STALE_NS; ns += NUM_MS(100)) {
		sim_cluster_run(cluster, NUM_MS(100));
		check_nobody_serves(cluster);
	}
	gateways_kill(cluster);
	store_restore(cluster, newest);
	sim_store_copy_destroy(newest);
	sim_cluster_start(cluster);
}
