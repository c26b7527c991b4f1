/* SPDX-License-Identifier: Apache-2.0 */
/*
 * change.c -- create, freeze, truncate, delete, fence: durable first, answered then
 *
 *	QUEUED --its turn--> SETTLING --> (SCANNING) --> (WRITING) --> SYNCING --> DONE
 *	    \                   \             \             \           \
 *	     +-------------------+-------------+-------------+-----------+--> FAILED
 *
 * The changes of an extent stand in its queue and the first is at work. Its turn moves the extent to FREEZING, SEALING
 * or DELETING, which stops appends; it settles when those in flight have ended (for a delete, reads too). A truncation
 * to another length than the durable one follows the chain from the beginning to learn whether a batch ends there, its
 * mark and CRC. A freeze of a copy that the start could not read, or a verification has marked as damaged, follows it
 * anew: its disk may have failed reads for a moment. Then one page is written and flushed. A freeze raises its shard's
 * fence when it comes, before its turn, and waits for both; also one of an extent that is not here, so that no older
 * owner creates it later. One that is refused at its turn, as where a delete came first, leaves the line and ends with
 * its fence; those behind it go on.
 *
 * State pages have two copies, written in turn by generation; a generation counts as used only once
 * it is durable, so a failed write leaves the copy that counts alone.
 *
 * Failure: a page that could not be written leaves the extent STOPPED (or as it was, when sealed); the change may be
 * asked for again. What was written may still be there after a restart: of a failed change the outcome is not known.
 */
#include "change.h"

#include <errno.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mutant.h"
#include "base/num.h"
#include "change_end.h"
#include "disk/disk_host.h"
#include "node_state.h"
#include "request.h"
#include "verify.h"
#include "zero.h"

/* Less than a gateway waits for an answer (its --node-timeout, 5 s): a copy not followed by then stays marked. */
#define FREEZE_SCAN_NS NUM_S(2)

const struct sm_state change_table[CHANGE_STATE_NR] = {
	[CHANGE_QUEUED] = { "queued",
	    SM_TO(CHANGE_SETTLING) | SM_TO(CHANGE_WRITING) | SM_TO(CHANGE_SYNCING) |
		SM_TO(CHANGE_DONE) | SM_TO(CHANGE_FAILED),
	    SM_INITIAL },
	[CHANGE_SETTLING] = { "settling",
	    SM_TO(CHANGE_SCANNING) | SM_TO(CHANGE_WRITING) | SM_TO(CHANGE_SYNCING) |
		SM_TO(CHANGE_FAILED),
	    0 },
	[CHANGE_SCANNING] = { "scanning",
	    SM_TO(CHANGE_WRITING) | SM_TO(CHANGE_SYNCING) | SM_TO(CHANGE_FAILED), 0 },
	[CHANGE_WRITING] = { "writing", SM_TO(CHANGE_SYNCING) | SM_TO(CHANGE_FAILED), 0 },
	[CHANGE_SYNCING] = { "syncing", SM_TO(CHANGE_DONE) | SM_TO(CHANGE_FAILED), 0 },
	[CHANGE_DONE] = { "done", 0, SM_FINAL },
	[CHANGE_FAILED] = { "failed", 0, SM_FINAL | SM_FAILURE },
};

static void extent_run_changes(struct sn_extent *extent);

static struct sn_request *
request_of(struct sn_change *change)
{
	struct sn_request *req = NUM_CONTAINER_OF(change, struct sn_request, change);

	CHECK_OBJ(req, SN_REQUEST_MAGIC);
	return req;
}

/* ---- the end of a change ---- */

/* The only end of a change; starting the extent's next one is the caller's. */
static void
change_finish(struct sn_request *req, int rc)
{
	struct sn_change *change = &req->change;
	bool is_used = rc == 0 && change->state.generation != 0;

	assert(change->pending_count == 0);
	assert(rc <= 0);
	if (is_used)
		req->extent->state_generation = change->state.generation;
	list_remove(&change->link);
	if (req->extent != NULL)
		sn_change_apply(req, rc);
	sm_move(&change->sm, rc == 0 ? CHANGE_DONE : CHANGE_FAILED);
	sn_change_reply(req, rc);
}

