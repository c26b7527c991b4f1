/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rebuild_store.c -- the metadata store that a rebuild found, and the one it leaves
 *
 * Changes that the nodes do not know cannot be in the new store, and numbers that were lost must not be given
 * again: epochs begin above every one seen, ids and attach numbers far above the mirror's, which may lack the
 * last changes.
 */
#include "rebuild/rebuild_store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "catalog/cluster_key.h"
#include "catalog/numbers.h"
#include "catalog/place.h"
#include "catalog/root.h"
#include "catalog/scope.h"
#include "catalog/snapshot_table.h"
#include "catalog/trash.h"
#include "catalog/volume_table.h"
#include "catalog/wish.h"
#include "cleave/meta.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/root.h"
#include "manifest/manifest_state.h"
#include "rebuild/rebuild_copy.h"
#include "rebuild/rebuild_keys.h"
#include "rebuild/rebuild_mark.h"
#include "rebuild/rebuild_old.h"
#include "rebuild/rebuild_read.h"
#include "rebuild/survey.h"

#define REBUILD_VOLUME_IDS_SKIPPED (UINT64_C(1) << 16)
#define REBUILD_SEGMENTS_SKIPPED (UINT64_C(1) << 20)
#define REBUILD_ATTACHES_SKIPPED (UINT64_C(1) << 20)
#define REBUILD_SNAPSHOTS_SKIPPED (UINT64_C(1) << 16)
#define REBUILD_CLONES_SKIPPED (UINT64_C(1) << 12)
#define REBUILD_TXN_KEYS_MAX (META_TXN_OPS_MAX / 2)

/* ---- the store as it was ---- */

static int
store_keep(struct mt_rebuild_store *store, const struct meta_item *items, uint32_t count)
{
	assert(store->old == NULL && store->old_count == 0);
	store->old = mt_calloc(count + 1, sizeof(*store->old));
	if (store->old == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		struct mt_rebuild_key *key = &store->old[store->old_count++];

		key->version = items[i].version;
		key->key = mt_strdup(items[i].key);
		key->text = mt_calloc(1, (size_t)items[i].value_bytes + 1);
		if (key->key == NULL || key->text == NULL)
			return -ENOMEM;
		memcpy(key->text, items[i].value, items[i].value_bytes);
		if (strncmp(key->key, "gateways/", 9) == 0)
			store->has_gateway = true;
	}
	return 0;
}

static int
key_compare(const void *name, const void *key)
{
	return strcmp(name, ((const struct mt_rebuild_key *)key)->key);
}

/* A store lists its keys sorted. */
static const struct mt_rebuild_key *
store_find(const struct mt_rebuild_store *store, const char *name)
{
	assert(store->old_count == 0 || store->old != NULL);
	return store->old_count == 0
	    ? NULL
	    : bsearch(name, store->old, store->old_count, sizeof(*store->old), key_compare);
}

/* A key that cannot be read is made anew; one that a later release has written is not: -EPROTONOSUPPORT. */
static int
store_read_cluster(struct mt_rebuild_store *store, const char *text)
{
	const char *field;
	int rc = mt_cluster_decode(text, (uint32_t)strlen(text), &store->cluster, &field);

	assert(!store->has_cluster);
	store->has_cluster = rc == 0;
	if (rc != -EPROTONOSUPPORT)
		return 0;
	log_error("recover: %s", field);
	return rc;
}

static void
store_on_list(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct mt_rebuild_store *store = arg;
	const struct mt_rebuild_key *cluster, *mark, *key;
	struct mt_moved moved;
	const char *field;

	assert(store->fn != NULL);
	if (rc == 0)
		rc = store_keep(store, items, count);
	cluster = rc == 0 ? store_find(store, "cluster") : NULL;
	mark = rc == 0 ? store_find(store, MT_REBUILD_MARK_KEY) : NULL;
	key = rc == 0 ? store_find(store, MT_MOVED_KEY) : NULL;
	store->is_moved = key != NULL &&
	    mt_moved_decode(key->text, (uint32_t)strlen(key->text), &moved, &field) == 0;
	if (store->is_moved)
		memcpy(store->moved_to, moved.to, sizeof(store->moved_to));
	if (cluster != NULL)
		rc = store_read_cluster(store, cluster->text);
	else if (mark != NULL)
		rc = mt_rebuild_mark_read(store, mark->text);
	else if (store->is_moved)
		rc = store_read_cluster(store, moved.cluster);
	store->fn(rc, store->arg);
}

