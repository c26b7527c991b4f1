/* SPDX-License-Identifier: Apache-2.0 */
/* json_memory.h -- jansson's memory comes from base/alloc.h, which can let it fail; a header for one test program */
#ifndef CLEAVE_TEST_JSON_MEMORY_H
#define CLEAVE_TEST_JSON_MEMORY_H

#include <jansson.h>
#include <stdlib.h>

#include "base/alloc.h"

static void *
json_memory_get(size_t bytes)
{
	return alloc_resized(ALLOC_CLIENT, NULL, bytes);
}

/* json_memory_begin -- from now on it is the client's, as alloc_fail_at(ALLOC_CLIENT, n) counts. */
static void
json_memory_begin(void)
{
	json_set_alloc_funcs(json_memory_get, free);
}

/* json_memory_end -- it is the C library's again. free() ends both kinds. */
static void
json_memory_end(void)
{
	json_set_alloc_funcs(malloc, free);
}

#endif /* CLEAVE_TEST_JSON_MEMORY_H */
