/* SPDX-License-Identifier: Apache-2.0 */
/* output.c -- see output.h */
#include "base/output.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"

int
output_check(FILE *out)
{
	int fd;

	if (fflush(out) != 0)
		return -errno;
	if (!ferror(out))
		return 0;
	fd = fileno(out);
	return fd >= 0 && write(fd, "\n", 1) < 0 ? -errno : -EIO;
}

int
output_finish(const char *noun, int status, int failure)
{
	int rc = output_check(stdout);

	assert(failure != 0);
	if (rc == 0)
		return status;
	(void)fprintf(stderr, "%s: standard output: %s\n", noun, strerror(-rc));
	return status != 0 ? status : failure;
}
