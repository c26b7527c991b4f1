/* SPDX-License-Identifier: Apache-2.0 */
/* test_client_volume.c -- requests: shapes, cutting, order, flush, limits */
#include "unit/client_fixture.h"

static void
expect_content(struct fixture *f, uint64_t offset_bytes, const uint8_t *data, uint64_t bytes)
{
	cr_assert(memcmp(f->fake.volumes[0].data + offset_bytes, data, bytes) == 0);
}

CLIENT_BOTH(client_volume, writes_come_back)
{
	struct fixture *f = fixture_with_volume(kind, NUM_MIB(8));
	uint8_t *data = fixture_data(NUM_MIB(1), 3), *back = fixture_data(NUM_MIB(1), 4);

	cr_assert(fixture_io(f, CLEAVE_WRITE, 12288, 4096, data) == 0);
	cr_assert(fixture_io(f, CLEAVE_WRITE, NUM_MIB(2), NUM_MIB(1), data) == 0);
	cr_assert(fixture_io(f, CLEAVE_READ, NUM_MIB(2), NUM_MIB(1), back) == 0);
	cr_assert(memcmp(data, back, NUM_MIB(1)) == 0);
	cr_assert(fixture_io(f, CLEAVE_READ, 12288, 4096, back) == 0);
	cr_assert(memcmp(data, back, 4096) == 0);
	expect_content(f, 12288, data, 4096);
	cr_assert(fixture_stats(f)->ios_completed == 4);
	cr_assert(fixture_stats(f)->messages_sent == 34);
	free(data);
	free(back);
	fixture_destroy(f);
}

CLIENT_BOTH(client_volume, shapes_that_are_refused)
{
	struct fixture *f = fixture_with_volume(kind, NUM_MIB(8));
	uint8_t *data = fixture_data(NUM_MIB(33), 3);
	struct cleave_io both = { .op = CLEAVE_WRITE,
		.length_bytes = 4096,
		.data = data,
		.buffer = dev_ptr_add(DEV_PTR_NULL, 4096),
		.fn = fixture_on_io,
		.arg = f };

	cr_assert(fixture_submit(f, 0, CLEAVE_WRITE, 512, 4096, data) == -EINVAL);
	cr_assert(fixture_submit(f, 0, CLEAVE_WRITE, 0, 512, data) == -EINVAL);
	cr_assert(fixture_submit(f, 0, CLEAVE_WRITE, 0, 0, data) == -EINVAL);
	cr_assert(fixture_submit(f, 0, CLEAVE_READ, 0, 4096, NULL) == -EINVAL);
	cr_assert(fixture_submit(f, 0, (enum cleave_op)77, 0, 4096, data) == -EINVAL);
	cr_assert(fixture_submit(f, 0, CLEAVE_READ, 0, NUM_MIB(33), data) == -EINVAL);
	cr_assert(fixture_submit(f, 0, CLEAVE_READ, NUM_MIB(8), 4096, data) == -ERANGE);
	cr_assert(fixture_submit(f, 0, CLEAVE_WRITE, NUM_MIB(8) - 4096, 8192, data) == -ERANGE);
	cr_assert(fixture_submit(f, 0, CLEAVE_READ, UINT64_MAX - 4095, 4096, data) == -ERANGE);
	cr_assert(fixture_submit(f, 0, CLEAVE_DISCARD, 4096, NUM_MIB(8), NULL) == -ERANGE);
	cr_assert(cleave_submit(f->volume, &both) == -EINVAL);
	cr_assert(f->fake.log_count == 0);
	free(data);
	fixture_destroy(f);
}

