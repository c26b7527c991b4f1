/* SPDX-License-Identifier: Apache-2.0 */
/* alloc.h -- the gateway's allocations off the data path, which tests can let fail */
#ifndef CLEAVE_MIDDLETIER_COMMON_ALLOC_H
#define CLEAVE_MIDDLETIER_COMMON_ALLOC_H

#include <stddef.h>
#include <stdint.h>

/* mt_calloc, mt_strdup -- like the C library's. mt_free: NULL is a no-op. */
void *mt_calloc(size_t count, size_t bytes);
char *mt_strdup(const char *text);
/* mt_realloc -- what is new is not zeroed. */
void *mt_realloc(void *memory, size_t bytes);
void mt_free(void *memory);
#ifdef CLEAVE_TEST_BUILD
/* mt_alloc_fail_at -- the @nth allocation from now on fails (1: the next), once; 0: none does. */
void mt_alloc_fail_at(uint32_t nth);
/* mt_alloc_has_failed -- since mt_alloc_fail_at. */
int mt_alloc_has_failed(void);
#endif

#endif /* CLEAVE_MIDDLETIER_COMMON_ALLOC_H */
