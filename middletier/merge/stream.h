/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h -- a chunk that is being written in order: its older runs are left alone, for they are about to go */
#ifndef CLEAVE_MIDDLETIER_MERGE_STREAM_H
#define CLEAVE_MIDDLETIER_MERGE_STREAM_H

#include <stdbool.h>
#include <stdint.h>

struct compact_group;
struct mt_merge_input;
struct mt_port;

#define STREAM_BLOCKS_MIN 256u /* 1 MiB without a gap: written in order */

/* mt_stream_has_room -- have enough nodes a quarter of their slots free, for what streams leave for a while? */
bool mt_stream_has_room(const struct mt_port *port);
/* mt_stream_is -- is half of what the layers of @input store, or more, in stretches of STREAM_BLOCKS_MIN or more? */
bool mt_stream_is(const struct mt_merge_input *input);
/*
 * mt_stream_is_in -- is a chunk's newest group, with so much @garbage (tiers.h), being overwritten in order?
 *
 * Its newest run is of a stream that was flushed at or behind @sequence, so more of it may come; and it has not so much
 * garbage that it is merged whatever comes.
 */
bool mt_stream_is_in(const struct compact_group *group, uint32_t garbage, uint64_t sequence);

#endif /* CLEAVE_MIDDLETIER_MERGE_STREAM_H */
