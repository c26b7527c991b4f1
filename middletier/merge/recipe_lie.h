/* SPDX-License-Identifier: Apache-2.0 */
/* recipe_lie.h -- for tests: who executes a recipe lies about it now and then, so that it is seen that lies are refused */
#ifndef CLEAVE_MIDDLETIER_MERGE_RECIPE_LIE_H
#define CLEAVE_MIDDLETIER_MERGE_RECIPE_LIE_H

#include <stdint.h>

enum recipe_lie {
	RECIPE_LIE_NONE,
	RECIPE_LIE_LEAVES_OUT, /* the last frame of the first window */
	RECIPE_LIE_CLAIMS,     /* that the last part is longer */
	RECIPE_LIE_UNACKED,    /* a guest: that batches are acknowledged that have failed */
	RECIPE_LIE_STOPS,      /* another gateway: the last frame is not made, and it says so */
	RECIPE_LIE_GARBLES, /* another gateway: what is stored of blocks is not what they become */
};

/* mt_recipe_lie -- with number @count of them; one of @lies recipes is executed wrongly: mt_settings.recipe_lies. */
static inline enum recipe_lie
mt_recipe_lie(uint32_t count, uint32_t lies)
{
	if (lies == 0)
		return RECIPE_LIE_NONE;
	if (count % lies != 0) /* mostly it is none */
		return count % 2 == 0 ? RECIPE_LIE_UNACKED : RECIPE_LIE_NONE;
	return count / lies % 2 == 0 ? RECIPE_LIE_CLAIMS : RECIPE_LIE_LEAVES_OUT;
}

/* mt_recipe_lie_away -- likewise, by another gateway. */
static inline enum recipe_lie
mt_recipe_lie_away(uint32_t count, uint32_t lies)
{
	if (lies > 4 && count % lies == 4)
		return RECIPE_LIE_GARBLES;
	return lies > 3 && count % lies == 3 && count % 2 == 1 ? RECIPE_LIE_STOPS
							       : mt_recipe_lie(count, lies);
}

#endif /* CLEAVE_MIDDLETIER_MERGE_RECIPE_LIE_H */
