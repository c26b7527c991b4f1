/* SPDX-License-Identifier: Apache-2.0 */
/* test_guard.c -- host code that reaches into device memory faults; engines inside the guard do not */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/guard.h"
#include "unit/engine_data.h"

#define ARENA_BYTES (16u * 4096u)
#define FAULTED 42

static uint8_t *
arena_create(void)
{
	void *memory =
	    mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(memory, MAP_FAILED);
	data_fill(memory, ARENA_BYTES, DATA_TEXT, 1);
	return memory;
}

static void
on_fault(int signal_number)
{
	(void)signal_number;
	_exit(FAULTED);
}

/* In a child: reads one byte. true where that faulted. */
static bool
read_faults(const uint8_t *at)
{
	int status;
	pid_t child = fork();

	cr_assert_geq(child, 0);
	if (child == 0) {
		struct sigaction action = { .sa_handler = on_fault };

		(void)sigaction(SIGSEGV, &action, NULL);
		(void)*(const volatile uint8_t *)at;
		_exit(0);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status));
	return WEXITSTATUS(status) == FAULTED;
}

/* The mode is chosen once a process; Criterion gives each test its own. */
static void
choose(const char *mode)
{
	(void)setenv("CLEAVE_GUARD", mode, 1);
	(void)guard_init();
}

static void
choose_pkey_or_skip(void)
{
	choose("pkey");
	if (guard_init() != GUARD_PKEY) {
		/* Criterion keeps the reason to itself unless asked. */
		(void)fprintf(stderr, "skipped: no protection keys here: %s\n", guard_mode_text());
		cr_skip_test("no protection keys here: %s", guard_mode_text());
	}
}

static void
engine_job_works_on(uint8_t *arena)
{
	struct engine_set_options options = { 0 };
	struct engine_set *set = engine_set_create(NULL, &options);
	struct engine_job job = { .kind = ENGINE_JOB_COPY,
		.src = data_dev_ptr(arena),
		.src_bytes = 4096,
		.dst = data_dev_ptr(arena + 8192),
		.dst_cap_bytes = 4096 };

	cr_assert_not_null(set);
	cr_assert_eq(engine_submit(set, &job), 1);
	cr_assert_eq(job.rc, 0);
	job.kind = ENGINE_JOB_CRC;
	job.src = job.dst;
	cr_assert_eq(engine_submit(set, &job), 1);
	engine_set_destroy(set);

	guard_enter();
	uint32_t crc = crc32c(0, arena, 4096);
	guard_leave();
	cr_assert_eq(job.payload_crc, crc);
}

Test(guard, off_says_why_and_lets_everything_through)
{
	choose("off");
	uint8_t *arena = arena_create();

	cr_assert_eq(guard_init(), GUARD_OFF);
	cr_assert_str_eq(guard_mode_text(), "off: asked for by CLEAVE_GUARD");
	cr_assert_eq(guard_add(arena, ARENA_BYTES), 0);
	cr_assert_not(read_faults(arena));
	guard_enter();
	guard_leave();
	guard_remove(arena, ARENA_BYTES);
}

Test(guard, an_unknown_mode_is_off_and_says_so)
{
	choose("maybe");
	cr_assert_eq(guard_init(), GUARD_OFF);
	cr_assert_not_null(strstr(guard_mode_text(), "CLEAVE_GUARD"));
}

Test(guard, the_mode_is_chosen_once)
{
	choose("off");
	choose("mprotect");
	cr_assert_eq(guard_init(), GUARD_OFF);
}

Test(guard, without_a_wish_the_build_decides)
{
	(void)unsetenv("CLEAVE_GUARD");
#ifdef CLEAVE_TEST_BUILD
	if (guard_init() == GUARD_OFF)
		cr_assert_not_null(strstr(guard_mode_text(), "pkey_alloc"));
	else
		cr_assert_eq(guard_init(), GUARD_PKEY);
#else
	cr_assert_eq(guard_init(), GUARD_OFF);
	cr_assert_not_null(strstr(guard_mode_text(), "not a test build"));
#endif
}

Test(guard, mprotect_makes_a_host_read_fault)
{
	choose("mprotect");
	uint8_t *arena = arena_create();

	cr_assert_str_eq(guard_mode_text(), "mprotect");
	cr_assert_not(read_faults(arena));
	cr_assert_eq(guard_add(arena, ARENA_BYTES), 0);
	cr_assert(read_faults(arena));
	cr_assert(read_faults(arena + ARENA_BYTES - 1));
	guard_remove(arena, ARENA_BYTES);
	cr_assert_not(read_faults(arena));
}

