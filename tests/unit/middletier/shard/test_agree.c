/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_agree.c -- take-overs with fewer replicas than there should be
 *
 * A real gateway and real nodes in virtual time (mt_rig.h). What was acknowledged, and what a shard that
 * served has shown, must be there after every take-over; lengths are agreed upon once. What judges is built in with
 * planted bugs, mark_forgotten and lone_answer, that hardly a seed of the simulator comes upon.
 */
#define CLEAVE_MUTANTS
#include "middletier/shard/agree.c"
#include "middletier/shard/agree_judge.c"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/log.h"
#include "base/num.h"
#include "base/random.h"
#include "cleave/batch.h"
#include "cleave/disk.h"
#include "cleave/engine.h"
#include "cleave/wire.h"
#include "middletier/common/alloc.h"
#include "middletier/common/replica.h"
#include "middletier/common/shard.h"
#include "middletier/extent/extent.h"
#include "middletier/index/memtable.h"
#include "middletier/manifest/edit.h"
#include "middletier/manifest/manifest.h"
#include "middletier/port/port.h"
#include "middletier/port/port_shards.h"
#include "splitlib/sim/loop_sim.h"
#include "support/mt_rig.h"
#include "unit/index_look.h"

#define ALL 7u /* replicas */
#define RIGHT_MARK UINT64_MAX

struct mutant_set mutants_on;

static struct mt_rig *rig;
static struct extent_id log_id; /* of the last make_log */
static struct mt_replica log_replicas[MT_REPLICAS_MAX];

static void
begin(uint32_t node_count, uint32_t min_replicas)
{
	/* Slots enough that the log stays below half of its limit: what is watched here is not to be flushed. */
	rig = mt_rig_create(&(struct mt_rig_options){ .node_count = node_count,
	    .min_replicas = min_replicas,
	    .slot_count = 8192 });
	mt_rig_log_start(rig);
}

static void
teardown(void)
{
	mt_rig_destroy(rig);
}

TestSuite(agree, .fini = teardown);

static struct mt_shard *
shard(void)
{
	return mt_rig_shard(rig, 0);
}

/* The sequence that the shard knows of @block; 0: none. Its raw bytes are all (uint8_t)sequence. */
static uint8_t
known(uint32_t block)
{
	const struct mt_location *location = index_look(shard()->block_index, 1, block);
	uint8_t data[CLEAVE_BLOCK_BYTES];

	for (uint32_t sequence = 1; sequence < 256 && location != NULL; sequence++) {
		memset(data, (int)sequence, sizeof(data));
		if (crc32c(0, data, sizeof(data)) == location->block_crc)
			return (uint8_t)sequence;
	}
	return 0;
}

static struct mt_extent *
find_log(void)
{
	for (uint32_t i = 0; i < shard()->extent_count; i++) {
		if (shard()->extents[i] != NULL &&
		    extent_id_pack(&shard()->extents[i]->id) == extent_id_pack(&log_id))
			return shard()->extents[i];
	}
	cr_assert_fail("the log extent is gone");
	return NULL;
}

static struct mt_replica *
replica_on(struct mt_extent *extent, uint32_t node_index)
{
	for (uint32_t i = 0; i < extent->replica_count; i++) {
		if (mt_rig_index(&extent->replicas[i]) == node_index)
			return &extent->replicas[i];
	}
	return NULL;
}

/* Sequences 1..4 are blocks 0..3, 5..8 are blocks 2..5; acknowledged. */
static struct mt_extent *
make_log(void)
{
	struct mt_extent *extent;

	mt_rig_up(rig);
	mt_rig_run(rig, NUM_S(1)); /* every node */
	extent = mt_rig_log_open(rig);
	cr_assert_not_null(extent);
	cr_assert_eq(extent->replica_count, 3);
	log_id = extent->id;
	memcpy(log_replicas, extent->replicas, sizeof(log_replicas));
	cr_assert_eq(mt_rig_append(rig, extent, 0, 4, ALL, RIGHT_MARK), 0);
	cr_assert_eq(mt_rig_append(rig, extent, 2, 4, ALL, RIGHT_MARK), 0);
	return extent;
}

static void
expect_log(void)
{
	static const uint8_t expected[] = { 1, 2, 5, 6, 7, 8 };

	for (uint32_t i = 0; i < NUM_COUNT(expected); i++)
		cr_assert_eq(known(i), expected[i], "block %u is %u", i, known(i));
}

