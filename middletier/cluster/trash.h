/* SPDX-License-Identifier: Apache-2.0 */
/* trash.h -- volumes in the trash are purged when their time is over */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_TRASH_H
#define CLEAVE_MIDDLETIER_CLUSTER_TRASH_H

#include <stdint.h>

struct mt_gateway;
struct mt_volume_entry;

/* mt_trash_init -- nothing is done before the first kick. Without memory nothing is purged, and nothing else is wrong. */
void mt_trash_init(struct mt_gateway *gateway);
/* mt_trash_fini -- a no-op where there is none. */
void mt_trash_fini(struct mt_gateway *gateway);
/* mt_trash_kick -- main: the tables were read anew, or shard 0 serves here now. */
void mt_trash_kick(struct mt_gateway *gateway);
/* mt_trash_left_ms -- until @entry, which is in the trash, may be purged, at least; 0: it may be now, or is being purged. */
uint64_t mt_trash_left_ms(const struct mt_gateway *gateway, const struct mt_volume_entry *entry);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_TRASH_H */
