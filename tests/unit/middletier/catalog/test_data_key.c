/* SPDX-License-Identifier: Apache-2.0 */
/* test_data_key.c -- a wrapped data key, as the store has it: its bytes for ever, and all that is no such key */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "cleave/meta.h"
#include "middletier/catalog/data_key.h"
#include "middletier/catalog/numbers.h"
#include "middletier/common/alloc.h"

TestSuite(data_key, .timeout = 60);

static int
decode(const char *key, const char *text, struct mt_data_key *data_key, const char **field)
{
	int rc;

	*field = NULL;
	data_key->version = 7;
	rc = mt_data_key_decode(key, text, (uint32_t)strlen(text), data_key, field);
	if (rc == -EINVAL)
		cr_assert(*field != NULL && (*field)[0] != '\0', "%s", text);
	return rc;
}

/* The golden bytes: a release that writes others cannot read this. */
Test(data_key, its_text_stays_as_it_is)
{
	struct mt_data_key data_key = { .id = 42,
		.volume = 7,
		.state = MT_DATA_KEY_RETIRING,
		.kek = "default",
		.wrapped_bytes = 4,
		.wrapped = { 0x01, 0xfe, 0x3f, 0x80 } };
	char *text = mt_data_key_encode(&data_key), key[MT_DATA_KEY_KEY_BYTES];
	struct mt_data_key back;
	const char *field;

	mt_data_key_key(42, key);
	cr_assert_str_eq(key, "keys/0000000042");
	cr_assert_str_eq(text,
	    "{\"format\":1,\"volume\":7,\"kek\":\"default\",\"wrapped\":\"Af4/gA==\",\"state\":\"retiring\"}");
	cr_assert_eq(decode(key, text, &back, &field), 0);
	cr_assert_eq(back.id, 42u);
	cr_assert_eq(back.volume, 7u);
	cr_assert_eq(back.version, 7u);
	cr_assert_eq(back.state, MT_DATA_KEY_RETIRING);
	cr_assert_str_eq(back.kek, "default");
	cr_assert_eq(back.wrapped_bytes, 4u);
	cr_assert_eq(memcmp(back.wrapped, data_key.wrapped, 4), 0);
	free(text);
}

Test(data_key, the_longest_is_encoded_and_decoded)
{
	struct mt_data_key data_key = { .id = UINT32_MAX, .volume = MT_NUMBER_MAX };
	struct mt_data_key back;
	char key[MT_DATA_KEY_KEY_BYTES], *text;
	const char *field;

	memset(data_key.kek, 'k', MT_KEK_NAME_BYTES - 1);
	for (uint32_t bytes = 1; bytes <= MT_WRAPPED_BYTES_MAX; bytes++) {
		data_key.wrapped_bytes = bytes;
		data_key.wrapped[bytes - 1] = (uint8_t)(bytes * 37);
		mt_data_key_key(data_key.id, key);
		text = mt_data_key_encode(&data_key);
		cr_assert_lt(strlen(text), META_VALUE_BYTES_MAX);
		cr_assert_eq(decode(key, text, &back, &field), 0, "%u: %s", bytes, field);
		cr_assert_eq(back.wrapped_bytes, bytes);
		cr_assert_eq(memcmp(back.wrapped, data_key.wrapped, bytes), 0);
		cr_assert_str_eq(back.kek, data_key.kek);
		free(text);
	}
}

#define KEY(volume, kek, wrapped, state)                                                           \
	"{\"format\":1,\"volume\":" volume ",\"kek\":" kek ",\"wrapped\":" wrapped                 \
	",\"state\":" state "}"

