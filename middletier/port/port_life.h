/* SPDX-License-Identifier: Apache-2.0 */
/* port_life.h -- what this folder keeps of a port, and nobody else knows */
#ifndef CLEAVE_MIDDLETIER_PORT_PORT_LIFE_H
#define CLEAVE_MIDDLETIER_PORT_PORT_LIFE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "cleave/loop.h"
#include "cleave/wire.h"
#include "common/limits.h"
#include "extent/node_config.h"

#define MT_PORT_FAILURE_BYTES 512u

struct mt_port_host;
struct mt_port_mailbox;
struct mt_port_mirror;
struct mt_port_options;

struct mt_port_life {
	const struct mt_port_options *options;
	const struct mt_port_host *host; /* what lies above the port */
	uint64_t stop_deadline_ns;
	struct loop_timer stop_timer;
	struct mt_port_report {
		struct loop_post post;
		bool is_out;
	} stopped_report, failed_report;
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
	struct mt_port_nodes { /* mt_port_nodes: the newest table */
		struct loop_post post;
		struct mt_node_config next[MT_NODES_MAX]; /* lock */
		uint32_t count;                           /* lock */
		uint32_t left_ids[MT_NODE_KEYS_MAX];      /* lock */
		uint32_t left_count;                      /* lock */
		bool is_out;                              /* posted; lock */
		bool has_begun; /* links are started when they are made; the port's */
		struct loop_timer retry_timer; /* there was no memory for a link; the port's */
	} nodes;
	struct mt_port_mirror *mirror;      /* port_mirror.c; NULL: no heads are kept, nor sent */
	struct mt_port_mailbox *work_names; /* port_work.c; NULL: without --offload */
	char failure[MT_PORT_FAILURE_BYTES];
	bool is_room_told; /* that the nodes have too few slots */
};

#endif /* CLEAVE_MIDDLETIER_PORT_PORT_LIFE_H */
