/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_memtable -- what does a block cost in a shard's index, in time and in memory?
 *
 *	bench_memtable [KEYS]
 *
 * Puts KEYS (default 4 Mi) blocks in random and in sequential order, then puts and gets all of them
 * again in random order, with and without asking for the cache line a batch of 16 ahead as the write
 * path does. Times are the thread's CPU time; group_max_ns is that of the slowest 64 puts in a row:
 * growing must not show.
 *
 * Output: one JSON object a row.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../middletier/internal.h"
#include "base/num.h"
#include "base/random.h"

#define KEYS_DEFAULT (4u << 20)
#define AHEAD 16u
#define GROUP 64u

static uint64_t
now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return NUM_S((uint64_t)now.tv_sec) + (uint64_t)now.tv_nsec;
}

static void
report(const char *name, uint64_t took_ns, uint64_t count, const struct mt_memtable *table,
    uint64_t max_ns)
{
	(void)printf("{\"name\": \"%s\", \"ns_per_block\": %.1f, \"bytes_per_key\": %.1f, "
		     "\"group_max_ns\": %llu}\n",
	    name, (double)took_ns / (double)count,
	    (double)mt_memtable_bytes(table) / (double)mt_memtable_count(table),
	    (unsigned long long)max_ns);
}

static void
put(struct mt_memtable *table, uint32_t block)
{
	struct mt_location location = { .record_kind = RECORD_WRITE, .stored_bytes = 1 };

	if (mt_memtable_reserve(table, 1) != 0)
		abort();
	mt_memtable_put(table, 1, block, &location);
}

/* All of @blocks into an empty table. */
static struct mt_memtable *
fill(const char *name, const uint32_t *blocks, uint32_t count)
{
	struct mt_memtable *table = mt_memtable_create();
	uint64_t begin_ns = now_ns(), max_ns = 0, last_ns = begin_ns, at_ns = begin_ns;

	if (table == NULL)
		abort();
	for (uint32_t i = 0; i < count; i++) {
		put(table, blocks[i]);
		if (i % GROUP != GROUP - 1 && i + 1 < count)
			continue;
		at_ns = now_ns();
		max_ns = num_max(max_ns, at_ns - last_ns);
		last_ns = at_ns;
	}
	report(name, at_ns - begin_ns, count, table, max_ns);
	return table;
}

static void
again(struct mt_memtable *table, const uint32_t *blocks, uint32_t count)
{
	uint64_t begin_ns = now_ns(), found = 0;

	for (uint32_t i = 0; i < count; i++)
		put(table, blocks[i]);
	report("put again", now_ns() - begin_ns, count, table, 0);
	begin_ns = now_ns();
	for (uint32_t i = 0; i < count; i++) {
		if (i + AHEAD < count)
			mt_memtable_prefetch(table, 1, blocks[i + AHEAD]);
		put(table, blocks[i]);
	}
	report("put again, prefetched", now_ns() - begin_ns, count, table, 0);
	begin_ns = now_ns();
	for (uint32_t i = 0; i < count; i++)
		found += mt_memtable_get(table, 1, blocks[i]) != NULL;
	report("get", now_ns() - begin_ns, count, table, 0);
	if (found != count)
		abort();
}

int
main(int argc, char **argv)
{
	uint32_t count = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : KEYS_DEFAULT;
	uint32_t *blocks;
	uint64_t state[4];

	if (count == 0 || count > CLEAVE_SEGMENT_BLOCKS)
		return 2;
	blocks = malloc(count * sizeof(*blocks));
	if (blocks == NULL)
		return 1;
	for (uint32_t i = 0; i < count; i++)
		blocks[i] = i;
	mt_memtable_destroy(fill("put, sequential", blocks, count));
	random_seed(state, 1);
	for (uint32_t i = count - 1; i > 0; i--) {
		uint32_t k = (uint32_t)random_below(state, i + 1), block = blocks[i];

		blocks[i] = blocks[k];
		blocks[k] = block;
	}
	struct mt_memtable *table = fill("put, random", blocks, count);

	again(table, blocks, count);
	mt_memtable_destroy(table);
	free(blocks);
	return 0;
}
