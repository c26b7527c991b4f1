/* SPDX-License-Identifier: Apache-2.0 */
/* merge_store.h -- the frames of a merge into the batches of its run extent */
#ifndef CLEAVE_MIDDLETIER_MERGE_MERGE_STORE_H
#define CLEAVE_MIDDLETIER_MERGE_MERGE_STORE_H

#include <stdbool.h>
#include <stdint.h>

struct mt_merge;

/* merge_store_step -- true: the window's frames are in batches. */
bool merge_store_step(struct mt_merge *merge, uint32_t *budget);

#endif /* CLEAVE_MIDDLETIER_MERGE_MERGE_STORE_H */