CLIENT_BOTH(client_volume, cut_at_64_KiB_and_at_chunks)
{
	struct fixture *f = fixture_with_volume(kind, NUM_MIB(192));
	uint64_t start = NUM_MIB(64) - NUM_KIB(100), bytes = NUM_MIB(32);
	uint8_t *data = fixture_data(bytes, 5);
	uint64_t sum = 0;

	cr_assert(fixture_io(f, CLEAVE_WRITE, start, bytes, data) == 0);
	for (uint32_t i = 0; i < f->fake.log_count; i++) {
		const struct fake_record *r = &f->fake.log[i];

		cr_assert(r->io.length_bytes <= NUM_KIB(64));
		cr_assert(r->volume_offset_bytes / CLEAVE_CHUNK_BYTES ==
		    (r->volume_offset_bytes + r->io.length_bytes - 1) / CLEAVE_CHUNK_BYTES);
		sum += r->io.length_bytes;
	}
	cr_assert(sum == bytes);
	cr_assert(f->fake.log_count == 2 + 511, "%u", f->fake.log_count);
	expect_content(f, start, data, bytes);
	/* A discard goes out in one message a chunk. */
	f->fake.log_count = 0;
	cr_assert(fixture_io(f, CLEAVE_DISCARD, NUM_MIB(1), NUM_MIB(160), NULL) == 0);
	cr_assert(f->fake.log_count == 3);
	cr_assert(f->fake.volumes[0].data[start] == 0);
	cr_assert(fixture_io(f, CLEAVE_WRITE_ZEROES, 0, 4096, NULL) == 0);
	cr_assert(fake_gateway_count(&f->fake, WIRE_WRITE_ZEROES) == 1);
	cr_assert(f->fake.order_violations == 0);
	free(data);
	fixture_destroy(f);
}

CLIENT_BOTH(client_volume, segments_are_named)
{
	struct fixture *f = fixture_with_volume(kind, NUM_GIB(33));
	uint8_t *data = fixture_data(16384, 5);

	cr_assert(fixture_io(f, CLEAVE_WRITE, NUM_GIB(32) - 8192, 16384, data) == 0);
	cr_assert(f->fake.log_count == 2);
	for (uint32_t i = 0; i < 2; i++) {
		const struct wire_io *io = &f->fake.log[i].io;
		bool is_second = io->segment == FAKE_SEGMENT_BASE + 1;

		cr_assert(io->offset_bytes == (is_second ? 0 : NUM_GIB(32) - 8192));
	}
	expect_content(f, NUM_GIB(32) - 8192, data, 16384);
	free(data);
	fixture_destroy(f);
}

CLIENT_BOTH(client_volume, answers_in_any_order)
{
	struct fixture *f = fixture_with_volume(kind, NUM_MIB(8));
	uint8_t *data = fixture_data(NUM_MIB(1), 6), *back = fixture_data(NUM_MIB(1), 7);

	for (int round = 0; round < 2; round++) {
		enum cleave_op op = round == 0 ? CLEAVE_WRITE : CLEAVE_READ;

		f->done_count = 0;
		f->fake.is_holding = true;
		for (uint32_t i = 0; i < 64; i++)
			cr_assert(fixture_submit(f, i, op, i * 16384, 16384,
				      (round == 0 ? data : back) + i * 16384) == 0);
		fixture_wait_held(f, 64);
		f->fake.is_holding = false;
		fake_gateway_release(&f->fake, true);
		fixture_wait(f, 64);
		for (uint32_t i = 0; i < 64; i++)
			cr_assert(f->ios[i].rc == 0);
	}
	cr_assert(memcmp(data, back, NUM_MIB(1)) == 0);
	free(data);
	free(back);
	fixture_destroy(f);
}

