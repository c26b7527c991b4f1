/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_port_memory.c -- a port's device memory: as many rings as shards, or as there is room for
 *
 * A real gateway of one port and real nodes in virtual time (mt_rig.h), with more shards than small device memory has
 * rings for. Which of them the port shall own is said by main, or by the test in main's place.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/log.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/batch.h"
#include "cleave/wire.h"
#include "middletier/common/alloc.h"
#include "middletier/common/limits.h"
#include "middletier/common/port.h"
#include "middletier/common/shard.h"
#include "middletier/gateway/gateway.h"
#include "middletier/index/ring.h"
#include "middletier/port/port.h"
#include "middletier/port/port_shards.h"
#include "middletier/port/waits.h"
#include "middletier/read/hot.h"
#include "middletier/read/read_path.h"
#include "middletier/shard/shard.h"
#include "splitlib/core/alloc.h"
#include "support/mt_rig.h"

#define RING_MIN_BYTES (4u * BATCH_BYTES_MAX)

static struct mt_rig *rig;

static void
setup(uint32_t shard_count, uint64_t device_bytes, uint64_t lease_ns)
{
	rig = mt_rig_create(&(struct mt_rig_options){ .shard_count = shard_count,
	    .device_bytes = device_bytes,
	    .lease_ns = lease_ns,
	    .slot_bytes = NUM_KIB(128),
	    .slot_count = 16 * shard_count });
	mt_rig_log_start(rig);
	for (uint32_t i = 0; i < rig->options.node_count; i++)
		mt_rig_node_start(rig, i);
	mt_rig_gateway_start(rig);
}

static struct mt_port *
port(void)
{
	return mt_rig_port(rig);
}

static uint32_t
count_serving(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < port()->shard_count; i++)
		count += port()->shards[i].sm.state == MT_SHARD_SERVING;
	return count;
}

static uint32_t
count_short(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < port()->shard_count; i++) {
		const struct mt_shard *shard = &port()->shards[i];

		if (!mt_shard_is_short(shard))
			continue;
		count++;
		cr_assert_null(shard->ring);
		cr_assert_eq(mt_shard_wait(shard), MT_WAIT_DEVICE);
	}
	return count;
}

/* Every ring is a shard's that runs, and nobody has more than is there. */
static void
expect_sound(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < port()->shard_count; i++)
		count += port()->shards[i].ring != NULL;
	cr_assert_eq(port()->ring_count, count);
	cr_assert_leq(count, port()->ring_max);
}

static bool
is_full(void *arg)
{
	(void)arg;
	return port()->ring_max > 0 && count_serving() == port()->ring_max;
}

static bool
serves_count(void *arg)
{
	return count_serving() == *(const uint32_t *)arg;
}

/* Main's word: the shards from @first on, @count of them, and no others. */
static void
want(uint32_t first, uint32_t count)
{
	uint64_t wanted[MT_SHARD_SET_WORDS] = { 0 };

	for (uint32_t i = first; i < first + count; i++)
		wanted[i / 64] |= UINT64_C(1) << i % 64;
	mt_port_shards(port(), wanted, 0);
}

/* As every port had it before: a ring is its share of what there is. */
Test(port_memory, rings_of_few_shards_share_all_of_it)
{
	uint64_t bytes;

	setup(4, NUM_MIB(32), NUM_S(3));
	cr_assert(mt_rig_wait_ready(rig));
	bytes = port()->ring_bytes;
	cr_assert_eq(port()->ring_max, 4);
	cr_assert_eq(port()->ring_count, 4);
	cr_assert_gt(bytes, NUM_MIB(5));
	cr_assert_not(mt_rig_logged(rig, "--device-memory"));
	mt_rig_destroy(rig);
	setup(8, NUM_MIB(32), NUM_S(3));
	cr_assert(mt_rig_wait_ready(rig));
	cr_assert_eq(port()->ring_bytes, num_round_down(bytes / 2, CLEAVE_BLOCK_BYTES));
	mt_rig_destroy(rig);
}

/* Hot blocks lie beside all that: rings are as long as without. */
Test(port_memory, hot_blocks_take_nothing_of_it)
{
	uint64_t bytes;

	setup(4, NUM_MIB(32), NUM_S(3));
	cr_assert(mt_rig_wait_ready(rig));
	bytes = port()->ring_bytes;
	cr_assert_null(port()->read->hot);
	mt_rig_destroy(rig);
	rig = mt_rig_create(&(struct mt_rig_options){ .shard_count = 4,
	    .device_bytes = NUM_MIB(32),
	    .hot_bytes = NUM_MIB(3) + NUM_KIB(100),
	    .slot_bytes = NUM_KIB(128),
	    .slot_count = 64 });
	mt_rig_up(rig);
	cr_assert_eq(port()->ring_bytes, bytes);
	cr_assert_eq(mt_hot_slot_count(port()->read->hot), (3 * HOT_PAGE_SETS + 3) * HOT_WAYS);
	mt_rig_destroy(rig);
}

