/* SPDX-License-Identifier: Apache-2.0 */
/* assign.h -- who shall own which shard, and which shard a drained gateway gives away next: decisions, pure functions */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_ASSIGN_H
#define CLEAVE_MIDDLETIER_CLUSTER_ASSIGN_H

#include <stdbool.h>
#include <stdint.h>

struct mt_drained;
struct mt_placed;

/*
 * mt_assign -- the owner of each shard, as an index of @ids: rendezvous hashing with equal shares
 *
 * Shards are gone through in order; each goes to the gateway that ranks highest for it among those whose
 * share is not full. Shares differ by one at most. The order of @ids does not matter, and who comes or
 * goes moves little more than its own share. @count: 1 to MT_GATEWAYS_MAX.
 */
void mt_assign(const uint64_t *ids, uint32_t count, uint32_t shard_count, uint8_t *ret_picks);
/*
 * mt_assign_undrained -- the same among those of @ids that are not in @drained
 *
 * A drain moves what the drained gateway has, and nothing else: shares are made as if all of @drained lived and took
 * shards, then theirs go to the others. So it does not matter, either, whether a drained gateway lives. Where all of them are drained nobody counts as drained: a gateway that shall have no shards serves rather than nobody.
 * Returns how many of @ids take shards.
 */
uint32_t mt_assign_undrained(const uint64_t *ids, uint32_t count, const struct mt_drained *drained,
    uint32_t shard_count, uint8_t *ret_picks);

/*
 * mt_assign_placed -- over the @picks of the above: each shard of @placed goes where it is placed
 *
 * A shard whose gateway is not among @ids, or is in @drained, is where it is by count. @taker_count: what
 * mt_assign_undrained returned.
 */
void mt_assign_placed(const uint64_t *ids, uint32_t count, const struct mt_drained *drained,
    uint32_t taker_count, const struct mt_placed *placed, uint32_t shard_count, uint8_t *picks);

/*
 * A gateway as everybody sees it, from its mark and its roots:
 *
 *	           drain                    the last shard is released
 *	SERVING ----------> DRAINING ----------------------------------> DRAINED
 *	   ^                   |                                            |
 *	   +---- undrain ------+--------------------------------------------+
 *
 * DRAINED goes back to DRAINING where no other gateway that takes shards is left.
 */
enum mt_drain_state { MT_DRAIN_SERVING, MT_DRAIN_DRAINING, MT_DRAIN_DRAINED, MT_DRAIN_STATE_NR };

/* mt_drain_state -- @is_marked: it shall have no shards; @owned_count: roots that name it, and are not released. */
enum mt_drain_state mt_drain_state(bool is_marked, uint32_t owned_count);
/* mt_drain_state_name -- as people read it. */
const char *mt_drain_state_name(enum mt_drain_state state);

/* A shard, as the drained gateway that may have it sees it. */
enum mt_drain_shard {
	MT_DRAIN_ON_ITS_WAY, /* given away, or another gateway's that has not agreed on its extents yet */
	MT_DRAIN_THERE,    /* a gateway that lives has taken it over */
	MT_DRAIN_HELD,     /* ours, and served */
	MT_DRAIN_HELD_IDLE /* ours, and not served here yet */
};

/*
 * mt_drain_next -- the shard that is given away now; @count: none is
 *
 * Invariant: a shard that is served goes only while no other is on its way, so nobody waits for two at a time, and none
 * follows one that its taker cannot get. A shard that is not served here goes before all, and waits for nobody.
 */
uint32_t mt_drain_next(const enum mt_drain_shard *shards, uint32_t count);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_ASSIGN_H */
