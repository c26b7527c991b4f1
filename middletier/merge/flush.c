/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flush.c -- when a shard merges, and what of it is known to others
 *
 *	       something is due             its merge has ended
 *	IDLE --------------------> MERGING ---------------------> IDLE, and look again
 *	                              | it failed
 *	                              +--------> PAUSING -------> IDLE
 *
 * One merge of a shard at a time; flush_due.c says which is next. One that failed is followed by a pause, and the runs
 * of its chunk are left alone for a while, unless it was for want of room or nodes. Where a data key or a copy is
 * missing there is no pause: the chunk is put off, and the shard's others go on at once.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/check.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/loop.h"
#include "common/alloc.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/settings.h"
#include "common/shard.h"
#include "index/heat.h"
#include "index/index.h"
#include "merge/compact.h"
#include "merge/flush.h"
#include "merge/flush_due.h"
#include "merge/flush_input.h"
#include "merge/merge.h"
#include "merge/merge_input.h"
#include "merge/merge_work.h"
#include "merge/pace.h"
#include "merge/reclaim.h"
#include "merge/reclaim_room.h"
#include "merge/run_roll.h"

#define FLUSH_MAGIC 0x48534c46u   /* "FLSH" */
#define FLUSH_TICK_NS NUM_S(1)    /* HEAT_HALF_S and flush_age_s count them */
#define FLUSH_PAUSE_NS NUM_S(1)   /* after a failure */
#define FLUSH_AVOID_NS NUM_S(30)  /* a chunk that could not be compacted */
#define FLUSH_AGAIN_NS NUM_S(60)  /* layers that could not be read twice; below FLUSH_UNREAD_NS */
#define FLUSH_UNREAD_NS NUM_S(90) /* no merge has missed a copy for so long: none does */

enum flush_state { FLUSH_IDLE, FLUSH_MERGING, FLUSH_PAUSING, FLUSH_STOPPED, FLUSH_STATE_NR };

static const struct sm_state flush_table[FLUSH_STATE_NR] = {
	[FLUSH_IDLE] = { "idle", SM_TO(FLUSH_MERGING) | SM_TO(FLUSH_PAUSING) | SM_TO(FLUSH_STOPPED),
	    SM_INITIAL },
	[FLUSH_MERGING] = { "merging",
	    SM_TO(FLUSH_IDLE) | SM_TO(FLUSH_PAUSING) | SM_TO(FLUSH_STOPPED), 0 },
	[FLUSH_PAUSING] = { "pausing", SM_TO(FLUSH_IDLE) | SM_TO(FLUSH_STOPPED), 0 },
	[FLUSH_STOPPED] = { "stopped", SM_TO(FLUSH_IDLE), SM_FINAL | SM_INITIAL },
};

struct mt_flush {
	uint32_t magic;
	struct mt_shard *shard;
	struct sm sm;
	struct loop_task task;
	struct loop_timer tick_timer; /* age, and what else nobody tells of */
	struct loop_timer pause_timer;
	uint64_t merging_chunk;
	uint64_t gain_bytes;                      /* MERGING: the log will be so much shorter */
	bool is_compaction;                       /* MERGING */
	bool is_copy;                             /* MERGING */
	bool is_covered;                          /* MERGING */
	bool is_for_readers;                      /* MERGING */
	bool has_runs;                            /* MERGING */
	uint64_t unread_since_ns, unread_last_ns; /* merges that found no copy; 0: none has */
	uint64_t unread_clone; /* a segment of the clone whose last copy was one; 0: it was not */
	uint32_t tick_count;
	struct flush_due due;
};

static void flush_on_task(struct loop_task *task, void *arg);
static void flush_on_tick(struct loop_timer *timer, void *arg);
static void flush_on_pause(struct loop_timer *timer, void *arg);

/* ---- merges ---- */

static void
flush_pause(struct mt_flush *flush)
{
	assert(!flush->pause_timer.is_active);
	sm_move(&flush->sm, FLUSH_PAUSING);
	loop_timer_start(flush->shard->port->loop, &flush->pause_timer, FLUSH_PAUSE_NS);
}

