/* SPDX-License-Identifier: Apache-2.0 */
/* test_revoked_lists.c -- what a gateway says of lists of revoked keys in the store that it does not take */
#include "middletier/cluster/revoked.h"
#include "middletier/gateway/gateway.h"
#include "middletier/health/health.h"
#include "unit/allow_rig.h"

TestSuite(revoked_lists, .init = allow_setup, .fini = allow_teardown);

static struct key_authority other;

static void
store_has(const char *lists)
{
	made_cluster_put(sg.store, MT_REVOKED_KEY, lists);
	sg_run_for(&sg, NUM_S(1));
}

/* @words: of the reason; NULL: there is none. */
static void
expect(const char *words)
{
	static struct mt_health health;
	const struct mt_health_reason *found = NULL;

	cr_assert_eq(mt_gateway_health(sg.gateway, &health), 0);
	for (uint32_t i = 0; i < health.count; i++) {
		if (health.reasons[i].code == CLEAVE_HEALTH_REVOKED_REFUSED)
			found = &health.reasons[i];
	}
	cr_assert_eq(found == NULL, words == NULL, "%s", found == NULL ? words : found->text);
	if (found != NULL)
		cr_assert_not_null(strstr(found->text, words), "%s", found->text);
}

Test(revoked_lists, what_is_not_taken_is_told_until_it_is_another)
{
	static char first[KEY_MAKER_TEXT_BYTES], second[KEY_MAKER_TEXT_BYTES],
	    foreign[KEY_MAKER_TEXT_BYTES];
	const struct split_key *keys[1];
	struct who lost;

	who_comes(&lost, "client/lost");
	keys[0] = lost.key;
	key_authority_make(&other, 0, 0);
	key_make_list(&authority, 1, keys, 1, first);
	key_make_list(&authority, 2, keys, 1, second);
	key_make_list(&other, 9, keys, 1, foreign);
	expect(NULL);
	store_has("no list");
	expect("no list of revoked keys");
	store_has(first);
	expect(NULL);
	store_has(foreign);
	expect("authority");
	store_has(second);
	expect(NULL);
	store_has(first); /* it was put back */
	expect("");
	store_has(second);
	expect(NULL);
	key_authority_fini(&other);
	who_goes(&lost);
}
