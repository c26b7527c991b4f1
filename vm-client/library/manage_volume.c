/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manage_volume.c -- volumes created, deleted, listed, shown, renamed, resized: by name, through a gateway
 *
 * Each call has a check of its arguments and a request, which its two forms share: one starts it on the
 * loop, the other waits for it.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "cleave/wire.h"
#include "manage.h"
#include "volume_info.h"

/* Answers. */

static void
volume_read(struct reader *reader, const json_t *object, void *ret_entry)
{
	struct cleave_volume_entry *entry = ret_entry;
	const json_t *writer = json_object_get(object, "holder");

	assert(reader->field == NULL);
	volume_info_read(reader, object, &entry->info);
	entry->info.attach = reader_u64(reader, object, "attach", INT64_MAX);
	if (json_object_get(object, "origin") != NULL)
		entry->origin = reader_u64(reader, object, "origin", INT64_MAX);
	if (json_object_get(object, "key") != NULL)
		entry->key_id = (uint32_t)reader_range(reader, object, "key", 1, UINT32_MAX);
	(void)snprintf(entry->reads, sizeof(entry->reads), "gateway");
	if (json_object_get(object, "reads") != NULL)
		reader_cut(object, "reads", entry->reads, sizeof(entry->reads));
	if (writer == NULL)
		return;
	entry->has_writer = true;
	reader_cut(writer, "client", entry->writer.client, sizeof(entry->writer.client));
	reader_cut(writer, "address", entry->writer.address, sizeof(entry->writer.address));
	entry->writer.since_s = reader_u64(reader, writer, "since_s", INT64_MAX);
}

static bool
volume_rises(const void *before, const void *entry)
{
	const struct cleave_volume_entry *first = before, *second = entry;

	assert(before != entry);
	return strcmp(first->info.name, second->info.name) < 0;
}

static void
volume_deliver(struct cleave_ask *ask, int rc, const struct ask_answer *answer, const char *error)
{
	assert(rc != 0 || answer->count == 1);
	ask->fn.volume(ask, rc, rc == 0 ? answer->entries : NULL, error, ask->arg);
}

static void
volumes_deliver(struct cleave_ask *ask, int rc, const struct ask_answer *answer, const char *error)
{
	const struct cleave_volume_page page = { answer->entries, answer->count, answer->is_more };

	assert((page.volumes == NULL) == (page.volume_count == 0));
	ask->fn.volumes(ask, rc, rc == 0 ? &page : NULL, error, ask->arg);
}

const struct cleave_ask_kind manage_volume = {
	.one = "volume",
	.entry_bytes = sizeof(struct cleave_volume_entry),
	.read = volume_read,
	.deliver = volume_deliver,
};

static const struct cleave_ask_kind manage_volumes = {
	.many = "volumes",
	.entry_bytes = sizeof(struct cleave_volume_entry),
	.is_paged = true,
	.read = volume_read,
	.rises = volume_rises,
	.deliver = volumes_deliver,
};

/* Requests. */

static const struct ask_op op_create = { "volume.create", &manage_volume, true };
static const struct ask_op op_delete = { "volume.delete", &ask_done, true };
static const struct ask_op op_list = { "volume.list", &manage_volumes, false };
static const struct ask_op op_show = { "volume.show", &manage_volume, false };
static const struct ask_op op_rename = { "volume.rename", &manage_volume, true };
static const struct ask_op op_set_size = { "volume.resize", &manage_volume, true };
static const struct ask_op op_set_limits = { "volume.set", &manage_volume, true };
static const struct ask_op op_set_reads = { "volume.reads", &manage_volume, true };
static const struct ask_op op_flatten = { "volume.flatten", &ask_done, true };
static const struct ask_op op_check_size = { "volume.resize", &manage_volume, false };

json_t *
manage_named(const struct ask_op *op, const char *name)
{
	json_t *request = ask_request(op);

	assert(name != NULL);
	ask_add_text(&request, "name", name);
	return request;
}

