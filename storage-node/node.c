/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node.c -- a node's life: create, recover, serve, stop
 *
 *	CREATED --start--> RECOVERING --all known, listening--> READY --stop--> STOPPING --> STOPPED
 *	                        \--- the disk, memory, the address --> FAILED --stop-------^
 *
 * Memory that depends on the disk's geometry is allocated when the superblock is known. A stop refuses
 * new requests, and waits until those at work are answered and the replies have left. CREATED and RECOVERING
 * may be stopped, too: a start goes no further then, whatever of the disk is still to come. All memory is
 * freed in node_destroy alone, also that of a node that is killed in the middle: first the disk is
 * closed, so that it lets go of all buffers, then the rest.
 */
#include "node.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "append.h"
#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "claim_page.h"
#include "cleave/disk.h"
#include "cleave/engine.h"
#include "extent.h"
#include "fence.h"
#include "heads.h"
#include "node_state.h"
#include "permit.h"
#include "recover.h"
#include "request.h"
#include "revoked.h"
#include "scan.h"
#include "server.h"
#include "store.h"
#include "sync.h"
#include "verify.h"
#include "zero.h"

#define DEVICE_BYTES_DEFAULT NUM_MIB(64)
#define DEVICE_BYTES_MIN NUM_MIB(8)
#define SCAN_COUNT_DEFAULT 4u
#define SCAN_BUFFER_DEFAULT (1024u * 1024u)
#define VERIFY_BYTES_S_DEFAULT NUM_MIB(64)
#define CREDITS_DEFAULT 64u
#define RECEIVES_MIN 8u          /* with fewer the device memory is too small */
#define STOP_TIMEOUT_NS NUM_S(5) /* for requests at work, before a stop goes on without them */
/* Bytes that the port's arena loses to alignment and its own needs, in all and for each receive. */
#define DEVICE_SLACK_BYTES NUM_KIB(64)
#define RECEIVE_SLACK_BYTES NUM_KIB(8)
#define HOST_BYTES_A_RECEIVE 4096u /* of the port's host memory */

const struct sm_state node_table[NODE_STATE_NR] = {
	[NODE_CREATED] = { "created", SM_TO(NODE_RECOVERING) | SM_TO(NODE_STOPPING), SM_INITIAL },
	[NODE_RECOVERING] = { "recovering",
	    SM_TO(NODE_READY) | SM_TO(NODE_FAILED) | SM_TO(NODE_STOPPING), 0 },
	[NODE_READY] = { "ready", SM_TO(NODE_STOPPING), 0 },
	[NODE_STOPPING] = { "stopping", SM_TO(NODE_STOPPED), 0 },
	[NODE_STOPPED] = { "stopped", 0, SM_FINAL },
	[NODE_FAILED] = { "failed", SM_TO(NODE_STOPPING), SM_FAILURE },
};

/* ---- ready, or not ---- */

static void
node_on_ready_task(struct loop_task *task, void *arg)
{
	struct node *node = arg;

	(void)task;
	assert((node->ready_rc == 0) == (node->sm.state == NODE_READY));
	if (node->options.on_ready != NULL)
		node->options.on_ready(node, node->ready_rc,
		    node->ready_rc == 0 ? NULL : node->ready_reason, node->options.arg);
}

/* Every extent is known and durable: the node serves, or cannot listen. */
static void
node_on_recovered(struct node *node)
{
	int rc = sn_server_listen(node);

	assert(node->sm.state == NODE_RECOVERING);
	if (rc != 0) {
		sn_recover_fail(node, rc, "--listen: '%s': cannot listen there: %s", node->listen,
		    rc == -EADDRINUSE ? "the address is in use" : strerror(-rc));
		return;
	}
	node->ready_rc = 0;
	sm_move(&node->sm, NODE_READY);
	sn_zero_kick(node);
	loop_defer(node->loop, &node->ready_task);
}

/* ---- what the superblock decides ---- */

/* Logs that the RDMA device has gone or come; the port goes on by itself (cleave/split.h). */
static void
node_on_device(bool is_there, const char *text, void *arg)
{
	(void)arg;
	if (is_there)
		log_info("node: RDMA device is back reason=\"%s\"", text);
	else
		log_warn("node: RDMA device is lost reason=\"%s\"", text);
}

