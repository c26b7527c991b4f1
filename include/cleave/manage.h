/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manage.h -- libcleave: volumes and snapshots made, listed, changed and deleted; what a cluster is made of
 *
 * Each call asks one of a client's gateways, as cleave_control does, and has the answer as a struct. It
 * has two forms: on the caller's loop, with a handler, and blocking (_wait), for a client on a thread of
 * the library's own. What is common to all of them:
 *
 *   - A call that changes something is sent once. When its connection is lost before the answer came,
 *     that is -ECONNRESET: the change may have happened. Ask (cleave_volume_show) before it is tried again.
 *   - The errors of a gateway come with its text: -EINVAL it takes no such name or value; -ENOENT there is
 *     none of that name; -EEXIST there is one already; -ENOTEMPTY somebody uses it, or something hangs on
 *     it; -ENOSPC; -ENOTSUP.
 *   - Those of the way there: -ETIMEDOUT no answer within options.control_timeout_ns; -ECONNREFUSED and
 *     the like; -ECONNRESET; -EBADMSG the answer cannot be read.
 *   - A name is 1 to 63 characters, of a snapshot VOLUME@SNAPSHOT; others are -EINVAL.
 */
#ifndef CLEAVE_MANAGE_H
#define CLEAVE_MANAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/client.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The session that writes a volume. Its texts are for people; longer ones are cut. */
struct cleave_writer {
	char client[64];  /* what it calls itself: options.name */
	char address[64]; /* from where it opened the volume */
	uint64_t since_s; /* seconds since 1970 */
};

/* A volume, as a gateway describes it. */
struct cleave_volume_entry {
	struct cleave_volume_info info; /* is_read_only is false */
	uint64_t origin;             /* the number of the snapshot that it is a clone of; 0: none */
	uint32_t key_id;             /* its newest data key; 0: it is not encrypted */
	char reads[16];              /* where its writer reads it: "gateway", "hot", "direct" */
	bool has_writer;             /* told by cleave_volume_show and _list */
	struct cleave_writer writer; /* zero when there is none */
};

/* Some of the volumes, by rising name. */
struct cleave_volume_page {
	const struct cleave_volume_entry *volumes;
	uint32_t volume_count;
	bool is_more; /* ask again, after the last of these */
};

/* A snapshot, as a gateway describes it. */
struct cleave_snapshot {
	char name[2 * CLEAVE_VOLUME_NAME_BYTES_MAX +
	    2];          /* VOLUME@SNAPSHOT: cleave_volume_open takes it */
	uint64_t number; /* no other one ever has it */
	uint64_t volume_id;
	uint64_t size_bytes; /* of the volume, when it was taken */
	uint64_t created_s;  /* seconds since 1970 */
	uint32_t clone_count;
	bool is_protected; /* it is not deleted until it is unprotected */
	uint64_t
	    group; /* the number of the first of those that were taken at one point in time; 0: alone */
};

/* Some of the snapshots, by rising number. */
struct cleave_snapshot_page {
	const struct cleave_snapshot *snapshots;
	uint32_t snapshot_count;
	bool is_more; /* ask again, after the last of these */
};

/* A gateway of the cluster, as another one sees it, or itself. Longer texts are cut. */
struct cleave_gateway_entry {
	uint64_t id, boot_id;
	bool is_asked;     /* it is the one that answers */
	char address[128]; /* of its first port; "": it has none */
	uint32_t port_count;
	uint32_t shards_owned;
	uint32_t shards_share;  /* so many it shall own */
	uint64_t seen_for_ms;   /* since it was last heard of */
	uint64_t lease_left_ms; /* of the one that answers; 0: it has no lease, or is another one */
	uint32_t level_min, level_max; /* that its release speaks */
	/* serving, draining, drained, severed; "": the gateway that answers knows of none */
	char state[16];
};

/* A storage node, as a gateway sees it. Longer texts are cut. */
struct cleave_node_entry {
	uint64_t id; /* 0: not known yet */
	char address[128];
	char domain[64];
	char state[16];    /* up, connecting, down */
	char trouble[128]; /* why it is not up; "": it is, or was not tried */
	uint64_t slots_total, slots_free, slot_bytes;
	uint64_t
	    slots_reserved; /* of the free ones: kept for what gives room back, not for new data */
	uint32_t level;     /* agreed on with it when it was heard last; 0: never was */
	char member[16]; /* in, draining; "": the cluster knows it by its gateways' options alone */
	uint32_t weight; /* of its free share, in percent */
	uint64_t maintenance_s; /* that are left of it; 0: it is in none */
	char note[128];         /* an operator's */
	bool is_read_only;      /* its disk takes no more writes */
	char
	    advertise[128]; /* where clients that read there find it; "": at address, or none may */
};

