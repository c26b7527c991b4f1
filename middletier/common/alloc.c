/* SPDX-License-Identifier: Apache-2.0 */
/* alloc.c -- calloc and friends, with a switch for tests */
#include "common/alloc.h"

#include <stdlib.h>
#include <string.h>

#ifdef CLEAVE_TEST_BUILD
static _Thread_local uint32_t fail_countdown;
static _Thread_local int has_failed;

void
mt_alloc_fail_at(uint32_t nth)
{
	fail_countdown = nth;
	has_failed = 0;
}

int
mt_alloc_has_failed(void)
{
	return has_failed;
}

static int
alloc_must_fail(void)
{
	if (fail_countdown == 0 || --fail_countdown > 0)
		return 0;
	has_failed = 1;
	return 1;
}
#else
static int
alloc_must_fail(void)
{
	return 0;
}
#endif

void *
mt_calloc(size_t count, size_t bytes)
{
	return alloc_must_fail() ? NULL : calloc(count, bytes);
}

void *
mt_realloc(void *memory, size_t bytes)
{
	return alloc_must_fail() ? NULL : realloc(memory, bytes);
}

char *
mt_strdup(const char *text)
{
	return alloc_must_fail() ? NULL : strdup(text);
}

void
mt_free(void *memory)
{
	free(memory);
}
