/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rebuild_copy.c -- see rebuild_copy.h
 *
 *	put "loading" --> read it --> keys, some at a time --> keys that do not belong --> put "cluster",
 *	with a random word      '-- its version                                           delete "loading"
 *
 * A copy that was killed in between has "loading" and no "cluster": it never was a cluster, so the next one may
 * overwrite what is there. Two at a time: each comes with a word of its own, and only the one whose word is still
 * there at the end makes the cluster.
 */
#include "rebuild/rebuild_copy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "catalog/moved.h"
#include "catalog/place.h"
#include "catalog/root.h"
#include "catalog/volume_table.h"
#include "cleave/meta.h"
#include "cleave/wire.h"
#include "cluster/revoked.h"
#include "common/limits.h"
#include "common/root.h"
#include "meta/meta_txn.h"
#include "rebuild/rebuild_judge.h"
#include "rebuild/rebuild_read.h"

#define COPY_TXN_KEYS_MAX (META_TXN_OPS_MAX / 2)

/* ---- the target as it is ---- */

/* There is a cluster. */
static int
copy_judge_cluster(const struct mt_rebuild_copy *copy, const struct mt_key *key, char *text,
    size_t bytes)
{
	struct mt_cluster cluster;
	const char *field;

	assert(strcmp(key->key, "cluster") == 0);
	if (mt_cluster_decode(key->value, key->value_bytes, &cluster, &field) != 0) {
		(void)snprintf(text, bytes,
		    "the store holds a key cluster that cannot be understood (%s): choose an empty one",
		    field);
		return -EEXIST;
	}
	for (uint32_t i = 0; i < cluster.replaced_count; i++) {
		if (cluster.cluster_id != copy->cluster.cluster_id ||
		    !store_id_is_equal(&cluster.replaced[i], &copy->cluster.store_id))
			continue;
		(void)snprintf(text, bytes,
		    "the store holds a copy of this one already, and may have gone on since");
		return -EALREADY;
	}
	(void)snprintf(text, bytes,
	    "the store holds cluster %016" PRIx64 " already: choose an empty one",
	    cluster.cluster_id);
	return -EEXIST;
}

static int
copy_judge_moved(const struct mt_rebuild_copy *copy, const struct mt_key *key, char *text,
    size_t bytes)
{
	struct mt_moved moved;
	struct mt_cluster cluster = { 0 };
	const char *field = "out of memory";
	int rc = mt_moved_decode(key->value, key->value_bytes, &moved, &field);

	assert(strcmp(key->key, MT_MOVED_KEY) == 0);
	if (rc == 0)
		rc = mt_cluster_decode(moved.cluster, (uint32_t)strlen(moved.cluster), &cluster,
		    &field);
	if (rc != 0) {
		(void)snprintf(text, bytes,
		    "the store holds a key moved that cannot be understood (%s): choose an empty one",
		    field);
		return -EEXIST;
	}
	if (cluster.cluster_id == copy->cluster.cluster_id)
		return 0;
	(void)snprintf(text, bytes,
	    "the store held cluster %016" PRIx64 ", which was moved to %.*s: choose an empty one",
	    cluster.cluster_id, (int)(bytes / 2), moved.to);
	return -EXDEV;
}

static int
copy_judge(const struct mt_rebuild_copy *copy, char *ret_text, size_t text_bytes)
{
	const struct mt_keys *there = &copy->there;
	const struct mt_key *found;

	assert(copy->source != NULL);
	for (uint32_t i = 0; i < there->count; i++) {
		if (!meta_key_is_leased(there->items[i].key))
			continue;
		(void)snprintf(ret_text, text_bytes,
		    "a gateway is registered in the store that is to be made (%s): stop it first",
		    there->items[i].key);
		return -EBUSY;
	}
	found = mt_keys_find(there, "cluster");
	if (found != NULL)
		return copy_judge_cluster(copy, found, ret_text, text_bytes);
	if (there->count == 0 || mt_keys_find(there, MT_LOADING_KEY) != NULL)
		return 0;
	found = mt_keys_find(there, MT_MOVED_KEY);
	if (found != NULL)
		return copy_judge_moved(copy, found, ret_text, text_bytes);
	(void)snprintf(ret_text, text_bytes,
	    "the store is not empty, it holds %" PRIu32 " keys (%s): choose an empty one",
	    there->count, there->items[0].key);
	return -EEXIST;
}

static void
copy_on_list(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct mt_rebuild_copy *copy = arg;
	char text[MT_ERROR_BYTES];

	assert(copy->there.count == 0);
	if (rc == 0)
		rc = mt_keys_add_items(&copy->there, items, count);
	(void)snprintf(text, sizeof(text), "the store that is to be made cannot be read: %s",
	    strerror(-rc));
	if (rc == 0)
		rc = copy_judge(copy, text, sizeof(text));
	copy->load_fn(rc, text, copy->fn_arg);
}

