/* SPDX-License-Identifier: Apache-2.0 */
/* array.c -- see array.h */
#include "common/array.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "common/alloc.h"

#define ARRAY_ENTRIES_MIN 16u

int
mt_array_grow(void **memory, uint32_t *max, uint64_t need, size_t entry_bytes)
{
	uint64_t new_max = *max < ARRAY_ENTRIES_MIN ? ARRAY_ENTRIES_MIN : *max;
	void *grown;

	assert(entry_bytes > 0);
	assert(*memory != NULL || *max == 0);
	if (need <= *max)
		return 0;
	while (new_max < need)
		new_max *= 2;
	if (new_max > UINT32_MAX)
		return -ENOMEM;
	grown = mt_realloc(*memory, new_max * entry_bytes);
	if (grown == NULL)
		return -ENOMEM;
	*memory = grown;
	*max = (uint32_t)new_max;
	return 0;
}

void *
mt_array_insert(void *memory, uint32_t *count, uint32_t at, size_t entry_bytes)
{
	uint8_t *gap = (uint8_t *)memory + at * entry_bytes;

	assert(memory != NULL);
	assert(at <= *count);
	assert(entry_bytes > 0);
	memmove(gap + entry_bytes, gap, (*count - at) * entry_bytes);
	(*count)++;
	return gap;
}

void
mt_array_remove(void *memory, uint32_t *count, uint32_t at, size_t entry_bytes)
{
	uint8_t *gone = (uint8_t *)memory + at * entry_bytes;

	assert(at < *count);
	assert(memory != NULL);
	(*count)--;
	memmove(gone, gone + entry_bytes, (*count - at) * entry_bytes);
}