Test(data_key, what_is_none_is_refused_by_the_name_of_its_field)
{
	static const struct {
		const char *key, *text, *field;
	} cases[] = {
		{ "keys/0000000001", "", "JSON" },
		{ "keys/0000000001", "[]", "JSON" },
		{ "keys/0000000001", "{}", "format" },
		{ "keys/0000000001",
		    "{\"format\":2,\"volume\":1,\"kek\":\"a\",\"wrapped\":\"AA==\","
		    "\"state\":\"active\"}",
		    "format" },
		{ "keys/0000000001", KEY("0", "\"a\"", "\"AA==\"", "\"active\""), "volume" },
		{ "keys/0000000001", KEY("1152921504606846977", "\"a\"", "\"AA==\"", "\"active\""),
		    "volume" },
		{ "keys/0000000001", KEY("1", "\"\"", "\"AA==\"", "\"active\""), "kek" },
		{ "keys/0000000001", KEY("1", "\"a b\"", "\"AA==\"", "\"active\""), "kek" },
		{ "keys/0000000001", KEY("1", "3", "\"AA==\"", "\"active\""), "kek" },
		{ "keys/0000000001", KEY("1", "\"a\"", "\"\"", "\"active\""), "wrapped" },
		{ "keys/0000000001", KEY("1", "\"a\"", "\"A\"", "\"active\""), "wrapped" },
		{ "keys/0000000001", KEY("1", "\"a\"", "\"AB==\"", "\"active\""), "wrapped" },
		{ "keys/0000000001", KEY("1", "\"a\"", "\"AA==\\n\"", "\"active\""), "wrapped" },
		{ "keys/0000000001", KEY("1", "\"a\"", "\"A-==\"", "\"active\""), "wrapped" },
		{ "keys/0000000001", KEY("1", "\"a\"", "\"AA==\"", "\"erased\""), "state" },
		{ "keys/0000000001", KEY("1", "\"a\"", "\"AA==\"", "1"), "state" },
		{ "keys/0000000000", KEY("1", "\"a\"", "\"AA==\"", "\"active\""), "id" },
		{ "keys/4294967296", KEY("1", "\"a\"", "\"AA==\"", "\"active\""), "id" },
		{ "keys/1", KEY("1", "\"a\"", "\"AA==\"", "\"active\""), "id" },
		{ "keys/000000000x", KEY("1", "\"a\"", "\"AA==\"", "\"active\""), "id" },
		{ "keys/00000000001", KEY("1", "\"a\"", "\"AA==\"", "\"active\""), "id" },
		{ "keys/0000000001",
		    "{\"format\":1,\"volume\":1,\"kek\":\"a\",\"wrapped\":\"AA==\",\"state\":"
		    "\"active\",\"dek\":\"\"}",
		    "dek" },
	};
	struct mt_data_key data_key;
	const char *field;

	for (size_t i = 0; i < NUM_COUNT(cases); i++) {
		data_key = (struct mt_data_key){ .id = 99 };
		cr_assert_eq(decode(cases[i].key, cases[i].text, &data_key, &field), -EINVAL,
		    "%zu: %s", i, cases[i].text);
		cr_assert_not_null(strstr(field, cases[i].field), "%zu: %s", i, field);
		cr_assert_eq(data_key.id, 99u);
	}
}

Test(data_key, a_table_leaves_out_what_cannot_be_read)
{
	const char *good = KEY("7", "\"a\"", "\"AA==\"", "\"active\"");
	const struct meta_item items[] = {
		{ .key = "keys/0000000002",
		    .value = good,
		    .value_bytes = (uint32_t)strlen(good),
		    .version = 5 },
		{ .key = "keys/0000000003", .value = "{}", .value_bytes = 2, .version = 6 },
		{ .key = "keys/0000000009",
		    .value = good,
		    .value_bytes = (uint32_t)strlen(good),
		    .version = 8 },
	};
	struct mt_data_key_table table = { 0 };
	uint32_t bad;

	cr_assert_eq(mt_data_key_table_read(items, 3, &table, &bad), 0);
	cr_assert_eq(table.count, 2u);
	cr_assert_eq(bad, 1u);
	cr_assert_eq(mt_data_key_table_find(&table, 2)->version, 5u);
	cr_assert_eq(mt_data_key_table_find(&table, 9)->version, 8u);
	cr_assert_null(mt_data_key_table_find(&table, 3));
	mt_data_key_table_fini(&table);
	cr_assert_null(mt_data_key_table_find(&table, 2));
	mt_alloc_fail_at(1);
	cr_assert_eq(mt_data_key_table_read(items, 3, &table, &bad), -ENOMEM);
	mt_alloc_fail_at(0);
	cr_assert_eq(table.count, 0u);
}