static uint32_t
node_of(uint32_t replica)
{
	return mt_rig_index(&log_replicas[replica]);
}

/* The gateway dies, and starts while the nodes of these replicas are away. */
static void
restart_without(uint32_t replica_mask)
{
	mt_rig_gateway_kill(rig);
	for (uint32_t i = 0; i < 3; i++) {
		if ((replica_mask & 1u << i) != 0)
			mt_rig_node_kill(rig, node_of(i), false);
	}
	mt_rig_gateway_start(rig);
}

static struct wire_node_reply
freeze_at(uint32_t node_index)
{
	struct wire_node request = { .opcode = WIRE_EXTENT_FREEZE,
		.id = log_id,
		.epoch = shard()->epoch };
	struct wire_node_reply reply = { 0 };

	cr_assert_eq(mt_rig_call(rig, node_index, &request, &reply), 0);
	return reply;
}

Test(agree, goes_on_without_a_node_after_a_while)
{
	struct mt_extent *extent;
	uint64_t end_bytes, begin_ns;

	begin(3, 2);
	end_bytes = make_log()->end_bytes;
	begin_ns = sim_world_now_ns(rig->world);
	restart_without(4);
	cr_assert(mt_rig_wait_ready(rig));
	cr_assert_geq(sim_world_now_ns(rig->world) - begin_ns, NUM_S(2), "it was waited for");
	cr_assert_leq(sim_world_now_ns(rig->world) - begin_ns, NUM_MS(2500), "once, not twice");
	expect_log();
	extent = find_log();
	cr_assert_eq(extent->sealed_bytes, end_bytes);
	cr_assert_not(replica_on(extent, node_of(2))->is_damaged);
	cr_assert_not(replica_on(extent, node_of(2))->is_truncated);
	/* The node comes back, and is told. */
	mt_rig_node_start(rig, node_of(2));
	mt_rig_run(rig, NUM_S(5));
	cr_assert(replica_on(extent, node_of(2))->is_truncated);
	cr_assert_neq(freeze_at(node_of(2)).flags & WIRE_FLAG_SEALED, 0);
	cr_assert_eq(freeze_at(node_of(2)).offset_bytes, end_bytes);
}

static bool
is_serving(void *arg)
{
	(void)arg;
	return shard()->sm.state == MT_SHARD_SERVING;
}

static bool
is_idle(void *arg)
{
	(void)arg;
	return shard()->sm.state == MT_SHARD_IDLE;
}

Test(agree, one_that_has_been_away_for_long_is_not_waited_for)
{
	static uint64_t none[MT_SHARD_SET_WORDS];
	static const uint64_t all[MT_SHARD_SET_WORDS] = { 1 };
	uint64_t begin_ns;

	begin(3, 2);
	(void)make_log();
	mt_rig_node_kill(rig, node_of(2), false);
	mt_rig_run(rig, NUM_S(10));
	mt_port_shards(mt_rig_port(rig), none, 0);
	cr_assert(mt_rig_run_until(rig, is_idle, NULL));
	begin_ns = sim_world_now_ns(rig->world);
	mt_port_shards(mt_rig_port(rig), all, 0);
	cr_assert(mt_rig_run_until(rig, is_serving, NULL));
	cr_assert_leq(sim_world_now_ns(rig->world) - begin_ns, NUM_MS(500));
	expect_log();
}

Test(agree, a_tail_that_only_the_absent_has_is_cut_off)
{
	struct mt_extent *extent;
	uint64_t end_bytes;

	begin(3, 2);
	extent = make_log();
	end_bytes = extent->end_bytes;
	cr_assert_eq(mt_rig_append(rig, extent, 7, 3, 4, RIGHT_MARK), 0);
	restart_without(4);
	cr_assert(mt_rig_wait_ready(rig));
	expect_log();
	cr_assert_eq(known(7), 0);
	mt_rig_node_start(rig, node_of(2));
	mt_rig_run(rig, NUM_S(5));
	cr_assert(replica_on(find_log(), node_of(2))->is_truncated);
	cr_assert_eq(freeze_at(node_of(2)).offset_bytes, end_bytes);
	mt_rig_gateway_restart(rig);
	expect_log();
	cr_assert_eq(known(7), 0);
}

