/* SPDX-License-Identifier: Apache-2.0 */
/* test_run_glimpse.c -- a page of a run's index that gets no place in the cache: its reader sees what it wants, and no one else */
#include <errno.h>

#include "middletier/common/alloc.h"
#include "unit/fake_runs.h"
#include "unit/run_pages.h"
#include "unit/run_waiters.h"

static void
setup(void)
{
	fake_runs_start(47);
	memset(waiters, 0, sizeof(waiters));
}

TestSuite(run_glimpse, .init = setup, .fini = fake_runs_fini);

/* A reader: looks @block up when it is told. */
static struct looker {
	struct mt_run_waiter waiter;
	struct mt_run *run;
	uint32_t block;
	uint32_t next; /* asks for this block then; 0: for none */
	uint32_t told_count;
	int rc;
	enum mt_run_has has, has_neighbour; /* the block, and that of the frame behind */
	bool is_run_gone;                   /* when it is told, the run goes */
} lookers[WAITERS];

static void
looker_ask(struct looker *looker)
{
	mt_run_find_block(looker->run, looker->block, 1, &looker->waiter);
}

static void
looker_on_told(int rc, void *arg)
{
	struct looker *looker = arg;
	struct mt_location at;

	looker->told_count++;
	looker->rc = rc;
	if (rc != 0)
		return;
	looker->has = mt_run_look(looker->run, looker->block, &at);
	looker->has_neighbour = mt_run_look(looker->run, looker->block + 3, &at);
	if (looker->is_run_gone)
		mt_index_remove_run(looker->run);
	if (looker->next == 0)
		return;
	looker->block = looker->next;
	looker->next = 0;
	looker_ask(looker);
}

static struct looker *
looker_of(uint32_t i, struct mt_run *run, uint32_t block)
{
	lookers[i] = (struct looker){ .run = run, .block = block };
	lookers[i].waiter = (struct mt_run_waiter){ .fn = looker_on_told, .arg = &lookers[i] };
	return &lookers[i];
}

static struct looker *
looked(struct mt_run *run, uint32_t block)
{
	struct looker *looker = looker_of(0, run, block);

	looker_ask(looker);
	fake_run_for(NUM_S(5));
	cr_assert_eq(looker->told_count, 1);
	return looker;
}

/* The cache is full of the page of block 100. */
static struct mt_run *
crowded(void)
{
	struct mt_run *run = evicted();

	cr_assert_eq(load_block(run, 100), 0);
	fake.port.run_cache->bytes_max = mt_run_cache_bytes(&fake.port);
	return run;
}

static enum mt_run_has
look(struct mt_run *run, uint32_t block)
{
	struct mt_location at;

	return mt_run_look(run, block, &at);
}

Test(run_glimpse, a_page_that_is_wanted_once_pushes_out_no_other)
{
	struct mt_run *run = crowded();
	uint64_t bytes = mt_run_cache_bytes(&fake.port);

	cr_assert_eq(looked(run, 203)->has, MT_RUN_HERE);
	cr_assert_eq(lookers[0].has_neighbour, MT_RUN_UNLOADED);
	cr_assert_eq(look(run, 203), MT_RUN_UNLOADED, "it was for that reader");
	cr_assert_eq(look(run, 100), MT_RUN_HERE);
	cr_assert_eq(mt_run_cache_bytes(&fake.port), bytes);
	/* Not long after it is wanted again. */
	cr_assert_eq(looked(run, 206)->has, MT_RUN_HERE);
	cr_assert_eq(lookers[0].has_neighbour, MT_RUN_HERE);
	cr_assert_eq(look(run, 203), MT_RUN_HERE);
	cr_assert_eq(look(run, 100), MT_RUN_UNLOADED);
	cr_assert_eq(fake.port.metrics[MT_METRIC_run_pages_dropped], 1);
}

Test(run_glimpse, where_there_is_room_a_page_is_kept)
{
	struct mt_run *run = evicted();

	cr_assert_eq(looked(run, 203)->has_neighbour, MT_RUN_HERE);
	cr_assert_eq(look(run, 206), MT_RUN_HERE);
}

Test(run_glimpse, what_several_want_at_once_is_kept)
{
	struct mt_run *run = crowded();

	looker_ask(looker_of(0, run, 203));
	looker_ask(looker_of(1, run, 206));
	fake_run_for(NUM_S(1));
	for (uint32_t i = 0; i < 2; i++) {
		cr_assert_eq(lookers[i].told_count, 1);
		cr_assert_eq(lookers[i].has, MT_RUN_HERE);
	}
	cr_assert_eq(look(run, 203), MT_RUN_HERE);
}

