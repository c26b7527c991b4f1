/* SPDX-License-Identifier: Apache-2.0 */
/* takeover_manifest.h -- the steps of a take-over in AGREEING */
#ifndef CLEAVE_MIDDLETIER_SHARD_TAKEOVER_MANIFEST_H
#define CLEAVE_MIDDLETIER_SHARD_TAKEOVER_MANIFEST_H

struct mt_takeover;

/* Steps, as takeover.c lists them. */
int mt_takeover_agree_manifest(struct mt_takeover *takeover);
int mt_takeover_store_length(struct mt_takeover *takeover);
int mt_takeover_read_manifest(struct mt_takeover *takeover);
int mt_takeover_check_mirror(struct mt_takeover *takeover);
int mt_takeover_agree_extents(struct mt_takeover *takeover);
int mt_takeover_await_nodes(struct mt_takeover *takeover);

#endif /* CLEAVE_MIDDLETIER_SHARD_TAKEOVER_MANIFEST_H */
