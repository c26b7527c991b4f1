/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_loss.c -- blocks that a merge cannot read: lost only when every node says so of its copy
 *
 * The judge is built in with a planted bug, loss_unverified, that no seed of the simulator comes upon.
 */
#define CLEAVE_MUTANTS
#include "middletier/merge/merge_loss.c"

#include "base/list.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "cleave/wire.h"
#include "middletier/extent/extent.h"
#include "middletier/index/index.h"
#include "middletier/index/run_index.h"
#include "middletier/index/run_load.h"
#include "splitlib/sim/loop_sim.h"
#include "unit/fake_merge.h"

#define BLOCKS 960u /* more than the ring holds */

struct mutant_set mutants_on;

static void
setup(void)
{
	fake_init(1, false);
	fake_merges_start();
	for (uint32_t i = 0; i < BLOCKS; i += 16)
		cr_assert_eq(fake_wait(fake_write(i, 16, 4)), 0);
}

static void
teardown(void)
{
	fake_merges_fini();
}

TestSuite(loss, .init = setup, .fini = teardown);

/* All of the chunk. */
static int
merge(void)
{
	struct mt_merge_input input = { .chunk = fake_chunk(), .level = 1 };

	cr_assert_eq(mt_index_freeze(fake_chunk()), 0);
	if (!list_is_empty(&fake_chunk()->layers)) {
		input.newest_layer = LIST_ENTRY(fake_chunk()->layers.next, struct mt_layer, link);
		input.oldest_layer = LIST_ENTRY(fake_chunk()->layers.prev, struct mt_layer, link);
	}
	if (!list_is_empty(&fake_chunk()->runs)) {
		input.newest_run = LIST_ENTRY(fake_chunk()->runs.next, struct mt_run, link);
		input.oldest_run = LIST_ENTRY(fake_chunk()->runs.prev, struct mt_run, link);
	}
	cr_assert_eq(fake_merge_begin(&input), 0);
	(void)fake_merge_end();
	cr_assert(mt_merge_is_quiet(&fake.shard));
	fake_run_for(NUM_MS(50));
	return fake_merges.rc;
}

/* Every READ of the first @count nodes is answered with @rc; 0: with bytes again. */
static void
reads_fail(uint32_t count, int rc)
{
	for (uint32_t i = 0; i < count; i++)
		fake.nodes[i].fault = (struct fake_fault){ .opcode = WIRE_EXTENT_READ,
			.countdown = rc != 0,
			.rc = rc,
			.is_sticky = true };
}

/* A byte of every copy of the log's first extent; or its old value again. */
static void
flip_copies(void)
{
	for (uint32_t i = 0; i < FAKE_NODES; i++) {
		for (uint32_t k = 0; k < fake.nodes[i].copy_count; k++) {
			struct fake_copy *copy = &fake.nodes[i].copies[k];

			if (copy->exists && copy->id.counter == fake.shard.extents[0]->id.counter)
				copy->bytes[NUM_KIB(32)] ^= 1;
		}
	}
}

/* Their nodes have verified the copies of all extents, and found the first @count of each damaged. */
static void
verified_damaged(uint32_t count)
{
	for (uint32_t i = 0; i < fake.shard.extent_count; i++) {
		struct mt_extent *extent = fake.shard.extents[i];

		for (uint32_t k = 0; extent != NULL && k < extent->replica_count; k++)
			extent->replicas[k].is_damaged = k < count;
	}
}

static uint32_t
suspects(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < fake.shard.extent_count; i++) {
		const struct mt_extent *extent = fake.shard.extents[i];

		for (uint32_t k = 0; extent != NULL && k < extent->replica_count; k++)
			count += extent->replicas[k].is_suspect;
	}
	return count;
}

static uint32_t
lost_blocks(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < BLOCKS; i++) {
		int rc = fake_wait(fake_read(i, 1));

		cr_assert(rc == 0 || rc == -EIO, "block %u rc %d", i, rc);
		count += rc == -EIO;
	}
	return count;
}

/* ---- errors that pass ---- */

Test(loss, a_moment_of_read_errors_loses_nothing)
{
	static const int errors[] = { -EIO, -ENOENT, -ERANGE, -EMSGSIZE, -EPROTO, -EBADMSG };

	for (uint32_t i = 0; i < NUM_COUNT(errors); i++) {
		reads_fail(FAKE_NODES, errors[i]);
		cr_assert_eq(merge(), -EUCLEAN, "%d: %d", errors[i], fake_merges.rc);
		cr_assert_gt(suspects(), 0);
	}
	cr_assert_eq(fake_chunk()->run_count, 0);
	reads_fail(FAKE_NODES, 0);
	cr_assert_eq(merge(), 0);
	cr_assert_eq(lost_blocks(), 0);
}

