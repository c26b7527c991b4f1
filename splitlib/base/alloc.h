/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alloc.h -- memory off the data path, of which a test can let the n-th allocation fail
 *
 * Each part of a program has allocations of its own, so that a test of one does not fail those of the
 * other, which stands beside it in the same process. A part gives these calls names of its own, once.
 *
 * Threads: any. What is to fail belongs to the thread that said so; the count of what lives is shared.
 */
#ifndef CLEAVE_BASE_ALLOC_H
#define CLEAVE_BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum alloc_part { ALLOC_SPLIT, ALLOC_NODE, ALLOC_GATEWAY, ALLOC_CLIENT, ALLOC_PART_NR };

/*
 * alloc_zeroed, alloc_resized, alloc_aligned, alloc_text -- calloc, realloc, aligned_alloc, strdup for @part
 *
 * The memory is the C library's: free() may end it, too. alloc_resized and alloc_aligned do not zero what
 * is new. Returns NULL with errno ENOMEM: there is none, and what alloc_resized was given stays as it is.
 */
void *alloc_zeroed(enum alloc_part part, size_t count, size_t bytes);
void *alloc_resized(enum alloc_part part, void *memory, size_t bytes);
void *alloc_aligned(enum alloc_part part, size_t align, size_t bytes);
char *alloc_text(enum alloc_part part, const char *text);
/* alloc_free -- NULL is a no-op. */
void alloc_free(enum alloc_part part, void *memory);

#ifdef CLEAVE_TEST_BUILD
/* alloc_fail_at -- @part's @nth allocation of this thread from now on fails (1: the next), once; 0: none does. */
void alloc_fail_at(enum alloc_part part, uint32_t nth);
/* alloc_has_failed -- has it, since this thread's last alloc_fail_at? */
bool alloc_has_failed(enum alloc_part part);
/* alloc_live_count -- @part's allocations that alloc_free has not had: for parts that free by nothing else. */
uint32_t alloc_live_count(enum alloc_part part);
#endif

#endif /* CLEAVE_BASE_ALLOC_H */
