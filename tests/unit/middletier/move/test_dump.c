/* SPDX-License-Identifier: Apache-2.0 */
/* test_dump.c -- a store's keys as a text, and every way in which such a text can be wrong */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "middletier/catalog/cluster_key.h"
#include "middletier/catalog/keys.h"
#include "middletier/common/alloc.h"
#include "middletier/meta/etcd_json.h"
#include "middletier/move/dump.h"

static struct mt_cluster cluster;
static struct mt_keys keys;
static struct etcd_text text;

static void
setup(void)
{
	static const char bytes[] = "\0\xff\n\"";
	char *value;

	cluster = (struct mt_cluster){ .cluster_id = 0xc1ea7e51,
		.shard_count = 2,
		.next_volume_id = 1,
		.next_segment = 1,
		.next_snapshot = 1,
		.next_clone = 1,
		.store_id = { 0x570e, 1 } };
	value = mt_cluster_encode(&cluster);
	cr_assert_not_null(value);
	cr_assert_eq(mt_keys_add(&keys, "cluster", value, (uint32_t)strlen(value), 3), 0);
	free(value);
	cr_assert_eq(mt_keys_add(&keys, "deleted/1", "", 0, 4), 0);
	cr_assert_eq(mt_keys_add(&keys, "gateways/7", "{}", 2, 5), 0);
	cr_assert_eq(mt_keys_add(&keys, "volumes/a", "\"\xc3\xa4\"\n", 5, 6), 0);
	cr_assert_eq(mt_keys_add(&keys, "volumes/b", bytes, sizeof(bytes) - 1, 7), 0);
	cr_assert_eq(mt_dump_encode(&keys, &cluster, 1790000000, &text), 0);
}

static void
teardown(void)
{
	mt_keys_fini(&keys);
	etcd_text_fini(&text);
}

TestSuite(dump, .init = setup, .fini = teardown);

static int
decode(const char *bytes, size_t count, struct mt_keys *ret_keys, char ret_error[256])
{
	struct mt_cluster found;

	*ret_keys = (struct mt_keys){ 0 };
	return mt_dump_decode(bytes, count, ret_keys, &found, ret_error, 256);
}

static void
expect_refused(const char *bytes, size_t count, const char *word)
{
	struct mt_keys found;
	char error[256] = "";

	cr_assert_eq(decode(bytes, count, &found, error), -EBADMSG, "%s", error);
	cr_assert_not_null(strstr(error, word), "'%s' does not say %s", error, word);
	mt_keys_fini(&found);
}

Test(dump, every_value_comes_back_byte_for_byte_but_leased_ones)
{
	struct mt_keys found;
	char error[256] = "";

	cr_assert_eq(decode(text.bytes, text.count, &found, error), 0, "%s", error);
	cr_assert_eq(found.count, keys.count - 1);
	cr_assert_null(mt_keys_find(&found, "gateways/7"));
	for (uint32_t i = 0; i < found.count; i++) {
		const struct mt_key *wanted = mt_keys_find(&keys, found.items[i].key);

		cr_assert_not_null(wanted);
		cr_assert_eq(found.items[i].value_bytes, wanted->value_bytes);
		cr_assert_eq(memcmp(found.items[i].value, wanted->value, wanted->value_bytes), 0);
	}
	mt_keys_fini(&found);
}

Test(dump, one_that_is_cut_off_anywhere_is_refused)
{
	for (size_t count = 0; count < text.count; count++)
		expect_refused(text.bytes, count, "cut off");
}

Test(dump, one_that_was_changed_anywhere_is_refused)
{
	char *bytes = malloc(text.count);
	struct mt_keys found;
	char error[256];

	cr_assert_not_null(bytes);
	for (size_t i = 0; i < text.count; i++) {
		memcpy(bytes, text.bytes, text.count);
		bytes[i] ^= 1;
		cr_assert_eq(decode(bytes, text.count, &found, error), -EBADMSG,
		    "byte %zu of the dump was changed", i);
		mt_keys_fini(&found);
	}
	free(bytes);
}

Test(dump, lines_that_are_missing_or_too_many_are_told)
{
	char *twice = malloc(2 * text.count);
	char *line = strchr(text.bytes, '\n') + 1, *next = strchr(line, '\n') + 1;
	size_t head_bytes = (size_t)(line - text.bytes),
	       rest_bytes = text.count - (size_t)(next - text.bytes);

	cr_assert_not_null(twice);
	memcpy(twice, text.bytes, text.count);
	memcpy(twice + text.count, text.bytes, text.count);
	expect_refused(twice, 2 * text.count, "follows");
	memcpy(twice, text.bytes, head_bytes);
	memcpy(twice + head_bytes, next, rest_bytes);
	expect_refused(twice, head_bytes + rest_bytes, "lines are missing");
	free(twice);
}

Test(dump, what_no_dump_says_is_told)
{
	static const char head[] =
	    "{\"cleave_store\":1,\"cluster_id\":\"00000000c1ea7e51\",\"store_id\":"
	    "\"000000000000570e0000000000000001\",\"keys\":1}\n";
	static const struct {
		const char *line, *word;
	} lines[] = {
		{ "nothing\n", "not a line" },
		{ "{\"key\":\"gateways/1\",\"value\":\"\"}\n", "no key" },
		{ "{\"key\":\"\",\"value\":\"\"}\n", "no key" },
		{ "{\"key\":\"a\"}\n", "base64" },
		{ "{\"key\":\"a\",\"value\":\"\",\"base64\":\"\"}\n", "base64" },
		{ "{\"key\":\"a\",\"base64\":\"?\"}\n", "base64" },
		{ "{\"key\":\"a\",\"value\":\"\",\"more\":1}\n", "more" },
		{ "{\"key\":\"b\",\"value\":\"\"}\n{\"key\":\"b\",\"value\":\"\"}\n",
		    "line 3: not behind" },
		{ "{\"key\":\"b\",\"value\":\"\"}\n{\"key\":\"a\",\"value\":\"\"}\n",
		    "not behind" },
	};
	static const char head_that_ends[] =
	    "{\"cleave_store\":1,\"cluster_id\":\"00000000c1ea7e51\",\"store_id\":"
	    "\"000000000000570e0000000000000001\",\"keys\":1,\"end\":0}\n";

	expect_refused("{\"cleave_store\":2}\n", 19, "no head");
	expect_refused(head_that_ends, sizeof(head_that_ends) - 1, "it is missing");
	for (size_t i = 0; i < NUM_COUNT(lines); i++) {
		char bytes[512];
		int count = snprintf(bytes, sizeof(bytes), "%s%s", head, lines[i].line);

		expect_refused(bytes, (size_t)count, lines[i].word);
	}
}

Test(dump, nth_allocation_fails)
{
	int rc = -ENOMEM;

	for (uint32_t nth = 1; rc != 0; nth++) {
		struct mt_keys found;
		char error[256];

		mt_alloc_fail_at(nth);
		rc = decode(text.bytes, text.count, &found, error);
		mt_alloc_fail_at(0);
		cr_assert(rc == 0 || rc == -ENOMEM);
		mt_keys_fini(&found);
	}
}
