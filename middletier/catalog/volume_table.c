/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volume_table.c -- the keys "volumes/NAME", and main's copy of them: a table sorted by name
 *
 * cluster/volume_change.c and cluster/volume_refresh.c fill it.
 */
#include "catalog/volume_table.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/bucket.h"
#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/num.h"
#include "base/search.h"
#include "catalog/holder.h"
#include "catalog/json.h"
#include "catalog/numbers.h"
#include "catalog/qos.h"
#include "catalog/reads.h"
#include "catalog/scope.h"
#include "catalog/snapshot_table.h"
#include "catalog/trash.h"
#include "catalog/wish.h"
#include "cleave/engine.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/limits.h"
#include "common/replica.h"

const char *
mt_volume_name_check(const char *name)
{
	size_t bytes = strlen(name);

	if (bytes == 0 || bytes > CLEAVE_VOLUME_NAME_BYTES_MAX)
		return "must have 1 to 63 characters";
	if (name[0] == '-' || name[0] == '.')
		return "must not start with '-' or '.'";
	if (strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") !=
	    bytes)
		return "may hold letters, digits, '.', '_' and '-' alone";
	return NULL;
}

void
mt_volume_key(const char *name, char ret_key[MT_VOLUME_KEY_BYTES])
{
	assert(mt_volume_name_check(name) == NULL || mt_trash_is_name(name));
	(void)snprintf(ret_key, MT_VOLUME_KEY_BYTES, MT_VOLUME_PREFIX "%s", name);
}

char *
mt_volume_encode(const struct mt_volume *volume)
{
	json_t *object = mt_json_volume(volume);
	char session[17];
	char *text = NULL;

	assert(volume->id <= MT_NUMBER_MAX);
	(void)snprintf(session, sizeof(session), "%016" PRIx64, volume->session_id);
	if (object != NULL && json_object_del(object, "name") == 0 &&
	    json_object_set_new(object, "session", json_string(session)) == 0 &&
	    mt_json_put_holder(object, volume) == 0 &&
	    (!mt_volume_is_trashed(volume) || mt_json_put_trash(object, &volume->trash) == 0) &&
	    mt_json_put_scope(object, &volume->scope, volume->segment_base) == 0)
		text = json_dumps(object, JSON_COMPACT);
	json_decref(object);
	return text;
}

/* A volume's text as it was read, before it is believed. */
struct volume_text {
	uint64_t id, size_bytes, replicas, segment_base, segment_count, attach, origin, key_id;
	json_t *spans; /* NULL: all in its own segments */
	const char *service_class, *engine, *session;
	const char *reads; /* NULL: it is not there */
	json_t *holder;    /* NULL: nobody, or not known */
	json_t *trash;     /* NULL: it is not there */
	json_t *qos;       /* NULL: no limits */
	int64_t level;
};

static int
volume_from_text(const struct volume_text *text, struct mt_volume *ret_volume,
    const char **ret_field)
{
	struct mt_wish wish;
	struct mt_volume volume = {
		.id = text->id,
		.size_bytes = text->size_bytes,
		.segment_base = text->segment_base,
		.segment_count = (uint32_t)text->segment_count,
		.level = (int)text->level,
		.replica_count = (uint32_t)text->replicas,
		.key_id = (uint32_t)text->key_id,
		.attach = text->attach,
		.origin = text->origin,
	};

	if (!mt_wish_by_name(text->engine, &wish)) {
		*ret_field = "engine";
		return -EINVAL;
	}
	volume.codec_id = wish.codec_id;
	if (text->level < wish.level_min || text->level > wish.level_max) {
		*ret_field = "level";
		return -EINVAL;
	}
	if (service_class_parse(text->service_class, &volume.service_class) != 0) {
		*ret_field = "service_class";
		return -EINVAL;
	}
	if (text->reads != NULL && !mt_reads_parse(text->reads, &volume.reads)) {
		*ret_field = "reads";
		return -EINVAL;
	}
	if (mt_hex_parse(text->session, &volume.session_id) != 0) {
		*ret_field = "session";
		return -EINVAL;
	}
	if (text->segment_count !=
	    (text->size_bytes + CLEAVE_SEGMENT_BYTES - 1) / CLEAVE_SEGMENT_BYTES) {
		*ret_field = "segment_count";
		return -EINVAL;
	}
	if (!mt_segments_exist(text->segment_base, text->segment_count)) {
		*ret_field = "segment_base";
		return -EINVAL;
	}
	mt_json_take_holder(text->holder, &volume.holder);
	*ret_field = mt_json_take_scope(text->spans, volume.segment_base, &volume.scope);
	if (*ret_field == NULL)
		*ret_field = mt_json_take_qos(text->qos, &volume.limits);
	if (*ret_field != NULL)
		return -EINVAL;
	*ret_volume = volume;
	return 0;
}

