/* SPDX-License-Identifier: Apache-2.0 */
/* etcd_latency.c -- how long the last requests about leases took; see etcd_latency.h */
#include "meta/etcd_latency.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"

#define PERCENTILE_SAMPLES_MIN 100u

static uint32_t
sample_count(const struct etcd_latency *latency)
{
	return (uint32_t)num_min(latency->count, ETCD_LATENCY_SAMPLES);
}

uint64_t
etcd_latency_last(const struct etcd_latency *latency)
{
	return latency->count == 0
	    ? 0
	    : latency->samples_ns[(latency->count - 1) % ETCD_LATENCY_SAMPLES];
}

static int
sample_compare(const void *a, const void *b)
{
	uint64_t left, right;

	memcpy(&left, a, sizeof(left));
	memcpy(&right, b, sizeof(right));
	return (left > right) - (left < right);
}

uint64_t
etcd_latency_p99(const struct etcd_latency *latency)
{
	uint64_t sorted_ns[ETCD_LATENCY_SAMPLES];
	uint32_t count = sample_count(latency);

	if (count == 0)
		return 0;
	memcpy(sorted_ns, latency->samples_ns, count * sizeof(*sorted_ns));
	qsort(sorted_ns, count, sizeof(*sorted_ns), sample_compare);
	/* Left out is one of 100, rounded down. */
	return sorted_ns[count - 1 - count / 100];
}

bool
etcd_latency_add(struct etcd_latency *latency, uint64_t ns)
{
	uint64_t p99_ns;

	assert(!latency->is_slow || latency->limit_ns != 0);
	latency->samples_ns[latency->count++ % ETCD_LATENCY_SAMPLES] = ns;
	if (latency->limit_ns == 0 || latency->count < PERCENTILE_SAMPLES_MIN)
		return false;
	p99_ns = etcd_latency_p99(latency);
	if (latency->is_slow) {
		latency->is_slow = p99_ns >= latency->limit_ns / 2;
		return false;
	}
	latency->is_slow = p99_ns > latency->limit_ns;
	return latency->is_slow;
}
