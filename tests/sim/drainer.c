/* SPDX-License-Identifier: Apache-2.0 */
/* drainer.c -- see drainer.h */
#include "drainer.h"

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
#include "cleave/loop.h"
#include "cluster.h"
#include "middletier/catalog/drained_key.h"
#include "middletier/common/alloc.h"
#include "store.h"

#define DRAINER_ASK_NS NUM_S(1)
#define DRAINER_TIMEOUT_NS NUM_S(10)
#define DRAINER_TEXT_BYTES 128u
#define DRAINER_SEEDS                                                                              \
	17u /* two in so many: numbers that mutants.tsv and regressions.tsv did not name */

struct sim_drainer {
	struct sim_cluster *cluster;
	uint64_t dice[4];
	struct sim_host *host;
	struct loop *loop;
	struct cleave_client *client;
	struct cleave_call call;
	struct loop_timer timer;
	bool is_asking, is_finishing;
	/* The request that is out, and what was true when it was sent. */
	uint64_t id;
	bool is_drain, is_forced, was_marked;
	bool had_taker;      /* another gateway's key, not marked, was there */
	uint64_t boot_count; /* gateways that had been started */
	bool is_unsure;      /* a drain ended without an answer: it may be done any time later */
};

static uint32_t
below(struct sim_drainer *drainer, uint32_t limit)
{
	return (uint32_t)random_below(drainer->dice, limit);
}

/* ---- what the store says ---- */

static void
read_marks(const struct sim_drainer *drainer, struct mt_drained *ret_drained)
{
	struct meta_item *items = NULL;
	uint32_t count = 0;
	const char *field;

	*ret_drained = (struct mt_drained){ .count = 0 };
	if (sim_store_list(drainer->cluster->store, MT_DRAINED_KEY, &items, &count) != 0 ||
	    (count > 0 &&
		mt_drained_decode(items->value, items->value_bytes, ret_drained, &field) != 0))
		sim_cluster_fail(drainer->cluster, "drainer: the marks cannot be read");
	mt_free(items);
}

/* Is there a key of another gateway than @id that is not marked? */
static bool
has_taker(const struct sim_drainer *drainer, const struct mt_drained *drained, uint64_t id)
{
	struct meta_item *items = NULL;
	uint32_t count = 0;
	bool has = false;

	if (sim_store_list(drainer->cluster->store, META_LEASED_PREFIX, &items, &count) != 0)
		sim_cluster_fail(drainer->cluster, "out of memory");
	for (uint32_t i = 0; i < count; i++) {
		uint64_t other = strtoull(items[i].key + strlen(META_LEASED_PREFIX), NULL, 10);

		has = has || (other != id && !mt_drained_has(drained, other));
	}
	mt_free(items);
	return has;
}

static bool
is_unmarked(void *arg)
{
	const struct sim_drainer *drainer = arg;
	struct mt_drained drained;

	read_marks(drainer, &drained);
	return drained.count == 0 && !drainer->is_asking;
}

/* ---- asking ---- */

static void
on_answer(struct cleave_call *call, int rc, const char *reply, const char *error, void *arg)
{
	struct sim_drainer *drainer = arg;
	struct mt_drained drained;

	(void)call;
	(void)reply;
	drainer->is_asking = false;
	sim_world_trace(drainer->cluster->world, "%s gateway %" PRIu64 " rc=%d %s",
	    drainer->is_drain ? "drain" : "undrain", drainer->id, rc, error == NULL ? "" : error);
	drainer->is_unsure = drainer->is_unsure ||
	    (drainer->is_drain && rc != 0 && rc != -ENOTEMPTY && rc != -ENOENT && rc != -ENOTSUP);
	if (rc != 0 || !drainer->is_drain || drainer->is_forced || drainer->is_unsure ||
	    drainer->was_marked)
		return;
	read_marks(drainer, &drained);
	if (!drainer->had_taker && !has_taker(drainer, &drained, drainer->id) &&
	    drainer->boot_count == drainer->cluster->boot_count)
		sim_cluster_fail(drainer->cluster,
		    "drainer: gateway %" PRIu64
		    " is drained, and no other one lives that takes shards",
		    drainer->id);
}

