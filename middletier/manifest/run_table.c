/* SPDX-License-Identifier: Apache-2.0 */
/* run_table.c -- see run_table.h */
#include "manifest/run_table.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "base/search.h"
#include "common/alloc.h"
#include "common/array.h"

#define RUN_BLOCK_RUNS 128u
#define RUN_SPARES_MAX 8u /* of blocks that have become empty */

struct mt_run_block {
	struct mt_run_block *next; /* of the spare ones */
	uint32_t count;
	struct mt_state_run runs[RUN_BLOCK_RUNS];
};

void
mt_run_table_init(struct mt_run_table *table)
{
	*table = (struct mt_run_table){ 0 };
}

void
mt_run_table_fini(struct mt_run_table *table)
{
	struct mt_run_block *block;

	for (uint32_t i = 0; i < table->block_count; i++)
		mt_free(table->blocks[i]);
	while ((block = table->spare) != NULL) {
		table->spare = block->next;
		mt_free(block);
	}
	mt_free(table->blocks);
	mt_free(table->firsts);
	*table = (struct mt_run_table){ 0 };
}

/* ---- memory ---- */

static void
table_set_aside(struct mt_run_table *table, struct mt_run_block *block)
{
	block->count = 0;
	block->next = table->spare;
	table->spare = block;
	table->spare_count++;
}

static struct mt_run_block *
table_take(struct mt_run_table *table)
{
	struct mt_run_block *block = table->spare;

	assert(block != NULL && table->spare_count > 0);
	table->spare = block->next;
	table->spare_count--;
	return block;
}

/* Room for the numbers of @need blocks. */
static int
table_grow(struct mt_run_table *table, uint64_t need)
{
	uint32_t block_max = table->block_max, first_max = table->block_max;
	void *blocks = table->blocks, *firsts = table->firsts;
	int rc = mt_array_grow(&blocks, &block_max, need, sizeof(struct mt_run_block *));

	table->blocks = blocks;
	if (rc != 0)
		return rc;
	rc = mt_array_grow(&firsts, &first_max, need, sizeof(*table->firsts));
	table->firsts = firsts;
	if (rc != 0)
		return rc;
	table->block_max = (uint32_t)num_min(block_max, first_max);
	return 0;
}

/* Each of @count may find a full block, and has it cut in two; what comes after that finds half a block's room. */
int
mt_run_table_reserve(struct mt_run_table *table, uint32_t count)
{
	uint64_t need = num_min(count, table->block_count) + count / (RUN_BLOCK_RUNS / 2) + 1;

	while (table->spare_count < need) {
		struct mt_run_block *block = mt_calloc(1, sizeof(*block));

		if (block == NULL)
			return -ENOMEM;
		table_set_aside(table, block);
	}
	return table_grow(table, table->block_count + need);
}

uint64_t
mt_run_table_bytes(const struct mt_run_table *table)
{
	uint64_t block_count = (uint64_t)table->block_count + table->spare_count;

	return block_count * sizeof(struct mt_run_block) +
	    table->block_max * (sizeof(struct mt_run_block *) + sizeof(*table->firsts));
}

/* ---- places ---- */

/* The block that has run @index, or where it would be the next one. */
static uint32_t
table_block(const struct mt_run_table *table, uint32_t index)
{
	uint32_t at;

	assert(table->block_count > 0 && index <= table->count);
	SEARCH_FIRST(at, table->block_count, table->firsts[at] <= index);
	return at - 1;
}

struct mt_state_run *
mt_run_table_at(const struct mt_run_table *table, uint32_t index)
{
	uint32_t block;

	assert(index < table->count);
	block = table_block(table, index);
	return &table->blocks[block]->runs[index - table->firsts[block]];
}

