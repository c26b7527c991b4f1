/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h -- the gateway's nouns, in blocks headed by the file that owns them
 *
 * A gateway is a main loop (metadata, volumes, control) and ports, each a loop, a split port, an
 * engine set, links to the storage nodes, client sessions and a few shards. Main and ports talk by
 * loop_post alone; everything of a port belongs to its thread. In the simulator they share one loop.
 *
 *	client QP -> session -> write_path -> ring (open batch) -> replicate -> node links
 *	                    \-> read_path  -> index -> ring, or node links -> engine -> reply
 *	shard: takeover (claim, freeze, agree, replay) -> serving; manifest records extents
 */
#ifndef CLEAVE_MIDDLETIER_INTERNAL_H
#define CLEAVE_MIDDLETIER_INTERNAL_H

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/metrics.h"
#include "base/sm.h"
#include "cleave/batch.h"
#include "cleave/engine.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "policy.h"
#include "ring.h"

#define MT_REPLICAS_MAX CLEAVE_COPIES
#define MT_NODES_MAX 64u
#define MT_PORTS_MAX 16u
#define MT_EXTENTS_PER_SHARD_MAX 65536u
#define MT_RECEIVE_BYTES (64u * 1024u) /* of a port's receive: a node's longest reply */
#define MT_TROUBLE_BYTES 128u          /* of a text */
#define MT_APPENDS_IN_FLIGHT_MAX 4u    /* before a batch that is full waits, too */
#define MT_NAME_BYTES (CLEAVE_VOLUME_NAME_BYTES_MAX + 1)

struct mt_gateway;
struct mt_port;
struct mt_shard;
struct mt_link;
struct mt_extent;

/* ---- metrics.c: one array a port; for `cleave status`, and for monitors ---- */
#define MT_METRIC_LIST(X)                                                                          \
	X(writes, "count", "write messages acknowledged")                                          \
	X(write_bytes, "bytes", "plain bytes of acknowledged writes")                              \
	X(stored_bytes, "bytes", "bytes of those after compression, one copy")                     \
	X(reads, "count", "read messages answered")                                                \
	X(read_bytes, "bytes", "plain bytes read")                                                 \
	X(reads_from_memory, "count", "records served from the ring")                              \
	X(reads_from_node, "count", "records read from a replica")                                 \
	X(block_statuses, "count", "answers that say what a range holds")                          \
	X(discards, "count", "discards and zero writes acknowledged")                              \
	X(hole_discards, "count", "of those, of chunks that hold nothing: without a record")       \
	X(hole_maps, "count", "answers that say which chunks of a segment hold nothing")           \
	X(batches, "count", "batches acknowledged by all replicas")                                \
	X(records, "count", "records in those batches")                                            \
	X(payload_crc_errors, "count", "writes refused: payload does not match its CRC")           \
	X(replica_read_errors, "count", "replica reads that failed or did not match their CRC")    \
	X(repairs_queued, "count", "records found bad on a replica, to be repaired")               \
	X(copies_damaged, "count", "copies of extents found damaged, short or gone")               \
	X(copies_made, "count", "copies made by repair")                                           \
	X(copied_bytes, "bytes", "bytes of those")                                                 \
	X(copies_failed, "count", "copies that repair began and gave up")                          \
	X(copies_verified, "count", "copies verified whole")                                       \
	X(verified_bytes, "bytes", "bytes of those")                                               \
	X(scrubs_done, "count", "times that every copy of a shard was verified")                   \
	X(orphans_deleted, "count", "copies at nodes that no manifest names, deleted")             \
	X(run_indexes_loaded, "count", "indexes of runs read from nodes")                          \
	X(run_indexes_dropped, "count", "indexes of runs that had to make room for others")        \
	X(unreadable_blocks, "count", "reads answered EIO: bad on every replica")                  \
	X(takeovers, "count", "shards that began to be served here")                               \
	X(flushes, "count", "merges of layers, with or without runs, into runs")                   \
	X(flushed_bytes, "bytes", "bytes of the runs that these wrote")                            \
	X(compactions, "count", "merges of runs alone")                                            \
	X(compacted_bytes, "bytes", "bytes of the runs that these wrote")                          \
	X(merge_read_bytes, "bytes", "bytes that both read from nodes")                            \
	X(merge_stages, "count", "parts of large merges that took effect before the rest")         \
	X(extents_opened, "count", "extents created")                                              \
	X(extents_sealed, "count", "extents sealed")                                               \
	X(extents_reclaimed, "count", "extents deleted because nothing live was in them")          \
	X(reclaimed_bytes, "bytes", "bytes of those, one copy")                                    \
	X(extents_broken, "count", "open extents given up after a replica failed")                 \
	X(batches_resent, "count", "batches sent again to a new extent")                           \
	X(node_reconnects, "count", "links to storage nodes that came back")                       \
	X(nodes_slow, "count", "links to storage nodes given up because they were slow")           \
	X(sessions, "count", "client queue pairs accepted")                                        \
	X(sessions_refused, "count", "client queue pairs refused")                                 \
	X(sessions_taken, "count", "volumes taken from a writer that had not closed them")         \
	X(sessions_held, "count", "writers refused because another one has the volume")            \
	X(requests_refused, "count", "requests answered with an error")                            \
	X(engine_ns, "ns", "time inside engine jobs (inline engines)")