Test(guard, mprotect_lets_an_engine_job_work)
{
	choose("mprotect");
	uint8_t *arena = arena_create();

	cr_assert_eq(guard_add(arena, ARENA_BYTES), 0);
	engine_job_works_on(arena);
	cr_assert(read_faults(arena));
	guard_remove(arena, ARENA_BYTES);
}

Test(guard, entering_nests)
{
	choose("mprotect");
	uint8_t *arena = arena_create();

	cr_assert_eq(guard_add(arena, ARENA_BYTES), 0);
	guard_enter();
	guard_enter();
	cr_assert_not(read_faults(arena));
	guard_leave();
	cr_assert_not(read_faults(arena));
	guard_leave();
	cr_assert(read_faults(arena));
}

Test(guard, an_arena_added_inside_shuts_on_leaving)
{
	choose("mprotect");
	uint8_t *arena = arena_create();

	guard_enter();
	cr_assert_eq(guard_add(arena, ARENA_BYTES), 0);
	cr_assert_not(read_faults(arena));
	guard_leave();
	cr_assert(read_faults(arena));
}

static void *
enter_and_leave(void *arg)
{
	(void)arg;
	guard_enter();
	guard_leave();
	return NULL;
}

Test(guard, mprotect_stays_open_while_any_thread_is_inside)
{
	pthread_t thread;

	choose("mprotect");
	uint8_t *arena = arena_create();

	cr_assert_eq(guard_add(arena, ARENA_BYTES), 0);
	guard_enter();
	cr_assert_eq(pthread_create(&thread, NULL, enter_and_leave, NULL), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	cr_assert_not(read_faults(arena));
	guard_leave();
	cr_assert(read_faults(arena));
}

Test(guard, memory_that_is_not_page_aligned_is_refused)
{
	choose("mprotect");
	uint8_t *arena = arena_create();

	cr_assert_eq(guard_add(arena + 1, 4096), -EINVAL);
	cr_assert_not(read_faults(arena));
}

Test(guard, the_number_of_arenas_is_bounded)
{
	int rc = 0;
	int count = 0;

	choose("mprotect");
	while (rc == 0 && count < 100000) {
		rc = guard_add(arena_create(), ARENA_BYTES);
		count++;
	}
	cr_assert_eq(rc, -ENOBUFS);
	cr_assert_gt(count, 64);
}

Test(guard, leaving_without_entering_is_a_bug, .signal = SIGABRT)
{
	choose("off");
	guard_leave();
}

Test(guard, pkey_makes_a_host_read_fault)
{
	choose_pkey_or_skip();
	uint8_t *arena = arena_create();

	cr_assert_eq(guard_add(arena, ARENA_BYTES), 0);
	cr_assert(read_faults(arena));
	guard_enter();
	cr_assert_not(read_faults(arena));
	guard_leave();
	cr_assert(read_faults(arena));
	guard_remove(arena, ARENA_BYTES);
	cr_assert_not(read_faults(arena));
}

Test(guard, pkey_lets_an_engine_job_work)
{
	choose_pkey_or_skip();
	uint8_t *arena = arena_create();

	cr_assert_eq(guard_add(arena, ARENA_BYTES), 0);
	engine_job_works_on(arena);
	cr_assert(read_faults(arena));
}

struct other_thread {
	const uint8_t *arena;
	bool has_faulted;
};

static void *
read_from_other_thread(void *arg)
{
	struct other_thread *other = arg;

	/* A thread is born with its parent's rights: take them, then give them back. */
	guard_enter();
	guard_leave();
	other->has_faulted = read_faults(other->arena);
	return NULL;
}

Test(guard, pkey_opens_for_one_thread_only)
{
	pthread_t thread;

	choose_pkey_or_skip();
	uint8_t *arena = arena_create();
	struct other_thread other = { .arena = arena };

	cr_assert_eq(guard_add(arena, ARENA_BYTES), 0);
	guard_enter();
	cr_assert_eq(pthread_create(&thread, NULL, read_from_other_thread, &other), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	cr_assert_not(read_faults(arena));
	guard_leave();
	cr_assert(other.has_faulted);
}
