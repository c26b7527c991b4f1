/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log_roll.c -- which extent a shard's log goes to, and from one to the next
 *
 *	          log broken, full, missing             drained, spare open
 *	STEADY ---------------------------> TURNING ------------------------> COMMITTING
 *	  ^                                    ^                                  |  |
 *	  |                                    +---- not now: try again later ----+  |
 *	  +------------- the edit is durable: old sealed, spare is the log ----------+
 *
 * A *spare* is made ahead, once the log is three quarters full, so that a full log costs no more than
 * the last appends' end and one manifest edit; meanwhile writes gather in the open batches. The edit
 * seals the old extent at the length that all its replicas acknowledged, and names the new one. Only
 * then is anything appended there: what was not acknowledged in a broken extent is sent again, and must
 * not be found in both by a take-over.
 *
 * Too few nodes up: wait, for a link or RETRY_NS, and say so once. No node with room: look again every
 * RETRY_NS, and when extents go. Meanwhile the last quarter of the log is for tombstones alone, which
 * give room back; when that is used up and no merge gives hope of room (mt_reclaim_can_gain), they get
 * an extent of what nodes keep back. Without that, too, everything is answered NO_SPACE. The
 * old extent is sealed by an edit of its own before: a take-over must not find in it what is refused.
 *
 * A *trim* turns a log that takes appends, once there is a spare: nobody waits, and where there is no room
 * for one nothing has happened.
 *
 * Everything is driven by mt_log_roll_step, which looks at what is there and does the next thing; it may be
 * called at any time.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mutant.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "common/event.h"
#include "common/port.h"
#include "common/replica.h"
#include "common/settings.h"
#include "common/shard.h"
#include "common/shard_events.h"
#include "extent/extent.h"
#include "extent/extent_copies.h"
#include "extent/extent_table.h"
#include "extent/node_link.h"
#include "manifest/edit.h"
#include "manifest/manifest.h"
#include "merge/reclaim.h"
#include "merge/reclaim_room.h"
#include "write/log_roll.h"
#include "write/write_answer.h"
#include "write/write_batch.h"
#include "write/write_path.h"

#define LOG_ROLL_RETRY_NS NUM_S(1)
#define LOG_ROLL_ATTEMPTS_MAX 4u /* other nodes are tried at once, so often between two pauses */

static const struct sm_state log_roll_table[LOG_ROLL_STATE_NR] = {
	[LOG_ROLL_STEADY] = { "steady", SM_TO(LOG_ROLL_TURNING) | SM_TO(LOG_ROLL_STOPPED),
	    SM_INITIAL },
	[LOG_ROLL_TURNING] = { "turning", SM_TO(LOG_ROLL_COMMITTING) | SM_TO(LOG_ROLL_STOPPED), 0 },
	[LOG_ROLL_COMMITTING] = { "committing",
	    SM_TO(LOG_ROLL_STEADY) | SM_TO(LOG_ROLL_TURNING) | SM_TO(LOG_ROLL_STOPPED), 0 },
	[LOG_ROLL_STOPPED] = { "stopped", 0, SM_FINAL },
};

static void
roll_on_retry(struct loop_timer *timer, void *arg)
{
	struct mt_write_state *state = arg;

	(void)timer;
	assert(timer == &state->roll.retry_timer);
	state->roll.is_commit_failed = false;
	write_pump_soon(state);
}

void
mt_log_roll_init(struct mt_write_state *state)
{
	struct log_roll *roll = &state->roll;

	assert(roll->spare == NULL);
	*roll = (struct log_roll){ 0 };
	state->shard->log_old = NULL;
	state->shard->is_log_short = false;
	sm_init(&roll->sm, "log_roll", log_roll_table, LOG_ROLL_STEADY, state->shard->index);
	loop_timer_init(&roll->retry_timer, roll_on_retry, state);
}

static void
roll_use(struct mt_write_state *state, struct mt_extent *log)
{
	assert(log->kind == EXTENT_LOG);
	state->shard->log = log;
	state->batch_bytes_max = (uint32_t)num_min(BATCH_BYTES_MAX, log->capacity_bytes);
}

