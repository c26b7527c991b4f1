/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stall.h -- a metadata store whose disk stalls: no lease may be lost by that, and no shard may stop
 *
 * Checked when nothing else has happened meanwhile that takes leases, or makes shards change hands.
 */
#ifndef CLEAVE_TESTS_SIM_STALL_H
#define CLEAVE_TESTS_SIM_STALL_H

#include "cluster.h"
#include "middletier/cluster/gateway_state.h"

#define SIM_STALL_GATEWAYS_MAX 8u
#define SIM_STALL_SHARDS_MAX 64u

/* A gateway as it was when the stall began. */
struct sim_stall_gateway {
	const struct mt_gateway *gateway; /* NULL: it was no member */
	uint64_t lease;
	uint32_t epochs[SIM_STALL_SHARDS_MAX]; /* of what it served; 0: it did not */
};

struct sim_stall {
	bool is_on, is_disturbed;
	struct sim_cluster *cluster;
	uint64_t begun_ns;
	struct sim_stall_gateway gateways[SIM_STALL_GATEWAYS_MAX];
};

/* sim_stall_begin -- @is_disturbed: something else is happening already. */
void sim_stall_begin(struct sim_stall *stall, struct sim_cluster *cluster, bool is_disturbed);
/* sim_stall_end -- sim_cluster_fail when something was lost that need not. */
void sim_stall_end(struct sim_stall *stall);

#endif /* CLEAVE_TESTS_SIM_STALL_H */
