/* SPDX-License-Identifier: Apache-2.0 */
/* test_copy.c -- a sealed extent goes to one more node, whatever fails on the way */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/disk.h"
#include "cleave/engine.h"
#include "cleave/wire.h"
#include "extent/copy_list.h"
#include "middletier/common/alloc.h"
#include "middletier/common/port.h"
#include "middletier/extent/copy.h"
#include "middletier/extent/extent.h"
#include "splitlib/sim/loop_sim.h"
#include "support/mt_rig.h"

#define ALL 7u
#define RIGHT_MARK UINT64_MAX
#define SLOT_BYTES NUM_MIB(4)

static struct mt_rig *rig;
static struct mt_extent *extent;
static uint64_t spent_ns; /* of a budget: until when */
static uint32_t target;   /* index of the node without a copy */
static struct copy_result {
	struct mt_copy *copy;
	uint32_t count;
	int rc;
	uint64_t incarnation;
} result;

static void
setup(void)
{
	rig = mt_rig_create(&(
	    struct mt_rig_options){ .node_count = 4, .slot_bytes = SLOT_BYTES, .slot_count = 256 });
	mt_rig_log_start(rig);
	mt_rig_up(rig);
	extent = mt_rig_log_open(rig);
	cr_assert_not_null(extent);
	/* Batches of all sizes, of which some cross where a window or a message ends. */
	for (uint32_t i = 0; i < 24; i++)
		cr_assert_eq(mt_rig_append(rig, extent, i * 64, 1 + i * 7 % 60, ALL, RIGHT_MARK),
		    0);
	mt_rig_log_seal(rig, extent);
	target = 0;
	for (uint32_t i = 0; i < 3; i++)
		target += mt_rig_index(&extent->replicas[i]);
	target = 6 - target;
	result = (struct copy_result){ 0 };
	spent_ns = 0;
}

static void
teardown(void)
{
	mt_rig_destroy(rig);
}

TestSuite(copy, .init = setup, .fini = teardown);

static void
on_copy(struct mt_copy *copy, int rc, uint64_t incarnation, void *arg)
{
	cr_assert_eq(arg, &result);
	cr_assert_eq(copy, result.copy);
	result.count++;
	result.rc = rc;
	result.incarnation = incarnation;
}

static struct mt_copy_options
options_of(void)
{
	struct mt_copy_options options = { .shard = mt_rig_shard(rig, 0),
		.id = extent->id,
		.kind = extent->kind,
		.length_bytes = extent->sealed_bytes,
		.source_count = extent->replica_count,
		.target_node_id = target + 1,
		.spent_ns = &spent_ns,
		.fn = on_copy,
		.arg = &result };

	memcpy(options.sources, extent->replicas, sizeof(options.sources));
	return options;
}

static void
start(const struct mt_copy_options *options)
{
	result.copy = mt_copy_start(options);
	cr_assert_not_null(result.copy);
	cr_assert_eq(result.count, 0, "not within the call");
}

static bool
is_over(void *arg)
{
	(void)arg;
	return result.count > 0 && mt_copy_is_quiet(mt_rig_shard(rig, 0));
}

static int
wait_over(void)
{
	cr_assert(mt_rig_run_until(rig, is_over, NULL));
	mt_rig_run(rig, NUM_MS(100));
	cr_assert_eq(result.count, 1);
	return result.rc;
}

/* The copy of node @index, whole, as bytes to be freed. */
static uint8_t *
bytes_at(uint32_t index)
{
	uint8_t *bytes = malloc(extent->sealed_bytes);

	for (uint64_t at = 0; at < extent->sealed_bytes; at += MT_RECEIVE_BYTES)
		cr_assert_eq(mt_rig_read(rig, index, &extent->id, at, bytes + at,
				 (uint32_t)num_min(extent->sealed_bytes - at, MT_RECEIVE_BYTES)),
		    0);
	return bytes;
}

static void
expect_identical(uint32_t source)
{
	uint8_t *from = bytes_at(source), *to = bytes_at(target);
	struct wire_node freeze = { .opcode = WIRE_EXTENT_FREEZE,
		.id = extent->id,
		.epoch = mt_rig_shard(rig, 0)->epoch };
	struct wire_node_reply reply;

	cr_assert(memcmp(from, to, extent->sealed_bytes) == 0);
	free(from);
	free(to);
	cr_assert_eq(mt_rig_call(rig, target, &freeze, &reply), 0);
	cr_assert_eq(reply.flags, WIRE_FLAG_SEALED, "it is not sealed, or damaged");
	cr_assert_eq(reply.offset_bytes, extent->sealed_bytes);
}

