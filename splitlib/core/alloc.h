/* SPDX-License-Identifier: Apache-2.0 */
/* alloc.h -- the library's own memory */
#ifndef CLEAVE_SPLIT_ALLOC_H
#define CLEAVE_SPLIT_ALLOC_H

#include <stddef.h>
#include <stdint.h>

/* split_calloc, split_free -- zeroed memory; every allocation of the library goes through here. */
void *split_calloc(size_t count, size_t bytes);
void split_free(void *memory);
#ifdef CLEAVE_TEST_BUILD
/* split_alloc_fail_at -- let the @nth allocation from now on fail (1: the next), once; 0: none. */
void split_alloc_fail_at(uint32_t nth);
/* split_alloc_live_count -- allocations not yet freed. */
uint32_t split_alloc_live_count(void);
#endif

#endif /* CLEAVE_SPLIT_ALLOC_H */