/* The page or the fence has ended with @rc: the last of them ends the change. */
static void
change_join(struct sn_request *req, int rc)
{
	struct sn_change *change = &req->change;
	struct sn_extent *extent = req->extent;

	assert(change->pending_count > 0);
	assert(rc <= 0);
	if (rc != 0 && change->rc == 0)
		change->rc = rc;
	if (--change->pending_count > 0)
		return;
	/* Before its turn, or still settling, only the fence can have ended: how is told with the rest. */
	if (change->sm.state != CHANGE_WRITING && change->sm.state != CHANGE_SYNCING)
		return;
	assert(change->sm.state == CHANGE_SYNCING || change->rc != 0);
	change_finish(req, change->rc != 0 ? change->rc : change->answer_rc);
	if (extent != NULL)
		extent_run_changes(extent);
}

static void
change_on_synced(struct sn_sync_waiter *waiter, int rc)
{
	struct sn_request *req = request_of(
	    NUM_CONTAINER_OF(waiter, struct sn_change, sync_waiter));

	assert(req->change.sm.state == CHANGE_SYNCING);
	change_join(req, rc);
}

static void
change_on_fenced(struct sn_fence_waiter *waiter, int rc)
{
	struct sn_request *req = request_of(
	    NUM_CONTAINER_OF(waiter, struct sn_change, fence_waiter));

	assert(!sm_is_final(&req->change.sm));
	change_join(req, rc);
}

/* ---- the page ---- */

static void
change_on_written(struct disk_io *io, int rc, void *arg)
{
	struct sn_request *req = arg;

	(void)io;
	CHECK_OBJ(req, SN_REQUEST_MAGIC);
	assert(req->change.sm.state == CHANGE_WRITING);
	if (rc != 0) {
		SN_COUNT(req->node, disk_errors, 1);
		log_limited(LOG_WARN,
		    "change: the disk failed the write of a page, the change is refused "
		    "extent=%u.%u.%llu rc=%s: its gateway asks again; look for the disk's errors in the "
		    "kernel's log",
		    req->wire.id.shard, req->wire.id.epoch,
		    (unsigned long long)req->wire.id.counter, log_errno(rc));
		change_join(req, -EIO);
		return;
	}
	sm_move(&req->change.sm, CHANGE_SYNCING);
	sn_sync_wait(req->node, &req->change.sync_waiter, change_on_synced, true);
}

static void
change_on_refused(struct sn_sync_waiter *waiter, int rc)
{
	struct sn_request *req = request_of(
	    NUM_CONTAINER_OF(waiter, struct sn_change, sync_waiter));

	(void)rc;
	assert(req->change.sm.state == CHANGE_WRITING);
	change_join(req, -EIO);
}

static void
change_submit_page(struct sn_request *req, uint64_t offset_bytes)
{
	struct sn_change *change = &req->change;

	assert(offset_bytes % ONDISK_PAGE_BYTES == 0);
	change->piece = disk_host_piece(req->page, ONDISK_PAGE_BYTES);
	change->io = (struct disk_io){
		.op = DISK_WRITE,
		.offset_bytes = offset_bytes,
		.pieces = &change->piece,
		.piece_count = 1,
		.fn = change_on_written,
		.arg = req,
	};
	sm_move(&change->sm, CHANGE_WRITING);
	change->pending_count++;
	if (change->state.generation > ONDISK_COUNT_MAX ||
	    disk_submit(req->node->disk, &change->io) != 0)
		sn_sync_wait(req->node, &change->sync_waiter, change_on_refused, false);
}

