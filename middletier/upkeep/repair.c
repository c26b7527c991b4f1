/* SPDX-License-Identifier: Apache-2.0 */
/*
 * repair.c -- extents with too few good copies get new ones
 *
 *	      at a node of its own domain
 *	IDLE ---------------------------------------> COPYING --> COMMITTING --> IDLE
 *	   \      only the bad copy's own node is left    ^
 *	    +--> VERIFYING --------> DELETING ------------+
 *	        (a good one)        (the bad one)             any failure: IDLE, and later again
 *
 * A sealed extent *lacks* copies when fewer than three of its replicas are good. A replica is good
 * unless it is damaged, its node has been away for repair_after, or its disk takes no more writes; a
 * node that has not been seen since the shard began counts as away since then. The extent with the
 * fewest good ones is next; a new copy takes the place of a damaged one, else of one that is away, else
 * it is one more (an extent that was made when nodes were few; where no node can have that one, it takes the place of
 * a damaged one all the same).
 *
 * A bad copy is deleted after the manifest names its successor, because its good batches may be needed
 * to make that one. Where no other node can take a copy, it must go before; then a good copy is verified
 * whole first. What its node keeps of it while away is swept when it is back.
 *
 * An extent that lacks none *leaves* a node that drains: when no other one is to be repaired, it gets a copy
 * elsewhere, which takes that one's place, in the same way. Its old copy is good until then, and never deleted before.
 * When no one leaves either, copies are moved to even out the nodes, if somebody has asked for that (rebalance.c).
 *
 * The unit is the batch: one that is bad in every copy, each in a place of its own, cannot be copied,
 * though its records can still be read. Such an extent keeps the copies it has.
 *
 * Also here, because the same look finds them: flags that the manifest does not know of yet are
 * committed, nodes that have not confirmed a sealed length are asked again, and the open manifest and log
 * extents that lost a replica, or were made with too few, are begun anew.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/event.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/replica.h"
#include "common/settings.h"
#include "common/shard.h"
#include "common/shard_events.h"
#include "common/shard_state.h"
#include "extent/copy.h"
#include "extent/extent.h"
#include "extent/extent_copies.h"
#include "extent/node_link.h"
#include "extent/placement.h"
#include "manifest/edit.h"
#include "manifest/manifest.h"
#include "manifest/manifest_state.h"
#include "upkeep/rebalance.h"
#include "upkeep/repair.h"
#include "upkeep/repair_view.h"
#include "upkeep/sweep.h"
#include "upkeep/upkeep.h"
#include "upkeep/upkeep_port.h"
#include "write/write_path.h"

#define REPAIR_AGAIN_NS NUM_S(10)       /* an extent whose repair has failed */
#define REPAIR_UNREADABLE_NS NUM_S(300) /* one that no source has whole; sooner with a new link */
#define REPAIR_NO_NODE_NS NUM_S(5)      /* until it is looked again whether a node has room */
#define REPAIR_FLAGS_MAX 16u            /* edits a look */

static const struct sm_state repair_table[REPAIR_STATE_NR] = {
	[REPAIR_IDLE] = { "idle", SM_TO(REPAIR_VERIFYING) | SM_TO(REPAIR_COPYING), SM_INITIAL },
	[REPAIR_VERIFYING] = { "verifying", SM_TO(REPAIR_DELETING) | SM_TO(REPAIR_IDLE), 0 },
	[REPAIR_DELETING] = { "deleting", SM_TO(REPAIR_COPYING) | SM_TO(REPAIR_IDLE), 0 },
	[REPAIR_COPYING] = { "copying", SM_TO(REPAIR_COMMITTING) | SM_TO(REPAIR_IDLE), 0 },
	[REPAIR_COMMITTING] = { "committing", SM_TO(REPAIR_IDLE), 0 },
};

/* ---- the extent ---- */

/* The extent being repaired; NULL: it is no more, or soon will be. */
static struct mt_extent *
repair_extent(const struct mt_repair *repair)
{
	struct mt_extent *extent = mt_repair_object(repair);

	return mt_repair_is_ours(repair, extent) ? extent : NULL;
}

