/* SPDX-License-Identifier: Apache-2.0 */
/* segment_drop.h -- what a deleted volume leaves in a shard */
#ifndef CLEAVE_MIDDLETIER_SHARD_SEGMENT_DROP_H
#define CLEAVE_MIDDLETIER_SHARD_SEGMENT_DROP_H

#include <stdint.h>

struct mt_shard;

/*
 * mt_segments_drop -- forget every block of these segments, which nobody reads or writes any more
 *
 * It goes on by itself where it can, in pieces. 0: nothing is left, in the log either, durably; -EINPROGRESS: something
 * has gone since the last call, or in it; -EAGAIN: nothing has, it waits. Call it again later.
 */
int mt_segments_drop(struct mt_shard *shard, uint64_t segment_base, uint32_t segment_count);
/* mt_segments_drop_init -- nothing is under way. Returns 0. */
int mt_segments_drop_init(struct mt_shard *shard);
/* mt_segments_drop_reset -- the shard is quiet, or goes. */
void mt_segments_drop_reset(struct mt_shard *shard);

#endif /* CLEAVE_MIDDLETIER_SHARD_SEGMENT_DROP_H */