Test(run_glimpse, who_asks_again_when_told_is_told_again)
{
	struct mt_run *run = crowded();
	struct looker *looker = looker_of(0, run, 203);

	looker->next = 212;
	looker_ask(looker);
	fake_run_for(NUM_S(1));
	cr_assert_eq(looker->told_count, 2);
	cr_assert_eq(looker->has, MT_RUN_HERE);
}

/* Whoever comes in between, and whenever: each is told once, and sees the block or asks again. */
Test(run_glimpse, the_whole_is_gathered_beside_a_glimpse)
{
	for (uint64_t us = 0; us < 600; us += 20) {
		struct mt_run *run;

		fake_runs_extent();
		run = crowded();
		looker_ask(looker_of(0, run, 203));
		fake_run_for(NUM_US(us));
		mt_run_load(run, waiter_of(1));
		fake_run_for(NUM_S(1));
		cr_assert_eq(waiters[1].told_count, 1);
		cr_assert_eq(waiters[1].rc, 0);
		cr_assert_eq(lookers[0].told_count, 1);
		cr_assert_eq(lookers[0].has, MT_RUN_HERE);
		fake.port.run_cache->bytes_max = NUM_MIB(1);
		mt_index_remove_run(run);
	}
}

Test(run_glimpse, a_run_that_goes_while_its_reader_looks)
{
	struct mt_run *run = crowded();
	struct looker *looker = looker_of(0, run, 203);

	looker->is_run_gone = true;
	looker_ask(looker);
	fake_run_for(NUM_S(1));
	cr_assert_eq(looker->has, MT_RUN_HERE);
	cr_assert_null(fake.port.run_cache->glimpse);
	cr_assert_eq(mt_run_cache_bytes(&fake.port), 0);
}

Test(run_glimpse, each_allocation_of_a_glimpse_may_fail)
{
	struct mt_run *run = crowded();

	for (uint32_t nth = 1;; nth++) {
		memset(fake.port.run_cache->asked, 0, sizeof(uint32_t));
		fake.port.run_cache->asked_mask = 0;
		mt_alloc_fail_at(nth);
		(void)looked(run, 203);
		if (!mt_alloc_has_failed())
			break;
		cr_assert(lookers[0].rc == -ENOMEM ||
		    (lookers[0].rc == 0 && lookers[0].has == MT_RUN_HERE));
		cr_assert_eq(look(run, 203), MT_RUN_UNLOADED);
	}
	mt_alloc_fail_at(0);
	cr_assert_eq(lookers[0].has, MT_RUN_HERE);
	cr_assert_eq(look(run, 100), MT_RUN_HERE);
}

/* A lookup of block 300 alone when copies 0 to @copy_count - 1 lie about its batch, in heads with the right CRC. Returns its rc. */
static int
look_at_liars(const struct lie *lie, uint32_t copy_count)
{
	struct mt_run *run;
	uint32_t at;
	int rc;

	fake_runs_extent();
	run = crowded();
	at = run->dir->slots[mt_run_dir_page(run->dir, 300)].place.offset_bytes;
	for (uint32_t i = 0; i < copy_count; i++) {
		uint8_t *head = fake_runs_copy(fake_runs.extent, i)->bytes + at;
		uint8_t *record = head + BATCH_HEADER_BYTES;

		num_put_le32(record + 16, lie->block);
		num_put_le32(record + 20, lie->block_count);
		forge(head);
	}
	rc = looked(run, 300)->rc;
	cr_assert(rc != 0 || lookers[0].has == MT_RUN_HERE);
	fake.port.run_cache->bytes_max = NUM_MIB(1);
	mt_index_remove_run(run);
	return rc;
}

/* The block that is wanted is not said to be missing, nor is one of another chunk given for it; of others nothing is said. */
Test(run_glimpse, a_head_with_the_right_crc_and_without_the_block_is_not_believed)
{
	static const struct lie lies[] = {
		{ 0, 301, 2 }, { 0, 290, 2 }, { 0, 300, 20 }, /* more than a frame has */
		{ 0, 300 + CLEAVE_CHUNK_BLOCKS, 2 },          /* of the next chunk */
	};
	uint32_t first = (uint32_t)(CHUNK % CLEAVE_SEGMENT_CHUNKS * CLEAVE_CHUNK_BLOCKS);

	for (uint32_t i = 0; i < NUM_COUNT(lies); i++) {
		struct lie lie = lies[i];

		lie.block += first;
		cr_assert_eq(look_at_liars(&lie, 3), -EBADMSG, "lie %u", i);
		cr_assert_eq(look_at_liars(&lie, 2), 0, "lie %u", i);
	}
}
