/* SPDX-License-Identifier: Apache-2.0 */
/* agree_repair.h -- a batch that one replica of an extent lacks comes from another one */
#ifndef CLEAVE_MIDDLETIER_SHARD_AGREE_REPAIR_H
#define CLEAVE_MIDDLETIER_SHARD_AGREE_REPAIR_H

#include <stdint.h>

struct mt_agree;

/* mt_agree_repair -- the batch that replica @to lacks, from @from. READING; ends in mt_agree_step. */
void mt_agree_repair(struct mt_agree *agree, uint32_t from, uint32_t to);

#endif /* CLEAVE_MIDDLETIER_SHARD_AGREE_REPAIR_H */
