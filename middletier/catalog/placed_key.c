/* SPDX-License-Identifier: Apache-2.0 */
/*
 * placed_key.c -- the shards that are at another gateway than by count, as the store knows them
 *
 *	{"format":1,"shards":[[5,"0000000000000001"],[17,"00000000000000aa"]]}
 *
 * What is not listed here is refused: a gateway that does not understand the key goes on with what it read before.
 */
#include "catalog/placed_key.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "base/reader.h"
#include "catalog/json.h"
#include "cleave/meta.h"
#include "cleave/wire.h"

#define PLACED_FORMAT 1u
#define PLACED_ENTRY_BYTES 26u /* [4095,"0000000000000001"], */

_Static_assert(MT_PLACED_MAX == 1024 && CLEAVE_SHARDS_MAX == 4096, "the text of an error");
_Static_assert(MT_PLACED_MAX *PLACED_ENTRY_BYTES + 64 <= META_VALUE_BYTES_MAX,
    "the key holds all of them");

/* The place of @shard, or where it would be. */
static uint32_t
placed_place(const struct mt_placed *placed, uint32_t shard)
{
	uint32_t low = 0, high = placed->count;

	assert(placed->count <= MT_PLACED_MAX);
	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (placed->shards[middle].shard < shard)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

uint64_t
mt_placed_at(const struct mt_placed *placed, uint32_t shard)
{
	uint32_t at = placed_place(placed, shard);

	return at < placed->count && placed->shards[at].shard == shard
	    ? placed->shards[at].gateway_id
	    : 0;
}

int
mt_placed_put(struct mt_placed *placed, uint32_t shard, uint64_t gateway_id)
{
	uint32_t at = placed_place(placed, shard);

	assert(shard < CLEAVE_SHARDS_MAX && gateway_id != 0);
	if (mt_placed_at(placed, shard) == 0) {
		if (placed->count == MT_PLACED_MAX)
			return -ENOSPC;
		memmove(&placed->shards[at + 1], &placed->shards[at],
		    (placed->count - at) * sizeof(placed->shards[0]));
		placed->count++;
	}
	placed->shards[at] = (struct mt_placed_shard){ .shard = shard, .gateway_id = gateway_id };
	return 0;
}

void
mt_placed_remove(struct mt_placed *placed, uint32_t shard)
{
	uint32_t at = placed_place(placed, shard);

	if (mt_placed_at(placed, shard) == 0)
		return;
	placed->count--;
	memmove(&placed->shards[at], &placed->shards[at + 1],
	    (placed->count - at) * sizeof(placed->shards[0]));
}

/* ---- encode ---- */

char *
mt_placed_encode(const struct mt_placed *placed)
{
	json_t *shards = json_array(), *object;
	char *text;

	assert(placed->count <= MT_PLACED_MAX);
	for (uint32_t i = 0; i < placed->count; i++) {
		char id[17];

		(void)snprintf(id, sizeof(id), "%016" PRIx64, placed->shards[i].gateway_id);
		json_array_append_new(shards,
		    json_pack("[i, s]", (int)placed->shards[i].shard, id));
	}
	object = json_pack("{s:i, s:o}", "format", (int)PLACED_FORMAT, "shards", shards);
	text = object == NULL ? NULL : json_dumps(object, JSON_COMPACT);
	json_decref(object);
	return text;
}

/* ---- decode ---- */

static int
placed_decode_shards(const json_t *list, struct mt_placed *placed)
{
	const json_t *entry;
	size_t i;

	if (json_array_size(list) > MT_PLACED_MAX)
		return -EINVAL;
	json_array_foreach(list, i, entry)
	{
		const json_t *number = json_array_get(entry, 0);
		const char *text = json_string_value(json_array_get(entry, 1));
		json_int_t shard = json_is_integer(number) ? json_integer_value(number) : -1;
		uint64_t id = 0;

		if (json_array_size(entry) != 2 || shard < 0 || shard >= CLEAVE_SHARDS_MAX ||
		    text == NULL || mt_hex_parse(text, &id) != 0 || id == 0 ||
		    (i > 0 && shard <= placed->shards[i - 1].shard))
			return -EINVAL;
		placed->shards[i] =
		    (struct mt_placed_shard){ .shard = (uint32_t)shard, .gateway_id = id };
		placed->count++;
	}
	return 0;
}

int
mt_placed_decode(const void *value, uint32_t bytes, struct mt_placed *ret_placed,
    const char **ret_field)
{
	struct mt_placed placed = { .version = ret_placed->version };
	uint64_t format = 0;
	json_t *list = NULL;
	const struct reader_member members[] = {
		{ "format", READER_U64, true, PLACED_FORMAT, PLACED_FORMAT, { .u64 = &format } },
		{ "shards", READER_ARRAY, true, 0, 0, { .array = &list } },
	};
	json_t *object;
	int rc = mt_json_load(value, bytes, members, NUM_COUNT(members), &object, ret_field);

	if (rc == 0) {
		rc = placed_decode_shards(list, &placed);
		*ret_field =
		    "shards: must be at most 1024 rising numbers below 4096, each with an id "
		    "of 16 hex digits";
	}
	json_decref(object);
	if (rc != 0)
		return rc;
	*ret_placed = placed;
	return 0;
}