Test(loss, the_planted_bug_loses_blocks_in_a_moment_of_read_errors)
{
	mutant_set_add(&mutants_on, MUTANT_loss_unverified);
	reads_fail(FAKE_NODES, -EIO);
	cr_assert_eq(merge(), 0);
	reads_fail(FAKE_NODES, 0);
	cr_assert_gt(lost_blocks(), 0);
}

Test(loss, two_damaged_copies_and_a_moment_of_the_third_lose_nothing)
{
	verified_damaged(2);
	reads_fail(FAKE_NODES, -EIO);
	cr_assert_eq(merge(), -EUCLEAN);
	reads_fail(FAKE_NODES, 0);
	cr_assert_eq(merge(), 0);
	cr_assert_eq(lost_blocks(), 0);
}

Test(loss, copies_that_are_damaged_elsewhere_lose_nothing_in_a_short_moment)
{
	verified_damaged(MT_REPLICAS_MAX);
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.nodes[i].fault =
		    (struct fake_fault){ .opcode = WIRE_EXTENT_READ, .countdown = 1, .rc = -EIO };
	cr_assert_eq(merge(), 0);
	cr_assert_eq(lost_blocks(), 0);
}

Test(loss, a_wrong_crc_in_the_index_loses_nothing)
{
	struct mt_run *run;

	cr_assert_eq(merge(), 0);
	run = LIST_ENTRY(fake_chunk()->runs.next, struct mt_run, link);
	cr_assert_not_null(run->index);
	run->index->frames[0].stored_crc ^= 1;
	verified_damaged(MT_REPLICAS_MAX); /* somewhere */
	cr_assert_eq(merge(), -EUCLEAN);
	cr_assert_null(run->index);
	cr_assert_eq(merge(), 0);
	cr_assert_eq(lost_blocks(), 0);
}

Test(loss, no_directory_is_left_of_a_wrong_index)
{
	struct mt_run_cache *cache = fake.port.run_cache;
	struct mt_run *run;

	cr_assert_eq(merge(), 0);
	run = LIST_ENTRY(fake_chunk()->runs.next, struct mt_run, link);
	cr_assert_not_null(run->index);
	run->index->frames[0].stored_crc ^= 1;
	cache->bytes_max = NUM_MIB(1);
	cache->bytes += NUM_MIB(
	    1); /* other runs': this one's index gives way when the merge lets it go */
	verified_damaged(MT_REPLICAS_MAX);
	cr_assert_eq(merge(), -EUCLEAN);
	cr_assert_null(run->index);
	cr_assert_null(run->dir);
	cr_assert_eq(merge(), 0);
	cr_assert_eq(lost_blocks(), 0);
	cache->bytes -= NUM_MIB(1);
}

Test(loss, an_extent_that_has_gone_ends_the_merge)
{
	static struct merge_exec of_shard;
	struct merge_source source = { .location = { .extent_index = 0 } };

	of_shard.port = &fake.port;
	of_shard.shard = &fake.shard;
	cr_assert_eq(merge(), 0);
	fake_run_for(NUM_S(1));
	cr_assert_null(fake.shard.extents[0], "it was reclaimed");
	cr_assert_eq(mt_merge_loss_judge(&of_shard, &source), -ESTALE);
}

/* ---- losses ---- */

Test(loss, blocks_that_are_bad_in_every_copy_are_lost_when_their_nodes_say_so)
{
	uint32_t lost_count;

	flip_copies();
	cr_assert_eq(merge(), -EUCLEAN);
	cr_assert_eq(suspects(), MT_REPLICAS_MAX);
	verified_damaged(MT_REPLICAS_MAX);
	cr_assert_eq(merge(), 0);
	lost_count = lost_blocks();
	cr_assert_geq(lost_count, 1);
	cr_assert_leq(lost_count, 16);
}

Test(loss, copies_that_are_damaged_and_refuse_until_the_deadline_are_lost)
{
	uint64_t began_ns = sim_world_now_ns(fake.world);

	verified_damaged(MT_REPLICAS_MAX);
	reads_fail(FAKE_NODES, -EIO);
	cr_assert_eq(merge(), 0);
	cr_assert_geq(sim_world_now_ns(fake.world) - began_ns, fake.settings.node_timeout_ns);
	reads_fail(FAKE_NODES, 0);
	cr_assert_gt(lost_blocks(), 0);
}
