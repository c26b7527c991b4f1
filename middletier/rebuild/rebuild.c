/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rebuild.c -- a metadata store made anew from the storage nodes; see rebuild.h
 *
 *	LOADING     every key of the store as it is; skipped where there is none
 *	CONNECTING  to all nodes, for one node_timeout
 *	LISTING     every copy of every extent, from the nodes that are up (rebuild_nodes.c)
 *	READING     of each shard the newest manifest extent with a whole checkpoint (rebuild_read.c)
 *	WRITING     roots that name them, volumes, the key "cluster" with a new identity (rebuild_store.c)
 *	TELLING     the nodes that were listed: they obey the new store from now on. A node that is told by
 *	            nobody is told by the next gateway: the key says which stores this one replaces
 *
 * Which manifest counts: the newest by epoch and counter whose checkpoint is whole. A root names a
 * manifest extent only when its checkpoint is durable on every replica. So one whose undamaged copy
 * has no whole checkpoint never was a root's, and is passed over; one that *cannot be read* may have
 * been, and the rebuild refuses rather than take an older one. The newest holds everything that any
 * older one confirmed: an owner confirms nothing in an old extent once it has begun the next, and a
 * taker has frozen every open extent before it begins its own. Lengths are left to the next taker.
 */
#include "rebuild/rebuild.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "base/sm.h"
#include "catalog/json.h"
#include "catalog/place.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "cluster/gateway_state.h"
#include "common/alloc.h"
#include "common/port.h"
#include "extent/node_link.h"
#include "gateway/gateway.h"
#include "gateway/node_port.h"
#include "manifest/manifest_state.h"
#include "rebuild/rebuild_live.h"
#include "rebuild/rebuild_nodes.h"
#include "rebuild/rebuild_read.h"
#include "rebuild/rebuild_store.h"
#include "rebuild/survey.h"

#define REBUILD_MAGIC 0x4c424552u /* "REBL" */
#define REBUILD_DEVICE_BYTES NUM_MIB(16)
/* Epochs that a node which did not answer may know of, each a start that was not seen elsewhere. */
#define REBUILD_EPOCHS_UNSEEN 1024u

enum rebuild_machine {
	REBUILD_LOADING,
	REBUILD_CONNECTING,
	REBUILD_LISTING,
	REBUILD_READING,
	REBUILD_WRITING,
	REBUILD_TELLING,
	REBUILD_DONE,
	REBUILD_NR
};

static const struct sm_state rebuild_table[REBUILD_NR] = {
	[REBUILD_LOADING] = { "loading", SM_TO(REBUILD_CONNECTING) | SM_TO(REBUILD_DONE),
	    SM_INITIAL },
	[REBUILD_CONNECTING] = { "connecting", SM_TO(REBUILD_LISTING) | SM_TO(REBUILD_DONE), 0 },
	[REBUILD_LISTING] = { "listing", SM_TO(REBUILD_READING) | SM_TO(REBUILD_DONE), 0 },
	[REBUILD_READING] = { "reading",
	    SM_TO(REBUILD_WRITING) | SM_TO(REBUILD_TELLING) | SM_TO(REBUILD_DONE), 0 },
	[REBUILD_WRITING] = { "writing", SM_TO(REBUILD_TELLING) | SM_TO(REBUILD_DONE), 0 },
	[REBUILD_TELLING] = { "telling", SM_TO(REBUILD_DONE), 0 },
	[REBUILD_DONE] = { "done", 0, SM_FINAL },
};

struct mt_rebuild {
	uint32_t magic;
	struct sm sm;
	struct mt_rebuild_options options;
	struct mt_gateway *gateway; /* for its one port; never started */
	struct mt_port *port;
	struct mt_rebuild_nodes nodes;
	struct mt_survey survey;
	struct mt_rebuild_reader reader;
	struct mt_rebuild_store store;
	struct loop_timer timer; /* CONNECTING, TELLING: the nodes' time */
	char text[512];
};