/* ---- ends ---- */

static void
repair_idle(struct mt_repair *repair, uint64_t pause_ns)
{
	struct mt_extent *extent = repair_extent(repair);

	assert(repair->copy == NULL && !repair->is_call_out);
	if (extent != NULL && pause_ns > 0)
		extent->repair_ns = mt_repair_now_ns(repair) + pause_ns;
	sm_move(&repair->sm, REPAIR_IDLE);
	mt_extent_upkeep(repair->shard);
}

static void
repair_fill_edit(struct mt_edit *edit, const struct mt_extent *extent)
{
	assert(extent->replica_count <= MT_REPLICAS_MAX);
	assert(extent->sm.state == MT_EXTENT_SEALED);
	*edit = (struct mt_edit){ .kind = MT_EDIT_EXTENT_REPLICAS,
		.id = extent->id,
		.extent_kind = extent->kind,
		.replica_count = extent->replica_count };
	memcpy(edit->replicas, extent->replicas, sizeof(edit->replicas));
}

/* ---- the manifest learns ---- */

/* Where the new copy goes among the replicas. */
static uint32_t
repair_place(const struct mt_repair *repair, const struct mt_extent *extent)
{
	int at = repair->victim.node_id != 0 ? mt_extent_replica(extent, repair->victim.node_id)
					     : -1;

	assert(at >= 0 || extent->replica_count < MT_REPLICAS_MAX);
	return at >= 0 ? (uint32_t)at : extent->replica_count;
}

static void
repair_on_committed(int rc, void *arg)
{
	struct mt_repair *repair = arg;
	struct mt_extent *extent;
	char text[MT_EXTENT_TEXT_BYTES];

	if (repair->is_stopped)
		return; /* the next owner reads what became of it */
	assert(repair->sm.state == REPAIR_COMMITTING);
	/* Where its deletion is asked for by now, all copies that it has are deleted with it: the new one, too. */
	extent = mt_repair_object(repair);
	if (rc != 0 || extent == NULL) {
		if (rc == 0)
			(void)mt_extent_drop_copy(repair->shard, &repair->id, repair->made.node_id,
			    repair->made.incarnation);
		repair_idle(repair, REPAIR_AGAIN_NS);
		return;
	}
	mt_extent_replace(extent, repair_place(repair, extent), &repair->made);
	metric_add(&repair->shard->port->metrics[MT_METRIC_copies_made], 1);
	metric_add(&repair->shard->port->metrics[MT_METRIC_copied_bytes], extent->sealed_bytes);
	if (repair->cause == REPAIR_BALANCE)
		mt_rebalance_note(repair, extent);
	log_info("repair: copied extent=%s node=%" PRIu32, mt_extent_text(extent, text),
	    repair->made.node_id);
	if (repair->victim.node_id != 0 && repair->victim.node_id != repair->made.node_id)
		(void)mt_extent_drop_copy(repair->shard, &repair->id, repair->victim.node_id,
		    repair->victim.incarnation);
	repair_idle(repair, 0);
}

static void
repair_commit(struct mt_repair *repair)
{
	struct mt_extent *extent = repair_extent(repair);
	struct mt_edit edit;
	uint32_t place;
	int rc = -ENOENT;

	assert(repair->copy == NULL);
	assert(repair->sm.state == REPAIR_COPYING && repair->made.node_id != 0);
	sm_move(&repair->sm, REPAIR_COMMITTING);
	if (extent != NULL) {
		repair_fill_edit(&edit, extent);
		place = repair_place(repair, extent);
		edit.replicas[place] = repair->made;
		edit.replica_count = (uint32_t)num_max(edit.replica_count, place + 1);
		rc = mt_manifest_commit(repair->shard, &edit, 1, repair_on_committed, repair);
	}
	if (rc == 0)
		return;
	(void)mt_extent_drop_copy(repair->shard, &repair->id, repair->made.node_id,
	    repair->made.incarnation);
	repair_idle(repair, REPAIR_AGAIN_NS);
}

