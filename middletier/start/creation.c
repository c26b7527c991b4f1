/* SPDX-License-Identifier: Apache-2.0 */
/*
 * creation.c -- a cluster is made over empty nodes; see creation.h
 *
 *	LOADING     every key of the store: there is none; skipped where there is no store yet
 *	CONNECTING  to all nodes, for one node_timeout
 *	LISTING     what they hold: nothing; and have they slots enough for the shards?
 *	WRITING     the key "cluster", by compare-and-swap; the store is made for it where there is none
 *
 * Nothing is written before all else is known to be good, and one key makes the cluster: a creation that is
 * killed has made it or has not.
 */
#include "start/creation.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "base/sm.h"
#include "catalog/cluster_key.h"
#include "catalog/moved.h"
#include "catalog/place.h"
#include "cleave/level.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "cluster/gateway_state.h"
#include "common/alloc.h"
#include "common/port.h"
#include "extent/capacity.h"
#include "extent/node_link.h"
#include "gateway/gateway.h"
#include "gateway/node_port.h"

#define CREATION_MAGIC 0x54414552u /* "REAT" */
#define CREATION_DEVICE_BYTES NUM_MIB(16)

enum creation_machine {
	CREATION_LOADING,
	CREATION_CONNECTING,
	CREATION_LISTING,
	CREATION_WRITING,
	CREATION_DONE,
	CREATION_NR
};

static const struct sm_state creation_table[CREATION_NR] = {
	[CREATION_LOADING] = { "loading", SM_TO(CREATION_CONNECTING) | SM_TO(CREATION_DONE),
	    SM_INITIAL },
	[CREATION_CONNECTING] = { "connecting", SM_TO(CREATION_LISTING) | SM_TO(CREATION_DONE), 0 },
	[CREATION_LISTING] = { "listing", SM_TO(CREATION_WRITING) | SM_TO(CREATION_DONE), 0 },
	[CREATION_WRITING] = { "writing", SM_TO(CREATION_DONE), 0 },
	[CREATION_DONE] = { "done", 0, SM_FINAL },
};

struct creation_node {
	struct mt_creation *creation;
	struct mt_link *link;
	struct mt_call call;
	bool is_listed;
};

struct mt_creation {
	uint32_t magic;
	struct sm sm;
	struct mt_creation_options options;
	struct meta *meta;
	struct mt_gateway *gateway; /* for its one port; never started */
	struct mt_port *port;
	struct creation_node nodes[MT_NODES_MAX];
	struct loop_timer timer; /* CONNECTING: the nodes' time; LISTING: theirs to answer */
	char text[512];
};

/* The last act. */
static void __attribute__((format(printf, 3, 4)))
creation_finish(struct mt_creation *creation, int rc, const char *format, ...)
{
	va_list args;

	if (creation->sm.state == CREATION_DONE)
		return;
	loop_timer_stop(creation->port->loop, &creation->timer);
	va_start(args, format);
	(void)vsnprintf(creation->text, sizeof(creation->text), format, args); /* cut */
	va_end(args);
	sm_move(&creation->sm, CREATION_DONE);
	creation->options.fn(rc, creation->text, creation->options.arg);
}

/* ---- writing ---- */

static uint32_t
creation_shard_count(const struct mt_creation *creation)
{
	uint32_t count = creation->options.gateway.shard_count;

	assert(creation->options.gateway.shard_count <= CLEAVE_SHARDS_MAX);
	return count != 0 ? count : CLEAVE_SHARDS_DEFAULT;
}

static void
creation_on_written(int rc, void *arg)
{
	struct mt_creation *creation = arg;

	assert(creation->sm.state == CREATION_WRITING);
	CHECK_OBJ(creation, CREATION_MAGIC);
	if (rc == 0)
		creation_finish(creation, 0,
		    "cluster made cluster_id=%016" PRIx64 " shards=%" PRIu32 " data_bytes=%" PRIu64
		    " (what remains for data of each copy, about)",
		    creation->options.gateway.cluster_id, creation_shard_count(creation),
		    mt_capacity_data_bytes(creation->port->links, creation->port->link_count,
			creation_shard_count(creation)));
	else if (rc == -EAGAIN)
		creation_finish(creation, -EEXIST,
		    "somebody else has made a cluster in the metadata store meanwhile");
	else
		creation_finish(creation, rc, "the metadata store cannot be written: %s",
		    strerror(-rc));
}

/* The highest that all of its nodes speak: older ones serve a cluster that is not upgraded yet. */
static uint32_t
creation_level(const struct mt_creation *creation)
{
	uint32_t level = CLEAVE_LEVEL_MAX;

	assert(creation->sm.state == CREATION_WRITING);
	for (uint32_t i = 0; i < creation->port->link_count; i++)
		level = (uint32_t)num_min(level,
		    num_max(creation->port->links[i].agreed_level, CLEAVE_LEVEL_MIN));
	return level;
}

