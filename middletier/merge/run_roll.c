/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_roll.c -- the extent that a shard's runs go to, and from one to the next
 *
 *	       wanted             created               durable            lent
 *	NONE ----------> CREATING ---------> COMMITTING ----------> OPEN <------> LENT
 *	 ^ ^                 | cannot be                              | full, or    | recalled
 *	 | +-----------------+                                        v broken      v
 *	 +------------------------- sealed by an edit ------------ SEALING <--------+
 *
 * One at a time, shared by the runs of all chunks. It is in the manifest before anything is appended to
 * it, so that a run can be named as soon as it is written; a take-over seals it like any open extent. It
 * is sealed at the length that all its replicas acknowledged, when it is full or has broken, or could have
 * more replicas by now. Lent, it takes batches of a guest alone, of which this object hears when it comes back: no edit
 * has named any of them before.
 *
 * Everything is driven by mt_run_roll_step. When there cannot be an extent, rc says why, and whoever wanted
 * it asks again later.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "common/alloc.h"
#include "common/port.h"
#include "common/replica.h"
#include "common/shard.h"
#include "common/shard_events.h"
#include "extent/extent.h"
#include "extent/extent_copies.h"
#include "extent/extent_table.h"
#include "extent/placement.h"
#include "manifest/edit.h"
#include "manifest/manifest.h"
#include "merge/reclaim.h"
#include "merge/run_roll.h"

#define RUN_ROLL_MAGIC 0x4c4f5252u /* "RROL" */

static const struct sm_state run_roll_table[RUN_ROLL_STATE_NR] = {
	[RUN_ROLL_NONE] = { "none", SM_TO(RUN_ROLL_CREATING) | SM_TO(RUN_ROLL_STOPPED),
	    SM_INITIAL },
	[RUN_ROLL_CREATING] = { "creating",
	    SM_TO(RUN_ROLL_COMMITTING) | SM_TO(RUN_ROLL_NONE) | SM_TO(RUN_ROLL_STOPPED), 0 },
	[RUN_ROLL_COMMITTING] = { "committing", SM_TO(RUN_ROLL_OPEN) | SM_TO(RUN_ROLL_STOPPED), 0 },
	[RUN_ROLL_OPEN] = { "open",
	    SM_TO(RUN_ROLL_LENT) | SM_TO(RUN_ROLL_SEALING) | SM_TO(RUN_ROLL_STOPPED), SM_INITIAL },
	[RUN_ROLL_LENT] = { "lent",
	    SM_TO(RUN_ROLL_OPEN) | SM_TO(RUN_ROLL_SEALING) | SM_TO(RUN_ROLL_STOPPED), 0 },
	[RUN_ROLL_SEALING] = { "sealing", SM_TO(RUN_ROLL_NONE) | SM_TO(RUN_ROLL_STOPPED), 0 },
	[RUN_ROLL_STOPPED] = { "stopped", 0, SM_FINAL },
};

int
mt_run_roll_init(struct mt_shard *shard)
{
	struct mt_run_roll *roll = mt_calloc(1, sizeof(*roll));

	assert(shard->run_roll == NULL);
	if (roll == NULL)
		return -ENOMEM;
	roll->magic = RUN_ROLL_MAGIC;
	roll->shard = shard;
	sm_init(&roll->sm, "run_roll", run_roll_table, RUN_ROLL_NONE, shard->index);
	shard->run_roll = roll;
	return 0;
}

int
mt_run_roll_borrow(struct mt_shard *shard, struct mt_extent *extent)
{
	int rc = mt_run_roll_init(shard);

	assert(extent->sm.state == MT_EXTENT_OPEN);
	if (rc != 0)
		return rc;
	shard->run_roll->is_guest = true;
	shard->run_roll->extent = extent;
	sm_init(&shard->run_roll->sm, "run_roll", run_roll_table, RUN_ROLL_OPEN, shard->index);
	return 0;
}

void
mt_run_roll_reset(struct mt_shard *shard)
{
	struct mt_run_roll *roll = shard->run_roll;

	CHECK_OBJ(roll, RUN_ROLL_MAGIC);
	assert(roll->sm.state == RUN_ROLL_STOPPED);
	roll->extent = NULL; /* the shard has freed its extents */
	roll->is_committing = false;
	roll->rc = 0;
	sm_init(&roll->sm, "run_roll", run_roll_table, RUN_ROLL_NONE, shard->index);
}