void
mt_log_roll_start(struct mt_write_state *state)
{
	assert(state->roll.sm.state == LOG_ROLL_STEADY);
	if (state->shard->log != NULL)
		roll_use(state, state->shard->log);
}

/* ---- pauses ---- */

static uint32_t
links_up_count(const struct mt_port *port)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < port->link_count; i++)
		count += mt_link_is_up(&port->links[i]);
	return count;
}

/* The shard ends here, by our own will: nothing waits for it. */
static bool
is_own_end(int rc)
{
	return rc == -ECANCELED || rc == -EREMCHG;
}

static void
roll_log_wait(struct mt_write_state *state, int rc)
{
	const struct mt_shard *shard = state->shard;
	char why[128];

	assert(rc < 0);
	if (state->roll.is_wait_logged || is_own_end(rc))
		return;
	state->roll.is_wait_logged = true;
	if (rc == -ENOSPC)
		(void)snprintf(why, sizeof(why),
		    "too few storage nodes have room for its log: see cleave node list");
	else if (rc != -EHOSTDOWN)
		(void)snprintf(why, sizeof(why),
		    "no new extent for its log, tries again every second rc=%s", log_errno(rc));
	else
		(void)snprintf(why, sizeof(why),
		    "waits for %" PRIu32 " storage nodes, %" PRIu32 " are up",
		    shard->port->settings->min_replicas, links_up_count(shard->port));
	mt_shard_event(shard, CLEAVE_EVENT_WRITES_HELD, "shard %" PRIu32 ": %s", shard->index, why);
}

/* Nothing of it can come true later: what was sent is above the length at which its extent is sealed. */
static void
roll_refuse(struct mt_write_state *state)
{
	assert(state->roll.is_full);
	mt_write_batches_fail(state, -ENOSPC);
	mt_write_fail_parked(state, -ENOSPC);
}

/* @rc stands in the way: look again later. */
static void
roll_pause(struct mt_write_state *state, int rc)
{
	struct log_roll *roll = &state->roll;

	assert(rc < 0);
	assert(!state->is_stopped);
	roll->attempt_count = 0;
	loop_timer_start(state->shard->port->loop, &roll->retry_timer, LOG_ROLL_RETRY_NS);
	state->shard->is_log_short = rc == -ENOSPC;
	if (roll->sm.state != LOG_ROLL_TURNING)
		return; /* there is room in the log yet */
	roll_log_wait(state, rc);
	roll->is_full = rc == -ENOSPC && state->shard->log_old == NULL && roll->is_reserve_tried;
	roll->must_seal = rc == -ENOSPC && state->shard->log_old != NULL;
	if (roll->must_seal)
		write_pump_soon(state);
	else if (roll->is_full)
		roll_refuse(state);
}

/* Is it time to take what is kept back? There is no log, and something for it, and no other room. */
static bool
roll_wants_reserve(const struct mt_write_state *state)
{
	const struct log_roll *roll = &state->roll;

	return state->shard->is_log_short && roll->attempt_count > 0 &&
	    roll->sm.state == LOG_ROLL_TURNING && !mt_reclaim_can_gain(state->shard) &&
	    (roll->is_full || write_is_any_parked(state) || !list_is_empty(&state->ready) ||
		state->filling != NULL);
}

/* ---- the spare ---- */

static bool
log_is_filling_up(const struct mt_extent *log)
{
	assert(log->end_bytes <= log->capacity_bytes);
	return log->end_bytes > log->capacity_bytes / 4 * 3;
}

/* Is a trim all that the spare is for? */
static bool
roll_only_trims(const struct mt_write_state *state)
{
	const struct mt_extent *log = state->shard->log;

	return state->roll.is_trimming && state->roll.sm.state == LOG_ROLL_STEADY && log != NULL &&
	    log->sm.state == MT_EXTENT_OPEN && !log_is_filling_up(log) && !log->is_reserve;
}

