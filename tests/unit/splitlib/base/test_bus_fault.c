/* SPDX-License-Identifier: Apache-2.0 */
/* test_bus_fault.c -- who dies of SIGBUS has said of which file */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bus_fault.h"

#define MAP_BYTES 8192

static char path[] = "/tmp/cleave-bus-fault-XXXXXX";

/* Reads, as memory, behind the end of its file. */
static void
read_behind(void)
{
	int fd = mkstemp(path);
	const volatile char *map;

	if (fd < 0 || ftruncate(fd, MAP_BYTES) != 0)
		_exit(1);
	map = mmap(NULL, MAP_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED || ftruncate(fd, 0) != 0 || unlink(path) != 0)
		_exit(1);
	_exit(map[0]);
}

static void
sent(void)
{
	(void)raise(SIGBUS);
	_exit(1);
}

/* A child runs @fn and ends by SIGBUS: what it has said. */
static void
died(void (*fn)(void), char *ret_said, size_t bytes)
{
	int ends[2], status;
	ssize_t count;
	pid_t child;

	cr_assert_eq(pipe(ends), 0);
	child = fork();
	cr_assert_neq(child, -1);
	if (child == 0) {
		if (dup2(ends[1], STDERR_FILENO) < 0)
			_exit(1);
		bus_fault_tell("a program", "do this");
		fn();
	}
	close(ends[1]);
	count = read(ends[0], ret_said, bytes - 1);
	close(ends[0]);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS, "%x", (unsigned)status);
	cr_assert_gt(count, 0);
	ret_said[count] = '\0';
}

Test(bus_fault, the_file_is_named)
{
	char said[512];

	died(read_behind, said, sizeof(said));
	cr_assert(strncmp(said, "a program: SIGBUS: /tmp/cleave-bus-fault-",
		      strlen("a program: SIGBUS: /tmp/cleave-bus-fault-")) == 0,
	    "%s", said);
	cr_assert_not_null(strstr(said, "is shorter than it was, or its disk fails: do this\n"),
	    "%s", said);
}

Test(bus_fault, one_that_is_sent_ends_it_as_well)
{
	char said[512];

	died(sent, said, sizeof(said));
	cr_assert_str_eq(said, "a program: SIGBUS: memory that no file is behind\n");
}
