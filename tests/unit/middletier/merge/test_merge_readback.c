/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_merge_readback.c -- what was made by a recipe is named when every replica was seen to have it, or made anew
 *
 * The code is built in with a planted bug, part_unverified.
 */
#define CLEAVE_MUTANTS
#include "middletier/merge/merge_readback.c"

#include "base/list.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/batch_directory.h"
#include "cleave/level.h"
#include "cleave/wire.h"
#include "middletier/common/alloc.h"
#include "middletier/common/metric.h"
#include "middletier/extent/extent.h"
#include "middletier/index/index.h"
#include "middletier/index/memtable.h"
#include "middletier/merge/merge_by_recipe.h"
#include "middletier/merge/merge_work.h"
#include "unit/batch_builder.h"
#include "unit/fake_merge.h"

#define BLOCKS 32u /* a batch */

struct mutant_set mutants_on;

static struct {
	void (*fn)(void); /* when a result is to be verified */
	uint32_t count;
	struct run_part part; /* the first of the result then */
	uint32_t reads[FAKE_NODES];
} verifying;

static void
on_move(const struct sm *sm, uint32_t from, uint32_t to)
{
	(void)from;
	if (strcmp(sm->name, "merge") != 0 || to != MERGE_VERIFYING)
		return;
	verifying.count++;
	verifying.part = fake.port.merge_work->result.parts[0];
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		verifying.reads[i] = fake.nodes[i].counts[WIRE_EXTENT_READ];
	if (verifying.fn != NULL)
		verifying.fn();
}

static void
setup(void)
{
	memset(&verifying, 0, sizeof(verifying));
	fake_init(1, false);
	fake.settings.has_recipes = true;
	fake_merges_start();
	for (uint32_t i = 0; i < BLOCKS; i += 16)
		cr_assert_eq(fake_wait(fake_write(i, 16, 4)), 0);
	sm_set_tracer(on_move);
}

static void
teardown(void)
{
	sm_set_tracer(NULL);
	fake_merges_fini();
}

TestSuite(merge_readback, .init = setup, .fini = teardown);

static void
begin(void)
{
	struct mt_merge_input input = { .chunk = fake_chunk(), .level = 1 };

	cr_assert_eq(mt_index_freeze(fake_chunk()), 0);
	input.newest_layer = LIST_ENTRY(fake_chunk()->layers.next, struct mt_layer, link);
	input.oldest_layer = LIST_ENTRY(fake_chunk()->layers.prev, struct mt_layer, link);
	cr_assert_eq(fake_merge_begin(&input), 0);
}

static void
merge(void)
{
	begin();
	cr_assert_eq(fake_merge_end(), 0);
	cr_assert_eq(verifying.count, 1, "anew: by the plan");
}

static struct mt_run *
run(void)
{
	cr_assert_eq(fake_chunk()->run_count, 1);
	return LIST_ENTRY(fake_chunk()->runs.next, struct mt_run, link);
}

static bool
is_part_named(void)
{
	return run()->extent_index == verifying.part.extent_index &&
	    run()->offset_bytes == verifying.part.offset_bytes;
}

/* All blocks are in the run, and it is named if it was not refused. */
static void
expect(bool is_refused)
{
	struct mt_location location;

	cr_assert_eq(fake.port.metrics[MT_METRIC_merges_refused], is_refused);
	cr_assert_eq(is_part_named(), !is_refused);
	cr_assert_not_null(run()->index);
	for (uint32_t i = 0; i < BLOCKS; i++)
		cr_assert(mt_run_find(run(), i, &location), "block %u", i);
}

/* The copy of the part that its replica number @index has. */
static struct fake_copy *
copy_of(uint32_t index)
{
	const struct mt_extent *extent = mt_shard_extent(&fake.shard, verifying.part.extent_index);

	return fake_copy_find(&fake.nodes[extent->replicas[index].node_id - 1], &verifying.part.id);
}

Test(merge_readback, every_replica_is_asked)
{
	const struct mt_extent *extent;

	merge();
	expect(false);
	extent = mt_shard_extent(&fake.shard, verifying.part.extent_index);
	cr_assert_eq(extent->replica_count, 3);
	for (uint32_t i = 0; i < extent->replica_count; i++) {
		uint32_t at = extent->replicas[i].node_id - 1;

		cr_assert_gt(fake.nodes[at].counts[WIRE_EXTENT_READ], verifying.reads[at]);
	}
}

static void
last_copy_lacks_it(void)
{
	copy_of(2)->length = verifying.part.offset_bytes;
}

