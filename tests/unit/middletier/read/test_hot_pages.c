/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hot_pages.c -- pages of hot blocks that a client reads by itself: what it may believe there, and until when
 *
 * Built in with planted bugs, hot_not_hidden, hot_shown_stale, hot_page_unwiped and hot_kept_shown. What a client reads
 * is what the pages hold, by the keys that its session is told.
 */
#define CLEAVE_MUTANTS
#include "middletier/read/hot_pages.c"
#include "middletier/read/hot_show.c"
#include "middletier/read/read_hot.c"

#include "middletier/extent/extent.h"
#include "middletier/index/index.h"
#include "middletier/index/index_apply.h"
#include "middletier/index/run_index.h"
#include "middletier/index/run_load.h"
#include "unit/fake_runs.h"

struct mutant_set mutants_on;

#define CHUNK mt_chunk_number(FAKE_SEGMENT, 0)
#define FRAME_BLOCKS 4u
#define FRAMES 12u
#define VOLUME 77u

static void
setup_with(bool is_threaded)
{
	mutants_on = (struct mutant_set){ 0 };
	fake_init(71, is_threaded);
	fake.settings.hot_bytes = NUM_MIB(8);
	cr_assert_eq(mt_hot_init(&fake.port), 0);
	fake.session.hello.volume_id = VOLUME;
	fake_start();
	fake_run_for(NUM_MS(10));
	memset(&fake_runs, 0, sizeof(fake_runs));
	fake_runs_codec = ENGINE_LZ4;
	fake_runs_extent();
}

static void
teardown(void)
{
	fake_run_for(NUM_MS(100));
	fake_runs_codec = ENGINE_NONE;
	mt_hot_pages_left(&fake.session);
	cr_assert_eq(fake.region_count, 0);
	fake_runs_fini();
}

FAKE_SUITES(hot_pages)

static void
add_run(uint64_t flushed_sequence, uint64_t version)
{
	(void)fake_runs_even(flushed_sequence, FRAMES, FRAME_BLOCKS, version);
	fake_expect(FRAMES * FRAME_BLOCKS - 1, version);
}

static void
read_one(uint32_t block, uint64_t version)
{
	fake.session.read_end_bytes = 0;
	fake.session.read_segment = 0;
	fake_expect(block, version);
}

static void
heat(uint32_t block, uint64_t version)
{
	for (uint32_t i = 0; i < HOT_COUNT_MIN; i++)
		read_one(block, version);
}

/* As the session's client does: tags, a slot, and whatever of it is to be believed. */
static bool
client_finds(uint32_t block, uint64_t version)
{
	const struct mt_session_pages *pages = fake.session.pages;
	uint64_t hash = wire_hot_hash(FAKE_SEGMENT, block);
	uint32_t set = wire_hot_set(hash, pages->count * HOT_PAGE_SETS);
	const struct dev_remote *page = &pages->remotes[set / HOT_PAGE_SETS];
	uint8_t tags[HOT_PAGE_TAG_BYTES], slot[HOT_SLOT_BYTES], expected[CLEAVE_BLOCK_BYTES];
	struct wire_hot_head head;

	fake_from_device(tags, (dev_ptr){ page->address }, sizeof(tags));
	for (uint32_t i = 0; i < HOT_WAYS; i++) {
		uint32_t at = set % HOT_PAGE_SETS * HOT_WAYS + i;

		if (num_get_le32(tags + at * sizeof(uint32_t)) != wire_hot_tag(hash))
			continue;
		fake_from_device(slot, (dev_ptr){ page->address + wire_hot_at(at) }, sizeof(slot));
		if (wire_hot_head_decode(slot, &head) != 0 || head.block != block)
			continue;
		cr_assert_eq(head.segment, FAKE_SEGMENT);
		cr_assert_eq(head.volume, VOLUME);
		cr_assert_eq(head.shard, fake.shard.index);
		cr_assert_eq(head.epoch, fake.shard.epoch);
		cr_assert_eq(head.block_crc, crc32c(0, slot + HOT_HEAD_BYTES, CLEAVE_BLOCK_BYTES));
		fake_pattern(expected, block, version);
		return memcmp(slot + HOT_HEAD_BYTES, expected, sizeof(expected)) == 0;
	}
	return false;
}

static void
ask(void)
{
	mt_hot_pages_ask(&fake.session);
	cr_assert_not_null(fake.session.pages);
}

static void
check_found(void)
{
	ask();
	cr_assert_eq(fake.session.pages->count, 6, "three quarters of them");
	add_run(5, 1);
	read_one(2, 1);
	cr_assert_not(client_finds(2, 1));
	heat(2, 1);
	cr_assert(client_finds(2, 1));
	cr_assert_not(client_finds(3, 1));
	cr_assert_eq(fake.port.metrics[MT_METRIC_hot_shown], 1);
}

