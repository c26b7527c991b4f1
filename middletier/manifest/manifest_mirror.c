/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manifest_mirror.c -- volumes, snapshots, data keys and the key "cluster", as shard 0's manifest mirrors them
 *
 * Volumes, snapshots, data keys and names of encrypted volumes are sorted arrays of the state, alike but for what is in
 * them: each begins with the number that it is sorted by.
 */
#include "manifest/manifest_mirror.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/check.h"
#include "base/field.h"
#include "base/search.h"
#include "catalog/cluster_key.h"
#include "catalog/numbers.h"
#include "catalog/snapshot.h"
#include "catalog/volume.h"
#include "cleave/wire.h"
#include "common/array.h"
#include "manifest/edit.h"
#include "manifest/manifest_state.h"

#define MIRROR_EXPECT(condition, name) FIELD_EXPECT(condition, name, -EBADMSG)

_Static_assert(offsetof(struct mt_volume, id) == 0, "volumes are found by their first member");
_Static_assert(offsetof(struct mt_snapshot, number) == 0, "snapshots, too");
_Static_assert(offsetof(struct mt_data_key, id) == 0, "data keys, too");
_Static_assert(offsetof(struct mt_sealed_name, number) == 0, "names, too");

uint64_t
mt_manifest_volume_bytes(const struct mt_volume *volume)
{
	uint8_t scratch[MT_EDIT_BYTES_MAX];

	assert(volume->id != 0);
	return mt_edit_encode(scratch,
	    &(struct mt_edit){ .kind = MT_EDIT_VOLUME, .volume = *volume });
}

uint64_t
mt_manifest_snapshot_bytes(const struct mt_snapshot *snapshot)
{
	uint8_t scratch[MT_EDIT_BYTES_MAX];

	assert(snapshot->number != 0);
	return mt_edit_encode(scratch,
	    &(struct mt_edit){ .kind = MT_EDIT_SNAPSHOT, .snapshot = *snapshot });
}

/* ---- an array by number ---- */

/* An array of a state: its volumes, or its snapshots. */
struct mirror_array {
	void *entries;
	uint32_t count, max;
	size_t entry_bytes;
	uint64_t (*edit_bytes)(const void *entry);
	const char *gone_field; /* what is wrong with the deletion of an entry that is not there */
};

static uint64_t
volume_edit_bytes(const void *entry)
{
	return mt_manifest_volume_bytes(entry);
}

static uint64_t
snapshot_edit_bytes(const void *entry)
{
	return mt_manifest_snapshot_bytes(entry);
}

static uint64_t
data_key_edit_bytes(const void *entry)
{
	uint8_t scratch[MT_EDIT_BYTES_MAX];

	return mt_edit_encode(scratch,
	    &(struct mt_edit){ .kind = MT_EDIT_DATA_KEY,
		.data_key = *(const struct mt_data_key *)entry });
}

static uint64_t
name_edit_bytes(const void *entry)
{
	(void)entry;
	return MT_MANIFEST_NAME_BYTES;
}

static struct mirror_array
volumes_of(const struct mt_manifest_state *state)
{
	assert(state->volume_count <= state->volume_max);
	return (struct mirror_array){ .entries = state->volumes,
		.count = state->volume_count,
		.max = state->volume_max,
		.entry_bytes = sizeof(*state->volumes),
		.edit_bytes = volume_edit_bytes,
		.gone_field = "deleted volume was not there" };
}

static struct mirror_array
snapshots_of(const struct mt_manifest_state *state)
{
	assert(state->snapshot_count <= state->snapshot_max);
	return (struct mirror_array){ .entries = state->snapshots,
		.count = state->snapshot_count,
		.max = state->snapshot_max,
		.entry_bytes = sizeof(*state->snapshots),
		.edit_bytes = snapshot_edit_bytes,
		.gone_field = "deleted snapshot was not there" };
}

static struct mirror_array
data_keys_of(const struct mt_manifest_state *state)
{
	assert(state->data_key_count <= state->data_key_max);
	return (struct mirror_array){ .entries = state->data_keys,
		.count = state->data_key_count,
		.max = state->data_key_max,
		.entry_bytes = sizeof(*state->data_keys),
		.edit_bytes = data_key_edit_bytes,
		.gone_field = "deleted data key was not there" };
}

