/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pair_client.c -- a program with a log on one volume and data on another, as databases have them
 *
 *	pair_client write GATEWAY,GATEWAY ...     until a signal ends it: number n into log, and when that was acknowledged
 *	                                          into data, then n + 1; prints n when both were
 *	pair_client check GATEWAY,GATEWAY ... SNAPSHOT    log@SNAPSHOT and data@SNAPSHOT
 *
 * Numbers go round CELLS blocks of each volume. Check prints the newest numbers of both; it exits with 1 where one of
 * the volumes lacks a number below its newest, or where data is ahead of log, or more than one behind.
 */
#include <cleave/client.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CELLS 64u
#define CELL_STRIDE ((UINT64_C(64) << 20) / 8) /* some in each chunk */
#define GATEWAYS_MAX 8u

static struct cleave *cleave;
static char error[CLEAVE_ERROR_BYTES_MAX];

static void
fail(const char *what, int rc)
{
	fprintf(stderr, "pair_client: %s: %d (%s)\n", what, rc, error);
	exit(2);
}

static void
start(char *gateways)
{
	const char *list[GATEWAYS_MAX];
	struct cleave_client_options options = { .gateways = list,
		.io_timeout_ns = UINT64_C(120000000000) };
	char *at;
	int rc;

	for (at = strtok(gateways, ","); at != NULL && options.gateway_count < GATEWAYS_MAX;
	     at = strtok(NULL, ","))
		list[options.gateway_count++] = at;
	rc = cleave_start(&options, &cleave, error);
	if (rc != 0)
		fail("cleave_start", rc);
}

static struct cleave_disk *
open_disk(const char *name)
{
	struct cleave_disk *disk = NULL;
	int rc = cleave_disk_open(cleave, name, 0, &disk, error);

	if (rc != 0)
		fail(name, rc);
	return disk;
}

static void
put(struct cleave_disk *disk, uint64_t number)
{
	uint64_t block[CLEAVE_BLOCK_BYTES / 8];
	int rc;

	for (size_t i = 0; i < CLEAVE_BLOCK_BYTES / 8; i++)
		block[i] = number;
	rc = cleave_pwrite(disk, block, sizeof(block), number % CELLS * CELL_STRIDE);
	if (rc != 0)
		fail("a write", rc);
}

/* Until a signal. */
static void __attribute__((noreturn)) run_write(void)
{
	struct cleave_disk *log = open_disk("log"), *data = open_disk("data");

	for (uint64_t number = 1;; number++) {
		put(log, number);
		put(data, number);
		printf("%" PRIu64 "\n", number);
		fflush(stdout);
	}
}

/* The newest number, when all that should be there with it are: else exit. */
static uint64_t
newest_of(const char *name)
{
	struct cleave_disk *disk = open_disk(name);
	uint64_t cells[CELLS], block[CLEAVE_BLOCK_BYTES / 8], newest = 0;

	for (uint64_t i = 0; i < CELLS; i++) {
		int rc = cleave_pread(disk, block, sizeof(block), i * CELL_STRIDE);

		if (rc != 0)
			fail("a read", rc);
		for (size_t k = 1; k < CLEAVE_BLOCK_BYTES / 8; k++)
			if (block[k] != block[0])
				fail("a torn block", 0);
		cells[i] = block[0];
		newest = cells[i] > newest ? cells[i] : newest;
	}
	cleave_disk_close(disk);
	for (uint64_t n = newest; n > 0 && newest - n < CELLS; n--) {
		if (cells[n % CELLS] == n)
			continue;
		printf("%s: has number %" PRIu64 ", and not %" PRIu64 "\n", name, newest, n);
		exit(1);
	}
	return newest;
}

static int
run_check(const char *snapshot)
{
	char name[2][2 * CLEAVE_VOLUME_NAME_BYTES_MAX + 2];
	uint64_t log, data;

	snprintf(name[0], sizeof(name[0]), "log@%s", snapshot);
	snprintf(name[1], sizeof(name[1]), "data@%s", snapshot);
	log = newest_of(name[0]);
	data = newest_of(name[1]);
	printf("%" PRIu64 " %" PRIu64 "\n", log, data);
	cleave_stop(cleave);
	return data > log || log - data > 1;
}

int
main(int argc, char **argv)
{
	if (argc < 3 || (strcmp(argv[1], "write") != 0 && argc != 4)) {
		fprintf(stderr, "usage: pair_client write GATEWAYS | check GATEWAYS SNAPSHOT\n");
		return 2;
	}
	start(argv[2]);
	if (strcmp(argv[1], "write") == 0)
		run_write();
	return run_check(argv[3]);
}
