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
 * The shard is *quiet* when all of that is back, and only then is everything it knew forgotten, and the
 * memory that it had of its port goes back: a ring, what writes need. An IDLE shard owns a few structs,
 * so a port may have many more shards than are ever here at once.
 *
 * A shard that is wanted, and finds no such memory, stays IDLE: it tells nobody that it comes, claims
 * nothing, and tries again when its timer says so. It is `short`: the log names --device-memory.
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
#include "base/mutant.h"
#include "base/num.h"
#include "base/sm.h"
#include "catalog/cluster_key.h"
#include "cleave/loop.h"
#include "common/alloc.h"
#include "common/event.h"
#include "common/limits.h"
#include "common/port.h"
#include "common/port_events.h"
#include "common/root.h"
#include "common/root_ops.h"
#include "common/settings.h"
#include "common/shard.h"
#include "common/shard_events.h"
#include "extent/copy.h"
#include "extent/copy_list.h"
#include "extent/extent.h"
#include "extent/extent_copies.h"
#include "extent/extent_table.h"
#include "extent/node_link.h"
#include "index/index.h"
#include "index/ring.h"
#include "index/run_load.h"
#include "manifest/manifest.h"
#include "merge/flush.h"
#include "merge/merge.h"
#include "merge/merge_port.h"
#include "merge/reclaim.h"
#include "merge/run_roll.h"
#include "read/read_path.h"
#include "shard/part.h"
#include "shard/segment_drop.h"
#include "shard/shard.h"
#include "shard/shard_life.h"
#include "shard/takeover.h"
#include "upkeep/upkeep.h"
#include "write/cut.h"
#include "write/write_path.h"
#include "write/write_room.h"

#define SHARD_MAGIC 0x44524853u        /* "SHRD" */
#define SHARD_QUIET_MIN_NS NUM_US(100) /* how often it is looked whether all is back */
#define SHARD_QUIET_MAX_NS NUM_MS(20)
#define SHARD_RELEASE_RETRY_NS NUM_MS(100)
#define SHARD_TAKE_RETRY_NS NUM_MS(200) /* how often a shard that is short looks for memory */
#define SHARD_SHORT_TOLD 2u /* once, not for those that only wait for others to be quiet */

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

/* ---- its parts ---- */

/* -ENOBUFS: all of the port's rings are taken. */
static int
ring_take(struct mt_shard *shard)
{
	struct mt_port *port = shard->port;

	assert(shard->ring == NULL);
	assert(port->ring_count <= port->ring_max);
	if (port->ring_count == port->ring_max)
		return -ENOBUFS;
	shard->ring = mt_ring_create(port, port->ring_bytes);
	if (shard->ring == NULL)
		return -ENOMEM;
	port->ring_count++;
	return 0;
}

/* Nobody reads or writes it any more: not a batch, not an engine, not a read. */
static void
ring_reset(struct mt_shard *shard)
{
	if (shard->ring != NULL)
		mt_ring_reset(shard->ring);
}

static void
ring_give(struct mt_shard *shard)
{
	if (shard->ring == NULL)
		return;
	assert(shard->port->ring_count > 0);
	shard->port->ring_count--;
	mt_ring_destroy(shard->ring, shard->port);
	shard->ring = NULL;
}

static void
reads_on_link(struct mt_shard *shard, struct mt_link *link, bool is_up)
{
	(void)link;
	(void)is_up;
	mt_read_path_on_link(shard->port);
}

static void
extents_on_link(struct mt_shard *shard, struct mt_link *link, bool is_up)
{
	for (uint32_t i = 0; i < shard->extent_count; i++) {
		if (shard->extents[i] != NULL)
			mt_extent_on_link(shard->extents[i], link, is_up);
	}
}

static void
extents_fini(struct mt_shard *shard)
{
	mt_shard_extents_free(shard);
	shard->log = NULL;
	shard->log_bytes = 0;
}

static void
index_fini(struct mt_shard *shard)
{
	mt_index_destroy(shard->block_index);
	shard->block_index = NULL;
}

static void
cut_fini(struct mt_shard *shard)
{
	mt_cut_stop(shard, 0);
}

static int
root_init(struct mt_shard *shard)
{
	list_init(&shard->root_calls);
	shard->root = mt_calloc(1, sizeof(*shard->root));
	return shard->root == NULL ? -ENOMEM : 0;
}

static void
root_fini(struct mt_shard *shard)
{
	mt_root_abandon(shard);
	mt_free(shard->root);
	shard->root = NULL;
}

static bool
roots_are_quiet(const struct mt_shard *shard)
{
	return list_is_empty(&shard->root_calls);
}

static void
background_on_link(struct mt_shard *shard, struct mt_link *link, bool is_up)
{
	mt_upkeep_on_link(shard, link, is_up);
	mt_reclaim_kick(shard); /* its slots count, too */
}

