/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop.c -- the part of the event loop that real and simulated time share
 *
 * Deferred calls and turn-end hooks live here; time, timers and descriptors belong to the
 * implementation behind struct loop_ops.
 */
#include "cleave/loop.h"

#include <errno.h>

#include "base/check.h"
#include "base/list.h"
#include "base/loop_internal.h"
#include "base/random.h"

void
loop_base_init(struct loop *loop, const struct loop_ops *ops, uint64_t seed)
{
	assert(ops->now_ns != NULL);
	*loop = (struct loop){ .magic = LOOP_MAGIC, .ops = ops };
	list_init(&loop->tasks);
	list_init(&loop->turn_ends);
	random_seed(loop->random_state, seed);
}

void
loop_destroy(struct loop *loop)
{
	if (loop == NULL)
		return;
	CHECK_OBJ(loop, LOOP_MAGIC);
	loop->ops->destroy(loop);
}

uint64_t
loop_now_ns(struct loop *loop)
{
	CHECK_OBJ(loop, LOOP_MAGIC);
	return loop->ops->now_ns(loop);
}

uint64_t
loop_now_fresh_ns(struct loop *loop)
{
	CHECK_OBJ(loop, LOOP_MAGIC);
	return loop->ops->now_fresh_ns(loop);
}

uint64_t
loop_now_boot_ns(struct loop *loop)
{
	CHECK_OBJ(loop, LOOP_MAGIC);
	return loop->ops->now_boot_ns(loop);
}

uint64_t
loop_random_u64(struct loop *loop)
{
	CHECK_OBJ(loop, LOOP_MAGIC);
	return random_u64(loop->random_state);
}

uint64_t
loop_random_below(struct loop *loop, uint64_t limit)
{
	CHECK_OBJ(loop, LOOP_MAGIC);
	return random_below(loop->random_state, limit);
}

void
loop_timer_init(struct loop_timer *timer, void (*fn)(struct loop_timer *, void *), void *arg)
{
	assert(fn != NULL);
	*timer = (struct loop_timer){ .fn = fn, .arg = arg };
}

void
loop_timer_start(struct loop *loop, struct loop_timer *timer, uint64_t delay_ns)
{
	CHECK_OBJ(loop, LOOP_MAGIC);
	assert(timer->fn != NULL);
	loop_timer_stop(loop, timer);
	loop->ops->timer_start(loop, timer, delay_ns);
}

void
loop_timer_stop(struct loop *loop, struct loop_timer *timer)
{
	CHECK_OBJ(loop, LOOP_MAGIC);
	if (timer->is_active)
		loop->ops->timer_stop(loop, timer);
}

void
loop_task_init(struct loop_task *task, void (*fn)(struct loop_task *, void *), void *arg)
{
	assert(fn != NULL);
	*task = (struct loop_task){ .fn = fn, .arg = arg };
}

void
loop_defer(struct loop *loop, struct loop_task *task)
{
	CHECK_OBJ(loop, LOOP_MAGIC);
	assert(task->fn != NULL);
	if (task->is_queued)
		return;
	task->is_queued = true;
	list_push_back(&loop->tasks, &task->link);
	loop->ops->wake(loop);
}

void
loop_task_cancel(struct loop *loop, struct loop_task *task)
{
	CHECK_OBJ(loop, LOOP_MAGIC);
	if (!task->is_queued)
		return;
	list_remove(&task->link);
	task->is_queued = false;
}

/* Everything in @from, in order, goes to the front of @to. */
static void
list_prepend_all(struct loop_link *to, struct loop_link *from)
{
	assert(to != from);
	if (list_is_empty(from))
		return;
	from->prev->next = to->next;
	to->next->prev = from->prev;
	to->next = from->next;
	from->next->prev = to;
	list_init(from);
}