static void
flush_go_on(struct mt_flush *flush)
{
	sm_move(&flush->sm, FLUSH_IDLE);
	mt_reclaim_kick(flush->shard);
	mt_flush_kick(flush->shard);
}

/* No copy of some blocks passes, or of a run's index, which is read anew where blocks do not. */
static bool
is_unread(int rc)
{
	return rc == -EUCLEAN || rc == -EBADMSG;
}

/* A merge, or a copy for a clone, has ended so. */
static void
flush_note_unread(struct mt_flush *flush)
{
	uint64_t now_ns = loop_now_ns(flush->shard->port->loop);

	if (flush->unread_last_ns == 0 || now_ns > flush->unread_last_ns + FLUSH_UNREAD_NS)
		flush->unread_since_ns = now_ns;
	flush->unread_last_ns = now_ns;
}

/*
 * No copy of some blocks passes. The chunk's runs are left alone for a while, so its layers are tried without them. When
 * these cannot be read either they are put off, too.
 */
static void
flush_unread(struct mt_flush *flush, struct mt_chunk *chunk)
{
	uint64_t now_ns = loop_now_ns(flush->shard->port->loop);

	flush_note_unread(flush);
	if (chunk == NULL || flush->has_runs)
		return;
	if (chunk->pin == MT_PIN_COPY)
		chunk->retry_ns = now_ns + FLUSH_AGAIN_NS;
	mt_chunk_pin(chunk, MT_PIN_COPY);
}

static void
flush_failed(struct mt_flush *flush, int rc)
{
	struct mt_shard *shard = flush->shard;
	struct mt_chunk *chunk = mt_index_chunk(shard->block_index, flush->merging_chunk);

	assert(rc < 0);
	log_limited(LOG_WARN,
	    "shard %" PRIu32 ": a merge has failed, and is tried again: chunk=%" PRIu64 " rc=%s",
	    shard->index, flush->merging_chunk, log_errno(rc));
	flush->due.is_full = rc == -ENOSPC;
	/* Runs that cannot be read or are too many are left alone for a while: the layers go without them. */
	if (chunk != NULL && rc != -ENOSPC && rc != -EHOSTDOWN)
		chunk->retry_ns = loop_now_ns(shard->port->loop) + FLUSH_AVOID_NS;
	if (rc == -EUCLEAN) {
		flush_unread(flush, chunk);
		flush_go_on(flush);
		return;
	}
	if (is_unread(rc))
		flush_note_unread(flush);
	flush_pause(flush);
}

/*
 * A data key is not here: the chunk is left alone for a while, and the shard's others go on at once. Each chunk is
 * tried once in that time, and may cost a window's reads.
 */
static void
flush_keyless(struct mt_flush *flush)
{
	struct mt_shard *shard = flush->shard;
	struct mt_chunk *chunk = mt_index_chunk(shard->block_index, flush->merging_chunk);

	metric_add(&shard->port->metrics[MT_METRIC_merges_without_key], 1);
	log_limited(LOG_WARN,
	    "shard %" PRIu32 ": a merge is put off, for a data key is not here: chunk=%" PRIu64
	    ": give this gateway the --kek that wraps it",
	    shard->index, flush->merging_chunk);
	if (chunk != NULL) {
		mt_chunk_pin(chunk, MT_PIN_KEY);
		chunk->retry_ns = loop_now_ns(shard->port->loop) + FLUSH_AVOID_NS;
	}
	flush_go_on(flush);
}

/* Nothing that may be done makes the log shorter. */
static void
flush_pressed(struct mt_flush *flush)
{
	assert(flush->sm.state == FLUSH_IDLE);
	log_limited(LOG_WARN,
	    "shard %" PRIu32 ": its manifest is long, runs=%" PRIu64
	    ": what was written to new places stays in the log; delete volumes or snapshots",
	    flush->shard->index, flush->shard->block_index->run_count);
	mt_reclaim_on_merge(flush->shard, -ENOSPC);
}

