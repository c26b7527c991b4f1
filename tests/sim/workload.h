/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workload.h -- a simulated VM: mixed requests to one volume, every read checked
 *
 * Each block that is written names its volume, its place and the operation that wrote it, so a read
 * tells which write it saw. Operations have growing numbers, and libcleave keeps overlapping writes in
 * order; so a read may see, of each block, the newest operation that was known to have happened when
 * the read was submitted, or any later one, and nothing else. What a read saw has happened.
 */
#ifndef CLEAVE_TESTS_SIM_WORKLOAD_H
#define CLEAVE_TESTS_SIM_WORKLOAD_H

#include "cluster.h"

#define WORKLOAD_IN_FLIGHT 16u
#define WORKLOAD_BLOCKS_MAX 16u /* of one request */

struct workload;

struct workload_options {
	struct sim_cluster *cluster;
	uint32_t client_index;
	uint64_t volume_bytes;
	uint32_t op_count;
	uint32_t read_percent, discard_percent; /* the rest writes */
};

/* workload_create -- a client process; makes the volume and opens it. Runs the world meanwhile. */
struct workload *workload_create(const struct workload_options *options);
void workload_destroy(struct workload *workload);
/* workload_start -- begin; ends by itself after op_count operations. */
void workload_start(struct workload *workload);
bool workload_is_done(const struct workload *workload);
uint32_t workload_completed_count(const struct workload *workload);
/* workload_verify_all -- read the whole volume; runs the world until done. */
void workload_verify_all(struct workload *workload);

#endif /* CLEAVE_TESTS_SIM_WORKLOAD_H */
