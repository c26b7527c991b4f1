/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_append_sync.c -- the floor of a durable replicated write on this disk
 *
 * Question: how long do three processes take that append 4 KiB to a file each and make it durable,
 * all three at once? That is what one write with three replicas on one machine cannot beat.
 *
 *	bench_append_sync FOLDER [ROUNDS]
 *
 * Each process zero-fills a file ahead, opens it with O_DIRECT, and waits at a barrier; a round is
 * one pwrite and one fdatasync in each. A round's latency is the slowest one's. Prints JSON.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/num.h"

#define WRITERS 3
#define ROUNDS_MAX 20000u

struct shared {
	pthread_barrier_t start, end;
	uint64_t done_ns[WRITERS];
	uint64_t round_ns[ROUNDS_MAX];
};

static uint64_t
now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts); /* cannot fail with this clock */
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static int
open_filled(const char *folder, int writer, uint32_t rounds)
{
	char path[4096];
	static char zeros[1 << 20];
	uint64_t left = (uint64_t)rounds * 4096;
	int fd;

	(void)snprintf(path, sizeof(path), "%s/append-%d", folder, writer);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	while (left > 0) {
		ssize_t n = write(fd, zeros, num_min(left, sizeof(zeros)));

		if (n <= 0)
			return -EIO;
		left -= (uint64_t)n;
	}
	if (fsync(fd) != 0)
		return -errno;
	if (fcntl(fd, F_SETFL, O_DIRECT) != 0)
		return -errno;
	(void)unlink(path); /* the descriptor keeps it until we end */
	return fd;
}

static int
write_rounds(struct shared *shared, const char *folder, int writer, uint32_t rounds)
{
	int fd = open_filled(folder, writer, rounds);
	void *page = aligned_alloc(4096, 4096);

	if (fd < 0 || page == NULL) {
		fprintf(stderr, "bench_append_sync: %s: %s\n", folder, strerror(-fd));
		return 1;
	}
	memset(page, 0xc1 + writer, 4096);
	for (uint32_t round = 0; round < rounds; round++) {
		uint64_t started_ns;

		(void)pthread_barrier_wait(&shared->start);
		started_ns = now_ns();
		if (pwrite(fd, page, 4096, (off_t)round * 4096) != 4096 || fdatasync(fd) != 0) {
			perror("bench_append_sync: append");
			return 1;
		}
		shared->done_ns[writer] = now_ns() - started_ns;
		(void)pthread_barrier_wait(&shared->end);
		if (writer == 0)
			for (int i = 0; i < WRITERS; i++)
				shared->round_ns[round] =
				    num_max(shared->round_ns[round], shared->done_ns[i]);
	}
	free(page);
	close(fd);
	return 0;
}

static int
compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static struct shared *
shared_create(void)
{
	pthread_barrierattr_t attr;
	struct shared *shared =
	    mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (shared == MAP_FAILED)
		return NULL;
	if (pthread_barrierattr_init(&attr) != 0 ||
	    pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED) != 0 ||
	    pthread_barrier_init(&shared->start, &attr, WRITERS) != 0 ||
	    pthread_barrier_init(&shared->end, &attr, WRITERS) != 0)
		return NULL;
	return shared;
}

int
main(int argc, char *argv[])
{
	uint32_t rounds = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 1000;
	struct shared *shared;
	int failed = 0;

	if (argc < 2 || rounds == 0 || rounds > ROUNDS_MAX) {
		fprintf(stderr, "usage: bench_append_sync FOLDER [ROUNDS, 1..%u]\n", ROUNDS_MAX);
		return 2;
	}
	shared = shared_create();
	if (shared == NULL) {
		perror("bench_append_sync");
		return 1;
	}
	for (int writer = 0; writer < WRITERS; writer++)
		if (fork() == 0)
			_exit(write_rounds(shared, argv[1], writer, rounds));
	for (int writer = 0; writer < WRITERS; writer++) {
		int status;

		if (wait(&status) < 0 || status != 0)
			failed = 1;
	}
	if (failed)
		return 1;
	qsort(shared->round_ns, rounds, sizeof(shared->round_ns[0]), compare_u64);
	printf("{\"rounds_count\": %u, \"latency_us_p50\": %.1f, \"latency_us_p99\": %.1f}\n",
	    rounds, (double)shared->round_ns[rounds / 2] / 1e3,
	    (double)shared->round_ns[rounds * 99 / 100] / 1e3);
	return 0;
}
