/* SPDX-License-Identifier: Apache-2.0 */
/*
 * latency.h -- how long things took, counted in fixed buckets
 *
 *	bucket    0      1      2       3             17     18     19
 *	up to    10 us  20 us  50 us  100 us   ...   5 s    10 s    more
 *
 * Counting costs a table look-up and two adds, so it may stand on the data path. Buckets of equal bounds can be summed
 * over threads, processes and hosts. What wants percentiles to a percent has vm-client/load/histogram.h.
 *
 * Threads: one counts; any reads, by latency_read: what it sees may be torn between buckets, never within one.
 */
#ifndef CLEAVE_BASE_LATENCY_H
#define CLEAVE_BASE_LATENCY_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/metrics.h"

#define LATENCY_BOUNDS 19u /* of buckets; the last bucket has none */
#define LATENCY_BUCKETS (LATENCY_BOUNDS + 1u)

/* All zeros: nothing was counted. */
struct latency {
	uint64_t counts[LATENCY_BUCKETS];
	uint64_t sum_ns;
};

/* Each the least that is above its bucket; the last is a guard. */
extern const uint64_t latency_bounds_ns[LATENCY_BUCKETS];
/* By the number of significant bits of a time: how many bounds lie below all times that have as many. */
extern const uint8_t latency_first[65];

/* latency_bucket -- the bucket of @ns: the first whose bound is not below it. */
static inline uint32_t
latency_bucket(uint64_t ns)
{
	/* Times of as many bits differ by less than a factor of two, and so by one bound at most. */
	uint32_t first = latency_first[ns == 0 ? 0 : 64 - __builtin_clzll(ns)];

	return first + (ns > latency_bounds_ns[first]);
}

/* latency_count -- something took @ns. */
static inline void
latency_count(struct latency *latency, uint64_t ns)
{
	metric_add(&latency->counts[latency_bucket(ns)], 1);
	metric_add(&latency->sum_ns, ns);
}

/* latency_read -- @to also has what @from has, which another thread may be counting in. */
void latency_read(struct latency *to, const struct latency *from);
/* latency_since -- what @now has and @before had not; @before is an older state of @now. */
struct latency latency_since(const struct latency *now, const struct latency *before);
/* latency_total -- how many were counted. */
uint64_t latency_total(const struct latency *latency);
/*
 * latency_quantile_ns -- a time that @percent (1 to 100) of those counted did not exceed, about
 *
 * Times are taken to be spread evenly within a bucket, as Prometheus' histogram_quantile does. 0: nothing was counted.
 * Of the last bucket it is the last bound: 10 s.
 */
uint64_t latency_quantile_ns(const struct latency *latency, uint32_t percent);

/*
 * latency_print -- a histogram in each of @objects, whose values are a struct latency, as OpenMetrics text
 *
 * @name without the unit, which is added: "cleave_gateway_latency" has "cleave_gateway_latency_seconds_bucket", with a
 * label "le", "..._count" and "..._sum". Nothing for no object. Errors are @out's.
 */
void latency_print(FILE *out, const char *name, const char *help,
    const struct metric_object *objects, size_t object_count);

#endif /* CLEAVE_BASE_LATENCY_H */
