/* SPDX-License-Identifier: Apache-2.0 */
/* test_loop_ev.c -- the loop in real time; no sleeps: each test waits for what it is about */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/num.h"
#include "cleave/loop.h"

#define SENDERS 4
#define POSTS_PER_SENDER 20000

static struct loop *loop;
static char order[64];
static unsigned order_count;

static void
note(char what)
{
	cr_assert_lt(order_count, sizeof(order) - 1);
	order[order_count++] = what;
}

static void
setup(void)
{
	loop = loop_ev_create(1);
	cr_assert_not_null(loop);
}

static void
teardown(void)
{
	loop_destroy(loop);
}

TestSuite(loop_ev, .init = setup, .fini = teardown, .timeout = 60);

static void
note_timer(struct loop_timer *timer, void *arg)
{
	(void)timer;
	note(*(const char *)arg);
}

static void
note_task(struct loop_task *task, void *arg)
{
	(void)task;
	note(*(const char *)arg);
}

static void
note_turn_end(struct loop_turn_end *hook, void *arg)
{
	(void)hook;
	note(*(const char *)arg);
}

static void
stop_timer(struct loop_timer *timer, void *arg)
{
	(void)timer;
	(void)arg;
	loop_stop(loop);
}

static bool
enough(void *arg)
{
	return order_count >= *(const unsigned *)arg;
}

Test(loop_ev, timers_fire_in_order_of_due_time_then_of_start)
{
	struct loop_timer timers[4];
	unsigned count = 4;

	loop_timer_init(&timers[0], note_timer, "c");
	loop_timer_init(&timers[1], note_timer, "a");
	loop_timer_init(&timers[2], note_timer, "b");
	loop_timer_init(&timers[3], note_timer, "d");
	loop_timer_start(loop, &timers[0], NUM_MS(3));
	loop_timer_start(loop, &timers[1], 0);
	loop_timer_start(loop, &timers[2], 1);
	loop_timer_start(loop, &timers[3], NUM_MS(5));
	cr_assert_eq(loop_run(loop, enough, &count), 0);
	cr_assert_str_eq(order, "abcd");
}

Test(loop_ev, a_timer_is_never_early)
{
	struct loop_timer timer;
	uint64_t start_ns = loop_now_fresh_ns(loop), took_ns;

	loop_timer_init(&timer, stop_timer, NULL);
	loop_timer_start(loop, &timer, NUM_US(2300));
	cr_assert(timer.is_active);
	cr_assert_eq(loop_run(loop, NULL, NULL), 0);
	took_ns = loop_now_fresh_ns(loop) - start_ns;
	cr_assert(!timer.is_active);
	cr_assert_geq(took_ns, NUM_US(2300));
}

static uint64_t
boot_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * NUM_S(1) + (uint64_t)now.tv_nsec;
}

Test(loop_ev, its_boot_clock_counts_what_the_host_was_suspended_for)
{
	uint64_t before_ns = boot_ns(), now_ns = loop_now_boot_ns(loop);

	cr_assert_leq(before_ns, now_ns);
	cr_assert_leq(now_ns, boot_ns());
}

Test(loop_ev, a_stopped_timer_does_not_fire_and_a_restarted_one_fires_once)
{
	struct loop_timer stopped, restarted, last;
	unsigned count = 2;

	loop_timer_init(&stopped, note_timer, "x");
	loop_timer_init(&restarted, note_timer, "r");
	loop_timer_init(&last, note_timer, "l");
	loop_timer_start(loop, &stopped, 0);
	loop_timer_start(loop, &restarted, 0);
	loop_timer_start(loop, &restarted, NUM_MS(1));
	loop_timer_start(loop, &last, NUM_MS(2));
	loop_timer_stop(loop, &stopped);
	loop_timer_stop(loop, &stopped);
	cr_assert_eq(loop_run(loop, enough, &count), 0);
	cr_assert_str_eq(order, "rl");
}

static void
restart_timer(struct loop_timer *timer, void *arg)
{
	unsigned *left_count = arg;

	note('t');
	if (--*left_count > 0)
		loop_timer_start(loop, timer, 0);
}

Test(loop_ev, a_zero_delay_waits_for_the_next_turn)
{
	struct loop_timer timer;
	struct loop_turn_end hook = { 0 };
	unsigned left_count = 3, count = 6;

	loop_timer_init(&timer, restart_timer, &left_count);
	loop_turn_end_add(loop, &hook, note_turn_end, "e");
	loop_timer_start(loop, &timer, 0);
	cr_assert_eq(loop_run(loop, enough, &count), 0);
	cr_assert_str_eq(order, "tetete");
	loop_turn_end_remove(loop, &hook);
}

struct chain {
	struct loop_task task;
	struct loop_task *next;
};

