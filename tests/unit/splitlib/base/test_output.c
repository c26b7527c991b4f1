/* SPDX-License-Identifier: Apache-2.0 */
/* test_output.c -- what was printed is known to be written, or not, and why */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/output.h"

Test(output, what_was_written_is_no_error)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	fputs("a line\n", out);
	cr_assert_eq(output_check(out), 0);
	cr_assert_str_eq(text, "a line\n");
	cr_assert_eq(output_check(out), 0, "nothing since");
	fclose(out);
	free(text);
}

/* The error is that of the disk, also where another call has failed since, and stdio has thrown away what it had. */
Test(output, a_full_disk_is_told_as_long_as_it_is_asked)
{
	FILE *out = fopen("/dev/full", "w");

	cr_assert_not_null(out);
	cr_assert_eq(output_check(out), 0, "nothing was printed");
	fputs("a line\n", out);
	cr_assert_neq(fflush(out), 0);
	errno = EAGAIN;
	cr_assert_eq(output_check(out), -ENOSPC);
	cr_assert_eq(output_check(out), -ENOSPC);
	fclose(out);
}

Test(output, a_reader_that_has_gone)
{
	int fds[2];
	FILE *out;

	(void)signal(SIGPIPE, SIG_IGN);
	cr_assert_eq(pipe(fds), 0);
	out = fdopen(fds[1], "w");
	(void)close(fds[0]);
	fputs("a line\n", out);
	cr_assert_eq(output_check(out), -EPIPE);
	cr_assert_eq(output_check(out), -EPIPE);
	fclose(out);
}
