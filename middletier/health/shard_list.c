/* SPDX-License-Identifier: Apache-2.0 */
/* shard_list.c -- numbers of shards as a text */
#include "health/shard_list.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/check.h"

#define SHARD_LIST_RANGES_MAX 4u

static bool
shard_list_has(const struct mt_shard_list *list, uint32_t shard)
{
	return shard < CLEAVE_SHARDS_MAX && (list->bits[shard / 64u] >> shard % 64u & 1) != 0;
}

void
mt_shard_list_add(struct mt_shard_list *list, uint32_t shard)
{
	assert(shard < CLEAVE_SHARDS_MAX);
	if (shard_list_has(list, shard))
		return;
	list->bits[shard / 64u] |= UINT64_C(1) << shard % 64u;
	list->count++;
}

void
mt_shard_list_text(const struct mt_shard_list *list, char out[MT_SHARD_LIST_BYTES])
{
	uint32_t range_count = 0;
	size_t used;

	assert(list->count > 0);
	used = (size_t)snprintf(out, MT_SHARD_LIST_BYTES, "shard%s", list->count > 1 ? "s" : "");
	for (uint32_t first = 0; first < CLEAVE_SHARDS_MAX; first++) {
		uint32_t last = first;

		if (!shard_list_has(list, first))
			continue;
		while (shard_list_has(list, last + 1))
			last++;
		if (range_count++ == SHARD_LIST_RANGES_MAX) {
			(void)snprintf(out + used, MT_SHARD_LIST_BYTES - used, " ... (%" PRIu32 ")",
			    list->count);
			return;
		}
		used += (size_t)snprintf(out + used, MT_SHARD_LIST_BYTES - used, "%s %" PRIu32,
		    range_count > 1 ? "," : "", first);
		if (last > first)
			used += (size_t)snprintf(out + used, MT_SHARD_LIST_BYTES - used,
			    "%s%" PRIu32, last == first + 1 ? ", " : " to ", last);
		assert(used < MT_SHARD_LIST_BYTES); /* four ranges of numbers below 10,000 */
		first = last;
	}
}
