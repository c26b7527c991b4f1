/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h -- what the files of the storage node share; one block a file
 *
 *	server.c   a message comes in -> a request -> one of the files below
 *	request.c  who works on what, until the reply is on its way
 *	append.c   check -> write -> sync -> acknowledge, in order
 *	sync.c     one flush at a time for everybody who waits for one
 *	change.c   create, freeze, cut, delete: durable pages, one change of an extent at a time
 *	fence.c    shard -> epoch, durable
 *	extent.c   the table of slots and extents
 *	scan.c     follow a chain of batches
 *	verify.c   read a whole copy while it is in use
 *	recover.c  what the disk says at start
 *
 * Everything is allocated at start, a request a receive; nothing on the way of a message allocates.
 * One thread.
 */
#ifndef CLEAVE_STORAGE_INTERNAL_H
#define CLEAVE_STORAGE_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "alloc.h"
#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/batch.h"
#include "cleave/disk.h"
#include "cleave/engine.h"
#include "cleave/split.h"
#include "cleave/status.h"
#include "cleave/wire.h"
#include "disk/disk_host.h"
#include "format/ondisk.h"
#include "node.h"

#define SN_NODE_MAGIC 0x45444f4eu    /* "NODE" */
#define SN_REQUEST_MAGIC 0x51455253u /* "SREQ" */
#define SN_EXTENT_MAGIC 0x54584553u  /* "SEXT" */
#define SN_WRITE_MAGIC 0x54525753u   /* "SWRT" */
#define SN_SCAN_MAGIC 0x4e435353u    /* "SSCN" */

#define SN_RECEIVE_BYTES WIRE_PAYLOAD_BYTES_MAX
#define SN_WRITE_BYTES_MAX (4u * 1024u * 1024u) /* of one gathered write */
#define SN_REQUESTS_MAX 65536u
#define SN_SCANS_MAX 64u
#define SN_SCAN_BUFFER_MIN (512u * 1024u)
#define SN_TEXT_BYTES_MAX 32768u /* of a control answer */
#define SN_LIST_BYTES_MAX 65536u /* of entries in one LIST answer */
#define SN_STOP_TIMEOUT_NS NUM_S(5)
#define SN_ZERO_BYTES (1024u * 1024u)

struct node;
struct sn_extent;
struct sn_request;

/* ---- sync.c: make completed writes durable ---- */

enum sync_state { SYNC_IDLE, SYNC_GATHERING, SYNC_FLUSHING, SYNC_BROKEN, SYNC_STATE_NR };
extern const struct sm_state sync_table[SYNC_STATE_NR];

struct sn_sync_waiter {
	struct loop_link link; /* in sn_sync.waiting or .covered */
	void (*fn)(struct sn_sync_waiter *waiter, int rc);
};

struct sn_sync {
	struct sm sm;
	struct loop_link waiting; /* for a flush that is not submitted yet */
	struct loop_link covered; /* by the flush in flight */
	struct loop_link exempt;  /* need no flush; completed by the task */
	struct loop_task task;
	struct disk_io io;
};

void sn_sync_init(struct node *node);
void sn_sync_fini(struct node *node);
/*
 * sn_sync_wait -- call @waiter->fn once all writes completed so far are durable
 *
 * Never from inside. rc: 0; -EIO the flush failed; -EROFS an earlier one had. @must_flush: also where
 * the write cache is protected.
 */
void sn_sync_wait(struct node *node, struct sn_sync_waiter *waiter,
    void (*fn)(struct sn_sync_waiter *waiter, int rc), bool must_flush);
/* sn_sync_is_idle -- whether a write that goes now needs a flush, and there is none to share. */
bool sn_sync_is_idle(const struct node *node, bool must_flush);
/* sn_sync_judge -- the flush of a durable write has ended with @rc: 0, or -EIO, the disk is broken. */
int sn_sync_judge(struct node *node, int rc);
/* sn_disk_break -- a flush failed: read-only from now on, in this process and after (I3). */
void sn_disk_break(struct node *node, int rc);

/* ---- append.c ---- */

