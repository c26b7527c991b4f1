/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manifest_read.c -- a manifest's edits, read back from all of its extents
 *
 *	    parts: full, sealed at the length that the head says       the head: named by the root
 *	+---------------+   +---------------+   +---------------+   +-----------------------------+
 *	| edits ...     |   | PART 1        |   | PART 1, 2     |   | PART 1, 2, 3                |
 *	|               |   | edits ...     |   | edits ...     |   | the last edits, their end,  |
 *	|               |   |               |   |               |   | what was committed since    |
 *	+---------------+   +---------------+   +---------------+   +-----------------------------+
 *
 * The head is read first, since only it says what is to be read before it. Where its first edit is no
 * PART it is all that there is, which is the rule, and its edits count as they come. Else nothing of it
 * counts but the names, and it is read once more, behind the extents that it names.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "cleave/batch.h"
#include "common/alloc.h"
#include "common/shard.h"
#include "extent/replay.h"
#include "manifest/edit.h"
#include "manifest/edit_decode.h"
#include "manifest/manifest_read.h"
#include "manifest/manifest_state.h"

static int
read_apply(const struct mt_manifest_read *read, const struct mt_replay_source *source,
    const struct batch_info *info, const uint8_t *head)
{
	const char *field = NULL;
	int rc = mt_manifest_state_apply_batch(read->state, info, head, &field);

	if (rc == -EBADMSG || rc == -EPROTONOSUPPORT)
		log_error("shard %" PRIu32 ": %s in the manifest extent=%" PRIu32 ".%" PRIu32
			  ".%" PRIu64 " offset_bytes=%" PRIu64 " field=\"%s\"",
		    read->replay->shard->index,
		    rc == -EBADMSG ? "bad edit" : "an edit that a newer release has written",
		    source->id.shard, source->id.epoch, source->id.counter, info->offset_bytes,
		    field);
	return rc;
}

/* The names at the beginning of the head's first batch. 0; -ENOMEM, to come again; -EBADMSG, -EPROTONOSUPPORT. */
static int
read_list(struct mt_manifest_read *read, const struct batch_info *info, const uint8_t *head)
{
	const uint8_t *at = head + BATCH_HEADER_BYTES;
	uint32_t left_bytes = info->desc_bytes;

	assert(!read->has_begun);
	for (uint32_t i = 0; i < info->record_count; i++) {
		struct mt_edit edit;
		const char *field;
		int bytes = mt_edit_decode(at, left_bytes, &edit, &field), rc;

		if (bytes < 0)
			return bytes;
		if (edit.kind != MT_EDIT_PART)
			break;
		rc = mt_manifest_state_apply(read->state, &edit, &field);
		if (rc != 0)
			return rc;
		at += bytes;
		left_bytes -= (uint32_t)bytes;
	}
	return 0;
}

static int
read_on_head(struct mt_replay *replay, const struct mt_replay_source *source,
    const struct batch_info *info, const uint8_t *head, void *arg)
{
	struct mt_manifest_read *read = arg;
	int rc = 0;

	(void)replay;
	assert(replay == read->replay);
	if (!read->has_begun)
		rc = read_list(read, info, head);
	/* A bad one is named by who applies it. */
	if (rc == -ENOMEM)
		return rc;
	if (!read->has_begun)
		read->is_listing = read->state->part_count > 0;
	read->has_begun = true;
	return read->is_listing ? 0 : read_apply(read, source, info, head);
}

static int
read_on_batch(struct mt_replay *replay, const struct mt_replay_source *source,
    const struct batch_info *info, const uint8_t *head, void *arg)
{
	assert(replay == ((struct mt_manifest_read *)arg)->replay);
	(void)replay;
	return read_apply(arg, source, info, head);
}

static void
read_finish(struct mt_manifest_read *read, int rc)
{
	assert(rc <= 0);
	/* A replay that failed may have reads out: its memory stays. */
	if (rc == 0)
		mt_replay_fini(read->replay);
	else
		mt_replay_stop(read->replay);
	read->fn(rc, read->arg);
}

static void
read_on_all(struct mt_replay *replay, int rc, void *arg)
{
	assert(replay == ((struct mt_manifest_read *)arg)->replay);
	(void)replay;
	read_finish(arg, rc);
}

static void
read_fill_part(struct mt_replay_source *source, const struct mt_state_extent *part)
{
	assert(part->replica_count >= 1 && part->replica_count <= MT_REPLICAS_MAX);
	*source = (struct mt_replay_source){ .id = part->id,
		.kind = EXTENT_MANIFEST,
		.replica_count = part->replica_count,
		.length_bytes = part->sealed_bytes };
	memcpy(source->replicas, part->replicas, sizeof(source->replicas));
}

/* All of it, now that it is known what that is. */
static int
read_start_all(struct mt_manifest_read *read)
{
	const struct mt_manifest_state *state = read->state;
	struct mt_replay *replay = read->replay;

	assert(read->is_listing);
	assert(state->part_count > 0);
	mt_free(read->sources);
	read->sources = mt_calloc(state->part_count + 1, sizeof(*read->sources));
	if (read->sources == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < state->part_count; i++)
		read_fill_part(&read->sources[i], &state->parts[i]);
	read->sources[state->part_count] = read->head;
	replay->sources = read->sources;
	replay->source_count = state->part_count + 1;
	replay->on_batch = read_on_batch;
	replay->fn = read_on_all;
	return mt_replay_start(replay);
}

static void
read_on_head_read(struct mt_replay *replay, int rc, void *arg)
{
	struct mt_manifest_read *read = arg;

	assert(replay == read->replay);
	if (rc != 0 || !read->is_listing) {
		read_finish(read, rc);
		return;
	}
	mt_replay_fini(replay);
	rc = read_start_all(read);
	if (rc != 0)
		read->fn(rc, read->arg);
}

int
mt_manifest_read_start(struct mt_manifest_read *read)
{
	struct mt_replay *replay = read->replay;

	assert(read->fn != NULL);
	assert(read->state != NULL);
	read->has_begun = read->is_listing = false;
	replay->sources = &read->head;
	replay->source_count = 1;
	replay->on_batch = read_on_head;
	replay->fn = read_on_head_read;
	replay->arg = read;
	return mt_replay_start(replay);
}

void
mt_manifest_read_fini(struct mt_manifest_read *read)
{
	mt_free(read->sources);
	read->sources = NULL;
}
