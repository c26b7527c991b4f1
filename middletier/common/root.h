/* SPDX-License-Identifier: Apache-2.0 */
/* root.h -- a shard's root: who owns it, and where its manifest is; as text see catalog/root.h */
#ifndef CLEAVE_MIDDLETIER_COMMON_ROOT_H
#define CLEAVE_MIDDLETIER_COMMON_ROOT_H

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

#endif /* CLEAVE_MIDDLETIER_COMMON_ROOT_H */
