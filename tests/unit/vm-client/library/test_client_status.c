/* SPDX-License-Identifier: Apache-2.0 */
/* test_client_status.c -- what a range holds: joined from answers that end where they like */
#include "unit/client_fixture.h"

#define EXTENTS_MAX 64u

TestSuite(client_status, .timeout = 120);

static const uint32_t hole = CLEAVE_EXTENT_HOLE | CLEAVE_EXTENT_ZERO;
static struct cleave_extent extents[EXTENTS_MAX];

/* Blocks that hold something, a block each. */
static void
fill(struct fixture *f, uint64_t offset_bytes, uint64_t bytes)
{
	memset(f->fake.volumes[0].data + offset_bytes, 7, bytes);
}

static int
submit_status(struct fixture *f, uint32_t index, uint64_t offset_bytes, uint64_t bytes,
    uint32_t max)
{
	f->ios[index] = (struct cleave_io){ .op = CLEAVE_BLOCK_STATUS,
		.offset_bytes = offset_bytes,
		.length_bytes = bytes,
		.extents = extents,
		.extent_max = max,
		.extent_count = 99,
		.fn = fixture_on_io,
		.arg = f };
	return cleave_submit(f->volume, &f->ios[index]);
}

static int
status(struct fixture *f, uint64_t offset_bytes, uint64_t bytes, uint32_t max)
{
	uint32_t done_count = f->done_count;
	int rc = submit_status(f, 0, offset_bytes, bytes, max);

	if (rc != 0)
		return rc;
	fixture_wait(f, done_count + 1);
	return f->ios[0].rc;
}

static void
expect(const struct fixture *f, const struct cleave_extent *expected, uint32_t count)
{
	cr_assert(f->ios[0].extent_count == count, "%u", f->ios[0].extent_count);
	for (uint32_t i = 0; i < count; i++) {
		cr_assert(extents[i].length_bytes == expected[i].length_bytes, "%u", i);
		cr_assert(extents[i].flags == expected[i].flags, "%u", i);
	}
}

CLIENT_BOTH(client_status, neighbours_are_joined_across_chunks)
{
	struct fixture *f = fixture_with_volume(kind, NUM_MIB(256));
	const struct cleave_extent expected[] = { { NUM_MIB(60), hole }, { NUM_MIB(72), 0 },
		{ NUM_MIB(124), hole } };

	fill(f, NUM_MIB(60), NUM_MIB(72));
	cr_assert(status(f, 0, NUM_MIB(256), EXTENTS_MAX) == 0);
	expect(f, expected, 3);
	cr_assert(fake_gateway_count(&f->fake, WIRE_BLOCK_STATUS) == 4, "one a chunk");
	cr_assert(f->fake.order_violations == 0);
	fixture_destroy(f);
}

CLIENT_BOTH(client_status, answers_may_stop_early)
{
	struct fixture *f = fixture_with_volume(kind, NUM_MIB(128));
	const struct cleave_extent expected[] = { { 4096, 0 }, { 4096, hole }, { 8192, 0 },
		{ NUM_MIB(80) - 16384, hole } };

	fill(f, NUM_MIB(1), 4096);
	fill(f, NUM_MIB(1) + 8192, 8192);
	f->fake.status_blocks_max = 1000;
	cr_assert(status(f, NUM_MIB(1), NUM_MIB(80), EXTENTS_MAX) == 0);
	expect(f, expected, 4);
	cr_assert(fake_gateway_count(&f->fake, WIRE_BLOCK_STATUS) > 20);
	fixture_destroy(f);
}

CLIENT_BOTH(client_status, a_full_array_ends_it)
{
	struct fixture *f = fixture_with_volume(kind, NUM_MIB(8));
	const struct cleave_extent expected[] = { { 4096, 0 }, { 4096, hole } };

	for (uint64_t at = 0; at < NUM_MIB(8); at += 8192)
		fill(f, at, 4096);
	cr_assert(status(f, 0, NUM_MIB(8), 2) == 0);
	expect(f, expected, 2);
	cr_assert(status(f, 4096, NUM_MIB(8) - 4096, 1) == 0);
	expect(f, expected + 1, 1);
	cr_assert(status(f, 0, 4096, 1) == 0);
	expect(f, expected, 1);
	fixture_destroy(f);
}

