/* SPDX-License-Identifier: Apache-2.0 */
/* test_slow_node.c -- a node that is much slower than its peers is left out; when all are, none is */
#include <criterion/criterion.h>
#include <errno.h>

#include "base/log.h"
#include "base/num.h"
#include "extent/extent_copies.h"
#include "middletier/extent/extent.h"
#include "middletier/extent/node_link.h"
#include "middletier/extent/placement.h"
#include "middletier/extent/slow_node.h"
#include "middletier/gateway/gateway.h"
#include "splitlib/sim/loop_sim.h"
#include "support/mt_rig.h"

#define RIGHT_MARK UINT64_MAX

static struct mt_rig *rig;
static struct mt_extent *extent;

static void
up(uint32_t node_count, uint32_t min_replicas)
{
	rig = mt_rig_create(&(struct mt_rig_options){ .node_count = node_count,
	    .min_replicas = min_replicas,
	    .slot_count = 64 });
	rig->gateway_options.node_timeout_ns = NUM_S(20);
	rig->gateway_options.sweep_interval_ns = NUM_S(1);
	mt_rig_log_start(rig);
	mt_rig_up(rig);
	mt_rig_run(rig, NUM_S(1));
	extent = mt_rig_log_open(rig);
	cr_assert_not_null(extent);
	cr_assert_eq(extent->replica_count, 3);
}

static void
teardown(void)
{
	mt_rig_destroy(rig);
}

TestSuite(slow_node, .fini = teardown);

static int
append(uint64_t *ret_took_ns)
{
	uint64_t start_ns = sim_world_now_ns(rig->world);
	int rc = mt_rig_append(rig, extent, 0, 2, 7, RIGHT_MARK);

	*ret_took_ns = sim_world_now_ns(rig->world) - start_ns;
	return rc;
}

static uint32_t
node_of(uint32_t replica)
{
	return mt_rig_index(&extent->replicas[replica]);
}

static void
stall(uint32_t node, uint64_t ns)
{
	disk_sim_stall(rig->nodes[node].disk, ns);
}

static uint64_t
slow_count(void)
{
	return mt_gateway_metric(rig->gateway, MT_METRIC_nodes_slow);
}

static bool
is_up_again(void *arg)
{
	return mt_link_is_up(mt_rig_link(rig, *(uint32_t *)arg));
}

Test(slow_node, stalled_one_is_given_up_soon)
{
	uint32_t node;
	uint64_t took_ns;

	up(4, 2);
	node = node_of(0);
	cr_assert_eq(append(&took_ns), 0);
	stall(node, NUM_S(10));
	cr_assert_eq(append(&took_ns), -ETIMEDOUT);
	cr_assert_geq(took_ns, SLOW_NODE_MIN_NS);
	cr_assert_lt(took_ns, SLOW_NODE_MIN_NS + NUM_MS(200));
	cr_assert_eq(slow_count(), 1);
	cr_assert(mt_rig_logged(rig, "it is slow while others answer"));
	for (uint32_t i = 0; i < 4; i++)
		cr_assert_eq(mt_link_is_up(mt_rig_link(rig, i)), i != node);
	/* Back, and left alone for a second. */
	cr_assert(mt_rig_run_until(rig, is_up_again, &node));
	cr_assert(mt_link_is_avoided(mt_rig_link(rig, node), sim_world_now_ns(rig->world)));
	for (uint32_t i = 0; i < 5; i++) {
		struct mt_extent *next = mt_rig_log_open(rig);

		cr_assert_eq(next->replica_count, 3);
		cr_assert_eq(mt_extent_replica(next, node + 1), -1);
	}
}

/* ---- a disk that stalls as it begins an extent ---- */

#define ALL_KINDS ((1u << MT_PLACE_KINDS) - 1)

struct creation {
	struct mt_extent *extent;
	struct extent_id id;
	bool is_done;
	int rc;
	uint64_t took_ns;
};