/* Once refused, for want of 24 rings that another gateway would have. */
Test(port_memory, a_port_with_more_shards_than_rings_takes_what_fits)
{
	uint32_t ring_max;

	setup(24, NUM_MIB(16), NUM_S(3));
	cr_assert(mt_rig_run_until(rig, is_full, NULL));
	ring_max = port()->ring_max;
	cr_assert_gt(ring_max, 4);
	cr_assert_lt(ring_max, 16);
	cr_assert_eq(port()->ring_bytes, RING_MIN_BYTES);
	mt_rig_run(rig, NUM_S(20));
	cr_assert(is_full(NULL));
	cr_assert_eq(count_short(), 24 - ring_max);
	expect_sound();
	cr_assert(mt_rig_logged(rig, "of the 24 shards that it may have to own"));
	cr_assert(mt_rig_logged(rig, "waits for room: the device memory of port 0"));
	cr_assert(mt_rig_logged(rig, "--device-memory 3"), "%s", rig->log);
	cr_assert_not(rig->has_failed);
	mt_rig_destroy(rig);
}

/* The number that the log proposes will do, and a step less will not. */
Test(port_memory, what_is_proposed_is_enough)
{
	uint64_t bytes;

	setup(24, NUM_MIB(16), NUM_S(3));
	cr_assert(mt_rig_run_until(rig, is_full, NULL));
	bytes = port()->ring_all_device_bytes;
	cr_assert_gt(bytes, NUM_MIB(24));
	mt_rig_destroy(rig);
	setup(24, bytes, NUM_S(3));
	cr_assert(mt_rig_wait_ready(rig));
	cr_assert_eq(count_serving(), 24);
	cr_assert_eq(count_short(), 0);
	mt_rig_destroy(rig);
	setup(24, bytes - NUM_MIB(1), NUM_S(3));
	cr_assert(mt_rig_run_until(rig, is_full, NULL));
	cr_assert_lt(port()->ring_max, 24);
	mt_rig_destroy(rig);
}

/* Rings go from hand to hand: all shards have been here, a few at a time, and none is lost on the way. */
Test(port_memory, a_ring_given_back_is_the_next_ones)
{
	uint32_t ring_max, live_count = 0, few = 4;

	setup(24, NUM_MIB(16), NUM_S(3600)); /* the words to the port are the test's alone */
	cr_assert(mt_rig_run_until(rig, is_full, NULL));
	ring_max = port()->ring_max;
	for (uint32_t round = 0; round < 24; round++) {
		want(round, (uint32_t)num_min(ring_max, 24 - round));
		/* Shards that go are not quiet yet when those that come are told: they wait, and are not forgotten. */
		mt_rig_run(rig, NUM_US(1));
		expect_sound();
		few = (uint32_t)num_min(ring_max, 24 - round);
		cr_assert(mt_rig_run_until(rig, serves_count, &few), "round %u: %u serve", round,
		    count_serving());
		cr_assert_eq(count_short(), 0);
		expect_sound();
	}
	/* Nothing piles up in the arenas. */
	for (uint32_t round = 0; round < 4; round++) {
		want(0, 0);
		few = 0;
		cr_assert(mt_rig_run_until(rig, serves_count, &few));
		mt_rig_run(rig, NUM_S(2));
		cr_assert_eq(port()->ring_count, 0);
		if (round > 0)
			cr_assert_eq(split_alloc_live_count(), live_count);
		live_count = split_alloc_live_count();
		want(0, 24);
		cr_assert(mt_rig_run_until(rig, is_full, NULL));
	}
	mt_rig_destroy(rig);
}

/* Many want the rings that few give back, while the n-th allocation fails: they are all taken in the end. */
Test(port_memory, the_nth_allocation_fails_while_rings_change_hands)
{
	uint32_t ring_max, count;

	setup(24, NUM_MIB(16), NUM_S(3600));
	cr_assert(mt_rig_run_until(rig, is_full, NULL));
	ring_max = count = port()->ring_max;
	for (uint32_t nth = 1; nth <= 60; nth++) {
		mt_alloc_fail_at(nth);
		split_alloc_fail_at(nth * 3);
		want(nth % 2 == 0 ? 0 : 24 - ring_max, ring_max);
		cr_assert(mt_rig_run_until(rig, serves_count, &count));
		mt_rig_run(rig, NUM_S(1));
		mt_alloc_fail_at(0);
		split_alloc_fail_at(0);
		cr_assert(mt_rig_run_until(rig, serves_count, &count), "nth %u", nth);
		expect_sound();
		cr_assert_eq(count_short(), 0);
	}
	mt_rig_destroy(rig);
}

Test(port_memory, a_port_serves_256_shards)
{
	setup(MT_PORT_RINGS_MAX, NUM_MIB(512), NUM_S(3));
	cr_assert(mt_rig_wait_ready(rig));
	cr_assert_eq(count_serving(), MT_PORT_RINGS_MAX);
	cr_assert_eq(port()->ring_count, MT_PORT_RINGS_MAX);
	cr_assert_geq(port()->ring_bytes, RING_MIN_BYTES);
	mt_rig_destroy(rig);
}

/* No amount of device memory helps: the log says what does. */
Test(port_memory, a_port_serves_no_more_than_256_shards)
{
	setup(MT_PORT_RINGS_MAX + 8, NUM_MIB(512), NUM_S(3));
	cr_assert(mt_rig_run_until(rig, is_full, NULL));
	mt_rig_run(rig, NUM_S(2));
	cr_assert_eq(count_serving(), MT_PORT_RINGS_MAX);
	cr_assert_eq(count_short(), 8);
	cr_assert(mt_rig_logged(rig, "give the gateway more --port"));
	cr_assert_not(mt_rig_logged(rig, "--device-memory"));
	mt_rig_destroy(rig);
}
