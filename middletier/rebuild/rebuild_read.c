/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rebuild_read.c -- each shard's newest manifest with a whole checkpoint
 *
 *	shard --> its newest manifest extent --> a copy, the longest first --> read to its end
 *	  ^             ^                            ^                            |
 *	  |             |                            '--- cannot be read ---------+
 *	  |             '--- no whole checkpoint, or no copy is left -------------+
 *	  '--- whole, or no manifest is left -------------------------------------'
 *
 * Which manifest counts is argued at the head of rebuild.c.
 */
#include "rebuild/rebuild_read.h"

#include <errno.h>
#include <inttypes.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "common/alloc.h"
#include "common/port.h"
#include "common/shard.h"
#include "extent/node_link.h"
#include "extent/replay.h"
#include "manifest/manifest_read.h"
#include "manifest/manifest_state.h"
#include "rebuild/rebuild_nodes.h"
#include "rebuild/survey.h"

/* A try to read a copy of a manifest. Kept to the end: its reads may still be out. */
struct rebuild_read {
	struct loop_link link; /* reader->reads */
	struct mt_rebuild_reader *reader;
	struct mt_shard shard; /* only what a replay asks it for */
	struct mt_replay replay;
	struct mt_manifest_read manifest;
	struct mt_manifest_state state;
};

static void
reader_finish(struct mt_rebuild_reader *reader, int rc)
{
	void (*fn)(int rc, void *arg) = reader->fn;

	assert(fn != NULL && reader->read == NULL);
	reader->fn = NULL;
	fn(rc, reader->arg);
}

static void
reader_shard_done(struct mt_rebuild_reader *reader)
{
	const struct mt_rebuild_shard *shard = &reader->shards[reader->shard_at];
	const struct extent_id *id = &shard->manifest.id;

	assert(reader->shard_at < reader->shard_count);
	if (shard->has_manifest)
		log_info("recover: shard %" PRIu32 ": manifest=%" PRIu32 ".%" PRIu32 ".%" PRIu64
			 " copies=%" PRIu32 " extents=%" PRIu32 " missing=%" PRIu32
			 " epoch_seen=%" PRIu32,
		    reader->shard_at, id->shard, id->epoch, id->counter, shard->manifest.count,
		    shard->extent_count, shard->missing_count, shard->epoch_seen);
	else
		log_warn("recover: shard %" PRIu32 ": no manifest epoch_seen=%" PRIu32,
		    reader->shard_at, shard->epoch_seen);
	reader->shard_at++;
	reader->candidate_at = 0;
	for (uint32_t i = 0; i < reader->port->link_count; i++)
		mt_link_refresh(&reader->port->links[i]); /* for the look at gateways that live */
}

/* Extents that the manifest names and nobody has shown: the shard will wait for their nodes. */
static void
reader_count_missing(const struct mt_rebuild_reader *reader, struct mt_rebuild_shard *shard,
    const struct mt_manifest_state *state)
{
	struct mt_survey_extent extent;

	assert(state->is_complete && shard->missing_count == 0);
	shard->extent_count = state->extent_count;
	for (uint32_t i = 0; i < state->extent_count; i++)
		shard->missing_count +=
		    mt_survey_find(reader->survey, &state->extents[i].id, &extent) ? 0 : 1;
}

static void
reader_add_unseen(struct mt_rebuild_reader *reader, uint32_t node_id)
{
	uint32_t i = 0;

	assert(node_id != 0);
	while (i < reader->unseen_count && reader->unseen[i].node_id != node_id)
		i++;
	if (i == MT_NODES_MAX)
		return;
	reader->unseen_count = (uint32_t)num_max(reader->unseen_count, i + 1);
	reader->unseen[i].node_id = node_id;
	reader->unseen[i].extent_count++;
}