/* A change of a storage node. Zero, or NULL, leaves what it is as it is. */
enum cleave_node_action {
	CLEAVE_NODE_ADD,   /* address is required */
	CLEAVE_NODE_SET,   /* id is required, as with all that follow */
	CLEAVE_NODE_DRAIN, /* nothing new goes there, and what is there is moved */
	CLEAVE_NODE_UNDRAIN,
	CLEAVE_NODE_REMOVE, /* for good: it is empty */
	CLEAVE_NODE_LOSE,   /* for good: it never comes back, whatever it holds */
};
struct cleave_node_change {
	enum cleave_node_action action;
	uint64_t id;
	const char *address;    /* of ADD, SET */
	const char *domain;     /* likewise: a path of up to four names, "dc1/rack2/host5" */
	const char *note;       /* likewise */
	uint32_t weight;        /* likewise: 1 to 1000 percent of its free share */
	bool has_maintenance;   /* of SET: maintenance_s is given */
	uint64_t maintenance_s; /* from now on its copies are waited for so long; 0: no more */
	bool is_forced; /* of DRAIN, LOSE, and SET's address: also where it would be refused */
};

/* A shard that the gateway asked has a place for. */
struct cleave_shard_entry {
	uint32_t shard;
	uint32_t port; /* of the gateway */
	char state
	    [16]; /* serving; idle: another gateway's; claiming, ...: on its way; short: no memory */
	uint64_t epoch;
	uint64_t extents, extents_lacking; /* of them, those that have too few copies */
	uint64_t log_bytes, run_bytes;
	uint64_t index_blocks;
};

/* The gateway asked, as it is now. */
struct cleave_gateway_status {
	uint64_t id, boot_id, cluster_id;
	char state[16]; /* serving, and others */
	uint64_t uptime_ns;
	uint32_t port_count;
	uint64_t sessions_open;                            /* at all its ports */
	uint64_t shard_count, volume_count, gateway_count; /* of the cluster */
	uint32_t level; /* of the cluster: what all may write where others read */
};

/* The cluster's level, and whether it can be raised. */
struct cleave_cluster_level {
	uint32_t level;         /* now */
	uint32_t from;          /* before the call */
	uint32_t next;          /* the next one; 0: nobody speaks more */
	uint32_t missing_count; /* gateways and nodes that do not speak it, or are not heard */
	char missing[512];      /* which they are, for people, a line each; longer texts are cut */
};

/* The properties of a new volume. Zero means the default in brackets. */
struct cleave_volume_options {
	const char *name;    /* required */
	uint64_t size_bytes; /* required: a multiple of 4096, up to CLEAVE_VOLUME_BYTES_MAX */
	enum cleave_service_class service_class; /* [CLEAVE_SERVICE_STANDARD] */
	const char *engine; /* auto, none, lz4, snappy, deflate, zstd [what the class means] */
	bool has_level;     /* level is given [the engine's default] */
	int level;
	uint32_t replicas; /* [3] */
	bool is_encrypted; /* with a data key of its own, wrapped with kek [not] */
	const char *kek;   /* a KEK that the gateways have; it says is_encrypted, too ["default"] */
};

/* Permissions for what does harm. */
enum cleave_manage_flags {
	CLEAVE_MANAGE_FORCE = 1u << 0,     /* whoever uses the volume loses it */
	CLEAVE_MANAGE_SHRINK = 1u << 1,    /* it may become smaller */
	CLEAVE_MANAGE_SNAPSHOTS = 1u << 2, /* its snapshots go with it */
	CLEAVE_MANAGE_CHECK = 1u << 3,     /* nothing is changed: would it be refused? */
	CLEAVE_MANAGE_PURGE = 1u << 4,     /* deleted for good, not into the trash */
	CLEAVE_MANAGE_CANCEL = 1u << 5,    /* what was begun is called off */
};
/* How a volume is deleted. Zero means the default in brackets. */
struct cleave_delete_options {
	const char *name; /* required */
	unsigned flags;   /* CLEAVE_MANAGE_FORCE, _SNAPSHOTS, _PURGE */
	uint64_t keep_s;  /* in the trash, up to a hundred years [a day]; not with _PURGE */
	uint64_t
	    id; /* that it has: another one of this name by now is -ENOENT [the one that has the name] */
};

struct cleave_ask;
/*
 * Handlers. @rc: 0, or a negative errno as above, and then @error is a text for people. The answer and
 * @error are valid during the handler alone; the answer is NULL unless @rc is 0, and when it is a list of none. @ask is the caller's again.
 */
typedef void (*cleave_done_fn)(struct cleave_ask *ask, int rc, const char *error, void *arg);
typedef void (*cleave_volume_fn)(struct cleave_ask *ask, int rc,
    const struct cleave_volume_entry *volume, const char *error, void *arg);
typedef void (*cleave_volumes_fn)(struct cleave_ask *ask, int rc,
    const struct cleave_volume_page *page, const char *error, void *arg);
typedef void (*cleave_snapshot_fn)(struct cleave_ask *ask, int rc,
    const struct cleave_snapshot *snapshot, const char *error, void *arg);
typedef void (*cleave_snapshots_fn)(struct cleave_ask *ask, int rc,
    const struct cleave_snapshot_page *page, const char *error, void *arg);
struct cleave_trash_page;
typedef void (*cleave_trash_fn)(struct cleave_ask *ask, int rc,
    const struct cleave_trash_page *page, const char *error, void *arg);
typedef void (*cleave_gateways_fn)(struct cleave_ask *ask, int rc,
    const struct cleave_gateway_entry *gateways, uint32_t count, const char *error, void *arg);