Test(agree, an_absent_copy_that_is_shorter_does_not_count_when_it_returns)
{
	struct mt_extent *extent;

	begin(3, 2);
	extent = make_log();
	cr_assert_eq(mt_rig_append(rig, extent, 7, 3, 3, RIGHT_MARK), 0);
	restart_without(4);
	cr_assert(mt_rig_wait_ready(rig));
	expect_log();
	cr_assert_eq(known(7), 9);
	mt_rig_node_start(rig, node_of(2));
	mt_rig_run(rig, NUM_S(5));
	cr_assert(find_log()->replicas[2].is_damaged ||
	    replica_on(find_log(), node_of(2)) == NULL ||
	    replica_on(find_log(), node_of(2))->is_truncated);
	/* The others go, one after the other: what was seen is seen still. */
	for (uint32_t i = 0; i < 3; i++) {
		restart_without(1u << i);
		mt_rig_run(rig, NUM_S(3));
		mt_rig_node_start(rig, node_of(i));
		cr_assert(mt_rig_wait_ready(rig));
		expect_log();
		cr_assert_eq(known(7), 9);
	}
}

Test(agree, one_copy_is_too_few_and_the_missing_are_named)
{
	char text[80];

	begin(3, 2);
	(void)make_log();
	restart_without(6);
	mt_rig_run(rig, NUM_S(30));
	cr_assert_eq(shard()->sm.state, MT_SHARD_AGREEING);
	(void)snprintf(text, sizeof(text), "shard 0: waits for node %u to freeze", node_of(1) + 1);
	cr_assert(mt_rig_logged(rig, text), "%s", text);
	cr_assert_eq(shard()->awaited_node, node_of(1) + 1);
	cr_assert_eq(mt_shard_wait(shard()), MT_WAIT_AWAY);
	mt_rig_node_start(rig, node_of(1));
	cr_assert(mt_rig_wait_ready(rig));
	cr_assert_eq(shard()->awaited_node, 0);
	expect_log();
}

/*
 * Everything was acknowledged with a mark below it, then a disk loses its last batch without a trace: no
 * write of its end ever reached it. That node alone answers like one that never had more.
 */
static void
lose_the_end_of(uint32_t replica, uint64_t end_bytes)
{
	uint8_t zeros[DISK_ALIGN] = { 0 };
	struct disk_sim *disk = rig->nodes[node_of(replica)].disk;
	int64_t at = mt_rig_data_offset(rig, node_of(replica), &log_id, end_bytes - DISK_ALIGN);

	cr_assert_geq(at, 0);
	disk_sim_poke(disk, (uint64_t)at, zeros, sizeof(zeros));
}

/* A copy answers alone, and has lost an end that was acknowledged; a fourth node could take a copy of what is there. */
static void
leave_a_short_copy_alone(void)
{
	struct mt_extent *extent;
	uint64_t end_bytes;

	begin(4, 2);
	extent = make_log();
	cr_assert_eq(mt_rig_append(rig, extent, 7, 3, ALL, extent->end_bytes), 0);
	end_bytes = extent->end_bytes;
	restart_without(ALL);
	lose_the_end_of(0, end_bytes);
	mt_rig_node_start(rig, node_of(0));
	mt_rig_run(rig, NUM_S(30));
}

Test(agree, a_lone_copy_that_may_have_lost_its_end_is_not_believed)
{
	leave_a_short_copy_alone();
	cr_assert_not(rig->is_ready);
	/* Another replica is enough, and knows better. */
	mt_rig_node_start(rig, node_of(2));
	cr_assert(mt_rig_wait_ready(rig));
	expect_log();
	cr_assert_eq(known(7), 9);
}

Test(agree, a_planted_bug_believes_it)
{
	mutant_set_add(&mutants_on, MUTANT_lone_answer);
	leave_a_short_copy_alone();
	cr_assert(rig->is_ready, "without what was acknowledged");
}

Test(agree, a_lone_copy_is_believed_when_all_others_are_damaged_for_sure)
{
	begin(3, 2);
	(void)make_log();
	mt_rig_gateway_kill(rig);
	for (uint32_t i = 1; i < 3; i++) {
		int64_t at = mt_rig_data_offset(rig, node_of(i), &log_id, 100);

		mt_rig_node_kill(rig, node_of(i), false);
		disk_sim_rot(rig->nodes[node_of(i)].disk, (uint64_t)at, 3);
		mt_rig_node_start(rig, node_of(i));
	}
	mt_rig_gateway_start(rig);
	cr_assert(mt_rig_wait_ready(rig));
	expect_log();
}