void
manage_add_flag(json_t **request, const char *member, unsigned flags, unsigned flag)
{
	assert(flag != 0 && (flag & (flag - 1)) == 0); /* one of them */
	if ((flags & flag) != 0)
		ask_add(request, member, json_true());
}

static int
check_size(uint64_t size_bytes)
{
	if (size_bytes == 0 || size_bytes % CLEAVE_BLOCK_BYTES != 0)
		return -EINVAL;
	return size_bytes > CLEAVE_VOLUME_BYTES_MAX ? -ERANGE : 0;
}

static int
check_flags(const char *name, unsigned flags, unsigned known)
{
	assert(known != 0);
	if ((flags & ~known) != 0)
		return -EINVAL;
	return ask_check_name(name, MANAGE_NAME_BYTES_MAX);
}

/* Create. */

static int
check_create(const struct cleave_volume_options *options)
{
	int rc = ask_check_name(options->name, MANAGE_NAME_BYTES_MAX);

	if (rc != 0)
		return rc;
	if (service_class_name(options->service_class) == NULL)
		return -EINVAL;
	if (options->engine != NULL && ask_check_name(options->engine, MANAGE_NAME_BYTES_MAX) != 0)
		return -EINVAL;
	if (options->kek != NULL && ask_check_name(options->kek, MANAGE_NAME_BYTES_MAX) != 0)
		return -EINVAL;
	return check_size(options->size_bytes);
}

static json_t *
request_create(const struct cleave_volume_options *options)
{
	json_t *request = manage_named(&op_create, options->name);

	assert(service_class_name(options->service_class) != NULL);
	assert(check_size(options->size_bytes) == 0);
	ask_add(&request, "size_bytes", json_integer((json_int_t)options->size_bytes));
	ask_add_text(&request, "service_class", service_class_name(options->service_class));
	if (options->engine != NULL)
		ask_add_text(&request, "engine", options->engine);
	if (options->has_level)
		ask_add(&request, "level", json_integer(options->level));
	if (options->replicas != 0)
		ask_add(&request, "replicas", json_integer(options->replicas));
	/* A gateway of before refuses a member that it does not know. */
	if (options->is_encrypted || options->kek != NULL)
		ask_add(&request, "encrypt", json_true());
	if (options->kek != NULL)
		ask_add_text(&request, "kek", options->kek);
	return request;
}

int
cleave_volume_create(struct cleave_client *client, struct cleave_ask *ask,
    const struct cleave_volume_options *options, cleave_volume_fn fn, void *arg)
{
	int rc = check_create(options);

	if (rc != 0)
		return rc;
	ask->fn.volume = fn;
	ask->arg = arg;
	return ask_start(client, ask, &op_create, request_create(options));
}

int
cleave_volume_create_wait(struct cleave *cleave, const struct cleave_volume_options *options,
    struct cleave_volume_entry *ret_volume, char *ret_error)
{
	int rc = check_create(options);

	if (rc != 0)
		return ask_refuse(rc, ret_error);
	return ask_wait_one(cleave, &op_create, request_create(options), ret_volume, ret_error);
}

/* Delete. */

#define DELETE_FLAGS (CLEAVE_MANAGE_FORCE | CLEAVE_MANAGE_SNAPSHOTS | CLEAVE_MANAGE_PURGE)
#define DELETE_KEEP_S_MAX UINT64_C(3155760000) /* a hundred years */

static int
check_delete(const struct cleave_delete_options *options)
{
	bool is_purge = (options->flags & CLEAVE_MANAGE_PURGE) != 0;

	if (options->keep_s > DELETE_KEEP_S_MAX || (is_purge && options->keep_s != 0) ||
	    options->id > INT64_MAX)
		return -EINVAL;
	return check_flags(options->name, options->flags, DELETE_FLAGS);
}

