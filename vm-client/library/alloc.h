/* SPDX-License-Identifier: Apache-2.0 */
/* alloc.h -- the memory of the library and of the agent, which tests can let fail; free() ends it */
#ifndef CLEAVE_VM_CLIENT_ALLOC_H
#define CLEAVE_VM_CLIENT_ALLOC_H

#include "base/alloc.h"

/* client_calloc, client_realloc, client_strdup -- like the C library's. */
static inline void *
client_calloc(size_t count, size_t bytes)
{
	return alloc_zeroed(ALLOC_CLIENT, count, bytes);
}

static inline void *
client_realloc(void *memory, size_t bytes)
{
	return alloc_resized(ALLOC_CLIENT, memory, bytes);
}

static inline char *
client_strdup(const char *text)
{
	return alloc_text(ALLOC_CLIENT, text);
}

/* client_aligned_alloc -- @bytes in whole @align; not zeroed. */
static inline void *
client_aligned_alloc(size_t align, size_t bytes)
{
	return alloc_aligned(ALLOC_CLIENT, align, bytes);
}

/* client_malloc -- memory that is not zeroed. */
static inline void *
client_malloc(size_t bytes)
{
	return alloc_resized(ALLOC_CLIENT, NULL, bytes);
}

#endif /* CLEAVE_VM_CLIENT_ALLOC_H */
