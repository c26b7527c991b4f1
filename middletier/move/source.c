/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source.c -- see source.h
 *
 *	mt_source_load:  list all
 *	mt_source_end:   "cluster" --> "moved" --> list all again --> as it was, and no gateway: done
 *	                                                '--> else "moved" --> "cluster" again, and it is told
 *
 * Why no gateway can slip through: it registers, claims, and then reads "cluster", before it serves. Either it finds
 * none, or it has read that before "moved" was there: then its registration, or its claim, is in the second list.
 */
#include "move/source.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/meta.h"
#include "meta/meta_txn.h"
#include "rebuild/rebuild_copy.h"

static void __attribute__((format(printf, 3, 4)))
source_finish(struct mt_source *source, int rc, const char *format, ...)
{
	va_list args;

	assert(rc <= 0);
	assert(source->fn != NULL);
	va_start(args, format);
	(void)vsnprintf(source->text, sizeof(source->text), format, args); /* cut where too long */
	va_end(args);
	source->fn(rc, source->text, source->arg);
}

/* ---- loading ---- */

static const struct meta_item *
source_find(const struct meta_item *items, uint32_t count, const char *key)
{
	for (uint32_t i = 0; i < count; i++) {
		if (strcmp(items[i].key, key) == 0)
			return &items[i];
	}
	return NULL;
}

/* Keys that a move itself puts there, or takes away. */
static bool
source_is_mark(const char *key)
{
	return strcmp(key, MT_MOVED_KEY) == 0 || strcmp(key, MT_LOADING_KEY) == 0 ||
	    strcmp(key, "cluster") == 0;
}

/* Sorted, with @cluster where it belongs. */
static int
source_keep(struct mt_source *source, const struct meta_item *items, uint32_t count,
    const struct meta_item *cluster)
{
	bool has_cluster = false;
	int rc = 0;

	assert(source->keys.count == 0);
	for (uint32_t i = 0; i <= count && rc == 0; i++) {
		if (!has_cluster && (i == count || strcmp(items[i].key, "cluster") >= 0)) {
			rc = mt_keys_add_items(&source->keys, cluster, 1);
			has_cluster = true;
		}
		if (i < count && rc == 0 && !source_is_mark(items[i].key))
			rc = mt_keys_add_items(&source->keys, &items[i], 1);
	}
	for (uint32_t i = 0; i < source->keys.count; i++) {
		if (meta_key_is_leased(source->keys.items[i].key))
			source->gateway = source->keys.items[i].key;
	}
	return rc;
}

/* The key "cluster", or as it was when the store was moved. False: it has been told why there is none. */
static bool
source_read_cluster(struct mt_source *source, const struct meta_item *items, uint32_t count,
    struct mt_moved *moved, struct meta_item *ret_cluster)
{
	const struct meta_item *found = source_find(items, count, "cluster");
	const char *field = "out of memory";
	int rc;

	if (found != NULL) {
		*ret_cluster = *found;
		return true;
	}
	found = source_find(items, count, MT_MOVED_KEY);
	if (found == NULL) {
		if (source_find(items, count, MT_LOADING_KEY) != NULL)
			source_finish(source, -ENOENT,
			    "%s has the rest of a load that did not end: run that again",
			    source->name);
		else
			source_finish(source, -ENOENT, MT_NO_CLUSTER_TEXT, source->name);
		return false;
	}
	rc = mt_moved_decode(found->value, found->value_bytes, moved, &field);
	if (rc != 0) {
		source_finish(source, rc, "%s: the key moved cannot be understood: %s",
		    source->name, field);
		return false;
	}
	source->is_moved = true;
	memcpy(source->moved_to, moved->to, sizeof(source->moved_to));
	*ret_cluster = (struct meta_item){ .key = "cluster",
		.value = moved->cluster,
		.value_bytes = (uint32_t)strlen(moved->cluster) };
	return true;
}

static void
source_on_list(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct mt_source *source = arg;
	struct meta_item cluster;
	struct mt_moved moved;
	const char *field;

	assert(rc <= 0);
	if (rc != 0) {
		source_finish(source, rc, "%s cannot be read: %s", source->name, strerror(-rc));
		return;
	}
	if (!source_read_cluster(source, items, count, &moved, &cluster))
		return;
	if (mt_cluster_decode(cluster.value, cluster.value_bytes, &source->cluster, &field) != 0)
		source_finish(source, -EBADMSG, "%s: the key cluster cannot be understood: %s",
		    source->name, field);
	else if (source->cluster_id != 0 && source->cluster.cluster_id != source->cluster_id)
		source_finish(source, -EXDEV,
		    "cluster-id: %s belongs to cluster %016" PRIx64 ", not to %016" PRIx64,
		    source->name, source->cluster.cluster_id, source->cluster_id);
	else if (source_keep(source, items, count, &cluster) != 0)
		source_finish(source, -ENOMEM, "out of memory");
	else
		source_finish(source, 0, "%s", "");
}

int
mt_source_load(struct mt_source *source, mt_source_fn fn, void *arg)
{
	assert(source->meta != NULL && source->keys.count == 0);
	assert(source->name != NULL && fn != NULL);
	source->fn = fn;
	source->arg = arg;
	return source->meta->ops->list(source->meta, "", source_on_list, source);
}

/* ---- ending ---- */

