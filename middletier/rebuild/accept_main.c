/* SPDX-License-Identifier: Apache-2.0 */
/*
 * accept_main.c -- `cleave-gateway --accept-copy` from its beginning to its end, on a loop of its own
 *
 *	open --> list all keys --> connect to the nodes --> do they know more? --> until no read lease lasts
 *	     --> compare-and-swap of "cluster" --> end
 *
 * A gateway of the original that runs would lose all shards to the first one that is started with the copy, and stop as
 * stale. No store tells of it: the copy knows of none, and the original may be anywhere. The nodes do: each says how
 * many connections gateways of the store that it obeys have. And they tell how old the copy is: they are asked as for
 * a store that is to be made of its keys (rebuild_copy.c), and that is given up when they know nothing more.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "catalog/cluster_key.h"
#include "catalog/keys.h"
#include "catalog/place.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cluster/gateway_state.h"
#include "common/port.h"
#include "extent/node_link.h"
#include "gateway/gateway.h"
#include "gateway/node_port.h"
#include "meta/meta_open.h"
#include "rebuild/accept_main.h"
#include "rebuild/rebuild.h"
#include "rebuild/rebuild_copy.h"
#include "session/read_lease.h"
#include "start/store_path.h"

#define ERROR_BYTES 512
#define ACCEPT_DEVICE_BYTES NUM_MIB(16)

struct accept_process {
	struct loop *loop;
	uint64_t cluster_id;
	const struct mt_gateway_options *options;
	bool must_take; /* whoever is connected to the nodes */
	bool is_forced; /* whatever the nodes know */
	const struct meta_where *where;
	const char *meta_path; /* of it */
	struct meta *meta;
	struct mt_cluster cluster; /* as it is to be */
	char old_place[META_PLACE_BYTES];
	struct mt_gateway *nodes; /* for its one port, once the store was read; never started */
	struct loop_timer timer;  /* until who has not answered does not count; then accept_wait */
	bool is_judged, is_waiting;
	struct mt_keys keys; /* of the copy */
	struct mt_rebuild_copy copy;
	struct mt_rebuild *age; /* the nodes are asked what they know */
	bool is_young;          /* nothing that the copy does not */
	int rc;
};

static void
accept_end(struct accept_process *process, int rc)
{
	assert(rc <= 0);
	process->rc = rc;
	loop_stop(process->loop);
}

static void
accept_on_written(int rc, void *arg)
{
	struct accept_process *process = arg;

	assert(process->cluster.version != 0);
	if (rc == -EAGAIN)
		log_error("accept-copy: %s: somebody else changes the metadata store: run it again",
		    process->meta_path);
	else if (rc != 0)
		log_error("accept-copy: %s: the metadata store cannot be written: %s",
		    process->meta_path, strerror(-rc));
	else if (process->old_place[0] == '\0')
		log_info("accept-copy: %s: it did not name its place, and does now place=%s",
		    process->meta_path, process->cluster.place);
	else
		log_warn(
		    "accept-copy: %s is the metadata store from now on: never start a gateway "
		    "with the original again, and look whether users have the rights that they "
		    "shall have (cleave user list) old_place=%s place=%s",
		    process->meta_path, process->old_place, process->cluster.place);
	accept_end(process, rc);
}

/* Reads the key: 0, or it has been said why nothing can be accepted. */
static int
accept_read(struct accept_process *process, const struct meta_item *item)
{
	struct mt_cluster *cluster = &process->cluster;
	const char *field;
	int rc;

	assert(process->cluster_id != 0);
	rc = mt_cluster_decode(item->value, item->value_bytes, cluster, &field);
	if (rc == -EPROTONOSUPPORT) {
		log_error("accept-copy: %s: %s", process->meta_path, field);
		return rc;
	}
	if (rc != 0) {
		log_error("accept-copy: %s: the key cluster cannot be understood: %s: run cleave "
			  "recover",
		    process->meta_path, field);
		return -EINVAL;
	}
	if (cluster->cluster_id != process->cluster_id) {
		log_error("accept-copy: cluster-id: %s belongs to cluster %016" PRIx64
			  ", not to %016" PRIx64,
		    process->meta_path, cluster->cluster_id, process->cluster_id);
		return -EXDEV;
	}
	cluster->version = item->version;
	memcpy(process->old_place, cluster->place, sizeof(process->old_place));
	return 0;
}

