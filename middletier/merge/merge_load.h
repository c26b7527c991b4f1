/* SPDX-License-Identifier: Apache-2.0 */
/* merge_load.h -- the indexes of the runs that a merge takes: there, and held */
#ifndef CLEAVE_MIDDLETIER_MERGE_MERGE_LOAD_H
#define CLEAVE_MIDDLETIER_MERGE_MERGE_LOAD_H

#include <stdint.h>

struct mt_merge;

/*
 * mt_merge_load_begin -- have the indexes of the plan's runs loaded, and hold those that are
 *
 * What is hidden needs none. Returns how many are waited for; not 0: mt_merge_on_loads once. mt_merge_input_release lets
 * go of all that is held, and waits for nothing any more.
 */
uint32_t mt_merge_load_begin(struct mt_merge *merge);

#endif /* CLEAVE_MIDDLETIER_MERGE_MERGE_LOAD_H */