CLIENT_BOTH(client_volume, overlapping_writes_keep_their_order)
{
	struct fixture *f = fixture_with_volume(kind, NUM_MIB(8));
	uint8_t *a = fixture_data(NUM_KIB(64), 1), *b = fixture_data(NUM_KIB(64), 2),
		*c = fixture_data(4096, 3);

	f->fake.is_holding = true;
	/* b overlaps the end of a, across a region's boundary; c lies in both; d is elsewhere. */
	cr_assert(fixture_submit(f, 0, CLEAVE_WRITE, NUM_KIB(32), NUM_KIB(64), a) == 0);
	cr_assert(fixture_submit(f, 1, CLEAVE_WRITE, NUM_KIB(92), NUM_KIB(64), b) == 0);
	cr_assert(fixture_submit(f, 2, CLEAVE_WRITE, NUM_KIB(92), 4096, c) == 0);
	cr_assert(fixture_submit(f, 3, CLEAVE_WRITE, NUM_KIB(256), 4096, c) == 0);
	fixture_wait_held(f, 2);
	fixture_pass(f, NUM_MS(5));
	cr_assert(f->fake.held_count == 2, "%u held", f->fake.held_count);
	cr_assert(fixture_stats(f)->overlaps == 2);
	fake_gateway_release(&f->fake, true);
	fixture_wait(f, 2);
	fixture_wait_held(f, 1);
	fake_gateway_release(&f->fake, true);
	fixture_wait(f, 3);
	fixture_wait_held(f, 1);
	fake_gateway_release(&f->fake, true);
	fixture_wait(f, 4);
	cr_assert(f->fake.overlap_violations == 0);
	expect_content(f, NUM_KIB(32), a, NUM_KIB(60));
	expect_content(f, NUM_KIB(92), c, 4096);
	expect_content(f, NUM_KIB(96), b + 4096, NUM_KIB(60));
	free(a);
	free(b);
	free(c);
	fixture_destroy(f);
}

CLIENT_BOTH(client_volume, discards_keep_their_order_with_writes)
{
	struct fixture *f = fixture_with_volume(kind, NUM_MIB(128));
	uint8_t *data = fixture_data(4096, 1);

	f->fake.is_holding = true;
	cr_assert(fixture_submit(f, 0, CLEAVE_WRITE, NUM_MIB(3), 4096, data) == 0);
	cr_assert(fixture_submit(f, 1, CLEAVE_DISCARD, 0, NUM_MIB(64), NULL) == 0);
	cr_assert(fixture_submit(f, 2, CLEAVE_WRITE, NUM_MIB(5), 4096, data) == 0);
	cr_assert(fixture_submit(f, 3, CLEAVE_WRITE_ZEROES, NUM_MIB(5), NUM_MIB(1), NULL) == 0);
	cr_assert(fixture_submit(f, 4, CLEAVE_WRITE, NUM_MIB(65), 4096, data) == 0);
	fixture_wait_held(f, 2);
	fixture_pass(f, NUM_MS(5));
	cr_assert(f->fake.held_count == 2);
	f->fake.is_holding = false;
	fake_gateway_release(&f->fake, true);
	fixture_wait(f, 5);
	cr_assert(f->fake.overlap_violations == 0);
	cr_assert(fixture_stats(f)->overlaps == 3);
	cr_assert(f->fake.volumes[0].data[NUM_MIB(3)] == 0);
	cr_assert(f->fake.volumes[0].data[NUM_MIB(5)] == 0);
	expect_content(f, NUM_MIB(65), data, 4096);
	free(data);
	fixture_destroy(f);
}

/* A seeded crowd of overlapping writes; the gateway answers when it likes. The last one must win. */
CLIENT_BOTH(client_volume, many_overlaps)
{
	struct fixture *f = fixture_with_volume(kind, NUM_KIB(256));
	uint8_t *model = calloc(1, NUM_KIB(256));
	uint8_t *data[1000];
	uint64_t random_state = 12345;

	f->fake.delay_ns = NUM_US(300);
	for (uint32_t i = 0; i < 1000; i++) {
		uint64_t offset, bytes;

		random_state = num_mix_u64(random_state + i + 1);
		offset = random_state % 64 * 4096;
		bytes = num_min(NUM_KIB(256) - offset, (random_state >> 32) % 20 * 4096 + 4096);
		data[i] = fixture_data(bytes, i);
		cr_assert(fixture_submit(f, i, CLEAVE_WRITE, offset, bytes, data[i]) == 0);
		memcpy(model + offset, data[i], bytes);
	}
	fixture_wait(f, 1000);
	cr_assert(f->fake.overlap_violations == 0);
	cr_assert(fixture_stats(f)->overlaps > 500);
	expect_content(f, 0, model, NUM_KIB(256));
	for (uint32_t i = 0; i < 1000; i++) {
		cr_assert(f->ios[i].rc == 0);
		free(data[i]);
	}
	free(model);
	fixture_destroy(f);
}

