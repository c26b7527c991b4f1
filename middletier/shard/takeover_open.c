/* SPDX-License-Identifier: Apache-2.0 */
/*
 * takeover_open.c -- the last steps of a take-over: open_manifest, replay, await_volumes, serve
 *
 * takeover_manifest.c has found the state: every extent that the manifest names, sealed at an agreed length.
 * Here they become the shard's extents, a new manifest makes the lengths durable, and only then the log's
 * descriptors go into the index, extent after extent, which is the order they were written in.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/mutant.h"
#include "base/num.h"
#include "catalog/numbers.h"
#include "catalog/scope.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/event.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/port_events.h"
#include "common/settings.h"
#include "common/shard.h"
#include "common/shard_events.h"
#include "common/shard_state.h"
#include "extent/extent.h"
#include "extent/extent_table.h"
#include "extent/replay.h"
#include "index/index.h"
#include "index/index_apply.h"
#include "index/index_cuts.h"
#include "manifest/edit.h"
#include "manifest/manifest.h"
#include "manifest/manifest_state.h"
#include "shard/shard_life.h"
#include "shard/takeover.h"
#include "shard/takeover_open.h"

#define TAKEOVER_PROGRESS_NS NUM_S(1)
#define TAKEOVER_RUNS_MAX 4096u /* that a turn restores: some ms; there may be a million */

/* ---- open_manifest ---- */

/* Makes an extent of the state the shard's; log extents are to be replayed. */
static int
takeover_restore(struct mt_takeover *takeover, const struct mt_state_extent *from)
{
	struct mt_shard *shard = takeover->shard;
	struct mt_extent *extent =
	    mt_extent_restore(shard, &from->id, from->kind, from->replicas, from->replica_count);
	struct mt_replay_source *source = &takeover->sources[takeover->source_count];
	int rc;

	assert(takeover->source_count < takeover->state.extent_count);
	if (extent == NULL)
		return -ENOMEM;
	rc = mt_shard_extent_add(shard, extent);
	if (rc != 0) {
		mt_extent_free(extent);
		return rc;
	}
	mt_extent_seal(extent, from->sealed_bytes);
	if (from->kind != EXTENT_LOG)
		return 0;
	shard->log_bytes += from->sealed_bytes;
	*source = (struct mt_replay_source){ .id = from->id,
		.kind = from->kind,
		.replica_count = from->replica_count,
		.length_bytes = from->sealed_bytes,
		.extent_index = extent->index };
	memcpy(source->replicas, from->replicas, sizeof(source->replicas));
	takeover->source_count++;
	return 0;
}

/*
 * Log extents in which nothing was written leave the state: every start opens one, and most of them
 * stay empty. They are deleted once a manifest without them is durable.
 */
static int
takeover_drop_empties(struct mt_takeover *takeover)
{
	struct mt_manifest_state *state = &takeover->state;

	if (takeover->empties == NULL)
		takeover->empties =
		    mt_calloc(num_max(state->extent_count, 1), sizeof(struct mt_extent *));
	if (takeover->empties == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < state->extent_count;) {
		const struct mt_state_extent *at = &state->extents[i];
		struct mt_edit edit = { .kind = MT_EDIT_EXTENT_DELETED, .id = at->id };
		struct mt_extent *extent;
		const char *field;

		if (at->kind != EXTENT_LOG || at->sealed_bytes != 0) {
			i++;
			continue;
		}
		extent = mt_extent_restore(takeover->shard, &at->id, at->kind, at->replicas,
		    at->replica_count);
		if (extent == NULL)
			return -ENOMEM;
		/* An extent that holds a run, empty as it may be, stays. */
		if (mt_manifest_state_apply(state, &edit, &field) != 0) {
			mt_extent_free(extent);
			i++;
			continue;
		}
		takeover->empties[takeover->empty_count++] = extent;
	}
	return 0;
}

