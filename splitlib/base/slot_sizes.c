/* SPDX-License-Identifier: Apache-2.0 */
/* slot_sizes.c -- see slot_sizes.h */
#include "base/slot_sizes.h"

#include <assert.h>

#include "base/num.h"

static uint64_t
sum_of_size(const struct slot_size *nodes, uint32_t count, uint64_t slot_bytes)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < count; i++)
		sum += nodes[i].slot_bytes == slot_bytes ? nodes[i].slot_count * slot_bytes : 0;
	return sum;
}

uint64_t
slot_sizes_usual(const struct slot_size *nodes, uint32_t count)
{
	uint64_t usual = 0, usual_sum = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t slot_bytes = nodes[i].slot_bytes;
		uint64_t sum = sum_of_size(nodes, count, slot_bytes);

		assert(slot_bytes > 0 && nodes[i].slot_count > 0);
		if (sum > usual_sum || (sum == usual_sum && slot_bytes < usual)) {
			usual_sum = sum;
			usual = slot_bytes;
		}
	}
	return usual;
}

uint64_t
slot_sizes_wasted(uint64_t a_bytes, uint64_t b_bytes)
{
	uint64_t large = num_max(a_bytes, b_bytes), small = num_min(a_bytes, b_bytes);

	assert(small > 0);
	return num_max((large - small) * 100 / large, 1);
}
