/* SPDX-License-Identifier: Apache-2.0 */
/* manage_snapshot.c -- snapshots created, listed, deleted, cloned, and volumes rolled back to them */
#include <errno.h>
#include <stdio.h>

#include "base/check.h"
#include "manage.h"

/* Answers. */

static void
snapshot_read(struct reader *reader, const json_t *object, void *ret_entry)
{
	struct cleave_snapshot *entry = ret_entry;
	char volume[CLEAVE_VOLUME_NAME_BYTES_MAX + 1] = "", name[sizeof(volume)] = "";

	assert(reader->field == NULL);
	/* The name of its volume is missing while that is being deleted. */
	if (json_object_get(object, "volume") != NULL)
		reader_text(reader, object, "volume", volume, sizeof(volume));
	reader_text(reader, object, "name", name, sizeof(name));
	(void)snprintf(entry->name, sizeof(entry->name), "%s@%s", volume, name);
	entry->number = reader_u64(reader, object, "number", INT64_MAX);
	entry->volume_id = reader_u64(reader, object, "volume_id", INT64_MAX);
	entry->size_bytes = reader_u64(reader, object, "size_bytes", CLEAVE_VOLUME_BYTES_MAX);
	entry->created_s = reader_u64(reader, object, "created_s", INT64_MAX);
	entry->clone_count = (uint32_t)reader_u64(reader, object, "clones", UINT32_MAX);
	entry->is_protected = json_is_true(json_object_get(object, "protected"));
	if (json_object_get(object, "group") != NULL)
		entry->group = reader_u64(reader, object, "group", INT64_MAX);
	if (reader->field == NULL && entry->number == 0)
		reader_fail(reader, "number");
}

static bool
snapshot_rises(const void *before, const void *entry)
{
	const struct cleave_snapshot *first = before, *second = entry;

	assert(first != second);
	assert(first->number > 0 && second->number > 0);
	return first->number < second->number;
}

static void
snapshot_deliver(struct cleave_ask *ask, int rc, const struct ask_answer *answer, const char *error)
{
	assert(rc != 0 || answer->count == 1);
	ask->fn.snapshot(ask, rc, rc == 0 ? answer->entries : NULL, error, ask->arg);
}

static void
snapshots_deliver(struct cleave_ask *ask, int rc, const struct ask_answer *answer,
    const char *error)
{
	const struct cleave_snapshot_page page = { answer->entries, answer->count,
		answer->is_more };

	assert((page.snapshots == NULL) == (page.snapshot_count == 0));
	ask->fn.snapshots(ask, rc, rc == 0 ? &page : NULL, error, ask->arg);
}

static const struct cleave_ask_kind manage_snapshot = {
	.one = "snapshot",
	.entry_bytes = sizeof(struct cleave_snapshot),
	.read = snapshot_read,
	.deliver = snapshot_deliver,
};

static const struct cleave_ask_kind manage_snapshots = {
	.many = "snapshots",
	.entry_bytes = sizeof(struct cleave_snapshot),
	.is_paged = true,
	.read = snapshot_read,
	.rises = snapshot_rises,
	.deliver = snapshots_deliver,
};

/* Snapshots that were taken together: one answer has all. */
static const struct cleave_ask_kind manage_group = {
	.many = "snapshots",
	.entry_bytes = sizeof(struct cleave_snapshot),
	.read = snapshot_read,
	.deliver = snapshots_deliver,
};

static const struct ask_op op_group = { "snapshot.group", &manage_group, true };
static const struct ask_op op_create = { "snapshot.create", &manage_snapshot, true };
static const struct ask_op op_list = { "snapshot.list", &manage_snapshots, false };
static const struct ask_op op_delete = { "snapshot.delete", &ask_done, true };
static const struct ask_op op_protect = { "snapshot.protect", &ask_done, true };
static const struct ask_op op_unprotect = { "snapshot.unprotect", &ask_done, true };
static const struct ask_op op_rename = { "snapshot.rename", &ask_done, true };
static const struct ask_op op_rollback = { "snapshot.rollback", &manage_volume, true };
static const struct ask_op op_clone = { "clone", &manage_volume, true };

/* Create. */

int
cleave_snapshot_create(struct cleave_client *client, struct cleave_ask *ask, const char *name,
    cleave_snapshot_fn fn, void *arg)
{
	int rc = ask_check_name(name, MANAGE_SNAPSHOT_BYTES_MAX);

	if (rc != 0)
		return rc;
	ask->fn.snapshot = fn;
	ask->arg = arg;
	return ask_start(client, ask, &op_create, manage_named(&op_create, name));
}

int
cleave_snapshot_create_wait(struct cleave *cleave, const char *name,
    struct cleave_snapshot *ret_snapshot, char *ret_error)
{
	int rc = ask_check_name(name, MANAGE_SNAPSHOT_BYTES_MAX);

