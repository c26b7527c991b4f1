/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_trash.c -- deleted volumes: moved to the trash, listed, restored, purged
 *
 *	volumes/NAME --volume.delete--> volumes/trash/ID --trash.restore--> volumes/NAME, or another name
 *	                                       '--trash.purge, or its time is over--> deleted/ID
 *
 * Each is one transaction, but a purge (cluster/volume_delete.c). Going there raises the attach number: no session of
 * before may write once the volume is back.
 */
#include "control/control_trash.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/mutant.h"
#include "base/num.h"
#include "catalog/json.h"
#include "catalog/numbers.h"
#include "catalog/snapshot_table.h"
#include "catalog/trash.h"
#include "catalog/volume_table.h"
#include "cleave/level.h"
#include "cleave/meta.h"
#include "cluster/gateway_state.h"
#include "cluster/trash.h"
#include "cluster/volume_delete.h"
#include "control/control_allow.h"
#include "control/control_change.h"
#include "control/control_request.h"
#include "control/control_snapshot_delete.h"

#define TRASH_PER_LIST 256u
#define TRASH_IDS_TOLD_MAX 8u /* in a refusal */

/* ---- volume.delete ---- */

static bool
trash_is_there(const struct mt_gateway *gateway)
{
	return gateway->cluster.level >= CLEAVE_LEVEL_TRASH;
}

bool
mt_control_trash_refuse(struct mt_control_request *request)
{
	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (request->trash.is_purge && request->trash.keep_s != 0) {
		mt_control_refuse(request, -EINVAL,
		    "keep_s: a volume that is purged is not kept: --keep or --purge");
		return true;
	}
	if (request->trash.keep_s == 0 || trash_is_there(request->gateway))
		return false;
	mt_control_refuse(request, -ENOTSUP,
	    "the cluster is of level %" PRIu32
	    " and has no trash: cleave cluster upgrade, or delete it at once (--purge)",
	    request->gateway->cluster.level);
	return true;
}

bool
mt_control_trash_is_kept(const struct mt_control_request *request)
{
	return !request->trash.is_purge && trash_is_there(request->gateway);
}

static void
move_on_done(struct mt_control_request *request)
{
	const struct mt_volume *volume = &request->volume;

	assert(request->sm.state == MT_CONTROL_RUNNING);
	mt_control_event(request, CLEAVE_EVENT_VOLUME_TRASHED, volume->trash.name,
	    "volume: deleted, and in the trash name=%s id=%" PRIu64 " keep_s=%" PRIu64,
	    volume->trash.name, volume->id, volume->trash.keep_ms / 1000);
	mt_control_finish(request,
	    json_pack("{s:{s:I, s:I}}", "trash", "id", (json_int_t)volume->id, "keep_s",
		(json_int_t)(volume->trash.keep_ms / 1000)));
}

void
mt_control_trash_move(struct mt_control_request *request, const struct mt_volume_entry *entry)
{
	struct mt_volume volume = entry->volume;
	char key[MT_VOLUME_KEY_BYTES], trash_key[MT_VOLUME_KEY_BYTES];
	uint64_t keep_s = request->trash.keep_s != 0 ? request->trash.keep_s : MT_TRASH_KEEP_S;
	char *text;

	assert(request->sm.state == MT_CONTROL_RUNNING && request->op->is_change);
	assert(!mt_volume_is_trashed(&volume));
	volume.attach++;
	volume.session_id = 0;
	volume.holder = (struct mt_holder){ .since_s = 0 };
	volume.trash = (struct mt_trash){ .deleted_s = mt_gateway_time_s(request->gateway),
		.keep_ms = keep_s * 1000,
		.left_ms = keep_s * 1000 };
	memcpy(volume.trash.name, volume.name, sizeof(volume.trash.name));
	(void)snprintf(volume.trash.by, sizeof(volume.trash.by), "%s",
	    mt_control_subject(request) != NULL ? request->by : mt_control_peer(request));
	mt_trash_name(volume.id, volume.name);
	mt_volume_key(volume.trash.name, key);
	mt_volume_key(volume.name, trash_key);
	text = mt_volume_encode(&volume);
	/* The name stays, for whatever fails from here on. */
	request->volume = volume;
	memcpy(request->volume.name, volume.trash.name, sizeof(request->volume.name));
	{
		const struct meta_op ops[] = {
			mt_change_compare(key, entry->version),
			mt_change_compare(trash_key, 0),
			{ .kind = META_DELETE, .key = key },
			mt_change_put(trash_key, text),
		};

		mt_control_change(request, ops, NUM_COUNT(ops), move_on_done);
	}
	free(text);
}

