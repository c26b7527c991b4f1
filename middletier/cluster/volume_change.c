/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volume_change.c -- this gateway's changes of volumes, and the reading that ends each of them
 *
 * Changes are made one after the other: a transaction compares the versions main knows, and whatever it
 * says, main then reads the keys it was about anew, so that the table is right after a conflict with
 * another gateway and after an outcome nobody knows.
 *
 *	change: txn --> list "cluster" --> list "volumes/NAME" --> fn(rc of the txn)
 *
 * A volume that is not where it was, and that this change has not deleted, may have another name, or be in the
 * trash: one key does not tell. What main knew of it stays until a reading of all has found it by its id, and
 * until then nothing is judged by what the tables lack.
 *
 * Deleting: volume_delete.c.
 */
#include "cluster/volume_change.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mutant.h"
#include "base/num.h"
#include "catalog/cluster_key.h"
#include "catalog/data_key.h"
#include "catalog/holder.h"
#include "catalog/json.h"
#include "catalog/numbers.h"
#include "catalog/scope.h"
#include "catalog/snapshot_table.h"
#include "catalog/volume_table.h"
#include "catalog/waiting.h"
#include "cleave/level.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cluster/data_keys.h"
#include "cluster/gateway_state.h"
#include "cluster/member.h"
#include "cluster/mirror.h"
#include "cluster/node_table.h"
#include "cluster/volume_delete.h"
#include "cluster/volume_refresh.h"
#include "common/alloc.h"
#include "common/event.h"

void
mt_volumes_stamp(struct mt_gateway *gateway)
{
	struct mt_volumes *volumes = &gateway->volumes;

	for (uint32_t i = 0; i < volumes->count; i++) {
		if (volumes->entries[i].heard_ns == 0)
			volumes->entries[i].heard_ns = loop_now_ns(gateway->options.loop);
		if (volumes->entries[i].seen_ns == 0)
			volumes->entries[i].seen_ns = loop_now_ns(gateway->options.loop);
	}
}

/* Reading. Each step ends in volumes_finish, whose last act is the caller's function. */

static void
volumes_finish(struct mt_gateway *gateway, int rc)
{
	struct mt_volumes *volumes = &gateway->volumes;
	mt_volume_fn fn = volumes->fn;

	assert(rc <= 0);
	assert(fn != NULL);
	volumes->fn = NULL;
	volumes->change_serial++;
	mt_volumes_stamp(gateway);
	mt_volumes_on_change_end(gateway);
	mt_mirror_kick(gateway);
	fn(rc, &volumes->change.volume, volumes->arg);
}

static void
volumes_take_level(struct mt_gateway *gateway, uint32_t level)
{
	uint32_t before = atomic_exchange(&gateway->shared.cluster_level, level);

	assert(level >= CLEAVE_LEVEL_MIN);
	if (before != 0 && before < level)
		mt_event(gateway->shared.events, loop_now_ns(gateway->options.loop),
		    CLEAVE_EVENT_LEVEL_RAISED, "cluster",
		    "gateway: the cluster was upgraded from_level=%" PRIu32 " level=%" PRIu32
		    ": releases that do not speak it are refused",
		    before, level);
}

/* Upgraded by a gateway that had not seen this one, or by hand: it would misread what others write. */
static bool
volumes_speak(struct mt_gateway *gateway, const struct mt_cluster *cluster)
{
	char text[MT_ERROR_BYTES];

	if (mt_cluster_is_spoken(cluster->level, mt_member_level_max(gateway), text))
		return true;
	mt_gateway_fail(gateway, -EPROTONOSUPPORT, "%s", text);
	return false;
}