/* Members that a gateway of an older release does not know are left out where they are not asked for. */
static json_t *
request_delete(const struct cleave_delete_options *options)
{
	json_t *request = manage_named(&op_delete, options->name);

	assert(check_delete(options) == 0);
	manage_add_flag(&request, "force", options->flags, CLEAVE_MANAGE_FORCE);
	manage_add_flag(&request, "snapshots", options->flags, CLEAVE_MANAGE_SNAPSHOTS);
	manage_add_flag(&request, "purge", options->flags, CLEAVE_MANAGE_PURGE);
	if (options->keep_s != 0)
		ask_add(&request, "keep_s", json_integer((json_int_t)options->keep_s));
	if (options->id != 0)
		ask_add(&request, "id", json_integer((json_int_t)options->id));
	return request;
}

int
cleave_volume_delete_as(struct cleave_client *client, struct cleave_ask *ask,
    const struct cleave_delete_options *options, cleave_done_fn fn, void *arg)
{
	int rc = check_delete(options);

	if (rc != 0)
		return rc;
	ask->fn.done = fn;
	ask->arg = arg;
	return ask_start(client, ask, &op_delete, request_delete(options));
}

int
cleave_volume_delete_as_wait(struct cleave *cleave, const struct cleave_delete_options *options,
    char *ret_error)
{
	struct ask_answer nothing;
	int rc = check_delete(options);

	if (rc != 0)
		return ask_refuse(rc, ret_error);
	return ask_wait(cleave, &op_delete, request_delete(options), &nothing, ret_error);
}

int
cleave_volume_delete(struct cleave_client *client, struct cleave_ask *ask, const char *name,
    unsigned flags, cleave_done_fn fn, void *arg)
{
	return cleave_volume_delete_as(client, ask,
	    &(struct cleave_delete_options){ .name = name, .flags = flags }, fn, arg);
}

int
cleave_volume_delete_wait(struct cleave *cleave, const char *name, unsigned flags, char *ret_error)
{
	return cleave_volume_delete_as_wait(cleave,
	    &(struct cleave_delete_options){ .name = name, .flags = flags }, ret_error);
}

/* List. */

static json_t *
request_list(const char *after)
{
	json_t *request = ask_request(&op_list);

	if (after != NULL)
		ask_add_text(&request, "after", after);
	return request;
}

/* ask_wait_all's; no name narrows it. */
static json_t *
request_list_behind(const char *name, const void *last)
{
	const struct cleave_volume_entry *entry = last;

	assert(name == NULL);
	(void)name;
	return request_list(entry == NULL ? NULL : entry->info.name);
}

int
cleave_volume_list(struct cleave_client *client, struct cleave_ask *ask, const char *after,
    cleave_volumes_fn fn, void *arg)
{
	int rc = after == NULL ? 0 : ask_check_name(after, MANAGE_NAME_BYTES_MAX);

	if (rc != 0)
		return rc;
	ask->fn.volumes = fn;
	ask->arg = arg;
	return ask_start(client, ask, &op_list, request_list(after));
}

