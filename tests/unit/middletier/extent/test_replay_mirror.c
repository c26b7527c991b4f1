/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_replay_mirror.c -- a take-over with heads of the log in memory: all, none, some, and wrong ones
 *
 * Whatever is there, each record must be found, and what is missing or wrong is read from the nodes. The part of the
 * replay that takes heads is built in with planted bugs: a head is believed without its chain, or where nothing is behind it.
 */
#define CLEAVE_MUTANTS
#include "middletier/extent/replay_head.c"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/log.h"
#include "base/mutant.h"
#include "base/num.h"
#include "base/random.h"
#include "cleave/batch.h"
#include "cleave/engine.h"
#include "middletier/common/alloc.h"
#include "middletier/common/metric.h"
#include "middletier/extent/extent.h"
#include "middletier/extent/head_mirror.h"
#include "middletier/index/memtable.h"
#include "support/mt_rig.h"
#include "unit/index_look.h"

#define ALL 7u
#define RIGHT_MARK UINT64_MAX
#define BLOCKS 600u
#define EXTENTS 3u
#define BATCHES 30u /* of each */

struct mutant_set mutants_on;

static struct mt_rig *rig;
static uint64_t random_state[4];
static uint64_t expected[BLOCKS]; /* the newest sequence of each; 0: never written */
static uint32_t crc_of[256];      /* of a block of one byte */
/* The log's heads, in its order. */
static struct kept {
	struct extent_id id;
	struct batch_info info;
	uint8_t head[BATCH_HEAD_BYTES_MAX];
} kept[EXTENTS * BATCHES];
static uint32_t kept_count;

static void
append(struct mt_extent *extent, uint32_t record_count)
{
	uint32_t block = (uint32_t)random_below(random_state, BLOCKS - record_count);
	struct kept *at = &kept[kept_count++];
	struct batch_check check = { .id = extent->id,
		.kind = EXTENT_LOG,
		.offset_bytes = extent->end_bytes,
		.is_probe = true };

	for (uint32_t i = 0; i < record_count; i++)
		expected[block + i] = mt_rig_shard(rig, 0)->next_sequence + i;
	cr_assert_eq(mt_rig_append(rig, extent, block, record_count, ALL, RIGHT_MARK), 0);
	cr_assert_eq(mt_rig_read(rig, mt_rig_index(&extent->replicas[0]), &extent->id,
			 check.offset_bytes, at->head, BATCH_ALIGN),
	    0);
	cr_assert_eq(batch_head_check(at->head, BATCH_ALIGN, &check), 0);
	at->id = extent->id;
	at->info = check.info;
}

static void
setup(void)
{
	uint8_t data[CLEAVE_BLOCK_BYTES];

	rig = mt_rig_create(&(struct mt_rig_options){ .slot_bytes = NUM_MIB(8),
	    .slot_count = 24,
	    .mirror_bytes = NUM_MIB(1) });
	mt_rig_log_start(rig);
	mt_rig_up(rig);
	random_seed(random_state, 1);
	for (uint32_t i = 0; i < 256; i++) {
		memset(data, (int)i, sizeof(data));
		crc_of[i] = crc32c(0, data, sizeof(data));
	}
	for (uint32_t i = 0; i < EXTENTS; i++) {
		struct mt_extent *extent = mt_rig_log_open(rig);

		for (uint32_t k = 0; k < BATCHES; k++)
			append(extent, 1 + (uint32_t)random_below(random_state, 50));
	}
}

static void
teardown(void)
{
	mt_rig_destroy(rig);
}

TestSuite(replay_mirror, .init = setup, .fini = teardown);

static void
put(uint32_t index)
{
	const struct kept *at = &kept[index];

	mt_head_mirror_put(mt_rig_port(rig)->head_mirror, &at->id, at->info.offset_bytes, at->head,
	    BATCH_HEADER_BYTES + at->info.desc_bytes);
}

static uint64_t
metric(enum mt_metric metric)
{
	return mt_rig_port(rig)->metrics[metric];
}

/* The gateway dies, and is started again with what @has says of each head; it has not looked at anything yet. */
static void
start_anew(bool (*has)(uint32_t index))
{
	mt_rig_gateway_kill(rig);
	mt_rig_gateway_start(rig);
	for (uint32_t i = 0; i < kept_count; i++) {
		if (has(i))
			put(i);
	}
}

