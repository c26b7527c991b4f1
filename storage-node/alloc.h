/* SPDX-License-Identifier: Apache-2.0 */
/* alloc.h -- the node's memory, of which a test can make the n-th allocation fail. Only a start allocates. */
#ifndef CLEAVE_STORAGE_ALLOC_H
#define CLEAVE_STORAGE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

/* sn_calloc -- zeroed; freed by free(). NULL with errno: out of memory. */
void *sn_calloc(size_t count, size_t bytes);
/* sn_page_alloc -- the same, aligned so that the disk can be given it. @bytes: whole pages, more than none. */
void *sn_page_alloc(uint64_t bytes);
#ifdef CLEAVE_TEST_BUILD
/* sn_alloc_fail_at -- the @nth allocation from now on fails; 0: none. */
void sn_alloc_fail_at(uint32_t nth);
#endif

#endif /* CLEAVE_STORAGE_ALLOC_H */