int
mt_volumes_read_cluster(struct mt_gateway *gateway, int rc, const struct meta_item *items,
    uint32_t count)
{
	struct mt_cluster cluster;
	const char *field;

	assert(rc != 0 || count == 0 || items != NULL);
	if (rc != 0)
		return rc;
	if (count == 0 || strcmp(items[0].key, "cluster") != 0)
		return -ENOENT;
	rc = mt_cluster_decode(items[0].value, items[0].value_bytes, &cluster, &field);
	if (rc == -EPROTONOSUPPORT) {
		mt_gateway_fail(gateway, rc, "%s", field);
		return rc;
	}
	if (rc != 0) {
		log_error(
		    "gateway: unreadable in the metadata store key=cluster field=\"%s\": nothing "
		    "of it counts",
		    field);
		return -EBADMSG;
	}
	if (gateway->sm.state > MT_GATEWAY_STARTING &&
	    (cluster.cluster_id != gateway->cluster.cluster_id ||
		!store_id_is_equal(&cluster.store_id, &gateway->cluster.store_id) ||
		cluster.shard_count != gateway->cluster.shard_count)) {
		log_error(
		    "gateway: the metadata store is another one now, or another cluster's, or "
		    "has another number of shards: nothing of it counts; stop this gateway, and "
		    "start it with the right --meta");
		return -EBADMSG;
	}
	if (!volumes_speak(gateway, &cluster))
		return -EPROTONOSUPPORT;
	cluster.version = items[0].version;
	volumes_take_level(gateway, cluster.level);
	if (gateway->sm.state > MT_GATEWAY_STARTING) {
		/* Ports read the rest, and it stays as it is. */
		gateway->cluster.next_volume_id = cluster.next_volume_id;
		gateway->cluster.next_segment = cluster.next_segment;
		gateway->cluster.next_snapshot = cluster.next_snapshot;
		gateway->cluster.next_clone = cluster.next_clone;
		gateway->cluster.next_node = cluster.next_node;
		gateway->cluster.next_key = cluster.next_key;
		gateway->cluster.level = cluster.level;
		gateway->cluster.version = cluster.version;
		mt_nodes_on_level(gateway);
		return 0;
	}
	gateway->cluster = cluster;
	return 0;
}

int
mt_cluster_count(struct mt_gateway *gateway, const struct mt_cluster *next, const char *key,
    const char *text, const struct mt_data_key *data_key, meta_txn_fn fn, void *arg)
{
	struct meta *meta = gateway->options.meta;
	char *cluster_text = mt_cluster_encode(next);
	char *data_text = data_key == NULL ? NULL : mt_data_key_encode(data_key);
	char data_name[MT_DATA_KEY_KEY_BYTES] = "";
	int rc = -ENOMEM;

	assert(next->shard_count > 0 && key[0] != '\0');
	assert(fn != NULL);
	if (data_key != NULL)
		mt_data_key_key(data_key->id, data_name);
	if (text != NULL && cluster_text != NULL && (data_key == NULL || data_text != NULL)) {
		const struct meta_op ops[] = {
			{ .kind = META_COMPARE_VERSION,
			    .key = "cluster",
			    .version = next->version },
			{ .kind = META_COMPARE_VERSION, .key = key, .version = 0 },
			{ .kind = META_PUT,
			    .key = "cluster",
			    .value = cluster_text,
			    .value_bytes = (uint32_t)strlen(cluster_text) },
			{ .kind = META_PUT,
			    .key = key,
			    .value = text,
			    .value_bytes = (uint32_t)strlen(text) },
			{ .kind = META_COMPARE_VERSION, .key = data_name, .version = 0 },
			{ .kind = META_PUT,
			    .key = data_name,
			    .value = data_text,
			    .value_bytes = data_text == NULL ? 0 : (uint32_t)strlen(data_text) },
		};
		uint32_t count = NUM_COUNT(ops) - (data_key == NULL ? 2 : 0);

		rc = meta->ops->txn(meta, ops, count, fn, arg);
	}
	free(cluster_text);
	free(data_text);
	return rc;
}

static void
volumes_on_list(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct mt_gateway *gateway = arg;
	struct mt_volumes *volumes = &gateway->volumes;

	assert(volumes->fn != NULL);
	if (rc == 0) {
		volumes->count = 0;
		volumes->is_incomplete = false;
	}
	for (uint32_t i = 0; i < count && rc == 0; i++)
		rc = mt_volumes_put_item(volumes, &items[i]);
	volumes->is_loaded = rc == 0;
	volumes_finish(gateway, rc);
}

static void
volumes_on_cluster(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct mt_gateway *gateway = arg;
	struct meta *meta = gateway->options.meta;

	assert(gateway->volumes.fn != NULL);
	rc = mt_volumes_read_cluster(gateway, rc, items, count);
	if (rc == 0)
		rc = meta->ops->list(meta, MT_VOLUME_PREFIX, volumes_on_list, gateway);
	if (rc != 0)
		volumes_finish(gateway, rc);
}

static int
volumes_start(struct mt_gateway *gateway, mt_volume_fn fn, void *arg)
{
	struct mt_volumes *volumes = &gateway->volumes;

	assert(fn != NULL);
	if (volumes->fn != NULL)
		return -EBUSY;
	volumes->fn = fn;
	volumes->arg = arg;
	volumes->is_deletion = false;
	volumes->change_serial++;
	return 0;
}

