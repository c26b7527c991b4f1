/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_users.c -- any bytes as a user's key in the metadata store
 *
 * The first byte is the length of the name; then come the name, and the value. What is read is written, and read again
 * the same; who cannot be read has no right to anything.
 */
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "middletier/catalog/user_key.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void
check_same(const struct mt_user *user, const struct mt_user *again)
{
	assert(strcmp(user->name, again->name) == 0);
	assert(user->is_disabled == again->is_disabled);
	assert(user->right_count == again->right_count);
	for (uint32_t i = 0; i < user->right_count; i++) {
		assert(strcmp(user->rights[i].volumes, again->rights[i].volumes) == 0);
		assert(user->rights[i].may == again->rights[i].may);
	}
}

static void
check_user(const struct mt_user *user)
{
	char key[MT_USER_KEY_BYTES];
	struct mt_user again = { .version = 0 };
	const char *field = NULL;
	char *text = mt_user_encode(user);

	assert(mt_user_name_check(user->name) == NULL);
	assert(user->right_count <= MT_USER_RIGHTS_MAX);
	for (uint32_t i = 0; i < user->right_count; i++)
		assert(user->rights[i].may != 0 && (user->rights[i].may & ~MT_MAY_ALL) == 0);
	assert((mt_user_may(user, "db-1") & ~MT_MAY_ALL) == 0);
	if (user->is_disabled)
		assert(mt_user_may(user, "db-1") == 0);
	assert(text != NULL);
	mt_user_key(user->name, key);
	assert(mt_user_decode(key, text, (uint32_t)strlen(text), &again, &field) == 0);
	check_same(user, &again);
	free(text);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char key[sizeof(MT_USER_PREFIX) + UINT8_MAX];
	struct mt_user user = { .version = 0 };
	const char *field = NULL;
	size_t name_bytes;
	int rc;

	if (bytes == 0)
		return 0;
	name_bytes = num_min(data[0], bytes - 1);
	memcpy(key, MT_USER_PREFIX, sizeof(MT_USER_PREFIX) - 1);
	memcpy(key + sizeof(MT_USER_PREFIX) - 1, data + 1, name_bytes);
	key[sizeof(MT_USER_PREFIX) - 1 + name_bytes] = '\0';
	data += 1 + name_bytes;
	bytes -= 1 + name_bytes;
	rc = mt_user_decode(key, data, (uint32_t)bytes, &user, &field);
	if (rc == 0)
		check_user(&user);
	else
		assert(rc == -EINVAL && field != NULL);
	return 0;
}