static void
accept_write(struct accept_process *process)
{
	int rc;

	assert(process->is_judged);
	mt_place_of(process->meta, process->cluster.place);
	rc = mt_cluster_put(process->meta, &process->cluster, accept_on_written, process);
	if (rc == 0)
		return;
	log_error("accept-copy: %s: the metadata store cannot be written: %s", process->meta_path,
	    strerror(-rc));
	accept_end(process, rc);
}

/* A volume that the copy has read at gateways alone may be another one to clients of the original: as rebuild.c. */
static void
accept_wait(struct accept_process *process)
{
	assert(process->is_judged && !process->is_waiting);
	process->is_waiting = true;
	loop_timer_start(process->loop, &process->timer, MT_READ_LEASE_NS);
}

/* ---- does a gateway run? ---- */

/* 0: none does, or that is insisted on. */
static int
accept_judge_link(const struct accept_process *process, const struct mt_link *link)
{
	assert(link->gateway_connections > 0);
	if (process->must_take) {
		log_warn("accept-copy: a gateway is connected to node %" PRIu32
			 " address=%s peer=%s: forced",
		    link->node_id, link->config.address, link->gateway_peer);
		return 0;
	}
	log_error(
	    "accept-copy: %s: the original is in use: a gateway is connected to node %" PRIu32
	    " at %s, from %s, and would lose its shards to one that is started with the copy: "
	    "stop it first, or insist with --take",
	    process->meta_path, link->node_id, link->config.address, link->gateway_peer);
	return -EBUSY;
}

static int
accept_judge_links(const struct accept_process *process)
{
	const struct mt_port *port = &process->nodes->ports[0];
	uint32_t up_count = 0;
	int rc = 0;

	assert(port->link_count > 0);
	for (uint32_t i = 0; i < port->link_count && rc == 0; i++) {
		const struct mt_link *link = &port->links[i];

		up_count += mt_link_is_up(link);
		if (mt_link_is_up(link) && link->gateway_connections > 0)
			rc = accept_judge_link(process, link);
	}
	if (rc != 0 || up_count > 0)
		return rc;
	if (process->must_take) {
		log_warn("accept-copy: no node answers: forced");
		return 0;
	}
	log_error(
	    "accept-copy: %s: no node answers, so that it is not known whether a gateway uses "
	    "the original: start the nodes first, or insist with --take",
	    process->meta_path);
	return -EHOSTDOWN;
}

/* ---- how old is it? ---- */

static void
accept_on_settle(struct mt_rebuild *rebuild, void *arg)
{
	struct accept_process *process = arg;

	assert(!process->is_young);
	process->is_young = true;
	mt_rebuild_settled(rebuild, -ECANCELED,
	    "no more was asked for"); /* nothing is made of it */
}

static struct meta *
accept_open_none(char *ret_error, size_t error_bytes, void *arg)
{
	(void)ret_error;
	(void)error_bytes;
	(void)arg;
	assert(false); /* it is given up before */
	return NULL;
}

static void
accept_on_age(int rc, const char *text, void *arg)
{
	struct accept_process *process = arg;

	assert(rc < 0);
	if (process->is_young) {
		accept_wait(process);
	} else if (process->is_forced) {
		log_warn("accept-copy: %s: %s: forced", process->meta_path, text);
		accept_wait(process);
	} else {
		log_error("accept-copy: %s: %s; or insist with --force", process->meta_path, text);
		accept_end(process, rc);
	}
}

static void
accept_ask_age(struct accept_process *process)
{
	struct mt_rebuild_options options = { .gateway = *process->options,
		.must_take = process->must_take,
		.open = accept_open_none,
		.copy = &process->copy,
		.fn = accept_on_age,
		.arg = process };
	char error[ERROR_BYTES];

	assert(process->age == NULL);
	process->copy = (struct mt_rebuild_copy){ .source = &process->keys,
		.cluster = process->cluster,
		.settle = accept_on_settle,
		.is_left = true,
		.arg = process };
	options.gateway.loop = process->loop;
	options.gateway.meta = NULL;
	process->age = mt_rebuild_start(&options, error, sizeof(error));
	if (process->age != NULL)
		return;
	log_error("accept-copy: %s", error);
	accept_end(process, -EIO);
}

static void
accept_judge(struct accept_process *process)
{
	int rc;

	assert(!process->is_judged);
	process->is_judged = true;
	loop_timer_stop(process->loop, &process->timer);
	rc = accept_judge_links(process);
	if (rc == 0)
		accept_ask_age(process);
	else
		accept_end(process, rc);
}

