/* SPDX-License-Identifier: Apache-2.0 */
/*
 * levels.h -- a cluster of two releases that is upgraded in the middle of faults
 *
 * The cluster is made at level 1: each process is of that release, or of ours, by the seed. An operator replaces
 * processes by newer ones, takes gateways back to the older release, and asks for the upgrade again and again. It is
 * a violation when it is done without a gateway whose key was there all the while, or a node that ran all the while,
 * and does not speak the next level; and when it cannot be done once all processes are new.
 *
 * It has a generator of its own: seeds without it decide what they always did.
 */
#ifndef CLEAVE_TESTS_SIM_LEVELS_H
#define CLEAVE_TESTS_SIM_LEVELS_H

#include <stdbool.h>
#include <stdint.h>

struct sim_cluster;
struct sim_levels;

/* sim_levels_create -- before the cluster is made; begins to work at once. */
struct sim_levels *sim_levels_create(struct sim_cluster *cluster, uint64_t seed);
/* sim_levels_finish -- every process is new, and the cluster upgraded, within @limit_ns. */
void sim_levels_finish(struct sim_levels *levels, uint64_t limit_ns);
/* sim_levels_destroy -- NULL is none. */
void sim_levels_destroy(struct sim_levels *levels);

#endif /* CLEAVE_TESTS_SIM_LEVELS_H */
