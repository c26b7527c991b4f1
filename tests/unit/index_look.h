/* SPDX-License-Identifier: Apache-2.0 */
/* index_look.h -- what a shard's index says of a block of a volume that is nobody's clone */
#ifndef CLEAVE_TESTS_INDEX_LOOK_H
#define CLEAVE_TESTS_INDEX_LOOK_H

#include "middletier/catalog/scope.h"
#include "middletier/index/index.h"
#include "middletier/index/memtable.h"

/* NULL: nothing is known of the block. Valid until the next call. */
static inline const struct mt_location *
index_look(struct mt_index *index, uint64_t segment, uint32_t block)
{
	static struct mt_location location;
	struct mt_scope scope;
	struct mt_run *run;

	mt_scope_init(&scope, segment);
	return mt_index_find(index, &scope, segment, block, &location, &run) == MT_FOUND_RECORD
	    ? &location
	    : NULL;
}

#endif /* CLEAVE_TESTS_INDEX_LOOK_H */
