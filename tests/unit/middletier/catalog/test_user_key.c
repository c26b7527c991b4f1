/* SPDX-License-Identifier: Apache-2.0 */
/* test_user_key.c -- what a user's key says: patterns, letters; and all that is no such key */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "cleave/meta.h"
#include "middletier/catalog/user_key.h"
#include "middletier/common/alloc.h"

TestSuite(user_key, .timeout = 60);

static int
decode(const char *key, const char *text, struct mt_user *user)
{
	const char *field = NULL;
	int rc;

	user->version = 7;
	rc = mt_user_decode(key, text, (uint32_t)strlen(text), user, &field);
	if (rc == -EINVAL)
		cr_assert(field != NULL && field[0] != '\0');
	return rc;
}

Test(user_key, a_pattern_fits_a_name)
{
	static const struct {
		const char *pattern, *name;
		bool fits;
	} cases[] = { { "db", "db", true }, { "db", "db1", false }, { "db1", "db", false },
		{ "*", "db", true }, { "*", "", true }, { "", "", true }, { "", "a", false },
		{ "db-*", "db-", true }, { "db-*", "db-1", true }, { "db-*", "xdb-1", false },
		{ "*-1", "db-1", true }, { "*-1", "db-1-1", true }, { "*-1", "db-12", false },
		{ "a*b*c", "abc", true }, { "a*b*c", "aXbYbZc", true }, { "a*b*c", "acb", false },
		{ "**", "x", true }, { "a**b", "ab", true }, { "a**b", "aXb", true },
		{ "a*a", "a", false }, { "a*a", "aa", true }, { "DB", "db", false } };

	for (size_t i = 0; i < NUM_COUNT(cases); i++)
		cr_assert_eq(mt_pattern_fits(cases[i].pattern, cases[i].name), cases[i].fits,
		    "%s %s", cases[i].pattern, cases[i].name);
}

