/* SPDX-License-Identifier: Apache-2.0 */
/*
 * installed_client.c -- a program outside of this tree: writes a block by libcleave and reads it back
 *
 *	installed_client GATEWAY VOLUME
 *
 * Built by test_install.py against what was installed, by `pkg-config cleave` alone.
 */
#include <cleave/client.h>
#include <stdio.h>
#include <string.h>

#define BLOCK_BYTES 4096

/* Names of the library's insides: they are nobody's outside of it. */
int map_parse(void);
int message_send(void);
int log_line(void);

int
map_parse(void)
{
	return -1;
}

int
message_send(void)
{
	return -1;
}

int
log_line(void)
{
	return -1;
}

int
main(int argc, char *argv[])
{
	static unsigned char written[BLOCK_BYTES], read[BLOCK_BYTES];
	struct cleave_client_options options = { .gateway_count = 1 };
	const char *gateways[1];
	char error[CLEAVE_ERROR_BYTES_MAX] = "";
	struct cleave *cleave = NULL;
	struct cleave_disk *disk = NULL;
	int rc;

	if (argc != 3)
		return 2;
	gateways[0] = argv[1];
	options.gateways = gateways;
	memset(written, 0xc1, sizeof(written));
	rc = cleave_start(&options, &cleave, error);
	if (rc == 0)
		rc = cleave_disk_open(cleave, argv[2], 0, &disk, error);
	if (rc == 0)
		rc = cleave_pwrite(disk, written, BLOCK_BYTES, 0);
	if (rc == 0)
		rc = cleave_pread(disk, read, BLOCK_BYTES, 0);
	if (rc == 0 && memcmp(read, written, BLOCK_BYTES) != 0)
		(void)snprintf(error, sizeof(error), "it is another block");
	else if (rc == 0)
		printf("read back from %s\n", cleave_disk_info(disk)->name);
	cleave_disk_close(disk);
	cleave_stop(cleave);
	if (rc == 0 && error[0] == '\0')
		return 0;
	fprintf(stderr, "installed_client: %s %s\n", cleave_error_text(rc), error);
	return 1;
}