/* The last act. */
static void __attribute__((format(printf, 3, 4)))
rebuild_finish(struct mt_rebuild *rebuild, int rc, const char *format, ...)
{
	va_list args;

	assert(rc <= 0 && rebuild->sm.state != REBUILD_DONE);
	loop_timer_stop(rebuild->port->loop, &rebuild->timer);
	va_start(args, format);
	(void)vsnprintf(rebuild->text, sizeof(rebuild->text), format,
	    args); /* cut where too long */
	va_end(args);
	sm_move(&rebuild->sm, REBUILD_DONE);
	rebuild->options.fn(rc, rebuild->text, rebuild->options.arg);
}

/* False: it was refused, and that was the last act. Forced, it is said and done. */
static bool __attribute__((format(printf, 3, 4)))
rebuild_may(struct mt_rebuild *rebuild, int rc, const char *format, ...)
{
	char text[sizeof(rebuild->text)];
	va_list args;

	assert(rc < 0);
	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (rebuild->options.is_forced) {
		log_warn("recover: %s: forced", text);
		return true;
	}
	rebuild_finish(rebuild, rc, "%s", text);
	return false;
}

/* False: refused. What is known is as old as each node's last status. */
static bool
rebuild_check_gateways(struct mt_rebuild *rebuild)
{
	char text[sizeof(rebuild->text)];
	int rc =
	    mt_rebuild_live_check(rebuild->port, rebuild->options.must_take, text, sizeof(text));

	if (rc != 0)
		rebuild_finish(rebuild, rc, "%s", text);
	return rc == 0;
}

/* ---- telling ---- */

static uint32_t
rebuild_untold(const struct mt_rebuild *rebuild)
{
	return mt_rebuild_nodes_untold(&rebuild->nodes, &rebuild->gateway->cluster.store_id);
}

static void
rebuild_told(struct mt_rebuild *rebuild)
{
	uint32_t untold = rebuild_untold(rebuild);

	assert(rebuild->sm.state == REBUILD_TELLING);
	if (untold > 0)
		log_warn("recover: %" PRIu32 " nodes were not told yet: the next gateway will",
		    untold);
	rebuild_finish(rebuild, 0, "the metadata store is whole");
}

static void
rebuild_tell(struct mt_rebuild *rebuild)
{
	sm_move(&rebuild->sm, REBUILD_TELLING);
	rebuild->gateway->cluster = rebuild->store.cluster;
	for (uint32_t i = 0; i < rebuild->port->link_count; i++)
		mt_link_renew(&rebuild->port->links[i]);
	loop_timer_start(rebuild->port->loop, &rebuild->timer,
	    rebuild->gateway->options.node_timeout_ns);
}

/* ---- writing ---- */

static void
rebuild_on_written(int rc, void *arg)
{
	struct mt_rebuild *rebuild = arg;

	assert(rebuild->sm.state == REBUILD_WRITING);
	CHECK_OBJ(rebuild, REBUILD_MAGIC);
	if (rc == 0)
		rebuild_tell(rebuild);
	else if (rc == -EAGAIN)
		rebuild_finish(rebuild, rc, "somebody else changes the metadata store");
	else
		rebuild_finish(rebuild, rc, "the metadata store cannot be written: %s",
		    strerror(-rc));
}

/* A node of another cluster would be taken over with all that it holds. False: refused. */
static bool
rebuild_check_stores(struct mt_rebuild *rebuild)
{
	const struct mt_rebuild_node *first = NULL;

	assert(rebuild->sm.state == REBUILD_LISTING);
	for (uint32_t i = 0; i < rebuild->port->link_count; i++) {
		const struct mt_rebuild_node *node = &rebuild->nodes.node[i];

		if (!node->is_listed || mt_rebuild_store_is_known(&rebuild->store, &node->obeyed))
			continue;
		if (first == NULL)
			first = node;
		if (!store_id_is_equal(&node->obeyed, &first->obeyed) &&
		    !rebuild_may(rebuild, -EXDEV,
			"nodes %" PRIu32 " and %" PRIu32
			" obey two metadata stores: one of them is of "
			"another cluster, or was away during a recovery; leave it out, or say --force",
			first->node_id, node->node_id))
			return false;
	}
	return true;
}

