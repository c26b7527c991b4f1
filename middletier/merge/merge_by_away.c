/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge_by_away.c -- stages of a port's merges that other gateways execute, piece by piece
 *
 *	       a stage          an extent has room          told          on every replica, and    it holds
 *	IDLE ---------> ROOM ------------------------> GIVEN -----> SEEING ---------------> SAMPLING ----> ROOM, or the stage
 *	 ^               | there is none, nothing to ask |             | what was asked for    | its blocks  is over: IDLE
 *	 |               | about, encrypted              | nobody,     |                       |
 *	 +---------------+-------------------------------+-late--------+---- it is not so -----+   by the plan
 *
 *	the open extent    OPEN, end e --> LENT ------------------------------> OPEN, end e + part
 *	                    ^               | nobody has room  ^
 *	                    +---------------+                  |  as it was told, and seen
 *	                                    | given -----------+
 *	                                    +--> failed, late, not what was asked for: SEALED at e
 *
 * Nobody is waited for when it fails: the edit that seals the extent says its length, nodes cut off what is behind that,
 * and refuse what comes then. So it is safe to execute the stage here at once, in another extent.
 *
 * All of a stage is named by one commit, as ever: pieces that were seen are its result, as parts of several extents are.
 * So where nobody executes the next one what is left of the stage is executed here, and its runs come behind theirs.
 */
#include "merge/merge_by_away.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>

#include "base/check.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/mutant.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/settings.h"
#include "common/shard.h"
#include "extent/extent.h"
#include "extent/extent_copies.h"
#include "extent/extent_table.h"
#include "merge/merge.h"
#include "merge/merge_away.h"
#include "merge/merge_plan.h"
#include "merge/merge_readback.h"
#include "merge/merge_result.h"
#include "merge/merge_sample.h"
#include "merge/merge_step.h"
#include "merge/merge_verify.h"
#include "merge/merge_work.h"
#include "merge/recipe.h"
#include "merge/recipe_decode.h"
#include "merge/recipe_make.h"
#include "merge/run_roll.h"
#include "merge/told.h"

#define BY_AWAY_ROOM_SHARE 16u         /* an extent with less room than that of its slot is left */
#define BY_AWAY_MARGIN_SHARE 16u       /* of its room: batches are not all as full as can be */
#define BY_AWAY_TAIL_BYTES NUM_KIB(12) /* a directory, and a batch's padding */
#define BY_AWAY_HOPE_NS NUM_MS(10)
/* A piece is one run, or two, where something has found room behind a directory: more would leave a stage's commit no room. */
#define BY_AWAY_PARTS_MAX 2u

_Static_assert(MERGE_PARTS_MAX / 2 + BY_AWAY_PARTS_MAX <= MERGE_PARTS_MAX,
    "a stage that goes on has room for the parts of a piece");

enum by_away_state {
	BY_AWAY_IDLE,
	BY_AWAY_ROOM,
	BY_AWAY_GIVEN,
	BY_AWAY_SEEING,
	BY_AWAY_SAMPLING,
	BY_AWAY_STATE_NR
};

static const struct sm_state by_away_table[BY_AWAY_STATE_NR] = {
	[BY_AWAY_IDLE] = { "idle", SM_TO(BY_AWAY_ROOM), SM_INITIAL },
	[BY_AWAY_ROOM] = { "room", SM_TO(BY_AWAY_GIVEN) | SM_TO(BY_AWAY_IDLE), 0 },
	[BY_AWAY_GIVEN] = { "given", SM_TO(BY_AWAY_SEEING) | SM_TO(BY_AWAY_IDLE), 0 },
	[BY_AWAY_SEEING] = { "seeing",
	    SM_TO(BY_AWAY_SAMPLING) | SM_TO(BY_AWAY_ROOM) | SM_TO(BY_AWAY_IDLE), 0 },
	[BY_AWAY_SAMPLING] = { "sampling", SM_TO(BY_AWAY_ROOM) | SM_TO(BY_AWAY_IDLE), 0 },
};

