/* SPDX-License-Identifier: Apache-2.0 */
/*
 * errand.c -- see errand.h
 *
 * One lock for all that is shared: errands are rare. Threads are detached and end when nothing waits, so a
 * process may end, and a loop too, while one of them hangs.
 *
 *	waiting --(a thread is free, nobody runs of its key)--> running --> finished, at its desk --> done
 *	   '--(another one of its key has ended)--> finished
 */
#include "base/errand.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/list.h"
#include "base/num.h"

static struct {
	pthread_mutex_t lock;
	struct loop_link waiting, running;
	uint32_t thread_count;
} errands = { .lock = PTHREAD_MUTEX_INITIALIZER,
	.waiting = { &errands.waiting, &errands.waiting },
	.running = { &errands.running, &errands.running } };

static struct errand *
errand_of(struct loop_link *link)
{
	assert(link != NULL);
	return LIST_ENTRY(link, struct errand, queue_link);
}

/* ---- the threads; errands.lock is held but in work ---- */

static bool
key_is_running(const char *key)
{
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&errands.running, link, next) {
		const struct errand *errand = errand_of(link);

		if (key != NULL && errand->key != NULL && strcmp(errand->key, key) == 0)
			return true;
	}
	return false;
}

/* The oldest that may run; NULL: none. */
static struct errand *
errand_next(void)
{
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&errands.waiting, link, next) {
		if (!key_is_running(errand_of(link)->key))
			return errand_of(link);
	}
	return NULL;
}

static void
errand_finish(struct errand *errand)
{
	struct errand_desk *desk = errand->desk;
	uint64_t one = 1;

	assert(!errand->is_running && !list_contains(&errand->queue_link));
	assert(desk != NULL);
	list_push_back(&desk->finished, &errand->queue_link);
	/* Fails only when the counter is full, and then the bell has rung. */
	(void)!write(desk->watcher.fd, &one, sizeof(one));
}

/* Errands that wait for the same have it, too. */
static void
errand_share(const struct errand *finished)
{
	struct loop_link *link, *next;

	assert(!finished->is_running);
	if (finished->key == NULL)
		return;
	LIST_FOREACH_SAFE(&errands.waiting, link, next) {
		struct errand *errand = errand_of(link);

		if (errand->key == NULL || strcmp(errand->key, finished->key) != 0)
			continue;
		list_remove(link);
		errand->share(errand, finished);
		errand_finish(errand);
	}
}

static void *
errand_thread(void *arg)
{
	struct errand *errand;

	(void)arg;
	(void)pthread_mutex_lock(&errands.lock); /* of the default kind: cannot fail */
	while ((errand = errand_next()) != NULL) {
		assert(!errand->is_running && errand->work != NULL);
		list_remove(&errand->queue_link);
		list_push_back(&errands.running, &errand->queue_link);
		errand->is_running = true;
		(void)pthread_mutex_unlock(&errands.lock);
		errand->work(errand);
		(void)pthread_mutex_lock(&errands.lock);
		list_remove(&errand->queue_link);
		errand->is_running = false;
		errand_share(errand);
		if (errand->desk != NULL)
			errand_finish(errand);
		else
			errand->drop(errand);
	}
	errands.thread_count--;
	(void)pthread_mutex_unlock(&errands.lock);
	return NULL;
}

/* A thread that gets no signal: they are the program's. 0 or a negative errno. */
static int
thread_start(void)
{
	sigset_t all, old;
	pthread_attr_t attr;
	pthread_t thread;
	int rc;

	rc = -pthread_attr_init(&attr);
	if (rc != 0)
		return rc;
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED); /* a valid state */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old); /* valid arguments */
	rc = -pthread_create(&thread, &attr, errand_thread, NULL);
	if (rc == 0)
		(void)pthread_setname_np(thread, "errand"); /* for those who look at it */
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	(void)pthread_attr_destroy(&attr);
	return rc;
}

/* ---- the desk ---- */

