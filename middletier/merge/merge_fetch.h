/* SPDX-License-Identifier: Apache-2.0 */
/* merge_fetch.h -- the blocks of a merge window, from the ring and the nodes into its memory */
#ifndef CLEAVE_MIDDLETIER_MERGE_MERGE_FETCH_H
#define CLEAVE_MIDDLETIER_MERGE_MERGE_FETCH_H

struct mt_merge;

/* mt_merge_fetch_begin -- a new window. mt_merge_fetch_step -- STEP_DONE: all of it is in memory. */
void mt_merge_fetch_begin(struct mt_merge *merge);
int mt_merge_fetch_step(struct mt_merge *merge);
/* mt_merge_fetch_cancel -- FAILED: what has arrived is let go. */
void mt_merge_fetch_cancel(struct mt_merge *merge);

#endif /* CLEAVE_MIDDLETIER_MERGE_MERGE_FETCH_H */