enum append_state {
	APPEND_CHECKING,
	APPEND_QUEUED,
	APPEND_WRITING,
	APPEND_SYNCING,
	APPEND_DURABLE,
	APPEND_ACKED,
	APPEND_FAILED,
	APPEND_STATE_NR
};
extern const struct sm_state append_table[APPEND_STATE_NR];

struct sn_append {
	struct sm sm;
	struct loop_link link; /* in the extent's checking, queued, then in_flight; oldest first */
	struct loop_link group_link; /* in its write's appends */
	uint64_t offset_bytes;
	uint32_t bytes;
	struct engine_job job;
	bool is_job_running;
	struct batch_check check;
};

/* A gathered write of adjacent appends of an extent, and its wait for a flush. */
struct sn_write {
	uint32_t magic;
	struct loop_link link; /* in node->free_writes */
	struct node *node;
	struct sn_extent *extent;
	struct loop_link appends;
	struct disk_io io;
	struct dev_piece pieces[DISK_PIECES_MAX];
	struct sn_sync_waiter waiter;
};

void sn_append_start(struct sn_request *req);
/* sn_append_is_settled -- no append of @extent is on its way. */
bool sn_append_is_settled(const struct sn_extent *extent);
/* sn_append_stop -- refuse plain appends of @extent from now on with @rc. */
void sn_append_stop(struct sn_extent *extent, int rc);
void sn_append_init(struct node *node);
void sn_append_fini(struct node *node);

/* ---- fence.c ---- */

enum fence_state { FENCE_CLEAN, FENCE_WRITING, FENCE_SYNCING, FENCE_STATE_NR };
extern const struct sm_state fence_table[FENCE_STATE_NR];

struct sn_fence_waiter {
	struct loop_link link; /* in the page's waiting or covered */
	void (*fn)(struct sn_fence_waiter *waiter, int rc);
};

struct sn_fence_page {
	struct sm sm;
	struct node *node;
	struct ondisk_fence now; /* what is enforced; its generation is the durable one's */
	uint32_t durable_epochs[ONDISK_FENCE_SHARDS];
	uint32_t writing_epochs[ONDISK_FENCE_SHARDS]; /* in the write in flight */
	struct loop_link waiting;                     /* for a write that is not submitted yet */
	struct loop_link covered;                     /* by the one in flight */
	struct disk_io io;
	struct dev_piece piece;
	struct sn_sync_waiter sync_waiter;
	void *page;
	struct store_id writing_store, durable_store;
	uint32_t
	    store_copies; /* of the page that have durable_store: 2 are enough; 0: not read yet */
};

void sn_fence_init(struct node *node);
/* sn_fence_load -- at start: one good copy of a page, in any order. */
void sn_fence_load(struct node *node, const struct ondisk_fence *fence);
/* sn_fence_store -- write page 0 with its store_id of now; waiter->fn is called, never from inside. */
void sn_fence_store(struct node *node, struct sn_fence_waiter *waiter,
    void (*fn)(struct sn_fence_waiter *waiter, int rc));
/* sn_fence_store_is_durable -- both copies have it. */
bool sn_fence_store_is_durable(const struct node *node);
/* sn_fence_epoch -- requests of older epochs for @shard are refused. */
uint32_t sn_fence_epoch(const struct node *node, uint32_t shard);
/*
 * sn_fence_raise -- refuse epochs below @epoch for @shard, at once and durably
 *
 * Returns 1: durable already, @waiter is not used; 0: @waiter->fn will be called, never from inside.
 */
int sn_fence_raise(struct node *node, uint32_t shard, uint32_t epoch,
    struct sn_fence_waiter *waiter, void (*fn)(struct sn_fence_waiter *waiter, int rc));
/*
 * sn_fence_is_near -- is @epoch one that the shard's owners can have come to since the fence was raised?
 *
 * A take-over raises the epoch by one, `cleave recover` by 1,024 where it did not hear all nodes. An epoch
 * farther above the fence than SN_FENCE_JUMP_MAX (a shard that moves each minute, for two years) is
 * nobody's: believed, it would use up the epochs and shut the owner out.
 */
#define SN_FENCE_JUMP_MAX (1u << 20)
bool sn_fence_is_near(const struct node *node, uint32_t shard, uint32_t epoch);
/* sn_fence_note -- an epoch seen on the disk at start: never below it. */
void sn_fence_note(struct node *node, uint32_t shard, uint32_t epoch);