/*
 * The parts of a shard. Init goes down this list, all else goes up, because of:
 *
 *	stop     Cut, upkeep, reclaim, flush, run_roll and merge wait for commits, flush for merges. They stand
 *	         below manifest and merge, so they have stopped, and do nothing, when these end what waits
 *	         in them. A cut that had not stopped would even answer the writes that it holds back with
 *	         success. The log's roll hears of its commit, and stops next, with the write path. Reads
 *	         come after the write path, which says how those that wait are answered; loads of runs come
 *	         last, for a read that is looked at once more may begin one.
 *	fini     Extents know of the write path's batches, runs of their extents, merges of runs, and run_roll
 *	         of an extent: each stands below what it knows of.
 *	start    Background work begins before the writes and reads that were parked.
 *	on_link  What clients wait for goes first. Upkeep and reclaim, which stop early, hear of a link last:
 *	         for that alone there is a part of its own, on top.
 *	take     The write path takes a piece of the ring.
 *
 * For reset, when all is quiet, any order would do that has the index before the extents. Flush, reclaim
 * and run_roll have no is_quiet: they wait only for commits, merges and extents' requests, which have one.
 */
static const struct mt_part shard_parts[] = {
	{ .name = "background", .on_link = background_on_link },
	{ .name = "run_load", .stop = mt_run_stop, .is_quiet = mt_run_is_quiet },
	{ .name = "read_path",
	    .start = mt_read_path_on_shard,
	    .stop = mt_read_path_on_shard,
	    .is_quiet = mt_read_path_is_quiet,
	    .on_link = reads_on_link },
	{ .name = "ring",
	    .take = ring_take,
	    .reset = ring_reset,
	    .give = ring_give,
	    .fini = ring_give },
	{ .name = "write_path",
	    .init = mt_write_path_init,
	    .take = mt_write_path_take,
	    .give = mt_write_path_give,
	    .start = mt_write_path_start,
	    .stop_rc = mt_write_path_stop,
	    .is_quiet = mt_write_path_is_quiet,
	    .reset = mt_write_path_reset,
	    .on_link = mt_write_path_on_link,
	    .fini = mt_write_path_fini },
	{ .name = "extents",
	    .is_quiet = mt_extent_requests_are_quiet,
	    .reset = extents_fini,
	    .on_link = extents_on_link,
	    .fini = extents_fini },
	{ .name = "index", .reset = index_fini, .fini = index_fini },
	{ .name = "copies", .is_quiet = mt_copy_is_quiet, .fini = mt_copy_fini },
	{ .name = "manifest",
	    .stop_rc = mt_manifest_stop,
	    .is_quiet = mt_manifest_is_quiet,
	    .reset = mt_manifest_fini,
	    .on_link = mt_manifest_on_link,
	    .fini = mt_manifest_fini },
	{ .name = "merge",
	    .stop = mt_merge_stop,
	    .is_quiet = mt_merge_is_quiet,
	    .fini = mt_merge_fini },
	{ .name = "run_roll",
	    .init = mt_run_roll_init,
	    .stop = mt_run_roll_stop,
	    .reset = mt_run_roll_reset,
	    .fini = mt_run_roll_fini },
	{ .name = "flush",
	    .init = mt_flush_init,
	    .start = mt_flush_start,
	    .stop = mt_flush_stop,
	    .fini = mt_flush_fini },
	{ .name = "reclaim",
	    .init = mt_reclaim_init,
	    .start = mt_reclaim_start,
	    .stop = mt_reclaim_stop,
	    .fini = mt_reclaim_fini },
	{ .name = "upkeep",
	    .init = mt_upkeep_init,
	    .start = mt_upkeep_start,
	    .stop = mt_upkeep_stop,
	    .is_quiet = mt_upkeep_is_quiet,
	    .fini = mt_upkeep_fini },
	{ .name = "cut", .stop_rc = mt_cut_stop, .fini = cut_fini }, /* init: the write path's */
	{ .name = "segment_drop",
	    .init = mt_segments_drop_init,
	    .reset = mt_segments_drop_reset,
	    .fini = mt_segments_drop_reset },
	{ .name = "root", .init = root_init, .is_quiet = roots_are_quiet, .fini = root_fini },
	{ .name = "takeover",
	    .init = mt_takeover_init,
	    .stop = mt_takeover_stop,
	    .is_quiet = mt_takeover_is_quiet,
	    .reset = mt_takeover_reset,
	    .on_link = mt_takeover_on_link,
	    .fini = mt_takeover_fini },
};

#define SHARD_PART_COUNT NUM_COUNT(shard_parts)

/* ---- it begins ---- */