typedef void (*cleave_nodes_fn)(struct cleave_ask *ask, int rc,
    const struct cleave_node_entry *nodes, uint32_t count, const char *error, void *arg);
typedef void (*cleave_shards_fn)(struct cleave_ask *ask, int rc,
    const struct cleave_shard_entry *shards, uint32_t count, const char *error, void *arg);
typedef void (*cleave_gateway_fn)(struct cleave_ask *ask, int rc,
    const struct cleave_gateway_status *status, const char *error, void *arg);
typedef void (*cleave_level_fn)(struct cleave_ask *ask, int rc,
    const struct cleave_cluster_level *level, const char *error, void *arg);

/* A call, owned by the caller, the library's until its handler. Nothing in it has to be set. */
struct cleave_ask {
	/*
	 * In the handler: the JSON text that the gateway answered with, for what no struct has a member for; NULL
	 * when none came. Valid during the handler alone.
	 */
	const char *answer;
	/* The library's. */
	struct cleave_call call;
	const struct cleave_ask_kind *kind;
	union {
		cleave_done_fn done;
		cleave_volume_fn volume;
		cleave_volumes_fn volumes;
		cleave_snapshot_fn snapshot;
		cleave_snapshots_fn snapshots;
		cleave_gateways_fn gateways;
		cleave_nodes_fn nodes;
		cleave_shards_fn shards;
		cleave_gateway_fn gateway;
		cleave_level_fn level;
		cleave_trash_fn trash;
	} fn;
	void *arg;
};

/* Volumes. */

/*
 * cleave_volume_create, cleave_volume_create_wait -- make a volume; it reads as zeros
 *
 * Ownership: @options is copied; @ask is the library's until @fn. *@ret_volume is the caller's, and is
 *            untouched on failure; @ret_error as with cleave_client_create.
 * Returns:   0: @fn is called exactly once, later; else it never is. _wait: 0 and *@ret_volume; else a
 *            negative errno, and a text for people in @ret_error.
 * Errors:    -EINVAL the name, the class, a size that is 0 or no multiple of 4096; -ERANGE a size above
 *            CLEAVE_VOLUME_BYTES_MAX; -ENOBUFS CLEAVE_CALLS_MAX calls wait; -ENOMEM. To @fn, and from _wait
 *            too: -EEXIST there is one of this name; -ENOSPC; -EINVAL engine, level, replicas;
 *            and those of the way: -ETIMEDOUT no answer within options.control_timeout_ns;
 *            -ECONNREFUSED and the like; -ECONNRESET it was sent, and may have happened; -EBADMSG the
 *            answer cannot be read.
 * Threads:   the loop's; _wait: any but the library's.
 */
int cleave_volume_create(struct cleave_client *client, struct cleave_ask *ask,
    const struct cleave_volume_options *options, cleave_volume_fn fn, void *arg);
int cleave_volume_create_wait(struct cleave *cleave, const struct cleave_volume_options *options,
    struct cleave_volume_entry *ret_volume, char *ret_error);

/*
 * cleave_volume_delete, cleave_volume_delete_wait -- delete a volume, and what is in it
 *
 * From level 2 of the cluster on it is in the trash for a day (cleave/trash.h), takes its room until then, and its
 * name is free. With CLEAVE_MANAGE_PURGE, and in a cluster of level 1, it is gone for good, its room comes back.
 * With CLEAVE_MANAGE_FORCE also one that is in use: its sessions end with -ENOENT. With
 * CLEAVE_MANAGE_SNAPSHOTS its snapshots too; those that have clones, or are protected, stay in the way.
 * Ownership: @name is copied; @ask is the library's until @fn; @ret_error as with cleave_client_create.
 * Returns:   0: @fn is called exactly once, later; else it never is. _wait: 0: nobody finds it by its name;
 *            else a negative errno, and a text for people in @ret_error.
 * Errors:    -EINVAL the name, another flag; -ENOBUFS; -ENOMEM. To @fn, and from _wait too: -ENOENT;
 *            -ENOTEMPTY it is in use, or has snapshots; and those of the way (cleave_volume_create).
 * Threads:   the loop's; _wait: any but the library's.
 */
int cleave_volume_delete(struct cleave_client *client, struct cleave_ask *ask, const char *name,
    unsigned flags, cleave_done_fn fn, void *arg);
int cleave_volume_delete_wait(struct cleave *cleave, const char *name, unsigned flags,
    char *ret_error);

/*
 * cleave_volume_delete_as, cleave_volume_delete_as_wait -- cleave_volume_delete, and how long it is kept, or which one it is
 *
 * Ownership: @options and its name are copied; else as with cleave_volume_delete.
 * Returns:   as cleave_volume_delete.
 * Errors:    as cleave_volume_delete; -EINVAL also for keep_s together with CLEAVE_MANAGE_PURGE, or too long, and an
 *            id above INT64_MAX. To @fn, and from _wait too: -ENOTSUP keep_s is given, and the cluster, of level 1, has no
 *            trash; -EINVAL an id is given, and the gateway's release takes none.
 * Threads:   the loop's; _wait: any but the library's.
 */
int cleave_volume_delete_as(struct cleave_client *client, struct cleave_ask *ask,
    const struct cleave_delete_options *options, cleave_done_fn fn, void *arg);
