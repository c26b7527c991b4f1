/* SPDX-License-Identifier: Apache-2.0 */
/* fake_merge.h -- merges of the fake port's shard: begun, and waited for in virtual time */
#ifndef CLEAVE_TESTS_FAKE_MERGE_H
#define CLEAVE_TESTS_FAKE_MERGE_H

#include "base/num.h"
#include "middletier/index/chunk.h"
#include "middletier/index/index.h"
#include "middletier/merge/merge.h"
#include "middletier/merge/merge_port.h"
#include "middletier/merge/reclaim.h"
#include "middletier/merge/run_roll.h"
#include "unit/fake_port.h"

static struct {
	uint32_t begun_count, ended_count;
	int rc; /* of the one that has ended last */
} fake_merges;

/* fake_merges_start -- behind fake_init: the port has what merges need, and serves. */
static inline void
fake_merges_start(void)
{
	memset(&fake_merges, 0, sizeof(fake_merges));
	if (getenv("CLEAVE_TEST_RECIPES") != NULL)
		fake.settings.has_recipes = true;
	cr_assert_eq(mt_merge_port_init(&fake.port, NUM_MIB(32)), 0);
	cr_assert_eq(mt_run_roll_init(&fake.shard), 0);
	fake_start();
	mt_reclaim_start(&fake.shard);
}

/* fake_merges_fini -- and all of the fake port. */
static inline void
fake_merges_fini(void)
{
	mt_merge_fini(&fake.shard);
	mt_run_roll_fini(&fake.shard);
	mt_merge_port_fini(&fake.port);
	fake_fini();
}

static inline void
fake_merge_on_end(int rc, void *arg)
{
	(void)arg;
	fake_merges.rc = rc;
	fake_merges.ended_count++;
}

static inline bool
fake_merge_has_ended(void *arg)
{
	(void)arg;
	return fake_merges.ended_count == fake_merges.begun_count;
}

/* fake_merge_begin -- what mt_merge_start says. */
static inline int
fake_merge_begin(const struct mt_merge_input *input)
{
	int rc = mt_merge_start(&fake.shard, input, fake_merge_on_end, NULL);

	fake_merges.begun_count += rc == 0;
	return rc;
}

/* fake_merge_end_within -- what was begun ends in so much time: the result of the last. */
static inline int
fake_merge_end_within(uint64_t ns)
{
	cr_assert_eq(sim_world_run(fake.world, fake_merge_has_ended, NULL,
			 sim_world_now_ns(fake.world) + ns),
	    0);
	return fake_merges.rc;
}

static inline int
fake_merge_end(void)
{
	return fake_merge_end_within(NUM_S(120));
}

/* fake_merge -- one, to its end. */
static inline void
fake_merge(const struct mt_merge_input *input)
{
	cr_assert_eq(fake_merge_begin(input), 0);
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(fake_replies_held(), 0);
}

/* fake_chunk -- the first of the segment; NULL: nothing is in it. fake_newest_run -- of those that it has. */
static inline struct mt_chunk *
fake_chunk(void)
{
	return mt_index_chunk(fake.shard.block_index, mt_chunk_number(FAKE_SEGMENT, 0));
}

static inline struct mt_run *
fake_newest_run(void)
{
	cr_assert_not_null(fake_chunk());
	cr_assert_gt(fake_chunk()->run_count, 0);
	return mt_run_of(fake_chunk()->runs.next);
}

/* fake_input_of_all -- @chunk's layers, which are frozen, where @has_layers; and all runs that it has. */
static inline struct mt_merge_input
fake_input_of_all(struct mt_chunk *chunk, bool has_layers)
{
	struct mt_merge_input input = { .chunk = chunk, .level = 1 };

	if (has_layers) {
		cr_assert_eq(mt_index_freeze(chunk), 0);
		input.newest_layer = mt_layer_of(chunk->layers.next);
		input.oldest_layer = mt_layer_of(chunk->layers.prev);
	}
	if (chunk->run_count > 0) {
		input.newest_run = mt_run_of(chunk->runs.next);
		input.oldest_run = mt_run_of(chunk->runs.prev);
	}
	return input;
}

#endif /* CLEAVE_TESTS_FAKE_MERGE_H */
