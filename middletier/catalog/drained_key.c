/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drained_key.c -- the gateways that shall have no shards, as the store knows them
 *
 *	{"format":1,"gateways":["0000000000000001","00000000000000aa"]}
 *
 * What is not listed here is refused: a gateway that does not understand the key goes on with what it read before.
 */
#include "catalog/drained_key.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "base/reader.h"
#include "catalog/json.h"

#define DRAINED_FORMAT 1u

_Static_assert(MT_GATEWAYS_MAX == 64, "the text of an error");

/* The place of @id, or where it would be. */
static uint32_t
drained_place(const struct mt_drained *drained, uint64_t id)
{
	uint32_t i = 0;

	assert(drained->count <= MT_GATEWAYS_MAX);
	while (i < drained->count && drained->ids[i] < id)
		i++;
	return i;
}

bool
mt_drained_has(const struct mt_drained *drained, uint64_t id)
{
	uint32_t at = drained_place(drained, id);

	return at < drained->count && drained->ids[at] == id;
}

int
mt_drained_add(struct mt_drained *drained, uint64_t id)
{
	uint32_t at = drained_place(drained, id);

	assert(id != 0);
	if (mt_drained_has(drained, id))
		return 0;
	if (drained->count == MT_GATEWAYS_MAX)
		return -ENOSPC;
	memmove(&drained->ids[at + 1], &drained->ids[at],
	    (drained->count - at) * sizeof(drained->ids[0]));
	drained->ids[at] = id;
	drained->count++;
	return 0;
}

void
mt_drained_remove(struct mt_drained *drained, uint64_t id)
{
	uint32_t at = drained_place(drained, id);

	assert(id != 0);
	if (!mt_drained_has(drained, id))
		return;
	drained->count--;
	memmove(&drained->ids[at], &drained->ids[at + 1],
	    (drained->count - at) * sizeof(drained->ids[0]));
}

/* ---- encode ---- */

char *
mt_drained_encode(const struct mt_drained *drained)
{
	json_t *ids = json_array(), *object;
	char *text;

	assert(drained->count <= MT_GATEWAYS_MAX);
	for (uint32_t i = 0; i < drained->count; i++) {
		char id[17];

		(void)snprintf(id, sizeof(id), "%016" PRIx64, drained->ids[i]);
		json_array_append_new(ids, json_string(id));
	}
	object = json_pack("{s:i, s:o}", "format", (int)DRAINED_FORMAT, "gateways", ids);
	text = object == NULL ? NULL : json_dumps(object, JSON_COMPACT);
	json_decref(object);
	return text;
}

/* ---- decode ---- */

static int
drained_decode_ids(const json_t *list, struct mt_drained *drained)
{
	const json_t *entry;
	size_t i;

	assert(drained->count == 0);
	if (json_array_size(list) > MT_GATEWAYS_MAX)
		return -EINVAL;
	json_array_foreach(list, i, entry)
	{
		const char *text = json_string_value(entry);
		uint64_t id = 0;

		if (text == NULL || mt_hex_parse(text, &id) != 0 || id == 0 ||
		    (i > 0 && id <= drained->ids[i - 1]))
			return -EINVAL;
		drained->ids[i] = id;
		drained->count++;
	}
	return 0;
}

int
mt_drained_decode(const void *value, uint32_t bytes, struct mt_drained *ret_drained,
    const char **ret_field)
{
	struct mt_drained drained = { .version = ret_drained->version };
	uint64_t format = 0;
	json_t *list = NULL;
	const struct reader_member members[] = {
		{ "format", READER_U64, true, DRAINED_FORMAT, DRAINED_FORMAT, { .u64 = &format } },
		{ "gateways", READER_ARRAY, true, 0, 0, { .array = &list } },
	};
	json_t *object;
	int rc = mt_json_load(value, bytes, members, NUM_COUNT(members), &object, ret_field);

	if (rc == 0) {
		rc = drained_decode_ids(list, &drained);
		*ret_field = "gateways: must be at most 64 rising ids of 16 hex digits";
	}
	json_decref(object);
	if (rc != 0)
		return rc;
	*ret_drained = drained;
	return 0;
}
