/* SPDX-License-Identifier: Apache-2.0 */
/* apart.c -- a seed in a process of its own; see run.h */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cluster.h"
#include "run.h"

#define RUN_CPU_S 60u /* of real time, then it is a loop without end */

struct report {
	bool is_violation;
	struct sim_run_result result;
	char text[SIM_RUN_TEXT_BYTES];
};

static void
report_violation(const char *text, void *arg)
{
	struct report *report = arg;

	report->is_violation = true;
	(void)snprintf(report->text, sizeof(report->text), "%s", text); /* cut where too long */
}

static void
run_child(const struct sim_run_options *options, struct report *report, int errors)
{
	const struct rlimit cpu = { RUN_CPU_S, RUN_CPU_S };

	if (getenv("CLEAVE_SIM_LOG") == NULL && getenv("CLEAVE_SIM_TRACE") == NULL)
		(void)dup2(errors, STDERR_FILENO); /* else they stay on the screen */
	(void)setrlimit(RLIMIT_CPU, &cpu);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* cannot fail */
	sim_cluster_set_fail_hook(report_violation, report);
	sim_run_here(options, &report->result);
	exit(0);
}

/* The end of what a process that crashed has said. */
static void
report_crash(struct report *report, int errors, int status)
{
	size_t used = (size_t)snprintf(report->text, sizeof(report->text),
	    "%s: ", WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "ended early");
	off_t bytes = lseek(errors, 0, SEEK_END);
	off_t room = (off_t)(sizeof(report->text) - used - 1) / 2;
	ssize_t got;

	got = pread(errors, report->text + used, (size_t)room, bytes > room ? bytes - room : 0);
	report->text[used + (got > 0 ? (size_t)got : 0)] = 0;
	report->is_violation = true;
}

int
sim_run_seed(const struct sim_run_options *options, struct sim_run_result *ret_result,
    char *ret_text, size_t text_bytes)
{
	struct report *report =
	    mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int errors = memfd_create("errors", 0), status = 0, rc;
	char command[512];
	pid_t pid;

	if (report == MAP_FAILED || errors < 0) {
		perror("sim: mmap, memfd_create");
		exit(1);
	}
	(void)fflush(NULL);
	pid = fork();
	if (pid == 0)
		run_child(options, report, errors);
	if (pid < 0 || waitpid(pid, &status, 0) != pid) {
		perror("sim: fork, waitpid");
		exit(1);
	}
	if (!report->is_violation && status != 0)
		report_crash(report, errors, status);
	sim_run_command(options, command, sizeof(command));
	(void)snprintf(ret_text, text_bytes, "%s\n\t%s", report->text, command); /* cut */
	rc = report->is_violation ? -EBADMSG : 0;
	if (ret_result != NULL)
		*ret_result = report->result;
	(void)close(errors);
	(void)munmap(report, sizeof(*report));
	return rc;
}
