/* SPDX-License-Identifier: Apache-2.0 */
/*
 * imposter.h -- somebody answers at the address of a node that is down: without a key, with a gateway's, with another node's,
 * or with the right one of another authority; see enemy.h
 *
 * A connector that believes it has said hello, or asked for something: a violation. It leaves when the node starts.
 */
#ifndef CLEAVE_TESTS_SIM_IMPOSTER_H
#define CLEAVE_TESTS_SIM_IMPOSTER_H

#include <stdint.h>

struct sim_cluster;
struct sim_imposter;

struct sim_imposter *sim_imposter_create(struct sim_cluster *cluster);
/* sim_imposter_come -- where a node is down and nobody is there yet; @dice chooses who it is. */
void sim_imposter_come(struct sim_imposter *imposter, uint32_t dice);
/* sim_imposter_leave -- if it is in the place of node @index, SIM_NODES_MAX: of any. */
void sim_imposter_leave(struct sim_imposter *imposter, uint32_t index);
void sim_imposter_destroy(struct sim_imposter *imposter);
/* sim_imposter_count -- how often one has come. */
uint64_t sim_imposter_count(const struct sim_imposter *imposter);

#endif /* CLEAVE_TESTS_SIM_IMPOSTER_H */
