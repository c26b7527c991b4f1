/* SPDX-License-Identifier: Apache-2.0 */
/* histogram.c -- log-linear buckets */
#include "histogram.h"

#include <assert.h>
#include <string.h>

#include "base/num.h"

void
histogram_init(struct histogram *h)
{
	assert(h != NULL);
	memset(h, 0, sizeof(*h));
	h->min = UINT64_MAX;
}

/* Values below SUB_COUNT have a bucket each; above, the SUB_BITS after the leading one choose. */
static uint32_t
bucket_of(uint64_t value)
{
	if (value < HISTOGRAM_SUB_COUNT)
		return (uint32_t)value;
	uint32_t shift = 63u - (uint32_t)__builtin_clzll(value) - HISTOGRAM_SUB_BITS;
	assert(shift <= 63u - HISTOGRAM_SUB_BITS);

	return (shift + 1) * HISTOGRAM_SUB_COUNT + (uint32_t)(value >> shift) - HISTOGRAM_SUB_COUNT;
}

static uint64_t
bucket_end(uint32_t index)
{
	assert(index < HISTOGRAM_BUCKET_COUNT);
	if (index < HISTOGRAM_SUB_COUNT)
		return index;
	uint32_t shift = index / HISTOGRAM_SUB_COUNT - 1;
	uint64_t top = index % HISTOGRAM_SUB_COUNT + HISTOGRAM_SUB_COUNT;

	return (top << shift) + ((UINT64_C(1) << shift) - 1);
}

void
histogram_record(struct histogram *h, uint64_t value)
{
	uint32_t index = bucket_of(value);

	assert(index < HISTOGRAM_BUCKET_COUNT);
	h->counts[index]++;
	h->value_count++;
	h->sum += (double)value;
	if (value > h->max)
		h->max = value;
	if (value < h->min)
		h->min = value;
	assert(h->min <= h->max);
}

void
histogram_add(struct histogram *h, const struct histogram *other)
{
	assert(h != other);
	for (uint32_t i = 0; i < HISTOGRAM_BUCKET_COUNT; i++)
		h->counts[i] += other->counts[i];
	h->value_count += other->value_count;
	h->sum += other->sum;
	if (other->max > h->max)
		h->max = other->max;
	if (other->min < h->min)
		h->min = other->min;
}

uint64_t
histogram_percentile(const struct histogram *h, double percent)
{
	double wanted = (double)h->value_count * percent / 100.0;
	uint64_t rank = (uint64_t)wanted, seen = 0;

	assert(h->value_count == 0 || h->min <= h->max);
	assert(percent >= 0 && percent <= 100);
	if (h->value_count == 0)
		return 0;
	if ((double)rank < wanted || rank == 0)
		rank++;
	rank = num_min(rank, h->value_count);
	for (uint32_t i = 0; i < HISTOGRAM_BUCKET_COUNT; i++) {
		seen += h->counts[i];
		if (seen >= rank)
			return bucket_end(i) < h->max ? bucket_end(i) : h->max;
	}
	return h->max;
}

double
histogram_mean(const struct histogram *h)
{
	assert(h->value_count == 0 || h->min <= h->max);
	return h->value_count == 0 ? 0 : h->sum / (double)h->value_count;
}
