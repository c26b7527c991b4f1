/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shard.c -- a shard's parts put together, and its lives: taken, served, lost, taken again
 *
 *	        wanted
 *	IDLE ---------> CLAIMING -> AGREEING -> OPENING -> REPLAYING -> SERVING
 *	 ^                  \___________\__________\___________\____________\
 *	 |                            not wanted, another's, the port ends     |
 *	 |   quiet; when it was not wanted any more, its root says so          v
 *	 +----------------------------------------------------------------- STOPPED
 *
 * takeover.c goes through the states; the way to STOPPED is mt_shard_stop alone, for a shard that is
 * another's now as for a port that is shutting down. After it the parts call nobody any more and take
 * no requests, but what is out still ends in them: calls to nodes, engine jobs, reads, calls to main.
 * The shard is *quiet* when all of that is back, and only then is everything it knew forgotten: an
 * IDLE shard owns its share of device memory, its tables, and nothing else.
 *
 * A release says in the root that its owner has stopped of its own accord, so that another gateway
 * need not wait for the end of a lease. It comes last: nothing is in flight any more that the next owner
 * could not see. Nothing is sealed for it; that is the next take-over's work.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/loop.h"
#include "common/port.h"
#include "common/port_events.h"
#include "common/root.h"
#include "common/root_ops.h"
#include "common/settings.h"
#include "common/shard.h"
#include "common/shard_events.h"
#include "extent/copy.h"
#include "extent/extent.h"
#include "extent/extent_table.h"
#include "extent/node_link.h"
#include "index/index.h"
#include "index/ring.h"
#include "index/run_load.h"
#include "manifest/manifest.h"
#include "merge/flush.h"
#include "merge/merge.h"
#include "merge/reclaim.h"
#include "merge/run_roll.h"
#include "read/read_path.h"
#include "shard/segment_drop.h"
#include "shard/shard.h"
#include "shard/takeover.h"
#include "upkeep/upkeep.h"
#include "write/cut.h"
#include "write/write_path.h"
#include "write/write_room.h"

#define SHARD_MAGIC 0x44524853u        /* "SHRD" */
#define SHARD_QUIET_MIN_NS NUM_US(100) /* how often it is looked whether all is back */
#define SHARD_QUIET_MAX_NS NUM_MS(20)
#define SHARD_RELEASE_RETRY_NS NUM_MS(100)

#define SHARD_STOP SM_TO(MT_SHARD_STOPPED)

static const struct sm_state shard_table[MT_SHARD_STATE_NR] = {
	[MT_SHARD_IDLE] = { "idle", SM_TO(MT_SHARD_CLAIMING) | SHARD_STOP, SM_INITIAL },
	[MT_SHARD_CLAIMING] = { "claiming", SM_TO(MT_SHARD_AGREEING) | SHARD_STOP, 0 },
	[MT_SHARD_AGREEING] = { "agreeing", SM_TO(MT_SHARD_OPENING) | SHARD_STOP, 0 },
	[MT_SHARD_OPENING] = { "opening", SM_TO(MT_SHARD_REPLAYING) | SHARD_STOP, 0 },
	[MT_SHARD_REPLAYING] = { "replaying", SM_TO(MT_SHARD_SERVING) | SHARD_STOP, 0 },
	[MT_SHARD_SERVING] = { "serving", SHARD_STOP, 0 },
	[MT_SHARD_STOPPED] = { "stopped", SM_TO(MT_SHARD_IDLE), 0 },
};

static void shard_stop(struct mt_shard *shard, int rc);
static void shard_on_quiet_timer(struct loop_timer *timer, void *arg);

static const struct mt_shard_events shard_events = {
	.stop = shard_stop,
	.on_stale = mt_takeover_on_stale,
	.on_room = mt_write_path_on_room,
	.on_freed = mt_write_path_on_freed,
	.on_ring = mt_write_path_kick,
};

