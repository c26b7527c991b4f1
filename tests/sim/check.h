/* SPDX-License-Identifier: Apache-2.0 */
/* check.h -- what must hold of a cluster when all is quiet: replicas, orphans, memory */
#ifndef CLEAVE_TESTS_SIM_CHECK_H
#define CLEAVE_TESTS_SIM_CHECK_H

#include "cluster.h"

#define SIM_CHECK_NO_VICTIM UINT32_MAX

/*
 * sim_check_quiet -- all nodes and gateways run, nothing fails, no request is under way
 *
 * @victim: a node whose disk may hold damage that nobody has looked for yet.
 */
void sim_check_quiet(struct sim_cluster *cluster, uint32_t victim);

/* sim_check_idle -- every receive is back in its pool, no request is outstanding; runs the world. */
void sim_check_idle(struct sim_cluster *cluster);

#endif /* CLEAVE_TESTS_SIM_CHECK_H */
