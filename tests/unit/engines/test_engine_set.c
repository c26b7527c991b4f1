/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_engine_set.c -- inline, threaded and simulated sets: who runs a job, in which order, and how it returns
 *
 * The order of a queue is only certain while its one worker stands still. A loop of the test's own
 * makes it: its post holds the worker until the gate is opened.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/crc32c.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "engines/sim/offload_sim.h"
#include "splitlib/sim/loop_sim.h"
#include "unit/engine_data.h"

/* ---- allocations that fail (not under sanitizers, which own malloc) ---- */

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CAN_FAIL_ALLOCATIONS 1
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *malloc(size_t bytes);
void *calloc(size_t count, size_t bytes);

static _Thread_local int allocations_left = -1; /* -1: all succeed */

static bool
allocation_fails(void)
{
	if (allocations_left < 0)
		return false;
	if (allocations_left == 0) {
		errno = ENOMEM;
		return true;
	}
	allocations_left--;
	return false;
}

void *
malloc(size_t bytes)
{
	return allocation_fails() ? NULL : __libc_malloc(bytes);
}

void *
calloc(size_t count, size_t bytes)
{
	return allocation_fails() ? NULL : __libc_calloc(count, bytes);
}
#else
#define CAN_FAIL_ALLOCATIONS 0
static int allocations_left;
#endif

/* ---- a loop whose post waits at a gate ---- */

#define POSTS_MAX 64

struct gate_loop {
	struct loop loop; /* first: ops get this */
	sem_t arrived;    /* a worker stands in post */
	sem_t gate;       /* lets one worker through */
	pthread_mutex_t lock;
	struct loop_post *posts[POSTS_MAX]; /* lock; in posting order */
	int post_count;                     /* lock */
};

static void
gate_post(struct loop *loop, struct loop_post *post)
{
	struct gate_loop *gate = (struct gate_loop *)loop;

	(void)sem_post(&gate->arrived);
	(void)sem_wait(&gate->gate);
	(void)pthread_mutex_lock(&gate->lock);
	gate->posts[gate->post_count++] = post;
	(void)pthread_mutex_unlock(&gate->lock);
}

static struct gate_loop *
gate_loop_create(void)
{
	static const struct loop_ops ops = { .name = "gate", .post = gate_post };
	/* The real loop's constructor knows how to fill the common part. */
	struct loop *model = loop_ev_create(1);
	struct gate_loop *gate = calloc(1, sizeof(*gate));

	cr_assert_not_null(model);
	cr_assert_not_null(gate);
	gate->loop.magic = model->magic;
	gate->loop.ops = &ops;
	loop_destroy(model);
	(void)sem_init(&gate->arrived, 0, 0);
	(void)sem_init(&gate->gate, 0, 0);
	(void)pthread_mutex_init(&gate->lock, NULL);
	return gate;
}

static void
gate_loop_destroy(struct gate_loop *gate)
{
	(void)sem_destroy(&gate->arrived);
	(void)sem_destroy(&gate->gate);
	(void)pthread_mutex_destroy(&gate->lock);
	free(gate);
}

/* ---- jobs ---- */

struct tracked {
	struct engine_job job;
	int done_count;
	pthread_t done_on;
	int order; /* of completion, from 1 */
	int *counter;
};

static void
on_done(struct engine_job *job, void *arg)
{
	struct tracked *tracked = arg;

	cr_assert_eq(job, &tracked->job);
	tracked->done_count++;
	tracked->done_on = pthread_self();
	tracked->order = ++*tracked->counter;
}

static void
tracked_init(struct tracked *tracked, const uint8_t *src, uint32_t bytes, int *counter)
{
	*tracked = (struct tracked){ .job = { .kind = ENGINE_JOB_CRC,
					 .src = data_dev_ptr(src),
					 .src_bytes = bytes,
					 .fn = on_done,
					 .arg = tracked },
		.counter = counter };
}

/* ---- inline ---- */

Test(engine_set, inline_is_done_at_once_and_calls_nobody)
{
	struct engine_set_options options = { .thread_count = 0 };
	struct engine_set *set = engine_set_create(NULL, &options);
	uint8_t *src = data_create(4096, DATA_TEXT, 1);
	struct tracked tracked;
	int counter = 0;

	cr_assert_not_null(set);
	tracked_init(&tracked, src, 4096, &counter);
	cr_assert_eq(engine_submit(set, &tracked.job), 1);
	cr_assert_eq(tracked.job.rc, 0);
	cr_assert_eq(tracked.job.payload_crc, crc32c(0, src, 4096));
	cr_assert_eq(engine_submit_urgent(set, &tracked.job), 1);
	cr_assert_eq(engine_set_gate_ops.submit(set, &tracked.job), 1);
	cr_assert_eq(tracked.done_count, 0);
	cr_assert_eq(engine_set_queued_count(set), 0u);
	engine_set_destroy(set);
	free(src);
}

