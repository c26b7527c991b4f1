/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rebuild.c -- a metadata store made anew from the storage nodes; see rebuild.h
 *
 *	LOADING     every key of the store as it is
 *	CONNECTING  to all nodes, for one node_timeout
 *	LISTING     every copy of every extent, from the nodes that are up
 *	READING     of each shard the newest manifest extent with a whole checkpoint
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
#include "base/list.h"
#include "base/log.h"
#include "base/num.h"
#include "base/sm.h"
#include "catalog/place.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "cluster/gateway_state.h"
#include "common/alloc.h"
#include "common/port.h"
#include "common/shard.h"
#include "extent/list_page.h"
#include "extent/node_link.h"
#include "extent/replay.h"
#include "gateway/gateway.h"
#include "gateway/node_port.h"
#include "manifest/manifest_read.h"
#include "manifest/manifest_state.h"
#include "rebuild/rebuild_live.h"
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

struct rebuild_node {
	struct mt_rebuild *rebuild;
	struct mt_link *link;
	struct mt_call call;
	bool is_out;            /* call is */
	bool is_listed;         /* to its end */
	struct store_id obeyed; /* then */
	uint32_t node_id;
	uint32_t extent_count;
};

/* A try to read a copy of a manifest. Kept to the end: its reads may still be out. */
struct rebuild_read {
	struct loop_link link; /* rebuild->reads */
	struct mt_rebuild *rebuild;
	struct mt_shard shard; /* only what a replay asks it for */
	struct mt_replay replay;
	struct mt_manifest_read manifest;
	struct mt_manifest_state state;
};

struct mt_rebuild {
	uint32_t magic;
	struct sm sm;
	struct mt_rebuild_options options;
	struct mt_gateway *gateway; /* for its one port; never started */
	struct mt_port *port;
	struct rebuild_node nodes[MT_NODES_MAX];
	struct mt_survey survey;
	struct loop_timer timer; /* CONNECTING, TELLING: the nodes' time; READING: a copy's */
	struct loop_task task;   /* the next copy, or shard */
	struct mt_rebuild_shard shards[CLEAVE_SHARDS_MAX];
	uint32_t shard_count, shard_at, candidate_at;
	struct mt_survey_extent candidate;
	struct loop_link reads;
	struct rebuild_read *read; /* at work */
	struct mt_manifest_state mirror;
	struct mt_rebuild_store store;
	char text[512];
};

