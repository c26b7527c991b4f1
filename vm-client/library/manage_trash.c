/* SPDX-License-Identifier: Apache-2.0 */
/* manage_trash.c -- deleted volumes listed, restored, purged: by id, or by the name that they had */
#include <errno.h>

#include "base/check.h"
#include "manage.h"

/* Answers. */

static void
trash_read(struct reader *reader, const json_t *object, void *ret_entry)
{
	struct cleave_trash_entry *entry = ret_entry;

	assert(reader->field == NULL);
	reader_text(reader, object, "name", entry->name, sizeof(entry->name));
	entry->id = reader_range(reader, object, "id", 1, INT64_MAX);
	entry->size_bytes = reader_u64(reader, object, "size_bytes", CLEAVE_VOLUME_BYTES_MAX);
	entry->snapshot_count = (uint32_t)reader_u64(reader, object, "snapshots", UINT32_MAX);
	entry->deleted_s = reader_u64(reader, object, "deleted_s", INT64_MAX);
	entry->keep_s = reader_u64(reader, object, "keep_s", INT64_MAX);
	entry->left_s = reader_u64(reader, object, "left_s", INT64_MAX);
	reader_cut(object, "by", entry->by, sizeof(entry->by));
}

static bool
trash_rises(const void *before, const void *entry)
{
	const struct cleave_trash_entry *first = before, *second = entry;

	assert(first != second);
	return first->id < second->id;
}

static void
trash_deliver(struct cleave_ask *ask, int rc, const struct ask_answer *answer, const char *error)
{
	const struct cleave_trash_page page = { answer->entries, answer->count, answer->is_more };

	assert((page.volumes == NULL) == (page.volume_count == 0));
	ask->fn.trash(ask, rc, rc == 0 ? &page : NULL, error, ask->arg);
}

static const struct cleave_ask_kind manage_trash = {
	.many = "volumes",
	.entry_bytes = sizeof(struct cleave_trash_entry),
	.is_paged = true,
	.read = trash_read,
	.rises = trash_rises,
	.deliver = trash_deliver,
};

static const struct ask_op op_list = { "trash.list", &manage_trash, false };
static const struct ask_op op_restore = { "trash.restore", &manage_volume, true };
static const struct ask_op op_purge = { "trash.purge", &ask_done, true };

/* List. */

static json_t *
request_list(uint64_t after)
{
	json_t *request = ask_request(&op_list);

	assert(after <= INT64_MAX);
	if (after != 0)
		ask_add(&request, "after", json_integer((json_int_t)after));
	return request;
}

/* ask_wait_all's; no name narrows it. */
static json_t *
request_list_behind(const char *name, const void *last)
{
	const struct cleave_trash_entry *entry = last;

	assert(name == NULL);
	(void)name;
	return request_list(entry == NULL ? 0 : entry->id);
}

int
cleave_trash_list(struct cleave_client *client, struct cleave_ask *ask, uint64_t after,
    cleave_trash_fn fn, void *arg)
{
	if (after > INT64_MAX)
		return -EINVAL;
	ask->fn.trash = fn;
	ask->arg = arg;
	return ask_start(client, ask, &op_list, request_list(after));
}

int
cleave_trash_list_wait(struct cleave *cleave, struct cleave_trash_entry **ret_volumes,
    uint32_t *ret_count, char *ret_error)
{
	struct ask_answer all;
	int rc = ask_wait_all(cleave, &op_list, request_list_behind, NULL, &all, ret_error);

	if (rc != 0)
		return rc;
	*ret_volumes = all.entries;
	*ret_count = all.count;
	return 0;
}

/* Restore. */

static int
check_restore(const char *which, const char *new_name)
{
	int rc = ask_check_name(which, MANAGE_NAME_BYTES_MAX);

	if (rc != 0 || new_name == NULL)
		return rc;
	return ask_check_name(new_name, MANAGE_NAME_BYTES_MAX);
}

static json_t *
request_restore(const char *which, const char *new_name)
{
	json_t *request = manage_named(&op_restore, which);

	assert(check_restore(which, new_name) == 0);
	if (new_name != NULL)
		ask_add_text(&request, "new", new_name);
	return request;
}

int
cleave_trash_restore(struct cleave_client *client, struct cleave_ask *ask, const char *which,
    const char *new_name, cleave_volume_fn fn, void *arg)
{
	int rc = check_restore(which, new_name);

	if (rc != 0)
		return rc;
	ask->fn.volume = fn;
	ask->arg = arg;
	return ask_start(client, ask, &op_restore, request_restore(which, new_name));
}

int
cleave_trash_restore_wait(struct cleave *cleave, const char *which, const char *new_name,
    struct cleave_volume_entry *ret_volume, char *ret_error)
{
	int rc = check_restore(which, new_name);

	if (rc != 0)
		return ask_refuse(rc, ret_error);
	return ask_wait_one(cleave, &op_restore, request_restore(which, new_name), ret_volume,
	    ret_error);
}

/* Purge. */

int
cleave_trash_purge(struct cleave_client *client, struct cleave_ask *ask, const char *which,
    cleave_done_fn fn, void *arg)
{
	int rc = ask_check_name(which, MANAGE_NAME_BYTES_MAX);

	if (rc != 0)
		return rc;
	ask->fn.done = fn;
	ask->arg = arg;
	return ask_start(client, ask, &op_purge, manage_named(&op_purge, which));
}

int
cleave_trash_purge_wait(struct cleave *cleave, const char *which, char *ret_error)
{
	struct ask_answer nothing;
	int rc = ask_check_name(which, MANAGE_NAME_BYTES_MAX);

	if (rc != 0)
		return ask_refuse(rc, ret_error);
	return ask_wait(cleave, &op_purge, manage_named(&op_purge, which), &nothing, ret_error);
}
