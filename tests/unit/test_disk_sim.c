/* SPDX-License-Identifier: Apache-2.0 */
/* test_disk_sim.c -- the simulated disk keeps its word, and breaks it only as asked */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/loop_sim.h"
#include "base/num.h"
#include "storage-node/disk_host.h"
#include "storage-node/disk_sim.h"

#define CAPACITY NUM_MIB(1)

static struct sim_world *world;
static struct loop *loop;
static struct disk_sim *sim;
static struct disk *disk;
static uint8_t buffer[65536] __attribute__((aligned(4096)));
static bool is_done;
static int last_rc;

static void
setup(void)
{
	world = sim_world_create(1);
	loop = sim_loop_create(world, "one");
	sim = disk_sim_create(&(struct disk_sim_options){ .capacity_bytes = CAPACITY, .seed = 5 });
	cr_assert_not_null(sim);
	cr_assert_eq(disk_sim_open(sim, loop, &disk), 0);
}

static void
teardown(void)
{
	if (disk != NULL)
		disk_close(disk);
	disk_sim_destroy(sim);
	loop_destroy(loop);
	sim_world_destroy(world);
}

TestSuite(disk_sim, .init = setup, .fini = teardown);

static void
on_done(struct disk_io *io, int rc, void *arg)
{
	(void)io;
	(void)arg;
	is_done = true;
	last_rc = rc;
}

static bool
done(void *arg)
{
	(void)arg;
	return is_done;
}

static int
one(enum disk_op op, uint64_t offset, uint32_t bytes)
{
	/* A request that never completes stays the disk's: each has a place of its own. */
	static struct {
		struct dev_piece piece;
		struct disk_io io;
	} requests[1024];
	static uint32_t count;
	struct dev_piece *piece = &requests[count % 1024].piece;
	struct disk_io *io = &requests[count++ % 1024].io;

	*piece = disk_host_piece(buffer, bytes);
	*io = (struct disk_io){ .op = op,
		.offset_bytes = offset,
		.pieces = piece,
		.piece_count = op != DISK_FLUSH,
		.fn = on_done };
	is_done = false;
	cr_assert_eq(disk_submit(disk, io), 0);
	cr_assert_not(is_done, "never from inside");
	if (sim_world_run(world, done, NULL, sim_world_now_ns(world) + NUM_S(100)) != 0)
		return -ETIME;
	return last_rc;
}

static int
put(uint64_t offset, uint32_t bytes, int value)
{
	memset(buffer, value, bytes);
	return one(DISK_WRITE, offset, bytes);
}

static bool
holds(uint64_t offset, uint32_t bytes, int value)
{
	static uint8_t seen[65536];

	disk_sim_peek(sim, offset, seen, bytes);
	for (uint32_t i = 0; i < bytes; i++)
		if (seen[i] != value)
			return false;
	return true;
}

static void
lose_power(void)
{
	disk_close(disk);
	disk_sim_power_loss(sim);
	cr_assert_eq(disk_sim_open(sim, loop, &disk), 0);
}

Test(disk_sim, reads_what_was_written_and_zeros_elsewhere)
{
	cr_assert_eq(put(8192, 8192, 7), 0);
	memset(buffer, 1, sizeof(buffer));
	cr_assert_eq(one(DISK_READ, 4096, 16384), 0);
	cr_assert_eq(buffer[0], 0);
	cr_assert_eq(buffer[4096], 7);
	cr_assert_eq(buffer[12287], 7);
	cr_assert_eq(buffer[12288], 0);
}

Test(disk_sim, what_was_flushed_survives_power_loss)
{
	cr_assert_eq(put(0, 16384, 7), 0);
	cr_assert_eq(one(DISK_FLUSH, 0, 0), 0);
	cr_assert_eq(disk_sim_unflushed_count(sim), 0);
	for (int i = 0; i < 8; i++) {
		cr_assert_eq(put(32768, 4096, 8), 0);
		lose_power();
		cr_assert(holds(0, 16384, 7));
	}
}