enum mt_metric {
#define MT_METRIC_ENUM(name, unit, help) MT_METRIC_##name,
	MT_METRIC_LIST(MT_METRIC_ENUM)
#undef MT_METRIC_ENUM
	    MT_METRIC_NR
};
extern const struct metric_member mt_metric_members[MT_METRIC_NR]; /* of mt_port.metrics */
/* mt_port_write_count -- writes of clients in flight: the work in the background gives way to them. */
uint32_t mt_port_write_count(const struct mt_port *port);

/* ---- node_link.c: one queue pair from a port to a storage node ---- */
struct mt_node_config {
	char address[SPLIT_ADDRESS_BYTES_MAX];
	char domain[32]; /* failure domain; "" is a domain of its own per node */
};

enum mt_link_state { MT_LINK_DOWN, MT_LINK_CONNECTING, MT_LINK_UP, MT_LINK_STATE_NR };

struct mt_call;
/*
 * @rc: 0, or the node's status, or -ECONNRESET, -ETIMEDOUT. @reply is NULL unless the node answered.
 * @msg (READ, LIST, CONTROL) belongs to the handler when it is not NULL: release it.
 * The call's buffers are free when this runs.
 */
typedef void (*mt_call_fn)(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg);

/* A request to a node, owned by the caller from mt_link_call until @fn. */
struct mt_call {
	uint32_t magic;
	struct loop_link link; /* in the node link's list of outstanding calls */
	struct mt_link *node;
	struct wire_node request; /* request_id is filled by the link */
	/*
	 * Host bytes to send: room for the 64-byte wire header, then head_bytes of batch head. NULL:
	 * the call's own small buffer, no head.
	 */
	uint8_t *host;
	uint32_t head_bytes;
	struct dev_piece pieces[4];
	uint32_t piece_count;
	mt_call_fn fn;
	void *arg;
	/* The link's. */
	struct split_send send;
	uint8_t own_header[WIRE_HEADER_BYTES];
	uint64_t sent_ns;
	struct wire_node_reply reply;
	struct split_msg *reply_msg;
	int rc;
	bool is_sent, is_answered;
};

struct mt_link {
	uint32_t magic;
	struct mt_port *port;
	uint32_t index; /* in port->links and in the configuration */
	struct mt_node_config config;
	struct sm sm;
	struct split_qp *qp;
	uint32_t node_id;                             /* learnt from its hello; 0: not yet */
	uint64_t slots_total, slots_free, slot_bytes; /* from its status; estimates in between */
	struct loop_link calls;                       /* outstanding, oldest first */
	uint32_t call_count;
	uint64_t next_request_id;
	struct loop_timer retry_timer, watch_timer;
	uint64_t backoff_ns;
	bool is_read_only; /* its disk takes no more writes */
	/* From its status: connections of gateways of the store that it obeys, and where one of them is. */
	uint64_t gateway_connections;
	char gateway_peer[SPLIT_ADDRESS_BYTES_MAX];
	uint32_t full_kinds; /* bit set of the extent kinds it had no room for, since its status */
	/* implementation: id -> call */
	struct mt_call **call_slots;
	uint32_t call_slot_count;
	struct mt_call status_call;
	uint8_t *status_host; /* its request's text */
	uint64_t status_ns;   /* when it was last asked */
	bool is_status_asked; /* status_call is outstanding */
	bool is_stopped;
	uint64_t changed_ns; /* when it came up, or went down, or was made */
	/* slow_node.c's. */
	uint64_t answered_sent_ns; /* the latest call that it has answered was sent then */
	uint64_t took_ns;          /* what answers take, smoothed */
	uint64_t slow_since_ns;    /* of a first verdict; 0: none */
	uint64_t penalty_ns;
	uint64_t avoid_until_ns; /* it was given up as slow: no new extents before, if possible */
	uint64_t orphans_period_ns;  /* orphans.c: when the present grace period began */
	uint32_t orphans_gone_count; /* copies that no manifest names, deleted there in it */
	bool is_hold_logged;
	bool was_up;                    /* at least once: the next time is a reconnect */
	char trouble[MT_TROUBLE_BYTES]; /* why it is not up; "": it is, or was not tried */
	uint32_t logged_crc;   /* of the failure that was last logged since it was up; 0: none */
	bool is_refused;       /* since it was up: it obeys a store that ours does not replace */
	uint32_t replaced_at;  /* which of the cluster's replaced stores it is told of next */
	struct store_id store; /* that it obeys, from its hello */
	int close_rc;          /* why we closed the queue pair; 0: we did not */
	const char *close_reason;
};

int mt_link_init(struct mt_link *link, struct mt_port *port, uint32_t index,
    const struct mt_node_config *config);
void mt_link_start(struct mt_link *link);
/* mt_link_fini -- closes; outstanding calls have completed when @port's queue pairs are closed. */
void mt_link_stop(struct mt_link *link);
void mt_link_fini(struct mt_link *link);