/* ---- list ---- */

json_t *
mt_json_trash(const struct mt_gateway *gateway, const struct mt_volume_entry *entry)
{
	const struct mt_volume *volume = &entry->volume;

	assert(mt_volume_is_trashed(volume));
	return json_pack("{s:s, s:I, s:I, s:I, s:I, s:s, s:I, s:I}", "name", volume->trash.name,
	    "id", (json_int_t)volume->id, "size_bytes", (json_int_t)volume->size_bytes, "snapshots",
	    (json_int_t)mt_snapshots_live_count(&gateway->volumes.snapshots, volume->id),
	    "deleted_s", (json_int_t)volume->trash.deleted_s, "by", volume->trash.by, "keep_s",
	    (json_int_t)(volume->trash.keep_ms / 1000), "left_s",
	    (json_int_t)((mt_trash_left_ms(gateway, entry) + 999) / 1000));
}

void
mt_control_trash_list(struct mt_control_request *request)
{
	const struct mt_volumes *volumes = &request->gateway->volumes;
	uint64_t after = 0;
	bool is_more = false;
	uint32_t first, in_trash = mt_volumes_trash(volumes, &first), count = 0;
	char error[MT_ERROR_BYTES];
	const struct reader_member members[] = {
		{ "after", READER_U64, false, 0, 0, { .u64 = &after } },
	};
	int rc = reader_strict(request->in, members, NUM_COUNT(members), error);
	json_t *list;

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (rc != 0) {
		mt_control_fail(request, rc, error);
		return;
	}
	list = json_array();
	for (uint32_t i = first; i < first + in_trash && !is_more; i++) {
		if (volumes->entries[i].volume.id <= after ||
		    !mt_control_sees(request, volumes->entries[i].volume.trash.name))
			continue;
		is_more = count++ == TRASH_PER_LIST;
		if (!is_more)
			json_array_append_new(list,
			    mt_json_trash(request->gateway, &volumes->entries[i]));
	}
	mt_control_finish(request, json_pack("{s:o, s:b}", "volumes", list, "more", is_more));
}

/* ---- by name, or by id ---- */

/* The volume whose id the text is; NULL: it is none's, or one's that who asks may not know of. */
static struct mt_volume_entry *
trash_by_id(struct mt_control_request *request, const char *text)
{
	size_t digits = strspn(text, "0123456789");
	struct mt_volume_entry *entry;
	uint64_t id;

	if (digits == 0 || digits > 19 || text[digits] != '\0')
		return NULL;
	id = strtoull(text, NULL, 10);
	if (id == 0 || id > MT_NUMBER_MAX)
		return NULL;
	entry = mt_volumes_trashed(&request->gateway->volumes, id);
	return entry != NULL && mt_control_knows(request, entry->volume.trash.name) ? entry : NULL;
}

/* The first volume but @other that was called @name; NULL: none was, or who asks may not know of it. */
static struct mt_volume_entry *
trash_by_name(struct mt_control_request *request, const char *name,
    const struct mt_volume_entry *other)
{
	struct mt_volumes *volumes = &request->gateway->volumes;
	uint32_t first, count = mt_volumes_trash(volumes, &first);

	if (!mt_control_knows(request, name))
		return NULL;
	for (uint32_t i = first; i < first + count; i++) {
		struct mt_volume_entry *entry = &volumes->entries[i];

		if (entry != other && strcmp(entry->volume.trash.name, name) == 0)
			return entry;
	}
	return NULL;
}

