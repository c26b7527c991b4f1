/* SPDX-License-Identifier: Apache-2.0 */
/* block_set.c -- see block_set.h */
#include "merge/block_set.h"

#include "base/check.h"

#define WORD_BITS 64u

bool
mt_block_set_add(struct mt_block_set *set, uint32_t from, uint32_t end)
{
	bool is_new = false;

	assert(from <= end && end <= CLEAVE_CHUNK_BLOCKS);
	for (uint32_t block = from; block < end; block++) {
		uint64_t bit = UINT64_C(1) << block % WORD_BITS;

		is_new = is_new || (set->words[block / WORD_BITS] & bit) == 0;
		set->words[block / WORD_BITS] |= bit;
	}
	return is_new;
}

bool
mt_block_set_add_words(struct mt_block_set *set, const uint64_t *words)
{
	bool is_new = false;

	for (uint32_t i = 0; i < MT_BLOCK_SET_WORDS; i++) {
		is_new = is_new || (words[i] & ~set->words[i]) != 0;
		set->words[i] |= words[i];
	}
	return is_new;
}

bool
mt_block_set_has(const struct mt_block_set *set, uint32_t block)
{
	assert(block < CLEAVE_CHUNK_BLOCKS);
	return (set->words[block / WORD_BITS] >> block % WORD_BITS & 1u) != 0;
}