int cleave_volume_delete_as_wait(struct cleave *cleave, const struct cleave_delete_options *options,
    char *ret_error);

/*
 * cleave_volume_list, cleave_volume_list_wait -- the volumes, by rising name
 *
 * The first form has one page of them: those behind @after, which is NULL for the first page. The second
 * has all.
 * Ownership: @after is copied; @ask is the library's until @fn. *@ret_volumes, an array, is the caller's:
 *            free() it; NULL when there is none, and untouched on failure. @ret_error as with
 *            cleave_client_create.
 * Returns:   0: @fn is called exactly once, later; else it never is. _wait: 0, *@ret_volumes and
 *            *@ret_count; else a negative errno, and a text for people in @ret_error.
 * Errors:    -EINVAL @after is no name; -ENOBUFS; -ENOMEM. To @fn, and from _wait too: those of the
 *            way (cleave_volume_create).
 * Threads:   the loop's; _wait: any but the library's.
 */
int cleave_volume_list(struct cleave_client *client, struct cleave_ask *ask, const char *after,
    cleave_volumes_fn fn, void *arg);
int cleave_volume_list_wait(struct cleave *cleave, struct cleave_volume_entry **ret_volumes,
    uint32_t *ret_count, char *ret_error);

/*
 * cleave_volume_show, cleave_volume_show_wait -- what a volume is, and who writes it
 *
 * Ownership: as with cleave_volume_create.
 * Returns:   as cleave_volume_create.
 * Errors:    -EINVAL the name; -ENOBUFS; -ENOMEM. To @fn, and from _wait too: -ENOENT, and those of the
 *            way (cleave_volume_create).
 * Threads:   the loop's; _wait: any but the library's.
 */
int cleave_volume_show(struct cleave_client *client, struct cleave_ask *ask, const char *name,
    cleave_volume_fn fn, void *arg);
int cleave_volume_show_wait(struct cleave *cleave, const char *name,
    struct cleave_volume_entry *ret_volume, char *ret_error);

/*
 * cleave_volume_rename, cleave_volume_rename_wait -- give a volume another name; its sessions go on
 *
 * Ownership: @name and @new_name are copied; else as with cleave_volume_create.
 * Returns:   as cleave_volume_create; the volume has the new name.
 * Errors:    -EINVAL a name; -ENOBUFS; -ENOMEM. To @fn, and from _wait too: -ENOENT; -EEXIST the new name
 *            is another's; and those of the way (cleave_volume_create).
 * Threads:   the loop's; _wait: any but the library's.
 */
int cleave_volume_rename(struct cleave_client *client, struct cleave_ask *ask, const char *name,
    const char *new_name, cleave_volume_fn fn, void *arg);
int cleave_volume_rename_wait(struct cleave *cleave, const char *name, const char *new_name,
    struct cleave_volume_entry *ret_volume, char *ret_error);

/*
 * cleave_volume_set_size, cleave_volume_set_size_wait -- change the size of a volume, by its name
 *
 * A session that has it open learns the size by cleave_volume_refresh. Who has it open uses
 * cleave_volume_resize. To make it smaller needs CLEAVE_MANAGE_SHRINK, that nobody writes it (or
 * CLEAVE_MANAGE_FORCE), and that what is behind the new end was discarded: else it is there again when the
 * volume grows. With CLEAVE_MANAGE_CHECK the size stays what it is: ask before the end of a volume is discarded
 * that must not become smaller.
 * Ownership: as with cleave_volume_create.
 * Returns:   as cleave_volume_create; the volume has the new size, with CLEAVE_MANAGE_CHECK the one of now.
 * Errors:    -EINVAL the name, another flag, 0 or no multiple of 4096; -ERANGE a size above
 *            CLEAVE_VOLUME_BYTES_MAX; -ENOBUFS; -ENOMEM. To @fn, and from _wait too: -ENOENT; -EINVAL it
 *            would be smaller; -ENOTEMPTY it is in use; and those of the way (cleave_volume_create).
 * Threads:   the loop's; _wait: any but the library's.
 */
int cleave_volume_set_size(struct cleave_client *client, struct cleave_ask *ask, const char *name,
    uint64_t size_bytes, unsigned flags, cleave_volume_fn fn, void *arg);
int cleave_volume_set_size_wait(struct cleave *cleave, const char *name, uint64_t size_bytes,
    unsigned flags, struct cleave_volume_entry *ret_volume, char *ret_error);

#define CLEAVE_LIMIT_KEEP UINT64_MAX /* of cleave_volume_set_limits: as it is */

/*
 * cleave_volume_set_limits, cleave_volume_set_limits_wait -- limit what a volume may do in a second, or lift that
 *
 * A member of @limits that is 0 lifts its limit, or is the default again; one that is CLEAVE_LIMIT_KEEP stays as it is.
 * Sessions keep to them within about a second. Where nothing is another than before nothing happens.
 * Ownership: @name and @limits are copied; else as with cleave_volume_create.
 * Returns:   as cleave_volume_create; the volume has these limits (info.limits).
 * Errors:    -EINVAL the name; -ENOBUFS; -ENOMEM. To @fn, and from _wait too: -ENOENT; -EINVAL a member is out of
 *            its range (CLEAVE_LIMIT_LIST); -ENOTSUP the cluster's level is 1; and those of the way
 *            (cleave_volume_create).
 * Threads:   the loop's; _wait: any but the library's.
 */