/* mt_link_call -- 0: @call->fn once, from the loop; -ENOTCONN, -ENOBUFS: never. */
int mt_link_call(struct mt_link *link, struct mt_call *call);
bool mt_link_is_up(const struct mt_link *link);
/* mt_link_renew -- connect anew: what its hello says has changed. */
void mt_link_renew(struct mt_link *link);
/* mt_link_is_avoided -- it was slow lately: others are preferred. */
static inline bool
mt_link_is_avoided(const struct mt_link *link, uint64_t now_ns)
{
	return link->avoid_until_ns > now_ns;
}
/* mt_link_refresh -- ask for the node's status now, unless that was done within the last second. */
void mt_link_refresh(struct mt_link *link);
/* mt_port_link -- the link to a node by its id, NULL while unknown. */
struct mt_link *mt_port_link(struct mt_port *port, uint32_t node_id);

/* A log extent from the reserve is placed like a kind of its own: other nodes are full for it. */
#define MT_PLACE_RESERVE ((enum extent_kind)0)

/* ---- placement.c: three nodes of different failure domains, by free space and load ---- */
/*
 * Returns @count links in @ret_links, or -EHOSTDOWN (too few up or domains), -ENOSPC (up, but full).
 * Nodes that are avoided do not count, unless without them not even min_replicas were left.
 */
int mt_placement_pick(struct mt_port *port, enum extent_kind kind, uint32_t count,
    struct mt_link **ret_links);

/* mt_placement_pick_one -- a link outside the domains of the nodes @others, or -EHOSTDOWN. */
int mt_placement_pick_one(struct mt_port *port, enum extent_kind kind, const uint32_t *others,
    uint32_t other_count, struct mt_link **ret_link);
/* mt_placement_domain_count -- domains with a node that is up, writable, not avoided; full or not. */
uint32_t mt_placement_domain_count(struct mt_port *port);
/* mt_placement_avoid_ns -- until when the first of those that are avoided now is; UINT64_MAX: none. */
uint64_t mt_placement_avoid_ns(struct mt_port *port);

/* ---- extent.c (replicate): an extent and its replicas; appends in order to all of them ---- */
struct mt_replica {
	uint32_t node_id;
	uint64_t incarnation;
	bool is_cut;     /* the node has confirmed the sealed length */
	bool is_damaged; /* not what it should be: not counted, and read from last */
	uint32_t listed; /* the sweep in which its node last named it; of a manifest's state */
	bool is_suspect; /* a read of it has failed: to be verified */
};

enum mt_extent_state {
	MT_EXTENT_CREATING, /* CREATE at its nodes outstanding */
	MT_EXTENT_OPEN,     /* takes appends */
	MT_EXTENT_BROKEN,   /* a replica failed: no more appends; can only be sealed */
	MT_EXTENT_SEALED,   /* its length is in the manifest */
	MT_EXTENT_STATE_NR
};

struct mt_batch;
struct mt_extent;
typedef void (*mt_extent_fn)(struct mt_extent *extent, int rc, void *arg);

struct mt_extent {
	uint32_t magic;
	struct mt_shard *shard;
	struct extent_id id;
	enum extent_kind kind;
	uint32_t index; /* mt_shard_extent: what locations say */
	struct sm sm;
	struct mt_replica replicas[MT_REPLICAS_MAX];
	uint32_t replica_count;
	uint64_t capacity_bytes;
	uint64_t end_bytes;    /* where the next append goes */
	uint64_t acked_bytes;  /* acknowledged by every replica; the mark */
	uint64_t sealed_bytes; /* SEALED: the agreed length */
	uint32_t chain_crc;
	struct loop_link appends; /* batches in flight, oldest first */
	uint32_t append_count;
	uint32_t read_rotor;        /* spreads reads over replicas */
	struct loop_link requests;  /* CREATE, CUT, DELETE outstanding at nodes */
	struct loop_task make_task; /* ends a creation that no node was asked for */
	mt_extent_fn make_fn;
	void *make_arg;
	int make_rc;
	bool is_going;               /* failed or deleted: freed when its requests have ended */
	struct loop_link shard_link; /* shard->live_extents */
	uint64_t placed_ns;          /* when its replicas were last made */
	uint64_t repair_ns;          /* not repaired again before */
	bool is_dirty;               /* its replicas' flags are not what the manifest says */
	bool is_reserve;             /* mt_extent_create_reserve */
	uint32_t run_count;          /* EXTENT_RUN: live ones, index.c */
	uint32_t use_count;          /* mt_extent_use */
	uint64_t run_bytes;          /* of those */
};

/*
 * One batch, of the log or the manifest: host head and device payload, kept until every replica has
 * answered (log: until it leaves the ring).
 */
typedef void (*mt_batch_fn)(struct mt_batch *batch, int rc, void *arg);
struct mt_batch {
	uint32_t magic;
	struct loop_link link; /* extent->appends */
	struct mt_extent *extent;
	struct batch_info info; /* id, offset, prev_crc and mark are filled at append */
	/* MT_REPLICAS_MAX host buffers: 64 bytes for the wire header, then the batch head. The
	 * caller writes descriptors (or edits) into hosts[0] + 64 + 128; the append copies. */
	uint8_t *hosts[MT_REPLICAS_MAX];
	dev_ptr payload; /* packed payloads: used_bytes - head bytes of them */
	struct mt_call calls[MT_REPLICAS_MAX];
	uint32_t unanswered_count;
	int rc;
	mt_batch_fn fn;
	void *arg;
};