static void
roll_on_created(struct mt_extent *extent, int rc, void *arg)
{
	struct mt_write_state *state = arg;
	struct log_roll *roll = &state->roll;

	if (roll->sm.state == LOG_ROLL_STOPPED) {
		roll->spare = NULL;
		if (rc == 0)
			mt_extent_delete(extent);
		return;
	}
	assert(roll->spare == extent);
	if (rc == 0) {
		roll->attempt_count = 0;
		state->shard->is_log_short = state->shard->is_log_short && extent->is_reserve;
		write_pump_soon(state);
		return;
	}
	roll->spare = NULL;
	if (rc == -ESTALE) {
		mt_shard_stop(state->shard, -ESTALE);
		return;
	}
	if (roll_only_trims(state)) {
		roll->is_trimming = false;
		return;
	}
	state->shard->is_log_short = rc == -ENOSPC; /* a node that is away is another matter */
	if (++roll->attempt_count < LOG_ROLL_ATTEMPTS_MAX)
		write_pump_soon(state);
	else
		roll_pause(state, rc);
}

static void
roll_make_spare(struct mt_write_state *state)
{
	struct log_roll *roll = &state->roll;
	struct mt_shard *shard = state->shard;

	assert(state->is_started);
	if (roll->spare != NULL || roll->retry_timer.is_active)
		return;
	roll->is_reserve_tried = roll_wants_reserve(state);
	roll->spare = roll->is_reserve_tried
	    ? mt_extent_create_reserve(shard, roll_on_created, state)
	    : mt_extent_create(shard, EXTENT_LOG, roll_on_created, state);
	if (roll->spare != NULL)
		return;
	if (roll_only_trims(state))
		roll->is_trimming = false;
	else
		roll_pause(state, -errno);
}

/* A spare that a node has failed under, or that has one that drains, is of no use; once offered it is used up. */
static void
roll_check_spare(struct mt_write_state *state)
{
	struct mt_extent *spare = state->roll.spare;

	assert(state->roll.sm.state != LOG_ROLL_COMMITTING);
	if (spare == NULL || state->roll.is_offered ||
	    (spare->sm.state != MT_EXTENT_BROKEN &&
		(spare->sm.state != MT_EXTENT_OPEN || mt_extent_leaving(spare) < 0)))
		return;
	state->roll.spare = NULL;
	mt_extent_delete(spare);
}

/* ---- the edit ---- */

static void
roll_old_sealed(struct mt_write_state *state)
{
	struct log_roll *roll = &state->roll;
	struct mt_extent *old = state->shard->log_old;

	assert(roll->sm.state == LOG_ROLL_COMMITTING);
	state->shard->log_old = NULL;
	roll->must_seal = false;
	mt_extent_seal(old, MUTANT(unacked_sealed) ? old->end_bytes : old->acked_bytes);
	mt_extent_truncate_replicas(old);
}

static void
roll_on_committed(int rc, void *arg)
{
	struct mt_write_state *state = arg;
	struct log_roll *roll = &state->roll;

	if (roll->sm.state == LOG_ROLL_STOPPED)
		return;
	assert(roll->sm.state == LOG_ROLL_COMMITTING);
	if (rc == -ESTALE) {
		mt_shard_stop(state->shard, -ESTALE);
		return;
	}
	if (rc != 0) {
		log_limited(is_own_end(rc) ? LOG_DEBUG : LOG_WARN,
		    "shard %" PRIu32
		    ": cannot record in its manifest where its log goes on, tries again rc=%s",
		    state->shard->index, log_errno(rc));
		sm_move(&roll->sm, LOG_ROLL_TURNING);
		roll->is_commit_failed = true;
		roll_pause(state, rc);
		return;
	}
	if (state->shard->log_old != NULL)
		roll_old_sealed(state);
	if (!roll->is_offered) {
		sm_move(&roll->sm, LOG_ROLL_TURNING);
		roll->is_full = roll->is_reserve_tried;
		if (roll->is_full)
			roll_refuse(state);
		mt_reclaim_kick(state->shard);
		write_pump_soon(state);
		return;
	}
	sm_move(&roll->sm, LOG_ROLL_STEADY);
	roll_use(state, roll->spare);
	roll->spare = NULL;
	roll->is_offered = roll->is_full = false;
	if (roll->is_wait_logged)
		mt_shard_event(state->shard, CLEAVE_EVENT_WRITES_GO_ON,
		    "shard %" PRIu32 ": its log goes on", state->shard->index);
	roll->is_wait_logged = false;
	mt_reclaim_kick(state->shard);
	write_pump_soon(state);
}