int
mt_shard_init(struct mt_shard *shard, struct mt_port *port, uint32_t index)
{
	int rc;

	*shard = (struct mt_shard){ .port = port, .events = &shard_events, .index = index };
	list_init(&shard->root_calls);
	list_init(&shard->extent_requests);
	list_init(&shard->drops);
	loop_timer_init(&shard->quiet_timer, shard_on_quiet_timer, shard);
	sm_init(&shard->sm, "shard", shard_table, MT_SHARD_IDLE, index);
	rc = mt_takeover_init(shard);
	if (rc != 0)
		return rc;
	rc = mt_upkeep_init(shard);
	if (rc != 0)
		goto err_takeover;
	rc = mt_reclaim_init(shard);
	if (rc != 0)
		goto err_upkeep;
	shard->ring = mt_ring_create(port, port->ring_bytes);
	if (shard->ring == NULL) {
		rc = -ENOMEM;
		goto err_reclaim;
	}
	rc = mt_write_path_init(shard);
	if (rc != 0)
		goto err_ring;
	rc = mt_run_roll_init(shard);
	if (rc != 0)
		goto err_write_path;
	rc = mt_flush_init(shard);
	if (rc != 0)
		goto err_run_roll;
	shard->magic = SHARD_MAGIC;
	return 0;

err_run_roll:
	mt_run_roll_fini(shard);
err_write_path:
	mt_write_path_fini(shard);
err_ring:
	mt_ring_destroy(shard->ring, port);
err_reclaim:
	mt_reclaim_fini(shard);
err_upkeep:
	mt_upkeep_fini(shard);
err_takeover:
	mt_takeover_fini(shard);
	return rc;
}

/* ---- taken, and not wanted any more ---- */

static bool
shard_is_running(const struct mt_shard *shard)
{
	return shard->sm.state != MT_SHARD_IDLE && shard->sm.state != MT_SHARD_STOPPED;
}

void
mt_shard_want(struct mt_shard *shard, bool is_wanted)
{
	CHECK_OBJ(shard, SHARD_MAGIC);
	shard->is_wanted = is_wanted;
	if (is_wanted && shard->sm.state == MT_SHARD_IDLE) {
		mt_takeover_start(shard);
		mt_port_on_shard(shard);
	} else if (is_wanted) {
		shard->is_releasing =
		    false; /* it stays here: the next life begins when it is quiet */
	} else if (shard_is_running(shard) || shard->is_claimed) {
		/* IDLE, and its root names us: a life of it ended otherwise. Others wait for a word. */
		shard->is_releasing = true;
		mt_shard_stop(shard, -EREMCHG);
	}
}

/* ---- the end of a life ---- */

static void
shard_look_later(struct mt_shard *shard, uint64_t ns)
{
	loop_timer_start(shard->port->loop, &shard->quiet_timer, ns);
}

static void
shard_stop(struct mt_shard *shard, int rc)
{
	CHECK_OBJ(shard, SHARD_MAGIC);
	assert(rc < 0);
	if (!shard_is_running(shard) && !(shard->sm.state == MT_SHARD_IDLE && shard->is_releasing))
		return;
	/* First, so that no handler below begins anything new. */
	sm_move(&shard->sm, MT_SHARD_STOPPED);
	if (!shard->is_releasing)
		shard->is_wanted = false; /* by itself: until the next set */
	mt_cut_stop(shard, rc);
	mt_upkeep_stop(shard);
	mt_reclaim_stop(shard);
	mt_takeover_stop(shard);
	mt_flush_stop(shard);
	mt_run_roll_stop(shard);
	mt_merge_stop(shard);
	mt_manifest_stop(shard, rc);
	mt_write_path_stop(shard, rc);
	mt_read_path_on_shard(shard);
	mt_run_stop(shard);
	shard->quiet_wait_ns = SHARD_QUIET_MIN_NS;
	shard_look_later(shard, shard->quiet_wait_ns);
	mt_port_on_shard(shard);
}

bool
mt_shard_is_quiet(const struct mt_shard *shard)
{
	return shard->sm.state == MT_SHARD_STOPPED && list_is_empty(&shard->root_calls) &&
	    list_is_empty(&shard->extent_requests) && shard->read_count == 0 &&
	    mt_takeover_is_quiet(shard) && mt_manifest_is_quiet(shard) && mt_copy_is_quiet(shard) &&
	    mt_upkeep_is_quiet(shard) && mt_write_path_is_quiet(shard) && mt_run_is_quiet(shard) &&
	    mt_merge_is_quiet(shard);
}

/*
 * Extents know of the write path's batches, if any are left in flight: they go before it. Runs know of
 * their extents.
 */
static void
shard_free_index(struct mt_shard *shard)
{
	mt_index_destroy(shard->block_index);
	shard->block_index = NULL;
	mt_shard_extents_free(shard);
	shard->log = NULL;
	shard->log_bytes = 0;
}