	if (rc != 0)
		return ask_refuse(rc, ret_error);
	return ask_wait_one(cleave, &op_create, manage_named(&op_create, name), ret_snapshot,
	    ret_error);
}

/* Create, of several volumes. */

static int
check_group(const char *const names[], uint32_t count)
{
	int rc = count == 0 || count > CLEAVE_GROUP_VOLUMES_MAX ? -EINVAL : 0;

	for (uint32_t i = 0; i < count && rc == 0; i++)
		rc = ask_check_name(names[i], MANAGE_SNAPSHOT_BYTES_MAX);
	return rc;
}

static json_t *
request_group(const char *const names[], uint32_t count)
{
	json_t *request = ask_request(&op_group), *list = json_array();
	bool is_whole = list != NULL;

	assert(check_group(names, count) == 0);
	for (uint32_t i = 0; i < count && is_whole; i++)
		is_whole = json_array_append_new(list, json_string(names[i])) == 0;
	if (!is_whole) {
		json_decref(list);
		json_decref(request);
		return NULL;
	}
	ask_add(&request, "names", list);
	return request;
}

int
cleave_snapshot_create_group(struct cleave_client *client, struct cleave_ask *ask,
    const char *const names[], uint32_t count, cleave_snapshots_fn fn, void *arg)
{
	int rc = check_group(names, count);

	if (rc != 0)
		return rc;
	ask->fn.snapshots = fn;
	ask->arg = arg;
	return ask_start(client, ask, &op_group, request_group(names, count));
}

int
cleave_snapshot_create_group_wait(struct cleave *cleave, const char *const names[], uint32_t count,
    struct cleave_snapshot **ret_snapshots, uint32_t *ret_count, char *ret_error)
{
	struct ask_answer all;
	int rc = check_group(names, count);

	if (rc != 0)
		return ask_refuse(rc, ret_error);
	rc = ask_wait(cleave, &op_group, request_group(names, count), &all, ret_error);
	if (rc != 0)
		return rc;
	*ret_snapshots = all.entries;
	*ret_count = all.count;
	return 0;
}

/* List. */

static json_t *
request_list(const char *volume, uint64_t after)
{
	json_t *request = ask_request(&op_list);

	assert(volume == NULL || ask_check_name(volume, MANAGE_NAME_BYTES_MAX) == 0);
	assert(after <= INT64_MAX);
	if (volume != NULL)
		ask_add_text(&request, "name", volume);
	if (after != 0)
		ask_add(&request, "after", json_integer((json_int_t)after));
	return request;
}

static json_t *
request_list_behind(const char *volume, const void *last)
{
	const struct cleave_snapshot *entry = last;

	return request_list(volume, entry == NULL ? 0 : entry->number);
}

static int
check_list(const char *volume, uint64_t after)
{
	if (after > INT64_MAX)
		return -EINVAL;
	return volume == NULL ? 0 : ask_check_name(volume, MANAGE_NAME_BYTES_MAX);
}

int
cleave_snapshot_list(struct cleave_client *client, struct cleave_ask *ask, const char *volume,
    uint64_t after, cleave_snapshots_fn fn, void *arg)
{
	int rc = check_list(volume, after);

	if (rc != 0)
		return rc;
	ask->fn.snapshots = fn;
	ask->arg = arg;
	return ask_start(client, ask, &op_list, request_list(volume, after));
}

int
cleave_snapshot_list_wait(struct cleave *cleave, const char *volume,
    struct cleave_snapshot **ret_snapshots, uint32_t *ret_count, char *ret_error)
{
	struct ask_answer all;
	int rc = check_list(volume, 0);

	if (rc != 0)
		return ask_refuse(rc, ret_error);
	rc = ask_wait_all(cleave, &op_list, request_list_behind, volume, &all, ret_error);
	if (rc != 0)
		return rc;
	*ret_snapshots = all.entries;
	*ret_count = all.count;
	return 0;
}

/* Delete. */

int
cleave_snapshot_delete(struct cleave_client *client, struct cleave_ask *ask, const char *name,
    cleave_done_fn fn, void *arg)
{
	int rc = ask_check_name(name, MANAGE_SNAPSHOT_BYTES_MAX);

	if (rc != 0)
		return rc;
	ask->fn.done = fn;
	ask->arg = arg;
	return ask_start(client, ask, &op_delete, manage_named(&op_delete, name));
}

int
cleave_snapshot_delete_wait(struct cleave *cleave, const char *name, char *ret_error)
{
	struct ask_answer nothing;
	int rc = ask_check_name(name, MANAGE_SNAPSHOT_BYTES_MAX);

	if (rc != 0)
		return ask_refuse(rc, ret_error);
	return ask_wait(cleave, &op_delete, manage_named(&op_delete, name), &nothing, ret_error);
}

/* Protect. */

