/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_hold.c -- how long answers to writes are kept back while snapshots of several volumes are taken together
 *
 *	bench_hold GATEWAY COUNT ROUNDS    volumes hold-0 to hold-15 are there
 *
 * A thread a volume writes blocks of 4 KiB, one outstanding, to all 16. Each round takes snapshots of COUNT of them
 * together. Prints the medians over the rounds of the longest write to these that a snapshot fell into, and of how long
 * they took to be taken; and the median of all writes to the first volume; in microseconds.
 */
#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cleave/manage.h"

#define VOLUMES 16u
#define ROUNDS_MAX 1000u
#define WRITES_MAX 1000000u /* of a thread */
#define CELLS 1024u
#define ROUND_WRITES 50u /* of the first volume, between two rounds */

struct writer {
	pthread_t thread;
	struct cleave_disk *disk;
	uint64_t *begin_ns, *end_ns; /* of each write */
	atomic_uint count;
};

static struct cleave *cleave;
static struct writer writers[VOLUMES];
static atomic_bool is_over;
static sem_t turn; /* the first volume has had ROUND_WRITES more */
static char error[CLEAVE_ERROR_BYTES_MAX];

static uint64_t
now_ns(void)
{
	struct timespec time;

	(void)clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

static void
expect(int rc, const char *what)
{
	if (rc == 0)
		return;
	fprintf(stderr, "bench_hold: %s: %d %s\n", what, rc, error);
	exit(1);
}

static void *
run_writer(void *arg)
{
	struct writer *writer = arg;
	static const uint8_t block[CLEAVE_BLOCK_BYTES] = { 1 };
	unsigned i = 0;

	for (; !atomic_load(&is_over) && i < WRITES_MAX; i++) {
		writer->begin_ns[i] = now_ns();
		expect(cleave_pwrite(writer->disk, block, sizeof(block),
			   (uint64_t)(i % CELLS) * CLEAVE_BLOCK_BYTES),
		    "a write");
		writer->end_ns[i] = now_ns();
		atomic_store(&writer->count, i + 1);
		if (writer == writers && i % ROUND_WRITES == 0)
			expect(sem_post(&turn), "sem_post");
	}
	return NULL;
}

static int
by_value(const void *a, const void *b)
{
	uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;

	return first < second ? -1 : first > second;
}

static uint64_t
median_us(uint64_t *values, size_t count)
{
	assert(count > 0);
	qsort(values, count, sizeof(*values), by_value);
	return values[count / 2] / 1000;
}

/* Snapshots of all volumes: from when until when. */
static void
take(uint32_t count, uint32_t round, uint64_t *ret_from_ns, uint64_t *ret_until_ns)
{
	static char texts[VOLUMES][32];
	const char *names[VOLUMES];
	struct cleave_snapshot *snapshots;
	uint32_t taken;

	while (sem_trywait(&turn) == 0)
		;
	expect(sem_wait(&turn), "sem_wait");
	for (uint32_t i = 0; i < count; i++) {
		(void)snprintf(texts[i], sizeof(texts[i]), "hold-%u@c%u-%u", i, count, round);
		names[i] = texts[i];
	}
	*ret_from_ns = now_ns();
	expect(cleave_snapshot_create_group_wait(cleave, names, count, &snapshots, &taken, error),
	    "a snapshot");
	*ret_until_ns = now_ns();
	free(snapshots);
	for (uint32_t i = 0; i < count; i++)
		expect(cleave_snapshot_delete_wait(cleave, names[i], error), "a deletion");
}

/* The longest write of any volume that was under way between the two. */
static uint64_t
longest_ns(uint32_t count, uint64_t from_ns, uint64_t until_ns)
{
	uint64_t longest = 0;

	for (uint32_t i = 0; i < count; i++) {
		const struct writer *writer = &writers[i];

		for (unsigned k = 0; k < atomic_load(&writer->count); k++) {
			uint64_t took = writer->end_ns[k] - writer->begin_ns[k];

			if (writer->begin_ns[k] < until_ns && writer->end_ns[k] > from_ns &&
			    took > longest)
				longest = took;
		}
	}
	return longest;
}

int
main(int argc, char **argv)
{
	static uint64_t from_ns[ROUNDS_MAX], until_ns[ROUNDS_MAX], longest[ROUNDS_MAX],
	    took[ROUNDS_MAX];
	static uint64_t all[WRITES_MAX];
	const char *gateways[1];
	struct cleave_client_options options = { .gateways = gateways, .gateway_count = 1 };
	uint32_t count = argc == 4 ? (uint32_t)atoi(argv[2]) : 0;
	uint32_t rounds = argc == 4 ? (uint32_t)atoi(argv[3]) : 0;

	if (count == 0 || count > VOLUMES || rounds == 0 || rounds > ROUNDS_MAX) {
		fprintf(stderr, "usage: bench_hold GATEWAY COUNT ROUNDS\n");
		return 2;
	}
	gateways[0] = argv[1];
	expect(sem_init(&turn, 0, 0), "sem_init");
	expect(cleave_start(&options, &cleave, error), "cleave_start");
	for (uint32_t i = 0; i < VOLUMES; i++) {
		char name[32];

		(void)snprintf(name, sizeof(name), "hold-%u", i);
		expect(cleave_disk_open(cleave, name, 0, &writers[i].disk, error), name);
		writers[i].begin_ns = calloc(WRITES_MAX, sizeof(uint64_t));
		writers[i].end_ns = calloc(WRITES_MAX, sizeof(uint64_t));
		expect(pthread_create(&writers[i].thread, NULL, run_writer, &writers[i]),
		    "a thread");
	}
	for (uint32_t i = 0; i < rounds; i++)
		take(count, i, &from_ns[i], &until_ns[i]);
	atomic_store(&is_over, true);
	for (uint32_t i = 0; i < VOLUMES; i++)
		(void)pthread_join(writers[i].thread, NULL);
	for (uint32_t i = 0; i < rounds; i++) {
		longest[i] = longest_ns(count, from_ns[i], until_ns[i]);
		took[i] = until_ns[i] - from_ns[i];
	}
	for (unsigned k = 0; k < atomic_load(&writers[0].count); k++)
		all[k] = writers[0].end_ns[k] - writers[0].begin_ns[k];
	printf("volumes %" PRIu32 " longest_us %" PRIu64 " taken_us %" PRIu64 " write_us %" PRIu64
	       "\n",
	    count, median_us(longest, rounds), median_us(took, rounds),
	    median_us(all, atomic_load(&writers[0].count)));
	for (uint32_t i = 0; i < VOLUMES; i++) {
		cleave_disk_close(writers[i].disk);
		free(writers[i].begin_ns);
		free(writers[i].end_ns);
	}
	cleave_stop(cleave);
	return 0;
}
