/* SPDX-License-Identifier: Apache-2.0 */
/* search.h -- binary search in what is sorted */
#ifndef CLEAVE_BASE_SEARCH_H
#define CLEAVE_BASE_SEARCH_H

#include <stdint.h>

/*
 * SEARCH_FIRST -- the first of @count sorted elements that does not come before what is sought
 *
 *	uint32_t at;
 *
 *	SEARCH_FIRST(at, table->count, table->entries[at].id < id);
 *
 * @at is a uint32_t variable of the caller's. @is_before is an expression in it, true for a first part of
 * the indexes 0 to @count - 1 and false for the others; it is asked for about log2 of them, and for none
 * but these. Afterwards @at is the first index for which it is false; @count: there is none. With `<`
 * that is the first of the equal ones, with `<=` the first behind them.
 */
#define SEARCH_FIRST(at, count, is_before)                                                         \
	do {                                                                                       \
		uint32_t search_low = 0, search_high = (count);                                    \
                                                                                                   \
		while (search_low < search_high) {                                                 \
			(at) = search_low + (search_high - search_low) / 2;                        \
			if (is_before)                                                             \
				search_low = (at) + 1;                                             \
			else                                                                       \
				search_high = (at);                                                \
		}                                                                                  \
		(at) = search_low;                                                                 \
	} while (0)

#endif /* CLEAVE_BASE_SEARCH_H */