Test(agree, nodes_that_could_not_read_it_at_their_start_can_later)
{
	begin(3, 2);
	(void)make_log();
	restart_without(ALL);
	for (uint32_t i = 0; i < 2; i++) {
		const struct disk_sim_rule rule = { .ops = DISK_FAULT_OP(DISK_READ),
			.rc = -EIO,
			.offset_bytes = (uint64_t)mt_rig_data_offset(rig, node_of(i), &log_id, 0),
			.bytes = DISK_ALIGN };

		cr_assert_eq(disk_sim_add_rule(rig->nodes[node_of(i)].disk, &rule), 0);
		mt_rig_node_start(rig, node_of(i));
	}
	mt_rig_run(rig, NUM_S(30));
	cr_assert_not(rig->is_ready);
	for (uint32_t i = 0; i < 2; i++)
		disk_sim_clear_rules(rig->nodes[node_of(i)].disk);
	cr_assert(mt_rig_wait_ready(rig));
	expect_log();
}

/* The other two have lost an end that was acknowledged; the copy that knows of it is damaged, and then it goes. */
static void
lose_the_copy_that_told(void)
{
	struct wire_node request = { .opcode = WIRE_EXTENT_DELETE };
	struct mt_extent *extent;
	uint64_t end_bytes;

	begin(3, 2);
	extent = make_log();
	cr_assert_eq(mt_rig_append(rig, extent, 7, 3, ALL, extent->end_bytes), 0);
	end_bytes = extent->end_bytes;
	cr_assert_eq(mt_rig_append(rig, extent, 10, 1, 1, end_bytes), 0);
	restart_without(ALL);
	disk_sim_rot(rig->nodes[node_of(0)].disk,
	    (uint64_t)mt_rig_data_offset(rig, node_of(0), &log_id, 100), 3);
	for (uint32_t i = 1; i < 3; i++)
		lose_the_end_of(i, end_bytes);
	mt_rig_node_start(rig, node_of(0));
	mt_rig_node_start(rig, node_of(1));
	mt_rig_run(rig, NUM_S(10));
	cr_assert(mt_rig_logged(rig, "no undamaged copy reaches what was acknowledged"));
	request.id = log_id;
	request.epoch = shard()->epoch;
	request.offset_bytes = log_replicas[0].incarnation;
	cr_assert_eq(mt_rig_call(rig, node_of(0), &request, NULL), 0);
	mt_rig_node_start(rig, node_of(2));
	mt_rig_run(rig, NUM_S(30));
}

Test(agree, a_mark_that_was_told_is_not_forgotten_when_its_copy_goes)
{
	lose_the_copy_that_told();
	cr_assert_not(rig->is_ready);
}

Test(agree, a_planted_bug_forgets_a_mark)
{
	mutant_set_add(&mutants_on, MUTANT_mark_forgotten);
	lose_the_copy_that_told();
	cr_assert(rig->is_ready, "with less than was acknowledged");
}

Test(agree, where_one_replica_is_all_that_is_asked_for_one_will_do)
{
	uint32_t keep;

	begin(3, 1);
	(void)make_log();
	/* The write path's log was made when few nodes were up: it may have one replica only. */
	keep = mt_rig_index(&shard()->log->replicas[0]);
	mt_rig_gateway_kill(rig);
	for (uint32_t i = 0; i < 3; i++) {
		if (i != keep)
			mt_rig_node_kill(rig, i, false);
	}
	mt_rig_gateway_start(rig);
	cr_assert(mt_rig_wait_ready(rig));
	expect_log();
}

Test(agree, nobody_there_is_nobody_to_begin_with)
{
	begin(3, 2);
	(void)make_log();
	restart_without(ALL);
	mt_rig_run(rig, NUM_S(60));
	cr_assert_eq(shard()->sm.state, MT_SHARD_CLAIMING, "it looks before it claims");
	mt_rig_node_start(rig, node_of(1));
	mt_rig_run(rig, NUM_S(10));
	cr_assert_eq(shard()->sm.state, MT_SHARD_AGREEING);
	mt_rig_node_start(rig, node_of(0));
	cr_assert(mt_rig_wait_ready(rig));
	expect_log();
}

/* ---- copied to a further node ---- */