int cleave_volume_set_limits(struct cleave_client *client, struct cleave_ask *ask, const char *name,
    const struct cleave_limits *limits, cleave_volume_fn fn, void *arg);
int cleave_volume_set_limits_wait(struct cleave *cleave, const char *name,
    const struct cleave_limits *limits, struct cleave_volume_entry *ret_volume, char *ret_error);

/*
 * cleave_volume_set_reads, cleave_volume_set_reads_wait -- where the session that writes a volume reads it
 *
 * "gateway": at gateways. "hot": blocks that are hot out of the gateway's memory, past its work, where connections have no
 * keys. "direct": what was flushed at storage nodes that take clients (cleave-storage --direct), as far as the session has
 * leases and maps for it. All else is read at gateways. Nobody may use the volume meanwhile; with CLEAVE_MANAGE_FORCE who
 * does is put out. Where nothing is another than before nothing happens.
 * Ownership: @name and @reads are copied; else as with cleave_volume_create.
 * Returns:   as cleave_volume_create; the volume is read so (reads).
 * Errors:    -EINVAL the name, no word, another flag; -ENOBUFS; -ENOMEM. To @fn, and from _wait too: -ENOENT; -EINVAL
 *            a word that the gateway does not know; -ENOTEMPTY it is in use; -ENOTSUP the cluster's level is 1;
 *            -ETIMEDOUT a gateway does not say that it knows who was put out: nothing has changed; and those of the way
 *            (cleave_volume_create).
 * Threads:   the loop's; _wait: any but the library's.
 */
int cleave_volume_set_reads(struct cleave_client *client, struct cleave_ask *ask, const char *name,
    const char *reads, unsigned flags, cleave_volume_fn fn, void *arg);
int cleave_volume_set_reads_wait(struct cleave *cleave, const char *name, const char *reads,
    unsigned flags, struct cleave_volume_entry *ret_volume, char *ret_error);

/*
 * cleave_volume_flatten, cleave_volume_flatten_wait -- give a clone all that it shares with its origin
 *
 * It goes on behind the answer, in gateways, while the volume is used: when it has ended, cleave_volume_show tells an
 * origin of 0, and the snapshot that was its origin may be deleted. Asked for again meanwhile, nothing happens. With
 * CLEAVE_MANAGE_CANCEL it is called off: what was copied stays, and the next time goes on from there.
 * Ownership: @name is copied; @ask is the library's until @fn; @ret_error as with cleave_client_create.
 * Returns:   0: @fn is called exactly once, later; else it never is. _wait: 0: it has been begun, or called off; else a
 *            negative errno, and a text for people in @ret_error.
 * Errors:    -EINVAL the name, another flag; -ENOBUFS; -ENOMEM. To @fn, and from _wait too: -ENOENT, of
 *            CLEAVE_MANAGE_CANCEL also where nothing was begun; -EINVAL it has no origin; -ENOTSUP the cluster's level
 *            is 1; and those of the way (cleave_volume_create).
 * Threads:   the loop's; _wait: any but the library's.
 */
int cleave_volume_flatten(struct cleave_client *client, struct cleave_ask *ask, const char *name,
    unsigned flags, cleave_done_fn fn, void *arg);
int cleave_volume_flatten_wait(struct cleave *cleave, const char *name, unsigned flags,
    char *ret_error);

/* Snapshots. */

/*
 * cleave_snapshot_create, cleave_snapshot_create_wait -- keep a volume as it is now
 *
 * It has every write that was acknowledged before the call, and none that was submitted after the answer.
 * Sessions go on.
 * Ownership: @name, VOLUME@SNAPSHOT, is copied; @ask is the library's until @fn. *@ret_snapshot is the
 *            caller's, and is untouched on failure; @ret_error as with cleave_client_create.
 * Returns:   0: @fn is called exactly once, later; else it never is. _wait: 0 and *@ret_snapshot; else a
 *            negative errno, and a text for people in @ret_error.
 * Errors:    -EINVAL the name; -ENOBUFS; -ENOMEM. To @fn, and from _wait too: -ENOENT no such volume;
 *            -EEXIST; -ENOSPC; and those of the way (cleave_volume_create).
 * Threads:   the loop's; _wait: any but the library's.
 */
int cleave_snapshot_create(struct cleave_client *client, struct cleave_ask *ask, const char *name,
    cleave_snapshot_fn fn, void *arg);
int cleave_snapshot_create_wait(struct cleave *cleave, const char *name,
    struct cleave_snapshot *ret_snapshot, char *ret_error);

