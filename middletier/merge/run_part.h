/* SPDX-License-Identifier: Apache-2.0 */
/* run_part.h -- the index of a part that a run_writer has written: its frames, CRCs and places of their own */
#ifndef CLEAVE_MIDDLETIER_MERGE_RUN_PART_H
#define CLEAVE_MIDDLETIER_MERGE_RUN_PART_H

struct mt_run_index;
struct run_part;
struct run_writer;

/* mt_run_part_index -- it stays the part's. NULL: out of memory. */
struct mt_run_index *mt_run_part_index(const struct run_writer *writer, struct run_part *part);
/* mt_run_part_take_index -- the same, and it is the caller's: nothing is added to @part any more. */
struct mt_run_index *mt_run_part_take_index(const struct run_writer *writer, struct run_part *part);
/* mt_run_part_forget_index -- the part goes, or its frames are others now. */
void mt_run_part_forget_index(struct run_part *part);

#endif /* CLEAVE_MIDDLETIER_MERGE_RUN_PART_H */