int
mt_volumes_load(struct mt_gateway *gateway, mt_volume_fn fn, void *arg)
{
	struct meta *meta = gateway->options.meta;
	int rc = volumes_start(gateway, fn, arg);

	if (rc != 0)
		return rc;
	rc = meta->ops->list(meta, "cluster", volumes_on_cluster, gateway);
	if (rc != 0)
		gateway->volumes.fn = NULL;
	return rc;
}

/* Changes. */

/* Is @item, or the lack of one (NULL), another volume than the one that main knew by the name? */
static bool
change_has_lost(struct mt_volumes *volumes, const char *name, const struct meta_item *item)
{
	const struct mt_volume_entry *known = mt_volumes_by_name(volumes, name);
	struct mt_volume volume;
	const char *field;

	if (known == NULL || MUTANT(conflict_forgets))
		return false;
	return item == NULL ||
	    (mt_volume_decode(name, item->value, item->value_bytes, &volume, &field) == 0 &&
		volume.id != known->volume.id);
}

/* @item: what is there now, or NULL. */
static int
change_take_item(struct mt_gateway *gateway, const struct meta_item *item)
{
	struct mt_volumes *volumes = &gateway->volumes;
	const char *name = volumes->change.volume.name;

	assert(volumes->fn != NULL);
	if (volumes->is_deletion && volumes->change_rc == 0)
		mt_volumes_remove(volumes, name);
	if (change_has_lost(volumes, name, item)) {
		volumes->is_incomplete = true;
		mt_volumes_refresh_soon(gateway);
		return 0;
	}
	if (item != NULL)
		return mt_volumes_put_item(volumes, item);
	if (MUTANT(conflict_forgets))
		mt_volumes_remove(volumes, name);
	return 0;
}

static void
change_on_item(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct mt_gateway *gateway = arg;
	struct mt_volumes *volumes = &gateway->volumes;
	char key[MT_VOLUME_KEY_BYTES];
	bool is_there;

	assert(volumes->fn != NULL && volumes->change.volume.name[0] != '\0');
	mt_volume_key(volumes->change.volume.name, key);
	is_there = count > 0 && strcmp(items[0].key, key) == 0;
	if (rc == 0)
		rc = change_take_item(gateway, is_there ? &items[0] : NULL);
	/* Durable, but main could not read it back: say so rather than answer from an old copy. */
	volumes_finish(gateway, volumes->change_rc != 0 ? volumes->change_rc : rc);
}

static void
change_on_cluster(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct mt_gateway *gateway = arg;
	struct meta *meta = gateway->options.meta;
	char key[MT_VOLUME_KEY_BYTES];

	assert(gateway->volumes.fn != NULL);
	rc = mt_volumes_read_cluster(gateway, rc, items, count);
	mt_volume_key(gateway->volumes.change.volume.name, key);
	if (rc == 0)
		rc = meta->ops->list(meta, key, change_on_item, gateway);
	if (rc != 0)
		volumes_finish(gateway, rc);
}

static void
change_on_txn(int rc, void *arg)
{
	struct mt_gateway *gateway = arg;
	struct meta *meta = gateway->options.meta;

	assert(gateway->volumes.fn != NULL);
	gateway->volumes.change_rc = rc;
	rc = meta->ops->list(meta, "cluster", change_on_cluster, gateway);
	if (rc != 0)
		volumes_finish(gateway, rc);
}

static int
change_submit(struct mt_gateway *gateway, const struct meta_op *ops, uint32_t count)
{
	struct meta *meta = gateway->options.meta;
	int rc = meta->ops->txn(meta, ops, count, change_on_txn, gateway);

	assert(gateway->volumes.fn != NULL && count > 0);
	if (rc != 0)
		gateway->volumes.fn = NULL;
	return rc;
}