Test(hot_pages, a_client_finds_what_is_hot)
{
	check_found();
}

Test(hot_pages_threads, a_client_finds_what_is_hot)
{
	check_found();
}

/* Before it is answered: at the moment at which it is, nobody finds the block. */
static bool
is_found_after_write(uint32_t block)
{
	check_found();
	cr_assert_eq(fake_wait(fake_write(block, 1, 2)), 0);
	return client_finds(2, 1);
}

Test(hot_pages, a_change_hides_it)
{
	cr_assert_not(is_found_after_write(2));
	read_one(2, 2);
	cr_assert_not(client_finds(2, 2), "it is in the log: not kept");
}

Test(hot_pages, a_change_of_another_block_does_not)
{
	cr_assert(is_found_after_write(3));
}

Test(hot_pages, with_a_planted_bug_a_change_does_not_hide_it)
{
	mutant_set_add(&mutants_on, MUTANT_hot_not_hidden);
	cr_assert(is_found_after_write(2));
}

Test(hot_pages, a_discard_of_a_whole_chunk_hides_all)
{
	check_found();
	heat(9, 1);
	cr_assert(client_finds(9, 1));
	cr_assert_eq(fake_wait(fake_discard(0, CLEAVE_CHUNK_BYTES / CLEAVE_BLOCK_BYTES)), 0);
	cr_assert_not(client_finds(2, 1));
	cr_assert_not(client_finds(9, 1));
}

Test(hot_pages, another_volumes_change_is_none_of_its_business)
{
	check_found();
	fake.port.on_change(&fake.port, &(struct mt_change){ VOLUME + 1, FAKE_SEGMENT, 2, 1 });
	cr_assert(client_finds(2, 1));
	fake.port.on_change(&fake.port, &(struct mt_change){ VOLUME, FAKE_SEGMENT + 1, 2, 1 });
	cr_assert(client_finds(2, 1));
	fake.port.on_change(&fake.port, &(struct mt_change){ VOLUME, FAKE_SEGMENT, 1, 2 });
	cr_assert_not(client_finds(2, 1));
}

/* A node's answer is late: the block has changed by the time that what was there comes to the table. */
static void
change_under_fill(void)
{
	struct fake_msg *read;

	ask();
	add_run(5, 1);
	heat(3, 1); /* the frame's index is there */
	read_one(2, 1);
	fake_stall_all(true);
	fake.session.read_end_bytes = 0;
	read = fake_read(2, 1);
	fake_run_for(NUM_MS(1));
	cr_assert_not(read->is_answered);
	fake.port.on_change = NULL; /* as if it had come before the slot was taken */
	cr_assert_eq(mt_index_apply(fake.shard.block_index,
			 &(struct record_desc){ .kind = RECORD_DISCARD,
			     .segment = FAKE_SEGMENT,
			     .block = 2,
			     .block_count = 1 },
			 0, fake_runs.extent->index, 0, 0),
	    0);
	fake.port.on_change = mt_hot_on_change;
	fake_stall_all(false);
	(void)fake_wait(read);
}

Test(hot_pages, what_has_changed_meanwhile_is_not_shown)
{
	change_under_fill();
	cr_assert_not(client_finds(2, 1));
}

Test(hot_pages, with_a_planted_bug_it_is)
{
	mutant_set_add(&mutants_on, MUTANT_hot_shown_stale);
	change_under_fill();
	cr_assert(client_finds(2, 1));
}

Test(hot_pages, a_block_that_a_merge_has_moved_is_shown_still)
{
	check_found();
	add_run(9, 1);
	cr_assert(client_finds(2, 1));
	heat(2, 1);
	cr_assert(client_finds(2, 1));
}

Test(hot_pages, nothing_of_a_shard_that_stops)
{
	check_found();
	fake_stop(-EREMCHG);
	cr_assert_not(client_finds(2, 1));
}

/* How many keys are good when the gateway has lost its lease. */
static uint32_t
keys_left(void)
{
	check_found();
	cr_assert_eq(fake.region_count, 6);
	mt_hot_pages_revoke(&fake.port);
	return fake.region_count;
}

Test(hot_pages, keys_end_with_the_lease)
{
	uint32_t before = fake.port.read->hot->generation;

	cr_assert_eq(keys_left(), 0);
	cr_assert_eq(fake.session.pages->count, 0);
	cr_assert_eq(fake.session.pages->generation, 0, "there is none");
	heat(2, 1);
	ask();
	cr_assert_eq(fake.session.pages->count, 6);
	cr_assert_gt(fake.session.pages->generation, before + 1);
	cr_assert_not(client_finds(2, 1), "it is empty");
	heat(2, 1);
	cr_assert(client_finds(2, 1));
}

Test(hot_pages, with_a_planted_bug_they_do_not)
{
	mutant_set_add(&mutants_on, MUTANT_hot_kept_shown);
	cr_assert_eq(keys_left(), 6);
	cr_assert(client_finds(2, 1));
}

