/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cluster.h -- a whole cluster in one process and in virtual time, from a seed
 *
 * Storage nodes, gateways and clients, each a simulated process with a host on the simulated network
 * and a loop in the world; the metadata store and the disks outlive the processes. The daemons' code
 * is the real one. Tests drive it from outside: run a while, kill something, go on.
 *
 * What may go wrong with a process (a gateway that gives up, a node that cannot read its disk) is
 * remembered here and mended as an operator's service manager would: started again, after a while.
 *
 * A violation ends the process with the seed, the virtual time and a text.
 */
#ifndef CLEAVE_TESTS_SIM_CLUSTER_H
#define CLEAVE_TESTS_SIM_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/num.h"
#include "cleave/client.h"
#include "cleave/disk.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cleave/split.h"
#include "keys.h"
#include "middletier/cluster/gateway_state.h"
#include "middletier/common/metric.h"
#include "splitlib/sim/loop_sim.h"
#include "splitlib/sim/sim_net.h"
#include "storage-node/node.h"
#include "storage-node/sim/disk_sim.h"
#include "store.h"

#define SIM_NODES_MAX 9u /* four of them join later: members.h */
#define SIM_GATEWAYS_MAX 3u
#define SIM_CLIENTS_MAX 10u
#define SIM_MIRROR_FAULTS                                                                          \
	16u /* of so many heads that are mirrored one is lost, one damaged, two forged */
#define SIM_RECIPE_LIES 5u /* of so many recipes one is executed wrongly */
#define SIM_WORKER_JOBS 2u
/* How long a silent writer keeps its volume: clients find out in 5 s that a connection is not made. */
#define SIM_SESSION_NS NUM_S(8)

/* Zero means the default in brackets. */
struct sim_cluster_options {
	uint64_t seed;
	uint32_t gateway_count; /* [1] */
	uint32_t node_count;    /* [3] */
	uint32_t client_count;  /* hosts for them [2] */
	uint32_t shard_count;   /* [2] */
	uint32_t min_replicas;  /* [2] */
	bool knows_deaths;      /* the metadata store hears of a gateway's end: one host */
	bool is_on_etcd;        /* the metadata store is one */
	uint32_t etcd_members;  /* [3] */
	bool has_etcd_user;
	uint64_t etcd_try_ns; /* [meta_etcd's] */
	uint64_t disk_bytes;  /* [256 MiB] */
	uint64_t slot_bytes;  /* [512 KiB] */
	uint64_t lease_ns, repair_after_ns, sweep_interval_ns, scrub_interval_ns; /* [gateway's] */
	uint64_t orphan_grace_ns;
	uint64_t device_bytes; /* of a gateway's port [16 MiB] */
	uint64_t log_bytes;    /* of a shard, as gateway.h has it [a gateway's default] */
	uint64_t manifest_bytes, manifest_part_bytes; /* the same */
	uint32_t directory_batches_min;               /* of a run that ends with its directory */
	bool has_recipes;                             /* merges are executed from their recipes */
	bool has_offload;                             /* gateways execute each other's merges */
	uint64_t hold_ns;                             /* the same */
	uint64_t hot_bytes;                           /* 0: none are kept */
	uint64_t mirror_bytes;                        /* of heads of others' batches; 0: none */
	uint64_t index_cache_bytes;                   /* the same */
	uint32_t port_count;                          /* of a gateway [1] */
	uint32_t engine_threads;                      /* of a port */
	uint32_t merge_threads;                       /* of a port */
	uint32_t client_receives;                     /* of a port [64] */
	struct sim_link_options link;                 /* of all [sim_net's] */
	uint64_t node_timeout_ns;                     /* [5 s] */
	bool is_health_watched; /* gateways look at their health by themselves */
	bool has_balance;       /* gateways share out by load: balancer.h */
	bool has_leases;        /* sessions have read leases: leases.h */
	bool has_direct;        /* and read at nodes, past gateways */
	bool has_peeks;         /* and out of gateways' memory: peeker.h */
	bool has_keys;          /* each process has one: keys.h */
	bool has_heat;    /* gateways store what is read often for who reads it, and read ahead */
	bool is_shuffled; /* seeded order of what is due at one time */
	bool has_drift;   /* clocks of processes begin anywhere and run at different rates */
	uint32_t drift_ppm_max;
};

