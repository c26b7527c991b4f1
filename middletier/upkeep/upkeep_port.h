/* SPDX-License-Identifier: Apache-2.0 */
/* upkeep_port.h -- what this folder keeps of a port, and nobody else knows: it outlives the shards' owners */
#ifndef CLEAVE_MIDDLETIER_UPKEEP_UPKEEP_PORT_H
#define CLEAVE_MIDDLETIER_UPKEEP_UPKEEP_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/limits.h"

struct mt_port;

struct mt_upkeep_port {
	/* rebalance.c: copies are moved from full nodes to empty ones. */
	struct mt_rebalance_state {
		bool is_on;
		bool is_stopped;  /* the round that was begun last was ended before its time */
		uint64_t from_ns; /* the nodes have said how much room they have */
		uint32_t round;   /* how often it was begun */
		uint64_t copy_count, bytes; /* moved in this round */
	} balance;
	uint64_t
	    moved_ns; /* repair.c: until when the port's --repair-rate is spent by copies that only move */
	/* orphans.c: by index of the link, what went at its node. */
	struct mt_orphans_gone {
		uint64_t period_ns; /* when the present grace period began */
		uint32_t count;     /* copies that no manifest names, deleted there in it */
		bool is_hold_logged;
	} gone[MT_NODES_MAX];
};

/* mt_upkeep_port_init -- port->upkeep. 0; -ENOMEM. mt_upkeep_port_fini -- also without init. */
int mt_upkeep_port_init(struct mt_port *port);
void mt_upkeep_port_fini(struct mt_port *port);

#endif /* CLEAVE_MIDDLETIER_UPKEEP_UPKEEP_PORT_H */
