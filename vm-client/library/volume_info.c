/* SPDX-License-Identifier: Apache-2.0 */
/* volume_info.c -- a volume as gateways describe it, checked: what is wrong there would be written to */
#include "volume_info.h"

#include <limits.h>
#include <string.h>

#include "base/check.h"
#include "cleave/wire.h"

void
volume_limits_read(struct reader *reader, const json_t *object, struct cleave_limits *ret_limits)
{
	const json_t *qos = json_object_get(object, "qos");

	*ret_limits = (struct cleave_limits){ 0 };
	if (qos == NULL)
		return;
	qos = reader_object(reader, object, "qos");
	/* A member that is absent is none; of a later release's we know nothing. */
#define READ_LIMIT(name, least, most)                                                              \
	if (json_object_get(qos, #name) != NULL)                                                   \
		ret_limits->name = reader_range(reader, qos, #name, least, most);
	CLEAVE_LIMIT_LIST(READ_LIMIT)
#undef READ_LIMIT
}

void
volume_info_read(struct reader *reader, const json_t *object, struct cleave_volume_info *ret_info)
{
	struct cleave_volume_info *info = ret_info;
	enum service_class service_class = SERVICE_STANDARD;
	char class_name[16] = "";

	assert(reader->field == NULL);
	memset(info, 0, sizeof(*info));
	if (!json_is_object(object)) {
		reader_fail(reader, "volume");
		return;
	}
	reader_text(reader, object, "name", info->name, sizeof(info->name));
	info->id = reader_range(reader, object, "id", 1, INT64_MAX);
	info->size_bytes =
	    reader_range(reader, object, "size_bytes", CLEAVE_BLOCK_BYTES, CLEAVE_VOLUME_BYTES_MAX);
	if (info->size_bytes % CLEAVE_BLOCK_BYTES != 0)
		reader_fail(reader, "size_bytes");
	reader_text(reader, object, "service_class", class_name, sizeof(class_name));
	if (service_class_parse(class_name, &service_class) != 0)
		reader_fail(reader, "service_class");
	info->service_class = (enum cleave_service_class)service_class;
	reader_text(reader, object, "engine", info->engine, sizeof(info->engine));
	info->replicas = (uint32_t)reader_u64(reader, object, "replicas", UINT8_MAX);
	info->segment_base = reader_u64(reader, object, "segment_base", INT64_MAX);
	info->segment_count = (uint32_t)reader_u64(reader, object, "segment_count",
	    CLEAVE_VOLUME_BYTES_MAX / CLEAVE_SEGMENT_BYTES);
	if (info->segment_count * CLEAVE_SEGMENT_BYTES < info->size_bytes)
		reader_fail(reader, "segment_count");
	info->level =
	    (int)reader_signed(reader, json_object_get(object, "level"), "level", INT_MIN, INT_MAX);
	volume_limits_read(reader, object, &info->limits);
}