int
cleave_snapshot_protect(struct cleave_client *client, struct cleave_ask *ask, const char *name,
    bool is_protected, cleave_done_fn fn, void *arg)
{
	const struct ask_op *op = is_protected ? &op_protect : &op_unprotect;
	int rc = ask_check_name(name, MANAGE_SNAPSHOT_BYTES_MAX);

	if (rc != 0)
		return rc;
	ask->fn.done = fn;
	ask->arg = arg;
	return ask_start(client, ask, op, manage_named(op, name));
}

int
cleave_snapshot_protect_wait(struct cleave *cleave, const char *name, bool is_protected,
    char *ret_error)
{
	const struct ask_op *op = is_protected ? &op_protect : &op_unprotect;
	struct ask_answer nothing;
	int rc = ask_check_name(name, MANAGE_SNAPSHOT_BYTES_MAX);

	if (rc != 0)
		return ask_refuse(rc, ret_error);
	return ask_wait(cleave, op, manage_named(op, name), &nothing, ret_error);
}

/* Rename, and clone: a snapshot, and another name. */

static int
check_new_name(const char *name, const char *new_name)
{
	int rc = ask_check_name(name, MANAGE_SNAPSHOT_BYTES_MAX);

	return rc != 0 ? rc : ask_check_name(new_name, MANAGE_NAME_BYTES_MAX);
}

static json_t *
request_new_name(const struct ask_op *op, const char *name, const char *new_name)
{
	json_t *request = manage_named(op, name);

	assert(check_new_name(name, new_name) == 0);
	ask_add_text(&request, "new", new_name);
	return request;
}

int
cleave_snapshot_rename(struct cleave_client *client, struct cleave_ask *ask, const char *name,
    const char *new_name, cleave_done_fn fn, void *arg)
{
	int rc = check_new_name(name, new_name);

	if (rc != 0)
		return rc;
	ask->fn.done = fn;
	ask->arg = arg;
	return ask_start(client, ask, &op_rename, request_new_name(&op_rename, name, new_name));
}

int
cleave_snapshot_rename_wait(struct cleave *cleave, const char *name, const char *new_name,
    char *ret_error)
{
	struct ask_answer nothing;
	int rc = check_new_name(name, new_name);

	if (rc != 0)
		return ask_refuse(rc, ret_error);
	return ask_wait(cleave, &op_rename, request_new_name(&op_rename, name, new_name), &nothing,
	    ret_error);
}

/* Roll back. */

static int
check_rollback(const char *name, unsigned flags)
{
	if ((flags & ~((unsigned)CLEAVE_MANAGE_FORCE | CLEAVE_MANAGE_SHRINK)) != 0)
		return -EINVAL;
	return ask_check_name(name, MANAGE_SNAPSHOT_BYTES_MAX);
}

static json_t *
request_rollback(const char *name, unsigned flags)
{
	json_t *request = manage_named(&op_rollback, name);

	assert(check_rollback(name, flags) == 0);
	assert((flags & ~((unsigned)CLEAVE_MANAGE_FORCE | CLEAVE_MANAGE_SHRINK)) == 0);
	manage_add_flag(&request, "force", flags, CLEAVE_MANAGE_FORCE);
	manage_add_flag(&request, "shrink", flags, CLEAVE_MANAGE_SHRINK);
	return request;
}

int
cleave_snapshot_rollback(struct cleave_client *client, struct cleave_ask *ask, const char *name,
    unsigned flags, cleave_volume_fn fn, void *arg)
{
	int rc = check_rollback(name, flags);

	if (rc != 0)
		return rc;
	ask->fn.volume = fn;
	ask->arg = arg;
	return ask_start(client, ask, &op_rollback, request_rollback(name, flags));
}

int
cleave_snapshot_rollback_wait(struct cleave *cleave, const char *name, unsigned flags,
    struct cleave_volume_entry *ret_volume, char *ret_error)
{
	int rc = check_rollback(name, flags);

	if (rc != 0)
		return ask_refuse(rc, ret_error);
	return ask_wait_one(cleave, &op_rollback, request_rollback(name, flags), ret_volume,
	    ret_error);
}

/* Clone. */

int
cleave_snapshot_clone(struct cleave_client *client, struct cleave_ask *ask, const char *name,
    const char *new_name, cleave_volume_fn fn, void *arg)
{
	int rc = check_new_name(name, new_name);

	if (rc != 0)
		return rc;
	ask->fn.volume = fn;
	ask->arg = arg;
	return ask_start(client, ask, &op_clone, request_new_name(&op_clone, name, new_name));
}

int
cleave_snapshot_clone_wait(struct cleave *cleave, const char *name, const char *new_name,
    struct cleave_volume_entry *ret_volume, char *ret_error)
{
	int rc = check_new_name(name, new_name);

	if (rc != 0)
		return ask_refuse(rc, ret_error);
	return ask_wait_one(cleave, &op_clone, request_new_name(&op_clone, name, new_name),
	    ret_volume, ret_error);
}
