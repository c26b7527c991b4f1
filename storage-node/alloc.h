/* SPDX-License-Identifier: Apache-2.0 */
/* alloc.h -- the node's memory: only a start allocates */
#ifndef CLEAVE_STORAGE_NODE_ALLOC_H
#define CLEAVE_STORAGE_NODE_ALLOC_H

#include "base/alloc.h"

#include <string.h>

#include "format/ondisk.h"

/*
 * sn_calloc -- zeroed memory for @count objects of @bytes each
 *
 * Ended by free(). Returns NULL with errno ENOMEM: there is none.
 */
static inline void *
sn_calloc(size_t count, size_t bytes)
{
	return alloc_zeroed(ALLOC_NODE, count, bytes);
}

/*
 * sn_page_alloc -- zeroed memory that a disk can read and write: aligned to ONDISK_PAGE_BYTES
 *
 * @bytes: whole pages. Ended by free(). Returns NULL with errno ENOMEM: there is none.
 */
static inline void *
sn_page_alloc(uint64_t bytes)
{
	void *memory = alloc_aligned(ALLOC_NODE, ONDISK_PAGE_BYTES, bytes);

	if (memory != NULL)
		memset(memory, 0, bytes);
	return memory;
}

#ifdef CLEAVE_TEST_BUILD
/* sn_alloc_fail_at -- let the @nth allocation of this thread from now on fail (base/alloc.h); 0: none. */
static inline void
sn_alloc_fail_at(uint32_t nth)
{
	alloc_fail_at(ALLOC_NODE, nth);
}
#endif

#endif /* CLEAVE_STORAGE_NODE_ALLOC_H */
