/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_ring.c -- positions, holds, and which ring of a port's gives a slab up
 *
 * Rings are built in with a planted bug, ring_held_taken: what a client reads then is another batch, which its CRCs tell,
 * so that no seed of the simulator sees more than a slow read.
 */
#define CLEAVE_MUTANTS
#include "middletier/index/ring.c"

#include "base/random.h"
#include "cleave/dev_ptr.h"
#include "middletier/index/chunk.h"
#include "middletier/index/index_apply.h"
#include "unit/fake_port.h"

#define SLAB NUM_KIB(256)
#define PART 16u /* slabs a ring, on average */
#define OWN 4u   /* of which it is sure */
#define BATCH (NUM_KIB(64))

struct mutant_set mutants_on;

static struct mt_ring_pool *pool;
static struct mt_ring *rings[3];

static void
setup_rings(uint32_t count, uint64_t bytes)
{
	pool = mt_ring_pool_create(&fake.port, bytes, count);
	cr_assert_not_null(pool);
	for (uint32_t i = 0; i < count; i++) {
		rings[i] = mt_ring_create(pool, NULL);
		cr_assert_not_null(rings[i]);
	}
}

/* A ring of four slabs. */
static void
setup(void)
{
	fake_init(1, false);
	setup_rings(1, 4 * SLAB);
}

/* Three, of which the third is of a shard without layers: all that it has is dead. */
static void
setup_shared(void)
{
	fake_init(1, false);
	setup_rings(3, 3 * PART * SLAB);
	rings[2]->shard = &fake.shard;
	cr_assert_eq(pool->slab_count, 3 * PART);
	cr_assert_eq(pool->own_count, OWN);
}

static void
teardown(void)
{
	for (uint32_t i = 0; i < NUM_COUNT(rings); i++)
		mt_ring_destroy(rings[i]);
	mt_ring_pool_destroy(pool);
	fake_fini();
}

TestSuite(ring, .init = setup, .fini = teardown);
TestSuite(ring_shared, .init = setup_shared, .fini = teardown);

static uint64_t
take_of(struct mt_ring *ring, uint32_t reserved, uint32_t used)
{
	uint64_t position = 0;
	uint32_t bytes;

	cr_assert_eq(mt_ring_reserve(ring, reserved, reserved, &position, &bytes), 0);
	cr_assert_eq(bytes, reserved);
	mt_ring_commit(ring, position, used);
	return position;
}

static uint64_t
take(uint32_t reserved, uint32_t used)
{
	return take_of(rings[0], reserved, used);
}

/* A slab of @ring's, which nobody holds. */
static uint64_t
fill(struct mt_ring *ring)
{
	uint64_t position = take_of(ring, SLAB, SLAB);

	mt_ring_release(ring, position);
	return position;
}

static bool
is_full(struct mt_ring *ring)
{
	uint64_t none = 77;
	uint32_t bytes = 78;

	if (mt_ring_reserve(ring, SLAB, SLAB, &none, &bytes) == 0) {
		mt_ring_release(ring, none);
		return false;
	}
	cr_assert_eq(none, 77);
	cr_assert_eq(bytes, 78);
	return true;
}

Test(ring, positions_grow_and_are_never_zero)
{
	uint64_t last = 0;

	for (int i = 0; i < 100; i++) {
		uint64_t position = take(SLAB / 2, 70000);

		cr_assert_gt(position, last);
		cr_assert(mt_ring_contains(rings[0], position));
		cr_assert(mt_ring_contains(rings[0], position + 69999));
		mt_ring_release(rings[0], position);
		last = position;
	}
	cr_assert_not(mt_ring_contains(rings[0], 0));
	cr_assert_eq(mt_ring_bytes(rings[0]), 4 * SLAB);
}

Test(ring, a_batch_is_contiguous_in_memory)
{
	for (int i = 0; i < 50; i++) {
		uint64_t position = take(SLAB / 2, 50000);
		uint64_t begin = mt_ring_at(rings[0], position).device_address_private;
		uint64_t end = mt_ring_at(rings[0], position + 49999).device_address_private;

		cr_assert_eq(end - begin, 49999);
		cr_assert_geq(begin, pool->base.device_address_private);
		cr_assert_lt(end, pool->base.device_address_private + 4 * SLAB);
		mt_ring_release(rings[0], position);
	}
}

