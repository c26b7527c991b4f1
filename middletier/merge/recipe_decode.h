/* SPDX-License-Identifier: Apache-2.0 */
/* recipe_decode.h -- what a recipe says, once it has passed; recipe.h has its layout */
#ifndef CLEAVE_MIDDLETIER_MERGE_RECIPE_DECODE_H
#define CLEAVE_MIDDLETIER_MERGE_RECIPE_DECODE_H

#include <stdbool.h>
#include <stdint.h>

#include "merge/recipe.h"

/* A recipe that has passed. Its bytes are borrowed. */
struct mt_recipe {
	struct mt_recipe_head head;
	const uint8_t *extents, *sources, *frames, *crcs;
};
/*
 * mt_recipe_decode -- @length_bytes bytes from elsewhere: every field is checked, once
 *
 * Returns 0; -EBADMSG: it is none, and *@ret_field is a static name of what is wrong. Threads: any.
 */
int mt_recipe_decode(const void *bytes, uint32_t length_bytes, struct mt_recipe *ret_recipe,
    const char **ret_field);
/* mt_recipe_extent, _source, _frame, _crc -- number @at of a recipe that has passed. */
struct mt_recipe_extent mt_recipe_extent(const struct mt_recipe *recipe, uint32_t at);
struct mt_recipe_source mt_recipe_source(const struct mt_recipe *recipe, uint32_t at);
struct mt_recipe_frame mt_recipe_frame(const struct mt_recipe *recipe, uint32_t at);
uint32_t mt_recipe_crc(const struct mt_recipe *recipe, uint32_t at);

/*
 * mt_recipe_encrypts -- is anything made of blocks that came encrypted?
 *
 * It is encrypted again, and its CRCs are where only engines see them: nobody can compare it with the recipe.
 */
bool mt_recipe_encrypts(const struct mt_recipe *recipe);

#endif /* CLEAVE_MIDDLETIER_MERGE_RECIPE_DECODE_H */
