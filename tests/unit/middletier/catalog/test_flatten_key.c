/* SPDX-License-Identifier: Apache-2.0 */
/* test_flatten_key.c -- the marks of clones that are flattened: their text stays as it is, and nothing else is taken */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "middletier/catalog/flatten_key.h"

#define SHARDS 6u
#define GOLDEN "{\"waiting\":\"3f\"}"

static int
decode(const char *key, const char *text, struct mt_flatten_mark *ret_mark)
{
	const char *field = NULL;
	int rc = mt_flatten_decode(key, text, (uint32_t)strlen(text), SHARDS, ret_mark, &field);

	cr_assert(rc == 0 || (field != NULL && field[0] != '\0'));
	return rc;
}

Test(flatten_key, its_bytes_stay_as_they_are)
{
	struct mt_flatten_mark mark, back;
	char key[MT_FLATTEN_KEY_BYTES];
	char *text;

	mt_flatten_mark_all(12, SHARDS, &mark);
	cr_assert_eq(mt_flatten_left(&mark), SHARDS);
	mt_flatten_key(12, key);
	cr_assert_str_eq(key, "flattening/12");
	text = mt_flatten_encode(&mark, SHARDS);
	cr_assert_str_eq(text, GOLDEN);
	cr_assert_eq(decode(key, text, &back), 0);
	cr_assert_eq(back.id, 12);
	cr_assert_eq(mt_flatten_left(&back), SHARDS);
	free(text);
}

Test(flatten_key, no_shard_may_wait)
{
	struct mt_flatten_mark mark = { .id = 1 }, back;
	char *text = mt_flatten_encode(&mark, SHARDS);

	cr_assert_str_eq(text, "{\"waiting\":\"00\"}");
	cr_assert_eq(decode("flattening/1", text, &back), 0);
	cr_assert_eq(mt_flatten_left(&back), 0);
	free(text);
}

Test(flatten_key, nothing_else_is_taken)
{
	static const char *const texts[] = { "", "[]", "{}", "{\"waiting\":7}",
		"{\"waiting\":\"f\"}", "{\"waiting\":\"0g\"}", "{\"waiting\":\"3f\",\"more\":1}" };
	static const char *const keys[] = { "flattening/", "flattening/0", "flattening/012",
		"flattening/x", "flattening/99999999999999999999" };
	struct mt_flatten_mark mark;

	for (uint32_t i = 0; i < NUM_COUNT(texts); i++)
		cr_assert_eq(decode("flattening/1", texts[i], &mark), -EINVAL, "%s", texts[i]);
	for (uint32_t i = 0; i < NUM_COUNT(keys); i++)
		cr_assert_eq(decode(keys[i], GOLDEN, &mark), -EINVAL, "%s", keys[i]);
}