int
mt_rebuild_store_load(struct mt_rebuild_store *store, void (*fn)(int rc, void *arg), void *arg)
{
	assert(store->meta != NULL && fn != NULL);
	mt_rebuild_store_fini(store);
	store->has_gateway = store->has_cluster = store->is_unfinished = store->keeps_users = false;
	store->fn = fn;
	store->arg = arg;
	return store->meta->ops->list(store->meta, "", store_on_list, store);
}

int
mt_rebuild_store_judge(const struct mt_rebuild_store *store, uint64_t cluster_id, char *ret_text,
    size_t text_bytes)
{
	assert(cluster_id != 0);
	if (store->has_gateway) {
		(void)snprintf(ret_text, text_bytes,
		    "a gateway is registered in the metadata store: stop it, or wait until its "
		    "lease has ended");
		return -EBUSY;
	}
	if (store->has_cluster && store->cluster.cluster_id != cluster_id) {
		(void)snprintf(ret_text, text_bytes,
		    "cluster-id: the metadata store belongs to cluster %016" PRIx64,
		    store->cluster.cluster_id);
		return -EXDEV;
	}
	if (!store->is_moved)
		return 0;
	(void)snprintf(ret_text, text_bytes,
	    "the metadata store was moved to %.*s: recover that one", (int)(text_bytes / 2),
	    store->moved_to);
	return -EREMCHG;
}

bool
mt_rebuild_store_root(const struct mt_rebuild_store *store, uint32_t shard,
    struct mt_root *ret_root)
{
	const struct mt_rebuild_key *found;
	char key[MT_ROOT_KEY_BYTES];
	const char *field;

	assert(shard < CLEAVE_SHARDS_MAX);
	mt_root_key(key, shard);
	found = store_find(store, key);
	return found != NULL &&
	    mt_root_decode(found->text, (uint32_t)strlen(found->text), shard, ret_root, &field) ==
	    0;
}

bool
mt_rebuild_store_is_known(const struct mt_rebuild_store *store, const struct store_id *id)
{
	const struct mt_cluster *cluster = &store->cluster;

	assert(cluster->replaced_count <= MT_REPLACED_MAX);
	if (store_id_is_zero(id))
		return true;
	if (!store->has_cluster)
		return false;
	for (uint32_t i = 0; i < cluster->replaced_count; i++) {
		if (store_id_is_equal(id, &cluster->replaced[i]))
			return true;
	}
	return store_id_is_equal(id, &cluster->store_id);
}

/* ---- the store as it shall be ---- */

int
mt_rebuild_store_plan_key(struct mt_rebuild_store *store, const char *name, char *text)
{
	const struct mt_rebuild_key *old = store_find(store, name);
	struct mt_rebuild_key *key;
	char *copy = mt_strdup(name);

	assert(store->key_count <= store->key_max);
	if (store->key_count == store->key_max || copy == NULL) {
		uint32_t max = (uint32_t)num_max(2 * (uint64_t)store->key_max, 64);
		struct mt_rebuild_key *keys =
		    copy == NULL ? NULL : mt_realloc(store->keys, max * sizeof(*keys));

		if (keys == NULL) {
			mt_free(copy);
			free(text);
			return -ENOMEM;
		}
		store->keys = keys;
		store->key_max = max;
	}
	key = &store->keys[store->key_count++];
	*key = (struct mt_rebuild_key){ .key = copy,
		.text = text,
		.version = old == NULL ? 0 : old->version };
	return 0;
}

static int
plan_root(struct mt_rebuild_store *store, const struct mt_rebuild_plan *plan, uint32_t index)
{
	const struct mt_rebuild_shard *shard = &plan->shards[index];
	/* A root without an owner: any gateway may claim it. */
	struct mt_root root = { .epoch = shard->epoch_seen, .is_released = true }, old;
	char key[MT_ROOT_KEY_BYTES];
	char *text;

	assert(index < plan->shard_count);
	if (mt_rebuild_store_root(store, index, &old))
		root.epoch = (uint32_t)num_max(root.epoch, old.epoch);
	if (root.epoch + plan->epoch_margin >= EXTENT_EPOCH_MAX)
		return -EOVERFLOW;
	root.epoch += plan->epoch_margin;
	root.may_be_empty = !shard->has_manifest; /* it was forced, or never was written */
	if (shard->has_manifest) {
		root.has_manifest = true;
		root.manifest = shard->manifest.id;
		root.manifest_sealed_bytes = MT_ROOT_OPEN; /* the taker agrees upon it */
		root.manifest_replica_count =
		    mt_survey_replicas(plan->survey, &shard->manifest, root.manifest_replicas);
	}
	text = mt_root_encode(&root);
	if (text == NULL)
		return -ENOMEM;
	mt_root_key(key, index);
	log_info("recover: shard %" PRIu32 ": epoch=%" PRIu32, index, root.epoch);
	return mt_rebuild_store_plan_key(store, key, text);
}

