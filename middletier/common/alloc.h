/* SPDX-License-Identifier: Apache-2.0 */
/* alloc.h -- the gateway's allocations off the data path, which tests can let fail */
#ifndef CLEAVE_MIDDLETIER_COMMON_ALLOC_H
#define CLEAVE_MIDDLETIER_COMMON_ALLOC_H

#include "base/alloc.h"

/* mt_calloc, mt_strdup -- like the C library's. mt_free: NULL is a no-op. */
static inline void *
mt_calloc(size_t count, size_t bytes)
{
	return alloc_zeroed(ALLOC_GATEWAY, count, bytes);
}

static inline char *
mt_strdup(const char *text)
{
	return alloc_text(ALLOC_GATEWAY, text);
}

/* mt_realloc -- what is new is not zeroed. */
static inline void *
mt_realloc(void *memory, size_t bytes)
{
	return alloc_resized(ALLOC_GATEWAY, memory, bytes);
}

static inline void
mt_free(void *memory)
{
	alloc_free(ALLOC_GATEWAY, memory);
}

#ifdef CLEAVE_TEST_BUILD
/* mt_alloc_fail_at, mt_alloc_has_failed -- base/alloc.h's, of this part. */
static inline void
mt_alloc_fail_at(uint32_t nth)
{
	alloc_fail_at(ALLOC_GATEWAY, nth);
}

static inline int
mt_alloc_has_failed(void)
{
	return alloc_has_failed(ALLOC_GATEWAY);
}
#endif

#endif /* CLEAVE_MIDDLETIER_COMMON_ALLOC_H */