static void shard_stop(struct mt_shard *shard, int rc);
static void shard_on_quiet_timer(struct loop_timer *timer, void *arg);
static void shard_on_take_timer(struct loop_timer *timer, void *arg);

static void
shard_start(struct mt_shard *shard)
{
	CHECK_OBJ(shard, SHARD_MAGIC);
	assert(shard->sm.state == MT_SHARD_SERVING);
	mt_parts_start(shard_parts, SHARD_PART_COUNT, shard);
}

static const struct mt_shard_events shard_events = {
	.start = shard_start,
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

	assert(index < port->cluster->shard_count);
	*shard = (struct mt_shard){ .port = port, .events = &shard_events, .index = index };
	shard->life = mt_calloc(1, sizeof(*shard->life));
	if (shard->life == NULL)
		return -ENOMEM;
	loop_timer_init(&shard->life->quiet_timer, shard_on_quiet_timer, shard);
	loop_timer_init(&shard->life->take_timer, shard_on_take_timer, shard);
	sm_init(&shard->sm, "shard", shard_table, MT_SHARD_IDLE, index);
	rc = mt_parts_init(shard_parts, SHARD_PART_COUNT, shard);
	if (rc != 0) {
		mt_free(shard->life);
		shard->life = NULL;
		return rc;
	}
	shard->magic = SHARD_MAGIC;
	return 0;
}

/* ---- taken, and not wanted any more ---- */

static bool
shard_is_running(const struct mt_shard *shard)
{
	return shard->sm.state != MT_SHARD_IDLE && shard->sm.state != MT_SHARD_STOPPED;
}

static void
shard_log_short(const struct mt_shard *shard, int rc)
{
	const struct mt_port *port = shard->port;

	assert(rc < 0);
	if (rc != -ENOBUFS)
		log_limited(LOG_WARN, "shard %" PRIu32 ": waits for memory port=%" PRIu32 " rc=%s",
		    shard->index, port->index, log_errno(rc));
	else if (port->ring_max == MT_PORT_RINGS_MAX)
		log_limited(LOG_WARN,
		    "shard %" PRIu32 ": waits for room: port %" PRIu32 " has %" PRIu32
		    " shards, as many as a port takes at once: give the gateway more --port",
		    shard->index, port->index, port->ring_count);
	else
		log_limited(LOG_WARN,
		    "shard %" PRIu32 ": waits for room: the device memory of port %" PRIu32
		    " is full with %" PRIu32 " shards: --device-memory %" PRIu64
		    "M has room for all that it may have to own",
		    shard->index, port->index, port->ring_count,
		    port->ring_all_device_bytes / NUM_MIB(1));
}

/* False: its port has no memory for it now. The timer looks again: others may have given theirs back. */
static bool
shard_take(struct mt_shard *shard)
{
	int rc;

	assert(shard->sm.state == MT_SHARD_IDLE && shard->life->is_wanted);
	rc = mt_parts_take(shard_parts, SHARD_PART_COUNT, shard);
	if (rc == 0) {
		shard->life->short_count = 0;
		loop_timer_stop(shard->port->loop, &shard->life->take_timer);
		return true;
	}
	if (++shard->life->short_count == SHARD_SHORT_TOLD)
		shard_log_short(shard, rc);
	loop_timer_start(shard->port->loop, &shard->life->take_timer, SHARD_TAKE_RETRY_NS);
	return false;
}

bool
mt_shard_is_short(const struct mt_shard *shard)
{
	CHECK_OBJ(shard, SHARD_MAGIC);
	return shard->sm.state == MT_SHARD_IDLE && shard->life->is_wanted &&
	    shard->life->short_count > 0;
}

const char *
mt_shard_failed_why(const struct mt_shard *shard)
{
	CHECK_OBJ(shard, SHARD_MAGIC);
	return shard->life->failed_why;
}

static void
shard_on_take_timer(struct loop_timer *timer, void *arg)
{
	struct mt_shard *shard = arg;

	(void)timer;
	CHECK_OBJ(shard, SHARD_MAGIC);
	if (shard->sm.state == MT_SHARD_IDLE && shard->life->is_wanted &&
	    shard->port->sm.state == MT_PORT_RUNNING)
		mt_shard_want(shard, true);
}

void
mt_shard_want(struct mt_shard *shard, bool is_wanted)
{
	CHECK_OBJ(shard, SHARD_MAGIC);
	shard->life->is_wanted = is_wanted;
	if (!is_wanted) {
		shard->life->short_count = 0;
		shard->life->failed_why = NULL; /* another gateway's trouble */
	}
	if (is_wanted && shard->sm.state == MT_SHARD_IDLE) {
		if (!shard_take(shard))
			return;
		mt_takeover_start(shard);
		mt_port_on_shard(shard);
	} else if (is_wanted) {
		shard->life->is_releasing =
		    false; /* it stays here: the next life begins when it is quiet */
	} else if (shard_is_running(shard) || shard->life->is_claimed) {
		/* IDLE, and its root names us: a life of it ended otherwise. Others wait for a word. */
		shard->life->is_releasing = true;
		mt_shard_stop(shard, -EREMCHG);
	}
}