static void
change_write_state(struct sn_request *req)
{
	struct node *node = req->node;
	struct sn_extent *extent = req->extent;
	struct ondisk_state *state = &req->change.state;

	assert(extent->changes.next == &req->change.link); /* its turn */
	assert(req->change.sm.state == CHANGE_SETTLING || req->change.sm.state == CHANGE_SCANNING);
	state->slot = extent->slot;
	state->generation = extent->state_generation + 1;
	ondisk_state_encode(req->page, &node->super, state);
	change_submit_page(req,
	    ondisk_state_offset(&node->super, extent->slot.slot_index,
		(uint32_t)(state->generation & 1)));
}

/* ---- freeze, truncate, delete ---- */

/* Follow the chain from the beginning; @fn follows. */
static void
change_scan(struct sn_request *req, uint64_t limit_bytes, void (*fn)(struct sn_scan_job *job))
{
	sm_move(&req->change.sm, CHANGE_SCANNING);
	req->change.scan_job = (struct sn_scan_job){
		.extent = req->extent,
		.limit_bytes = limit_bytes,
		.must_look_ahead = limit_bytes > req->extent->durable_bytes,
		.fn = fn,
		.arg = req,
	};
	if (req->wire.opcode == WIRE_EXTENT_FREEZE)
		req->change.scan_job.until_ns = loop_now_ns(req->node->loop) + FREEZE_SCAN_NS;
	sn_scan_start(req->node, &req->change.scan_job);
}

static void
freeze_on_settled(struct sn_request *req)
{
	struct sn_change *change = &req->change;
	struct sn_extent *extent = req->extent;
	bool is_repeated = change->was == EXTENT_FROZEN && extent->freeze_epoch == req->wire.epoch;

	assert(extent->sm.state == EXTENT_FREEZING || extent->sm.state == EXTENT_SEALED);
	if (extent->sm.state == EXTENT_SEALED || is_repeated) {
		sm_move(&change->sm, CHANGE_SYNCING);
		change->pending_count++;
		change_join(req, 0);
		return;
	}
	/* A damaged copy is measured by the length that it should have, as far as that is known, after a restart, too. */
	change->state = (struct ondisk_state){
		.state = ONDISK_SLOT_FROZEN,
		.freeze_epoch = req->wire.epoch,
		.length_bytes = num_max(extent->durable_bytes,
		    num_min(num_round_up(extent->whole_bytes, BATCH_ALIGN),
			sn_capacity(req->node))),
		.mark_bytes = extent->mark_bytes,
		.chain_crc = extent->chain_crc,
		.is_damaged = sn_extent_is_damaged(extent),
	};
	change_write_state(req);
}

static void
truncate_write(struct sn_request *req, uint64_t mark_bytes, uint32_t chain_crc)
{
	assert(req->wire.offset_bytes <= sn_verify_limit(req->extent));
	req->change.state = (struct ondisk_state){
		.state = ONDISK_SLOT_SEALED,
		.length_bytes = req->wire.offset_bytes,
		.mark_bytes = mark_bytes,
		.chain_crc = chain_crc,
		.is_damaged = mark_bytes > req->wire.offset_bytes,
	};
	change_write_state(req);
}

static void
truncate_on_scanned(struct sn_scan_job *job)
{
	struct sn_request *req = job->arg;
	struct sn_extent *extent = req->extent;

	assert(req->change.sm.state == CHANGE_SCANNING);
	if (job->length_bytes == req->wire.offset_bytes && !req->node->is_read_only) {
		truncate_write(req, job->mark_bytes, job->chain_crc);
		return;
	}
	/* The chain breaks before: damage. Or a batch crosses the length: not a boundary. */
	if (req->node->is_read_only)
		change_finish(req, -EROFS);
	else if (job->end_rc == -EMSGSIZE || job->end_rc == 0)
		change_finish(req, -EINVAL);
	else
		change_finish(req, -EUCLEAN);
	extent_run_changes(extent);
}