/* A store that knows all that the nodes do is left alone. False: refused. */
static bool
rebuild_check_age(struct mt_rebuild *rebuild, const struct mt_rebuild_plan *plan)
{
	const struct mt_rebuild_store *store = &rebuild->store;

	assert(plan->shard_count > 0);
	if (!mt_rebuild_store_is_current(store, plan))
		return true;
	if (mt_place_is_other(store->meta, &store->cluster))
		return rebuild_may(rebuild, -EEXIST,
		    "the metadata store is a copy, and not older than what the nodes hold: if its "
		    "original is gone for good, run cleave-gateway --accept-copy instead");
	return rebuild_may(rebuild, -EEXIST,
	    "the metadata store is not older than what the nodes hold");
}

/* Losses that may not be passed over silently. False: refused. */
static bool
rebuild_check(struct mt_rebuild *rebuild, const struct mt_rebuild_plan *plan)
{
	const struct mt_rebuild_reader *reader = &rebuild->reader;

	assert(rebuild->sm.state == REBUILD_READING);
	if (!rebuild_check_age(rebuild, plan))
		return false;
	for (uint32_t i = 0; i < reader->shard_count; i++) {
		const struct mt_rebuild_shard *shard = &reader->shards[i];

		if (shard->is_uncertain &&
		    !rebuild_may(rebuild, -ENODATA,
			"shard %" PRIu32 ": its newest manifest cannot be read", i))
			return false;
		if (!shard->has_manifest &&
		    !rebuild_may(rebuild, -ENODATA,
			"shard %" PRIu32 ": no manifest was found; it would begin empty", i))
			return false;
	}
	if (reader->mirror.shard_count == 0)
		return rebuild_may(rebuild, -ENODATA,
		    "no node tells of the volumes: they are taken from the old store");
	return reader->mirror.shard_count == reader->shard_count ||
	    rebuild_may(rebuild, -ENODATA,
		"the nodes hold %" PRIu32 " shards, but the cluster was made with %" PRIu32,
		reader->shard_count, reader->mirror.shard_count);
}

/* The plan is good. Where there was no store it is made now, and not for a rebuild that is refused. */
static void
rebuild_write_plan(struct mt_rebuild *rebuild)
{
	struct mt_rebuild_store *store = &rebuild->store;
	char error[MT_ERROR_BYTES] = "";
	int rc;

	sm_move(&rebuild->sm, REBUILD_WRITING);
	if (store->meta == NULL)
		store->meta = rebuild->options.open(error, sizeof(error), rebuild->options.arg);
	if (store->meta == NULL) {
		rebuild_finish(rebuild, -EIO, "the metadata store cannot be made: %s", error);
		return;
	}
	rc = mt_rebuild_store_write(store, rebuild_on_written, rebuild);
	if (rc != 0)
		rebuild_finish(rebuild, rc, "the metadata store cannot be written: %s",
		    strerror(-rc));
}

static void
rebuild_write(struct mt_rebuild *rebuild)
{
	const struct mt_rebuild_reader *reader = &rebuild->reader;
	uint32_t unlisted = mt_rebuild_nodes_unlisted(&rebuild->nodes);
	struct mt_rebuild_plan plan = { .cluster_id = rebuild->options.gateway.cluster_id,
		.survey = &rebuild->survey,
		.shards = reader->shards,
		.mirror = &reader->mirror,
		.epoch_margin = unlisted == 0 ? 1 : REBUILD_EPOCHS_UNSEEN };
	int rc;

	assert(rebuild->sm.state == REBUILD_READING);
	/* Once more: reading may have taken long. */
	if (!rebuild_check_gateways(rebuild))
		return;
	plan.store_id = rebuild->options.gateway.store_id;
	plan.obeyed_count = rebuild->port->link_count;
	for (uint32_t i = 0; i < plan.obeyed_count; i++)
		plan.obeyed[i] = rebuild->nodes.node[i].obeyed;
	/* A shard above all that were found is one that nobody has ever written. */
	plan.shard_count = reader->shard_count;
	/* A recovery that was killed when it had made the store, and not told all. */
	if (mt_rebuild_store_is_current(&rebuild->store, &plan) &&
	    !mt_rebuild_nodes_obey(&rebuild->nodes, &rebuild->store.cluster.store_id)) {
		rebuild_tell(rebuild);
		return;
	}
	if (!rebuild_check(rebuild, &plan))
		return;
	plan.shard_count = (uint32_t)num_max(reader->shard_count, reader->mirror.shard_count);
	rc = mt_rebuild_store_plan(&rebuild->store, &plan);
	if (rc != 0)
		rebuild_finish(rebuild, rc, "the metadata store cannot be made: %s", strerror(-rc));
	else
		rebuild_write_plan(rebuild);
}

