/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node_import.c -- the nodes of the options become the cluster's: once, by whichever gateway is first
 *
 *	ask the ports who answers at each address --> some have not been heard: again in a second
 *	    | all are known
 *	    v
 *	put "nodes/ID" of each, and with the last of them "next_node" into "cluster" --> the table is read anew
 *
 * All of it compares the version of "cluster", so one of several gateways comes through, and "next_node" says that the
 * keys are whole. A node that is away holds it up: left out, its copies would count as lost. Until it is done
 * gateways go on with the nodes of their options.
 */
#include "cluster/node_import.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mutant.h"
#include "base/num.h"
#include "catalog/cluster_key.h"
#include "catalog/node_key.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "cluster/node_table.h"
#include "common/alloc.h"
#include "port/port_status.h"

#define IMPORT_ASK_NS NUM_S(1)
#define IMPORT_TELL_EVERY 60u /* rounds of asking, for one line */
#define IMPORT_CHUNK_MAX 30u  /* beside the compare, and the put of "cluster" */

struct mt_node_import {
	struct mt_gateway *gateway;
	struct loop_timer timer;
	bool is_asking, is_stopped;
	uint32_t round_count;
	struct mt_cluster cluster; /* that the keys are written over */
	struct mt_node nodes[MT_NODES_MAX];
	uint32_t count, at; /* nodes; of them written */
	uint32_t chunk;     /* of those, that are being written */
};

static void import_write(struct mt_node_import *import);

/* The last act: what has become of it is read. */
static void
import_end(struct mt_node_import *import)
{
	struct mt_nodes *nodes = import->gateway->nodes;

	assert(nodes->import == import && !import->is_asking);
	nodes->import = NULL;
	loop_timer_stop(import->gateway->options.loop, &import->timer);
	if (!import->is_stopped)
		loop_timer_start(import->gateway->options.loop, &nodes->timer, 0);
	mt_free(import);
}

/* ---- writing ---- */

static void
import_on_written(int rc, void *arg)
{
	struct mt_node_import *import = arg;

	assert(import->chunk > 0 && import->at + import->chunk <= import->count);
	if (rc == 0)
		import->at += import->chunk;
	if (rc == 0 && import->at < import->count && !import->is_stopped) {
		import_write(import);
		return;
	}
	if (rc == 0 && import->at == import->count)
		log_info("gateway: the storage nodes of --node are the cluster's now nodes=%" PRIu32
			 " next_node=%" PRIu64,
		    import->count, import->cluster.next_node);
	else if (rc != 0 && rc != -EAGAIN)
		log_warn(
		    "gateway: the nodes cannot be written into the metadata store, tries again "
		    "rc=%s",
		    log_errno(rc));
	import_end(import);
}

static int
import_put(struct mt_node_import *import)
{
	struct meta *meta = import->gateway->options.meta;
	char keys[IMPORT_CHUNK_MAX][MT_NODE_KEY_BYTES], *texts[IMPORT_CHUNK_MAX + 1] = { NULL };
	struct meta_op ops[META_TXN_OPS_MAX];
	uint32_t count = 0;
	bool is_last = import->at + import->chunk == import->count;
	int rc = 0;

	assert(import->chunk > 0 && import->chunk <= IMPORT_CHUNK_MAX);
	assert(import->at + import->chunk <= import->count);
	assert(import->count <= MT_NODES_MAX);
	if (!MUTANT(nodes_imported_twice))
		ops[count++] = (struct meta_op){ .kind = META_COMPARE_VERSION,
			.key = "cluster",
			.version = import->cluster.version };
	for (uint32_t i = 0; i < import->chunk; i++) {
		texts[i] = mt_node_encode(&import->nodes[import->at + i]);
		mt_node_key(keys[i], import->nodes[import->at + i].id);
		ops[count++] =
		    (struct meta_op){ .kind = META_PUT, .key = keys[i], .value = texts[i] };
	}
	if (is_last) {
		texts[import->chunk] = mt_cluster_encode(&import->cluster);
		ops[count++] = (struct meta_op){ .kind = META_PUT,
			.key = "cluster",
			.value = texts[import->chunk] };
	}
	for (uint32_t i = 0; i < count; i++) {
		if (ops[i].kind == META_COMPARE_VERSION)
			continue;
		if (ops[i].value == NULL)
			rc = -ENOMEM;
		else
			ops[i].value_bytes = (uint32_t)strlen(ops[i].value);
	}
	if (rc == 0)
		rc = meta->ops->txn(meta, ops, count, import_on_written, import);
	for (uint32_t i = 0; i < NUM_COUNT(texts); i++)
		free(texts[i]);
	return rc;
}

