/* SPDX-License-Identifier: Apache-2.0 */
/*
 * head_push.h -- heads of a shard's batches go to its heir: the gateway that the shard falls to without us
 *
 * Nothing waits for that. A head that finds no room, or an heir that is away, is dropped and counted: the heir's take-over
 * reads it from a node. Threads: the port's.
 */
#ifndef CLEAVE_MIDDLETIER_EXTENT_HEAD_PUSH_H
#define CLEAVE_MIDDLETIER_EXTENT_HEAD_PUSH_H

#include <stdint.h>

#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/limits.h"

struct batch_info;
struct mt_port;

#define MT_HEIRS_MAX MT_GATEWAYS_MAX /* ports of other gateways that a port's shards fall to */
#define MT_HEIR_NONE UINT8_MAX

/* Where a port's shards go without it. */
struct mt_heirs {
	uint32_t count;
	char addresses[MT_HEIRS_MAX][SPLIT_ADDRESS_BYTES_MAX];
	uint8_t of[CLEAVE_SHARDS_MAX]; /* of each shard of the cluster; MT_HEIR_NONE */
};

/* mt_head_push_init -- the port opens: there is no heir yet. Returns 0; -ENOMEM. */
int mt_head_push_init(struct mt_port *port);
/* mt_head_push_fini -- nothing of it is on its way any more. Also without init. */
void mt_head_push_fini(struct mt_port *port);
/* mt_head_push_heirs -- these count from now on. Copied. A no-op without init. */
void mt_head_push_heirs(struct mt_port *port, const struct mt_heirs *heirs);
/*
 * mt_head_push -- all replicas have a batch: send its head on, with some others; a manifest's at once
 *
 * @head: of @info, with descriptors; copied. A no-op without init, and where the shard has no heir.
 */
void mt_head_push(struct mt_port *port, const struct batch_info *info, const uint8_t *head);

#endif /* CLEAVE_MIDDLETIER_EXTENT_HEAD_PUSH_H */