static void
roll_fill_edit(struct mt_edit *edit, enum mt_edit_kind kind, const struct mt_extent *extent)
{
	assert(extent->replica_count >= 1);
	assert(extent->replica_count <= MT_REPLICAS_MAX);
	*edit = (struct mt_edit){ .kind = kind,
		.id = extent->id,
		.extent_kind = extent->kind,
		.replica_count = extent->replica_count };
	for (uint32_t i = 0; i < extent->replica_count; i++)
		edit->replicas[i] = extent->replicas[i];
	if (kind == MT_EDIT_EXTENT_SEALED)
		edit->length_bytes = MUTANT(unacked_sealed) ? extent->end_bytes
							    : extent->acked_bytes;
}

/* The old extent's length and the spare's name, or only the length, where there is no spare. */
static void
roll_commit(struct mt_write_state *state, bool has_spare)
{
	struct log_roll *roll = &state->roll;
	struct mt_edit edits[2];
	uint32_t count = 0;
	int rc = 0;

	assert(roll->sm.state == LOG_ROLL_TURNING);
	assert(has_spare == (roll->spare != NULL));
	if (has_spare && !roll->is_offered)
		rc = mt_shard_extent_add(state->shard, roll->spare);
	if (rc != 0) {
		/* While there is a spare the old log is not sealed without one. */
		mt_extent_delete(roll->spare);
		roll->spare = NULL;
		roll_pause(state, rc);
		return;
	}
	if (state->shard->log_old != NULL)
		roll_fill_edit(&edits[count++], MT_EDIT_EXTENT_SEALED, state->shard->log_old);
	if (has_spare) {
		roll->is_offered = true; /* it is the shard's from here on */
		roll_fill_edit(&edits[count++], MT_EDIT_EXTENT_OPENED, roll->spare);
	}
	sm_move(&roll->sm, LOG_ROLL_COMMITTING);
	rc = mt_manifest_commit(state->shard, edits, count, roll_on_committed, state);
	if (rc != 0)
		roll_on_committed(rc, state);
}

/* ---- steps ---- */

void
mt_log_roll_over(struct mt_write_state *state)
{
	struct log_roll *roll = &state->roll;

	assert(roll->sm.state == LOG_ROLL_STEADY);
	sm_move(&roll->sm, LOG_ROLL_TURNING);
	assert(state->shard->log_old == NULL);
	state->shard->log_old = state->shard->log;
	state->shard->log = NULL;
	roll->is_trimming = false;
	roll->attempt_count = 0;
	loop_timer_stop(state->shard->port->loop, &roll->retry_timer);
}

void
mt_log_roll_trim(struct mt_write_state *state)
{
	const struct mt_extent *log = state->shard->log;

	if (log == NULL || log->end_bytes == 0 || state->roll.sm.state != LOG_ROLL_STEADY)
		return;
	state->roll.is_trimming = true;
	write_pump_soon(state);
}

bool
mt_log_roll_is_short(const struct mt_write_state *state)
{
	const struct mt_extent *log = state->shard->log;

	if (log != NULL && log->is_reserve)
		return true;
	return state->shard->is_log_short && (log == NULL || log_is_filling_up(log));
}

void
mt_log_roll_on_room(struct mt_write_state *state)
{
	struct log_roll *roll = &state->roll;

	if (state->shard->is_log_short && !roll->is_commit_failed)
		loop_timer_stop(state->shard->port->loop, &roll->retry_timer);
}

/* There is an extent for a log that does not stay where it is. */
static void
roll_leave(struct mt_write_state *state)
{
	const struct log_roll *roll = &state->roll;
	const struct mt_extent *log = state->shard->log;

	if (roll->sm.state == LOG_ROLL_STEADY && log != NULL &&
	    (log->is_reserve || roll->is_trimming) && roll->spare != NULL &&
	    roll->spare->sm.state == MT_EXTENT_OPEN && !roll->spare->is_reserve)
		mt_log_roll_over(state);
}