/* Returns 0: the change goes on; a negative errno: it failed, and is the caller's to finish. */
static int
truncate_on_settled(struct sn_request *req)
{
	struct sn_extent *extent = req->extent;
	uint64_t length_bytes = req->wire.offset_bytes;

	assert(extent->sm.state == EXTENT_SEALING);
	if (length_bytes > sn_verify_limit(extent))
		return -ERANGE;
	if (length_bytes == extent->durable_bytes)
		truncate_write(req, extent->mark_bytes, extent->chain_crc);
	else
		change_scan(req, length_bytes, truncate_on_scanned);
	return 0;
}

static void
delete_on_settled(struct sn_request *req)
{
	struct sn_extent *extent = req->extent;

	assert(extent->sm.state == EXTENT_DELETING);
	assert(extent->read_count == 0);
	req->change.state = (struct ondisk_state){
		.state = ONDISK_SLOT_DELETED,
		.length_bytes = extent->durable_bytes,
		.mark_bytes = extent->mark_bytes,
		.chain_crc = extent->chain_crc,
	};
	change_write_state(req);
}

/* The extent has settled, and was looked at where that is needed. */
static void
change_go_on(struct sn_request *req)
{
	int rc = 0;

	assert(req->change.sm.state == CHANGE_SETTLING || req->change.sm.state == CHANGE_SCANNING);
	if (req->node->is_read_only)
		rc = -EROFS;
	/* The freeze's fence could not be made durable meanwhile. */
	else if (req->change.rc != 0)
		rc = req->change.rc;
	else if (req->wire.opcode == WIRE_EXTENT_FREEZE)
		freeze_on_settled(req);
	else if (req->wire.opcode == WIRE_EXTENT_TRUNCATE)
		rc = truncate_on_settled(req);
	else
		delete_on_settled(req);
	if (rc == 0)
		return;
	if (req->change.pending_count > 0) {
		/* The fence's handler is still to come: let it end this. */
		req->change.rc = rc;
		sm_move(&req->change.sm, CHANGE_SYNCING);
		return;
	}
	change_finish(req, rc);
}

static void
freeze_on_scanned(struct sn_scan_job *job)
{
	struct sn_request *req = job->arg;
	struct sn_extent *extent = req->extent;

	/* Damage is told with the length. Where a queue was full, the freeze is asked for again. */
	if (sn_verify_conclude(extent, job) == -EBUSY && req->change.rc == 0)
		req->change.rc = -EBUSY;
	change_go_on(req);
	extent_run_changes(extent);
}

static void
change_try_settled(struct sn_request *req)
{
	struct sn_extent *extent = req->extent;

	assert(req->change.sm.state == CHANGE_SETTLING);
	if (!sn_extent_is_settled(extent))
		return;
	if (req->wire.opcode == WIRE_EXTENT_DELETE && extent->read_count > 0)
		return;
	if (req->wire.opcode == WIRE_EXTENT_FREEZE && sn_verify_is_due(extent))
		change_scan(req, sn_verify_limit(extent), freeze_on_scanned);
	else
		change_go_on(req);
}

/* ---- turns ---- */

/* The change's turn has come. Returns 1: it waits for the extent to settle; else its result, 0 or a negative errno. */
static int
change_begin(struct sn_request *req)
{
	struct sn_extent *extent = req->extent;
	enum extent_state state = (enum extent_state)extent->sm.state;

	assert(req->change.sm.state == CHANGE_QUEUED);
	req->change.was = state;
	if (req->node->is_read_only)
		return -EROFS;
	/* A newer owner may have come while the change waited. */
	if (req->wire.epoch < sn_fence_epoch(req->node, req->wire.id.shard))
		return -ESTALE;
	if (!sn_extent_is_held(extent))
		return -ENOENT;
	/* Both were looked at when the change came; with a copy that is deleted, its waiting changes end. */
	assert(req->wire.epoch >= extent->slot.create_epoch || MUTANT(maker_ignored));
	assert(req->wire.opcode != WIRE_EXTENT_DELETE ||
	    req->wire.offset_bytes == extent->slot.incarnation || MUTANT(incarnation_ignored));
	switch (req->wire.opcode) {
	case WIRE_EXTENT_FREEZE:
		if (state != EXTENT_SEALED)
			sm_move(&extent->sm, EXTENT_FREEZING);
		return 1;
	case WIRE_EXTENT_TRUNCATE:
		if (state == EXTENT_SEALED)
			return req->wire.offset_bytes == extent->durable_bytes ? 0 : -EPERM;
		sm_move(&extent->sm, EXTENT_SEALING);
		return 1;
	default:
		sm_move(&extent->sm, EXTENT_DELETING);
		return 1;
	}
}

