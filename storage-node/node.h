/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node.h -- a storage node: a disk of extents behind queue pairs
 *
 * main.c wires a node to a real loop, ring and sockets, the simulator to simulated ones. A node owns the
 * disk handle that it is given, opens its own port, and belongs to one loop and that loop's thread: every
 * function here is called there, and every handler runs there.
 *
 *	node_create -> node_start -> on_ready -> ... -> node_stop -> on_stopped -> node_destroy
 *
 * node_destroy without node_stop is as kill -9: no request is finished, no gateway is told.
 */
#ifndef CLEAVE_STORAGE_NODE_H
#define CLEAVE_STORAGE_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/disk.h"
#include "cleave/loop.h"
#include "cleave/split.h"

struct node;

#define NODE_REASON_BYTES_MAX 256u
#define NODE_HEAD_CACHE_BYTES (16u * 1024u * 1024u)
#define NODE_HEAD_CACHE_BYTES_MIN 65536u
#define NODE_CONNECTIONS_MAX 1024u /* gateways' ports and other nodes, and commands that ask */

enum node_write_cache {
	NODE_CACHE_VOLATILE,  /* a write is durable after a flush: the safe assumption */
	NODE_CACHE_PROTECTED, /* a completed write survives power loss: appends need no flush */
};

/* Do clients read here, by tickets of gateways? */
enum node_direct {
	NODE_DIRECT_OFF,
	NODE_DIRECT_KEYED,   /* clients with a key; gateways with a key alone make tickets */
	NODE_DIRECT_TRUSTED, /* also those without: whoever reaches the node is trusted */
};

/* Zero means the default in brackets. */
struct node_options {
	struct loop *loop;
	struct disk *disk;         /* the node's from a successful node_create on */
	const char *disk_name;     /* for messages: a path ["disk"] */
	struct sim_host *sim_host; /* for sim:// addresses; else NULL */
	const char *listen;        /* tcp://HOST:PORT or sim://HOST:PORT; copied */
	uint64_t cluster_id;       /* what the disk must belong to [whatever it says] */
	uint32_t node_id;          /* [whatever the disk says] */
	/* The highest level of the wire that it speaks [CLEAVE_LEVEL_MAX]; less is for tests: an older release. */
	uint8_t level_max;
	enum node_write_cache write_cache;
	/* A regular file: zero slots before their first use, so that appends find written blocks. */
	bool must_prewrite;
	uint64_t device_bytes;      /* device memory [64 MiB; at least 8 MiB] */
	bool wants_huge_pages;      /* for device memory: the system's reserved ones */
	uint32_t receive_count;     /* receives in the pool [what device_bytes has room for] */
	uint32_t scan_count;        /* extents followed at a time at start [4; at most 64] */
	uint32_t scan_buffer_bytes; /* device memory each [1 MiB; at least 512 KiB, whole pages] */
	uint32_t qp_credits_max;    /* granted to one queue pair at a time [64] */
	uint32_t connections_max;   /* [NODE_CONNECTIONS_MAX] */
	uint32_t engine_threads;    /* [0: checks run on the loop's thread] */
	/* A key of its own, borrowed, and how its connections are protected, as split_port_options has them [none]. */
	const struct split_key *key;
	enum split_security security;
	enum node_direct direct; /* [NODE_DIRECT_OFF] */
	const char *advertise;   /* where clients find it; port 0: as bound [as gateways do] */
	uint64_t
	    head_cache_bytes; /* host memory for heads of batches that were asked for [NODE_HEAD_CACHE_BYTES; at least _MIN] */
	uint64_t verify_bytes_s; /* budget of all verifications, bytes a second [64 MiB] */
	/* Called once after node_start: 0, serving; else it never will, and @reason says why. */
	void (*on_ready)(struct node *node, int rc, const char *reason, void *arg);
	/* The clock on the wall, in milliseconds, which gateways compare with theirs [the host's; with sim_host none]. */
	uint64_t (*wall_ms)(void);
	/*
	 * Lists of revoked keys have come over the network, and count already; node_own_key has them. Calls nothing of the
	 * node. May be NULL.
	 */
	void (*on_revoked)(void *arg);
	/* About once a second until then: how far it has read its disk, further than before or not. May be NULL. */
	void (*on_progress)(const char *text, bool is_further, void *arg);
	/* Is the disk no longer found by its path? NULL: that is not known. */
	bool (*is_displaced)(void *arg);
	void *arg;
};

/* Counters of clients' reads: the status has them where clients are taken. */
#define NODE_DIRECT_COUNTER_LIST(X)                                                                \
	X(direct_reads, "count", "reads of clients, by a ticket, begun")                           \
	X(direct_refused, "count", "requests of clients, or about tickets, that were refused")     \
	X(tickets, "count", "tickets of clients that were believed")                               \
	X(tickets_refused, "count", "tickets of clients that had ended, or were not believed")     \
	X(volume_fences, "count", "times that a gateway ended tickets of a volume")