static struct mirror_array
names_of(const struct mt_manifest_state *state)
{
	assert(state->name_count <= state->name_max);
	return (struct mirror_array){ .entries = state->names,
		.count = state->name_count,
		.max = state->name_max,
		.entry_bytes = sizeof(*state->names),
		.edit_bytes = name_edit_bytes,
		.gone_field = "deleted name was not there" };
}

static void *
array_at(const struct mirror_array *array, uint32_t at)
{
	assert(at < array->count);
	return (uint8_t *)array->entries + at * array->entry_bytes;
}

static uint64_t
array_number(const struct mirror_array *array, uint32_t at)
{
	uint64_t number;

	memcpy(&number, array_at(array, at), sizeof(number));
	return number;
}

/* Where @number is, or would be. */
static uint32_t
array_position(const struct mirror_array *array, uint64_t number)
{
	uint32_t at;

	SEARCH_FIRST(at, array->count, array_number(array, at) < number);
	assert(at <= array->count);
	return at;
}

/* NULL: it is not there. */
static void *
array_find(const struct mirror_array *array, uint64_t number)
{
	uint32_t at = array_position(array, number);

	return at < array->count && array_number(array, at) == number ? array_at(array, at) : NULL;
}

/* @entry comes, takes the place of the one of its number, or goes; the bytes of the mirror follow. */
static int
array_apply(struct mirror_array *array, const void *entry, bool is_deleted, uint64_t *bytes,
    const char **ret_field)
{
	uint64_t number;
	uint32_t at;
	bool is_there;

	memcpy(&number, entry, sizeof(number));
	at = array_position(array, number);
	is_there = array_find(array, number) != NULL;
	MIRROR_EXPECT(is_there || !is_deleted, array->gone_field);
	if (mt_array_grow(&array->entries, &array->max, (uint64_t)array->count + 1,
		array->entry_bytes) != 0)
		return -ENOMEM;
	if (is_there) {
		uint64_t old_bytes = array->edit_bytes(array_at(array, at));

		assert(*bytes >= old_bytes);
		*bytes -= old_bytes;
	}
	if (is_deleted) {
		mt_array_remove(array->entries, &array->count, at, array->entry_bytes);
		return 0;
	}
	if (!is_there)
		(void)mt_array_insert(array->entries, &array->count, at, array->entry_bytes);
	memcpy(array_at(array, at), entry, array->entry_bytes);
	*bytes += array->edit_bytes(entry);
	return 0;
}

void
mt_manifest_state_counts(const struct mt_manifest_state *state, struct mt_cluster *ret_counts)
{
	*ret_counts = (struct mt_cluster){ .next_volume_id = state->next_volume_id,
		.next_segment = state->next_segment,
		.next_snapshot = state->next_snapshot,
		.next_clone = state->next_clone,
		.next_key = state->next_key };
}

const struct mt_volume *
mt_manifest_state_volume(const struct mt_manifest_state *state, uint64_t id)
{
	struct mirror_array volumes = volumes_of(state);

	return array_find(&volumes, id);
}

const struct mt_snapshot *
mt_manifest_state_snapshot(const struct mt_manifest_state *state, uint64_t number)
{
	struct mirror_array snapshots = snapshots_of(state);

	return array_find(&snapshots, number);
}

const struct mt_sealed_name *
mt_manifest_state_name(const struct mt_manifest_state *state, uint64_t number)
{
	struct mirror_array names = names_of(state);

	return array_find(&names, number);
}

/* ---- edits ---- */

static int
mirror_apply_volume(struct mt_manifest_state *state, const struct mt_edit *edit,
    const char **ret_field)
{
	struct mirror_array volumes = volumes_of(state);
	int rc =
	    array_apply(&volumes, &edit->volume, edit->is_deleted, &state->mirror_bytes, ret_field);

	assert(edit->kind == MT_EDIT_VOLUME);
	state->volumes = volumes.entries;
	state->volume_count = volumes.count;
	state->volume_max = volumes.max;
	return rc;
}

static int
mirror_apply_snapshot(struct mt_manifest_state *state, const struct mt_edit *edit,
    const char **ret_field)
{
	struct mirror_array snapshots = snapshots_of(state);
	int rc = array_apply(&snapshots, &edit->snapshot, edit->is_deleted, &state->mirror_bytes,
	    ret_field);

	assert(edit->kind == MT_EDIT_SNAPSHOT);
	state->snapshots = snapshots.entries;
	state->snapshot_count = snapshots.count;
	state->snapshot_max = snapshots.max;
	return rc;
}

