/* SPDX-License-Identifier: Apache-2.0 */
/* test_sealed_name.c -- names of encrypted volumes: they open with their key, for their volume, whole */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "middletier/catalog/sealed_name.h"
#include "middletier/catalog/snapshot.h"

TestSuite(sealed_name, .timeout = 60);

static const uint8_t key[KEYRING_KEY_BYTES] = { 1, 2, 3 }, other[KEYRING_KEY_BYTES] = { 1, 2, 4 };

Test(sealed_name, opens_with_its_key_for_its_volume)
{
	struct mt_sealed_name name = { .number = 7, .key_id = 3 }, again = name;
	char text[MT_NAME_BYTES];

	cr_assert_eq(mt_sealed_name_make(&name, key, "a-name"), 0);
	cr_assert_eq(mt_sealed_name_make(&again, key, "a-name"), 0);
	cr_assert_neq(memcmp(name.sealed, again.sealed, sizeof(name.sealed)), 0);
	cr_assert_eq(mt_sealed_name_open(&name, key, text), 0);
	cr_assert_str_eq(text, "a-name");
	cr_assert_eq(mt_sealed_name_open(&name, other, text), -EBADMSG);
	again = name;
	again.number = 8;
	cr_assert_eq(mt_sealed_name_open(&again, key, text), -EBADMSG);
	again = name;
	again.key_id = 4;
	cr_assert_eq(mt_sealed_name_open(&again, key, text), -EBADMSG);
	for (uint32_t bit = 0; bit < 8 * MT_SEALED_NAME_BYTES; bit++) {
		again = name;
		again.sealed[bit / 8] ^= (uint8_t)(1u << bit % 8);
		cr_assert_eq(mt_sealed_name_open(&again, key, text), -EBADMSG, "bit %u", bit);
	}
	/* A text that is no name is none, whoever had the key. */
	cr_assert_eq(mt_sealed_name_make(&name, key, "../x"), 0);
	cr_assert_eq(mt_sealed_name_open(&name, key, text), -EBADMSG);
}

Test(sealed_name, placeholder_has_the_number)
{
	char text[MT_NAME_BYTES];

	mt_sealed_name_placeholder(7, text);
	cr_assert_str_eq(text, "encrypted-7");
	mt_sealed_name_placeholder(9 | MT_SNAPSHOT_ID, text);
	cr_assert_str_eq(text, "encrypted-9");
}
