/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meta_lmdb.c -- a metadata store in one directory; see meta_lmdb.h
 *
 *	call -> waiting -> [worker: one LMDB transaction, synced] -> done -> eventfd -> handler
 *
 * Requests are served in order by one thread. `mutex` covers the three lists and `is_closing`; the
 * environment belongs to the worker, watches and handlers to the loop. Answers reach the loop by an
 * eventfd and not by posts, so that closing can take everything back.
 *
 * lmdb_store.c is what a request does inside its transaction. The worker ends expired leases before
 * each request and, while there are any, when the next one is due.
 *
 * The doorbell of the other processes is inotify on data.mdb, which LMDB writes with pwrite: the
 * kernel rings it for every commit, also for the last one of a process that is killed right after
 * it, and nothing has to be cleaned up. Own commits ring it too and are told apart by their number.
 * The worker then looks: it learns of keys changed (watches are called) and of leases granted (it
 * knows when to wake).
 */
#include "meta_lmdb.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc.h"
#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "lmdb_store.h"
#include "meta_txn.h"

#define LMDB_MAGIC 0x424d444cu /* "LDMB" */
#define LMDB_PATH_BYTES_MAX 4096u
#define LMDB_REQUESTS_MAX 4096u

struct lmdb_watch {
	struct loop_link link;
	meta_watch_fn fn;
	void *arg;
	char prefix[];
};

struct meta_lmdb {
	struct meta base;
	struct loop *loop;
	struct loop_fd answers, doorbell;
	int answer_fd, doorbell_fd;
	int directory_fd, claim_fd; /* the store's; gateway-ID.lock, or -1 */
	pthread_t worker;
	pthread_mutex_t mutex;
	pthread_cond_t has_work;
	struct loop_link waiting, done;
	uint32_t request_count;
	bool is_closing;
	bool has_rung;   /* another process may have committed: look */
	bool has_others; /* keys changed that no request of ours changed: call all watches */
	struct loop_link watches;
	bool *ret_closed;        /* told when a handler closes the store under lmdb_on_answers */
	struct lmdb_store store; /* the worker's */
};

static void
worker_wait(struct meta_lmdb *lmdb)
{
	struct timespec until;
	uint64_t until_ns;

	if (lmdb->store.next_expiry_ns == 0) {
		(void)pthread_cond_wait(&lmdb->has_work, &lmdb->mutex);
		return;
	}
	until_ns = lmdb->store.next_expiry_ns + (uint64_t)lmdb->store.clock_offset_ns;
	until = (struct timespec){ .tv_sec = (time_t)(until_ns / 1000000000u),
		.tv_nsec = (long)(until_ns % 1000000000u) };
	(void)pthread_cond_timedwait(&lmdb->has_work, &lmdb->mutex, &until);
}

/* Is there anything to do without a request? */
static bool
worker_has_to_look(struct meta_lmdb *lmdb)
{
	bool has_rung = lmdb->has_rung;

	lmdb->has_rung = false;
	if (lmdb->store.next_expiry_ns != 0 &&
	    lmdb->store.next_expiry_ns <= lmdb_store_clock_ns(&lmdb->store))
		return true;
	return has_rung && lmdb_store_is_behind(&lmdb->store);
}

static void *
worker_main(void *arg)
{
	struct meta_lmdb *lmdb = arg;

	(void)pthread_mutex_lock(&lmdb->mutex);
	for (;;) {
		struct loop_link *link = list_pop_front(&lmdb->waiting);
		struct lmdb_request *request =
		    link == NULL ? NULL : LIST_ENTRY(link, struct lmdb_request, link);
		bool has_others;
		uint64_t one = 1;

		if (request == NULL && lmdb->is_closing)
			break;
		if (request == NULL && !worker_has_to_look(lmdb)) {
			worker_wait(lmdb);
			continue;
		}
		(void)pthread_mutex_unlock(&lmdb->mutex);
		lmdb_store_run(&lmdb->store, request, &has_others);
		(void)pthread_mutex_lock(&lmdb->mutex);
		lmdb->has_others |= has_others;
		if (request != NULL)
			list_push_back(&lmdb->done, &request->link);
		/* Fails only when the counter is full, and then the loop is awake anyway. */
		if (request != NULL || has_others)
			(void)!write(lmdb->answer_fd, &one, sizeof(one));
	}
	(void)pthread_mutex_unlock(&lmdb->mutex);
	return NULL;
}

