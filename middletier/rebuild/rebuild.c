/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rebuild.c -- a metadata store made anew from the storage nodes; see rebuild.h
 *
 *	LOADING     every key of the store as it is; skipped where there is none
 *	CONNECTING  to all nodes, for one node_timeout
 *	LISTING     every copy of every extent, from the nodes that are up (rebuild_nodes.c)
 *	READING     of each shard the newest manifest extent with a whole checkpoint (rebuild_read.c)
 *	WAITING     until no read lease lasts: a mirror, or a dump, may know of none (session/LEASES.md)
 *	WRITING     roots that name them, volumes, the key "cluster" with a new identity (rebuild_store.c)
 *	TELLING     the nodes that were listed: they obey the new store; others are told by the next gateway, from the key
 *
 * With options.copy the keys are another store's (rebuild_copy.c). Then the nodes are asked for what speaks
 * against it, and the store is loaded for what is in the way.
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
#include "base/mutant.h"
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
#include "rebuild/rebuild_copy.h"
#include "rebuild/rebuild_judge.h"
#include "rebuild/rebuild_live.h"
#include "rebuild/rebuild_nodes.h"
#include "rebuild/rebuild_old.h"
#include "rebuild/rebuild_read.h"
#include "rebuild/rebuild_revoked.h"
#include "rebuild/rebuild_store.h"
#include "rebuild/survey.h"
#include "session/read_lease.h"

#define REBUILD_MAGIC 0x4c424552u /* "REBL" */
#define REBUILD_DEVICE_BYTES NUM_MIB(16)
/* Two leases of a gateway on an etcd, as they are by default, and some. */
#define REBUILD_LEASE_WAIT_NS NUM_S(25)
#define REBUILD_LEASE_LOOK_NS NUM_MS(500)
/* Epochs that a node which did not answer may know of, each a start that was not seen elsewhere. */
#define REBUILD_EPOCHS_UNSEEN 1024u

enum rebuild_machine {
	REBUILD_LOADING,
	REBUILD_CONNECTING,
	REBUILD_LISTING,
	REBUILD_READING,
	REBUILD_WAITING,
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
	    SM_TO(REBUILD_WAITING) | SM_TO(REBUILD_TELLING) | SM_TO(REBUILD_DONE), 0 },
	[REBUILD_WAITING] = { "waiting", SM_TO(REBUILD_WRITING) | SM_TO(REBUILD_DONE), 0 },
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
	struct loop_timer timer;      /* LOADING: until the next look; WAITING; the nodes' time */
	uint64_t lease_wait_until_ns; /* for the end of a gateway's lease; 0: none was met */
	struct mt_rebuild_judge judge;
	char text[MT_REBUILD_TEXT_BYTES];
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

/* The last act: what the judge did not let pass. */
static void
rebuild_refuse(struct mt_rebuild *rebuild)
{
	assert(rebuild->judge.rc < 0);
	rebuild_finish(rebuild, rebuild->judge.rc, "%s", rebuild->judge.text);
}

/* False: refused. What is known is as old as each node's last status. */
static bool
rebuild_check_gateways(struct mt_rebuild *rebuild)
{
	char text[sizeof(rebuild->text)];
	int rc =
	    mt_rebuild_live_check(rebuild->port, rebuild->options.must_take, text, sizeof(text));

	assert(rebuild->sm.state == REBUILD_CONNECTING || rebuild->sm.state == REBUILD_READING);
	if (rc != 0)
		rebuild_finish(rebuild, rc, "%s", text);
	return rc == 0;
}

static void rebuild_connect(struct mt_rebuild *rebuild);

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
	if (rebuild->store.dropped_user_count == 0)
		rebuild_finish(rebuild, 0, "the metadata store is whole");
	else
		rebuild_finish(rebuild, 0,
		    "the metadata store is whole; %" PRIu32
		    " users were dropped, who are named above: add those again who shall have rights "
		    "(cleave user add)",
		    rebuild->store.dropped_user_count);
}

