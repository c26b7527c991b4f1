/* SPDX-License-Identifier: Apache-2.0 */
/* view_take.h -- when a shard that shall be ours is tried again. For member_view.c */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_VIEW_TAKE_H
#define CLEAVE_MIDDLETIER_CLUSTER_VIEW_TAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/shard_state.h"

struct mt_member;
struct mt_member_shard;

/* mt_view_is_wanted -- the ports were told that @shard shall be ours. */
bool mt_view_is_wanted(const struct mt_member *member, uint32_t shard);
/* mt_view_is_idle -- no life of the shard is under way. */
bool mt_view_is_idle(enum mt_shard_state state);
/* mt_view_on_refused -- a wanted shard's life has ended before it served. @shard: one of @member's, idle. */
void mt_view_on_refused(struct mt_member *member, struct mt_member_shard *shard);
/* mt_view_check -- start or stop the take timer; tell on_all_served, once, when every shard has an owner. */
void mt_view_check(struct mt_member *member);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_VIEW_TAKE_H */
