/* SPDX-License-Identifier: Apache-2.0 */
/* reclaim.h -- the life of what index.h calls reclaim.c, for shard.c and takeover_open.c */
#ifndef CLEAVE_MIDDLETIER_RECLAIM_H
#define CLEAVE_MIDDLETIER_RECLAIM_H

#include "internal.h"

int mt_reclaim_init(struct mt_shard *shard); /* -ENOMEM */
/* mt_reclaim_start -- the shard is SERVING. */
void mt_reclaim_start(struct mt_shard *shard);
/* mt_reclaim_stop -- before the manifest's. Nothing of it comes back behind that. */
void mt_reclaim_stop(struct mt_shard *shard);
void mt_reclaim_fini(struct mt_shard *shard);

#endif /* CLEAVE_MIDDLETIER_RECLAIM_H */
