/* SPDX-License-Identifier: Apache-2.0 */
/*
 * data_key.h -- volumes' data keys, wrapped, as the store has them: the keys "keys/NNNNNNNNNN", and a table of them
 *
 * What is wrapped is no secret to who lacks the KEK that it names (kms/kms.h). No data key as it is stands here.
 */
#ifndef CLEAVE_MIDDLETIER_CATALOG_DATA_KEY_H
#define CLEAVE_MIDDLETIER_CATALOG_DATA_KEY_H

#include <stdint.h>

struct meta_item;

#define MT_DATA_KEY_PREFIX "keys/"
#define MT_DATA_KEY_DIGITS 10u
#define MT_DATA_KEY_KEY_BYTES (sizeof(MT_DATA_KEY_PREFIX) + MT_DATA_KEY_DIGITS)
#define MT_DATA_KEYS_MAX (2u * 65536u)
/* Keys of a volume: they stay until its last data is gone, and go in one transaction. */
#define MT_DATA_KEYS_OF_VOLUME_MAX 64u
#define MT_KEK_NAME_BYTES 64u     /* with its NUL */
#define MT_WRAPPED_BYTES_MAX 512u /* as an RSA key of 4,096 bits has it; ours are 61 */

enum mt_data_key_state {
	MT_DATA_KEY_ACTIVE, /* the volume's newest: what is stored is encrypted with it */
	MT_DATA_KEY_RETIRING, /* records are there that were encrypted with it; none is made any more */
	MT_DATA_KEY_STATE_NR
};

/* A data key: the id is a counter of the cluster, and names this one for ever. */
struct mt_data_key {
	uint64_t id;      /* 1 to UINT32_MAX */
	uint64_t volume;  /* whose it is */
	uint64_t version; /* of the store's key; 0: it is new; not encoded */
	enum mt_data_key_state state;
	char kek[MT_KEK_NAME_BYTES]; /* the name of what it is wrapped with */
	uint32_t wrapped_bytes;      /* at least 1 */
	uint8_t wrapped[MT_WRAPPED_BYTES_MAX];
};

/* All zero: none. Sorted by id. */
struct mt_data_key_table {
	struct mt_data_key *entries;
	uint32_t count, max;
};

/* mt_kek_name_check -- NULL, or what is wrong with it. */
const char *mt_kek_name_check(const char *name);
/* mt_data_key_state_name -- "active" or "retiring". */
const char *mt_data_key_state_name(enum mt_data_key_state state);
/* mt_data_key_key -- "keys/NNNNNNNNNN", of an id that can be. */
void mt_data_key_key(uint64_t id, char ret_key[MT_DATA_KEY_KEY_BYTES]);
/* mt_data_key_encode -- the key's value. The text is the caller's to free(); NULL: no memory. */
char *mt_data_key_encode(const struct mt_data_key *data_key);
/*
 * mt_data_key_decode -- @key, which begins with MT_DATA_KEY_PREFIX, and its value into all of *@ret_data_key but version
 *
 * Returns 0; -ENOMEM; -EINVAL: *@ret_field says what is wrong, valid until the thread's next call.
 */
int mt_data_key_decode(const char *key, const void *value, uint32_t bytes,
    struct mt_data_key *ret_data_key, const char **ret_field);

/*
 * mt_data_key_table_read -- all of a list of "keys/", sorted as a store lists them, into *@ret_table, which was empty
 *
 * One that cannot be read, and those beyond MT_DATA_KEYS_MAX, are left out, counted in *@ret_bad, and the first of them
 * is named in the log: its volume is not served.
 * Returns 0; -ENOMEM, and nothing is in it.
 */
int mt_data_key_table_read(const struct meta_item *items, uint32_t count,
    struct mt_data_key_table *ret_table, uint32_t *ret_bad);
/* mt_data_key_table_find -- NULL: there is none. */
const struct mt_data_key *mt_data_key_table_find(const struct mt_data_key_table *table,
    uint64_t id);
/* mt_data_key_table_fini -- it is empty. */
void mt_data_key_table_fini(struct mt_data_key_table *table);

#endif /* CLEAVE_MIDDLETIER_CATALOG_DATA_KEY_H */
