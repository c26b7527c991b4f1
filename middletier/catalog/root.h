/* SPDX-License-Identifier: Apache-2.0 */
/* root.h -- a shard's root key as text; see root.c */
#ifndef CLEAVE_MIDDLETIER_CATALOG_ROOT_H
#define CLEAVE_MIDDLETIER_CATALOG_ROOT_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/batch.h"
#include "cleave/split.h"
#include "common/replica.h"

/* The root key "shards/NNNNN": JSON of this. */
struct mt_root {
	uint32_t epoch;
	bool
	    is_released; /* its owner has stopped serving it of its own accord: anybody may claim */
	uint64_t gateway_id, boot_id;
	char port_address[SPLIT_ADDRESS_BYTES_MAX];
	bool has_manifest;
	struct extent_id manifest;
	struct mt_replica manifest_replicas[MT_REPLICAS_MAX];
	uint32_t manifest_replica_count;
	uint64_t manifest_sealed_bytes; /* UINT64_MAX: open */
	uint64_t version;               /* of the key */
	bool
	    may_be_empty; /* has_manifest is false, and whatever nodes hold is given up: recover --force */
};

#define MT_ROOT_OPEN UINT64_MAX /* manifest_sealed_bytes of a manifest extent that takes edits */
#define MT_ROOT_KEY_BYTES 32u

/* mt_root_key -- "shards/00003" */
void mt_root_key(char out[MT_ROOT_KEY_BYTES], uint32_t shard);
/* mt_root_encode -- JSON, to be freed with free(). NULL: out of memory. Leaves version out. */
char *mt_root_encode(const struct mt_root *root);
/*
 * mt_root_decode -- 0 and everything but version; -EBADMSG and the field; -ENOMEM
 *
 * @shard: whose root it must be.
 */
int mt_root_decode(const void *text, uint32_t bytes, uint32_t shard, struct mt_root *ret_root,
    const char **ret_field);
/* mt_root_is_equal -- the same in everything but version. */
bool mt_root_is_equal(const struct mt_root *a, const struct mt_root *b);

#endif /* CLEAVE_MIDDLETIER_CATALOG_ROOT_H */