static void
creation_on_done(struct mt_extent *made, int rc, void *arg)
{
	struct creation *creation = arg;

	cr_assert_eq(made, creation->extent);
	creation->rc = rc;
	creation->is_done = true;
}

static bool
creation_is_done(void *arg)
{
	return ((struct creation *)arg)->is_done;
}

static void
create_begin(struct creation *creation)
{
	*creation = (struct creation){ .rc = 1 };
	creation->extent =
	    mt_extent_create(mt_rig_shard(rig, 0), EXTENT_LOG, creation_on_done, creation);
	cr_assert_not_null(creation->extent);
	creation->id = creation->extent->id;
}

static void
create_wait(struct creation *creation)
{
	uint64_t start_ns = sim_world_now_ns(rig->world);

	cr_assert(mt_rig_run_until(rig, creation_is_done, creation));
	creation->took_ns = sim_world_now_ns(rig->world) - start_ns;
}

/* A new extent that has a copy at @node is under way when this returns. */
static void
create_at(uint32_t node, struct creation *creation)
{
	for (uint32_t i = 0; i < 100; i++) {
		create_begin(creation);
		if (mt_extent_replica(creation->extent, node + 1) >= 0)
			return;
		create_wait(creation);
		cr_assert_eq(creation->rc, 0);
		mt_extent_delete(creation->extent);
	}
	cr_assert_fail("no extent is placed at the node");
}

static bool
is_there(uint32_t node, const struct extent_id *id)
{
	struct wire_node verify = { .opcode = WIRE_EXTENT_VERIFY,
		.id = *id,
		.epoch = mt_rig_shard(rig, 0)->epoch };
	int rc = mt_rig_call(rig, node, &verify, NULL);

	cr_assert(rc == 0 || rc == -ENOENT);
	return rc == 0;
}

Test(slow_node, one_that_stalls_as_an_extent_begins_is_given_up_soon)
{
	struct creation creation;
	uint32_t node;

	up(4, 2);
	node = node_of(0);
	mt_rig_run(rig, NUM_MS(100));
	stall(node, NUM_S(10));
	create_at(node, &creation);
	create_wait(&creation);
	cr_assert_eq(creation.rc, -EHOSTDOWN);
	cr_assert_geq(creation.took_ns, SLOW_NODE_MIN_NS);
	cr_assert_lt(creation.took_ns, SLOW_NODE_MIN_NS + NUM_MS(200));
	cr_assert_eq(slow_count(), 1);
	cr_assert(mt_rig_logged(rig, "it is slow while others answer"));
	/* The next ones go elsewhere, at once. */
	for (uint32_t i = 0; i < 5; i++) {
		struct creation next;

		create_begin(&next);
		create_wait(&next);
		cr_assert_eq(next.rc, 0);
		cr_assert_eq(next.extent->replica_count, 3);
		cr_assert_eq(mt_extent_replica(next.extent, node + 1), -1);
		cr_assert_lt(next.took_ns, NUM_MS(100));
		mt_extent_delete(next.extent);
	}
	/* Nothing of the half made one stays: not at the others, nor there, when its disk has gone on and it was swept. */
	mt_rig_run(rig, NUM_S(20));
	cr_assert(mt_rig_run_until(rig, is_up_again, &node));
	mt_rig_run(rig, NUM_S(3));
	for (uint32_t i = 0; i < 4; i++)
		cr_assert_not(is_there(i, &creation.id), "node %u", i);
}

Test(slow_node, writes_wait_for_a_beginning_that_has_no_other_node)
{
	struct creation creation;

	up(3, 3);
	mt_rig_run(rig, NUM_MS(100));
	stall(1, NUM_S(5));
	create_at(1, &creation);
	create_wait(&creation);
	cr_assert_eq(creation.rc, 0);
	cr_assert_geq(creation.took_ns, NUM_S(4));
	cr_assert_eq(slow_count(), 0);
	mt_extent_delete(creation.extent);
}

