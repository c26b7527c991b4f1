/* SPDX-License-Identifier: Apache-2.0 */
/* member_view.h -- which gateways live, who owns each shard, and which of them we shall own */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_MEMBER_VIEW_H
#define CLEAVE_MIDDLETIER_CLUSTER_MEMBER_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "common/shard_state.h"

struct mt_member;
struct mt_member_peer;

/* mt_view_init -- by mt_member_init. 0; -ENOMEM, and mt_view_fini is due all the same. */
int mt_view_init(struct mt_member *member);
void mt_view_fini(struct mt_member *member);
/* mt_view_start -- watch from now on. The first reading comes with the lease. 0; -ENOMEM. */
int mt_view_start(struct mt_member *member);
/* mt_view_stop -- no readings any more. */
void mt_view_stop(struct mt_member *member);
/* mt_view_on_lease -- we have become a member, or ceased to be one: ports are told what that means. */
void mt_view_on_lease(struct mt_member *member, bool is_member);
/* mt_view_on_shard -- our port's struct for it has changed. */
void mt_view_on_shard(struct mt_member *member, uint32_t shard, enum mt_shard_state state,
    uint32_t epoch);
/* mt_view_is_live -- that incarnation's key was there at the last reading. */
bool mt_view_is_live(const struct mt_member *member, uint64_t gateway_id, uint64_t boot_id);
/* mt_view_pick -- who shall own @shard, of those that live. NULL: nobody is known. */
const struct mt_member_peer *mt_view_pick(const struct mt_member *member, uint32_t shard);
/* mt_view_rank -- how much gateway @gateway_id is wanted for @shard, by all who ask. */
uint64_t mt_view_rank(uint32_t shard, uint64_t gateway_id);
/*
 * mt_view_assign -- who of @ids shall own which shard: rendezvous hashing with equal shares
 *
 * Shards are gone through in order; each goes to the gateway that ranks highest for it among those whose
 * share is not full. Shares differ by one at most. The order of @ids does not matter, and who comes or
 * goes moves little more than its own share. @count: 1 to MT_GATEWAYS_MAX.
 */
void mt_view_assign(const uint64_t *ids, uint32_t count, uint32_t shard_count, uint8_t *ret_picks);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_MEMBER_VIEW_H */