/*
 * cleave_snapshot_create_group, cleave_snapshot_create_group_wait -- keep several volumes as they are at one point in time
 *
 * All of them, or none. They have every write that was acknowledged before the call, and none that was submitted after
 * the answer; and where one of them has a write, each has what was acknowledged, of any of the volumes, before that
 * write was submitted, by whomever. Answers to writes of all these volumes are kept back meanwhile, 5 s at most.
 * Sessions go on. Each is a snapshot like any other afterwards; their member group is the same number.
 * Ownership: @names, of @count snapshots, VOLUME@SNAPSHOT, each of another volume, are copied; @ask is the library's
 *            until @fn. *@ret_snapshots, an array, is the caller's: free() it; it is untouched on failure;
 *            @ret_error as with cleave_client_create.
 * Returns:   0: @fn is called exactly once, later, with the snapshots in the order of @names, and is_more false; else
 *            it never is. _wait: 0, *@ret_snapshots and *@ret_count; else a negative errno, and a text for people in
 *            @ret_error. A snapshot that somebody has deleted by then is missing in the answer.
 * Errors:    -EINVAL a name, or @count is 0 or above CLEAVE_GROUP_VOLUMES_MAX; -ENOBUFS; -ENOMEM. To @fn, and from
 *            _wait too: -EINVAL a volume is named twice; -ENOENT, -EEXIST, -ENOSPC of one of them; -EAGAIN one of them
 *            was resized or rolled back meanwhile, or a shard is not served: call it again; -ENOTSUP the cluster's
 *            level is 1; and those of the way (cleave_volume_create).
 * Threads:   the loop's; _wait: any but the library's.
 */
int cleave_snapshot_create_group(struct cleave_client *client, struct cleave_ask *ask,
    const char *const names[], uint32_t count, cleave_snapshots_fn fn, void *arg);
int cleave_snapshot_create_group_wait(struct cleave *cleave, const char *const names[],
    uint32_t count, struct cleave_snapshot **ret_snapshots, uint32_t *ret_count, char *ret_error);

/*
 * cleave_snapshot_list, cleave_snapshot_list_wait -- the snapshots of a volume, or all: by rising number
 *
 * The first form has one page of them: those whose number is above @after, which is 0 for the first page.
 * The second has all.
 * Ownership: @volume, a name, or NULL for all, is copied; @ask is the library's until @fn. *@ret_snapshots,
 *            an array, is the caller's: free() it; NULL when there is none, and untouched on failure.
 *            @ret_error as with cleave_client_create.
 * Returns:   0: @fn is called exactly once, later; else it never is. _wait: 0, *@ret_snapshots and
 *            *@ret_count; else a negative errno, and a text for people in @ret_error.
 * Errors:    -EINVAL the name; -ENOBUFS; -ENOMEM. To @fn, and from _wait too: -ENOENT no such volume, and
 *            those of the way (cleave_volume_create).
 * Threads:   the loop's; _wait: any but the library's.
 */
int cleave_snapshot_list(struct cleave_client *client, struct cleave_ask *ask, const char *volume,
    uint64_t after, cleave_snapshots_fn fn, void *arg);
int cleave_snapshot_list_wait(struct cleave *cleave, const char *volume,
    struct cleave_snapshot **ret_snapshots, uint32_t *ret_count, char *ret_error);

/*
 * cleave_snapshot_protect, cleave_snapshot_protect_wait -- refuse, or allow again, that a snapshot is deleted
 *
 * A protected one is deleted by nobody, nor with its volume, which stays for it. No error when it is so already.
 * Ownership: as with cleave_volume_delete.
 * Returns:   as cleave_volume_delete; it is @is_protected now.
 * Errors:    -EINVAL the name; -ENOBUFS; -ENOMEM. To @fn, and from _wait too: -ENOENT; -ENOTSUP the cluster
 *            is of level 1; and those of the way (cleave_volume_create).
 * Threads:   the loop's; _wait: any but the library's.
 */
int cleave_snapshot_protect(struct cleave_client *client, struct cleave_ask *ask, const char *name,
    bool is_protected, cleave_done_fn fn, void *arg);
int cleave_snapshot_protect_wait(struct cleave *cleave, const char *name, bool is_protected,
    char *ret_error);

/*
 * cleave_snapshot_rename, cleave_snapshot_rename_wait -- give a snapshot another name; who reads it goes on
 *
 * Ownership: @name, VOLUME@SNAPSHOT, and @new_name, of the snapshot alone, are copied; else as with
 *            cleave_volume_delete.
 * Returns:   as cleave_volume_delete; it has the new name.
 * Errors:    -EINVAL a name; -ENOBUFS; -ENOMEM. To @fn, and from _wait too: -ENOENT; -EEXIST another snapshot
 *            of the volume has the new name; and those of the way (cleave_volume_create).
 * Threads:   the loop's; _wait: any but the library's.
 */
int cleave_snapshot_rename(struct cleave_client *client, struct cleave_ask *ask, const char *name,
    const char *new_name, cleave_done_fn fn, void *arg);
int cleave_snapshot_rename_wait(struct cleave *cleave, const char *name, const char *new_name,
    char *ret_error);

/*
 * cleave_snapshot_delete, cleave_snapshot_delete_wait -- delete a snapshot
 *
 * Whoever has it open gets -ENOENT from then on.
 * Ownership: as with cleave_volume_delete.
 * Returns:   as cleave_volume_delete.
 * Errors:    -EINVAL the name; -ENOBUFS; -ENOMEM. To @fn, and from _wait too: -ENOENT; -ENOTEMPTY it has
 *            clones, or is protected; and those of the way (cleave_volume_create).
 * Threads:   the loop's; _wait: any but the library's.
 */