/* ---- copying ---- */

static void
repair_on_copied(struct mt_copy *copy, int rc, uint64_t incarnation, void *arg)
{
	struct mt_repair *repair = arg;
	struct mt_extent *extent = repair_extent(repair);

	assert(repair->sm.state == REPAIR_COPYING);
	assert(repair->copy == copy);
	repair->copy = NULL;
	if (rc == 0) {
		repair->made.incarnation = incarnation;
		repair_commit(repair);
		return;
	}
	if (extent == NULL && (rc == -EIO || rc == -ENOENT)) {
		log_debug("repair: an extent was reclaimed meanwhile shard=%" PRIu32,
		    repair->id.shard);
		repair_idle(repair, 0);
		return;
	}
	metric_add(&repair->shard->port->metrics[MT_METRIC_copies_failed], 1);
	log_limited(LOG_WARN,
	    "repair: not copied extent=%" PRIu32 ".%" PRIu32 ".%" PRIu64 " node=%" PRIu32 " rc=%s",
	    repair->id.shard, repair->id.epoch, repair->id.counter, repair->made.node_id,
	    log_errno(rc));
	/* Find out which of the sources are no good. */
	for (uint32_t i = 0; rc == -EIO && extent != NULL && i < extent->replica_count; i++)
		mt_extent_suspect(extent, extent->replicas[i].node_id);
	if (rc == -EEXIST && extent != NULL) {
		/* The manifest names this extent's copies, and this is none of them. */
		mt_sweep_know(repair->shard, &repair->id, repair->made.node_id, 0);
		mt_sweep_node(&repair->shard->upkeep->sweep, repair->made.node_id);
	}
	repair_idle(repair,
	    rc == -EIO                             ? REPAIR_UNREADABLE_NS
		: rc == -ENOTCONN || rc == -EEXIST ? UPKEEP_SOON_NS
						   : REPAIR_AGAIN_NS);
	if (rc == -ESTALE)
		mt_shard_on_stale(repair->shard);
}

/* The port's budget, shared by its serving shards. Copies that only move have all of it: what drains may be of one shard. */
static uint64_t
repair_budget(const struct mt_repair *repair)
{
	const struct mt_port *port = repair->shard->port;
	uint64_t budget = port->settings->repair_bytes_per_s;
	uint64_t count = 0;

	if (repair->cause != REPAIR_LACKING)
		return budget;
	for (uint32_t i = 0; i < port->shard_count; i++)
		count += port->shards[i].sm.state == MT_SHARD_SERVING;
	return num_max(budget / num_max(count, 1), 1);
}

static void
repair_copy(struct mt_repair *repair)
{
	struct mt_extent *extent = repair_extent(repair);
	struct mt_copy_options options = { .shard = repair->shard,
		.id = repair->id,
		.target_node_id = repair->made.node_id,
		.bytes_per_s = repair_budget(repair),
		.spent_ns = repair->cause == REPAIR_LACKING
		    ? &repair->spent_ns
		    : &repair->shard->port->upkeep->moved_ns,
		.fn = repair_on_copied,
		.arg = repair };

	assert(repair->made.node_id != 0);
	assert(repair->copy == NULL);
	sm_move(&repair->sm, REPAIR_COPYING);
	if (extent == NULL) {
		repair_idle(repair, 0);
		return;
	}
	options.kind = extent->kind;
	options.length_bytes = extent->sealed_bytes;
	for (uint32_t i = 0; i < extent->replica_count; i++) {
		if (extent->replicas[i].node_id != repair->made.node_id)
			options.sources[options.source_count++] = extent->replicas[i];
	}
	repair->copy = mt_copy_start(&options);
	if (repair->copy == NULL)
		repair_idle(repair, UPKEEP_SOON_NS);
}

/* ---- in place ---- */

