/* SPDX-License-Identifier: Apache-2.0 */
/* takeover_open.h -- the second half of a take-over: OPENING and REPLAYING */
#ifndef CLEAVE_MIDDLETIER_SHARD_TAKEOVER_OPEN_H
#define CLEAVE_MIDDLETIER_SHARD_TAKEOVER_OPEN_H

struct loop_timer;
struct mt_takeover;

/* mt_takeover_open -- every extent of takeover->state has its length: OPENING, and all that follows. */
void mt_takeover_open(struct mt_takeover *takeover);
void mt_takeover_open_fini(struct mt_takeover *takeover);
/* mt_takeover_try_serve -- when everything is replayed and the volumes are known. */
void mt_takeover_try_serve(struct mt_takeover *takeover);
void mt_takeover_on_progress(struct loop_timer *timer, void *arg);

#endif /* CLEAVE_MIDDLETIER_SHARD_TAKEOVER_OPEN_H */
