/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json.c -- JSON of keys and of control requests: strict reading, and what keys and answers have in common
 *
 * An object's members are all known, of the right type and in range; the first one that is not is named.
 */
#include "catalog/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "catalog/holder.h"
#include "catalog/scope.h"
#include "catalog/wish.h"
#include "common/limits.h"

/* ---- values that are texts ---- */

static const char *const service_class_names[SERVICE_CLASS_NR] = {
	[SERVICE_STANDARD] = "standard",
	[SERVICE_LATENCY] = "latency",
	[SERVICE_CAPACITY] = "capacity",
};

const char *
mt_service_class_name(enum service_class service_class)
{
	assert(service_class < SERVICE_CLASS_NR);
	return service_class_names[service_class];
}

int
mt_service_class_parse(const char *name, enum service_class *ret_class)
{
	for (unsigned i = 0; i < SERVICE_CLASS_NR; i++) {
		if (strcmp(name, service_class_names[i]) == 0) {
			*ret_class = (enum service_class)i;
			return 0;
		}
	}
	return -EINVAL;
}

int
mt_hex_parse(const char *text, uint64_t *ret_value)
{
	if (strlen(text) != 16 || strspn(text, "0123456789abcdefABCDEF") != 16)
		return -EINVAL;
	*ret_value = strtoull(text, NULL, 16);
	return 0;
}

/* ---- members ---- */

static int __attribute__((format(printf, 2, 3)))
json_refuse(char ret_error[MT_ERROR_BYTES], const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(ret_error, MT_ERROR_BYTES, format, args); /* cut where too long */
	va_end(args);
	return -EINVAL;
}

static int
json_read_u64(const json_t *value, const struct mt_json_member *member,
    char ret_error[MT_ERROR_BYTES])
{
	assert(member->max == 0 || member->min <= member->max);
	json_int_t number = json_integer_value(value);

	if (!json_is_integer(value))
		return json_refuse(ret_error, "%s: must be an integer", member->name);
	if (number < 0 || (uint64_t)number < member->min ||
	    (member->max != 0 && (uint64_t)number > member->max)) {
		if (member->max == 0)
			return json_refuse(ret_error, "%s: must be at least %" PRIu64, member->name,
			    member->min);
		return json_refuse(ret_error, "%s: must be %" PRIu64 " to %" PRIu64, member->name,
		    member->min, member->max);
	}
	*member->ret.u64 = (uint64_t)number;
	return 0;
}

static int
json_read_text(const json_t *value, const struct mt_json_member *member,
    char ret_error[MT_ERROR_BYTES])
{
	if (!json_is_string(value))
		return json_refuse(ret_error, "%s: must be a string", member->name);
	if (member->max != 0 && json_string_length(value) > member->max)
		return json_refuse(ret_error, "%s: at most %" PRIu64 " characters", member->name,
		    member->max);
	*member->ret.text = json_string_value(value);
	return 0;
}

static int
json_read_member(const json_t *value, const struct mt_json_member *member,
    char ret_error[MT_ERROR_BYTES])
{
	switch (member->kind) {
	case MT_JSON_TEXT:
		return json_read_text(value, member, ret_error);
	case MT_JSON_U64:
		return json_read_u64(value, member, ret_error);
	case MT_JSON_ARRAY:
		if (!json_is_array(value))
			return json_refuse(ret_error, "%s: must be a list", member->name);
		*member->ret.array = (json_t *)(uintptr_t)value;
		return 0;
	case MT_JSON_OBJECT:
		if (!json_is_object(value))
			return json_refuse(ret_error, "%s: must be an object", member->name);
		*member->ret.object = (json_t *)(uintptr_t)value;
		return 0;
	case MT_JSON_I64:
		if (!json_is_integer(value))
			return json_refuse(ret_error, "%s: must be an integer", member->name);
		*member->ret.i64 = json_integer_value(value);
		return 0;
	default:
		if (!json_is_boolean(value))
			return json_refuse(ret_error, "%s: must be true or false", member->name);
		*member->ret.flag = json_is_true(value);
		return 0;
	}
}

