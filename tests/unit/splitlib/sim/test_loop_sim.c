/* SPDX-License-Identifier: Apache-2.0 */
/* test_loop_sim.c -- virtual time: order, repeatability, killing, pausing, skewed clocks */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "splitlib/sim/loop_sim.h"

static struct sim_world *world;
static struct loop *a, *b;
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
	world = sim_world_create(1);
	cr_assert_not_null(world);
	a = sim_loop_create(world, "a");
	b = sim_loop_create(world, "b");
	cr_assert_not_null(b);
}

static void
teardown(void)
{
	sim_world_destroy(world);
}

TestSuite(loop_sim, .init = setup, .fini = teardown, .timeout = 60);

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
note_post(struct loop_post *post, void *arg)
{
	(void)post;
	note(*(const char *)arg);
}

static void
note_turn_end(struct loop_turn_end *hook, void *arg)
{
	(void)hook;
	note(*(const char *)arg);
}

static int
run_all(void)
{
	return sim_world_run(world, NULL, NULL, SIM_FOR_EVER);
}

Test(loop_sim, time_jumps_from_event_to_event)
{
	struct loop_timer late, early;

	cr_assert_eq(sim_world_now_ns(world), SIM_WORLD_START_NS);
	loop_timer_init(&late, note_timer, "l");
	loop_timer_init(&early, note_timer, "e");
	loop_timer_start(a, &late, NUM_S(3600));
	loop_timer_start(b, &early, 1);
	cr_assert_eq(run_all(), -EDEADLK);
	cr_assert_str_eq(order, "el");
	cr_assert_eq(sim_world_now_ns(world), SIM_WORLD_START_NS + NUM_S(3600));
	cr_assert_eq(loop_now_ns(a), sim_world_now_ns(world));
	cr_assert_eq(loop_now_fresh_ns(b), sim_world_now_ns(world));
}

Test(loop_sim, ties_go_by_order_of_start)
{
	struct loop_timer timers[4];

	for (int i = 0; i < 4; i++) {
		loop_timer_init(&timers[i], note_timer, &"0123"[i]);
		loop_timer_start(i % 2 == 0 ? a : b, &timers[i], NUM_MS(1));
	}
	cr_assert_eq(run_all(), -EDEADLK);
	cr_assert_str_eq(order, "0123");
}

Test(loop_sim, the_deadline_ends_a_run_with_the_clock_there)
{
	struct loop_timer timer;

	loop_timer_init(&timer, note_timer, "t");
	loop_timer_start(a, &timer, NUM_S(2));
	cr_assert_eq(sim_world_run(world, NULL, NULL, SIM_WORLD_START_NS + NUM_S(1)), -ETIME);
	cr_assert_eq(sim_world_now_ns(world), SIM_WORLD_START_NS + NUM_S(1));
	cr_assert_eq(order_count, 0);
	cr_assert_eq(sim_world_run(world, NULL, NULL, SIM_WORLD_START_NS + NUM_S(2)), -EDEADLK);
	cr_assert_str_eq(order, "t");
}

static bool
enough(void *arg)
{
	return order_count >= *(const unsigned *)arg;
}

static void
tick(struct loop_timer *timer, void *arg)
{
	note('.');
	loop_timer_start(arg, timer, NUM_MS(1));
}

Test(loop_sim, a_condition_ends_a_run)
{
	struct loop_timer timer;
	unsigned count = 3;

	loop_timer_init(&timer, tick, a);
	loop_timer_start(a, &timer, 0);
	cr_assert_eq(sim_world_run(world, enough, &count, SIM_FOR_EVER), 0);
	cr_assert_str_eq(order, "...");
	count = 5;
	cr_assert_eq(loop_run(b, enough, &count), 0);
	cr_assert_str_eq(order, ".....");
}

static void
stop_loop(struct loop_timer *timer, void *arg)
{
	(void)timer;
	loop_stop(arg);
}

