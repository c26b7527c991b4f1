/* SPDX-License-Identifier: Apache-2.0 */
/* test_cluster_key.c -- the key "cluster": what each level writes, and what is refused */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cleave/level.h"
#include "middletier/catalog/cluster_key.h"

TestSuite(cluster_key, .timeout = 60);

static const struct mt_cluster sample = { .cluster_id = 0x51,
	.shard_count = 4,
	.next_volume_id = 3,
	.next_segment = 4097,
	.next_snapshot = 5,
	.next_clone = 6,
	.store_id = { 7, 8 },
	.place = "1@2" };

#define LEVEL_1_TEXT                                                                                \
	"{\"format\":1,\"cluster_id\":\"0000000000000051\",\"shard_count\":4,\"next_volume_id\":3," \
	"\"next_segment\":4097,\"next_snapshot\":5,\"next_clone\":6,"                               \
	"\"store_id\":\"00000000000000070000000000000008\",\"place\":\"1@2\""

static void
expect_text(uint32_t level, const char *text)
{
	struct mt_cluster cluster = sample, again;
	const char *field = NULL;
	char *got;

	cluster.level = level;
	got = mt_cluster_encode(&cluster);
	cr_assert_not_null(got);
	cr_assert_str_eq(got, text);
	cr_assert_eq(mt_cluster_decode(got, (uint32_t)strlen(got), &again, &field), 0, "%s", field);
	cr_assert_eq(again.level, level == 0 ? CLEAVE_LEVEL_MIN : level);
	cr_assert_eq(again.next_clone, 6);
	free(got);
}

static void
expect_refused(const char *text, int rc, const char *word)
{
	struct mt_cluster cluster = sample;
	const char *field = "";

	cr_assert_eq(mt_cluster_decode(text, (uint32_t)strlen(text), &cluster, &field), rc, "%s",
	    text);
	cr_assert_not_null(strstr(field, word), "'%s' does not say '%s'", field, word);
	cr_assert_eq(cluster.level, 0, "it was filled in");
}

/* Releases of level 1 refuse each member that they do not know. */
Test(cluster_key, level_1_writes_what_it_always_did)
{
	expect_text(0, LEVEL_1_TEXT "}");
	expect_text(1, LEVEL_1_TEXT "}");
}

Test(cluster_key, level_2_names_itself)
{
	expect_text(2, LEVEL_1_TEXT ",\"level\":2}");
}

Test(cluster_key, level_out_of_range_is_refused)
{
	expect_refused(LEVEL_1_TEXT ",\"level\":0}", -EINVAL, "level");
	expect_refused(LEVEL_1_TEXT ",\"level\":-1}", -EINVAL, "level");
	expect_refused(LEVEL_1_TEXT ",\"level\":\"2\"}", -EINVAL, "level");
	expect_refused(LEVEL_1_TEXT ",\"level\":99}", -EPROTONOSUPPORT, "upgraded to level 99");
}

/* The release is wrong, not the member that it does not know. */
Test(cluster_key, later_level_is_told_before_what_it_brought)
{
	expect_refused(LEVEL_1_TEXT ",\"colour\":\"red\",\"level\":99}", -EPROTONOSUPPORT,
	    "install one that speaks it");
	expect_refused("{\"format\":9,\"level\":99}", -EPROTONOSUPPORT,
	    "this release speaks 1 to 2");
	expect_refused(LEVEL_1_TEXT ",\"colour\":\"red\",\"level\":2}", -EINVAL, "colour");
}

Test(cluster_key, older_release_is_told_what_it_speaks)
{
	char text[MT_ERROR_BYTES];

	cr_assert(mt_cluster_is_spoken(1, 1, text));
	cr_assert(mt_cluster_is_spoken(2, 2, text));
	cr_assert_not(mt_cluster_is_spoken(2, 1, text));
	cr_assert_str_eq(text,
	    "the cluster was upgraded to level 2, and this release speaks 1 to 1: install one that "
	    "speaks it");
}