static void
ask(struct sim_drainer *drainer, const struct mt_drained *drained)
{
	char request[DRAINER_TEXT_BYTES];

	drainer->was_marked = mt_drained_has(drained, drainer->id);
	drainer->had_taker = has_taker(drainer, drained, drainer->id);
	drainer->boot_count = drainer->cluster->boot_count;
	(void)snprintf(request, sizeof(request),
	    "{\"op\":\"gateway.%s\",\"gateway\":\"%016" PRIx64 "\"%s}",
	    drainer->is_drain ? "drain" : "undrain", drainer->id,
	    drainer->is_forced ? ",\"force\":true" : "");
	drainer->call =
	    (struct cleave_call){ .must_not_repeat = true, .fn = on_answer, .arg = drainer };
	drainer->is_asking = cleave_control(drainer->client, &drainer->call, request) == 0;
}

static void
on_timer(struct loop_timer *timer, void *arg)
{
	struct sim_drainer *drainer = arg;
	struct mt_drained drained;

	loop_timer_start(drainer->loop, timer,
	    DRAINER_ASK_NS / 2 + random_below(drainer->dice, DRAINER_ASK_NS));
	if (drainer->is_asking || !drainer->cluster->is_made)
		return;
	read_marks(drainer, &drained);
	drainer->is_drain = !drainer->is_finishing && below(drainer, 3) != 0;
	drainer->is_forced = drainer->is_drain && below(drainer, 8) == 0;
	drainer->id = 1 + below(drainer, drainer->cluster->options.gateway_count);
	if (drainer->is_finishing && drained.count == 0)
		return;
	if (drainer->is_finishing)
		drainer->id = drained.ids[0];
	ask(drainer, &drained);
}

/* ---- its life ---- */

static void
create_client(struct sim_drainer *drainer)
{
	struct sim_cluster *cluster = drainer->cluster;
	const char *gateways[SIM_GATEWAYS_MAX];
	struct cleave_client_options options = { .gateways = gateways,
		.key = sim_cluster_client_key(cluster),
		.gateway_count = cluster->options.gateway_count,
		.loop = drainer->loop,
		.sim_host = drainer->host,
		.control_timeout_ns = DRAINER_TIMEOUT_NS };
	char error[CLEAVE_ERROR_BYTES_MAX] = "";

	for (uint32_t i = 0; i < options.gateway_count; i++)
		gateways[i] = cluster->gateways[i].address;
	if (cleave_client_create(&options, &drainer->client, error) != 0)
		sim_cluster_fail(cluster, "client: %s", error);
}

struct sim_drainer *
sim_drainer_create(struct sim_cluster *cluster, uint64_t seed)
{
	struct sim_drainer *drainer;

	if (seed % DRAINER_SEEDS != 0 && seed % DRAINER_SEEDS != DRAINER_SEEDS - 2)
		return NULL;
	drainer = calloc(1, sizeof(*drainer));
	assert(drainer != NULL);
	drainer->cluster = cluster;
	random_seed(drainer->dice, seed * 2 + 7);
	drainer->host = sim_host_create(cluster->net, "drainer");
	assert(drainer->host != NULL);
	if (!sim_host_is_up(drainer->host))
		sim_host_start(drainer->host);
	drainer->loop = sim_cluster_loop_create(cluster, drainer->host);
	create_client(drainer);
	loop_timer_init(&drainer->timer, on_timer, drainer);
	loop_timer_start(drainer->loop, &drainer->timer, DRAINER_ASK_NS);
	return drainer;
}

void
sim_drainer_finish(struct sim_drainer *drainer, uint64_t limit_ns)
{
	if (drainer == NULL)
		return;
	drainer->is_finishing = true;
	sim_cluster_run_until(drainer->cluster, is_unmarked, drainer, limit_ns,
	    "no gateway is drained any more");
	loop_timer_stop(drainer->loop, &drainer->timer);
}

void
sim_drainer_destroy(struct sim_drainer *drainer)
{
	if (drainer == NULL)
		return;
	sim_host_kill(drainer->host, SIM_DEATH_RESET);
	cleave_client_destroy(drainer->client);
	loop_destroy(drainer->loop);
	free(drainer);
}
