/* SPDX-License-Identifier: Apache-2.0 */
/* rebuild_keys.c -- see rebuild_keys.h */
#include "rebuild/rebuild_keys.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "catalog/cluster_key.h"
#include "catalog/data_key.h"
#include "catalog/sealed_name.h"
#include "catalog/snapshot.h"
#include "catalog/volume.h"
#include "kms/kms.h"
#include "manifest/manifest_mirror.h"
#include "manifest/manifest_state.h"
#include "rebuild/rebuild_store.h"

_Static_assert(MT_DEK_BYTES == KEYRING_KEY_BYTES, "a data key");

int
mt_rebuild_keys_plan(struct mt_rebuild_store *store, const struct mt_manifest_state *mirror,
    struct mt_cluster *cluster)
{
	int rc = 0;

	cluster->next_key = num_max(cluster->next_key, mirror->next_key);
	for (uint32_t i = 0; i < mirror->data_key_count && rc == 0; i++) {
		const struct mt_data_key *data_key = &mirror->data_keys[i];
		char key[MT_DATA_KEY_KEY_BYTES];
		char *text = mt_data_key_encode(data_key);

		cluster->next_key = num_max(cluster->next_key, data_key->id + 1);
		mt_data_key_key(data_key->id, key);
		rc = text == NULL ? -ENOMEM : mt_rebuild_store_plan_key(store, key, text);
	}
	return rc;
}

static const struct mt_data_key *
key_find(const struct mt_manifest_state *mirror, uint64_t id)
{
	for (uint32_t i = 0; i < mirror->data_key_count; i++) {
		if (mirror->data_keys[i].id == id)
			return &mirror->data_keys[i];
	}
	return NULL;
}

/* The name of @number; false and call->why: it cannot be had. */
static bool
name_open(const struct mt_manifest_state *mirror, struct mt_kms *kms, uint64_t number,
    char ret_text[MT_NAME_BYTES], struct mt_kms_call *call)
{
	const struct mt_sealed_name *name = mt_manifest_state_name(mirror, number);
	const struct mt_data_key *data_key = name == NULL ? NULL : key_find(mirror, name->key_id);
	int rc;

	*call = (struct mt_kms_call){ .why = "the nodes have no name of it, or no data key" };
	if (data_key == NULL)
		return false;
	call->data_key = *data_key;
	rc = mt_kms_unwrap_now(kms, call);
	if (rc == 0 && mt_sealed_name_open(name, call->dek, ret_text) != 0) {
		rc = -EBADMSG;
		(void)snprintf(call->why, sizeof(call->why), "its data key does not open its name");
	}
	mt_kms_call_wipe(call);
	return rc == 0;
}

static bool
volume_is_called(const struct mt_manifest_state *mirror, const char *name)
{
	for (uint32_t i = 0; i < mirror->volume_count; i++) {
		const struct mt_volume *volume = &mirror->volumes[i];

		if (volume->key_id == 0 && strcmp(volume->name, name) == 0)
			return true;
	}
	return false;
}

static void
name_volume(const struct mt_manifest_state *mirror, struct mt_kms *kms, struct mt_volume *volume)
{
	bool is_trashed = mt_volume_is_trashed(volume);
	char *place = is_trashed ? volume->trash.name : volume->name;
	char text[MT_NAME_BYTES];
	struct mt_kms_call call;

	if (volume->key_id == 0)
		return;
	if (!name_open(mirror, kms, volume->id, text, &call)) {
		log_warn(
		    "recover: volume %s: it is encrypted, and its name cannot be had: run this again "
		    "with --kek before a gateway serves, or rename it why=\"%s\"",
		    place, call.why);
	} else if (!is_trashed && volume_is_called(mirror, text)) {
		log_warn("recover: volume %s: another volume is called as it was: rename it",
		    place);
	} else {
		memcpy(place, text, MT_NAME_BYTES);
		return;
	}
	/* A volume that is not encrypted may be called like a placeholder. */
	if (!is_trashed && volume_is_called(mirror, volume->name))
		(void)snprintf(volume->name, sizeof(volume->name), "recovered-%" PRIu64,
		    volume->id);
}

static void
name_snapshot(const struct mt_manifest_state *mirror, struct mt_kms *kms,
    struct mt_snapshot *snapshot)
{
	char text[MT_NAME_BYTES];
	struct mt_kms_call call;

	if (mt_manifest_state_name(mirror, snapshot->number | MT_SNAPSHOT_ID) == NULL)
		return;
	if (name_open(mirror, kms, snapshot->number | MT_SNAPSHOT_ID, text, &call))
		memcpy(snapshot->name, text, MT_NAME_BYTES);
	else
		log_warn("recover: snapshot %s of volume %" PRIu64
			 ": its name cannot be had why=\"%s\"",
		    snapshot->name, snapshot->volume_id, call.why);
}

struct mt_volume
mt_rebuild_volume(const struct mt_rebuild_plan *plan, uint32_t index)
{
	struct mt_volume volume = plan->mirror->volumes[index];

	assert(index < plan->mirror->volume_count);
	name_volume(plan->mirror, plan->kms, &volume);
	return volume;
}

struct mt_snapshot
mt_rebuild_snapshot(const struct mt_rebuild_plan *plan, uint32_t index)
{
	struct mt_snapshot snapshot = plan->mirror->snapshots[index];

	assert(index < plan->mirror->snapshot_count);
	name_snapshot(plan->mirror, plan->kms, &snapshot);
	return snapshot;
}