/* ---- reading ---- */

static void
rebuild_on_read(int rc, void *arg)
{
	struct mt_rebuild *rebuild = arg;

	CHECK_OBJ(rebuild, REBUILD_MAGIC);
	assert(rebuild->sm.state == REBUILD_READING);
	if (rc != 0)
		rebuild_finish(rebuild, rc, "out of memory");
	else
		rebuild_write(rebuild);
}

static void
rebuild_begin_reading(struct mt_rebuild *rebuild)
{
	uint32_t unlisted = mt_rebuild_nodes_unlisted(&rebuild->nodes);
	uint32_t wanted = rebuild->options.gateway.shard_count, count;

	assert(rebuild->sm.state == REBUILD_LISTING);
	mt_survey_sort(&rebuild->survey);
	mt_rebuild_reader_count(&rebuild->reader);
	count = rebuild->reader.shard_count;
	if (count == 0) {
		rebuild_finish(rebuild, -ENODATA, "the nodes hold no extent: there is no cluster");
		return;
	}
	if (wanted != 0 && wanted != count) {
		rebuild_finish(rebuild, -EINVAL,
		    "the nodes hold extents of %" PRIu32 " shards, not of %" PRIu32, count, wanted);
		return;
	}
	if (!rebuild_check_stores(rebuild))
		return;
	/* Fewer than a manifest has copies: one at least of each was seen. */
	if (unlisted >= rebuild->gateway->options.min_replicas &&
	    !rebuild_may(rebuild, -ENODATA,
		"%" PRIu32 " nodes were not reached: something newer may be there", unlisted))
		return;
	sm_move(&rebuild->sm, REBUILD_READING);
	mt_rebuild_reader_start(&rebuild->reader, rebuild_on_read, rebuild);
}

/* ---- listing ---- */

static void
rebuild_on_listed(void *arg)
{
	struct mt_rebuild *rebuild = arg;

	CHECK_OBJ(rebuild, REBUILD_MAGIC);
	assert(rebuild->sm.state == REBUILD_LISTING);
	rebuild_begin_reading(rebuild);
}

static void
rebuild_begin_listing(struct mt_rebuild *rebuild)
{
	char text[sizeof(rebuild->text)];
	int rc;

	loop_timer_stop(rebuild->port->loop, &rebuild->timer);
	if (!rebuild_check_gateways(rebuild))
		return;
	sm_move(&rebuild->sm, REBUILD_LISTING);
	rc = mt_rebuild_nodes_list(&rebuild->nodes, rebuild_on_listed, rebuild, text, sizeof(text));
	if (rc != 0)
		rebuild_finish(rebuild, rc, "%s", text);
}

/* ---- connecting ---- */

static void
rebuild_on_link(struct mt_port *port, struct mt_link *link, bool is_up)
{
	struct mt_rebuild *rebuild = port->events_arg;

	CHECK_OBJ(rebuild, REBUILD_MAGIC);
	mt_rebuild_reader_on_link(&rebuild->reader, link, is_up);
	if (rebuild->sm.state == REBUILD_TELLING && rebuild_untold(rebuild) == 0) {
		rebuild_told(rebuild);
		return;
	}
	if (is_up && rebuild->sm.state == REBUILD_CONNECTING && mt_node_port_is_connected(port))
		rebuild_begin_listing(rebuild);
}

static const struct mt_port_events rebuild_events = { .on_link = rebuild_on_link,
	.on_objection = mt_node_port_on_objection };

static void
rebuild_on_timer(struct loop_timer *timer, void *arg)
{
	struct mt_rebuild *rebuild = arg;

	(void)timer;
	CHECK_OBJ(rebuild, REBUILD_MAGIC);
	assert(rebuild->sm.state == REBUILD_CONNECTING || rebuild->sm.state == REBUILD_TELLING);
	if (rebuild->sm.state == REBUILD_CONNECTING)
		rebuild_begin_listing(rebuild);
	else
		rebuild_told(rebuild);
}

