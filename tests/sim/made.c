/* SPDX-License-Identifier: Apache-2.0 */
/* made.c -- a cluster is made, as `cleave-gateway --create` does; see cluster.h */
#include <stdio.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "cluster.h"
#include "middletier/start/creation.h"

#define MAKE_LIMIT_NS NUM_S(60)
#define MAKE_TRIES 10u

struct making {
	bool is_done;
	int rc;
	char text[256];
};

static void
on_made(int rc, const char *text, void *arg)
{
	struct making *making = arg;

	making->is_done = true;
	making->rc = rc;
	(void)snprintf(making->text, sizeof(making->text), "%s", text);
}

static bool
is_made(void *arg)
{
	return ((const struct making *)arg)->is_done;
}

static void
make_once(struct sim_cluster *cluster, struct making *making)
{
	struct sim_cluster_gateway *own = &cluster->gateways[0];
	struct mt_creation_options options = { .fn = on_made, .arg = making };
	struct mt_creation *creation;

	*making = (struct making){ 0 };
	if (!sim_host_is_up(own->host))
		sim_host_start(own->host);
	sim_cluster_gateway_options(own, &options.gateway);
	options.gateway.loop = sim_cluster_loop_create(cluster, own->host);
	options.gateway.meta = sim_cluster_tool_open(cluster, options.gateway.loop);
	creation = mt_creation_start(&options, making->text, sizeof(making->text));
	if (creation == NULL)
		sim_cluster_fail(cluster, "no cluster: %s", making->text);
	sim_cluster_run_until(cluster, is_made, making, MAKE_LIMIT_NS, "the cluster is made");
	mt_creation_destroy(creation);
	sim_store_close(cluster->store, options.gateway.meta);
	sim_host_kill(own->host, SIM_DEATH_RESET);
	loop_destroy(options.gateway.loop);
}

/* Nodes may still be starting: an operator tries again. */
void
sim_cluster_make(struct sim_cluster *cluster)
{
	struct making making = { 0 };

	for (uint32_t i = 0; i < MAKE_TRIES && !cluster->is_made; i++) {
		make_once(cluster, &making);
		cluster->is_made = making.rc == 0;
	}
	if (!cluster->is_made)
		sim_cluster_fail(cluster, "no cluster: %s", making.text);
}