#define NODE_COUNTER_LIST(X)                                                                       \
	X(appends, "count", "appends acknowledged")                                                \
	X(append_bytes, "bytes", "batches acknowledged")                                           \
	X(appends_refused, "count", "appends refused: offset, epoch, state or content")            \
	X(appends_failed, "count", "appends that the disk failed")                                 \
	X(batches_bad, "count", "appends whose batch did not pass its check")                      \
	X(writes, "count", "gathered writes of appends")                                           \
	X(flushes, "count", "flushes")                                                             \
	X(flush_waiters, "count", "writes that flushes made durable")                              \
	X(reads, "count", "reads answered")                                                        \
	X(read_bytes, "bytes", "read for answers, alignment not counted")                          \
	X(reads_failed, "count", "reads that the disk failed")                                     \
	X(finds, "count", "blocks of runs looked up for gateways, and read with them")             \
	X(gathers, "count", "requests for several stretches of an extent answered")                \
	X(heads_read, "count", "heads of batches that were read for that: others were in memory")  \
	X(creates, "count", "extents created")                                                     \
	X(creates_refused, "count", "creates refused for want of space")                           \
	X(freezes, "count", "freezes answered")                                                    \
	X(cuts, "count", "extents sealed")                                                         \
	X(deletes, "count", "extents deleted")                                                     \
	X(fences, "count", "fence pages written")                                                  \
	X(stale_epochs, "count", "requests refused for an older epoch")                            \
	X(epochs_refused, "count", "requests refused for an epoch far above the fence")            \
	X(claims, "count", "epochs of shards that gateways with a key came with")                  \
	X(claims_refused, "count", "requests refused for an epoch that is another gateway's")      \
	X(shared_slots, "count",                                                                   \
	    "creates in slots whose blocks a copy of the disk's file has, too")                    \
	X(disk_errors, "count", "reads, writes and flushes that failed")                           \
	X(messages_bad, "count", "messages that failed a check and closed their queue pair")       \
	X(connections, "count", "queue pairs accepted")                                            \
	X(connections_refused, "count", "queue pairs rejected")                                    \
	X(connections_revoked, "count", "connections closed, their key was revoked")               \
	X(stores_refused, "count", "connections and requests of another store's gateways")         \
	X(zeroed_bytes, "bytes", "written ahead of first use")                                     \
	X(recovered_extents, "count", "open extents followed at start")                            \
	X(recovered_bytes, "bytes", "of batches found in them")                                    \
	X(damaged_extents, "count", "extents found damaged at start")                              \
	X(verifies, "count", "copies verified whole")                                              \
	X(verified_bytes, "bytes", "read for verifications")                                       \
	X(verifies_bad, "count", "verifications that found damage")                                \
	NODE_DIRECT_COUNTER_LIST(X)
struct node_counters {
#define NODE_COUNTER_MEMBER(name, unit, help) uint64_t name;
	NODE_COUNTER_LIST(NODE_COUNTER_MEMBER)
#undef NODE_COUNTER_MEMBER
};

/*
 * node_create -- a node that has read nothing of its disk yet
 *
 * Ownership: @options and its strings are copied. options->disk is the node's from here on, options->loop and
 *            sim_host are borrowed until node_destroy.
 * Returns:   the node, the caller's until node_destroy; NULL with errno: the disk is the caller's still.
 * Errors:    ENOMEM; EINVAL the sizes and counts do not fit into device_bytes.
 */
struct node *node_create(const struct node_options *options);

/*
 * node_start -- read the disk, recover its extents, listen: once
 *
 * options->on_ready tells how it ended, never from inside: 0 it serves; a negative errno and a reason for people:
 * it never will, and may be stopped or destroyed.
 */
void node_start(struct node *node);

/*
 * node_stop -- refuse new work, finish what is in flight, close the queue pairs
 *
 * Once, in any state from node_create on; on_ready is not called any more. @on_stopped (NULL: nobody asks) is
 * called once from the loop: rc 0, all is done; -ETIMEDOUT work was left after five seconds.
 */
void node_stop(struct node *node, void (*on_stopped)(struct node *node, int rc, void *arg),
    void *arg);

/*
 * node_destroy -- close the disk and the port, and free everything, in any state; NULL is a no-op
 *
 * No handler runs any more. Before the loop is destroyed, and not from one of the node's own handlers.
 */
void node_destroy(struct node *node);

/* Once ready; strings and pointers are the node's, and valid until node_destroy. */

/* node_address -- where it listens: tcp://HOST:PORT or sim://HOST:PORT, with the port that it got. */
const char *node_address(const struct node *node);
/* node_id, node_cluster_id -- as its superblock says. */
uint32_t node_id(const struct node *node);
uint64_t node_cluster_id(const struct node *node);
/* node_extent_count -- copies that it holds; node_slots_free -- slots without one. */
uint32_t node_extent_count(const struct node *node);
uint32_t node_slots_free(const struct node *node);
/* node_is_read_only -- has a flush of this disk failed (I3)? */
bool node_is_read_only(const struct node *node);
/* node_counters -- NODE_COUNTER_LIST since node_create; at any time. */
const struct node_counters *node_counters(const struct node *node);
/*
 * node_rekey -- the node shows @key from now on, and believes whom @key believes; it had one
 *
 * Lists of revoked keys that the node knows stay. Connections whose peer is not believed any more are closed. Before
 * the superblock is known it counts from then on. Returns 0; -ENOMEM: nothing has changed.
 */
int node_rekey(struct node *node, const struct split_key *key);
/* node_own_key -- that it has now, the node's; NULL: its connections are open. */
const struct split_key *node_own_key(const struct node *node);
/* node_port -- its port, for tests; NULL before its superblock was read. */
struct split_port *node_port(const struct node *node);

#endif /* CLEAVE_STORAGE_NODE_H */
