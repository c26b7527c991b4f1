/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manifest_checkpoint.c -- the whole state into new extents, batch after batch
 *
 *	CREATING --an extent is there--> CHECKPOINTING --all of it is sent--> STORING (manifest.c)
 *	    ^                                  |
 *	    +---- full: it becomes a part -----+
 *
 * The edits are encoded when the first extent is there, so a commit that comes later waits until the root
 * has moved. The last extent keeps room for commits: the end of a checkpoint that would fill it goes to
 * one more. A failure anywhere drops all that was made.
 */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "common/alloc.h"
#include "common/shard.h"
#include "extent/extent.h"
#include "extent/replicate.h"
#include "manifest/edit.h"
#include "manifest/edit_decode.h"
#include "manifest/manifest.h"
#include "manifest/manifest_checkpoint.h"
#include "manifest/manifest_edits.h"
#include "manifest/manifest_parts.h"
#include "manifest/manifest_room.h"
#include "manifest/manifest_state.h"

#define MANIFEST_PART_EDIT_BYTES 76u
/* The last extent of a checkpoint has so many parts of its room left, of 4, for the commits to come. */
#define MANIFEST_HEAD_ROOM 1u

_Static_assert(MT_MANIFEST_PARTS_MAX *MANIFEST_PART_EDIT_BYTES + MT_EDIT_BYTES_MAX <=
	MANIFEST_EDITS_BYTES_MAX,
    "the names of all parts fit a head's first batch, and one edit more");

static uint64_t
manifest_next_sequence(const struct mt_manifest *manifest)
{
	assert(manifest->shard->manifest == manifest);
	return num_max(manifest->shard->next_sequence, manifest->state.next_sequence);
}

/* All edits of the state, one behind the other. 0 or -ENOMEM. */
static int
manifest_encode_state(struct mt_manifest *manifest)
{
	uint64_t next_sequence = manifest_next_sequence(manifest);
	uint64_t bytes_max = mt_manifest_state_bytes(&manifest->state);
	struct mt_edit edit;

	assert(manifest->checkpoint == NULL);
	/* An edit is encoded in place, with zeros behind it. */
	manifest->checkpoint = mt_calloc(1, bytes_max + MT_EDIT_BYTES_MAX);
	if (manifest->checkpoint == NULL)
		return -ENOMEM;
	manifest->checkpoint_bytes = manifest->checkpoint_at = 0;
	for (uint64_t i = 0; mt_manifest_state_edit(&manifest->state, i, next_sequence, &edit);
	     i++) {
		assert(manifest->checkpoint_bytes < bytes_max);
		manifest->checkpoint_bytes +=
		    mt_edit_encode(manifest->checkpoint + manifest->checkpoint_bytes, &edit);
	}
	assert(manifest->checkpoint_bytes <= bytes_max);
	return 0;
}

/* Bytes of edits that the next batch may have, as far as there is room in the extent. */
static uint32_t
manifest_batch_room(const struct mt_extent *extent)
{
	uint64_t part_bytes = mt_manifest_part_bytes(extent), left_bytes;

	assert(extent->kind == EXTENT_MANIFEST);
	if (part_bytes <= extent->end_bytes + BATCH_HEADER_BYTES)
		return 0;
	left_bytes = part_bytes - extent->end_bytes;
	return (uint32_t)num_min(left_bytes - BATCH_HEADER_BYTES, MANIFEST_EDITS_BYTES_MAX);
}

/*
 * The checkpoint's next edits, whole ones, into the batch's buffer: behind the names of the parts, where
 * the extent begins. Returns how many; *@ret_taken_bytes are the checkpoint's, 0: there was no room.
 */
static uint32_t
manifest_take_edits(struct mt_manifest *manifest, uint32_t *ret_bytes, uint32_t *ret_taken_bytes)
{
	const uint8_t *from = manifest->checkpoint + manifest->checkpoint_at;
	uint64_t left_bytes = manifest->checkpoint_bytes - manifest->checkpoint_at;
	uint32_t room_bytes = manifest_batch_room(manifest->next), count = 0, bytes = 0, taken = 0;

	assert(manifest->checkpoint != NULL);
	assert(manifest->checkpoint_at <= manifest->checkpoint_bytes);
	if (manifest->next->end_bytes == 0)
		count = mt_manifest_parts_encode(&manifest->next_parts,
		    mt_manifest_edit_buffer(manifest), &bytes);
	while (taken < left_bytes) {
		struct mt_edit edit;
		const char *field;
		int edit_bytes = mt_edit_decode(from + taken,
		    (uint32_t)num_min(left_bytes - taken, MT_EDIT_BYTES_MAX), &edit, &field);

		assert(edit_bytes > 0); /* our own */
		if (bytes + taken + (uint32_t)edit_bytes > room_bytes)
			break;
		taken += (uint32_t)edit_bytes;
		count++;
	}
	memcpy(mt_manifest_edit_buffer(manifest) + bytes, from, taken);
	*ret_bytes = bytes + taken;
	*ret_taken_bytes = taken;
	return count;
}