Test(disk_sim, unflushed_writes_are_kept_lost_and_torn)
{
	uint32_t kept = 0, lost = 0, torn = 0;

	for (int i = 0; i < 200; i++) {
		int value = 1 + i % 200;
		uint8_t sectors[8];
		uint32_t count = 0;

		memset(buffer, 0, 4096);
		disk_sim_poke(sim, 0, buffer, 4096);
		cr_assert_eq(put(0, 4096, value), 0);
		lose_power();
		for (uint32_t k = 0; k < 8; k++) {
			disk_sim_peek(sim, k * 512, &sectors[k], 1);
			cr_assert(holds(k * 512, 512, sectors[k]), "512 bytes are whole");
			cr_assert(sectors[k] == 0 || sectors[k] == value);
			count += sectors[k] == value;
		}
		kept += count == 8;
		lost += count == 0;
		torn += count > 0 && count < 8;
	}
	cr_assert_gt(kept, 20);
	cr_assert_gt(lost, 20);
	cr_assert_gt(torn, 20);
}

Test(disk_sim, flush_covers_only_what_completed_before_it)
{
	struct dev_piece piece = disk_host_piece(buffer, 4096);
	struct disk_io flush = { .op = DISK_FLUSH, .fn = on_done };
	struct disk_io write = { .op = DISK_WRITE,
		.pieces = &piece,
		.piece_count = 1,
		.fn = on_done };

	/* The write is in flight when the flush is submitted; both complete. */
	memset(buffer, 9, 4096);
	cr_assert_eq(disk_submit(disk, &write), 0);
	cr_assert_eq(disk_submit(disk, &flush), 0);
	(void)sim_world_run(world, NULL, NULL, sim_world_now_ns(world) + NUM_MS(100));
	cr_assert(holds(0, 4096, 9));
	cr_assert_eq(disk_sim_unflushed_count(sim), 1);
}

Test(disk_sim, contents_outlive_a_process)
{
	struct disk *second;

	cr_assert_eq(put(0, 4096, 5), 0);
	cr_assert_eq(disk_sim_open(sim, loop, &second), -EBUSY);
	disk_close(disk);
	cr_assert_eq(disk_sim_open(sim, loop, &disk), 0);
	cr_assert(holds(0, 4096, 5), "a kill loses nothing that completed");
	cr_assert_eq(disk_sim_unflushed_count(sim), 1, "nor makes it durable");
}

Test(disk_sim, failed_flush_loses_data_that_a_later_one_does_not_bring_back)
{
	uint32_t lost = 0;

	for (int i = 0; i < 40; i++) {
		memset(buffer, 0, 4096);
		disk_sim_poke(sim, 0, buffer, 4096);
		cr_assert_eq(put(0, 4096, 6), 0);
		*disk_sim_fault(sim) = (struct disk_fault){ .ops = DISK_FAULT_OP(DISK_FLUSH),
			.at_count = 1,
			.verdict = DISK_FAULT_FAIL,
			.rc = -EIO };
		cr_assert_eq(one(DISK_FLUSH, 0, 0), -EIO);
		cr_assert(holds(0, 4096, 6), "reads go on to show it");
		cr_assert_eq(one(DISK_FLUSH, 0, 0), 0);
		lose_power();
		lost += holds(0, 4096, 0);
	}
	cr_assert_gt(lost, 5);
	cr_assert_lt(lost, 35);
}

Test(disk_sim, lying_flush)
{
	uint32_t lost = 0;

	disk_sim_set_lying(sim, true);
	for (int i = 0; i < 40; i++) {
		memset(buffer, 0, 4096);
		disk_sim_poke(sim, 0, buffer, 4096);
		cr_assert_eq(put(0, 4096, 6), 0);
		cr_assert_eq(one(DISK_FLUSH, 0, 0), 0);
		lose_power();
		lost += holds(0, 4096, 0);
	}
	cr_assert_gt(lost, 5);
}

