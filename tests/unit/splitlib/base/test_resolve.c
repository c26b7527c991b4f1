/* SPDX-License-Identifier: Apache-2.0 */
/* test_resolve.c -- names and what they lead to, errands and their desk; no sleeps */
#include <criterion/criterion.h>
#include <errno.h>
#include <netdb.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "base/num.h"
#include "base/resolve.h"
#include "cleave/loop.h"
#include "splitlib/sim/loop_sim.h"
#include "unit/lookup.h"

#define GUARD_NS NUM_S(30)

static struct loop *loop;
static struct errand_desk desk;
static struct loop_timer guard;

struct asked {
	uint32_t answer_count;
	struct resolve_answer answer;
};

static void
on_guard(struct loop_timer *timer, void *arg)
{
	(void)timer;
	(void)arg;
	cr_assert_fail("not in time");
}

static void
setup(void)
{
	loop = loop_ev_create(1);
	cr_assert_eq(errand_desk_init(&desk, loop), 0);
	loop_timer_init(&guard, on_guard, NULL);
	loop_timer_start(loop, &guard, GUARD_NS);
}

static void
teardown(void)
{
	loop_timer_stop(loop, &guard);
	errand_desk_fini(&desk);
	loop_destroy(loop);
}

TestSuite(resolve, .init = setup, .fini = teardown, .timeout = 60);

static void
on_answer(const struct resolve_answer *answer, void *arg)
{
	struct asked *asked = arg;

	asked->answer_count++;
	asked->answer = *answer;
}

static bool
is_answered(void *arg)
{
	return ((struct asked *)arg)->answer_count > 0;
}

static struct resolve_call *
ask(const char *name, struct asked *asked)
{
	struct resolve_call *call = resolve_start(&desk, name, on_answer, asked);

	cr_assert_not_null(call);
	cr_assert_eq(asked->answer_count, 0, "never from inside");
	return call;
}

static void
ask_and_wait(const char *name, struct asked *asked)
{
	(void)ask(name, asked);
	(void)loop_run(loop, is_answered, asked);
	cr_assert_eq(asked->answer_count, 1);
}

Test(resolve, the_systems_resolver_knows_this_machine)
{
	struct asked asked = { 0 };

	ask_and_wait("localhost", &asked);
	cr_assert_eq(asked.answer.rc, 0);
	cr_assert_geq(asked.answer.count, 1);
	cr_assert(asked.answer.addresses[0].ss_family == AF_INET ||
	    asked.answer.addresses[0].ss_family == AF_INET6);
}

Test(resolve, a_name_that_does_not_exist_has_the_resolvers_words)
{
	struct asked asked = { 0 };

	lookup_set(NULL, 0);
	ask_and_wait("nobody.example", &asked);
	cr_assert_eq(asked.answer.count, 0);
	cr_assert_eq(asked.answer.rc, EAI_NONAME);
	cr_assert_str_eq(resolve_text(&asked.answer), gai_strerror(EAI_NONAME));
	asked.answer = (struct resolve_answer){ .rc = EAI_SYSTEM, .err = EMFILE };
	cr_assert_str_eq(resolve_text(&asked.answer), strerror(EMFILE));
}

Test(resolve, addresses_stay_in_order)
{
	static const char *const addresses[] = { "10.0.0.1", "fd00::2", "10.0.0.3" };
	struct asked asked = { 0 };

	lookup_set(addresses, 3);
	ask_and_wait("gw1.example", &asked);
	cr_assert_eq(asked.answer.count, 3);
	cr_assert_eq(asked.answer.addresses[0].ss_family, AF_INET);
	cr_assert_eq(asked.answer.addresses[1].ss_family, AF_INET6);
}

Test(resolve, nothing_waits_for_one_that_hangs)
{
	static const char *const addresses[] = { "10.0.0.1" };
	struct asked slow = { 0 }, fast = { 0 };

	lookup_set(addresses, 1);
	(void)ask("held.example", &slow);
	lookup_wait_asked(1);
	ask_and_wait("gw1.example", &fast);
	cr_assert_eq(slow.answer_count, 0);
	lookup_release();
	(void)loop_run(loop, is_answered, &slow);
	cr_assert_eq(slow.answer.count, 1);
}

Test(resolve, questions_for_the_same_name_share_a_thread_and_its_answer)
{
	static const char *const addresses[] = { "10.0.0.1" };
	struct asked asked[4] = { 0 };

	lookup_set(addresses, 1);
	(void)ask("held.example", &asked[0]);
	lookup_wait_asked(1);
	for (uint32_t i = 1; i < 4; i++)
		(void)ask("held.example", &asked[i]);
	lookup_release();
	for (uint32_t i = 0; i < 4; i++) {
		(void)loop_run(loop, is_answered, &asked[i]);
		cr_assert_eq(asked[i].answer_count, 1);
		cr_assert_eq(asked[i].answer.count, 1);
	}
	cr_assert_eq(lookup_table.asked_count, 1);
}

