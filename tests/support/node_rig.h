/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node_rig.h -- a storage node on a simulated disk, and a gateway's side of a queue pair to it
 *
 * Calls are synchronous: the world runs until the answer is there. Posts are not: many may be under
 * way. What an extent should hold is kept beside it (rig_extent), so that a test can compare.
 */
#ifndef CLEAVE_TESTS_NODE_RIG_H
#define CLEAVE_TESTS_NODE_RIG_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/batch.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "splitlib/sim/loop_sim.h"
#include "splitlib/sim/sim_net.h"
#include "storage-node/node.h"
#include "storage-node/sim/disk_sim.h"

#define RIG_CLUSTER_ID 0x1122334455667788u
#define RIG_NODE_ID 7u
#define RIG_CALLS_MAX 64u
#define RIG_SLOT_BYTES 65536u /* extents of 53248 bytes */
#define RIG_BATCHES_MAX 64u

/* Zero means the default in brackets. */
struct rig_options {
	uint64_t seed;
	uint64_t slot_bytes; /* [RIG_SLOT_BYTES] */
	uint32_t slot_count; /* [16] */
	enum node_write_cache write_cache;
	bool must_prewrite;
	bool is_written_ahead; /* what the disk says of all its blocks */
	uint32_t engine_threads;
	uint64_t verify_bytes_s;
	uint64_t head_cache_bytes;
	enum node_direct direct;
	enum split_security security; /* of the node, with a key */
	uint32_t connections_max;
	uint32_t node_id;    /* expected [any] */
	uint64_t cluster_id; /* [RIG_CLUSTER_ID] */
	const struct split_key *node_key,
	    *own_key; /* the node's, and ours; both or none; borrowed */
};

/* A request under way or answered. */
struct rig_call {
	struct node_rig *rig;
	struct split_send send;
	struct wire_header header;
	struct wire_node request;
	struct dev_piece piece; /* of the gateway's device memory */
	bool is_used, is_sent, is_answered;
	int rc; /* of the call: the node's, or why there is no answer */
	struct wire_node_reply reply;
	uint8_t *payload; /* a READ's or LIST's; freed by rig_done */
	uint32_t payload_bytes;
};

/* An extent that we wrote, as we know it. */
struct rig_extent {
	struct extent_id id;
	enum extent_kind kind;
	uint32_t epoch;
	uint64_t incarnation;
	uint64_t end_bytes; /* sent */
	uint32_t end_crc;
	uint64_t acked_bytes;
	uint32_t batch_count;
	struct {
		uint64_t offset_bytes;
		uint32_t bytes;
		uint32_t crc; /* of the batch */
	} batches[RIG_BATCHES_MAX];
	uint8_t *data; /* capacity bytes */
};

struct node_rig {
	struct rig_options options;
	struct sim_world *world;
	struct sim_net *net;
	struct sim_host *node_host, *gateway_host;
	struct disk_sim *disk;
	struct loop *node_loop, *gateway_loop;
	struct node *node;
	bool is_ready_called;
	int ready_rc;
	char ready_reason[NODE_REASON_BYTES_MAX];
	bool is_stopped;
	struct split_port *port;
	struct split_qp *qp;
	bool is_connected, is_closed;
	int closed_rc;
	uint8_t hello[WIRE_HELLO_BYTES];
	struct rig_call calls[RIG_CALLS_MAX];
	uint64_t random_state[4];
};

/* rig_create -- a formatted disk, no node yet. Aborts when anything here fails. */
struct node_rig *rig_create(const struct rig_options *options);
void rig_destroy(struct node_rig *rig);
/* rig_port_open -- another gateway's port, with @key; NULL: none. The caller's, who puts it into rig->port to use it. */
struct split_port *rig_port_open(struct node_rig *rig, const struct split_key *key);

/* rig_start -- start a node and run until it is ready or not. Returns its rc. */
int rig_start(struct node_rig *rig);
/* rig_start_begin -- only start. */
void rig_start_begin(struct node_rig *rig);
/* rig_stop -- in an orderly way; its rc. */
int rig_stop(struct node_rig *rig);
/* rig_kill -- the process is gone; with @is_power_loss what it had not flushed may be, too. */
void rig_kill(struct node_rig *rig, bool is_power_loss);
/* rig_connect -- as a gateway. 0 or why not. */
int rig_connect(struct node_rig *rig);
int rig_connect_as(struct node_rig *rig, const struct wire_hello *hello);
void rig_disconnect(struct node_rig *rig);
/* rig_up -- start and connect; aborts when either fails. */
void rig_up(struct node_rig *rig);

