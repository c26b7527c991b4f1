/* SPDX-License-Identifier: Apache-2.0 */
/* check.h -- what must hold of a cluster when all is quiet: replicas, orphans, memory */
#ifndef CLEAVE_TESTS_SIM_CHECK_H
#define CLEAVE_TESTS_SIM_CHECK_H

#include "cluster.h"

/* sim_check_quiet -- all nodes and gateways run, nothing fails, no request is under way. */
void sim_check_quiet(struct sim_cluster *cluster);

#endif /* CLEAVE_TESTS_SIM_CHECK_H */