/* ---- the end of a life ---- */

static void
shard_look_later(struct mt_shard *shard, uint64_t ns)
{
	assert(shard->sm.state == MT_SHARD_STOPPED);
	loop_timer_start(shard->port->loop, &shard->life->quiet_timer, ns);
}

static void
shard_stop(struct mt_shard *shard, int rc)
{
	CHECK_OBJ(shard, SHARD_MAGIC);
	assert(rc < 0);
	if (!shard_is_running(shard) &&
	    !(shard->sm.state == MT_SHARD_IDLE && shard->life->is_releasing))
		return;
	/* First, so that no handler below begins anything new. */
	sm_move(&shard->sm, MT_SHARD_STOPPED);
	if (!shard->life->is_releasing)
		shard->life->is_wanted = false; /* by itself: until the next set */
	mt_parts_stop(shard_parts, SHARD_PART_COUNT, shard, rc);
	shard->life->quiet_wait_ns = SHARD_QUIET_MIN_NS;
	shard_look_later(shard, shard->life->quiet_wait_ns);
	mt_port_on_shard(shard);
}

/* The shard has stopped, and nothing that it asked for can still come back. */
static bool
shard_is_quiet(const struct mt_shard *shard)
{
	return shard->sm.state == MT_SHARD_STOPPED &&
	    (mt_parts_busy(shard_parts, SHARD_PART_COUNT, shard) == NULL || MUTANT(quiet_unasked));
}

/* Quiet: everything that its life has left is forgotten; the epoch is known still. */
static void
shard_reset(struct mt_shard *shard)
{
	assert(shard_is_quiet(shard));
	mt_parts_reset(shard_parts, SHARD_PART_COUNT, shard);
	mt_parts_give(shard_parts, SHARD_PART_COUNT, shard);
	shard->next_counter = shard->next_sequence = shard->cut = 0;
	shard->life->is_releasing = false;
	sm_move(&shard->sm, MT_SHARD_IDLE);
	mt_port_on_shard(shard);
	if (shard->life->is_wanted)
		mt_shard_want(shard, true);
}

static void
shard_on_released(int rc, const struct mt_root *root, void *arg)
{
	struct mt_shard *shard = arg;

	(void)root;
	CHECK_OBJ(shard, SHARD_MAGIC);
	assert(shard->sm.state == MT_SHARD_STOPPED);
	/* Somebody else's by now is as good. */
	if (rc == 0)
		mt_shard_event(shard, CLEAVE_EVENT_SHARD_RELEASED,
		    "shard %" PRIu32 ": released epoch=%" PRIu32, shard->index, shard->epoch);
	if (rc == 0 || rc == -ESTALE)
		shard->life->is_releasing = shard->life->is_claimed = false;
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
	assert(shard->sm.state == MT_SHARD_STOPPED);
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

/* The root may have moved while the shard was stopped, and a claim may have come through: read it first. */
static void
shard_release(struct mt_shard *shard)
{
	int rc = mt_root_load(shard, shard_on_loaded, shard);

	assert(shard->life->is_releasing);
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
	if (!shard_is_quiet(shard)) {
		log_trace("shard %" PRIu32 ": has stopped, and waits for its part %s", shard->index,
		    mt_parts_busy(shard_parts, SHARD_PART_COUNT, shard));
		shard_look_later(shard, shard->life->quiet_wait_ns);
		shard->life->quiet_wait_ns =
		    num_min(shard->life->quiet_wait_ns * 2, SHARD_QUIET_MAX_NS);
	} else if (shard->life->is_releasing) {
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
	loop_timer_stop(shard->port->loop, &shard->life->quiet_timer);
	loop_timer_stop(shard->port->loop, &shard->life->take_timer);
	mt_parts_fini(shard_parts, SHARD_PART_COUNT, shard);
	mt_free(shard->life);
	shard->life = NULL;
	shard->magic = 0;
}

void
mt_shard_on_link(struct mt_shard *shard, struct mt_link *link, bool is_up)
{
	CHECK_OBJ(shard, SHARD_MAGIC);
	assert(link->port == shard->port);
	if (!shard_is_running(shard))
		return;
	mt_parts_on_link(shard_parts, SHARD_PART_COUNT, shard, link, is_up);
}

void
mt_shard_on_node(struct mt_shard *shard)
{
	CHECK_OBJ(shard, SHARD_MAGIC);
	if (shard_is_running(shard))
		mt_extent_upkeep(shard);
}
