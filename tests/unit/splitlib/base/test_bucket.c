/* SPDX-License-Identifier: Apache-2.0 */
/* test_bucket.c -- limits: arithmetic as a model counts it, in whole units; what changes of them do */
#include <criterion/criterion.h>

#include "base/bucket.h"
#include "base/num.h"
#include "base/random.h"

/* The model: a debt in billionths of a unit, paid off nanosecond by nanosecond. */
__extension__ typedef __int128 wide;

struct model {
	wide debt;
	uint64_t at_ns;
};

static void
model_pass(struct model *model, uint64_t rate, uint64_t now_ns)
{
	model->debt -= (wide)rate * (now_ns - model->at_ns);
	if (model->debt < 0)
		model->debt = 0;
	model->at_ns = now_ns;
}

/* Whole nanoseconds count: a bucket asks no more than that. */
static bool
model_may_go(const struct model *model, uint64_t rate, uint64_t depth_ns)
{
	return model->debt / rate <= depth_ns;
}

Test(bucket, keeps_a_rate_as_the_model_does)
{
	static const uint64_t rates[] = { 1, 3, 7, 400, 999, 65537, 9999991, UINT64_C(1) << 33 };
	uint64_t dice[4];

	random_seed(dice, 7);
	for (size_t i = 0; i < NUM_COUNT(rates); i++) {
		struct bucket bucket = { 0 };
		struct model model = { .at_ns = NUM_S(1) };
		uint64_t now_ns = NUM_S(1),
			 depth_ns = NUM_MS(1 + (int)random_below(dice, 1u << 30) % 400);

		bucket_set(&bucket, rates[i], now_ns);
		for (uint32_t step = 0; step < 20000; step++) {
			uint64_t cost = 1 +
			    (uint64_t)(int)random_below(dice, 1u << 30) %
				((int)random_below(dice, 1u << 30) % 8 == 0 ? 70000 : 16);
			uint64_t wait_ns;

			now_ns += (uint64_t)(int)random_below(dice, 1u << 30) %
			    (step % 3 == 0 ? NUM_MS(40) : 50000);
			model_pass(&model, rates[i], now_ns);
			wait_ns = bucket_wait_ns(&bucket, depth_ns, now_ns);
			cr_assert_eq(wait_ns == 0, model_may_go(&model, rates[i], depth_ns),
			    "rate %zu step %u", i, step);
			if (wait_ns > 0 && (int)random_below(dice, 1u << 30) % 2 == 0) {
				now_ns += wait_ns - 1;
				model_pass(&model, rates[i], now_ns);
				cr_assert(!model_may_go(&model, rates[i], depth_ns), "not before");
				model_pass(&model, rates[i], ++now_ns);
				cr_assert(model_may_go(&model, rates[i], depth_ns), "and then");
			} else if (wait_ns > 0) {
				continue;
			}
			bucket_take(&bucket, cost, now_ns);
			model.debt += (wide)cost * NUM_S(1);
		}
	}
}

/* In t seconds rate * (t + depth), and a request more. */
Test(bucket, never_lets_go_more_than_it_says)
{
	const struct cleave_limits limits = { .iops = 400, .burst_ms = 500 };
	struct limiter limiter = { 0 };
	uint64_t now_ns = NUM_S(5), count = 0;

	limiter_set(&limiter, &limits, 0, now_ns);
	for (; now_ns < NUM_S(15); now_ns += NUM_US(100)) {
		while (limiter_wait_ns(&limiter, true, now_ns) == 0) {
			limiter_take(&limiter, &(struct limiter_cost){ true, 4096 }, now_ns);
			count++;
		}
	}
	cr_assert(count >= 4000 && count <= 4000 + 200 + 1, "%lu", (unsigned long)count);
}