/* Logs that a connection was refused; the library tells the peer, where it can. */
static void
node_on_full(const char *peer, int rc, void *arg)
{
	const struct node *node = arg;

	if (peer == NULL)
		log_limited(LOG_WARN,
		    "node: the system has no descriptor or memory for a connection, which waits address=%s "
		    "rc=%s: raise LimitNOFILE= or its memory",
		    node->address, log_errno(rc));
	else
		log_limited(LOG_WARN,
		    "node: no room for a connection address=%s peer=%s connections_max=%u rc=%s",
		    node->address, peer, split_port_accepted_max(node->port), log_errno(rc));
}

static void
node_on_cut(const char *peer, uint64_t silent_ns, const char *why, void *arg)
{
	const struct node *node = arg;

	log_limited(LOG_WARN,
	    "node: closed the connection that was used least, %s address=%s peer=%s silent_ms=%" PRIu64
	    " connections_max=%u",
	    why, node->address, peer, silent_ns / NUM_MS(1), split_port_accepted_max(node->port));
}

static void
node_on_refused(const char *peer, const char *why, void *arg)
{
	const struct node *node = arg;

	log_limited(LOG_WARN, "node: refused a connection address=%s peer=%s reason=\"%s\"",
	    node->address, peer, why);
}

static int
node_open_port(struct node *node)
{
	const struct node_options *options = &node->options;
	struct split_port_options port = {
		.loop = node->loop,
		.sim_host = options->sim_host,
		.device_bytes = options->device_bytes,
		.wants_huge_pages = options->wants_huge_pages,
		.must_populate = options->sim_host == NULL,
		.host_bytes =
		    num_max(NUM_MIB(1), (uint64_t)HOST_BYTES_A_RECEIVE * node->request_count) +
		    (options->key != NULL ? (uint64_t)WIRE_HEADER_BYTES * node->request_count : 0),
		.receive_count = node->request_count,
		.receive_payload_bytes = SN_RECEIVE_BYTES,
		.qp_credits_max = options->qp_credits_max,
		.on_device = node_on_device,
		.qp_count_max = options->connections_max != 0 ? options->connections_max
							      : NODE_CONNECTIONS_MAX,
		.on_full = node_on_full,
		.on_full_arg = node,
		.guests_give_way = true,
		.on_cut = node_on_cut,
		.on_cut_arg = node,
		.key = node->key,
		.security = options->security,
		.on_refused = node_on_refused,
		.on_refused_arg = node,
	};
	struct engine_set_options engines = { .thread_count = options->engine_threads,
		.queue_depth_max = node->request_count + options->scan_count + 1 /* verify.c */ };

	assert(node->port == NULL);
	assert(node->engines == NULL);
	node->port = open_roce_instance(&port);
	if (node->port == NULL)
		return -errno;
	if (options->wants_huge_pages)
		log_info("node: opened device_memory=\"%s\"", split_port_pages_text(node->port));
	node->engines = engine_set_create(node->loop, &engines);
	return node->engines == NULL ? -errno : 0;
}

/* The superblock is good: allocate what depends on it. Returns 0 or a negative errno. */
static int
node_on_super(struct node *node)
{
	int rc = sn_extent_init_all(node);

	assert(node->sm.state == NODE_RECOVERING);
	assert(node->super.slot_count > 0);
	if (rc == 0)
		rc = node_open_port(node);
	if (rc == 0)
		rc = sn_fence_init(node);
	if (rc == 0)
		rc = sn_claim_page_init(node);
	if (rc == 0)
		rc = sn_sync_init(node);
	if (rc == 0)
		rc = sn_append_init(node);
	if (rc == 0)
		rc = sn_permit_init(node);
	if (rc == 0)
		rc = sn_server_init(node);
	if (rc == 0)
		rc = sn_scan_init(node);
	if (rc == 0)
		rc = sn_verify_init(node);
	if (rc == 0)
		rc = sn_heads_init(node);
	if (rc == 0)
		rc = sn_zero_init(node);
	return rc;
}

/* ---- create and start ---- */