/* A key in the trash says so, and names the volume's id; no other one does. */
static int
volume_take_trash(const char *name, const json_t *trash, struct mt_volume *volume,
    const char **ret_field)
{
	char expected[MT_NAME_BYTES];

	assert(volume->id != 0);
	if (trash == NULL && !mt_trash_is_name(name))
		return 0;
	mt_trash_name(volume->id, expected);
	*ret_field = "trash";
	if (trash == NULL || strcmp(expected, name) != 0)
		return -EINVAL;
	return mt_json_take_trash(trash, &volume->trash, ret_field);
}

int
mt_volume_decode(const char *name, const void *value, uint32_t bytes, struct mt_volume *ret_volume,
    const char **ret_field)
{
	static _Thread_local char error[MT_ERROR_BYTES];
	struct volume_text text = { 0 };
	const struct reader_member members[] = {
		{ "id", READER_U64, true, 1, MT_NUMBER_MAX, { .u64 = &text.id } },
		{ "size_bytes", READER_U64, true, CLEAVE_BLOCK_BYTES, CLEAVE_VOLUME_BYTES_MAX,
		    { .u64 = &text.size_bytes } },
		{ "service_class", READER_TEXT, true, 0, 0, { .text = &text.service_class } },
		{ "engine", READER_TEXT, true, 0, 0, { .text = &text.engine } },
		{ "level", READER_I64, true, 0, 0, { .i64 = &text.level } },
		{ "replicas", READER_U64, true, 1, MT_REPLICAS_MAX, { .u64 = &text.replicas } },
		{ "segment_base", READER_U64, true, 0, 0, { .u64 = &text.segment_base } },
		{ "segment_count", READER_U64, true, 1, 0, { .u64 = &text.segment_count } },
		{ "attach", READER_U64, true, 0, MT_NUMBER_MAX, { .u64 = &text.attach } },
		{ "session", READER_TEXT, true, 0, 0, { .text = &text.session } },
		{ "origin", READER_U64, false, 1, MT_NUMBER_MAX, { .u64 = &text.origin } },
		{ "spans", READER_ARRAY, false, 0, 0, { .array = &text.spans } },
		{ "holder", READER_OBJECT, false, 0, 0, { .object = &text.holder } },
		{ "trash", READER_OBJECT, false, 0, 0, { .object = &text.trash } },
		{ "qos", READER_OBJECT, false, 0, 0, { .object = &text.qos } },
		{ "key", READER_U64, false, 1, UINT32_MAX, { .u64 = &text.key_id } },
		{ "reads", READER_TEXT, false, 0, 0, { .text = &text.reads } },
	};
	json_t *object = json_loadb(value, bytes, JSON_REJECT_DUPLICATES, NULL);
	int rc = -EINVAL;

	*ret_field = "not a JSON object";
	if (!json_is_object(object) ||
	    (mt_volume_name_check(name) != NULL && !mt_trash_is_name(name)))
		goto out;
	rc = reader_strict(object, members, NUM_COUNT(members), error);
	if (rc != 0)
		*ret_field = error;
	else
		rc = volume_from_text(&text, ret_volume, ret_field);
	if (rc == 0)
		rc = volume_take_trash(name, text.trash, ret_volume, ret_field);
	if (rc == 0)
		(void)snprintf(ret_volume->name, sizeof(ret_volume->name), "%s", name);
out:
	json_decref(object);
	return rc;
}

/* The table. */

uint32_t
mt_volumes_after(const struct mt_volumes *volumes, const char *name)
{
	uint32_t at;

	assert(volumes->count <= volumes->max);
	SEARCH_FIRST(at, volumes->count, strcmp(volumes->entries[at].volume.name, name) <= 0);
	return at;
}

struct mt_volume_entry *
mt_volumes_by_name(struct mt_volumes *volumes, const char *name)
{
	uint32_t after = mt_volumes_after(volumes, name);

	if (after == 0 || strcmp(volumes->entries[after - 1].volume.name, name) != 0)
		return NULL;
	return &volumes->entries[after - 1];
}

/* Asked once a connection; a scan of all volumes takes less than the connection does. */
struct mt_volume_entry *
mt_volumes_by_id(const struct mt_volumes *volumes, uint64_t id)
{
	assert(volumes->count <= volumes->max);
	for (uint32_t i = 0; i < volumes->count; i++) {
		if (volumes->entries[i].volume.id == id)
			return &volumes->entries[i];
	}
	return NULL;
}

struct mt_volume_entry *
mt_volumes_trashed(struct mt_volumes *volumes, uint64_t id)
{
	char name[MT_NAME_BYTES];

	assert(id != 0);
	mt_trash_name(id, name);
	return mt_volumes_by_name(volumes, name);
}