static void
repair_on_deleted(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg)
{
	struct mt_repair *repair = arg;

	(void)call;
	(void)reply;
	assert(repair->is_call_out);
	assert(msg == NULL);
	repair->is_call_out = false;
	if (repair->is_stopped)
		return;
	if (rc == 0 || rc == -ENOENT)
		repair_copy(repair);
	else
		repair_idle(repair, REPAIR_AGAIN_NS);
}

static int
repair_ask(struct mt_repair *repair, uint32_t node_id, const struct wire_node *request,
    mt_call_fn fn)
{
	struct mt_link *link = mt_repair_link(repair, node_id);
	int rc;

	assert(!repair->is_call_out);
	repair->call.request = *request;
	repair->call.request.id = repair->id;
	repair->call.request.epoch = repair->shard->epoch;
	repair->call.fn = fn;
	repair->call.arg = repair;
	rc = link != NULL ? mt_link_call(link, &repair->call) : -ENOTCONN;
	repair->is_call_out = rc == 0;
	return rc;
}

static void
repair_on_verified(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg)
{
	struct mt_repair *repair = arg;
	struct mt_extent *extent;
	struct wire_node delete = { .opcode = WIRE_EXTENT_DELETE,
		.offset_bytes = repair->victim.incarnation };

	assert(repair->is_call_out);
	assert(msg == NULL);
	repair->is_call_out = false;
	if (repair->is_stopped)
		return;
	extent = repair_extent(repair);
	if (extent == NULL || rc != 0 || reply->offset_bytes < extent->sealed_bytes) {
		if (extent != NULL)
			mt_extent_suspect(extent, call->node->node_id);
		repair_idle(repair, REPAIR_AGAIN_NS);
		return;
	}
	sm_move(&repair->sm, REPAIR_DELETING);
	if (repair_ask(repair, repair->victim.node_id, &delete, repair_on_deleted) != 0)
		repair_idle(repair, UPKEEP_SOON_NS);
}

/* ---- what is next ---- */

static void
repair_begin(struct mt_repair *repair, struct mt_extent *extent, int victim, struct mt_link *target,
    enum repair_cause cause)
{
	struct wire_node verify = { .opcode = WIRE_EXTENT_VERIFY };

	assert(repair->sm.state == REPAIR_IDLE);
	assert(victim < (int)extent->replica_count);
	repair->id = extent->id;
	repair->extent_index = extent->index;
	repair->cause = cause;
	repair->victim = (struct mt_replica){ 0 };
	if (victim >= 0)
		repair->victim = extent->replicas[victim];
	repair->made = (struct mt_replica){ .node_id = target->node_id, .is_truncated = true };
	if (repair->made.node_id != repair->victim.node_id) {
		repair_copy(repair);
		return;
	}
	sm_move(&repair->sm, REPAIR_VERIFYING);
	if (repair_ask(repair, mt_repair_find_good(repair, extent), &verify, repair_on_verified) !=
	    0)
		repair_idle(repair, UPKEEP_SOON_NS);
}

static void
repair_log_want(struct mt_repair *repair, bool is_wanting, bool has_away)
{
	bool is_whole = !is_wanting && repair->lacking_count == 0 && !has_away;

	if (is_wanting && !repair->is_want_logged)
		mt_shard_event(repair->shard, CLEAVE_EVENT_COPIES_STUCK,
		    "shard %" PRIu32 ": no node can take a copy, extents_lacking=%" PRIu32
		    ": add nodes with slots as large as the others', or start those that are down",
		    repair->shard->index, repair->lacking_count);
	else if (is_whole && repair->is_want_logged)
		mt_shard_event(repair->shard, CLEAVE_EVENT_COPIES_WHOLE,
		    "shard %" PRIu32 ": every extent has its copies", repair->shard->index);
	repair->is_want_logged = is_wanting || (repair->is_want_logged && !is_whole);
}

