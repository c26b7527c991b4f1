/* SPDX-License-Identifier: Apache-2.0 */
/* bucket.c -- a volume's limits, kept: what a request costs, and when it may go */
#include "base/bucket.h"

#include <string.h>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/num.h"

/* ---- one rate ---- */

void
bucket_set(struct bucket *bucket, uint64_t rate, uint64_t now_ns)
{
	uint64_t debt_ns = bucket->paid_ns > now_ns ? bucket->paid_ns - now_ns : 0;

	if (rate == bucket->rate)
		return;
	if (rate > bucket->rate && bucket->rate > 0)
		debt_ns = (uint64_t)((double)debt_ns * ((double)bucket->rate / (double)rate));
	bucket->paid_ns = now_ns + debt_ns;
	bucket->rate = rate;
	bucket->rest = 0;
}

uint64_t
bucket_wait_ns(const struct bucket *bucket, uint64_t depth_ns, uint64_t now_ns)
{
	uint64_t until_ns = now_ns + depth_ns;

	return bucket->rate == 0 || bucket->paid_ns <= until_ns ? 0 : bucket->paid_ns - until_ns;
}

#define BUCKET_COST_NS_MAX                                                                         \
	(UINT64_C(1) << 44) /* some hours: what is longer, times 65536, is no number */

/* Returns what the cost is of the whole rate. */
static uint64_t
bucket_take_share(struct bucket *bucket, uint64_t cost, uint32_t share, uint64_t now_ns)
{
	uint64_t scaled, cost_ns;

	assert(cost <= UINT64_C(1) << 32 && share > 0);
	if (bucket->rate == 0)
		return 0;
	if (bucket->paid_ns < now_ns) {
		bucket->paid_ns = now_ns;
		bucket->rest = 0;
	}
	scaled = cost * NUM_S(1) + bucket->rest;
	cost_ns = scaled / bucket->rate;
	bucket->rest = scaled % bucket->rate;
	bucket->paid_ns += share == LIMITER_SHARE_ALL
	    ? cost_ns
	    : num_min(cost_ns, BUCKET_COST_NS_MAX) * LIMITER_SHARE_ALL / share;
	return cost_ns;
}

void
bucket_take(struct bucket *bucket, uint64_t cost, uint64_t now_ns)
{
	(void)bucket_take_share(bucket, cost, LIMITER_SHARE_ALL, now_ns);
}

/* ---- limits ---- */

bool
limits_are_set(const struct cleave_limits *limits)
{
	return (limits->iops | limits->bytes_s | limits->read_iops | limits->read_bytes_s |
		   limits->write_iops | limits->write_bytes_s) != 0;
}

bool
limits_have_shares(const struct cleave_limits *limits)
{
	return (limits->min_iops | limits->weight) != 0;
}

bool
limits_are_equal(const struct cleave_limits *a, const struct cleave_limits *b)
{
	_Static_assert(sizeof(*a) == 9 * sizeof(uint64_t), "members, and nothing between them");
	return memcmp(a, b, sizeof(*a)) == 0;
}

uint32_t
limits_tag(const struct cleave_limits *limits)
{
	const uint64_t values[] = { limits->iops, limits->bytes_s, limits->read_iops,
		limits->read_bytes_s, limits->write_iops, limits->write_bytes_s, limits->burst_ms };
	uint8_t bytes[sizeof(values)];
	uint32_t tag;

	if (!limits_are_set(limits))
		return 0;
	for (size_t i = 0; i < NUM_COUNT(values); i++)
		num_put_le64(bytes + i * sizeof(values[0]), values[i]);
	tag = crc32c(0, bytes, sizeof(bytes));
	return tag == 0 ? 1 : tag;
}

uint32_t
limits_ops(uint32_t data_bytes)
{
	return data_bytes == 0 ? 1 : 1 + (data_bytes - 1) / LIMITER_UNIT_BYTES;
}

/* ---- all of a volume's ---- */

void
limiter_set(struct limiter *limiter, const struct cleave_limits *limits, uint64_t spare_ns,
    uint64_t now_ns)
{
	const uint64_t rates[LIMITER_NR] = {
		[LIMITER_OPS] = limits->iops,
		[LIMITER_BYTES] = limits->bytes_s,
		[LIMITER_READ_OPS] = limits->read_iops,
		[LIMITER_READ_BYTES] = limits->read_bytes_s,
		[LIMITER_WRITE_OPS] = limits->write_iops,
		[LIMITER_WRITE_BYTES] = limits->write_bytes_s,
	};
	uint64_t burst_ms = limits->burst_ms == 0 ? LIMITER_BURST_MS_DEFAULT : limits->burst_ms;

	for (uint32_t i = 0; i < LIMITER_NR; i++)
		bucket_set(&limiter->buckets[i], rates[i], now_ns);
	limiter->depth_ns = NUM_MS(burst_ms) + spare_ns;
}

/* Buckets that a request of one kind goes through: those of both together, then its own. */
static void
limiter_range(bool is_write, uint32_t ret_pairs[2])
{
	ret_pairs[0] = LIMITER_OPS;
	ret_pairs[1] = is_write ? LIMITER_WRITE_OPS : LIMITER_READ_OPS;
}

uint64_t
limiter_wait_ns(const struct limiter *limiter, bool is_write, uint64_t now_ns)
{
	uint64_t wait_ns = 0;
	uint32_t pairs[2];

	limiter_range(is_write, pairs);
	for (uint32_t i = 0; i < 2; i++) {
		const struct bucket *ops = &limiter->buckets[pairs[i]];

		wait_ns = num_max(wait_ns, bucket_wait_ns(ops, limiter->depth_ns, now_ns));
		wait_ns = num_max(wait_ns, bucket_wait_ns(ops + 1, limiter->depth_ns, now_ns));
	}
	return wait_ns;
}

uint64_t
limiter_take_share(struct limiter *limiter, const struct limiter_cost *cost, uint32_t share,
    uint64_t now_ns)
{
	uint64_t most_ns = 0;
	uint32_t pairs[2];

	limiter_range(cost->is_write, pairs);
	for (uint32_t i = 0; i < 2; i++) {
		struct bucket *ops = &limiter->buckets[pairs[i]];

		most_ns = num_max(most_ns,
		    bucket_take_share(ops, limits_ops(cost->data_bytes), share, now_ns));
		most_ns =
		    num_max(most_ns, bucket_take_share(ops + 1, cost->data_bytes, share, now_ns));
	}
	return most_ns;
}

void
limiter_take(struct limiter *limiter, const struct limiter_cost *cost, uint64_t now_ns)
{
	(void)limiter_take_share(limiter, cost, LIMITER_SHARE_ALL, now_ns);
}

bool
limiter_is_paid(const struct limiter *limiter, uint64_t now_ns)
{
	for (uint32_t i = 0; i < LIMITER_NR; i++) {
		if (limiter->buckets[i].rate != 0 && limiter->buckets[i].paid_ns > now_ns)
			return false;
	}
	return true;
}
