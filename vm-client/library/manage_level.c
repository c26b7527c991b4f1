/* SPDX-License-Identifier: Apache-2.0 */
/* manage_level.c -- the cluster's level: asked for, raised */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "manage.h"

/* Answers. */

static void
level_read(struct reader *reader, const json_t *object, void *ret_entry)
{
	assert(reader->field == NULL);
	struct cleave_cluster_level *level = ret_entry;
	const json_t *missing = reader_array(reader, object, "missing", 0, ASK_ENTRIES_MAX), *who;
	size_t i, used = 0;

	level->level = (uint32_t)reader_range(reader, object, "level", 1, UINT8_MAX);
	level->from = (uint32_t)reader_range(reader, object, "from", 1, UINT8_MAX);
	level->next = (uint32_t)reader_u64(reader, object, "next", UINT8_MAX);
	level->missing_count = (uint32_t)json_array_size(missing);
	json_array_foreach(missing, i, who)
	{
		if (!json_is_string(who))
			reader_fail(reader, "missing");
		else if (used < sizeof(level->missing) - 1)
			used += (size_t)snprintf(level->missing + used,
			    sizeof(level->missing) - used, "%s%s", i == 0 ? "" : "\n",
			    json_string_value(who)); /* cut where too long */
	}
}

static void
level_deliver(struct cleave_ask *ask, int rc, const struct ask_answer *answer, const char *error)
{
	assert(rc != 0 || answer->count == 1);
	ask->fn.level(ask, rc, rc == 0 ? answer->entries : NULL, error, ask->arg);
}

static const struct cleave_ask_kind manage_level = {
	.one = "",
	.entry_bytes = sizeof(struct cleave_cluster_level),
	.read = level_read,
	.deliver = level_deliver,
};

static const struct ask_op op_level = { "cluster.level", &manage_level, false };
static const struct ask_op op_upgrade = { "cluster.upgrade", &manage_level, true };

/* Calls. */

static json_t *
level_request(const struct ask_op *op, const char *const *without, uint32_t count)
{
	json_t *request = ask_request(op), *array;

	assert(without != NULL || count == 0);
	if (count == 0)
		return request;
	array = json_array();
	for (uint32_t i = 0; i < count; i++)
		json_array_append_new(array, json_string(without[i]));
	/* A text that is none, or no memory: one is missing. */
	if (json_array_size(array) != count) {
		json_decref(array);
		array = NULL;
	}
	ask_add(&request, "without", array);
	return request;
}

static int
level_start(struct cleave_client *client, struct cleave_ask *ask, const struct ask_op *op,
    json_t *request, cleave_level_fn fn, void *arg)
{
	assert(op->kind == &manage_level);
	ask->fn.level = fn;
	ask->arg = arg;
	return ask_start(client, ask, op, request);
}

int
cleave_cluster_level(struct cleave_client *client, struct cleave_ask *ask,
    const char *const *without, uint32_t without_count, cleave_level_fn fn, void *arg)
{
	return level_start(client, ask, &op_level, level_request(&op_level, without, without_count),
	    fn, arg);
}

int
cleave_cluster_level_wait(struct cleave *cleave, const char *const *without, uint32_t without_count,
    struct cleave_cluster_level *ret_level, char *ret_error)
{
	return ask_wait_one(cleave, &op_level, level_request(&op_level, without, without_count),
	    ret_level, ret_error);
}

int
cleave_cluster_upgrade(struct cleave_client *client, struct cleave_ask *ask,
    const char *const *without, uint32_t without_count, cleave_level_fn fn, void *arg)
{
	return level_start(client, ask, &op_upgrade,
	    level_request(&op_upgrade, without, without_count), fn, arg);
}

int
cleave_cluster_upgrade_wait(struct cleave *cleave, const char *const *without,
    uint32_t without_count, struct cleave_cluster_level *ret_level, char *ret_error)
{
	return ask_wait_one(cleave, &op_upgrade, level_request(&op_upgrade, without, without_count),
	    ret_level, ret_error);
}