/* A copy has ended: whatever came of it, writes are none the worse. */
static void
flush_on_copied(struct mt_flush *flush, int rc)
{
	assert(flush->is_copy && flush->sm.state == FLUSH_MERGING);
	mt_flatten_ended(&flush->due.flatten, flush->shard, flush->merging_chunk, rc);
	if (rc == -ENOKEY)
		metric_add(&flush->shard->port->metrics[MT_METRIC_merges_without_key], 1);
	flush->unread_clone = 0;
	if (is_unread(rc)) {
		flush->unread_clone = mt_chunk_segment(flush->merging_chunk);
		flush_note_unread(flush);
	}
	if (rc != 0 && rc != -E2BIG)
		log_limited(LOG_WARN,
		    "shard %" PRIu32
		    ": a clone's chunk was not flattened, and is tried again: chunk=%" PRIu64
		    " rc=%s",
		    flush->shard->index, flush->merging_chunk, log_errno(rc));
	sm_move(&flush->sm, FLUSH_IDLE);
	mt_flush_kick(flush->shard);
}

/* A merge for readers alone has found no room: they do without, and no write waits for what it would have brought. */
static void
flush_without_room(struct mt_flush *flush)
{
	struct mt_shard *shard = flush->shard;
	struct mt_chunk *chunk = mt_index_chunk(shard->block_index, flush->merging_chunk);

	log_limited(LOG_WARN,
	    "shard %" PRIu32
	    ": what is read often is not stored for its readers, for nodes have no room chunk=%" PRIu64,
	    shard->index, flush->merging_chunk);
	if (chunk != NULL)
		chunk->retry_ns = loop_now_ns(shard->port->loop) + FLUSH_AVOID_NS;
	sm_move(&flush->sm, FLUSH_IDLE);
	mt_flush_kick(shard);
}

static void
flush_on_merged(int rc, void *arg)
{
	struct mt_flush *flush = arg;
	struct mt_chunk *chunk;

	CHECK_OBJ(flush, FLUSH_MAGIC);
	assert(rc <= 0);
	if (flush->sm.state == FLUSH_STOPPED)
		return;
	assert(flush->sm.state == FLUSH_MERGING);
	flush->due.was_copy = flush->is_copy;
	if (flush->is_copy) {
		flush_on_copied(flush, rc);
		return;
	}
	if (!flush->is_covered) /* it has cost nothing, and is nobody's turn */
		flush->due.was_flush = !flush->is_compaction;
	if (rc == -ENOSPC && flush->is_for_readers) {
		flush_without_room(flush);
		return;
	}
	mt_reclaim_on_merge(flush->shard, rc);
	if (rc == -ENOKEY) {
		flush_keyless(flush);
		return;
	}
	if (rc != 0) {
		flush_failed(flush, rc);
		return;
	}
	flush->due.is_full = false;
	chunk = mt_index_chunk(flush->shard->block_index, flush->merging_chunk);
	if (chunk != NULL)
		mt_chunk_pin(chunk, MT_PIN_NONE);
	if (chunk != NULL)
		mt_compact_count(flush->shard->block_index, chunk);
	mt_flush_due_merged(&flush->due, flush->merging_chunk);
	sm_move(&flush->sm, FLUSH_IDLE);
	mt_flush_kick(flush->shard);
}