uint32_t
mt_run_table_find(const struct mt_run_table *table, uint64_t chunk)
{
	const struct mt_run_block *block;
	uint32_t at, in;

	/* The first block that begins with @chunk, or behind it: what is looked for is its begin, or in the one before. */
	SEARCH_FIRST(at, table->block_count, table->blocks[at]->runs[0].chunk < chunk);
	if (at == 0)
		return 0;
	block = table->blocks[at - 1];
	SEARCH_FIRST(in, block->count, block->runs[in].chunk < chunk);
	return table->firsts[at - 1] + in;
}

/* ---- edits ---- */

/* Blocks behind @at have @change runs more before them. */
static void
table_shift(struct mt_run_table *table, uint32_t at, uint32_t change)
{
	for (uint32_t i = at + 1; i < table->block_count; i++)
		table->firsts[i] += change;
	table->count += change;
}

/* @block becomes block @at, the first of its runs @first. */
static void
table_add_block(struct mt_run_table *table, uint32_t at, struct mt_run_block *block, uint32_t first)
{
	uint32_t count = table->block_count;
	struct mt_run_block **place;
	uint32_t *number;

	assert(count < table->block_max);
	place =
	    mt_array_insert(table->blocks, &table->block_count, at, sizeof(struct mt_run_block *));
	number = mt_array_insert(table->firsts, &count, at, sizeof(*table->firsts));
	*place = block;
	*number = first;
}

static void
table_drop_block(struct mt_run_table *table, uint32_t at)
{
	uint32_t count = table->block_count;

	if (table->spare_count < RUN_SPARES_MAX)
		table_set_aside(table, table->blocks[at]);
	else
		mt_free(table->blocks[at]);
	mt_array_remove(table->blocks, &table->block_count, at, sizeof(struct mt_run_block *));
	mt_array_remove(table->firsts, &count, at, sizeof(*table->firsts));
}

/* The later half of block @at is one of its own. */
static void
table_split(struct mt_run_table *table, uint32_t at)
{
	struct mt_run_block *block = table->blocks[at], *half = table_take(table);
	uint32_t kept = block->count / 2;

	half->count = block->count - kept;
	memcpy(half->runs, &block->runs[kept], half->count * sizeof(half->runs[0]));
	block->count = kept;
	table_add_block(table, at + 1, half, table->firsts[at] + kept);
}

void
mt_run_table_insert(struct mt_run_table *table, uint32_t index, const struct mt_state_run *run)
{
	struct mt_state_run *place;
	uint32_t at;

	assert(index <= table->count);
	if (table->block_count == 0)
		table_add_block(table, 0, table_take(table), 0);
	at = table_block(table, index);
	if (table->blocks[at]->count == RUN_BLOCK_RUNS) {
		table_split(table, at);
		at = table_block(table, index);
	}
	place = mt_array_insert(table->blocks[at]->runs, &table->blocks[at]->count,
	    index - table->firsts[at], sizeof(*run));
	*place = *run;
	table->directory_count += run->directory_bytes != 0;
	table_shift(table, at, 1);
}

/* Blocks @at and the next are one, if that is not more than half full. */
static void
table_join(struct mt_run_table *table, uint32_t at)
{
	struct mt_run_block *block, *next;

	if (at + 1 >= table->block_count)
		return;
	block = table->blocks[at];
	next = table->blocks[at + 1];
	if (block->count + next->count > RUN_BLOCK_RUNS / 2)
		return;
	memcpy(&block->runs[block->count], next->runs, next->count * sizeof(next->runs[0]));
	block->count += next->count;
	table_drop_block(table, at + 1);
}

void
mt_run_table_remove(struct mt_run_table *table, uint32_t index)
{
	struct mt_run_block *block;
	uint32_t at;

	assert(index < table->count);
	at = table_block(table, index);
	block = table->blocks[at];
	table->directory_count -= block->runs[index - table->firsts[at]].directory_bytes != 0;
	mt_array_remove(block->runs, &block->count, index - table->firsts[at],
	    sizeof(block->runs[0]));
	table_shift(table, at, UINT32_MAX);
	if (block->count == 0)
		table_drop_block(table, at);
	else
		table_join(table, at);
	if (at > 0)
		table_join(table, at - 1);
}
