/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sweep.c -- what a node holds of a shard, compared with what the shard's manifest says
 *
 *	IDLE --a node is due--> LISTING, page by page --> IDLE
 *
 * A node is asked for its list when its link comes up, every sweep_interval, and when somebody met
 * something there. Judged by (extent, node, incarnation):
 *
 *	no later owner's, named by no manifest,    an orphan: deleted, by its incarnation, when it
 *	no object of ours, no copy on its way      was seen for long enough (orphans.h)
 *	named, but short, or another incarnation   that replica is damaged
 *	named, and damaged as its node says, or    suspect: verified before it is believed. Its node may
 *	not in the list                            have failed to read it once, long ago
 *
 * A list is judged only under a valid lease and while no edit is under way: what the state says is
 * durable then, so nothing is deleted that a take-over could want. A paused owner that wakes up is
 * refused by the node, by the fence and by the epoch under which a copy was made.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/check.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/lease.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/replica.h"
#include "common/settings.h"
#include "common/shard.h"
#include "common/shard_state.h"
#include "extent/copy_list.h"
#include "extent/extent.h"
#include "extent/extent_copies.h"
#include "extent/list_page.h"
#include "extent/node_link.h"
#include "manifest/manifest.h"
#include "manifest/manifest_state.h"
#include "upkeep/orphans.h"
#include "upkeep/sweep.h"
#include "upkeep/upkeep.h"

#define SWEEP_RETRY_NS NUM_S(1)

_Static_assert(MT_NODES_MAX <= 64, "a bit each");

enum sweep_state { SWEEP_IDLE, SWEEP_LISTING, SWEEP_STATE_NR };

static const struct sm_state sweep_table[SWEEP_STATE_NR] = {
	[SWEEP_IDLE] = { "idle", SM_TO(SWEEP_LISTING), SM_INITIAL },
	[SWEEP_LISTING] = { "listing", SM_TO(SWEEP_IDLE), 0 },
};

static uint64_t
sweep_now_ns(const struct mt_sweep *sweep)
{
	return loop_now_ns(sweep->shard->port->loop);
}

/* Is what the state says durable, and ours? */
static bool
sweep_may_judge(const struct mt_sweep *sweep)
{
	const struct mt_shard *shard = sweep->shard;

	return mt_manifest_is_settled(shard) && mt_port_has_lease(shard->port);
}

/* ---- entries ---- */

static void
sweep_damage(struct mt_sweep *sweep, const struct extent_id *id, const char *why, int rc)
{
	const struct mt_shard *shard = sweep->shard;

	assert(rc < 0);
	for (uint32_t i = 0; i < shard->extent_count; i++) {
		struct mt_extent *extent = shard->extents[i];
		int index;

		if (extent == NULL || extent->sm.state != MT_EXTENT_SEALED ||
		    extent_id_pack(&extent->id) != extent_id_pack(id))
			continue;
		index = mt_extent_replica(extent, sweep->node_id);
		if (index < 0 || extent->placed_ns >= sweep->begun_ns)
			return;
		/* A node lists what it could not read once, too: scrub.c's to judge. */
		if (rc != -EUCLEAN)
			mt_extent_damage(extent, (uint32_t)index, why, rc);
		else if (extent->replicas[index].failed_ns == 0)
			mt_extent_suspect(extent, sweep->node_id);
		return;
	}
}

/* The manifest's replica on the node that is swept; NULL: it names none. */
static struct mt_replica *
sweep_named(const struct mt_sweep *sweep, const struct extent_id *id, bool *ret_is_sealed,
    uint64_t *ret_sealed_bytes)
{
	struct mt_state_extent *extent =
	    mt_manifest_state_find(mt_manifest_state(sweep->shard), id);

	assert(sweep->node_id != 0);
	for (uint32_t i = 0; extent != NULL && i < extent->replica_count; i++) {
		if (extent->replicas[i].node_id != sweep->node_id)
			continue;
		*ret_is_sealed = extent->is_sealed;
		*ret_sealed_bytes = extent->sealed_bytes;
		return &extent->replicas[i];
	}
	return NULL;
}

static bool
sweep_is_orphan(const struct mt_sweep *sweep, const struct extent_id *id)
{
	const struct mt_shard *shard = sweep->shard;

	assert(sweep->node_id != 0 && shard->root != NULL);
	if (id->shard != shard->index || id->epoch > shard->epoch)
		return false;
	if (shard->root->has_manifest &&
	    extent_id_pack(&shard->root->manifest) == extent_id_pack(id))
		return false;
	return !mt_extent_is_live(shard, id, sweep->node_id) &&
	    !mt_copy_is_going(shard, id, sweep->node_id);
}