Test(ring, the_oldest_leaves_first)
{
	uint64_t positions[4];

	for (int i = 0; i < 4; i++)
		positions[i] = fill(rings[0]);
	for (int i = 0; i < 4; i++)
		cr_assert(mt_ring_contains(rings[0], positions[i]));
	(void)fill(rings[0]);
	cr_assert_not(mt_ring_contains(rings[0], positions[0]));
	cr_assert(mt_ring_contains(rings[0], positions[1]));
}

Test(ring, nobody_gets_what_is_held)
{
	uint64_t first = take(SLAB, SLAB), second = take(SLAB, SLAB);

	(void)fill(rings[0]);
	(void)fill(rings[0]);
	cr_assert(is_full(rings[0]));
	mt_ring_release(rings[0], second); /* not the oldest: no help */
	cr_assert(is_full(rings[0]));
	mt_ring_release(rings[0], first);
	cr_assert_not(is_full(rings[0]));
	cr_assert_not(mt_ring_contains(rings[0], first));
}

Test(ring, with_its_planted_bug_somebody_does)
{
	uint64_t first = take(SLAB, SLAB);

	for (int i = 0; i < 3; i++)
		(void)fill(rings[0]);
	mutant_set_add(&mutants_on, MUTANT_ring_held_taken);
	cr_assert_not(is_full(rings[0]));
	cr_assert_not(mt_ring_contains(rings[0], first));
	mutants_on = (struct mutant_set){ { 0 } };
}

Test(ring, holds_are_counted_at_any_position_of_a_batch)
{
	uint64_t first = take(SLAB, SLAB);

	for (int i = 0; i < 3; i++)
		(void)fill(rings[0]);
	mt_ring_hold(rings[0], first + 1000);
	mt_ring_release(rings[0], first);
	cr_assert(is_full(rings[0]));
	mt_ring_release(rings[0], first + SLAB - 1);
	cr_assert_not(is_full(rings[0]));
}

Test(ring, a_commit_gives_back_the_rest)
{
	uint64_t first = take(SLAB, 65), second = take(SLAB / 2, 0), third;

	cr_assert_eq(second - first, 128);
	third = take(SLAB / 2, 100);
	cr_assert_eq(third - second, 64, "a batch is never nothing");
	mt_ring_release(rings[0], second);
	mt_ring_release(rings[0], third);
	mt_ring_release(rings[0], first);
}

Test(ring, what_is_left_of_a_slab_is_used_if_it_is_enough)
{
	uint64_t first = take(SLAB, SLAB - BATCH), position;
	uint32_t bytes;

	cr_assert_eq(mt_ring_reserve(rings[0], BATCH, SLAB, &position, &bytes), 0);
	cr_assert_eq(position, first + SLAB - BATCH);
	cr_assert_eq(bytes, BATCH);
	mt_ring_commit(rings[0], position, 64);
	mt_ring_release(rings[0], position);
	cr_assert_eq(mt_ring_reserve(rings[0], BATCH, SLAB, &position, &bytes), 0);
	cr_assert_eq(position, first + SLAB, "the next slab");
	cr_assert_eq(bytes, SLAB);
	mt_ring_release(rings[0], position);
	mt_ring_release(rings[0], first);
}

Test(ring, what_was_there_before_a_reset_is_not_contained)
{
	uint64_t old = fill(rings[0]);

	(void)fill(rings[0]);
	mt_ring_reset(rings[0]);
	cr_assert_eq(mt_ring_bytes(rings[0]), 0);
	cr_assert_eq(pool->free_count, 4);
	cr_assert_not(mt_ring_contains(rings[0], old));
	cr_assert_gt(fill(rings[0]), old);
	cr_assert_not(mt_ring_contains(rings[0], old));
}

Test(ring, without_memory_there_is_none)
{
	for (uint32_t nth = 1; nth <= 2; nth++) {
		mt_alloc_fail_at(nth);
		cr_assert_null(mt_ring_pool_create(&fake.port, SLAB, 1));
	}
	mt_ring_destroy(rings[0]);
	for (uint32_t nth = 1; nth <= 2; nth++) {
		mt_alloc_fail_at(nth);
		cr_assert_null(mt_ring_create(pool, NULL));
	}
	mt_alloc_fail_at(0);
	cr_assert_null(mt_ring_pool_create(&fake.port, FAKE_DEVICE_BYTES + SLAB, 1));
	rings[0] = mt_ring_create(pool, NULL);
	cr_assert_not_null(rings[0]);
}