Test(engine_set, destroying_null_is_nothing)
{
	engine_set_destroy(NULL);
}

/* ---- threads ---- */

Test(engine_set, options_out_of_range_are_einval)
{
	static const struct engine_set_options wrong[] = {
		{ .thread_count = 1, .queue_depth_max = 0 },
		{ .thread_count = 65, .queue_depth_max = 1 },
		{ .thread_count = 1, .queue_depth_max = 65537 },
		{ .thread_count = UINT32_MAX, .queue_depth_max = 1 },
	};
	struct engine_set_options right = { .thread_count = 1, .queue_depth_max = 1 };
	struct loop *loop = loop_ev_create(1);

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		errno = 0;
		cr_assert_null(engine_set_create(loop, &wrong[i]));
		cr_assert_eq(errno, EINVAL);
	}
	errno = 0;
	cr_assert_null(engine_set_create(NULL, &right));
	cr_assert_eq(errno, EINVAL);
	loop_destroy(loop);
}

#define MANY 2000

static bool
all_done(void *arg)
{
	return *(int *)arg == MANY;
}

Test(engine_set, each_job_completes_once_on_the_loops_thread)
{
	struct loop *loop = loop_ev_create(1);
	struct engine_set_options options = { .thread_count = 3, .queue_depth_max = MANY };
	struct engine_set *set = engine_set_create(loop, &options);
	struct tracked *tracked = calloc(MANY, sizeof(*tracked));
	uint8_t *src = data_create(4096 + MANY, DATA_RANDOM, 1);
	int counter = 0;

	cr_assert_not_null(set);
	for (int i = 0; i < MANY; i++) {
		tracked_init(&tracked[i], src + i, 4096, &counter);
		cr_assert_eq(i % 5 == 0 ? engine_submit_urgent(set, &tracked[i].job)
					: engine_submit(set, &tracked[i].job),
		    0);
	}
	cr_assert_eq(loop_run(loop, all_done, &counter), 0);
	for (int i = 0; i < MANY; i++) {
		cr_assert_eq(tracked[i].done_count, 1);
		cr_assert(pthread_equal(tracked[i].done_on, pthread_self()));
		cr_assert_eq(tracked[i].job.rc, 0);
		cr_assert_eq(tracked[i].job.payload_crc, crc32c(0, src + i, 4096));
	}
	cr_assert_eq(engine_set_queued_count(set), 0u);
	engine_set_destroy(set);
	loop_destroy(loop);
	free(tracked);
	free(src);
}

Test(engine_set, threads_share_no_codec_state)
{
	struct loop *loop = loop_ev_create(1);
	struct engine_set_options options = { .thread_count = 4, .queue_depth_max = MANY };
	struct engine_set *set = engine_set_create(loop, &options);
	struct tracked *tracked = calloc(MANY, sizeof(*tracked));
	uint8_t *plain = data_create(4096, DATA_MIXED, 2);
	uint8_t *stored = malloc((size_t)MANY * 4096);
	int counter = 0;

	for (int i = 0; i < MANY; i++) {
		tracked_init(&tracked[i], plain, 4096, &counter);
		tracked[i].job.kind = ENGINE_JOB_STORE;
		tracked[i].job.codec_id = (uint8_t)(i % ENGINE_ID_NR);
		tracked[i].job.level = tracked[i].job.codec_id == ENGINE_ZSTD
		    ? i % 4 - 1
		    : engine_by_id(tracked[i].job.codec_id)->level_default;
		tracked[i].job.dst = data_dev_ptr(stored + (size_t)i * 4096);
		tracked[i].job.dst_cap_bytes = 4096;
		tracked[i].job.block_count = 1;
		tracked[i].job.payload_crc = crc32c(0, plain, 4096);
		cr_assert_eq(engine_submit(set, &tracked[i].job), 0);
	}
	cr_assert_eq(loop_run(loop, all_done, &counter), 0);
	for (int i = 4 * ENGINE_ID_NR; i < MANY; i++) {
		/* The same input gives the same output, whichever thread and whatever came before. */
		cr_assert_eq(tracked[i].job.rc, 0);
		cr_assert_eq(tracked[i].job.stored_crc,
		    tracked[i % (4 * ENGINE_ID_NR)].job.stored_crc);
	}
	engine_set_destroy(set);
	loop_destroy(loop);
	free(tracked);
	free(plain);
	free(stored);
}