static void
trash_refuse_several(struct mt_control_request *request, const char *name)
{
	struct mt_volumes *volumes = &request->gateway->volumes;
	char ids[TRASH_IDS_TOLD_MAX * 24] = "";
	uint32_t first, count = mt_volumes_trash(volumes, &first), told = 0;

	for (uint32_t i = first; i < first + count && told < TRASH_IDS_TOLD_MAX; i++) {
		const struct mt_volume *volume = &volumes->entries[i].volume;
		size_t used = strlen(ids);

		if (strcmp(volume->trash.name, name) == 0)
			(void)snprintf(ids + used, sizeof(ids) - used, "%s%" PRIu64,
			    told++ == 0 ? "" : ", ", volume->id);
	}
	mt_control_refuse(request, -EINVAL,
	    "several volumes in the trash were called '%s': say which, by its id: %s", name, ids);
}

/*
 * The request's "name" is an id, or a name that one volume alone had; with "by_id" an id. What could be two volumes is
 * refused: the wrong one would be purged for good. NULL, and the request has ended.
 */
static struct mt_volume_entry *
trash_find(struct mt_control_request *request, const char *name, bool is_id)
{
	struct mt_volume_entry *found, *named;

	if (!mt_change_take_name(request, name, request->volume.name))
		return NULL;
	found = trash_by_id(request, name);
	named = is_id ? NULL : trash_by_name(request, name, found);
	if (found != NULL && named != NULL) {
		mt_control_refuse(request, -EINVAL,
		    "'%s' is the id of volume '%s' in the trash, and another one there, id %" PRIu64
		    ", was called so: say which is meant, by its id (--id)",
		    name, found->volume.trash.name, named->volume.id);
		return NULL;
	}
	if (named != NULL && trash_by_name(request, name, named) != NULL) {
		trash_refuse_several(request, name);
		return NULL;
	}
	if (found == NULL && named == NULL)
		mt_control_trash_refuse_unknown(request, name);
	return found != NULL ? found : named;
}

void
mt_control_trash_refuse_unknown(struct mt_control_request *request, const char *name)
{
	mt_control_refuse(request, -ENOENT,
	    "no volume in the trash was called '%s', or has it as its id: cleave trash list shows them",
	    name);
}

const char *
mt_control_trash_name(struct mt_control_request *request, const char *name)
{
	const struct mt_volume_entry *entry = trash_by_id(request, name);

	return entry == NULL ? name : entry->volume.trash.name;
}

/* ---- restore ---- */

static void
restore_on_done(struct mt_control_request *request)
{
	struct mt_volume_entry *entry =
	    mt_volumes_by_name(&request->gateway->volumes, request->change.new_name);

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (entry == NULL) {
		mt_control_fail_volume(request, -ENOENT);
		return;
	}
	mt_control_event(request, CLEAVE_EVENT_VOLUME_RESTORED, entry->volume.name,
	    "volume: restored from the trash name=%s id=%" PRIu64 " was=%s", entry->volume.name,
	    entry->volume.id, request->change.snapshot_name);
	mt_control_finish(request, json_pack("{s:o}", "volume", mt_json_volume(&entry->volume)));
}

static void
restore_submit(struct mt_control_request *request, const struct mt_volume_entry *entry)
{
	const char *name = request->change.new_name;
	const struct mt_volume_entry *other = mt_volumes_by_name(&request->gateway->volumes, name);
	struct mt_volume volume = entry->volume;
	char key[MT_VOLUME_KEY_BYTES], trash_key[MT_VOLUME_KEY_BYTES];
	char *text;

	if (other != NULL && !MUTANT(trash_name)) {
		mt_control_refuse(request, -EEXIST,
		    "there is a volume '%s', id %" PRIu64
		    ", by now: restore the one in the trash, id "
		    "%" PRIu64 ", under another name (cleave trash restore %" PRIu64 " NEW)",
		    name, other->volume.id, volume.id, volume.id);
		return;
	}
	mt_volume_key(volume.name, trash_key);
	mt_volume_key(name, key);
	memcpy(volume.name, name, sizeof(volume.name));
	memcpy(request->change.snapshot_name, volume.trash.name, sizeof(volume.trash.name));
	volume.trash = (struct mt_trash){ .keep_ms = 0 };
	text = mt_volume_encode(&volume);
	{
		const struct meta_op ops[] = {
			mt_change_compare(trash_key, entry->version),
			mt_change_compare(key, other == NULL ? 0 : other->version),
			{ .kind = META_DELETE, .key = trash_key },
			mt_change_put(key, text),
		};

		mt_control_change(request, ops, NUM_COUNT(ops), restore_on_done);
	}
	free(text);
}