static void
expect_nothing_there(void)
{
	uint8_t page[4096];

	cr_assert_eq(mt_rig_read(rig, target, &extent->id, 0, page, sizeof(page)), -ENOENT);
}

/* Run until the target holds at least @bytes, which is in the middle of the copy. */
static bool
has_bytes(void *arg)
{
	return disk_sim_counters(rig->nodes[target].disk)->written_bytes >= *(uint64_t *)arg;
}

static void
run_into_the_middle(void)
{
	uint64_t bytes = disk_sim_counters(rig->nodes[target].disk)->written_bytes +
	    extent->sealed_bytes / 2;

	cr_assert(mt_rig_run_until(rig, has_bytes, &bytes));
	cr_assert_eq(result.count, 0);
}

Test(copy, is_identical_and_sealed)
{
	struct mt_copy_options options = options_of();

	start(&options);
	cr_assert(mt_copy_is_going(options.shard, &extent->id, target + 1));
	cr_assert_not(mt_copy_is_going(options.shard, &extent->id, 99));
	cr_assert_eq(wait_over(), 0);
	cr_assert_neq(result.incarnation, 0);
	cr_assert_not(mt_copy_is_going(options.shard, &extent->id, target + 1));
	expect_identical(mt_rig_index(&extent->replicas[0]));
}

Test(copy, of_an_empty_extent_is_one)
{
	struct mt_extent *empty = mt_rig_log_open(rig);
	struct mt_copy_options options;

	cr_assert_not_null(empty);
	mt_rig_log_seal(rig, empty);
	extent = empty;
	target = 0;
	for (uint32_t i = 0; i < 3; i++)
		target += mt_rig_index(&extent->replicas[i]);
	target = 6 - target;
	options = options_of();
	start(&options);
	cr_assert_eq(wait_over(), 0);
}

Test(copy, keeps_to_its_budget)
{
	struct mt_copy_options options = options_of();
	uint64_t start_ns = sim_world_now_ns(rig->world);
	uint64_t took_ns;

	options.bytes_per_s = NUM_KIB(256);
	start(&options);
	cr_assert_eq(wait_over(), 0);
	took_ns = sim_world_now_ns(rig->world) - start_ns;
	/* The first window is for free. */
	cr_assert_geq(took_ns, NUM_S(extent->sealed_bytes / NUM_KIB(256) - 1));
	cr_assert_leq(took_ns, 2 * NUM_S(extent->sealed_bytes / NUM_KIB(256)));
	expect_identical(mt_rig_index(&extent->replicas[0]));
}

/* Extents that are as short as a window would cost nothing else, however many there are. */
Test(copy, pays_for_the_last_window_of_the_one_before)
{
	struct mt_copy_options options = options_of();
	struct wire_node delete = { .opcode = WIRE_EXTENT_DELETE,
		.id = extent->id,
		.epoch = mt_rig_shard(rig, 0)->epoch };
	struct wire_node_reply reply;
	uint64_t start_ns = sim_world_now_ns(rig->world), priced_ns;

	options.bytes_per_s = NUM_KIB(256);
	start(&options);
	cr_assert_eq(wait_over(), 0);
	priced_ns = extent->sealed_bytes * NUM_S(1) / NUM_KIB(256);
	cr_assert_geq(spent_ns, start_ns + priced_ns - NUM_MS(1));
	cr_assert_gt(spent_ns, sim_world_now_ns(rig->world), "the last window is not paid for");
	delete.offset_bytes = result.incarnation;
	cr_assert_eq(mt_rig_call(rig, target, &delete, &reply), 0);
	result = (struct copy_result){ 0 };
	start(&options);
	cr_assert_eq(wait_over(), 0);
	cr_assert_geq(sim_world_now_ns(rig->world) - start_ns,
	    2 * priced_ns - NUM_S(1) - NUM_MS(1));
}

