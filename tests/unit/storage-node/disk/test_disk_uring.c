/* SPDX-License-Identifier: Apache-2.0 */
/* test_disk_uring.c -- a real file through io_uring and O_DIRECT */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/guard.h"
#include "base/num.h"
#include "storage-node/disk/disk_fault.h"
#include "storage-node/disk/disk_host.h"
#include "storage-node/disk/disk_uring.h"
#include "storage-node/disk/file_map.h"

#define FILE_BYTES NUM_MIB(4)
#define IOS 300u

static char path[256];
static struct loop *loop;
static struct disk *disk;
static uint8_t *memory; /* behind the guard */
static uint32_t done_count;
static int last_rc;

static void
setup(void)
{
	const char *folder = getenv("CLEAVE_BUILD_DIR");
	int fd;

	(void)snprintf(path, sizeof(path), "%s/test_disk_uring.XXXXXX",
	    folder != NULL ? folder : "/tmp");
	fd = mkstemp(path);
	cr_assert_geq(fd, 0);
	cr_assert_eq(posix_fallocate(fd, 0, (off_t)FILE_BYTES), 0);
	cr_assert_eq(close(fd), 0);
	loop = loop_ev_create(1);
	cr_assert_not_null(loop);
	(void)guard_init();
	memory = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(memory, MAP_FAILED);
	cr_assert_eq(guard_add(memory, FILE_BYTES), 0);
	cr_assert_eq(disk_uring_open(loop,
			 &(struct disk_uring_options){ .path = path, .queue_depth = 32 }, &disk),
	    0);
}

static void
teardown(void)
{
	if (disk != NULL)
		disk_close(disk);
	loop_destroy(loop);
	guard_remove(memory, FILE_BYTES);
	(void)munmap(memory, FILE_BYTES);
	(void)unlink(path);
}

TestSuite(disk_uring, .init = setup, .fini = teardown);

static void
on_done(struct disk_io *io, int rc, void *arg)
{
	(void)io;
	(void)arg;
	done_count++;
	last_rc = rc;
}

static bool
is_done(void *arg)
{
	return done_count >= *(uint32_t *)arg;
}

static bool
is_second_turn(void *arg)
{
	return (*(uint32_t *)arg)++ == 1;
}

static void
wait_for(uint32_t count)
{
	cr_assert_eq(loop_run(loop, is_done, &count), 0);
}

static int
one(enum disk_op op, uint64_t offset, const struct dev_piece *pieces, uint32_t count)
{
	struct disk_io io = { .op = op,
		.offset_bytes = offset,
		.pieces = pieces,
		.piece_count = count,
		.fn = on_done };

	done_count = 0;
	cr_assert_eq(disk_submit(disk, &io), 0);
	cr_assert_eq(done_count, 0, "never from inside");
	wait_for(1);
	return last_rc;
}

static struct dev_piece
piece_at(uint64_t offset, uint32_t bytes)
{
	return disk_host_piece(memory + offset, bytes);
}

static void
fill(uint64_t offset, uint64_t bytes, int value)
{
	guard_enter();
	memset(memory + offset, value, bytes);
	guard_leave();
}

static bool
holds(uint64_t offset, uint64_t bytes, int value)
{
	bool is_equal = true;

	guard_enter();
	for (uint64_t i = 0; i < bytes; i++)
		is_equal = is_equal && memory[offset + i] == value;
	guard_leave();
	return is_equal;
}

Test(disk_uring, writes_flushes_and_reads_back)
{
	struct dev_piece out[] = { piece_at(0, 4096), piece_at(65536, 8192),
		piece_at(32768, 4096) };
	struct dev_piece in = piece_at(1 << 20, 16384);

	fill(0, 4096, 1);
	fill(65536, 8192, 2);
	fill(32768, 4096, 3);
	cr_assert_eq(one(DISK_WRITE, 12288, out, 3), 0);
	cr_assert_eq(one(DISK_FLUSH, 0, NULL, 0), 0);
	cr_assert_eq(one(DISK_READ, 12288, &in, 1), 0);
	cr_assert(holds(1 << 20, 4096, 1));
	cr_assert(holds((1 << 20) + 4096, 8192, 2));
	cr_assert(holds((1 << 20) + 12288, 4096, 3));
	cr_assert_eq(disk->capacity_bytes, FILE_BYTES);
	cr_assert(disk->is_cache_volatile);
	cr_assert(disk_uring_is_file(disk));
}