int
mt_volume_create(struct mt_gateway *gateway, const struct mt_volume *wish, mt_volume_fn fn,
    void *arg)
{
	struct mt_volumes *volumes = &gateway->volumes;
	struct mt_volume *volume = &volumes->change.volume;
	const struct mt_data_key *data_key = wish->key_id == 0 ? NULL : mt_data_keys_made(gateway);
	struct mt_cluster next = gateway->cluster;
	char key[MT_VOLUME_KEY_BYTES];
	char *text;
	int rc;

	assert(wish->name[0] != '\0' && wish->size_bytes > 0);
	assert(wish->replica_count > 0);
	assert(wish->replica_count <= MT_REPLICAS_MAX);
	assert(wish->key_id == 0 || (data_key != NULL && data_key->id == wish->key_id));
	if (mt_volumes_by_name(volumes, wish->name) != NULL)
		return -EEXIST;
	if (!mt_cluster_has_volume(&gateway->cluster))
		return -ENOSPC;
	rc = mt_volumes_reserve(volumes, volumes->count + 1);
	if (rc == 0)
		rc = volumes_start(gateway, fn, arg);
	if (rc != 0)
		return rc;
	*volume = *wish;
	volume->id = gateway->cluster.next_volume_id;
	volume->segment_base = gateway->cluster.next_segment;
	volume->segment_count = mt_volume_segment_count(wish->size_bytes);
	mt_scope_init(&volume->scope, volume->segment_base);
	next.next_volume_id++;
	next.next_segment += MT_VOLUME_SEGMENTS;
	if (data_key != NULL)
		next.next_key = data_key->id + 1;
	mt_volume_key(wish->name, key);
	text = mt_volume_encode(volume);
	rc = mt_cluster_count(gateway, &next, key, text, data_key, change_on_txn, gateway);
	if (rc != 0)
		volumes->fn = NULL;
	free(text);
	return rc;
}

/* Puts a volume's key: volumes->change, made from @entry. */
static int
change_put_volume(struct mt_gateway *gateway, const struct mt_volume_entry *entry)
{
	char *text = mt_volume_encode(&gateway->volumes.change.volume);
	char key[MT_VOLUME_KEY_BYTES];
	int rc = -ENOMEM;

	assert(gateway->volumes.fn != NULL);
	assert(gateway->volumes.change.volume.id == entry->volume.id);
	mt_volume_key(entry->volume.name, key);
	if (text == NULL) {
		gateway->volumes.fn = NULL;
	} else {
		const struct meta_op ops[] = {
			{ .kind = META_COMPARE_VERSION, .key = key, .version = entry->version },
			{ .kind = META_PUT,
			    .key = key,
			    .value = text,
			    .value_bytes = (uint32_t)strlen(text) },
		};

		rc = change_submit(gateway, ops, NUM_COUNT(ops));
	}
	free(text);
	return rc;
}

int
mt_volume_attach(struct mt_gateway *gateway, const char *name, uint64_t session_id,
    const struct mt_holder *holder, mt_volume_fn fn, void *arg)
{
	struct mt_volumes *volumes = &gateway->volumes;
	const struct mt_volume_entry *entry = mt_volumes_by_name(volumes, name);
	int rc;

	assert(session_id != 0);
	assert(holder != NULL);
	if (entry == NULL)
		return -ENOENT;
	rc = volumes_start(gateway, fn, arg);
	if (rc != 0)
		return rc;
	volumes->change = *entry;
	volumes->change.volume.attach++;
	volumes->change.volume.session_id = session_id;
	volumes->change.volume.holder = *holder;
	return change_put_volume(gateway, entry);
}

int
mt_volume_detach(struct mt_gateway *gateway, uint64_t volume_id, uint64_t session_id,
    mt_volume_fn fn, void *arg)
{
	struct mt_volumes *volumes = &gateway->volumes;
	const struct mt_volume_entry *entry = mt_volumes_by_id(volumes, volume_id);
	int rc;

	assert(volume_id != 0);
	if (entry == NULL || session_id == 0 || entry->volume.session_id != session_id)
		return -ENOENT;
	rc = volumes_start(gateway, fn, arg);
	if (rc != 0)
		return rc;
	volumes->change = *entry;
	volumes->change.volume.session_id = 0;
	volumes->change.volume.holder = (struct mt_holder){ .since_s = 0 };
	return change_put_volume(gateway, entry);
}

int
mt_volume_delete(struct mt_gateway *gateway, const char *name, mt_volume_fn fn, void *arg)
{
	struct mt_volumes *volumes = &gateway->volumes;
	const struct mt_volume_entry *entry = mt_volumes_by_name(volumes, name);
	struct mt_delete_ops *ops;
	int rc;

	assert(name[0] != '\0');
	if (entry == NULL)
		return -ENOENT;
	rc = volumes_start(gateway, fn, arg);
	if (rc != 0)
		return rc;
	volumes->change = *entry;
	ops = mt_delete_ops_volume(gateway, entry);
	if (ops == NULL) {
		volumes->fn = NULL;
		return -ENOMEM;
	}
	volumes->is_deletion = true;
	rc = change_submit(gateway, ops->ops, ops->count);
	mt_delete_ops_free(ops);
	return rc;
}