static void
chain_run(struct loop_task *task, void *arg)
{
	struct chain *chain = arg;

	(void)task;
	note('1');
	loop_defer(loop, chain->next);
	loop_defer(loop, chain->next);
}

Test(loop_ev, tasks_deferred_by_tasks_run_in_the_same_turn_before_its_end)
{
	struct loop_task second;
	struct chain chain = { .next = &second };
	struct loop_turn_end hooks[2] = { 0 };
	unsigned count = 4;

	loop_task_init(&second, note_task, "2");
	loop_task_init(&chain.task, chain_run, &chain);
	loop_turn_end_add(loop, &hooks[0], note_turn_end, "e");
	loop_turn_end_add(loop, &hooks[1], note_turn_end, "f");
	loop_defer(loop, &chain.task);
	cr_assert_eq(loop_run(loop, enough, &count), 0);
	cr_assert_str_eq(order, "12ef");
	loop_turn_end_remove(loop, &hooks[0]);
	loop_turn_end_remove(loop, &hooks[1]);
}

Test(loop_ev, a_cancelled_task_does_not_run)
{
	struct loop_task cancelled, kept;
	unsigned count = 1;

	loop_task_init(&cancelled, note_task, "x");
	loop_task_init(&kept, note_task, "k");
	loop_defer(loop, &cancelled);
	loop_defer(loop, &kept);
	loop_task_cancel(loop, &cancelled);
	loop_task_cancel(loop, &cancelled);
	cr_assert_eq(loop_run(loop, enough, &count), 0);
	cr_assert_str_eq(order, "k");
}

static void
defer_again(struct loop_task *task, void *arg)
{
	unsigned *runs = arg;

	++*runs;
	loop_defer(loop, task);
}

static void
save_runs(struct loop_turn_end *hook, void *arg)
{
	const unsigned **pair = arg;

	(void)hook;
	if (*(unsigned *)(uintptr_t)pair[1] == 0)
		*(unsigned *)(uintptr_t)pair[1] = *pair[0];
	loop_stop(loop);
}

Test(loop_ev, a_task_that_defers_itself_for_ever_does_not_starve_the_turn)
{
	struct loop_task task;
	struct loop_turn_end hook = { 0 };
	unsigned runs = 0, runs_at_end = 0;
	const unsigned *pair[2] = { &runs, &runs_at_end };

	loop_task_init(&task, defer_again, &runs);
	loop_turn_end_add(loop, &hook, save_runs, pair);
	loop_defer(loop, &task);
	cr_assert_eq(loop_run(loop, NULL, NULL), 0);
	cr_assert_eq(runs_at_end, LOOP_DEFER_ROUNDS_MAX);
	cr_assert(task.is_queued);
	loop_task_cancel(loop, &task);
	loop_turn_end_remove(loop, &hook);
}

static struct loop_turn_end removed_hooks[3];

static void
remove_others(struct loop_turn_end *hook, void *arg)
{
	(void)arg;
	note('r');
	loop_turn_end_remove(loop, hook);
	loop_turn_end_remove(loop, &removed_hooks[1]);
}

Test(loop_ev, a_hook_may_remove_itself_and_the_next)
{
	struct loop_task task;
	unsigned count = 3;

	loop_turn_end_add(loop, &removed_hooks[0], remove_others, NULL);
	loop_turn_end_add(loop, &removed_hooks[1], note_turn_end, "x");
	loop_turn_end_add(loop, &removed_hooks[2], note_turn_end, "e");
	loop_task_init(&task, note_task, "t");
	loop_defer(loop, &task);
	cr_assert_eq(loop_run(loop, enough, &count), 0);
	cr_assert_str_eq(order, "tre");
	loop_turn_end_remove(loop, &removed_hooks[2]);
}

static void
on_readable(struct loop_fd *watcher, unsigned events, void *arg)
{
	char byte;

	(void)arg;
	cr_assert_eq(events, LOOP_READABLE);
	cr_assert_eq(read(watcher->fd, &byte, 1), 1);
	note(byte);
}

static void
on_writable(struct loop_fd *watcher, unsigned events, void *arg)
{
	(void)arg;
	cr_assert_eq(events, LOOP_WRITABLE);
	cr_assert_eq(write(watcher->fd, "ab", 2), 2);
	loop_fd_stop(loop, watcher);
}

