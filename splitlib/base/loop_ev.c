/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop_ev.c -- the event loop on libev, in real time
 *
 * libev watches descriptors. Timers are ours: a heap, and one timerfd armed for the earliest of them
 * just before the loop goes to sleep, because libev's own wake-ups are in whole milliseconds. An
 * eventfd wakes the loop for posts. Timers, as libev's own clock, stand still while the host is suspended: who must not
 * believe in a time that has passed meanwhile (a lease) asks loop_now_boot_ns when it matters.
 *
 * Threads: all of it belongs to the loop's thread except `posts` (a lock-free stack, newest first)
 * and `is_asleep`. The loop stores is_asleep and then looks at posts; a sender pushes and then takes
 * is_asleep away; both orders are sequentially consistent, so one of the two sees the other. Only
 * the sender that took the flag writes to the eventfd: a busy loop costs its senders no system call.
 */
#include <errno.h>
#include <ev.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/list.h"
#include "base/loop_internal.h"
#include "base/timer_heap.h"

struct loop_ev {
	struct loop base; /* first */
	struct ev_loop *ev;
	ev_check check_watcher; /* reads the clock when libev wakes, before any handler */
	ev_io wake_watcher;
	ev_io alarm_watcher;
	int wake_fd;           /* eventfd */
	int alarm_fd;          /* timerfd */
	uint64_t alarm_due_ns; /* what alarm_fd is set to; 0: nothing */
	uint64_t now_ns;
	uint64_t timer_sequence;
	struct timer_heap timers;
	uint32_t watcher_count;
	bool has_run; /* a handler ran in this turn */
	_Atomic(struct loop_post *) posts;
	atomic_bool is_asleep;
};

/* libev's watcher for one loop_fd. */
struct fd_watcher {
	ev_io io; /* first */
	struct loop_ev *loop;
	struct loop_fd *owner;
};

static struct loop_ev *
loop_ev_of(struct loop *loop)
{
	return NUM_CONTAINER_OF(loop, struct loop_ev, base);
}

static uint64_t
clock_read_ns(clockid_t clock)
{
	struct timespec now;

	(void)clock_gettime(clock, &now); /* cannot fail for the two that are asked for here */
	return (uint64_t)now.tv_sec * NUM_S(1) + (uint64_t)now.tv_nsec;
}

static uint64_t
loop_ev_now_ns(struct loop *loop)
{
	/* Outside a turn the cached time may be old. */
	return loop->is_running ? loop_ev_of(loop)->now_ns : clock_read_ns(CLOCK_MONOTONIC);
}

static uint64_t
loop_ev_now_fresh_ns(struct loop *loop)
{
	(void)loop;
	return clock_read_ns(CLOCK_MONOTONIC);
}

static uint64_t
loop_ev_now_boot_ns(struct loop *loop)
{
	(void)loop;
	return clock_read_ns(CLOCK_BOOTTIME);
}

static void
loop_ev_timer_start(struct loop *loop, struct loop_timer *timer, uint64_t delay_ns)
{
	struct loop_ev *self = loop_ev_of(loop);
	uint64_t now_ns = loop_ev_now_ns(loop);

	assert(!timer->is_active);
	timer->due_ns = delay_ns < UINT64_MAX - now_ns ? now_ns + delay_ns : UINT64_MAX;
	timer->sequence = self->timer_sequence++;
	timer_heap_push(&self->timers,
	    &(struct timer_entry){ .due_ns = timer->due_ns,
		.rank_ns = timer->due_ns,
		.sequence = timer->sequence,
		.loop = loop,
		.timer = timer });
}

static void
loop_ev_timer_stop(struct loop *loop, struct loop_timer *timer)
{
	/* The alarm may now ring for nothing, once; setting it anew would cost as much. */
	timer_heap_remove(&loop_ev_of(loop)->timers, timer);
}

static void
timers_run(struct loop_ev *self)
{
	/* Timers started from here on belong to the next turn: a zero delay never spins. */
	uint64_t sequence_end = self->timer_sequence;
	const struct timer_entry *first;

	while ((first = timer_heap_first(&self->timers)) != NULL) {
		struct loop_timer *timer = first->timer;
		struct timer_entry entry;

		if (first->due_ns > self->now_ns || first->sequence >= sequence_end)
			break;
		(void)timer_heap_pop(&self->timers, &entry); /* not empty */
		assert(entry.timer == timer);
		assert(!timer->is_active);
		self->has_run = true;
		timer->fn(timer, timer->arg);
	}
}

/* Set the timerfd unless it rings early enough already. Returns whether a timer is due now. */
static bool
alarm_set(struct loop_ev *self)
{
	const struct timer_entry *first = timer_heap_first(&self->timers);
	struct itimerspec spec = { 0 };
	int rc;

	if (first == NULL)
		return false;
	if (first->due_ns <= self->now_ns)
		return true;
	if (self->alarm_due_ns != 0 && self->alarm_due_ns <= first->due_ns)
		return false;
	spec.it_value.tv_sec = (time_t)(first->due_ns / NUM_S(1));
	spec.it_value.tv_nsec = (long)(first->due_ns % NUM_S(1));
	rc = timerfd_settime(self->alarm_fd, TFD_TIMER_ABSTIME, &spec, NULL);
	assert(rc == 0); /* the descriptor and the time are valid */
	self->alarm_due_ns = first->due_ns;
	return false;
}