int cleave_snapshot_delete(struct cleave_client *client, struct cleave_ask *ask, const char *name,
    cleave_done_fn fn, void *arg);
int cleave_snapshot_delete_wait(struct cleave *cleave, const char *name, char *ret_error);

/*
 * cleave_snapshot_rollback, cleave_snapshot_rollback_wait -- make a volume what it was at a snapshot
 *
 * What was written since is gone; the snapshot stays. CLEAVE_MANAGE_FORCE: also while somebody uses the
 * volume, who loses it. CLEAVE_MANAGE_SHRINK: also to a size that is smaller.
 * Ownership: @name, VOLUME@SNAPSHOT, is copied; else as with cleave_volume_create.
 * Returns:   as cleave_volume_create.
 * Errors:    -EINVAL the name, another flag; -ENOBUFS; -ENOMEM. To @fn, and from _wait too: -ENOENT; -EINVAL
 *            it would be smaller; -ENOTEMPTY it is in use; -ENOTSUP too many clones and roll-backs lie below;
 *            and those of the way (cleave_volume_create).
 * Threads:   the loop's; _wait: any but the library's.
 */
int cleave_snapshot_rollback(struct cleave_client *client, struct cleave_ask *ask, const char *name,
    unsigned flags, cleave_volume_fn fn, void *arg);
int cleave_snapshot_rollback_wait(struct cleave *cleave, const char *name, unsigned flags,
    struct cleave_volume_entry *ret_volume, char *ret_error);

/*
 * cleave_snapshot_clone, cleave_snapshot_clone_wait -- make a volume that begins as a snapshot is
 *
 * Nothing is copied: what neither changes they share. The snapshot stays as long as the clone does.
 * Ownership: @name, VOLUME@SNAPSHOT, and @new_name are copied; else as with cleave_volume_create.
 * Returns:   as cleave_volume_create; the volume is the new one.
 * Errors:    -EINVAL a name; -ENOBUFS; -ENOMEM. To @fn, and from _wait too: -ENOENT no such snapshot; -EEXIST
 *            the new name is another's; -ENOSPC; -ENOTSUP too many clones and roll-backs lie below; and
 *            those of the way (cleave_volume_create).
 * Threads:   the loop's; _wait: any but the library's.
 */
int cleave_snapshot_clone(struct cleave_client *client, struct cleave_ask *ask, const char *name,
    const char *new_name, cleave_volume_fn fn, void *arg);
int cleave_snapshot_clone_wait(struct cleave *cleave, const char *name, const char *new_name,
    struct cleave_volume_entry *ret_volume, char *ret_error);

/* The cluster, as the gateway that is asked sees it. */

/*
 * cleave_gateway_list, cleave_gateway_list_wait -- the gateways that live
 *
 * Ownership: @ask is the library's until @fn. *@ret_gateways, an array, is the caller's: free() it; NULL
 *            when there is none, and untouched on failure. @ret_error as with cleave_client_create.
 * Returns:   0: @fn is called exactly once, later; else it never is. _wait: 0, *@ret_gateways and
 *            *@ret_count; else a negative errno, and a text for people in @ret_error.
 * Errors:    -ENOBUFS; -ENOMEM. To @fn, and from _wait too: those of the way (cleave_volume_create).
 * Threads:   the loop's; _wait: any but the library's.
 */
int cleave_gateway_list(struct cleave_client *client, struct cleave_ask *ask, cleave_gateways_fn fn,
    void *arg);
int cleave_gateway_list_wait(struct cleave *cleave, struct cleave_gateway_entry **ret_gateways,
    uint32_t *ret_count, char *ret_error);

/*
 * cleave_node_list, cleave_node_list_wait -- the storage nodes
 *
 * Ownership: @ask is the library's until @fn. *@ret_nodes, an array, is the caller's: free() it; NULL
 *            when there is none, and untouched on failure. @ret_error as with cleave_client_create.
 * Returns:   0: @fn is called exactly once, later; else it never is. _wait: 0, *@ret_nodes and
 *            *@ret_count; else a negative errno, and a text for people in @ret_error.
 * Errors:    -ENOBUFS; -ENOMEM. To @fn, and from _wait too: those of the way (cleave_volume_create).
 * Threads:   the loop's; _wait: any but the library's.
 */
int cleave_node_list(struct cleave_client *client, struct cleave_ask *ask, cleave_nodes_fn fn,
    void *arg);
int cleave_node_list_wait(struct cleave *cleave, struct cleave_node_entry **ret_nodes,
    uint32_t *ret_count, char *ret_error);

/*
 * cleave_node_change, cleave_node_change_wait -- add a storage node, change one, or have it leave
 *
 * Whatever takes something away is refused where data would be left with fewer copies, and the text says how to
 * insist.
 * Ownership: @change and its texts are copied. @ask is the library's until @fn. *@ret_node is the caller's, and is
 *            untouched on failure; of its members those of the change are set. @ret_error as with
 *            cleave_client_create.
 * Returns:   0: @fn is called exactly once, later, with the node as it is now; else it never is. _wait: 0 and *@ret_node;
 *            else a negative errno, and a text for people in @ret_error.
 * Errors:    -EINVAL no address, or no id; -ENOBUFS; -ENOMEM. To @fn, and from _wait too: -ENOENT there is no such
 *            node, or nobody of this cluster answers at the address; -EEXIST its id, disk or address is another
 *            node's, or left the cluster; -ENOTEMPTY, -ENOSPC it would leave too little; -ENOTSUP the cluster's
 *            level is too low; those of the way (cleave_volume_create).
 * Threads:   the loop's; _wait: any but the library's.
 */
