/* SPDX-License-Identifier: Apache-2.0 */
/* shard_ring.h -- a shard's ring, of the memory that its port has for all */
#ifndef CLEAVE_MIDDLETIER_SHARD_SHARD_RING_H
#define CLEAVE_MIDDLETIER_SHARD_SHARD_RING_H

struct mt_shard;

/*
 * mt_shard_ring_take -- @shard gets a ring; with the first of a port the memory of all of them is taken
 *
 * Returns: 0. -ENOBUFS: all of the port's rings are taken; -ENOMEM: no memory. Nothing has changed then.
 */
int mt_shard_ring_take(struct mt_shard *shard);
/* mt_shard_ring_reset -- nobody reads or writes it any more: not a batch, not an engine, not a read. Without one: nothing. */
void mt_shard_ring_reset(struct mt_shard *shard);
/* mt_shard_ring_give -- back to the port, and with the last the memory of all. Without one: does nothing. */
void mt_shard_ring_give(struct mt_shard *shard);

#endif /* CLEAVE_MIDDLETIER_SHARD_SHARD_RING_H */