/* Nodes that have copies, and of which nobody has said what they hold. */
static void
reader_count_unseen(struct mt_rebuild_reader *reader, const struct mt_manifest_state *state)
{
	assert(state->is_complete);
	for (uint32_t i = 0; i < state->extent_count; i++) {
		for (uint32_t k = 0; k < state->extents[i].replica_count; k++) {
			uint32_t node_id = state->extents[i].replicas[k].node_id;

			if (!mt_rebuild_nodes_is_listed(reader->nodes, node_id))
				reader_add_unseen(reader, node_id);
		}
	}
}

/* A copy was read to its end, or could not be. */
static void
reader_copy_done(struct mt_rebuild_reader *reader, int rc)
{
	struct mt_rebuild_shard *shard = &reader->shards[reader->shard_at];
	struct rebuild_read *read = reader->read;

	assert(read != NULL && rc <= 0);
	assert(read->manifest.head.id.shard == reader->shard_at);
	reader->read = NULL;
	loop_timer_stop(reader->port->loop, &reader->timer);
	if (rc != 0) {
		log_warn("recover: shard %" PRIu32 ": cannot read manifest %" PRIu32 ".%" PRIu32
			 ".%" PRIu64 " node=%" PRIu32 " rc=%s",
		    reader->shard_at, read->manifest.head.id.shard, read->manifest.head.id.epoch,
		    read->manifest.head.id.counter, read->manifest.head.replicas[0].node_id,
		    log_errno(rc));
		if (rc ==
		    -EPROTONOSUPPORT) { /* no older one may count, and each copy says the same */
			reader_finish(reader, rc);
			return;
		}
	} else if (read->state.is_complete) {
		shard->has_manifest = true;
		shard->manifest = reader->candidate;
		reader_count_missing(reader, shard, &read->state);
		reader_count_unseen(reader, &read->state);
		if (reader->shard_at == 0) {
			reader->mirror = read->state;
			mt_manifest_state_init(&read->state);
		}
		reader_shard_done(reader);
	} else {
		reader->candidate_at++; /* it never was a root's */
	}
	loop_defer(reader->port->loop, &reader->task);
}

static void
read_on_done(int rc, void *arg)
{
	struct rebuild_read *read = arg;

	/* A read that was given up for its time has been counted already. */
	if (read->reader->read == read)
		reader_copy_done(read->reader, rc);
}

static void
reader_on_timer(struct loop_timer *timer, void *arg)
{
	struct mt_rebuild_reader *reader = arg;

	(void)timer;
	assert(reader->read != NULL);
	mt_replay_stop(&reader->read->replay);
	reader_copy_done(reader, -ETIMEDOUT);
}

static int
reader_read_copy(struct mt_rebuild_reader *reader, const struct mt_survey_copy *copy)
{
	struct rebuild_read *read = mt_calloc(1, sizeof(*read));
	int rc;

	assert(reader->read == NULL && !copy->is_damaged);
	if (read == NULL)
		return -ENOMEM;
	read->reader = reader;
	read->shard.port = reader->port;
	read->shard.index = copy->id.shard;
	read->shard.epoch = mt_survey_epoch(reader->survey, copy->id.shard);
	read->manifest.head = (struct mt_replay_source){ .id = copy->id,
		.kind = EXTENT_MANIFEST,
		.replicas = { { .node_id = copy->node_id, .incarnation = copy->incarnation } },
		.replica_count = 1,
		.length_bytes = copy->length_bytes };
	read->replay.shard = &read->shard;
	read->manifest.replay = &read->replay;
	read->manifest.state = &read->state;
	read->manifest.fn = read_on_done;
	read->manifest.arg = read;
	mt_manifest_state_init(&read->state);
	rc = mt_manifest_read_start(&read->manifest);
	if (rc != 0) {
		mt_free(read);
		return rc;
	}
	list_push_back(&reader->reads, &read->link);
	reader->read = read;
	loop_timer_start(reader->port->loop, &reader->timer, reader->timeout_ns);
	return 0;
}

