/* SPDX-License-Identifier: Apache-2.0 */
/*
 * change_end.c -- the end of a change: the state of its extent, and the answer to its gateway
 *
 *	             done                      failed
 *	create       OPEN                      FREE: its header may be on the disk, and is written anew
 *	freeze       FROZEN                    STOPPED
 *	truncate     SEALED                    as it was, if no page was written; else STOPPED
 *	delete       FREE                      SEALED if it was, else STOPPED
 *
 * A freeze or truncation of an extent that was sealed before changes nothing.
 */
#include "change_end.h"

#include <errno.h>

#include "base/check.h"
#include "node_state.h"
#include "request.h"
#include "verify.h"

static void
freeze_apply(struct sn_request *req, int rc)
{
	struct sn_extent *extent = req->extent;

	if (rc == 0)
		SN_COUNT(req->node, freezes, 1);
	if (extent->sm.state != EXTENT_FREEZING)
		return; /* sealed before: there was only the fence */
	assert(sn_extent_is_settled(extent));
	if (rc != 0) {
		sm_move(&extent->sm, EXTENT_STOPPED);
		extent->stop_rc = -EACCES;
		return;
	}
	sm_move(&extent->sm, EXTENT_FROZEN);
	extent->freeze_epoch = req->wire.epoch;
	extent->stop_rc = 0;
}

/* Move the extent of a failed truncation back to its state before, or to STOPPED where that is not sure. */
static void
truncate_undo(struct sn_request *req)
{
	struct sn_extent *extent = req->extent;
	enum extent_state to = req->change.was;

	assert(to == EXTENT_OPEN || to == EXTENT_FROZEN || to == EXTENT_STOPPED);
	/* A page may lie on the disk that says "sealed", or an append has failed. */
	if (req->change.sm.state == CHANGE_WRITING || req->change.sm.state == CHANGE_SYNCING ||
	    extent->stop_rc != 0)
		to = EXTENT_STOPPED;
	if (to == EXTENT_STOPPED && extent->stop_rc == 0)
		extent->stop_rc = -EACCES;
	sm_move(&extent->sm, to);
}

static void
truncate_apply(struct sn_request *req, int rc)
{
	struct sn_extent *extent = req->extent;
	const struct ondisk_state *state = &req->change.state;

	if (extent->sm.state != EXTENT_SEALING)
		return; /* sealed before */
	if (rc != 0) {
		truncate_undo(req);
		return;
	}
	assert(state->state == ONDISK_SLOT_SEALED);
	assert(state->length_bytes <= sn_verify_limit(extent));
	SN_COUNT(req->node, cuts, 1);
	extent->durable_bytes = extent->end_bytes = state->length_bytes;
	extent->mark_bytes = state->mark_bytes;
	extent->chain_crc = extent->end_crc = state->chain_crc;
	extent->whole_bytes = state->mark_bytes;
	extent->unread_bytes = 0;
	sm_move(&extent->sm, EXTENT_SEALED);
}

static void
delete_apply(struct sn_request *req, int rc)
{
	struct sn_extent *extent = req->extent;

	if (extent->sm.state != EXTENT_DELETING)
		return;
	if (rc == 0) {
		assert(req->change.state.state == ONDISK_SLOT_DELETED);
		SN_COUNT(req->node, deletes, 1);
		sn_extent_release(extent);
		return;
	}
	if (req->change.was != EXTENT_SEALED && extent->stop_rc == 0)
		extent->stop_rc = -EACCES;
	sm_move(&extent->sm, req->change.was == EXTENT_SEALED ? EXTENT_SEALED : EXTENT_STOPPED);
}

static void
create_apply(struct sn_request *req, int rc)
{
	struct sn_extent *extent = req->extent;

	assert(extent->sm.state == EXTENT_CREATING);
	if (rc == 0) {
		SN_COUNT(req->node, creates, 1);
		extent->is_failed = false;
		sm_move(&extent->sm, EXTENT_OPEN);
	} else {
		sn_extent_give_up(extent);
	}
}

void
sn_change_apply(struct sn_request *req, int rc)
{
	CHECK_OBJ(req, SN_REQUEST_MAGIC);
	assert(rc <= 0);
	assert(req->extent != NULL);
	assert(req->change.pending_count == 0);
	switch (req->wire.opcode) {
	case WIRE_EXTENT_FREEZE:
		freeze_apply(req, rc);
		break;
	case WIRE_EXTENT_TRUNCATE:
		truncate_apply(req, rc);
		break;
	case WIRE_EXTENT_DELETE:
		delete_apply(req, rc);
		break;
	case WIRE_EXTENT_CREATE:
		create_apply(req, rc);
		break;
	default:
		break; /* a fence has no extent */
	}
}

void
sn_change_reply(struct sn_request *req, int rc)
{
	const struct sn_extent *extent = req->extent;
	struct wire_node_reply reply = { .rc = rc };

	assert(sm_is_final(&req->change.sm));
	assert((rc == 0) == (req->change.sm.state == CHANGE_DONE));
	if (extent != NULL && req->wire.opcode == WIRE_EXTENT_CREATE && rc == 0) {
		reply.offset_bytes = extent->slot.incarnation;
		reply.length_bytes = (uint32_t)sn_capacity(req->node);
	} else if (extent != NULL && req->wire.opcode != WIRE_EXTENT_DELETE &&
	    sn_extent_is_held(extent)) {
		reply.offset_bytes = extent->durable_bytes;
	}
	if (req->wire.opcode == WIRE_EXTENT_FREEZE && rc == 0) {
		reply.length_bytes = (uint32_t)extent->mark_bytes;
		reply.chain_crc = extent->chain_crc;
		if (extent->sm.state == EXTENT_SEALED)
			reply.flags |= WIRE_FLAG_SEALED;
		if (sn_extent_is_damaged(extent))
			reply.flags |= WIRE_FLAG_DAMAGED;
	}
	sn_request_finish(req, &reply, NULL);
}
