/* SPDX-License-Identifier: Apache-2.0 */
/*
 * faults.h -- what goes wrong with a cluster: one fault after another, several at a time
 *
 * Each fault lasts a random while and is then undone. What destroys data hits one disk alone, the
 * seed's *victim*, as three copies can bear no more; everything else may hit anybody at any time.
 */
#ifndef CLEAVE_TESTS_SIM_FAULTS_H
#define CLEAVE_TESTS_SIM_FAULTS_H

#include "intruder.h"
#include "run.h"
#include "stall.h"
#include "workload.h"

#define SIM_FAULTS_ACTIVE_MAX 16u

struct sim_fault_active {
	enum sim_fault fault;
	uint64_t until_ns;
	uint32_t index;              /* of the node, gateway or workload */
	struct sim_host *a, *b;      /* of network faults */
	struct workload *workload;   /* deposed: whose client is to lose its volume */
	const void *process;         /* meta_cut: the handle that was cut off */
	struct sim_store_copy *copy; /* etcd_set_back: what it is set back to */
};

struct sim_faults {
	struct sim_cluster *cluster;
	struct workload *const *workloads;
	uint32_t workload_count;
	uint64_t allowed; /* set of SIM_FAULT */
	uint32_t victim;  /* node whose disk may destroy data */
	bool has_destroyed;
	struct sim_fault_active active[SIM_FAULTS_ACTIVE_MAX];
	uint32_t active_count;
	struct sim_intruder intruder;
	bool is_owner_stale; /* the last fault may have made an owner that does not know it */
	struct sim_stall stall;
	uint64_t disturbed_until_ns; /* until when leases may go, of faults that are over */
	uint64_t counts[SIM_FAULT_NR];
	struct sim_peeker *peeker; /* peeker.h; NULL: none, as the seed says */
};

/* sim_faults_inject -- one of those allowed, by the world's chance. */
void sim_faults_inject(struct sim_faults *faults);
/* sim_faults_next_ns -- when the next one is undone. SIM_FOR_EVER: none is active. */
uint64_t sim_faults_next_ns(const struct sim_faults *faults);
/* sim_faults_expire -- undo those whose time is over. */
void sim_faults_expire(struct sim_faults *faults);
/* sim_faults_heal -- undo all, and start all that does not run. */
void sim_faults_heal(struct sim_faults *faults);

/* A duration from a microsecond to eight seconds, each order of magnitude as often as another. */
uint64_t sim_faults_duration_ns(struct sim_cluster *cluster);

#endif /* CLEAVE_TESTS_SIM_FAULTS_H */