/*
 * mt_extent_create -- place and create an extent at three nodes, or at min_replicas at least
 *
 * Returns a CREATING extent, @fn follows once, never within the call. rc 0: OPEN; -EHOSTDOWN,
 * -ENOSPC, -ESTALE (a node knows a newer owner): the extent is gone after @fn. NULL with errno
 * ENOMEM, or ENOSPC when the epoch has no numbers left: no @fn.
 */
struct mt_extent *mt_extent_create(struct mt_shard *shard, enum extent_kind kind, mt_extent_fn fn,
    void *arg);
/* mt_extent_create_reserve -- a log extent, also of what nodes keep back: for tombstones. */
struct mt_extent *mt_extent_create_reserve(struct mt_shard *shard, mt_extent_fn fn, void *arg);
/* mt_extent_restore -- one that the manifest names: SEALED (or BROKEN, to be agreed upon). */
struct mt_extent *mt_extent_restore(struct mt_shard *shard, const struct extent_id *id,
    enum extent_kind kind, const struct mt_replica *replicas, uint32_t replica_count);
/* mt_extent_free -- NULL is a no-op; requests and appends that are out end unseen. */
void mt_extent_free(struct mt_extent *extent);
/* mt_extent_seal -- OPEN or BROKEN becomes SEALED at @bytes, which the manifest holds durably. */
void mt_extent_seal(struct mt_extent *extent, uint64_t bytes);
/*
 * mt_extent_append -- send @batch to every replica
 *
 * @batch->fn is called once, in append order: 0 = durable on all replicas (I4), acked_bytes has
 * moved; else the extent is BROKEN, this batch may or may not be on some replicas, its buffers are
 * free and it may be appended to another extent. Returns -ENOSPC when it does not fit (seal and roll
 * over), -EPIPE when not OPEN.
 */
int mt_extent_append(struct mt_extent *extent, struct mt_batch *batch);
/* mt_extent_cut_replicas -- tell nodes that are up the sealed length; repeated when links come up. */
void mt_extent_cut_replicas(struct mt_extent *extent);
/* mt_extent_delete -- delete at the nodes that are up, best effort, then free. */
void mt_extent_delete(struct mt_extent *extent);
/*
 * mt_extent_use -- it is not reclaimed before as many mt_extent_unuse, though nothing live is in it
 *
 * For who has written, or is about to write, what no edit names yet.
 */
static inline void
mt_extent_use(struct mt_extent *extent)
{
	extent->use_count++;
}
static inline void
mt_extent_unuse(struct mt_extent *extent)
{
	assert(extent->use_count > 0);
	extent->use_count--;
}
/* mt_extent_on_link -- a link of the port went down or came up. */
void mt_extent_on_link(struct mt_extent *extent, struct mt_link *link, bool is_up);
int mt_batch_init(struct mt_batch *batch, struct mt_port *port); /* allocates hosts */
void mt_batch_fini(struct mt_batch *batch, struct mt_port *port);

#include "holder.h"
#include "scope.h"

/* ---- volume.c: what main tells ports about a volume ---- */
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
	bool
	    is_difference; /* a session's: what its scope shows has changed, what it does not has not */
	struct mt_scope scope;
};

/*
 * mt_shard_volumes_refresh -- main reads the volumes anew, for a shard that was claimed
 *
 * What was attached or deleted elsewhere before the claim is known on this gateway, and older sessions
 * are closed, when @fn runs with rc 0, on the shard's port loop. Else -EIO, -ETIMEDOUT, -ENOMEM,
 * -ESHUTDOWN. Returns 0; -ENOMEM: no handler. mt_root_abandon covers these calls as well.
 */
int mt_shard_volumes_refresh(struct mt_shard *shard, void (*fn)(int rc, void *arg), void *arg);
struct mt_manifest_state;
/*
 * mt_shard_mirror_check -- is the metadata store as new as the mirror in this shard's manifest?
 *
 * @state is read before it returns. It is what the manifest says once its nodes obey the new epoch, so the
 * store, which main reads after that, knows at least as much. Where it knows less it is an older copy: @fn
 * gets -ESTALE, and the gateway has failed (mt_gateway_fail). Else as mt_shard_volumes_refresh.
 */
int mt_shard_mirror_check(struct mt_shard *shard, const struct mt_manifest_state *state,
    void (*fn)(int rc, void *arg), void *arg);

/* Waits for a reading of the volumes that begins after it was asked for. */
struct mt_volumes_waiter {
	struct loop_link link;
	void (*fn)(int rc, void *arg);
	void *arg;
};