int
mt_rebuild_copy_load(struct mt_rebuild_copy *copy, struct meta *meta,
    void (*fn)(int rc, const char *text, void *arg), void *arg)
{
	assert(meta != NULL && fn != NULL);
	assert(copy->there.count == 0);
	copy->load_fn = fn;
	copy->fn_arg = arg;
	return meta->ops->list(meta, "", copy_on_list, copy);
}

/* ---- what the nodes know ---- */

/* -ESTALE, or 0. */
static int
copy_check_root(const struct mt_rebuild_copy *copy, uint32_t shard,
    const struct mt_rebuild_shard *seen, char *text, size_t bytes)
{
	struct mt_root root = { 0 };
	char name[MT_ROOT_KEY_BYTES];
	const struct mt_key *key;
	const char *field;

	assert(shard < CLEAVE_SHARDS_MAX);
	mt_root_key(name, shard);
	key = mt_keys_find(copy->source, name);
	if (key != NULL &&
	    mt_root_decode(key->value, key->value_bytes, shard, &root, &field) != 0) {
		(void)snprintf(text, bytes, "%s cannot be understood: %s", name, field);
		return -EBADMSG;
	}
	if (root.epoch < seen->epoch_seen) {
		(void)snprintf(text, bytes,
		    "it is older than what the nodes hold: shard %" PRIu32 " had epoch %" PRIu32
		    " there, and has %" PRIu32
		    " here: cleave recover makes the store anew from the nodes",
		    shard, seen->epoch_seen, root.epoch);
		return -ESTALE;
	}
	if (!seen->has_manifest ||
	    (root.has_manifest &&
		extent_id_pack(&root.manifest) >= extent_id_pack(&seen->manifest.id)))
		return 0;
	(void)snprintf(text, bytes,
	    "it is older than what the nodes hold: shard %" PRIu32
	    " has a newer manifest there: cleave recover makes the store anew from the nodes",
	    shard);
	return -ESTALE;
}

/* An attach counts a volume's number up: the mirror, which is never ahead, must not have a greater one. */
static int
copy_check_volumes(const struct mt_rebuild_copy *copy, const struct mt_manifest_state *mirror,
    char *text, size_t bytes)
{
	assert(copy->source != NULL);
	for (uint32_t i = 0; i < copy->source->count; i++) {
		const struct mt_key *key = &copy->source->items[i];
		char name[MT_NAME_BYTES];

		if (!mt_rebuild_mirror_is_later(mirror, key->key, key->value, key->value_bytes,
			name))
			continue;
		(void)snprintf(text, bytes,
		    "it is older than what the nodes hold: volume %s was opened since: cleave recover "
		    "makes the store anew from the nodes",
		    name);
		return -ESTALE;
	}
	return 0;
}

/* Do the nodes know anything that the source does not? */
static int
copy_check(const struct mt_rebuild_copy *copy, const struct mt_rebuild_reader *reader,
    char *ret_text, size_t text_bytes)
{
	const struct mt_manifest_state *mirror = &reader->mirror;
	const struct mt_cluster *cluster = &copy->cluster;

	assert(reader->shard_count <= CLEAVE_SHARDS_MAX);
	if (reader->shard_count > cluster->shard_count) {
		(void)snprintf(ret_text, text_bytes,
		    "the nodes hold %" PRIu32 " shards, but the cluster was made with %" PRIu32,
		    reader->shard_count, cluster->shard_count);
		return -ESTALE;
	}
	for (uint32_t i = 0; i < reader->shard_count; i++) {
		int rc = copy_check_root(copy, i, &reader->shards[i], ret_text, text_bytes);

		if (rc == 0 && reader->shards[i].is_uncertain) {
			(void)snprintf(ret_text, text_bytes,
			    "shard %" PRIu32
			    ": its newest manifest cannot be read: start the nodes that have it",
			    i);
			rc = -ENODATA;
		}
		if (rc != 0)
			return rc;
	}
	if (mirror->shard_count == 0)
		return 0;
	if (mt_rebuild_mirror_is_ahead(mirror, cluster)) {
		(void)snprintf(ret_text, text_bytes,
		    "it is older than what the nodes hold: volumes or snapshots were made since: "
		    "cleave recover makes the store anew from the nodes");
		return -ESTALE;
	}
	return copy_check_volumes(copy, mirror, ret_text, text_bytes);
}

/* ---- what shall be ---- */

