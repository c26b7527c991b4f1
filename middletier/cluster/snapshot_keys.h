/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot_keys.h -- numbers and keys of snapshots that are being taken: given away, read back, made void */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_SNAPSHOT_KEYS_H
#define CLEAVE_MIDDLETIER_CLUSTER_SNAPSHOT_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/meta.h"

struct mt_cluster;
struct mt_gateway;
struct mt_snapshot;
struct mt_taking_wish;

/* Snapshots of a group, in the order of their numbers, which are in a row. */
struct mt_snapshot_row {
	const struct mt_snapshot *snapshots;
	uint32_t count; /* 1 to CLEAVE_GROUP_VOLUMES_MAX */
};

/*
 * mt_snapshot_check_numbers -- can the next numbers be those of snapshots of @wishes?
 *
 * 0; -ENOSPC there are none; -EBADMSG a volume's scope names one that was not given away yet, which is logged.
 */
int mt_snapshot_check_numbers(const struct mt_gateway *gateway, const struct mt_taking_wish *wishes,
    uint32_t count);
/*
 * mt_snapshot_put_keys -- "cluster" becomes @next, of which the version is that of before, and each snapshot gets its key
 *
 * One transaction; no key of them may be there. 0: @fn once, as of a transaction; -ENOMEM and others: never.
 */
int mt_snapshot_put_keys(struct mt_gateway *gateway, const struct mt_cluster *next,
    const struct mt_snapshot_row *row, meta_txn_fn fn, void *arg);
/* mt_snapshot_read_versions -- of their keys, in the table. False: one is not there, or is not pending. */
bool mt_snapshot_read_versions(const struct mt_gateway *gateway, const struct mt_snapshot_row *row,
    uint64_t *ret_versions);
/* mt_snapshot_void_keys -- all pending keys, of these versions, become void, or none. As mt_snapshot_put_keys. */
int mt_snapshot_void_keys(struct mt_gateway *gateway, const struct mt_snapshot_row *row,
    const uint64_t *versions, meta_txn_fn fn, void *arg);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_SNAPSHOT_KEYS_H */
