/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drainer.h -- an operator drains gateways, and undrains them, in the middle of faults
 *
 * It is a violation when a gateway is drained without force though no other one lived that takes shards; or when no
 * gateway can be undrained once all is well. That shards have owners, and clients no errors, the other checkers see.
 *
 * Two seeds in seventeen have it, with a generator of its own: the others decide what they always did.
 */
#ifndef CLEAVE_TESTS_SIM_DRAINER_H
#define CLEAVE_TESTS_SIM_DRAINER_H

#include <stdint.h>

struct sim_cluster;
struct sim_drainer;

/* sim_drainer_create -- before the cluster is made, of the second level; works at once. NULL: this seed does without. */
struct sim_drainer *sim_drainer_create(struct sim_cluster *cluster, uint64_t seed);
/* sim_drainer_finish -- all is well: no gateway is drained any more within @limit_ns, and none will be. NULL is none. */
void sim_drainer_finish(struct sim_drainer *drainer, uint64_t limit_ns);
/* sim_drainer_destroy -- NULL is none. */
void sim_drainer_destroy(struct sim_drainer *drainer);

#endif /* CLEAVE_TESTS_SIM_DRAINER_H */