static void
rebuild_tell(struct mt_rebuild *rebuild)
{
	assert(!store_id_is_zero(&rebuild->store.cluster.store_id));
	sm_move(&rebuild->sm, REBUILD_TELLING);
	rebuild->gateway->cluster = rebuild->store.cluster;
	for (uint32_t i = 0; i < rebuild->port->link_count; i++)
		mt_link_renew(&rebuild->port->links[i], "the metadata store is a new one");
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

/* The plan is good. Where there was no store it is made now, and not for a rebuild that is refused. */
static void
rebuild_write_plan(struct mt_rebuild *rebuild)
{
	struct mt_rebuild_store *store = &rebuild->store;
	struct mt_rebuild_copy *copy = rebuild->options.copy;
	char error[MT_ERROR_BYTES] = "";
	int rc;

	sm_move(&rebuild->sm, REBUILD_WRITING);
	if (store->meta == NULL)
		store->meta = rebuild->options.open(error, sizeof(error), rebuild->options.arg);
	if (store->meta == NULL) {
		rebuild_finish(rebuild, -EIO, "the metadata store cannot be made: %s", error);
		return;
	}
	rc = copy == NULL ? mt_rebuild_store_write(store, rebuild_on_written, rebuild)
			  : mt_rebuild_copy_write(copy, store->meta, &store->cluster,
				rebuild_on_written, rebuild);
	if (rc != 0)
		rebuild_finish(rebuild, rc, "the metadata store cannot be written: %s",
		    strerror(-rc));
}

static void
rebuild_wait(struct mt_rebuild *rebuild)
{
	loop_timer_start(rebuild->port->loop, &rebuild->timer,
	    MUTANT(recover_unwaited) ? 0 : MT_READ_LEASE_NS);
}

/* ---- a copy of another store ---- */

void
mt_rebuild_settled(struct mt_rebuild *rebuild, int rc, const char *text)
{
	CHECK_OBJ(rebuild, REBUILD_MAGIC);
	assert(rebuild->sm.state == REBUILD_WAITING);
	if (rc != 0)
		rebuild_finish(rebuild, rc, "%s", text);
	else
		rebuild_wait(rebuild);
}

static void
rebuild_copy(struct mt_rebuild *rebuild)
{
	struct mt_rebuild_copy *copy = rebuild->options.copy;
	char text[sizeof(rebuild->text)];
	const char *lists;
	int rc = mt_rebuild_revoked_copy(&rebuild->nodes, copy, &lists);

	if (rc == 0)
		rc = mt_rebuild_copy_plan(copy, &rebuild->reader,
		    &rebuild->options.gateway.store_id, lists, &rebuild->store.cluster, text,
		    sizeof(text));
	else
		(void)snprintf(text, sizeof(text), "%s", strerror(-rc));

	assert(rebuild->sm.state == REBUILD_READING && copy != NULL);
	if (rc != 0) {
		rebuild_finish(rebuild, rc, "%s", text);
		return;
	}
	sm_move(&rebuild->sm, REBUILD_WAITING);
	if (copy->settle != NULL)
		copy->settle(rebuild, copy->arg);
	else
		rebuild_wait(rebuild);
}

/* The target may be written, or @text says why not. */
static void
rebuild_on_target(int rc, const char *text, void *arg)
{
	struct mt_rebuild *rebuild = arg;

	CHECK_OBJ(rebuild, REBUILD_MAGIC);
	assert(rebuild->sm.state == REBUILD_LOADING);
	if (rc != 0)
		rebuild_finish(rebuild, rc, "%s", text);
	else
		rebuild_connect(rebuild);
}

/* ---- what is to be written ---- */

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
	if (rebuild->options.copy != NULL) {
		rebuild_copy(rebuild);
		return;
	}
	plan.store_id = rebuild->options.gateway.store_id;
	plan.kms = rebuild->options.gateway.kms;
	plan.obeyed_count = rebuild->port->link_count;
	for (uint32_t i = 0; i < plan.obeyed_count; i++)
		plan.obeyed[i] = rebuild->nodes.node[i].obeyed;
	/* A shard above all that were found is one that nobody has ever written. */
	plan.shard_count = reader->shard_count;
	/* A recovery that was killed when it had made the store, and not told all. */
	if (mt_rebuild_judge_is_current(&rebuild->store, &plan) &&
	    !mt_rebuild_nodes_obey(&rebuild->nodes, &rebuild->store.cluster.store_id)) {
		rebuild_tell(rebuild);
		return;
	}
	if (!mt_rebuild_judge_plan(&rebuild->judge, &rebuild->store, reader, &plan)) {
		rebuild_refuse(rebuild);
		return;
	}
	plan.is_old_trusted = mt_rebuild_old_is_trusted(&rebuild->store, &plan);
	plan.shard_count = (uint32_t)num_max(reader->shard_count, reader->mirror.shard_count);
	rc = mt_rebuild_store_plan(&rebuild->store, &plan);
	if (rc == 0)
		rc = mt_rebuild_revoked_plan(&rebuild->nodes, &rebuild->store);
	if (rc != 0) {
		rebuild_finish(rebuild, rc, "the metadata store cannot be made: %s", strerror(-rc));
		return;
	}
	sm_move(&rebuild->sm, REBUILD_WAITING);
	rebuild_wait(rebuild);
}

