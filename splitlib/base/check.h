/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check.h -- assertions about our own code; they stay on in every build
 *
 * An assertion is for our bugs alone. What a peer, a disk, memory or a user does wrong is an error,
 * returned as a negative errno.
 */
#ifndef CLEAVE_BASE_CHECK_H
#define CLEAVE_BASE_CHECK_H

#ifdef NDEBUG
#error "assertions stay on: build without -DNDEBUG"
#endif

#include <assert.h>

/* The object is what the caller says it is, and alive: magic is its first member. */
#define CHECK_OBJ(obj, expected_magic)                                                             \
	do {                                                                                       \
		assert((obj) != NULL);                                                             \
		assert((obj)->magic == (expected_magic));                                          \
	} while (0)

#endif /* CLEAVE_BASE_CHECK_H */
