/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gateway_state.h -- a gateway as its main loop knows it; its life is in gateway.h, above all
 * folders
 */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_GATEWAY_STATE_H
#define CLEAVE_MIDDLETIER_CLUSTER_GATEWAY_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "catalog/cluster_key.h"
#include "catalog/volume_table.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "cluster/data_keys.h"
#include "cluster/look.h"
#include "cluster/member.h"
#include "cluster/revoked.h"
#include "cluster/unreached.h"
#include "cluster/users.h"
#include "common/limits.h"
#include "common/settings.h"
#include "extent/node_config.h"

struct mt_control_request;
struct mt_drop;
struct mt_flattening;
struct mt_health_watch;
struct mt_holding;
struct mt_kms;
struct mt_mirror;
struct mt_nodes;
struct mt_own_address;
struct mt_port;
struct mt_port_options;
struct mt_limit_rounds;
struct mt_relief;
struct mt_taking;
struct sim_host;

#define MT_PORT_CONNECTIONS_MAX 4096u /* clients', nodes' and other gateways' together */
/*
 * Connections of these that are kept for those that a port makes, so that clients, as many as come, do not keep it
 * from its nodes: a link to each node, and calls to all other gateways, of a snapshot that begins and of two whose
 * releases are still under way. Clients lose a sixteenth of the room.
 */
#define MT_PORT_CONNECTIONS_OWN (MT_NODES_MAX + 3u * MT_GATEWAYS_MAX)

/* How shards are shared out between gateways. */
enum mt_balance {
	MT_BALANCE_OFF,   /* for tests: by count, and nobody looks */
	MT_BALANCE_COUNT, /* by count; what was given to this gateway by load goes back */
	MT_BALANCE_LOAD,  /* and by load: relief.c */
	MT_BALANCE_NR
};

