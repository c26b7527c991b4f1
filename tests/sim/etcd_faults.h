/* SPDX-License-Identifier: Apache-2.0 */
/* etcd_faults.h -- what goes wrong with a cluster's etcd alone; and what must hold of it whatever does */
#ifndef CLEAVE_TESTS_SIM_ETCD_FAULTS_H
#define CLEAVE_TESTS_SIM_ETCD_FAULTS_H

#include "faults.h"

/* sim_etcd_inject -- @self->fault begins. False: it is none of an etcd. */
bool sim_etcd_inject(struct sim_faults *faults, struct sim_fault_active *self);
/* sim_etcd_undo -- it is over */
void sim_etcd_undo(struct sim_faults *faults, const struct sim_fault_active *self);

/*
 * sim_etcd_check_leases -- while nothing fails, every lease that nobody renews is ended
 *
 * Also one whose only sign was a change that no stream has told of.
 */
void sim_etcd_check_leases(struct sim_cluster *cluster);
/*
 * sim_etcd_check_gap -- what happens while streams are broken, and cannot be told of afterwards, is known
 *
 * All streams break; a process gets a lease, and dies; and what the streams would resume with is compacted, or
 * the etcd is set back to a backup of a moment before. The lease ends all the same, and soon.
 */
void sim_etcd_check_gap(struct sim_cluster *cluster);

#endif /* CLEAVE_TESTS_SIM_ETCD_FAULTS_H */