static void
repair_log_stuck(struct mt_repair *repair, bool is_stuck)
{
	if (is_stuck && !repair->is_stuck_logged)
		log_warn("shard %" PRIu32
			 ": a node drains, and no other node of another domain has "
			 "room for its copies: add nodes, with slots as large as its own, "
			 "extents_leaving=%" PRIu32,
		    repair->shard->index, repair->leaving_count);
	else if (!is_stuck && repair->is_stuck_logged)
		log_info("shard %" PRIu32 ": copies leave the node that drains, "
			 "extents_leaving=%" PRIu32,
		    repair->shard->index, repair->leaving_count);
	repair->is_stuck_logged = is_stuck;
}

/* ---- a look at all ---- */

static void
repair_on_flags_committed(int rc, void *arg)
{
	(void)rc; /* stopped: the next owner finds out by itself */
	(void)arg;
}

/* False: not now. */
static bool
repair_commit_flags(struct mt_repair *repair, struct mt_extent *extent)
{
	struct mt_edit edit;

	assert(extent->is_dirty);
	/* The edit on its way names the replicas as they were: one after the other. */
	if (repair->sm.state == REPAIR_COMMITTING)
		return false;
	repair_fill_edit(&edit, extent);
	if (mt_manifest_commit(repair->shard, &edit, 1, repair_on_flags_committed, NULL) != 0)
		return false;
	extent->is_dirty = false;
	return true;
}

struct repair_look {
	struct mt_extent *extent; /* to be repaired */
	struct mt_link *target;
	struct repair_view view;
	struct mt_extent *mover; /* lacks nothing, and has a copy where it must not stay */
	struct mt_link *mover_target;
	int mover_victim;
	uint32_t lacking_count, leaving_count, flags_count;
	bool is_wanting; /* some lack a copy that no node can take */
	bool is_stuck;   /* some cannot leave: no other node can take a copy */
	bool has_away;   /* some count a copy at a node that is away, and waited for */
	uint64_t next_ns;
};

/* Nothing is wrong with @extent, but where it is. */
static void
repair_look_at_leaving(struct mt_repair *repair, struct mt_extent *extent, int leaving,
    struct repair_look *look)
{
	uint64_t now_ns = mt_repair_now_ns(repair);
	struct mt_link *target;

	assert(leaving >= 0 && leaving < (int)extent->replica_count);
	look->leaving_count++;
	if (repair->sm.state != REPAIR_IDLE || look->mover != NULL)
		return;
	if (extent->repair_ns > now_ns) {
		look->next_ns = num_min(look->next_ns, extent->repair_ns);
		return;
	}
	target = mt_repair_find_node(repair, extent, leaving);
	if (target == NULL) {
		look->is_stuck = true;
		return;
	}
	assert(target->node_id != extent->replicas[leaving].node_id); /* it takes no copies */
	look->mover = extent;
	look->mover_target = target;
	look->mover_victim = leaving;
}

static void
repair_look_at(struct mt_repair *repair, struct mt_extent *extent, struct repair_look *look)
{
	uint64_t now_ns = mt_repair_now_ns(repair);
	struct repair_view view = mt_repair_view_of(repair, extent);
	struct mt_link *target;

	assert(extent->sm.state == MT_EXTENT_SEALED);
	look->next_ns = num_min(look->next_ns, view.next_ns);
	if (extent->is_dirty &&
	    (look->flags_count++ >= REPAIR_FLAGS_MAX || !repair_commit_flags(repair, extent)))
		look->next_ns = num_min(look->next_ns, now_ns + UPKEEP_SOON_NS);
	if (view.is_uncut) {
		mt_extent_truncate_replicas(extent);
		look->next_ns = num_min(look->next_ns, now_ns + UPKEEP_SOON_NS);
	}
	if (view.good_count >= MT_REPLICAS_MAX) {
		look->has_away = look->has_away || view.up_count < extent->replica_count;
		if (view.leaving >= 0)
			repair_look_at_leaving(repair, extent, view.leaving, look);
		return;
	}
	look->lacking_count++;
	if (repair->sm.state != REPAIR_IDLE || view.up_count == 0)
		return;
	if (extent->repair_ns > now_ns) {
		look->next_ns = num_min(look->next_ns, extent->repair_ns);
		return;
	}
	if (look->extent != NULL && look->view.good_count <= view.good_count)
		return;
	target = mt_repair_find_target(repair, extent, &view);
	if (target == NULL) {
		look->is_wanting = true;
		return;
	}
	look->extent = extent;
	look->target = target;
	look->view = view;
}

