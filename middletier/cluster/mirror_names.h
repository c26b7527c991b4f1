/* SPDX-License-Identifier: Apache-2.0 */
/* mirror_names.h -- names of encrypted volumes and of their snapshots, as the mirror in shard 0's manifest has them */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_MIRROR_NAMES_H
#define CLEAVE_MIDDLETIER_CLUSTER_MIRROR_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "catalog/sealed_name.h"

struct keyring;
struct mt_edit;
struct mt_manifest_state;
struct mt_snapshot;
struct mt_volume;

/* A name as it shall be mirrored, and its encrypted form where that is known: encrypting it anew gives another one. */
struct mt_mirror_name {
	uint64_t number; /* as mt_sealed_name has it */
	uint32_t key_id;
	char text[MT_NAME_BYTES];
	bool is_sealed;
	struct mt_sealed_name sealed;
};

/* All zero: none. Sorted by number. */
struct mt_mirror_names {
	struct mt_mirror_name *entries;
	uint32_t count;
};

/* Where a comparison stands: zero at its beginning. */
struct mt_mirror_names_at {
	uint32_t old, wanted;
};

/*
 * mt_mirror_names_take -- names leave the copies of volumes and snapshots, and placeholders come in their places
 *
 * Both are sorted, by id and by number. A snapshot whose volume is not there any more gets a placeholder, too. Encrypted forms that @names had for the same texts stay. 0; -ENOMEM: @names is
 * as it was, and the copies may not be mirrored.
 */
int mt_mirror_names_take(struct mt_mirror_names *names, struct mt_volume *volumes,
    uint32_t volume_count, struct mt_snapshot *snapshots, uint32_t snapshot_count);
/*
 * mt_mirror_names_next -- the next edit that makes the state's names what they shall be; on the port, with its keys
 *
 * @at: zero, then as it was left. A name whose data key is not there stays as it is, or is missing until it is. With
 * @is_incomplete none is deleted. False: no more.
 */
bool mt_mirror_names_next(struct mt_mirror_names *names, const struct mt_manifest_state *state,
    const struct keyring *keys, bool is_incomplete, struct mt_mirror_names_at *at,
    struct mt_edit *ret_edit);
/* mt_mirror_names_fini -- none is left. */
void mt_mirror_names_fini(struct mt_mirror_names *names);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_MIRROR_NAMES_H */
