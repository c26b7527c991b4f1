/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/num.h"
#include "base/signals.h"
#include "splitlib/sim/loop_sim.h"

#define SEED 11u

struct heard {
	int numbers[4];
	uint32_t count, wanted_count;
};

static void
on_signal(int number, void *arg)
{
	struct heard *heard = arg;

	if (heard->count < NUM_COUNT(heard->numbers))
		heard->numbers[heard->count] = number;
	heard->count++;
}

static bool
is_heard(void *arg)
{
	const struct heard *heard = arg;

	return heard->count >= heard->wanted_count;
}

Test(signals, each_that_ends_a_program_comes_from_the_loop_and_kills_nobody)
{
	struct heard heard = { .wanted_count = 1 };
	struct loop *loop = loop_ev_create(SEED);
	struct signals signals;
	char wanted[SIGNALS_TEXT_BYTES];

	cr_assert_not_null(loop);
	cr_assert_eq(signals_init(&signals, loop, on_signal, &heard), 0);
	cr_assert_eq(raise(SIGTERM), 0);
	cr_assert_eq(heard.count, 0, "a handler ran outside the loop");
	cr_assert_eq(loop_run(loop, is_heard, &heard), 0);
	cr_assert_eq(heard.numbers[0], SIGTERM);
	heard.wanted_count = 2;
	cr_assert_eq(raise(SIGINT), 0);
	cr_assert_eq(loop_run(loop, is_heard, &heard), 0);
	cr_assert_eq(heard.numbers[1], SIGINT);
	/* A second one of a kind is told, too. */
	heard.wanted_count = 3;
	cr_assert_eq(raise(SIGINT), 0);
	cr_assert_eq(loop_run(loop, is_heard, &heard), 0);
	cr_assert_eq(heard.count, 3);
	/* And one that does not end it; who has sent it is told. */
	heard.wanted_count = 4;
	cr_assert_eq(kill(getpid(), SIGHUP), 0);
	cr_assert_eq(loop_run(loop, is_heard, &heard), 0);
	cr_assert_eq(heard.numbers[3], SIGHUP);
	(void)snprintf(wanted, sizeof(wanted), "SIGHUP from pid=%ld uid=%lu", (long)getpid(),
	    (unsigned long)getuid());
	cr_assert_str_eq(signals.text, wanted);
	signals_fini(&signals);
	loop_destroy(loop);
}

Test(signals, a_pipe_that_nobody_reads_is_an_error_of_the_write)
{
	struct loop *loop = loop_ev_create(SEED);
	struct signals signals;
	int ends[2];

	cr_assert_not_null(loop);
	cr_assert_eq(signals_init(&signals, loop, on_signal, NULL), 0);
	cr_assert_eq(pipe(ends), 0);
	cr_assert_eq(close(ends[0]), 0);
	cr_assert_eq(write(ends[1], "x", 1), -1);
	cr_assert_eq(errno, EPIPE);
	cr_assert_eq(close(ends[1]), 0);
	signals_fini(&signals);
	loop_destroy(loop);
}

Test(signals, nothing_is_left_behind_fini)
{
	struct heard heard = { 0 };
	struct loop *loop = loop_ev_create(SEED);
	struct signals signals = { 0 };
	int fd;

	cr_assert_not_null(loop);
	signals_fini(&signals); /* never begun */
	cr_assert_eq(signals_init(&signals, loop, on_signal, &heard), 0);
	fd = signals.watcher.fd;
	signals_fini(&signals);
	cr_assert_eq(fcntl(fd, F_GETFD), -1, "the descriptor is open");
	cr_assert_eq(errno, EBADF);
	cr_assert_eq(raise(SIGTERM), 0, "still blocked");
	signals_fini(&signals); /* twice does nothing */
	cr_assert_eq(heard.count, 0);
	loop_destroy(loop);
}

Test(signals, no_descriptor_is_an_error)
{
	struct loop *loop = loop_ev_create(SEED);
	struct rlimit limit, none;
	struct signals signals;
	int rc;

	cr_assert_not_null(loop);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = 0;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	rc = signals_init(&signals, loop, on_signal, NULL);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	cr_assert_eq(rc, -EMFILE);
	signals_fini(&signals);
	loop_destroy(loop);
}

Test(signals, a_simulated_loop_has_none_and_no_descriptor_leaks)
{
	struct sim_world *world = sim_world_create(SEED);
	struct loop *loop = sim_loop_create(world, "process");
	struct signals signals;
	int free_fd = dup(STDERR_FILENO);

	cr_assert(free_fd >= 0);
	cr_assert_eq(close(free_fd), 0);
	cr_assert_eq(signals_init(&signals, loop, on_signal, NULL), -ENOTSUP);
	cr_assert_eq(dup(STDERR_FILENO), free_fd, "a descriptor is left");
	cr_assert_eq(close(free_fd), 0);
	signals_fini(&signals);
	loop_destroy(loop);
	sim_world_destroy(world);
}
