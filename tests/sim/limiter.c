/* SPDX-License-Identifier: Apache-2.0 */
/* limiter.c -- see limiter.h */
#include "limiter.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/mutant.h"
#include "base/num.h"
#include "cleave/client.h"
#include "cleave/loop.h"
#include "cluster.h"
#include "run.h"
#include "workload.h"

#define LIMITER_TICK_NS NUM_MS(250)
#define LIMITER_TIMEOUT_NS NUM_S(10)
#define LIMITER_SET_LIMIT_NS NUM_S(120)
#define LIMITER_IOPS_MIN 5u
#define LIMITER_IOPS_RANGE 20u
#define LIMITER_PART 8u /* of the work is done under the limit */

struct sim_limiter {
	struct sim_cluster *cluster;
	struct workload *workload;
	struct sim_host *host;
	struct loop *loop;
	struct cleave_client *client;
	struct cleave_call call;
	struct loop_timer timer;
	uint64_t iops, begun_ns;
	bool is_asking, is_set, is_lifted, is_finishing;
};

/*
 * Clocks may run fast: half as much again, at most. A session begins with a full bucket (250 ms), and each request may
 * overshoot; at a port it is 5.25 s, and a port that starts anew knows nothing of before. The first session was there
 * before the limit, and learns of it from its first answers: until then ports keep it.
 */
static void
limiter_check(const struct sim_limiter *limiter)
{
	const struct sim_cluster *cluster = limiter->cluster;
	const struct workload_counters *counters = workload_counters(limiter->workload);
	uint64_t ms = (sim_world_now_ns(cluster->world) - limiter->begun_ns) / NUM_MS(1) * 3 / 2;
	uint64_t port_count = cluster->options.port_count, starts = cluster->boot_count, most;
	uint64_t gateway_count = cluster->options.gateway_count;

	most = limiter->iops * (ms + 250 * counters->sessions + 5250 * port_count * gateway_count) /
		1000 +
	    4 * (counters->sessions + port_count * gateway_count);
	if (MUTANT(pace_ignored))
		most = (limiter->iops * (ms * gateway_count + 5250 * starts) / 1000 + 4 * starts) *
		    port_count;
	if (counters->cost_done > most)
		sim_cluster_fail(limiter->cluster,
		    "limits: %" PRIu64 " operations were done, and %" PRIu64
		    " a second allow %" PRIu64,
		    counters->cost_done, limiter->iops, most);
}

static void
on_answer(struct cleave_call *call, int rc, const char *reply, const char *error, void *arg)
{
	struct sim_limiter *limiter = arg;

	(void)call;
	(void)reply;
	sim_world_trace(limiter->cluster->world, "limits rc=%d %s", rc, error == NULL ? "" : error);
	limiter->is_asking = false;
	if (rc != 0)
		return;
	if (limiter->is_set)
		limiter->is_lifted = true;
	limiter->is_set = true;
}

static void
limiter_ask(struct sim_limiter *limiter, uint64_t iops)
{
	char text[160];

	/* The shares stay: from then on it goes before other volumes, where a port is busy. */
	(void)snprintf(text, sizeof(text),
	    "{\"op\":\"volume.set\",\"name\":\"%s\",\"iops\":%" PRIu64
	    ",\"min_iops\":500,\"weight\":200}",
	    workload_name(limiter->workload), iops);
	limiter->call = (struct cleave_call){ .fn = on_answer, .arg = limiter };
	limiter->is_asking = cleave_control(limiter->client, &limiter->call, text) == 0;
}

static void
on_tick(struct loop_timer *timer, void *arg)
{
	struct sim_limiter *limiter = arg;
	bool is_enough = limiter->is_finishing ||
	    workload_completed_count(limiter->workload) * LIMITER_PART >=
		workload_op_count(limiter->workload);

	if (limiter->is_lifted)
		return;
	/* A lift whose answer was lost may count already. */
	if (limiter->is_set && limiter->begun_ns != 0 && !limiter->is_finishing)
		limiter_check(limiter);
	if (!limiter->is_asking && !limiter->is_set)
		limiter_ask(limiter, limiter->iops);
	else if (!limiter->is_asking && is_enough) {
		limiter->is_finishing = true;
		limiter_ask(limiter, 0);
	}
	loop_timer_start(limiter->loop, timer, LIMITER_TICK_NS);
}

static bool
is_set(void *arg)
{
	return ((const struct sim_limiter *)arg)->is_set;
}

static bool
is_lifted(void *arg)
{
	return ((const struct sim_limiter *)arg)->is_lifted;
}

struct sim_limiter *
sim_limiter_create(struct sim_cluster *cluster, struct workload *workload, uint64_t seed)
{
	struct sim_limiter *limiter = calloc(1, sizeof(*limiter));
	const char *gateways[SIM_GATEWAYS_MAX];
	struct cleave_client_options options = { .gateways = gateways,
		.key = sim_cluster_client_key(cluster),
		.gateway_count = cluster->options.gateway_count,
		.control_timeout_ns = LIMITER_TIMEOUT_NS };
	char error[CLEAVE_ERROR_BYTES_MAX] = "";

	assert(limiter != NULL);
	limiter->cluster = cluster;
	limiter->workload = workload;
	limiter->iops = LIMITER_IOPS_MIN + sim_run_hash(seed, 7) % LIMITER_IOPS_RANGE;
	limiter->host = sim_host_create(cluster->net, "limiter");
	assert(limiter->host != NULL);
	if (!sim_host_is_up(limiter->host))
		sim_host_start(limiter->host);
	limiter->loop = sim_cluster_loop_create(cluster, limiter->host);
	options.loop = limiter->loop;
	options.sim_host = limiter->host;
	for (uint32_t i = 0; i < options.gateway_count; i++)
		gateways[i] = cluster->gateways[i].address;
	if (cleave_client_create(&options, &limiter->client, error) != 0)
		sim_cluster_fail(cluster, "client: %s", error);
	loop_timer_init(&limiter->timer, on_tick, limiter);
	loop_timer_start(limiter->loop, &limiter->timer, LIMITER_TICK_NS);
	sim_cluster_run_until(cluster, is_set, limiter, LIMITER_SET_LIMIT_NS, "a limit is set");
	limiter->begun_ns = sim_world_now_ns(cluster->world);
	return limiter;
}

void
sim_limiter_finish(struct sim_limiter *limiter, uint64_t limit_ns)
{
	if (limiter == NULL)
		return;
	limiter->is_finishing = true;
	sim_cluster_run_until(limiter->cluster, is_lifted, limiter, limit_ns, "a limit is lifted");
}

void
sim_limiter_destroy(struct sim_limiter *limiter)
{
	if (limiter == NULL)
		return;
	sim_host_kill(limiter->host, SIM_DEATH_RESET);
	loop_timer_stop(limiter->loop, &limiter->timer);
	cleave_client_destroy(limiter->client);
	loop_destroy(limiter->loop);
	free(limiter);
}
