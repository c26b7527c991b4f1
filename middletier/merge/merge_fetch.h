/* SPDX-License-Identifier: Apache-2.0 */
/* merge_fetch.h -- the blocks of a merge window, from the ring and the nodes into its memory */
#ifndef CLEAVE_MIDDLETIER_MERGE_MERGE_FETCH_H
#define CLEAVE_MIDDLETIER_MERGE_MERGE_FETCH_H

struct merge_exec;

/* mt_merge_fetch_begin -- a new window. mt_merge_fetch_step -- STEP_DONE: all of it is in memory. */
void mt_merge_fetch_begin(struct merge_exec *exec);
int mt_merge_fetch_step(struct merge_exec *exec);
/* mt_merge_fetch_cancel -- what has arrived is let go. */
void mt_merge_fetch_cancel(struct merge_exec *exec);

#endif /* CLEAVE_MIDDLETIER_MERGE_MERGE_FETCH_H */