/* ---- store.c: whose gateways it obeys ---- */

struct sn_peer;

#define SN_JOINS_MAX 64u

/* A connection that waits until its gateway's store_id is durable. */
struct sn_join {
	struct loop_link link;
	struct split_qp *qp;
	struct store_id store;
};

/* Accepts the connection of a gateway that has waited, and may come in. */
typedef void (
    *sn_store_accept_fn)(struct node *node, struct split_qp *qp, const struct store_id *store);

struct sn_store {
	sn_store_accept_fn accept;
	bool is_adopting;
	struct sn_fence_waiter waiter;
	struct loop_link joins, free_joins;
	struct sn_join all_joins[SN_JOINS_MAX];
};

void sn_store_init(struct node *node, sn_store_accept_fn accept);
/* sn_store_stop -- those who wait are sent away. */
void sn_store_stop(struct node *node);
/*
 * sn_store_meet -- may a gateway come in that says @hello?
 *
 * Returns: 0; 1 sn_store_join the connection, its store_id is being made durable; -ENOTUNIQ it is another
 * store's, counted and logged.
 */
int sn_store_meet(struct node *node, const struct wire_hello *hello, const char *peer);
/* sn_store_join -- accept @qp when the store_id is durable, or reject it. */
void sn_store_join(struct node *node, struct split_qp *qp);
/* sn_store_allows -- may @peer, called @name, ask for @opcode? No is counted and logged. */
bool sn_store_allows(struct node *node, const struct sn_peer *peer, enum wire_opcode opcode,
    const char *name);
/* sn_store_text -- the store_id; zeros: none. */
void sn_store_text(const struct node *node, char out[STORE_ID_TEXT_BYTES]);
/*
 * sn_store_gateways -- how many connections gateways of the store that is obeyed have here now
 *
 * @ret_peer: the address of the oldest one; NULL where there is none. A connection counts from its hello on:
 * it said the store_id, and an idle gateway that has connected again asks for nothing more.
 */
uint32_t sn_store_gateways(const struct node *node, const char **ret_peer);

/* ---- refusal.c: who is refused is told of once ---- */

#define SN_REFUSALS_MAX 16u

struct sn_refusal {
	uint32_t key;      /* of host, reason and whose it is */
	uint64_t again_ns; /* when the same is news again; 0: never used */
};

/* sn_refusal_is_news -- may the log say that @peer was refused for @rc, as one of the cluster or store @whose? */
bool sn_refusal_is_news(struct node *node, const char *peer, int rc, uint64_t whose);

/* ---- extent.c: slots and what they hold ---- */

enum extent_state {
	EXTENT_FREE,
	EXTENT_ZEROING,
	EXTENT_BAD,
	EXTENT_CREATING,
	EXTENT_OPEN,
	EXTENT_STOPPED,
	EXTENT_FREEZING,
	EXTENT_FROZEN,
	EXTENT_SEALING,
	EXTENT_SEALED,
	EXTENT_DELETING,
	EXTENT_STATE_NR
};
extern const struct sm_state extent_table[EXTENT_STATE_NR];

/* A slot has one for good; the extent in it changes. */
struct sn_extent {
	uint32_t magic;
	struct sm sm;
	struct node *node;
	struct loop_link link; /* in one of the node's free lists */
	struct sn_extent *hash_next;
	struct ondisk_slot slot; /* identity; of a free slot: the last one's */
	bool is_virgin;          /* never held an extent */
	bool is_prewritten;      /* all its blocks are written ones (disk_is_written) */
	uint64_t end_bytes;      /* where the next append goes, those in flight counted */
	uint64_t durable_bytes;
	uint64_t mark_bytes;   /* highest mark in the durable bytes */
	uint64_t whole_bytes;  /* shorter than this it is damaged */
	uint32_t chain_crc;    /* of the last durable batch, or the seed */
	uint32_t end_crc;      /* of the last batch that passed its check */
	uint32_t freeze_epoch; /* FROZEN: who may re-send */
	uint64_t state_generation;
	bool is_rotten;        /* a verification has found so; not on the disk */
	int stop_rc;           /* STOPPED: what plain appends get */
	uint64_t failed_bytes; /* in-flight appends from here on fail; UINT64_MAX: none */
	int failed_rc;
	struct loop_link checking;   /* appends; only the first one's check runs */
	struct loop_link queued;     /* appends that the next commit writes */
	struct loop_link in_flight;  /* appends, WRITING to DURABLE */
	struct loop_link ready_link; /* in node->ready: has queued appends */
	struct loop_link changes;    /* requests; the first is at work */
	uint32_t read_count;         /* reads in flight */
};