CLIENT_BOTH(client_volume, flush_waits_for_what_came_before)
{
	struct fixture *f = fixture_with_volume(kind, NUM_MIB(8));
	uint8_t *data = fixture_data(NUM_MIB(1), 1);

	cr_assert(fixture_io(f, CLEAVE_FLUSH, 0, 0, NULL) == 0, "nothing to wait for");
	f->done_count = 0;
	f->fake.is_holding = true;
	cr_assert(fixture_submit(f, 0, CLEAVE_WRITE, 0, NUM_MIB(1), data) == 0);
	cr_assert(fixture_submit(f, 1, CLEAVE_FLUSH, 0, 0, NULL) == 0);
	cr_assert(fixture_submit(f, 2, CLEAVE_WRITE, NUM_MIB(2), 4096, data) == 0);
	cr_assert(fixture_submit(f, 3, CLEAVE_FLUSH, 0, 0, NULL) == 0);
	fixture_wait_held(f, 17);
	cr_assert(f->done_count == 0);
	fake_gateway_release(&f->fake, true);
	fixture_wait(f, 4);
	/* The later write was answered first; each flush came after those before it. */
	cr_assert(f->done[0] == 2 && f->done[1] == 0 && f->done[2] == 1 && f->done[3] == 3,
	    "%u %u %u %u", f->done[0], f->done[1], f->done[2], f->done[3]);
	free(data);
	fixture_destroy(f);
}

CLIENT_BOTH(client_volume, queue_is_bounded)
{
	struct fixture *f = fixture_create(kind, 1, 1);
	uint8_t *data = fixture_data(NUM_KIB(256), 1);

	fake_gateway_add(&f->fake, "v", NUM_MIB(8));
	f->options.message_count_max = 4;
	f->options.connection_depth_max = 2;
	f->options.queue_count_max = 8;
	fixture_client(f);
	cr_assert(fixture_open(f, "v") == 0);
	f->fake.is_holding = true;
	for (uint32_t i = 0; i < 8; i++)
		cr_assert(
		    fixture_submit(f, i, CLEAVE_WRITE, i * NUM_KIB(256), NUM_KIB(256), data) == 0);
	cr_assert(fixture_submit(f, 8, CLEAVE_READ, 0, 4096, data) == -ENOBUFS);
	fixture_wait_held(f, 2);
	fixture_pass(f, NUM_MS(5));
	cr_assert(f->fake.held_count == 2, "%u in flight", f->fake.held_count);
	f->fake.is_holding = false;
	fake_gateway_release(&f->fake, false);
	fixture_wait(f, 8);
	cr_assert(fixture_io(f, CLEAVE_READ, 0, 4096, data) == 0);
	free(data);
	fixture_destroy(f);
}

CLIENT_BOTH(client_volume, volumes_share_messages_fairly)
{
	struct fixture *f = fixture_create(kind, 1, 1);
	struct cleave_volume *first;
	uint8_t *data = fixture_data(NUM_MIB(8), 1);

	fake_gateway_add(&f->fake, "v", NUM_MIB(8));
	fake_gateway_add(&f->fake, "w", NUM_MIB(8));
	f->options.message_count_max = 4;
	fixture_client(f);
	cr_assert(fixture_open(f, "v") == 0);
	first = f->volume;
	cr_assert(fixture_open(f, "w") == 0);
	FIXTURE_SWAP(f->volume, first);
	cr_assert(fixture_submit(f, 0, CLEAVE_WRITE, 0, NUM_MIB(8), data) == 0);
	FIXTURE_SWAP(f->volume, first);
	cr_assert(fixture_submit(f, 1, CLEAVE_WRITE, 0, NUM_KIB(256), data) == 0);
	fixture_wait(f, 2);
	cr_assert(f->done[0] == 1, "the small one is not behind the large one");
	fixture_close(f);
	f->volume = first;
	free(data);
	fixture_destroy(f);
}

