/* SPDX-License-Identifier: Apache-2.0 */
/* test_replay_guess.c -- where the next heads of a log must begin, by the last batches' lengths */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdint.h>

#include "base/num.h"
#include "cleave/batch.h"
#include "middletier/extent/replay_guess.h"

#define HEAD_BYTES 1000u

static struct replay_guess guess;

static void
setup(void)
{
	mt_replay_guess_reset(&guess);
}

TestSuite(replay_guess, .init = setup);

static void
add(uint32_t count, uint32_t bytes)
{
	for (uint32_t i = 0; i < count; i++)
		mt_replay_guess_add(&guess, bytes, HEAD_BYTES);
}

/* False: nothing can be said, and @from must be as before. */
static bool
window(uint64_t base, uint64_t *from, uint64_t *to)
{
	uint64_t before = *from;
	bool is_guess = mt_replay_guess_window(&guess, base, from, to);

	if (!is_guess)
		cr_assert_eq(*from, before);
	return is_guess;
}

Test(replay_guess, of_too_few_batches_there_is_none)
{
	uint64_t from = 0, to;

	add(MT_REPLAY_RECENT - 1, NUM_KIB(128));
	cr_assert_not(window(0, &from, &to));
	add(1, NUM_KIB(128));
	cr_assert(window(0, &from, &to));
}

Test(replay_guess, short_batches_are_read_whole)
{
	uint64_t from = 0, to;

	add(MT_REPLAY_RECENT, NUM_KIB(60));
	cr_assert_not(window(0, &from, &to));
}

Test(replay_guess, different_lengths_are_no_guess)
{
	uint64_t from = 0, to;

	add(MT_REPLAY_RECENT - 1, NUM_KIB(128));
	add(1, NUM_KIB(128) + 2 * BATCH_ALIGN);
	cr_assert_not(window(0, &from, &to));
	add(MT_REPLAY_RECENT - 1, NUM_KIB(128) + 2 * BATCH_ALIGN);
	cr_assert(window(0, &from, &to), "the different one is forgotten");
}

Test(replay_guess, equal_lengths_name_each_head)
{
	uint64_t from = 0, to;

	add(MT_REPLAY_RECENT, NUM_KIB(128));
	for (uint64_t k = 0; k < 5; k++) {
		cr_assert(window(0, &from, &to));
		cr_assert_eq(from, k * NUM_KIB(128));
		cr_assert_eq(to, from + num_round_up(HEAD_BYTES, BATCH_ALIGN));
		from = to; /* was asked for */
	}
}

Test(replay_guess, windows_grow_with_the_distance)
{
	uint64_t from = NUM_KIB(4), to;

	add(MT_REPLAY_RECENT / 2, NUM_KIB(128));
	add(MT_REPLAY_RECENT / 2, NUM_KIB(128) + BATCH_ALIGN);
	for (uint64_t k = 1; k < 5; k++) {
		cr_assert(window(0, &from, &to));
		cr_assert_eq(from, k * NUM_KIB(128));
		cr_assert_eq(to - from, k * BATCH_ALIGN + num_round_up(HEAD_BYTES, BATCH_ALIGN));
		from = to;
	}
}

/* The batches before the expected one: their heads were enough, their payloads were not asked for. */
Test(replay_guess, expected_batch_behind_what_was_asked_for)
{
	uint64_t from = NUM_KIB(4), to;

	add(MT_REPLAY_RECENT, NUM_KIB(128));
	cr_assert(window(NUM_KIB(128), &from, &to));
	cr_assert_eq(from, NUM_KIB(128));
}

Test(replay_guess, wrong_one_is_forgotten)
{
	uint64_t from = 0, to;

	add(MT_REPLAY_RECENT, NUM_KIB(128));
	mt_replay_guess_reset(&guess);
	cr_assert_not(window(0, &from, &to));
}

Test(replay_guess, head_is_a_part_of_its_batch, .signal = SIGABRT)
{
	mt_replay_guess_add(&guess, HEAD_BYTES, HEAD_BYTES + 1);
}
