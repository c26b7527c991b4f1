/* SPDX-License-Identifier: Apache-2.0 */
/* shard.h -- a shard's parts put together, and its lives: taken, served, lost, taken again */
#ifndef CLEAVE_MIDDLETIER_SHARD_SHARD_H
#define CLEAVE_MIDDLETIER_SHARD_SHARD_H

#include <stdbool.h>
#include <stdint.h>

struct mt_link;
struct mt_port;
struct mt_shard;

/* mt_shard_init -- shard number @index of the cluster, IDLE, with its share of @port. 0, or an error that leaves nothing. */
int mt_shard_init(struct mt_shard *shard, struct mt_port *port, uint32_t index);
/*
 * mt_shard_want -- shall it be served here? Begins a take-over, or stops it and releases its root
 *
 * One that stopped by itself is not taken again before the next call.
 */
void mt_shard_want(struct mt_shard *shard, bool is_wanted);
/* mt_shard_is_quiet -- stopped, and nothing that it asked for can still come back. */
bool mt_shard_is_quiet(const struct mt_shard *shard);
/* mt_shard_fini -- in any state: the process is being taken down, nothing comes back. Also without init. */
void mt_shard_fini(struct mt_shard *shard);
/* mt_shard_on_link -- a link of the port came up or went down: its parts are told while it runs. */
void mt_shard_on_link(struct mt_shard *shard, struct mt_link *link, bool is_up);

#endif /* CLEAVE_MIDDLETIER_SHARD_SHARD_H */
