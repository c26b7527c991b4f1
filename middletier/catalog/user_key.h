/* SPDX-License-Identifier: Apache-2.0 */
/* user_key.h -- what a client may do with which volumes: the keys "users/NAME", and a table of them */
#ifndef CLEAVE_MIDDLETIER_CATALOG_USER_KEY_H
#define CLEAVE_MIDDLETIER_CATALOG_USER_KEY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cleave/secure.h"
#include "common/limits.h"

struct meta_item;

#define MT_USER_PREFIX "users/"
#define MT_USER_KEY_BYTES (sizeof(MT_USER_PREFIX) + SPLIT_NAME_BYTES_MAX)
#define MT_USERS_MAX 4096u
#define MT_USER_RIGHTS_MAX 16u
#define MT_PATTERN_BYTES 64u /* with its NUL */
#define MT_MAY_LETTERS "rwsa"
#define MT_MAY_TEXT_BYTES 5u

/* Bits: what a client may do with a volume; each has its letter. */
#define MT_MAY_READ 1u
#define MT_MAY_WRITE 2u
#define MT_MAY_SNAPSHOT 4u
#define MT_MAY_ALTER 8u
#define MT_MAY_ALL 15u

/* A user is the name of a subject: of "client/db1" it is db1. */
struct mt_user {
	char name[SPLIT_NAME_BYTES_MAX];
	bool is_disabled; /* as if it had no rights, which are kept */
	uint32_t right_count;
	struct mt_user_right {
		char volumes[MT_PATTERN_BYTES]; /* a volume's name, in which '*' is any text */
		unsigned may;                   /* bits, at least one */
	} rights[MT_USER_RIGHTS_MAX];
	uint64_t version; /* of the key; 0: it is new; not encoded */
};

/* All zero: none. Sorted by name. */
struct mt_user_table {
	struct mt_user *entries;
	uint32_t count, max;
};

/* mt_pattern_fits -- is @name one of those that @pattern means? The time is at most that of their lengths' product. */
bool mt_pattern_fits(const char *pattern, const char *name);
/*
 * mt_user_may -- bits: the union of all rights whose pattern fits; 0 of a user that is disabled
 *
 * A pattern that fits NAME fits what an import, or a restore, fills before it becomes NAME (cleave/unfinished.h).
 */
unsigned mt_user_may(const struct mt_user *user, const char *volume);
/* mt_may_text -- "rw", letters in the order of MT_MAY_LETTERS. */
const char *mt_may_text(unsigned may, char ret_text[MT_MAY_TEXT_BYTES]);

/* mt_user_name_check -- NULL, or what is wrong with it: it is that of a subject. */
const char *mt_user_name_check(const char *name);
/*
 * mt_user_rights_read -- @list, JSON as the key has it, into @user's rights
 *
 * Returns NULL, or a static sentence that says what is wrong; the rights are those of before then.
 */
const char *mt_user_rights_read(const json_t *list, struct mt_user *user);
/* mt_user_json -- {"name":N,"rights":[{"volumes":P,"may":L}],"disabled":B}; NULL: no memory. */
json_t *mt_user_json(const struct mt_user *user);

/* mt_user_key -- of a name that was checked. */
void mt_user_key(const char *name, char ret_key[MT_USER_KEY_BYTES]);
/* mt_user_encode -- the key's value. The text is the caller's to free; NULL: no memory. */
char *mt_user_encode(const struct mt_user *user);
/*
 * mt_user_decode -- @key, which begins with MT_USER_PREFIX, and its value into all of *@ret_user but version
 *
 * Returns 0; -ENOMEM; -EINVAL: *@ret_field says what is wrong, valid until the thread's next call.
 */
int mt_user_decode(const char *key, const void *value, uint32_t bytes, struct mt_user *ret_user,
    const char **ret_field);

/*
 * mt_user_table_read -- all of a list of "users/", sorted as a store lists them, into *@ret_table, which was empty
 *
 * One that cannot be read, and those beyond MT_USERS_MAX, are left out, and counted in *@ret_bad: they have no rights.
 * Returns 0; -ENOMEM, and nothing is in it.
 */
int mt_user_table_read(const struct meta_item *items, uint32_t count,
    struct mt_user_table *ret_table, uint32_t *ret_bad);
/* mt_user_table_find -- NULL: there is none. */
const struct mt_user *mt_user_table_find(const struct mt_user_table *table, const char *name);
/* mt_user_table_fini -- it is empty. */
void mt_user_table_fini(struct mt_user_table *table);

#endif /* CLEAVE_MIDDLETIER_CATALOG_USER_KEY_H */
