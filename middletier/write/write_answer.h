/* SPDX-License-Identifier: Apache-2.0 */
/* write_answer.h -- what a write's client is told, and when */
#ifndef CLEAVE_MIDDLETIER_WRITE_WRITE_ANSWER_H
#define CLEAVE_MIDDLETIER_WRITE_WRITE_ANSWER_H

struct mt_shard;
struct mt_write;
struct mt_write_state;

/*
 * mt_write_finish -- answer @write with @rc, 0 or a negative errno; the sole exit of each
 *
 * A BATCHED write of a volume whose snapshot is being taken is HELD instead. 0 is sent as -EREMCHG where the
 * gateway has no lease any more (I7). @write must have no job out at an engine; it is free after this.
 */
void mt_write_finish(struct mt_write_state *state, struct mt_write *write, int rc);
/* mt_write_release_held -- answer every HELD write with @rc. */
void mt_write_release_held(struct mt_write_state *state, int rc);
/* mt_write_fail_parked -- answer what waits for admission or for room in a batch with @rc, which is an error. */
void mt_write_fail_parked(struct mt_write_state *state, int rc);
/* mt_write_oldest -- the write of @shard that has had no answer for the longest time; NULL: all have. */
const struct mt_write *mt_write_oldest(const struct mt_shard *shard);

#endif /* CLEAVE_MIDDLETIER_WRITE_WRITE_ANSWER_H */