/* The next copy of this candidate, the next candidate, the next shard, or the end. */
static void
reader_on_task(struct loop_task *task, void *arg)
{
	struct mt_rebuild_reader *reader = arg;

	(void)task;
	assert(reader->fn != NULL && reader->read == NULL);
	while (reader->shard_at < reader->shard_count) {
		struct mt_survey_copy *copy;
		int rc;

		if (!mt_survey_manifest(reader->survey, reader->shard_at, reader->candidate_at,
			&reader->candidate)) {
			reader_shard_done(reader);
			continue;
		}
		copy = mt_survey_best_copy(reader->survey, &reader->candidate);
		if (copy == NULL) {
			reader->shards[reader->shard_at].is_uncertain = true;
			reader->candidate_at++;
			continue;
		}
		copy->is_tried = true;
		rc = reader_read_copy(reader, copy);
		if (rc != 0)
			reader_finish(reader, rc);
		return;
	}
	reader_finish(reader, 0);
}

/* ---- its life ---- */

void
mt_rebuild_reader_init(struct mt_rebuild_reader *reader, struct mt_port *port,
    struct mt_survey *survey, const struct mt_rebuild_nodes *nodes, uint64_t timeout_ns)
{
	assert(timeout_ns > 0 && nodes->port == port);
	reader->nodes = nodes;
	reader->port = port;
	reader->loop = port->loop;
	reader->survey = survey;
	reader->timeout_ns = timeout_ns;
	list_init(&reader->reads);
	mt_manifest_state_init(&reader->mirror);
	loop_timer_init(&reader->timer, reader_on_timer, reader);
	loop_task_init(&reader->task, reader_on_task, reader);
}

void
mt_rebuild_reader_count(struct mt_rebuild_reader *reader)
{
	assert(reader->fn == NULL && reader->shard_at == 0);
	reader->shard_count = mt_survey_shard_count(reader->survey);
	assert(reader->shard_count <= CLEAVE_SHARDS_MAX);
	for (uint32_t i = 0; i < reader->shard_count; i++)
		reader->shards[i].epoch_seen = mt_survey_epoch(reader->survey, i);
}

void
mt_rebuild_reader_start(struct mt_rebuild_reader *reader, void (*fn)(int rc, void *arg), void *arg)
{
	assert(reader->fn == NULL && reader->shard_count > 0 && reader->shard_at == 0);
	reader->fn = fn;
	reader->arg = arg;
	loop_defer(reader->port->loop, &reader->task);
}

void
mt_rebuild_reader_on_link(struct mt_rebuild_reader *reader, struct mt_link *link, bool is_up)
{
	if (reader->read != NULL)
		mt_replay_on_link(&reader->read->replay, link, is_up);
}

void
mt_rebuild_reader_stop(struct mt_rebuild_reader *reader)
{
	struct loop_link *link, *next;

	assert(reader->port != NULL);
	loop_timer_stop(reader->port->loop, &reader->timer);
	loop_task_cancel(reader->port->loop, &reader->task);
	reader->read = NULL;
	reader->fn = NULL;
	LIST_FOREACH_SAFE(&reader->reads, link, next)
		mt_replay_stop(&LIST_ENTRY(link, struct rebuild_read, link)->replay);
}

void
mt_rebuild_reader_fini(struct mt_rebuild_reader *reader)
{
	struct mt_port no_port = { 0 };
	struct loop_link *link;

	if (reader->port == NULL)
		return;
	assert(reader->read == NULL && reader->fn == NULL);
	no_port.loop = reader->loop;
	while ((link = list_pop_front(&reader->reads)) != NULL) {
		struct rebuild_read *read = LIST_ENTRY(link, struct rebuild_read, link);

		read->shard.port = &no_port; /* its own is closed */
		mt_replay_fini(&read->replay);
		mt_manifest_read_fini(&read->manifest);
		mt_manifest_state_fini(&read->state);
		mt_free(read);
	}
	mt_manifest_state_fini(&reader->mirror);
	reader->port = NULL;
}