/* A gateway of the source that comes back finds newer fences. */
static int
copy_plan_root(struct mt_rebuild_copy *copy, const struct mt_key *key, char *text, size_t bytes)
{
	uint32_t shard = (uint32_t)strtoul(key->key + strlen(MT_ROOT_PREFIX), NULL, 10);
	char name[MT_ROOT_KEY_BYTES] = "";
	const char *field = "its name";
	struct mt_root root;
	char *value;
	int rc = -EBADMSG;

	assert(mt_root_is_key(key->key));
	if (shard < copy->cluster.shard_count)
		mt_root_key(name, shard);
	if (strcmp(name, key->key) == 0)
		rc = mt_root_decode(key->value, key->value_bytes, shard, &root, &field);
	if (rc != 0) {
		(void)snprintf(text, bytes, "%s cannot be understood: %s", key->key, field);
		return rc;
	}
	if (root.epoch + MT_COPY_EPOCHS_SKIPPED >= EXTENT_EPOCH_MAX) {
		(void)snprintf(text, bytes, "%s has no epochs left", key->key);
		return -EOVERFLOW;
	}
	root.epoch += MT_COPY_EPOCHS_SKIPPED;
	value = mt_root_encode(&root);
	rc = value == NULL
	    ? -ENOMEM
	    : mt_keys_add(&copy->wanted, key->key, value, (uint32_t)strlen(value), 0);
	free(value);
	return rc;
}

static int
copy_plan_lists(struct mt_rebuild_copy *copy, const char **lists)
{
	const char *text = *lists;

	*lists = NULL;
	return mt_keys_add(&copy->wanted, MT_REVOKED_KEY, text, (uint32_t)strlen(text), 0);
}

int
mt_rebuild_copy_plan(struct mt_rebuild_copy *copy, const struct mt_rebuild_reader *reader,
    const struct store_id *store_id, const char *lists, struct mt_cluster *ret_cluster,
    char *ret_text, size_t text_bytes)
{
	const struct mt_cluster *old = &copy->cluster;
	int rc = copy_check(copy, reader, ret_text, text_bytes);

	assert(copy->wanted.count == 0);
	if (rc != 0)
		return rc;
	(void)snprintf(ret_text, text_bytes, "out of memory");
	for (uint32_t i = 0; i < copy->source->count && rc == 0; i++) {
		const struct mt_key *key = &copy->source->items[i];

		if (strcmp(key->key, "cluster") == 0 || meta_key_is_leased(key->key))
			continue;
		/* Keys are sorted. */
		if (lists != NULL && strcmp(key->key, MT_REVOKED_KEY) >= 0)
			rc = copy_plan_lists(copy, &lists);
		if (rc != 0 || mt_keys_find(&copy->wanted, key->key) != NULL)
			continue;
		if (mt_root_is_key(key->key))
			rc = copy_plan_root(copy, key, ret_text, text_bytes);
		else
			rc = mt_keys_add(&copy->wanted, key->key, key->value, key->value_bytes, 0);
	}
	if (rc == 0 && lists != NULL)
		rc = copy_plan_lists(copy, &lists);
	*ret_cluster = *old;
	ret_cluster->version = 0;
	ret_cluster->store_id = *store_id;
	mt_cluster_replace(ret_cluster, &old->store_id);
	return rc;
}

/* ---- writing ---- */

static int copy_write_next(struct mt_rebuild_copy *copy);

static void
copy_finish(struct mt_rebuild_copy *copy, int rc)
{
	assert(copy->fn != NULL);
	copy->fn(rc, copy->fn_arg);
}

static uint64_t
copy_version(const struct mt_rebuild_copy *copy, const char *key)
{
	const struct mt_key *found = mt_keys_find(&copy->there, key);

	return found == NULL ? 0 : found->version;
}

static void
copy_on_ended(int rc, void *arg)
{
	struct mt_rebuild_copy *copy = arg;

	assert(copy->wanted_at == copy->wanted.count && copy->gone_at == copy->there.count);
	copy_finish(copy, rc);
}

/* The transaction that makes the cluster. */
static int
copy_write_end(struct mt_rebuild_copy *copy)
{
	char *text = mt_cluster_encode(&copy->cluster);
	int rc = -ENOMEM;

	assert(copy->loading_version != 0);
	assert(copy->wanted_at == copy->wanted.count && copy->gone_at == copy->there.count);
	if (text != NULL) {
		const struct meta_op ops[] = {
			{ .kind = META_COMPARE_VERSION,
			    .key = MT_LOADING_KEY,
			    .version = copy->loading_version },
			{ .kind = META_COMPARE_VERSION, .key = "cluster", .version = 0 },
			{ .kind = META_DELETE, .key = MT_LOADING_KEY },
			{ .kind = META_PUT,
			    .key = "cluster",
			    .value = text,
			    .value_bytes = (uint32_t)strlen(text) },
		};

		rc = copy->meta->ops->txn(copy->meta, ops, NUM_COUNT(ops), copy_on_ended, copy);
	}
	free(text);
	return rc;
}

