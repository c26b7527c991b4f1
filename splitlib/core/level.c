/* SPDX-License-Identifier: Apache-2.0 */
/*
 * level.c -- the level that the next hello to a peer offers: the highest, or what an older one understands
 *
 *	highest --(refused with VERSION)--> lowest, for a minute or until that connection ends --> highest
 *
 * Releases of level 1 compare the number with their own and refuse every other. All later ones answer
 * with the lower of the two, so they are never dialled twice.
 */
#include "cleave/level.h"

#include <errno.h>

#include "base/check.h"
#include "base/num.h"

void
wire_level_init(struct wire_level *level, uint8_t max)
{
	assert(max <= CLEAVE_LEVEL_MAX);
	*level = (struct wire_level){ .max = max == 0 ? CLEAVE_LEVEL_MAX : max };
	assert(level->max >= CLEAVE_LEVEL_MIN);
}

uint8_t
wire_level_offer(struct wire_level *level, uint64_t now_ns)
{
	assert(level->max >= CLEAVE_LEVEL_MIN);
	if (now_ns >= level->until_ns)
		level->until_ns = 0;
	level->offered = level->until_ns == 0 ? level->max : CLEAVE_LEVEL_MIN;
	return level->offered;
}

bool
wire_level_refused(struct wire_level *level, int rc, uint64_t now_ns)
{
	assert(level->offered >= CLEAVE_LEVEL_MIN);
	if (rc != -EPROTONOSUPPORT || level->offered == CLEAVE_LEVEL_MIN)
		return false;
	level->until_ns = now_ns + LEVEL_REMEMBERED_NS;
	return true;
}

void
wire_level_forget(struct wire_level *level)
{
	assert(level->max >= CLEAVE_LEVEL_MIN);
	level->until_ns = 0;
}

uint8_t
wire_level_agreed(const struct wire_level *level, uint8_t answered)
{
	assert(level->offered >= CLEAVE_LEVEL_MIN);
	return answered <= level->offered ? answered : 0;
}

uint8_t
wire_level_answer(uint8_t offered, uint8_t max)
{
	assert(offered >= CLEAVE_LEVEL_MIN);
	assert(max <= CLEAVE_LEVEL_MAX);
	return (uint8_t)num_min(offered, max == 0 ? CLEAVE_LEVEL_MAX : max);
}