static void
accept_on_link(struct mt_port *port, struct mt_link *link, bool is_up)
{
	struct accept_process *process = port->events_arg;

	(void)link;
	if (is_up && !process->is_judged && mt_node_port_is_connected(port))
		accept_judge(process);
}

static void
accept_on_timer(struct loop_timer *timer, void *arg)
{
	struct accept_process *process = arg;

	(void)timer;
	if (process->is_waiting)
		accept_write(process);
	else
		accept_judge(process);
}

static const struct mt_port_events accept_events = { .on_link = accept_on_link,
	.on_objection = mt_node_port_on_objection };

static int
accept_connect(struct accept_process *process)
{
	struct mt_gateway_options options = *process->options;
	char error[ERROR_BYTES];
	int rc;

	assert(process->nodes == NULL && !process->is_judged);
	options.loop = process->loop;
	rc = mt_node_port_open(&options, ACCEPT_DEVICE_BYTES, &accept_events, process,
	    &process->nodes, error, sizeof(error));
	if (rc != 0) {
		log_error("accept-copy: %s", error);
		return rc;
	}
	mt_node_port_connect(&process->nodes->ports[0]);
	loop_timer_start(process->loop, &process->timer, options.node_timeout_ns);
	return 0;
}

/* ---- reading ---- */

static void
accept_on_listed(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct accept_process *process = arg;
	struct mt_cluster *cluster = &process->cluster;
	const struct meta_item *item = NULL;

	assert(process->cluster.version == 0);
	for (uint32_t i = 0; i < count; i++) {
		if (strcmp(items[i].key, "cluster") == 0)
			item = &items[i];
	}
	if (rc == 0)
		rc = mt_keys_add_items(&process->keys, items, count);
	if (rc != 0) {
		log_error("accept-copy: %s: the metadata store cannot be read: %s",
		    process->meta_path, strerror(-rc));
	} else if (item == NULL) {
		rc = -ENOENT;
		log_error("accept-copy: " MT_NO_CLUSTER_TEXT, process->meta_path);
	} else {
		rc = accept_read(process, item);
	}
	if (rc == 0 && cluster->place[0] != '\0' && !mt_place_is_other(process->meta, cluster)) {
		log_info("accept-copy: %s lies where it belongs: nothing to accept place=%s",
		    process->meta_path, cluster->place);
		accept_end(process, 0);
		return;
	}
	if (rc == 0)
		rc = accept_connect(process);
	if (rc != 0)
		accept_end(process, rc);
}

static int
accept_run(struct accept_process *process)
{
	char error[ERROR_BYTES];
	int rc;

	assert(process->meta == NULL);
	process->meta = meta_open(process->where, process->loop, error, sizeof(error));
	if (process->meta == NULL) {
		log_error("accept-copy: metadata store: %s", error);
		return -EIO;
	}
	rc = process->meta->ops->list(process->meta, "", accept_on_listed, process);
	if (rc != 0)
		log_error("accept-copy: out of memory");
	else
		(void)loop_run(process->loop, NULL, NULL);
	loop_timer_stop(process->loop, &process->timer);
	mt_rebuild_destroy(process->age);
	mt_rebuild_copy_fini(&process->copy);
	mt_keys_fini(&process->keys);
	mt_gateway_destroy(process->nodes);
	process->meta->ops->close(process->meta);
	return rc != 0 ? rc : process->rc;
}

int
mt_accept_main(const struct mt_gateway_options *gateway, const struct meta_where *where,
    bool must_take, bool is_forced)
{
	struct accept_process process = { .cluster_id = gateway->cluster_id,
		.options = gateway,
		.must_take = must_take,
		.is_forced = is_forced,
		.where = where,
		.meta_path = where->place };
	int rc = mt_meta_where_check(where); /* nothing is made where there is no store */

	assert(gateway->cluster_id != 0 && gateway->node_count > 0);
	if (rc != 0)
		return rc;
	process.loop = loop_ev_create(0);
	if (process.loop == NULL) {
		log_error(
		    "accept-copy: an event loop cannot be made: no memory, or no descriptors are "
		    "left");
		return -ENOMEM;
	}
	loop_timer_init(&process.timer, accept_on_timer, &process);
	rc = accept_run(&process);
	loop_destroy(process.loop);
	return rc;
}
