/* SPDX-License-Identifier: Apache-2.0 */
/* replay_ahead.h -- how far a replay reads ahead of what it looks at, and which range is next */
#ifndef CLEAVE_MIDDLETIER_EXTENT_REPLAY_AHEAD_H
#define CLEAVE_MIDDLETIER_EXTENT_REPLAY_AHEAD_H

#include <stdint.h>

struct mt_replay;

/* mt_replay_window -- the next range to ask for in ask_source, within its length; empty: nothing can be said so far ahead. */
void mt_replay_window(const struct mt_replay *replay, uint64_t *ret_from, uint64_t *ret_to);
/* mt_replay_reads_max -- how many reads may be out, or wait for those before them: at least one. */
uint32_t mt_replay_reads_max(const struct mt_replay *replay);

#endif /* CLEAVE_MIDDLETIER_EXTENT_REPLAY_AHEAD_H */
