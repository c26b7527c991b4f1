/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lmdb_worker.c -- the two threads that do what a store in LMDB is asked for
 *
 *	      +--> waiting --> [durable worker: a transaction, synced] -----+
 *	call -+                                                             +--> done -> eventfd -> handler
 *	      +--> waiting --> [leased worker: a transaction in memory] ----+
 *
 * Requests about leases and leased keys alone go to the leased worker, all others to the durable one,
 * which may stand in a commit for as long as the disk likes (lmdb_store.c). `mutex` covers the lists,
 * the bells and `is_closing`; each half of the store belongs to its worker.
 *
 * The leased worker ends expired leases before each request and, while there are any, when the next one is
 * due. When a process may have died it looks some times, with pauses between: the kernel rings just
 * before it lets that process's lock go.
 */
#include "meta/lmdb_worker.h"

#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "common/alloc.h"
#include "meta/lmdb_lease_table.h"
#include "meta/lmdb_leases.h"
#include "meta/lmdb_store.h"

#define LMDB_REQUESTS_MAX 4096u

static const uint64_t bell_pauses_ns[] = { NUM_MS(1), NUM_MS(5), NUM_MS(20), NUM_MS(100) };

/* ---- on its thread ---- */

static void
worker_wait(struct lmdb_worker *worker)
{
	struct lmdb_store *store = &worker->store;
	struct timespec until;
	uint64_t until_ns = store->next_expiry_ns;

	assert(list_is_empty(&worker->waiting));
	assert(!worker->workers->is_closing);
	if (worker->bell_ns != 0 && (until_ns == 0 || worker->bell_ns < until_ns))
		until_ns = worker->bell_ns;
	if (until_ns == 0) {
		(void)pthread_cond_wait(&worker->has_work, &worker->workers->mutex);
		return;
	}
	until_ns += (uint64_t)store->clock_offset_ns;
	until = (struct timespec){ .tv_sec = (time_t)(until_ns / 1000000000u),
		.tv_nsec = (long)(until_ns % 1000000000u) };
	(void)pthread_cond_timedwait(&worker->has_work, &worker->workers->mutex, &until);
}

static bool
worker_is_bell(const struct lmdb_worker *worker)
{
	return worker->bell_ns != 0 && worker->bell_ns <= lmdb_store_clock_ns(&worker->store);
}

/* Is there anything to do without a request? */
static bool
worker_has_to_look(struct lmdb_worker *worker)
{
	bool has_rung = worker->has_rung;

	worker->has_rung = false;
	if (worker_is_bell(worker))
		return true;
	if (worker->store.next_expiry_ns != 0 &&
	    worker->store.next_expiry_ns <= lmdb_store_clock_ns(&worker->store))
		return true;
	return has_rung && lmdb_store_is_behind(&worker->store);
}

/* The dead were looked for: once more, while anybody else holds a lease? */
static void
worker_bell_next(struct lmdb_worker *worker)
{
	assert(worker->store.leased == NULL);
	worker->bell_ns = 0;
	if (!worker->store.has_foreign || worker->bell_count >= NUM_COUNT(bell_pauses_ns))
		return;
	worker->bell_ns = lmdb_store_clock_ns(&worker->store) +
	    bell_pauses_ns[worker->bell_count++];
}

static void *
worker_main(void *arg)
{
	struct lmdb_worker *worker = arg;
	struct meta_lmdb_workers *workers = worker->workers;

	(void)pthread_mutex_lock(&workers->mutex);
	for (;;) {
		struct loop_link *link = list_pop_front(&worker->waiting);
		struct lmdb_request *request =
		    link == NULL ? NULL : LIST_ENTRY(link, struct lmdb_request, link);
		bool has_others, is_bell;
		uint64_t one = 1;

		if (request == NULL && workers->is_closing)
			break;
		if (request == NULL && !worker_has_to_look(worker)) {
			worker_wait(worker);
			continue;
		}
		is_bell = worker_is_bell(worker);
		if (is_bell)
			worker->bell_ns = 0;
		(void)pthread_mutex_unlock(&workers->mutex);
		lmdb_store_run(&worker->store, request, is_bell, &has_others);
		if (is_bell)
			lmdb_leases_sweep(workers->host);
		(void)pthread_mutex_lock(&workers->mutex);
		if (is_bell && worker->bell_ns == 0)
			worker_bell_next(worker);
		workers->has_others |= has_others;
		if (request != NULL)
			list_push_back(&workers->done, &request->link);
		/* Fails only when the counter is full, and then the loop is awake anyway. */
		if (request != NULL || has_others)
			(void)!write(workers->answer_fd, &one, sizeof(one));
	}
	(void)pthread_mutex_unlock(&workers->mutex);
	return NULL;
}

/* ---- on the loop ---- */

void
meta_lmdb_request_free(struct lmdb_request *request)
{
	assert(!list_contains(&request->link));
	mt_free(request->txn);
	mt_free(request->prefix);
	mt_free(request->items);
	mt_free(request->text);
	mt_free(request);
}

