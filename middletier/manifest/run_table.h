/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_table.h -- the runs that a manifest names, in order of their chunks: a million of them, and any of them goes
 *
 * In blocks of RUN_BLOCK_RUNS at most, none of them empty, and two neighbours are more than half of one: what an edit moves
 * is a block's, and a number for each block, not all runs behind it. Threads: the owner's.
 */
#ifndef CLEAVE_MIDDLETIER_MANIFEST_RUN_TABLE_H
#define CLEAVE_MIDDLETIER_MANIFEST_RUN_TABLE_H

#include <stdint.h>

#include "cleave/batch.h"

struct mt_run_block;

struct mt_state_run {
	struct extent_id id;
	uint64_t chunk;
	uint64_t offset_bytes, length_bytes;
	uint64_t flushed_sequence;
	uint64_t cut;
	uint32_t directory_bytes, directory_crc; /* as struct mt_edit has them */
};

struct mt_run_table {
	uint32_t count;           /* of runs */
	uint32_t directory_count; /* of runs that have a directory */
	uint32_t block_count, block_max;
	struct mt_run_block **blocks;
	uint32_t *firsts;           /* of each block: how many runs are before it */
	struct mt_run_block *spare; /* set aside, spare_count of them */
	uint32_t spare_count;
};

void mt_run_table_init(struct mt_run_table *table);
void mt_run_table_fini(struct mt_run_table *table);
/* mt_run_table_reserve -- the next @count runs need no memory. 0; -ENOMEM, and nothing is lost. */
int mt_run_table_reserve(struct mt_run_table *table, uint32_t count);
/* mt_run_table_bytes -- of memory that it has. */
uint64_t mt_run_table_bytes(const struct mt_run_table *table);
/* mt_run_table_find -- which is the first of @chunk, or of a later one; table->count: none is. */
uint32_t mt_run_table_find(const struct mt_run_table *table, uint64_t chunk);
/* mt_run_table_at -- run @index < table->count. Valid until the next one comes or goes. */
struct mt_state_run *mt_run_table_at(const struct mt_run_table *table, uint32_t index);
/* mt_run_table_insert -- @run becomes run @index <= table->count; its chunk fits there, and its memory was reserved. */
void mt_run_table_insert(struct mt_run_table *table, uint32_t index,
    const struct mt_state_run *run);
void mt_run_table_remove(struct mt_run_table *table, uint32_t index);

#endif /* CLEAVE_MIDDLETIER_MANIFEST_RUN_TABLE_H */
