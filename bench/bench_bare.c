/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_bare.c -- what the parts cost alone that figures are compared with
 *
 *	bench_bare compress ENGINE UNIT_BYTES FILE...	one core compresses units of all files
 *	bench_bare pingpong [ROUNDS]			4 KiB there, 64 bytes back, over TCP on loopback
 *
 * Compression is by the engine's own entry, at its default level, of every unit of the files (SAMPLES_MAX
 * of them, evenly spread), where it saves an eighth, in CPU time of the thread: what else the machine does
 * counts only through its caches. Prints JSON.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/num.h"
#include "cleave/engine.h"

#define SAMPLES_MAX 40000u
#define PINGPONG_ROUNDS 4000u
#define PINGPONG_ROUNDS_MAX 1000000u
#define PING_BYTES (4096u + 64u)
#define PONG_BYTES 64u

static _Noreturn void
die(const char *what)
{
	(void)fprintf(stderr, "bench_bare: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t
now_ns(clockid_t clock)
{
	struct timespec ts;

	(void)clock_gettime(clock, &ts); /* cannot fail with these clocks */
	return (uint64_t)ts.tv_sec * NUM_S(1) + (uint64_t)ts.tv_nsec;
}

/* ---- compress ---- */

struct bytes {
	uint8_t *data;
	size_t count;
};

static void
bytes_append(struct bytes *bytes, const char *path)
{
	FILE *file = fopen(path, "rb");
	long count;

	if (file == NULL || fseek(file, 0, SEEK_END) != 0 || (count = ftell(file)) < 0 ||
	    fseek(file, 0, SEEK_SET) != 0)
		die(path);
	bytes->data = realloc(bytes->data, bytes->count + (size_t)count + 1);
	if (bytes->data == NULL)
		die("memory");
	if (fread(bytes->data + bytes->count, 1, (size_t)count, file) != (size_t)count)
		die(path);
	bytes->count += (size_t)count;
	(void)fclose(file); /* only read */
}

static int
compress(const char *engine, uint32_t unit_bytes, char *const *paths, int path_count)
{
	const struct engine_ops *ops = engine_by_name(engine);
	struct bytes bytes = { 0 };
	uint64_t unit_count, sample_count, begun_ns, stored_bytes = 0;
	uint8_t *stored = malloc(unit_bytes);
	void *state;

	if (ops == NULL || unit_bytes == 0 || unit_bytes > ENGINE_RECORD_BYTES_MAX ||
	    stored == NULL)
		die("no such engine or unit");
	state = ops->create();
	for (int i = 0; i < path_count; i++)
		bytes_append(&bytes, paths[i]);
	unit_count = bytes.count / unit_bytes;
	sample_count = num_min(unit_count, SAMPLES_MAX);
	if (state == NULL || sample_count == 0)
		die("no data");
	begun_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
	for (uint64_t i = 0; i < sample_count; i++) {
		const uint8_t *unit = bytes.data + i * unit_count / sample_count * unit_bytes;
		uint32_t out_bytes;

		if (ops->compress(state, ops->level_default, unit, unit_bytes, stored,
			unit_bytes - unit_bytes / 8, &out_bytes) != 0)
			out_bytes = unit_bytes;
		stored_bytes += out_bytes;
	}
	begun_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - begun_ns;
	(void)printf("{\"engine\": \"%s\", \"unit_bytes\": %u, \"cpu_ns_per_unit\": %.1f, "
		     "\"ratio\": %.3f}\n",
	    engine, unit_bytes, (double)begun_ns / (double)sample_count,
	    (double)sample_count * unit_bytes / (double)stored_bytes);
	ops->destroy(state);
	free(bytes.data);
	free(stored);
	return 0;
}

/* ---- pingpong ---- */

static void
move_all(int fd, uint8_t *data, size_t bytes, bool is_write)
{
	while (bytes > 0) {
		ssize_t moved = is_write ? write(fd, data, bytes) : read(fd, data, bytes);

		if (moved <= 0)
			_exit(moved == 0 ? 0 : 1);
		data += moved;
		bytes -= (size_t)moved;
	}
}

static void
set_nodelay(int fd)
{
	int one = 1;

	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) != 0)
		die("TCP_NODELAY");
}

static void
answer(int listener)
{
	uint8_t data[PING_BYTES];
	int fd = accept(listener, NULL, NULL);

	if (fd < 0)
		die("accept");
	set_nodelay(fd);
	for (;;) {
		move_all(fd, data, PING_BYTES, false);
		move_all(fd, data, PONG_BYTES, true);
	}
}

static int
by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static int
pingpong(uint32_t rounds)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof(address);
	uint64_t *took_ns = calloc(rounds, sizeof(*took_ns));
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint8_t data[PING_BYTES] = { 0 };
	pid_t child;

	if (took_ns == NULL || bind(listener, (struct sockaddr *)&address, bytes) != 0 ||
	    listen(listener, 1) != 0 ||
	    getsockname(listener, (struct sockaddr *)&address, &bytes) != 0)
		die("listen");
	child = fork();
	if (child == 0) {
		(void)close(fd);
		answer(listener);
	}
	if (child < 0 || connect(fd, (struct sockaddr *)&address, bytes) != 0)
		die("connect");
	set_nodelay(fd);
	for (uint32_t i = 0; i < rounds; i++) {
		uint64_t begun_ns = now_ns(CLOCK_MONOTONIC);

		move_all(fd, data, PING_BYTES, true);
		move_all(fd, data, PONG_BYTES, false);
		took_ns[i] = now_ns(CLOCK_MONOTONIC) - begun_ns;
	}
	(void)close(fd); /* ends the other */
	(void)waitpid(child, NULL, 0);
	qsort(took_ns, rounds, sizeof(*took_ns), by_value);
	(void)printf("{\"rounds_count\": %u, \"latency_us_p50\": %.1f, \"latency_us_p99\": %.1f}\n",
	    rounds, (double)took_ns[rounds / 2] / 1e3, (double)took_ns[rounds * 99ull / 100] / 1e3);
	free(took_ns);
	return 0;
}

int
main(int argc, char *argv[])
{
	if (argc >= 5 && strcmp(argv[1], "compress") == 0)
		return compress(argv[2], (uint32_t)strtoul(argv[3], NULL, 10), argv + 4, argc - 4);
	if ((argc == 2 || argc == 3) && strcmp(argv[1], "pingpong") == 0) {
		uint64_t rounds = argc == 3 ? strtoull(argv[2], NULL, 10) : PINGPONG_ROUNDS;

		if (rounds > 0 && rounds <= PINGPONG_ROUNDS_MAX)
			return pingpong((uint32_t)rounds);
	}
	(void)fprintf(stderr,
	    "usage: bench_bare compress ENGINE UNIT_BYTES FILE...\n"
	    "       bench_bare pingpong [ROUNDS]\n");
	return 2;
}
