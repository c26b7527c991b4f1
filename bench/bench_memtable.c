/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_memtable -- what does a block cost in a shard's index, in time and in memory?
 *
 *	bench_memtable [KEYS]
 *
 * Puts KEYS (default 4 Mi) blocks in random and in sequential order, then puts and gets all of them
 * again in random order, with and without asking for the cache line a batch of 16 ahead as the write
 * path does. More than a segment has (8 Mi) lie in several, one behind the other; 100 million take 5 GB.
 * Times are the thread's CPU time; group_max_ns is that of the slowest 64 puts in a row:
 * a layer that grows shows there.
 *
 * Output: one JSON object a row.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../middletier/catalog/scope.h"
#include "../middletier/index/index.h"
#include "../middletier/index/memtable.h"
#include "base/num.h"
#include "base/random.h"
#include "cleave/batch.h"
#include "cleave/wire.h"
#include "index/index_apply.h"

#define KEYS_DEFAULT (4u << 20)
#define AHEAD 16u
#define GROUP 64u
#define KEYS_MAX (64 * CLEAVE_SEGMENT_BLOCKS)

static uint64_t
now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return NUM_S((uint64_t)now.tv_sec) + (uint64_t)now.tv_nsec;
}

static void
report(const char *name, uint64_t took_ns, uint64_t count, const struct mt_index *map,
    uint64_t max_ns)
{
	(void)printf("{\"name\": \"%s\", \"ns_per_block\": %.1f, \"bytes_per_key\": %.1f, "
		     "\"group_max_ns\": %llu}\n",
	    name, (double)took_ns / (double)count,
	    (double)map->memory_bytes / (double)map->key_count, (unsigned long long)max_ns);
}

static uint64_t
segment_of(uint32_t at)
{
	return 1 + at / CLEAVE_SEGMENT_BLOCKS;
}

static uint32_t
block_of(uint32_t at)
{
	return (uint32_t)(at % CLEAVE_SEGMENT_BLOCKS);
}

/* As a write does: promised when it is admitted, applied when it is acknowledged, answered. */
static void
put(struct mt_index *map, uint32_t at)
{
	uint64_t segment = segment_of(at);
	uint32_t block = block_of(at);
	struct record_desc record = { .kind = RECORD_WRITE,
		.segment = segment,
		.block = block,
		.block_count = 1,
		.stored_bytes = 1,
		.sequence = 1 };

	if (mt_index_promise(map, segment, block, 1) != 0 ||
	    mt_index_apply(map, &record, 0, 0, 0, 0) != 0)
		abort();
	mt_index_unpromise(map, segment, block, 1);
}

/* All of @blocks into an empty index. */
static struct mt_index *
fill(const char *name, const uint32_t *blocks, uint32_t count)
{
	struct mt_index *map = mt_index_create(NULL);
	uint64_t begin_ns = now_ns(), max_ns = 0, last_ns = begin_ns, at_ns = begin_ns;

	if (map == NULL)
		abort();
	for (uint32_t i = 0; i < count; i++) {
		put(map, blocks[i]);
		if (i % GROUP != GROUP - 1 && i + 1 < count)
			continue;
		at_ns = now_ns();
		max_ns = num_max(max_ns, at_ns - last_ns);
		last_ns = at_ns;
	}
	report(name, at_ns - begin_ns, count, map, max_ns);
	return map;
}

static void
again(struct mt_index *map, const uint32_t *blocks, uint32_t count)
{
	uint64_t begin_ns = now_ns(), found = 0;
	struct mt_location location;
	struct mt_scope scope;
	struct mt_run *run;

	for (uint32_t i = 0; i < count; i++)
		put(map, blocks[i]);
	report("put again", now_ns() - begin_ns, count, map, 0);
	begin_ns = now_ns();
	for (uint32_t i = 0; i < count; i++) {
		if (i + AHEAD < count)
			mt_index_prefetch(map, segment_of(blocks[i + AHEAD]),
			    block_of(blocks[i + AHEAD]));
		put(map, blocks[i]);
	}
	report("put again, prefetched", now_ns() - begin_ns, count, map, 0);
	begin_ns = now_ns();
	for (uint32_t i = 0; i < count; i++) {
		mt_scope_init(&scope, segment_of(blocks[i]));
		found += mt_index_find(map, &scope, segment_of(blocks[i]), block_of(blocks[i]),
			     &location, &run) == MT_FOUND_RECORD;
	}
	report("get", now_ns() - begin_ns, count, map, 0);
	if (found != count)
		abort();
}

int
main(int argc, char **argv)
{
	uint32_t count = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : KEYS_DEFAULT;
	uint32_t *blocks;
	uint64_t state[4];

	if (count == 0 || count > KEYS_MAX)
		return 2;
	blocks = malloc(count * sizeof(*blocks));
	if (blocks == NULL)
		return 1;
	for (uint32_t i = 0; i < count; i++)
		blocks[i] = i;
	mt_index_destroy(fill("put, sequential", blocks, count));
	random_seed(state, 1);
	for (uint32_t i = count - 1; i > 0; i--) {
		uint32_t k = (uint32_t)random_below(state, i + 1), block = blocks[i];

		blocks[i] = blocks[k];
		blocks[k] = block;
	}
	struct mt_index *map = fill("put, random", blocks, count);

	again(map, blocks, count);
	mt_index_destroy(map);
	free(blocks);
	return 0;
}