Test(copy, goes_on_from_another_source)
{
	struct mt_copy_options options = options_of();

	start(&options);
	run_into_the_middle();
	mt_rig_node_kill(rig, mt_rig_index(&extent->replicas[0]), false);
	cr_assert_eq(wait_over(), 0);
	expect_identical(mt_rig_index(&extent->replicas[1]));
}

Test(copy, takes_nothing_rotten)
{
	struct mt_copy_options options = options_of();
	uint64_t places[2] = { extent->sealed_bytes / 2 + 100, NUM_KIB(4) + 50 };

	/* In the head of a batch and in a payload; of three sources the good one is asked last. */
	for (uint32_t i = 0; i < 2; i++) {
		uint32_t source = mt_rig_index(&extent->replicas[i]);

		for (uint32_t k = 0; k < 2; k++)
			disk_sim_rot(rig->nodes[source].disk,
			    (uint64_t)mt_rig_data_offset(rig, source, &extent->id, places[k]), 3);
	}
	options.sources[2].is_damaged = true;
	start(&options);
	cr_assert_eq(wait_over(), 0);
	expect_identical(mt_rig_index(&extent->replicas[2]));
	cr_assert(mt_rig_logged(rig, "copy: another source is read from, a batch of this one"));
}

/* The next batch's head, longer than a block, begins a block before the window ends: nothing is wrong. */
Test(copy, goes_on_where_a_head_is_cut_by_the_window)
{
	struct mt_copy_options options;

	extent = mt_rig_log_open(rig);
	cr_assert_eq(mt_rig_append(rig, extent, 0, 62, ALL, RIGHT_MARK), 0);
	cr_assert_eq(extent->end_bytes, NUM_KIB(256) - CLEAVE_BLOCK_BYTES);
	rig->appends_discards = true;
	cr_assert_eq(mt_rig_append(rig, extent, 64, 250, ALL, RIGHT_MARK), 0);
	mt_rig_log_seal(rig, extent);
	options = options_of();
	options.source_count = 1;
	options.target_node_id = 10 - options.sources[0].node_id - extent->replicas[1].node_id -
	    extent->replicas[2].node_id;
	start(&options);
	cr_assert_eq(wait_over(), 0);
	cr_assert_not(mt_rig_logged(rig, "does not pass"));
}

Test(copy, fails_when_no_source_has_it)
{
	struct mt_copy_options options = options_of();

	for (uint32_t i = 0; i < 3; i++) {
		uint32_t source = mt_rig_index(&extent->replicas[i]);

		disk_sim_rot(rig->nodes[source].disk,
		    (uint64_t)mt_rig_data_offset(rig, source, &extent->id,
			extent->sealed_bytes / 2),
		    3);
	}
	start(&options);
	cr_assert_eq(wait_over(), -EIO);
	expect_nothing_there();
}

/* Each of three copies has a flaw of its own: together they are whole. */
Test(copy, puts_damaged_copies_together)
{
	struct mt_copy_options options = options_of();

	for (uint32_t i = 0; i < 3; i++) {
		uint32_t source = mt_rig_index(&extent->replicas[i]);

		options.sources[i].is_damaged = i != 1;
		disk_sim_rot(rig->nodes[source].disk,
		    (uint64_t)mt_rig_data_offset(rig, source, &extent->id,
			extent->sealed_bytes / 4 * (i + 1)),
		    3);
	}
	start(&options);
	cr_assert_eq(wait_over(), 0);
	for (uint32_t i = 0; i < 3; i++) {
		uint32_t source = mt_rig_index(&extent->replicas[i]);

		disk_sim_rot(rig->nodes[source].disk,
		    (uint64_t)mt_rig_data_offset(rig, source, &extent->id,
			extent->sealed_bytes / 4 * (i + 1)),
		    3);
	}
	expect_identical(mt_rig_index(&extent->replicas[0]));
}

Test(copy, fails_with_its_target)
{
	struct mt_copy_options options = options_of();

	start(&options);
	run_into_the_middle();
	mt_rig_node_kill(rig, target, false);
	cr_assert_eq(wait_over(), -ENOTCONN);
}

