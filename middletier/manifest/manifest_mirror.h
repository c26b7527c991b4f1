/* SPDX-License-Identifier: Apache-2.0 */
/* manifest_mirror.h -- volumes, snapshots and the key "cluster", as shard 0's manifest mirrors them */
#ifndef CLEAVE_MIDDLETIER_MANIFEST_MANIFEST_MIRROR_H
#define CLEAVE_MIDDLETIER_MANIFEST_MANIFEST_MIRROR_H

#include <stdint.h>

#include "catalog/data_key.h"
#include "catalog/sealed_name.h"

struct mt_cluster;
struct mt_edit;
struct mt_manifest_state;
struct mt_snapshot;
struct mt_volume;

/* mt_manifest_mirror_apply -- as mt_manifest_state_apply, of an edit of the mirror. */
int mt_manifest_mirror_apply(struct mt_manifest_state *state, const struct mt_edit *edit,
    const char **ret_field);
/* mt_manifest_state_volume -- NULL where it is not mirrored. Valid until the next edit. */
const struct mt_volume *mt_manifest_state_volume(const struct mt_manifest_state *state,
    uint64_t id);
/* mt_manifest_state_snapshot -- the same of a snapshot. */
const struct mt_snapshot *mt_manifest_state_snapshot(const struct mt_manifest_state *state,
    uint64_t number);
/* mt_manifest_state_name -- the same of a name, by its number. */
const struct mt_sealed_name *mt_manifest_state_name(const struct mt_manifest_state *state,
    uint64_t number);
/* mt_manifest_state_counts -- what the mirror has counted, in the places of a cluster's key; else that is zeros. */
void mt_manifest_state_counts(const struct mt_manifest_state *state, struct mt_cluster *ret_counts);
/* At most what the mirror of a data key, and of a name, takes. */
#define MT_MANIFEST_DATA_KEY_BYTES (28u + MT_KEK_NAME_BYTES + MT_WRAPPED_BYTES_MAX)
#define MT_MANIFEST_NAME_BYTES (20u + MT_SEALED_NAME_BYTES)
/* mt_manifest_volume_bytes -- what the mirror of a volume, or a snapshot, takes. */
uint64_t mt_manifest_volume_bytes(const struct mt_volume *volume);
uint64_t mt_manifest_snapshot_bytes(const struct mt_snapshot *snapshot);

#endif /* CLEAVE_MIDDLETIER_MANIFEST_MANIFEST_MIRROR_H */
