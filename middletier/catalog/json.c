/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json.c -- JSON that keys of the store and answers to control requests have in common
 *
 * base/reader.h reads what came from elsewhere.
 */
#include "catalog/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "catalog/holder.h"
#include "catalog/qos.h"
#include "catalog/reads.h"
#include "catalog/scope.h"
#include "catalog/wish.h"
#include "common/limits.h"

/* ---- keys ---- */

int
mt_json_load(const void *value, uint32_t bytes, const struct reader_member *members, uint32_t count,
    json_t **ret_object, const char **ret_field)
{
	static _Thread_local char error[READER_ERROR_BYTES];
	struct reader reader = { 0 };

	assert(value != NULL || bytes == 0);
	*ret_object = reader_load(&reader, value, bytes);
	if (*ret_object == NULL) {
		*ret_field = "not a JSON object";
		return reader_rc(&reader) == -ENOMEM ? -ENOMEM : -EINVAL;
	}
	*ret_field = error;
	return reader_strict(*ret_object, members, count, error);
}

/* ---- values that are texts ---- */

int
mt_hex_parse(const char *text, uint64_t *ret_value)
{
	assert(text != NULL);
	if (strlen(text) != 16 || strspn(text, "0123456789abcdefABCDEF") != 16)
		return -EINVAL;
	*ret_value = strtoull(text, NULL, 16);
	return 0;
}

/* ---- a volume; NULL from jansson is out of memory, and its packers pass it on ---- */

json_t *
mt_json_volume(const struct mt_volume *volume)
{
	struct mt_wish wish;
	bool is_known = mt_wish_by_id(volume->codec_id, &wish);
	json_t *object;

	assert(is_known &&
	    volume->service_class <
		SERVICE_CLASS_NR); /* whoever made or read the volume has checked */
	object = json_pack("{s:s, s:I, s:I, s:s, s:s, s:i, s:i, s:I, s:i, s:I}", "name",
	    volume->name, "id", (json_int_t)volume->id, "size_bytes",
	    (json_int_t)volume->size_bytes, "service_class",
	    service_class_name(volume->service_class), "engine", wish.name, "level", volume->level,
	    "replicas", (int)volume->replica_count, "segment_base",
	    (json_int_t)volume->segment_base, "segment_count", (int)volume->segment_count, "attach",
	    (json_int_t)volume->attach);
	if (object != NULL && volume->origin != 0)
		json_object_set_new(object, "origin", json_integer((json_int_t)volume->origin));
	if (object != NULL && volume->key_id != 0)
		json_object_set_new(object, "key", json_integer(volume->key_id));
	if (object != NULL && volume->reads != MT_READS_GATEWAY)
		json_object_set_new(object, "reads", json_string(mt_reads_name(volume->reads)));
	if (object == NULL || mt_json_put_qos(object, &volume->limits) == 0)
		return object;
	json_decref(object);
	return NULL;
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
	struct reader reader = { 0 };
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
		for (uint32_t k = 0; k < count; k++)
			numbers[k] = reader_number(&reader, json_array_get(span, k),
			    "spans: must be integers", 0, UINT64_MAX);
		scope.spans[i] = (struct mt_span){ numbers[0], numbers[1], numbers[2] };
	}
	problem = reader.field != NULL ? reader.field : mt_scope_check(&scope, segment_base);
	if (problem == NULL)
		*ret_scope = scope;
	return problem;
}