/* ---- manifest.c: a shard's log of edits ---- */
enum mt_edit_kind {
	MT_EDIT_EPOCH = 1,
	MT_EDIT_EXTENT_OPENED = 2,
	MT_EDIT_EXTENT_SEALED = 3,
	MT_EDIT_EXTENT_DELETED = 4,
	MT_EDIT_RUN_ADDED = 5,
	MT_EDIT_RUN_REMOVED = 6,
	MT_EDIT_CUT = 7,
	MT_EDIT_CHECKPOINT_END = 8,
	MT_EDIT_SUCCESSOR = 9,
	MT_EDIT_VOLUME = 10,  /* shard 0's manifest mirrors the volumes, for `cleave recover` ... */
	MT_EDIT_CLUSTER = 11, /* ... and the key "cluster" */
	MT_EDIT_EXTENT_REPLICAS = 12, /* of a sealed extent: these from now on */
	MT_EDIT_CUT_DROPPED = 13,     /* it matters to no chunk any more */
	MT_EDIT_SNAPSHOT = 14,        /* shard 0's: beside the volumes */
	MT_EDIT_PART = 15,            /* a manifest extent that is read before this one */
};
struct mt_edit {
	enum mt_edit_kind kind;
	struct extent_id id; /* EXTENT_*, SUCCESSOR, PART; RUN_*: where the run lies */
	enum extent_kind extent_kind;
	struct mt_replica replicas[MT_REPLICAS_MAX];
	uint32_t replica_count;
	uint64_t length_bytes;     /* SEALED, PART; RUN_ADDED: of the run */
	uint64_t offset_bytes;     /* RUN_*: in the extent */
	uint32_t epoch;            /* EPOCH */
	uint64_t chunk;            /* RUN_* */
	uint64_t flushed_sequence; /* RUN_ADDED */
	uint64_t cut;              /* CUT, CUT_DROPPED, RUN_ADDED */
	uint64_t sequence;         /* CUT; CHECKPOINT_END: next sequence seen */
	uint64_t segment_base;     /* CUT: the segments that it matters to */
	uint32_t segment_count;    /* CUT; 0: to none any more, it is but a number */
	union {
		struct mt_volume volume;     /* VOLUME */
		struct mt_snapshot snapshot; /* SNAPSHOT */
	};
	bool is_deleted;                       /* VOLUME, SNAPSHOT: it is no more */
	uint64_t next_volume_id, next_segment; /* CLUSTER */
	uint64_t next_snapshot, next_clone;    /* CLUSTER */
	uint32_t shard_count;                  /* CLUSTER */
};
#define MT_EDIT_BYTES_MAX 576u /* of one with MT_SPANS_MAX spans; others take less than 128 */
uint32_t mt_edit_encode(uint8_t out[MT_EDIT_BYTES_MAX], const struct mt_edit *edit);
/* Returns bytes consumed, or -EBADMSG and the field. */
int mt_edit_decode(const uint8_t *in, uint32_t bytes, struct mt_edit *ret_edit,
    const char **ret_field);

typedef void (*mt_manifest_fn)(int rc, void *arg);
/*
 * mt_manifest_commit -- make @edits durable, all or none; copied
 * At most MT_COMMIT_EDITS_MAX, and only edits of runs when there are more than 16.
 *
 * A full or broken manifest extent is replaced: new extent, checkpoint with these edits, root key by
 * compare-and-swap. Calls are applied in order. rc: 0; -ESTALE another owner has the root: the shard
 * must stop; -EHOSTDOWN is not returned: it waits for nodes and says so in the log.
 */
int mt_manifest_commit(struct mt_shard *shard, const struct mt_edit *edits, uint32_t count,
    mt_manifest_fn fn, void *arg);

/* The root key "shards/NNNNN": JSON of this. */
struct mt_root {
	uint32_t epoch;
	bool
	    is_released; /* its owner has stopped serving it of its own accord: anybody may claim */
	uint64_t gateway_id, boot_id;
	char port_address[SPLIT_ADDRESS_BYTES_MAX];
	bool has_manifest;
	struct extent_id manifest;
	struct mt_replica manifest_replicas[MT_REPLICAS_MAX];
	uint32_t manifest_replica_count;
	uint64_t manifest_sealed_bytes; /* UINT64_MAX: open */
	uint64_t version;               /* of the key */
	bool
	    may_be_empty; /* has_manifest is false, and whatever nodes hold is given up: recover --force */
};

/* ---- meta_proxy.c: the metadata store belongs to the main loop; shards ask through posts ---- */
typedef void (*mt_root_fn)(int rc, const struct mt_root *root, void *arg);
/*
 * Completions run on the shard's port loop. load: rc 0 and the root; -ENOENT there is none yet;
 * -EBADMSG it cannot be understood; -EIO, -ETIMEDOUT, -ENOMEM: try again.
 *
 * store: a compare-and-swap on root->version (0: must be absent). rc 0 and the root as it is now,
 * with its version; -ESTALE somebody else has changed it; -EIO, -ETIMEDOUT, -ENOMEM, -ENOSPC it is
 * not known to have happened: store the same root again until it is 0 or -ESTALE.
 *
 * Return 0; -ENOMEM: no handler.
 */
int mt_root_load(struct mt_shard *shard, mt_root_fn fn, void *arg);
int mt_root_store(struct mt_shard *shard, const struct mt_root *root, mt_root_fn fn, void *arg);
/*
 * mt_root_claim -- store @root, which names us as its owner under a new epoch, if nobody living owns it
 *
 * Beside the compare of mt_root_store: the old owner is ourselves, or has released it, or its key
 * "gateways/ID" is gone or of another boot; and our own key is as we left it. @root->version is that of
 * the root it was made from. rc as of mt_root_store, and -EBUSY: the old owner lives, or we are no
 * member just now; nothing was changed, and it is worth another try later. To release: mt_root_store
 * with is_released.
 */