Test(disk_uring, durable_write_is_written)
{
	struct dev_piece out = piece_at(0, 8192), in = piece_at(1 << 20, 8192);
	struct disk_io io = { .op = DISK_WRITE,
		.offset_bytes = 4096,
		.pieces = &out,
		.piece_count = 1,
		.is_durable = true,
		.fn = on_done };

	fill(0, 8192, 9);
	cr_assert_eq(disk_submit(disk, &io), 0);
	wait_for(1);
	cr_assert_eq(last_rc, 0);
	cr_assert_not(io.has_flush_failed);
	cr_assert_eq(one(DISK_READ, 4096, &in, 1), 0);
	cr_assert(holds(1 << 20, 8192, 9));
}

Test(disk_uring, lone_short_write_is_made_without_the_ring)
{
	struct dev_piece out[] = { piece_at(0, 4096), piece_at(65536, 8192) };
	struct dev_piece in = piece_at(1 << 20, 12288);
	struct disk_io durable = { .op = DISK_WRITE,
		.pieces = out,
		.piece_count = 2,
		.is_durable = true,
		.fn = on_done };
	const struct disk_uring_counters *counters = disk_uring_counters(disk);
	uint64_t enters = counters->enters_count;

	fill(0, 4096, 1);
	fill(65536, 8192, 2);
	cr_assert_eq(one(DISK_WRITE, 12288, out, 2), 0);
	cr_assert_eq(counters->inline_count, 1);
	cr_assert_eq(counters->enters_count, enters);
	cr_assert_eq(one(DISK_READ, 12288, &in, 1), 0);
	cr_assert(holds(1 << 20, 4096, 1));
	cr_assert(holds((1 << 20) + 4096, 8192, 2));
	done_count = 0;
	cr_assert_eq(disk_submit(disk, &durable), 0);
	wait_for(1);
	cr_assert_eq(last_rc, 0);
	cr_assert_eq(counters->inline_count, 1, "nobody waits for a flush");
}

Test(disk_uring, lone_write_past_what_the_file_system_lets_us_is_an_error)
{
	struct dev_piece piece = piece_at(0, 4096);
	struct rlimit limit;

	cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = NUM_MIB(1);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	cr_assert_neq(signal(SIGXFSZ, SIG_IGN), SIG_ERR);
	cr_assert_eq(one(DISK_WRITE, 2 << 20, &piece, 1), -EFBIG);
	cr_assert_eq(disk_uring_counters(disk)->inline_count, 1);
	cr_assert_eq(one(DISK_WRITE, 0, &piece, 1), 0, "the next one is none the worse");
}

Test(disk_uring, close_forgets_a_lone_write_that_was_not_told)
{
	struct dev_piece piece = piece_at(0, 4096);
	struct disk_io io = { .op = DISK_WRITE, .pieces = &piece, .piece_count = 1, .fn = on_done };

	done_count = 0;
	cr_assert_eq(disk_submit(disk, &io), 0);
	uint32_t turns = 0;
	cr_assert_eq(loop_run(loop, is_second_turn, &turns), 0); /* one turn: written */
	cr_assert_eq(disk_uring_counters(disk)->inline_count, 1);
	disk_close(disk);
	disk = NULL;
	cr_assert_eq(done_count, 0);
}

Test(disk_uring, turn_goes_down_in_one_call_and_the_queue_may_exceed_the_ring)
{
	static struct disk_io ios[IOS];
	static struct dev_piece pieces[IOS];
	uint64_t enters = disk_uring_counters(disk)->enters_count;

	done_count = 0;
	for (uint32_t i = 0; i < 32; i++) {
		pieces[i] = piece_at(i * 4096, 4096);
		ios[i] = (struct disk_io){ .op = DISK_WRITE,
			.offset_bytes = i * 4096,
			.pieces = &pieces[i],
			.piece_count = 1,
			.fn = on_done };
		fill(i * 4096, 4096, (int)i);
		cr_assert_eq(disk_submit(disk, &ios[i]), 0);
	}
	wait_for(32);
	cr_assert_eq(disk_uring_counters(disk)->enters_count - enters, 1);
	done_count = 0;
	for (uint32_t i = 0; i < IOS; i++) {
		pieces[i] = piece_at(i * 4096, 4096);
		ios[i] = (struct disk_io){ .op = i % 7 == 0 ? DISK_READ : DISK_WRITE,
			.offset_bytes = i * 4096,
			.pieces = &pieces[i],
			.piece_count = 1,
			.fn = on_done };
		cr_assert_eq(disk_submit(disk, &ios[i]), 0);
	}
	wait_for(IOS);
	cr_assert_eq(last_rc, 0);
}