static int
mirror_apply_data_key(struct mt_manifest_state *state, const struct mt_edit *edit,
    const char **ret_field)
{
	struct mirror_array data_keys = data_keys_of(state);
	int rc = array_apply(&data_keys, &edit->data_key, edit->is_deleted, &state->mirror_bytes,
	    ret_field);

	assert(edit->kind == MT_EDIT_DATA_KEY);
	state->data_keys = data_keys.entries;
	state->data_key_count = data_keys.count;
	state->data_key_max = data_keys.max;
	return rc;
}

static int
mirror_apply_name(struct mt_manifest_state *state, const struct mt_edit *edit,
    const char **ret_field)
{
	struct mirror_array names = names_of(state);
	int rc =
	    array_apply(&names, &edit->name, edit->is_deleted, &state->mirror_bytes, ret_field);

	assert(edit->kind == MT_EDIT_NAME);
	state->names = names.entries;
	state->name_count = names.count;
	state->name_max = names.max;
	return rc;
}

static int
mirror_apply_cluster(struct mt_manifest_state *state, const struct mt_edit *edit,
    const char **ret_field)
{
	assert(edit->kind == MT_EDIT_CLUSTER);
	MIRROR_EXPECT(state->shard_count == 0 || state->shard_count == edit->shard_count,
	    "number of shards changed");
	state->shard_count = edit->shard_count;
	state->next_volume_id = edit->next_volume_id;
	state->next_segment = edit->next_segment;
	state->next_snapshot = edit->next_snapshot;
	state->next_clone = edit->next_clone;
	state->next_key = edit->next_key;
	state->level = edit->level;
	return 0;
}

/* Where the mirror's ids and segments can be. NULL, or what cannot. */
static const char *
mirror_out_of_range(const struct mt_edit *edit)
{
	const struct mt_volume *volume = &edit->volume;
	const struct mt_snapshot *snapshot = &edit->snapshot;

	switch (edit->kind) {
	case MT_EDIT_VOLUME:
		if (volume->id > MT_NUMBER_MAX || volume->attach > MT_NUMBER_MAX ||
		    volume->origin > MT_NUMBER_MAX)
			return "volume's numbers out of range";
		return mt_segments_exist(volume->segment_base, volume->segment_count)
		    ? NULL
		    : "volume's segments out of range";
	case MT_EDIT_SNAPSHOT:
		if (snapshot->number > MT_NUMBER_MAX || snapshot->volume_id > MT_NUMBER_MAX)
			return "snapshot's numbers out of range";
		return mt_segments_exist(snapshot->segment_base, snapshot->segment_count)
		    ? NULL
		    : "snapshot's segments out of range";
	case MT_EDIT_DATA_KEY: /* their decoder has looked */
	case MT_EDIT_NAME:
		return NULL;
	default:
		return edit->next_volume_id > MT_NUMBER_MAX + 1 ||
			edit->next_snapshot > MT_NUMBER_MAX + 1 ||
			edit->next_segment > MT_ROOTS_MAX || edit->next_clone > CLEAVE_CLONE_MAX + 1
		    ? "next numbers out of range"
		    : NULL;
	}
}

/* An edit that changes the mirror. */
static bool
edit_is_mirrored(const struct mt_edit *edit)
{
	return edit->kind == MT_EDIT_VOLUME || edit->kind == MT_EDIT_SNAPSHOT ||
	    edit->kind == MT_EDIT_CLUSTER || edit->kind == MT_EDIT_DATA_KEY ||
	    edit->kind == MT_EDIT_NAME;
}

int
mt_manifest_mirror_apply(struct mt_manifest_state *state, const struct mt_edit *edit,
    const char **ret_field)
{
	assert(edit_is_mirrored(edit));
	*ret_field = mirror_out_of_range(edit);
	if (*ret_field != NULL)
		return -EBADMSG;
	if (edit->kind == MT_EDIT_VOLUME)
		return mirror_apply_volume(state, edit, ret_field);
	if (edit->kind == MT_EDIT_SNAPSHOT)
		return mirror_apply_snapshot(state, edit, ret_field);
	if (edit->kind == MT_EDIT_DATA_KEY)
		return mirror_apply_data_key(state, edit, ret_field);
	if (edit->kind == MT_EDIT_NAME)
		return mirror_apply_name(state, edit, ret_field);
	return mirror_apply_cluster(state, edit, ret_field);
}