/* The open extents: made anew where they have, or could have, more copies than now. */
static uint64_t
repair_tend_open(struct mt_repair *repair)
{
	struct mt_shard *shard = repair->shard;
	uint32_t domain_count = mt_placement_domain_count(shard->port);

	assert(!repair->is_stopped);
	uint64_t next_ns = mt_placement_avoid_ns(shard->port);

	if (domain_count < shard->port->settings->min_replicas)
		return next_ns; /* a link that comes up calls again */
	next_ns = num_min(next_ns, mt_manifest_tend(shard, domain_count));
	return num_min(next_ns, mt_write_path_tend(shard, domain_count));
}

uint64_t
mt_repair_step(struct mt_repair *repair)
{
	struct mt_shard *shard = repair->shard;
	struct repair_look look = { .next_ns = UPKEEP_NEVER };
	struct mt_rebalance_pick pick;
	uint64_t now_ns = mt_repair_now_ns(repair);

	assert(!repair->is_stopped);
	for (uint32_t i = 0; i < shard->extent_count; i++) {
		if (mt_repair_is_ours(repair, shard->extents[i]))
			repair_look_at(repair, shard->extents[i], &look);
	}
	repair->lacking_count = look.lacking_count;
	repair->leaving_count = look.leaving_count;
	repair_log_want(repair, look.is_wanting && look.extent == NULL, look.has_away);
	repair_log_stuck(repair, look.is_stuck && look.mover == NULL);
	if (look.is_wanting || look.is_stuck)
		look.next_ns = num_min(look.next_ns, now_ns + REPAIR_NO_NODE_NS);
	look.next_ns = num_min(look.next_ns, repair_tend_open(repair));
	if (look.extent != NULL)
		repair_begin(repair, look.extent, look.view.victim, look.target, REPAIR_LACKING);
	else if (look.mover != NULL)
		repair_begin(repair, look.mover, look.mover_victim, look.mover_target,
		    REPAIR_LEAVING);
	else if (repair->sm.state == REPAIR_IDLE && mt_rebalance_pick(repair, &pick, &look.next_ns))
		repair_begin(repair, pick.extent, pick.victim, pick.target, REPAIR_BALANCE);
	return look.next_ns;
}

/* ---- its life ---- */

void
mt_repair_on_link(struct mt_repair *repair, struct mt_link *link, bool is_up)
{
	const struct mt_shard *shard = repair->shard;

	assert(link->port == shard->port);
	if (repair->copy != NULL)
		mt_copy_on_link(repair->copy, link, is_up);
	for (uint32_t i = 0; i < shard->extent_count && is_up; i++) {
		if (shard->extents[i] != NULL)
			shard->extents[i]->repair_ns = 0;
	}
}

void
mt_repair_init(struct mt_repair *repair, struct mt_shard *shard)
{
	assert(shard != NULL);
	*repair =
	    (struct mt_repair){ .shard = shard, .is_stopped = true, .spent_ns = repair->spent_ns };
	sm_init(&repair->sm, "repair", repair_table, REPAIR_IDLE, shard->index);
}

void
mt_repair_start(struct mt_repair *repair)
{
	assert(!repair->is_call_out);
	mt_repair_init(repair, repair->shard);
	repair->is_stopped = false;
	repair->started_ns = mt_repair_now_ns(repair);
}

void
mt_repair_stop(struct mt_repair *repair)
{
	repair->is_stopped = true;
	if (repair->copy != NULL)
		mt_copy_stop(repair->copy);
	repair->copy = NULL;
}
