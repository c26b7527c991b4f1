/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics.h -- counters and gauges, declared with unit and meaning, kept by one thread each
 *
 * A daemon declares a table (X-macro) of metrics and an array of uint64_t values per thread; adding
 * is a plain increment by the owner. Another thread reads with metrics_read (relaxed atomics), so a
 * snapshot may be torn between metrics, never within one.
 */
#ifndef CLEAVE_BASE_METRICS_H
#define CLEAVE_BASE_METRICS_H

#include <stdint.h>
#include <stdio.h>

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE };

struct metric_info {
	const char *name; /* "host_bytes_in" */
	const char *unit; /* "bytes", "count", "ns" */
	const char *help;
	enum metric_kind kind;
};

static inline void
metric_add(uint64_t *value, uint64_t delta)
{
	__atomic_store_n(value, *value + delta, __ATOMIC_RELAXED);
}

static inline void
metric_set(uint64_t *value, uint64_t to)
{
	__atomic_store_n(value, to, __ATOMIC_RELAXED);
}

static inline uint64_t
metric_read(const uint64_t *value)
{
	return __atomic_load_n(value, __ATOMIC_RELAXED);
}

#endif /* CLEAVE_BASE_METRICS_H */