void
mt_run_roll_stop(struct mt_shard *shard)
{
	struct mt_run_roll *roll = shard->run_roll;

	CHECK_OBJ(roll, RUN_ROLL_MAGIC);
	if (roll->sm.state == RUN_ROLL_STOPPED)
		return;
	/* An extent that is being created is deleted when it is. */
	if (roll->sm.state != RUN_ROLL_CREATING)
		roll->extent = NULL;
	sm_move(&roll->sm, RUN_ROLL_STOPPED);
}

void
mt_run_roll_fini(struct mt_shard *shard)
{
	struct mt_run_roll *roll = shard->run_roll;

	if (roll == NULL)
		return;
	CHECK_OBJ(roll, RUN_ROLL_MAGIC);
	/* Until it is offered it is nobody else's; a guest's has an index. */
	if (roll->extent != NULL && roll->extent->index == UINT32_MAX)
		mt_extent_free(roll->extent);
	roll->magic = 0;
	mt_free(roll);
	shard->run_roll = NULL;
}

/* ---- steps ---- */

static void
roll_tell(struct mt_run_roll *roll)
{
	if (roll->fn != NULL)
		roll->fn(roll->arg);
}

static void
roll_on_created(struct mt_extent *extent, int rc, void *arg)
{
	struct mt_run_roll *roll = arg;

	CHECK_OBJ(roll, RUN_ROLL_MAGIC);
	if (roll->sm.state == RUN_ROLL_STOPPED) {
		roll->extent = NULL;
		if (rc == 0)
			mt_extent_delete(extent);
		return;
	}
	assert(roll->sm.state == RUN_ROLL_CREATING);
	assert(roll->extent == extent);
	if (rc == 0) {
		rc = mt_shard_extent_add(roll->shard, extent);
		if (rc != 0)
			mt_extent_delete(extent);
	}
	if (rc == -ESTALE) {
		roll->extent = NULL;
		mt_shard_stop(roll->shard, -ESTALE);
		return;
	}
	roll->rc = rc;
	if (rc != 0) {
		roll->extent = NULL;
		sm_move(&roll->sm, RUN_ROLL_NONE);
	} else {
		sm_move(&roll->sm, RUN_ROLL_COMMITTING);
		mt_run_roll_step(roll);
	}
	roll_tell(roll);
}

static void
roll_create(struct mt_run_roll *roll)
{
	assert(roll->extent == NULL);
	sm_move(&roll->sm, RUN_ROLL_CREATING);
	roll->rc = 0;
	roll->extent = mt_extent_create(roll->shard, EXTENT_RUN, roll_on_created, roll);
	if (roll->extent == NULL) {
		roll->rc = -errno;
		sm_move(&roll->sm, RUN_ROLL_NONE);
	}
}

static void
roll_on_committed(int rc, void *arg)
{
	struct mt_run_roll *roll = arg;
	struct mt_extent *extent = roll->extent;

	CHECK_OBJ(roll, RUN_ROLL_MAGIC);
	assert(roll->is_committing);
	if (roll->sm.state == RUN_ROLL_STOPPED)
		return;
	roll->is_committing = false;
	roll->rc = rc;
	if (rc == -ESTALE) {
		mt_shard_stop(roll->shard, -ESTALE);
		return;
	}
	if (rc == 0 && roll->sm.state == RUN_ROLL_COMMITTING) {
		sm_move(&roll->sm, RUN_ROLL_OPEN);
	} else if (rc == 0) {
		assert(roll->sm.state == RUN_ROLL_SEALING);
		mt_extent_seal(extent, extent->acked_bytes);
		mt_extent_truncate_replicas(extent);
		roll->extent = NULL;
		sm_move(&roll->sm, RUN_ROLL_NONE);
		mt_reclaim_kick(roll->shard);
	}
	roll_tell(roll);
}

/* The edit that this state waits for. One that was not taken is offered again at the next step. */
static void
roll_commit(struct mt_run_roll *roll)
{
	const struct mt_extent *extent = roll->extent;
	bool is_seal = roll->sm.state == RUN_ROLL_SEALING;
	struct mt_edit edit = {
		.kind = is_seal ? MT_EDIT_EXTENT_SEALED : MT_EDIT_EXTENT_OPENED,
		.id = extent->id,
		.extent_kind = extent->kind,
		.replica_count = extent->replica_count,
		.length_bytes = is_seal ? extent->acked_bytes : 0,
	};
	int rc;

	assert(is_seal || roll->sm.state == RUN_ROLL_COMMITTING);
	assert(!roll->is_committing);
	assert(!is_seal || extent->append_count == 0);
	for (uint32_t i = 0; i < extent->replica_count; i++)
		edit.replicas[i] = extent->replicas[i];
	roll->is_committing = true;
	rc = mt_manifest_commit(roll->shard, &edit, 1, roll_on_committed, roll);
	if (rc == 0)
		return;
	log_limited(LOG_WARN,
	    "shard %" PRIu32 ": its manifest takes no edit now, it is tried again rc=%s",
	    roll->shard->index, log_errno(rc));
	roll->is_committing = false;
	roll->rc = rc;
}