/* Four nodes, one of them full: without the one that stalls a new extent finds no place. */
Test(slow_node, beginning_waits_where_the_others_have_no_room)
{
	struct creation creation;
	uint32_t full;

	up(4, 2);
	full = node_of(2);
	mt_rig_run(rig, NUM_MS(100));
	mt_rig_link(rig, full)->full_kinds = ALL_KINDS;
	stall(node_of(0), NUM_S(5));
	create_at(node_of(0), &creation);
	mt_rig_run(rig, NUM_S(2));
	cr_assert_not(creation.is_done);
	cr_assert_eq(slow_count(), 0);
	create_wait(&creation);
	cr_assert_eq(creation.rc, 0);
	cr_assert_eq(slow_count(), 0);
	mt_extent_delete(creation.extent);
}

/* An append behind such a creation is judged as if that were not there. */
Test(slow_node, append_behind_a_beginning_is_judged)
{
	struct creation creation;
	uint64_t took_ns;

	up(4, 2);
	mt_rig_run(rig, NUM_MS(100));
	mt_rig_link(rig, node_of(2))->full_kinds = ALL_KINDS;
	stall(node_of(0), NUM_S(10));
	create_at(node_of(0), &creation);
	cr_assert_eq(append(&took_ns), -ETIMEDOUT);
	cr_assert_lt(took_ns, SLOW_NODE_MIN_NS + NUM_MS(200));
	cr_assert_eq(slow_count(), 1);
	create_wait(&creation);
	cr_assert_eq(creation.rc, -EHOSTDOWN);
}

/* A node that has no room refuses without its disk: that tells nothing of how fast the others should be. */
Test(slow_node, refused_beginning_is_no_evidence)
{
	struct mt_link *link;
	struct mt_call call = { .request = { .opcode = WIRE_EXTENT_CREATE, .kind = EXTENT_LOG },
		.is_answered = true,
		.rc = -ENOSPC };
	uint64_t answered_ns, took_ns;

	up(4, 2);
	mt_rig_run(rig, NUM_S(1));
	link = mt_rig_link(rig, 0);
	answered_ns = link->slow.answered_sent_ns;
	took_ns = link->slow.took_ns;
	call.sent_ns = sim_world_now_ns(rig->world);
	mt_slow_node_on_answer(link, &call);
	cr_assert_eq(link->slow.answered_sent_ns, answered_ns);
	cr_assert_eq(link->slow.took_ns, took_ns);
	call.rc = 0;
	mt_slow_node_on_answer(link, &call);
	cr_assert_eq(link->slow.answered_sent_ns, call.sent_ns);
}

/* 250 ms each: it is never given up, and all writes are slow. */
Test(slow_node, sluggish_one_is_told_until_it_is_not)
{
	uint64_t took_ns;
	uint32_t node;

	up(4, 2);
	node = node_of(0);
	for (uint32_t i = 0; i < 2; i++)
		cr_assert_eq(append(&took_ns), 0);
	cr_assert(!mt_slow_node_was(mt_rig_link(rig, node), sim_world_now_ns(rig->world)));
	for (uint32_t i = 0; i < 6; i++) {
		stall(node, NUM_MS(250));
		cr_assert_eq(append(&took_ns), 0);
	}
	cr_assert_eq(slow_count(), 0);
	for (uint32_t i = 0; i < 4; i++)
		cr_assert_eq(mt_slow_node_was(mt_rig_link(rig, i), sim_world_now_ns(rig->world)),
		    i == node, "node %u", i);
	for (uint32_t i = 0; i < 10; i++)
		cr_assert_eq(append(&took_ns), 0);
	cr_assert(!mt_slow_node_was(mt_rig_link(rig, node), sim_world_now_ns(rig->world)));
}

/* Times of long ago say nothing of now. */
Test(slow_node, sluggish_one_that_is_not_used_is_told_no_more)
{
	uint64_t took_ns;

	up(4, 2);
	for (uint32_t i = 0; i < 8; i++) {
		stall(node_of(0), NUM_MS(250));
		cr_assert_eq(append(&took_ns), 0);
	}
	mt_rig_run(rig, NUM_S(6));
	cr_assert(!mt_slow_node_was(mt_rig_link(rig, node_of(0)), sim_world_now_ns(rig->world)));
}

