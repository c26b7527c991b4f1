/* SPDX-License-Identifier: Apache-2.0 */
/* wish.c -- what a volume may ask for: one of the engines, or "auto" */
#include "catalog/wish.h"

#include <string.h>

#include "base/check.h"
#include "cleave/engine.h"

static const struct mt_wish wish_auto = { .name = "auto", .codec_id = MT_CODEC_AUTO };

static bool
wish_of(const struct engine_ops *ops, struct mt_wish *ret_wish)
{
	assert(ret_wish != NULL);
	if (ops == NULL)
		return false;
	*ret_wish = (struct mt_wish){
		.name = ops->name,
		.codec_id = ops->wire_id,
		.level_min = ops->level_min,
		.level_max = ops->level_max,
		.level_default = ops->level_default,
	};
	return true;
}

bool
mt_wish_by_name(const char *name, struct mt_wish *ret_wish)
{
	assert(name != NULL);
	if (strcmp(name, wish_auto.name) != 0)
		return wish_of(engine_by_name(name), ret_wish);
	*ret_wish = wish_auto;
	return true;
}

bool
mt_wish_by_id(uint8_t codec_id, struct mt_wish *ret_wish)
{
	if (codec_id != MT_CODEC_AUTO)
		return wish_of(engine_by_id(codec_id), ret_wish);
	*ret_wish = wish_auto;
	return true;
}
