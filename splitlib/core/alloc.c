/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alloc.c -- the library's memory, so that a test can make the n-th allocation fail
 *
 * Start-up and connections allocate; messages never do. Ports of several threads share the counters
 * of a test build, so these are atomic.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "alloc.h"

#ifdef CLEAVE_TEST_BUILD
static atomic_uint alloc_fail_countdown; /* 0: never */
static atomic_uint alloc_live_count;

void
split_alloc_fail_at(uint32_t nth)
{
	atomic_store(&alloc_fail_countdown, nth);
}

uint32_t
split_alloc_live_count(void)
{
	return atomic_load(&alloc_live_count);
}

static bool
alloc_must_fail(void)
{
	uint32_t left = atomic_load(&alloc_fail_countdown);

	if (left == 0)
		return false;
	atomic_store(&alloc_fail_countdown, left - 1);
	return left == 1;
}

static void
alloc_count(int delta)
{
	atomic_fetch_add(&alloc_live_count, (unsigned)delta);
}
#else
static bool
alloc_must_fail(void)
{
	return false;
}

static void
alloc_count(int delta)
{
	(void)delta;
}
#endif

void *
split_calloc(size_t count, size_t bytes)
{
	void *memory;

	if (alloc_must_fail()) {
		errno = ENOMEM;
		return NULL;
	}
	memory = calloc(count, bytes);
	if (memory != NULL)
		alloc_count(1);
	return memory;
}

void
split_free(void *memory)
{
	if (memory == NULL)
		return;
	alloc_count(-1);
	free(memory);
}