static void
import_write(struct mt_node_import *import)
{
	assert(import->at < import->count);
	assert(!import->is_asking);
	import->chunk = (uint32_t)num_min(import->count - import->at, IMPORT_CHUNK_MAX);
	if (import_put(import) != 0)
		loop_timer_start(import->gateway->options.loop, &import->timer, IMPORT_ASK_NS);
}

/* ---- who they are ---- */

/* Their links say it. NULL, or the first that has not been heard yet. */
static const struct mt_link_status *
import_take(struct mt_node_import *import, const struct mt_port_status *status)
{
	const struct mt_gateway_options *options = &import->gateway->options;

	assert(status->link_count >= options->node_count);
	import->count = options->node_count;
	for (uint32_t i = 0; i < import->count; i++) {
		const struct mt_link_status *link = &status->links[i];
		struct mt_node *node = &import->nodes[i];

		if (link->node_id == 0 || link->disk[0] == '\0')
			return link;
		*node = (struct mt_node){ .id = link->node_id,
			.state = MT_NODE_IN,
			.weight = MT_NODE_WEIGHT_DEFAULT,
			.added_s = mt_gateway_time_s(import->gateway) };
		(void)snprintf(node->address, sizeof(node->address), "%s", link->config.address);
		(void)snprintf(node->domain, sizeof(node->domain), "%s", link->config.domain);
		(void)snprintf(node->disk, sizeof(node->disk), "%s", link->disk);
		import->cluster.next_node =
		    num_max(import->cluster.next_node, node->id + UINT64_C(1));
	}
	return NULL;
}

static void
import_on_asked(struct mt_ask *ask, void *arg)
{
	struct mt_node_import *import = arg;
	const struct mt_port_status *status = &ask->legs[0].status;
	const struct mt_link_status *unknown = NULL;
	bool has_links = status->links != NULL;

	assert(import->is_asking);
	import->is_asking = false;
	if (import->is_stopped || mt_nodes_are_members(import->gateway)) {
		import_end(import);
		return;
	}
	import->cluster = import->gateway->nodes->cluster;
	if (has_links)
		unknown = import_take(import, status);
	if (has_links && unknown == NULL) {
		import_write(import);
		return;
	}
	if (unknown != NULL && import->round_count++ % IMPORT_TELL_EVERY == 1)
		log_warn(
		    "gateway: the storage nodes are written into the metadata store when all of "
		    "--node have been heard, and one was not: start it, or leave it out "
		    "address=%s reason=\"%s\"",
		    unknown->config.address,
		    unknown->trouble[0] != '\0' ? unknown->trouble : "no answer yet");
	loop_timer_start(import->gateway->options.loop, &import->timer, IMPORT_ASK_NS);
}

static void
import_ask(struct mt_node_import *import)
{
	int rc = mt_ask_ports(import->gateway, MT_ASK_STATUS, NULL, import_on_asked, import);

	assert(!import->is_asking);
	import->is_asking = rc == 0;
	if (rc == -ENOMEM)
		loop_timer_start(import->gateway->options.loop, &import->timer, IMPORT_ASK_NS);
}

static void
import_on_timer(struct loop_timer *timer, void *arg)
{
	struct mt_node_import *import = arg;

	assert(!import->is_asking);
	(void)timer;
	if (mt_nodes_are_members(import->gateway))
		import_end(import);
	else
		import_ask(import);
}

void
mt_node_import(struct mt_gateway *gateway)
{
	struct mt_nodes *nodes = gateway->nodes;
	struct mt_node_import *import;

	assert(!mt_nodes_are_members(gateway));
	if (nodes->import != NULL || gateway->options.node_count == 0)
		return;
	import = mt_calloc(1, sizeof(*import));
	if (import == NULL) {
		loop_timer_start(gateway->options.loop, &nodes->timer, IMPORT_ASK_NS);
		return;
	}
	import->gateway = gateway;
	loop_timer_init(&import->timer, import_on_timer, import);
	nodes->import = import;
	import_ask(import);
}

void
mt_node_import_stop(struct mt_gateway *gateway)
{
	struct mt_node_import *import = gateway->nodes->import;

	if (import == NULL)
		return;
	import->is_stopped = true;
	loop_timer_stop(gateway->options.loop, &import->timer);
}

void
mt_node_import_fini(struct mt_gateway *gateway)
{
	mt_free(gateway->nodes->import);
	gateway->nodes->import = NULL;
}