static void
extent_run_changes(struct sn_extent *extent)
{
	struct loop_link *link;

	while ((link = list_first(&extent->changes)) != NULL) {
		struct sn_change *change = LIST_ENTRY(link, struct sn_change, link);
		struct sn_request *req = request_of(change);
		int rc;

		if (change->sm.state != CHANGE_QUEUED)
			return;
		assert(change->pending_count == 0 || req->wire.opcode == WIRE_EXTENT_FREEZE);
		rc = change_begin(req);
		if (rc == 1) {
			sm_move(&change->sm, CHANGE_SETTLING);
			change_try_settled(req);
		} else if (change->pending_count > 0) {
			/* A freeze's fence may take longer than the slot stays empty: the next extent has no part in it. */
			assert(rc < 0);
			list_remove(&change->link);
			req->extent = NULL;
			change->rc = rc;
			sm_move(&change->sm, CHANGE_SYNCING);
		} else {
			change_finish(req, rc);
		}
	}
}

void
sn_change_on_settled(struct sn_extent *extent)
{
	struct loop_link *link = list_first(&extent->changes);
	struct sn_change *change;

	if (link == NULL)
		return;
	change = LIST_ENTRY(link, struct sn_change, link);
	if (change->sm.state != CHANGE_SETTLING)
		return;
	change_try_settled(request_of(change));
	extent_run_changes(extent);
}

/* ---- the beginning ---- */

static int
create_start(struct sn_request *req)
{
	struct node *node = req->node;
	const struct wire_node *wire = &req->wire;
	struct sn_extent *extent = sn_extent_find(node, &wire->id);
	int rc;

	assert(wire->opcode == WIRE_EXTENT_CREATE);
	if (wire->id.epoch > wire->epoch)
		return -EINVAL;
	if (extent != NULL && sn_extent_is_held(extent)) {
		/* An unfinished copy, perhaps: with its incarnation it can be deleted. */
		sn_request_finish(req,
		    &(struct wire_node_reply){ .rc = -EEXIST,
			.offset_bytes = extent->slot.incarnation },
		    NULL);
		return 0;
	}
	if (extent != NULL)
		return -EBUSY;
	rc = sn_extent_claim(node, wire, &extent);
	if (rc != 0) {
		SN_COUNT(node, creates_refused, 1);
		return rc;
	}
	/* Earlier owners of the shard have nothing to say about this extent, nor about its copies. */
	sn_fence_note(node, wire->id.shard, wire->epoch);
	sn_zero_kick(node);
	req->extent = extent;
	list_push_back(&extent->changes, &req->change.link);
	ondisk_slot_encode(req->page, &node->super, &extent->slot);
	change_submit_page(req, ondisk_slot_offset(&node->super, extent->slot.slot_index));
	return 0;
}

/* Raise the fence, and answer @answer_rc when it is durable. Returns 0. */
static int
fence_start(struct sn_request *req, int answer_rc)
{
	struct sn_change *change = &req->change;

	assert(req->extent == NULL);
	assert(change->pending_count == 0);
	sm_move(&change->sm, CHANGE_SYNCING);
	change->answer_rc = answer_rc;
	change->pending_count = 1;
	if (sn_fence_raise(req->node, req->wire.id.shard, req->wire.epoch, &change->fence_waiter,
		change_on_fenced) == 1)
		change_join(req, 0);
	return 0;
}

