/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cluster.h -- a whole cluster in one process and in virtual time, from a seed
 *
 * Storage nodes, one gateway and clients, each a simulated process with a host on the simulated
 * network and a loop in the world; the metadata store and the disks outlive the processes. The
 * daemons' code is the real one. Tests drive it from outside: run a while, kill something, go on.
 *
 * A call that cannot fail unless the cluster is broken ends the test with the seed and a text.
 */
#ifndef CLEAVE_TESTS_SIM_CLUSTER_H
#define CLEAVE_TESTS_SIM_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/loop_sim.h"
#include "cleave/client.h"
#include "middletier/gateway.h"
#include "splitlib/sim_net.h"
#include "storage-node/disk_sim.h"
#include "storage-node/node.h"

#define SIM_NODES_MAX 5u
#define SIM_CLIENTS_MAX 4u

/* Zero means the default in brackets. */
struct sim_cluster_options {
	uint64_t seed;
	uint32_t node_count;   /* [3] */
	uint32_t client_count; /* [2] */
	uint32_t shard_count;  /* [2] */
	uint64_t disk_bytes;   /* [256 MiB] */
	uint64_t slot_bytes;   /* [512 KiB] */
	bool is_shuffled;      /* seeded order of what is due at one time */
};

struct sim_cluster_node {
	struct sim_cluster *cluster;
	struct sim_host *host;
	struct disk_sim *disk;
	struct loop *loop;
	struct node *node; /* NULL: not running */
	char address[SPLIT_ADDRESS_BYTES_MAX];
	bool is_ready;
};

struct sim_cluster {
	struct sim_cluster_options options;
	struct sim_world *world;
	struct sim_net *net;
	struct meta_store *store;
	struct sim_cluster_node nodes[SIM_NODES_MAX];
	struct sim_host *gateway_host;
	struct loop *gateway_loop;
	struct meta *meta;
	struct mt_gateway *gateway; /* NULL: not running */
	uint64_t boot_count;
	bool is_gateway_ready;
	struct sim_host *client_hosts[SIM_CLIENTS_MAX];
};

/* sim_cluster_create -- formatted disks, nothing running. */
struct sim_cluster *sim_cluster_create(const struct sim_cluster_options *options);
/* sim_cluster_destroy -- kills what runs. Clients must be gone. */
void sim_cluster_destroy(struct sim_cluster *cluster);
/* sim_cluster_start -- every node and the gateway; returns when the gateway is ready. */
void sim_cluster_start(struct sim_cluster *cluster);

void sim_cluster_node_start(struct sim_cluster *cluster, uint32_t index);
/* @is_power_loss: what was not flushed is lost or torn by the seed. */
void sim_cluster_node_kill(struct sim_cluster *cluster, uint32_t index, bool is_power_loss);
void sim_cluster_gateway_start(struct sim_cluster *cluster);
void sim_cluster_gateway_kill(struct sim_cluster *cluster);
/* sim_cluster_run -- let virtual time pass. */
void sim_cluster_run(struct sim_cluster *cluster, uint64_t duration_ns);
/* sim_cluster_run_until -- fails the test when @until is not true within @limit_ns. */
void sim_cluster_run_until(struct sim_cluster *cluster, bool (*until)(void *arg), void *arg,
    uint64_t limit_ns, const char *what);
/* sim_cluster_fail -- end the test: seed, virtual time and text. */
void sim_cluster_fail(struct sim_cluster *cluster, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));

#endif /* CLEAVE_TESTS_SIM_CLUSTER_H */
