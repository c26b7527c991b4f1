/* SPDX-License-Identifier: Apache-2.0 */
/* test_ring.c -- positions, eviction, holds */
#include "base/num.h"
#include "base/random.h"
#include "cleave/dev_ptr.h"
#include "middletier/index/ring.h"
#include "unit/fake_port.h"

#define RING_BYTES 4096u

static struct mt_ring *ring;

static void
setup(void)
{
	fake_init(1, false);
	ring = mt_ring_create(&fake.port, RING_BYTES);
	cr_assert_not_null(ring);
}

static void
teardown(void)
{
	mt_ring_destroy(ring, &fake.port);
	fake_fini();
}

TestSuite(ring, .init = setup, .fini = teardown);

static uint64_t
take(uint32_t reserved, uint32_t used)
{
	uint64_t position = 0;

	cr_assert_eq(mt_ring_reserve(ring, reserved, &position), 0);
	mt_ring_commit(ring, position, used);
	return position;
}

Test(ring, positions_grow_and_are_never_zero)
{
	uint64_t last = 0;

	for (int i = 0; i < 100; i++) {
		uint64_t position = take(1024, 700);

		cr_assert_gt(position, last);
		cr_assert(mt_ring_contains(ring, position));
		cr_assert(mt_ring_contains(ring, position + 699));
		mt_ring_release(ring, position);
		last = position;
	}
	cr_assert_not(mt_ring_contains(ring, 0));
}

Test(ring, an_entry_is_contiguous_in_memory)
{
	for (int i = 0; i < 50; i++) {
		uint64_t position = take(1000, 960);
		uint64_t begin = mt_ring_at(ring, position).device_address_private;
		uint64_t end = mt_ring_at(ring, position + 959).device_address_private;

		cr_assert_eq(end - begin, 959);
		cr_assert_geq(begin, ring->base.device_address_private);
		cr_assert_lt(end, ring->base.device_address_private + RING_BYTES);
		mt_ring_release(ring, position);
	}
}

Test(ring, the_oldest_leaves_first)
{
	uint64_t positions[4];

	for (int i = 0; i < 4; i++) {
		positions[i] = take(1024, 1024);
		mt_ring_release(ring, positions[i]);
	}
	for (int i = 0; i < 4; i++)
		cr_assert(mt_ring_contains(ring, positions[i]));
	(void)take(1024, 1024);
	cr_assert_not(mt_ring_contains(ring, positions[0]));
	cr_assert(mt_ring_contains(ring, positions[1]));
}

Test(ring, nobody_gets_what_is_held)
{
	uint64_t first = take(2048, 2048), second = take(2048, 2048), none = 77;

	cr_assert_eq(mt_ring_reserve(ring, 64, &none), -ENOBUFS);
	cr_assert_eq(none, 77);
	mt_ring_release(ring, second); /* not the oldest: no help */
	cr_assert_eq(mt_ring_reserve(ring, 64, &none), -ENOBUFS);
	mt_ring_release(ring, first);
	cr_assert_eq(mt_ring_reserve(ring, 64, &none), 0);
}

Test(ring, holds_are_counted_at_any_position_of_an_entry)
{
	uint64_t first = take(2048, 2048), position;

	mt_ring_hold(ring, first + 1000);
	mt_ring_release(ring, first);
	mt_ring_release(ring, take(2048, 2048));
	cr_assert_eq(mt_ring_reserve(ring, 1024, &position), -ENOBUFS);
	mt_ring_release(ring, first + 2047);
	cr_assert_eq(mt_ring_reserve(ring, 1024, &position), 0);
}

Test(ring, a_commit_gives_back_the_rest)
{
	uint64_t first = take(2048, 65), second = take(2048, 0), third;

	cr_assert_eq(second - first, 128);
	third = take(2048, 100);
	cr_assert_eq(third - second, 64, "an entry is never nothing");
	mt_ring_release(ring, second);
	mt_ring_release(ring, third);
	mt_ring_release(ring, first);
}

Test(ring, more_than_the_ring_is_refused)
{
	uint64_t position;

	cr_assert_eq(mt_ring_reserve(ring, RING_BYTES + 1, &position), -ENOBUFS);
	cr_assert_eq(mt_ring_reserve(ring, RING_BYTES, &position), 0);
}

Test(ring, entries_have_a_bound_too)
{
	uint64_t held = take(64, 64);
	uint32_t count = 1;
	uint64_t position;

	while (mt_ring_reserve(ring, 64, &position) == 0) {
		mt_ring_commit(ring, position, 1);
		mt_ring_release(ring, position);
		cr_assert_leq(++count, ring->entry_max);
	}
	cr_assert_eq(count, ring->entry_max);
	mt_ring_release(ring, held);
	cr_assert_eq(mt_ring_reserve(ring, 64, &position), 0);
}

Test(ring, memory_can_be_given_away_before_use)
{
	dev_ptr given = mt_ring_give(ring, 1024);

	cr_assert_eq(given.device_address_private, ring->base.device_address_private + 3072);
	for (int i = 0; i < 20; i++) {
		uint64_t position = take(1024, 1000);

		cr_assert_leq(mt_ring_at(ring, position).device_address_private + 1000,
		    given.device_address_private);
		mt_ring_release(ring, position);
	}
}

/* Against a plain model of who holds what. */
Test(ring, random_use_never_gives_out_held_memory)
{
	static uint64_t owner[RING_BYTES / 64]; /* position by place */
	uint64_t held[16] = { 0 };
	uint64_t state[4];

	random_seed(state, 42);
	for (int step = 0; step < 100000; step++) {
		uint32_t slot = (uint32_t)random_below(state, NUM_COUNT(held));
		uint32_t bytes = 64 * (1 + (uint32_t)random_below(state, 8));
		uint64_t position;

		if (held[slot] != 0) {
			mt_ring_release(ring, held[slot]);
			held[slot] = 0;
			continue;
		}
		if (mt_ring_reserve(ring, bytes, &position) != 0)
			continue;
		mt_ring_commit(ring, position, bytes);
		for (uint32_t at = 0; at < bytes; at += 64) {
			uint64_t *mine = &owner[(position + at) % RING_BYTES / 64];

			for (uint32_t i = 0; i < NUM_COUNT(held); i++)
				cr_assert(held[i] == 0 || *mine != held[i]);
			*mine = position;
		}
		held[slot] = position;
	}
}
