/* SPDX-License-Identifier: Apache-2.0 */
/* reader.c -- members of the JSON objects that gateways answer with, checked */
#include "reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

void
reader_fail(struct reader *reader, const char *name)
{
	if (reader->field == NULL)
		reader->field = name;
}

uint64_t
reader_u64(struct reader *reader, const json_t *object, const char *name, uint64_t max)
{
	const json_t *value = json_object_get(object, name);
	json_int_t number = json_integer_value(value);

	if (json_is_integer(value) && number >= 0 && (uint64_t)number <= max)
		return (uint64_t)number;
	reader_fail(reader, name);
	return 0;
}

uint64_t
reader_id(struct reader *reader, const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	if (text != NULL && strlen(text) == 16 && strspn(text, "0123456789abcdef") == 16)
		return strtoull(text, NULL, 16);
	reader_fail(reader, name);
	return 0;
}

void
reader_text(struct reader *reader, const json_t *object, const char *name, char *ret_text,
    size_t bytes)
{
	const char *text = json_string_value(json_object_get(object, name));

	if (text == NULL || strlen(text) >= bytes)
		reader_fail(reader, name);
	else
		memcpy(ret_text, text, strlen(text) + 1);
}

void
reader_cut(const json_t *object, const char *name, char *ret_text, size_t bytes)
{
	const char *text = json_string_value(json_object_get(object, name));

	(void)snprintf(ret_text, bytes, "%s", text == NULL ? "" : text);
}

const json_t *
reader_array(struct reader *reader, const json_t *object, const char *name, size_t min, size_t max)
{
	const json_t *array = json_object_get(object, name);

	if (json_is_array(array) && json_array_size(array) >= min && json_array_size(array) <= max)
		return array;
	reader_fail(reader, name);
	return NULL;
}

void
reader_volume(struct reader *reader, const json_t *object, struct cleave_volume_info *ret_info)
{
	struct cleave_volume_info *info = ret_info;
	const json_t *level = json_object_get(object, "level");
	char class_name[16] = "";
	enum service_class service_class = SERVICE_STANDARD;

	memset(info, 0, sizeof(*info));
	if (!json_is_object(object)) {
		reader_fail(reader, "volume");
		return;
	}
	reader_text(reader, object, "name", info->name, sizeof(info->name));
	info->id = reader_u64(reader, object, "id", INT64_MAX);
	info->size_bytes = reader_u64(reader, object, "size_bytes", CLEAVE_VOLUME_BYTES_MAX);
	reader_text(reader, object, "service_class", class_name, sizeof(class_name));
	reader_text(reader, object, "engine", info->engine, sizeof(info->engine));
	info->replicas = (uint32_t)reader_u64(reader, object, "replicas", 255);
	info->segment_base = reader_u64(reader, object, "segment_base", INT64_MAX);
	info->segment_count = (uint32_t)reader_u64(reader, object, "segment_count",
	    CLEAVE_VOLUME_BYTES_MAX / CLEAVE_SEGMENT_BYTES);
	info->level = (int)json_integer_value(level);
	if (reader->field != NULL)
		return;
	if (service_class_parse(class_name, &service_class) != 0)
		reader_fail(reader, "service_class");
	else if (info->id == 0)
		reader_fail(reader, "id");
	else if (info->size_bytes == 0 || info->size_bytes % CLEAVE_BLOCK_BYTES != 0)
		reader_fail(reader, "size_bytes");
	else if (info->segment_count * CLEAVE_SEGMENT_BYTES < info->size_bytes)
		reader_fail(reader, "segment_count");
	else if (!json_is_integer(level))
		reader_fail(reader, "level");
	info->service_class = (enum cleave_service_class)service_class;
}
