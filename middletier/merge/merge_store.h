/* SPDX-License-Identifier: Apache-2.0 */
/* merge_store.h -- the frames of a merge into the batches of its run extent */
#ifndef CLEAVE_MIDDLETIER_MERGE_MERGE_STORE_H
#define CLEAVE_MIDDLETIER_MERGE_MERGE_STORE_H

struct merge_exec;

/* mt_merge_store_begin -- the window's blocks are there: before its first step. Says what they are encrypted with. */
void mt_merge_store_begin(struct merge_exec *exec);
/* mt_merge_store_step -- STEP_DONE: the window's frames are in batches. */
int mt_merge_store_step(struct merge_exec *exec);

#endif /* CLEAVE_MIDDLETIER_MERGE_MERGE_STORE_H */
