/* SPDX-License-Identifier: Apache-2.0 */
/* member_view.h -- which gateways live, who owns each shard, and which of them we shall own */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_MEMBER_VIEW_H
#define CLEAVE_MIDDLETIER_CLUSTER_MEMBER_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "common/shard_state.h"

struct mt_member;
struct mt_member_peer;

/* mt_view_init -- a view of nothing, for mt_member_init. Returns 0; -ENOMEM, and mt_view_fini is due all the same. */
int mt_view_init(struct mt_member *member);
void mt_view_fini(struct mt_member *member);
/* mt_view_start -- watch the keys from now on; they are first read with the lease. Returns 0; -ENOMEM. */
int mt_view_start(struct mt_member *member);
/* mt_view_look -- read them without a lease, where a view was started. */
void mt_view_look(struct mt_member *member);
/* mt_view_stop -- end the watches; nothing is read any more. */
void mt_view_stop(struct mt_member *member);
/* mt_view_on_lease -- we have become a member, or ceased to be one: ports are told what that means. */
void mt_view_on_lease(struct mt_member *member, bool is_member);
/* mt_view_on_shard -- our port says that @shard is in @state now, with @epoch. */
void mt_view_on_shard(struct mt_member *member, uint32_t shard, enum mt_shard_state state,
    uint32_t epoch);
/* mt_view_is_live -- the key of gateway @gateway_id, of this boot, was there at the last reading. */
bool mt_view_is_live(const struct mt_member *member, uint64_t gateway_id, uint64_t boot_id);
/*
 * mt_view_is_judged -- who has shard 0 now has compared the metadata store with what the nodes know of it (store_age.h)
 *
 * False as well while nobody has it. In a store that is an older copy other shards may be served, whose epochs have not changed
 * since: what counts up in it would give out again what others have. True where shard 0 never had a manifest.
 */
bool mt_view_is_judged(const struct mt_member *member);
/* mt_view_pick -- the gateway that shall own @shard, of those that live; NULL: none is known. */
const struct mt_member_peer *mt_view_pick(const struct mt_member *member, uint32_t shard);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_MEMBER_VIEW_H */
