/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workload.h -- which operation comes next, and where
 *
 * A seeded stream of (operation, unit): the volume is cut into units of the request size. The same
 * seed and options give the same stream. Threads: one.
 */
#ifndef CLEAVE_VM_CLIENT_WORKLOAD_H
#define CLEAVE_VM_CLIENT_WORKLOAD_H

#include <stdint.h>

enum workload_pattern {
	WORKLOAD_SEQUENTIAL, /* 0, 1, 2 ..., from the start again at the end */
	WORKLOAD_RANDOM,     /* uniform */
	WORKLOAD_ZIPF,       /* few units get most of the operations; those lie anywhere */
	WORKLOAD_LATEST, /* writes are as of SEQUENTIAL; others zipf, from the newest write back */
};

enum workload_op {
	WORKLOAD_READ,
	WORKLOAD_WRITE,
	WORKLOAD_DISCARD,
	WORKLOAD_REWRITE /* read, then written */
};

struct workload_options {
	enum workload_pattern pattern;
	uint64_t unit_count;   /* at least 1 */
	double zipf_theta;     /* 0 < theta < 1; the higher, the more skewed */
	uint32_t read_percent; /* the three: at most 100; the rest are writes */
	uint32_t discard_percent, rewrite_percent;
	uint64_t seed;
};

struct workload {
	struct workload_options options;
	uint64_t random_state;
	uint64_t next_unit;
	/* Gray's method. */
	double zeta_n, alpha, eta, second;
};

void workload_init(struct workload *w, const struct workload_options *options);
/* workload_next -- returns what to do; *@ret_unit: where, below unit_count. */
enum workload_op workload_next(struct workload *w, uint64_t *ret_unit);
/* workload_random_u64 -- the stream's generator (splitmix64) for others. */
uint64_t workload_random_u64(uint64_t *state);

#endif /* CLEAVE_VM_CLIENT_WORKLOAD_H */