/* ---- answers, on the loop ---- */

static void
request_free(struct lmdb_request *request)
{
	mt_free(request->txn);
	mt_free(request->prefix);
	mt_free(request->items);
	mt_free(request->text);
	mt_free(request);
}

static bool
request_touches(const struct lmdb_request *request, const char *prefix)
{
	if (request->kind != REQUEST_TXN)
		return true;
	for (uint32_t i = 0; i < request->txn->count; i++)
		if (request->txn->ops[i].kind != META_COMPARE_VERSION &&
		    meta_key_has_prefix(request->txn->ops[i].key, prefix))
			return true;
	return false;
}

/* @request NULL: anything may have changed. Stops when the store is closed. */
static void
watches_call(struct meta_lmdb *lmdb, const struct lmdb_request *request, const bool *is_closed)
{
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&lmdb->watches, link, next) {
		struct lmdb_watch *watch = LIST_ENTRY(link, struct lmdb_watch, link);

		if (request != NULL && !request_touches(request, watch->prefix))
			continue;
		watch->fn(watch->arg);
		if (*is_closed)
			return;
	}
}

static void
request_answer(struct lmdb_request *request)
{
	if (request->kind == REQUEST_TXN)
		request->txn_fn(request->rc, request->arg);
	else if (request->kind == REQUEST_LIST)
		request->list_fn(request->rc, request->rc == 0 ? request->items : NULL,
		    request->rc == 0 ? request->item_count : 0, request->arg);
	else
		request->lease_fn(request->rc, request->rc == 0 ? request->lease : 0, request->arg);
}

static void
lmdb_on_answers(struct loop_fd *watcher, unsigned events, void *arg)
{
	struct meta_lmdb *lmdb = arg;
	struct loop_link *link;
	uint64_t count;
	bool is_closed = false, has_others;

	(void)watcher;
	(void)events;
	(void)!read(lmdb->answer_fd, &count, sizeof(count)); /* only resets it */
	lmdb->ret_closed = &is_closed;
	(void)pthread_mutex_lock(&lmdb->mutex);
	has_others = lmdb->has_others;
	lmdb->has_others = false;
	while ((link = list_pop_front(&lmdb->done)) != NULL) {
		struct lmdb_request *request = LIST_ENTRY(link, struct lmdb_request, link);

		lmdb->request_count--;
		(void)pthread_mutex_unlock(&lmdb->mutex);
		request_answer(request);
		if (!is_closed && request->has_changed)
			watches_call(lmdb, request, &is_closed);
		request_free(request);
		if (is_closed)
			return;
		(void)pthread_mutex_lock(&lmdb->mutex);
	}
	(void)pthread_mutex_unlock(&lmdb->mutex);
	if (has_others)
		watches_call(lmdb, NULL, &is_closed);
	if (!is_closed)
		lmdb->ret_closed = NULL;
}

/* Another process committed, or this one. */
static void
lmdb_on_doorbell(struct loop_fd *watcher, unsigned events, void *arg)
{
	struct meta_lmdb *lmdb = arg;
	char ignored[16 * sizeof(struct inotify_event)];

	(void)watcher;
	(void)events;
	/* Same events in a row are one, so one read gets nearly all; what is left rings again. */
	(void)!read(lmdb->doorbell_fd, ignored, sizeof(ignored));
	(void)pthread_mutex_lock(&lmdb->mutex);
	lmdb->has_rung = true;
	(void)pthread_cond_signal(&lmdb->has_work);
	(void)pthread_mutex_unlock(&lmdb->mutex);
}

/* ---- calls, on the loop ---- */

static int
request_submit(struct meta_lmdb *lmdb, const struct lmdb_request *wanted)
{
	struct lmdb_request *request;
	int rc = 0;

	request = mt_calloc(1, sizeof(*request));
	if (request == NULL)
		return -ENOMEM;
	*request = *wanted;
	(void)pthread_mutex_lock(&lmdb->mutex);
	if (lmdb->request_count == LMDB_REQUESTS_MAX) {
		rc = -ENOMEM;
	} else {
		lmdb->request_count++;
		list_push_back(&lmdb->waiting, &request->link);
		(void)pthread_cond_signal(&lmdb->has_work);
	}
	(void)pthread_mutex_unlock(&lmdb->mutex);
	if (rc != 0)
		mt_free(request);
	return rc;
}