static bool
is_all_there(void)
{
	for (uint32_t i = 0; i < BLOCKS; i++) {
		const struct mt_location *location =
		    index_look(mt_rig_shard(rig, 0)->block_index, 1, i);

		if (expected[i] == 0
			? location != NULL
			: location == NULL || location->block_crc != crc_of[expected[i] % 256])
			return false;
	}
	return true;
}

/* Serves, and has taken @least to @most of the log's heads from memory: a read has short batches' heads along. */
static void
expect_served(uint64_t least, uint64_t most)
{
	uint64_t taken;

	cr_assert(mt_rig_wait_ready(rig));
	cr_assert(is_all_there());
	taken = metric(MT_METRIC_heads_taken);
	cr_assert(taken >= least && taken <= most, "%lu", (unsigned long)taken);
	cr_assert_geq(metric(MT_METRIC_heads_missed), kept_count - taken);
}

static bool
has_all(uint32_t index)
{
	(void)index;
	return true;
}

static bool
has_none(uint32_t index)
{
	(void)index;
	return false;
}

static bool
has_every_second(uint32_t index)
{
	return index % 2 == 0;
}

static bool
has_the_end(uint32_t index)
{
	return index >= kept_count / 2;
}

static bool
has_the_beginning(uint32_t index)
{
	return index < kept_count / 2;
}

Test(replay_mirror, each_extents_last_head_alone_is_read_where_all_are_there)
{
	uint64_t log_bytes = 0;

	for (uint32_t i = 0; i < kept_count; i++)
		log_bytes += kept[i].info.batch_bytes;
	start_anew(has_all);
	expect_served(kept_count - EXTENTS, kept_count - EXTENTS);
	/* The rest is the manifest, and a few answers of nodes. */
	cr_assert_lt(split_port_counters(mt_rig_port(rig)->split)->device_bytes_in, log_bytes / 16);
}

Test(replay_mirror, all_are_read_where_none_is_there)
{
	start_anew(has_none);
	expect_served(0, 0);
}

Test(replay_mirror, every_second_one_is_there)
{
	start_anew(has_every_second);
	expect_served(kept_count / 4, kept_count / 2);
	cr_assert_eq(metric(MT_METRIC_heads_refused), 0);
}

Test(replay_mirror, the_logs_end_is_there)
{
	start_anew(has_the_end);
	expect_served(kept_count / 4, kept_count / 2);
}

Test(replay_mirror, the_logs_beginning_is_there)
{
	start_anew(has_the_beginning);
	expect_served(kept_count / 4, kept_count / 2);
}

/* By dice, and several times: gaps at any place, of any length. */
static bool
has_by_dice(uint32_t index)
{
	static bool is_gap;

	(void)index;
	if (random_below(random_state, 5) == 0)
		is_gap = !is_gap;
	return !is_gap;
}

Test(replay_mirror, gaps_anywhere)
{
	for (uint32_t i = 0; i < 40; i++) {
		start_anew(has_by_dice);
		cr_assert(mt_rig_wait_ready(rig), "round %u", i);
		cr_assert(is_all_there(), "round %u", i);
	}
}

Test(replay_mirror, a_damaged_head_is_read_from_a_node)
{
	kept[40].head[BATCH_HEADER_BYTES + 3] ^= 1;
	start_anew(has_all);
	expect_served(kept_count - EXTENTS - 1, kept_count - EXTENTS - 1);
	cr_assert_eq(metric(MT_METRIC_heads_refused), 1);
}

/* The log's head number @index in another form: whole by itself, of its place, and behind @prev_crc. */
static void
forge(uint32_t index, uint32_t prev_crc)
{
	struct kept *of = &kept[index];
	struct record_iter it;
	struct record_desc record;
	const char *field;
	uint8_t *at = of->head + BATCH_HEADER_BYTES;

	record_iter_init(&it, of->head, &of->info);
	while (record_iter_next(&it, &record, &field) == 1) {
		record.block_crcs[0] ^= 1;
		at += record_encode(at, &record);
	}
	of->info.prev_crc = prev_crc;
	batch_head_encode(of->head, &of->info);
}

/* Two batches are behind it, of which the first is in memory. */
static void
forge_behind_another(void)
{
	uint32_t index = kept_count - 3;

	forge(index, kept[index].info.prev_crc ^ 1);
}

