/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agree_copy.h -- an extent that too few good replicas have goes to one more node, before it
 * counts
 */
#ifndef CLEAVE_MIDDLETIER_SHARD_AGREE_COPY_H
#define CLEAVE_MIDDLETIER_SHARD_AGREE_COPY_H

#include <stdbool.h>

struct mt_agree;

/* mt_agree_recall -- one whose place was given away is back: it is a replica again, to be asked. */
bool mt_agree_recall(struct mt_agree *agree);
/* mt_agree_place -- begin to copy to one more node; false: none can take it. Ends in mt_agree_placed. */
bool mt_agree_place(struct mt_agree *agree);

#endif /* CLEAVE_MIDDLETIER_SHARD_AGREE_COPY_H */
