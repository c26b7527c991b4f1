/* SPDX-License-Identifier: Apache-2.0 */
/* port_life.h -- what port.c keeps of a port's life, and nobody else knows */
#ifndef CLEAVE_MIDDLETIER_PORT_PORT_LIFE_H
#define CLEAVE_MIDDLETIER_PORT_PORT_LIFE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "cleave/loop.h"
#include "cleave/wire.h"

#define MT_PORT_FAILURE_BYTES 512u

struct mt_port_life {
	bool is_ready; /* every wanted shard serves, and main was told */
	uint64_t stop_deadline_ns;
	struct loop_timer stop_timer;
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
	char failure[MT_PORT_FAILURE_BYTES];
	bool is_room_told; /* that the nodes have too few slots */
};

#endif /* CLEAVE_MIDDLETIER_PORT_PORT_LIFE_H */
