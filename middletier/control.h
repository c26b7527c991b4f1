/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.h -- the main loop's side of a gateway: volumes, control requests, asking every port
 *
 * Blocks are headed by the file that owns them. What lives on a port's thread is in internal.h; the
 * two sides meet in posts: a port's control request and volume query travel to main and back, and an
 * mt_ask travels from main to every port and back.
 */
#ifndef CLEAVE_MIDDLETIER_CONTROL_H
#define CLEAVE_MIDDLETIER_CONTROL_H

#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>

#include "gateway.h"
#include "member.h"

#define MT_CONTROL_TEXT_BYTES_MAX (64u * 1024u)
#define MT_CONTROL_IN_FLIGHT_MAX 16u /* control requests a port takes at a time; more get BUSY */
#define MT_STATUS_SHARDS_MAX 256u    /* listed one by one in the answer to status */
#define MT_CONTROL_ERROR_BYTES 384u
#define MT_VOLUMES_MAX 65536u
#define MT_VOLUMES_PER_LIST 64u /* in one answer to volume.list */
#define MT_CLUSTER_FORMAT 1u
#define MT_REPLACED_MAX 8u /* recoveries that a node may be away for */
/* A start without a cluster says this; %s is where it looked. */
#define MT_NO_CLUSTER_TEXT                                                                             \
	"%s holds no cluster: a wrong directory? not mounted? lost? Mount it, or name the right one; " \
	"a lost one is made anew from the storage nodes by cleave recover; for a new cluster, run "    \
	"this with --create, once"

/* ---- gateway.c ---- */

/* The key "cluster". */
struct mt_cluster {
	uint64_t cluster_id;
	uint32_t shard_count;
	uint64_t next_volume_id;
	uint64_t next_segment;
	uint64_t next_snapshot, next_clone; /* numbers of cuts; of clones' segments */
	uint64_t version;                   /* of the key */
	struct store_id store_id; /* whom nodes obey; zero: the key is of before there were any */
	/* Stores that nodes may obey still, since they were away at a recovery; the newest first. */
	struct store_id replaced[MT_REPLACED_MAX];
	uint32_t replaced_count;
	/* The store's file when it was last accepted; "": see place.h. */
	char place[META_PLACE_BYTES];
};

enum mt_gateway_state {
	MT_GATEWAY_CREATED,
	MT_GATEWAY_STARTING, /* ports listen; cluster and volumes are being read */
	MT_GATEWAY_TAKING,   /* shards are being taken over */
	MT_GATEWAY_SERVING,
	MT_GATEWAY_FAILED, /* waits for mt_gateway_stop */
	MT_GATEWAY_STOPPING,
	MT_GATEWAY_STOPPED,
	MT_GATEWAY_STATE_NR
};

/* ---- volume.c: every volume of the cluster, as main knows it ---- */
typedef void (*mt_volume_fn)(int rc, const struct mt_volume *volume, void *arg);

struct mt_volume_entry {
	struct mt_volume volume;
	uint64_t version;     /* of the key */
	uint64_t told_attach; /* the newest one that every port of ours knows */
	uint64_t heard_ns;    /* holder.c: of the session of that attach, last; 0: to be set */
	bool is_deleting;     /* no session is let in meanwhile */
};

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

/* volume_refresh.c: what every port must be told after a reading, one after the other. */
struct mt_volume_tell;

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

/* ---- mirror.c: volumes and cluster in shard 0's manifest ---- */
#define MT_MIRROR_EDITS_MAX 16u

struct mt_mirror {
	struct mt_gateway *gateway;
	bool is_owner;           /* shard 0 serves here */
	bool is_out;             /* all but these five is the port's */
	bool is_dirty;           /* changed while it is out */
	struct loop_timer timer; /* it could not be made: again */
	struct loop_post post;
	struct mt_volume *volumes; /* a copy, by id */
	uint32_t volume_count;
	struct mt_snapshot *snapshots; /* and by number */
	uint32_t snapshot_count;
	struct mt_cluster cluster;
	bool is_incomplete; /* some could not be read: what is missing is not deleted */
	struct mt_edit edits[MT_MIRROR_EDITS_MAX];
	uint32_t edit_count;
	int rc;
};
void mt_mirror_init(struct mt_gateway *gateway);
/* mt_mirror_kick -- on main: the table has changed. */
void mt_mirror_kick(struct mt_gateway *gateway);
/* mt_mirror_on_shard -- on main: a shard of this gateway has changed its state. */
void mt_mirror_on_shard(struct mt_gateway *gateway, uint32_t shard, enum mt_shard_state state);
/* mt_mirror_fini -- nobody runs the ports' loops any more. */
void mt_mirror_fini(struct mt_gateway *gateway);

