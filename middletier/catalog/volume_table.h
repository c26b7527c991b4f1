/* SPDX-License-Identifier: Apache-2.0 */
/* volume_table.h -- every volume of the cluster, as main knows it */
#ifndef CLEAVE_MIDDLETIER_CATALOG_VOLUME_TABLE_H
#define CLEAVE_MIDDLETIER_CATALOG_VOLUME_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "catalog/snapshot_table.h"
#include "catalog/volume.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cleave/wire.h"

struct mt_volume_tell;

#define MT_VOLUMES_MAX 65536u

struct mt_volume_entry {
	struct mt_volume volume;
	uint64_t version;       /* of the key */
	uint64_t told_attach;   /* the newest one that every port of ours knows */
	uint64_t heard_ns;      /* holding.c: of the session of that attach, last; 0: to be set */
	bool is_deleting;       /* no session is let in meanwhile */
	uint64_t seen_ns;       /* since when this version of its key is known here; 0: to be set */
	bool are_limits_untold; /* ports may have others than the volume, or another data key */
};

struct mt_volumes {
	struct mt_volume_entry *entries; /* sorted by name */
	uint32_t count, max;
	bool is_loaded;
	bool
	    is_incomplete; /* a volume may be missing here: a key could not be understood, or has gone */
	struct mt_snapshots snapshots;
	/* volume_refresh.c: being read */
	struct mt_volume_entry *next_entries;
	uint32_t next_count, next_max;
	bool is_next_incomplete;
	struct mt_snapshots next_snapshots;
	/* The one change under way: control_request.c makes them one after the other. */
	struct mt_volume_entry change;
	bool is_deletion;
	int change_rc;
	mt_volume_fn fn;
	void *arg;
	/* volume_refresh.c */
	struct loop_link waiters; /* mt_volumes_waiter: for the next reading */
	struct loop_link readers; /* and of the one under way */
	bool is_refreshing;
	uint32_t change_serial;  /* grows when a change begins and when it ends */
	uint32_t refresh_serial; /* what it was when the reading began */
	struct mt_volume_tell *tells;
	uint32_t tell_count, tell_index;
	struct mt_volumes_waiter watch_waiter; /* ours, after a watch fired */
	struct loop_timer watch_timer;         /* the store did not answer it */
	bool is_watching, is_watch_missed;     /* it fired again while we were reading */
};

static inline uint32_t
mt_volume_segment_count(uint64_t size_bytes)
{
	return (uint32_t)((size_bytes + CLEAVE_SEGMENT_BYTES - 1) / CLEAVE_SEGMENT_BYTES);
}
/* mt_volume_name_check -- NULL, or what is wrong with it. */
const char *mt_volume_name_check(const char *name);
/* mt_volume_key -- "volumes/NAME"; of a volume in the trash, whose name is "trash/ID", too. */
void mt_volume_key(const char *name, char ret_key[MT_VOLUME_KEY_BYTES]);
char *mt_volume_encode(const struct mt_volume *volume);
int mt_volume_decode(const char *name, const void *value, uint32_t bytes,
    struct mt_volume *ret_volume, const char **ret_field);
void mt_volumes_init(struct mt_volumes *volumes);
void mt_volumes_fini(struct mt_volumes *volumes);
/* mt_volumes_reserve -- room for @count volumes. 0; -ENOSPC: more than MT_VOLUMES_MAX; -ENOMEM. */
int mt_volumes_reserve(struct mt_volumes *volumes, uint32_t count);
/*
 * mt_volumes_put_item -- what the key @item says becomes the table's entry
 *
 * A text that cannot be understood is logged, and makes the table incomplete: 0. Else as mt_volumes_put.
 */
int mt_volumes_put_item(struct mt_volumes *volumes, const struct meta_item *item);
/* mt_volumes_put -- as mt_volumes_reserve for one more. */
int mt_volumes_put(struct mt_volumes *volumes, const struct mt_volume *volume, uint64_t version);
/* mt_volumes_remove -- a name that is not there is no error. */
void mt_volumes_remove(struct mt_volumes *volumes, const char *name);
struct mt_volume_entry *mt_volumes_by_name(struct mt_volumes *volumes, const char *name);
struct mt_volume_entry *mt_volumes_by_id(const struct mt_volumes *volumes, uint64_t id);
/* mt_volumes_trashed -- the volume of that id, if it is in the trash; else NULL. */
struct mt_volume_entry *mt_volumes_trashed(struct mt_volumes *volumes, uint64_t id);
/* mt_volumes_trash -- those in the trash stand together, by id: how many there are, and the first one's index. */
uint32_t mt_volumes_trash(const struct mt_volumes *volumes, uint32_t *ret_first);
/* mt_volumes_live_count -- volumes that are not in the trash. */
uint32_t mt_volumes_live_count(const struct mt_volumes *volumes);
/* mt_volumes_after -- index of the first volume whose name is greater than @name ("": the first). */
uint32_t mt_volumes_after(const struct mt_volumes *volumes, const char *name);

#endif /* CLEAVE_MIDDLETIER_CATALOG_VOLUME_TABLE_H */
