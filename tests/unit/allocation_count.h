/* SPDX-License-Identifier: Apache-2.0 */
/*
 * allocation_count.h -- how often this program has allocated: by itself, or by a library
 *
 * Include it in one file of the program. A sanitizer has an allocator of its own: HAS_ALLOCATION_COUNT is not defined
 * then, and tests that count are left out.
 */
#ifndef CLEAVE_TESTS_ALLOCATION_COUNT_H
#define CLEAVE_TESTS_ALLOCATION_COUNT_H

#include <stddef.h>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define HAS_ALLOCATION_COUNT 1

static unsigned long allocation_count;
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);
void *malloc(size_t bytes);
void *calloc(size_t count, size_t bytes);
void *realloc(void *memory, size_t bytes);
void *aligned_alloc(size_t alignment, size_t bytes);

/* In the program, so those of GnuTLS and of libev come here, too. */
void *
malloc(size_t bytes)
{
	allocation_count++;
	return __libc_malloc(bytes);
}

void *
calloc(size_t count, size_t bytes)
{
	allocation_count++;
	return __libc_calloc(count, bytes);
}

void *
realloc(void *memory, size_t bytes)
{
	allocation_count++;
	return __libc_realloc(memory, bytes);
}

void *
aligned_alloc(size_t alignment, size_t bytes)
{
	allocation_count++;
	return __libc_memalign(alignment, bytes);
}
#endif

#endif /* CLEAVE_TESTS_ALLOCATION_COUNT_H */