void
mt_control_trash_restore(struct mt_control_request *request)
{
	const struct mt_volume_entry *entry;
	const char *name = "", *new_name = NULL;
	bool is_id = false;
	char error[MT_ERROR_BYTES];
	const struct reader_member members[] = {
		{ "name", READER_TEXT, true, 0, 0, { .text = &name } },
		{ "new", READER_TEXT, false, 0, 0, { .text = &new_name } },
		{ "by_id", READER_BOOL, false, 0, 0, { .flag = &is_id } },
	};
	int rc = reader_strict(request->in, members, NUM_COUNT(members), error);

	assert(request->sm.state == MT_CONTROL_RUNNING && request->op->is_change);
	if (rc != 0) {
		mt_control_fail(request, rc, error);
		return;
	}
	entry = trash_find(request, name, is_id);
	if (entry == NULL)
		return;
	if (new_name == NULL)
		new_name = entry->volume.trash.name;
	if (!mt_change_take_name(request, new_name, request->change.new_name))
		return;
	if (entry->volume.trash.left_ms == 0)
		mt_control_refuse(request, -ENOENT,
		    "volume '%s', id %" PRIu64 ", is being purged: it cannot be restored any more",
		    entry->volume.trash.name, entry->volume.id);
	else
		restore_submit(request, entry);
}

/* ---- purge ---- */

static void
purge_on_done(struct mt_control_request *request)
{
	assert(request->sm.state == MT_CONTROL_RUNNING);
	mt_control_event(request, CLEAVE_EVENT_VOLUME_PURGED, request->volume.name,
	    "volume: purged from the trash name=%s id=%" PRIu64, request->volume.name,
	    request->trash.id);
	mt_control_finish(request, json_object());
}

static void
purge_step(struct mt_control_request *request)
{
	const struct mt_volume_entry *entry =
	    mt_volumes_trashed(&request->gateway->volumes, request->trash.id);
	struct mt_delete_ops *ops;

	/* The first step has let cluster/trash.c go on with it, which may be first: it tells the event, then. */
	if (entry == NULL &&
	    mt_volumes_by_id(&request->gateway->volumes, request->trash.id) == NULL) {
		mt_control_finish(request, json_object());
		return;
	}
	if (entry == NULL) { /* restored meanwhile */
		mt_control_fail_volume(request, -ENOENT);
		return;
	}
	memcpy(request->volume.name, entry->volume.trash.name, sizeof(request->volume.name));
	if (mt_control_refuse_obstacle(request, request->trash.id))
		return;
	ops = mt_delete_ops_purge(request->gateway, entry);
	if (ops == NULL)
		mt_control_fail_volume(request, -ENOMEM);
	else
		mt_control_change(request, ops->ops, ops->count,
		    ops->is_last ? purge_on_done : purge_step);
	mt_delete_ops_free(ops);
}

void
mt_control_trash_purge(struct mt_control_request *request)
{
	const struct mt_volume_entry *entry;
	const char *name = "";
	bool is_id = false;
	char error[MT_ERROR_BYTES];
	const struct reader_member members[] = {
		{ "name", READER_TEXT, true, 0, 0, { .text = &name } },
		{ "by_id", READER_BOOL, false, 0, 0, { .flag = &is_id } },
	};
	int rc = reader_strict(request->in, members, NUM_COUNT(members), error);

	assert(request->sm.state == MT_CONTROL_RUNNING && request->op->is_change);
	if (rc != 0) {
		mt_control_fail(request, rc, error);
		return;
	}
	/* Run again after a conflict, it is about the same volume. */
	if (request->trash.id == 0) {
		entry = trash_find(request, name, is_id);
		if (entry == NULL)
			return;
		request->trash.id = entry->volume.id;
	}
	purge_step(request);
}
