/* SPDX-License-Identifier: Apache-2.0 */
/* random.c -- xoshiro256**, seeded through splitmix64 as its authors advise */
#include "base/random.h"

#include "base/check.h"
#include "base/num.h"

#define RANDOM_GOLDEN 0x9e3779b97f4a7c15u /* splitmix64's increment */

static inline uint64_t
rotate_left(uint64_t x, unsigned bits)
{
	assert(bits > 0);
	assert(bits < 64);
	return (x << bits) | (x >> (64 - bits));
}

void
random_seed(uint64_t state[4], uint64_t seed)
{
	for (unsigned i = 0; i < 4; i++) {
		seed += RANDOM_GOLDEN;
		state[i] = num_mix_u64(seed);
	}
	assert((state[0] | state[1] | state[2] | state[3]) != 0);
}

uint64_t
random_u64(uint64_t state[4])
{
	uint64_t result = rotate_left(state[1] * 5, 7) * 9;
	uint64_t t = state[1] << 17;

	assert(
	    (state[0] | state[1] | state[2] | state[3]) != 0); /* seeded: else all are 0 for ever */
	state[2] ^= state[0];
	state[3] ^= state[1];
	state[1] ^= state[2];
	state[0] ^= state[3];
	state[2] ^= t;
	state[3] = rotate_left(state[3], 45);
	return result;
}

uint64_t
random_below(uint64_t state[4], uint64_t limit)
{
	unsigned __int128 product;
	uint64_t threshold;

	assert(limit > 0);
	/* Lemire's method: the high half of the product, redrawn where it would be biased. */
	threshold = -limit % limit;
	do {
		product = (unsigned __int128)random_u64(state) * limit;
	} while ((uint64_t)product < threshold);
	return (uint64_t)(product >> 64);
}