int
mt_json_read(const json_t *object, const struct mt_json_member *members, uint32_t count,
    char ret_error[MT_ERROR_BYTES])
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)object, key, value)
	{
		uint32_t i = 0;

		if (strcmp(key, "op") == 0)
			continue;
		while (i < count && strcmp(key, members[i].name) != 0)
			i++;
		if (i == count)
			return json_refuse(ret_error, "%.64s: unknown member", key);
	}
	for (uint32_t i = 0; i < count; i++) {
		int rc;

		value = json_object_get(object, members[i].name);
		if (value == NULL && members[i].is_required)
			return json_refuse(ret_error, "%s: missing", members[i].name);
		if (value == NULL)
			continue;
		rc = json_read_member(value, &members[i], ret_error);
		if (rc != 0)
			return rc;
	}
	return 0;
}

/* ---- a volume; NULL from jansson is out of memory, and its packers pass it on ---- */

json_t *
mt_json_volume(const struct mt_volume *volume)
{
	struct mt_wish wish;
	bool is_known = mt_wish_by_id(volume->codec_id, &wish);
	json_t *object;

	assert(is_known); /* whoever made or read the volume has checked */
	object = json_pack("{s:s, s:I, s:I, s:s, s:s, s:i, s:i, s:I, s:i, s:I}", "name",
	    volume->name, "id", (json_int_t)volume->id, "size_bytes",
	    (json_int_t)volume->size_bytes, "service_class",
	    mt_service_class_name(volume->service_class), "engine", wish.name, "level",
	    volume->level, "replicas", (int)volume->replica_count, "segment_base",
	    (json_int_t)volume->segment_base, "segment_count", (int)volume->segment_count, "attach",
	    (json_int_t)volume->attach);
	if (object != NULL && volume->origin != 0)
		json_object_set_new(object, "origin", json_integer((json_int_t)volume->origin));
	return object;
}

json_t *
mt_json_volume_held(const struct mt_volume *volume)
{
	json_t *object = mt_json_volume(volume);

	if (object == NULL || mt_json_put_holder(object, volume) == 0)
		return object;
	json_decref(object);
	return NULL;
}

/* ---- a scope ---- */

int
mt_json_put_scope(json_t *object, const struct mt_scope *scope, uint64_t segment_base)
{
	json_t *spans;

	assert(json_is_object(object));
	assert(scope->span_count <= MT_SPANS_MAX);
	if (mt_scope_is_plain(scope, segment_base))
		return 0;
	spans = json_array();
	for (uint32_t i = 0; i < scope->span_count; i++) {
		const struct mt_span *span = &scope->spans[i];
		json_t *numbers =
		    json_pack("[I, I]", (json_int_t)span->segment_base, (json_int_t)span->cut_from);

		if (span->cut_below != UINT64_MAX)
			json_array_append_new(numbers, json_integer((json_int_t)span->cut_below));
		json_array_append_new(spans, numbers);
	}
	return json_object_set_new(object, "spans", spans);
}

const char *
mt_json_take_scope(const json_t *spans, uint64_t segment_base, struct mt_scope *ret_scope)
{
	struct mt_scope scope = { .span_count = (uint32_t)json_array_size(spans) };
	const char *problem;

	mt_scope_init(ret_scope, segment_base);
	if (spans == NULL)
		return NULL;
	if (json_array_size(spans) > MT_SPANS_MAX)
		return "spans: too many";
	for (uint32_t i = 0; i < scope.span_count; i++) {
		const json_t *span = json_array_get(spans, i);
		uint64_t numbers[3] = { 0, 0, UINT64_MAX };
		size_t count = json_array_size(span);

		if (count != 2 && count != 3)
			return "spans: a span has two or three numbers";
		for (uint32_t k = 0; k < count; k++) {
			const json_t *number = json_array_get(span, k);

			if (!json_is_integer(number) || json_integer_value(number) < 0)
				return "spans: must be integers";
			numbers[k] = (uint64_t)json_integer_value(number);
		}
		scope.spans[i] = (struct mt_span){ numbers[0], numbers[1], numbers[2] };
	}
	problem = mt_scope_check(&scope, segment_base);
	if (problem == NULL)
		*ret_scope = scope;
	return problem;
}
