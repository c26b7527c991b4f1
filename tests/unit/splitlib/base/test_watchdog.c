/* SPDX-License-Identifier: Apache-2.0 */
/* test_watchdog.c -- the watchdog is fed while all loops turn, and not when one stands still */
#include <criterion/criterion.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/notify.h"
#include "base/num.h"
#include "base/watchdog.h"

#define SEED 12u
#define PATIENCE_US "40000"

static int manager_fd;
static _Atomic uint32_t warning_count;

static void
on_line(enum log_level level, const char *line, void *arg)
{
	(void)line;
	(void)arg;
	if (level >= LOG_WARN)
		atomic_fetch_add(&warning_count, 1);
}

/* A manager in the abstract space that wants to be told. */
static void
setup(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char name[64];

	log_set_sink(on_line, NULL);
	(void)snprintf(name, sizeof(name), "@cleave-watchdog-%ld", (long)getpid());
	memcpy(address.sun_path + 1, name + 1, strlen(name) - 1);
	manager_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	cr_assert_geq(manager_fd, 0);
	cr_assert_eq(bind(manager_fd, (struct sockaddr *)&address,
			 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name))),
	    0);
	cr_assert_eq(setenv("NOTIFY_SOCKET", name, 1), 0);
	cr_assert_eq(setenv("WATCHDOG_USEC", PATIENCE_US, 1), 0);
	cr_assert_eq(unsetenv("WATCHDOG_PID"), 0);
}

TestSuite(watchdog, .init = setup, .timeout = 60);

/* How many pings have come; nothing else may. */
static uint32_t
pings(void)
{
	char text[64] = "";
	uint32_t count = 0;

	while (recv(manager_fd, text, sizeof(text) - 1, 0) > 0) {
		cr_assert_str_eq(text, "WATCHDOG=1");
		memset(text, 0, sizeof(text));
		count++;
	}
	return count;
}

struct count_until {
	uint32_t count, wanted_count;
};

static bool
has_pings(void *arg)
{
	struct count_until *until = arg;

	until->count += pings();
	return until->count >= until->wanted_count;
}

static void
run_until_pings(struct loop *loop, uint32_t wanted_count)
{
	struct count_until until = { .wanted_count = wanted_count };

	cr_assert_eq(loop_run(loop, has_pings, &until), 0);
}

/* Another thread with a loop, which can be made to stand still inside of a handler. */
struct other {
	struct loop *loop;
	pthread_t thread;
	struct loop_post hold_post, end_post;
	sem_t is_held, may_go;
};

static void *
other_run(void *arg)
{
	struct other *other = arg;

	cr_assert_eq(loop_run(other->loop, NULL, NULL), 0);
	return NULL;
}

static void
other_on_hold(struct loop_post *post, void *arg)
{
	struct other *other = arg;

	(void)post;
	cr_assert_eq(sem_post(&other->is_held), 0);
	cr_assert_eq(sem_wait(&other->may_go), 0);
}

static void
other_on_end(struct loop_post *post, void *arg)
{
	(void)post;
	loop_stop(((struct other *)arg)->loop);
}

static void
other_start(struct other *other)
{
	*other = (struct other){ .loop = loop_ev_create(SEED) };
	cr_assert_not_null(other->loop);
	cr_assert_eq(sem_init(&other->is_held, 0, 0), 0);
	cr_assert_eq(sem_init(&other->may_go, 0, 0), 0);
	cr_assert_eq(pthread_create(&other->thread, NULL, other_run, other), 0);
}

static void
other_hold(struct other *other)
{
	other->hold_post = (struct loop_post){ .fn = other_on_hold, .arg = other };
	loop_post(other->loop, &other->hold_post);
	cr_assert_eq(sem_wait(&other->is_held), 0);
}

static void
other_end(struct other *other)
{
	other->end_post = (struct loop_post){ .fn = other_on_end, .arg = other };
	loop_post(other->loop, &other->end_post);
	cr_assert_eq(pthread_join(other->thread, NULL), 0);
	cr_assert_eq(sem_destroy(&other->is_held), 0);
	cr_assert_eq(sem_destroy(&other->may_go), 0);
	loop_destroy(other->loop);
}

static bool
is_told(void *arg)
{
	(void)arg;
	return atomic_load(&warning_count) > 0;
}

Test(watchdog, a_loop_that_turns_is_told_of)
{
	struct loop *loop = loop_ev_create(SEED);
	struct watchdog watchdog;

	watchdog_start(&watchdog, loop, "thing");
	run_until_pings(loop, 3);
	watchdog_stop(&watchdog);
	watchdog_stop(&watchdog);
	loop_destroy(loop);
	cr_assert_eq(atomic_load(&warning_count), 0);
}

Test(watchdog, another_loop_that_stands_still_lets_it_fire)
{
	struct loop *loop = loop_ev_create(SEED);
	struct watchdog watchdog;
	struct other turning, standing;

	other_start(&turning);
	other_start(&standing);
	watchdog_start(&watchdog, loop, "thing");
	watchdog_watch(&watchdog, turning.loop);
	watchdog_watch(&watchdog, standing.loop);
	run_until_pings(loop, 3);
	other_hold(&standing);
	/* At most what both had turned for before. Then it is said, and nothing is told any more. */
	cr_assert_eq(loop_run(loop, is_told, NULL), 0);
	cr_assert_leq(pings(), 1);
	cr_assert_eq(atomic_load(&warning_count), 1);
	cr_assert_eq(sem_post(&standing.may_go), 0);
	run_until_pings(loop, 3);
	cr_assert_eq(atomic_load(&warning_count), 2, "that it turns again");
	watchdog_release(&watchdog);
	other_end(&turning);
	other_end(&standing);
	run_until_pings(loop, 3);
	watchdog_stop(&watchdog);
	loop_destroy(loop);
}

Test(watchdog, nobody_is_told_who_does_not_look)
{
	struct loop *loop = loop_ev_create(SEED);
	struct watchdog watchdog;

	cr_assert_eq(unsetenv("WATCHDOG_USEC"), 0);
	watchdog_start(&watchdog, loop, "thing");
	watchdog_watch(&watchdog, loop); /* not looked at */
	watchdog_release(&watchdog);
	watchdog_stop(&watchdog);
	loop_destroy(loop);
	cr_assert_eq(pings(), 0);
}

Test(watchdog, its_variables_may_be_anothers_or_wrong)
{
	char pid[32];

	cr_assert_eq(notify_watchdog_ns("thing"), NUM_MS(40));
	(void)snprintf(pid, sizeof(pid), "%ld", (long)getpid());
	cr_assert_eq(setenv("WATCHDOG_PID", pid, 1), 0);
	cr_assert_eq(notify_watchdog_ns("thing"), NUM_MS(40));
	cr_assert_eq(setenv("WATCHDOG_PID", "1", 1), 0);
	cr_assert_eq(notify_watchdog_ns("thing"), 0);
	cr_assert_eq(atomic_load(&warning_count), 0);
	cr_assert_eq(unsetenv("WATCHDOG_PID"), 0);
	cr_assert_eq(setenv("WATCHDOG_USEC", "0", 1), 0);
	cr_assert_eq(notify_watchdog_ns("thing"), 0);
	cr_assert_eq(setenv("WATCHDOG_USEC", "soon", 1), 0);
	cr_assert_eq(notify_watchdog_ns("thing"), 0);
	cr_assert_eq(setenv("WATCHDOG_USEC", "18446744073709551615", 1), 0);
	cr_assert_eq(notify_watchdog_ns("thing"), 0);
	cr_assert_eq(atomic_load(&warning_count), 3);
}