/* A node without a replica, of a rig with more nodes than replicas. */
static uint32_t
further_node(void)
{
	for (uint32_t i = 0; i < rig->options.node_count; i++) {
		if (i != node_of(0) && i != node_of(1) && i != node_of(2))
			return i;
	}
	cr_assert_fail("no further node");
	return 0;
}

Test(agree, too_few_copies_become_enough_on_a_further_node)
{
	struct mt_extent *extent;
	uint64_t end_bytes;

	begin(4, 3);
	extent = make_log();
	cr_assert_eq(mt_rig_append(rig, extent, 7, 50, 1, RIGHT_MARK), 0);
	end_bytes = extent->end_bytes;
	restart_without(4);
	cr_assert(mt_rig_wait_ready(rig));
	expect_log();
	cr_assert_eq(known(7), 9);
	cr_assert_eq(known(56), 58);
	extent = find_log();
	cr_assert_not_null(replica_on(extent, further_node()));
	cr_assert(replica_on(extent, further_node())->is_truncated);
	cr_assert_eq(freeze_at(further_node()).offset_bytes, end_bytes);
	/* With it alone, of those that have it. */
	mt_rig_gateway_kill(rig);
	mt_rig_node_start(rig, node_of(1));
	mt_rig_node_start(rig, node_of(2));
	mt_rig_node_kill(rig, node_of(0), true);
	mt_rig_gateway_start(rig);
	cr_assert(mt_rig_wait_ready(rig));
	expect_log();
	cr_assert_eq(known(56), 58);
}

/* The manifest names it until the take-over is durable, so it is asked, not deleted and made anew. */
Test(agree, one_whose_place_was_taken_is_asked_when_it_returns)
{
	struct mt_extent *extent;
	const struct mt_replica *replica;

	begin(4, 3);
	extent = make_log();
	cr_assert_eq(mt_rig_append(rig, extent, 7, 50, 1, RIGHT_MARK), 0);
	restart_without(6);
	mt_rig_run(rig, NUM_S(8));
	cr_assert_not(rig->is_ready);
	mt_rig_node_start(rig, node_of(1));
	cr_assert(mt_rig_wait_ready(rig));
	expect_log();
	cr_assert_eq(known(56), 58);
	extent = find_log();
	cr_assert_not_null(replica_on(extent, further_node()));
	replica = replica_on(extent, node_of(1));
	cr_assert_not_null(replica);
	cr_assert_eq(replica->incarnation, log_replicas[1].incarnation);
}

Test(agree, a_damaged_copy_gives_way_to_one_on_a_further_node)
{
	struct mt_extent *extent;
	int64_t at;

	begin(4, 3);
	extent = make_log();
	at = mt_rig_data_offset(rig, node_of(0), &log_id, 100);
	mt_rig_gateway_kill(rig);
	mt_rig_node_kill(rig, node_of(0), false);
	disk_sim_rot(rig->nodes[node_of(0)].disk, (uint64_t)at, 3);
	mt_rig_node_start(rig, node_of(0));
	mt_rig_gateway_start(rig);
	cr_assert(mt_rig_wait_ready(rig));
	expect_log();
	extent = find_log();
	cr_assert_null(replica_on(extent, node_of(0)));
	cr_assert_not_null(replica_on(extent, further_node()));
}

Test(agree, killed_at_any_moment_of_a_copy_it_can_be_done_again)
{
	struct mt_extent *extent;

	begin(4, 3);
	extent = make_log();
	cr_assert_eq(mt_rig_append(rig, extent, 7, 50, 1, RIGHT_MARK), 0);
	restart_without(4);
	for (uint32_t i = 0; i < 80; i++) {
		mt_rig_run(rig, NUM_S(2) + NUM_US(100) * i);
		if (rig->is_ready)
			break;
		mt_rig_gateway_kill(rig);
		mt_rig_gateway_start(rig);
	}
	cr_assert(mt_rig_wait_ready(rig));
	expect_log();
	cr_assert_eq(known(56), 58);
	mt_rig_gateway_restart(rig);
	expect_log();
	cr_assert_eq(known(56), 58);
}