static int
creation_put(struct mt_creation *creation)
{
	const struct mt_gateway_options *options = &creation->options.gateway;
	struct mt_cluster cluster = {
		.cluster_id = options->cluster_id,
		.store_id = options->store_id,
		.shard_count = creation_shard_count(creation),
		.next_volume_id = 1,
		.next_segment = 1,
		.next_snapshot = 1,
		.next_clone = 1,
		.level = creation_level(creation),
	};

	assert(creation->sm.state == CREATION_WRITING && creation->meta != NULL);
	mt_place_of(creation->meta, cluster.place);
	return mt_cluster_put(creation->meta, &cluster, creation_on_written, creation);
}

static void
creation_write(struct mt_creation *creation)
{
	char error[MT_ERROR_BYTES] = "";
	int rc;

	assert(creation->sm.state == CREATION_LISTING);
	/* The shards' number stays as it is made: too many for these nodes would serve nothing. */
	if (mt_capacity_check(creation->port->links, creation->port->link_count,
		creation_shard_count(creation), error, sizeof(error)) != 0) {
		creation_finish(creation, -ENOSPC, "%s", error);
		return;
	}
	sm_move(&creation->sm, CREATION_WRITING);
	loop_timer_stop(creation->port->loop, &creation->timer);
	if (creation->meta == NULL)
		creation->meta =
		    creation->options.open(error, sizeof(error), creation->options.arg);
	if (creation->meta == NULL) {
		creation_finish(creation, -EIO, "the metadata store cannot be made: %s", error);
		return;
	}
	rc = creation_put(creation);
	if (rc != 0)
		creation_finish(creation, rc, "the metadata store cannot be written: %s",
		    strerror(-rc));
}

/* ---- listing ---- */

static void
creation_on_listed(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg)
{
	struct creation_node *node = arg;
	struct mt_creation *creation = node->creation;
	bool is_empty = msg == NULL || msg->payload_bytes == 0;

	assert(call == &node->call);
	(void)call;
	CHECK_OBJ(creation, CREATION_MAGIC);
	is_empty = is_empty && (reply == NULL || reply->offset_bytes == 0);
	if (msg != NULL)
		split_msg_release(msg);
	if (creation->sm.state != CREATION_LISTING)
		return;
	if (rc != 0) {
		creation_finish(creation, -EHOSTDOWN,
		    "the node at %s does not list its extents: %s", node->link->config.address,
		    log_errno(rc));
		return;
	}
	if (!is_empty) {
		creation_finish(creation, -ENOTEMPTY,
		    "node %" PRIu32
		    " at %s holds a cluster's data: cleave recover makes a lost metadata "
		    "store anew from it; cleave-storage format --force gives it up",
		    node->link->node_id, node->link->config.address);
		return;
	}
	if (!store_id_is_zero(&node->link->store)) {
		creation_finish(creation, -ENOTEMPTY,
		    "node %" PRIu32
		    " at %s obeys another metadata store: mount that one, or make it anew "
		    "with cleave recover; for a new cluster, format the node anew",
		    node->link->node_id, node->link->config.address);
		return;
	}
	node->is_listed = true;
	for (uint32_t i = 0; i < creation->port->link_count; i++) {
		if (!creation->nodes[i].is_listed)
			return;
	}
	creation_write(creation);
}

static void
creation_begin_listing(struct mt_creation *creation)
{
	assert(mt_node_port_is_connected(creation->port));
	assert(creation->sm.state == CREATION_CONNECTING);
	sm_move(&creation->sm, CREATION_LISTING);
	for (uint32_t i = 0; i < creation->port->link_count; i++) {
		struct creation_node *node = &creation->nodes[i];
		int rc;

		node->call.request =
		    (struct wire_node){ .opcode = WIRE_EXTENT_LIST, .id = { .shard = UINT32_MAX } };
		node->call.fn = creation_on_listed;
		node->call.arg = node;
		rc = mt_link_call(node->link, &node->call);
		if (rc == 0)
			continue;
		creation_finish(creation, -EHOSTDOWN, "the node at %s cannot be asked: %s",
		    node->link->config.address, log_errno(rc));
		return;
	}
}

/* ---- connecting ---- */

static void
creation_on_link(struct mt_port *port, struct mt_link *link, bool is_up)
{
	struct mt_creation *creation = port->events_arg;

	assert(port == creation->port);
	(void)link;
	CHECK_OBJ(creation, CREATION_MAGIC);
	if (is_up && creation->sm.state == CREATION_CONNECTING && mt_node_port_is_connected(port))
		creation_begin_listing(creation);
}

static const struct mt_port_events creation_events = { .on_link = creation_on_link,
	.on_objection = mt_node_port_on_objection };