Test(loop_ev, descriptors_wake_the_loop_level_triggered)
{
	struct loop_fd reader, writer;
	unsigned count = 2;
	int fds[2];

	cr_assert_eq(pipe(fds), 0);
	loop_fd_init(&reader, fds[0], on_readable, NULL);
	loop_fd_init(&writer, fds[1], on_writable, NULL);
	cr_assert_eq(loop_fd_start(loop, &reader, LOOP_READABLE), 0);
	cr_assert_eq(loop_fd_start(loop, &writer, 0), 0);
	loop_fd_modify(loop, &writer, LOOP_WRITABLE);
	cr_assert_eq(loop_run(loop, enough, &count), 0);
	cr_assert_str_eq(order, "ab");
	loop_fd_stop(loop, &reader);
	loop_fd_stop(loop, &reader);
	close(fds[0]);
	close(fds[1]);
}

static struct loop_fd pair_watchers[2];

static void
stop_both(struct loop_fd *watcher, unsigned events, void *arg)
{
	(void)watcher;
	(void)events;
	(void)arg;
	note('s');
	loop_fd_stop(loop, &pair_watchers[0]);
	loop_fd_stop(loop, &pair_watchers[1]);
}

Test(loop_ev, a_watcher_stopped_by_another_is_not_called)
{
	unsigned count = 1;
	int fds[2][2];

	for (int i = 0; i < 2; i++) {
		cr_assert_eq(pipe(fds[i]), 0);
		cr_assert_eq(write(fds[i][1], "x", 1), 1);
		loop_fd_init(&pair_watchers[i], fds[i][0], stop_both, NULL);
		cr_assert_eq(loop_fd_start(loop, &pair_watchers[i], LOOP_READABLE), 0);
	}
	cr_assert_eq(loop_run(loop, enough, &count), 0);
	cr_assert_str_eq(order, "s");
}

Test(loop_ev, a_bad_descriptor_is_refused)
{
	struct loop_fd watcher;

	loop_fd_init(&watcher, -1, on_readable, NULL);
	cr_assert_eq(loop_fd_start(loop, &watcher, LOOP_READABLE), -EBADF);
}

struct sender_post {
	struct loop_post post; /* first */
	unsigned sender, number;
};

static struct sender_post posts[SENDERS][POSTS_PER_SENDER];
static unsigned next_number[SENDERS];
static unsigned received_count;

static void
on_post(struct loop_post *post, void *arg)
{
	struct sender_post *self = arg;

	cr_assert_eq(post, &self->post);
	cr_assert_eq(self->number, next_number[self->sender]);
	next_number[self->sender]++;
	received_count++;
}

static void *
sender_main(void *arg)
{
	unsigned sender = (unsigned)(uintptr_t)arg;

	for (unsigned i = 0; i < POSTS_PER_SENDER; i++) {
		posts[sender][i] = (struct sender_post){
			.post = { .fn = on_post, .arg = &posts[sender][i] },
			.sender = sender,
			.number = i,
		};
		loop_post(loop, &posts[sender][i].post);
	}
	return NULL;
}

static bool
all_received(void *arg)
{
	(void)arg;
	return received_count == SENDERS * POSTS_PER_SENDER;
}

Test(loop_ev, posts_of_a_sender_arrive_in_order_and_none_is_lost)
{
	pthread_t threads[SENDERS];

	for (uintptr_t i = 0; i < SENDERS; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, sender_main, (void *)i), 0);
	cr_assert_eq(loop_run(loop, all_received, NULL), 0);
	for (unsigned i = 0; i < SENDERS; i++)
		cr_assert_eq(pthread_join(threads[i], NULL), 0);
	cr_assert_eq(received_count, SENDERS * POSTS_PER_SENDER);
}

/* Ping-pong: each post is sent only when the one before was received, so the loop sleeps often. */
static atomic_uint ping_received;

static void
on_ping(struct loop_post *post, void *arg)
{
	(void)post;
	(void)arg;
	received_count++;
	atomic_store(&ping_received, received_count);
}

static void *
ping_main(void *arg)
{
	static struct loop_post ping = { .fn = on_ping };
	unsigned count = *(unsigned *)arg;

	for (unsigned i = 0; i < count; i++) {
		loop_post(loop, &ping);
		while (atomic_load(&ping_received) == i)
			sched_yield();
	}
	return NULL;
}

static bool
pings_done(void *arg)
{
	return received_count == *(unsigned *)arg;
}

Test(loop_ev, a_post_wakes_a_sleeping_loop)
{
	unsigned count = 2000;
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, ping_main, &count), 0);
	cr_assert_eq(loop_run(loop, pings_done, &count), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);
}

static int nested_rc;

static void
run_nested(struct loop_task *task, void *arg)
{
	(void)task;
	(void)arg;
	cr_assert(loop_is_running(loop));
	nested_rc = loop_run(loop, NULL, NULL);
	loop_stop(loop);
}