Test(replay_mirror, a_head_behind_another_batch_is_not_believed)
{
	forge_behind_another();
	start_anew(has_all);
	expect_served(kept_count - EXTENTS - 1, kept_count - EXTENTS - 1);
	cr_assert_eq(metric(MT_METRIC_heads_refused), 1);
}

/* Nothing is behind it that it would have to fit. */
static void
forge_the_last(void)
{
	forge(kept_count - 1, kept[kept_count - 1].info.prev_crc);
}

Test(replay_mirror, an_extents_last_head_is_a_nodes)
{
	forge_the_last();
	start_anew(has_all);
	expect_served(kept_count - EXTENTS, kept_count - EXTENTS);
}

/* The log's head number @index in another form: whole, of its place, and behind the batch that it is behind. */
static void
forge_behind_the_same(uint32_t index, uint64_t base_sequence)
{
	struct kept *at = &kept[index];

	at->info.base_sequence = base_sequence;
	batch_head_encode(at->head, &at->info);
}

Test(replay_mirror, a_head_that_passes_and_cannot_be_is_read_from_a_node)
{
	forge_behind_the_same(kept_count - 2, 1); /* it goes back */
	start_anew(has_all);
	expect_served(kept_count - EXTENTS - 1, kept_count - EXTENTS - 1);
	cr_assert_eq(metric(MT_METRIC_heads_refused), 1);
}

/* The head could be one, but for what nodes have behind it: the shard's next start believes none. */
Test(replay_mirror, a_head_that_nothing_fits_behind_ends_no_shard)
{
	forge_behind_the_same(40, kept[40].info.base_sequence + 1);
	start_anew(has_all);
	cr_assert(mt_rig_wait_ready(rig));
	cr_assert(is_all_there());
	cr_assert_eq(metric(MT_METRIC_heads_taken), 40, "up to it, once, but for an extent's last");
}

static void
expect_found(enum mutant mutant)
{
	mutant_set_add(&mutants_on, mutant);
	start_anew(has_all);
	cr_assert(mt_rig_wait_ready(rig));
	cr_assert_not(is_all_there());
}

Test(replay_mirror, believing_what_is_behind_another_batch_is_found)
{
	forge_behind_another();
	expect_found(MUTANT_mirror_unchecked);
}

Test(replay_mirror, believing_the_last_is_found)
{
	forge_the_last();
	expect_found(MUTANT_mirror_last_believed);
}

/* A head that is right by its chain, and longer than what was agreed upon: the extent was cut there. */
Test(replay_mirror, a_batch_beyond_the_agreed_length_is_never_asked_for)
{
	struct mt_extent *extent = mt_rig_log_open(rig);

	kept_count = 0;
	append(extent, 20);
	append(extent, 20);
	mt_rig_log_seal(rig, extent);
	kept[2] = kept[1];
	kept[2].info.offset_bytes += kept[1].info.batch_bytes;
	kept[2].info.prev_crc = kept[1].info.batch_crc;
	kept[2].info.base_sequence += 20;
	batch_head_encode(kept[2].head, &kept[2].info);
	kept_count = 3;
	start_anew(has_all);
	cr_assert(mt_rig_wait_ready(rig));
	cr_assert(is_all_there());
	cr_assert_eq(metric(MT_METRIC_heads_taken), 1, "the last is a node's");
}

Test(replay_mirror, nodes_come_and_go_meanwhile)
{
	for (uint32_t i = 0; i < 30; i++) {
		start_anew(has_by_dice);
		cr_assert(mt_rig_wait_state(rig, MT_SHARD_REPLAYING));
		mt_rig_run(rig, NUM_US(50) * i);
		mt_rig_node_kill(rig, i % 3, false);
		mt_rig_run(rig, NUM_MS(3));
		mt_rig_node_start(rig, i % 3);
		cr_assert(mt_rig_wait_ready(rig), "round %u", i);
		cr_assert(is_all_there(), "round %u", i);
	}
}

Test(replay_mirror, memory_fails_meanwhile)
{
	for (uint32_t n = 1; n < 60; n++) {
		start_anew(has_all);
		cr_assert(mt_rig_wait_state(rig, MT_SHARD_OPENING));
		mt_alloc_fail_at(n);
		cr_assert(mt_rig_wait_ready(rig), "allocation %u", n);
		mt_alloc_fail_at(0);
		cr_assert(is_all_there(), "allocation %u", n);
	}
}