int
meta_lmdb_workers_submit(struct meta_lmdb_workers *workers, const struct lmdb_request *wanted)
{
	struct lmdb_worker *worker = lmdb_request_is_leased(wanted) ? &workers->leased
								    : &workers->durable;
	struct lmdb_request *request;
	int rc = 0;

	assert((wanted->kind == REQUEST_TXN) == (wanted->txn != NULL));
	assert((wanted->kind == REQUEST_LIST) == (wanted->prefix != NULL));
	assert(!workers->is_closing);
	request = mt_calloc(1, sizeof(*request));
	if (request == NULL)
		return -ENOMEM;
	*request = *wanted;
	(void)pthread_mutex_lock(&workers->mutex);
	if (workers->request_count == LMDB_REQUESTS_MAX) {
		rc = -ENOMEM;
	} else {
		workers->request_count++;
		list_push_back(&worker->waiting, &request->link);
		(void)pthread_cond_signal(&worker->has_work);
	}
	(void)pthread_mutex_unlock(&workers->mutex);
	if (rc != 0)
		mt_free(request);
	return rc;
}

bool
meta_lmdb_workers_begin_answers(struct meta_lmdb_workers *workers)
{
	uint64_t count;
	bool has_others;

	(void)!read(workers->answer_fd, &count, sizeof(count)); /* only resets it */
	(void)pthread_mutex_lock(&workers->mutex);
	has_others = workers->has_others;
	workers->has_others = false;
	(void)pthread_mutex_unlock(&workers->mutex);
	return has_others;
}

struct lmdb_request *
meta_lmdb_workers_next_answer(struct meta_lmdb_workers *workers)
{
	struct loop_link *link;

	(void)pthread_mutex_lock(&workers->mutex);
	link = list_pop_front(&workers->done);
	if (link != NULL) {
		assert(workers->request_count > 0);
		workers->request_count--;
	}
	(void)pthread_mutex_unlock(&workers->mutex);
	return link == NULL ? NULL : LIST_ENTRY(link, struct lmdb_request, link);
}

void
meta_lmdb_worker_ring(struct lmdb_worker *worker, bool is_bell)
{
	assert(!is_bell || worker->store.leased == NULL);
	(void)pthread_mutex_lock(&worker->workers->mutex);
	worker->has_rung = true;
	if (is_bell) {
		worker->bell_ns = lmdb_store_clock_ns(&worker->store);
		worker->bell_count = 0;
	}
	(void)pthread_cond_signal(&worker->has_work);
	(void)pthread_mutex_unlock(&worker->workers->mutex);
}

/* ---- their life ---- */

static void
worker_init(struct lmdb_worker *worker, struct meta_lmdb_workers *workers)
{
	pthread_condattr_t attr;

	worker->workers = workers;
	list_init(&worker->waiting);
	/* None of these can fail with these arguments on Linux. */
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&worker->has_work, &attr);
	(void)pthread_condattr_destroy(&attr);
}

int
meta_lmdb_workers_init(struct meta_lmdb_workers *workers, struct lmdb_leases *host,
    int64_t clock_offset_ns)
{
	assert(host != NULL);
	*workers = (struct meta_lmdb_workers){ .host = host };
	workers->answer_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (workers->answer_fd < 0)
		return -errno;
	list_init(&workers->done);
	(void)pthread_mutex_init(&workers->mutex, NULL); /* cannot fail on Linux */
	worker_init(&workers->durable, workers);
	worker_init(&workers->leased, workers);
	workers->durable.store.leased = &workers->leased.store;
	workers->durable.store.clock_offset_ns = workers->leased.store.clock_offset_ns =
	    clock_offset_ns;
	return 0;
}

static void
requests_free(struct loop_link *list)
{
	struct loop_link *link;

	while ((link = list_pop_front(list)) != NULL)
		meta_lmdb_request_free(LIST_ENTRY(link, struct lmdb_request, link));
}

void
meta_lmdb_workers_fini(struct meta_lmdb_workers *workers)
{
	assert(!workers->durable.is_started);
	assert(!workers->leased.is_started);
	requests_free(&workers->durable.waiting);
	requests_free(&workers->leased.waiting);
	requests_free(&workers->done);
	(void)close(workers->answer_fd);
	(void)pthread_cond_destroy(&workers->durable.has_work);
	(void)pthread_cond_destroy(&workers->leased.has_work);
	(void)pthread_mutex_destroy(&workers->mutex);
}

static int
worker_start(struct lmdb_worker *worker)
{
	int rc = -pthread_create(&worker->thread, NULL, worker_main, worker);

	assert(!worker->is_started);
	assert(worker->store.env != NULL);
	worker->is_started = rc == 0;
	return rc;
}

int
meta_lmdb_workers_start(struct meta_lmdb_workers *workers)
{
	int rc = worker_start(&workers->durable);

	assert(!workers->is_closing);
	if (rc == 0)
		rc = worker_start(&workers->leased);
	if (rc != 0)
		meta_lmdb_workers_end(workers);
	return rc;
}

void
meta_lmdb_workers_end(struct meta_lmdb_workers *workers)
{
	struct lmdb_worker *both[] = { &workers->durable, &workers->leased };

	assert(!workers->is_closing);
	(void)pthread_mutex_lock(&workers->mutex);
	workers->is_closing = true;
	for (uint32_t i = 0; i < NUM_COUNT(both); i++)
		(void)pthread_cond_signal(&both[i]->has_work);
	(void)pthread_mutex_unlock(&workers->mutex);
	for (uint32_t i = 0; i < NUM_COUNT(both); i++) {
		if (both[i]->is_started)
			(void)pthread_join(both[i]->thread, NULL);
		both[i]->is_started = false;
	}
}
