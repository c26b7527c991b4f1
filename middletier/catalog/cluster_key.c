/* SPDX-License-Identifier: Apache-2.0 */
/* cluster_key.c -- the key "cluster" of the metadata store: JSON, read and written */
#include "catalog/cluster_key.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "catalog/json.h"
#include "catalog/numbers.h"
#include "catalog/place.h"
#include "cleave/level.h"
#include "cleave/meta.h"
#include "cleave/wire.h"
#include "common/limits.h"

/* ---- encode ---- */

/* The store's own, and those that it replaces, one behind the other. */
static int
cluster_encode_stores(json_t *object, const struct mt_cluster *cluster)
{
	char text[MT_REPLACED_MAX * (STORE_ID_TEXT_BYTES - 1) + 1] = "";

	assert(cluster->replaced_count <= MT_REPLACED_MAX);
	if (store_id_is_zero(&cluster->store_id))
		return 0;
	store_id_text(&cluster->store_id, text);
	if (json_object_set_new(object, "store_id", json_string(text)) != 0)
		return -ENOMEM;
	for (uint32_t i = 0; i < cluster->replaced_count; i++)
		store_id_text(&cluster->replaced[i], text + i * (STORE_ID_TEXT_BYTES - 1));
	if (cluster->replaced_count == 0)
		return 0;
	return json_object_set_new(object, "replaces", json_string(text)) == 0 ? 0 : -ENOMEM;
}

static int
cluster_encode_place(json_t *object, const struct mt_cluster *cluster)
{
	assert(mt_place_is_valid(cluster->place));
	if (cluster->place[0] == '\0')
		return 0;
	return json_object_set_new(object, "place", json_string(cluster->place)) == 0 ? 0 : -ENOMEM;
}

/* Releases of level 1 refuse a member that they do not know: it is there when none of them is. */
static int
cluster_encode_level(json_t *object, const struct mt_cluster *cluster)
{
	assert(cluster->level <= CLEAVE_LEVEL_MAX);
	if (cluster->level < CLEAVE_LEVEL_STORED)
		return 0;
	return json_object_set_new(object, "level", json_integer(cluster->level)) == 0 ? 0
										       : -ENOMEM;
}

static int
cluster_encode_nodes(json_t *object, const struct mt_cluster *cluster)
{
	assert(cluster->next_node == 0 || cluster->level >= CLEAVE_LEVEL_NODES);
	if (cluster->next_node == 0)
		return 0;
	return json_object_set_new(object, "next_node",
		   json_integer((json_int_t)cluster->next_node)) == 0
	    ? 0
	    : -ENOMEM;
}

static int
cluster_encode_keys(json_t *object, const struct mt_cluster *cluster)
{
	assert(cluster->next_key == 0 || cluster->level >= CLEAVE_LEVEL_ENCRYPTED);
	if (cluster->next_key == 0)
		return 0;
	return json_object_set_new(object, "next_key",
		   json_integer((json_int_t)cluster->next_key)) == 0
	    ? 0
	    : -ENOMEM;
}

char *
mt_cluster_encode(const struct mt_cluster *cluster)
{
	char id[17];
	json_t *object;
	char *text;

	(void)snprintf(id, sizeof(id), "%016" PRIx64, cluster->cluster_id);
	object = json_pack("{s:i, s:s, s:i, s:I, s:I, s:I, s:I}", "format", (int)MT_CLUSTER_FORMAT,
	    "cluster_id", id, "shard_count", (int)cluster->shard_count, "next_volume_id",
	    (json_int_t)cluster->next_volume_id, "next_segment", (json_int_t)cluster->next_segment,
	    "next_snapshot", (json_int_t)num_max(cluster->next_snapshot, 1), "next_clone",
	    (json_int_t)num_max(cluster->next_clone, 1));
	if (object != NULL &&
	    (cluster_encode_stores(object, cluster) != 0 ||
		cluster_encode_place(object, cluster) != 0 ||
		cluster_encode_level(object, cluster) != 0 ||
		cluster_encode_nodes(object, cluster) != 0 ||
		cluster_encode_keys(object, cluster) != 0)) {
		json_decref(object);
		return NULL;
	}
	text = object == NULL ? NULL : json_dumps(object, JSON_COMPACT);
	json_decref(object);
	return text;
}

/* ---- decode ---- */

static int
store_id_parse(const char *text, struct store_id *ret_id)
{
	char half[17] = "";
	int rc;

	assert(strlen(text) >= STORE_ID_TEXT_BYTES - 1);
	memcpy(half, text, 16);
	rc = mt_hex_parse(half, &ret_id->high);
	memcpy(half, text + 16, 16);
	if (rc == 0)
		rc = mt_hex_parse(half, &ret_id->low);
	return rc == 0 && !store_id_is_zero(ret_id) ? 0 : -EINVAL;
}