struct mt_gateway {
	uint32_t magic;
	struct sm sm;
	struct mt_gateway_options options;
	struct mt_port *ports;
	uint32_t port_count;
	pthread_t threads[MT_PORTS_MAX];
	bool has_thread[MT_PORTS_MAX];
	struct loop_post begin_posts[MT_PORTS_MAX], stop_posts[MT_PORTS_MAX];
	uint32_t opened_count, stopped_count;
	struct mt_cluster cluster;
	struct mt_volumes volumes;
	struct mt_mirror mirror;
	struct loop_link control_queue; /* mt_control_request: changes that wait for their turn */
	struct mt_control_request *control_current;
	struct loop_link asks;        /* mt_ask: out with the ports */
	struct loop_link cut_asks;    /* cut_ask.c: likewise */
	struct loop_link releases;    /* snapshot.c: to other gateways */
	struct mt_taking *taking;     /* snapshot.c: the snapshot that is being taken */
	struct mt_drop *drop;         /* drop.c */
	struct mt_holding *holding;   /* holder.c; NULL: nobody has asked yet */
	uint64_t claimed_ns;          /* holder.c: when a gateway last went, or a shard came here */
	struct loop_timer load_timer; /* the store did not answer: ask again */
	uint64_t started_ns;
	struct mt_member member;
	_Atomic uint64_t
	    lease_until_ns; /* main writes, ports read; see mt_gateway_lease_until_ns */
	_Atomic uint64_t slot_bytes_min; /* ports write: of all nodes seen; 0: none was */
	_Atomic bool has_served;         /* main writes: it was SERVING */
	bool is_killed; /* simulator: destroyed without stop, the split ports are gone already */
	int failure_rc;
	char failure[2 * MT_CONTROL_ERROR_BYTES];
	void (*stop_fn)(void *arg);
	void *stop_arg;
};