Test(merge_readback, what_a_replica_lacks_is_not_named)
{
	verifying.fn = last_copy_lacks_it;
	merge();
	expect(true);
}

Test(merge_readback, with_its_planted_bug_it_is_named)
{
	mutant_set_add(&mutants_on, MUTANT_part_unverified);
	verifying.fn = last_copy_lacks_it;
	merge();
	expect(false);
}

/* The first byte of what its last batch has for a CRC. */
static void
first_copy_differs(void)
{
	copy_of(0)->bytes[verifying.part.offset_bytes + BATCH_HEADER_BYTES - 4] ^= 1;
}

Test(merge_readback, what_a_replica_has_otherwise_is_not_named)
{
	verifying.fn = first_copy_differs;
	merge();
	expect(true);
}

static void
all_copies_differ(void)
{
	for (uint32_t i = 0; i < 3; i++)
		copy_of(i)->bytes[verifying.part.offset_bytes + BATCH_HEADER_BYTES + 8] ^= 1;
}

Test(merge_readback, heads_that_no_replica_has_are_not_named)
{
	verifying.fn = all_copies_differ;
	merge();
	expect(true);
}

/* ---- parts that end with their directory ---- */

static void
have_directories(void)
{
	fake.settings.directory_batches_min = 1;
	atomic_store(&fake.shared.cluster_level, CLEAVE_LEVEL_DIRECTORIES);
}

Test(merge_readback, a_directory_is_the_last_batch)
{
	have_directories();
	merge();
	cr_assert_gt(verifying.part.directory_bytes, 0);
	expect(false);
}

static uint32_t
directory_at(void)
{
	return verifying.part.offset_bytes + verifying.part.length_bytes -
	    verifying.part.directory_bytes;
}

static void
last_copy_lacks_the_directory(void)
{
	copy_of(2)->length = directory_at();
}

Test(merge_readback, a_directory_that_a_replica_lacks_is_not_named)
{
	have_directories();
	verifying.fn = last_copy_lacks_the_directory;
	merge();
	expect(true);
}

/* The last block is not in it; else it is as good as any, in all copies, and the CRC that is told is its. */
static void
directory_hides_a_block(void)
{
	struct run_part *part = &fake.port.merge_work->result.parts[0];

	for (uint32_t i = 0; i < 3; i++) {
		uint8_t *head = copy_of(i)->bytes + directory_at();
		uint8_t *bounds = head + BATCH_HEADER_BYTES +
		    batch_directory_bytes(part->batch_count, 2) - 4;

		cr_assert_eq(num_get_le16(bounds + 2), BLOCKS);
		num_put_le16(bounds + 2, BLOCKS - 1);
		builder_reseal(head, part->directory_bytes);
		part->directory_crc = num_get_le32(head + BATCH_HEADER_BYTES - 4);
	}
}

Test(merge_readback, a_directory_that_hides_a_block_is_not_named)
{
	have_directories();
	verifying.fn = directory_hides_a_block;
	merge();
	expect(true);
}

/* ---- heads that come together ---- */

/* The first time that they are asked for so is to be the part's. */
static void
have_gathers(void)
{
	have_directories();
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.links[i].agreed_level = CLEAVE_LEVEL_GATHER;
}

static uint32_t
count_of(enum wire_opcode opcode)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < FAKE_NODES; i++)
		count += fake.nodes[i].counts[opcode];
	return count;
}

static uint32_t
reads_before(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < FAKE_NODES; i++)
		count += verifying.reads[i];
	return count;
}

Test(merge_readback, heads_come_together_where_a_directory_says_where_they_are)
{
	have_gathers();
	merge();
	expect(false);
	cr_assert_eq(count_of(WIRE_EXTENT_READ) - reads_before(), 1 + 3,
	    "the directory, and the last batch of each");
	cr_assert_gt(count_of(WIRE_EXTENT_GATHER), 0);
}

static void
a_gather_is_refused(void)
{
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.nodes[i].fault = (struct fake_fault){ .opcode = WIRE_EXTENT_GATHER,
			.countdown = 1,
			.rc = -EBUSY,
			.is_sticky = true };
}

Test(merge_readback, heads_that_do_not_come_together_come_one_by_one)
{
	have_gathers();
	verifying.fn = a_gather_is_refused;
	merge();
	expect(false);
	cr_assert_gt(count_of(WIRE_EXTENT_READ) - reads_before(), 1 + 3);
}

static uint32_t said_bytes; /* the first head's length */