struct merge_by_away {
	struct sm sm;
	struct merge_away *away;
	struct mt_recipe_maker maker;
	uint8_t *bytes; /* RECIPE_BYTES_MAX */
	struct mt_recipe recipe;
	uint32_t end_block;        /* of the chunk: the piece's */
	struct merge_result piece; /* as it was told */
	uint32_t frame_count;      /* that it has, as it was told */
	bool is_broken;            /* the extent takes no more behind it */
	struct merge_readback readback;
	struct merge_sample sample;
	uint64_t stored_bytes; /* of the stage's pieces that were seen */
	/* Parts of the piece, which count when it has been seen: */
	uint32_t recipe_bytes;
	uint64_t since_ns; /* when it was GIVEN, then when SEEING began */
	uint64_t recipe_ns, away_ns;
	const struct mt_shard *shard; /* not IDLE */
};

/* ---- an extent with room ---- */

/* As much as a piece may have of what the open extent has left. */
static uint64_t
room_bytes(const struct mt_shard *shard)
{
	uint64_t bytes = mt_run_roll_bytes(shard);

	bytes -= bytes / BY_AWAY_MARGIN_SHARE;
	return bytes > BY_AWAY_TAIL_BYTES ? bytes - BY_AWAY_TAIL_BYTES : 0;
}

/* OPEN: is the extent worth another piece? Else it is left as it is, and one more opened. */
static bool
room_is_enough(const struct mt_merge *merge)
{
	const struct mt_extent *extent = merge->shard->run_roll->extent;
	uint64_t left_bytes = mt_merge_plan_left_bytes(&merge_work_of(merge)->plan);
	uint64_t least_bytes = num_min(left_bytes, extent->capacity_bytes / BY_AWAY_ROOM_SHARE);

	return extent->sm.state == MT_EXTENT_OPEN &&
	    room_bytes(merge->shard) >= num_max(least_bytes, 1);
}

/* Why there is no extent: waited for, while room may yet come. */
static int
room_failed(struct mt_merge *merge)
{
	struct merge_work *work = merge_work_of(merge);
	struct mt_run_roll *roll = merge->shard->run_roll;
	int rc = roll->rc;

	assert(rc < 0);
	roll->rc = 0; /* the next who wants one tries anew */
	if (rc != -ENOSPC || loop_now_ns(work->port->loop) >= work->exec.writer.hope_ns)
		return rc;
	mt_merge_work_wait(work, BY_AWAY_HOPE_NS);
	return STEP_AGAIN;
}

/* STEP_DONE: the open extent has room, and nobody else appends to it. */
static int
room_find(struct mt_merge *merge)
{
	struct mt_run_roll *roll = merge->shard->run_roll;

	for (;;) {
		enum run_roll_state before = (enum run_roll_state)roll->sm.state;

		if (before == RUN_ROLL_STOPPED)
			return -ECANCELED;
		if (before == RUN_ROLL_OPEN && room_is_enough(merge))
			return roll->extent->append_count == 0 ? STEP_DONE : -EBUSY;
		if (before != RUN_ROLL_OPEN && roll->rc != 0)
			return room_failed(merge);
		if (before == RUN_ROLL_OPEN)
			mt_run_roll_over(roll);
		else
			mt_run_roll_step(roll);
		if (roll->rc == 0 && (enum run_roll_state)roll->sm.state == before)
			return STEP_AGAIN; /* it tells when it has got on */
	}
}

/* ---- a piece goes ---- */

static int piece_over(struct mt_merge *merge);