Test(bucket, another_rate_neither_refills_nor_forgives)
{
	struct bucket bucket = { 0 };
	uint64_t now_ns = NUM_S(1);

	bucket_set(&bucket, 100, now_ns);
	bucket_take(&bucket, 50, now_ns); /* half a second */
	bucket_set(&bucket, 100, now_ns);
	cr_assert_eq(bucket_wait_ns(&bucket, 0, now_ns), NUM_MS(500),
	    "the same again is no change");
	bucket_set(&bucket, 200, now_ns);
	cr_assert_eq(bucket_wait_ns(&bucket, 0, now_ns), NUM_MS(250), "as many requests are owed");
	bucket_set(&bucket, 1, now_ns);
	cr_assert_eq(bucket_wait_ns(&bucket, 0, now_ns), NUM_MS(250),
	    "a lower one takes no longer");
	bucket_set(&bucket, 0, now_ns);
	cr_assert_eq(bucket_wait_ns(&bucket, 0, now_ns), 0, "lifted");
}

Test(bucket, a_request_costs_one_for_each_16_kib_that_it_begins)
{
	cr_assert_eq(limits_ops(0), 1);
	cr_assert_eq(limits_ops(4096), 1);
	cr_assert_eq(limits_ops(16384), 1);
	cr_assert_eq(limits_ops(20480), 2);
	cr_assert_eq(limits_ops(65536), 4);
}

Test(bucket, reads_and_writes_apart_do_not_wait_for_each_other)
{
	const struct cleave_limits limits = { .write_iops = 10,
		.read_bytes_s = 65536,
		.burst_ms = 10 };
	struct limiter limiter = { 0 };
	uint64_t now_ns = NUM_S(1);

	limiter_set(&limiter, &limits, 0, now_ns);
	limiter_take(&limiter, &(struct limiter_cost){ true, 65536 }, now_ns);
	cr_assert_gt(limiter_wait_ns(&limiter, true, now_ns), NUM_MS(380));
	cr_assert_eq(limiter_wait_ns(&limiter, false, now_ns), 0);
	limiter_take(&limiter, &(struct limiter_cost){ false, 65536 }, now_ns);
	cr_assert_eq(limiter_wait_ns(&limiter, false, now_ns), NUM_MS(990));
	limiter_take(&limiter, &(struct limiter_cost){ false, 0 }, now_ns);
	cr_assert_eq(limiter_wait_ns(&limiter, false, now_ns), NUM_MS(990),
	    "a status has no bytes");
	cr_assert(!limiter_is_paid(&limiter, now_ns));
	cr_assert(limiter_is_paid(&limiter, now_ns + NUM_S(1)));
}

Test(bucket, spare_depth_is_for_those_who_were_interrupted)
{
	const struct cleave_limits limits = { .iops = 100 };
	struct limiter limiter = { 0 };
	uint32_t count = 0;

	limiter_set(&limiter, &limits, NUM_S(5), NUM_S(1));
	for (; limiter_wait_ns(&limiter, false, NUM_S(1)) == 0; count++)
		limiter_take(&limiter, &(struct limiter_cost){ false, 4096 }, NUM_S(1));
	cr_assert_eq(count, 500 + 25 + 1, "%u", count);
}

Test(bucket, a_tag_tells_limits_apart)
{
	const struct cleave_limits none = { .burst_ms = 1000 }, some = { .iops = 5 },
				   same = { .iops = 5 }, other = { .read_iops = 5 };

	cr_assert_eq(limits_tag(&none), 0);
	cr_assert_neq(limits_tag(&some), 0);
	cr_assert_eq(limits_tag(&some), limits_tag(&same));
	cr_assert_neq(limits_tag(&some), limits_tag(&other));
	cr_assert(limits_are_equal(&some, &same) && !limits_are_equal(&some, &other));
}

Test(bucket, shares_are_no_limits)
{
	const struct cleave_limits none = { .burst_ms = 10 }, weighted = { .weight = 200 },
				   reserved = { .min_iops = 500 };
	const struct cleave_limits plain = { .iops = 5 }, both = { .iops = 5, .weight = 200 };

	cr_assert(!limits_have_shares(&none) && limits_have_shares(&weighted) &&
	    limits_have_shares(&reserved));
	cr_assert(!limits_are_set(&weighted) && !limits_are_set(&reserved));
	cr_assert_eq(limits_tag(&weighted), 0, "nobody waits for them, and no client asks");
	cr_assert_eq(limits_tag(&plain), limits_tag(&both));
	cr_assert(!limits_are_equal(&plain, &both), "but an operator's change is one");
}
