/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_replay.c -- logs of long batches, of which only the heads are read
 *
 * Lengths are what a guess is made from: all alike, nearly alike, alike for a while, by dice. Whatever the
 * guesses come to, each record must be found, and in its order.
 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/log.h"
#include "base/num.h"
#include "base/random.h"
#include "cleave/batch.h"
#include "cleave/engine.h"
#include "cleave/split.h"
#include "middletier/common/shard.h"
#include "middletier/extent/extent.h"
#include "middletier/index/memtable.h"
#include "middletier/port/port.h"
#include "middletier/port/port_shards.h"
#include "support/mt_rig.h"
#include "unit/index_look.h"

#define ALL 7u
#define RIGHT_MARK UINT64_MAX
#define BLOCKS 600u
#define SLOT_BYTES NUM_MIB(8)

static struct mt_rig *rig;
static uint64_t random_state[4];
static uint64_t expected[BLOCKS]; /* the newest sequence of each; 0: never written */
static uint32_t crc_of[256];      /* of a block of one byte */

static void
setup(void)
{
	uint8_t data[CLEAVE_BLOCK_BYTES];

	rig = mt_rig_create(&(struct mt_rig_options){ .slot_bytes = SLOT_BYTES, .slot_count = 24 });
	mt_rig_log_start(rig);
	mt_rig_up(rig);
	memset(expected, 0, sizeof(expected));
	for (uint32_t i = 0; i < 256; i++) {
		memset(data, (int)i, sizeof(data));
		crc_of[i] = crc32c(0, data, sizeof(data));
	}
}

static void
teardown(void)
{
	mt_rig_destroy(rig);
}

TestSuite(replay, .init = setup, .fini = teardown);

static struct mt_shard *
shard(void)
{
	return mt_rig_shard(rig, 0);
}

static void
append(struct mt_extent *extent, uint32_t record_count)
{
	uint32_t block = (uint32_t)random_below(random_state, BLOCKS - record_count);

	for (uint32_t i = 0; i < record_count; i++)
		expected[block + i] = shard()->next_sequence + i;
	cr_assert_eq(mt_rig_append(rig, extent, block, record_count, ALL, RIGHT_MARK), 0);
}

static void
expect_all(void)
{
	for (uint32_t i = 0; i < BLOCKS; i++) {
		const struct mt_location *location = index_look(shard()->block_index, 1, i);

		if (expected[i] == 0) {
			cr_assert_null(location);
			continue;
		}
		cr_assert_not_null(location, "block %u", i);
		cr_assert_eq(location->block_crc, crc_of[expected[i] % 256], "block %u", i);
	}
}

/* Bytes of payloads that the gateway has received since it began. */
static uint64_t
received_bytes(void)
{
	return split_port_counters(mt_rig_port(rig)->split)->device_bytes_in;
}

Test(replay, of_equal_batches_the_heads_are_read)
{
	uint64_t log_bytes = 0;

	random_seed(random_state, 1);
	for (uint32_t i = 0; i < 3; i++) {
		struct mt_extent *extent = mt_rig_log_open(rig);

		for (uint32_t k = 0; k < 36; k++)
			append(extent, 50);
		log_bytes += extent->end_bytes;
	}
	mt_rig_gateway_restart(rig);
	expect_all();
	cr_assert_lt(received_bytes(), log_bytes / 4, "%lu of %lu", (unsigned long)received_bytes(),
	    (unsigned long)log_bytes);
}

Test(replay, short_batches_are_read_whole)
{
	struct mt_extent *extent = mt_rig_log_open(rig);

	random_seed(random_state, 2);
	for (uint32_t k = 0; k < 200; k++)
		append(extent, 3);
	mt_rig_gateway_restart(rig);
	expect_all();
}

/* Runs of equal lengths, each ended by a surprise; and dice. */
static void
write_some(void)
{
	struct mt_extent *extent = mt_rig_log_open(rig);
	uint32_t count = 50;

	while (extent->end_bytes + 3 * BATCH_BYTES_MAX <= extent->capacity_bytes) {
		uint64_t dice = random_below(random_state, 12);

		if (dice == 0)
			count = 1 + (uint32_t)random_below(random_state, 55);
		else if (dice == 1)
			count = 55;
		else if (dice == 2)
			append(extent, 1 + (uint32_t)random_below(random_state, 55));
		append(extent, count);
		if (dice > 9 && count > 1)
			append(extent, count - 1); /* a page less */
	}
}

