/* SPDX-License-Identifier: Apache-2.0 */
/* node_key.h -- a storage node as the cluster knows it: the keys "nodes/NNNNNNNNNN", read and written */
#ifndef CLEAVE_MIDDLETIER_CATALOG_NODE_KEY_H
#define CLEAVE_MIDDLETIER_CATALOG_NODE_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "catalog/node_state.h"
#include "cleave/split.h"

#define MT_NODE_PREFIX "nodes/"
#define MT_NODE_KEY_BYTES 17u /* the prefix, ten digits and a zero */
#define MT_NODE_NOTE_BYTES 128u
#define MT_NODE_WEIGHT_MAX 1000u
#define MT_NODE_MAINTENANCE_S_MAX (30u * 24u * 3600u) /* longer is no maintenance: drain it */

struct mt_node {
	uint32_t id;
	enum mt_node_state state;
	char address[SPLIT_ADDRESS_BYTES_MAX];
	char domain[MT_NODE_DOMAIN_BYTES]; /* a path, "dc1/rack2/host5"; "": a domain of its own */
	uint32_t weight;                   /* of its free share, in percent */
	char disk[MT_NODE_DISK_BYTES];     /* the uuid of its disk; "": not known */
	uint64_t added_s;                  /* wall clock */
	uint64_t maintenance_until_s;      /* wall clock; 0: it is not in maintenance */
	char note[MT_NODE_NOTE_BYTES];     /* an operator's */
	uint64_t version;                  /* of the key; not encoded */
};

/* mt_node_key -- @id is not 0. */
void mt_node_key(char out[MT_NODE_KEY_BYTES], uint32_t id);
/* mt_node_encode -- the value of its key. The text is the caller's to free; NULL: no memory. */
char *mt_node_encode(const struct mt_node *node);
/*
 * mt_node_decode -- an item of the store: @key, and @value of @bytes
 *
 * Returns 0; -ENOMEM; -EINVAL: *@ret_field is a sentence that says what is wrong, valid until the thread's next
 * call. @ret_node->version stays as it is.
 */
int mt_node_decode(const char *key, const void *value, uint32_t bytes, struct mt_node *ret_node,
    const char **ret_field);
/* mt_node_state_name -- as in the key, and as people read it. */
const char *mt_node_state_name(enum mt_node_state state);

#endif /* CLEAVE_MIDDLETIER_CATALOG_NODE_KEY_H */