Test(loop_sim, running_a_loop_runs_the_world_until_that_loop_stops)
{
	struct loop_timer ticker, stop_other, stop_own;

	loop_timer_init(&ticker, tick, b);
	loop_timer_init(&stop_other, stop_loop, b);
	loop_timer_init(&stop_own, stop_loop, a);
	loop_timer_start(b, &ticker, 0);
	loop_timer_start(b, &stop_other, NUM_MS(1));
	loop_timer_start(a, &stop_own, NUM_MS(2) + 1);
	cr_assert_eq(loop_run(a, NULL, NULL), 0);
	cr_assert_str_eq(order, "...");
}

Test(loop_sim, nothing_left_to_run_is_a_deadlock)
{
	cr_assert_eq(loop_run(a, NULL, NULL), -EDEADLK);
}

static int nested_rc[2];

static void
run_nested(struct loop_timer *timer, void *arg)
{
	(void)timer;
	(void)arg;
	cr_assert(loop_is_running(a));
	cr_assert(!loop_is_running(b));
	nested_rc[0] = loop_run(b, NULL, NULL);
	nested_rc[1] = sim_world_run(world, NULL, NULL, SIM_FOR_EVER);
}

Test(loop_sim, running_from_a_handler_is_refused)
{
	struct loop_timer timer;

	loop_timer_init(&timer, run_nested, NULL);
	loop_timer_start(a, &timer, 0);
	cr_assert_eq(run_all(), -EDEADLK);
	cr_assert_eq(nested_rc[0], -EBUSY);
	cr_assert_eq(nested_rc[1], -EBUSY);
}

static struct loop_task turn_task;
static struct loop_post turn_post;

static void
begin_turn(struct loop_timer *timer, void *arg)
{
	(void)timer;
	(void)arg;
	note('t');
	loop_defer(a, &turn_task);
	loop_post(a, &turn_post);
}

Test(loop_sim, a_turn_is_timers_posts_tasks_hooks)
{
	struct loop_turn_end hook = { 0 };
	struct loop_timer first, second;

	loop_task_init(&turn_task, note_task, "d");
	turn_post = (struct loop_post){ .fn = note_post, .arg = "p" };
	loop_turn_end_add(a, &hook, note_turn_end, "e");
	loop_timer_init(&first, begin_turn, NULL);
	loop_timer_init(&second, note_timer, "u");
	loop_timer_start(a, &first, 1);
	loop_timer_start(a, &second, 1);
	cr_assert_eq(run_all(), -EDEADLK);
	cr_assert_str_eq(order, "tupde");
	cr_assert_eq(sim_world_event_count(world), 1);
}

Test(loop_sim, posts_and_tasks_wake_a_loop_at_the_present_time)
{
	struct loop_post posts[3];
	struct loop_task task;

	for (int i = 0; i < 3; i++) {
		posts[i] = (struct loop_post){ .fn = note_post, .arg = (void *)&"pqr"[i] };
		loop_post(a, &posts[i]);
	}
	loop_task_init(&task, note_task, "d");
	loop_defer(b, &task);
	cr_assert_eq(run_all(), -EDEADLK);
	cr_assert_str_eq(order, "pqrd");
	cr_assert_eq(sim_world_now_ns(world), SIM_WORLD_START_NS);
}

Test(loop_sim, descriptors_are_not_to_be_had)
{
	struct loop_fd watcher;

	loop_fd_init(&watcher, 0, (void (*)(struct loop_fd *, unsigned, void *))abort, NULL);
	cr_assert_eq(loop_fd_start(a, &watcher, LOOP_READABLE), -ENOTSUP);
	loop_fd_modify(a, &watcher, LOOP_WRITABLE);
	loop_fd_stop(a, &watcher);
}

Test(loop_sim, killing_a_process_drops_all_it_had_pending)
{
	struct process {
		struct loop_timer timers[20];
		struct loop_task task;
		struct loop_post post;
	} *process = calloc(1, sizeof(*process));
	struct loop_timer other;

	cr_assert_not_null(process);
	for (int i = 0; i < 20; i++) {
		loop_timer_init(&process->timers[i], note_timer, "x");
		loop_timer_start(a, &process->timers[i], (uint64_t)(97 * i % 20));
	}
	loop_task_init(&process->task, note_task, "x");
	loop_defer(a, &process->task);
	process->post = (struct loop_post){ .fn = note_post, .arg = "x" };
	loop_post(a, &process->post);
	loop_timer_init(&other, note_timer, "o");
	loop_timer_start(b, &other, 30);
	/* The process's memory goes first, as it may: it is not touched any more. */
	free(process);
	loop_destroy(a);
	cr_assert_eq(run_all(), -EDEADLK);
	cr_assert_str_eq(order, "o");
}