/* ---- reading ---- */

static void
rebuild_on_read(int rc, void *arg)
{
	struct mt_rebuild *rebuild = arg;

	CHECK_OBJ(rebuild, REBUILD_MAGIC);
	assert(rebuild->sm.state == REBUILD_READING);
	if (rc == -EPROTONOSUPPORT)
		rebuild_finish(rebuild, rc, "a newer release has written shard %" PRIu32 "%s",
		    rebuild->reader.shard_at, ": run cleave recover of that one");
	else if (rc != 0)
		rebuild_finish(rebuild, rc, "out of memory");
	else
		rebuild_write(rebuild);
}

static void
rebuild_begin_reading(struct mt_rebuild *rebuild)
{
	uint32_t unlisted = mt_rebuild_nodes_unlisted(&rebuild->nodes);
	uint32_t wanted = rebuild->options.gateway.shard_count, count;
	bool is_copy = rebuild->options.copy != NULL; /* of a cluster that may be empty */

	assert(rebuild->sm.state == REBUILD_LISTING);
	mt_survey_sort(&rebuild->survey);
	mt_rebuild_reader_count(&rebuild->reader);
	count = rebuild->reader.shard_count;
	if (count == 0 && !is_copy) {
		rebuild_finish(rebuild, -ENODATA, "the nodes hold no extent: there is no cluster");
		return;
	}
	if (wanted != 0 && wanted != count && !is_copy) {
		rebuild_finish(rebuild, -EINVAL,
		    "the nodes hold extents of %" PRIu32 " shards, not of %" PRIu32, count, wanted);
		return;
	}
	if (!mt_rebuild_judge_stores(&rebuild->judge, &rebuild->store, &rebuild->nodes, is_copy)) {
		rebuild_refuse(rebuild);
		return;
	}
	/* Fewer than a manifest has copies: one at least of each was seen. */
	if (unlisted >= rebuild->gateway->options.min_replicas &&
	    !mt_rebuild_judge_may(&rebuild->judge, -ENODATA,
		"%" PRIu32
		" nodes were not reached, and something newer may be there (start them first)",
		unlisted)) {
		rebuild_refuse(rebuild);
		return;
	}
	sm_move(&rebuild->sm, REBUILD_READING);
	if (count == 0)
		rebuild_write(rebuild);
	else
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

	assert(rebuild->sm.state == REBUILD_CONNECTING);
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

static void rebuild_load(struct mt_rebuild *rebuild);

static void
rebuild_on_timer(struct loop_timer *timer, void *arg)
{
	struct mt_rebuild *rebuild = arg;

	(void)timer;
	CHECK_OBJ(rebuild, REBUILD_MAGIC);
	if (rebuild->sm.state == REBUILD_LOADING)
		rebuild_load(rebuild);
	else if (rebuild->sm.state == REBUILD_CONNECTING)
		rebuild_begin_listing(rebuild);
	else if (rebuild->sm.state == REBUILD_WAITING)
		rebuild_write_plan(rebuild);
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

/* A gateway that died is registered until its lease ends; where nobody else is left to end it, we are. */
static bool
rebuild_awaits_lease(struct mt_rebuild *rebuild)
{
	uint64_t now_ns = loop_now_ns(rebuild->port->loop);

	assert(rebuild->sm.state == REBUILD_LOADING && rebuild->store.meta != NULL);
	if (!rebuild->store.meta->ops->are_leases_observed)
		return false;
	if (rebuild->lease_wait_until_ns == 0) {
		rebuild->lease_wait_until_ns = now_ns + REBUILD_LEASE_WAIT_NS;
		log_info("recover: a gateway is registered in the metadata store: waiting until "
			 "its lease ends, if it is dead");
	}
	if (now_ns >= rebuild->lease_wait_until_ns)
		return false;
	loop_timer_start(rebuild->port->loop, &rebuild->timer, REBUILD_LEASE_LOOK_NS);
	return true;
}

static void
rebuild_on_loaded(int rc, void *arg)
{
	struct mt_rebuild *rebuild = arg;
	char text[sizeof(rebuild->text)];

	assert(rebuild->sm.state == REBUILD_LOADING);
	CHECK_OBJ(rebuild, REBUILD_MAGIC);
	if (rc != 0) {
		rebuild_finish(rebuild, rc, "the metadata store cannot be read: %s", strerror(-rc));
		return;
	}
	if (rebuild->store.has_gateway && rebuild_awaits_lease(rebuild))
		return;
	rc = mt_rebuild_store_judge(&rebuild->store, rebuild->options.gateway.cluster_id, text,
	    sizeof(text));
	if (rc == 0 || (rc == -EREMCHG && mt_rebuild_judge_may(&rebuild->judge, rc, "%s", text)))
		rebuild_connect(rebuild);
	else
		rebuild_finish(rebuild, rc, "%s", text);
}

static void
rebuild_load(struct mt_rebuild *rebuild)
{
	int rc = mt_rebuild_store_load(&rebuild->store, rebuild_on_loaded, rebuild);

	assert(rebuild->sm.state == REBUILD_LOADING);
	if (rc != 0)
		rebuild_on_loaded(rc, rebuild);
}

static int
rebuild_open(struct mt_rebuild *rebuild, char *ret_error, size_t error_bytes)
{
	int rc = mt_node_port_open(&rebuild->options.gateway, REBUILD_DEVICE_BYTES, &rebuild_events,
	    rebuild, &rebuild->gateway, ret_error, error_bytes);

	assert(rebuild->sm.state == REBUILD_LOADING);
	if (rc != 0)
		return rc;
	rebuild->port = &rebuild->gateway->ports[0];
	mt_rebuild_nodes_init(&rebuild->nodes, rebuild->port, &rebuild->survey);
	mt_rebuild_reader_init(&rebuild->reader, rebuild->port, &rebuild->survey, &rebuild->nodes,
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
	rebuild->judge.is_forced = options->is_forced;
	rebuild->store.meta = options->gateway.meta;
	loop_timer_init(&rebuild->timer, rebuild_on_timer, rebuild);
	sm_init(&rebuild->sm, "rebuild", rebuild_table, REBUILD_LOADING, 0);
	if (rebuild_open(rebuild, ret_error, error_bytes) != 0)
		goto err;
	rebuild->store.has_cluster = options->copy != NULL;
	if (options->copy != NULL)
		rebuild->store.cluster = options->copy->cluster;
	if (rebuild->store.meta == NULL)
		rebuild_connect(rebuild);
	else if (options->copy != NULL)
		rc = mt_rebuild_copy_load(options->copy, rebuild->store.meta, rebuild_on_target,
		    rebuild);
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
	mt_rebuild_nodes_fini(&rebuild->nodes);
	mt_rebuild_reader_fini(&rebuild->reader);
	mt_survey_fini(&rebuild->survey);
	mt_rebuild_store_fini(&rebuild->store);
	rebuild->magic = 0;
	mt_free(rebuild);
}
