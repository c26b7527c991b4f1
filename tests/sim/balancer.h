/* SPDX-License-Identifier: Apache-2.0 */
/*
 * balancer.h -- gateways share their shards out by load, in the middle of faults
 *
 * It is a violation when two shards are given away within less than the pause, by whichever gateways; or a shard that
 * has not been long enough where it was; or when a gateway with too many for its room looks at its load, and gives none
 * of those back that were placed there. That shards have owners, and clients no errors, the other checkers see.
 *
 * One seed in eight has it, by a hash of the seed, and a process of its own draws nothing: the others decide what they
 * always did.
 */
#ifndef CLEAVE_TESTS_SIM_BALANCER_H
#define CLEAVE_TESTS_SIM_BALANCER_H

#include <stdint.h>

struct sim_balancer;
struct sim_cluster;

#define SIM_BALANCE_INTERVAL_NS NUM_MS(100) /* between two looks of a gateway */
#define SIM_BALANCE_FLOOR 4096u

/* sim_balancer_create -- the cluster's gateways share out by load: watch what they do. */
struct sim_balancer *sim_balancer_create(struct sim_cluster *cluster);
/*
 * sim_balancer_finish -- nothing is given away any more, nor watched: what follows sets the store back, and compares how
 * much memory gateways hold from one time to the next. What is placed stays. NULL is none.
 */
void sim_balancer_finish(struct sim_balancer *balancer);
/* sim_balancer_count -- shards that were given away. NULL: 0. */
uint64_t sim_balancer_count(const struct sim_balancer *balancer);
/* sim_balancer_destroy -- it is finished. NULL is none. */
void sim_balancer_destroy(struct sim_balancer *balancer);

#endif /* CLEAVE_TESTS_SIM_BALANCER_H */