/* The nodes' time is over: one of them was not reached, or has not said what it holds. */
static void
creation_on_timer(struct loop_timer *timer, void *arg)
{
	struct mt_creation *creation = arg;
	const struct mt_link *late = NULL;

	(void)timer;
	CHECK_OBJ(creation, CREATION_MAGIC);
	assert(creation->sm.state == CREATION_CONNECTING || creation->sm.state == CREATION_LISTING);
	for (uint32_t i = 0; i < creation->port->link_count; i++) {
		const struct creation_node *node = &creation->nodes[i];

		if (creation->sm.state == CREATION_LISTING ? !node->is_listed
							   : !mt_link_is_up(node->link))
			late = node->link;
	}
	assert(late != NULL); /* it would be further */
	if (creation->sm.state == CREATION_LISTING)
		creation_finish(creation, -EHOSTDOWN,
		    "the node at %s does not list its extents in time, and may hold data: look at it, or "
		    "leave it out for now",
		    late->config.address);
	else
		creation_finish(creation, -EHOSTDOWN,
		    "the node at %s was not reached (%s), and may hold data: start it, or leave it out "
		    "for now",
		    late->config.address, late->trouble[0] != '\0' ? late->trouble : "no answer");
}

static void
creation_connect(struct mt_creation *creation)
{
	assert(creation->sm.state == CREATION_LOADING);
	assert(creation->port->link_count > 0);
	sm_move(&creation->sm, CREATION_CONNECTING);
	mt_node_port_connect(creation->port);
	loop_timer_start(creation->port->loop, &creation->timer,
	    creation->gateway->options.node_timeout_ns);
}

/* ---- loading ---- */

static void
creation_on_loaded(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct mt_creation *creation = arg;

	assert(creation->sm.state == CREATION_LOADING);
	CHECK_OBJ(creation, CREATION_MAGIC);
	assert(count == 0 || items != NULL);
	if (rc != 0) {
		creation_finish(creation, rc, "the metadata store cannot be read: %s",
		    strerror(-rc));
		return;
	}
	for (uint32_t i = 0; i < count; i++) {
		if (strcmp(items[i].key, MT_MOVED_KEY) == 0)
			creation_finish(creation, -EEXIST,
			    "the metadata store held a cluster that was moved away: choose an empty one");
		else if (strcmp(items[i].key, "cluster") == 0)
			creation_finish(creation, -EEXIST,
			    "the metadata store holds a cluster already: start the gateway without "
			    "--create");
		else
			continue;
		return;
	}
	if (count > 0) {
		creation_finish(creation, -EEXIST,
		    "the metadata store holds the rest of a cluster: run cleave recover again");
		return;
	}
	creation_connect(creation);
}

/* ---- its life ---- */

static int
creation_open(struct mt_creation *creation, char *ret_error, size_t error_bytes)
{
	int rc = mt_node_port_open(&creation->options.gateway, CREATION_DEVICE_BYTES,
	    &creation_events, creation, &creation->gateway, ret_error, error_bytes);

	assert(creation->sm.state == CREATION_LOADING);
	if (rc != 0)
		return rc;
	creation->port = &creation->gateway->ports[0];
	for (uint32_t i = 0; i < creation->port->link_count; i++) {
		creation->nodes[i].creation = creation;
		creation->nodes[i].link = &creation->port->links[i];
	}
	return 0;
}

struct mt_creation *
mt_creation_start(const struct mt_creation_options *options, char *ret_error, size_t error_bytes)
{
	struct mt_creation *creation = mt_calloc(1, sizeof(*creation));
	int rc = 0;

	assert(options->fn != NULL && (options->gateway.meta != NULL || options->open != NULL));
	assert(error_bytes > 0);
	assert(options->gateway.cluster_id != 0);
	assert(!store_id_is_zero(&options->gateway.store_id));
	if (creation == NULL) {
		(void)snprintf(ret_error, error_bytes, "out of memory");
		return NULL;
	}
	creation->magic = CREATION_MAGIC;
	creation->options = *options;
	creation->meta = options->gateway.meta;
	loop_timer_init(&creation->timer, creation_on_timer, creation);
	sm_init(&creation->sm, "creation", creation_table, CREATION_LOADING, 0);
	if (creation_open(creation, ret_error, error_bytes) != 0)
		goto err;
	if (creation->meta == NULL)
		creation_connect(creation);
	else
		rc = creation->meta->ops->list(creation->meta, "", creation_on_loaded, creation);
	if (rc == 0)
		return creation;
	(void)snprintf(ret_error, error_bytes, "the metadata store cannot be read: %s",
	    strerror(-rc));
err:
	mt_creation_destroy(creation);
	return NULL;
}

void
mt_creation_destroy(struct mt_creation *creation)
{
	if (creation == NULL)
		return;
	CHECK_OBJ(creation, CREATION_MAGIC);
	loop_timer_stop(creation->options.gateway.loop, &creation->timer);
	if (creation->sm.state != CREATION_DONE)
		sm_move(&creation->sm, CREATION_DONE);
	mt_gateway_destroy(creation->gateway); /* ends every call */
	creation->magic = 0;
	mt_free(creation);
}
