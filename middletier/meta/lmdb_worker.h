/* SPDX-License-Identifier: Apache-2.0 */
/* lmdb_worker.h -- the two threads that do what a store in LMDB is asked for */
#ifndef CLEAVE_MIDDLETIER_META_LMDB_WORKER_H
#define CLEAVE_MIDDLETIER_META_LMDB_WORKER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "cleave/loop.h"
#include "meta/lmdb_store.h"

struct lmdb_leases;
struct meta_lmdb_workers;

/* Half of the store, and the thread that it belongs to. */
struct lmdb_worker {
	struct meta_lmdb_workers *workers;
	pthread_t thread;
	bool is_started;
	pthread_cond_t has_work;
	struct loop_link waiting;
	bool has_rung;       /* another process may have committed: look */
	uint64_t bell_ns;    /* when to look for processes that have died; 0: no need */
	uint32_t bell_count; /* how often that was done since it rang */
	struct lmdb_store store;
};

struct meta_lmdb_workers {
	struct lmdb_leases
	    *host;     /* the leased worker's: where it looks for processes that have died */
	int answer_fd; /* readable: there are answers, or others changed keys */
	struct lmdb_worker durable, leased;
	pthread_mutex_t mutex; /* all that follows, the lists and the bells of both */
	struct loop_link done;
	uint32_t request_count; /* waiting, at work, or done */
	bool is_closing;
	bool has_others; /* keys changed that no request of ours changed: call all watches */
};

/* meta_lmdb_workers_init -- no thread runs, neither half is open. 0; or the errno, and nothing is left. */
int meta_lmdb_workers_init(struct meta_lmdb_workers *workers, struct lmdb_leases *host,
    int64_t clock_offset_ns);
/* meta_lmdb_workers_fini -- no thread runs; requests are dropped, their handlers are not called. */
void meta_lmdb_workers_fini(struct meta_lmdb_workers *workers);
/* meta_lmdb_workers_start -- both halves are open. 0; or the errno, and no thread runs. */
int meta_lmdb_workers_start(struct meta_lmdb_workers *workers);
/* meta_lmdb_workers_end -- what waits is done first; then no thread runs. */
void meta_lmdb_workers_end(struct meta_lmdb_workers *workers);

/* These are the loop's. */

/* meta_lmdb_workers_submit -- a copy of @wanted, with what it owns. 0; -ENOMEM: no memory, or too many wait. */
int meta_lmdb_workers_submit(struct meta_lmdb_workers *workers, const struct lmdb_request *wanted);
/* meta_lmdb_workers_begin_answers -- answer_fd is readable. True: keys changed that no request of ours changed. */
bool meta_lmdb_workers_begin_answers(struct meta_lmdb_workers *workers);
/* meta_lmdb_workers_next_answer -- a request that has its answer, and is the caller's now; NULL: no more. */
struct lmdb_request *meta_lmdb_workers_next_answer(struct meta_lmdb_workers *workers);
void meta_lmdb_request_free(struct lmdb_request *request);
/* meta_lmdb_worker_ring -- another process may have committed; or, with @is_bell, one may have died. */
void meta_lmdb_worker_ring(struct lmdb_worker *worker, bool is_bell);

#endif /* CLEAVE_MIDDLETIER_META_LMDB_WORKER_H */
