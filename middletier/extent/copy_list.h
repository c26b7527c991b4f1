/* SPDX-License-Identifier: Apache-2.0 */
/* copy_list.h -- the copies that are under way: a shard's, and a port's */
#ifndef CLEAVE_MIDDLETIER_EXTENT_COPY_LIST_H
#define CLEAVE_MIDDLETIER_EXTENT_COPY_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/batch.h"

struct mt_port;
struct mt_shard;

/* mt_copy_is_going -- is one of @id on its way to that node, or being deleted there? */
bool mt_copy_is_going(const struct mt_shard *shard, const struct extent_id *id, uint32_t node_id);
/* mt_copy_is_quiet -- no copy of the shard has a call out. */
bool mt_copy_is_quiet(const struct mt_shard *shard);
/* mt_copy_window_count -- copies of all of @port's shards that hold a window's messages, or are about to. */
uint32_t mt_copy_window_count(const struct mt_port *port);

#endif /* CLEAVE_MIDDLETIER_EXTENT_COPY_LIST_H */
