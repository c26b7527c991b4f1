/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot_table.h -- the keys "snapshots/N", and main's copy of them */
#ifndef CLEAVE_MIDDLETIER_CATALOG_SNAPSHOT_TABLE_H
#define CLEAVE_MIDDLETIER_CATALOG_SNAPSHOT_TABLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "catalog/snapshot.h"

struct meta_item;
struct mt_volume;
struct mt_volumes;

/* snapshot_table.c: every snapshot of the cluster, pending and deleted ones too */
struct mt_snapshot_entry {
	struct mt_snapshot snapshot;
	uint64_t version; /* of the key */
	char *
	    waiting; /* DELETED, and no scope names it: shards that have not dropped it yet, in hex */
	uint64_t seen_ns; /* PENDING: since when it has been so */
};

struct mt_snapshots {
	struct mt_snapshot_entry *entries; /* by number */
	uint32_t count, max;
	bool is_incomplete;       /* some could not be understood: what they name is not known */
	uint64_t cluster_version; /* "cluster" was read before the volumes, and these after them */
};

#define MT_SNAPSHOT_PREFIX "snapshots/"
#define MT_SNAPSHOT_KEY_BYTES 40u
#define MT_SNAPSHOTS_VOID_MAX 48u /* void or pending, of all volumes: then no more are begun */
void mt_snapshot_key(uint64_t number, char ret_key[MT_SNAPSHOT_KEY_BYTES]);
/* mt_snapshot_encode -- @waiting may be NULL. The text is to be freed with free(); NULL: no memory. */
char *mt_snapshot_encode(const struct mt_snapshot *snapshot, const char *waiting);
/* mt_snapshot_decode -- 0, *@ret_waiting NULL or to be freed with mt_free; -EINVAL and the field; -ENOMEM. */
int mt_snapshot_decode(const char *key, const void *value, uint32_t bytes,
    struct mt_snapshot *ret_snapshot, char **ret_waiting, const char **ret_field);
/* mt_snapshots_put_item -- one that cannot be understood is logged, and counts as if it were live. */
int mt_snapshots_put_item(struct mt_snapshots *snapshots, const struct meta_item *item);
void mt_snapshots_fini(struct mt_snapshots *snapshots);
/* mt_snapshot_void -- it came to nothing. */
void mt_snapshot_void(struct mt_snapshot *snapshot);
/* mt_snapshots_void_count -- how many came to nothing, and have a cut in some shard; or may yet: pending. */
uint32_t mt_snapshots_void_count(const struct mt_snapshots *snapshots);
/* mt_snapshots_live_count -- of a volume. */
uint32_t mt_snapshots_live_count(const struct mt_snapshots *snapshots, uint64_t volume_id);
struct mt_snapshot_entry *mt_snapshots_by_number(const struct mt_snapshots *snapshots,
    uint64_t number);
/* mt_snapshots_by_name -- live or pending. NULL: there is none. */
struct mt_snapshot_entry *mt_snapshots_by_name(const struct mt_snapshots *snapshots,
    uint64_t volume_id, const char *name);
/*
 * mt_snapshot_session -- what a port is told about a live snapshot, or a difference, as if it were a volume
 *
 * @id, @attach: see MT_SNAPSHOT_ID. 0; -ENOENT it is no such id, or something of it is gone; -ENOTSUP too
 * many spans.
 */
int mt_snapshot_session(struct mt_volumes *volumes, uint64_t id, uint64_t attach,
    struct mt_volume *ret_volume);

/* mt_snapshot_is_grouped -- can snapshot @number belong to the group that begins with @group? */
static inline bool
mt_snapshot_is_grouped(uint64_t number, uint64_t group)
{
	return group != 0 && group <= number && number - group < CLEAVE_GROUP_VOLUMES_MAX;
}

/* mt_json_snapshot -- snapshot_table.c: without its scope. */
json_t *mt_json_snapshot(const struct mt_snapshot *snapshot);

#endif /* CLEAVE_MIDDLETIER_CATALOG_SNAPSHOT_TABLE_H */