/* There is room: the next piece is made, and somebody looked for. */
static int
piece_give(struct mt_merge *merge)
{
	struct merge_work *work = merge_work_of(merge);
	struct merge_by_away *by_away = work->by_away;
	struct mt_run_roll *roll = merge->shard->run_roll;
	uint64_t began_ns = loop_now_fresh_ns(work->port->loop);
	int bytes = mt_recipe_make(&by_away->maker, merge, by_away->bytes, room_bytes(merge->shard),
	    &by_away->end_block);
	const char *field;
	int rc;

	if (bytes == -ENOSPC && roll->extent->end_bytes > 0) {
		mt_run_roll_over(roll); /* not even for a window */
		mt_merge_work_wait(work, 0);
		return STEP_AGAIN;
	}
	if (bytes < 0)
		return bytes;
	rc = mt_recipe_decode(by_away->bytes, (uint32_t)bytes, &by_away->recipe, &field);
	assert(rc == 0); /* what we make ourselves passes */
	if (mt_recipe_encrypts(&by_away->recipe))
		return -ENOTSUP;
	if (by_away->recipe.head.frame_count == 0)
		return piece_over(merge); /* nothing is left, or all zeros */
	if (!mt_merge_away_is_hopeful(by_away->away))
		return -EAGAIN;
	rc = mt_merge_away_begin(by_away->away, &by_away->recipe, by_away->bytes, (uint32_t)bytes);
	if (rc != 0)
		return rc;
	mt_run_roll_lend(roll);
	by_away->since_ns = loop_now_fresh_ns(work->port->loop);
	by_away->recipe_ns = by_away->since_ns - began_ns;
	by_away->recipe_bytes = (uint32_t)bytes;
	sm_move(&by_away->sm, BY_AWAY_GIVEN);
	return STEP_AGAIN;
}

/* ---- what is said of it ---- */

/* How long it was in this state, which ends. */
static uint64_t
piece_ns(struct merge_work *work)
{
	uint64_t since_ns = work->by_away->since_ns;

	work->by_away->since_ns = loop_now_fresh_ns(work->port->loop);
	return work->by_away->since_ns - since_ns;
}

/* Copies that it says did not pass: their nodes verify them, which does no harm where it is not so. */
static void
piece_suspects(const struct merge_by_away *by_away, const struct mt_told *told,
    const struct mt_shard *shard)
{
	for (uint32_t i = 0; i < told->suspect_count; i++) {
		struct mt_recipe_extent named =
		    mt_recipe_extent(&by_away->recipe, told->suspects[i].extent);
		struct mt_extent *extent = mt_shard_extent_named(shard, &named.id);

		if (extent != NULL)
			mt_extent_suspect(extent, named.nodes[told->suspects[i].replica]);
	}
}

/* Nothing has come of it. Where nobody had room, it is as if nobody had been asked. */
static int
piece_failed(const struct mt_merge *merge, int rc)
{
	const struct merge_by_away *by_away = merge_work_of(merge)->by_away;

	if (!mt_merge_away_is_given(by_away->away))
		return rc;
	metric_add(&merge->shard->port->metrics[MT_METRIC_merges_recalled], 1);
	metric_add(&merge->shard->port->metrics[MT_METRIC_merges_late], rc == -ETIMEDOUT);
	log_limited(LOG_WARN,
	    "merge: another gateway has not executed it, it is made anew here shard=%" PRIu32
	    " chunk=%" PRIu64 " peer=%s rc=%s",
	    merge->shard->index, merge->target, mt_merge_away_peer(by_away->away), log_errno(rc));
	return rc;
}

static int piece_see(struct mt_merge *merge);

static int
piece_given(struct mt_merge *merge)
{
	struct merge_by_away *by_away = merge_work_of(merge)->by_away;
	const struct mt_told *told;
	int rc = mt_merge_away_step(by_away->away);

	assert(by_away->sm.state == BY_AWAY_GIVEN);
	if (rc != STEP_DONE)
		return rc == STEP_AGAIN ? rc : piece_failed(merge, rc);
	told = mt_merge_away_told(by_away->away);
	/* All of it, for what is behind would be taken for merged; and in as few runs as who makes it for us needs. */
	if ((told->frame_count != by_away->recipe.head.frame_count && !MUTANT(told_short)) ||
	    told->part_count > BY_AWAY_PARTS_MAX) {
		mt_merge_away_note(by_away->away, false);
		return piece_failed(merge, -EBADMSG);
	}
	by_away->away_ns = piece_ns(merge_work_of(merge));
	by_away->frame_count = told->frame_count;
	by_away->is_broken = told->is_broken;
	piece_suspects(by_away, told, merge->shard);
	mt_told_to_result(told, by_away->recipe.head.flushed_sequence,
	    merge->shard->run_roll->extent, &by_away->piece);
	sm_move(&by_away->sm, BY_AWAY_SEEING);
	mt_merge_readback_begin(&by_away->readback, merge->shard, merge->target, &by_away->piece);
	return piece_see(merge);
}