Test(copy, needs_its_target_to_begin)
{
	struct mt_copy_options options = options_of();

	mt_rig_node_kill(rig, target, false);
	mt_rig_run(rig, NUM_S(1));
	cr_assert_null(mt_copy_start(&options));
	cr_assert_eq(errno, ENOTCONN);
	mt_alloc_fail_at(1);
	cr_assert_null(mt_copy_start(&options));
	cr_assert_eq(errno, ENOMEM);
	mt_alloc_fail_at(0);
	cr_assert(mt_copy_is_quiet(options.shard));
}

Test(copy, says_that_there_is_no_room)
{
	struct mt_copy_options options = options_of();
	struct wire_node create = { .opcode = WIRE_EXTENT_CREATE,
		.id = { .shard = 9, .epoch = 1, .counter = 1 },
		.kind = EXTENT_LOG,
		.epoch = 1 };

	while (mt_rig_call(rig, target, &create, NULL) == 0)
		create.id.counter++;
	start(&options);
	cr_assert_eq(wait_over(), -ENOSPC);
	expect_nothing_there();
}

Test(copy, does_not_touch_what_is_there)
{
	struct mt_copy_options options = options_of();

	target = mt_rig_index(&extent->replicas[2]);
	options.target_node_id = target + 1;
	options.source_count = 2;
	start(&options);
	cr_assert_eq(wait_over(), -EEXIST);
	free(bytes_at(target));
}

Test(copy, fails_with_the_disk_of_its_target)
{
	struct mt_copy_options options = options_of();

	start(&options);
	run_into_the_middle();
	cr_assert_eq(disk_sim_add_rule(rig->nodes[target].disk,
			 &(struct disk_sim_rule){ .ops = DISK_FAULT_OP(DISK_WRITE),
			     .rc = -EIO,
			     .count = 1 }),
	    0);
	cr_assert_eq(wait_over(), -EREMOTEIO);
}

Test(copy, is_fenced_by_a_newer_owner)
{
	struct mt_copy_options options = options_of();
	struct wire_node freeze = { .opcode = WIRE_EXTENT_FREEZE, .id = extent->id };

	start(&options);
	run_into_the_middle();
	freeze.epoch = options.shard->epoch + 1;
	cr_assert_eq(mt_rig_call(rig, target, &freeze, NULL), 0);
	cr_assert_eq(wait_over(), -ESTALE);
}

/* Stopped after every so many microseconds: in each state, with calls out and without. */
Test(copy, can_be_stopped_anywhere)
{
	struct mt_copy_options options = options_of();
	uint32_t stopped_count = 0;

	for (uint64_t after_ns = 0;; after_ns += NUM_US(170)) {
		result = (struct copy_result){ 0 };
		start(&options);
		mt_rig_run(rig, after_ns);
		if (result.count > 0)
			break;
		mt_copy_stop(result.copy);
		mt_rig_run(rig, NUM_MS(100));
		cr_assert_eq(result.count, 0, "it was told after it was stopped");
		cr_assert(mt_copy_is_quiet(options.shard));
		expect_nothing_there();
		stopped_count++;
	}
	cr_assert_eq(result.rc, 0, "rc %d after %u stops", result.rc, stopped_count);
	cr_assert_gt(stopped_count, 10);
	expect_identical(mt_rig_index(&extent->replicas[0]));
}

Test(copy, stopped_in_a_pause_goes_at_once)
{
	struct mt_copy_options options = options_of();

	options.bytes_per_s = NUM_KIB(1);
	start(&options);
	mt_rig_run(rig, NUM_S(5));
	mt_copy_stop(result.copy);
	mt_rig_run(rig, NUM_MS(100));
	cr_assert(mt_copy_is_quiet(options.shard));
	expect_nothing_there();
}

Test(copy, in_a_pause_learns_that_its_target_is_lost)
{
	struct mt_copy_options options = options_of();

	options.bytes_per_s = NUM_KIB(1);
	start(&options);
	mt_rig_run(rig, NUM_S(5));
	mt_rig_node_kill(rig, target, false);
	mt_rig_run(rig, NUM_S(1));
	mt_copy_on_link(result.copy, mt_rig_link(rig, target), false);
	cr_assert_eq(wait_over(), -ENOTCONN);
}

Test(copy, may_die_with_its_gateway)
{
	struct mt_copy_options options = options_of();

	start(&options);
	run_into_the_middle();
	mt_rig_gateway_kill(rig); /* the sanitizers tell what leaks */
}
