/* SPDX-License-Identifier: Apache-2.0 */
/*
 * histogram.h -- latencies, counted in log-linear buckets (after HdrHistogram)
 *
 * Each power of two is cut into HISTOGRAM_SUB_COUNT equal buckets, so that what a percentile says
 * is at most 1 / HISTOGRAM_SUB_COUNT above the truth, whatever its size. Fixed memory; recording is
 * a shift and an increment. Threads: one.
 */
#ifndef CLEAVE_VM_CLIENT_HISTOGRAM_H
#define CLEAVE_VM_CLIENT_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_SUB_BITS 7u
#define HISTOGRAM_SUB_COUNT (1u << HISTOGRAM_SUB_BITS) /* error below 0.8 % */
#define HISTOGRAM_BUCKET_COUNT ((64u - HISTOGRAM_SUB_BITS + 1u) * HISTOGRAM_SUB_COUNT)

struct histogram {
	uint64_t counts[HISTOGRAM_BUCKET_COUNT];
	uint64_t value_count;
	uint64_t max;
	uint64_t min;
	double sum;
};

void histogram_init(struct histogram *h);
/* histogram_record -- count @value (any unit: the caller's). */
void histogram_record(struct histogram *h, uint64_t value);
/* histogram_add -- @h counts what @other has counted, too. */
void histogram_add(struct histogram *h, const struct histogram *other);
/*
 * histogram_percentile -- the value that @percent (0 .. 100) of those recorded do not exceed
 *
 * Returns the upper end of its bucket, never more than the maximum; 0 when nothing was recorded.
 */
uint64_t histogram_percentile(const struct histogram *h, double percent);
/* histogram_mean -- 0 when nothing was recorded. */
double histogram_mean(const struct histogram *h);

#endif /* CLEAVE_VM_CLIENT_HISTOGRAM_H */
