/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_gather.c -- arbitrary bytes as the list of a GATHER, as many stretches as there are
 *
 * What they come to is made to fit, too. What passes must encode to itself, and lies in an extent, one stretch behind the
 * other: a node reads what it says, each in blocks of the disk, into one receive.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/num.h"
#include "cleave/disk.h"
#include "cleave/gather.h"
#include "cleave/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void
try_list(const uint8_t *data, uint32_t count, uint32_t length_bytes)
{
	struct wire_stretch list[WIRE_GATHER_MAX];
	uint8_t again[WIRE_GATHER_MAX * WIRE_STRETCH_BYTES];
	const char *field = NULL;
	uint64_t end = 0, sum = 0, read = 0;

	if (wire_gather_decode(data, count, length_bytes, list, &field) != 0) {
		assert(field != NULL);
		return;
	}
	for (uint32_t i = 0; i < count; i++) {
		uint64_t begin = list[i].offset_bytes, next = begin + list[i].length_bytes;

		assert(list[i].length_bytes > 0 && begin >= end);
		end = next;
		sum += list[i].length_bytes;
		read += num_round_up(next, DISK_ALIGN) - num_round_down(begin, DISK_ALIGN);
	}
	assert(end <= CLEAVE_CHUNK_BYTES && sum == length_bytes);
	assert(read <= sum + 2 * (uint64_t)count * DISK_ALIGN);
	wire_gather_encode(again, list, count);
	assert(memcmp(again, data, count * WIRE_STRETCH_BYTES) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	uint32_t count = (uint32_t)(bytes / WIRE_STRETCH_BYTES), sum = 0;

	if (count < 1 || count > WIRE_GATHER_MAX)
		return 0;
	for (uint32_t i = 0; i < count; i++)
		sum += num_get_le32(data + i * WIRE_STRETCH_BYTES + 4);
	try_list(data, count, sum);
	try_list(data, count, num_get_le32(data));
	return 0;
}