/* The last edits would leave the head nearly full: all would be written anew after a few commits. */
static bool
manifest_is_crowded(const struct mt_manifest *manifest, uint32_t bytes, uint32_t taken_bytes)
{
	const struct mt_extent *next = manifest->next;
	uint64_t part_bytes = mt_manifest_part_bytes(next);

	assert(taken_bytes <= bytes);
	return manifest->checkpoint_at + taken_bytes == manifest->checkpoint_bytes &&
	    next->end_bytes > 0 && manifest->next_parts.count < MT_MANIFEST_PARTS_MAX &&
	    next->end_bytes + bytes > part_bytes - part_bytes / 4 * MANIFEST_HEAD_ROOM;
}

/* The checkpoint goes on in another extent. */
static void
manifest_next_part(struct mt_manifest *manifest)
{
	assert(manifest->next != NULL);
	assert(manifest->next_parts.count <= MT_MANIFEST_PARTS_MAX);
	if (manifest->next_parts.count == MT_MANIFEST_PARTS_MAX) {
		mt_manifest_begin_failed(manifest, -EFBIG);
		return;
	}
	mt_manifest_parts_add(&manifest->next_parts, manifest->next);
	manifest->next = NULL;
	sm_move(&manifest->sm, MANIFEST_CREATING);
	mt_manifest_begin(manifest);
}

static void manifest_on_checkpointed(struct mt_append *batch, int rc, void *arg);

static void
manifest_send_checkpoint(struct mt_manifest *manifest)
{
	uint32_t bytes, taken_bytes;
	uint32_t count = manifest_take_edits(manifest, &bytes, &taken_bytes);
	int rc;

	assert(manifest->sm.state == MANIFEST_CHECKPOINTING);
	assert(manifest->next != NULL);
	if (taken_bytes == 0 || manifest_is_crowded(manifest, bytes, taken_bytes)) {
		manifest_next_part(manifest);
		return;
	}
	rc = mt_manifest_send(manifest, manifest->next, count, bytes, manifest_on_checkpointed);
	if (rc == 0)
		manifest->checkpoint_at += taken_bytes;
	else
		mt_manifest_begin_failed(manifest, rc);
}

static void
manifest_on_checkpointed(struct mt_append *batch, int rc, void *arg)
{
	struct mt_manifest *manifest = arg;

	(void)batch;
	CHECK_OBJ(manifest, MANIFEST_MAGIC);
	if (manifest->sm.state == MANIFEST_STOPPED)
		return;
	assert(manifest->sm.state == MANIFEST_CHECKPOINTING);
	if (rc != 0) {
		mt_manifest_begin_failed(manifest, rc);
	} else if (manifest->checkpoint_at < manifest->checkpoint_bytes) {
		manifest_send_checkpoint(manifest);
	} else {
		mt_free(manifest->checkpoint);
		manifest->checkpoint = NULL;
		mt_manifest_store(manifest);
	}
}

/* The first extent is there: the checkpoint is what the state is now. */
static int
manifest_begin_checkpoint(struct mt_manifest *manifest)
{
	int rc = manifest_encode_state(manifest);

	assert(manifest->sm.state == MANIFEST_CREATING);
	if (rc != 0)
		return rc;
	/* Commits that wait are in the state, hence in the checkpoint; those that come from now on are not. */
	mt_manifest_commits_take_all(&manifest->commits);
	return 0;
}

void
mt_manifest_on_created(struct mt_extent *extent, int rc, void *arg)
{
	struct mt_manifest *manifest = arg;

	CHECK_OBJ(manifest, MANIFEST_MAGIC);
	assert(manifest->next == extent);
	if (rc != 0)
		manifest->next = NULL; /* gone after this call */
	if (manifest->sm.state == MANIFEST_STOPPED)
		return;
	assert(manifest->sm.state == MANIFEST_CREATING);
	if (rc == 0 && manifest->checkpoint == NULL)
		rc = manifest_begin_checkpoint(manifest);
	if (rc != 0) {
		mt_manifest_begin_failed(manifest, rc);
		return;
	}
	sm_move(&manifest->sm, MANIFEST_CHECKPOINTING);
	manifest_send_checkpoint(manifest);
}