static void
flush_on_task(struct loop_task *task, void *arg)
{
	struct mt_flush *flush = arg;
	struct mt_merge_input input;
	int rc;

	(void)task;
	CHECK_OBJ(flush, FLUSH_MAGIC);
	if (flush->sm.state != FLUSH_IDLE)
		return;
	rc = mt_flush_due_find(&flush->due, &input);
	if (rc == -ENOENT)
		return;
	if (rc == 0) {
		flush->is_copy = input.from != NULL;
		flush->is_covered = input.is_covered;
		flush->is_for_readers = input.is_for_readers;
		flush->has_runs = input.newest_run != NULL;
		flush->merging_chunk = mt_merge_input_target(&input);
		flush->gain_bytes = flush->is_copy ? 0 : mt_flush_due_gain(&flush->due, &input);
		flush->is_compaction = !flush->is_copy && mt_flush_input_is_compaction(&input);
		if (flush->is_copy)
			mt_flatten_began(&flush->due.flatten);
		sm_move(&flush->sm, FLUSH_MERGING);
		rc = mt_merge_start(flush->shard, &input, flush_on_merged, flush);
		if (rc != 0)
			flush_on_merged(rc, flush);
		return;
	}
	if (rc == -ENOSPC)
		flush_pressed(flush);
	flush_pause(flush);
}

static void
flush_on_pause(struct loop_timer *timer, void *arg)
{
	struct mt_flush *flush = arg;

	(void)timer;
	CHECK_OBJ(flush, FLUSH_MAGIC);
	assert(flush->sm.state == FLUSH_PAUSING);
	sm_move(&flush->sm, FLUSH_IDLE);
	mt_flush_kick(flush->shard);
}

static void
flush_on_tick(struct loop_timer *timer, void *arg)
{
	struct mt_flush *flush = arg;
	struct mt_shard *shard = flush->shard;

	CHECK_OBJ(flush, FLUSH_MAGIC);
	assert(flush->sm.state != FLUSH_STOPPED);
	if (++flush->tick_count % shard->port->settings->flush_age_s == 0)
		mt_flush_due_age(&flush->due);
	if (flush->tick_count % HEAT_HALF_S == 0)
		mt_heat_half(shard->block_index);
	flush->due.may_look = true;
	mt_run_roll_tend(shard);
	mt_flush_kick(shard);
	loop_timer_start(shard->port->loop, timer, FLUSH_TICK_NS);
}

/* ---- its life ---- */

int
mt_flush_init(struct mt_shard *shard)
{
	struct mt_flush *flush = mt_calloc(1, sizeof(*flush));

	assert(shard->flush == NULL);
	if (flush == NULL)
		return -ENOMEM;
	flush->magic = FLUSH_MAGIC;
	flush->shard = flush->due.shard = shard;
	loop_task_init(&flush->task, flush_on_task, flush);
	loop_timer_init(&flush->tick_timer, flush_on_tick, flush);
	loop_timer_init(&flush->pause_timer, flush_on_pause, flush);
	sm_init(&flush->sm, "flush", flush_table, FLUSH_STOPPED, shard->index);
	shard->flush = flush;
	return 0;
}

void
mt_flush_start(struct mt_shard *shard)
{
	struct mt_flush *flush = shard->flush;

	CHECK_OBJ(flush, FLUSH_MAGIC);
	assert(!flush->tick_timer.is_active && !flush->pause_timer.is_active);
	assert(shard->port->settings->flush_age_s > 0);
	sm_move(&flush->sm, FLUSH_IDLE);
	flush->tick_count = 0;
	flush->unread_since_ns = flush->unread_last_ns = flush->unread_clone = 0;
	mt_flush_due_start(&flush->due, shard);
	loop_timer_start(shard->port->loop, &flush->tick_timer, FLUSH_TICK_NS);
	mt_flush_kick(shard);
}

void
mt_flush_stop(struct mt_shard *shard)
{
	struct mt_flush *flush = shard->flush;

	CHECK_OBJ(flush, FLUSH_MAGIC);
	if (flush->sm.state == FLUSH_STOPPED)
		return;
	sm_move(&flush->sm, FLUSH_STOPPED);
	loop_task_cancel(shard->port->loop, &flush->task);
	loop_timer_stop(shard->port->loop, &flush->tick_timer);
	loop_timer_stop(shard->port->loop, &flush->pause_timer);
}

void
mt_flush_fini(struct mt_shard *shard)
{
	struct mt_flush *flush = shard->flush;

	if (flush == NULL)
		return;
	mt_flush_stop(shard);
	flush->magic = 0;
	mt_free(flush);
	shard->flush = NULL;
}

