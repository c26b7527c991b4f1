/* SPDX-License-Identifier: Apache-2.0 */
/* merge_commit.h -- the stages of a merge, and the edits that make each of them durable */
#ifndef CLEAVE_MIDDLETIER_MERGE_MERGE_COMMIT_H
#define CLEAVE_MIDDLETIER_MERGE_MERGE_COMMIT_H

#include <stdbool.h>

struct mt_merge;

/* merge_stage_plan -- the plan is made: in how many stages? merge_stage_begin -- the next. */
void merge_stage_plan(struct mt_merge *merge);
void merge_stage_begin(struct mt_merge *merge);
/* merge_stage_is_over -- so much was written that it is committed before it goes on. */
bool merge_stage_is_over(const struct mt_merge *merge);
/*
 * merge_commit -- what the stage has written is named: all of it is at its replicas
 *
 * STEP_AGAIN: merge_notify tells. STEP_DONE: there is nothing to say.
 */
int merge_commit(struct mt_merge *merge);
/* merge_stage_apply -- the commit is durable: the index follows. Negative: it could not, half way. */
int merge_stage_apply(struct mt_merge *merge);

#endif /* CLEAVE_MIDDLETIER_MERGE_MERGE_COMMIT_H */
