/* SPDX-License-Identifier: Apache-2.0 */
/* array.h -- a sorted array of structs that grows: room, a gap for a new entry, an entry that goes */
#ifndef CLEAVE_MIDDLETIER_COMMON_ARRAY_H
#define CLEAVE_MIDDLETIER_COMMON_ARRAY_H

#include <stddef.h>
#include <stdint.h>

/*
 * mt_array_grow -- room for @need entries of @entry_bytes in the array at *@memory, whose room is *@max
 *
 * Room is doubled, so that entries that come one by one are copied a few times each. 0; -ENOMEM, and the
 * array is as it was. What is new in it is not set.
 */
int mt_array_grow(void **memory, uint32_t *max, uint64_t need, size_t entry_bytes);
/* mt_array_insert -- a gap at @at <= *@count, which grows; there is room. Returns the gap, not set. */
void *mt_array_insert(void *memory, uint32_t *count, uint32_t at, size_t entry_bytes);
/* mt_array_remove -- entry @at < *@count goes; those behind it move up. */
void mt_array_remove(void *memory, uint32_t *count, uint32_t at, size_t entry_bytes);

#endif /* CLEAVE_MIDDLETIER_COMMON_ARRAY_H */