static void
on_alarm(struct ev_loop *ev, ev_io *io, int revents)
{
	struct loop_ev *self = io->data;
	uint64_t expired_count;

	(void)ev;
	(void)revents;
	assert(io->fd == self->alarm_fd);
	/* Nothing to learn from the result: the heap says what is due. */
	(void)!read(self->alarm_fd, &expired_count, sizeof(expired_count));
	self->alarm_due_ns = 0;
}

static void
on_wake(struct ev_loop *ev, ev_io *io, int revents)
{
	struct loop_ev *self = io->data;
	uint64_t wake_count;

	(void)ev;
	(void)revents;
	assert(io->fd == self->wake_fd);
	/* Nothing to learn from the result: the stack of posts says what came. */
	(void)!read(self->wake_fd, &wake_count, sizeof(wake_count));
}

static void
on_poll_return(struct ev_loop *ev, ev_check *check, int revents)
{
	struct loop_ev *self = check->data;

	(void)ev;
	(void)revents;
	self->now_ns = clock_read_ns(CLOCK_MONOTONIC);
	assert(self->base.is_running);
}

static void
on_fd(struct ev_loop *ev, ev_io *io, int revents)
{
	struct fd_watcher *impl = io->data;
	struct loop_fd *watcher = impl->owner;
	unsigned events = 0;

	(void)ev;
	if ((revents & EV_READ) != 0)
		events |= LOOP_READABLE;
	if ((revents & EV_WRITE) != 0)
		events |= LOOP_WRITABLE;
	/* A descriptor that cannot be watched: let the owner run into the error itself. */
	if ((revents & EV_ERROR) != 0)
		events = LOOP_READABLE | LOOP_WRITABLE;
	assert(watcher->impl == impl);
	assert(watcher->fd == io->fd);
	impl->loop->has_run = true;
	watcher->fn(watcher, events, watcher->arg);
}

static void
fd_set_events(struct loop_ev *self, struct loop_fd *watcher)
{
	struct fd_watcher *impl = watcher->impl;
	int events = 0;

	assert(impl != NULL);
	assert(impl->owner == watcher);
	assert(impl->loop == self);
	if ((watcher->events & LOOP_READABLE) != 0)
		events |= EV_READ;
	if ((watcher->events & LOOP_WRITABLE) != 0)
		events |= EV_WRITE;
	ev_io_stop(self->ev, &impl->io);
	ev_io_set(&impl->io, watcher->fd, events);
	if (events != 0)
		ev_io_start(self->ev, &impl->io);
}

static int
loop_ev_fd_start(struct loop *loop, struct loop_fd *watcher)
{
	struct loop_ev *self = loop_ev_of(loop);
	struct fd_watcher *impl;

	assert(watcher->impl == NULL);
	assert(watcher->fn != NULL);
	if (watcher->fd < 0)
		return -EBADF;
	impl = calloc(1, sizeof(*impl));
	if (impl == NULL)
		return -ENOMEM;
	impl->loop = self;
	impl->owner = watcher;
	ev_init(&impl->io, on_fd);
	impl->io.data = impl;
	watcher->impl = impl;
	self->watcher_count++;
	fd_set_events(self, watcher);
	return 0;
}

static void
loop_ev_fd_modify(struct loop *loop, struct loop_fd *watcher, unsigned events)
{
	assert(watcher->impl != NULL);
	watcher->events = events;
	fd_set_events(loop_ev_of(loop), watcher);
}

static void
loop_ev_fd_stop(struct loop *loop, struct loop_fd *watcher)
{
	struct loop_ev *self = loop_ev_of(loop);
	struct fd_watcher *impl = watcher->impl;

	assert(impl != NULL);
	assert(impl->owner == watcher);
	assert(self->watcher_count > 0);
	ev_io_stop(self->ev, &impl->io);
	free(impl);
	watcher->impl = NULL;
	watcher->events = 0;
	self->watcher_count--;
}

static void
loop_ev_post(struct loop *loop, struct loop_post *post)
{
	struct loop_ev *self = loop_ev_of(loop);
	struct loop_post *head = atomic_load_explicit(&self->posts, memory_order_relaxed);
	uint64_t one = 1;

	assert(post->fn != NULL);
	do {
		post->next = head;
	} while (!atomic_compare_exchange_weak(&self->posts, &head, post));
	/* Fails only when the counter is full, and then the loop has been woken. */
	if (atomic_exchange(&self->is_asleep, false))
		(void)!write(self->wake_fd, &one, sizeof(one));
}

