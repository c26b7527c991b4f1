/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alloc.c -- the node's memory, so that a test can make the n-th allocation fail
 *
 * Only a start allocates. One thread.
 */
#include "alloc.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "format/ondisk.h"

#ifdef CLEAVE_TEST_BUILD
static uint32_t alloc_fail_countdown; /* 0: never */

void
sn_alloc_fail_at(uint32_t nth)
{
	alloc_fail_countdown = nth;
}

static bool
alloc_must_fail(void)
{
	return alloc_fail_countdown > 0 && --alloc_fail_countdown == 0;
}
#else
static bool
alloc_must_fail(void)
{
	return false;
}
#endif

void *
sn_calloc(size_t count, size_t bytes)
{
	assert(count > 0 && bytes > 0);
	if (alloc_must_fail()) {
		errno = ENOMEM;
		return NULL;
	}
	return calloc(count, bytes);
}

void *
sn_page_alloc(uint64_t bytes)
{
	void *memory;

	assert(bytes > 0 && bytes % ONDISK_PAGE_BYTES == 0);
	if (alloc_must_fail()) {
		errno = ENOMEM;
		return NULL;
	}
	memory = aligned_alloc(ONDISK_PAGE_BYTES, bytes);
	if (memory != NULL)
		memset(memory, 0, bytes);
	return memory;
}