/* Extents were given their indexes in the order of the state. */
static struct mt_extent *
takeover_extent_of(const struct mt_takeover *takeover, const struct mt_state_run *run)
{
	const struct mt_manifest_state *state = &takeover->state;
	const struct mt_state_extent *at = mt_manifest_state_find(state, &run->id);
	struct mt_extent *extent;

	assert(at != NULL); /* a state has no run without its extent */
	extent = takeover->shard->extents[at - state->extents];
	assert(extent_id_pack(&extent->id) == extent_id_pack(&run->id));
	return extent;
}

/* Numbers above all that runs and cuts tell of: the log that had them may be gone. */
static void
takeover_note_numbers(struct mt_takeover *takeover, uint64_t sequence, uint64_t cut)
{
	struct mt_shard *shard = takeover->shard;

	shard->next_sequence = num_max(shard->next_sequence, sequence + 1);
	shard->cut = num_max(shard->cut, cut);
}

/* A turn's piece of the runs; then the cuts. 0; -EINPROGRESS: there are more runs; -ENOMEM. */
static int
takeover_restore_runs(struct mt_takeover *takeover)
{
	const struct mt_manifest_state *state = &takeover->state;
	struct mt_index *index = takeover->shard->block_index;
	uint32_t end =
	    (uint32_t)num_min(state->runs.count, (uint64_t)takeover->run_at + TAKEOVER_RUNS_MAX);

	assert(takeover->state_at == state->extent_count);
	for (; takeover->run_at < end; takeover->run_at++) {
		const struct mt_state_run *from = mt_run_table_at(&state->runs, takeover->run_at);
		struct mt_run run = {
			.extent_index = takeover_extent_of(takeover, from)->index,
			.offset_bytes = (uint32_t)from->offset_bytes,
			.length_bytes = (uint32_t)from->length_bytes,
			.flushed_sequence = from->flushed_sequence,
			.cut = from->cut,
			.directory_bytes = from->directory_bytes,
			.directory_crc = from->directory_crc,
		};

		if (mt_index_add_run(index, from->chunk, &run) == NULL)
			return -ENOMEM;
		takeover_note_numbers(takeover, from->flushed_sequence, from->cut);
	}
	if (end < state->runs.count)
		return -EINPROGRESS;
	for (; takeover->cut_at < state->cut_count; takeover->cut_at++) {
		const struct mt_state_cut *from = &state->cuts[takeover->cut_at];
		struct mt_index_cut cut = { .cut = from->cut,
			.segment_base = from->segment_base,
			.segment_count = from->segment_count };
		int rc = from->segment_count == 0 ? 0 : mt_index_add_cut(index, &cut);

		if (rc != 0)
			return rc;
		takeover_note_numbers(takeover, from->sequence, from->cut);
	}
	return 0;
}

static int
takeover_restore_all(struct mt_takeover *takeover)
{
	struct mt_manifest_state *state = &takeover->state;

	assert(takeover->state_at <= state->extent_count);
	if (takeover->state_at == 0) {
		int rc = takeover_drop_empties(takeover);

		if (rc != 0)
			return rc;
		takeover_note_numbers(takeover, num_max(state->next_sequence, 1) - 1, 0);
		/* By id is by age, and a log is written one extent after the other. */
		mt_free(takeover->sources);
		takeover->sources =
		    mt_calloc(num_max(state->extent_count, 1), sizeof(*takeover->sources));
		if (takeover->sources == NULL)
			return -ENOMEM;
		takeover->source_count = 0;
	}
	while (takeover->state_at < state->extent_count) {
		int rc = takeover_restore(takeover, &state->extents[takeover->state_at]);

		if (rc != 0)
			return rc;
		takeover->state_at++;
	}
	return takeover_restore_runs(takeover);
}

static void
takeover_on_opened(int rc, void *arg)
{
	struct mt_takeover *takeover = arg;
	struct mt_shard *shard = takeover->shard;

	CHECK_OBJ(takeover, TAKEOVER_MAGIC);
	if (rc != 0 || mt_takeover_is_stopped(takeover))
		return; /* the manifest has stopped the shard */
	assert(takeover->step == TAKEOVER_OPEN_MANIFEST);
	takeover->is_retry_logged = false;
	/* The lengths are durable now. Nodes that were away are told. */
	for (uint32_t i = 0; i < shard->extent_count; i++)
		mt_extent_truncate_replicas(shard->extents[i]);
	while (takeover->empty_count > 0)
		mt_extent_delete(takeover->empties[--takeover->empty_count]);
	mt_takeover_next(takeover, 0);
}