static void
kill_self(struct loop_timer *timer, void *arg)
{
	struct loop_task *task = arg;

	(void)timer;
	note('k');
	loop_defer(a, task);
	loop_destroy(a);
	/* Timers that the process still starts before its handler returns go nowhere. */
	loop_timer_start(a, timer, 1);
	loop_task_cancel(a, task);
	loop_defer(a, task);
}

Test(loop_sim, a_process_may_be_killed_from_its_own_handler)
{
	struct loop_turn_end hook = { 0 };
	struct loop_timer timer;
	struct loop_task task;

	loop_task_init(&task, note_task, "x");
	loop_turn_end_add(a, &hook, note_turn_end, "x");
	loop_timer_init(&timer, kill_self, &task);
	loop_timer_start(a, &timer, 1);
	cr_assert_eq(run_all(), -EDEADLK);
	cr_assert_str_eq(order, "k");
}

static void
kill_other(struct loop_timer *timer, void *arg)
{
	(void)timer;
	note('k');
	loop_destroy(arg);
}

Test(loop_sim, nature_may_kill_a_process_that_is_due_at_the_same_time)
{
	struct loop_timer killer, victim;

	loop_timer_init(&killer, kill_other, a);
	loop_timer_init(&victim, note_timer, "x");
	loop_timer_start(sim_world_nature(world), &killer, 1);
	loop_timer_start(a, &victim, 1);
	cr_assert_eq(run_all(), -EDEADLK);
	cr_assert_str_eq(order, "k");
}

Test(loop_sim, a_paused_process_catches_up_in_order)
{
	struct loop_timer timers[3], other;
	struct loop_post post = { .fn = note_post, .arg = "p" };

	/* Started in another order than they fall due. */
	loop_timer_init(&timers[0], note_timer, "3");
	loop_timer_init(&timers[1], note_timer, "1");
	loop_timer_init(&timers[2], note_timer, "2");
	loop_timer_start(a, &timers[0], 30);
	loop_timer_start(a, &timers[1], 10);
	sim_loop_pause(a, 1000);
	loop_timer_start(a, &timers[2], 20);
	loop_timer_init(&other, note_timer, "o");
	loop_timer_start(b, &other, 500);
	cr_assert_eq(sim_world_run(world, NULL, NULL, SIM_WORLD_START_NS + 999), -ETIME);
	cr_assert_str_eq(order, "o");
	loop_post(a, &post);
	cr_assert_eq(run_all(), -EDEADLK);
	cr_assert_str_eq(order, "o123p");
	cr_assert_eq(sim_world_now_ns(world), SIM_WORLD_START_NS + 1000);
}

Test(loop_sim, a_pause_without_end_is_ended_by_hand)
{
	struct loop_timer timer;

	loop_timer_init(&timer, note_timer, "t");
	loop_timer_start(a, &timer, 10);
	sim_loop_pause(a, SIM_FOR_EVER);
	cr_assert_eq(run_all(), -EDEADLK);
	cr_assert_eq(order_count, 0);
	cr_assert_eq(sim_world_run(world, NULL, NULL, SIM_WORLD_START_NS + 100), -EDEADLK);
	sim_loop_pause(a, 0);
	cr_assert_eq(run_all(), -EDEADLK);
	cr_assert_str_eq(order, "t");
}

static void
pause_self(struct loop_task *task, void *arg)
{
	(void)task;
	note('z');
	sim_loop_pause(arg, 50);
}