Test(slow_node, penalty_grows_and_is_forgotten)
{
	struct mt_link *link;

	up(4, 2);
	link = mt_rig_link(rig, 0);
	for (uint64_t s = 1; s < 64; s *= 2) {
		mt_slow_node_punish(link);
		cr_assert_eq(link->slow.penalty.last_ns, NUM_S(s));
		mt_rig_run(rig, NUM_S(s) + NUM_MS(1));
		cr_assert_not(mt_link_is_avoided(link, sim_world_now_ns(rig->world)));
	}
	mt_slow_node_punish(link);
	cr_assert_eq(link->slow.penalty.last_ns, NUM_S(60));
	mt_rig_run(rig, NUM_S(121));
	mt_slow_node_punish(link);
	cr_assert_eq(link->slow.penalty.last_ns, NUM_S(1));
}

Test(slow_node, all_at_once_are_left_in)
{
	uint64_t took_ns;

	up(4, 2);
	cr_assert_eq(append(&took_ns), 0);
	for (uint32_t i = 0; i < 4; i++)
		stall(i, NUM_S(5));
	cr_assert_eq(append(&took_ns), 0);
	cr_assert_geq(took_ns, NUM_S(4));
	cr_assert_eq(slow_count(), 0);
}

Test(slow_node, one_that_writes_cannot_do_without_is_left_in)
{
	uint64_t took_ns;

	up(3, 3);
	cr_assert_eq(append(&took_ns), 0);
	stall(1, NUM_S(5));
	cr_assert_eq(append(&took_ns), 0);
	cr_assert_geq(took_ns, NUM_S(4));
	cr_assert_eq(slow_count(), 0);
}

Test(slow_node, most_are_not_left_out_for_the_sake_of_one)
{
	uint64_t took_ns;

	up(5, 1);
	cr_assert_eq(append(&took_ns), 0);
	mt_rig_run(rig, NUM_MS(100)); /* what the others answered before tells nothing */
	stall(node_of(0), NUM_S(3));
	stall(node_of(1), NUM_S(3));
	cr_assert_eq(append(&took_ns), 0);
	cr_assert_eq(slow_count(), 0);
}

Test(slow_node, hundred_times_slower_is_slow_and_works)
{
	uint64_t took_ns;

	up(4, 2);
	disk_sim_set_slowness(rig->nodes[node_of(2)].disk, 100);
	for (uint32_t i = 0; i < 10; i++) {
		cr_assert_eq(append(&took_ns), 0);
		cr_assert_lt(took_ns, NUM_MS(500));
	}
	cr_assert_eq(slow_count(), 0);
}

Test(slow_node, thousands_of_times_slower_is_given_up)
{
	uint64_t took_ns;

	up(4, 2);
	cr_assert_eq(append(&took_ns), 0);
	disk_sim_set_slowness(rig->nodes[node_of(2)].disk, 10000);
	cr_assert_eq(append(&took_ns), -ETIMEDOUT);
	cr_assert_eq(slow_count(), 1);
}

/* The gateway's answers come late from everywhere but one node: that is the network's doing. */
Test(slow_node, slow_answers_from_all_move_the_limit)
{
	struct sim_link_options slow = { .latency_min_ns = NUM_MS(400),
		.latency_max_ns = NUM_MS(500) };
	uint64_t took_ns;

	up(4, 2);
	for (uint32_t i = 0; i < 4; i++)
		sim_net_set_link(rig->nodes[i].host, rig->gateway_host, &slow);
	for (uint32_t i = 0; i < 5; i++)
		cr_assert_eq(append(&took_ns), 0);
	stall(node_of(0), NUM_S(2));
	cr_assert_eq(append(&took_ns), 0, "2 s are no more than 20 times as long");
	cr_assert_eq(slow_count(), 0);
}
