/* SPDX-License-Identifier: Apache-2.0 */
/* volume_table.h -- every volume of the cluster, as main knows it */
#ifndef CLEAVE_MIDDLETIER_CATALOG_VOLUME_TABLE_H
#define CLEAVE_MIDDLETIER_CATALOG_VOLUME_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "catalog/holder.h"
#include "catalog/scope.h"
#include "catalog/snapshot_table.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cleave/wire.h"

struct mt_cluster;
struct mt_gateway;
struct mt_volume_tell;

#define MT_NAME_BYTES (CLEAVE_VOLUME_NAME_BYTES_MAX + 1)

struct mt_volume {
	uint64_t id;
	char name[MT_NAME_BYTES];
	uint64_t size_bytes;
	uint64_t segment_base;
	uint32_t segment_count;
	enum service_class service_class;
	uint8_t codec_id;
	int level;
	uint32_t replica_count;
	uint64_t attach;         /* number of the newest attach; 0: never */
	uint64_t session_id;     /* who made it, and may write; 0: nobody, it was closed */
	struct mt_holder holder; /* for people */
	uint64_t origin;         /* the snapshot that it is a clone of; 0: none */
	/* Of a session of VOLUME@OLD@NEW: the scope holds exactly the blocks that may differ. */
	bool is_difference;
	struct mt_scope scope;
};

/* Waits for a reading of the volumes that begins after it was asked for. */
struct mt_volumes_waiter {
	struct loop_link link;
	void (*fn)(int rc, void *arg);
	void *arg;
};

#define MT_VOLUMES_MAX 65536u

typedef void (*mt_volume_fn)(int rc, const struct mt_volume *volume, void *arg);

struct mt_volume_entry {
	struct mt_volume volume;
	uint64_t version;     /* of the key */
	uint64_t told_attach; /* the newest one that every port of ours knows */
	uint64_t heard_ns;    /* holder.c: of the session of that attach, last; 0: to be set */
	bool is_deleting;     /* no session is let in meanwhile */
};

struct mt_volumes {
	struct mt_volume_entry *entries; /* sorted by name */
	uint32_t count, max;
	bool is_loaded;
	bool is_incomplete; /* a key could not be understood, and its volume is missing here */
	struct mt_snapshots snapshots;
	/* volume_refresh.c: being read */
	struct mt_volume_entry *next_entries;
	uint32_t next_count, next_max;
	bool is_next_incomplete;
	struct mt_snapshots next_snapshots;
	/* The one change under way: control.c makes them one after the other. */
	struct mt_volume_entry change;
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

/*
 * mt_cluster_count -- one transaction: the counters become @next's, and what was numbered gets its key
 *
 * @key, which must not be there yet, is put with the value @text; NULL: -ENOMEM. Nothing is written
 * unless the key "cluster" has @next's version.
 * Returns: 0: @fn once, as of a transaction (cleave/meta.h); < 0: never.
 */
int mt_cluster_count(struct mt_gateway *gateway, const struct mt_cluster *next, const char *key,
    const char *text, meta_txn_fn fn, void *arg);

/* Volumes. */
static inline uint32_t
mt_volume_segment_count(uint64_t size_bytes)
{
	return (uint32_t)((size_bytes + CLEAVE_SEGMENT_BYTES - 1) / CLEAVE_SEGMENT_BYTES);
}
/* mt_volume_name_check -- NULL, or what is wrong with it. */
const char *mt_volume_name_check(const char *name);
char *mt_volume_encode(const struct mt_volume *volume);
int mt_volume_decode(const char *name, const void *value, uint32_t bytes,
    struct mt_volume *ret_volume, const char **ret_field);
/* mt_volumes_load -- read cluster and volumes anew; @fn's rc: 0 or why not. */
int mt_volumes_load(struct mt_gateway *gateway, mt_volume_fn fn, void *arg);
void mt_volumes_init(struct mt_volumes *volumes);
void mt_volumes_fini(struct mt_volumes *volumes);
/* What the refresh is made of. */
int mt_volumes_read_cluster(struct mt_gateway *gateway, int rc, const struct meta_item *items,
    uint32_t count);
int mt_volumes_put_item(struct mt_volumes *volumes, const struct meta_item *item);
int mt_volumes_put(struct mt_volumes *volumes, const struct mt_volume *volume, uint64_t version);
#define MT_VOLUME_PREFIX "volumes/"
struct mt_volume_entry *mt_volumes_by_name(struct mt_volumes *volumes, const char *name);
struct mt_volume_entry *mt_volumes_by_id(struct mt_volumes *volumes, uint64_t id);
/* mt_volumes_after -- index of the first volume whose name is greater than @name ("": the first). */
uint32_t mt_volumes_after(const struct mt_volumes *volumes, const char *name);

/*
 * Changes, one at a time: 0 and @fn later, or a negative errno and never. @fn's rc: 0 durable;
 * -EAGAIN another change came first (and has been read by now).
 */
int mt_volume_create(struct mt_gateway *gateway, const struct mt_volume *wish, mt_volume_fn fn,
    void *arg);
int mt_volume_attach(struct mt_gateway *gateway, const char *name, uint64_t session_id,
    const struct mt_holder *holder, mt_volume_fn fn, void *arg);
/* mt_volume_detach -- its session has closed it; -ENOENT: that session does not have it. */
int mt_volume_detach(struct mt_gateway *gateway, uint64_t volume_id, uint64_t session_id,
    mt_volume_fn fn, void *arg);
/* mt_volumes_stamp -- attach numbers that are new here were heard of now. */
void mt_volumes_stamp(struct mt_gateway *gateway);
int mt_volume_delete(struct mt_gateway *gateway, const char *name, mt_volume_fn fn, void *arg);

#endif /* CLEAVE_MIDDLETIER_CATALOG_VOLUME_TABLE_H */