int
cleave_volume_list_wait(struct cleave *cleave, struct cleave_volume_entry **ret_volumes,
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

/* Show. */

int
cleave_volume_show(struct cleave_client *client, struct cleave_ask *ask, const char *name,
    cleave_volume_fn fn, void *arg)
{
	int rc = ask_check_name(name, MANAGE_NAME_BYTES_MAX);

	if (rc != 0)
		return rc;
	ask->fn.volume = fn;
	ask->arg = arg;
	return ask_start(client, ask, &op_show, manage_named(&op_show, name));
}

int
cleave_volume_show_wait(struct cleave *cleave, const char *name,
    struct cleave_volume_entry *ret_volume, char *ret_error)
{
	int rc = ask_check_name(name, MANAGE_NAME_BYTES_MAX);

	if (rc != 0)
		return ask_refuse(rc, ret_error);
	return ask_wait_one(cleave, &op_show, manage_named(&op_show, name), ret_volume, ret_error);
}

/* Rename. */

static int
check_rename(const char *name, const char *new_name)
{
	int rc = ask_check_name(name, MANAGE_NAME_BYTES_MAX);

	return rc != 0 ? rc : ask_check_name(new_name, MANAGE_NAME_BYTES_MAX);
}

static json_t *
request_rename(const char *name, const char *new_name)
{
	json_t *request = manage_named(&op_rename, name);

	assert(check_rename(name, new_name) == 0);
	ask_add_text(&request, "new", new_name);
	return request;
}

int
cleave_volume_rename(struct cleave_client *client, struct cleave_ask *ask, const char *name,
    const char *new_name, cleave_volume_fn fn, void *arg)
{
	int rc = check_rename(name, new_name);

	if (rc != 0)
		return rc;
	ask->fn.volume = fn;
	ask->arg = arg;
	return ask_start(client, ask, &op_rename, request_rename(name, new_name));
}

int
cleave_volume_rename_wait(struct cleave *cleave, const char *name, const char *new_name,
    struct cleave_volume_entry *ret_volume, char *ret_error)
{
	int rc = check_rename(name, new_name);

	if (rc != 0)
		return ask_refuse(rc, ret_error);
	return ask_wait_one(cleave, &op_rename, request_rename(name, new_name), ret_volume,
	    ret_error);
}

/* Resize. */

#define SET_SIZE_FLAGS (CLEAVE_MANAGE_FORCE | CLEAVE_MANAGE_SHRINK | CLEAVE_MANAGE_CHECK)

static int
check_set_size(const char *name, uint64_t size_bytes, unsigned flags)
{
	int rc = check_flags(name, flags, SET_SIZE_FLAGS);

	return rc != 0 ? rc : check_size(size_bytes);
}

static json_t *
request_set_size(const char *name, uint64_t size_bytes, unsigned flags)
{
	json_t *request = manage_named(&op_set_size, name);

	assert(ask_check_name(name, MANAGE_NAME_BYTES_MAX) == 0);
	assert(check_size(size_bytes) == 0 && (flags & ~(unsigned)SET_SIZE_FLAGS) == 0);
	ask_add(&request, "size_bytes", json_integer((json_int_t)size_bytes));
	manage_add_flag(&request, "force", flags, CLEAVE_MANAGE_FORCE);
	manage_add_flag(&request, "shrink", flags, CLEAVE_MANAGE_SHRINK);
	manage_add_flag(&request, "check", flags, CLEAVE_MANAGE_CHECK);
	return request;
}

static const struct ask_op *
set_size_op(unsigned flags)
{
	assert((flags & ~(unsigned)SET_SIZE_FLAGS) == 0);
	return (flags & CLEAVE_MANAGE_CHECK) != 0 ? &op_check_size : &op_set_size;
}

int
cleave_volume_set_size(struct cleave_client *client, struct cleave_ask *ask, const char *name,
    uint64_t size_bytes, unsigned flags, cleave_volume_fn fn, void *arg)
{
	int rc = check_set_size(name, size_bytes, flags);

	if (rc != 0)
		return rc;
	ask->fn.volume = fn;
	ask->arg = arg;
	return ask_start(client, ask, set_size_op(flags),
	    request_set_size(name, size_bytes, flags));
}

int
cleave_volume_set_size_wait(struct cleave *cleave, const char *name, uint64_t size_bytes,
    unsigned flags, struct cleave_volume_entry *ret_volume, char *ret_error)
{
	int rc = check_set_size(name, size_bytes, flags);

	if (rc != 0)
		return ask_refuse(rc, ret_error);
	return ask_wait_one(cleave, set_size_op(flags), request_set_size(name, size_bytes, flags),
	    ret_volume, ret_error);
}

/* Limits. */

static json_t *
request_set_limits(const char *name, const struct cleave_limits *limits)
{
	json_t *request = manage_named(&op_set_limits, name);

	assert(ask_check_name(name, MANAGE_NAME_BYTES_MAX) == 0);
	/* More than a JSON number holds is out of range all the same. */
#define ADD_LIMIT(member, least, most)                                                             \
	if (limits->member != CLEAVE_LIMIT_KEEP)                                                   \
		ask_add(&request, #member,                                                         \
		    json_integer(                                                                  \
			(json_int_t)(limits->member > INT64_MAX ? INT64_MAX : limits->member)));
	CLEAVE_LIMIT_LIST(ADD_LIMIT)
#undef ADD_LIMIT
	return request;
}

int
cleave_volume_set_limits(struct cleave_client *client, struct cleave_ask *ask, const char *name,
    const struct cleave_limits *limits, cleave_volume_fn fn, void *arg)
{
	int rc = ask_check_name(name, MANAGE_NAME_BYTES_MAX);

	if (rc != 0)
		return rc;
	ask->fn.volume = fn;
	ask->arg = arg;
	return ask_start(client, ask, &op_set_limits, request_set_limits(name, limits));
}

int
cleave_volume_set_limits_wait(struct cleave *cleave, const char *name,
    const struct cleave_limits *limits, struct cleave_volume_entry *ret_volume, char *ret_error)
{
	int rc = ask_check_name(name, MANAGE_NAME_BYTES_MAX);

	if (rc != 0)
		return ask_refuse(rc, ret_error);
	return ask_wait_one(cleave, &op_set_limits, request_set_limits(name, limits), ret_volume,
	    ret_error);
}

/* Where it is read. */

static int
check_set_reads(const char *name, const char *reads, unsigned flags)
{
	int rc = ask_check_name(reads, MANAGE_NAME_BYTES_MAX);

	return rc != 0 ? rc : check_flags(name, flags, CLEAVE_MANAGE_FORCE);
}

static json_t *
request_set_reads(const char *name, const char *reads, unsigned flags)
{
	json_t *request = manage_named(&op_set_reads, name);

	assert(check_set_reads(name, reads, flags) == 0);
	ask_add_text(&request, "reads", reads);
	manage_add_flag(&request, "force", flags, CLEAVE_MANAGE_FORCE);
	return request;
}

int
cleave_volume_set_reads(struct cleave_client *client, struct cleave_ask *ask, const char *name,
    const char *reads, unsigned flags, cleave_volume_fn fn, void *arg)
{
	int rc = check_set_reads(name, reads, flags);

	if (rc != 0)
		return rc;
	ask->fn.volume = fn;
	ask->arg = arg;
	return ask_start(client, ask, &op_set_reads, request_set_reads(name, reads, flags));
}

int
cleave_volume_set_reads_wait(struct cleave *cleave, const char *name, const char *reads,
    unsigned flags, struct cleave_volume_entry *ret_volume, char *ret_error)
{
	int rc = check_set_reads(name, reads, flags);

	if (rc != 0)
		return ask_refuse(rc, ret_error);
	return ask_wait_one(cleave, &op_set_reads, request_set_reads(name, reads, flags),
	    ret_volume, ret_error);
}

/* Flatten. */

static json_t *
request_flatten(const char *name, unsigned flags)
{
	json_t *request = manage_named(&op_flatten, name);

	assert((flags & ~(unsigned)CLEAVE_MANAGE_CANCEL) == 0);
	manage_add_flag(&request, "cancel", flags, CLEAVE_MANAGE_CANCEL);
	return request;
}

int
cleave_volume_flatten(struct cleave_client *client, struct cleave_ask *ask, const char *name,
    unsigned flags, cleave_done_fn fn, void *arg)
{
	int rc = check_flags(name, flags, CLEAVE_MANAGE_CANCEL);

	if (rc != 0)
		return rc;
	ask->fn.done = fn;
	ask->arg = arg;
	return ask_start(client, ask, &op_flatten, request_flatten(name, flags));
}

int
cleave_volume_flatten_wait(struct cleave *cleave, const char *name, unsigned flags, char *ret_error)
{
	struct ask_answer nothing;
	int rc = check_flags(name, flags, CLEAVE_MANAGE_CANCEL);

	if (rc != 0)
		return ask_refuse(rc, ret_error);
	return ask_wait(cleave, &op_flatten, request_flatten(name, flags), &nothing, ret_error);
}
