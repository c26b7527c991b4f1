/* SPDX-License-Identifier: Apache-2.0 */
/* replay_head.h -- the head of the batch that a replay expects, put together from the pieces it lies in */
#ifndef CLEAVE_MIDDLETIER_EXTENT_REPLAY_HEAD_H
#define CLEAVE_MIDDLETIER_EXTENT_REPLAY_HEAD_H

#include <stdbool.h>

struct mt_replay;
struct mt_replay_read;

/* mt_replay_needs_read -- is there anything in @read that is to be looked at? */
bool mt_replay_needs_read(const struct mt_replay *replay, const struct mt_replay_read *read);
/*
 * mt_replay_take_head -- as much of the head at at_bytes as @read has; a whole one is checked and handed over
 *
 * @read has arrived, is of the source that is expected, and does not begin behind what is wanted next.
 * Returns 1: the head was whole, on_batch has it, and at_bytes is behind its batch; 0: the rest is in the next
 * piece; -EBADMSG: this copy is bad; -EPROTO: on_batch refuses a batch that has passed; another error of
 * on_batch, which then has changed nothing.
 */
int mt_replay_take_head(struct mt_replay *replay, const struct mt_replay_read *read);

/*
 * mt_replay_take_mirrored -- the head at at_bytes from the port's memory (head_mirror.h), if it has it
 *
 * There is an extent to be looked at. Returns 1: as above; 0: it is to be read, as none is there that passes, and that
 * on_batch takes, it is the extent's last, or a part of it was read; -EAGAIN: on_batch refuses it, and is of a manifest:
 * all is to be read anew, and this head is not there any more; another error of on_batch, as above.
 */
int mt_replay_take_mirrored(struct mt_replay *replay);

/*
 * mt_replay_distrust -- no copy's batch fits behind a head that was in memory: that is wrong, or may be
 *
 * All heads in memory go. Returns how the replay ends, -EAGAIN.
 */
int mt_replay_distrust(struct mt_replay *replay);

#endif /* CLEAVE_MIDDLETIER_EXTENT_REPLAY_HEAD_H */