static void
sweep_delete(struct mt_sweep *sweep, const struct extent_id *id, uint64_t incarnation)
{
	struct mt_link *link = mt_port_link(sweep->shard->port, sweep->node_id);

	assert(sweep->sm.state == SWEEP_LISTING);
	assert(sweep->node_id != 0);
	if (link == NULL || !mt_orphans_see(&sweep->orphans, link, id, incarnation, sweep->number))
		return;
	log_limited(LOG_INFO,
	    "sweep: orphan deleted extent=%" PRIu32 ".%" PRIu32 ".%" PRIu64 " node=%" PRIu32
	    " incarnation=%" PRIu64,
	    id->shard, id->epoch, id->counter, sweep->node_id, incarnation);
	if (mt_extent_drop_copy(sweep->shard, id, sweep->node_id, incarnation) == 0)
		metric_add(&sweep->shard->port->metrics[MT_METRIC_orphans_deleted], 1);
	else
		sweep->due_ns = num_min(sweep->due_ns, sweep_now_ns(sweep) + SWEEP_RETRY_NS);
}

static int
sweep_take_listed(const struct wire_listed *listed, void *arg)
{
	struct mt_sweep *sweep = arg;
	struct extent_id id = listed->id;
	bool is_sealed = false;
	uint64_t sealed_bytes = 0;
	struct mt_replica *named = sweep_named(sweep, &id, &is_sealed, &sealed_bytes);

	assert(sweep->sm.state == SWEEP_LISTING);
	sweep->listed_count++;
	if (named == NULL) {
		if (sweep_is_orphan(sweep, &id))
			sweep_delete(sweep, &id, listed->incarnation);
		return 0;
	}
	if (named->incarnation != listed->incarnation) {
		if (!is_sealed || named->incarnation == 0)
			return 0;
		/* Incarnations grow: a newer one was made since, by a repair that did not come to name it. */
		if (listed->incarnation > named->incarnation)
			sweep_damage(sweep, &id, "a newer one is in its place", -ESTALE);
		else
			sweep_damage(sweep, &id, "another one is in its place", -ENOENT);
		if (!mt_copy_is_going(sweep->shard, &id, sweep->node_id))
			sweep_delete(sweep, &id, listed->incarnation);
		return 0;
	}
	named->listed = sweep->number;
	if (!is_sealed)
		return 0;
	if (listed->is_damaged)
		sweep_damage(sweep, &id, "its node says so", -EUCLEAN);
	else if (listed->length_bytes < sealed_bytes)
		sweep_damage(sweep, &id, "it is short", -ERANGE);
	return 0;
}

/* Named, and not in the list: it may have come there meanwhile, so its node is asked for it. */
static void
sweep_missing(struct mt_sweep *sweep)
{
	const struct mt_shard *shard = sweep->shard;

	assert(sweep->sm.state == SWEEP_LISTING);
	assert(sweep->node_id != 0);
	for (uint32_t i = 0; i < shard->extent_count; i++) {
		struct mt_extent *extent = shard->extents[i];
		const struct mt_replica *named;
		bool is_sealed;
		uint64_t sealed_bytes;

		if (extent == NULL || extent->sm.state != MT_EXTENT_SEALED ||
		    extent->placed_ns >= sweep->begun_ns ||
		    mt_extent_replica(extent, sweep->node_id) < 0)
			continue;
		named = sweep_named(sweep, &extent->id, &is_sealed, &sealed_bytes);
		if (named != NULL && named->listed != sweep->number)
			mt_extent_suspect(extent, sweep->node_id);
	}
}

/* ---- lists ---- */

static int sweep_ask(struct mt_sweep *sweep, struct mt_link *link, uint64_t cursor);

static void
sweep_end(struct mt_sweep *sweep, bool is_again)
{
	assert(!sweep->is_call_out);
	sm_move(&sweep->sm, SWEEP_IDLE);
	if (is_again)
		mt_sweep_node(sweep, sweep->node_id);
	mt_extent_upkeep(sweep->shard);
}

static void
sweep_on_list(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg)
{
	struct mt_sweep *sweep = arg;
	bool may_judge;

	assert(sweep->is_call_out);
	sweep->is_call_out = false;
	may_judge = !sweep->is_stopped && rc == 0 && sweep_may_judge(sweep);
	if (may_judge)
		rc = mt_list_page(sweep->shard->port, call, reply, msg, sweep_take_listed, sweep);
	if (msg != NULL)
		split_msg_release(msg);
	if (sweep->is_stopped)
		return;
	if (!may_judge) {
		/* A lost link is asked when it is back. */
		sweep->due_ns = num_min(sweep->due_ns, sweep_now_ns(sweep) + SWEEP_RETRY_NS);
		sweep_end(sweep, false);
	} else if (rc != 0) {
		sweep_end(sweep,
		    false); /* what it says is not believed: the next sweep asks again */
	} else if (reply->offset_bytes != 0) {
		if (sweep_ask(sweep, call->node, reply->offset_bytes) != 0)
			sweep_end(sweep, false);
	} else {
		sweep_missing(sweep);
		mt_orphans_end_pass(&sweep->orphans, call->node, sweep->number,
		    sweep->listed_count);
		sweep_end(sweep, false);
	}
}