int
mt_takeover_open_manifest(struct mt_takeover *takeover)
{
	struct mt_shard *shard = takeover->shard;
	int rc = takeover_restore_all(takeover);

	assert(takeover->step == TAKEOVER_OPEN_MANIFEST);
	if (rc == -ENOSPC) {
		mt_takeover_fail(takeover, rc, "it has too many extents");
		return 0;
	}
	if (rc == -EINPROGRESS) {
		/* In the next turn, started again. */
		loop_timer_start(shard->port->loop, &takeover->retry_timer, 0);
		return 0;
	}
	if (rc != 0)
		return rc;
	takeover->state.epoch = shard->epoch;
	return mt_manifest_open(shard, &takeover->state, takeover_on_opened, takeover);
}

/* ---- replay ---- */

static int
takeover_apply(struct mt_takeover *takeover, const struct record_desc *record,
    const struct mt_replay_source *source, const struct batch_info *info)
{
	struct mt_index *index = takeover->shard->block_index;
	uint64_t chunk = mt_chunk_number(record->segment, record->block);

	assert(takeover->step == TAKEOVER_REPLAY);
	takeover->record_count++;
	/* Records that a run holds already are not taken from the log. */
	if (record->sequence <= mt_index_flushed(index, chunk))
		return 0;
	if (MUTANT(discard_not_replayed) && record->kind == RECORD_DISCARD)
		return 0;
	return mt_index_apply(index, record, info->cut, source->extent_index, info->offset_bytes,
	    0);
}

static int
takeover_on_records(struct mt_replay *replay, const struct mt_replay_source *source,
    const struct batch_info *info, const uint8_t *head, void *arg)
{
	struct mt_takeover *takeover = arg;
	struct mt_shard *shard = takeover->shard;
	struct record_iter it;
	struct record_desc record;
	const char *field;
	int rc = 0;

	(void)replay;
	assert(replay == &takeover->replay);
	/* An older record over a newer one would undo an acknowledged write. */
	if (info->record_count > 0 && info->base_sequence < takeover->next_sequence &&
	    !MUTANT(replay_twice)) {
		log_error("shard %" PRIu32 ": the log's sequence goes back extent=%" PRIu32
			  ".%" PRIu32 ".%" PRIu64 " offset_bytes=%" PRIu64 " sequence=%" PRIu64
			  " expected=%" PRIu64,
		    shard->index, source->id.shard, source->id.epoch, source->id.counter,
		    info->offset_bytes, info->base_sequence, takeover->next_sequence);
		return -EBADMSG;
	}
	/* Nothing comes to these by counting, and the next record's would wrap. */
	if (info->base_sequence + info->record_count > MT_NUMBER_MAX || info->cut > MT_NUMBER_MAX) {
		log_error("shard %" PRIu32 ": the log's numbers cannot be extent=%" PRIu32
			  ".%" PRIu32 ".%" PRIu64 " offset_bytes=%" PRIu64 " sequence=%" PRIu64
			  " cut=%" PRIu64,
		    shard->index, source->id.shard, source->id.epoch, source->id.counter,
		    info->offset_bytes, info->base_sequence, info->cut);
		return -EBADMSG;
	}
	record_iter_init(&it, head, info);
	while (rc == 0 && record_iter_next(&it, &record, &field) == 1)
		rc = takeover_apply(takeover, &record, source, info);
	if (rc != 0)
		return rc; /* the batch comes again, and does the same again */
	/* A void snapshot's number survives only as a batch's cut: it is never handed out again. */
	shard->cut = num_max(shard->cut, info->cut);
	takeover->next_sequence =
	    num_max(takeover->next_sequence, info->base_sequence + info->record_count);
	/* The checkpoint may know of later ones: of records that were never acknowledged. */
	shard->next_sequence = num_max(shard->next_sequence, takeover->next_sequence);
	return 0;
}