CLIENT_BOTH(client_volume, close_waits_for_requests)
{
	struct fixture *f = fixture_with_volume(kind, NUM_MIB(8));
	struct cleave_volume *volume = f->volume;
	uint8_t *data = fixture_data(NUM_MIB(1), 1);

	f->fake.delay_ns = NUM_MS(5);
	cr_assert(fixture_submit(f, 0, CLEAVE_WRITE, 0, NUM_MIB(1), data) == 0);
	f->is_answered = false;
	cleave_volume_close(volume, fixture_on_closed, f);
	cr_assert(fixture_submit(f, 1, CLEAVE_WRITE, 0, 4096, data) == -ECANCELED);
	fixture_run(f, fixture_is_answered);
	cr_assert(f->done_count == 1);
	cr_assert(f->ios[0].rc == 0);
	expect_content(f, 0, data, NUM_MIB(1));
	free(data);
	fixture_destroy(f);
}

CLIENT_BOTH(client_volume, read_only_volumes)
{
	struct fixture *f = fixture_create(kind, 1, 1);
	uint8_t *data = fixture_data(4096, 1);

	fake_gateway_add(&f->fake, "v", NUM_MIB(8));
	fixture_client(f);
	f->is_answered = false;
	cr_assert(
	    cleave_volume_open(f->client, "v", CLEAVE_OPEN_READ_ONLY, fixture_on_open, f) == 0);
	fixture_run(f, fixture_is_answered);
	cr_assert(fixture_io(f, CLEAVE_WRITE, 0, 4096, data) == -EROFS);
	cr_assert(fixture_io(f, CLEAVE_DISCARD, 0, 4096, NULL) == -EROFS);
	cr_assert(fixture_io(f, CLEAVE_READ, 0, 4096, data) == 0);
	cr_assert(fixture_io(f, CLEAVE_FLUSH, 0, 0, NULL) == 0);
	free(data);
	fixture_destroy(f);
}

static uint8_t *part_data;
static const uint8_t *part_wanted;
static uint64_t part_bytes;
static bool is_part_told[256];

/* Parts that are told of are there, and stay; none is told of twice. */
static void
on_part(struct cleave_io *io, uint64_t from_bytes, uint64_t bytes, void *arg)
{
	struct fixture *f = arg;

	cr_assert(io == &f->ios[1]);
	cr_assert(f->done_count == 1, "before it is done");
	cr_assert(!is_part_told[from_bytes / 4096]);
	is_part_told[from_bytes / 4096] = true;
	cr_assert(memcmp(part_data + from_bytes, part_wanted + from_bytes, bytes) == 0);
	memset(part_data + from_bytes, 0, bytes);
	part_bytes += bytes;
}