void sn_extent_init_all(struct node *node);
struct sn_extent *sn_extent_find(struct node *node, const struct extent_id *id);
/* sn_extent_insert, sn_extent_remove -- into and out of the table. */
void sn_extent_insert(struct sn_extent *extent);
void sn_extent_remove(struct sn_extent *extent);
/*
 * sn_extent_claim -- a free slot for the extent that @create asks for, moved to CREATING and into the table
 *
 * Keeps slots back: manifest before run before log. -ENOSPC; -EBUSY the last one is being zeroed.
 */
int sn_extent_claim(struct node *node, const struct wire_node *create,
    struct sn_extent **ret_extent);
/* sn_extent_release -- the slot is free again; out of the table. */
void sn_extent_release(struct sn_extent *extent);
/*
 * sn_extent_look_written -- are all its blocks written ones? Asks the disk, and remembers a yes
 *
 * True is good from the next flush on, which is the one of the extent's create.
 */
bool sn_extent_look_written(struct sn_extent *extent);
/* sn_extent_add_free -- into the free list that fits. Its state is FREE. */
void sn_extent_add_free(struct sn_extent *extent);
/* sn_extent_free_count -- slots that hold no extent; that which is being zeroed is one. */
uint32_t sn_extent_free_count(const struct node *node);
uint32_t sn_extent_reserve(const struct node *node, enum extent_kind kind);
bool sn_extent_is_damaged(const struct sn_extent *extent);
/* sn_extent_is_held -- it holds an extent that requests may name. */
bool sn_extent_is_held(const struct sn_extent *extent);
enum wire_extent_state sn_extent_wire_state(const struct sn_extent *extent);
void sn_extent_clear(struct sn_extent *extent);
uint64_t sn_capacity(const struct node *node);

/* ---- zero.c: one slot ahead ---- */

struct sn_zero {
	struct sn_extent *extent; /* being zeroed; NULL: none */
	uint64_t done_bytes;
	void *zeros; /* SN_ZERO_BYTES; NULL: not wanted */
	struct disk_io io;
	struct dev_piece piece;
	struct loop_timer timer;
	bool is_writing;
	bool is_stopping;
};

int sn_zero_init(struct node *node);
void sn_zero_fini(struct node *node);
/* sn_zero_stop -- a step at work ends, none follows. */
void sn_zero_stop(struct node *node);
/* sn_zero_kick -- zero a slot where none is ready. */
void sn_zero_kick(struct node *node);

/* ---- scan.c: follow a chain ---- */

enum scan_state { SCAN_IDLE, SCAN_WAITING, SCAN_READING, SCAN_CHECKING, SCAN_STATE_NR };
extern const struct sm_state scan_table[SCAN_STATE_NR];

/* A question about an extent's chain. */
struct sn_scan_job {
	struct loop_link link; /* in node->scans_waiting */
	struct sn_extent *extent;
	uint64_t limit_bytes;  /* look no further */
	bool must_look_ahead;  /* for marks behind the end */
	uint64_t length_bytes; /* out: the chain is good up to here */
	uint64_t mark_bytes;   /* out: highest mark in it */
	uint64_t ahead_bytes;  /* out: highest mark that was found behind it, above it; else 0 */
	uint32_t chain_crc;    /* out: of its last batch, or the seed */
	int end_rc;            /* out: why it ends: 0 at the limit; -ENODATA; -EBADMSG; -EIO ... */
	const char *end_field; /* out: of the batch that does not pass; may be NULL */
	void (*fn)(struct sn_scan_job *job);
	void *arg;
	/*
	 * May be NULL. Asked before each read, may lower limit_bytes: 0: read; 1: not now, the owner
	 * will call sn_scan_resume; negative: end so. After each read that was allowed: after_read.
	 */
	int (*before_read)(struct sn_scan_job *job, uint32_t bytes);
	void (*after_read)(struct sn_scan_job *job);
};