static struct meta_lmdb *
lmdb_of(struct meta *meta)
{
	CHECK_OBJ(meta, LMDB_MAGIC);
	return NUM_CONTAINER_OF(meta, struct meta_lmdb, base);
}

static int
lmdb_txn(struct meta *meta, const struct meta_op *ops, uint32_t count, meta_txn_fn fn, void *arg)
{
	struct lmdb_request request = { .kind = REQUEST_TXN, .txn_fn = fn, .arg = arg };
	int rc = meta_txn_copy(ops, count, &request.txn);

	if (rc != 0)
		return rc;
	rc = request_submit(lmdb_of(meta), &request);
	if (rc != 0)
		mt_free(request.txn);
	return rc;
}

static int
lmdb_list(struct meta *meta, const char *prefix, meta_list_fn fn, void *arg)
{
	struct lmdb_request request = { .kind = REQUEST_LIST, .list_fn = fn, .arg = arg };
	int rc;

	if (!meta_prefix_is_valid(prefix))
		return -EINVAL;
	request.prefix = mt_strdup(prefix);
	if (request.prefix == NULL)
		return -ENOMEM;
	rc = request_submit(lmdb_of(meta), &request);
	if (rc != 0)
		mt_free(request.prefix);
	return rc;
}

static int
lmdb_lease_grant(struct meta *meta, uint64_t ttl_ns, meta_lease_fn fn, void *arg)
{
	struct lmdb_request request = { .kind = REQUEST_GRANT,
		.ttl_ns = ttl_ns,
		.lease_fn = fn,
		.arg = arg };

	return ttl_ns == 0 ? -EINVAL : request_submit(lmdb_of(meta), &request);
}

static int
lmdb_lease_renew(struct meta *meta, uint64_t lease, meta_lease_fn fn, void *arg)
{
	struct lmdb_request request = { .kind = REQUEST_RENEW,
		.lease = lease,
		.lease_fn = fn,
		.arg = arg };

	return request_submit(lmdb_of(meta), &request);
}

static int
lmdb_lease_revoke(struct meta *meta, uint64_t lease, meta_lease_fn fn, void *arg)
{
	struct lmdb_request request = { .kind = REQUEST_REVOKE,
		.lease = lease,
		.lease_fn = fn,
		.arg = arg };

	return request_submit(lmdb_of(meta), &request);
}

static int
lmdb_watch(struct meta *meta, const char *prefix, meta_watch_fn fn, void *arg)
{
	struct meta_lmdb *lmdb = lmdb_of(meta);
	struct lmdb_watch *watch;

	if (!meta_prefix_is_valid(prefix))
		return -EINVAL;
	watch = mt_calloc(1, sizeof(*watch) + strlen(prefix) + 1);
	if (watch == NULL)
		return -ENOMEM;
	watch->fn = fn;
	watch->arg = arg;
	memcpy(watch->prefix, prefix, strlen(prefix) + 1);
	list_push_back(&lmdb->watches, &watch->link);
	return 0;
}

static void
lmdb_unwatch(struct meta *meta, meta_watch_fn fn, void *arg)
{
	struct meta_lmdb *lmdb = lmdb_of(meta);
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&lmdb->watches, link, next) {
		struct lmdb_watch *watch = LIST_ENTRY(link, struct lmdb_watch, link);

		if (watch->fn == fn && watch->arg == arg) {
			list_remove(&watch->link);
			mt_free(watch);
		}
	}
}

/* ---- opening and closing ---- */

static void
requests_free(struct loop_link *list)
{
	struct loop_link *link;

	while ((link = list_pop_front(list)) != NULL)
		request_free(LIST_ENTRY(link, struct lmdb_request, link));
}