Test(disk_uring, many_pieces)
{
	struct dev_piece pieces[DISK_PIECES_MAX];
	struct dev_piece in = piece_at(1 << 20, DISK_PIECES_MAX * 4096);

	for (uint32_t i = 0; i < DISK_PIECES_MAX; i++) {
		pieces[i] = piece_at((DISK_PIECES_MAX - 1 - i) * 4096, 4096);
		fill((DISK_PIECES_MAX - 1 - i) * 4096, 4096, (int)i);
	}
	cr_assert_eq(one(DISK_WRITE, 0, pieces, DISK_PIECES_MAX), 0);
	cr_assert_eq(one(DISK_READ, 0, &in, 1), 0);
	for (uint32_t i = 0; i < DISK_PIECES_MAX; i++)
		cr_assert(holds((1 << 20) + i * 4096, 4096, (int)i));
}

Test(disk_uring, waiting_queue_is_bounded)
{
	static struct disk_io ios[9];
	struct dev_piece piece = piece_at(0, 4096);

	disk_close(disk);
	cr_assert_eq(disk_uring_open(loop,
			 &(struct disk_uring_options){ .path = path,
			     .queue_depth = 4,
			     .waiting_max = 8 },
			 &disk),
	    0);
	done_count = 0;
	for (uint32_t i = 0; i < 9; i++) {
		ios[i] = (struct disk_io){ .op = DISK_READ,
			.pieces = &piece,
			.piece_count = 1,
			.fn = on_done };
		cr_assert_eq(disk_submit(disk, &ios[i]), i < 8 ? 0 : -ENOBUFS);
	}
	wait_for(8);
}

Test(disk_uring, file_cut_short_beneath_us_is_an_error)
{
	struct dev_piece in = piece_at(0, 65536);

	cr_assert_eq(truncate(path, 32768), 0);
	cr_assert_eq(one(DISK_READ, 0, &in, 1), -EIO, "the tail of a short read is resumed");
	cr_assert_geq(disk_uring_counters(disk)->resumed_count, 1);
	cr_assert_eq(one(DISK_READ, 1 << 20, &in, 1), -EIO);
}

Test(disk_uring, second_process_is_told_it_is_in_use)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		struct loop *other = loop_ev_create(2);
		struct disk *second = NULL;

		_exit(disk_uring_open(other, &(struct disk_uring_options){ .path = path },
			  &second) == -EBUSY
			? 0
			: 1);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0);
}

Test(disk_uring, refuses_what_is_no_disk)
{
	struct disk *other = NULL;
	struct disk_uring_options options = { .path = "/nonexistent/disk" };

	cr_assert_eq(disk_uring_open(loop, &options, &other), -ENOENT);
	options.path = "/dev/zero";
	cr_assert_eq(disk_uring_open(loop, &options, &other), -EINVAL);
	options.path = "/tmp";
	cr_assert_neq(disk_uring_open(loop, &options, &other), 0);
	cr_assert_null(other);
}

Test(disk_uring, close_waits_for_what_is_in_flight)
{
	static struct disk_io ios[16];
	static struct dev_piece pieces[16];

	done_count = 0;
	for (uint32_t i = 0; i < 16; i++) {
		pieces[i] = piece_at(i * 65536, 65536);
		ios[i] = (struct disk_io){ .op = DISK_WRITE,
			.offset_bytes = i * 65536,
			.pieces = &pieces[i],
			.piece_count = 1,
			.fn = on_done };
		cr_assert_eq(disk_submit(disk, &ios[i]), 0);
	}
	uint32_t none = 0;
	cr_assert_eq(loop_run(loop, is_done, &none), 0); /* one turn: submitted */
	disk_close(disk);
	disk = NULL;
	done_count = 0;
	guard_enter();
	memset(memory, 7, 16 * 65536); /* nobody else's any more */
	guard_leave();
	cr_assert_eq(done_count, 0);
}

