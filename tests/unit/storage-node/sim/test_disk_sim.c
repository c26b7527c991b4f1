/* SPDX-License-Identifier: Apache-2.0 */
/* test_disk_sim.c -- the simulated disk keeps its word, and breaks it only as asked */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "splitlib/sim/loop_sim.h"
#include "storage-node/disk/disk_host.h"
#include "storage-node/sim/disk_sim.h"

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

static bool is_durable_next, has_flush_failed;

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
		.is_durable = is_durable_next,
		.fn = on_done };
	is_done = false;
	cr_assert_eq(disk_submit(disk, io), 0);
	cr_assert_not(is_done, "never from inside");
	if (sim_world_run(world, done, NULL, sim_world_now_ns(world) + NUM_S(100)) != 0)
		return -ETIME;
	has_flush_failed = io->has_flush_failed;
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

Test(disk_sim, durable_write_is_a_write_and_a_flush)
{
	cr_assert_eq(put(32768, 4096, 6), 0);
	is_durable_next = true;
	cr_assert_eq(put(0, 16384, 7), 0);
	cr_assert_eq(disk_sim_unflushed_count(sim), 0);
	cr_assert_eq(disk_sim_counters(sim)->writes_count, 2);
	cr_assert_eq(disk_sim_counters(sim)->flushes_count, 1);
	lose_power();
	cr_assert(holds(0, 16384, 7));
}

