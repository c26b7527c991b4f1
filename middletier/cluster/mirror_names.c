/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mirror_names.c -- see mirror_names.h
 *
 * A volume that was recovered without its KEK is called by its placeholder. The name that the manifest has of it stays
 * then, until somebody gives it another one: whoever recovers again with the KEK has it back.
 */
#include "cluster/mirror_names.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "catalog/snapshot.h"
#include "catalog/volume.h"
#include "cleave/keyring.h"
#include "common/alloc.h"
#include "manifest/edit.h"
#include "manifest/manifest_state.h"

/* ---- on main ---- */

static int
name_compare(const void *a, const void *b)
{
	uint64_t a_number = ((const struct mt_mirror_name *)a)->number;
	uint64_t b_number = ((const struct mt_mirror_name *)b)->number;

	return a_number < b_number ? -1 : a_number > b_number;
}

/* The name in @text is taken out of it, and its placeholder comes in. */
static void
name_take(struct mt_mirror_name *name, uint64_t number, uint32_t key_id, char text[MT_NAME_BYTES])
{
	*name = (struct mt_mirror_name){ .number = number, .key_id = key_id };
	memcpy(name->text, text, MT_NAME_BYTES);
	memset(text, 0, MT_NAME_BYTES);
	mt_sealed_name_placeholder(number, text);
}

static const struct mt_volume *
volume_find(const struct mt_volume *volumes, uint32_t count, uint64_t id)
{
	uint32_t low = 0, high = count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (volumes[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < count && volumes[low].id == id ? &volumes[low] : NULL;
}

/* Encrypted forms of before, for the texts that have not changed. */
static void
names_keep(const struct mt_mirror_names *old, struct mt_mirror_name *entries, uint32_t count)
{
	uint32_t k = 0;

	for (uint32_t i = 0; i < count; i++) {
		while (k < old->count && old->entries[k].number < entries[i].number)
			k++;
		if (k < old->count && old->entries[k].number == entries[i].number &&
		    old->entries[k].is_sealed && old->entries[k].key_id == entries[i].key_id &&
		    strcmp(old->entries[k].text, entries[i].text) == 0) {
			entries[i].is_sealed = true;
			entries[i].sealed = old->entries[k].sealed;
		}
	}
}

int
mt_mirror_names_take(struct mt_mirror_names *names, struct mt_volume *volumes,
    uint32_t volume_count, struct mt_snapshot *snapshots, uint32_t snapshot_count)
{
	struct mt_mirror_name *entries, unused;
	uint32_t count = 0, max = 0;

	for (uint32_t i = 0; i < volume_count; i++)
		max += volumes[i].key_id != 0;
	entries = mt_calloc((size_t)max + snapshot_count + 1, sizeof(*entries));
	if (entries == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < volume_count; i++) {
		struct mt_volume *volume = &volumes[i];

		if (volume->key_id != 0)
			name_take(&entries[count++], volume->id, volume->key_id,
			    mt_volume_is_trashed(volume) ? volume->trash.name : volume->name);
	}
	for (uint32_t i = 0; i < snapshot_count; i++) {
		const struct mt_volume *volume =
		    volume_find(volumes, volume_count, snapshots[i].volume_id);

		if (volume != NULL && volume->key_id != 0)
			name_take(&entries[count++], snapshots[i].number | MT_SNAPSHOT_ID,
			    volume->key_id, snapshots[i].name);
		else if (volume == NULL) /* its volume is gone, and may have been encrypted */
			name_take(&unused, snapshots[i].number | MT_SNAPSHOT_ID, 1,
			    snapshots[i].name);
	}
	assert(count <= max + snapshot_count);
	qsort(entries, count, sizeof(*entries), name_compare);
	names_keep(names, entries, count);
	mt_mirror_names_fini(names);
	names->entries = entries;
	names->count = count;
	return 0;
}

void
mt_mirror_names_fini(struct mt_mirror_names *names)
{
	mt_free(names->entries);
	*names = (struct mt_mirror_names){ 0 };
}

/* ---- on the port ---- */

static bool
name_is_placeholder(const struct mt_mirror_name *name)
{
	char text[MT_NAME_BYTES];

	mt_sealed_name_placeholder(name->number, text);
	return strcmp(text, name->text) == 0;
}

/* Is the manifest's @old what @name shall be? An unknown form is opened, once. */
static bool
name_is_mirrored(struct mt_mirror_name *name, const struct mt_sealed_name *old,
    const struct keyring *keys)
{
	uint8_t key[KEYRING_KEY_BYTES];
	char text[MT_NAME_BYTES];
	bool is_same = false;

	if (name->is_sealed)
		return name->key_id == old->key_id &&
		    memcmp(name->sealed.sealed, old->sealed, MT_SEALED_NAME_BYTES) == 0;
	if (name_is_placeholder(name))
		return true; /* what it was called before is not known here */
	if (name->key_id != old->key_id || keyring_copy(keys, old->key_id, key) != 0)
		return !keyring_has(keys, name->key_id);
	is_same = mt_sealed_name_open(old, key, text) == 0 && strcmp(text, name->text) == 0;
	gnutls_memset(key, 0, sizeof(key));
	if (is_same) {
		name->is_sealed = true;
		name->sealed = *old;
	}
	return is_same;
}

/* False: the data key is not there. */
static bool
name_seal(struct mt_mirror_name *name, const struct keyring *keys)
{
	uint8_t key[KEYRING_KEY_BYTES];

	if (name->is_sealed)
		return true;
	if (name_is_placeholder(name) || keyring_copy(keys, name->key_id, key) != 0)
		return false;
	name->sealed = (struct mt_sealed_name){ .number = name->number, .key_id = name->key_id };
	name->is_sealed = mt_sealed_name_make(&name->sealed, key, name->text) == 0;
	gnutls_memset(key, 0, sizeof(key));
	return name->is_sealed;
}

bool
mt_mirror_names_next(struct mt_mirror_names *names, const struct mt_manifest_state *state,
    const struct keyring *keys, bool is_incomplete, struct mt_mirror_names_at *at,
    struct mt_edit *ret_edit)
{
	while (at->old < state->name_count || at->wanted < names->count) {
		const struct mt_sealed_name *old =
		    at->old < state->name_count ? &state->names[at->old] : NULL;
		struct mt_mirror_name *wanted =
		    at->wanted < names->count ? &names->entries[at->wanted] : NULL;
		uint64_t old_number = old == NULL ? UINT64_MAX : old->number;
		uint64_t wanted_number = wanted == NULL ? UINT64_MAX : wanted->number;

		at->old += old_number <= wanted_number;
		at->wanted += wanted_number <= old_number;
		*ret_edit = (struct mt_edit){ .kind = MT_EDIT_NAME };
		if (old_number < wanted_number) {
			if (is_incomplete)
				continue;
			ret_edit->name = *old;
			ret_edit->is_deleted = true;
			return true;
		}
		if ((old_number == wanted_number && name_is_mirrored(wanted, old, keys)) ||
		    !name_seal(wanted, keys))
			continue;
		ret_edit->name = wanted->sealed;
		return true;
	}
	return false;
}
