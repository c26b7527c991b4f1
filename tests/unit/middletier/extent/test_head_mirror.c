/* SPDX-License-Identifier: Apache-2.0 */
/* test_head_mirror.c -- heads of others' batches in memory: what is kept, what is found, what goes */
#include <criterion/criterion.h>
#include <string.h>

#include "base/num.h"
#include "base/random.h"
#include "cleave/batch.h"
#include "middletier/common/alloc.h"
#include "middletier/extent/head_mirror.h"

static struct mt_head_mirror *mirror;
static uint8_t head[BATCH_HEAD_BYTES_MAX], out[BATCH_HEAD_BYTES_MAX];

static void
setup(void)
{
	mirror = mt_head_mirror_create(MT_HEAD_MIRROR_BYTES_MIN);
	cr_assert_not_null(mirror);
}

static void
teardown(void)
{
	mt_head_mirror_destroy(mirror);
}

TestSuite(head_mirror, .init = setup, .fini = teardown);

static struct extent_id
extent(uint32_t number)
{
	return (struct extent_id){ number % 7, 1 + number % 3, number };
}

static void
put(uint32_t number, uint64_t offset_bytes, uint8_t byte, uint32_t bytes)
{
	struct extent_id id = extent(number);

	memset(head, byte, bytes);
	mt_head_mirror_put(mirror, &id, offset_bytes, head, bytes);
}

static uint32_t
get(uint32_t number, uint64_t offset_bytes)
{
	struct extent_id id = extent(number);

	return mt_head_mirror_get(mirror, &id, offset_bytes, out);
}

static void
expect(uint32_t number, uint64_t offset_bytes, uint8_t byte, uint32_t bytes)
{
	cr_assert_eq(get(number, offset_bytes), bytes);
	for (uint32_t i = 0; i < bytes; i++)
		cr_assert_eq(out[i], byte);
}

Test(head_mirror, a_head_is_found_by_extent_and_place)
{
	put(1, 0, 10, 200);
	put(1, 4096, 11, 201);
	put(2, 0, 12, BATCH_HEAD_BYTES_MAX);
	expect(1, 0, 10, 200);
	expect(1, 4096, 11, 201);
	expect(2, 0, 12, BATCH_HEAD_BYTES_MAX);
	cr_assert_eq(get(2, 4096), 0);
	cr_assert_eq(get(3, 0), 0);
}

Test(head_mirror, of_two_heads_of_a_batch_the_last_one_counts)
{
	put(1, 0, 10, 200);
	put(1, 0, 20, 300);
	expect(1, 0, 20, 300);
}

/* A peer sends one head again and again: others keep their room, and none is looked for behind it. */
Test(head_mirror, a_head_that_comes_again_takes_its_own_place)
{
	put(2, 0, 12, 300);
	for (uint32_t i = 0; i < 10000; i++)
		put(1, 0, (uint8_t)i, 200);
	expect(1, 0, (uint8_t)9999, 200);
	expect(2, 0, 12, 300);
}

Test(head_mirror, a_head_that_comes_again_longer_makes_no_chain)
{
	for (uint32_t i = 0; i < 10000; i++)
		put(1, 0, (uint8_t)i, 100 + i % 2);
	expect(1, 0, (uint8_t)9999, 101);
	cr_assert_eq(mt_head_mirror_depth(mirror), 1);
}

/* As many heads as there is room for, far shorter than a batch's. */
Test(head_mirror, a_chain_is_short_whatever_comes)
{
	for (uint32_t i = 0; i < 6000; i++) {
		put(1, i * 4096, (uint8_t)i, 1);
		expect(1, i * 4096, (uint8_t)i, 1);
	}
	cr_assert_eq(mt_head_mirror_depth(mirror), MT_HEAD_MIRROR_DEPTH_MAX);
}

Test(head_mirror, a_forgotten_head_is_not_found)
{
	struct extent_id id = extent(1);

	put(1, 0, 10, 200);
	put(1, 4096, 11, 200);
	mt_head_mirror_forget(mirror, &id, 0);
	mt_head_mirror_forget(mirror, &id, 8192); /* there is none */
	cr_assert_eq(get(1, 0), 0);
	expect(1, 4096, 11, 200);
	put(1, 0, 12, 220);
	expect(1, 0, 12, 220);
}

/* Any lengths, many times round: what is there are the newest, without a gap, and whole. */
Test(head_mirror, the_oldest_make_room)
{
	static uint32_t lengths[20000];
	uint64_t random_state[4];

	random_seed(random_state, 1);
	for (uint32_t i = 0; i < NUM_COUNT(lengths); i++) {
		uint64_t kept_bytes = 0;
		uint32_t oldest = i;
		struct extent_id id = extent(i / 16);

		lengths[i] = random_below(random_state, 8) == 0
		    ? 1 + (uint32_t)random_below(random_state, BATCH_HEAD_BYTES_MAX)
		    : 1 + (uint32_t)random_below(random_state, 600);
		put(i / 16, i * 4096, (uint8_t)i, lengths[i]);
		if (random_below(random_state, 50) == 0) {
			mt_head_mirror_forget(mirror, &id, i * 4096);
			lengths[i] = 0;
		}
		if (i % 97 != 0)
			continue;
		for (uint32_t k = i + 1; k-- > 0 && kept_bytes < MT_HEAD_MIRROR_BYTES_MIN;) {
			if (lengths[k] == 0)
				continue;
			if (get(k / 16, k * 4096) == 0)
				break;
			expect(k / 16, k * 4096, (uint8_t)k, lengths[k]);
			kept_bytes += lengths[k];
			oldest = k;
		}
		for (uint32_t k = 0; k < oldest; k++)
			cr_assert_eq(get(k / 16, k * 4096), 0, "%u before %u", k, oldest);
		cr_assert(oldest == 0 || kept_bytes > MT_HEAD_MIRROR_BYTES_MIN / 2, "%lu",
		    (unsigned long)kept_bytes);
	}
}

Test(head_mirror, the_nth_allocation_fails)
{
	for (uint32_t n = 1;; n++) {
		struct mt_head_mirror *other;

		mt_alloc_fail_at(n);
		other = mt_head_mirror_create(MT_HEAD_MIRROR_BYTES_MIN);
		if (!mt_alloc_has_failed()) {
			mt_alloc_fail_at(0);
			cr_assert_eq(n, 4);
			mt_head_mirror_destroy(other);
			return;
		}
		cr_assert_null(other);
	}
}
