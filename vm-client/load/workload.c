/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workload.c -- seeded streams of operations
 *
 * Source (zipf): Gray et al., "Quickly generating billion-record synthetic databases", SIGMOD '94;
 * the constants need zeta(n), whose tail is an integral here: a volume may have 2^28 units.
 */
#include "workload.h"

#include <assert.h>
#include <string.h>

#include "base/num.h"

#define ZETA_TERMS_MAX 10000u

uint64_t
workload_random_u64(uint64_t *state)
{
	assert(state != NULL);
	*state += 0x9e3779b97f4a7c15u;
	return num_mix_u64(*state);
}

/* Uniform in [0, @limit): the high half of a 128-bit product; the bias is below limit / 2^64. */
static uint64_t
random_below(uint64_t *state, uint64_t limit)
{
	assert(limit > 0);
	__extension__ typedef unsigned __int128 wide;

	return (uint64_t)(((wide)workload_random_u64(state) * limit) >> 64);
}

/*
 * Powers of positive numbers, to about 1e-13: this folder is also a library that others link, and
 * it shall not need libm for a load generator.
 */
static double
log2_of(double x)
{
	uint64_t bits;
	double mantissa, t, t2, term, sum = 0;
	int exponent;

	assert(x > 0);
	memcpy(&bits, &x, sizeof(bits));
	exponent = (int)(bits >> 52) - 1023;
	bits = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1023) << 52;
	memcpy(&mantissa, &bits, sizeof(mantissa)); /* 1 <= mantissa < 2 */
	if (mantissa > 1.4142135623730951) {
		mantissa /= 2;
		exponent++;
	}
	t = (mantissa - 1) / (mantissa + 1); /* ln m = 2 artanh t, |t| < 0.172 */
	t2 = t * t;
	term = t;
	for (int i = 1; i < 18; i += 2, term *= t2)
		sum += term / i;
	return exponent + 2 * sum * 1.4426950408889634;
}

static double
exp2_of(double y)
{
	double rest, term = 1, sum = 1, scale;
	int whole = (int)y;
	uint64_t bits;

	assert(y < 1024);
	if (y < -1000)
		return 0;
	rest = (y - whole) * 0.6931471805599453;
	for (int i = 1; i < 20; i++) {
		term *= rest / i;
		sum += term;
	}
	bits = (uint64_t)(whole + 1023) << 52;
	memcpy(&scale, &bits, sizeof(scale));
	return sum * scale;
}

static double
power(double x, double y)
{
	assert(x <= 0 || y < 1024);
	return x <= 0 ? 0 : exp2_of(y * log2_of(x));
}

/* The sum of i^-theta, i = 1 .. n; Euler-Maclaurin beyond the first ZETA_TERMS_MAX. */
static double
zeta(uint64_t n, double theta)
{
	uint64_t terms = num_min(n, ZETA_TERMS_MAX);
	double sum = 0;

	assert(n > 0 && theta > 0 && theta < 1);
	for (uint64_t i = 1; i <= terms; i++)
		sum += power((double)i, -theta);
	if (n > terms) {
		double a = (double)terms, b = (double)n;

		sum += (power(b, 1 - theta) - power(a, 1 - theta)) / (1 - theta);
		sum += (power(b, -theta) - power(a, -theta)) / 2;
	}
	return sum;
}

void
workload_init(struct workload *w, const struct workload_options *options)
{
	double theta = options->zipf_theta;

	assert(options->pattern <= WORKLOAD_LATEST);
	assert(options->unit_count > 0);
	assert(options->read_percent + options->discard_percent + options->rewrite_percent <= 100);
	memset(w, 0, sizeof(*w));
	w->options = *options;
	w->random_state = options->seed;
	if (options->pattern != WORKLOAD_ZIPF && options->pattern != WORKLOAD_LATEST)
		return;
	assert(theta > 0 && theta < 1);
	w->zeta_n = zeta(options->unit_count, theta);
	w->second = 1 + power(0.5, theta);
	w->alpha = 1 / (1 - theta);
	w->eta = (1 - power(2.0 / (double)options->unit_count, 1 - theta)) /
	    (1 - w->second / w->zeta_n);
}

/* The rank, 0 the most frequent. */
static uint64_t
zipf_rank(struct workload *w)
{
	double u = (double)(workload_random_u64(&w->random_state) >> 11) * 0x1.0p-53;
	double uz = u * w->zeta_n;
	double n = (double)w->options.unit_count;

	assert(w->zeta_n > 0);
	if (uz < 1 || w->options.unit_count == 1)
		return 0;
	if (uz < w->second || w->options.unit_count == 2)
		return 1;
	return num_min((uint64_t)(n * power(w->eta * u - w->eta + 1, w->alpha)),
	    w->options.unit_count - 1);
}

static uint64_t
next_sequential(struct workload *w)
{
	uint64_t unit = w->next_unit;

	w->next_unit = unit + 1 == w->options.unit_count ? 0 : unit + 1;
	return unit;
}

static uint64_t
next_unit(struct workload *w)
{
	assert(w->next_unit < w->options.unit_count);
	switch (w->options.pattern) {
	case WORKLOAD_SEQUENTIAL:
		return next_sequential(w);
	case WORKLOAD_RANDOM:
		break;
	case WORKLOAD_ZIPF:
		/* Scattered: neighbours in rank are none on the volume. */
		return num_mix_u64(zipf_rank(w) + 1) % w->options.unit_count;
	case WORKLOAD_LATEST:
		return (w->next_unit + w->options.unit_count - 1 - zipf_rank(w)) %
		    w->options.unit_count;
	}
	return random_below(&w->random_state, w->options.unit_count);
}

static enum workload_op
next_op(struct workload *w)
{
	const struct workload_options *o = &w->options;
	uint32_t discard = o->read_percent + o->discard_percent,
		 rewrite = discard + o->rewrite_percent;
	uint64_t die = 100;

	if (rewrite > 0)
		die = random_below(&w->random_state, 100);
	if (die < o->read_percent)
		return WORKLOAD_READ;
	if (die < discard)
		return WORKLOAD_DISCARD;
	return die < rewrite ? WORKLOAD_REWRITE : WORKLOAD_WRITE;
}

enum workload_op
workload_next(struct workload *w, uint64_t *ret_unit)
{
	enum workload_op op;

	assert(w->options.unit_count > 0);
	*ret_unit = next_unit(w);
	op = next_op(w);
	if (w->options.pattern == WORKLOAD_LATEST && op == WORKLOAD_WRITE)
		*ret_unit = next_sequential(w);
	return op;
}