int cleave_node_change(struct cleave_client *client, struct cleave_ask *ask,
    const struct cleave_node_change *change, cleave_nodes_fn fn, void *arg);
int cleave_node_change_wait(struct cleave *cleave, const struct cleave_node_change *change,
    struct cleave_node_entry *ret_node, char *ret_error);

/*
 * cleave_shard_list, cleave_shard_list_wait -- the shards of the gateway that is asked
 *
 * Shards of other gateways are among them, as idle. A cluster of so many that one answer does not have them
 * shows none.
 * Ownership: @ask is the library's until @fn. *@ret_shards, an array, is the caller's: free() it; NULL
 *            when there is none, and untouched on failure. @ret_error as with cleave_client_create.
 * Returns:   0: @fn is called exactly once, later; else it never is. _wait: 0, *@ret_shards and
 *            *@ret_count; else a negative errno, and a text for people in @ret_error.
 * Errors:    -ENOBUFS; -ENOMEM. To @fn, and from _wait too: those of the way (cleave_volume_create).
 * Threads:   the loop's; _wait: any but the library's.
 */
int cleave_shard_list(struct cleave_client *client, struct cleave_ask *ask, cleave_shards_fn fn,
    void *arg);
int cleave_shard_list_wait(struct cleave *cleave, struct cleave_shard_entry **ret_shards,
    uint32_t *ret_count, char *ret_error);

/*
 * cleave_gateway_status, cleave_gateway_status_wait -- the gateway that is asked, as it is now
 *
 * Ownership: @ask is the library's until @fn. *@ret_status is the caller's, and is untouched on failure;
 *            @ret_error as with cleave_client_create.
 * Returns:   0: @fn is called exactly once, later; else it never is. _wait: 0 and *@ret_status; else a
 *            negative errno, and a text for people in @ret_error.
 * Errors:    -ENOBUFS; -ENOMEM. To @fn, and from _wait too: those of the way (cleave_volume_create).
 * Threads:   the loop's; _wait: any but the library's.
 */
int cleave_gateway_status(struct cleave_client *client, struct cleave_ask *ask,
    cleave_gateway_fn fn, void *arg);
int cleave_gateway_status_wait(struct cleave *cleave, struct cleave_gateway_status *ret_status,
    char *ret_error);

/*
 * cleave_cluster_level, cleave_cluster_level_wait -- the cluster's level, the next, and who does not speak that
 *
 * A level is what gateways and nodes may write where others read. Releases speak several, and keep to the
 * cluster's until it is raised. Nodes in @without, by address or number, may be left behind while they are
 * not up.
 * Ownership: @without, of @without_count texts, is copied; NULL for none. @ask is the library's until @fn.
 *            *@ret_level is the caller's, and is untouched on failure; @ret_error as with cleave_client_create.
 * Returns:   0: @fn is called exactly once, later; else it never is. _wait: 0 and *@ret_level; else a
 *            negative errno, and a text for people in @ret_error.
 * Errors:    -ENOBUFS; -ENOMEM. To @fn, and from _wait too: -EINVAL the gateway's release has no levels;
 *            those of the way (cleave_volume_create).
 * Threads:   the loop's; _wait: any but the library's.
 */
int cleave_cluster_level(struct cleave_client *client, struct cleave_ask *ask,
    const char *const *without, uint32_t without_count, cleave_level_fn fn, void *arg);
int cleave_cluster_level_wait(struct cleave *cleave, const char *const *without,
    uint32_t without_count, struct cleave_cluster_level *ret_level, char *ret_error);

/*
 * cleave_cluster_upgrade, cleave_cluster_upgrade_wait -- raise the cluster's level by one
 *
 * There is no way back: gateways and nodes of releases that do not speak it are refused from then on. When
 * nobody speaks more than the present level nothing is changed: from is level then.
 * Ownership: as with cleave_cluster_level.
 * Returns:   as cleave_cluster_level.
 * Errors:    as cleave_cluster_level; to @fn, and from _wait too: -ENOTSUP a gateway, or a node that is not
 *            left behind, does not speak the next level, or is not heard: the text names it.
 * Threads:   the loop's; _wait: any but the library's.
 */
int cleave_cluster_upgrade(struct cleave_client *client, struct cleave_ask *ask,
    const char *const *without, uint32_t without_count, cleave_level_fn fn, void *arg);
int cleave_cluster_upgrade_wait(struct cleave *cleave, const char *const *without,
    uint32_t without_count, struct cleave_cluster_level *ret_level, char *ret_error);

#ifdef __cplusplus
}
#endif

#include "cleave/trash.h" /* deleted volumes */

#endif /* CLEAVE_MANAGE_H */
