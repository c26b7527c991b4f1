/* SPDX-License-Identifier: Apache-2.0 */
/* keys.h -- all keys of a metadata store with their values, as they are: for who copies a store */
#ifndef CLEAVE_MIDDLETIER_CATALOG_KEYS_H
#define CLEAVE_MIDDLETIER_CATALOG_KEYS_H

#include <stdbool.h>
#include <stdint.h>

struct meta_item;

/* Owned by the keys. */
struct mt_key {
	char *key;
	char *value; /* a NUL behind it */
	uint32_t value_bytes;
	uint64_t version; /* where it was listed; 0: it was not */
};

/* All zero: none. */
struct mt_keys {
	struct mt_key *items; /* in the order in which they were added */
	uint32_t count, max;
};

/* mt_keys_add -- a copy of them. 0; -ENOMEM. */
int mt_keys_add(struct mt_keys *keys, const char *key, const void *value, uint32_t value_bytes,
    uint64_t version);
/* mt_keys_add_items -- all of a list. 0; -ENOMEM. */
int mt_keys_add_items(struct mt_keys *keys, const struct meta_item *items, uint32_t count);
/* mt_keys_find -- among keys that were added sorted; NULL: it is not there. Valid until one is added. */
struct mt_key *mt_keys_find(const struct mt_keys *keys, const char *key);
/* mt_keys_fini -- none is left. */
void mt_keys_fini(struct mt_keys *keys);

#endif /* CLEAVE_MIDDLETIER_CATALOG_KEYS_H */
