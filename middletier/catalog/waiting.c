/* SPDX-License-Identifier: Apache-2.0 */
/*
 * waiting.c -- the shards that have not reclaimed yet what was deleted: a bit set as hex text
 *
 * Shard 0 is the lowest bit of the last digit. The member "waiting" of a deleted volume's mark and of a
 * deleted snapshot's key has it.
 */
#include "catalog/waiting.h"

#include <string.h>

#include "base/check.h"
#include "cleave/wire.h"
#include "common/alloc.h"

char *
mt_waiting_all(uint32_t shard_count)
{
	uint32_t digits = (shard_count + 3) / 4;
	char *text = mt_calloc(1, digits + 1u);

	assert(shard_count >= 1);
	assert(shard_count <= CLEAVE_SHARDS_MAX);
	if (text == NULL)
		return NULL;
	memset(text, 'f', digits);
	if (shard_count % 4 != 0)
		text[0] = "0137"[shard_count % 4];
	return text;
}

bool
mt_waiting_read(const char *text, uint32_t shard_count, uint64_t *ret_bits)
{
	uint32_t digits = (shard_count + 3) / 4;

	assert(shard_count >= 1);
	assert(shard_count <= CLEAVE_SHARDS_MAX);
	if (text == NULL || strlen(text) != digits || strspn(text, "0123456789abcdef") != digits)
		return false;
	for (uint32_t i = 0; i < shard_count; i++) {
		char digit = text[digits - 1 - i / 4];
		uint32_t value = digit <= '9' ? (uint32_t)(digit - '0')
					      : (uint32_t)(digit - 'a' + 10);

		if ((value & 1u << i % 4) != 0)
			ret_bits[i / 64] |= UINT64_C(1) << i % 64;
	}
	return true;
}

bool
mt_waiting_write(char *text, uint32_t shard_count, const uint64_t *bits)
{
	uint32_t digits = (shard_count + 3) / 4;
	bool is_any = false;

	assert(shard_count >= 1);
	assert(shard_count <= CLEAVE_SHARDS_MAX);
	for (uint32_t i = 0; i < digits; i++) {
		uint32_t value = (uint32_t)(bits[i / 16] >> i % 16 * 4) & 15u;

		text[digits - 1 - i] = "0123456789abcdef"[value];
		is_any = is_any || value != 0;
	}
	return is_any;
}