static void
posts_run(struct loop_ev *self)
{
	struct loop_post *post;

	if (atomic_load_explicit(&self->posts, memory_order_relaxed) == NULL)
		return;
	post = loop_post_reverse(atomic_exchange(&self->posts, NULL));
	while (post != NULL) {
		struct loop_post *next = post->next;

		self->has_run = true;
		post->fn(post, post->arg);
		post = next;
	}
}

static void
loop_ev_wake(struct loop *loop)
{
	/* Only this thread defers, and it looks at the tasks before it sleeps. */
	(void)loop;
}

static void
poll_once(struct loop_ev *self)
{
	bool is_due = alarm_set(self);
	bool may_sleep = !is_due && list_is_empty(&self->base.tasks);

	assert(self->base.is_running);
	if (may_sleep) {
		atomic_store(&self->is_asleep, true);
		if (atomic_load(&self->posts) != NULL)
			may_sleep = false;
	}
	(void)ev_run(self->ev, may_sleep ? EVRUN_ONCE : EVRUN_NOWAIT);
	atomic_store_explicit(&self->is_asleep, false, memory_order_relaxed);
}

static int
loop_ev_run(struct loop *loop, bool (*until)(void *arg), void *arg)
{
	struct loop_ev *self = loop_ev_of(loop);

	assert(!loop->is_running); /* a handler does not run the loop that runs it */
	loop->is_running = true;
	self->now_ns = clock_read_ns(CLOCK_MONOTONIC);
	while (!loop->is_stopping && !(until != NULL && until(arg))) {
		self->has_run = false;
		poll_once(self);
		timers_run(self);
		posts_run(self);
		if (loop_tasks_run(loop, NULL))
			self->has_run = true;
		if (self->has_run)
			loop_turn_ends_run(loop);
	}
	loop->is_running = false;
	return 0;
}

static void
loop_ev_destroy(struct loop *loop)
{
	struct loop_ev *self = loop_ev_of(loop);

	assert(!loop->is_running);
	assert(self->timers.count == 0);
	assert(self->watcher_count == 0);
	assert(list_is_empty(&loop->tasks));
	assert(atomic_load(&self->posts) == NULL);
	ev_check_stop(self->ev, &self->check_watcher);
	ev_io_stop(self->ev, &self->wake_watcher);
	ev_io_stop(self->ev, &self->alarm_watcher);
	ev_loop_destroy(self->ev);
	(void)close(self->wake_fd); /* nothing was written that could be lost */
	(void)close(self->alarm_fd);
	timer_heap_fini(&self->timers);
	loop->magic = 0;
	free(self);
}

static const struct loop_ops loop_ev_ops = {
	.name = "ev",
	.destroy = loop_ev_destroy,
	.now_ns = loop_ev_now_ns,
	.now_fresh_ns = loop_ev_now_fresh_ns,
	.now_boot_ns = loop_ev_now_boot_ns,
	.timer_start = loop_ev_timer_start,
	.timer_stop = loop_ev_timer_stop,
	.fd_start = loop_ev_fd_start,
	.fd_modify = loop_ev_fd_modify,
	.fd_stop = loop_ev_fd_stop,
	.post = loop_ev_post,
	.wake = loop_ev_wake,
	.run = loop_ev_run,
};

static void
watchers_start(struct loop_ev *self)
{
	assert(self->wake_fd >= 0);
	assert(self->alarm_fd >= 0);
	ev_check_init(&self->check_watcher, on_poll_return);
	ev_set_priority(&self->check_watcher, EV_MAXPRI);
	self->check_watcher.data = self;
	ev_check_start(self->ev, &self->check_watcher);

	ev_io_init(&self->wake_watcher, on_wake, self->wake_fd, EV_READ);
	self->wake_watcher.data = self;
	ev_io_start(self->ev, &self->wake_watcher);

	ev_io_init(&self->alarm_watcher, on_alarm, self->alarm_fd, EV_READ);
	self->alarm_watcher.data = self;
	ev_io_start(self->ev, &self->alarm_watcher);
}

struct loop *
loop_ev_create(uint64_t seed)
{
	struct loop_ev *self = calloc(1, sizeof(*self));
	int rc;

	if (self == NULL)
		return NULL;
	if (seed == 0 && getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
		goto err_free;
	loop_base_init(&self->base, &loop_ev_ops, seed);
	rc = timer_heap_init(&self->timers);
	if (rc != 0) {
		errno = -rc;
		goto err_free;
	}
	self->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (self->wake_fd < 0)
		goto err_fini_timers;
	self->alarm_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (self->alarm_fd < 0)
		goto err_close_wake;
	self->ev = ev_loop_new(EVBACKEND_EPOLL | EVFLAG_NOENV);
	if (self->ev == NULL) {
		errno = ENOMEM;
		goto err_close_alarm;
	}
	self->now_ns = clock_read_ns(CLOCK_MONOTONIC);
	watchers_start(self);
	return &self->base;

err_close_alarm:
	(void)close(self->alarm_fd); /* nothing was written that could be lost */
err_close_wake:
	(void)close(self->wake_fd);
err_fini_timers:
	timer_heap_fini(&self->timers);
err_free:
	free(self);
	return NULL;
}
