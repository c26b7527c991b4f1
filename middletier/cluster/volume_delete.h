/* SPDX-License-Identifier: Apache-2.0 */
/* volume_delete.h -- the transactions that delete a volume, or purge one of the trash step by step */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_VOLUME_DELETE_H
#define CLEAVE_MIDDLETIER_CLUSTER_VOLUME_DELETE_H

#include <stdbool.h>
#include <stdint.h>

#include "catalog/volume_table.h"
#include "cleave/meta.h"

struct mt_gateway;
struct mt_snapshot;

#define MT_DELETE_SNAPSHOTS_MAX 12u /* of a step */
#define MT_DELETE_KEYS_MAX (MT_DELETE_SNAPSHOTS_MAX + 3u)

/* A transaction with the keys and texts that it points to. */
struct mt_delete_ops {
	struct meta_op ops[2 * MT_DELETE_KEYS_MAX];
	uint32_t count;
	bool is_last; /* of the steps: behind it the volume is gone */
	char keys[MT_DELETE_KEYS_MAX][MT_VOLUME_KEY_BYTES];
	char *texts[MT_DELETE_KEYS_MAX];
	uint32_t key_count;
};

/*
 * mt_delete_ops_volume -- @entry's key goes, and the mark "deleted/ID" comes
 *
 * A clone's origin has one clone less. Ownership: the caller's, for mt_delete_ops_free, when the transaction has been
 * submitted. NULL: no memory.
 */
struct mt_delete_ops *mt_delete_ops_volume(struct mt_gateway *gateway,
    const struct mt_volume_entry *entry);
/*
 * mt_delete_ops_purge -- the next step of purging @entry, which is in the trash, and which nothing keeps there
 *
 * Its snapshots go first, some a step; from the first step on it cannot be restored. Ownership, NULL: as
 * mt_delete_ops_volume.
 */
struct mt_delete_ops *mt_delete_ops_purge(struct mt_gateway *gateway,
    const struct mt_volume_entry *entry);
/* mt_delete_ops_free -- NULL is a no-op. */
void mt_delete_ops_free(struct mt_delete_ops *ops);
/* mt_delete_obstacle -- a snapshot of the volume that may not go: it is protected, or has clones; NULL: there is none. */
const struct mt_snapshot *mt_delete_obstacle(const struct mt_volumes *volumes, uint64_t volume_id);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_VOLUME_DELETE_H */