void
mt_flush_kick(struct mt_shard *shard)
{
	struct mt_flush *flush = shard->flush;

	assert(flush == NULL || flush->shard == shard);
	if (flush != NULL && flush->sm.state == FLUSH_IDLE)
		loop_defer(shard->port->loop, &flush->task);
}

/* ---- clones that are flattened ---- */

int
mt_flush_flatten(struct mt_shard *shard, const struct mt_scope *scope, uint32_t key_id)
{
	struct mt_flush *flush = shard->flush;
	int rc;

	if (flush == NULL || flush->sm.state == FLUSH_STOPPED)
		return -EAGAIN;
	rc = mt_flatten_ask(&flush->due.flatten, scope);
	flush->due.flatten.key_id = key_id;
	if (rc != 0)
		mt_flush_kick(shard);
	return rc;
}

const struct flatten *
mt_flush_flatten_of(const struct mt_shard *shard)
{
	return shard->flush == NULL ? NULL : &shard->flush->due.flatten;
}

int
mt_flush_drop(struct mt_shard *shard, uint64_t segment_base, uint32_t segment_count)
{
	struct flatten *flatten;
	bool has_any = false;

	assert(segment_count > 0);
	if (shard->flush == NULL)
		return 0;
	flatten = &shard->flush->due.flatten;
	for (uint32_t i = 0; i < flatten->scope.span_count; i++)
		has_any = has_any ||
		    (flatten->scope.spans[i].segment_base >= segment_base &&
			flatten->scope.spans[i].segment_base - segment_base < segment_count);
	if (!has_any)
		return 0;
	(void)mt_flatten_ask(flatten, NULL);
	return flatten->is_copying ? -EAGAIN : 0;
}

/* ---- questions ---- */

uint32_t
mt_flush_pressure(const struct mt_shard *shard)
{
	const struct mt_flush *flush = shard->flush;
	uint32_t pressure = mt_reclaim_pressure(shard, 0);

	if (flush == NULL || flush->sm.state != FLUSH_MERGING ||
	    (pressure >= PACE_HURRY && mt_reclaim_holds_writes(shard)))
		return pressure;
	return mt_reclaim_pressure(shard, flush->gain_bytes / 1000 * mt_merge_progress(shard));
}

bool
mt_flush_can_gain(const struct mt_shard *shard)
{
	const struct mt_flush *flush = shard->flush;

	if (flush == NULL || flush->due.is_full)
		return false;
	return flush->sm.state == FLUSH_MERGING ||
	    (flush->sm.state == FLUSH_IDLE && mt_flush_due_has_layers(&flush->due));
}

uint64_t
mt_flush_unread_ns(const struct mt_shard *shard)
{
	const struct mt_flush *flush = shard->flush;

	if (flush == NULL || flush->sm.state == FLUSH_STOPPED || flush->unread_last_ns == 0 ||
	    loop_now_ns(shard->port->loop) > flush->unread_last_ns + FLUSH_UNREAD_NS)
		return 0;
	return flush->unread_last_ns - flush->unread_since_ns;
}

uint64_t
mt_flush_unread_clone(const struct mt_shard *shard)
{
	return mt_flush_unread_ns(shard) == 0 ? 0 : shard->flush->unread_clone;
}

void
mt_flush_totals(const struct mt_shard *shard, struct mt_flush_totals *ret_totals)
{
	const struct mt_flush *flush = shard->flush;

	*ret_totals = (struct mt_flush_totals){ 0 };
	if (flush == NULL || flush->sm.state == FLUSH_STOPPED || shard->block_index == NULL)
		return;
	ret_totals->run_bytes = shard->block_index->run_bytes;
	ret_totals->run_count = shard->block_index->run_count;
	ret_totals->extent_bytes = flush->due.total.extent_bytes;
	ret_totals->live_bytes = num_min(flush->due.total.live_bytes, ret_totals->run_bytes);
}
