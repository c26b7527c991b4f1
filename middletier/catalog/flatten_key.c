/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flatten_key.c -- the keys "flattening/ID", as the store has them
 *
 *	{"waiting":"0f"}     a bit a shard (waiting.h); none: all have copied, and the origin may be let go
 */
#include "catalog/flatten_key.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "base/reader.h"
#include "catalog/json.h"
#include "catalog/numbers.h"
#include "catalog/waiting.h"
#include "common/alloc.h"

void
mt_flatten_key(uint64_t id, char ret_key[MT_FLATTEN_KEY_BYTES])
{
	assert(id != 0);
	(void)snprintf(ret_key, MT_FLATTEN_KEY_BYTES, MT_FLATTEN_PREFIX "%" PRIu64, id);
}

void
mt_flatten_mark_all(uint64_t id, uint32_t shard_count, struct mt_flatten_mark *ret_mark)
{
	assert(shard_count > 0 && shard_count <= CLEAVE_SHARDS_MAX);
	*ret_mark = (struct mt_flatten_mark){ .id = id };
	for (uint32_t i = 0; i < shard_count; i++)
		ret_mark->waiting[i / 64] |= UINT64_C(1) << i % 64;
}

uint32_t
mt_flatten_left(const struct mt_flatten_mark *mark)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < NUM_COUNT(mark->waiting); i++)
		left += (uint32_t)__builtin_popcountll(mark->waiting[i]);
	return left;
}

char *
mt_flatten_encode(const struct mt_flatten_mark *mark, uint32_t shard_count)
{
	char *waiting = mt_waiting_all(shard_count);
	json_t *object;
	char *text;

	if (waiting == NULL)
		return NULL;
	(void)mt_waiting_write(waiting, shard_count, mark->waiting);
	object = json_pack("{s:s}", "waiting", waiting);
	text = object == NULL ? NULL : json_dumps(object, JSON_COMPACT);
	json_decref(object);
	mt_free(waiting);
	return text;
}

int
mt_flatten_decode(const char *key, const void *value, uint32_t bytes, uint32_t shard_count,
    struct mt_flatten_mark *ret_mark, const char **ret_field)
{
	const char *digits = key + strlen(MT_FLATTEN_PREFIX), *waiting = "";
	const struct reader_member members[] = {
		{ "waiting", READER_TEXT, true, 0, 0, { .text = &waiting } },
	};
	json_t *object;
	int rc = mt_json_load(value, bytes, members, NUM_COUNT(members), &object, ret_field);

	assert(strncmp(key, MT_FLATTEN_PREFIX, strlen(MT_FLATTEN_PREFIX)) == 0);
	*ret_mark = (struct mt_flatten_mark){ .id = 0 };
	if (rc == 0 && !mt_waiting_read(waiting, shard_count, ret_mark->waiting)) {
		*ret_field = "waiting: must have a bit for each shard, in hex";
		rc = -EINVAL;
	}
	json_decref(object);
	if (rc != 0)
		return rc;
	*ret_field = "its key ends in no volume's id";
	if (digits[0] == '\0' || digits[0] == '0' ||
	    strspn(digits, "0123456789") != strlen(digits) || strlen(digits) > 19)
		return -EINVAL;
	ret_mark->id = strtoull(digits, NULL, 10);
	return ret_mark->id <= MT_NUMBER_MAX ? 0 : -EINVAL;
}