Test(disk_sim, nth_request_fails)
{
	for (enum disk_op op = DISK_READ; op <= DISK_FLUSH; op++) {
		*disk_sim_fault(sim) = (struct disk_fault){ .ops = DISK_FAULT_OP(op),
			.at_count = 2,
			.verdict = DISK_FAULT_FAIL,
			.rc = -EIO };
		cr_assert_eq(one(op, 0, 4096), 0);
		cr_assert_eq(one(op, 0, 4096), -EIO);
		cr_assert_eq(one(op, 0, 4096), 0);
		*disk_sim_fault(sim) = (struct disk_fault){ .ops = DISK_FAULT_OP(op),
			.at_count = 1,
			.is_sticky = true,
			.verdict = DISK_FAULT_FAIL,
			.rc = -EIO };
		cr_assert_eq(one(op, 0, 4096), -EIO);
		cr_assert_eq(one(op, 0, 4096), -EIO);
		*disk_sim_fault(sim) = (struct disk_fault){ 0 };
	}
}

Test(disk_sim, halted_nothing_completes)
{
	*disk_sim_fault(sim) = (struct disk_fault){ .ops = DISK_FAULT_OP(DISK_WRITE),
		.at_count = 1,
		.verdict = DISK_FAULT_HALT };
	cr_assert_eq(one(DISK_READ, 0, 4096), 0);
	cr_assert_eq(put(0, 4096, 1), -ETIME);
	cr_assert_eq(one(DISK_READ, 0, 4096), -ETIME);
	*disk_sim_fault(sim) = (struct disk_fault){ 0 };
	lose_power();
	cr_assert_eq(one(DISK_READ, 0, 4096), 0);
}

Test(disk_sim, rot_bad_ranges_and_strays)
{
	uint8_t byte;

	cr_assert_eq(put(0, 4096, 0), 0);
	disk_sim_rot(sim, 100, 3);
	disk_sim_peek(sim, 100, &byte, 1);
	cr_assert_eq(byte, 8);
	cr_assert_eq(disk_sim_set_bad(sim, 8192, 4096), 0);
	cr_assert_eq(one(DISK_READ, 4096, 4096), 0);
	cr_assert_eq(one(DISK_READ, 4096, 8192), -EIO);
	cr_assert_eq(put(8192, 4096, 4), 0);
	cr_assert_eq(one(DISK_READ, 4096, 8192), 0, "written over, it is well again");
	disk_sim_misdirect_next_write(sim, 65536);
	cr_assert_eq(put(16384, 4096, 3), 0);
	cr_assert(holds(16384, 4096, 0));
	cr_assert(holds(65536, 4096, 3));
	disk_sim_lose_next_write(sim);
	cr_assert_eq(put(16384, 4096, 3), 0);
	cr_assert(holds(16384, 4096, 0));
	disk_sim_set_full(sim, true);
	cr_assert_eq(put(16384, 4096, 3), -ENOSPC);
	cr_assert_eq(one(DISK_READ, 0, 4096), 0);
}

Test(disk_sim, slow_and_stalled)
{
	uint64_t before = sim_world_now_ns(world);

	disk_sim_stall(sim, NUM_S(2));
	cr_assert_eq(put(0, 4096, 1), 0);
	cr_assert_geq(sim_world_now_ns(world) - before, NUM_S(2));
	disk_sim_set_slowness(sim, 1000);
	before = sim_world_now_ns(world);
	cr_assert_eq(put(0, 4096, 1), 0);
	cr_assert_geq(sim_world_now_ns(world) - before, NUM_MS(20));
}

Test(disk_sim, same_seed_same_losses)
{
	uint8_t first[65536], second[65536];

	for (int i = 0; i < 2; i++) {
		struct disk_sim *own = sim;

		if (i == 1) {
			disk_close(disk);
			disk_sim_destroy(own);
			sim = disk_sim_create(
			    &(struct disk_sim_options){ .capacity_bytes = CAPACITY, .seed = 5 });
			cr_assert_eq(disk_sim_open(sim, loop, &disk), 0);
		}
		for (int k = 0; k < 10; k++)
			cr_assert_eq(put((uint64_t)k * 4096, 8192, k + 1), 0);
		lose_power();
		disk_sim_peek(sim, 0, i == 0 ? first : second, sizeof(first));
	}
	cr_assert_arr_eq(first, second, sizeof(first));
}

Test(disk_sim, refuses_sizes_that_cannot_be)
{
	cr_assert_null(disk_sim_create(&(struct disk_sim_options){ .capacity_bytes = 0 }));
	cr_assert_null(disk_sim_create(&(struct disk_sim_options){ .capacity_bytes = 5000 }));
}
