/* SPDX-License-Identifier: Apache-2.0 */
/* reader.c -- see reader.h; a library of its own, so that who reads no JSON needs no jansson */
#include "base/reader.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

#define READER_NAME_BYTES 64 /* of a member's name, in a sentence: it may be somebody else's */
#define READER_HEX_DIGITS 16u

/* ---- what is wrong ---- */

static void
reader_blame(struct reader *reader, const char *name, enum reader_problem problem)
{
	assert(name != NULL);
	assert(problem < READER_PROBLEM_NR);
	if (reader->field != NULL)
		return;
	*reader = (struct reader){ .field = name, .problem = problem };
}

static void
reader_blame_range(struct reader *reader, const char *name, enum reader_problem problem,
    uint64_t min, uint64_t max)
{
	assert(name != NULL);
	assert(min <= max);
	if (reader->field == NULL)
		*reader = (struct reader){ name, problem, min, max };
}

void
reader_fail(struct reader *reader, const char *name)
{
	assert(reader->field == NULL || reader->problem < READER_PROBLEM_NR);
	reader_blame(reader, name, READER_IS_WRONG);
}

int
reader_rc(const struct reader *reader)
{
	assert(reader->field == NULL || reader->problem < READER_PROBLEM_NR);
	if (reader->field == NULL)
		return 0;
	return reader->problem == READER_NO_MEMORY ? -ENOMEM : -EBADMSG;
}

void
reader_say(const struct reader *reader, char ret_text[READER_ERROR_BYTES])
{
	static const char *const says[READER_PROBLEM_NR] = {
		[READER_IS_WRONG] = ": makes no sense",
		[READER_NO_MEMORY] = "",
		[READER_NO_OBJECT] = "",
		[READER_IS_MISSING] = ": missing",
		[READER_IS_UNKNOWN] = ": unknown member",
		[READER_WANTS_INTEGER] = ": must be an integer",
		[READER_WANTS_RANGE] = ": must be",
		[READER_WANTS_TEXT] = ": must be a string",
		[READER_WANTS_SHORTER] = ": at most",
		[READER_WANTS_HEX] = ": must be 16 hex digits",
		[READER_WANTS_BOOL] = ": must be true or false",
		[READER_WANTS_LIST] = ": must be a list",
		[READER_WANTS_OBJECT] = ": must be an object",
	};
	char more[64] = "";

	assert(reader->field != NULL);
	assert(reader->problem < READER_PROBLEM_NR);
	if (reader->problem == READER_WANTS_SHORTER)
		(void)snprintf(more, sizeof(more), " %" PRIu64 " characters", reader->max);
	else if (reader->problem == READER_WANTS_RANGE && reader->max == UINT64_MAX)
		(void)snprintf(more, sizeof(more), " at least %" PRIu64, reader->min);
	else if (reader->problem == READER_WANTS_RANGE)
		(void)snprintf(more, sizeof(more), " %" PRIu64 " to %" PRIu64, reader->min,
		    reader->max);
	(void)snprintf(ret_text, READER_ERROR_BYTES, "%.*s%s%s", READER_NAME_BYTES, reader->field,
	    says[reader->problem], more);
}

/* ---- an object ---- */

json_t *
reader_load(struct reader *reader, const void *text, size_t bytes)
{
	json_error_t error;
	json_t *object = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);

	assert(text != NULL || bytes == 0);
	if (json_is_object(object))
		return object;
	if (object == NULL && json_error_code(&error) == json_error_out_of_memory)
		reader_blame(reader, "memory", READER_NO_MEMORY);
	else
		reader_blame(reader, "not a JSON object", READER_NO_OBJECT);
	json_decref(object);
	return NULL;
}

/* ---- a value; an absent one is of the wrong type ---- */

uint64_t
reader_number(struct reader *reader, const json_t *value, const char *name, uint64_t min,
    uint64_t max)
{
	json_int_t number = json_integer_value(value);

	assert(min <= max);
	if (!json_is_integer(value))
		reader_blame(reader, name, READER_WANTS_INTEGER);
	else if (number < 0 || (uint64_t)number < min || (uint64_t)number > max)
		reader_blame_range(reader, name, READER_WANTS_RANGE, min, max);
	else
		return (uint64_t)number;
	return 0;
}

int64_t
reader_signed(struct reader *reader, const json_t *value, const char *name, int64_t min,
    int64_t max)
{
	json_int_t number = json_integer_value(value);

	assert(min <= max);
	if (!json_is_integer(value))
		reader_blame(reader, name, READER_WANTS_INTEGER);
	else if (number < min || number > max)
		reader_fail(reader, name);
	else
		return number;
	return 0;
}

void
reader_copy(struct reader *reader, const json_t *value, const char *name, char *ret_text,
    size_t bytes)
{
	size_t length = json_string_length(value);

	assert(bytes > 0);
	if (!json_is_string(value))
		reader_blame(reader, name, READER_WANTS_TEXT);
	else if (length >= bytes)
		reader_blame_range(reader, name, READER_WANTS_SHORTER, 0, bytes - 1);
	else
		memcpy(ret_text, json_string_value(value), length + 1);
}

/* ---- a member ---- */

uint64_t
reader_range(struct reader *reader, const json_t *object, const char *name, uint64_t min,
    uint64_t max)
{
	assert(name != NULL);
	return reader_number(reader, json_object_get(object, name), name, min, max);
}

