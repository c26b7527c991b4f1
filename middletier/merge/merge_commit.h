/* SPDX-License-Identifier: Apache-2.0 */
/* merge_commit.h -- the stages of a merge, and the edits that make each of them durable */
#ifndef CLEAVE_MIDDLETIER_MERGE_MERGE_COMMIT_H
#define CLEAVE_MIDDLETIER_MERGE_MERGE_COMMIT_H

#include <stdbool.h>

struct mt_merge;

/*
 * mt_merge_stage_plan -- the plan is made: is it done in stages, and of how many bytes?
 * mt_merge_stage_begin -- the next stage: the writer takes its frames. Negative: it cannot begin.
 */
void mt_merge_stage_plan(struct mt_merge *merge);
int mt_merge_stage_begin(struct mt_merge *merge);
/* mt_merge_stage_again -- the stage that was executed is given up: the next that begins is the same, by the plan. */
void mt_merge_stage_again(struct mt_merge *merge);
/*
 * mt_merge_stage_rest -- AWAY: nobody executes what is left of the stage: true: it is executed here, by the plan
 *
 * Pieces that were seen stay, in work->result: the writer's runs come behind them. @rc: mt_merge_by_away_step's: unless
 * nobody had room, or could be asked, no later stage goes away either. false: there are so many pieces that the stage is
 * to be begun again, and they are garbage.
 */
bool mt_merge_stage_rest(struct mt_merge *merge, int rc);
/*
 * mt_merge_stage_ahead -- the executing part fetches the stage's next window, or has it, while one may be stored
 *
 * What it has is a part of this stage. False: the stage has no more: there are no blocks left, or so much was written, or is
 * about to be, that it is committed before the merge goes on.
 */
bool mt_merge_stage_ahead(struct mt_merge *merge);
/*
 * mt_merge_commit -- the result of the stage is named
 *
 * STEP_AGAIN: mt_merge_notify tells when it is durable. STEP_DONE: there is nothing
 * to name or to remove. Negative: the manifest takes no commit now, or -ENOMEM.
 */
int mt_merge_commit(struct mt_merge *merge);
/* mt_merge_stage_apply -- the commit is durable: the index follows. Negative: it could not, half way. */
int mt_merge_stage_apply(struct mt_merge *merge);

#endif /* CLEAVE_MIDDLETIER_MERGE_MERGE_COMMIT_H */
