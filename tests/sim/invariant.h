/* SPDX-License-Identifier: Apache-2.0 */
/*
 * invariant.h -- what must hold of a cluster at every moment, also while things fail
 *
 * What owners believe is compared with what nodes hold, both from the processes' own memory:
 *
 *	I2, I4	a node that runs holds, durably, all that an owner counts as acknowledged
 *	        a copy that an owner counts as cut is sealed, at the length that the manifest says
 *	I3	no node counts as durable what a flush that failed has given up
 *	I6	a node's fences never go back, whatever it has been through
 *	I7	no gateway believes in a lease for longer than the store keeps it
 *
 * Nothing is asked of a node whose disk has destroyed data, nor of a shard that a newer owner has
 * fenced there.
 */
#ifndef CLEAVE_TESTS_SIM_INVARIANT_H
#define CLEAVE_TESTS_SIM_INVARIANT_H

#include "cluster.h"

#define SIM_INVARIANT_SHARDS_MAX 16u

struct sim_invariants {
	uint32_t fences[SIM_NODES_MAX][SIM_INVARIANT_SHARDS_MAX]; /* the highest seen, durable */
	uint32_t epochs[SIM_INVARIANT_SHARDS_MAX]; /* the latest under which a shard was served */
};

/* sim_invariants_check -- @spared: the index of a node of which nothing is asked; or any other number. */
void sim_invariants_check(struct sim_invariants *invariants, struct sim_cluster *cluster,
    uint32_t spared);

/* A copy as its node holds it. */
struct sim_copy {
	bool is_held, is_sealed, is_damaged; /* as its node itself says */
	uint64_t incarnation;
	uint64_t durable_bytes;
	uint64_t data_offset; /* on its disk */
};

/* invariant_node.c: of a node that is ready. */
void sim_node_copy(struct node *node, const struct extent_id *id, struct sim_copy *ret_copy);
/* sim_node_has_lost -- of an extent that it serves, a flush that failed gave up what counts as durable. */
bool sim_node_has_lost(struct node *node, const struct disk_sim *disk, struct extent_id *ret_id);
/* sim_node_fence -- @ret_durable: what it may have told of. Returns what it refuses epochs below. */
uint32_t sim_node_fence(const struct node *node, uint32_t shard, uint32_t *ret_durable);

#endif /* CLEAVE_TESTS_SIM_INVARIANT_H */