/* Quiet: everything that its life has left is forgotten; the epoch is known still. */
static void
shard_reset(struct mt_shard *shard)
{
	mt_takeover_reset(shard);
	mt_segments_drop_reset(shard);
	mt_manifest_fini(shard);
	shard_free_index(shard);
	mt_run_roll_reset(shard);
	mt_write_path_reset(shard);
	mt_ring_reset(shard->ring);
	shard->next_counter = shard->next_sequence = shard->cut = 0;
	shard->is_releasing = false;
	sm_move(&shard->sm, MT_SHARD_IDLE);
	mt_port_on_shard(shard);
	if (shard->is_wanted)
		mt_shard_want(shard, true);
}

static void
shard_on_released(int rc, const struct mt_root *root, void *arg)
{
	struct mt_shard *shard = arg;

	(void)root;
	CHECK_OBJ(shard, SHARD_MAGIC);
	/* Somebody else's by now is as good. */
	if (rc == 0)
		log_info("shard %" PRIu32 ": released epoch=%" PRIu32, shard->index, shard->epoch);
	if (rc == 0 || rc == -ESTALE)
		shard->is_releasing = shard->is_claimed = false;
	else
		log_limited(LOG_WARN, "shard %" PRIu32 ": its root cannot be released rc=%s",
		    shard->index, log_errno(rc));
	shard_look_later(shard, rc == 0 || rc == -ESTALE ? 0 : SHARD_RELEASE_RETRY_NS);
}

static void
shard_on_loaded(int rc, const struct mt_root *root, void *arg)
{
	struct mt_shard *shard = arg;
	const struct mt_settings *settings = shard->port->settings;
	struct mt_root released;

	CHECK_OBJ(shard, SHARD_MAGIC);
	if (rc == -ENOENT || rc == -EBADMSG ||
	    (rc == 0 &&
		(root->gateway_id != settings->gateway_id || root->boot_id != settings->boot_id ||
		    root->is_released))) {
		shard_on_released(-ESTALE, NULL, shard); /* not ours */
		return;
	}
	if (rc == 0) {
		released = *root;
		released.is_released = true;
		rc = mt_root_store(shard, &released, shard_on_released, shard);
	}
	if (rc != 0)
		shard_on_released(rc, NULL, shard);
}

/* Its root may have moved while it was stopped, and a claim may have come through: read it first. */
static void
shard_release(struct mt_shard *shard)
{
	int rc = mt_root_load(shard, shard_on_loaded, shard);

	if (rc != 0)
		shard_on_released(rc, NULL, shard);
}

static void
shard_on_quiet_timer(struct loop_timer *timer, void *arg)
{
	struct mt_shard *shard = arg;

	(void)timer;
	CHECK_OBJ(shard, SHARD_MAGIC);
	assert(shard->sm.state == MT_SHARD_STOPPED);
	if (shard->port->is_closing)
		return;
	if (!mt_shard_is_quiet(shard)) {
		shard_look_later(shard, shard->quiet_wait_ns);
		shard->quiet_wait_ns = num_min(shard->quiet_wait_ns * 2, SHARD_QUIET_MAX_NS);
	} else if (shard->is_releasing) {
		shard_release(shard);
	} else {
		shard_reset(shard);
	}
}

void
mt_shard_fini(struct mt_shard *shard)
{
	if (shard->magic != SHARD_MAGIC)
		return;
	loop_timer_stop(shard->port->loop, &shard->quiet_timer);
	mt_cut_stop(shard, 0);
	mt_segments_drop_reset(shard);
	mt_root_abandon(shard);
	mt_takeover_fini(shard);
	mt_upkeep_fini(shard);
	mt_reclaim_fini(shard);
	mt_copy_fini(shard);
	mt_manifest_fini(shard);
	mt_flush_fini(shard);
	mt_merge_fini(shard);
	mt_run_roll_fini(shard);
	shard_free_index(shard);
	mt_write_path_fini(shard);
	mt_ring_destroy(shard->ring, shard->port);
	shard->magic = 0;
}

void
mt_shard_on_link(struct mt_shard *shard, struct mt_link *link, bool is_up)
{
	CHECK_OBJ(shard, SHARD_MAGIC);
	if (!shard_is_running(shard))
		return;
	mt_takeover_on_link(shard, link, is_up);
	mt_manifest_on_link(shard, link, is_up);
	for (uint32_t i = 0; i < shard->extent_count; i++) {
		if (shard->extents[i] != NULL)
			mt_extent_on_link(shard->extents[i], link, is_up);
	}
	mt_write_path_on_link(shard, link, is_up);
	mt_read_path_on_link(shard->port);
	mt_upkeep_on_link(shard, link, is_up);
	mt_reclaim_kick(shard); /* its slots count, too */
}
