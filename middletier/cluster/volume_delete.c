/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volume_delete.c -- the transactions that delete a volume, or purge one of the trash
 *
 * Deleting leaves "deleted/ID" behind, in the same transaction: a volume's space is reclaimed by that mark, never
 * because a key is absent.
 *
 *	purge:  its live snapshots, twelve a step, and left_ms = 0 --> ... --> no key, "deleted/ID"
 *
 * Each step compares all keys that it was made from, the volume's own among them: whoever restores it, takes a clone
 * of a snapshot of it or protects one meanwhile comes before the step, or after it, and one of the two is refused.
 */
#include "cluster/volume_delete.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "catalog/json.h"
#include "catalog/snapshot_table.h"
#include "catalog/waiting.h"
#include "cleave/meta.h"
#include "cluster/gateway_state.h"
#include "common/alloc.h"

_Static_assert(2 * (MT_DELETE_SNAPSHOTS_MAX + 1) <= META_TXN_OPS_MAX, "a step");
_Static_assert(MT_SNAPSHOT_KEY_BYTES <= MT_VOLUME_KEY_BYTES, "keys of both");

/* ---- a transaction is put together ---- */

/* Where the next key is written. */
static char *
ops_key(struct mt_delete_ops *ops)
{
	assert(ops->key_count < MT_DELETE_KEYS_MAX);
	return ops->keys[ops->key_count++];
}

static void
ops_compare(struct mt_delete_ops *ops, const char *key, uint64_t version)
{
	assert(ops->count < NUM_COUNT(ops->ops));
	ops->ops[ops->count++] =
	    (struct meta_op){ .kind = META_COMPARE_VERSION, .key = key, .version = version };
}

/* @text, jansson's, is taken over. False: it is NULL, there was no memory. */
static bool
ops_put(struct mt_delete_ops *ops, const char *key, char *text)
{
	assert(ops->count < NUM_COUNT(ops->ops));
	assert(ops->key_count > 0);
	if (text == NULL)
		return false;
	ops->texts[ops->key_count - 1] = text;
	ops->ops[ops->count++] = (struct meta_op){ .kind = META_PUT,
		.key = key,
		.value = text,
		.value_bytes = (uint32_t)strlen(text) };
	return true;
}

void
mt_delete_ops_free(struct mt_delete_ops *ops)
{
	if (ops == NULL)
		return;
	for (uint32_t i = 0; i < MT_DELETE_KEYS_MAX; i++)
		free(ops->texts[i]);
	mt_free(ops);
}

/* ---- a volume ---- */

/* The mark says what there was, and whose shards have not reclaimed it yet (drop.c): all. */
static char *
deleted_encode(const struct mt_gateway *gateway, const struct mt_volume *volume)
{
	struct mt_volume gone = *volume;
	json_t *object;
	char *waiting = mt_waiting_all(gateway->cluster.shard_count);
	char *text = NULL;

	assert(gateway->cluster.shard_count > 0);
	gone.limits = (struct cleave_limits){ 0 };
	object = mt_json_volume(&gone);
	if (object != NULL && waiting != NULL &&
	    json_object_set_new(object, "waiting", json_string(waiting)) == 0)
		text = json_dumps(object, JSON_COMPACT);
	mt_free(waiting);
	json_decref(object);
	return text;
}

static bool
ops_add_mark(struct mt_delete_ops *ops, const struct mt_gateway *gateway,
    const struct mt_volume *volume)
{
	char *key = ops_key(ops);

	(void)snprintf(key, MT_VOLUME_KEY_BYTES, MT_DELETED_PREFIX "%" PRIu64, volume->id);
	return ops_put(ops, key, deleted_encode(gateway, volume));
}

