/* SPDX-License-Identifier: Apache-2.0 */
/* test_drained_key.c -- the key of drained gateways: its text stays as it is, and nothing else is taken */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "middletier/catalog/drained_key.h"

/* Bytes that stores hold: they must stay readable for ever. */
#define GOLDEN "{\"format\":1,\"gateways\":[\"0000000000000001\",\"00000000000000aa\"]}"

static int
decode(const char *text, struct mt_drained *ret_drained)
{
	const char *field = NULL;
	int rc = mt_drained_decode(text, (uint32_t)strlen(text), ret_drained, &field);

	cr_assert(rc == 0 || (field != NULL && field[0] != '\0'));
	return rc;
}

Test(drained_key, its_bytes_stay_as_they_are)
{
	struct mt_drained drained = { .count = 0 }, back = { .version = 7 };
	char *text;

	cr_assert_eq(mt_drained_add(&drained, 0xaa), 0);
	cr_assert_eq(mt_drained_add(&drained, 1), 0);
	text = mt_drained_encode(&drained);
	cr_assert_str_eq(text, GOLDEN);
	free(text);
	cr_assert_eq(decode(GOLDEN, &back), 0);
	cr_assert_eq(back.version, 7);
	cr_assert_eq(back.count, 2);
	cr_assert(mt_drained_has(&back, 1) && mt_drained_has(&back, 0xaa));
	cr_assert_not(mt_drained_has(&back, 2));
	cr_assert_eq(decode("{\"format\":1,\"gateways\":[]}", &back), 0);
	cr_assert_eq(back.count, 0);
}

Test(drained_key, gateways_are_added_and_taken_out_in_any_order)
{
	struct mt_drained drained = { .count = 0 };

	for (uint64_t i = 0; i < MT_GATEWAYS_MAX; i++)
		cr_assert_eq(mt_drained_add(&drained, (i * 37) % MT_GATEWAYS_MAX + 1), 0);
	cr_assert_eq(mt_drained_add(&drained, 1), 0, "it is there already");
	cr_assert_eq(mt_drained_add(&drained, UINT64_MAX), -ENOSPC);
	cr_assert_eq(drained.count, MT_GATEWAYS_MAX);
	for (uint32_t i = 0; i < MT_GATEWAYS_MAX; i++)
		cr_assert_eq(drained.ids[i], i + 1);
	mt_drained_remove(&drained, 33);
	mt_drained_remove(&drained, 33);
	cr_assert_eq(drained.count, MT_GATEWAYS_MAX - 1);
	cr_assert_not(mt_drained_has(&drained, 33));
	cr_assert(mt_drained_has(&drained, 32) && mt_drained_has(&drained, 34));
}

Test(drained_key, what_is_not_understood_is_refused)
{
	static const char *const texts[] = { "", "[]", "{}", "{\"format\":1}",
		"{\"format\":2,\"gateways\":[]}", "{\"format\":1,\"gateways\":{}}",
		"{\"format\":1,\"gateways\":[1]}", "{\"format\":1,\"gateways\":[\"1\"]}",
		"{\"format\":1,\"gateways\":[\"0000000000000000\"]}",
		"{\"format\":1,\"gateways\":[],\"more\":1}",
		"{\"format\":1,\"gateways\":[\"0000000000000002\",\"0000000000000001\"]}",
		"{\"format\":1,\"gateways\":[\"0000000000000001\",\"0000000000000001\"]}" };
	struct mt_drained drained = { .count = 0 };
	char many[4096] = "{\"format\":1,\"gateways\":[";

	cr_assert_eq(mt_drained_add(&drained, 3), 0);
	for (uint32_t i = 0; i < NUM_COUNT(texts); i++) {
		cr_assert_eq(decode(texts[i], &drained), -EINVAL, "%s", texts[i]);
		cr_assert(drained.count == 1 && mt_drained_has(&drained, 3), "output touched");
	}
	for (uint32_t i = 0; i <= MT_GATEWAYS_MAX; i++)
		(void)snprintf(many + strlen(many), sizeof(many) - strlen(many), "%s\"%016x\"",
		    i == 0 ? "" : ",", i + 1);
	(void)snprintf(many + strlen(many), sizeof(many) - strlen(many), "]}");
	cr_assert_eq(decode(many, &drained), -EINVAL);
}
