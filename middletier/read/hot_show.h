/* SPDX-License-Identifier: Apache-2.0 */
/* hot_show.h -- slots of the table of hot blocks that a client may read by itself: shown and hidden */
#ifndef CLEAVE_MIDDLETIER_READ_HOT_SHOW_H
#define CLEAVE_MIDDLETIER_READ_HOT_SHOW_H

#include <stdint.h>

struct mt_change;
struct mt_hot;
struct mt_hot_slot;
struct mt_port;

/*
 * mt_hot_show -- VALID, of a session's page, not shown yet: its client may read it by itself from here on
 *
 * What the index has of the block now, for that session, is what the slot has; @epoch is its shard's.
 */
void mt_hot_show(struct mt_hot *hot, struct mt_hot_slot *slot, uint32_t epoch);
/* mt_hot_hide -- no client that reads by itself finds it any more; it may be hidden already. */
void mt_hot_hide(struct mt_hot *hot, struct mt_hot_slot *slot);
/* mt_hot_on_change -- port->on_change while sessions read by themselves: they find those blocks no more. */
void mt_hot_on_change(struct mt_port *port, const struct mt_change *change);

#endif /* CLEAVE_MIDDLETIER_READ_HOT_SHOW_H */