bool
loop_tasks_run(struct loop *loop, void (*on_task)(struct loop *loop))
{
	struct loop_link round;
	bool has_run = false;

	list_init(&round);
	for (unsigned i = 0; i < LOOP_DEFER_ROUNDS_MAX && !list_is_empty(&loop->tasks); i++) {
		list_prepend_all(&round, &loop->tasks);
		while (!loop->is_halted && !list_is_empty(&round)) {
			struct loop_link *link = list_pop_front(&round);
			struct loop_task *task = LIST_ENTRY(link, struct loop_task, link);

			assert(task->is_queued);
			task->is_queued = false;
			has_run = true;
			if (on_task != NULL)
				on_task(loop);
			task->fn(task, task->arg);
		}
		if (loop->is_halted) {
			list_prepend_all(&loop->tasks, &round);
			break;
		}
	}
	return has_run;
}

void
loop_turn_end_add(struct loop *loop, struct loop_turn_end *hook,
    void (*fn)(struct loop_turn_end *, void *), void *arg)
{
	CHECK_OBJ(loop, LOOP_MAGIC);
	assert(fn != NULL);
	*hook = (struct loop_turn_end){ .fn = fn, .arg = arg };
	list_push_back(&loop->turn_ends, &hook->link);
}

void
loop_turn_end_remove(struct loop *loop, struct loop_turn_end *hook)
{
	CHECK_OBJ(loop, LOOP_MAGIC);
	list_remove(&hook->link);
}

void
loop_turn_ends_run(struct loop *loop)
{
	struct loop_link cursor = { NULL, NULL };
	struct loop_link *link = loop->turn_ends.next;

	/* A cursor in the list holds our place while hooks come and go. */
	while (link != &loop->turn_ends && !loop->is_halted) {
		struct loop_turn_end *hook = LIST_ENTRY(link, struct loop_turn_end, link);

		list_insert_before(link->next, &cursor);
		hook->fn(hook, hook->arg);
		link = cursor.next;
		list_remove(&cursor);
	}
}

void
loop_fd_init(struct loop_fd *watcher, int fd, void (*fn)(struct loop_fd *, unsigned, void *),
    void *arg)
{
	assert(fn != NULL);
	*watcher = (struct loop_fd){ .fn = fn, .arg = arg, .fd = fd };
}

int
loop_fd_start(struct loop *loop, struct loop_fd *watcher, unsigned events)
{
	int rc;

	CHECK_OBJ(loop, LOOP_MAGIC);
	assert(watcher->fn != NULL);
	assert(watcher->impl == NULL);
	assert((events & ~(unsigned)(LOOP_READABLE | LOOP_WRITABLE)) == 0);
	watcher->events = events;
	rc = loop->ops->fd_start(loop, watcher);
	if (rc != 0)
		watcher->events = 0;
	return rc;
}

void
loop_fd_modify(struct loop *loop, struct loop_fd *watcher, unsigned events)
{
	CHECK_OBJ(loop, LOOP_MAGIC);
	assert((events & ~(unsigned)(LOOP_READABLE | LOOP_WRITABLE)) == 0);
	if (watcher->impl != NULL && watcher->events != events)
		loop->ops->fd_modify(loop, watcher, events);
}

void
loop_fd_stop(struct loop *loop, struct loop_fd *watcher)
{
	CHECK_OBJ(loop, LOOP_MAGIC);
	if (watcher->impl != NULL)
		loop->ops->fd_stop(loop, watcher);
}

void
loop_post(struct loop *loop, struct loop_post *post)
{
	assert(post->fn != NULL);
	CHECK_OBJ(loop, LOOP_MAGIC);
	loop->ops->post(loop, post);
}

struct loop_post *
loop_post_reverse(struct loop_post *newest)
{
	struct loop_post *oldest = NULL;

	while (newest != NULL) {
		struct loop_post *next = newest->next;

		newest->next = oldest;
		oldest = newest;
		newest = next;
	}
	return oldest;
}

int
loop_run(struct loop *loop, bool (*until)(void *arg), void *arg)
{
	int rc;

	CHECK_OBJ(loop, LOOP_MAGIC);
	if (loop->is_running)
		return -EBUSY;
	rc = loop->ops->run(loop, until, arg);
	loop->is_stopping = false;
	return rc;
}

void
loop_stop(struct loop *loop)
{
	CHECK_OBJ(loop, LOOP_MAGIC);
	loop->is_stopping = true;
}

bool
loop_is_running(const struct loop *loop)
{
	CHECK_OBJ(loop, LOOP_MAGIC);
	return loop->is_running;
}
