/* SPDX-License-Identifier: Apache-2.0 */
/* block_set.h -- a set of blocks of one chunk, a bit each; of zeros it is empty */
#ifndef CLEAVE_MIDDLETIER_MERGE_BLOCK_SET_H
#define CLEAVE_MIDDLETIER_MERGE_BLOCK_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/wire.h"

#define MT_BLOCK_SET_WORDS (CLEAVE_CHUNK_BLOCKS / 64u)

struct mt_block_set {
	uint64_t words[MT_BLOCK_SET_WORDS];
};

/* mt_block_set_add -- the blocks from @from to before @end, which are the chunk's. Returns whether one of them is new. */
bool mt_block_set_add(struct mt_block_set *set, uint32_t from, uint32_t end);
/* mt_block_set_add_words -- those of another set, as bits in MT_BLOCK_SET_WORDS words. Returns likewise. */
bool mt_block_set_add_words(struct mt_block_set *set, const uint64_t *words);
/* mt_block_set_has -- @block is one of the chunk's. */
bool mt_block_set_has(const struct mt_block_set *set, uint32_t block);

#endif /* CLEAVE_MIDDLETIER_MERGE_BLOCK_SET_H */