Test(replay, wrong_guesses_only_cost_time)
{
	for (uint64_t seed = 1; seed <= 12; seed++) {
		if (seed > 1) {
			teardown();
			setup();
		}
		random_seed(random_state, seed);
		for (uint32_t i = 0; i < 3; i++)
			write_some();
		mt_rig_gateway_restart(rig);
		expect_all();
	}
}

/* Where the log ends there is no later read, whose gap would show that a guess was wrong. */
Test(replay, a_wrong_guess_of_the_logs_last_batches)
{
	static const uint32_t tails[][2] = { { 1, 1 }, { 1, 20 }, { 20, 1 }, { 17, 18 },
		{ 40, 5 } };

	for (uint32_t i = 0; i < NUM_COUNT(tails); i++) {
		struct mt_extent *extent;

		if (i > 0) {
			teardown();
			setup();
		}
		random_seed(random_state, i);
		extent = mt_rig_log_open(rig);
		for (uint32_t k = 0; k < 20; k++)
			append(extent, 50);
		append(extent, tails[i][0]);
		append(extent, tails[i][1]);
		mt_rig_gateway_restart(rig);
		expect_all();
	}
}

Test(replay, nodes_come_and_go_while_it_guesses)
{
	random_seed(random_state, 77);
	for (uint32_t i = 0; i < 4; i++)
		write_some();
	for (uint32_t i = 0; i < 60; i++) {
		mt_rig_gateway_kill(rig);
		mt_rig_gateway_start(rig);
		cr_assert(mt_rig_wait_state(rig, MT_SHARD_REPLAYING));
		mt_rig_run(rig, NUM_US(100) * i);
		mt_rig_node_kill(rig, i % 3, false);
		mt_rig_run(rig, NUM_MS(3));
		mt_rig_node_start(rig, i % 3);
		cr_assert(mt_rig_wait_ready(rig), "round %u", i);
		expect_all();
	}
}

Test(replay, stopped_at_any_moment_while_it_guesses)
{
	static const uint64_t none[MT_SHARD_SET_WORDS], all[MT_SHARD_SET_WORDS] = { 1 };

	random_seed(random_state, 78);
	for (uint32_t i = 0; i < 4; i++)
		write_some();
	for (uint32_t i = 0; i < 60; i++) {
		mt_port_shards(mt_rig_port(rig), none, 0);
		cr_assert(mt_rig_wait_state(rig, MT_SHARD_IDLE));
		mt_port_shards(mt_rig_port(rig), all, 0);
		cr_assert(mt_rig_wait_state(rig, MT_SHARD_REPLAYING));
		mt_rig_run(rig, NUM_US(100) * i);
	}
	mt_port_shards(mt_rig_port(rig), all, 0);
	cr_assert(mt_rig_wait_state(rig, MT_SHARD_SERVING));
	expect_all();
}

/*
 * A head that begins in the last block of a piece and ends in the next piece, which may be of another copy.
 * With one good copy left, blaming that one for the other's half would leave none.
 */
Test(replay, head_of_two_copies_blames_neither)
{
	for (uint32_t good = 0; good < 3; good++) {
		struct mt_extent *extent;
		struct mt_replica copies[3];
		struct extent_id id;
		char blamed[64];

		if (good > 0) {
			teardown();
			setup();
		}
		extent = mt_rig_log_open(rig);
		id = extent->id;
		memcpy(copies, extent->replicas, sizeof(copies));
		cr_assert_eq(mt_rig_append(rig, extent, 0, 62, ALL, RIGHT_MARK), 0);
		cr_assert_eq(extent->end_bytes, NUM_KIB(256) - CLEAVE_BLOCK_BYTES);
		rig->appends_discards = true;
		cr_assert_eq(mt_rig_append(rig, extent, 64, 250, ALL, RIGHT_MARK), 0);
		for (uint32_t i = 0; i < 3; i++) {
			uint32_t node = mt_rig_index(&extent->replicas[i]);

			if (i != good)
				disk_sim_rot(rig->nodes[node].disk,
				    (uint64_t)mt_rig_data_offset(rig, node, &id,
					NUM_KIB(256) - CLEAVE_BLOCK_BYTES + 1000),
				    3);
		}
		mt_rig_gateway_restart(rig);
		cr_assert_not_null(index_look(shard()->block_index, 1, 64));
		(void)snprintf(blamed, sizeof(blamed), "node=%" PRIu32 " offset_bytes",
		    mt_rig_index(&copies[good]) + 1);
		cr_assert_not(mt_rig_logged(rig, blamed));
	}
}