/* ---- what is seen of it ---- */

/* The extent is its owner's again, as far as the piece goes. */
static void
piece_return(struct mt_merge *merge)
{
	struct merge_by_away *by_away = merge_work_of(merge)->by_away;
	struct mt_run_roll *roll = merge->shard->run_roll;
	const struct merge_result *piece = &by_away->piece;
	const struct run_part *last;

	assert(roll->sm.state == RUN_ROLL_LENT);
	if (piece->part_count == 0) {
		mt_run_roll_recall(roll); /* somebody may append to it yet */
		return;
	}
	last = &piece->parts[piece->part_count - 1];
	assert(last->extent_index == roll->extent->index);
	mt_run_roll_return(roll, last->offset_bytes + last->length_bytes,
	    mt_merge_readback_chain(&by_away->readback));
	if (by_away->is_broken)
		mt_run_roll_over(roll);
}

/* All that was seen is the stage's. */
static void
piece_keep(struct merge_work *work)
{
	struct merge_by_away *by_away = work->by_away;
	struct merge_result *piece = &by_away->piece, *result = &work->result;

	assert(result->part_count + piece->part_count <= MERGE_PARTS_MAX);
	result->flushed_sequence = piece->flushed_sequence;
	result->read_bytes = 0; /* who has read them counts them */
	by_away->stored_bytes += mt_merge_result_bytes(piece);
	for (uint32_t i = 0; i < piece->part_count; i++) {
		result->parts[result->part_count] = piece->parts[i];
		result->indexes[result->part_count++] = piece->indexes[i];
		piece->indexes[i] = NULL;
	}
	piece->part_count = 0;
}

/* The piece is done with: the next one, or the stage is over. */
static int
piece_over(struct mt_merge *merge)
{
	struct merge_work *work = merge_work_of(merge);
	struct merge_by_away *by_away = work->by_away;
	bool is_full = !merge->is_last_stage && by_away->stored_bytes >= merge->stage_bytes * 3 / 4;

	work->plan.at = by_away->end_block;
	if (by_away->sm.state != BY_AWAY_ROOM)
		sm_move(&by_away->sm, BY_AWAY_ROOM);
	if (is_full || work->plan.at == CLEAVE_CHUNK_BLOCKS) {
		mt_merge_by_away_end(merge);
		return STEP_DONE;
	}
	/* Far more than a chunk fills. */
	if (work->result.part_count > MERGE_PARTS_MAX / 2)
		return -E2BIG;
	mt_merge_work_wait(work, 0);
	return STEP_AGAIN;
}

static void
piece_count(struct merge_work *work)
{
	const struct merge_by_away *by_away = work->by_away;
	uint64_t *metrics = work->port->metrics;

	metric_add(&metrics[MT_METRIC_merged_away_bytes], mt_merge_result_bytes(&by_away->piece));
	metric_add(&metrics[MT_METRIC_merges_away], 1);
	metric_add(&metrics[MT_METRIC_recipe_bytes], by_away->recipe_bytes);
	metric_add(&metrics[MT_METRIC_recipe_ns], by_away->recipe_ns);
	metric_add(&metrics[MT_METRIC_away_ns], by_away->away_ns);
	metric_add(&metrics[MT_METRIC_seen_ns], piece_ns(work));
}