static int
sweep_ask(struct mt_sweep *sweep, struct mt_link *link, uint64_t cursor)
{
	int rc;

	assert(!sweep->is_call_out);
	sweep->call.request = (struct wire_node){ .opcode = WIRE_EXTENT_LIST,
		.id.shard = sweep->shard->index,
		.offset_bytes = cursor,
		.epoch = sweep->shard->epoch };
	sweep->call.fn = sweep_on_list;
	sweep->call.arg = sweep;
	rc = mt_link_call(link, &sweep->call);
	sweep->is_call_out = rc == 0;
	return rc;
}

uint64_t
mt_sweep_step(struct mt_sweep *sweep)
{
	struct mt_port *port = sweep->shard->port;
	uint64_t now_ns = sweep_now_ns(sweep);

	assert(!sweep->is_stopped);
	if (sweep->sm.state != SWEEP_IDLE)
		return UPKEEP_NEVER;
	if (now_ns >= sweep->due_ns) {
		sweep->due = UINT64_MAX;
		sweep->due_ns = now_ns + port->settings->sweep_interval_ns;
	}
	sweep->due |= mt_orphans_due(&sweep->orphans);
	if (sweep->due != 0 && !sweep_may_judge(sweep))
		return now_ns + SWEEP_RETRY_NS;
	for (uint32_t i = 0; i < port->link_count; i++) {
		struct mt_link *link = &port->links[i];

		if ((sweep->due & UINT64_C(1) << i) == 0)
			continue;
		sweep->due &= ~(UINT64_C(1) << i);
		if (!mt_link_is_up(link) || link->is_read_only)
			continue;
		sweep->number++;
		sweep->begun_ns = now_ns;
		sweep->listed_count = 0;
		sweep->node_id = link->node_id;
		if (sweep_ask(sweep, link, 0) == 0) {
			sm_move(&sweep->sm, SWEEP_LISTING);
			return UPKEEP_NEVER;
		}
	}
	sweep->due = 0;
	return num_min(sweep->due_ns, sweep->orphans.ripe_ns);
}

void
mt_sweep_node(struct mt_sweep *sweep, uint32_t node_id)
{
	const struct mt_link *link = mt_port_link(sweep->shard->port, node_id);

	assert(link == NULL || link->index < MT_NODES_MAX);
	if (link != NULL)
		sweep->due |= UINT64_C(1) << link->index;
}

void
mt_sweep_know(struct mt_shard *shard, const struct extent_id *id, uint32_t node_id,
    uint64_t incarnation)
{
	assert(node_id != 0);
	if (shard->upkeep != NULL && shard->upkeep->is_running)
		mt_orphans_know(&shard->upkeep->sweep.orphans, id, node_id, incarnation);
}

uint32_t
mt_sweep_confirm(struct mt_sweep *sweep)
{
	uint32_t count = sweep->is_stopped ? 0 : mt_orphans_confirm(&sweep->orphans);

	assert(sweep->is_stopped || sweep->shard->sm.state == MT_SHARD_SERVING);
	if (count > 0)
		mt_extent_upkeep(sweep->shard);
	return count;
}

/* ---- its life ---- */

void
mt_sweep_init(struct mt_sweep *sweep, struct mt_shard *shard)
{
	assert(shard != NULL);
	*sweep = (struct mt_sweep){ .shard = shard, .is_stopped = true };
	sm_init(&sweep->sm, "sweep", sweep_table, SWEEP_IDLE, shard->index);
	mt_orphans_init(&sweep->orphans, shard);
}

void
mt_sweep_start(struct mt_sweep *sweep)
{
	assert(!sweep->is_call_out);
	mt_sweep_fini(sweep);
	mt_sweep_init(sweep, sweep->shard);
	sweep->is_stopped = false;
	sweep->due_ns = sweep_now_ns(sweep); /* all of them, now */
}

void
mt_sweep_stop(struct mt_sweep *sweep)
{
	sweep->is_stopped = true;
}

void
mt_sweep_fini(struct mt_sweep *sweep)
{
	mt_orphans_fini(&sweep->orphans);
}
