/* SPDX-License-Identifier: Apache-2.0 */
/* test_client_holes.c -- long discards and statuses ask first where nothing is, and lose nothing by it */
#include "unit/client_fixture.h"

#define BYTES NUM_GIB(70)
#define CHUNKS (BYTES / CLEAVE_CHUNK_BYTES)
#define SEGMENTS 3u

TestSuite(client_holes, .timeout = 120);

static const uint32_t hole = CLEAVE_EXTENT_HOLE | CLEAVE_EXTENT_ZERO;
static struct cleave_extent extents[64];
static uint8_t block[4096];

/* A volume of three segments, and connections to both ports. */
static struct fixture *
start(enum net_kind kind)
{
	struct fixture *f = fixture_with_volume(kind, BYTES);
	uint8_t data[4096];

	for (uint64_t at = 0; at < 4; at++)
		cr_assert(fixture_io(f, CLEAVE_READ, at * CLEAVE_CHUNK_BYTES, 4096, data) == 0);
	memset(block, 7, sizeof(block));
	return f;
}

static uint32_t
count(const struct fixture *f, enum wire_opcode opcode)
{
	return fake_gateway_count(&f->fake, opcode);
}

static bool
is_zeros(const struct fixture *f, uint64_t offset_bytes)
{
	return f->fake.volumes[0].data[offset_bytes] == 0;
}

static void
fill(struct fixture *f, uint64_t offset_bytes)
{
	memset(f->fake.volumes[0].data + offset_bytes, 7, 4096);
}

static int
status(struct fixture *f, uint64_t offset_bytes, uint64_t bytes, uint32_t max)
{
	uint32_t done_count = f->done_count;
	int rc;

	f->ios[0] = (struct cleave_io){ .op = CLEAVE_BLOCK_STATUS,
		.offset_bytes = offset_bytes,
		.length_bytes = bytes,
		.extents = extents,
		.extent_max = max,
		.fn = fixture_on_io,
		.arg = f };
	rc = cleave_submit(f->volume, &f->ios[0]);
	if (rc == 0)
		fixture_wait(f, done_count + 1);
	return rc == 0 ? f->ios[0].rc : rc;
}

CLIENT_BOTH(client_holes, a_discard_of_nothing_is_a_message_a_segment_and_port)
{
	struct fixture *f = start(kind);

	cr_assert(fixture_io(f, CLEAVE_DISCARD, 0, BYTES, NULL) == 0);
	cr_assert(fixture_io(f, CLEAVE_WRITE_ZEROES, 4096, BYTES - 8192, NULL) == 0);
	cr_assert(count(f, WIRE_HOLES) == 2 * 2 * SEGMENTS, "%u", count(f, WIRE_HOLES));
	cr_assert(count(f, WIRE_DISCARD) + count(f, WIRE_WRITE_ZEROES) == 0);
	cr_assert(cleave_client_stats(f->client)->holes_skipped == 2 * CHUNKS);
	fixture_destroy(f);
}

/* The gateway asserts that nobody asks it. */
CLIENT_BOTH(client_holes, a_gateway_of_an_older_release_is_not_asked)
{
	struct fixture *f = fixture_create(kind, 2, 4);

	f->fake.is_old_port[0] = f->fake.is_old_port[1] = true;
	fake_gateway_add(&f->fake, "v", BYTES);
	fixture_client(f);
	cr_assert(fixture_open(f, "v") == 0, "%s", f->error);
	fill(f, CLEAVE_CHUNK_BYTES);
	cr_assert(fixture_io(f, CLEAVE_DISCARD, 0, NUM_GIB(2), NULL) == 0);
	cr_assert(is_zeros(f, CLEAVE_CHUNK_BYTES));
	cr_assert(count(f, WIRE_HOLES) == 0);
	cr_assert(count(f, WIRE_DISCARD) == NUM_GIB(2) / CLEAVE_CHUNK_BYTES);
	cr_assert(status(f, 0, 4 * CLEAVE_CHUNK_BYTES, 64) == 0);
	cr_assert(f->ios[0].extent_count == 1 && extents[0].flags == hole);
	cr_assert(cleave_client_stats(f->client)->holes_skipped == 0);
	fixture_destroy(f);
}