Test(disk_uring, nth_request_fails)
{
	struct disk_fault fault = { .ops = DISK_FAULT_OP(DISK_WRITE),
		.at_count = 2,
		.verdict = DISK_FAULT_FAIL,
		.rc = -EIO };
	struct dev_piece piece = piece_at(0, 4096);
	struct disk *faulty;

	cr_assert_eq(disk_fault_open(loop, disk, &fault, &faulty), 0);
	disk = faulty;
	cr_assert_eq(one(DISK_WRITE, 0, &piece, 1), 0);
	cr_assert_eq(one(DISK_READ, 0, &piece, 1), 0);
	cr_assert_eq(one(DISK_WRITE, 0, &piece, 1), -EIO);
	cr_assert_eq(one(DISK_WRITE, 0, &piece, 1), 0);
	fault = (struct disk_fault){ .ops = DISK_FAULT_OP(DISK_FLUSH),
		.at_count = 1,
		.is_sticky = true,
		.verdict = DISK_FAULT_FAIL,
		.rc = -EIO };
	cr_assert_eq(one(DISK_FLUSH, 0, NULL, 0), -EIO);
	cr_assert_eq(one(DISK_FLUSH, 0, NULL, 0), -EIO);
}

/* A kernel worker thread cannot reach guarded memory; the disk does such a transfer again itself. */
Test(disk_uring, first_write_of_reserved_blocks_passes_the_guard)
{
	for (uint32_t i = 0; i < 16; i++) {
		struct dev_piece piece = piece_at(i * 65536, 65536);

		fill(i * 65536, 65536, 9);
		cr_assert_eq(one(DISK_WRITE, i * 131072, &piece, 1), 0);
	}
	cr_log_info("guard %s, %lu of 16 done again", guard_mode_text(),
	    (unsigned long)disk_uring_counters(disk)->redone_count);
}

/* Does the file system write over a file's blocks in place, and is it known to? */
static bool
is_file_system_known(void)
{
	struct statfs fs;

	cr_assert_eq(statfs(path, &fs), 0);
	return fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == XFS_SUPER_MAGIC;
}

Test(disk_uring, tells_written_blocks_from_reserved_ones_and_holes)
{
	struct dev_piece piece = piece_at(0, NUM_MIB(1));

	cr_assert_not(disk_is_written(disk, 0, FILE_BYTES), "reserved");
	cr_assert_eq(one(DISK_WRITE, NUM_MIB(1), &piece, 1), 0);
	cr_assert_eq(one(DISK_WRITE, NUM_MIB(2), &piece, 1), 0);
	cr_assert_eq(one(DISK_FLUSH, 0, NULL, 0), 0);
	cr_assert_eq(disk_is_written(disk, NUM_MIB(1), NUM_MIB(2)), is_file_system_known());
	cr_assert_eq(disk_is_written(disk, NUM_MIB(2) - 4096, 8192), is_file_system_known());
	cr_assert_not(disk_is_written(disk, NUM_MIB(1) - 4096, NUM_MIB(1)));
	cr_assert_not(disk_is_written(disk, NUM_MIB(1), NUM_MIB(2) + 4096));
	cr_assert_not(disk_is_written(disk, FILE_BYTES, 4096), "behind its end");
	cr_assert_eq(truncate(path, 0), 0);
	cr_assert_eq(truncate(path, (off_t)FILE_BYTES), 0);
	cr_assert_not(disk_is_written(disk, NUM_MIB(1), NUM_MIB(1)), "a hole");
}

