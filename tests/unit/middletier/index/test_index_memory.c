/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_index_memory.c -- host memory of the indexes of 100 GiB stored, once they are compacted
 *
 * Measured at the allocator, of a shard that has all of it: chunks, runs, extents, and as many indexes of
 * runs as the cache may hold. The bound is a thousandth of what is stored.
 */
#include <malloc.h>

#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/wire.h"
#include "middletier/catalog/numbers.h"
#include "middletier/catalog/scope.h"
#include "middletier/common/replica.h"
#include "middletier/extent/extent.h"
#include "middletier/extent/extent_table.h"
#include "middletier/index/index.h"
#include "middletier/index/run_builder.h"
#include "middletier/index/run_dir.h"
#include "middletier/index/run_index.h"
#include "middletier/index/run_load.h"
#include "unit/fake_runs.h"

#define STORED_BYTES NUM_GIB(100)
#define BOUND_BYTES (STORED_BYTES / 1000)
#define EXTENT_BYTES NUM_MIB(64)
#define RUN_BYTES NUM_MIB(8)
#define FRAME_BYTES NUM_KIB(8) /* of four blocks: compressed to the half */
#define FRAME_BLOCKS 4u
#define RUNS_PER_CHUNK 4u
#define RUN_COUNT (STORED_BYTES / RUN_BYTES)

static uint64_t
heap_bytes(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

static void
extent(uint64_t number)
{
	struct extent_id id = { fake.shard.index, fake.shard.epoch, 1000 + number };
	struct mt_replica replicas[3] = { { .node_id = 1 }, { .node_id = 2 }, { .node_id = 3 } };

	fake_runs.extent = mt_extent_restore(&fake.shard, &id, EXTENT_RUN, replicas, 3);
	cr_assert_not_null(fake_runs.extent);
	cr_assert_eq(mt_shard_extent_add(&fake.shard, fake_runs.extent), 0);
}

static struct mt_run_index *
index_of_run(uint32_t first_block)
{
	struct mt_run_builder builder = { 0 };

	for (uint32_t i = 0; i < RUN_BYTES / FRAME_BYTES; i++) {
		struct mt_run_place place = { .offset_bytes = (uint32_t)(i * FRAME_BYTES),
			.first_block = first_block + i * FRAME_BLOCKS };
		struct record_desc frame = { .kind = RECORD_WRITE,
			.block = first_block + i * FRAME_BLOCKS,
			.block_count = FRAME_BLOCKS,
			.stored_bytes = FRAME_BYTES };

		if (i % (BATCH_BYTES_MAX / FRAME_BYTES) == 0)
			cr_assert_eq(mt_run_builder_place(&builder, &place), 0);
		cr_assert_eq(mt_run_builder_add(&builder, &frame, 0), 0);
	}
	return mt_run_builder_take(&builder);
}

static void
add_run(uint64_t number)
{
	uint64_t chunk = mt_chunk_number(FAKE_SEGMENT, 0) + number / RUNS_PER_CHUNK;
	uint32_t part = (uint32_t)(number % RUNS_PER_CHUNK);
	struct mt_run like, *run;

	if (number % (EXTENT_BYTES / RUN_BYTES) == 0)
		extent(number);
	like = (struct mt_run){ .extent_index = fake_runs.extent->index,
		.offset_bytes = (uint32_t)(number % (EXTENT_BYTES / RUN_BYTES) * RUN_BYTES),
		.length_bytes = (uint32_t)RUN_BYTES,
		.flushed_sequence = 1 };
	run = mt_index_add_run(fake.shard.block_index, chunk, &like);
	cr_assert_not_null(run);
	mt_run_index_give(run,
	    index_of_run(part * FRAME_BLOCKS * (uint32_t)(RUN_BYTES / FRAME_BYTES)));
}

Test(index_memory, a_thousandth_of_what_is_stored, .timeout = 120)
{
	uint64_t before, used;

	fake_init(61, false);
	before = heap_bytes();
	for (uint64_t i = 0; i < RUN_COUNT; i++)
		add_run(i);
	used = heap_bytes() - before;
	cr_assert_eq(fake.shard.block_index->run_bytes, STORED_BYTES);
	cr_assert_leq(mt_run_cache_bytes(&fake.port), fake.settings.index_cache_bytes);
	cr_assert_gt(mt_run_cache_bytes(&fake.port), fake.settings.index_cache_bytes - NUM_KIB(64));
	printf("%.1f MiB for %u GiB stored: %.1f MiB of indexes of runs, %.1f of it directories, "
	       "%.1f MiB of all else\n",
	    (double)used / (double)NUM_MIB(1), (unsigned)(STORED_BYTES / NUM_GIB(1)),
	    (double)mt_run_cache_bytes(&fake.port) / (double)NUM_MIB(1),
	    (double)fake.port.run_cache->dir_bytes / (double)NUM_MIB(1),
	    (double)(used - mt_run_cache_bytes(&fake.port)) / (double)NUM_MIB(1));
	cr_assert_leq(used, BOUND_BYTES, "%lu of %lu", used, (uint64_t)BOUND_BYTES);
	fake_fini();
}

/* A 64th of a volume of 64 TiB: all the same, and quicker. HANDBOOK.md tells the figures. */
Test(index_memory, a_chunk_and_a_run_cost_what_is_said, .timeout = 120)
{
	enum { CHUNKS = MT_VOLUME_SEGMENTS * CLEAVE_SEGMENT_CHUNKS / 64 };
	struct mt_index *index;
	struct mt_run like = { .length_bytes = 4096 };
	uint64_t before, chunk_used, run_used;

	fake_init(61, false);
	if (heap_bytes() == 0) {
		fake_fini();
		cr_skip_test("a sanitizer's allocator does not count");
	}
	index = fake.shard.block_index;
	extent(0);
	like.extent_index = fake_runs.extent->index;
	before = heap_bytes();
	for (uint64_t i = 0; i < CHUNKS; i++) {
		cr_assert_eq(mt_index_promise(index, i / CLEAVE_SEGMENT_CHUNKS,
				 (uint32_t)(i % CLEAVE_SEGMENT_CHUNKS * CLEAVE_CHUNK_BLOCKS), 1),
		    0);
		like.flushed_sequence = i + 1;
		cr_assert_not_null(mt_index_add_run(index, i, &like));
		mt_index_unpromise(index, i / CLEAVE_SEGMENT_CHUNKS,
		    (uint32_t)(i % CLEAVE_SEGMENT_CHUNKS * CLEAVE_CHUNK_BLOCKS), 1);
	}
	cr_assert_eq(index->memory_bytes, 0, "none of it counts as layers");
	chunk_used = heap_bytes() - before;
	for (uint64_t i = 0; i < CHUNKS; i++)
		cr_assert_not_null(mt_index_add_run(index, i, &like));
	run_used = heap_bytes() - before - chunk_used;
	printf("%lu bytes a chunk with a run, %lu another run\n", chunk_used / CHUNKS,
	    run_used / CHUNKS);
	cr_assert_leq(run_used / CHUNKS, 112);
	cr_assert_leq(chunk_used / CHUNKS, 160 + 112);
	cr_assert_leq(mt_index_chunk_bytes(index), chunk_used + run_used + NUM_KIB(8));
	cr_assert_geq(mt_index_chunk_bytes(index), (chunk_used + run_used) * 17 / 20);
	fake_fini();
}