static void
lmdb_free(struct meta_lmdb *lmdb)
{
	lmdb_store_close(&lmdb->store);
	if (lmdb->answer_fd >= 0)
		(void)close(lmdb->answer_fd);
	if (lmdb->doorbell_fd >= 0)
		(void)close(lmdb->doorbell_fd);
	if (lmdb->claim_fd >= 0)
		(void)close(lmdb->claim_fd); /* and with it the lock */
	if (lmdb->directory_fd >= 0)
		(void)close(lmdb->directory_fd);
	(void)pthread_cond_destroy(&lmdb->has_work);
	(void)pthread_mutex_destroy(&lmdb->mutex);
	lmdb->base.magic = 0;
	mt_free(lmdb);
}

static void
lmdb_close(struct meta *meta)
{
	struct meta_lmdb *lmdb = lmdb_of(meta);
	struct loop_link *link;

	(void)pthread_mutex_lock(&lmdb->mutex);
	lmdb->is_closing = true; /* what waits is done first */
	(void)pthread_cond_signal(&lmdb->has_work);
	(void)pthread_mutex_unlock(&lmdb->mutex);
	(void)pthread_join(lmdb->worker, NULL);
	loop_fd_stop(lmdb->loop, &lmdb->answers);
	loop_fd_stop(lmdb->loop, &lmdb->doorbell);
	requests_free(&lmdb->waiting);
	requests_free(&lmdb->done);
	while ((link = list_pop_front(&lmdb->watches)) != NULL)
		mt_free(LIST_ENTRY(link, struct lmdb_watch, link));
	if (lmdb->ret_closed != NULL)
		*lmdb->ret_closed = true;
	lmdb_free(lmdb);
}

static const struct meta_ops lmdb_ops = {
	.name = "lmdb",
	.txn = lmdb_txn,
	.list = lmdb_list,
	.lease_grant = lmdb_lease_grant,
	.lease_renew = lmdb_lease_renew,
	.lease_revoke = lmdb_lease_revoke,
	.watch = lmdb_watch,
	.unwatch = lmdb_unwatch,
	.close = lmdb_close,
};

static int
open_directory(struct meta_lmdb *lmdb, const char *path, char *ret_error, size_t error_bytes)
{
	int rc = 0;

	if (mkdir(path, 0700) != 0 && errno != EEXIST)
		rc = -errno;
	if (rc == 0)
		lmdb->directory_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (rc == 0 && lmdb->directory_fd < 0)
		rc = -errno;
	if (rc != 0)
		(void)snprintf(ret_error, error_bytes, "%s: %s", path, strerror(-rc));
	return rc;
}

int
meta_lmdb_claim_id(struct meta *meta, uint64_t gateway_id, char *ret_error, size_t error_bytes)
{
	struct meta_lmdb *lmdb = lmdb_of(meta);
	char name[64];
	int fd, rc;

	(void)snprintf(name, sizeof(name), "gateway-%" PRIu64 ".lock", gateway_id);
	if (lmdb->claim_fd >= 0) {
		(void)snprintf(ret_error, error_bytes, "this process has claimed an id already");
		return -EBUSY;
	}
	fd = openat(lmdb->directory_fd, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) {
		lmdb->claim_fd = fd;
		return 0;
	}
	rc = errno == EWOULDBLOCK ? -EBUSY : -errno;
	if (fd >= 0)
		(void)close(fd);
	if (rc == -EBUSY)
		(void)snprintf(ret_error, error_bytes,
		    "gateway %" PRIu64 " runs already on this host (%s is locked)", gateway_id,
		    name);
	else
		(void)snprintf(ret_error, error_bytes, "%s: %s", name, strerror(-rc));
	return rc;
}

/* Which boot of the machine this is: the monotonic clock means nothing in another. */
static int
read_boot_id(char boot[LMDB_BOOT_BYTES])
{
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, boot, LMDB_BOOT_BYTES);
	(void)close(fd);
	return n == (ssize_t)LMDB_BOOT_BYTES ? 0 : -EIO;
}

/*
 * Where there are no time namespaces there is no such file, and no offset. The file is about those
 * that are forked: the same, unless this process has just made a namespace for them.
 */
