/* SPDX-License-Identifier: Apache-2.0 */
/* takeover_claim.h -- the first steps of a take-over, in CLAIMING */
#ifndef CLEAVE_MIDDLETIER_SHARD_TAKEOVER_CLAIM_H
#define CLEAVE_MIDDLETIER_SHARD_TAKEOVER_CLAIM_H

struct loop_timer;
struct mt_takeover;

/* Steps, as takeover.c lists them. */
int mt_takeover_load_root(struct mt_takeover *takeover);
int mt_takeover_look_for_newer(struct mt_takeover *takeover);
int mt_takeover_claim(struct mt_takeover *takeover);

/* mt_takeover_on_refresh_timer -- main could not read the volumes: ask it again. */
void mt_takeover_on_refresh_timer(struct loop_timer *timer, void *arg);

#endif /* CLEAVE_MIDDLETIER_SHARD_TAKEOVER_CLAIM_H */