uint64_t
reader_u64(struct reader *reader, const json_t *object, const char *name, uint64_t max)
{
	return reader_range(reader, object, name, 0, max);
}

uint64_t
reader_id(struct reader *reader, const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	assert(name != NULL);
	if (text != NULL && strlen(text) == READER_HEX_DIGITS &&
	    strspn(text, "0123456789abcdef") == READER_HEX_DIGITS)
		return strtoull(text, NULL, 16);
	reader_blame(reader, name, READER_WANTS_HEX);
	return 0;
}

bool
reader_bool(struct reader *reader, const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);

	assert(name != NULL);
	if (!json_is_boolean(value))
		reader_blame(reader, name, READER_WANTS_BOOL);
	return json_is_true(value);
}

void
reader_text(struct reader *reader, const json_t *object, const char *name, char *ret_text,
    size_t bytes)
{
	assert(ret_text != NULL);
	reader_copy(reader, json_object_get(object, name), name, ret_text, bytes);
}

void
reader_cut(const json_t *object, const char *name, char *ret_text, size_t bytes)
{
	const char *text = json_string_value(json_object_get(object, name));

	assert(bytes > 0);
	(void)snprintf(ret_text, bytes, "%s", text == NULL ? "" : text);
}

const json_t *
reader_array(struct reader *reader, const json_t *object, const char *name, size_t min, size_t max)
{
	const json_t *array = json_object_get(object, name);

	assert(min <= max);
	if (json_is_array(array) && json_array_size(array) >= min && json_array_size(array) <= max)
		return array;
	reader_blame_range(reader, name, READER_WANTS_LIST, min, max);
	return NULL;
}

const json_t *
reader_object(struct reader *reader, const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);

	assert(name != NULL);
	if (json_is_object(value))
		return value;
	reader_blame(reader, name, READER_WANTS_OBJECT);
	return NULL;
}

/* ---- all members at once ---- */

static void
reader_take_text(struct reader *reader, const json_t *value, const struct reader_member *member)
{
	assert(member->kind == READER_TEXT);
	if (!json_is_string(value))
		reader_blame(reader, member->name, READER_WANTS_TEXT);
	else if (member->max != 0 && json_string_length(value) > member->max)
		reader_blame_range(reader, member->name, READER_WANTS_SHORTER, 0, member->max);
	else
		*member->ret.text = json_string_value(value);
}

static void
reader_take_u64(struct reader *reader, const json_t *value, const struct reader_member *member)
{
	uint64_t max = member->max == 0 ? UINT64_MAX : member->max;
	uint64_t number = reader_number(reader, value, member->name, member->min, max);

	assert(member->kind == READER_U64);
	assert(member->min <= max);
	if (reader->field == NULL)
		*member->ret.u64 = number;
}

static void
reader_take(struct reader *reader, json_t *value, const struct reader_member *member)
{
	assert(reader->field == NULL);
	assert(member->kind < READER_KIND_NR);
	if (member->kind == READER_TEXT)
		reader_take_text(reader, value, member);
	else if (member->kind == READER_U64)
		reader_take_u64(reader, value, member);
	else if (member->kind == READER_I64 && json_is_integer(value))
		*member->ret.i64 = json_integer_value(value);
	else if (member->kind == READER_I64)
		reader_blame(reader, member->name, READER_WANTS_INTEGER);
	else if (member->kind == READER_ARRAY && json_is_array(value))
		*member->ret.array = value;
	else if (member->kind == READER_ARRAY)
		reader_blame(reader, member->name, READER_WANTS_LIST);
	else if (member->kind == READER_OBJECT && json_is_object(value))
		*member->ret.object = value;
	else if (member->kind == READER_OBJECT)
		reader_blame(reader, member->name, READER_WANTS_OBJECT);
	else if (json_is_boolean(value))
		*member->ret.flag = json_is_true(value);
	else
		reader_blame(reader, member->name, READER_WANTS_BOOL);
}

/* Is there a member that is none of @members? */
static void
reader_look_for_unknown(struct reader *reader, const json_t *object,
    const struct reader_member *members, uint32_t count)
{
	const char *key;
	json_t *value;

	assert(reader->field == NULL);
	json_object_foreach((json_t *)(uintptr_t)object, key, value)
	{
		uint32_t i = 0;

		if (strcmp(key, "op") == 0)
			continue;
		while (i < count && strcmp(key, members[i].name) != 0)
			i++;
		if (i == count)
			reader_blame(reader, key, READER_IS_UNKNOWN);
	}
}

int
reader_strict(const json_t *object, const struct reader_member *members, uint32_t count,
    char ret_error[READER_ERROR_BYTES])
{
	struct reader reader = { 0 };

	assert(json_is_object(object));
	assert(members != NULL || count == 0);
	reader_look_for_unknown(&reader, object, members, count);
	for (uint32_t i = 0; i < count && reader.field == NULL; i++) {
		json_t *value = json_object_get(object, members[i].name);

		if (value != NULL)
			reader_take(&reader, value, &members[i]);
		else if (members[i].is_required)
			reader_blame(&reader, members[i].name, READER_IS_MISSING);
	}
	if (reader.field == NULL)
		return 0;
	reader_say(&reader, ret_error);
	return -EINVAL;
}
