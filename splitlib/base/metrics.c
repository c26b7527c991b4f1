/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.c -- tables of metrics, as the text that monitors read */
#include "base/metrics.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "base/check.h"

uint64_t
metric_member_read(const void *values, const struct metric_member *member)
{
	const char *at = (const char *)values + member->offset;
	uint32_t small;

	assert(values != NULL);
	switch (member->bytes) {
	case sizeof(uint64_t):
		return metric_read((const void *)at);
	case sizeof(uint32_t):
		memcpy(&small, at, sizeof(small));
		return small;
	default:
		assert(member->bytes == sizeof(uint8_t));
		return (uint8_t)*at;
	}
}

void
metric_label(struct metric_object *object, const char *name, const char *value)
{
	char text[METRIC_LABELS_BYTES];
	size_t bytes_max = sizeof(text) - strlen(object->labels), bytes;
	int head =
	    snprintf(text, sizeof(text), "%s%s=\"", object->labels[0] == '\0' ? "" : ",", name);

	assert(name[0] != '\0');
	assert(head > 0);
	assert((size_t)head < sizeof(text));
	assert(bytes_max > 0); /* labels end within their room */
	bytes = (size_t)head;
	for (; *value != '\0'; value++) {
		if (bytes + 4 > bytes_max) /* two characters, the quote and the end */
			return;
		if (*value == '"' || *value == '\\' || *value == '\n')
			text[bytes++] = '\\';
		text[bytes++] = *value == '\n' ? 'n' : *value;
	}
	if (bytes + 2 > bytes_max)
		return;
	text[bytes++] = '"';
	text[bytes] = '\0';
	memcpy(object->labels + strlen(object->labels), text, bytes + 1);
}

void
metric_label_u64(struct metric_object *object, const char *name, uint64_t value)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%" PRIu64, value); /* fits: 20 digits */
	metric_label(object, name, text);
}

void
metrics_write(FILE *out, const char *prefix, const struct metric_member *members,
    size_t member_count, const struct metric_object *objects, size_t object_count)
{
	assert(out != NULL);
	assert(prefix[0] != '\0');
	assert(members != NULL || member_count == 0);
	for (size_t i = 0; i < member_count && object_count > 0; i++) {
		const struct metric_info *info = &members[i].info;
		bool is_counter = info->kind == METRIC_COUNTER;

		(void)fprintf(out, "# TYPE %s_%s %s\n# HELP %s_%s %s\n", prefix, info->name,
		    is_counter ? "counter" : "gauge", prefix, info->name, info->help);
		for (size_t k = 0; k < object_count; k++) {
			const struct metric_object *object = &objects[k];
			bool is_labelled = object->labels[0] != '\0';

			(void)fprintf(out, "%s_%s%s%s%s%s %" PRIu64 "\n", prefix, info->name,
			    is_counter ? "_total" : "", is_labelled ? "{" : "", object->labels,
			    is_labelled ? "}" : "",
			    metric_member_read(object->values, &members[i]));
		}
	}
}

void
metrics_write_end(FILE *out)
{
	(void)fputs("# EOF\n", out);
}