CLIENT_BOTH(client_status, shapes_that_are_refused)
{
	struct fixture *f = fixture_with_volume(kind, NUM_MIB(8));

	cr_assert(status(f, 0, 0, 1) == -EINVAL);
	cr_assert(status(f, 512, 4096, 1) == -EINVAL);
	cr_assert(status(f, 0, 4096, 0) == -EINVAL);
	cr_assert(status(f, 0, NUM_MIB(8) + 4096, 1) == -ERANGE);
	cr_assert(f->fake.log_count == 0);
	fixture_destroy(f);
}

CLIENT_BOTH(client_status, damage_is_found_and_asked_again)
{
	struct fixture *f = fixture_with_volume(kind, NUM_MIB(8));
	const struct cleave_extent expected[] = { { NUM_MIB(8), hole } };

	f->fake.corrupt_count = 2;
	cr_assert(status(f, 0, NUM_MIB(8), EXTENTS_MAX) == 0);
	expect(f, expected, 1);
	cr_assert(cleave_client_stats(f->client)->checksum_errors == 2);
	f->fake.corrupt_count = 1000;
	cr_assert(status(f, 0, NUM_MIB(8), EXTENTS_MAX) == -EBADMSG);
	fixture_destroy(f);
}

CLIENT_BOTH(client_status, entries_that_go_too_far_are_told_to_nobody)
{
	struct fixture *f = fixture_with_volume(kind, NUM_MIB(8));

	f->fake.status_overshoot = 1000;
	cr_assert(status(f, 0, NUM_MIB(8), EXTENTS_MAX) != 0);
	cr_assert(f->ios[0].extent_count == 0);
	fixture_destroy(f);
}

/* Whoever asks on behind what was told would do so for ever. */
CLIENT_BOTH(client_status, an_answer_without_entries_is_none)
{
	struct fixture *f = fixture_with_volume(kind, NUM_MIB(8));
	const struct cleave_extent expected[] = { { NUM_MIB(8), hole } };

	f->fake.status_empty = 2;
	cr_assert(status(f, 0, NUM_MIB(8), EXTENTS_MAX) == 0);
	expect(f, expected, 1);
	cr_assert(f->fake.status_empty == 0);
	fixture_destroy(f);
}

CLIENT_BOTH(client_status, it_waits_for_nobody_and_survives_a_lost_connection)
{
	struct fixture *f = fixture_with_volume(kind, NUM_MIB(128));
	uint8_t *data = calloc(1, 4096);

	fill(f, NUM_MIB(3), 4096);
	for (uint32_t after = 1; after < 12; after++) {
		uint32_t done_count = f->done_count;
		uint64_t sum = 0;

		f->fake.status_blocks_max = 4096;
		f->fake.drop_after = after;
		cr_assert(fixture_submit(f, 1, CLEAVE_WRITE, 0, 4096, data) == 0);
		cr_assert(submit_status(f, 0, 0, NUM_MIB(128), EXTENTS_MAX) == 0);
		fixture_wait(f, done_count + 2);
		cr_assert(f->ios[0].rc == 0);
		cr_assert(f->ios[0].extent_count == 3);
		for (uint32_t i = 0; i < 3; i++)
			sum += extents[i].length_bytes;
		cr_assert(sum == NUM_MIB(128), "%lu", (unsigned long)sum);
	}
	cr_assert(f->fake.overlap_violations == 0);
	free(data);
	fixture_destroy(f);
}

CLIENT_BOTH(client_status, busy_gateways_are_asked_again)
{
	struct fixture *f = fixture_with_volume(kind, NUM_MIB(128));

	f->fake.status_count = 3;
	f->fake.status_rc = -EBUSY;
	cr_assert(status(f, 0, NUM_MIB(128), EXTENTS_MAX) == 0);
	f->fake.status_count = 1;
	f->fake.status_rc = -EIO;
	cr_assert(status(f, 0, NUM_MIB(128), EXTENTS_MAX) == -EIO);
	fixture_destroy(f);
}