static void
source_on_reopened(int rc, void *arg)
{
	struct mt_source *source = arg;
	char text[sizeof(source->text)];

	assert(rc <= 0);
	assert(source->rc == -EBUSY);
	memcpy(text, source->text, sizeof(text));
	if (rc == 0)
		source_finish(source, source->rc, "%s", text);
	else
		source_finish(source, source->rc,
		    "%s; and the key moved could not be taken back (%s): run this again", text,
		    strerror(-rc));
}

/* The source has served, or was changed, after it was loaded: it becomes as before. */
static void
source_reopen(struct mt_source *source, uint64_t moved_version)
{
	const struct mt_key *cluster = mt_keys_find(&source->keys, "cluster");
	const struct meta_op ops[] = {
		{ .kind = META_COMPARE_VERSION, .key = MT_MOVED_KEY, .version = moved_version },
		{ .kind = META_DELETE, .key = MT_MOVED_KEY },
		{ .kind = META_PUT,
		    .key = "cluster",
		    .value = cluster->value,
		    .value_bytes = cluster->value_bytes },
	};
	int rc;

	assert(moved_version != 0); /* 0 would say that the key is not there */
	rc = source->meta->ops->txn(source->meta, ops, NUM_COUNT(ops), source_on_reopened, source);

	if (rc != 0)
		source_on_reopened(rc, source);
}

/* False: somebody has changed it since it was loaded, or a gateway is there; source->text says so. */
static bool
source_is_unchanged(struct mt_source *source, const struct meta_item *items, uint32_t count)
{
	uint32_t same_count = 1; /* "cluster" */

	assert(source->keys.count > 0);
	for (uint32_t i = 0; i < count; i++) {
		const struct mt_key *key = mt_keys_find(&source->keys, items[i].key);

		if (meta_key_is_leased(items[i].key)) {
			(void)snprintf(source->text, sizeof(source->text),
			    "%s: a gateway has come meanwhile (%s): stop it, and run this again",
			    source->name, items[i].key);
			return false;
		}
		if (key != NULL && !source_is_mark(items[i].key))
			same_count += key->version == items[i].version;
	}
	if (same_count == source->keys.count && count == source->keys.count)
		return true;
	(void)snprintf(source->text, sizeof(source->text),
	    "%s: somebody else changes it: run this again", source->name);
	return false;
}

static void
source_on_list_again(int rc, const struct meta_item *items, uint32_t count, void *arg)
{
	struct mt_source *source = arg;
	const struct meta_item *found = source_find(items, count, MT_MOVED_KEY);
	struct mt_moved moved;
	const char *field;

	assert(rc <= 0);
	assert(source->to != NULL);
	if (rc != 0 || found == NULL ||
	    mt_moved_decode(found->value, found->value_bytes, &moved, &field) != 0 ||
	    strcmp(moved.to, source->to) != 0) {
		source_finish(source, rc != 0 ? rc : -EAGAIN,
		    "%s: it is not known whether it is marked as moved: run this again",
		    source->name);
		return;
	}
	if (source_is_unchanged(source, items, count)) {
		source->is_moved = true;
		source_finish(source, 0, "%s", "");
		return;
	}
	source->rc = -EBUSY;
	source_reopen(source, found->version);
}

static int
source_list_again(struct mt_source *source)
{
	return source->meta->ops->list(source->meta, "", source_on_list_again, source);
}

static void
source_on_marked(int rc, void *arg)
{
	struct mt_source *source = arg;

	assert(rc <= 0);
	if (rc == 0 || rc == -ETIMEDOUT) /* which is perhaps */
		rc = source_list_again(source);
	if (rc == -EAGAIN)
		source_finish(source, -EBUSY, "%s: somebody else changes it: run this again",
		    source->name);
	else if (rc != 0)
		source_finish(source, rc, "%s cannot be written: %s", source->name, strerror(-rc));
}

static int
source_mark(struct mt_source *source)
{
	const struct mt_key *cluster = mt_keys_find(&source->keys, "cluster");
	struct mt_moved moved;
	char *text;
	int rc = -ENOMEM;

	assert(cluster != NULL && cluster->version != 0);
	(void)snprintf(moved.to, sizeof(moved.to), "%s", source->to);
	(void)snprintf(moved.cluster, sizeof(moved.cluster), "%s", cluster->value);
	text = mt_moved_encode(&moved);
	if (text != NULL) {
		const struct meta_op ops[] = {
			{ .kind = META_COMPARE_VERSION,
			    .key = "cluster",
			    .version = cluster->version },
			{ .kind = META_COMPARE_VERSION, .key = MT_MOVED_KEY, .version = 0 },
			{ .kind = META_DELETE, .key = "cluster" },
			{ .kind = META_PUT,
			    .key = MT_MOVED_KEY,
			    .value = text,
			    .value_bytes = (uint32_t)strlen(text) },
		};

		rc = source->meta->ops->txn(source->meta, ops, NUM_COUNT(ops), source_on_marked,
		    source);
	}
	free(text);
	return rc;
}

int
mt_source_end(struct mt_source *source, const char *to, mt_source_fn fn, void *arg)
{
	assert(source->keys.count > 0 && to[0] != '\0');
	assert(fn != NULL);
	source->fn = fn;
	source->arg = arg;
	source->to = to;
	assert(!source->is_moved || strcmp(source->moved_to, to) == 0);
	return source->is_moved ? source_list_again(source) : source_mark(source);
}

void
mt_source_fini(struct mt_source *source)
{
	mt_keys_fini(&source->keys);
}
