/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random.h -- the seeded generator behind loops and simulated worlds: xoshiro256**
 *
 * Fast, repeatable, and not for secrets. Source: Blackman and Vigna, "Scrambled Linear Pseudorandom
 * Number Generators", ACM TOMS 47 (2021).
 */
#ifndef CLEAVE_BASE_RANDOM_H
#define CLEAVE_BASE_RANDOM_H

#include <stdint.h>

/* random_seed -- every seed, 0 included, gives a good state. */
void random_seed(uint64_t state[4], uint64_t seed);
/* random_u64 -- any value, each as likely; @state was seeded. */
uint64_t random_u64(uint64_t state[4]);
/* random_below -- uniform in [0, @limit), without bias; @limit > 0. */
uint64_t random_below(uint64_t state[4], uint64_t limit);

#endif /* CLEAVE_BASE_RANDOM_H */