int mt_root_claim(struct mt_shard *shard, const struct mt_root *root, mt_root_fn fn, void *arg);
/* mt_root_abandon -- forget @shard's calls: their handlers are not called any more. */
void mt_root_abandon(struct mt_shard *shard);

/* ---- index.h: where a block's newest record is ---- */
struct mt_location {
	uint64_t ring_position; /* of the record's stored bytes in the ring; 0: never was there */
	uint32_t extent_index;  /* mt_shard_extent */
	uint32_t offset_bytes;  /* of the stored bytes in the extent */
	uint32_t stored_bytes;  /* 0: tombstone, reads as zeros */
	uint32_t stored_crc;
	uint32_t block_crc;
	uint8_t codec_id;
	uint8_t record_blocks;
	uint8_t block_in_record;
	uint8_t record_kind;
};
struct mt_index; /* index.h: chunks, layers, runs */

#include "session.h"
/* mt_session_fini_all -- forget what is left when the port goes. */
void mt_session_fini_all(struct mt_port *port);

/* ---- write_path.c, read_path.c: called by the session for each decoded, checked message ---- */
/*
 * They own @msg until they reply to it, and call mt_session_request_done then, possibly before they
 * return. @io is within the volume. A shard that is not serving yet parks the request (bounded by the
 * receive pool); one that has stopped answers -EREMCHG. A READ, or BLOCK_STATUS, is answered from its
 * message's own payload buffer.
 */
void mt_write(struct mt_shard *shard, struct mt_session *session, struct split_msg *msg,
    const struct wire_io *io);
void mt_read(struct mt_shard *shard, struct mt_session *session, struct split_msg *msg,
    const struct wire_io *io);
/*
 * Inits come before the port listens (its free receives are counted then), after the engine set, and
 * for shards after the ring. Finis: when no queue pair is left and no engine job can run any more.
 */
int mt_write_path_init(struct mt_shard *shard);
void mt_write_path_fini(struct mt_shard *shard);
/* mt_write_path_is_quiet -- stopped, every write answered, no batch or job out. */
bool mt_write_path_is_quiet(const struct mt_shard *shard);
/* mt_write_path_reset -- quiet: as after init, without asking for memory. */
void mt_write_path_reset(struct mt_shard *shard);
int mt_read_path_init(struct mt_port *port);
void mt_read_path_fini(struct mt_port *port);
/*
 * mt_write_path_claimed -- the shard's epoch is known: what was parked before must name it
 *
 * A request of an older epoch may be one that its client gave up long ago (I11): it is answered -ESTALE.
 */
void mt_write_path_claimed(struct mt_shard *shard);
/* mt_write_path_drop -- @session has gone: its writes that wait for admission are not made any more (I11) */
void mt_write_path_drop(struct mt_shard *shard, const struct mt_session *session);
/* mt_write_path_start -- the shard is SERVING: sequence and extents are known, parked requests go. */
void mt_write_path_start(struct mt_shard *shard);
/*
 * mt_write_path_stop -- answer everything parked or batched with @rc, reads too
 *
 * What is in flight is answered when its replicas have. -ECANCELED travels, all else is -EREMCHG.
 */
void mt_write_path_stop(struct mt_shard *shard, int rc);
/*
 * mt_write_path_tend -- begin a new log extent where the present one has fewer replicas than there are
 * domains for. Returns when to ask again, UINT64_MAX: there is nothing to be done.
 */
uint64_t mt_write_path_tend(struct mt_shard *shard, uint32_t domain_count);
void mt_write_path_on_link(struct mt_shard *shard, struct mt_link *link, bool is_up);
/* mt_reply_error -- answer with a status and count it. Does not call mt_session_request_done. */
void mt_reply_error(struct mt_session *session, struct split_msg *msg, const struct wire_io *io,
    int rc, uint32_t epoch);

#include "cut.h"

/* ---- shard.c, takeover.c ---- */
enum mt_shard_state {
	MT_SHARD_IDLE,
	MT_SHARD_CLAIMING, /* root key: epoch + 1, owner */
	MT_SHARD_AGREEING, /* freeze, repair and cut the manifest extent, read it; then open extents */
	MT_SHARD_OPENING,   /* new manifest extent, which holds all agreed lengths */
	MT_SHARD_REPLAYING, /* read descriptors into the index */
	MT_SHARD_SERVING,
	MT_SHARD_STOPPED, /* not wanted, lost, or shutting down: what is out comes back, then IDLE */
	MT_SHARD_STATE_NR
};

