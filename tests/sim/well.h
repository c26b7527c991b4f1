/* SPDX-License-Identifier: Apache-2.0 */
/* well.h -- what gateways say of the cluster's health is true: nothing when it is whole, and who is away */
#ifndef CLEAVE_TESTS_SIM_WELL_H
#define CLEAVE_TESTS_SIM_WELL_H

#include "cluster.h"

/*
 * sim_check_well -- a cluster that is whole is said to be well, by every gateway; runs the world until it is
 *
 * But for what is so: small disks that are full, nodes that are not there, releases of two levels.
 */
void sim_check_well(struct sim_cluster *cluster);
/* sim_check_told -- every gateway that serves says that node @index is away; runs the world for some seconds. */
void sim_check_told(struct sim_cluster *cluster, uint32_t index);

#endif /* CLEAVE_TESTS_SIM_WELL_H */