static void
copy_on_batch(int rc, void *arg)
{
	struct mt_rebuild_copy *copy = arg;

	assert(copy->batch_count > 0);
	if (rc == 0)
		rc = copy_write_next(copy);
	if (rc != 0)
		copy_finish(copy, rc);
}

/* Is it a key of the target that the copy has not? */
static bool
copy_is_gone(const struct mt_rebuild_copy *copy, const struct mt_key *key)
{
	return strcmp(key->key, MT_LOADING_KEY) != 0 &&
	    mt_keys_find(&copy->wanted, key->key) == NULL;
}

/* Some keys, in a transaction of no more than a store takes. */
static int
copy_write_next(struct mt_rebuild_copy *copy)
{
	struct meta_op ops[META_TXN_OPS_MAX];
	uint32_t count = 0;
	size_t bytes = 0;

	assert(copy->wanted_at <= copy->wanted.count && copy->gone_at <= copy->there.count);
	while (copy->wanted_at < copy->wanted.count && count + 2 <= META_TXN_OPS_MAX) {
		const struct mt_key *key = &copy->wanted.items[copy->wanted_at];

		bytes += key->value_bytes;
		if (bytes > META_TXN_BYTES_MAX)
			break;
		copy->wanted_at++;
		ops[count++] = (struct meta_op){ .kind = META_COMPARE_VERSION,
			.key = key->key,
			.version = copy_version(copy, key->key) };
		ops[count++] = (struct meta_op){ .kind = META_PUT,
			.key = key->key,
			.value = key->value,
			.value_bytes = key->value_bytes };
	}
	while (copy->wanted_at == copy->wanted.count && copy->gone_at < copy->there.count &&
	    count + 2 <= META_TXN_OPS_MAX) {
		const struct mt_key *key = &copy->there.items[copy->gone_at++];

		if (!copy_is_gone(copy, key))
			continue;
		ops[count++] = (struct meta_op){ .kind = META_COMPARE_VERSION,
			.key = key->key,
			.version = key->version };
		ops[count++] = (struct meta_op){ .kind = META_DELETE, .key = key->key };
	}
	if (count == 0)
		return copy_write_end(copy);
	copy->batch_count = count / 2;
	return copy->meta->ops->txn(copy->meta, ops, count, copy_on_batch, copy);
}

/* The key's version, by which the end tells that nobody else has begun meanwhile. */
static void
copy_on_loading_read(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct mt_rebuild_copy *copy = arg;
	size_t bytes = strlen(copy->loading);

	assert(copy->loading[0] != '\0');
	if (rc == 0 &&
	    (count == 0 || items[0].value_bytes != bytes ||
		memcmp(items[0].value, copy->loading, bytes) != 0))
		rc = -EAGAIN;
	if (rc == 0) {
		copy->loading_version = items[0].version;
		rc = copy_write_next(copy);
	}
	if (rc != 0)
		copy_finish(copy, rc);
}

static void
copy_on_loading(int rc, void *arg)
{
	struct mt_rebuild_copy *copy = arg;

	assert(copy->loading[0] != '\0');
	if (rc == 0 || rc == -ETIMEDOUT) /* which is perhaps */
		rc = copy->meta->ops->list(copy->meta, MT_LOADING_KEY, copy_on_loading_read, copy);
	if (rc != 0)
		copy_finish(copy, rc);
}

int
mt_rebuild_copy_write(struct mt_rebuild_copy *copy, struct meta *meta,
    const struct mt_cluster *cluster, void (*fn)(int rc, void *arg), void *arg)
{
	char id[STORE_ID_TEXT_BYTES];
	struct meta_op ops[2];

	assert(meta != NULL && copy->wanted_at == 0);
	copy->meta = meta;
	copy->cluster = *cluster;
	mt_place_of(meta, copy->cluster.place);
	copy->fn = fn;
	copy->fn_arg = arg;
	/* The identity that was drawn for it is a word that nobody else has. */
	store_id_text(&cluster->store_id, id);
	(void)snprintf(copy->loading, sizeof(copy->loading), "{\"format\":1,\"id\":\"%s\"}", id);
	ops[0] = (struct meta_op){ .kind = META_COMPARE_VERSION,
		.key = MT_LOADING_KEY,
		.version = copy_version(copy, MT_LOADING_KEY) };
	ops[1] = (struct meta_op){ .kind = META_PUT,
		.key = MT_LOADING_KEY,
		.value = copy->loading,
		.value_bytes = (uint32_t)strlen(copy->loading) };
	return meta->ops->txn(meta, ops, 2, copy_on_loading, copy);
}

void
mt_rebuild_copy_fini(struct mt_rebuild_copy *copy)
{
	mt_keys_fini(&copy->there);
	mt_keys_fini(&copy->wanted);
}