static int
cluster_decode_stores(const char *id, const char *replaces, struct mt_cluster *cluster,
    const char **ret_field)
{
	size_t bytes = STORE_ID_TEXT_BYTES - 1, all_bytes = strlen(replaces);

	assert(cluster->replaced_count == 0);
	*ret_field = "store_id";
	if (id[0] != '\0' && (strlen(id) != bytes || store_id_parse(id, &cluster->store_id) != 0))
		return -EINVAL;
	*ret_field = "replaces";
	if (all_bytes % bytes != 0 || all_bytes / bytes > MT_REPLACED_MAX ||
	    (all_bytes > 0 && id[0] == '\0'))
		return -EINVAL;
	cluster->replaced_count = (uint32_t)(all_bytes / bytes);
	for (uint32_t i = 0; i < cluster->replaced_count; i++) {
		if (store_id_parse(replaces + i * bytes, &cluster->replaced[i]) != 0)
			return -EINVAL;
	}
	return 0;
}

static int
cluster_decode_place(const char *place, struct mt_cluster *cluster, const char **ret_field)
{
	*ret_field = "place";
	if (!mt_place_is_valid(place))
		return -EINVAL;
	memcpy(cluster->place, place, strlen(place) + 1);
	return 0;
}

bool
mt_cluster_is_spoken(uint64_t level, uint32_t level_max, char ret_text[MT_ERROR_BYTES])
{
	assert(level_max >= CLEAVE_LEVEL_MIN && level_max <= CLEAVE_LEVEL_MAX);
	if (level <= level_max)
		return true;
	(void)snprintf(ret_text, MT_ERROR_BYTES,
	    "the cluster was upgraded to level %" PRIu64 ", and this release speaks %u to %" PRIu32
	    ": install one that speaks it",
	    level, CLEAVE_LEVEL_MIN, level_max);
	return false;
}

/* Looked at before all else: what a later level brought is unknown here, and not what is wrong. */
static uint64_t
cluster_level_of(const json_t *object)
{
	json_int_t level = json_integer_value(json_object_get(object, "level"));

	return level < 0 ? 0 : (uint64_t)level;
}

int
mt_cluster_decode(const void *value, uint32_t bytes, struct mt_cluster *ret_cluster,
    const char **ret_field)
{
	static _Thread_local char error[MT_ERROR_BYTES];
	struct mt_cluster cluster = { .next_snapshot = 1, .next_clone = 1 };
	uint64_t format = 0, shard_count = 0, level = CLEAVE_LEVEL_MIN;
	const char *id = NULL, *store_id = "", *replaces = "", *place = "";
	const struct reader_member members[] = {
		{ "format", READER_U64, true, MT_CLUSTER_FORMAT, MT_CLUSTER_FORMAT,
		    { .u64 = &format } },
		{ "cluster_id", READER_TEXT, true, 0, 0, { .text = &id } },
		{ "shard_count", READER_U64, true, 1, CLEAVE_SHARDS_MAX, { .u64 = &shard_count } },
		{ "next_volume_id", READER_U64, true, 1, MT_NUMBER_MAX + 1,
		    { .u64 = &cluster.next_volume_id } },
		{ "next_segment", READER_U64, true, 1, MT_ROOTS_MAX,
		    { .u64 = &cluster.next_segment } },
		{ "next_snapshot", READER_U64, false, 1, MT_NUMBER_MAX + 1,
		    { .u64 = &cluster.next_snapshot } },
		{ "next_clone", READER_U64, false, 1, CLEAVE_CLONE_MAX + UINT64_C(1),
		    { .u64 = &cluster.next_clone } },
		{ "next_node", READER_U64, false, 1, UINT32_MAX, { .u64 = &cluster.next_node } },
		{ "next_key", READER_U64, false, 1, UINT32_MAX + UINT64_C(1),
		    { .u64 = &cluster.next_key } },
		{ "store_id", READER_TEXT, false, 0, 0, { .text = &store_id } },
		{ "replaces", READER_TEXT, false, 0, 0, { .text = &replaces } },
		{ "place", READER_TEXT, false, 0, 0, { .text = &place } },
		{ "level", READER_U64, false, CLEAVE_LEVEL_MIN, CLEAVE_LEVEL_MAX,
		    { .u64 = &level } },
	};
	json_t *object = json_loadb(value, bytes, JSON_REJECT_DUPLICATES, NULL);
	int rc = -EINVAL;

	*ret_field = error;
	if (!json_is_object(object))
		*ret_field = "not a JSON object";
	else if (!mt_cluster_is_spoken(cluster_level_of(object), CLEAVE_LEVEL_MAX, error))
		rc = -EPROTONOSUPPORT;
	else
		rc = reader_strict(object, members, NUM_COUNT(members), error);
	if (rc == 0 && mt_hex_parse(id, &cluster.cluster_id) != 0) {
		*ret_field = "cluster_id";
		rc = -EINVAL;
	}
	if (rc == 0)
		rc = cluster_decode_stores(store_id, replaces, &cluster, ret_field);
	if (rc == 0)
		rc = cluster_decode_place(place, &cluster, ret_field);
	json_decref(object);
	if (rc != 0)
		return rc;
	cluster.level = (uint32_t)level;
	cluster.shard_count = (uint32_t)shard_count;
	*ret_cluster = cluster;
	return 0;
}