struct mt_write_state; /* write_path.c */
struct mt_manifest;    /* manifest.c */
struct mt_takeover;    /* takeover.c */
struct mt_upkeep;      /* upkeep.c */
struct mt_reclaim;     /* reclaim.c */
struct mt_run_roll;    /* run_roll.c */
struct mt_flush;       /* flush.c */
struct merge_work;     /* merge.c */
struct mt_shard {
	uint32_t magic;
	struct mt_port *port;
	uint32_t index; /* shard number in the cluster */
	struct sm sm;
	uint32_t epoch;
	uint64_t next_counter;             /* extents created under this epoch */
	uint64_t next_sequence;            /* of the next record */
	uint64_t cut;                      /* the greatest that it was told of: batches say it */
	struct mt_cut cutting;             /* cut.c */
	struct loop_link drops;            /* segment_drop.c */
	struct mt_extent **extents;        /* extent_table.c: by slot; NULL: deleted */
	uint16_t *extent_generations;      /* of the slots */
	uint32_t extent_count, extent_max; /* slots that were given, and that there are */
	uint32_t extent_free;              /* no slot before it is free */
	struct mt_extent *log;             /* OPEN log extent; NULL: being replaced */
	struct mt_index *block_index;
	struct mt_ring ring;
	struct mt_write_state *write;
	struct mt_manifest *manifest;
	struct mt_takeover *takeover;
	struct mt_root root;
	struct loop_link root_calls;      /* meta_proxy.c: outstanding */
	uint64_t log_bytes;               /* in all log extents */
	struct loop_link extent_requests; /* extent.c: of all its extents, also of those freed */
	struct loop_link live_extents;    /* extent.c: every one that there is, in extents or not */
	struct loop_link copies;          /* copy.c: on their way */
	struct loop_task *upkeep_task;    /* upkeep.c: look at the copies now; NULL: not serving */
	void (*garbage_fn)(struct mt_shard *, const struct extent_id *, uint32_t node_id, uint64_t);
	struct mt_upkeep *upkeep;
	struct mt_reclaim *reclaim;
	struct mt_run_roll *run_roll; /* run_roll.c */
	struct mt_flush *flush;       /* flush.c */
	uint32_t read_count;          /* read_path.c: reads that are not answered yet */
	/* shard.c's. */
	bool is_wanted;    /* by the last set that the port was given */
	bool is_releasing; /* STOPPED: the root is to say so before it is IDLE */
	bool is_claimed;   /* its root may name us, and not say that it is released */
	/* takeover.c: its root was found stale so often in a row, and is not looked at before. */
	uint32_t stale_count;
	uint64_t stale_until_ns;
	struct mt_root stale_root;
	struct loop_timer quiet_timer;
	uint64_t quiet_wait_ns;
	struct mt_shard_report { /* port.c: main is told the newest; under port->lock */
		struct loop_post post;
		enum mt_shard_state state;
		uint32_t epoch;
		bool is_out;
	} report;
};
int mt_shard_init(struct mt_shard *shard, struct mt_port *port, uint32_t index);
/*
 * mt_shard_want -- shall it be served here? Begins a take-over, or stops it and releases its root
 *
 * One that stopped by itself is not taken again before the next call.
 */
void mt_shard_want(struct mt_shard *shard, bool is_wanted);
/* mt_shard_stop -- at once, whatever its state; releases nothing. Requests are answered with @rc. */
void mt_shard_stop(struct mt_shard *shard, int rc);
/* mt_shard_is_quiet -- stopped, and nothing that it asked for can still come back. */
bool mt_shard_is_quiet(const struct mt_shard *shard);
void mt_shard_fini(struct mt_shard *shard);
void mt_shard_on_link(struct mt_shard *shard, struct mt_link *link, bool is_up);

/* ---- extent_table.c: a shard's extents by index ---- */
/* mt_shard_extent_add -- give @extent an index. -ENOSPC at MT_EXTENTS_PER_SHARD_MAX live ones; -ENOMEM. */
int mt_shard_extent_add(struct mt_shard *shard, struct mt_extent *extent);
/* mt_shard_extent -- NULL: it has gone. An index is not given again for a very long time. */
struct mt_extent *mt_shard_extent(const struct mt_shard *shard, uint32_t index);
/* mt_shard_extent_remove -- its index means nothing any more; the extent is the caller's. */
void mt_shard_extent_remove(struct mt_shard *shard, struct mt_extent *extent);
/* mt_shard_extents_free -- all of them, and the table. */
void mt_shard_extents_free(struct mt_shard *shard);

/* ---- takeover.c ---- */
void mt_takeover_start(struct mt_shard *shard); /* ends in mt_write_path_start */
void mt_takeover_on_link(struct mt_shard *shard, struct mt_link *link, bool is_up);
void mt_takeover_fini(struct mt_shard *shard);