/* Two of its payloads are damaged on the way: they are asked for again before they are told of. */
CLIENT_BOTH(client_volume, parts_are_told_of_once_and_whole)
{
	struct fixture *f = fixture_with_volume(kind, NUM_MIB(192));
	uint64_t start = NUM_MIB(64) - NUM_KIB(100);
	uint8_t *data = fixture_data(NUM_MIB(1), 8);

	part_data = fixture_data(NUM_MIB(1), 9);
	part_wanted = data;
	part_bytes = 0;
	memset(is_part_told, 0, sizeof(is_part_told));
	cr_assert(fixture_io(f, CLEAVE_WRITE, start, NUM_MIB(1), data) == 0);
	f->fake.corrupt_count = 2;
	f->ios[1] = (struct cleave_io){ .op = CLEAVE_READ,
		.offset_bytes = start,
		.length_bytes = NUM_MIB(1),
		.data = part_data,
		.fn = fixture_on_io,
		.part_fn = on_part,
		.arg = f };
	cr_assert(cleave_submit(f->volume, &f->ios[1]) == 0);
	fixture_wait(f, 2);
	cr_assert(f->ios[1].rc == 0);
	cr_assert(part_bytes == NUM_MIB(1));
	cr_assert(fixture_stats(f)->checksum_errors == 2);
	for (uint64_t i = 0; i < NUM_MIB(1); i++)
		cr_assert(part_data[i] == 0, "written after it was told of");
	free(data);
	free(part_data);
	fixture_destroy(f);
}

CLIENT_BOTH(client_volume, device_buffers)
{
	struct fixture *f = fixture_create(kind, 1, 1);
	uint8_t *data = fixture_data(NUM_KIB(256), 1), *back = fixture_data(NUM_KIB(256), 2);
	dev_ptr out, in;

	fake_gateway_add(&f->fake, "v", NUM_MIB(8));
	f->options.buffer_bytes = NUM_MIB(1);
	fixture_client(f);
	cr_assert(fixture_open(f, "v") == 0);
	out = cleave_buffer_alloc(f->client, NUM_KIB(256));
	in = cleave_buffer_alloc(f->client, NUM_KIB(256));
	cr_assert(!dev_ptr_is_null(out) && !dev_ptr_is_null(in));
	cr_assert(dev_ptr_is_null(cleave_buffer_alloc(f->client, NUM_MIB(64))));
	cleave_buffer_fill(f->client, out, data, NUM_KIB(256));
	f->ios[0] = (struct cleave_io){ .op = CLEAVE_WRITE,
		.offset_bytes = 8192,
		.length_bytes = NUM_KIB(256),
		.buffer = out,
		.fn = fixture_on_io,
		.arg = f };
	cr_assert(cleave_submit(f->volume, &f->ios[0]) == 0);
	fixture_wait(f, 1);
	cr_assert(f->ios[0].rc == 0);
	expect_content(f, 8192, data, NUM_KIB(256));
	f->fake.corrupt_count = 1;
	f->ios[1] = f->ios[0];
	f->ios[1].op = CLEAVE_READ;
	f->ios[1].buffer = in;
	cr_assert(cleave_submit(f->volume, &f->ios[1]) == 0);
	fixture_wait(f, 2);
	cr_assert(f->ios[1].rc == 0);
	cr_assert(fixture_stats(f)->checksum_errors == 1);
	cleave_buffer_copy(f->client, back, in, NUM_KIB(256));
	cr_assert(memcmp(data, back, NUM_KIB(256)) == 0);
	cleave_buffer_free(f->client, out);
	cleave_buffer_free(f->client, in);
	free(data);
	free(back);
	fixture_destroy(f);
}

/* The same seed gives the same history: nothing in the library reads a clock or orders by address. */
static uint64_t
history_of_a_run(void)
{
	struct fixture *f = fixture_with_volume(NET_SIM, NUM_MIB(8));
	uint8_t *data = fixture_data(NUM_KIB(64), 1);
	uint64_t hash;

	f->fake.delay_ns = NUM_US(50);
	f->fake.status_count = 40;
	f->fake.status_rc = -EBUSY;
	f->fake.drop_after = 100;
	for (uint32_t i = 0; i < 300; i++)
		cr_assert(fixture_submit(f, i, CLEAVE_WRITE, i % 50 * 8192, 16384, data) == 0);
	fixture_wait(f, 300);
	hash = sim_world_trace_hash(f->world);
	free(data);
	fixture_destroy(f);
	return hash;
}

Test(client_volume, one_seed_one_history)
{
	cr_assert(history_of_a_run() == history_of_a_run());
}