static void
desk_tell(struct errand_desk *desk)
{
	struct loop_link *link;
	uint64_t rings;

	/* Nothing to learn from the result: the list says what is finished. */
	(void)!read(desk->watcher.fd, &rings, sizeof(rings));
	(void)pthread_mutex_lock(&errands.lock);
	while ((link = list_pop_front(&desk->finished)) != NULL) {
		struct errand *errand = errand_of(link);

		list_remove(&errand->desk_link);
		errand->desk = NULL;
		(void)pthread_mutex_unlock(&errands.lock);
		errand->done(errand);
		(void)pthread_mutex_lock(&errands.lock);
	}
	(void)pthread_mutex_unlock(&errands.lock);
}

static void
desk_on_ring(struct loop_fd *watcher, unsigned events, void *arg)
{
	assert(watcher == &((struct errand_desk *)arg)->watcher);
	(void)watcher;
	(void)events;
	desk_tell(arg);
}

int
errand_desk_init(struct errand_desk *desk, struct loop *loop)
{
	int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	int rc;

	if (fd < 0)
		return -errno;
	*desk = (struct errand_desk){ .loop = loop };
	list_init(&desk->errands);
	list_init(&desk->finished);
	loop_fd_init(&desk->watcher, fd, desk_on_ring, desk);
	rc = loop != NULL ? loop_fd_start(loop, &desk->watcher, LOOP_READABLE) : 0;
	if (rc != 0)
		(void)close(fd); /* nothing was written */
	return rc;
}

/* errands.lock is held. */
static void
errand_let_go(struct errand *errand)
{
	assert(errand->desk != NULL);
	list_remove(&errand->desk_link);
	errand->desk = NULL;
	if (errand->is_running)
		return; /* its thread drops it */
	list_remove(&errand->queue_link);
	errand->drop(errand);
}

void
errand_desk_fini(struct errand_desk *desk)
{
	struct loop_link *link;

	assert(desk->watcher.fd >= 0);
	(void)pthread_mutex_lock(&errands.lock);
	while ((link = list_first(&desk->errands)) != NULL)
		errand_let_go(LIST_ENTRY(link, struct errand, desk_link));
	(void)pthread_mutex_unlock(&errands.lock);
	if (desk->loop != NULL)
		loop_fd_stop(desk->loop, &desk->watcher);
	(void)close(desk->watcher.fd); /* nothing that counts was written */
}

void
errand_desk_wait(struct errand_desk *desk, uint64_t timeout_ns)
{
	struct pollfd bell = { .fd = desk->watcher.fd, .events = POLLIN };
	struct timespec timeout = { .tv_sec = (time_t)(timeout_ns / NUM_S(1)),
		.tv_nsec = (long)(timeout_ns % NUM_S(1)) };

	assert(desk->loop == NULL);
	(void)ppoll(&bell, 1, &timeout, NULL); /* a signal ends it early: the caller looks */
	desk_tell(desk);
}

int
errand_start(struct errand_desk *desk, struct errand *errand)
{
	int rc = 0;

	assert(desk->watcher.fd >= 0 && !errand->is_running);
	assert(errand->work != NULL && errand->done != NULL && errand->drop != NULL);
	assert(errand->key == NULL || errand->share != NULL);
	assert(errand->desk == NULL);
	(void)pthread_mutex_lock(&errands.lock);
	if (errands.thread_count < ERRAND_THREADS_MAX && !key_is_running(errand->key)) {
		rc = thread_start();
		errands.thread_count += rc == 0;
	}
	/* A thread that runs already takes it when it is free. */
	if (rc == 0 || errands.thread_count > 0) {
		rc = 0;
		errand->desk = desk;
		list_push_back(&desk->errands, &errand->desk_link);
		list_push_back(&errands.waiting, &errand->queue_link);
	}
	(void)pthread_mutex_unlock(&errands.lock);
	return rc;
}

void
errand_abandon(struct errand *errand)
{
	(void)pthread_mutex_lock(&errands.lock);
	errand_let_go(errand);
	(void)pthread_mutex_unlock(&errands.lock);
}
