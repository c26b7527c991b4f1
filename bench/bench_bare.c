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
 *
 * In which order is a question of its own: neighbours of a file are alike, and what the processor has
 * learnt of one holds for the next. A gateway gets them as they are written. So they are taken at random,
 * like the writes of a random load, and the time in the files' order is told beside it. As many as a
 * readv brings are copied next to each other first, outside the time, as a gateway finds them in its cache.
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
#define STAGE_BYTES (128u * 1024u) /* of what comes with a readv */
#define ORDER_SEED 1u
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

/* Buffers: the data that is compressed, and where to. */
struct run {
	const struct engine_ops *ops;
	void *state;
	struct bytes bytes;
	uint32_t unit_bytes;
	uint64_t sample_count;
	uint64_t *units; /* indices, in the order in which they are taken */
	uint8_t *stage, *stored;
	uint64_t stored_bytes;
};

static void
run_compress(struct run *run, const uint8_t *unit)
{
	uint32_t out_bytes;

	if (run->ops->compress(run->state, run->ops->level_default, unit, run->unit_bytes,
		run->stored, run->unit_bytes - run->unit_bytes / 8, &out_bytes) != 0)
		out_bytes = run->unit_bytes;
	run->stored_bytes += out_bytes;
}

/* CPU time of all units, those that are on the stage together at a time. */
static uint64_t
run_measure(struct run *run)
{
	uint64_t stage_count = num_max(STAGE_BYTES / run->unit_bytes, 1), took_ns = 0;

	run->stored_bytes = 0;
	for (uint64_t i = 0; i < run->sample_count; i += stage_count) {
		uint64_t count = num_min(stage_count, run->sample_count - i), begun_ns;

		for (uint64_t k = 0; k < count; k++)
			memcpy(run->stage + k * run->unit_bytes,
			    run->bytes.data + run->units[i + k] * run->unit_bytes, run->unit_bytes);
		begun_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
		for (uint64_t k = 0; k < count; k++)
			run_compress(run, run->stage + k * run->unit_bytes);
		took_ns += now_ns(CLOCK_THREAD_CPUTIME_ID) - begun_ns;
	}
	return took_ns;
}

static void
run_init(struct run *run, const char *engine, char *const *paths, int path_count)
{
	uint64_t unit_count;

	run->ops = engine_by_name(engine);
	if (run->ops == NULL || run->unit_bytes == 0 || run->unit_bytes > ENGINE_RECORD_BYTES_MAX)
		die("no such engine or unit");
	for (int i = 0; i < path_count; i++)
		bytes_append(&run->bytes, paths[i]);
	unit_count = run->bytes.count / run->unit_bytes;
	run->sample_count = num_min(unit_count, SAMPLES_MAX);
	run->state = run->ops->create();
	run->units = calloc(run->sample_count + 1, sizeof(*run->units));
	run->stage = malloc(STAGE_BYTES + run->unit_bytes);
	run->stored = malloc(run->unit_bytes);
	if (run->state == NULL || run->units == NULL || run->stage == NULL || run->stored == NULL ||
	    run->sample_count == 0)
		die("no data, or no memory");
	for (uint64_t i = 0; i < run->sample_count; i++)
		run->units[i] = i * unit_count / run->sample_count;
}

static void
run_shuffle(struct run *run)
{
	uint64_t random = ORDER_SEED;

	for (uint64_t i = run->sample_count - 1; i > 0; i--) {
		uint64_t k, swapped = run->units[i];

		random = num_mix_u64(random + i);
		k = random % (i + 1);
		run->units[i] = run->units[k];
		run->units[k] = swapped;
	}
}

static void
run_fini(struct run *run)
{
	run->ops->destroy(run->state);
	free(run->bytes.data);
	free(run->units);
	free(run->stage);
	free(run->stored);
}

static int
compress(const char *engine, uint32_t unit_bytes, char *const *paths, int path_count)
{
	struct run run = { .unit_bytes = unit_bytes };
	uint64_t in_order_ns, at_random_ns;

	run_init(&run, engine, paths, path_count);
	in_order_ns = run_measure(&run);
	run_shuffle(&run);
	at_random_ns = run_measure(&run);
	(void)printf("{\"engine\": \"%s\", \"unit_bytes\": %u, \"cpu_ns_per_unit\": %.1f, "
		     "\"cpu_ns_per_unit_in_order\": %.1f, \"ratio\": %.3f}\n",
	    engine, unit_bytes, (double)at_random_ns / (double)run.sample_count,
	    (double)in_order_ns / (double)run.sample_count,
	    (double)run.sample_count * unit_bytes / (double)run.stored_bytes);
	run_fini(&run);
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