/* The worst that can be asked for ends: no text of a star is tried twice with the same rest. */
Test(user_key, a_pattern_of_stars_takes_no_long_time)
{
	char pattern[MT_PATTERN_BYTES], name[MT_PATTERN_BYTES];

	memset(name, 'a', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	for (size_t i = 0; i + 1 < sizeof(pattern); i++)
		pattern[i] = i % 2 == 0 ? '*' : 'a';
	pattern[sizeof(pattern) - 2] = 'b';
	pattern[sizeof(pattern) - 1] = '\0';
	for (uint32_t i = 0; i < 100000; i++)
		cr_assert_not(mt_pattern_fits(pattern, name));
}

Test(user_key, all_rights_whose_pattern_fits_count_together)
{
	struct mt_user user;
	char text[MT_MAY_TEXT_BYTES];

	cr_assert_eq(decode("users/db1",
			 "{\"format\":1,\"rights\":[{\"volumes\":\"db-*\",\"may\":\"wr\"},"
			 "{\"volumes\":\"*\",\"may\":\"s\"}],\"disabled\":false}",
			 &user),
	    0);
	cr_assert_str_eq(user.name, "db1");
	cr_assert_eq(user.version, 7u);
	cr_assert_eq(mt_user_may(&user, "db-1"), MT_MAY_READ | MT_MAY_WRITE | MT_MAY_SNAPSHOT);
	cr_assert_eq(mt_user_may(&user, "db"), MT_MAY_SNAPSHOT);
	cr_assert_str_eq(mt_may_text(mt_user_may(&user, "db-1"), text), "rws");
	cr_assert_str_eq(mt_may_text(MT_MAY_ALL, text), MT_MAY_LETTERS);
	cr_assert_str_eq(mt_may_text(0, text), "");
	user.is_disabled = true;
	cr_assert_eq(mt_user_may(&user, "db-1"), 0u);
}

/* An import of "db" fills "db.importing-" and a number first, a restore "db.restore-" and its id. */
Test(user_key, a_right_to_a_volume_is_one_to_what_becomes_it)
{
	static const struct {
		const char *name;
		bool fits;
	} cases[] = { { "db.importing-0123abcd", true }, { "db.restore-0123456789abcdef", true },
		{ "x-log.importing-0123abcd", true }, { "db2.importing-0123abcd", false },
		{ "d.importing-0123abcd", false }, { "db.importing-0123abc", false },
		{ "db.importing-0123abcde", false }, { "db.importing-0123ABCD", false },
		{ "db.importing-*", false }, { "db.restore-0123abcd", false },
		{ "db.imported-0123abcd", false }, { ".importing-0123abcd", false },
		{ "db.importing-0123abcd.importing-0123abcd", false } };
	struct mt_user user;

	cr_assert_eq(decode("users/db1",
			 "{\"format\":1,\"rights\":[{\"volumes\":\"db\",\"may\":\"rwa\"},"
			 "{\"volumes\":\"*-log\",\"may\":\"rwa\"}],\"disabled\":false}",
			 &user),
	    0);
	for (uint32_t i = 0; i < NUM_COUNT(cases); i++)
		cr_assert_eq(mt_user_may(&user, cases[i].name),
		    cases[i].fits ? MT_MAY_READ | MT_MAY_WRITE | MT_MAY_ALTER : 0u, "%s",
		    cases[i].name);
}

Test(user_key, what_is_encoded_is_decoded)
{
	struct mt_user user = { .name = "a.b_c-1",
		.right_count = MT_USER_RIGHTS_MAX,
		.is_disabled = true };
	struct mt_user back;
	char key[MT_USER_KEY_BYTES], *text;

	for (uint32_t i = 0; i < MT_USER_RIGHTS_MAX; i++) {
		memset(user.rights[i].volumes, '*', MT_PATTERN_BYTES - 1);
		user.rights[i].may = i % MT_MAY_ALL + 1;
	}
	mt_user_key(user.name, key);
	text = mt_user_encode(&user);
	cr_assert_not_null(text);
	cr_assert_lt(strlen(text), META_VALUE_BYTES_MAX);
	cr_assert_eq(decode(key, text, &back), 0);
	cr_assert_str_eq(back.name, user.name);
	cr_assert(back.is_disabled);
	cr_assert_eq(back.right_count, MT_USER_RIGHTS_MAX);
	cr_assert_eq(memcmp(back.rights, user.rights, sizeof(user.rights)), 0);
	free(text);
	user = (struct mt_user){ .name = "none" };
	text = mt_user_encode(&user);
	cr_assert_str_eq(text, "{\"format\":1,\"rights\":[],\"disabled\":false}");
	free(text);
}

#define RIGHTS(list) "{\"format\":1,\"rights\":[" list "],\"disabled\":false}"

Test(user_key, what_is_no_user_is_refused_and_changes_nothing)
{
	static const char *const texts[] = {
		"",
		"[]",
		"{}",
		"{\"format\":2,\"rights\":[],\"disabled\":false}",
		"{\"format\":1,\"rights\":[]}",
		"{\"format\":1,\"disabled\":false}",
		"{\"format\":1,\"rights\":{},\"disabled\":false}",
		"{\"format\":1,\"rights\":[],\"disabled\":0}",
		"{\"format\":1,\"rights\":[],\"disabled\":false,\"x\":1}",
		RIGHTS("1"),
		RIGHTS("{\"volumes\":\"v\"}"),
		RIGHTS("{\"may\":\"r\"}"),
		RIGHTS("{\"volumes\":\"v\",\"may\":\"\"}"),
		RIGHTS("{\"volumes\":\"v\",\"may\":\"x\"}"),
		RIGHTS("{\"volumes\":\"v\",\"may\":\"rr\"}"),
		RIGHTS("{\"volumes\":\"v\",\"may\":\"rwsar\"}"),
		RIGHTS("{\"volumes\":\"\",\"may\":\"r\"}"),
		RIGHTS("{\"volumes\":\"v@s\",\"may\":\"r\"}"),
		RIGHTS("{\"volumes\":\"[a]\",\"may\":\"r\"}"),
		RIGHTS("{\"volumes\":\"v?\",\"may\":\"r\"}"),
		RIGHTS("{\"volumes\":\"v\",\"may\":\"r\",\"op\":1}"),
		RIGHTS("{\"volumes\":\"v\",\"may\":\"r\",\"x\":1}"),
		RIGHTS("{\"volumes\":\"v\",\"may\":\"r\"},{\"volumes\":\"v\",\"may\":\"q\"}"),
	};
	char many[4096] = "{\"format\":1,\"rights\":[";

	for (size_t i = 0; i < NUM_COUNT(texts); i++) {
		struct mt_user user = { .name = "before", .right_count = 1 };

		cr_assert_eq(decode("users/u", texts[i], &user), -EINVAL, "%s", texts[i]);
		cr_assert_str_eq(user.name, "before");
	}
	for (uint32_t i = 0; i <= MT_USER_RIGHTS_MAX; i++)
		(void)snprintf(many + strlen(many), sizeof(many) - strlen(many),
		    "%s{\"volumes\":\"v\",\"may\":\"r\"}", i == 0 ? "" : ",");
	(void)snprintf(many + strlen(many), sizeof(many) - strlen(many), "],\"disabled\":false}");
	cr_assert_eq(decode("users/u", many, &(struct mt_user){ .version = 0 }), -EINVAL);
}

Test(user_key, a_key_ends_in_a_name)
{
	static const char *const keys[] = { "users/", "users/a/b", "users/a b", "users/a*" };
	char key[256] = "users/";

	for (size_t i = 0; i < NUM_COUNT(keys); i++)
		cr_assert_eq(decode(keys[i], RIGHTS(""), &(struct mt_user){ .version = 0 }),
		    -EINVAL, "%s", keys[i]);
	memset(key + 6, 'a', 63);
	cr_assert_eq(decode(key, RIGHTS(""), &(struct mt_user){ .version = 0 }), 0);
	key[6 + 63] = 'a';
	cr_assert_eq(decode(key, RIGHTS(""), &(struct mt_user){ .version = 0 }), -EINVAL);
}

Test(user_key, a_table_leaves_out_what_cannot_be_read)
{
	static const char good[] = RIGHTS("{\"volumes\":\"v\",\"may\":\"r\"}"), bad[] = "{}";
	const struct meta_item items[] = {
		{ "users/a", good, sizeof(good) - 1, 1 },
		{ "users/b", bad, sizeof(bad) - 1, 2 },
		{ "users/c", good, sizeof(good) - 1, 3 },
	};
	struct mt_user_table table = { 0 };
	uint32_t bad_count = 0;

	cr_assert_eq(mt_user_table_read(items, NUM_COUNT(items), &table, &bad_count), 0);
	cr_assert_eq(table.count, 2u);
	cr_assert_eq(bad_count, 1u);
	cr_assert_eq(mt_user_table_find(&table, "c")->version, 3u);
	cr_assert_null(mt_user_table_find(&table, "b"));
	cr_assert_null(mt_user_table_find(&table, ""));
	mt_user_table_fini(&table);
	cr_assert_null(mt_user_table_find(&table, "a"));
	cr_assert_eq(mt_user_table_read(NULL, 0, &table, &bad_count), 0);
	cr_assert_eq(bad_count, 0u);
	mt_user_table_fini(&table);
}

Test(user_key, without_memory_there_is_no_table)
{
	static const char good[] = RIGHTS("");
	const struct meta_item item = { "users/a", good, sizeof(good) - 1, 1 };
	struct mt_user_table table = { 0 };
	uint32_t bad_count;

	mt_alloc_fail_at(1);
	cr_assert_eq(mt_user_table_read(&item, 1, &table, &bad_count), -ENOMEM);
	mt_alloc_fail_at(0);
	cr_assert_null(table.entries);
}