/* Fill defaults in, and choose request_count. Returns 0; -EINVAL where sizes and counts do not fit together. */
static int
node_options_check(struct node *node)
{
	struct node_options *options = &node->options;
	uint64_t scan_bytes, room_bytes;

	if (options->device_bytes == 0)
		options->device_bytes = DEVICE_BYTES_DEFAULT;
	if (options->scan_count == 0)
		options->scan_count = SCAN_COUNT_DEFAULT;
	if (options->scan_buffer_bytes == 0)
		options->scan_buffer_bytes = SCAN_BUFFER_DEFAULT;
	if (options->verify_bytes_s == 0)
		options->verify_bytes_s = VERIFY_BYTES_S_DEFAULT;
	if (options->head_cache_bytes == 0)
		options->head_cache_bytes = NODE_HEAD_CACHE_BYTES;
	if (options->qp_credits_max == 0)
		options->qp_credits_max = CREDITS_DEFAULT;
	if (options->device_bytes < DEVICE_BYTES_MIN || options->scan_count > SN_SCANS_MAX ||
	    options->head_cache_bytes < NODE_HEAD_CACHE_BYTES_MIN ||
	    options->scan_buffer_bytes < SN_SCAN_BUFFER_MIN ||
	    !num_is_aligned(options->scan_buffer_bytes, DISK_ALIGN))
		return -EINVAL;
	scan_bytes = (uint64_t)options->scan_count * options->scan_buffer_bytes +
	    SN_VERIFY_BUFFER_BYTES;
	if (options->device_bytes < scan_bytes + DEVICE_SLACK_BYTES)
		return -EINVAL;
	room_bytes = options->device_bytes - scan_bytes - DEVICE_SLACK_BYTES;
	node->request_count =
	    (uint32_t)num_min(room_bytes / (SN_RECEIVE_BYTES + RECEIVE_SLACK_BYTES),
		SN_REQUESTS_MAX);
	if (options->receive_count != 0)
		node->request_count =
		    (uint32_t)num_min(node->request_count, options->receive_count);
	return node->request_count < RECEIVES_MIN ? -EINVAL : 0;
}

static void node_on_stop_task(struct loop_task *task, void *arg);
static void node_on_stop_timer(struct loop_timer *timer, void *arg);

struct node *
node_create(const struct node_options *options)
{
	struct node *node = sn_calloc(1, sizeof(*node));
	int rc;

	assert(options->loop != NULL);
	assert(options->disk != NULL);
	assert(options->listen != NULL);
	if (node == NULL)
		return NULL;
	node->magic = SN_NODE_MAGIC;
	node->options = *options;
	node->loop = options->loop;
	node->disk = options->disk;
	node->key = options->key == NULL ? NULL : split_key_share(options->key);
	sm_init(&node->sm, "node", node_table, NODE_CREATED, options->node_id);
	(void)snprintf(node->listen, sizeof(node->listen), "%s", options->listen);
	(void)snprintf(node->disk_name, sizeof(node->disk_name), "%s",
	    options->disk_name != NULL ? options->disk_name : "disk");
	loop_task_init(&node->ready_task, node_on_ready_task, node);
	loop_task_init(&node->stop_task, node_on_stop_task, node);
	loop_timer_init(&node->stop_timer, node_on_stop_timer, node);
	rc = node_options_check(node);
	if (rc == 0)
		rc = sn_recover_init(node);
	if (rc == 0)
		return node;
	sn_recover_fini(node);
	split_key_free(node->key);
	node->magic = 0;
	free(node);
	errno = -rc;
	return NULL;
}

void
node_start(struct node *node)
{
	CHECK_OBJ(node, SN_NODE_MAGIC);
	sm_move(&node->sm, NODE_RECOVERING);
	sn_recover_start(node, node_on_super, node_on_recovered);
}

/* ---- stop ---- */

static void
node_stopped(struct node *node, int rc)
{
	assert(rc == 0 || rc == -ETIMEDOUT);
	loop_timer_stop(node->loop, &node->stop_timer);
	sm_move(&node->sm, NODE_STOPPED);
	if (node->on_stopped != NULL)
		node->on_stopped(node, rc, node->on_stopped_arg);
}

static bool
node_is_idle(const struct node *node)
{
	return node->requests_busy_count == 0 && node->replies_count == 0 && !node->is_zeroing &&
	    node->claim_writes_count == 0;
}