struct sim_cluster_node {
	struct sim_cluster *cluster;
	struct sim_host *host;
	struct disk_sim *disk;
	struct loop *loop;
	struct node *node; /* NULL: not running */
	char address[SPLIT_ADDRESS_BYTES_MAX];
	bool is_ready, has_failed;
	bool is_away;          /* it does not start: it has left, or has not come yet */
	bool has_left;         /* it is no member any more, and what its disk holds is nobody's */
	bool is_listed;        /* gateways have it from their options */
	uint32_t format_count; /* disks it has had */
	uint32_t start_count;  /* processes it has had */
	uint8_t level_max;     /* of the release that starts next: levels.h */
	uint32_t taken_count;  /* free slots that a fault has taken from this process */
};

struct sim_cluster_gateway {
	struct sim_cluster *cluster;
	uint32_t index;
	struct sim_host *host;
	struct loop *loop;
	struct meta *meta;
	struct mt_gateway
	    *gateway; /* NULL: not running, or still waiting for the claim of its id */
	uint64_t boot_id;
	char address[SPLIT_ADDRESS_BYTES_MAX];
	bool is_ready, has_failed, is_claiming;
	uint64_t
	    still_until_ns; /* of the world: a fault had a process of it stand still; 0: never */
	uint8_t level_max;  /* of the release that starts next: levels.h */
	struct loop_post stop_post;
	struct loop_timer open_timer; /* on an etcd: until that is reached, or refuses */
};

struct sim_cluster {
	struct sim_cluster_options options;
	struct sim_world *world;
	struct sim_net *net;
	struct sim_store *store;
	struct sim_deletes *deletes;     /* deletes.h: judges what nodes delete */
	struct sim_encrypted *encrypted; /* encrypted.h; NULL: volumes are not */
	struct sim_keys *keys;           /* NULL: connections are open */
	struct sim_thief *thief;         /* thief.h; NULL: nobody steals tickets */
	/* Before the process of node @index starts: who is at its address leaves (enemy.h). NULL: nobody ever is. */
	void (*on_node_start)(uint32_t index, void *arg);
	void *on_node_start_arg;
	uint32_t spared_node; /* its disk may destroy data; SIM_NODES_MAX: none's may */
	struct sim_cluster_node nodes[SIM_NODES_MAX];
	struct sim_cluster_gateway gateways[SIM_GATEWAYS_MAX];
	uint64_t store_count;  /* identities that were thrown */
	uint64_t boot_count;   /* of all gateways: boot ids never repeat */
	uint64_t installed_ns; /* when a process was last replaced by another release's; 0: never */
	uint64_t
	    lease_count; /* leases.h: changes done while their session had a read lease there */
	uint64_t map_read_count;         /* leases.h: blocks of runs that were read as maps said */
	uint64_t direct_read_count;      /* messages of sessions that were read at nodes */
	uint64_t peek_count, torn_count; /* ... out of gateways' memory; that met a change there */
	struct sim_host *client_hosts[SIM_CLIENTS_MAX];
	uint64_t metrics[MT_METRIC_NR]; /* of gateways that are gone */
	struct loop_timer restart_timer, beat_timer;
	bool is_made;      /* the metadata store has a cluster */
	bool must_replace; /* a disk that its node found broken gets a new one */
};

