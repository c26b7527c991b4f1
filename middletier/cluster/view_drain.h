/* SPDX-License-Identifier: Apache-2.0 */
/* view_drain.h -- gateways that shall have no shards, and shards that are placed, in the view of who shall own what */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_VIEW_DRAIN_H
#define CLEAVE_MIDDLETIER_CLUSTER_VIEW_DRAIN_H

#include <stdint.h>

struct meta_item;
struct mt_drained;
struct mt_member;

/* mt_view_assign -- the picks, anew: gateways came or went, or are drained or not. They cost shards times gateways. */
void mt_view_assign(struct mt_member *member);
/*
 * mt_view_take_drained -- @item: MT_DRAINED_KEY, as it was read; NULL: there is none
 *
 * Where it is not understood, what was read before counts.
 */
void mt_view_take_drained(struct mt_member *member, const struct meta_item *item);
/* mt_view_take_severed -- the same of MT_SEVERED_KEY: gateways that reach too few nodes. */
void mt_view_take_severed(struct mt_member *member, const struct meta_item *item);
/*
 * mt_view_marks -- who of the gateways @ids, which live, is left out by mt_assign_undrained
 *
 * Those that are drained, and those that are severed. Where nobody is left, those that are severed alone: a gateway that
 * shall have no shards can serve, one that reaches no node cannot. Where all are that, nobody for that reason.
 */
void mt_view_marks(const struct mt_member *member, const uint64_t *ids, uint32_t count,
    struct mt_drained *ret_marks);
/* mt_view_take_placed -- the same of MT_PLACED_KEY: shards that are at another gateway than by count. */
void mt_view_take_placed(struct mt_member *member, const struct meta_item *item);
/*
 * mt_view_keep -- we are drained, or severed: what we hold, all but the shard that goes now, is kept
 *
 * The bits of those that are kept are set in @wanted; the shard that goes has its line in the log.
 */
void mt_view_keep(struct mt_member *member, uint64_t *wanted);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_VIEW_DRAIN_H */