/* In all of its copies, and the CRC that is told is that of this one. */
static void
directory_lies(void)
{
	struct run_part *part = &fake.port.merge_work->result.parts[0];

	for (uint32_t i = 0; i < 3; i++) {
		uint8_t *head = copy_of(i)->bytes + directory_at();

		num_put_le16(head + BATCH_HEADER_BYTES + 8 + 8, (uint16_t)said_bytes);
		builder_reseal(head, part->directory_bytes);
		part->directory_crc = num_get_le32(head + BATCH_HEADER_BYTES - 4);
	}
}

Test(merge_readback, where_a_directory_lies_nothing_else_is_asked_for)
{
	static const uint32_t lengths[] = { BATCH_HEADER_BYTES + 1, BATCH_HEAD_BYTES_MAX };

	have_gathers();
	verifying.fn = directory_lies;
	for (uint32_t i = 0; i < NUM_COUNT(lengths); i++) {
		said_bytes = lengths[i];
		verifying.count = 0;
		fake.port.metrics[MT_METRIC_merges_refused] = 0;
		cr_assert_eq(fake_wait(fake_write(0, 16, 9 + i)), 0);
		begin();
		cr_assert_eq(fake_merge_end(), 0);
		cr_assert_eq(verifying.count, 1);
		cr_assert_eq(fake.port.metrics[MT_METRIC_merges_refused], 1, "%u", said_bytes);
	}
}

/* ---- replicas that are away ---- */

static uint32_t
node_of_last(void)
{
	return mt_shard_extent(&fake.shard, verifying.part.extent_index)->replicas[2].node_id - 1;
}

static void
last_node_goes(void)
{
	fake_node_down(node_of_last(), 0);
}

Test(merge_readback, a_replica_that_does_not_come_back_in_time_was_not_seen)
{
	verifying.fn = last_node_goes;
	begin();
	cr_assert_eq(fake_merge_end_within(fake.settings.node_timeout_ns + NUM_S(2)), 0);
	expect(true);
}

Test(merge_readback, a_replica_that_comes_back_in_time_is_asked)
{
	verifying.fn = last_node_goes;
	begin();
	fake_run_for(fake.settings.node_timeout_ns / 2);
	cr_assert_eq(verifying.count, 1);
	cr_assert_eq(fake_merges.ended_count, 0);
	fake_node_up(node_of_last());
	cr_assert_eq(fake_merge_end(), 0);
	expect(false);
}

static void
last_node_is_busy(void)
{
	fake.nodes[node_of_last()].fault =
	    (struct fake_fault){ .opcode = WIRE_EXTENT_READ, .countdown = 1, .rc = -EBUSY };
}

Test(merge_readback, a_replica_that_is_busy_is_asked_again)
{
	verifying.fn = last_node_is_busy;
	merge();
	expect(false);
}

static bool
is_verifying(void *arg)
{
	(void)arg;
	return verifying.count > 0;
}

static void
all_nodes_stall(void)
{
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake.nodes[i].is_stalled = true;
}

Test(merge_readback, a_merge_that_is_stopped_waits_for_what_is_out)
{
	verifying.fn = all_nodes_stall;
	begin();
	cr_assert_eq(sim_world_run(fake.world, is_verifying, NULL,
			 sim_world_now_ns(fake.world) + NUM_S(10)),
	    0);
	fake_run_for(NUM_MS(1));
	mt_merge_stop(&fake.shard);
	fake_run_for(NUM_MS(1));
	cr_assert(!mt_merge_is_quiet(&fake.shard));
	cr_assert_eq(fake_merges.ended_count, 0);
	for (uint32_t i = 0; i < FAKE_NODES; i++)
		fake_node_resume(i);
	cr_assert_eq(fake_merge_end(), -ECANCELED);
	cr_assert(mt_merge_is_quiet(&fake.shard));
	cr_assert_eq(fake_chunk()->run_count, 0);
}

static uint32_t nth;

static void
fail_nth(void)
{
	mt_alloc_fail_at(nth);
}

/* Made anew while it is read back; behind that the merge fails, or its shard does. */
Test(merge_readback, memory_that_is_not_there_is_no_yes)
{
	uint32_t refused = 0;

	verifying.fn = fail_nth;
	for (nth = 1; nth < 40 && fake.stop_rc == 0; nth++) {
		cr_assert_eq(fake_wait(fake_write(0, 16, nth)), 0);
		fake.port.metrics[MT_METRIC_merges_refused] = 0;
		begin();
		(void)fake_merge_end();
		mt_alloc_fail_at(0);
		refused += fake.port.metrics[MT_METRIC_merges_refused] > 0;
		cr_assert(refused > 0 || nth > 1);
	}
	cr_assert_neq(fake.stop_rc, 0);
	cr_assert_gt(refused, 1);
}
