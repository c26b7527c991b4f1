/* SPDX-License-Identifier: Apache-2.0 */
/*
 * user_key.c -- the keys "users/NAME", as the store has them
 *
 *	{"format":1,"rights":[{"volumes":"db-*","may":"rw"},{"volumes":"golden","may":"r"}],"disabled":false}
 *
 * Whoever cannot be read has no rights: a key that a later release wrote opens nothing here.
 */
#include "catalog/user_key.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "base/reader.h"
#include "catalog/json.h"
#include "cleave/meta.h"
#include "cleave/unfinished.h"
#include "cleave/wire.h"
#include "common/alloc.h"

#define USER_FORMAT 1u
#define NAME_BYTES (CLEAVE_VOLUME_NAME_BYTES_MAX + 1u)
#define USER_NAME_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

_Static_assert(sizeof(MT_MAY_LETTERS) == MT_MAY_TEXT_BYTES, "a letter a bit");
_Static_assert((1u << (sizeof(MT_MAY_LETTERS) - 1)) - 1 == MT_MAY_ALL, "a letter a bit");
_Static_assert(MT_USER_RIGHTS_MAX == 16, "the text of an error");

/* ---- what it means ---- */

bool
mt_pattern_fits(const char *pattern, const char *name)
{
	const char *star = NULL, *from = NULL; /* the last '*', and where its text may end next */

	assert(pattern != NULL && name != NULL);
	while (*name != '\0') {
		if (*pattern == '*') {
			star = pattern++;
			from = name;
		} else if (*pattern == *name) {
			pattern++;
			name++;
		} else if (star != NULL) {
			pattern = star + 1;
			name = ++from;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return *pattern == '\0';
}

/* The volume that @volume becomes when an import or a restore has filled it; "": it is none of these. */
static void
name_becomes(const char *volume, char ret_name[NAME_BYTES])
{
	size_t before = num_max(unfinished_before(volume, CLEAVE_IMPORT_MARK, CLEAVE_IMPORT_DIGITS),
	    unfinished_before(volume, CLEAVE_RESTORE_MARK, CLEAVE_RESTORE_DIGITS));

	before = before < NAME_BYTES ? before : 0;
	memcpy(ret_name, volume, before);
	ret_name[before] = '\0';
}

unsigned
mt_user_may(const struct mt_user *user, const char *volume)
{
	char becomes[NAME_BYTES];
	unsigned may = 0;

	assert(user->right_count <= MT_USER_RIGHTS_MAX);
	name_becomes(volume, becomes);
	for (uint32_t i = 0; i < user->right_count && !user->is_disabled; i++) {
		if (mt_pattern_fits(user->rights[i].volumes, volume) ||
		    (becomes[0] != '\0' && mt_pattern_fits(user->rights[i].volumes, becomes)))
			may |= user->rights[i].may;
	}
	return may;
}

const char *
mt_may_text(unsigned may, char ret_text[MT_MAY_TEXT_BYTES])
{
	size_t bytes = 0;

	assert((may & ~MT_MAY_ALL) == 0);
	for (unsigned i = 0; MT_MAY_LETTERS[i] != '\0'; i++) {
		if ((may >> i & 1) != 0)
			ret_text[bytes++] = MT_MAY_LETTERS[i];
	}
	ret_text[bytes] = '\0';
	return ret_text;
}

/* ---- checked ---- */

const char *
mt_user_name_check(const char *name)
{
	size_t bytes = strlen(name);

	if (bytes == 0 || bytes >= SPLIT_NAME_BYTES_MAX)
		return "must have 1 to 63 characters";
	if (strspn(name, USER_NAME_CHARS) != bytes)
		return "may hold letters, digits, '.', '_' and '-' alone";
	return NULL;
}

static const char *
right_read(const json_t *entry, struct mt_user_right *ret_right)
{
	const char *volumes = "", *may = "";
	const struct reader_member members[] = {
		{ "volumes", READER_TEXT, true, 0, MT_PATTERN_BYTES - 1, { .text = &volumes } },
		{ "may", READER_TEXT, true, 0, sizeof(MT_MAY_LETTERS) - 1, { .text = &may } },
	};
	char error[READER_ERROR_BYTES];

	if (!json_is_object(entry) || json_object_get(entry, "op") != NULL ||
	    reader_strict(entry, members, NUM_COUNT(members), error) != 0)
		return "rights: each must have volumes, a pattern of up to 63 characters, and may, "
		       "letters of rwsa";
	if (volumes[0] == '\0' || strspn(volumes, USER_NAME_CHARS "*") != strlen(volumes))
		return "rights: volumes must be a volume's name, in which * is any text";
	*ret_right = (struct mt_user_right){ .may = 0 };
	(void)snprintf(ret_right->volumes, sizeof(ret_right->volumes), "%s", volumes);
	for (; *may != '\0'; may++) {
		const char *letter = strchr(MT_MAY_LETTERS, *may);
		unsigned bit = letter == NULL ? 0 : 1u << (letter - MT_MAY_LETTERS);

		if (bit == 0 || (ret_right->may & bit) != 0)
			return "rights: may must be letters of rwsa, each once";
		ret_right->may |= bit;
	}
	return ret_right->may != 0 ? NULL : "rights: may must be letters of rwsa, each once";
}

const char *
mt_user_rights_read(const json_t *list, struct mt_user *user)
{
	struct mt_user_right rights[MT_USER_RIGHTS_MAX];
	const json_t *entry;
	size_t i;

	if (!json_is_array(list) || json_array_size(list) > MT_USER_RIGHTS_MAX)
		return "rights: must be a list of at most 16";
	json_array_foreach(list, i, entry)
	{
		const char *problem = right_read(entry, &rights[i]);

		if (problem != NULL)
			return problem;
	}
	memcpy(user->rights, rights, i * sizeof(rights[0]));
	user->right_count = (uint32_t)i;
	return NULL;
}

/* ---- encode ---- */

static json_t *
user_json_rights(const struct mt_user *user)
{
	json_t *list = json_array();

	assert(user->right_count <= MT_USER_RIGHTS_MAX);
	for (uint32_t i = 0; i < user->right_count; i++) {
		char may[MT_MAY_TEXT_BYTES];
		json_t *right = json_pack("{s:s, s:s}", "volumes", user->rights[i].volumes, "may",
		    mt_may_text(user->rights[i].may, may));

		/* A list with one of them missing would be told as if it were all. */
		if (json_array_append_new(list, right) != 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

json_t *
mt_user_json(const struct mt_user *user)
{
	return json_pack("{s:s, s:o, s:b}", "name", user->name, "rights", user_json_rights(user),
	    "disabled", user->is_disabled);
}

void
mt_user_key(const char *name, char ret_key[MT_USER_KEY_BYTES])
{
	assert(mt_user_name_check(name) == NULL);
	(void)snprintf(ret_key, MT_USER_KEY_BYTES, MT_USER_PREFIX "%s", name);
}

char *
mt_user_encode(const struct mt_user *user)
{
	json_t *object = json_pack("{s:i, s:o, s:b}", "format", (int)USER_FORMAT, "rights",
	    user_json_rights(user), "disabled", user->is_disabled);
	char *text = object == NULL ? NULL : json_dumps(object, JSON_COMPACT);

	json_decref(object);
	return text;
}

/* ---- decode ---- */

int
mt_user_decode(const char *key, const void *value, uint32_t bytes, struct mt_user *ret_user,
    const char **ret_field)
{
	const char *name = key + strlen(MT_USER_PREFIX), *problem = NULL;
	struct mt_user user = { .version = ret_user->version };
	uint64_t format = 0;
	json_t *rights = NULL;
	const struct reader_member members[] = {
		{ "format", READER_U64, true, USER_FORMAT, USER_FORMAT, { .u64 = &format } },
		{ "rights", READER_ARRAY, true, 0, 0, { .array = &rights } },
		{ "disabled", READER_BOOL, true, 0, 0, { .flag = &user.is_disabled } },
	};
	json_t *object;
	int rc = mt_json_load(value, bytes, members, NUM_COUNT(members), &object, ret_field);

	assert(strncmp(key, MT_USER_PREFIX, strlen(MT_USER_PREFIX)) == 0);
	if (rc == 0)
		problem = mt_user_rights_read(rights, &user);
	json_decref(object);
	if (rc == 0 && problem == NULL && mt_user_name_check(name) != NULL)
		problem = "its key ends in no user's name";
	if (problem != NULL) {
		*ret_field = problem;
		rc = -EINVAL;
	}
	if (rc != 0)
		return rc;
	(void)snprintf(user.name, sizeof(user.name), "%s", name);
	*ret_user = user;
	return 0;
}

/* ---- all of them ---- */

int
mt_user_table_read(const struct meta_item *items, uint32_t count, struct mt_user_table *ret_table,
    uint32_t *ret_bad)
{
	struct mt_user_table table = { .max = (uint32_t)num_min(count, MT_USERS_MAX) };

	assert(ret_table->entries == NULL);
	*ret_bad = count - table.max;
	if (table.max > 0)
		table.entries = mt_calloc(table.max, sizeof(*table.entries));
	if (table.max > 0 && table.entries == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < table.max; i++) {
		struct mt_user *user = &table.entries[table.count];
		const char *field;
		int rc;

		user->version = items[i].version;
		rc = mt_user_decode(items[i].key, items[i].value, items[i].value_bytes, user,
		    &field);
		if (rc == -ENOMEM) {
			mt_user_table_fini(&table);
			return rc;
		}
		table.count += rc == 0;
		*ret_bad += rc != 0;
	}
	*ret_table = table;
	return 0;
}

static int
user_compare(const void *name, const void *user)
{
	return strcmp(name, ((const struct mt_user *)user)->name);
}

const struct mt_user *
mt_user_table_find(const struct mt_user_table *table, const char *name)
{
	assert(table->count <= table->max);
	return table->count == 0
	    ? NULL
	    : bsearch(name, table->entries, table->count, sizeof(*table->entries), user_compare);
}

void
mt_user_table_fini(struct mt_user_table *table)
{
	mt_free(table->entries);
	*table = (struct mt_user_table){ 0 };
}