/* A scan that answers it: a buffer and the requests in flight. */
struct sn_scan {
	uint32_t magic;
	struct sm sm;
	struct node *node;
	bool is_shared;        /* one of node->scans */
	struct loop_link link; /* in node->free_scans */
	struct sn_scan_job *job;
	dev_ptr buffer;
	uint32_t buffer_bytes; /* more than a batch can have */
	uint32_t filled_bytes; /* of it */
	uint32_t at_bytes;     /* next batch in it */
	uint32_t read_bytes;   /* what to read at once; small after an error */
	bool is_looking;       /* behind the chain's end */
	uint32_t look_bytes;   /* from there to the buffer's first byte, while it looks */
	struct disk_io io;
	struct dev_piece piece;
	struct engine_job check_job;
	struct batch_check check;
};

/* sn_scan_start -- follow a chain from its beginning; @job->fn is called once, never from inside. */
void sn_scan_start(struct node *node, struct sn_scan_job *job);
/* sn_scan_run -- the same at once with a scanner of one's own, which is idle. */
void sn_scan_run(struct sn_scan *scan, struct sn_scan_job *job);
/* sn_scan_resume -- ask before_read again. The scanner is WAITING. */
void sn_scan_resume(struct sn_scan *scan);
/* sn_scan_make -- an idle scanner with a buffer of its own. -ENOMEM. */
int sn_scan_make(struct node *node, struct sn_scan *scan, uint32_t index, uint32_t buffer_bytes);
int sn_scan_init(struct node *node);
void sn_scan_fini(struct node *node);

/* ---- change.c: create, freeze, cut, delete, fence ---- */

enum change_state {
	CHANGE_QUEUED,
	CHANGE_SETTLING,
	CHANGE_SCANNING,
	CHANGE_WRITING,
	CHANGE_SYNCING,
	CHANGE_DONE,
	CHANGE_FAILED,
	CHANGE_STATE_NR
};
extern const struct sm_state change_table[CHANGE_STATE_NR];

struct sn_change {
	struct sm sm;
	struct loop_link link;     /* in extent->changes */
	enum extent_state was;     /* the extent's state, to go back to */
	struct ondisk_state state; /* what is being written */
	uint32_t pending_count;    /* page and fence outstanding */
	int rc;                    /* the first failure of those */
	int answer_rc;             /* what is told when none failed */
	struct disk_io io;
	struct dev_piece piece;
	struct sn_sync_waiter sync_waiter;
	struct sn_fence_waiter fence_waiter;
	struct sn_scan_job scan_job;
};

void sn_change_start(struct sn_request *req);
/* sn_change_on_settled -- appends or reads of @extent have ended: its first change may go on. */
void sn_change_on_settled(struct sn_extent *extent);

/* ---- recover.c ---- */

/* Reads the pages of one slot after another. */
struct sn_slot_read {
	struct node *node;
	struct disk_io io;
	struct dev_piece piece;
	uint8_t *pages; /* ONDISK_SLOT_HEAD_BYTES */
	uint32_t slot_index;
	uint32_t page_index; /* being read alone after an error; else ONDISK_SLOT_PAGES */
	int page_rcs[ONDISK_SLOT_PAGES];
};

#define SN_SLOT_READS 16u

struct sn_recover {
	struct disk_io io;
	struct dev_piece piece;
	void *page;
	uint32_t step; /* superblock copy, then fence page and copy, being read */
	int super_rc;  /* why the first bad superblock is bad; 0: none is */
	const char *super_field;
	bool has_super;
	bool is_other_version; /* a whole copy of another version */
	int fence_rcs[2];      /* of a page's copies */
	const char *fence_field;
	struct sn_slot_read *slot_reads;
	uint32_t next_slot;
	uint32_t slots_left_count;
	uint32_t unreadable_count; /* slots of which not one page can be read */
	uint32_t unreadable_slot;  /* the first of them */
	int unreadable_rc;         /* its */
	uint32_t next_extent;      /* slot to look at for an open extent */
	struct sn_scan_job *scan_jobs;
	uint32_t open_count, done_count;
	uint64_t total_bytes, done_bytes;
	struct sn_sync_waiter sync_waiter;
	struct loop_timer progress;
	uint64_t told; /* how far it was at the last look */
	uint64_t started_ns;
	int (*on_super)(struct node *node); /* sn_recover_start */
	void (*on_done)(struct node *node);
};

