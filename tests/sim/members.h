/* SPDX-License-Identifier: Apache-2.0 */
/*
 * members.h -- a cluster whose storage nodes change in the middle of faults
 *
 * An operator adds nodes, drains them, changes their mind, and removes what is empty; gives the seed's victim up for
 * lost; puts disks back that have left, and disks with numbers of nodes that have left. All by the control operations
 * that `cleave node` sends, to whichever gateway the client finds. In some of these seeds one node comes late, so that
 * gateways write the nodes into the metadata store while faults go on.
 * Half of the seeds with two gateways or more have a second operator, who drains another node at the same moment, by
 * another gateway if there is one to be had; what drains then is undrained.
 *
 * It is a violation when a node's key is written a second time as if the node were new, when one that has left is
 * there again, is added again, or is written to, when a manifest names a copy on a removed node, when a drained
 * node does not become empty once all works, and when two drains at once leave fewer nodes than copies.
 *
 * It has a generator of its own: seeds without it decide what they always did.
 */
#ifndef CLEAVE_TESTS_SIM_MEMBERS_H
#define CLEAVE_TESTS_SIM_MEMBERS_H

#include <stdbool.h>
#include <stdint.h>

struct sim_cluster;
struct sim_members;

/* sim_members_create -- nothing runs yet. @victim: index of the node whose data the run may do without. */
struct sim_members *sim_members_create(struct sim_cluster *cluster, uint64_t seed, uint32_t victim);
/* sim_members_start -- the cluster is made and started, perhaps without one node, and the operator begins. */
void sim_members_start(struct sim_members *members);
/* sim_members_finish -- nothing fails any more: what was begun ends, each wait within @limit_ns. */
void sim_members_finish(struct sim_members *members, uint64_t limit_ns);
/* sim_members_change_count -- changes that the cluster went through. */
uint32_t sim_members_change_count(const struct sim_members *members);
/* sim_members_destroy -- NULL is none. */
void sim_members_destroy(struct sim_members *members);

#endif /* CLEAVE_TESTS_SIM_MEMBERS_H */