Test(hot_pages, a_lost_lease_is_nothing_to_a_port_without)
{
	mt_hot_pages_revoke(&fake.port);
	mt_hot_pages_ask(&fake.session);
	cr_assert_eq(fake.session.pages->count, 6);
}

/* Everybody's blocks that lay in a page are not there for the session that gets it. */
static bool
is_anything_in_pages(void)
{
	const struct mt_session_pages *pages;
	static uint8_t bytes[HOT_PAGE_BYTES];
	bool is_any = false;

	add_run(5, 1);
	for (uint32_t i = 0; i < FRAMES * FRAME_BLOCKS; i++)
		heat(i, 1);
	cr_assert_gt(mt_hot_used_count(fake.port.read->hot), 40);
	ask();
	pages = fake.session.pages;
	for (uint32_t i = 0; i < pages->count; i++) {
		fake_from_device(bytes, (dev_ptr){ pages->remotes[i].address }, sizeof(bytes));
		for (uint32_t k = 0; k < sizeof(bytes); k++)
			is_any |= bytes[k] != 0;
	}
	return is_any;
}

Test(hot_pages, a_page_is_empty_when_a_session_gets_it)
{
	cr_assert_not(is_anything_in_pages());
	heat(2, 1);
	cr_assert(client_finds(2, 1));
}

Test(hot_pages, with_a_planted_bug_it_is_not)
{
	mutant_set_add(&mutants_on, MUTANT_hot_page_unwiped);
	cr_assert(is_anything_in_pages());
}

Test(hot_pages, everybody_finds_what_is_hot_in_the_pages_that_are_left)
{
	uint64_t hits;

	ask();
	mt_hot_pages_ask(&fake.latency_session); /* its session has pages of its own */
	add_run(5, 1);
	mt_hot_pages_left(&fake.latency_session);
	mt_hot_pages_left(&fake.session);
	cr_assert_eq(fake.region_count, 0);
	cr_assert_null(fake.port.on_change);
	heat(2, 1);
	hits = fake.port.metrics[MT_METRIC_hot_hits];
	read_one(2, 1);
	cr_assert_eq(fake.port.metrics[MT_METRIC_hot_hits], hits + 1);
	ask();
	cr_assert_eq(fake.session.pages->count, 6);
	heat(2, 1);
	cr_assert(client_finds(2, 1));
}

Test(hot_pages, sessions_share_what_there_is)
{
	uint32_t before;

	ask();
	before = fake.session.pages->generation;
	cr_assert_gt(before, 0);
	ask();
	cr_assert_eq(fake.session.pages->generation, before, "as it was");
	add_run(5, 1);
	heat(2, 1);
	mt_hot_pages_ask(&fake.latency_session);
	cr_assert_eq(fake.latency_session.pages->count, 0, "there is none yet");
	cr_assert_eq(fake.latency_session.pages->generation, 0);
	ask();
	cr_assert_eq(fake.session.pages->count, 3);
	cr_assert_neq(fake.session.pages->generation, before);
	cr_assert_not(client_finds(2, 1), "its place is another one");
	mt_hot_pages_ask(&fake.latency_session);
	cr_assert_eq(fake.latency_session.pages->count, 3);
	cr_assert_eq(fake.region_count, 6);
	heat(2, 1);
	cr_assert(client_finds(2, 1));
	mt_hot_pages_left(&fake.latency_session);
	ask();
	cr_assert_eq(fake.session.pages->count, 6);
}

Test(hot_pages, where_peers_may_not_read_there_is_none)
{
	fake.refuses_regions = true;
	ask();
	cr_assert_eq(fake.session.pages->count, 0);
	cr_assert_eq(fake.session.pages->generation, 0);
	add_run(5, 1);
	heat(2, 1);
	cr_assert_eq(fake.port.metrics[MT_METRIC_hot_shown], 0);
	cr_assert_gt(fake.port.metrics[MT_METRIC_hot_fills], 0);
}

Test(hot_pages, a_page_that_is_in_use_stays_everybodys)
{
	struct mt_hot_key key = { .extent = 7, .segment = FAKE_SEGMENT };
	struct mt_hot *hot = fake.port.read->hot;
	struct mt_hot_slot *slot;

	for (uint32_t i = 0; i < HOT_COUNT_MIN; i++)
		mt_hot_meet(hot, &key);
	slot = mt_hot_fill(hot, &key, 1, fake.shard.index);
	cr_assert_not_null(slot);
	ask();
	cr_assert_eq(fake.session.pages->count, 6);
	cr_assert_null(hot->owners[mt_hot_slot_index(hot, slot) / HOT_PAGE_SLOTS]);
	mt_hot_filled(hot, slot, true);
	cr_assert_not_null(mt_hot_find(hot, &key));
}