Test(resolve, more_than_there_are_threads_all_have_their_turn)
{
	static const char *const addresses[] = { "10.0.0.1" };
	struct asked asked[ERRAND_THREADS_MAX + 4] = { 0 };
	char name[32];

	lookup_set(addresses, 1);
	for (uint32_t i = 0; i < NUM_COUNT(asked); i++) {
		(void)snprintf(name, sizeof(name), "held%u.example", i);
		(void)ask(name, &asked[i]);
	}
	lookup_wait_asked(ERRAND_THREADS_MAX);
	cr_assert_eq(lookup_table.asked_count, ERRAND_THREADS_MAX);
	lookup_release();
	for (uint32_t i = 0; i < NUM_COUNT(asked); i++)
		(void)loop_run(loop, is_answered, &asked[i]);
}

Test(resolve, one_that_was_canceled_is_not_told_and_not_waited_for)
{
	static const char *const addresses[] = { "10.0.0.1" };
	struct asked running = { 0 }, waiting = { 0 }, finished = { 0 }, other = { 0 };
	struct resolve_call *calls[3];

	lookup_set(addresses, 1);
	calls[0] = ask("held.example", &running);
	lookup_wait_asked(1);
	calls[1] = ask("held.example", &waiting); /* for the same: it has no thread */
	calls[2] = ask("gw1.example", &finished);
	lookup_wait(&lookup_table.answered_count, 1);
	for (uint32_t i = 0; i < 3; i++)
		resolve_cancel(calls[i]);
	ask_and_wait("gw2.example", &other);
	lookup_drain();
	cr_assert_eq(running.answer_count + waiting.answer_count + finished.answer_count, 0);
}

static bool
nothing_lives(void *arg)
{
	(void)arg;
	return alloc_live_count(ALLOC_SPLIT) == 0;
}

Test(resolve, a_loop_ends_while_a_name_is_looked_up)
{
	static const char *const addresses[] = { "10.0.0.1" };
	struct loop *other = loop_ev_create(2);
	struct errand_desk others;
	struct asked running = { 0 }, finished = { 0 };

	lookup_set(addresses, 1);
	cr_assert_eq(errand_desk_init(&others, other), 0);
	cr_assert_not_null(resolve_start(&others, "held.example", on_answer, &running));
	lookup_wait_asked(1);
	cr_assert_not_null(resolve_start(&others, "gw1.example", on_answer, &finished));
	lookup_wait(&lookup_table.answered_count, 1);
	errand_desk_fini(&others);
	loop_destroy(other);
	lookup_drain();
	/* The thread frees what nobody wants any more. */
	while (!nothing_lives(NULL))
		(void)sched_yield();
	cr_assert_eq(running.answer_count + finished.answer_count, 0);
}

Test(resolve, who_starts_waits_for_it_and_not_for_ever)
{
	static const char *const addresses[] = { "10.0.0.1" };
	struct resolve_answer answer;

	lookup_set(addresses, 1);
	resolve_wait("gw1.example", GUARD_NS, &answer);
	cr_assert_eq(answer.rc, 0);
	cr_assert_eq(answer.count, 1);
	resolve_wait("held.example", NUM_MS(20), &answer);
	cr_assert_eq(answer.rc, EAI_AGAIN);
	cr_assert_eq(answer.count, 0);
	lookup_drain();
}

Test(resolve, without_memory_or_descriptors_it_says_so)
{
	struct asked asked = { 0 };
	struct resolve_answer answer;
	struct rlimit old, none;
	struct errand_desk other;

	alloc_fail_at(ALLOC_SPLIT, 1);
	cr_assert_null(resolve_start(&desk, "gw1.example", on_answer, &asked));
	cr_assert_eq(errno, ENOMEM);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = (struct rlimit){ .rlim_cur = 0, .rlim_max = old.rlim_max };
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	cr_assert_eq(errand_desk_init(&other, loop), -EMFILE);
	resolve_wait("gw1.example", NUM_S(1), &answer);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
	cr_assert_eq(answer.rc, EAI_SYSTEM);
	cr_assert_eq(answer.err, EMFILE);
}

Test(resolve, a_simulated_loop_has_no_desk)
{
	struct sim_world *world = sim_world_create(1);
	struct errand_desk other;

	cr_assert_eq(errand_desk_init(&other, sim_loop_create(world, "a")), -ENOTSUP);
	sim_world_destroy(world);
}
