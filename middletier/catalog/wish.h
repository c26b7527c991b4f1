/* SPDX-License-Identifier: Apache-2.0 */
/* wish.h -- what a volume may ask for: one of the engines, or "auto" */
#ifndef CLEAVE_MIDDLETIER_CATALOG_WISH_H
#define CLEAVE_MIDDLETIER_CATALOG_WISH_H

#include <stdbool.h>
#include <stdint.h>

/* A volume's codec_id: no codec of its own, and in no record. */
#define MT_CODEC_AUTO 255u

struct mt_wish {
	const char *name;
	uint8_t codec_id;
	int level_min, level_max, level_default;
};
/* mt_wish_by_name, mt_wish_by_id -- false: there is none, and *@ret_wish is untouched. */
bool mt_wish_by_name(const char *name, struct mt_wish *ret_wish);
bool mt_wish_by_id(uint8_t codec_id, struct mt_wish *ret_wish);

#endif /* CLEAVE_MIDDLETIER_CATALOG_WISH_H */