/*
 * sn_recover_start -- read the disk, from the superblock to the last open extent
 *
 * @on_super: the superblock is good; allocate what depends on it, or end it all by a negative errno.
 * @on_done: every extent is known and durable. Where it fails the node does, by sn_recover_fail.
 */
void sn_recover_start(struct node *node, int (*on_super)(struct node *node),
    void (*on_done)(struct node *node));
/* sn_recover_fail -- the node will never serve; @format says why. At most once, before READY. */
void sn_recover_fail(struct node *node, int rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int sn_recover_init(struct node *node);
void sn_recover_fini(struct node *node);

/* ---- read.c ---- */

struct sn_read {
	struct disk_io io;
	struct dev_piece piece;
	uint32_t skip_bytes; /* in front, for alignment */
};

void sn_read_start(struct sn_request *req);

/* ---- verify.c ---- */

#define SN_VERIFIES_MAX 4u /* at work or in line; others are told to try again */
#define SN_VERIFY_BUFFER_BYTES (512u * 1024u)

/* A request's share of it. */
struct sn_verify_request {
	struct loop_link link; /* in sn_verify.waiting */
	uint64_t incarnation;  /* of the copy that was asked about */
};

struct sn_verify {
	struct sn_request *req;   /* being verified; NULL: none */
	struct loop_link waiting; /* requests in line, oldest first */
	uint32_t count;           /* of them all */
	struct sn_scan scan;
	struct sn_scan_job job;
	struct loop_task task;   /* starts the next */
	struct loop_timer timer; /* until the next read */
	uint64_t next_read_ns;   /* the budget allows none before */
	uint32_t yields_count;   /* times that the next read has given way */
	bool is_stopping;
};

void sn_verify_start(struct sn_request *req);
/* sn_verify_stop -- those at work and in line end soon; no other is taken. */
void sn_verify_stop(struct node *node);
int sn_verify_init(struct node *node);
void sn_verify_fini(struct node *node);

/* ---- control.c: LIST and JSON ---- */
void sn_list_run(struct sn_request *req);
/* sn_control_run -- 0, or -EPROTO with the field's name: the queue pair is to be closed. */
int sn_control_run(struct node *node, struct split_msg *msg, const char **ret_field);

/* ---- request.c ---- */

/* A message being worked on; as many as the pool has receives. */
struct sn_request {
	uint32_t magic;
	struct loop_link link; /* in node->free_requests */
	struct node *node;
	struct split_msg *msg;
	struct wire_node wire;
	struct sn_extent *extent;
	void *page; /* ONDISK_PAGE_BYTES of host memory */
	union {
		struct sn_append append;
		struct sn_change change;
		struct sn_read read;
		struct sn_verify_request verify;
	};
};

int sn_request_init(struct node *node);
void sn_request_fini(struct node *node);
/* sn_request_take -- a free one for @msg, which is its own from now on; @wire is copied. */
struct sn_request *sn_request_take(struct node *node, struct split_msg *msg,
    const struct wire_node *wire);
/* sn_request_finish -- answer with @reply and @piece (may be NULL); @req is free after it. */
void sn_request_finish(struct sn_request *req, struct wire_node_reply *reply,
    const struct dev_piece *piece);
/* sn_request_fail -- the same for a bare @rc. */
void sn_request_fail(struct sn_request *req, int rc);
/* sn_reply_raw -- answer @msg itself; counted, so that a stop waits for it. */
void sn_reply_raw(struct node *node, struct split_msg *msg, const struct wire_header *header,
    const struct dev_piece *piece);

/* ---- server.c ---- */

/* The argument of a queue pair: who is there. One suffices for all clients, and for a store's gateways. */
struct sn_peer {
	struct node *node;
	bool is_gateway;
	struct store_id store; /* of a gateway; zero: it has none */
	uint32_t connection_count;
};
/* Stores of which connections are open at a time: the one that is obeyed, none, and those of before. */
#define SN_PEERS_MAX 16u

int sn_server_init(struct node *node);
void sn_server_fini(struct node *node);
int sn_server_listen(struct node *node);
/* ---- node.c ---- */

enum node_state {
	NODE_CREATED,
	NODE_RECOVERING,
	NODE_READY,
	NODE_STOPPING,
	NODE_STOPPED,
	NODE_FAILED,
	NODE_STATE_NR
};
extern const struct sm_state node_table[NODE_STATE_NR];

struct node {
	uint32_t magic;
	struct sm sm;
	struct node_options options;
	char listen[SPLIT_ADDRESS_BYTES_MAX];
	char address[SPLIT_ADDRESS_BYTES_MAX];
	char disk_name[SPLIT_ADDRESS_BYTES_MAX];
	struct loop *loop;
	struct disk *disk;
	struct split_port *port;
	struct engine_set *engines;
	struct ondisk_super super;
	struct node_counters counters;
	bool is_read_only;

	/* extent.c */
	struct sn_extent *extents; /* super.slot_count of them */
	struct sn_extent **hash;
	uint32_t hash_mask;
	struct loop_link free_used; /* held extents before, or written ahead */
	struct loop_link free_virgin;
	uint32_t free_count;
	uint32_t held_count;
	uint32_t bad_count;
	uint32_t kind_counts[EXTENT_MANIFEST + 1];
	uint64_t incarnation_last;

	struct sn_fence_page fences[ONDISK_FENCE_PAGES];
	void *fence_pages;
	struct sn_sync sync;
	struct sn_zero zero;
	struct sn_recover recover;
	struct sn_verify verify;
	uint32_t reads_count; /* of gateways, at the disk */

	/* append.c */
	struct loop_link ready; /* extents with queued appends */
	struct loop_task commit_task;
	struct sn_write *writes;
	struct loop_link free_writes;
	uint32_t writes_count;  /* at the disk */
	uint32_t appends_count; /* in flight, all extents */

	/* scan.c */
	struct sn_scan *scans;
	uint32_t scan_count;
	struct loop_link free_scans;
	struct loop_link scans_waiting; /* jobs */
	struct loop_task scan_task;

	/* request.c */
	struct sn_request *requests;
	uint32_t request_count;
	void *request_pages;
	struct loop_link free_requests;
	uint32_t requests_busy_count;
	uint32_t replies_count; /* handed to the port, not on their way yet */

	/* server.c */
	struct sn_peer gateway_peers[SN_PEERS_MAX], client_peer;
	struct sn_store store;
	struct sn_refusal refusals[SN_REFUSALS_MAX];
	char *text; /* SN_TEXT_BYTES_MAX or SN_LIST_BYTES_MAX, the larger: being made */

	/* best effort mark of a broken disk */
	struct disk_io super_io;
	struct dev_piece super_piece;
	void *super_page;

	/* node.c */
	int ready_rc;
	char ready_reason[NODE_REASON_BYTES_MAX];
	struct loop_task ready_task;
	struct loop_timer stop_timer;
	struct loop_task stop_task;
	void (*on_stopped)(struct node *node, int rc, void *arg);
	void *on_stopped_arg;
};

/* sn_node_idle_check -- something has ended that a stop waits for: look whether that was all. */
static inline void
sn_node_idle_check(struct node *node)
{
	if (node->sm.state == NODE_STOPPING)
		loop_defer(node->loop, &node->stop_task);
}

/* metrics.c: what is in struct node_counters and struct split_counters. */
#define SN_METRIC_ONE(name, unit, help) +1
#define SN_COUNTER_NR (0u NODE_COUNTER_LIST(SN_METRIC_ONE))
#define SN_SPLIT_NR (0u SPLIT_COUNTER_LIST(SN_METRIC_ONE))
extern const struct metric_member sn_counter_members[SN_COUNTER_NR];
extern const struct metric_member sn_split_members[SN_SPLIT_NR];
/* sn_damaged_count -- copies that are known to be damaged. */
uint32_t sn_damaged_count(const struct node *node);

#define SN_COUNT(node, name, delta) metric_add(&(node)->counters.name, (delta))

#endif /* CLEAVE_STORAGE_INTERNAL_H */
