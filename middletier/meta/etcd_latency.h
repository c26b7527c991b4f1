/* SPDX-License-Identifier: Apache-2.0 */
/* etcd_latency.h -- how long the last requests about leases took */
#ifndef CLEAVE_MIDDLETIER_META_ETCD_LATENCY_H
#define CLEAVE_MIDDLETIER_META_ETCD_LATENCY_H

#include <stdbool.h>
#include <stdint.h>

#define ETCD_LATENCY_SAMPLES 128u

/* All zero is one without samples. */
struct etcd_latency {
	uint64_t samples_ns[ETCD_LATENCY_SAMPLES]; /* a ring */
	uint64_t count;                            /* ever taken */
	uint64_t limit_ns;                         /* beyond it is slow; 0: nothing is */
	bool is_slow;                              /* and that was told */
};

/*
 * etcd_latency_add -- a request took so long, from its beginning to its answer, or to the end of its time
 *
 * Returns true once, when the 99th percentile of the samples goes beyond the limit; again after it was below
 * half of the limit. With fewer than 100 samples there is no such percentile.
 */
bool etcd_latency_add(struct etcd_latency *latency, uint64_t ns);
/* etcd_latency_last -- of the newest sample; 0: there is none */
uint64_t etcd_latency_last(const struct etcd_latency *latency);
/* etcd_latency_p99 -- so long or shorter took 99 of 100; with fewer than 100 samples the longest; 0: none */
uint64_t etcd_latency_p99(const struct etcd_latency *latency);

#endif /* CLEAVE_MIDDLETIER_META_ETCD_LATENCY_H */
