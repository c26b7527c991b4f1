/* SPDX-License-Identifier: Apache-2.0 */
/* test_placed_key.c -- the key of placed shards: its text stays as it is, and nothing else is taken */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "cleave/meta.h"
#include "cleave/wire.h"
#include "middletier/catalog/placed_key.h"

/* Bytes that stores hold: they must stay readable for ever. */
#define GOLDEN "{\"format\":1,\"shards\":[[5,\"0000000000000001\"],[17,\"00000000000000aa\"]]}"

static int
decode(const char *text, struct mt_placed *ret_placed)
{
	const char *field = NULL;
	int rc = mt_placed_decode(text, (uint32_t)strlen(text), ret_placed, &field);

	cr_assert(rc == 0 || (field != NULL && field[0] != '\0'));
	return rc;
}

Test(placed_key, its_bytes_stay_as_they_are)
{
	struct mt_placed placed = { .count = 0 }, back = { .version = 7 };
	char *text;

	cr_assert_eq(mt_placed_put(&placed, 17, 0xaa), 0);
	cr_assert_eq(mt_placed_put(&placed, 5, 1), 0);
	text = mt_placed_encode(&placed);
	cr_assert_str_eq(text, GOLDEN);
	free(text);
	cr_assert_eq(decode(GOLDEN, &back), 0);
	cr_assert_eq(back.version, 7);
	cr_assert_eq(back.count, 2);
	cr_assert_eq(mt_placed_at(&back, 5), 1);
	cr_assert_eq(mt_placed_at(&back, 17), 0xaa);
	cr_assert_eq(mt_placed_at(&back, 6), 0);
	cr_assert_eq(decode("{\"format\":1,\"shards\":[]}", &back), 0);
	cr_assert_eq(back.count, 0);
}

Test(placed_key, shards_are_placed_and_taken_out_in_any_order)
{
	struct mt_placed placed = { .count = 0 };

	for (uint32_t i = 0; i < MT_PLACED_MAX; i++)
		cr_assert_eq(mt_placed_put(&placed, i * 37 % MT_PLACED_MAX * 2, 1 + i), 0);
	cr_assert_eq(mt_placed_put(&placed, 8, UINT64_MAX), 0, "it is there already");
	cr_assert_eq(mt_placed_put(&placed, 9, 1), -ENOSPC);
	cr_assert_eq(placed.count, MT_PLACED_MAX);
	for (uint32_t i = 0; i < MT_PLACED_MAX; i++)
		cr_assert_eq(placed.shards[i].shard, 2 * i);
	cr_assert_eq(mt_placed_at(&placed, 8), UINT64_MAX);
	mt_placed_remove(&placed, 8);
	mt_placed_remove(&placed, 8);
	cr_assert_eq(mt_placed_at(&placed, 8), 0);
	cr_assert_eq(placed.count, MT_PLACED_MAX - 1);
}

Test(placed_key, as_many_as_can_be_fit_into_a_value)
{
	struct mt_placed placed = { .count = 0 }, back = { .version = 0 };
	char *text;

	for (uint32_t i = 0; i < MT_PLACED_MAX; i++)
		cr_assert_eq(mt_placed_put(&placed, CLEAVE_SHARDS_MAX - MT_PLACED_MAX + i,
				 UINT64_MAX),
		    0);
	text = mt_placed_encode(&placed);
	cr_assert_leq(strlen(text), META_VALUE_BYTES_MAX);
	cr_assert_eq(decode(text, &back), 0);
	cr_assert_eq(back.count, MT_PLACED_MAX);
	free(text);
}

Test(placed_key, what_cannot_be_understood_is_refused_and_changes_nothing)
{
	static const char *const texts[] = {
		"",
		"[]",
		"{}",
		"{\"format\":2,\"shards\":[]}",
		"{\"format\":1}",
		"{\"format\":1,\"shards\":[],\"more\":1}",
		"{\"format\":1,\"shards\":{}}",
		"{\"format\":1,\"shards\":[5]}",
		"{\"format\":1,\"shards\":[[5]]}",
		"{\"format\":1,\"shards\":[[5,\"0000000000000001\",1]]}",
		"{\"format\":1,\"shards\":[[5,1]]}",
		"{\"format\":1,\"shards\":[[5,\"0000000000000000\"]]}",
		"{\"format\":1,\"shards\":[[5,\"1\"]]}",
		"{\"format\":1,\"shards\":[[-1,\"0000000000000001\"]]}",
		"{\"format\":1,\"shards\":[[4096,\"0000000000000001\"]]}",
		"{\"format\":1,\"shards\":[[4294967301,\"0000000000000001\"]]}",
		"{\"format\":1,\"shards\":[[5,\"0000000000000001\"],[5,\"0000000000000002\"]]}",
		"{\"format\":1,\"shards\":[[6,\"0000000000000001\"],[5,\"0000000000000002\"]]}",
	};
	struct mt_placed placed = { .count = 0, .version = 3 };

	cr_assert_eq(mt_placed_put(&placed, 2, 9), 0);
	for (size_t i = 0; i < NUM_COUNT(texts); i++) {
		cr_assert_eq(decode(texts[i], &placed), -EINVAL, "%s", texts[i]);
		cr_assert(placed.count == 1 && placed.version == 3);
		cr_assert_eq(mt_placed_at(&placed, 2), 9);
	}
}