Test(ring, slabs_are_as_long_as_their_count_wants)
{
	static const struct {
		uint64_t bytes;
		uint32_t ring_max, slabs, shift;
	} rows[] = {
		{ SLAB, 1, 1, 18 },
		{ 5 * SLAB + 4096, 2, 5, 18 },
		{ NUM_MIB(8), 1, 16, 19 },
		{ NUM_MIB(16), 1, 16, 20 },
		{ NUM_MIB(64), 1, 64, 20 },
		{ NUM_MIB(64), 8, 128, 19 },
	};

	mt_ring_destroy(rings[0]);
	rings[0] = NULL;
	for (uint32_t i = 0; i < NUM_COUNT(rows); i++) {
		struct mt_ring_pool *other;
		uint64_t used = fake.device_used;

		other = mt_ring_pool_create(&fake.port, rows[i].bytes, rows[i].ring_max);
		cr_assert_not_null(other);
		cr_assert_eq(other->slab_shift, rows[i].shift, "row %u", i);
		cr_assert_eq(other->slab_count, rows[i].slabs, "row %u", i);
		cr_assert_leq(other->own_count * rows[i].ring_max, rows[i].slabs, "row %u", i);
		mt_ring_pool_destroy(other);
		fake.device_used = used;
	}
}

/* ---- what a port's rings take of each other ---- */

static struct record_desc
record_at(uint32_t chunk)
{
	return (struct record_desc){ .kind = RECORD_WRITE,
		.segment = FAKE_SEGMENT,
		.block = chunk * (uint32_t)CLEAVE_CHUNK_BLOCKS,
		.block_count = 1,
		.sequence = 1,
		.stored_bytes = 4096 };
}

static void
forget_layer(uint32_t chunk)
{
	struct mt_index *index = fake.shard.block_index;
	uint64_t number = mt_chunk_number(FAKE_SEGMENT, record_at(chunk).block);

	mt_layer_free(mt_chunk_active(mt_index_chunk(index, number)));
}

Test(ring, it_is_needed_from_the_first_record_of_the_oldest_layer_on)
{
	struct record_desc first = record_at(0), second = record_at(1);
	struct mt_index *index = fake.shard.block_index;

	cr_assert_eq(mt_index_ring_begin(index), UINT64_MAX);
	cr_assert_eq(mt_index_apply(index, &first, 0, 1, 0, 5000), 0);
	cr_assert_eq(mt_index_apply(index, &second, 0, 1, 0, 6000), 0);
	cr_assert_eq(mt_index_apply(index, &first, 0, 1, 0, 7000), 0);
	cr_assert_eq(mt_index_ring_begin(index), 5000);
	forget_layer(0);
	cr_assert_eq(mt_index_ring_begin(index), 6000);
	forget_layer(1);
	cr_assert_eq(mt_index_ring_begin(index), UINT64_MAX);
	cr_assert_eq(mt_index_apply(index, &second, 0, 1, 0, 0), 0);
	cr_assert_eq(mt_index_ring_begin(index), 0, "it was replayed");
}

Test(ring_shared, a_ring_takes_what_others_do_not_use)
{
	uint64_t first = fill(rings[0]);

	for (uint32_t i = 1; i < 3 * PART - 2 * OWN; i++)
		(void)fill(rings[0]);
	cr_assert(mt_ring_contains(rings[0], first));
	cr_assert_eq(mt_ring_bytes(rings[0]), (3 * PART - 2 * OWN) * SLAB);
	(void)fill(rings[0]);
	cr_assert_not(mt_ring_contains(rings[0], first), "no more than that");
	cr_assert_eq(mt_ring_bytes(rings[0]), (3 * PART - 2 * OWN) * SLAB);
}

Test(ring_shared, each_is_sure_of_its_own_whatever_others_hold)
{
	while (!is_full(rings[0]))
		mt_ring_hold(rings[0], rings[0]->head - 1);
	for (uint32_t i = 1; i < 3; i++) {
		for (uint32_t k = 0; k < OWN; k++)
			(void)take_of(rings[i], SLAB, SLAB);
		cr_assert(is_full(rings[i]), "and of no more");
	}
	for (uint32_t i = 0; i < 3; i++) {
		for (uint64_t at = rings[i]->first; at < rings[i]->end; at++)
			mt_ring_release(rings[i], at << pool->slab_shift);
	}
}

