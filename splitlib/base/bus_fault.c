/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bus_fault.c -- see bus_fault.h
 *
 *	SIGBUS at an address --> the line of /proc/self/maps that has it --> PATH, told --> SIGBUS again, by default
 *
 * It runs within a signal handler: system calls and arithmetic, no stdio, no lock, no memory but the stack's.
 */
#include "base/bus_fault.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"

#define FAULT_LINE_BYTES 1024u
#define FAULT_TEXT_BYTES 2048u

static const char *fault_program, *fault_help;

/* The hexadecimal number at @text; *@ret_end is behind it. */
static uintptr_t
fault_hex(const char *text, const char **ret_end)
{
	uintptr_t value = 0;

	for (;; text++) {
		if (*text >= '0' && *text <= '9')
			value = value * 16 + (uintptr_t)(*text - '0');
		else if (*text >= 'a' && *text <= 'f')
			value = value * 16 + (uintptr_t)(*text - 'a') + 10;
		else
			break;
	}
	*ret_end = text;
	return value;
}

/* "BEGIN-END perms offset device inode   PATH": the path where @at lies in it, NULL: it does not, or there is none. */
static const char *
fault_path_of(const char *line, uintptr_t at)
{
	const char *end;
	uintptr_t first = fault_hex(line, &end), behind;

	if (*end != '-')
		return NULL;
	behind = fault_hex(end + 1, &end);
	return at >= first && at < behind ? strchr(line, '/') : NULL;
}

/* The next line of @fd; what is longer is cut. False: its end. */
static bool
fault_read_line(int fd, char line[FAULT_LINE_BYTES])
{
	size_t used = 0;
	char byte;

	while (read(fd, &byte, 1) == 1 && byte != '\n') {
		if (used + 1 < FAULT_LINE_BYTES)
			line[used++] = byte;
	}
	line[used] = '\0';
	return used > 0;
}

static const char *
fault_find(uintptr_t at, char line[FAULT_LINE_BYTES])
{
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	const char *path = NULL;

	while (fd >= 0 && path == NULL && fault_read_line(fd, line))
		path = fault_path_of(line, at);
	if (fd >= 0)
		(void)close(fd); /* only read from */
	return path;
}

static void
fault_add(char text[FAULT_TEXT_BYTES], size_t *used, const char *more)
{
	size_t bytes = strnlen(more, FAULT_TEXT_BYTES - 1 - *used);

	memcpy(text + *used, more, bytes);
	*used += bytes;
}

/* The handler is gone by now (SA_RESETHAND): back in the instruction the signal comes again, and ends the process. */
static void
fault_on_signal(int number, siginfo_t *info, void *context)
{
	char line[FAULT_LINE_BYTES], text[FAULT_TEXT_BYTES];
	const char *path = fault_find((uintptr_t)info->si_addr, line);
	size_t used = 0;

	(void)context;
	fault_add(text, &used, fault_program);
	fault_add(text, &used, ": SIGBUS: ");
	if (path != NULL) {
		fault_add(text, &used, path);
		fault_add(text, &used, " is shorter than it was, or its disk fails: ");
		fault_add(text, &used, fault_help);
	} else {
		fault_add(text, &used, "memory that no file is behind");
	}
	fault_add(text, &used, "\n");
	(void)!write(STDERR_FILENO, text, used); /* nobody is left to tell */
	if (info->si_code <= 0)                  /* a process sent it: it does not come by itself */
		(void)raise(number);
}

void
bus_fault_tell(const char *program, const char *help)
{
	struct sigaction action = { .sa_sigaction = fault_on_signal,
		.sa_flags = SA_SIGINFO | (int)SA_RESETHAND };
	int rc;

	assert(program != NULL && help != NULL && fault_program == NULL);
	fault_program = program;
	fault_help = help;
	(void)sigemptyset(&action.sa_mask);
	rc = sigaction(SIGBUS, &action, NULL);
	assert(rc == 0);
}
