/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge_by_away.h -- stages of a port's merges that other gateways execute, piece by piece
 *
 * A piece is a recipe of as much of the stage as the shard's open run extent has room for. It goes away (merge_away.h), and
 * what is said to have come of it is read back and compared here, before the next one goes. Threads: the port's.
 */
#ifndef CLEAVE_MIDDLETIER_MERGE_MERGE_BY_AWAY_H
#define CLEAVE_MIDDLETIER_MERGE_MERGE_BY_AWAY_H

#include <stdbool.h>
#include <stdint.h>

struct merge_by_away;
struct merge_work;
struct mt_away_names;
struct mt_merge;
struct mt_shard;

/* mt_merge_by_away_create -- work->by_away; mt_settings.has_offload. Nobody is known yet. 0; -ENOMEM. */
int mt_merge_by_away_create(struct merge_work *work);
/* mt_merge_by_away_destroy -- nothing comes back any more. NULL is none. */
void mt_merge_by_away_destroy(struct merge_by_away *by_away);
/* mt_merge_by_away_names -- ports of other gateways that may execute merges. Without --offload: a no-op. */
void mt_merge_by_away_names(struct merge_work *work, const struct mt_away_names *names);

/*
 * mt_merge_by_away_begin -- a stage begins: true: it goes away, and steps follow
 *
 * False where the port has no by_away, what was made so was refused before, it is too little to be worth it, or nobody
 * is there who may have room.
 */
bool mt_merge_by_away_begin(struct mt_merge *merge);
/* mt_merge_by_away_is_on -- the stage at work is executed so. */
bool mt_merge_by_away_is_on(const struct merge_work *work);
/*
 * mt_merge_by_away_step -- STEP_AGAIN: start_task, or the timer, follows
 *
 * STEP_DONE: the stage is executed; work->result has all of it, seen at every replica, with the indexes that were read, and
 * the plan is behind it. Negative: what is left of it is to be executed here, from where the plan is: work->result has the
 * pieces before that, and the log says why, unless nobody had room.
 */
int mt_merge_by_away_step(struct mt_merge *merge);
/*
 * mt_merge_by_away_end -- the stage is over, however: an extent that is lent is sealed where it was lent
 *
 * Nobody is waited for. Where nobody got a recipe, it is as if nothing had been lent. A no-op where it is not on.
 */
void mt_merge_by_away_end(struct mt_merge *merge);
/* mt_merge_by_away_cancel -- the merge ends: what is out comes back unseen. _is_quiet: nothing is. Without one, too. */
void mt_merge_by_away_cancel(struct merge_work *work);
bool mt_merge_by_away_is_quiet(const struct merge_work *work);
/* mt_merge_by_away_forget -- the process is being taken down: nothing points at @shard any more. */
void mt_merge_by_away_forget(struct merge_work *work, const struct mt_shard *shard);

#endif /* CLEAVE_MIDDLETIER_MERGE_MERGE_BY_AWAY_H */