/* The priority that the kernel knows of each thread with that name; they must be @count. */
static void
expect_priority(const char *name, uint32_t count, int nice_value)
{
	DIR *tasks = opendir("/proc/self/task");
	uint32_t found_count = 0;

	cr_assert_not_null(tasks);
	for (const struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
		pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
		char path[64], text[32] = "";
		FILE *file;

		(void)snprintf(path, sizeof(path), "/proc/self/task/%d/comm", (int)tid);
		file = tid == 0 ? NULL : fopen(path, "r");
		if (file == NULL)
			continue;
		if (fgets(text, sizeof(text), file) != NULL)
			text[strcspn(text, "\n")] = '\0';
		(void)fclose(file);
		if (strcmp(text, name) != 0)
			continue;
		cr_assert_eq(getpriority(PRIO_PROCESS, (id_t)tid), nice_value);
		found_count++;
	}
	(void)closedir(tasks);
	cr_assert_eq(found_count, count, "%u threads called %s", found_count, name);
}

Test(engine_set, the_background_is_of_the_lowest_priority)
{
	struct loop *loop = loop_ev_create(1);
	struct engine_set_options options = { .thread_count = 1,
		.queue_depth_max = MANY,
		.is_background = true };
	struct engine_set *set = engine_set_create(loop, &options);
	struct tracked *tracked = calloc(MANY, sizeof(*tracked));
	uint8_t *src = data_create(4096, DATA_RANDOM, 1);
	int counter = 0;

	for (int i = 0; i < MANY; i++) {
		tracked_init(&tracked[i], src, 4096, &counter);
		cr_assert_eq(engine_submit(set, &tracked[i].job), 0);
	}
	cr_assert_eq(loop_run(loop, all_done, &counter), 0);
	expect_priority("merge", 1, 19);
	engine_set_destroy(set);
	loop_destroy(loop);
	free(tracked);
	free(src);
}

#define WAITING 6

Test(engine_set, urgent_jobs_go_ahead_of_those_queued)
{
	struct gate_loop *gate = gate_loop_create();
	struct engine_set_options options = { .thread_count = 1, .queue_depth_max = WAITING };
	struct engine_set *set = engine_set_create(&gate->loop, &options);
	/* Each in its class in the order of submission, urgent ones first. */
	static const int expected_order[WAITING + 1] = { 1, 5, 2, 6, 3, 7, 4 };
	struct tracked tracked[WAITING + 1], late;
	uint8_t *src = data_create(64, DATA_TEXT, 1);
	int counter = 0;

	cr_assert_not_null(set);
	tracked_init(&late, src, 64, &counter);
	for (int i = 0; i <= WAITING; i++)
		tracked_init(&tracked[i], src, 64, &counter);
	cr_assert_eq(engine_submit(set, &tracked[0].job), 0);
	(void)sem_wait(&gate->arrived); /* the worker holds job 0 and stands still */
	for (int i = 1; i <= WAITING; i++)
		cr_assert_eq(i % 2 == 0 ? engine_submit_urgent(set, &tracked[i].job)
					: engine_submit(set, &tracked[i].job),
		    0);
	cr_assert_eq(engine_set_queued_count(set), (uint32_t)WAITING);
	cr_assert_eq(engine_submit(set, &late.job), -ENOBUFS);
	cr_assert_eq(engine_submit_urgent(set, &late.job), -ENOBUFS);

	for (int i = 0; i <= WAITING; i++)
		(void)sem_post(&gate->gate);
	engine_set_destroy(set); /* waits for all of them */
	cr_assert_eq(gate->post_count, WAITING + 1);
	cr_assert_eq(counter, 0); /* nobody was called but by the loop */
	for (int i = 0; i <= WAITING; i++)
		gate->posts[i]->fn(gate->posts[i], gate->posts[i]->arg);
	for (int i = 0; i <= WAITING; i++)
		cr_assert_eq(tracked[i].order, expected_order[i], "job %d", i);
	cr_assert_eq(late.done_count, 0);
	gate_loop_destroy(gate);
	free(src);
}

Test(engine_set, a_full_queue_takes_jobs_again_when_one_completes)
{
	struct gate_loop *gate = gate_loop_create();
	struct engine_set_options options = { .thread_count = 1, .queue_depth_max = 1 };
	struct engine_set *set = engine_set_create(&gate->loop, &options);
	struct tracked tracked[3];
	uint8_t *src = data_create(64, DATA_TEXT, 1);
	int counter = 0;

	for (int i = 0; i < 3; i++)
		tracked_init(&tracked[i], src, 64, &counter);
	cr_assert_eq(engine_submit(set, &tracked[0].job), 0);
	(void)sem_wait(&gate->arrived);
	cr_assert_eq(engine_submit(set, &tracked[1].job), 0);
	cr_assert_eq(engine_submit(set, &tracked[2].job), -ENOBUFS);
	(void)sem_post(&gate->gate);
	(void)sem_wait(&gate->arrived); /* job 1 has left the queue */
	cr_assert_eq(engine_submit(set, &tracked[2].job), 0);
	(void)sem_post(&gate->gate);
	(void)sem_post(&gate->gate);
	engine_set_destroy(set);
	cr_assert_eq(gate->post_count, 3);
	gate_loop_destroy(gate);
	free(src);
}

