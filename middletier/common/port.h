/* SPDX-License-Identifier: Apache-2.0 */
/*
 * port.h -- a port: a loop, a split port, an engine set, links to the nodes, sessions, and some
 * shards
 */
#ifndef CLEAVE_MIDDLETIER_COMMON_PORT_H
#define CLEAVE_MIDDLETIER_COMMON_PORT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "cleave/dev_ptr.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/metric.h"

struct engine_set;
struct merge_work;
struct mt_cluster;
struct mt_control_request;
struct mt_gateway;
struct mt_link;
struct mt_port_host;
struct mt_port_options;
struct mt_port_events;
struct mt_read_state;
struct mt_root_ops;
struct mt_run_cache;
struct mt_settings;
struct mt_session_host;
struct mt_shard;
struct mt_shared;
struct split_port;

#define MT_NODES_MAX 64u
#define MT_PORTS_MAX 16u
#define MT_RECEIVE_BYTES (64u * 1024u) /* of a port's receive: a node's longest reply */

enum mt_port_state {
	MT_PORT_OPENING, /* listens; shards are not known yet */
	MT_PORT_RUNNING,
	MT_PORT_STOPPING, /* takes no request any more */
	MT_PORT_STOPPED,
	MT_PORT_STATE_NR
};

struct mt_port {
	uint32_t magic;
	const struct mt_port_options *options;
	const struct mt_port_host *host; /* what lies above it */
	struct mt_gateway *gateway;
	const struct mt_settings *settings;
	struct mt_shared *shared;
	const struct mt_cluster *cluster; /* the key "cluster": main has read it when ports begin */
	struct loop *main_loop;
	const struct mt_port_events *events;
	const struct mt_root_ops *root_ops; /* gateway.c: before it begins */
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
	const struct mt_session_host *session_host; /* what sessions tell and ask */
	struct loop_link sessions;
	uint32_t write_count; /* of all of them, in flight: work in the background gives way */
	struct loop_link sessions_waiting; /* for writes of older ones to end */
	dev_ptr zero_page;                 /* 4 KiB of zeros, for padding */
	uint64_t ahead_until_ns;           /* turn.c */
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
	struct sm sm;         /* enum mt_port_state */
	bool is_ready;        /* every wanted shard serves, and main was told */
	uint32_t ready_epoch; /* greatest of its shards then */
	uint32_t next_session_id;
	bool is_closing; /* STOPPING: requests have ended, everything is being closed */
	uint64_t stop_deadline_ns;
	struct loop_timer stop_timer;
	struct mt_control_request
	    *control_requests;       /* control_request.c: MT_CONTROL_IN_FLIGHT_MAX */
	struct loop_link peer_calls; /* peer.c: to other gateways */
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

#endif /* CLEAVE_MIDDLETIER_COMMON_PORT_H */
