/* SPDX-License-Identifier: Apache-2.0 */
/* leaving.h -- what a copy waits for that is to leave a node which drains */
#ifndef CLEAVE_MIDDLETIER_UPKEEP_LEAVING_H
#define CLEAVE_MIDDLETIER_UPKEEP_LEAVING_H

#include <stdint.h>

struct mt_extent;

/* X(symbol, its name in a gateway's answers) */
#define MT_LEAVING_LIST(X)                                                                         \
	X(OPEN, "open")       /* it is written, or goes anyway: begun anew elsewhere, soon */      \
	X(MOVING, "moving")   /* it is copied now */                                               \
	X(BUDGET, "budget")   /* its turn: others are copied now, at --repair-rate */              \
	X(LACKING, "lacking") /* extents of its shard lack copies, and are first */                \
	X(FAILED, "failed")   /* it could not be copied, and is tried again after a pause */       \
	X(NO_ROOM, "no_room") /* no node of another domain can take it */

#define MT_LEAVING_ENUM(symbol, name) MT_LEAVING_##symbol,
enum mt_leaving { MT_LEAVING_LIST(MT_LEAVING_ENUM) MT_LEAVING_NR };
#undef MT_LEAVING_ENUM

/* mt_leaving_of -- what @extent's copy at a node that drains waits for, as its shard's repair would judge it now. */
enum mt_leaving mt_leaving_of(const struct mt_extent *extent);
/* mt_leaving_name -- never NULL. */
const char *mt_leaving_name(enum mt_leaving leaving);

#endif /* CLEAVE_MIDDLETIER_UPKEEP_LEAVING_H */