/* sim_cluster_create -- formatted disks, nothing running. */
struct sim_cluster *sim_cluster_create(const struct sim_cluster_options *options);
/* sim_cluster_destroy -- kills what runs. Clients must be gone. */
void sim_cluster_destroy(struct sim_cluster *cluster);
/* sim_cluster_make -- made.c: as an operator does, once, by the first gateway's host; all nodes run. */
void sim_cluster_make(struct sim_cluster *cluster);
/* sim_cluster_start -- every node and gateway, and the cluster where it is new; returns when all gateways are ready. */
void sim_cluster_start(struct sim_cluster *cluster);
/* sim_cluster_start_gateways -- without the nodes that do not run; the same. */
void sim_cluster_start_gateways(struct sim_cluster *cluster);
/* sim_cluster_start_all -- what does not run, or has failed, is started (again). */
void sim_cluster_start_all(struct sim_cluster *cluster);

void sim_cluster_node_start(struct sim_cluster *cluster, uint32_t index);
/* @is_power_loss: what was not flushed is lost or torn by the seed. */
void sim_cluster_node_kill(struct sim_cluster *cluster, uint32_t index, bool is_power_loss);
/* sim_cluster_node_add -- one more, with an empty disk: its index. Nobody knows of it, and it does not run. */
uint32_t sim_cluster_node_add(struct sim_cluster *cluster);
/* sim_cluster_here_count -- nodes that are not away. */
uint32_t sim_cluster_here_count(const struct sim_cluster *cluster);
/* sim_cluster_node_replace -- kill it and give it an empty, formatted disk. */
void sim_cluster_node_replace(struct sim_cluster *cluster, uint32_t index);
/* sim_cluster_replace_broken -- from now on whoever looks after the cluster replaces broken disks. */
void sim_cluster_replace_broken(struct sim_cluster *cluster);
void sim_cluster_gateway_start(struct sim_cluster *cluster, uint32_t index);
void sim_cluster_gateway_kill(struct sim_cluster *cluster, uint32_t index);
/* sim_cluster_gateway_stop -- an orderly end; it is dead once it has come. */
void sim_cluster_gateway_stop(struct sim_cluster *cluster, uint32_t index);
/* sim_cluster_gateway_options -- all but its loop, its store, its boot. */
void sim_cluster_gateway_options(struct sim_cluster_gateway *own,
    struct mt_gateway_options *options);
/* sim_cluster_client_key -- the key file of a client that is no enemy; NULL: connections are open. */
const char *sim_cluster_client_key(const struct sim_cluster *cluster);
/* sim_cluster_tool_open -- the store, for a process that is no gateway */
struct meta *sim_cluster_tool_open(struct sim_cluster *cluster, struct loop *loop);
/* sim_cluster_loop_create -- a process's loop, with a clock of its own. */
struct loop *sim_cluster_loop_create(struct sim_cluster *cluster, struct sim_host *host);
/* sim_cluster_metric -- sum over all gateways that there were. */
uint64_t sim_cluster_metric(const struct sim_cluster *cluster, enum mt_metric metric);

/* sim_cluster_run -- let virtual time pass. */
void sim_cluster_run(struct sim_cluster *cluster, uint64_t duration_ns);
/* sim_cluster_run_until -- a violation when @until is not true within @limit_ns. */
void sim_cluster_run_until(struct sim_cluster *cluster, bool (*until)(void *arg), void *arg,
    uint64_t limit_ns, const char *what);
/* sim_cluster_below -- the world's generator, as 32 bits. */
uint32_t sim_cluster_below(struct sim_cluster *cluster, uint32_t limit);
/* sim_cluster_fail -- a violation: virtual time and text to the hook, then exit(1). */
void sim_cluster_fail(struct sim_cluster *cluster, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));
/* sim_cluster_set_fail_hook -- who is told. NULL: standard error, with the seed. */
void sim_cluster_set_fail_hook(void (*fn)(const char *text, void *arg), void *arg);

#endif /* CLEAVE_TESTS_SIM_CLUSTER_H */
