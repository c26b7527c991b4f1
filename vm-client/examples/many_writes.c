/* SPDX-License-Identifier: Apache-2.0 */
/*
 * many_writes -- libcleave by example: a volume as a disk, with many writes under way at once
 *
 *	cc many_writes.c $(pkg-config --cflags --libs cleave) -o many_writes
 *	many_writes GATEWAY VOLUME
 *
 * Writes the volume's first megabyte, a block a request, as many at a time as there are places; then
 * reads it back in one call that waits. A request's place is free again when cleave_reap has given it.
 */
#include <cleave/client.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define PLACES 16
#define BLOCKS 256

static unsigned char memory[BLOCKS * CLEAVE_BLOCK_BYTES];

/* Start the write of one block. Its content stays where it is until the request comes back. */
static int
write_start(struct cleave_disk *disk, struct cleave_io *io, unsigned block)
{
	unsigned char *data = memory + block * CLEAVE_BLOCK_BYTES;

	memset(io, 0, sizeof(*io));
	memset(data, (int)(block + 1), CLEAVE_BLOCK_BYTES);
	io->op = CLEAVE_WRITE;
	io->offset_bytes = (uint64_t)block * CLEAVE_BLOCK_BYTES;
	io->length_bytes = CLEAVE_BLOCK_BYTES;
	io->data = data;
	return cleave_disk_submit(disk, io);
}

/* Wait until requests have completed, and take them: at least one. Returns the first error. */
static int
reap(struct cleave *cleave, struct cleave_io **ret_ios, unsigned *ret_count)
{
	struct pollfd ready = { .fd = cleave_event_fd(cleave), .events = POLLIN };
	int rc = 0;

	do {
		(void)poll(&ready, 1, -1);
		*ret_count = cleave_reap(cleave, ret_ios, PLACES);
	} while (*ret_count == 0);
	for (unsigned i = 0; i < *ret_count && rc == 0; i++)
		rc = ret_ios[i]->rc;
	return rc;
}

/* Returns 0: all blocks are durable. Nothing is under way any more, in any case. */
static int
write_all(struct cleave *cleave, struct cleave_disk *disk)
{
	struct cleave_io ios[PLACES], *free_ios[PLACES];
	unsigned next = 0, free_count = PLACES, reaped = 0;
	int rc = 0, reap_rc;

	for (unsigned i = 0; i < PLACES; i++)
		free_ios[i] = &ios[i];
	while (free_count < PLACES || (next < BLOCKS && rc == 0)) {
		while (free_count > 0 && next < BLOCKS && rc == 0) {
			rc = write_start(disk, free_ios[free_count - 1], next++);
			if (rc == 0)
				free_count--;
		}
		if (free_count == PLACES)
			break;
		reap_rc = reap(cleave, free_ios + free_count, &reaped);
		free_count += reaped;
		if (rc == 0)
			rc = reap_rc;
	}
	return rc;
}

int
main(int argc, char *argv[])
{
	static unsigned char found[sizeof(memory)];
	struct cleave_client_options options = { .gateway_count = 1 };
	const char *gateways[1];
	char error[CLEAVE_ERROR_BYTES_MAX] = "";
	struct cleave *cleave = NULL;
	struct cleave_disk *disk = NULL;
	int rc;

	if (argc != 3) {
		fprintf(stderr, "usage: many_writes GATEWAY VOLUME\n");
		return 2;
	}
	gateways[0] = argv[1];
	options.gateways = gateways;
	rc = cleave_start(&options, &cleave, error);
	if (rc == 0)
		rc = cleave_disk_open(cleave, argv[2], 0, &disk, error);
	if (rc == 0)
		rc = write_all(cleave, disk);
	if (rc == 0)
		rc = cleave_pread(disk, found, sizeof(found), 0);
	if (rc == 0)
		printf("%u blocks of %s: %s\n", BLOCKS, cleave_disk_info(disk)->name,
		    memcmp(found, memory, sizeof(found)) == 0 ? "as written" : "other content");
	else
		fprintf(stderr, "many_writes: %s %s\n", cleave_error_text(rc), error);
	cleave_disk_close(disk);
	cleave_stop(cleave);
	return rc == 0 ? 0 : 1;
}