/* All that is seen of it has been: @rc 0 or more: it is what was asked for; else @field is not. */
static int
piece_judged(struct mt_merge *merge, int rc, const char *field)
{
	struct merge_work *work = merge_work_of(merge);
	const struct merge_by_away *by_away = work->by_away;

	mt_merge_away_note(by_away->away, rc >= 0);
	if (rc >= 0) {
		piece_count(work);
		piece_return(merge);
		piece_keep(work);
		return piece_over(merge);
	}
	metric_add(&work->port->metrics[MT_METRIC_merges_refused], 1);
	log_limited(LOG_WARN,
	    "merge: what another gateway has made is not what was asked for, it is made anew here "
	    "shard=%" PRIu32 " chunk=%" PRIu64 " peer=%s wrong=%s rc=%s",
	    merge->shard->index, merge->target, mt_merge_away_peer(by_away->away), field,
	    log_errno(rc));
	return rc;
}

/* Some of what it has made is read as a reader would, all where it was not to be believed lately. */
static int
piece_sample(struct mt_merge *merge)
{
	struct merge_work *work = merge_work_of(merge);
	int rc = mt_merge_sample_step(&work->by_away->sample, &work->exec.turn);

	assert(work->by_away->sm.state == BY_AWAY_SAMPLING);
	return rc == STEP_AGAIN ? rc : piece_judged(merge, rc, "what a frame holds");
}

static int
piece_sample_begin(struct mt_merge *merge)
{
	struct merge_work *work = merge_work_of(merge);
	struct merge_by_away *by_away = work->by_away;
	uint32_t stride = mt_merge_away_is_watched(by_away->away) ? 1 : MERGE_SAMPLE_STRIDE;

	assert(work->exec.out_count == 0); /* nothing is in its windows */
	sm_move(&by_away->sm, BY_AWAY_SAMPLING);
	mt_merge_sample_begin(&by_away->sample, merge->shard, &by_away->recipe, &by_away->piece,
	    stride, work->exec.memory);
	return piece_sample(merge);
}

/* Nobody who executes a recipe is believed (I13). */
static int
piece_see(struct mt_merge *merge)
{
	struct merge_work *work = merge_work_of(merge);
	struct merge_by_away *by_away = work->by_away;
	const struct mt_run_index *indexes[MERGE_PARTS_MAX];
	const char *field = "what nodes hold";
	int rc = mt_merge_readback_step(&by_away->readback, &work->exec.turn);

	assert(by_away->sm.state == BY_AWAY_SEEING);
	if (rc == STEP_AGAIN)
		return rc;
	if (rc == STEP_DONE && !MUTANT(recipe_trusted)) {
		for (uint32_t i = 0; i < by_away->piece.part_count; i++)
			indexes[i] = by_away->piece.indexes[i];
		rc = mt_merge_verify(&by_away->recipe, by_away->frame_count, indexes,
		    by_away->piece.part_count, &field);
	}
	return rc < 0 || MUTANT(garbage_believed) ? piece_judged(merge, rc, field)
						  : piece_sample_begin(merge);
}

/* ---- a stage ---- */

bool
mt_merge_by_away_begin(struct mt_merge *merge)
{
	struct merge_work *work = merge_work_of(merge);
	struct merge_by_away *by_away = work->by_away;
	uint64_t min_bytes = work->port->settings->offload_bytes_min;

	if (by_away == NULL || merge->is_refused || !mt_merge_away_is_hopeful(by_away->away))
		return false;
	if (min_bytes == 0)
		min_bytes = MERGE_AWAY_BYTES_MIN;
	if (mt_merge_plan_left_bytes(&work->plan) < min_bytes)
		return false;
	sm_move(&by_away->sm, BY_AWAY_ROOM);
	by_away->stored_bytes = 0;
	by_away->shard = merge->shard;
	return true;
}

bool
mt_merge_by_away_is_on(const struct merge_work *work)
{
	return work->by_away != NULL && work->by_away->sm.state != BY_AWAY_IDLE;
}

