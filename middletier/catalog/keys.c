/* SPDX-License-Identifier: Apache-2.0 */
/* keys.c -- see keys.h */
#include "catalog/keys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/meta.h"
#include "common/alloc.h"

#define KEYS_MIN 64u

int
mt_keys_add(struct mt_keys *keys, const char *key, const void *value, uint32_t value_bytes,
    uint64_t version)
{
	struct mt_key *item;

	assert(keys->count <= keys->max);
	assert(value_bytes <= META_VALUE_BYTES_MAX);
	if (keys->count == keys->max) {
		uint32_t max = (uint32_t)num_max(2 * (uint64_t)keys->max, KEYS_MIN);
		struct mt_key *items = mt_realloc(keys->items, max * sizeof(*items));

		if (items == NULL)
			return -ENOMEM;
		keys->items = items;
		keys->max = max;
	}
	item = &keys->items[keys->count];
	*item = (struct mt_key){ .key = mt_strdup(key),
		.value = mt_calloc(1, (size_t)value_bytes + 1),
		.value_bytes = value_bytes,
		.version = version };
	if (item->key == NULL || item->value == NULL) {
		mt_free(item->key);
		mt_free(item->value);
		return -ENOMEM;
	}
	if (value_bytes > 0)
		memcpy(item->value, value, value_bytes);
	keys->count++;
	return 0;
}

int
mt_keys_add_items(struct mt_keys *keys, const struct meta_item *items, uint32_t count)
{
	int rc = 0;

	assert(count == 0 || items != NULL);
	for (uint32_t i = 0; i < count && rc == 0; i++)
		rc = mt_keys_add(keys, items[i].key, items[i].value, items[i].value_bytes,
		    items[i].version);
	return rc;
}

static int
key_compare(const void *name, const void *key)
{
	return strcmp(name, ((const struct mt_key *)key)->key);
}

struct mt_key *
mt_keys_find(const struct mt_keys *keys, const char *key)
{
	assert(key != NULL);
	assert(keys->count <= keys->max);
	return keys->count == 0
	    ? NULL
	    : bsearch(key, keys->items, keys->count, sizeof(*keys->items), key_compare);
}

void
mt_keys_fini(struct mt_keys *keys)
{
	assert(keys->count <= keys->max);
	for (uint32_t i = 0; i < keys->count; i++) {
		mt_free(keys->items[i].key);
		mt_free(keys->items[i].value);
	}
	mt_free(keys->items);
	*keys = (struct mt_keys){ 0 };
}
