/* SPDX-License-Identifier: Apache-2.0 */
/* test_load_expect.c -- cleave-load: what a block may hold when it is read, and when a request is due */
#include <criterion/criterion.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/num.h"
#include "vm-client/load/load.h"
#include "vm-client/load/load_expect.h"
#include "vm-client/load/load_rate.h"
#include "vm-client/load/stamp.h"

/* A write that was acknowledged as 3, later ones up to 5, the last discard as 2. */
static const struct load_expected usual = { .writer = 7,
	.volume_id = 1,
	.block = 9,
	.acknowledged = 3,
	.issued = 5,
	.discarded = 2 };

static bool
is_expected(const struct load_expected *expected, struct stamp stamp)
{
	uint8_t data[LOAD_BLOCK_BYTES] = { 0 };
	char text[LOAD_EXPECT_TEXT_BYTES] = "";
	bool is_good;

	memset(data + STAMP_BYTES, 0xc1, sizeof(data) - STAMP_BYTES);
	stamp.content_crc = crc32c(0, data + STAMP_BYTES, sizeof(data) - STAMP_BYTES);
	stamp_put(&stamp, data);
	is_good = load_expect_stamped(expected, data, text);
	cr_assert(is_good == (text[0] == '\0'), "%s", text);
	return is_good;
}

static struct stamp
stamp_of(uint64_t writer, uint64_t volume_id, uint64_t block, uint64_t sequence)
{
	return (struct stamp){ .writer = writer,
		.volume_id = volume_id,
		.block = block,
		.sequence = (uint32_t)sequence };
}

Test(load_expect, a_block_is_of_a_write_that_may_be_there)
{
	cr_assert(is_expected(&usual, stamp_of(7, 1, 9, 3)));
	cr_assert(is_expected(&usual, stamp_of(7, 1, 9, 5)));
	cr_assert(!is_expected(&usual, stamp_of(7, 1, 9, 2)), "older than what was acknowledged");
	cr_assert(!is_expected(&usual, stamp_of(7, 1, 9, 6)), "never issued");
	cr_assert(!is_expected(&usual, stamp_of(7, 2, 9, 3)), "another volume's");
	cr_assert(!is_expected(&usual, stamp_of(7, 1, 8, 3)), "another block's");
	cr_assert(!is_expected(&usual, stamp_of(8, 1, 9, 3)), "another run's");
}

Test(load_expect, where_nothing_was_acknowledged_the_old_may_be_there)
{
	struct load_expected expected = usual;

	expected.acknowledged = expected.discarded = 0;
	cr_assert(is_expected(&expected, stamp_of(8, 3, 9, 77)));
	cr_assert(!is_expected(&expected, stamp_of(8, 3, 8, 77)), "another block's");
	cr_assert(is_expected(&expected, stamp_of(7, 1, 9, 1)));
}

Test(load_expect, zeros_are_of_a_discard_that_may_be_there)
{
	const uint8_t zeros[LOAD_BLOCK_BYTES] = { 0 };
	struct load_expected expected = usual;
	char text[LOAD_EXPECT_TEXT_BYTES];

	cr_assert(!load_expect_stamped(&expected, zeros, text), "a write was acknowledged since");
	expected.discarded = 3;
	cr_assert(load_expect_stamped(&expected, zeros, text));
	expected.discarded = 5;
	cr_assert(load_expect_stamped(&expected, zeros, text));
	expected.discarded = expected.acknowledged = 0;
	cr_assert(load_expect_stamped(&expected, zeros, text));
}

static void
on_due(void *arg)
{
	(void)arg;
}

Test(load_rate, requests_are_due_at_even_distances)
{
	struct load_rate rate = { 0 };

	load_rate_fini(&rate); /* zero: nothing */
	cr_assert_eq(load_rate_init(&rate, NULL, 0, on_due, NULL), 0);
	cr_assert_eq(load_rate_due_ns(&rate, 5, 42), 42, "without a rate each is due now");
	load_rate_arm(&rate, 5);
	load_rate_fini(&rate);
	rate.per_s = 3;
	rate.started_ns = NUM_S(10);
	cr_assert_eq(load_rate_due_ns(&rate, 0, 0), NUM_S(10));
	cr_assert_eq(load_rate_due_ns(&rate, 1, 0), NUM_S(10) + NUM_S(1) / 3);
	cr_assert_eq(load_rate_due_ns(&rate, 3, 0), NUM_S(11));
	/* More than a number of nanoseconds would hold if it were multiplied first. */
	cr_assert_eq(load_rate_due_ns(&rate, UINT64_C(3) << 32, 0),
	    NUM_S(10) + NUM_S(1) * (UINT64_C(1) << 32));
}
