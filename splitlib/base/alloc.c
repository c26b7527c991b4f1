/* SPDX-License-Identifier: Apache-2.0 */
/* alloc.c -- the C library's memory, with a switch for tests; what users run has no switch */
#include "base/alloc.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

#ifdef CLEAVE_TEST_BUILD
static _Thread_local struct alloc_fault {
	uint32_t countdown; /* to the allocation that fails; 0: none does */
	bool has_failed;
} faults[ALLOC_PART_NR];
static atomic_uint live_counts[ALLOC_PART_NR];

void
alloc_fail_at(enum alloc_part part, uint32_t nth)
{
	assert(part < ALLOC_PART_NR);
	faults[part] = (struct alloc_fault){ .countdown = nth };
}

bool
alloc_has_failed(enum alloc_part part)
{
	assert(part < ALLOC_PART_NR);
	return faults[part].has_failed;
}

uint32_t
alloc_live_count(enum alloc_part part)
{
	assert(part < ALLOC_PART_NR);
	return atomic_load(&live_counts[part]);
}

static bool
alloc_must_fail(enum alloc_part part)
{
	struct alloc_fault *fault = &faults[part];

	assert(part < ALLOC_PART_NR);
	if (fault->countdown == 0 || --fault->countdown > 0)
		return false;
	fault->has_failed = true;
	errno = ENOMEM;
	return true;
}

static void *
alloc_counted(enum alloc_part part, void *memory)
{
	assert(part < ALLOC_PART_NR);
	if (memory != NULL)
		atomic_fetch_add(&live_counts[part], 1);
	return memory;
}
#else
static bool
alloc_must_fail(enum alloc_part part)
{
	(void)part;
	return false;
}

static void *
alloc_counted(enum alloc_part part, void *memory)
{
	(void)part;
	return memory;
}
#endif

void *
alloc_zeroed(enum alloc_part part, size_t count, size_t bytes)
{
	assert(part < ALLOC_PART_NR);
	return alloc_must_fail(part) ? NULL : alloc_counted(part, calloc(count, bytes));
}

void *
alloc_resized(enum alloc_part part, void *memory, size_t bytes)
{
	void *resized;

	assert(part < ALLOC_PART_NR);
	assert(bytes > 0); /* realloc would free */
	if (alloc_must_fail(part))
		return NULL;
	resized = realloc(memory, bytes);
	return memory == NULL ? alloc_counted(part, resized) : resized;
}

void *
alloc_aligned(enum alloc_part part, size_t align, size_t bytes)
{
	assert(align > 0);
	assert(bytes % align == 0);
	return alloc_must_fail(part) ? NULL : alloc_counted(part, aligned_alloc(align, bytes));
}

char *
alloc_text(enum alloc_part part, const char *text)
{
	assert(text != NULL);
	return alloc_must_fail(part) ? NULL : alloc_counted(part, strdup(text));
}

void
alloc_free(enum alloc_part part, void *memory)
{
	assert(part < ALLOC_PART_NR);
#ifdef CLEAVE_TEST_BUILD
	if (memory != NULL)
		atomic_fetch_sub(&live_counts[part], 1);
#endif
	free(memory);
}