static void
rebuild_connect(struct mt_rebuild *rebuild)
{
	assert(rebuild->sm.state == REBUILD_LOADING);
	sm_move(&rebuild->sm, REBUILD_CONNECTING);
	mt_node_port_connect(rebuild->port);
	loop_timer_start(rebuild->port->loop, &rebuild->timer,
	    rebuild->gateway->options.node_timeout_ns);
}

static void
rebuild_on_loaded(int rc, void *arg)
{
	struct mt_rebuild *rebuild = arg;

	assert(rebuild->sm.state == REBUILD_LOADING);
	CHECK_OBJ(rebuild, REBUILD_MAGIC);
	if (rc != 0) {
		rebuild_finish(rebuild, rc, "the metadata store cannot be read: %s", strerror(-rc));
		return;
	}
	if (rebuild->store.has_gateway) {
		rebuild_finish(rebuild, -EBUSY,
		    "a gateway is registered in the metadata store: stop it, or wait until its "
		    "lease has ended");
		return;
	}
	if (rebuild->store.has_cluster &&
	    rebuild->store.cluster.cluster_id != rebuild->options.gateway.cluster_id) {
		rebuild_finish(rebuild, -EXDEV,
		    "cluster-id: the metadata store belongs to cluster %016" PRIx64,
		    rebuild->store.cluster.cluster_id);
		return;
	}
	rebuild_connect(rebuild);
}

static int
rebuild_open(struct mt_rebuild *rebuild, char *ret_error, size_t error_bytes)
{
	int rc = mt_node_port_open(&rebuild->options.gateway, REBUILD_DEVICE_BYTES, &rebuild_events,
	    rebuild, &rebuild->gateway, ret_error, error_bytes);

	if (rc != 0)
		return rc;
	rebuild->port = &rebuild->gateway->ports[0];
	mt_rebuild_nodes_init(&rebuild->nodes, rebuild->port, &rebuild->survey);
	mt_rebuild_reader_init(&rebuild->reader, rebuild->port, &rebuild->survey,
	    rebuild->gateway->options.node_timeout_ns);
	return 0;
}

struct mt_rebuild *
mt_rebuild_start(const struct mt_rebuild_options *options, char *ret_error, size_t error_bytes)
{
	struct mt_rebuild *rebuild = mt_calloc(1, sizeof(*rebuild));
	int rc = 0;

	assert(options->fn != NULL && (options->gateway.meta != NULL || options->open != NULL));
	if (rebuild == NULL) {
		(void)snprintf(ret_error, error_bytes, "out of memory");
		return NULL;
	}
	rebuild->magic = REBUILD_MAGIC;
	rebuild->options = *options;
	rebuild->store.meta = options->gateway.meta;
	loop_timer_init(&rebuild->timer, rebuild_on_timer, rebuild);
	sm_init(&rebuild->sm, "rebuild", rebuild_table, REBUILD_LOADING, 0);
	if (rebuild_open(rebuild, ret_error, error_bytes) != 0)
		goto err;
	if (rebuild->store.meta == NULL)
		rebuild_connect(rebuild);
	else
		rc = mt_rebuild_store_load(&rebuild->store, rebuild_on_loaded, rebuild);
	if (rc == 0)
		return rebuild;
	(void)snprintf(ret_error, error_bytes, "the metadata store cannot be read: %s",
	    strerror(-rc));
err:
	mt_rebuild_destroy(rebuild);
	return NULL;
}

void
mt_rebuild_destroy(struct mt_rebuild *rebuild)
{
	if (rebuild == NULL)
		return;
	CHECK_OBJ(rebuild, REBUILD_MAGIC);
	loop_timer_stop(rebuild->options.gateway.loop, &rebuild->timer);
	if (rebuild->sm.state != REBUILD_DONE)
		sm_move(&rebuild->sm, REBUILD_DONE);
	if (rebuild->port != NULL)
		mt_rebuild_reader_stop(&rebuild->reader);
	mt_gateway_destroy(rebuild->gateway); /* ends every call, so reads stay until then */
	mt_rebuild_reader_fini(&rebuild->reader);
	mt_survey_fini(&rebuild->survey);
	mt_rebuild_store_fini(&rebuild->store);
	rebuild->magic = 0;
	mt_free(rebuild);
}
