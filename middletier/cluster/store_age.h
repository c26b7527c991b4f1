/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_age.h -- is the metadata store an older one than that which the storage nodes know?
 *
 * Shard 0's manifest mirrors the store (mirror.c), which counts first, and never back: ids that are given to volumes,
 * snapshots, clones and data keys, and each volume's attach number. Where the mirror is ahead, the store is an old copy.
 * Nothing may be served or made by that one: its next volume would get the blocks of another, its next data key the
 * id of one that records are encrypted with, and a former holder of a volume would be let in again beside the one whose
 * writes were acknowledged. A store in which only names, sizes or limits were changed since is not noticed.
 */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_STORE_AGE_H
#define CLEAVE_MIDDLETIER_CLUSTER_STORE_AGE_H

#include <stdbool.h>
#include <stdint.h>

#include "catalog/cluster_key.h"
#include "common/limits.h"

struct mt_gateway;
struct mt_manifest_state;
struct mt_store_attach;

/* All of it zeros: nothing is known, and no store is old. */
struct mt_store_age {
	struct mt_cluster counts;         /* next ids and numbers alone */
	struct mt_store_attach *attaches; /* by volume's id */
	uint32_t attach_count;
};

/* mt_store_age_take -- what the mirror in @state knows; mt_store_age_fini follows. 0; -ENOMEM, and nothing was taken. */
int mt_store_age_take(struct mt_store_age *age, const struct mt_manifest_state *state);
/* mt_store_age_fini -- also of zeros. */
void mt_store_age_fini(struct mt_store_age *age);
/* mt_store_age_is_old -- main, of tables that were read since: true, and @ret_text says what is missing in the store. */
bool mt_store_age_is_old(const struct mt_store_age *age, const struct mt_gateway *gateway,
    char ret_text[MT_ERROR_BYTES]);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_STORE_AGE_H */