/* mt_gateway_fail -- main: it will never serve; tells options.on_failed, once. */
void mt_gateway_fail(struct mt_gateway *gateway, int rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool mt_gateway_is_killed(const struct mt_gateway *gateway);
/* mt_gateway_time_s -- wall clock; the simulator's own, where nothing may differ from one run to the next. */
uint64_t mt_gateway_time_s(const struct mt_gateway *gateway);
/* What ports report, on main. */
void mt_gateway_on_port_ready(struct mt_gateway *gateway, struct mt_port *port);
/* mt_gateway_on_all_served -- member_view.c: every shard has an owner that serves it, for the first time. */
void mt_gateway_on_all_served(struct mt_gateway *gateway);
void mt_gateway_on_port_stopped(struct mt_gateway *gateway, struct mt_port *port);
/* The key "cluster": 0, or -EINVAL and the field. The text is the caller's to free, NULL: no memory. */
int mt_cluster_decode(const void *value, uint32_t bytes, struct mt_cluster *ret_cluster,
    const char **ret_field);
char *mt_cluster_encode(const struct mt_cluster *cluster);
/* mt_cluster_put -- by compare-and-swap from cluster->version. As meta_ops.txn; -ENOMEM. */
int mt_cluster_put(struct meta *meta, const struct mt_cluster *cluster, meta_txn_fn fn, void *arg);
/* mt_cluster_has_volume -- is there an id, and are there segments, for one more volume? */
bool mt_cluster_has_volume(const struct mt_cluster *cluster);
/* mt_cluster_skip -- as many ids and numbers as @skipped says are given to nobody; at most all that are left. */
void mt_cluster_skip(struct mt_cluster *cluster, const struct mt_cluster *skipped);
/* mt_cluster_replace -- @id becomes the first of cluster->replaced, unless it is zero, there, or its own. */
void mt_cluster_replace(struct mt_cluster *cluster, const struct store_id *id);
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
/*
 * mt_volumes_refresh -- read cluster and volumes anew; those who ask meanwhile share one reading
 *
 * @waiter->fn, once (within the call only with -ENOMEM): rc 0 the table is as the store was after the call, and every
 * port knows the attaches and deletions of other gateways; -EIO, -ETIMEDOUT, -ENOMEM; -EBADMSG the
 * cluster's key cannot be understood or is of another cluster; -ESHUTDOWN the gateway stops.
 */
void mt_volumes_refresh(struct mt_gateway *gateway, struct mt_volumes_waiter *waiter);
/* mt_volumes_watch -- from now on read anew whatever other gateways change. 0 or -ENOMEM. */
int mt_volumes_watch(struct mt_gateway *gateway);
void mt_volumes_unwatch(struct mt_gateway *gateway);
/* mt_volumes_drop_waiters -- the gateway is destroyed: all get -ECANCELED. */
void mt_volumes_drop_waiters(struct mt_gateway *gateway);
/* mt_volumes_on_change_end -- volume.c: a change was made, or was not. */
void mt_volumes_on_change_end(struct mt_gateway *gateway);
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
/* ---- snapshot_table.c ---- */
#define MT_SNAPSHOT_PREFIX "snapshots/"
#define MT_SNAPSHOT_KEY_BYTES 40u
#define MT_SNAPSHOTS_VOID_MAX 32u /* void or pending, of all volumes: then no more are begun */
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
/*
 * mt_volume_query_send -- a session's question, from its port; comes back by @query->post to @fn
 *
 * A volume that main does not know, or with an attach older than @query->attach, or which ends before
 * @query->end_bytes, is read anew first.
 */
void mt_volume_query_send(struct mt_volume_query *query, struct mt_port *port,
    void (*fn)(struct loop_post *post, void *arg), void *arg);

/* ---- waits.c ---- */
enum mt_wait {
	MT_WAIT_NONE,
	MT_WAIT_TAKEOVER, /* it does not serve yet */
	MT_WAIT_STALE,    /* nodes know of later owners than the metadata store does */
	MT_WAIT_STOPPED,
	MT_WAIT_STORE, /* its nodes obey another metadata store */
	MT_WAIT_LEASE,
	MT_WAIT_NODES,   /* for an extent of the log, on --min-replicas of them */
	MT_WAIT_ROOM,    /* on the nodes */
	MT_WAIT_LOG,     /* merges must make it shorter */
	MT_WAIT_MEMORY,  /* likewise, of layers */
	MT_WAIT_EXTENT,  /* one is being made */
	MT_WAIT_ANSWERS, /* appends are out */
	MT_WAIT_NR
};
#define MT_WAITS_MAX 16u /* shards that an answer names */
/* mt_wait_text -- what follows "shard 3 "; NULL of MT_WAIT_NONE. */
const char *mt_wait_text(enum mt_wait wait);
/* mt_shard_wait -- what writes to @shard wait for now. On its port's thread. */
enum mt_wait mt_shard_wait(const struct mt_shard *shard);

/* ---- port.c ---- */
/* What a port says about itself. */
struct mt_shard_snapshot {
	uint32_t index;
	enum mt_wait wait;
	enum mt_shard_state state;
	bool is_serving;
	uint64_t takeover_steps; /* grows while its take-over comes further in this state */
	uint32_t epoch;
	uint32_t extent_count;
	uint32_t log_extent_count, run_extent_count;
	uint32_t lacking_count; /* extents with fewer good copies than there should be */
	uint32_t orphan_count;  /* copies that no manifest names, and wait to be deleted */
	uint32_t held_count;    /* of those, held back: enough have gone */
	uint64_t log_bytes, index_blocks, index_bytes, ring_bytes;
	uint64_t chunk_count, chunk_bytes; /* of index_bytes: chunks and runs, the rest is layers */
	uint64_t run_count, run_bytes;
	uint64_t run_live_bytes;   /* of run_bytes, about; as last seen */
	uint64_t run_extent_bytes; /* of the extents that they are in */
};
struct mt_link_snapshot {
	uint32_t node_id;
	enum mt_link_state state;
	bool is_up;
	uint64_t slots_total, slots_free, slot_bytes;
	char trouble[MT_TROUBLE_BYTES]; /* why it is not up */
};
/* usage.c: what a volume's own segments hold in the shards that serve here; one copy of it. */
struct mt_usage {
	uint32_t shard_count;
	uint64_t chunk_count;
	uint64_t layer_bytes;   /* in the log alone, what was written over since included */
	uint64_t run_bytes;     /* flushed */
	uint64_t garbage_bytes; /* of run_bytes: seems to be written over since, or discarded */
	uint64_t run_count;
	uint32_t run_count_max; /* of a chunk */
};

struct mt_port_snapshot {
	uint32_t shard_count, link_count, session_count;
	uint32_t asked_session_count; /* live sessions of the volume that was asked about */
	uint32_t asked_writer_count;  /* of them, of the attach that was asked about */
	uint32_t asked_reader_count;  /* and those that are read-only */
	uint32_t receives_free;
	uint64_t run_index_bytes;         /* in memory, of --index-cache */
	struct mt_shard_snapshot *shards; /* NULL: out of memory, or none yet */
	struct mt_link_snapshot *links;
	struct mt_usage usage; /* MT_ASK_USAGE */
	/* MT_ASK_SWEEP: the first of them; NULL: none. */
	struct mt_orphan_snapshot {
		struct extent_id id;
		uint32_t node_id;
		uint64_t incarnation;
		uint64_t age_ns, left_ns; /* since it was seen; until it may go */
		bool is_held, is_confirmed;
	} * orphans;
	uint32_t orphan_count, orphan_total; /* listed here; there are */
	uint32_t confirmed_count;
};
/* mt_port_snapshot_orphans -- @must_confirm: and those that wait may go now. */
void mt_port_snapshot_orphans(struct mt_port *port, bool must_confirm,
    struct mt_port_snapshot *snapshot);
/* mt_usage_take -- walks the port's chunks: for people who ask, not for a timer. */
void mt_usage_take(const struct mt_port *port, const struct mt_volume *volume,
    struct mt_usage *ret_usage);
void mt_port_snapshot_take(struct mt_port *port, struct mt_port_snapshot *ret_snapshot);
void mt_port_snapshot_fini(struct mt_port_snapshot *snapshot);

int mt_port_open(struct mt_port *port, struct mt_gateway *gateway, uint32_t index, char *ret_error,
    size_t error_bytes);
/* mt_port_begin, mt_port_stop -- on the port's thread; both report to main. */
void mt_port_begin(struct mt_port *port);
void mt_port_stop(struct mt_port *port);
/*
 * mt_port_shards -- main tells a port which of its shards it shall own: take some, release some
 *
 * @wanted: a bit set over the cluster's shard numbers; those of other ports are ignored. Posts: the last
 * set counts. A shard that is wanted and IDLE begins its take-over; one that finds its owner alive
 * goes back to IDLE, and is tried again when the next set comes. One that is not wanted and runs is
 * stopped, its root released, and is IDLE again when it is quiet. @rc 0; or -ESTALE: the lease was lost,
 * so whatever runs stops at once, and nothing is released.
 */
#define MT_SHARD_SET_WORDS (CLEAVE_SHARDS_MAX / 64u)
void mt_port_shards(struct mt_port *port, const uint64_t wanted[MT_SHARD_SET_WORDS], int rc);
/* mt_gateway_on_shard -- on main, posted by a port: this shard's state or epoch has changed. */
void mt_gateway_on_shard(struct mt_gateway *gateway, uint32_t shard, enum mt_shard_state state,
    uint32_t epoch);
/* mt_port_close -- free everything; nobody runs its loop any more. With requests in flight as well. */
void mt_port_close(struct mt_port *port);
/* mt_port_on_messages -- of every session's queue pair. */
void mt_port_on_messages(struct split_qp *qp, struct split_msg *const *msgs, uint32_t count,
    void *arg);

/* ---- control.c: requests from ports, run on main ---- */
enum mt_ask_kind {
	MT_ASK_SNAPSHOT,
	MT_ASK_SESSIONS,      /* of a volume, and nothing else: cheap */
	MT_ASK_ATTACH,        /* close what is older than volume->attach, then snapshot */
	MT_ASK_DELETE,        /* close every session of the volume, then snapshot */
	MT_ASK_USAGE,         /* snapshot, with what the volume holds */
	MT_ASK_SCRUB,         /* snapshot, and verify every copy of the shards that serve */
	MT_ASK_SWEEP,         /* snapshot, with the orphans */
	MT_ASK_SWEEP_CONFIRM, /* the same; those that wait may go now */
};
struct mt_ask;
typedef void (*mt_ask_fn)(struct mt_ask *ask, void *arg);
/* One question to every port and their answers; @fn runs on main and @ask is freed after it. */
struct mt_ask {
	struct loop_link link; /* gateway->asks */
	struct mt_gateway *gateway;
	enum mt_ask_kind kind;
	struct mt_volume volume;
	struct mt_ask_leg {
		struct loop_post post;
		struct mt_ask *ask;
		struct mt_port *port;
		struct mt_port_snapshot snapshot;
	} legs[MT_PORTS_MAX];
	uint32_t left_count;
	mt_ask_fn fn;
	void *arg;
};
/* mt_ask_ports -- @volume may be NULL. 0 and @fn later; -ENOMEM; -ESHUTDOWN the gateway stops. */
int mt_ask_ports(struct mt_gateway *gateway, enum mt_ask_kind kind, const struct mt_volume *volume,
    mt_ask_fn fn, void *arg);

/* One control request: a slot of its port, filled there, run on main, answered there. */
struct mt_control_request {
	struct loop_link link; /* gateway->control_queue */
	struct loop_post post;
	struct mt_port *port;
	struct mt_gateway *gateway;
	struct mt_session *session;
	struct split_msg *msg;
	uint64_t request_id;
	bool is_busy;
	bool is_left; /* by the port, for main: who asked has gone */
	char peer[MT_HOLDER_ADDRESS_BYTES];
	char *text; /* the request's, NUL-terminated */
	uint32_t text_bytes;
	/* Main's. */
	const struct mt_control_op *op;
	json_t *in;
	struct mt_volume volume;           /* of the volume.* ops: wish, then result */
	bool has_snapshots;                /* delete: these as well */
	bool is_forced, is_take, is_taken; /* attach: may take, has taken */
	bool is_held;                      /* it was refused: another has the volume */
	uint64_t session_id;
	struct mt_holder holder;         /* attach: the newcomer */
	struct mt_volumes_waiter waiter; /* volumes are read anew before @op runs */
	uint32_t conflict_count;         /* with changes of other gateways */
	/* control_snapshot.c */
	char snapshot_name[MT_NAME_BYTES];
	char new_name[MT_NAME_BYTES]; /* of a clone; of a volume to be renamed */
	struct mt_snapshot snapshot;
	bool must_shrink, is_check;
	uint64_t wanted_bytes;
	int change_rc;
	void (*change_fn)(struct mt_control_request *request);
	/* The answer. */
	int rc;
	char *answer; /* NULL: out of memory */
};

/* What an op may end in, once, as its last act. */
/* mt_control_finish -- @out is taken over; NULL: out of memory. */
void mt_control_finish(struct mt_control_request *request, json_t *out);
void mt_control_fail(struct mt_control_request *request, int rc, const char *text);
/* mt_control_fail_json -- @out, taken over, has a member "error"; NULL: out of memory. */
void mt_control_fail_json(struct mt_control_request *request, int rc, json_t *out);
/* mt_control_fail_volume -- names the volume; a conflict with another gateway is run again first. */
void mt_control_fail_volume(struct mt_control_request *request, int rc);

/* mt_control_peer -- the address that it came from, for people. */
const char *mt_control_peer(const struct mt_control_request *request);

/* ---- control_volume.c, control_attach.c: the volume.* ops ---- */
/* mt_control_take_name -- into request->volume.name. False: it is no name, and the request has ended. */
bool mt_control_take_name(struct mt_control_request *request, const char *name);
void mt_control_volume_create(struct mt_control_request *request);
void mt_control_volume_list(struct mt_control_request *request);
void mt_control_volume_show(struct mt_control_request *request);
void mt_control_volume_usage(struct mt_control_request *request); /* usage.c */
void mt_control_volume_delete(struct mt_control_request *request);
void mt_control_volume_attach(struct mt_control_request *request);
void mt_control_volume_open(struct mt_control_request *request);
void mt_control_volume_detach(struct mt_control_request *request);

/*
 * mt_control_refuse_users -- @answer says that somebody uses @volume: true, and the request has ended
 *
 * The text says who that is, and how to insist.
 */
bool mt_control_refuse_users(struct mt_control_request *request, const struct mt_volume *volume,
    const struct mt_holder_answer *answer);
/* mt_control_refuse -- fail with a sentence. */
void mt_control_refuse(struct mt_control_request *request, int rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- manifest_room.c ---- */
/* mt_control_has_room -- for one volume or snapshot more; false: refused, with a text. */
bool mt_control_has_room(struct mt_control_request *request);

/* ---- control_snapshot.c: the snapshot.* ops, clone, volume.rename, volume.resize ---- */
void mt_control_snapshot_create(struct mt_control_request *request);
void mt_control_snapshot_list(struct mt_control_request *request);
void mt_control_snapshot_delete(struct mt_control_request *request);
void mt_control_snapshot_rollback(struct mt_control_request *request);
void mt_control_clone(struct mt_control_request *request);
void mt_control_volume_rename(struct mt_control_request *request);
void mt_control_volume_resize(struct mt_control_request *request);
/*
 * mt_control_change -- a transaction; then everything is read anew, and @fn goes on
 *
 * A conflict with another gateway runs the op again; another error ends it.
 */
void mt_control_change(struct mt_control_request *request, const struct meta_op *ops,
    uint32_t count, void (*fn)(struct mt_control_request *request));
/* mt_control_open_snapshot -- volume.attach of VOLUME@SNAPSHOT: no attach, no writes. */
void mt_control_open_snapshot(struct mt_control_request *request, const char *name);
/* mt_control_delete_snapshots -- of request->volume: true, and the op runs again; false: it has none. */
bool mt_control_delete_snapshots(struct mt_control_request *request, uint64_t volume_id);

/* ---- drop.c: what is deleted is reclaimed ---- */
#define MT_DELETED_PREFIX "deleted/"
#define MT_HIDDEN_MAX 64u /* found in a turn */
/* mt_hidden_find -- hidden.c: what no scope of @volumes shows, of volumes that are there. How many. */
uint32_t mt_hidden_find(const struct mt_volumes *volumes, struct mt_hidden *ret_hidden,
    uint32_t max);
/* mt_waiting_all -- a bit set of so many shards, in hex: to be freed with mt_free. NULL: no memory. */
char *mt_waiting_all(uint32_t shard_count);
void mt_drop_init(struct mt_gateway *gateway);
void mt_drop_fini(struct mt_gateway *gateway);
/* mt_drop_kick -- main: the tables have been read; look what can be reclaimed. */
void mt_drop_kick(struct mt_gateway *gateway);

int mt_control_init(struct mt_port *port);
void mt_control_fini(struct mt_port *port);
/* mt_control_on_message -- on the port's thread; owns @msg. */
void mt_control_on_message(struct mt_session *session, struct split_msg *msg,
    const struct wire_control *control);
/* mt_control_on_left -- on the port's thread: @session's peer has gone; what it asked for may still wait. */
void mt_control_on_left(struct mt_session *session);
/* mt_control_is_left -- main: nobody is there any more to hear the answer. A peer may go any time after. */
bool mt_control_is_left(const struct mt_control_request *request);
/* mt_control_drop_all -- main: the gateway goes; what waits will not be run. */
void mt_control_drop_all(struct mt_gateway *gateway);

/* ---- control_json.c: the texts ---- */
enum mt_json_kind {
	MT_JSON_TEXT,
	MT_JSON_U64,
	MT_JSON_I64,
	MT_JSON_BOOL,
	MT_JSON_ARRAY,
	MT_JSON_OBJECT,
};
/* A member of a request. Outputs stay untouched when it is absent. */
struct mt_json_member {
	const char *name;
	enum mt_json_kind kind;
	bool is_required;
	uint64_t min, max; /* U64; max 0: none. TEXT: max is its length */
	union {
		const char **text;
		uint64_t *u64;
		int64_t *i64;
		bool *flag;
		json_t **array;  /* borrowed from the object */
		json_t **object; /* likewise */
	} ret;
};
/*
 * mt_json_read -- fill @members from @object, strictly
 *
 * "op" may always be there. Returns 0, or -EINVAL and a sentence that names the member: unknown,
 * missing, of another type, out of range.
 */
int mt_json_read(const json_t *object, const struct mt_json_member *members, uint32_t count,
    char ret_error[MT_CONTROL_ERROR_BYTES]);
/* Integers are JSON integers; those of 2^63 and above, which JSON cannot hold here, are refused. */
json_t *mt_json_volume(const struct mt_volume *volume);
/* mt_json_volume_held -- with "holder": who has it open for writing, if anybody. */
json_t *mt_json_volume_held(const struct mt_volume *volume);
/* mt_json_put_holder -- that member, into @object. 0; -1: no memory. mt_json_take_holder: @object may be NULL. */
int mt_json_put_holder(json_t *object, const struct mt_volume *volume);
void mt_json_take_holder(const json_t *object, struct mt_holder *ret_holder);
/* mt_json_snapshot -- snapshot_table.c: without its scope. */
json_t *mt_json_snapshot(const struct mt_snapshot *snapshot);
/*
 * mt_json_put_scope -- the member "spans": [[segment_base, cut_from, cut_below] ...]; a plain scope has none
 *
 * The last number is left out where a span has no end. Returns 0; -1: no memory.
 */
int mt_json_put_scope(json_t *object, const struct mt_scope *scope, uint64_t segment_base);
/* mt_json_take_scope -- @spans may be NULL. NULL, or the field that is wrong. */
const char *mt_json_take_scope(const json_t *spans, uint64_t segment_base,
    struct mt_scope *ret_scope);
json_t *mt_json_map(const struct mt_gateway *gateway, const struct mt_ask *ask);
/* mt_json_gateways -- {"member", "lease_ms", "gateways":[...]}: as main has seen them last. */
json_t *mt_json_gateways(const struct mt_gateway *gateway);
/* mt_json_waits -- {"waits":[{"shard":N,"text":T}, ...]} of the first MT_WAITS_MAX; NULL: out of memory. */
json_t *mt_json_waits(const struct mt_ask *ask);
json_t *mt_json_nodes(const struct mt_gateway *gateway, const struct mt_ask *ask);
json_t *mt_json_orphans(const struct mt_ask *ask); /* of an MT_ASK_SWEEP */
json_t *mt_json_status(const struct mt_gateway *gateway, const struct mt_ask *ask, bool has_shards);

/* ---- metrics.c ---- */
#define MT_SPLIT_ONE(name, unit, help) +1
#define MT_SPLIT_NR (0u SPLIT_COUNTER_LIST(MT_SPLIT_ONE))
extern const struct metric_member mt_split_members[MT_SPLIT_NR]; /* of split_port_counters */
/* mt_metrics_write -- all that monitors want to know, from an MT_ASK_SNAPSHOT's answers. 0 or -ENOMEM. */
int mt_metrics_write(FILE *out, const struct mt_ask *ask);
/* mt_json_error -- {"error": text}. */
char *mt_json_error(const char *text);
const char *mt_service_class_name(enum service_class service_class);
/* mt_service_class_parse -- 0 or -EINVAL. */
int mt_service_class_parse(const char *name, enum service_class *ret_class);
/* mt_hex_parse -- exactly 16 hex digits. 0 or -EINVAL. */
int mt_hex_parse(const char *text, uint64_t *ret_value);

#endif /* CLEAVE_MIDDLETIER_CONTROL_H */