void
mt_run_roll_step(struct mt_run_roll *roll)
{
	CHECK_OBJ(roll, RUN_ROLL_MAGIC);
	if (roll->is_committing)
		return;
	switch ((enum run_roll_state)roll->sm.state) {
	case RUN_ROLL_NONE:
		roll_create(roll);
		break;
	case RUN_ROLL_SEALING:
		if (roll->extent->append_count == 0)
			roll_commit(roll);
		break;
	case RUN_ROLL_COMMITTING:
		roll_commit(roll);
		break;
	default:
		break;
	}
}

void
mt_run_roll_lend(struct mt_run_roll *roll)
{
	CHECK_OBJ(roll, RUN_ROLL_MAGIC);
	assert(roll->extent->sm.state == MT_EXTENT_OPEN && roll->extent->append_count == 0);
	assert(!roll->is_guest);
	sm_move(&roll->sm, RUN_ROLL_LENT);
}

void
mt_run_roll_return(struct mt_run_roll *roll, uint64_t end_bytes, uint32_t chain_crc)
{
	struct mt_extent *extent = roll->extent;

	CHECK_OBJ(roll, RUN_ROLL_MAGIC);
	assert(roll->sm.state == RUN_ROLL_LENT);
	assert(extent->end_bytes == extent->acked_bytes);
	assert(end_bytes > extent->end_bytes && end_bytes <= extent->capacity_bytes);
	extent->end_bytes = extent->acked_bytes = end_bytes;
	extent->chain_crc = chain_crc;
	sm_move(&roll->sm, RUN_ROLL_OPEN);
}

void
mt_run_roll_unlend(struct mt_run_roll *roll)
{
	CHECK_OBJ(roll, RUN_ROLL_MAGIC);
	assert(roll->extent->end_bytes == roll->extent->acked_bytes);
	sm_move(&roll->sm, RUN_ROLL_OPEN);
}

void
mt_run_roll_recall(struct mt_run_roll *roll)
{
	CHECK_OBJ(roll, RUN_ROLL_MAGIC);
	assert(roll->sm.state == RUN_ROLL_LENT);
	sm_move(&roll->sm, RUN_ROLL_SEALING);
	mt_run_roll_step(roll);
}

void
mt_run_roll_over(struct mt_run_roll *roll)
{
	assert(roll->sm.state == RUN_ROLL_OPEN);
	if (roll->is_guest) {
		sm_move(&roll->sm, RUN_ROLL_STOPPED);
		return;
	}
	sm_move(&roll->sm, RUN_ROLL_SEALING);
	mt_run_roll_step(roll);
}

/* Broken, damaged, made when there were fewer nodes than now, or at one that drains: sealed, the repair has it. */
static bool
roll_is_worn(const struct mt_run_roll *roll)
{
	struct mt_port *port = roll->shard->port;
	const struct mt_extent *extent = roll->extent;

	assert(roll->sm.state == RUN_ROLL_OPEN);
	if (extent->sm.state == MT_EXTENT_BROKEN)
		return true;
	if (loop_now_ns(port->loop) < extent->placed_ns + MT_EXTENT_TEND_NS)
		return false;
	return mt_extent_leaving(extent) >= 0 ||
	    !mt_extent_is_whole(extent,
		(uint32_t)num_min(mt_placement_domain_count(port), MT_REPLICAS_MAX));
}

void
mt_run_roll_tend(struct mt_shard *shard)
{
	struct mt_run_roll *roll = shard->run_roll;

	if (roll->sm.state == RUN_ROLL_OPEN && roll_is_worn(roll))
		mt_run_roll_over(roll);
	else if (roll->sm.state == RUN_ROLL_SEALING || roll->sm.state == RUN_ROLL_COMMITTING)
		mt_run_roll_step(roll);
}

uint64_t
mt_run_roll_bytes(const struct mt_shard *shard)
{
	const struct mt_run_roll *roll = shard->run_roll;

	assert(roll->sm.state != RUN_ROLL_OPEN || roll->extent != NULL);
	if (roll->sm.state != RUN_ROLL_OPEN || roll->extent->sm.state != MT_EXTENT_OPEN)
		return 0;
	return roll->extent->capacity_bytes - roll->extent->end_bytes;
}