/* A port that was upgraded, and one that was not yet: the chunks of that one alone are taken for full. */
CLIENT_BOTH(client_holes, the_newer_of_two_gateways_is_asked)
{
	struct fixture *f = fixture_create(kind, 2, 4);

	f->fake.is_old_port[1] = true;
	fake_gateway_add(&f->fake, "v", BYTES);
	fixture_client(f);
	cr_assert(fixture_open(f, "v") == 0, "%s", f->error);
	cr_assert(fixture_io(f, CLEAVE_DISCARD, 0, NUM_GIB(2), NULL) == 0);
	cr_assert(fixture_io(f, CLEAVE_DISCARD, 0, NUM_GIB(2), NULL) == 0);
	cr_assert(count(f, WIRE_HOLES) >= 1);
	cr_assert(count(f, WIRE_DISCARD) > 0);
	fixture_destroy(f);
}

CLIENT_BOTH(client_holes, a_short_discard_does_not_ask)
{
	struct fixture *f = start(kind);

	cr_assert(fixture_io(f, CLEAVE_DISCARD, 4096, 15 * CLEAVE_CHUNK_BYTES - 4096, NULL) == 0);
	cr_assert(count(f, WIRE_HOLES) == 0);
	cr_assert(count(f, WIRE_DISCARD) == 15);
	fixture_destroy(f);
}

CLIENT_BOTH(client_holes, what_is_there_is_discarded_and_nothing_else)
{
	struct fixture *f = start(kind);
	const uint64_t first = NUM_GIB(1) + 8192, end = NUM_GIB(69) - 4096;
	const uint64_t places[] = { first - 4096, first, NUM_GIB(5), NUM_GIB(32) - 4096,
		NUM_GIB(32), NUM_GIB(64) + CLEAVE_CHUNK_BYTES, end - 4096, end };

	for (uint32_t i = 0; i < NUM_COUNT(places); i++)
		fill(f, places[i]);
	cr_assert(fixture_io(f, CLEAVE_DISCARD, first, end - first, NULL) == 0);
	for (uint32_t i = 0; i < NUM_COUNT(places); i++)
		cr_assert(is_zeros(f, places[i]) == (i > 0 && i < NUM_COUNT(places) - 1), "%u", i);
	cr_assert(count(f, WIRE_DISCARD) == 6, "one a chunk: %u", count(f, WIRE_DISCARD));
	fixture_destroy(f);
}

CLIENT_BOTH(client_holes, ports_that_know_nothing_are_asked_chunk_by_chunk)
{
	struct fixture *f = start(kind);

	fill(f, NUM_GIB(3));
	f->fake.deaf_ports = 1;
	cr_assert(fixture_io(f, CLEAVE_DISCARD, 0, NUM_GIB(32), NULL) == 0);
	cr_assert(is_zeros(f, NUM_GIB(3)));
	cr_assert(count(f, WIRE_DISCARD) >= 256 && count(f, WIRE_DISCARD) <= 257);
	fixture_destroy(f);
}

/* A change before it that overlaps is over before anybody is asked; one behind it comes later. In virtual time. */
Test(client_holes, changes_keep_their_order)
{
	struct fixture *f = start(NET_SIM);
	uint32_t done_count = f->done_count;

	f->fake.is_holding = true;
	cr_assert(fixture_submit(f, 1, CLEAVE_WRITE, NUM_GIB(2), 4096, block) == 0);
	cr_assert(fixture_submit(f, 2, CLEAVE_DISCARD, 0, BYTES, NULL) == 0);
	cr_assert(fixture_submit(f, 3, CLEAVE_WRITE, NUM_GIB(3), 4096, block) == 0);
	fixture_pass(f, NUM_MS(20));
	cr_assert(count(f, WIRE_HOLES) == 0, "asked while the write is under way");
	cr_assert(f->fake.held_count == 1);
	f->fake.is_holding = false;
	fake_gateway_release(&f->fake, false);
	fixture_wait(f, done_count + 3);
	for (uint32_t i = 1; i <= 3; i++)
		cr_assert(f->ios[i].rc == 0);
	cr_assert(is_zeros(f, NUM_GIB(2)));
	cr_assert(!is_zeros(f, NUM_GIB(3)));
	cr_assert(f->fake.overlap_violations == 0);
	fixture_destroy(f);
}