static void
node_on_stop_task(struct loop_task *task, void *arg)
{
	struct node *node = arg;

	(void)task;
	if (node->sm.state == NODE_STOPPING && node_is_idle(node))
		node_stopped(node, 0);
}

static void
node_on_stop_timer(struct loop_timer *timer, void *arg)
{
	struct node *node = arg;

	(void)timer;
	assert(node->sm.state == NODE_STOPPING);
	log_warn(
	    "node: stopped after %llu s with work left requests=%u replies=%u: gateways ask again",
	    (unsigned long long)(STOP_TIMEOUT_NS / NUM_S(1)), node->requests_busy_count,
	    node->replies_count);
	node_stopped(node, -ETIMEDOUT);
}

void
node_stop(struct node *node, void (*on_stopped)(struct node *node, int rc, void *arg), void *arg)
{
	enum node_state was;

	CHECK_OBJ(node, SN_NODE_MAGIC);
	was = (enum node_state)node->sm.state;
	assert(was != NODE_STOPPING);
	assert(was != NODE_STOPPED);
	node->on_stopped = on_stopped;
	node->on_stopped_arg = arg;
	loop_task_cancel(node->loop, &node->ready_task);
	sn_recover_stop(node);
	sm_move(&node->sm, NODE_STOPPING);
	if (was == NODE_READY) {
		sn_store_stop(node);
		sn_zero_stop(node);
		sn_verify_stop(node);
		loop_timer_start(node->loop, &node->stop_timer, STOP_TIMEOUT_NS);
	}
	loop_defer(node->loop, &node->stop_task);
}

void
node_destroy(struct node *node)
{
	if (node == NULL)
		return;
	CHECK_OBJ(node, SN_NODE_MAGIC);
	/* The disk first: it lets go of every buffer, and no handler runs after that. */
	disk_close(node->disk);
	loop_timer_stop(node->loop, &node->stop_timer);
	/* Then the engines: a worker may be at a job of an append or a scan. */
	if (node->engines != NULL)
		engine_set_destroy(node->engines);
	sn_sync_fini(node);
	sn_append_fini(node);
	sn_zero_fini(node);
	sn_verify_fini(node);
	sn_heads_fini(node);
	sn_scan_fini(node);
	sn_recover_fini(node);
	split_port_close(node->port);
	/* After the port: replies that it drops still come to our handler. */
	loop_task_cancel(node->loop, &node->ready_task);
	loop_task_cancel(node->loop, &node->stop_task);
	sn_server_fini(node);
	sn_permit_fini(node);
	sn_claim_page_fini(node);
	sn_fence_fini(node);
	sn_extent_fini_all(node);
	split_key_free(node->key);
	node->magic = 0;
	free(node);
}

/* ---- asking ---- */

const char *
node_address(const struct node *node)
{
	CHECK_OBJ(node, SN_NODE_MAGIC);
	return node->address;
}

uint32_t
node_id(const struct node *node)
{
	CHECK_OBJ(node, SN_NODE_MAGIC);
	return node->super.node_id;
}

uint64_t
node_cluster_id(const struct node *node)
{
	CHECK_OBJ(node, SN_NODE_MAGIC);
	return node->super.cluster_id;
}

uint32_t
node_extent_count(const struct node *node)
{
	CHECK_OBJ(node, SN_NODE_MAGIC);
	return node->held_count;
}

uint32_t
node_slots_free(const struct node *node)
{
	CHECK_OBJ(node, SN_NODE_MAGIC);
	return sn_extent_free_count(node);
}

bool
node_is_read_only(const struct node *node)
{
	CHECK_OBJ(node, SN_NODE_MAGIC);
	return node->is_read_only;
}

const struct node_counters *
node_counters(const struct node *node)
{
	CHECK_OBJ(node, SN_NODE_MAGIC);
	return &node->counters;
}

struct split_port *
node_port(const struct node *node)
{
	CHECK_OBJ(node, SN_NODE_MAGIC);
	return node->port;
}

int
node_rekey(struct node *node, const struct split_key *key)
{
	CHECK_OBJ(node, SN_NODE_MAGIC);
	return sn_revoked_rekey(node, key);
}

const struct split_key *
node_own_key(const struct node *node)
{
	CHECK_OBJ(node, SN_NODE_MAGIC);
	return node->key;
}