Test(engine_set, a_wrong_shape_is_refused_before_it_is_queued)
{
	struct loop *loop = loop_ev_create(1);
	struct engine_set_options options = { .thread_count = 1, .queue_depth_max = 1 };
	struct engine_set *set = engine_set_create(loop, &options);
	struct engine_job job = { .kind = ENGINE_JOB_CRC };

	cr_assert_eq(engine_submit(set, &job), -EINVAL);
	cr_assert_eq(engine_set_queued_count(set), 0u);
	engine_set_destroy(set);
	loop_destroy(loop);
}

Test(engine_set, each_failed_allocation_is_enomem_and_leaks_nothing)
{
	struct loop *loop;
	int failures = 0;

	if (!CAN_FAIL_ALLOCATIONS)
		cr_skip_test("a sanitizer owns malloc");
	loop = loop_ev_create(1);
	for (uint32_t threads = 0; threads < 3; threads++) {
		struct engine_set_options options = { .thread_count = threads,
			.queue_depth_max = 1 };
		struct engine_set *set = NULL;

		for (int n = 0; set == NULL; n++) {
			cr_assert_lt(n, 1000);
			errno = 0;
			allocations_left = n;
			set = engine_set_create(loop, &options);
			allocations_left = -1;
			cr_assert(set != NULL || errno == ENOMEM || errno == EAGAIN);
			failures += set == NULL;
		}
		engine_set_destroy(set);
	}
	cr_assert_gt(failures, 10);
	loop_destroy(loop);
}

/* ---- simulated threads ---- */

static bool
all_waiting_done(void *arg)
{
	return *(int *)arg == WAITING + 1;
}

Test(engine_set, simulated_jobs_end_later_and_urgent_ones_first)
{
	struct sim_world *world = sim_world_create(1);
	struct loop *loop = sim_loop_create(world, "gateway");
	struct engine_set_options options = { .thread_count = 1,
		.queue_depth_max = WAITING,
		.workers = &offload_sim_ops };
	struct engine_set *set = engine_set_create(loop, &options);
	static const int expected_order[WAITING + 1] = { 1, 5, 2, 6, 3, 7, 4 };
	struct tracked tracked[WAITING + 1], late;
	uint8_t *src = data_create(4096, DATA_TEXT, 1);
	int counter = 0;

	cr_assert_not_null(set);
	for (int i = 0; i <= WAITING; i++) {
		tracked_init(&tracked[i], src, 4096, &counter);
		tracked[i].job.must_time = true;
		cr_assert_eq(i != 0 && i % 2 == 0 ? engine_submit_urgent(set, &tracked[i].job)
						  : engine_submit(set, &tracked[i].job),
		    0);
	}
	tracked_init(&late, src, 4096, &counter);
	cr_assert_eq(engine_set_queued_count(set), (uint32_t)WAITING);
	cr_assert_eq(engine_submit(set, &late.job), -ENOBUFS);
	cr_assert_eq(counter, 0);
	cr_assert_eq(sim_world_run(world, all_waiting_done, &counter,
			 sim_world_now_ns(world) + NUM_S(1)),
	    0);
	for (int i = 0; i <= WAITING; i++) {
		cr_assert_eq(tracked[i].order, expected_order[i], "job %d", i);
		cr_assert_eq(tracked[i].job.payload_crc, crc32c(0, src, 4096));
		cr_assert_gt(tracked[i].job.run_ns, 0u);
	}
	cr_assert_gt(sim_world_now_ns(world), 0u);
	engine_set_destroy(set);
	sim_world_destroy(world);
	free(src);
}

Test(engine_set, a_simulated_process_that_is_killed_drops_its_jobs)
{
	struct sim_world *world = sim_world_create(1);
	struct loop *loop = sim_loop_create(world, "gateway");
	struct engine_set_options options = { .thread_count = 2,
		.queue_depth_max = 8,
		.workers = &offload_sim_ops };
	struct engine_set *set = engine_set_create(loop, &options);
	struct tracked tracked[4];
	uint8_t *src = data_create(4096, DATA_TEXT, 1);
	int counter = 0;

	for (int i = 0; i < 4; i++) {
		tracked_init(&tracked[i], src, 4096, &counter);
		cr_assert_eq(engine_submit(set, &tracked[i].job), 0);
	}
	engine_set_destroy(set);
	(void)sim_world_run(world, all_waiting_done, &counter, sim_world_now_ns(world) + NUM_S(1));
	cr_assert_eq(counter, 0);
	sim_world_destroy(world);
	free(src);
}