Test(loop_sim, a_pause_holds_the_rest_of_the_turn)
{
	struct loop_turn_end hook = { 0 };
	struct loop_task tasks[2];
	struct loop_timer other;

	loop_task_init(&tasks[0], pause_self, a);
	loop_task_init(&tasks[1], note_task, "2");
	loop_turn_end_add(a, &hook, note_turn_end, "e");
	loop_defer(a, &tasks[0]);
	loop_defer(a, &tasks[1]);
	loop_timer_init(&other, note_timer, "o");
	loop_timer_start(b, &other, 49);
	cr_assert_eq(run_all(), -EDEADLK);
	cr_assert_str_eq(order, "zo2e");
	cr_assert_eq(sim_world_now_ns(world), SIM_WORLD_START_NS + 50);
}

Test(loop_sim, a_fast_clock_fires_early_in_world_time)
{
	struct loop_timer fast, exact;
	uint64_t start_ns = loop_now_ns(a);

	sim_loop_set_skew(a, 0, 100000); /* a tenth faster */
	loop_timer_init(&fast, note_timer, "f");
	loop_timer_init(&exact, note_timer, "e");
	loop_timer_start(a, &fast, NUM_MS(11));
	loop_timer_start(b, &exact, NUM_MS(10) + 1);
	cr_assert_eq(sim_world_run(world, NULL, NULL, SIM_WORLD_START_NS + NUM_MS(10)), -ETIME);
	cr_assert_str_eq(order, "f");
	cr_assert_eq(loop_now_ns(a), start_ns + NUM_MS(11));
	cr_assert_eq(loop_now_ns(b), start_ns + NUM_MS(10));
}

Test(loop_sim, a_step_of_the_clock_moves_running_timers)
{
	struct loop_timer timer;
	uint64_t before_ns = loop_now_ns(a);

	loop_timer_init(&timer, note_timer, "t");
	loop_timer_start(a, &timer, NUM_S(10));
	sim_loop_set_skew(a, NUM_S(4), -500000); /* and from now on half as fast */
	cr_assert_eq(loop_now_ns(a), before_ns + NUM_S(4));
	cr_assert_eq(run_all(), -EDEADLK);
	cr_assert_eq(sim_world_now_ns(world), SIM_WORLD_START_NS + NUM_S(12));
	cr_assert_eq(loop_now_ns(a), before_ns + NUM_S(10));
}

Test(loop_sim, a_timer_is_never_early_on_its_own_clock)
{
	for (int32_t ppm = -900000; ppm < 2000000; ppm += 77777) {
		struct loop *loop = sim_loop_create(world, "skewed");
		uint64_t delay_ns = 1 + sim_world_random_below(world, NUM_S(10)), start_ns;
		struct loop_timer timer;

		sim_loop_set_skew(loop, sim_world_random_below(world, NUM_S(100)), ppm);
		start_ns = loop_now_ns(loop);
		loop_timer_init(&timer, note_timer, "t");
		loop_timer_start(loop, &timer, delay_ns);
		cr_assert_eq(run_all(), -EDEADLK);
		cr_assert_geq(loop_now_ns(loop), start_ns + delay_ns);
		loop_destroy(loop);
	}
}

/* A little program of many processes that draw lots: its whole history goes into the hash. */
struct player {
	struct loop *loop;
	struct loop_timer timer;
	struct loop_post post;
	bool is_posted;
	struct player *all;
	unsigned left_count;
	unsigned posts_count;
};

#define PLAYERS 5

static void
player_on_post(struct loop_post *post, void *arg)
{
	struct player *self = arg;

	(void)post;
	self->is_posted = false;
	self->posts_count++;
}

static void
player_on_timer(struct loop_timer *timer, void *arg)
{
	struct player *self = arg;
	struct player *peer = &self->all[loop_random_below(self->loop, PLAYERS)];

	if (!peer->is_posted) {
		peer->is_posted = true;
		loop_post(peer->loop, &peer->post);
	}
	if (--self->left_count > 0)
		loop_timer_start(self->loop, timer, 10 * loop_random_below(self->loop, 10));
}