static int
plan_volume(struct mt_rebuild_store *store, struct mt_cluster *cluster,
    const struct mt_volume *from)
{
	struct mt_volume volume = *from;
	struct mt_wish wish;
	char key[MT_VOLUME_KEY_BYTES];
	char *text;

	assert(from->id != 0);
	if ((mt_volume_name_check(volume.name) != NULL && !mt_trash_is_name(volume.name)) ||
	    (mt_volume_is_trashed(&volume) && mt_volume_name_check(volume.trash.name) != NULL) ||
	    !mt_wish_by_id(volume.codec_id, &wish)) {
		log_error("recover: volume %" PRIu64 ": %s: cannot be understood", volume.id,
		    volume.name);
		return -EINVAL;
	}
	/* Attach numbers jump ahead: no session from before the loss passes for a present one. */
	volume.attach = num_min(volume.attach + REBUILD_ATTACHES_SKIPPED, MT_NUMBER_MAX);
	volume.session_id = 0;
	cluster->next_volume_id = num_max(cluster->next_volume_id, volume.id + 1);
	cluster->next_segment = num_max(cluster->next_segment,
	    wire_segment_root(volume.segment_base) + (uint64_t)MT_VOLUME_SEGMENTS);
	cluster->next_clone =
	    num_max(cluster->next_clone, (volume.segment_base >> 32) + UINT64_C(1));
	mt_volume_key(volume.name, key);
	text = mt_volume_encode(&volume);
	if (text == NULL)
		return -ENOMEM;
	log_info("recover: volume %s%s: id=%" PRIu64 " size_bytes=%" PRIu64,
	    mt_volume_is_trashed(&volume) ? volume.trash.name : volume.name,
	    mt_volume_is_trashed(&volume) ? " in the trash" : "", volume.id, volume.size_bytes);
	return mt_rebuild_store_plan_key(store, key, text);
}

/* A snapshot that was being taken is nobody's any more. */
static int
plan_snapshot(struct mt_rebuild_store *store, struct mt_cluster *cluster,
    const struct mt_snapshot *from)
{
	struct mt_snapshot snapshot = *from;
	char key[MT_SNAPSHOT_KEY_BYTES];
	char *text;

	assert(from->number != 0);
	if (mt_volume_name_check(snapshot.name) != NULL) {
		log_error("recover: snapshot %" PRIu64 ": %s: cannot be understood",
		    snapshot.number, snapshot.name);
		return -EINVAL;
	}
	if (snapshot.state == MT_SNAPSHOT_PENDING)
		mt_snapshot_void(&snapshot);
	cluster->next_snapshot = num_max(cluster->next_snapshot, snapshot.number + 1);
	mt_snapshot_key(snapshot.number, key);
	text = mt_snapshot_encode(&snapshot, NULL);
	if (text == NULL)
		return -ENOMEM;
	log_info("recover: snapshot %" PRIu64 ": %s of volume %" PRIu64, snapshot.number,
	    snapshot.name, snapshot.volume_id);
	return mt_rebuild_store_plan_key(store, key, text);
}

static int
plan_old_snapshot(struct mt_rebuild_store *store, struct mt_cluster *cluster,
    const struct mt_rebuild_key *old)
{
	struct mt_snapshot snapshot;
	char *waiting = NULL;
	const char *field;
	int rc = mt_snapshot_decode(old->key, old->text, (uint32_t)strlen(old->text), &snapshot,
	    &waiting, &field);

	assert(strncmp(old->key, MT_SNAPSHOT_PREFIX, strlen(MT_SNAPSHOT_PREFIX)) == 0);
	mt_free(waiting);
	if (rc == 0)
		return plan_snapshot(store, cluster, &snapshot);
	log_error("recover: unreadable in the metadata store key=%s field=\"%s\"", old->key, field);
	return rc;
}

/* The store's own volumes stay, where the nodes know nothing of any. */
static int
plan_old_volumes(struct mt_rebuild_store *store, struct mt_cluster *cluster)
{
	for (uint32_t i = 0; i < store->old_count; i++) {
		struct mt_rebuild_key *old = &store->old[i];
		struct mt_volume volume;
		const char *field;
		int rc;

		if (strncmp(old->key, MT_SNAPSHOT_PREFIX, strlen(MT_SNAPSHOT_PREFIX)) == 0) {
			rc = plan_old_snapshot(store, cluster, old);
			if (rc != 0)
				return rc;
		}
		if (strncmp(old->key, "volumes/", 8) != 0)
			continue;
		rc = mt_volume_decode(old->key + 8, old->text, (uint32_t)strlen(old->text), &volume,
		    &field);
		if (rc != 0) {
			log_error("recover: unreadable in the metadata store key=%s field=\"%s\"",
			    old->key, field);
			return -EINVAL;
		}
		rc = plan_volume(store, cluster, &volume);
		if (rc != 0)
			return rc;
	}
	return 0;
}