/* The last act. */
static void __attribute__((format(printf, 3, 4)))
rebuild_finish(struct mt_rebuild *rebuild, int rc, const char *format, ...)
{
	va_list args;

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

/* 0: all that were listed obey the new store. */
static uint32_t
rebuild_untold(const struct mt_rebuild *rebuild)
{
	const struct store_id *store_id = &rebuild->gateway->cluster.store_id;
	uint32_t count = 0;

	for (uint32_t i = 0; i < rebuild->port->link_count; i++) {
		const struct rebuild_node *node = &rebuild->nodes[i];

		count += node->is_listed &&
		    !(mt_link_is_up(node->link) && store_id_is_equal(&node->link->store, store_id));
	}
	return count;
}

static void
rebuild_told(struct mt_rebuild *rebuild)
{
	uint32_t untold = rebuild_untold(rebuild);

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
		mt_link_renew(rebuild->nodes[i].link);
	loop_timer_start(rebuild->port->loop, &rebuild->timer,
	    rebuild->gateway->options.node_timeout_ns);
}

/* ---- writing ---- */

static void
rebuild_on_written(int rc, void *arg)
{
	struct mt_rebuild *rebuild = arg;

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
	const struct rebuild_node *first = NULL;

	for (uint32_t i = 0; i < rebuild->port->link_count; i++) {
		const struct rebuild_node *node = &rebuild->nodes[i];

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

/* All that were listed obey the store as it is. */
static bool
rebuild_is_obeyed(const struct mt_rebuild *rebuild)
{
	for (uint32_t i = 0; i < rebuild->port->link_count; i++) {
		const struct rebuild_node *node = &rebuild->nodes[i];

		if (node->is_listed && !store_id_is_zero(&node->obeyed) &&
		    !store_id_is_equal(&node->obeyed, &rebuild->store.cluster.store_id))
			return false;
	}
	return true;
}

static uint32_t
rebuild_unlisted(const struct mt_rebuild *rebuild)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < rebuild->port->link_count; i++)
		count += rebuild->nodes[i].is_listed ? 0 : 1;
	return count;
}

/* A store that knows all that the nodes do is left alone. False: refused. */
static bool
rebuild_check_age(struct mt_rebuild *rebuild, const struct mt_rebuild_plan *plan)
{
	const struct mt_rebuild_store *store = &rebuild->store;

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
	if (!rebuild_check_age(rebuild, plan))
		return false;
	for (uint32_t i = 0; i < rebuild->shard_count; i++) {
		const struct mt_rebuild_shard *shard = &rebuild->shards[i];

		if (shard->is_uncertain &&
		    !rebuild_may(rebuild, -ENODATA,
			"shard %" PRIu32 ": its newest manifest cannot be read", i))
			return false;
		if (!shard->has_manifest &&
		    !rebuild_may(rebuild, -ENODATA,
			"shard %" PRIu32 ": no manifest was found; it would begin empty", i))
			return false;
	}
	if (rebuild->mirror.shard_count == 0)
		return rebuild_may(rebuild, -ENODATA,
		    "no node tells of the volumes: they are taken from the old store");
	return rebuild->mirror.shard_count == rebuild->shard_count ||
	    rebuild_may(rebuild, -ENODATA,
		"the nodes hold %" PRIu32 " shards, but the cluster was made with %" PRIu32,
		rebuild->shard_count, rebuild->mirror.shard_count);
}

static void
rebuild_write(struct mt_rebuild *rebuild)
{
	struct mt_rebuild_plan plan = { .cluster_id = rebuild->options.gateway.cluster_id,
		.survey = &rebuild->survey,
		.shards = rebuild->shards,
		.mirror = &rebuild->mirror,
		.epoch_margin = rebuild_unlisted(rebuild) == 0 ? 1 : REBUILD_EPOCHS_UNSEEN };
	int rc;

	/* Once more: reading may have taken long. */
	if (!rebuild_check_gateways(rebuild))
		return;
	plan.store_id = rebuild->options.gateway.store_id;
	plan.obeyed_count = rebuild->port->link_count;
	for (uint32_t i = 0; i < plan.obeyed_count; i++)
		plan.obeyed[i] = rebuild->nodes[i].obeyed;
	/* A shard above all that were found is one that nobody has ever written. */
	plan.shard_count = rebuild->shard_count;
	/* A recovery that was killed when it had made the store, and not told all. */
	if (mt_rebuild_store_is_current(&rebuild->store, &plan) && !rebuild_is_obeyed(rebuild)) {
		rebuild_tell(rebuild);
		return;
	}
	if (!rebuild_check(rebuild, &plan))
		return;
	plan.shard_count = (uint32_t)num_max(rebuild->shard_count, rebuild->mirror.shard_count);
	rc = mt_rebuild_store_plan(&rebuild->store, &plan);
	if (rc == 0) {
		sm_move(&rebuild->sm, REBUILD_WRITING);
		rc = mt_rebuild_store_write(&rebuild->store, rebuild_on_written, rebuild);
	}
	if (rc != 0)
		rebuild_finish(rebuild, rc, "the metadata store cannot be made: %s", strerror(-rc));
}

/* ---- reading ---- */

static void
rebuild_shard_done(struct mt_rebuild *rebuild)
{
	const struct mt_rebuild_shard *shard = &rebuild->shards[rebuild->shard_at];
	const struct extent_id *id = &shard->manifest.id;

	if (shard->has_manifest)
		log_info("recover: shard %" PRIu32 ": manifest=%" PRIu32 ".%" PRIu32 ".%" PRIu64
			 " copies=%" PRIu32 " extents=%" PRIu32 " missing=%" PRIu32
			 " epoch_seen=%" PRIu32,
		    rebuild->shard_at, id->shard, id->epoch, id->counter, shard->manifest.count,
		    shard->extent_count, shard->missing_count, shard->epoch_seen);
	else
		log_warn("recover: shard %" PRIu32 ": no manifest epoch_seen=%" PRIu32,
		    rebuild->shard_at, shard->epoch_seen);
	rebuild->shard_at++;
	rebuild->candidate_at = 0;
	for (uint32_t i = 0; i < rebuild->port->link_count; i++)
		mt_link_refresh(&rebuild->port->links[i]); /* for rebuild_check_gateways */
}

/* Extents that the manifest names and nobody has shown: the shard will wait for their nodes. */
static void
rebuild_count(struct mt_rebuild *rebuild, struct mt_rebuild_shard *shard,
    const struct mt_manifest_state *state)
{
	struct mt_survey_extent extent;

	shard->extent_count = state->extent_count;
	for (uint32_t i = 0; i < state->extent_count; i++)
		shard->missing_count +=
		    mt_survey_find(&rebuild->survey, &state->extents[i].id, &extent) ? 0 : 1;
}

/* A copy was read to its end, or could not be. */
static void
rebuild_read_done(struct mt_rebuild *rebuild, int rc)
{
	struct mt_rebuild_shard *shard = &rebuild->shards[rebuild->shard_at];
	struct rebuild_read *read = rebuild->read;

	rebuild->read = NULL;
	loop_timer_stop(rebuild->port->loop, &rebuild->timer);
	if (rc != 0) {
		log_warn("recover: shard %" PRIu32 ": cannot read manifest %" PRIu32 ".%" PRIu32
			 ".%" PRIu64 " node=%" PRIu32 " rc=%s",
		    rebuild->shard_at, read->manifest.head.id.shard, read->manifest.head.id.epoch,
		    read->manifest.head.id.counter, read->manifest.head.replicas[0].node_id,
		    log_errno(rc));
	} else if (read->state.is_complete) {
		shard->has_manifest = true;
		shard->manifest = rebuild->candidate;
		rebuild_count(rebuild, shard, &read->state);
		if (rebuild->shard_at == 0) {
			rebuild->mirror = read->state;
			mt_manifest_state_init(&read->state);
		}
		rebuild_shard_done(rebuild);
	} else {
		rebuild->candidate_at++; /* it never was a root's */
	}
	loop_defer(rebuild->port->loop, &rebuild->task);
}

static void
rebuild_on_read(int rc, void *arg)
{
	struct rebuild_read *read = arg;

	if (read->rebuild->read == read)
		rebuild_read_done(read->rebuild, rc);
}

static int
rebuild_read_copy(struct mt_rebuild *rebuild, const struct mt_survey_copy *copy)
{
	struct rebuild_read *read = mt_calloc(1, sizeof(*read));
	int rc;

	if (read == NULL)
		return -ENOMEM;
	read->rebuild = rebuild;
	read->shard.port = rebuild->port;
	read->shard.index = copy->id.shard;
	read->shard.epoch = mt_survey_epoch(&rebuild->survey, copy->id.shard);
	read->manifest.head = (struct mt_replay_source){ .id = copy->id,
		.kind = EXTENT_MANIFEST,
		.replicas = { { .node_id = copy->node_id, .incarnation = copy->incarnation } },
		.replica_count = 1,
		.length_bytes = copy->length_bytes };
	read->replay.shard = &read->shard;
	read->manifest.replay = &read->replay;
	read->manifest.state = &read->state;
	read->manifest.fn = rebuild_on_read;
	read->manifest.arg = read;
	mt_manifest_state_init(&read->state);
	rc = mt_manifest_read_start(&read->manifest);
	if (rc != 0) {
		mt_free(read);
		return rc;
	}
	list_push_back(&rebuild->reads, &read->link);
	rebuild->read = read;
	loop_timer_start(rebuild->port->loop, &rebuild->timer,
	    rebuild->gateway->options.node_timeout_ns);
	return 0;
}

/* The next copy of this candidate, the next candidate, the next shard, or the end. */
static void
rebuild_on_task(struct loop_task *task, void *arg)
{
	struct mt_rebuild *rebuild = arg;

	(void)task;
	CHECK_OBJ(rebuild, REBUILD_MAGIC);
	assert(rebuild->sm.state == REBUILD_READING);
	while (rebuild->shard_at < rebuild->shard_count) {
		struct mt_rebuild_shard *shard = &rebuild->shards[rebuild->shard_at];
		struct mt_survey_copy *copy;
		int rc;

		if (!mt_survey_manifest(&rebuild->survey, rebuild->shard_at, rebuild->candidate_at,
			&rebuild->candidate)) {
			rebuild_shard_done(rebuild);
			continue;
		}
		copy = mt_survey_best_copy(&rebuild->survey, &rebuild->candidate);
		if (copy == NULL) {
			shard->is_uncertain = true;
			rebuild->candidate_at++;
			continue;
		}
		copy->is_tried = true;
		rc = rebuild_read_copy(rebuild, copy);
		if (rc != 0)
			rebuild_finish(rebuild, rc, "out of memory");
		return;
	}
	rebuild_write(rebuild);
}

static void
rebuild_begin_reading(struct mt_rebuild *rebuild)
{
	uint32_t unlisted = rebuild_unlisted(rebuild);
	uint32_t wanted = rebuild->options.gateway.shard_count;

	mt_survey_sort(&rebuild->survey);
	rebuild->shard_count = mt_survey_shard_count(&rebuild->survey);
	for (uint32_t i = 0; i < rebuild->shard_count; i++)
		rebuild->shards[i].epoch_seen = mt_survey_epoch(&rebuild->survey, i);
	if (rebuild->shard_count == 0) {
		rebuild_finish(rebuild, -ENODATA, "the nodes hold no extent: there is no cluster");
		return;
	}
	if (wanted != 0 && wanted != rebuild->shard_count) {
		rebuild_finish(rebuild, -EINVAL,
		    "the nodes hold extents of %" PRIu32 " shards, not of %" PRIu32,
		    rebuild->shard_count, wanted);
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
	loop_defer(rebuild->port->loop, &rebuild->task);
}

/* ---- listing ---- */

static void rebuild_list(struct rebuild_node *node, uint64_t cursor);

static void
rebuild_list_done(struct mt_rebuild *rebuild)
{
	for (uint32_t i = 0; i < rebuild->port->link_count; i++) {
		if (rebuild->nodes[i].is_out)
			return;
	}
	for (uint32_t i = 0; i < rebuild->port->link_count; i++) {
		const struct rebuild_node *node = &rebuild->nodes[i];

		if (node->is_listed)
			log_info("recover: node %" PRIu32 ": address=%s extents=%" PRIu32,
			    node->node_id, node->link->config.address, node->extent_count);
		else
			log_warn("recover: node at %s was not reached", node->link->config.address);
	}
	rebuild_begin_reading(rebuild);
}

static void
rebuild_list_failed(struct rebuild_node *node, int rc)
{
	log_warn("recover: node at %s: its list broke off rc=%s", node->link->config.address,
	    log_errno(rc));
	mt_survey_drop_node(&node->rebuild->survey, node->node_id);
	rebuild_list_done(node->rebuild);
}

static int
rebuild_take_listed(const struct wire_listed *listed, void *arg)
{
	struct rebuild_node *node = arg;
	int rc = mt_survey_add(&node->rebuild->survey, node->node_id, listed);

	if (rc == 0)
		node->extent_count++;
	return rc;
}

static void
rebuild_on_listed(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg)
{
	struct rebuild_node *node = arg;
	uint64_t cursor = reply == NULL ? 0 : reply->offset_bytes;

	CHECK_OBJ(node->rebuild, REBUILD_MAGIC);
	node->is_out = false;
	if (rc == 0)
		rc = mt_list_page(node->rebuild->port, call, reply, msg, rebuild_take_listed, node);
	if (msg != NULL)
		split_msg_release(msg);
	if (node->rebuild->sm.state != REBUILD_LISTING)
		return;
	if (rc != 0) {
		rebuild_list_failed(node, rc);
	} else if (cursor != 0) {
		rebuild_list(node, cursor);
	} else {
		node->is_listed = true;
		node->obeyed = node->link->store;
		rebuild_list_done(node->rebuild);
	}
}

static void
rebuild_list(struct rebuild_node *node, uint64_t cursor)
{
	int rc;

	node->call.request = (struct wire_node){ .opcode = WIRE_EXTENT_LIST,
		.id = { .shard = UINT32_MAX },
		.offset_bytes = cursor };
	node->call.fn = rebuild_on_listed;
	node->call.arg = node;
	rc = mt_link_call(node->link, &node->call);
	node->is_out = rc == 0;
	if (rc != 0)
		rebuild_list_failed(node, rc);
}

static void
rebuild_begin_listing(struct mt_rebuild *rebuild)
{
	uint32_t up = 0;

	loop_timer_stop(rebuild->port->loop, &rebuild->timer);
	if (!rebuild_check_gateways(rebuild))
		return;
	sm_move(&rebuild->sm, REBUILD_LISTING);
	for (uint32_t i = 0; i < rebuild->port->link_count; i++) {
		struct rebuild_node *node = &rebuild->nodes[i];

		for (uint32_t k = 0; k < i && node->link->node_id != 0; k++) {
			if (rebuild->nodes[k].link->node_id != node->link->node_id)
				continue;
			rebuild_finish(rebuild, -EINVAL,
			    "%s and %s both say that they are node %" PRIu32,
			    rebuild->nodes[k].link->config.address, node->link->config.address,
			    node->link->node_id);
			return;
		}
	}
	for (uint32_t i = 0; i < rebuild->port->link_count; i++) {
		struct rebuild_node *node = &rebuild->nodes[i];

		if (!mt_link_is_up(node->link))
			continue;
		up++;
		node->node_id = node->link->node_id;
		node->is_out = true; /* none ends the listing before all were asked */
	}
	for (uint32_t i = 0; i < rebuild->port->link_count; i++) {
		if (rebuild->nodes[i].is_out)
			rebuild_list(&rebuild->nodes[i], 0);
	}
	if (up == 0)
		rebuild_finish(rebuild, -ENODATA, "no node was reached");
}

/* ---- connecting ---- */

static void
rebuild_on_link(struct mt_port *port, struct mt_link *link, bool is_up)
{
	struct mt_rebuild *rebuild = port->events_arg;

	(void)link;
	CHECK_OBJ(rebuild, REBUILD_MAGIC);
	if (rebuild->read != NULL)
		mt_replay_on_link(&rebuild->read->replay, link, is_up);
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
	if (rebuild->sm.state == REBUILD_CONNECTING) {
		rebuild_begin_listing(rebuild);
		return;
	}
	if (rebuild->sm.state == REBUILD_TELLING) {
		rebuild_told(rebuild);
		return;
	}
	assert(rebuild->read != NULL);
	mt_replay_stop(&rebuild->read->replay);
	rebuild_read_done(rebuild, -ETIMEDOUT);
}

static void
rebuild_on_loaded(int rc, void *arg)
{
	struct mt_rebuild *rebuild = arg;

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
	sm_move(&rebuild->sm, REBUILD_CONNECTING);
	mt_node_port_connect(rebuild->port);
	loop_timer_start(rebuild->port->loop, &rebuild->timer,
	    rebuild->gateway->options.node_timeout_ns);
}

static int
rebuild_open(struct mt_rebuild *rebuild, char *ret_error, size_t error_bytes)
{
	int rc = mt_node_port_open(&rebuild->options.gateway, REBUILD_DEVICE_BYTES, &rebuild_events,
	    rebuild, &rebuild->gateway, ret_error, error_bytes);

	if (rc != 0)
		return rc;
	rebuild->port = &rebuild->gateway->ports[0];
	for (uint32_t i = 0; i < rebuild->port->link_count; i++) {
		rebuild->nodes[i].rebuild = rebuild;
		rebuild->nodes[i].link = &rebuild->port->links[i];
	}
	return 0;
}

struct mt_rebuild *
mt_rebuild_start(const struct mt_rebuild_options *options, char *ret_error, size_t error_bytes)
{
	struct mt_rebuild *rebuild = mt_calloc(1, sizeof(*rebuild));
	int rc;

	if (rebuild == NULL) {
		(void)snprintf(ret_error, error_bytes, "out of memory");
		return NULL;
	}
	rebuild->magic = REBUILD_MAGIC;
	rebuild->options = *options;
	rebuild->store.meta = options->gateway.meta;
	list_init(&rebuild->reads);
	mt_manifest_state_init(&rebuild->mirror);
	loop_timer_init(&rebuild->timer, rebuild_on_timer, rebuild);
	loop_task_init(&rebuild->task, rebuild_on_task, rebuild);
	sm_init(&rebuild->sm, "rebuild", rebuild_table, REBUILD_LOADING, 0);
	if (rebuild_open(rebuild, ret_error, error_bytes) != 0)
		goto err;
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
	struct mt_port no_port = { 0 };
	struct loop_link *link, *next;

	if (rebuild == NULL)
		return;
	CHECK_OBJ(rebuild, REBUILD_MAGIC);
	no_port.loop = rebuild->options.gateway.loop;
	loop_timer_stop(no_port.loop, &rebuild->timer);
	loop_task_cancel(no_port.loop, &rebuild->task);
	rebuild->read = NULL;
	if (rebuild->sm.state != REBUILD_DONE)
		sm_move(&rebuild->sm, REBUILD_DONE);
	LIST_FOREACH_SAFE(&rebuild->reads, link, next)
		mt_replay_stop(&LIST_ENTRY(link, struct rebuild_read, link)->replay);
	mt_gateway_destroy(rebuild->gateway); /* ends every call, so reads stay until then */
	while ((link = list_pop_front(&rebuild->reads)) != NULL) {
		struct rebuild_read *read = LIST_ENTRY(link, struct rebuild_read, link);

		read->shard.port = &no_port;
		mt_replay_fini(&read->replay);
		mt_manifest_read_fini(&read->manifest);
		mt_manifest_state_fini(&read->state);
		mt_free(read);
	}
	mt_manifest_state_fini(&rebuild->mirror);
	mt_survey_fini(&rebuild->survey);
	mt_rebuild_store_fini(&rebuild->store);
	rebuild->magic = 0;
	mt_free(rebuild);
}
