/* SPDX-License-Identifier: Apache-2.0 */
/* plain_criterion.c -- runs each registered test in a process of its own; see criterion.h */
#include "criterion/criterion.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "criterion/redirect.h"

#define PLAIN_TIMEOUT_S 300

static struct plain_test *tests;

void
plain_register(struct plain_test *test)
{
	test->next = tests;
	tests = test;
}

void
plain_fail(const char *file, int line, const char *expression)
{
	fprintf(stderr, "%s:%d: not true: %s\n", file, line, expression);
	_exit(1);
}

void
plain_skip(void)
{
	_exit(PLAIN_SKIPPED);
}

/* The stream's descriptor becomes a temporary file, which is read through one of its own. */
static FILE *
redirect(FILE *stream)
{
	FILE *file = tmpfile();
	char path[64];

	if (file == NULL)
		plain_fail(__FILE__, __LINE__, "tmpfile() != NULL");
	(void)fflush(stream); /* what was said before is not part of the test */
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fileno(file));
	if (dup2(fileno(file), fileno(stream)) < 0)
		plain_fail(__FILE__, __LINE__, "dup2() >= 0");
	return fopen(path, "r");
}

static FILE *redirected_stdout, *redirected_stderr;

void
cr_redirect_stdout(void)
{
	redirected_stdout = redirect(stdout);
}

void
cr_redirect_stderr(void)
{
	redirected_stderr = redirect(stderr);
}

FILE *
cr_get_redirected_stdout(void)
{
	return redirected_stdout;
}

FILE *
cr_get_redirected_stderr(void)
{
	return redirected_stderr;
}

static const struct plain_options *
suite_options(const struct plain_test *test)
{
	static const struct plain_options none;

	for (const struct plain_test *suite = tests; suite != NULL; suite = suite->next) {
		if (suite->fn == NULL && strcmp(suite->suite, test->suite) == 0)
			return &suite->options;
	}
	return &none;
}

static void
run_in_child(const struct plain_test *test)
{
	const struct plain_options *suite = suite_options(test);
	const struct plain_options *own = &test->options;

	(void)alarm(PLAIN_TIMEOUT_S); /* there was none before */
	if (suite->init != NULL)
		suite->init();
	if (own->init != NULL)
		own->init();
	test->fn();
	if (own->fini != NULL)
		own->fini();
	if (suite->fini != NULL)
		suite->fini();
	exit(0);
}

/* Returns whether it went as it should. */
static bool
run(const struct plain_test *test)
{
	int status = 0;
	pid_t pid;

	(void)fflush(NULL); /* or the child prints it again */
	pid = fork();
	if (pid == 0)
		run_in_child(test);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return false;
	if (test->options.signal != 0)
		return WIFSIGNALED(status) && WTERMSIG(status) == test->options.signal;
	return WIFEXITED(status) &&
	    (WEXITSTATUS(status) == test->options.exit_code ||
		WEXITSTATUS(status) == PLAIN_SKIPPED);
}

int
main(void)
{
	unsigned run_count = 0, failed_count = 0;

	for (const struct plain_test *test = tests; test != NULL; test = test->next) {
		if (test->fn == NULL || test->options.disabled)
			continue;
		run_count++;
		if (run(test))
			continue;
		failed_count++;
		printf("FAILED %s::%s\n", test->suite, test->name);
	}
	printf("%u tests, %u failed\n", run_count, failed_count);
	return failed_count == 0 ? 0 : 1;
}