/* rig_post -- send a request; @payload is copied. NULL: not connected. */
struct rig_call *rig_post(struct node_rig *rig, const struct wire_node *request,
    const void *payload, uint32_t payload_bytes);
/* rig_wait -- run until it is answered, the queue pair is gone (-ECONNRESET) or 60 s have passed
 * (-ETIME). Its rc. */
int rig_wait(struct rig_call *call);
void rig_done(struct rig_call *call);
/* rig_call_rc -- post, wait, done. @ret_reply may be NULL. */
int rig_call_rc(struct node_rig *rig, const struct wire_node *request, const void *payload,
    uint32_t payload_bytes, struct wire_node_reply *ret_reply);
/* rig_post_raw -- any header, with an id of ours; the call, which has ended already where it cannot be sent. */
struct rig_call *rig_post_raw(struct node_rig *rig, const struct wire_header *header,
    const void *payload, uint32_t payload_bytes);
/* rig_control -- a control request; the answer's text (freed by the caller) and status. */
int rig_control(struct node_rig *rig, const char *text, char **ret_text);
/* rig_send_raw -- any header; run until answered or closed. */
int rig_send_raw(struct node_rig *rig, const struct wire_header *header, const void *payload,
    uint32_t payload_bytes);
/* rig_run -- for @duration_ns, or until @until. */
void rig_run(struct node_rig *rig, uint64_t duration_ns);
void rig_run_until(struct node_rig *rig, bool (*until)(void *arg), void *arg);

/* Extents. */
void rig_extent_init(struct rig_extent *extent, uint32_t shard, uint32_t epoch, uint64_t counter,
    enum extent_kind kind);
void rig_extent_fini(struct rig_extent *extent);
int rig_extent_create(struct node_rig *rig, struct rig_extent *extent);
/* rig_batch -- make the next batch: @blocks blocks of seeded bytes, carrying @mark_bytes. It is
 * added to what the extent should hold; returns its bytes (in extent->data) and length. */
const uint8_t *rig_batch(struct node_rig *rig, struct rig_extent *extent, uint32_t blocks,
    uint64_t mark_bytes, uint32_t *ret_bytes);
/* rig_append_post -- make the next batch and send it. */
struct rig_call *rig_append_post(struct node_rig *rig, struct rig_extent *extent, uint32_t blocks);
/* rig_append -- and wait; acked_bytes grows with success. */
int rig_append(struct node_rig *rig, struct rig_extent *extent, uint32_t blocks);
/* rig_append_again -- send batch @index as recovery under @epoch. */
int rig_append_again(struct node_rig *rig, struct rig_extent *extent, uint32_t index,
    uint32_t epoch);
int rig_freeze(struct node_rig *rig, const struct rig_extent *extent, uint32_t epoch,
    struct wire_node_reply *ret_reply);
int rig_cut(struct node_rig *rig, const struct rig_extent *extent, uint32_t epoch,
    uint64_t length_bytes);
int rig_delete(struct node_rig *rig, const struct rig_extent *extent, uint32_t epoch);
/* rig_verify -- @ret_reply may be NULL. */
int rig_verify(struct node_rig *rig, const struct rig_extent *extent,
    struct wire_node_reply *ret_reply);
struct rig_call *rig_verify_post(struct node_rig *rig, const struct rig_extent *extent);
int rig_fence(struct node_rig *rig, uint32_t shard, uint32_t epoch);
/* rig_read -- @out: @bytes. */
int rig_read(struct node_rig *rig, const struct rig_extent *extent, uint64_t offset_bytes,
    uint32_t bytes, void *out);
/* rig_list -- up to @max entries of @shard (UINT32_MAX: all); how many there are, or -errno. */
int rig_list(struct node_rig *rig, uint32_t shard, struct wire_extent_entry *entries, uint32_t max);
/* rig_extent_matches -- do the first @length_bytes on the node equal what was sent? */
bool rig_extent_matches(struct node_rig *rig, const struct rig_extent *extent,
    uint64_t length_bytes);
/* rig_is_boundary -- does a batch of @extent end at @length_bytes? */
bool rig_is_boundary(const struct rig_extent *extent, uint64_t length_bytes);
/* rig_data_offset -- where a batch of the extent in @slot lies on the disk. */
uint64_t rig_data_offset(const struct node_rig *rig, uint32_t slot, uint64_t offset_bytes);
uint64_t rig_capacity(const struct node_rig *rig);
uint64_t rig_random(struct node_rig *rig, uint64_t below);

#endif /* CLEAVE_TESTS_NODE_RIG_H */