CLIENT_BOTH(client_holes, lost_connections_and_refusals_are_lived_through)
{
	struct fixture *f = start(kind);

	for (uint32_t after = 1; after < 14; after++) {
		uint32_t done_count = f->done_count;

		fill(f, NUM_GIB(33));
		fill(f, NUM_GIB(69));
		f->fake.drop_after = after;
		f->fake.status_count = after % 3;
		f->fake.status_rc = after % 2 == 0 ? -EBUSY : -EREMCHG;
		f->fake.corrupt_count = after % 4 == 0;
		cr_assert(fixture_submit(f, 1, CLEAVE_DISCARD, 0, BYTES, NULL) == 0);
		cr_assert(fixture_submit(f, 2, CLEAVE_WRITE, NUM_GIB(1), 4096, block) == 0);
		fixture_wait(f, done_count + 2);
		cr_assert(f->ios[1].rc == 0 && f->ios[2].rc == 0);
		cr_assert(is_zeros(f, NUM_GIB(33)) && is_zeros(f, NUM_GIB(69)));
		cr_assert(!is_zeros(f, NUM_GIB(1)));
	}
	fixture_destroy(f);
}

Test(client_holes, one_that_is_given_up_keeps_nobody_waiting)
{
	struct fixture *f = fixture_create(NET_SIM, 2, 4);
	uint32_t done_count;

	fake_gateway_add(&f->fake, "v", BYTES);
	f->options.io_timeout_ns = NUM_MS(50);
	fixture_client(f);
	cr_assert(fixture_open(f, "v") == 0, "%s", f->error);
	done_count = f->done_count;
	f->fake.is_holding = true;
	cr_assert(fixture_submit(f, 1, CLEAVE_DISCARD, 0, BYTES, NULL) == 0);
	fixture_wait(f, done_count + 1);
	cr_assert(f->ios[1].rc == -ETIMEDOUT);
	f->fake.is_holding = false;
	cr_assert(fixture_io(f, CLEAVE_WRITE, 0, 4096, block) == 0);
	fixture_destroy(f);
}

CLIENT_BOTH(client_holes, a_status_tells_of_all_segments_at_once)
{
	struct fixture *f = start(kind);
	const struct cleave_extent expected[] = { { NUM_GIB(33), hole }, { 4096, 0 },
		{ BYTES - NUM_GIB(33) - 4096, hole } };

	cr_assert(status(f, 0, BYTES, 64) == 0);
	cr_assert(f->ios[0].extent_count == 1 && extents[0].length_bytes == BYTES);
	cr_assert(count(f, WIRE_HOLES) == 2 * SEGMENTS);
	cr_assert(count(f, WIRE_BLOCK_STATUS) == 0);
	fill(f, NUM_GIB(33));
	cr_assert(status(f, 0, BYTES, 64) == 0);
	cr_assert(f->ios[0].extent_count == 3, "%u", f->ios[0].extent_count);
	for (uint32_t i = 0; i < 3; i++)
		cr_assert(extents[i].length_bytes == expected[i].length_bytes &&
			extents[i].flags == expected[i].flags,
		    "%u", i);
	cr_assert(count(f, WIRE_BLOCK_STATUS) == 1);
	fixture_destroy(f);
}

CLIENT_BOTH(client_holes, a_status_ends_where_there_is_no_room)
{
	struct fixture *f = start(kind);

	fill(f, NUM_GIB(33));
	cr_assert(status(f, 4096, BYTES - 4096, 2) == 0);
	cr_assert(f->ios[0].extent_count == 2);
	cr_assert(extents[0].length_bytes == NUM_GIB(33) - 4096);
	cr_assert(extents[1].length_bytes == 4096 && extents[1].flags == 0);
	cr_assert(status(f, NUM_GIB(33), NUM_GIB(30), 1) == 0);
	cr_assert(f->ios[0].extent_count == 1 && extents[0].length_bytes == 4096);
	fixture_destroy(f);
}