uint32_t
mt_volumes_trash(const struct mt_volumes *volumes, uint32_t *ret_first)
{
	/* Names of volumes have no '/': all others are less than the first of these, or greater than the last. */
	uint32_t end;

	*ret_first = mt_volumes_after(volumes, MT_TRASH_PREFIX);
	end = mt_volumes_after(volumes, MT_TRASH_PREFIX "~");
	assert(*ret_first <= end);
	return end - *ret_first;
}

uint32_t
mt_volumes_live_count(const struct mt_volumes *volumes)
{
	uint32_t first;

	return volumes->count - mt_volumes_trash(volumes, &first);
}

int
mt_volumes_reserve(struct mt_volumes *volumes, uint32_t count)
{
	struct mt_volume_entry *entries;
	uint32_t max = (uint32_t)num_max(count, 2 * (uint64_t)volumes->max);

	assert(volumes->count <= volumes->max);
	if (count <= volumes->max)
		return 0;
	if (count > MT_VOLUMES_MAX)
		return -ENOSPC;
	entries = mt_realloc(volumes->entries, max * sizeof(*entries));
	if (entries == NULL)
		return -ENOMEM;
	volumes->entries = entries;
	volumes->max = max;
	return 0;
}

/* Room was reserved. */
static void
volumes_put(struct mt_volumes *volumes, const struct mt_volume *volume, uint64_t version)
{
	struct mt_volume_entry *entry = mt_volumes_by_name(volumes, volume->name);
	bool is_deleting = entry != NULL && entry->is_deleting;
	/* A volume that is new here has no session on any port: its attach counts as told. */
	uint64_t told_attach = entry != NULL ? entry->told_attach : volume->attach;
	bool is_known = entry != NULL && entry->volume.attach == volume->attach;
	uint64_t heard_ns = is_known ? entry->heard_ns : 0;
	uint64_t seen_ns = entry != NULL && entry->version == version ? entry->seen_ns : 0;
	bool is_untold = entry != NULL &&
	    (entry->are_limits_untold || entry->volume.key_id != volume->key_id ||
		!limits_are_equal(&entry->volume.limits, &volume->limits));

	assert(volume->name[0] != '\0');
	assert(entry != NULL || volumes->count < volumes->max);
	if (entry == NULL) {
		uint32_t at = mt_volumes_after(volumes, volume->name);

		assert(volumes->count < volumes->max);
		entry = &volumes->entries[at];
		memmove(entry + 1, entry, (volumes->count - at) * sizeof(*entry));
		volumes->count++;
	}
	*entry = (struct mt_volume_entry){
		.volume = *volume,
		.version = version,
		.told_attach = told_attach,
		.heard_ns = heard_ns,
		.is_deleting = is_deleting,
		.seen_ns = seen_ns,
		.are_limits_untold = is_untold,
	};
}

void
mt_volumes_remove(struct mt_volumes *volumes, const char *name)
{
	struct mt_volume_entry *entry = mt_volumes_by_name(volumes, name);

	assert(volumes->count <= volumes->max);
	if (entry == NULL)
		return;
	volumes->count--;
	memmove(entry, entry + 1,
	    (size_t)(&volumes->entries[volumes->count] - entry) * sizeof(*entry));
}

void
mt_volumes_init(struct mt_volumes *volumes)
{
	*volumes = (struct mt_volumes){ 0 };
	list_init(&volumes->waiters);
	list_init(&volumes->readers);
}

void
mt_volumes_fini(struct mt_volumes *volumes)
{
	assert(list_is_empty(&volumes->waiters) && list_is_empty(&volumes->readers));
	mt_free(volumes->entries);
	mt_free(volumes->next_entries);
	mt_free(volumes->tells);
	mt_snapshots_fini(&volumes->snapshots);
	mt_snapshots_fini(&volumes->next_snapshots);
	*volumes = (struct mt_volumes){ 0 };
}

int
mt_volumes_put(struct mt_volumes *volumes, const struct mt_volume *volume, uint64_t version)
{
	int rc = mt_volumes_reserve(volumes, volumes->count + 1);

	assert(volume->id != 0);
	if (rc == 0)
		volumes_put(volumes, volume, version);
	return rc;
}

int
mt_volumes_put_item(struct mt_volumes *volumes, const struct meta_item *item)
{
	const char *name = item->key + strlen(MT_VOLUME_PREFIX);
	struct mt_volume volume;
	const char *field;
	int rc;

	assert(strncmp(item->key, MT_VOLUME_PREFIX, strlen(MT_VOLUME_PREFIX)) == 0);
	rc = mt_volume_decode(name, item->value, item->value_bytes, &volume, &field);
	if (rc != 0) {
		log_error("volume: unreadable in the metadata store key=%s field=\"%s\": it is not "
			  "served",
		    item->key, field);
		volumes->is_incomplete = true;
		return 0; /* the others are served */
	}
	return mt_volumes_put(volumes, &volume, item->version);
}