struct mt_gateway_options {
	struct loop *loop;     /* main loop */
	struct meta *meta;     /* borrowed */
	const char *meta_name; /* of the store, for messages; borrowed ["the metadata store"] */
	uint64_t cluster_id;
	uint64_t gateway_id, boot_id;
	struct store_id store_id; /* random: of a store that is made, or has none yet */
	uint32_t shard_count;     /* of a cluster that is being made [8]; else must agree or be 0 */
	uint32_t min_replicas;
	struct mt_node_config nodes[MT_NODES_MAX];
	uint32_t node_count;
	struct {
		char address[SPLIT_ADDRESS_BYTES_MAX];   /* "": listens nowhere (rebuild.c) */
		char advertise[SPLIT_ADDRESS_BYTES_MAX]; /* what others are told; "": as bound */
		int cpu;                                 /* -1: any */
		uint32_t connections_max;                /* [MT_PORT_CONNECTIONS_MAX] */
	} ports[MT_PORTS_MAX];
	uint32_t port_count;
	const char *local; /* where ports have unix sockets, too, borrowed; NULL: nowhere */
	/* A key of its own, borrowed, and how connections are protected, as split_port_options has them [none]. */
	const struct split_key *key;
	enum split_security security;
	struct mt_kms *kms;  /* KEKs, borrowed, on @loop; NULL: none */
	bool is_single_loop; /* simulator: ports run on @loop, no threads */
	/* Simulator: they run the engines' jobs, and there are no threads. */
	const struct engine_workers_ops *engine_workers;
	struct sim_host *sim_host; /* simulator */
	uint64_t device_bytes;     /* per port: receives, ring, reads */
	bool wants_huge_pages;     /* for device memory: the system's reserved ones */
	uint32_t engine_threads;   /* per port; 0: inline */
	uint32_t merge_threads;    /* per port; 0: merges use the engines of the writes */
	uint32_t client_receives;  /* requests a port takes at a time */
	uint64_t node_timeout_ns;
	uint64_t slow_op_ns; /* a request that took so long is kept; 0: none is */
	/* Zero means the default in brackets. */
	uint64_t lease_ns;           /* how long a silent gateway keeps its shards [3 s] */
	uint64_t session_ns;         /* how long a silent writer keeps its volume [10 s] */
	uint64_t repair_after_ns;    /* how long a lost node may be away before its copies are
				      * made anew elsewhere [60 s] */
	uint64_t repair_bytes_per_s; /* of a port, for all its copying [64 MiB] */
	uint64_t scrub_interval_ns;  /* every copy is verified once in it [7 days] */
	uint64_t sweep_interval_ns;  /* between two looks for orphans at a node [10 min] */
	uint64_t orphan_grace_ns;    /* what nobody names is deleted after it; 0: when first seen */
	uint64_t log_bytes;          /* of a shard's log, beyond which flush hurries [256 MiB] */
	uint64_t flush_age_ns;       /* what is that old, up to twice, leaves the log [60 s] */
	/* For tests. Of a shard's runs, cuts and mirror: beyond it is long [by the slots]; of an
	 * extent: no more is written to it by a checkpoint [all of it]. */
	uint64_t manifest_bytes, manifest_part_bytes;
	uint32_t
	    directory_batches_min;  /* for tests: runs of so many have directories; 0: as always */
	bool has_recipes;           /* for tests: merges are executed from their recipes */
	uint32_t recipe_lies;       /* for tests: of so many one is executed wrongly [none] */
	bool has_offload;           /* merges go to other gateways that have room */
	uint32_t worker_jobs;       /* merges of others that a port executes at a time */
	uint64_t offload_bytes_min; /* for tests: smaller merges stay here [MERGE_AWAY_BYTES_MIN] */
	uint32_t
	    mirror_faults; /* for tests: of so many heads one is lost, and one damaged [none] */
	uint32_t hot_count_min; /* for tests: a block is hot when it was read so often [2] */
	uint64_t hold_ns;       /* for tests: after it a shard's hold for a snapshot ends [5 s] */
	uint8_t
	    level_max; /* for tests: it speaks no more, as an older release [CLEAVE_LEVEL_MAX] */
	enum mt_balance balance;
	uint64_t balance_interval_ns; /* between two looks at the load [10 s] */
	/* The clock on the wall, in milliseconds, against those of others [the host's; with sim_host none] */
	uint64_t (*wall_ms)(void);
	bool has_read_ahead;    /* frames that are read piece by piece are kept: read_frames.h */
	bool is_health_watched; /* it looks at its health by itself: health_watch.c */
	bool is_address_asked;  /* it looks whether its address is its own: own_address.c */
	bool
	    is_address_outside; /* what ports advertise may not lead back here: silence there is none to tell */
	uint64_t balance_floor;      /* bytes a second of a port that are no load [8 MiB] */
	uint64_t index_cache_bytes;  /* of the indexes of runs, all ports together [64 MiB] */
	uint64_t hot_bytes;          /* of hot blocks (read/hot.h), all ports together; 0: none */
	uint64_t mirror_bytes;       /* of heads of other gateways' batches, all ports together;
				      * 0: none, nor does it send its own */
	uint32_t frame_bytes;        /* plain bytes of a run's frames [16 KiB] */
	uint32_t read_frame_bytes;   /* those that are stored for readers; 0: as all */
	enum mt_run_codec run_codec; /* how they are compressed [by how often they are read] */
	void (*on_ready)(void *arg); /* every shard of every port serves */
	/* The gateway will never serve: no cluster's store, or another's, disks too small. Stop it. */
	void (*on_failed)(int rc, const char *text, void *arg);
	void *arg;
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

#define MT_GATEWAY_MAGIC 0x45544147u /* "GATE" */

struct mt_gateway {
	uint32_t magic;
	struct sm sm;
	struct mt_gateway_options options;
	struct mt_settings settings; /* what ports need of the options */
	struct mt_shared shared;
	struct mt_port *ports;
	struct mt_port_options *port_options; /* of each port */
	uint32_t port_count;
	pthread_t threads[MT_PORTS_MAX];
	bool has_thread[MT_PORTS_MAX];
	struct loop_post begin_posts[MT_PORTS_MAX], stop_posts[MT_PORTS_MAX];
	uint32_t opened_count, stopped_count;
	struct mt_cluster cluster;
	struct mt_volumes volumes;
	struct mt_users users;
	struct mt_revoked revoked;
	struct mt_data_keys data_keys;
	struct mt_nodes *nodes; /* node_table.c */
	struct mt_mirror *mirror;
	struct loop_link control_queue; /* mt_control_request: changes that wait for their turn */
	struct mt_control_request *control_current;
	struct loop_link asks;                /* mt_ask: out with the ports */
	struct mt_look health_look;           /* control_health.c: all who ask for the health */
	struct mt_look status_look;           /* control.c: likewise for status, node.list, waits */
	struct loop_link cut_asks;            /* cut_ask.c: likewise */
	struct loop_link cut_releases;        /* cut_call.c: on their way to other gateways */
	struct mt_taking *taking;             /* snapshot.c: the snapshot that is being taken */
	struct mt_drop *drop;                 /* drop.c */
	struct mt_trash_keeper *trash;        /* trash.c */
	struct mt_flattening *flattening;     /* flatten.c */
	struct mt_limit_rounds *limit_rounds; /* limit_round.c */
	struct mt_relief *relief;             /* relief.c; NULL: it does not look at its load */
	struct mt_severed *severed;           /* severed.c; NULL: not begun */
	struct mt_health_watch *health_watch; /* health_watch.c; NULL: options say no */
	struct mt_own_address *own_address;   /* own_address.c; NULL: options say no */
	struct mt_unreached unreached;        /* unreached.h: nodes, by the word of clients */
	struct mt_holding *holding;           /* holding.c; NULL: nobody has asked yet */
	uint64_t claimed_ns; /* holding.c: when a gateway last went, or left a shard to us */
	struct loop_timer load_timer; /* gateway_load.c: the store did not answer, ask again */
	void (*on_loaded)(struct mt_gateway *gateway); /* gateway_load.c */
	uint64_t started_ns;
	struct mt_member member;
	int failure_rc;
	char failure[2 * MT_ERROR_BYTES];
	void (*stop_fn)(void *arg); /* gateway.c: mt_gateway_stop's, when all has stopped */
	void *stop_arg;
};

/* mt_gateway_fail -- main: it will never serve; tells options.on_failed, once. */
void mt_gateway_fail(struct mt_gateway *gateway, int rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* mt_gateway_time_s -- wall clock; the simulator's own, where nothing may differ from one run to the next. */
uint64_t mt_gateway_time_s(const struct mt_gateway *gateway);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_GATEWAY_STATE_H */