/* Blocks by turns reserved and written are many extents: more than one question answers. */
Test(disk_uring, tells_written_blocks_of_a_file_in_many_pieces)
{
	struct dev_piece piece = piece_at(0, 4096);

	for (uint64_t at = 0; at < FILE_BYTES; at += 8192)
		cr_assert_eq(one(DISK_WRITE, at, &piece, 1), 0);
	cr_assert_eq(one(DISK_FLUSH, 0, NULL, 0), 0);
	cr_assert_eq(disk_is_written(disk, 8192, 4096), is_file_system_known());
	cr_assert_not(disk_is_written(disk, 0, FILE_BYTES));
}

/* A copy by reflink, where the file system of the test's folder makes such (XFS). */
Test(disk_uring, tells_blocks_that_a_copy_of_the_file_shares)
{
	struct dev_piece piece = piece_at(0, NUM_MIB(1));
	char name[sizeof(path) + 8];
	int from, to;
	bool is_cloned;

	cr_assert_eq(one(DISK_WRITE, NUM_MIB(1), &piece, 1), 0);
	cr_assert_eq(one(DISK_WRITE, NUM_MIB(2), &piece, 1), 0);
	cr_assert_eq(one(DISK_FLUSH, 0, NULL, 0), 0);
	cr_assert_not(disk_is_shared(disk, NUM_MIB(1), NUM_MIB(2)));
	(void)snprintf(name, sizeof(name), "%s.copy", path);
	from = open(path, O_RDONLY | O_CLOEXEC);
	to = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	cr_assert(from >= 0 && to >= 0);
	is_cloned = ioctl(to, FICLONE, from) == 0;
	cr_log_info("cloned: %d", is_cloned);
	cr_assert_eq(disk_is_shared(disk, NUM_MIB(1), NUM_MIB(2)), is_cloned);
	/* The first half has blocks of its own again. */
	cr_assert_eq(one(DISK_WRITE, NUM_MIB(1), &piece, 1), 0);
	cr_assert_eq(one(DISK_FLUSH, 0, NULL, 0), 0);
	cr_assert_not(disk_is_shared(disk, NUM_MIB(1), NUM_MIB(1)));
	cr_assert_eq(disk_is_shared(disk, NUM_MIB(1), NUM_MIB(2)), is_cloned);
	cr_assert_eq(unlink(name), 0);
	(void)close(from);
	(void)close(to);
}

/* A file system that takes O_DIRECT may keep the data in memory all the same. */
Test(disk_uring, believes_direct_writes_of_known_file_systems_alone)
{
	struct statfs fs;
	int fd = open("/proc/self/comm", O_RDWR | O_CLOEXEC);

	cr_assert_geq(fd, 0);
	cr_assert_not(file_is_direct(fd));
	(void)close(fd); /* only read */
	cr_assert_eq(statfs(path, &fs), 0);
	if (fs.f_type == TMPFS_MAGIC)
		cr_assert(disk_uring_is_direct(disk));
	else if (!is_file_system_known()) /* of a known one Linux tells from 6.1 on */
		cr_assert_not(disk_uring_is_direct(disk));
}

/* Each of them would have to be thrown away by the write that passes it by. */
Test(disk_uring, leaves_no_page_of_the_file_cached)
{
	unsigned char resident[FILE_BYTES / 4096] = { 0 };
	uint32_t count = 0;
	void *map;
	int fd;

	if (!is_file_system_known())
		cr_skip_test("a file system that may keep its files in memory");
	disk_close(disk);
	disk = NULL;
	fd = open(path, O_RDWR | O_CLOEXEC);
	cr_assert_geq(fd, 0);
	for (uint64_t at = 0; at < FILE_BYTES; at += 4096)
		cr_assert_eq(pwrite(fd, resident, sizeof(resident), (off_t)at), sizeof(resident));
	cr_assert_eq(ftruncate(fd, (off_t)FILE_BYTES), 0);
	cr_assert_eq(fsync(fd), 0);
	cr_assert_eq(disk_uring_open(loop, &(struct disk_uring_options){ .path = path }, &disk), 0);
	map = mmap(NULL, FILE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	cr_assert_neq(map, MAP_FAILED);
	cr_assert_eq(mincore(map, FILE_BYTES, resident), 0);
	for (uint32_t i = 0; i < NUM_COUNT(resident); i++)
		count += resident[i] & 1;
	cr_assert_eq(count, 0);
	(void)munmap(map, FILE_BYTES);
	(void)close(fd); /* nothing is to be kept */
}