static int
extent_change_start(struct sn_request *req)
{
	struct node *node = req->node;
	const struct wire_node *wire = &req->wire;
	struct sn_extent *extent = sn_extent_find(node, &wire->id);
	int rc = 0;

	assert(wire->opcode == WIRE_EXTENT_FREEZE || wire->opcode == WIRE_EXTENT_TRUNCATE ||
	    wire->opcode == WIRE_EXTENT_DELETE);
	if (extent == NULL || extent->sm.state == EXTENT_DELETING)
		rc = -ENOENT;
	else if (extent->sm.state == EXTENT_CREATING)
		rc = -EBUSY;
	/* A freeze raises the fence also where no copy is: a create of the older owner must not succeed later. */
	if (rc != 0 && wire->opcode == WIRE_EXTENT_FREEZE)
		return fence_start(req, rc);
	if (rc != 0)
		return rc;
	/* A copy that a newer owner has made is no older one's to change, fence or not. */
	if (wire->epoch < extent->slot.create_epoch && !MUTANT(maker_ignored)) {
		SN_COUNT(node, stale_epochs, 1);
		return -ESTALE;
	}
	if (wire->opcode == WIRE_EXTENT_DELETE && wire->offset_bytes != extent->slot.incarnation &&
	    !MUTANT(incarnation_ignored))
		return -ENOENT;
	if (wire->opcode == WIRE_EXTENT_FREEZE &&
	    sn_fence_raise(node, wire->id.shard, wire->epoch, &req->change.fence_waiter,
		change_on_fenced) == 0)
		req->change.pending_count = 1;
	req->extent = extent;
	list_push_back(&extent->changes, &req->change.link);
	extent_run_changes(extent);
	return 0;
}

/* Returns -EOVERFLOW: such an epoch would use up the shard's epochs, and shut its owner out for good. */
static int
change_refuse_epoch(const struct sn_request *req)
{
	struct node *node = req->node;
	uint32_t shard = req->wire.id.shard;

	assert(req->wire.epoch > sn_fence_epoch(node, shard));
	SN_COUNT(node, epochs_refused, 1);
	log_limited(LOG_ERROR,
	    "fence: refused an epoch far above the fence shard=%u epoch=%u fence=%u peer=%s: no gateway "
	    "comes to it by take-overs; look at that gateway's metadata (cleave recover makes it anew)",
	    shard, req->wire.epoch, sn_fence_epoch(node, shard), split_qp_peer(req->msg->qp));
	return -EOVERFLOW;
}

void
sn_change_start(struct sn_request *req)
{
	struct node *node = req->node;
	int rc;

	CHECK_OBJ(req, SN_REQUEST_MAGIC);
	assert(node->sm.state == NODE_READY);
	req->change = (struct sn_change){ 0 };
	req->extent = NULL;
	sm_init(&req->change.sm, "change", change_table, CHANGE_QUEUED,
	    (uint32_t)(req - node->requests));
	if (node->is_read_only) {
		rc = -EROFS;
	} else if (req->wire.epoch < sn_fence_epoch(node, req->wire.id.shard)) {
		SN_COUNT(node, stale_epochs, 1);
		rc = -ESTALE;
	} else if (!sn_fence_is_near(node, req->wire.id.shard, req->wire.epoch)) {
		rc = change_refuse_epoch(req);
	} else if (req->wire.opcode == WIRE_EXTENT_CREATE) {
		rc = create_start(req);
	} else if (req->wire.opcode == WIRE_SHARD_FENCE) {
		rc = fence_start(req, 0);
	} else {
		rc = extent_change_start(req);
	}
	if (rc != 0)
		sn_request_fail(req, rc);
}