/* The snapshot that it is a clone of has one clone less. */
static bool
ops_add_origin(struct mt_delete_ops *ops, const struct mt_volumes *volumes, uint64_t number)
{
	const struct mt_snapshot_entry *origin =
	    mt_snapshots_by_number(&volumes->snapshots, number);
	struct mt_snapshot snapshot;
	char *key;

	if (origin == NULL)
		return true;
	snapshot = origin->snapshot;
	snapshot.clone_count -= snapshot.clone_count > 0;
	key = ops_key(ops);
	mt_snapshot_key(snapshot.number, key);
	ops_compare(ops, key, origin->version);
	return ops_put(ops, key, mt_snapshot_encode(&snapshot, origin->waiting));
}

struct mt_delete_ops *
mt_delete_ops_volume(struct mt_gateway *gateway, const struct mt_volume_entry *entry)
{
	struct mt_delete_ops *ops = mt_calloc(1, sizeof(*ops));
	char *key;

	assert(entry->volume.id != 0);
	if (ops == NULL)
		return NULL;
	ops->is_last = true;
	key = ops_key(ops);
	mt_volume_key(entry->volume.name, key);
	ops_compare(ops, key, entry->version);
	ops->ops[ops->count++] = (struct meta_op){ .kind = META_DELETE, .key = key };
	if (ops_add_mark(ops, gateway, &entry->volume) &&
	    ops_add_origin(ops, &gateway->volumes, entry->volume.origin))
		return ops;
	mt_delete_ops_free(ops);
	return NULL;
}

/* ---- one of the trash ---- */

const struct mt_snapshot *
mt_delete_obstacle(const struct mt_volumes *volumes, uint64_t volume_id)
{
	const struct mt_snapshots *snapshots = &volumes->snapshots;

	assert(volume_id != 0);
	for (uint32_t i = 0; i < snapshots->count; i++) {
		const struct mt_snapshot *snapshot = &snapshots->entries[i].snapshot;

		if (snapshot->volume_id == volume_id &&
		    (snapshot->clone_count > 0 ||
			(snapshot->is_protected && snapshot->state == MT_SNAPSHOT_LIVE)))
			return snapshot;
	}
	return NULL;
}

static bool
ops_add_snapshot(struct mt_delete_ops *ops, const struct mt_snapshot_entry *entry)
{
	struct mt_snapshot snapshot = entry->snapshot;
	char *key = ops_key(ops);

	assert(snapshot.state == MT_SNAPSHOT_LIVE);
	snapshot.state = MT_SNAPSHOT_DELETED;
	mt_snapshot_key(snapshot.number, key);
	ops_compare(ops, key, entry->version);
	return ops_put(ops, key, mt_snapshot_encode(&snapshot, NULL));
}

struct mt_delete_ops *
mt_delete_ops_purge(struct mt_gateway *gateway, const struct mt_volume_entry *entry)
{
	const struct mt_snapshots *snapshots = &gateway->volumes.snapshots;
	struct mt_volume volume = entry->volume;
	struct mt_delete_ops *ops = mt_calloc(1, sizeof(*ops));
	uint32_t count = 0;
	char *key;

	assert(mt_volume_is_trashed(&entry->volume));
	assert(mt_delete_obstacle(&gateway->volumes, volume.id) == NULL);
	for (uint32_t i = 0; i < snapshots->count && count < MT_DELETE_SNAPSHOTS_MAX; i++) {
		const struct mt_snapshot *snapshot = &snapshots->entries[i].snapshot;

		if (snapshot->volume_id != volume.id || snapshot->state != MT_SNAPSHOT_LIVE)
			continue;
		count++;
		if (ops == NULL || !ops_add_snapshot(ops, &snapshots->entries[i]))
			goto err_ops;
	}
	if (ops == NULL || count == 0) {
		mt_delete_ops_free(ops);
		return mt_delete_ops_volume(gateway, entry);
	}
	volume.trash.left_ms = 0;
	key = ops_key(ops);
	mt_volume_key(volume.name, key);
	ops_compare(ops, key, entry->version);
	if (ops_put(ops, key, mt_volume_encode(&volume)))
		return ops;
err_ops:
	mt_delete_ops_free(ops);
	return NULL;
}
