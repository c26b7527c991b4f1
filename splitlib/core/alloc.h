/* SPDX-License-Identifier: Apache-2.0 */
/* alloc.h -- the library's own memory: start-up and connections allocate, messages never do */
#ifndef CLEAVE_SPLIT_ALLOC_H
#define CLEAVE_SPLIT_ALLOC_H

#include "base/alloc.h"

/* split_calloc, split_free -- zeroed memory; every allocation of the library goes through here. */
static inline void *
split_calloc(size_t count, size_t bytes)
{
	return alloc_zeroed(ALLOC_SPLIT, count, bytes);
}

static inline void
split_free(void *memory)
{
	alloc_free(ALLOC_SPLIT, memory);
}

#ifdef CLEAVE_TEST_BUILD
/* split_alloc_fail_at, split_alloc_live_count -- base/alloc.h's, of this part. */
static inline void
split_alloc_fail_at(uint32_t nth)
{
	alloc_fail_at(ALLOC_SPLIT, nth);
}

static inline uint32_t
split_alloc_live_count(void)
{
	return alloc_live_count(ALLOC_SPLIT);
}
#endif

#endif /* CLEAVE_SPLIT_ALLOC_H */
