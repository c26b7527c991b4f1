/* SPDX-License-Identifier: Apache-2.0 */
/* takeover_open.h -- the last steps of a take-over: OPENING, REPLAYING, SERVING */
#ifndef CLEAVE_MIDDLETIER_SHARD_TAKEOVER_OPEN_H
#define CLEAVE_MIDDLETIER_SHARD_TAKEOVER_OPEN_H

struct loop_timer;
struct mt_takeover;

/* Steps, as takeover.c lists them. */
int mt_takeover_open_manifest(struct mt_takeover *takeover);
int mt_takeover_replay(struct mt_takeover *takeover);
int mt_takeover_await_volumes(struct mt_takeover *takeover);
int mt_takeover_serve(struct mt_takeover *takeover);

/* mt_takeover_on_progress -- the log says how far the replay is. */
void mt_takeover_on_progress(struct loop_timer *timer, void *arg);
/* mt_takeover_open_fini -- frees what open_manifest has made, wherever it was left. */
void mt_takeover_open_fini(struct mt_takeover *takeover);

#endif /* CLEAVE_MIDDLETIER_SHARD_TAKEOVER_OPEN_H */
