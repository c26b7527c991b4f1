/* SPDX-License-Identifier: Apache-2.0 */
/* gateway.h -- a whole gateway as an object, for main() and for the simulator */
#ifndef CLEAVE_MIDDLETIER_GATEWAY_H
#define CLEAVE_MIDDLETIER_GATEWAY_H

#include "internal.h"
#include "member.h"

#define MT_PORT_CONNECTIONS_MAX 4096u /* clients', nodes' and other gateways' together */
/*
 * Of them, kept for those that a port makes, so that clients, as many as come, do not keep it from its
 * nodes: a link to each node, and calls to all other gateways, of a snapshot that begins and of two whose
 * releases are still under way. Clients lose a sixteenth of the room.
 */
#define MT_PORT_CONNECTIONS_OWN (MT_NODES_MAX + 3u * MT_GATEWAYS_MAX)

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
		char address[SPLIT_ADDRESS_BYTES_MAX]; /* "": listens nowhere (rebuild.c) */
		int cpu;                               /* -1: any */
		uint32_t connections_max;              /* [MT_PORT_CONNECTIONS_MAX] */
	} ports[MT_PORTS_MAX];
	uint32_t port_count;
	bool is_single_loop;       /* simulator: ports run on @loop, no threads */
	struct sim_host *sim_host; /* simulator */
	uint64_t device_bytes;     /* per port: receives, ring, reads */
	bool wants_huge_pages;     /* for device memory: the system's reserved ones */
	uint32_t engine_threads;   /* per port; 0: inline */
	uint32_t merge_threads;    /* per port; 0: merges use the engines of the writes */
	uint32_t client_receives;  /* requests a port takes at a time */
	uint64_t node_timeout_ns;
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
	/* For tests. Of a shard's runs, cuts and mirror: beyond it is long [by the slots]; of an
	 * extent: no more is written to it by a checkpoint [all of it]. */
	uint64_t manifest_bytes, manifest_part_bytes;
	uint64_t hold_ns; /* for tests: after it a shard's hold for a snapshot ends [5 s] */
	uint64_t index_cache_bytes;  /* of the indexes of runs, all ports together [64 MiB] */
	uint32_t frame_bytes;        /* plain bytes of a run's frames [16 KiB] */
	void (*on_ready)(void *arg); /* every shard of every port serves */
	/* It cannot serve, and never will: no cluster's store, or another's, disks too small. Stop it. */
	void (*on_failed)(int rc, const char *text, void *arg);
	void *arg;
};

struct mt_gateway *mt_gateway_create(const struct mt_gateway_options *options, char *ret_error,
    size_t error_bytes);
/* mt_gateway_start -- listen and take the shards over. 0 or negative errno, with the text. */
int mt_gateway_start(struct mt_gateway *gateway, char *ret_error, size_t error_bytes);
/* mt_gateway_stop -- orderly: finish requests, seal nothing, close; @fn when done. */
void mt_gateway_stop(struct mt_gateway *gateway, void (*fn)(void *arg), void *arg);
/* mt_gateway_destroy -- at once, as a kill would (simulator) or after stop. */
void mt_gateway_destroy(struct mt_gateway *gateway);
/* mt_gateway_status_json -- caller frees; for `cleave status` and tests. */
char *mt_gateway_status_json(struct mt_gateway *gateway);
/* mt_gateway_metric -- sum over ports. */
uint64_t mt_gateway_metric(struct mt_gateway *gateway, enum mt_metric metric);

#endif /* CLEAVE_MIDDLETIER_GATEWAY_H */
