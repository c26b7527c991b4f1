/* SPDX-License-Identifier: Apache-2.0 */
/* shard.h -- a shard's parts put together, and its lives: taken, served, lost, taken again */
#ifndef CLEAVE_MIDDLETIER_SHARD_SHARD_H
#define CLEAVE_MIDDLETIER_SHARD_SHARD_H

#include <stdbool.h>
#include <stdint.h>

struct mt_link;
struct mt_port;
struct mt_shard;

/* mt_shard_init -- shard number @index of the cluster, IDLE, without memory of @port. 0, or an error that leaves nothing. */
int mt_shard_init(struct mt_shard *shard, struct mt_port *port, uint32_t index);
/*
 * mt_shard_want -- shall it be served here? Begins a take-over, or stops it and releases its root
 *
 * One that stopped by itself is not taken again before the next call. One for which its port has no memory waits
 * for it, IDLE, as long as it is wanted.
 */
void mt_shard_want(struct mt_shard *shard, bool is_wanted);
/* mt_shard_is_short -- wanted here, and not begun: its port has no memory for it. */
bool mt_shard_is_short(const struct mt_shard *shard);
/* mt_shard_failed_why -- why its take-over ends in nothing, try after try: static; NULL: it does not. */
const char *mt_shard_failed_why(const struct mt_shard *shard);
/* mt_shard_fini -- in any state: the process is being taken down, nothing comes back. Also without init. */
void mt_shard_fini(struct mt_shard *shard);
/* mt_shard_on_link -- a link of the port came up or went down: its parts are told while it runs. */
void mt_shard_on_link(struct mt_shard *shard, struct mt_link *link, bool is_up);
/* mt_shard_on_node -- what the cluster says of a node has changed: which copies are good is judged anew. */
void mt_shard_on_node(struct mt_shard *shard);

#endif /* CLEAVE_MIDDLETIER_SHARD_SHARD_H */