void
mt_log_roll_step(struct mt_write_state *state)
{
	struct log_roll *roll = &state->roll;
	struct mt_extent *log = state->shard->log;

	if (!state->is_started || roll->sm.state >= LOG_ROLL_COMMITTING)
		return;
	if (roll->sm.state == LOG_ROLL_STEADY) {
		if (log != NULL && log->sm.state == MT_EXTENT_OPEN) {
			if (!log_is_filling_up(log) && !log->is_reserve && !roll->is_trimming)
				return;
		} else {
			mt_log_roll_over(state);
		}
	}
	roll_check_spare(state);
	roll_make_spare(state);
	roll_leave(state);
	if (roll->sm.state != LOG_ROLL_TURNING || roll->is_commit_failed)
		return;
	if (state->shard->log_old != NULL && state->shard->log_old->append_count > 0)
		return;
	if (roll->spare != NULL && roll->spare->sm.state != MT_EXTENT_CREATING)
		roll_commit(state, true);
	else if (roll->spare == NULL && roll->must_seal)
		roll_commit(state, false);
}

/* An empty log extent that is at a node which drains. */
static bool
roll_has_left_empty(const struct mt_shard *shard)
{
	for (uint32_t i = 0; i < shard->extent_count; i++) {
		const struct mt_extent *extent = shard->extents[i];

		if (extent != NULL && extent->kind == EXTENT_LOG && !extent->is_going &&
		    extent->sm.state == MT_EXTENT_SEALED && extent->sealed_bytes == 0 &&
		    mt_extent_leaving(extent) >= 0)
			return true;
	}
	return false;
}

uint64_t
mt_log_roll_tend(struct mt_write_state *state, uint32_t domain_count)
{
	struct log_roll *roll = &state->roll;
	const struct mt_extent *log = state->shard->log;
	uint64_t now_ns = loop_now_ns(state->shard->port->loop);

	if (roll->sm.state == LOG_ROLL_STEADY)
		roll_check_spare(state);
	if (roll_has_left_empty(state->shard))
		mt_reclaim_kick(state->shard);
	/* With fewer copies than there could be, a damaged one, or one that must leave: it is sealed for the repair. */
	if (roll->sm.state != LOG_ROLL_STEADY || log == NULL || log->sm.state != MT_EXTENT_OPEN ||
	    (mt_extent_is_whole(log, (uint32_t)num_min(domain_count, MT_REPLICAS_MAX)) &&
		mt_extent_leaving(log) < 0))
		return UINT64_MAX;
	if (now_ns < log->placed_ns + MT_EXTENT_TEND_NS)
		return log->placed_ns + MT_EXTENT_TEND_NS;
	mt_log_roll_over(state);
	write_pump_soon(state);
	return UINT64_MAX;
}

void
mt_log_roll_on_link(struct mt_write_state *state, struct mt_link *link, bool is_up)
{
	struct log_roll *roll = &state->roll;

	assert(!state->is_stopped);
	if (roll->spare != NULL)
		mt_extent_on_link(roll->spare, link, is_up);
	/* The node that was missing may have come; a failed commit waits for its pause. */
	if (is_up && !roll->is_commit_failed)
		loop_timer_stop(state->shard->port->loop, &roll->retry_timer);
	write_pump_soon(state);
}

void
mt_log_roll_stop(struct mt_write_state *state)
{
	struct log_roll *roll = &state->roll;
	struct mt_extent *spare = roll->spare;

	assert(state->is_stopped);
	loop_timer_stop(state->shard->port->loop, &roll->retry_timer);
	sm_move(&roll->sm, LOG_ROLL_STOPPED);
	/* A spare that is being created is deleted when it is; one that the manifest may name stays. */
	if (spare == NULL || spare->sm.state == MT_EXTENT_CREATING)
		return;
	roll->spare = NULL;
	if (!roll->is_offered)
		mt_extent_delete(spare);
}

void
mt_log_roll_fini(struct mt_write_state *state)
{
	struct log_roll *roll = &state->roll;

	loop_timer_stop(state->shard->port->loop, &roll->retry_timer);
	if (!roll->is_offered)
		mt_extent_free(roll->spare);
	roll->spare = NULL;
}
