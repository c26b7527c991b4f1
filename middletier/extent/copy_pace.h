/* SPDX-License-Identifier: Apache-2.0 */
/* copy_pace.h -- when a copy may ask for its next window: by its budget, and by what its port has receives for */
#ifndef CLEAVE_MIDDLETIER_EXTENT_COPY_PACE_H
#define CLEAVE_MIDDLETIER_EXTENT_COPY_PACE_H

#include <stdbool.h>
#include <stdint.h>

struct mt_copy;

/*
 * mt_copy_take_turn -- copy->turn_ns is when the next window may be asked for; its budget is charged with it, once
 *
 * The turn is behind all that the budget was charged with before, by other copies, too. No-op where the copy has its turn
 * (has_turn), which ends with the window that is asked for; without a budget it may at once. @copy is PACING, and has
 * not all.
 */
void mt_copy_take_turn(struct mt_copy *copy, uint64_t now_ns);
/*
 * mt_copy_may_read -- has the port receives for one more window?
 *
 * A window keeps receives of the port's pool until it is sent on, which takes replies, and so receives. All copies of a
 * port together keep an eighth of the pool, or one window.
 */
bool mt_copy_may_read(const struct mt_copy *copy);

#endif /* CLEAVE_MIDDLETIER_EXTENT_COPY_PACE_H */