uint32_t
mt_level_read(const struct meta_item *item)
{
	const char *text = item->value;
	uint32_t level = 0;

	assert(strcmp(item->key, MT_LEVEL_KEY) == 0);
	for (uint32_t i = 0; i < item->value_bytes; i++) {
		if (text[i] < '0' || text[i] > '9' || level > UINT8_MAX)
			return 0;
		level = level * 10 + (uint32_t)(text[i] - '0');
	}
	return level <= UINT8_MAX ? level : 0;
}

/* ---- write ---- */

int
mt_cluster_put(struct meta *meta, const struct mt_cluster *cluster, meta_txn_fn fn, void *arg)
{
	char *text = mt_cluster_encode(cluster);
	int rc = -ENOMEM;

	assert(fn != NULL);
	if (text != NULL) {
		const struct meta_op ops[] = {
			{ .kind = META_COMPARE_VERSION,
			    .key = "cluster",
			    .version = cluster->version },
			{ .kind = META_PUT,
			    .key = "cluster",
			    .value = text,
			    .value_bytes = (uint32_t)strlen(text) },
		};

		rc = meta->ops->txn(meta, ops, NUM_COUNT(ops), fn, arg);
	}
	free(text);
	return rc;
}

/* ---- what is left to give away ---- */

bool
mt_cluster_has_volume(const struct mt_cluster *cluster)
{
	assert(cluster->next_segment <= MT_ROOTS_MAX);
	return cluster->next_volume_id <= MT_NUMBER_MAX &&
	    cluster->next_segment + MT_VOLUME_SEGMENTS <= MT_ROOTS_MAX;
}

bool
mt_cluster_is_behind(const struct mt_cluster *cluster, const struct mt_cluster *other)
{
	return cluster->next_volume_id < other->next_volume_id ||
	    cluster->next_segment < other->next_segment ||
	    cluster->next_snapshot < other->next_snapshot ||
	    cluster->next_clone < other->next_clone || cluster->next_key < other->next_key;
}

void
mt_cluster_skip(struct mt_cluster *cluster, const struct mt_cluster *skipped)
{
	assert(skipped->next_segment <= MT_ROOTS_MAX);
	assert(skipped->next_volume_id <= MT_NUMBER_MAX + 1);
	/* A number beyond the last says that none is left. */
	cluster->next_volume_id =
	    num_min(cluster->next_volume_id + skipped->next_volume_id, MT_NUMBER_MAX + 1);
	cluster->next_segment =
	    num_min(cluster->next_segment + skipped->next_segment, MT_ROOTS_MAX);
	cluster->next_snapshot =
	    num_min(cluster->next_snapshot + skipped->next_snapshot, MT_NUMBER_MAX + 1);
	cluster->next_clone =
	    num_min(cluster->next_clone + skipped->next_clone, CLEAVE_CLONE_MAX + UINT64_C(1));
	if (cluster->next_key != 0)
		cluster->next_key =
		    num_min(cluster->next_key + skipped->next_key, UINT32_MAX + UINT64_C(1));
}

/* ---- recoveries ---- */

void
mt_cluster_replace(struct mt_cluster *cluster, const struct store_id *id)
{
	assert(cluster->replaced_count <= MT_REPLACED_MAX);
	if (store_id_is_zero(id) || store_id_is_equal(id, &cluster->store_id))
		return;
	for (uint32_t i = 0; i < cluster->replaced_count; i++) {
		if (store_id_is_equal(id, &cluster->replaced[i]))
			return;
	}
	/* The oldest goes where there is no room. */
	cluster->replaced_count = (uint32_t)num_min(cluster->replaced_count + 1, MT_REPLACED_MAX);
	memmove(cluster->replaced + 1, cluster->replaced,
	    (cluster->replaced_count - 1) * sizeof(*id));
	cluster->replaced[0] = *id;
}