static void
takeover_log_progress(const struct mt_takeover *takeover)
{
	const struct mt_replay *replay = &takeover->replay;

	log_info("shard %" PRIu32 ": replayed %" PRIu64 " of %" PRIu64 " MiB",
	    takeover->shard->index, replay->done_bytes / NUM_MIB(1),
	    replay->total_bytes / NUM_MIB(1));
}

void
mt_takeover_on_progress(struct loop_timer *timer, void *arg)
{
	struct mt_takeover *takeover = arg;

	takeover_log_progress(takeover);
	loop_timer_start(takeover->shard->port->loop, timer, TAKEOVER_PROGRESS_NS);
}

static void
takeover_on_replayed(struct mt_replay *replay, int rc, void *arg)
{
	struct mt_takeover *takeover = arg;

	CHECK_OBJ(takeover, TAKEOVER_MAGIC);
	assert(takeover->step == TAKEOVER_REPLAY);
	loop_timer_stop(takeover->shard->port->loop, &takeover->progress_timer);
	takeover_log_progress(takeover);
	takeover->replay_ns = loop_now_ns(takeover->shard->port->loop) - takeover->replay_began_ns;
	/* A replay that failed may have reads out: its memory stays until the take-over goes. */
	if (rc == 0)
		mt_replay_fini(replay);
	else
		mt_replay_stop(replay);
	if (rc == -ESTALE)
		mt_takeover_on_stale(takeover->shard);
	else if (rc == -EAGAIN)
		mt_takeover_give_up(takeover, rc, TAKEOVER_DISTRUST_TEXT);
	else if (rc != 0)
		mt_takeover_fail(takeover, rc, "its log cannot be understood");
	else
		mt_takeover_next(takeover, 0);
}

int
mt_takeover_replay(struct mt_takeover *takeover)
{
	struct mt_replay *replay = &takeover->replay;
	int rc;

	assert(takeover->step == TAKEOVER_REPLAY);
	replay->shard = takeover->shard;
	replay->sources = takeover->sources;
	replay->source_count = takeover->source_count;
	replay->on_batch = takeover_on_records;
	replay->fn = takeover_on_replayed;
	replay->arg = takeover;
	rc = mt_replay_start(replay);
	takeover->replay_began_ns = loop_now_ns(takeover->shard->port->loop);
	if (rc == 0)
		loop_timer_start(takeover->shard->port->loop, &takeover->progress_timer,
		    TAKEOVER_PROGRESS_NS);
	return rc;
}

/* ---- await_volumes ---- */

int
mt_takeover_await_volumes(struct mt_takeover *takeover)
{
	assert(takeover->step == TAKEOVER_AWAIT_VOLUMES);
	return takeover->is_refreshed ? TAKEOVER_DONE : 0;
}

/* ---- serve ---- */

int
mt_takeover_serve(struct mt_takeover *takeover)
{
	struct mt_shard *shard = takeover->shard;
	uint64_t took_ns = loop_now_ns(shard->port->loop) - takeover->started_ns;

	assert(takeover->step == TAKEOVER_SERVE && takeover->is_refreshed);
	mt_free(takeover->sources);
	takeover->sources = NULL;
	mt_shard_event(shard, CLEAVE_EVENT_SHARD_SERVED,
	    "shard %" PRIu32 ": serving epoch=%" PRIu32 " extents=%" PRIu32 " records=%" PRIu64
	    " next_sequence=%" PRIu64 " replay_ms=%" PRIu64 " took_ms=%" PRIu64,
	    shard->index, shard->epoch, shard->extent_count, takeover->record_count,
	    shard->next_sequence, takeover->replay_ns / NUM_MS(1), took_ns / NUM_MS(1));
	shard->life->failed_why = NULL;
	metric_add(&shard->port->metrics[MT_METRIC_takeovers], 1);
	mt_shard_start(shard);
	mt_port_on_shard(shard);
	return 0; /* the last step */
}

void
mt_takeover_open_fini(struct mt_takeover *takeover)
{
	while (takeover->empty_count > 0)
		mt_extent_free(takeover->empties[--takeover->empty_count]);
	mt_free(takeover->empties);
	mt_free(takeover->sources);
}
