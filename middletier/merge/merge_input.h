/* SPDX-License-Identifier: Apache-2.0 */
/* merge_input.h -- the layers and runs that a merge takes */
#ifndef CLEAVE_MIDDLETIER_MERGE_MERGE_INPUT_H
#define CLEAVE_MIDDLETIER_MERGE_MERGE_INPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "merge/merge_exec.h"

struct mt_index;
struct mt_merge;
struct mt_merge_input;

/* mt_merge_input_target -- the chunk of which runs are made. */
uint64_t mt_merge_input_target(const struct mt_merge_input *input);
/* mt_merge_input_check -- -E2BIG: more than a merge takes. */
int mt_merge_input_check(const struct mt_index *index, const struct mt_merge_input *input);
/* mt_merge_input_mark -- all of them, before it is their turn: no other merge takes them, or any may. */
void mt_merge_input_mark(const struct mt_index *index, const struct mt_merge_input *input,
    bool is_merging);
/* mt_merge_input_take -- its turn: they are the inputs of the port's plan. */
void mt_merge_input_take(struct mt_merge *merge);
/* mt_merge_input_task -- what the executing part is told, beside its windows. The plan is made, its stages are known. */
struct merge_task mt_merge_input_task(const struct mt_merge *merge);
/*
 * mt_merge_input_release -- runs that are left: neither waits for their indexes nor holds them
 *
 * After -EUCLEAN their indexes are dropped: the next merge reads them anew.
 */
void mt_merge_input_release(struct mt_merge *merge);
/* mt_merge_input_unmark -- those of the plan that are left: any merge may take them. */
void mt_merge_input_unmark(struct mt_merge *merge);

#endif /* CLEAVE_MIDDLETIER_MERGE_MERGE_INPUT_H */