static uint64_t
play(uint64_t seed, bool is_shuffled, FILE *trace)
{
	struct sim_world *game = sim_world_create(seed);
	struct player players[PLAYERS] = { 0 };
	uint64_t hash;

	sim_world_set_shuffle(game, is_shuffled);
	sim_world_set_trace_file(game, trace);
	for (int i = 0; i < PLAYERS; i++) {
		players[i] = (struct player){
			.loop = sim_loop_create(game, "player"),
			.post = { .fn = player_on_post, .arg = &players[i] },
			.all = players,
			.left_count = 200,
		};
		loop_timer_init(&players[i].timer, player_on_timer, &players[i]);
		loop_timer_start(players[i].loop, &players[i].timer, 1);
	}
	cr_assert_eq(sim_world_run(game, NULL, NULL, SIM_FOR_EVER), -EDEADLK);
	cr_assert_gt(players[0].posts_count, 0);
	hash = sim_world_trace_hash(game);
	sim_world_destroy(game);
	return hash;
}

Test(loop_sim, the_same_seed_gives_the_same_history)
{
	cr_assert_eq(play(7, false, NULL), play(7, false, NULL));
	cr_assert_eq(play(7, true, NULL), play(7, true, NULL));
}

Test(loop_sim, another_seed_or_order_gives_another_history)
{
	cr_assert_neq(play(7, false, NULL), play(8, false, NULL));
	cr_assert_neq(play(7, false, NULL), play(7, true, NULL));
}

Test(loop_sim, printing_the_trace_does_not_change_it)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *file = open_memstream(&text, &bytes);

	cr_assert_eq(play(7, true, file), play(7, true, NULL));
	fclose(file);
	cr_assert_eq(strncmp(text, "1000000001 player timer ", 24), 0);
	free(text);
}

Test(loop_sim, traces_are_hashed_and_printed_with_time_and_loop)
{
	uint64_t before = sim_world_trace_hash(world), first, second;
	char *text = NULL;
	size_t bytes = 0;
	FILE *file = open_memstream(&text, &bytes);

	sim_world_set_trace_file(world, file);
	sim_world_trace(world, "write block=%d", 1);
	first = sim_world_trace_hash(world);
	sim_world_trace(world, "write block=%d", 2);
	second = sim_world_trace_hash(world);
	fclose(file);
	sim_world_set_trace_file(world, NULL);
	cr_assert_str_eq(text, "1000000000 - write block=1\n1000000000 - write block=2\n");
	cr_assert_neq(before, first);
	cr_assert_neq(first, second);
	free(text);
}

Test(loop_sim, shuffling_reorders_loops_but_never_within_one)
{
	bool is_reordered = false;

	for (uint64_t seed = 0; seed < 20; seed++) {
		struct sim_world *shuffled = sim_world_create(seed);
		struct loop *x = sim_loop_create(shuffled, "x");
		struct loop *y = sim_loop_create(shuffled, "y");
		struct loop_timer timers[4];

		sim_world_set_shuffle(shuffled, true);
		order_count = 0;
		memset(order, 0, sizeof(order));
		for (int i = 0; i < 4; i++) {
			loop_timer_init(&timers[i], note_timer, &"xyXY"[i]);
			loop_timer_start(i % 2 == 0 ? x : y, &timers[i], 5);
		}
		cr_assert_eq(sim_world_run(shuffled, NULL, NULL, SIM_FOR_EVER), -EDEADLK);
		cr_assert(strcmp(order, "xXyY") == 0 || strcmp(order, "yYxX") == 0, "%s", order);
		is_reordered = is_reordered || order[0] == 'y';
		sim_world_destroy(shuffled);
	}
	cr_assert(is_reordered);
}

Test(loop_sim, loops_have_ids_and_names)
{
	struct loop *c = sim_loop_create(world, "a name that is longer than what a loop can hold");

	cr_assert_eq(sim_loop_id(sim_world_nature(world)), 0);
	cr_assert_eq(sim_loop_id(a), 1);
	cr_assert_eq(sim_loop_id(b), 2);
	cr_assert_str_eq(sim_loop_name(a), "a");
	cr_assert_eq(strlen(sim_loop_name(c)), SIM_LOOP_NAME_BYTES - 1);
	cr_assert_eq(sim_loop_world(c), world);
	loop_destroy(c);
	cr_assert_eq(sim_loop_id(sim_loop_create(world, "d")), 4);
}

Test(loop_sim, destroying_nothing_is_allowed)
{
	sim_world_destroy(NULL);
}
