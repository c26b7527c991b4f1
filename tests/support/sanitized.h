/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sanitized.h -- how much of a long search is enough under sanitizers
 *
 * They make it five times as long. What they look for, an access that is not allowed, a few rounds show as well as
 * all; what all rounds look for is found without them.
 */
#ifndef CLEAVE_TESTS_SANITIZED_H
#define CLEAVE_TESTS_SANITIZED_H

/* TEST_ROUNDS -- @all of them; with a sanitizer, @few */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_ROUNDS(all, few) (few)
#else
#define TEST_ROUNDS(all, few) (all)
#endif

#endif /* CLEAVE_TESTS_SANITIZED_H */
