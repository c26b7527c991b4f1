/* SPDX-License-Identifier: Apache-2.0 */
/* index_rig.h -- an index of a shard that has one extent, and nothing else */
#ifndef CLEAVE_TESTS_INDEX_RIG_H
#define CLEAVE_TESTS_INDEX_RIG_H

#include <criterion/criterion.h>

#include "middletier/common/shard.h"
#include "middletier/extent/extent.h"
#include "middletier/extent/extent_table.h"
#include "middletier/index/index.h"

static struct mt_shard shard;
static struct mt_extent extent;
static struct mt_index *map;

static inline void
index_rig_init(enum extent_kind kind)
{
	shard = (struct mt_shard){ 0 };
	extent = (struct mt_extent){ .kind = kind };
	cr_assert_eq(mt_shard_extent_add(&shard, &extent), 0);
	map = shard.block_index = mt_index_create(&shard);
	cr_assert_not_null(map);
}

static inline void
index_rig_fini(void)
{
	mt_index_destroy(map);
	mt_shard_extent_remove(&shard, &extent);
	mt_shard_extents_free(&shard);
}

#endif /* CLEAVE_TESTS_INDEX_RIG_H */