Test(disk_sim, durable_write_says_which_half_failed)
{
	is_durable_next = true;
	for (int i = 0; i < 2; i++) {
		struct disk_sim_rule rule = { .ops = DISK_FAULT_OP(
						  i == 0 ? DISK_WRITE : DISK_FLUSH),
			.rc = -EIO,
			.count = 1 };

		cr_assert_eq(disk_sim_add_rule(sim, &rule), 0);
		cr_assert_eq(put(0, 16384, 7), -EIO);
		cr_assert_eq(has_flush_failed, i == 1);
		cr_assert_eq(put(0, 16384, 8), 0);
		cr_assert_not(has_flush_failed);
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
		bool is_lost;

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
		is_lost = disk_sim_is_lost(sim, 1, 4095);
		cr_assert(!disk_sim_is_lost(sim, 4096, 8192));
		lose_power();
		cr_assert_eq(holds(0, 4096, 0), is_lost);
		cr_assert(!disk_sim_is_lost(sim, 0, 4096), "what is there now is durable");
		lost += is_lost;
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

/* ---- by the dice ---- */

static const struct disk_sim_counts *
counts(void)
{
	return disk_sim_counts(sim);
}

static void
set_faults(const struct disk_sim_faults *faults)
{
	disk_sim_set_faults(sim, faults);
}

Test(disk_sim, dice_fail_requests_about_as_often_as_asked)
{
	uint32_t failed[3] = { 0 };

	set_faults(
	    &(struct disk_sim_faults){ .read_fails = 100, .write_fails = 300, .flush_fails = 500 });
	for (int i = 0; i < 400; i++) {
		failed[DISK_READ] += one(DISK_READ, 0, 4096) == -EIO;
		failed[DISK_WRITE] += put(0, 4096, i) == -EIO;
		failed[DISK_FLUSH] += one(DISK_FLUSH, 0, 0) == -EIO;
	}
	cr_assert(failed[DISK_READ] > 15 && failed[DISK_READ] < 80);
	cr_assert(failed[DISK_WRITE] > 80 && failed[DISK_WRITE] < 160);
	cr_assert(failed[DISK_FLUSH] > 150 && failed[DISK_FLUSH] < 250);
	cr_assert_eq(counts()->failed_reads, failed[DISK_READ]);
	cr_assert_eq(counts()->failed_writes, failed[DISK_WRITE]);
	cr_assert_eq(counts()->failed_flushes, failed[DISK_FLUSH]);
	set_faults(&(struct disk_sim_faults){ 0 });
	for (int i = 0; i < 100; i++)
		cr_assert_eq(put(0, 4096, i), 0);
}

Test(disk_sim, failed_write_may_have_happened)
{
	uint32_t happened = 0;

	set_faults(&(struct disk_sim_faults){ .write_fails = 1000 });
	for (int i = 1; i < 60; i++) {
		cr_assert_eq(put(0, 4096, i), -EIO);
		happened += holds(0, 4096, i);
	}
	cr_assert(happened > 10 && happened < 50);
}

Test(disk_sim, dice_reach_only_where_they_may)
{
	set_faults(&(struct disk_sim_faults){ .read_fails = 1000,
	    .write_fails = 1000,
	    .rot = 1000,
	    .rot_places_max = 1000,
	    .first_bytes = 65536,
	    .end_bytes = 131072 });
	cr_assert_eq(put(0, 4096, 1), 0);
	cr_assert_eq(one(DISK_READ, 131072, 4096), 0);
	cr_assert_eq(one(DISK_READ, 65536, 4096), -EIO);
	cr_assert_eq(put(126976, 4096, 1), -EIO);
	cr_assert(holds(0, 4096, 1), "nothing rots outside");
}

Test(disk_sim, lying_flush_by_the_dice_is_made_good_by_an_honest_one)
{
	set_faults(&(struct disk_sim_faults){ .flush_lies = 1000 });
	cr_assert_eq(put(0, 4096, 6), 0);
	cr_assert_eq(one(DISK_FLUSH, 0, 0), 0);
	cr_assert_eq(counts()->lying_flushes, 1);
	cr_assert_eq(disk_sim_unflushed_count(sim), 1);
	set_faults(&(struct disk_sim_faults){ 0 });
	cr_assert_eq(one(DISK_FLUSH, 0, 0), 0);
	for (int i = 0; i < 10; i++) {
		lose_power();
		cr_assert(holds(0, 4096, 6));
	}
}

Test(disk_sim, dice_lose_and_misdirect_writes)
{
	uint32_t lost = 0, strayed = 0;

	set_faults(&(struct disk_sim_faults){ .write_lost = 200 });
	for (int i = 1; i < 200; i++) {
		cr_assert_eq(put(4096, 4096, i), 0);
		lost += !holds(4096, 4096, i);
	}
	cr_assert_eq(counts()->lost_writes, lost);
	cr_assert(lost > 15 && lost < 80);
	set_faults(&(struct disk_sim_faults){ .write_misdirected = 500,
	    .first_bytes = 0,
	    .end_bytes = 32768 });
	for (int i = 1; i < 100; i++) {
		memset(buffer, 0, 32768);
		disk_sim_poke(sim, 0, buffer, 32768);
		cr_assert_eq(put(4096, 8192, i), 0);
		strayed += !holds(4096, 8192, i);
		cr_assert(holds(32768, 4096, 0), "within reach");
	}
	cr_assert_eq(counts()->misdirected_writes, strayed);
	cr_assert(strayed > 20 && strayed < 80);
}

Test(disk_sim, misdirected_reads_bring_other_bytes)
{
	uint32_t strayed = 0;

	cr_assert_eq(put(0, 4096, 1), 0);
	cr_assert_eq(put(8192, 4096, 2), 0);
	disk_sim_misdirect_next_read(sim, 8192);
	cr_assert_eq(one(DISK_READ, 0, 4096), 0);
	cr_assert_eq(buffer[77], 2);
	cr_assert_eq(one(DISK_READ, 0, 4096), 0);
	cr_assert_eq(buffer[77], 1);
	cr_assert_eq(counts()->misdirected_reads, 1);
	set_faults(&(struct disk_sim_faults){ .read_misdirected = 500, .end_bytes = 16384 });
	for (int i = 0; i < 100; i++) {
		cr_assert_eq(one(DISK_READ, 0, 4096), 0);
		strayed += buffer[0] != 1;
	}
	cr_assert_eq(counts()->misdirected_reads, 1 + strayed);
	cr_assert_gt(strayed, 20);
}

static uint32_t
bits_differ(uint64_t offset, uint32_t bytes, int value)
{
	uint32_t count = 0;
	uint8_t seen[4096];

	for (uint32_t at = 0; at < bytes; at += 4096) {
		disk_sim_peek(sim, offset + at, seen, 4096);
		for (uint32_t i = 0; i < 4096; i++)
			count += (uint32_t)__builtin_popcount(seen[i] ^ (uint8_t)value);
	}
	return count;
}

Test(disk_sim, rot_flips_no_more_bits_than_asked)
{
	uint64_t offset = 0;

	cr_assert_not(disk_sim_rot_somewhere(sim, &offset), "nothing is written yet");
	cr_assert_eq(put(4096, 65536, 9), 0);
	cr_assert_eq(one(DISK_FLUSH, 0, 0), 0);
	cr_assert(disk_sim_rot_somewhere(sim, &offset));
	cr_assert(offset >= 4096 && offset < 4096 + 65536);
	cr_assert_eq(bits_differ(4096, 65536, 9), 1);
	set_faults(&(struct disk_sim_faults){ .rot = 500,
	    .rot_places_max = 3,
	    .first_bytes = 4096,
	    .end_bytes = 69632 });
	for (int i = 0; i < 60; i++)
		cr_assert_eq(put(131072, 4096, 1), 0);
	cr_assert_eq(counts()->rotten_bits, 4);
	cr_assert_leq(bits_differ(4096, 65536, 9), 4); /* the same bit may flip back */
	lose_power();
	cr_assert_gt(bits_differ(4096, 65536, 9), 0, "it stays so");
}

Test(disk_sim, rules_fail_ranges_once_or_for_ever)
{
	struct disk_sim_rule rule = { .ops = DISK_FAULT_OP(DISK_READ) | DISK_FAULT_OP(DISK_WRITE),
		.rc = -EIO,
		.offset_bytes = 8192,
		.bytes = 4096,
		.count = 1 };

	cr_assert_eq(disk_sim_add_rule(sim, &rule), 0);
	cr_assert_eq(one(DISK_READ, 0, 8192), 0);
	cr_assert_eq(one(DISK_READ, 0, 12288), -EIO);
	cr_assert_eq(one(DISK_READ, 0, 12288), 0, "once");
	rule.count = 0;
	cr_assert_eq(disk_sim_add_rule(sim, &rule), 0);
	for (int i = 0; i < 5; i++)
		cr_assert_eq(put(8192, 4096, 1), -EIO);
	cr_assert_eq(one(DISK_FLUSH, 0, 0), 0);
	cr_assert_eq(disk_sim_add_rule(sim,
			 &(struct disk_sim_rule){ .ops = DISK_FAULT_OP(DISK_FLUSH),
			     .rc = -EIO,
			     .count = 2 }),
	    0);
	cr_assert_eq(one(DISK_FLUSH, 0, 0), -EIO);
	cr_assert_eq(one(DISK_FLUSH, 0, 0), -EIO);
	cr_assert_eq(one(DISK_FLUSH, 0, 0), 0);
	cr_assert_eq(counts()->failed_writes, 5);
	cr_assert_eq(counts()->failed_flushes, 2);
	disk_sim_clear_rules(sim);
	cr_assert_eq(put(8192, 4096, 1), 0);
	for (uint32_t i = 0; i < DISK_SIM_RULES_MAX; i++)
		cr_assert_eq(disk_sim_add_rule(sim, &rule), 0);
	cr_assert_eq(disk_sim_add_rule(sim, &rule), -ENOBUFS);
	for (uint32_t i = 0; i < DISK_SIM_BAD_RANGES_MAX; i++)
		cr_assert_eq(disk_sim_set_bad(sim, 4096, 4096), 0);
	cr_assert_eq(disk_sim_set_bad(sim, 4096, 4096), -ENOBUFS);
}

Test(disk_sim, dice_stall_everybody_and_slow_single_requests_down)
{
	uint64_t before = sim_world_now_ns(world);
	uint64_t took_ns, longest_ns = 0;

	set_faults(&(struct disk_sim_faults){ .stalls = 1000 });
	cr_assert_eq(one(DISK_READ, 0, 4096), 0);
	took_ns = sim_world_now_ns(world) - before;
	cr_assert(took_ns >= NUM_S(2) && took_ns < NUM_S(31));
	set_faults(&(struct disk_sim_faults){ .stalls = 1000,
	    .stall_min_ns = NUM_MS(5),
	    .stall_max_ns = NUM_MS(5) });
	before = sim_world_now_ns(world);
	cr_assert_eq(one(DISK_READ, 0, 4096), 0);
	took_ns = sim_world_now_ns(world) - before;
	cr_assert_eq(took_ns, NUM_MS(5));
	cr_assert_eq(counts()->stalls, 2);
	set_faults(&(struct disk_sim_faults){ .slow_requests = 1000 });
	for (int i = 0; i < 20; i++) {
		before = sim_world_now_ns(world);
		cr_assert_eq(put(0, 4096, 1), 0);
		took_ns = sim_world_now_ns(world) - before;
		cr_assert_geq(took_ns, NUM_US(200));
		longest_ns = num_max(longest_ns, took_ns);
	}
	cr_assert_geq(longest_ns, NUM_MS(5));
	cr_assert_eq(counts()->slow_requests, 20);
}

Test(disk_sim, reordered_unflushed_writes)
{
	uint32_t only_second = 0;

	/* The younger of two may be there without the older. */
	for (int i = 0; i < 200; i++) {
		memset(buffer, 0, 8192);
		disk_sim_poke(sim, 0, buffer, 8192);
		cr_assert_eq(put(0, 4096, 1), 0);
		cr_assert_eq(put(4096, 4096, 2), 0);
		lose_power();
		only_second += holds(0, 4096, 0) && holds(4096, 4096, 2);
	}
	cr_assert_gt(only_second, 2);
}

Test(disk_sim, faults_change_nothing_else_of_a_seed)
{
	uint64_t took_ns[2];

	for (int i = 0; i < 2; i++) {
		uint64_t before;

		disk_close(disk);
		disk_sim_destroy(sim);
		sim = disk_sim_create(
		    &(struct disk_sim_options){ .capacity_bytes = CAPACITY, .seed = 5 });
		cr_assert_eq(disk_sim_open(sim, loop, &disk), 0);
		set_faults(&(struct disk_sim_faults){ .write_lost = i == 0 ? 0 : 500 });
		before = sim_world_now_ns(world);
		for (int k = 0; k < 50; k++)
			cr_assert_eq(put(0, 4096, k), 0);
		took_ns[i] = sim_world_now_ns(world) - before;
	}
	cr_assert_eq(took_ns[0], took_ns[1]);
	cr_assert_gt(counts()->lost_writes, 10);
}