Test(agree, the_further_node_may_die_as_well)
{
	begin(5, 3);
	(void)make_log();
	for (uint32_t i = 0; i < 30; i++) {
		uint32_t further = further_node();

		restart_without(4);
		mt_rig_run(rig, NUM_S(2) + NUM_US(200) * i);
		mt_rig_node_kill(rig, further, i % 2 == 0);
		mt_rig_run(rig, NUM_MS(20));
		mt_rig_node_start(rig, further);
		cr_assert(mt_rig_wait_ready(rig), "round %u", i);
		expect_log();
		for (uint32_t k = 0; k < 3; k++)
			mt_rig_node_start(rig, node_of(k));
		if (i == 0)
			continue;
		/* Anew: this extent's length is agreed upon. */
		mt_rig_destroy(rig);
		begin(5, 3);
		(void)make_log();
	}
}

Test(agree, the_nth_allocation_of_a_copy_fails)
{
	for (uint32_t nth = 1;; nth++) {
		bool has_failed;

		if (nth > 1)
			mt_rig_destroy(rig);
		begin(4, 3);
		(void)make_log();
		restart_without(4);
		mt_rig_run(rig, NUM_MS(1900)); /* about to be judged */
		mt_alloc_fail_at(nth);
		cr_assert(mt_rig_wait_ready(rig), "allocation %u", nth);
		has_failed = mt_alloc_has_failed();
		mt_alloc_fail_at(0);
		expect_log();
		if (!has_failed)
			break;
		cr_assert_lt(nth, 100);
	}
}

static void
on_edit(int rc, void *arg)
{
	(void)rc;
	(void)arg;
}

/* An edit that nobody confirmed reaches one node; a length with it, once stored, binds every later start. */
Test(agree, a_manifest_on_one_node_alone_is_no_reason_to_do_without_the_others)
{
	struct mt_edit edit = { .kind = MT_EDIT_CUT, .cut = 1, .sequence = 100 };

	begin(3, 2);
	(void)make_log();
	for (uint32_t i = 1; i < 3; i++)
		sim_net_partition(rig->gateway_host, rig->nodes[i].host);
	cr_assert_eq(mt_manifest_commit(shard(), &edit, 1, on_edit, NULL), 0);
	mt_rig_run(rig, NUM_MS(20));
	mt_rig_gateway_kill(rig);
	for (uint32_t i = 1; i < 3; i++)
		mt_rig_node_kill(rig, i, false);
	sim_net_heal_all(rig->net);
	mt_rig_gateway_start(rig);
	mt_rig_run(rig, NUM_S(8));
	cr_assert_not(rig->is_ready);
	mt_rig_gateway_kill(rig);
	/* Confirmed writes are on the two that come back; the third does not. */
	mt_rig_node_kill(rig, 0, true);
	mt_rig_node_start(rig, 1);
	mt_rig_node_start(rig, 2);
	mt_rig_gateway_start(rig);
	cr_assert(mt_rig_wait_ready(rig));
	expect_log();
}

/* ---- two take-overs ---- */

Test(agree, the_second_take_over_finds_the_length_of_the_first)
{
	struct mt_extent *extent;
	uint64_t sealed_bytes;

	begin(4, 2);
	extent = make_log();
	cr_assert_eq(mt_rig_append(rig, extent, 7, 3, 3, RIGHT_MARK), 0);
	cr_assert_eq(mt_rig_append(rig, extent, 10, 3, 1, RIGHT_MARK), 0);
	/* The first hears of two of them: not of the longest. */
	restart_without(1);
	cr_assert(mt_rig_wait_ready(rig));
	sealed_bytes = find_log()->sealed_bytes;
	cr_assert_eq(known(7), 9);
	cr_assert_eq(known(10), 0);
	/* The second hears of the longest. */
	mt_rig_gateway_kill(rig);
	mt_rig_node_start(rig, node_of(0));
	mt_rig_node_kill(rig, node_of(1), true);
	mt_rig_gateway_start(rig);
	cr_assert(mt_rig_wait_ready(rig));
	cr_assert_eq(find_log()->sealed_bytes, sealed_bytes);
	cr_assert_eq(known(7), 9);
	cr_assert_eq(known(10), 0);
}