Test(ring_shared, who_has_more_than_his_own_gives_what_he_had_first)
{
	uint64_t own = fill(rings[1]), first, second;

	for (uint32_t i = 1; i < OWN; i++)
		(void)fill(rings[1]);
	first = fill(rings[0]);
	second = fill(rings[0]);
	while (pool->free_count > pool->promised_count)
		(void)fill(rings[0]);
	(void)fill(rings[1]);
	cr_assert_not(mt_ring_contains(rings[0], first));
	cr_assert(mt_ring_contains(rings[0], second));
	cr_assert(mt_ring_contains(rings[1], own));
	cr_assert_eq(mt_ring_bytes(rings[1]), (OWN + 1) * SLAB);
}

Test(ring_shared, what_no_layer_needs_goes_before_what_is_older)
{
	uint64_t older = fill(rings[0]), dead;

	while (mt_ring_bytes(rings[0]) < 2 * PART * SLAB)
		(void)fill(rings[0]);
	dead = fill(rings[2]);
	while (pool->free_count > pool->promised_count)
		(void)fill(rings[2]);
	(void)fill(rings[0]);
	cr_assert(mt_ring_contains(rings[0], older));
	cr_assert_not(mt_ring_contains(rings[2], dead));
}

Test(ring_shared, what_a_layer_needs_does_not)
{
	uint64_t dead, needed;
	struct record_desc record = record_at(0);
	uint64_t older = fill(rings[0]);

	while (mt_ring_bytes(rings[0]) < 2 * PART * SLAB)
		(void)fill(rings[0]);
	dead = fill(rings[2]);
	needed = fill(rings[2]);
	cr_assert_eq(mt_index_apply(fake.shard.block_index, &record, 0, 1, 0, needed), 0);
	while (pool->free_count > pool->promised_count)
		(void)fill(rings[2]);
	(void)fill(rings[0]);
	cr_assert_not(mt_ring_contains(rings[2], dead));
	(void)fill(rings[0]);
	cr_assert(mt_ring_contains(rings[2], needed));
	cr_assert_not(mt_ring_contains(rings[0], older));
}

Test(ring_shared, a_ring_that_goes_leaves_its_slabs_to_the_others)
{
	while (pool->free_count > pool->promised_count)
		(void)fill(rings[0]);
	mt_ring_destroy(rings[0]);
	cr_assert_eq(pool->free_count, 3 * PART);
	cr_assert_eq(pool->promised_count, 3 * OWN, "the next may come");
	rings[0] = mt_ring_create(pool, NULL);
	cr_assert_not_null(rings[0]);
	(void)fill(rings[0]);
}

/* Against a plain model of who holds what. */
Test(ring_shared, random_use_never_gives_out_held_memory)
{
	static uint32_t owner[3 * PART * SLAB / 64]; /* holder + 1, by place */
	static struct {
		uint64_t position;
		uint32_t bytes, ring;
	} held[40];
	uint64_t state[4];
	uint32_t full_count = 0;

	random_seed(state, 42);
	for (uint32_t step = 0; step < 100000; step++) {
		uint32_t slot = (uint32_t)random_below(state, NUM_COUNT(held));
		uint32_t r = (uint32_t)random_below(state, 3);
		uint32_t bytes = 64 * (1 + (uint32_t)random_below(state, SLAB / 64)), got;
		uint64_t position, place;

		if (held[slot].bytes != 0) {
			struct mt_ring *ring = rings[held[slot].ring];

			place = mt_ring_at(ring, held[slot].position).device_address_private -
			    pool->base.device_address_private;
			for (uint32_t at = 0; at < held[slot].bytes; at += 64)
				cr_assert_eq(owner[(place + at) / 64], slot + 1);
			mt_ring_release(ring, held[slot].position);
			held[slot].bytes = 0;
			continue;
		}
		if (mt_ring_reserve(rings[r], bytes, bytes, &position, &got) != 0) {
			full_count++;
			continue;
		}
		mt_ring_commit(rings[r], position, bytes);
		place = mt_ring_at(rings[r], position).device_address_private -
		    pool->base.device_address_private;
		for (uint32_t at = 0; at < bytes; at += 64)
			owner[(place + at) / 64] = slot + 1;
		held[slot].position = position;
		held[slot].bytes = bytes;
		held[slot].ring = r;
	}
	cr_assert_gt(full_count, 0);
	for (uint32_t i = 0; i < NUM_COUNT(held); i++) {
		if (held[i].bytes != 0)
			mt_ring_release(rings[held[i].ring], held[i].position);
	}
}