Test(loop_ev, running_from_a_handler_is_refused)
{
	struct loop_task task;

	loop_task_init(&task, run_nested, NULL);
	loop_defer(loop, &task);
	cr_assert(!loop_is_running(loop));
	cr_assert_eq(loop_run(loop, NULL, NULL), 0);
	cr_assert_eq(nested_rc, -EBUSY);
	cr_assert(!loop_is_running(loop));
}

Test(loop_ev, a_stop_before_the_run_ends_the_next_run_alone)
{
	struct loop_task task;
	unsigned count = 1;

	loop_stop(loop);
	cr_assert_eq(loop_run(loop, NULL, NULL), 0);
	loop_task_init(&task, note_task, "t");
	loop_defer(loop, &task);
	cr_assert_eq(loop_run(loop, enough, &count), 0);
	cr_assert_str_eq(order, "t");
}

Test(loop_ev, an_idle_loop_sleeps)
{
	struct loop_timer timer;
	struct rusage before, after;
	uint64_t cpu_us;

	loop_timer_init(&timer, stop_timer, NULL);
	loop_timer_start(loop, &timer, NUM_MS(300));
	cr_assert_eq(getrusage(RUSAGE_THREAD, &before), 0);
	cr_assert_eq(loop_run(loop, NULL, NULL), 0);
	cr_assert_eq(getrusage(RUSAGE_THREAD, &after), 0);
	cpu_us = (uint64_t)(after.ru_utime.tv_sec - before.ru_utime.tv_sec) * 1000000u +
	    (uint64_t)(after.ru_utime.tv_usec - before.ru_utime.tv_usec);
	cr_assert_lt(cpu_us, 100000);
	cr_assert_lt(after.ru_nvcsw - before.ru_nvcsw, 20);
}

Test(loop_ev, the_generator_repeats_with_its_seed)
{
	struct loop *same = loop_ev_create(1), *other = loop_ev_create(2);
	bool differs = false;

	for (int i = 0; i < 100; i++) {
		uint64_t value = loop_random_u64(loop);

		cr_assert_eq(value, loop_random_u64(same));
		differs = differs || value != loop_random_u64(other);
	}
	cr_assert(differs);
	loop_destroy(same);
	loop_destroy(other);
}

Test(loop_ev, seed_zero_is_another_one_each_time)
{
	struct loop *a = loop_ev_create(0), *b = loop_ev_create(0);

	cr_assert_neq(loop_random_u64(a), loop_random_u64(b));
	loop_destroy(a);
	loop_destroy(b);
}

Test(loop_ev, random_below_reaches_every_value_and_no_other)
{
	unsigned counts[7] = { 0 };

	for (int i = 0; i < 7000; i++) {
		uint64_t value = loop_random_below(loop, 7);

		cr_assert_lt(value, 7);
		counts[value]++;
	}
	for (int i = 0; i < 7; i++)
		cr_assert(counts[i] > 800 && counts[i] < 1200, "%d: %u", i, counts[i]);
	cr_assert_eq(loop_random_below(loop, 1), 0);
}

static int
compare_due(const void *a, const void *b)
{
	const struct loop_timer *const *x = a, *const *y = b;

	return (*x)->due_ns < (*y)->due_ns ? -1 : (*x)->due_ns > (*y)->due_ns;
}

static struct loop_timer many[3000];
static struct loop_timer *fired[3000];
static unsigned fired_count;

static void
on_many(struct loop_timer *timer, void *arg)
{
	(void)arg;
	fired[fired_count++] = timer;
}

static bool
is_fired_enough(void *arg)
{
	return fired_count == *(unsigned *)arg;
}

Test(loop_ev, many_timers_started_and_stopped_at_random_keep_their_order)
{
	unsigned active_count = 0;

	for (size_t i = 0; i < NUM_COUNT(many); i++) {
		loop_timer_init(&many[i], on_many, NULL);
		loop_timer_start(loop, &many[i], loop_random_below(loop, NUM_MS(20)));
	}
	for (size_t i = 0; i < NUM_COUNT(many); i++) {
		if (loop_random_below(loop, 3) == 0)
			loop_timer_stop(loop, &many[i]);
		else
			active_count++;
	}
	cr_assert_eq(loop_run(loop, is_fired_enough, &active_count), 0);
	for (unsigned i = 1; i < fired_count; i++)
		cr_assert_leq(compare_due(&fired[i - 1], &fired[i]), 0);
}

Test(loop_ev, destroying_nothing_is_allowed)
{
	loop_destroy(NULL);
}

Test(loop_ev, no_descriptors_left_is_an_error)
{
	struct rlimit none = { 0, 0 };
	struct rlimit before;
	struct loop *failed;
	int error;

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	none.rlim_max = before.rlim_max;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	failed = loop_ev_create(1);
	error = errno;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	cr_assert_null(failed);
	cr_assert_eq(error, EMFILE);
}