Test(agree, lengths_that_two_dead_take_overs_cut_do_not_block_the_third)
{
	struct mt_extent *extent;
	uint64_t short_bytes, long_bytes;

	begin(3, 1);
	extent = make_log();
	short_bytes = extent->end_bytes;
	cr_assert_eq(mt_rig_append(rig, extent, 7, 3, 1, RIGHT_MARK), 0);
	long_bytes = extent->end_bytes;
	for (uint32_t i = 0; i < 2; i++) {
		struct wire_node request = { .opcode = WIRE_EXTENT_FREEZE,
			.id = log_id,
			.epoch = shard()->epoch };

		cr_assert_eq(mt_rig_call(rig, node_of(i), &request, NULL), 0);
		request.opcode = WIRE_EXTENT_TRUNCATE;
		request.offset_bytes = i == 0 ? long_bytes : short_bytes;
		cr_assert_eq(mt_rig_call(rig, node_of(i), &request, NULL), 0);
	}
	mt_rig_gateway_restart(rig);
	expect_log();
	cr_assert_eq(known(7), 9);
	cr_assert_eq(find_log()->sealed_bytes, long_bytes);
	cr_assert(replica_on(find_log(), node_of(1))->is_damaged);
	cr_assert(replica_on(find_log(), node_of(2))->is_truncated);
}

/* ---- by dice ---- */

#define BLOCKS 24u

struct dice {
	uint64_t random[4];
	uint8_t floor[BLOCKS]; /* acknowledged, or seen while it served */
};

static void
dice_write(struct dice *dice)
{
	struct mt_extent *extent = mt_rig_log_open(rig);
	uint32_t count = 1 + (uint32_t)random_below(dice->random, 4);

	if (extent == NULL)
		return;
	for (uint32_t i = 0; i < count && shard()->next_sequence < 250; i++) {
		uint32_t block = (uint32_t)random_below(dice->random, BLOCKS);
		uint32_t full = (1u << extent->replica_count) - 1;
		uint32_t mask = i + 1 < count ? full
					      : (uint32_t)random_below(dice->random, full + 1);
		uint64_t sequence = shard()->next_sequence;
		int rc = mt_rig_append(rig, extent, block, 1, mask, RIGHT_MARK);

		if (rc != 0)
			break;
		if (mask == full)
			dice->floor[block] = (uint8_t)sequence;
	}
}

static void
dice_run(uint64_t seed)
{
	struct dice dice = { 0 };
	bool is_down[MT_RIG_NODES_MAX] = { false };

	random_seed(dice.random, seed);
	begin(4, 2);
	mt_rig_up(rig);
	mt_rig_run(rig, NUM_S(1));
	while (shard()->next_sequence < 200) {
		uint32_t victim = (uint32_t)random_below(dice.random, 4);
		uint32_t down_count = 0;

		dice_write(&dice);
		mt_rig_gateway_kill(rig);
		for (uint32_t i = 0; i < 4; i++) {
			if (is_down[i] && random_below(dice.random, 2) == 0) {
				mt_rig_node_start(rig, i);
				is_down[i] = false;
			}
			down_count += is_down[i];
		}
		if (!is_down[victim] && down_count < 2) {
			mt_rig_node_kill(rig, victim, random_below(dice.random, 2) == 0);
			is_down[victim] = true;
		}
		/* A take-over or two that do not come to their end. */
		for (uint64_t i = random_below(dice.random, 3); i > 0; i--) {
			mt_rig_gateway_start(rig);
			mt_rig_run(rig, random_below(dice.random, NUM_MS(2100)));
			mt_rig_gateway_kill(rig);
		}
		mt_rig_gateway_start(rig);
		mt_rig_run(rig, NUM_S(6));
		/* With two of its replicas away it may have to wait. */
		for (uint32_t i = 0; i < 4 && !rig->is_ready; i++) {
			mt_rig_node_start(rig, i);
			is_down[i] = false;
			mt_rig_run(rig, NUM_S(6));
		}
		cr_assert(mt_rig_wait_ready(rig), "seed %lu", (unsigned long)seed);
		for (uint32_t i = 0; i < BLOCKS; i++) {
			cr_assert_geq(known(i), dice.floor[i], "seed %lu block %u",
			    (unsigned long)seed, i);
			dice.floor[i] = known(i);
		}
		if (shard()->next_sequence < 2)
			dice_write(&dice);
	}
}

Test(agree, nothing_seen_is_ever_lost)
{
	const char *only = getenv("CLEAVE_TEST_SEED");
	uint64_t first = only != NULL ? strtoull(only, NULL, 10) : 1;
	uint64_t last = only != NULL ? first : 6;

	for (uint64_t seed = first; seed <= last; seed++) {
		if (seed > first)
			mt_rig_destroy(rig);
		dice_run(seed);
	}
}