int
mt_merge_by_away_step(struct mt_merge *merge)
{
	struct merge_work *work = merge_work_of(merge);
	int rc;

	assert(mt_merge_by_away_is_on(work));
	if (work->by_away->sm.state == BY_AWAY_SAMPLING) {
		rc = piece_sample(merge);
	} else if (work->by_away->sm.state == BY_AWAY_SEEING) {
		rc = piece_see(merge);
	} else if (work->by_away->sm.state == BY_AWAY_GIVEN) {
		rc = piece_given(merge);
	} else {
		rc = room_find(merge);
		if (rc == STEP_DONE)
			rc = piece_give(merge);
	}
	return rc;
}

void
mt_merge_by_away_end(struct mt_merge *merge)
{
	struct merge_work *work = merge_work_of(merge);
	struct merge_by_away *by_away = work->by_away;
	struct mt_run_roll *roll = merge->shard->run_roll;

	if (!mt_merge_by_away_is_on(work))
		return;
	mt_merge_away_cancel(by_away->away);
	mt_merge_result_release(&by_away->piece, merge->shard);
	sm_move(&by_away->sm, BY_AWAY_IDLE);
	by_away->shard = NULL;
	if (roll->sm.state != RUN_ROLL_LENT)
		return;
	if (mt_merge_away_is_given(by_away->away))
		mt_run_roll_recall(roll);
	else
		mt_run_roll_unlend(roll);
}

void
mt_merge_by_away_cancel(struct merge_work *work)
{
	if (!mt_merge_by_away_is_on(work))
		return;
	mt_merge_readback_cancel(&work->by_away->readback);
	mt_merge_sample_cancel(&work->by_away->sample);
	mt_merge_away_cancel(work->by_away->away);
}

bool
mt_merge_by_away_is_quiet(const struct merge_work *work)
{
	return work->by_away == NULL ||
	    (mt_merge_readback_is_quiet(&work->by_away->readback) &&
		mt_merge_sample_is_quiet(&work->by_away->sample));
}

void
mt_merge_by_away_forget(struct merge_work *work, const struct mt_shard *shard)
{
	struct merge_by_away *by_away = work->by_away;

	if (!mt_merge_by_away_is_on(work) || by_away->shard != shard)
		return;
	mt_merge_away_forget(by_away->away);
	mt_merge_result_forget(&by_away->piece);
	sm_move(&by_away->sm, BY_AWAY_IDLE);
	by_away->shard = NULL;
}

/* ---- its life ---- */

static void
by_away_tell(void *arg)
{
	mt_merge_work_soon(arg);
}

static void
by_away_on_node(void *arg)
{
	const struct merge_work *work = arg;

	assert(work->merge != NULL);
	mt_merge_notify(work->merge, 0);
}

int
mt_merge_by_away_create(struct merge_work *work)
{
	struct merge_by_away *by_away = mt_calloc(1, sizeof(*by_away));

	assert(work->by_away == NULL);
	if (by_away == NULL)
		return -ENOMEM;
	by_away->bytes = mt_calloc(1, RECIPE_BYTES_MAX);
	if (by_away->bytes == NULL) {
		mt_free(by_away);
		return -ENOMEM;
	}
	sm_init(&by_away->sm, "by_away", by_away_table, BY_AWAY_IDLE, work->port->index);
	mt_merge_readback_init(&by_away->readback, by_away_on_node, work);
	mt_merge_sample_init(&by_away->sample, by_away_on_node, work);
	work->by_away = by_away;
	return mt_merge_away_create(work->port, by_away_tell, work, &by_away->away);
}

void
mt_merge_by_away_destroy(struct merge_by_away *by_away)
{
	if (by_away == NULL)
		return;
	mt_merge_readback_fini(&by_away->readback);
	mt_merge_away_destroy(by_away->away);
	mt_free(by_away->bytes);
	mt_free(by_away);
}

void
mt_merge_by_away_names(struct merge_work *work, const struct mt_away_names *names)
{
	if (work != NULL && work->by_away != NULL)
		mt_merge_away_names(work->by_away->away, names);
}