/* ---- port.c ---- */
struct mt_port {
	uint32_t magic;
	struct mt_gateway *gateway;
	uint32_t index;
	struct loop *loop;
	struct split_port *split;
	struct engine_set *engines;
	struct engine_set *merge_engines;      /* threads in the background; NULL: none */
	char address[SPLIT_ADDRESS_BYTES_MAX]; /* as bound */
	struct mt_link *links;
	uint32_t link_count;
	struct mt_shard *shards; /* those this port owns */
	uint32_t shard_count;
	struct mt_shard **shard_by_number; /* cluster's shard_count; NULL: another port's */
	struct loop_link sessions;
	struct loop_link sessions_waiting; /* for writes of older ones to end */
	dev_ptr zero_page;                 /* 4 KiB of zeros, for padding */
	uint64_t ahead_until_ns;           /* write_turn.c */
	bool is_ahead_due;
	struct mt_read_state *read;
	struct mt_run_cache *run_cache; /* run_index.c */
	struct merge_work *merge_work;  /* merge.c */
	uint64_t metrics[MT_METRIC_NR];
	uint64_t ring_bytes;    /* of each shard's ring: a fixed share of the device memory */
	uint32_t receive_count; /* in the pool: clients' requests and nodes' replies together */
	/* rebuild.c, whose port has no shards, hears of links itself. */
	void (*on_link)(struct mt_port *port, struct mt_link *link, bool is_up);
	void *on_link_arg;
	/* port.c's. */
	enum { MT_PORT_OPENING, MT_PORT_RUNNING, MT_PORT_STOPPING, MT_PORT_STOPPED } state;
	bool is_ready;        /* every wanted shard serves, and main was told */
	uint32_t ready_epoch; /* greatest of its shards then */
	uint32_t next_session_id;
	bool is_closing; /* STOPPING: requests have ended, everything is being closed */
	uint64_t stop_deadline_ns;
	struct loop_timer stop_timer;
	struct mt_control_request *control_requests; /* control.c: MT_CONTROL_IN_FLIGHT_MAX */
	struct loop_link peer_calls;                 /* peer.c: to other gateways */
	struct mt_port_report {
		struct loop_post post;
		bool is_out;
	} ready_report, stopped_report, failed_report;
	pthread_mutex_t lock; /* what main and the port hand each other; held for a copy */
	struct mt_port_set {  /* mt_port_shards: the newest set */
		struct loop_post post;
		uint64_t wanted[CLEAVE_SHARDS_MAX / 64u];
		bool is_out;    /* posted; lock */
		int rc;         /* lock */
		bool is_lost;   /* the lease was lost since the last one was taken; lock */
		bool has_come;  /* there was one; the port's */
		bool has_begun; /* shards are there to be told; the port's */
	} set;
	/* How often main has lost the lease; and of how many losses the shards here have heard. */
	_Atomic uint32_t lease_lost_count;
	uint32_t lease_heard_count;
	char failure[512];
	bool is_room_told; /* that the nodes have too few slots */
};
/* mt_port_object -- a node shows that nothing can be served: fails the gateway, or, once it has served, is logged. */
void mt_port_object(struct mt_port *port, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/*
 * mt_port_on_link -- node_link.c says that @link came up (id and slots are known) or went down
 *
 * Tells every shard of the port (mt_shard_on_link), and checks the disks' size once all are known.
 */
void mt_port_on_link(struct mt_port *port, struct mt_link *link, bool is_up);
/* mt_port_on_shard -- shard.c, takeover.c: claimed (its epoch is known), serving, or stopped. */
void mt_port_on_shard(struct mt_shard *shard);

/* ---- gateway.c: the process, free of main(); see gateway.h for its options ---- */
uint64_t mt_gateway_cluster_id(const struct mt_gateway *gateway);
uint32_t mt_gateway_shard_count(const struct mt_gateway *gateway);
uint32_t mt_gateway_min_replicas(const struct mt_gateway *gateway);
/* mt_gateway_has_served -- all its shards served at some time. Threads: any. */
bool mt_gateway_has_served(const struct mt_gateway *gateway);
uint64_t mt_gateway_node_timeout_ns(const struct mt_gateway *gateway);
/* mt_gateway_log_bytes -- of a shard's log, beyond which flush hurries; reclaim.c may want less. */
uint64_t mt_gateway_log_bytes(const struct mt_gateway *gateway);
/* mt_gateway_index_cache_bytes -- a port's share of the indexes of runs. */
uint64_t mt_gateway_index_cache_bytes(const struct mt_gateway *gateway);
/* mt_gateway_hold_ns -- after it a shard's hold for a snapshot ends by itself. */
uint64_t mt_gateway_hold_ns(const struct mt_gateway *gateway);
/* mt_gateway_frame_bytes -- plain bytes of a run's frames: a power of two of blocks, up to 64 KiB. */
uint32_t mt_gateway_frame_bytes(const struct mt_gateway *gateway);
/*
 * mt_gateway_lease_until_ns -- the monotonic time until which this gateway surely owns what it owns (I7)
 *
 * Counted from when the last renewal was sent, less what clocks may drift; 0: no lease. Any thread.
 */
uint64_t mt_gateway_lease_until_ns(const struct mt_gateway *gateway);
/* mt_gateway_has_lease -- now, by @loop's clock. Judged when an answer is sent, not when it is made. */
bool mt_gateway_has_lease(const struct mt_gateway *gateway, struct loop *loop);
/*
 * mt_port_has_lease -- the same for what @port's shards own: the lease under which they took it
 *
 * Not one that main has got since then: until the port has heard of the loss and stopped its shards,
 * another gateway may own them. The port's thread.
 */
bool mt_port_has_lease(const struct mt_port *port);
uint64_t mt_gateway_id(const struct mt_gateway *gateway);
uint64_t mt_gateway_boot_id(const struct mt_gateway *gateway);
struct loop *mt_gateway_loop(const struct mt_gateway *gateway);
struct meta *mt_gateway_meta(const struct mt_gateway *gateway);

#endif /* CLEAVE_MIDDLETIER_INTERNAL_H */