static bool
is_planned(const struct mt_rebuild_store *store, const char *name)
{
	for (uint32_t i = 0; i < store->key_count; i++) {
		if (strcmp(store->keys[i].key, name) == 0)
			return true;
	}
	return false;
}

/* Volumes and shards that are no more. Marks stay: of deleted volumes, of the level, of gateways that are drained. */
static int
plan_deletions(struct mt_rebuild_store *store)
{
	assert(store->old_count == 0 || store->old != NULL);
	for (uint32_t i = 0; i < store->old_count; i++) {
		const char *name = store->old[i].key;
		int rc;

		if ((strcmp(name, MT_MOVED_KEY) != 0 && strcmp(name, MT_LOADING_KEY) != 0 &&
			strncmp(name, "volumes/", 8) != 0 && !mt_root_is_key(name) &&
			strncmp(name, MT_SNAPSHOT_PREFIX, strlen(MT_SNAPSHOT_PREFIX)) != 0) ||
		    is_planned(store, name))
			continue;
		log_warn("recover: key %s is in the old store alone, and is deleted", name);
		rc = mt_rebuild_store_plan_key(store, name, NULL);
		if (rc != 0)
			return rc;
	}
	return 0;
}

static int
plan_volumes(struct mt_rebuild_store *store, const struct mt_rebuild_plan *plan,
    struct mt_cluster *cluster)
{
	const struct mt_manifest_state *mirror = plan->mirror;
	int rc = 0;

	assert(cluster->shard_count > 0);
	if (mirror->shard_count == 0)
		return plan_old_volumes(store, cluster);
	cluster->next_volume_id = num_max(cluster->next_volume_id, mirror->next_volume_id);
	cluster->next_segment = num_max(cluster->next_segment, mirror->next_segment);
	cluster->next_snapshot = num_max(cluster->next_snapshot, mirror->next_snapshot);
	cluster->next_clone = num_max(cluster->next_clone, mirror->next_clone);
	cluster->level = (uint32_t)num_max(cluster->level, mirror->level);
	rc = mt_rebuild_keys_plan(store, mirror, cluster);
	for (uint32_t i = 0; i < mirror->volume_count && rc == 0; i++) {
		const struct mt_volume volume = mt_rebuild_volume(plan, i);
		rc = plan_volume(store, cluster, &volume);
	}
	for (uint32_t i = 0; i < mirror->snapshot_count && rc == 0; i++) {
		const struct mt_snapshot snapshot = mt_rebuild_snapshot(plan, i);
		rc = plan_snapshot(store, cluster, &snapshot);
	}
	return rc;
}

/* The store gets a new identity; nodes that were not reached may obey any of those before. */
static void
plan_store_id(const struct mt_rebuild_store *store, const struct mt_rebuild_plan *plan,
    struct mt_cluster *cluster)
{
	assert(plan->obeyed_count <= MT_NODES_MAX);
	cluster->store_id = plan->store_id;
	if (store->has_cluster) {
		for (uint32_t i = store->cluster.replaced_count; i-- > 0;)
			mt_cluster_replace(cluster, &store->cluster.replaced[i]);
		mt_cluster_replace(cluster, &store->cluster.store_id);
	}
	for (uint32_t i = 0; i < plan->obeyed_count; i++)
		mt_cluster_replace(cluster, &plan->obeyed[i]);
}