static int64_t
read_clock_offset(void)
{
	char text[256], own[64] = "", theirs[64] = "";
	int fd = open("/proc/self/timens_offsets", O_RDONLY | O_CLOEXEC);
	ssize_t bytes;

	if (fd < 0)
		return 0;
	bytes = read(fd, text, sizeof(text) - 1);
	(void)close(fd);
	if (bytes <= 0 || readlink("/proc/self/ns/time", own, sizeof(own) - 1) <= 0 ||
	    readlink("/proc/self/ns/time_for_children", theirs, sizeof(theirs) - 1) <= 0 ||
	    strcmp(own, theirs) != 0)
		return 0;
	text[bytes] = '\0';
	return lmdb_clock_offset_read(text);
}

static int
start_doorbell(struct meta_lmdb *lmdb, const char *path)
{
	char file[LMDB_PATH_BYTES_MAX];

	if ((size_t)snprintf(file, sizeof(file), "%s/data.mdb", path) >= sizeof(file))
		return -ENAMETOOLONG;
	lmdb->doorbell_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (lmdb->doorbell_fd < 0 || inotify_add_watch(lmdb->doorbell_fd, file, IN_MODIFY) < 0)
		return -errno;
	loop_fd_init(&lmdb->doorbell, lmdb->doorbell_fd, lmdb_on_doorbell, lmdb);
	return loop_fd_start(lmdb->loop, &lmdb->doorbell, LOOP_READABLE);
}

static int
start_worker(struct meta_lmdb *lmdb, const char *path)
{
	int rc;

	rc = start_doorbell(lmdb, path);
	if (rc != 0)
		return rc;
	lmdb->has_rung = true; /* leases of before may be over or due */
	lmdb->answer_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (lmdb->answer_fd < 0) {
		rc = -errno;
		goto err_doorbell;
	}
	loop_fd_init(&lmdb->answers, lmdb->answer_fd, lmdb_on_answers, lmdb);
	rc = loop_fd_start(lmdb->loop, &lmdb->answers, LOOP_READABLE);
	if (rc != 0)
		goto err_doorbell;
	rc = -pthread_create(&lmdb->worker, NULL, worker_main, lmdb);
	if (rc != 0)
		goto err_answers;
	return 0;

err_answers:
	loop_fd_stop(lmdb->loop, &lmdb->answers);
err_doorbell:
	loop_fd_stop(lmdb->loop, &lmdb->doorbell);
	return rc;
}

static struct meta_lmdb *
lmdb_alloc(struct loop *loop)
{
	struct meta_lmdb *lmdb = mt_calloc(1, sizeof(*lmdb));
	pthread_condattr_t attr;

	if (lmdb == NULL)
		return NULL;
	lmdb->base = (struct meta){ .magic = LMDB_MAGIC, .ops = &lmdb_ops };
	lmdb->loop = loop;
	lmdb->answer_fd = lmdb->doorbell_fd = -1;
	lmdb->directory_fd = lmdb->claim_fd = -1;
	list_init(&lmdb->waiting);
	list_init(&lmdb->done);
	list_init(&lmdb->watches);
	/* None of these can fail with these arguments on Linux. */
	(void)pthread_mutex_init(&lmdb->mutex, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&lmdb->has_work, &attr);
	(void)pthread_condattr_destroy(&attr);
	return lmdb;
}

struct meta *
meta_lmdb_open(struct loop *loop, const char *path, char *ret_error, size_t error_bytes)
{
	struct meta_lmdb *lmdb = lmdb_alloc(loop);
	int rc;

	if (lmdb == NULL) {
		(void)snprintf(ret_error, error_bytes, "out of memory");
		return NULL;
	}
	if (open_directory(lmdb, path, ret_error, error_bytes) != 0)
		goto err_free;
	rc = lmdb_store_open(&lmdb->store, path);
	if (rc != 0) {
		(void)snprintf(ret_error, error_bytes, "%s: %s", path, mdb_strerror(rc));
		goto err_free;
	}
	lmdb->store.clock_offset_ns = read_clock_offset();
	rc = read_boot_id(lmdb->store.boot);
	if (rc == 0)
		rc = start_worker(lmdb, path);
	if (rc != 0) {
		(void)snprintf(ret_error, error_bytes, "%s: %s", path, strerror(-rc));
		goto err_free;
	}
	return &lmdb->base;

err_free:
	lmdb_free(lmdb);
	return NULL;
}
