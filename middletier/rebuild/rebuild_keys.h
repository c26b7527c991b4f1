/* SPDX-License-Identifier: Apache-2.0 */
/* rebuild_keys.h -- data keys and names of encrypted volumes, as shard 0's manifest has them, for a new store */
#ifndef CLEAVE_MIDDLETIER_REBUILD_REBUILD_KEYS_H
#define CLEAVE_MIDDLETIER_REBUILD_REBUILD_KEYS_H

#include <stdint.h>

#include "catalog/snapshot.h"
#include "catalog/volume.h"

struct mt_cluster;
struct mt_manifest_state;
struct mt_rebuild_plan;
struct mt_rebuild_store;

/* mt_rebuild_keys_plan -- @store gets the mirror's wrapped keys, and @cluster counts from behind all of them. 0; -ENOMEM. */
int mt_rebuild_keys_plan(struct mt_rebuild_store *store, const struct mt_manifest_state *mirror,
    struct mt_cluster *cluster);
/*
 * mt_rebuild_volume -- the mirror's volume @index, an encrypted one with the name that it had
 *
 * Without its KEK among the plan's it keeps "encrypted-ID". So it does where its wrapped key, or the name, does not open,
 * or another volume is called so; a warning says which, and what gives the name back. May run a KEK's program, which
 * blocks.
 */
struct mt_volume mt_rebuild_volume(const struct mt_rebuild_plan *plan, uint32_t index);
/* mt_rebuild_snapshot -- the same of a snapshot. */
struct mt_snapshot mt_rebuild_snapshot(const struct mt_rebuild_plan *plan, uint32_t index);

#endif /* CLEAVE_MIDDLETIER_REBUILD_REBUILD_KEYS_H */