int
mt_rebuild_store_plan(struct mt_rebuild_store *store, const struct mt_rebuild_plan *plan)
{
	struct mt_cluster cluster = { .cluster_id = plan->cluster_id,
		.shard_count = plan->shard_count,
		.next_volume_id = 1,
		.next_segment = 1,
		.next_snapshot = 1,
		.next_clone = 1 };
	const struct mt_cluster skipped = { .next_volume_id = REBUILD_VOLUME_IDS_SKIPPED,
		.next_segment = REBUILD_SEGMENTS_SKIPPED,
		.next_snapshot = REBUILD_SNAPSHOTS_SKIPPED,
		.next_clone = REBUILD_CLONES_SKIPPED,
		.next_key = REBUILD_VOLUME_IDS_SKIPPED };
	int rc = 0;

	if (store->has_cluster) {
		cluster.next_volume_id = store->cluster.next_volume_id;
		cluster.next_segment = store->cluster.next_segment;
		cluster.next_snapshot = store->cluster.next_snapshot;
		cluster.next_clone = store->cluster.next_clone;
		cluster.next_key = store->cluster.next_key;
		cluster.level = store->cluster.level;
	}
	assert(store->key_count == 0 && plan->shard_count <= CLEAVE_SHARDS_MAX);
	if (store_find(store, "cluster") != NULL)
		rc = mt_rebuild_store_plan_key(store, "cluster", NULL);
	if (rc == 0 && store->has_cluster)
		rc = mt_rebuild_mark_plan(store, plan->is_old_trusted);
	store->first_count = store->key_count;
	for (uint32_t i = 0; i < plan->shard_count && rc == 0; i++)
		rc = plan_root(store, plan, i);
	if (rc == 0)
		rc = plan_volumes(store, plan, &cluster);
	if (rc == 0)
		rc = plan_deletions(store);
	if (rc == 0 && !plan->is_old_trusted)
		rc = mt_rebuild_old_plan(store);
	if (rc != 0)
		return rc;
	plan_store_id(store, plan, &cluster);
	mt_cluster_skip(&cluster, &skipped);
	store->cluster = cluster;
	return 0;
}

/* The last key names the place of a store that is there by now. */
static int
plan_cluster(struct mt_rebuild_store *store)
{
	char *text;
	int rc;

	assert(store->key_count > 0);
	mt_place_of(store->meta, store->cluster.place);
	text = mt_cluster_encode(&store->cluster);
	if (text == NULL)
		return -ENOMEM;
	rc = mt_rebuild_store_plan_key(store, "cluster", text);
	if (rc == 0)
		store->keys[store->key_count - 1].version = 0; /* it was deleted before */
	return rc;
}

/* ---- writing ---- */

static int store_write_next(struct mt_rebuild_store *store);

static void
store_on_txn(int rc, void *arg)
{
	struct mt_rebuild_store *store = arg;

	assert(store->batch_count > 0);
	store->key_at += store->batch_count;
	if (rc == 0 && store->key_at < store->key_count)
		rc = store_write_next(store);
	else
		store->batch_count = 0;
	if (rc != 0 || store->batch_count == 0)
		store->fn(rc, store->arg);
}

/* The first keys of the plan go alone, and so does "cluster" at its end, and takes the mark away: no transaction has a key twice. */
static int
store_write_next(struct mt_rebuild_store *store)
{
	struct meta_op ops[META_TXN_OPS_MAX];
	uint32_t left = store->key_count - store->key_at, count = 0;

	assert(store->key_at < store->key_count);
	if (left > 1)
		left--;
	else
		ops[count++] = (struct meta_op){ .kind = META_DELETE, .key = MT_REBUILD_MARK_KEY };
	if (store->key_at == 0 && store->first_count > 0)
		left = store->first_count;
	store->batch_count = (uint32_t)num_min(left, REBUILD_TXN_KEYS_MAX);
	for (uint32_t i = 0; i < store->batch_count; i++) {
		const struct mt_rebuild_key *key = &store->keys[store->key_at + i];

		ops[count++] = (struct meta_op){ .kind = META_COMPARE_VERSION,
			.key = key->key,
			.version = key->version };
		ops[count++] = (struct meta_op){ .kind = key->text == NULL ? META_DELETE : META_PUT,
			.key = key->key,
			.value = key->text,
			.value_bytes = key->text == NULL ? 0 : (uint32_t)strlen(key->text) };
	}
	return store->meta->ops->txn(store->meta, ops, count, store_on_txn, store);
}

int
mt_rebuild_store_write(struct mt_rebuild_store *store, void (*fn)(int rc, void *arg), void *arg)
{
	int rc;

	assert(store->meta != NULL && store->key_at == 0);
	assert(store->key_count > 0); /* there is a plan */
	rc = plan_cluster(store);
	if (rc != 0)
		return rc;
	store->fn = fn;
	store->arg = arg;
	return store_write_next(store);
}

void
mt_rebuild_store_fini(struct mt_rebuild_store *store)
{
	assert(store->key_count <= store->key_max);
	for (uint32_t i = 0; i < store->old_count; i++) {
		mt_free(store->old[i].key);
		mt_free(store->old[i].text);
	}
	for (uint32_t i = 0; i < store->key_count; i++) {
		mt_free(store->keys[i].key);
		free(store->keys[i].text); /* jansson's */
	}
	mt_free(store->old);
	mt_free(store->keys);
	store->old = store->keys = NULL;
	store->old_count = store->key_count = 0;
}
