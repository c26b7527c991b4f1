/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meta_lmdb.c -- a metadata store in one directory; see meta_lmdb.h
 *
 * The seam and the doorbells, on the loop. lmdb_worker.c has the two threads that do the work; answers reach
 * the loop by an eventfd and not by posts, so that closing can take everything back.
 *
 * The doorbell of the other processes is inotify on each half's data.mdb, which LMDB writes with pwrite: the kernel
 * rings it for every commit, also for the last one of a process that is killed right after it, and nothing has to be
 * cleaned up. Own commits ring it too and are told apart by their number. The worker then looks: it learns of keys
 * changed (watches are called) and of leases granted (it knows when to wake).
 *
 * The kernel also rings when the file by which a process holds its leases is closed: the leased worker looks
 * which processes have died, and ends their leases (lmdb_leases.h). It rings just before it lets the lock go, so the
 * worker looks again, some times; what it misses, the lease's own time ends.
 */
#include "meta/meta_lmdb.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "common/alloc.h"
#include "meta/lmdb_lease_table.h"
#include "meta/lmdb_leases.h"
#include "meta/lmdb_place.h"
#include "meta/lmdb_sight.h"
#include "meta/lmdb_store.h"
#include "meta/lmdb_worker.h"
#include "meta/meta_txn.h"
#include "meta/meta_watches.h"

#define LMDB_MAGIC 0x424d444cu /* "LDMB" */
#define LMDB_PATH_BYTES_MAX 4096u
#define LMDB_FAILING_BYTES 256u
#define LMDB_ROOM_BYTES NUM_MIB(1) /* of a file system: less is none, for a commit */
#define DOORBELL_BYTES (16u * (sizeof(struct inotify_event) + 64u))

struct meta_lmdb {
	struct meta base;
	struct loop *loop;
	struct loop_fd answers, doorbell;
	int doorbell_fd;
	int durable_wd, leased_wd;  /* of the doorbell */
	int directory_fd, claim_fd; /* the store's; gateway-ID.lock, or -1 */
	struct lmdb_leases host;
	char place[META_PLACE_BYTES]; /* of the durable half's data.mdb, as it was opened */
	struct lmdb_sight sight;
	int failed_rc;         /* of the last change of durable keys; 0: it was taken */
	bool was_out_of_space; /* the file system has none left */
	char failing[LMDB_FAILING_BYTES];
	struct meta_lmdb_workers workers;
	struct loop_link watches;
	bool *ret_closed; /* told when a handler closes the store under lmdb_on_answers */
};

/* ---- answers, on the loop ---- */

static bool
request_touches(const struct lmdb_request *request, const char *prefix)
{
	assert(request->kind != REQUEST_TXN || request->txn != NULL);
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

	assert(!*is_closed);
	LIST_FOREACH_SAFE(&lmdb->watches, link, next) {
		struct meta_watch *watch = LIST_ENTRY(link, struct meta_watch, link);

		watch->is_due = request == NULL || request_touches(request, watch->prefix);
	}
	meta_watches_call(&lmdb->watches, is_closed);
}

/* Bytes that the store's file system has left; UINT64_MAX: that cannot be told. */
static uint64_t
room_bytes(const struct meta_lmdb *lmdb)
{
	struct statvfs status;

	return fstatvfs(lmdb->directory_fd, &status) == 0
	    ? (uint64_t)status.f_bavail * status.f_frsize
	    : UINT64_MAX;
}

/* A change of durable keys: was it taken? A refusal says nothing of that. */
static void
failing_note(struct meta_lmdb *lmdb, struct lmdb_request *request)
{
	int rc = request->rc;
	bool is_full;

	if (request->kind != REQUEST_TXN || rc == -EAGAIN || rc == -ENOENT || rc == -ENOMEM ||
	    lmdb_request_is_leased(request))
		return;
	/* LMDB calls a write that was cut short EIO; and on a full file system some changes fit all the while. */
	is_full = (rc != 0 || lmdb->was_out_of_space) && room_bytes(lmdb) < LMDB_ROOM_BYTES;
	request->rc = rc == -EIO && is_full ? -ENOSPC : rc;
	if (rc != 0 || !is_full)
		lmdb->failed_rc = request->rc;
	lmdb->was_out_of_space = is_full;
}

static void
request_answer(struct lmdb_request *request)
{
	assert(request->rc <= 0);
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
	struct lmdb_request *request;
	bool is_closed = false, has_others;

	assert(lmdb->ret_closed == NULL);
	(void)watcher;
	(void)events;
	lmdb->ret_closed = &is_closed;
	has_others = meta_lmdb_workers_begin_answers(&lmdb->workers);
	while ((request = meta_lmdb_workers_next_answer(&lmdb->workers)) != NULL) {
		failing_note(lmdb, request);
		request_answer(request);
		if (!is_closed && request->has_changed)
			watches_call(lmdb, request, &is_closed);
		meta_lmdb_request_free(request);
		if (is_closed)
			return;
	}
	if (has_others)
		watches_call(lmdb, NULL, &is_closed);
	if (!is_closed)
		lmdb->ret_closed = NULL;
}

/* Another process committed, or this one; or one has died. */
static void
lmdb_on_doorbell(struct loop_fd *watcher, unsigned events, void *arg)
{
	struct meta_lmdb *lmdb = arg;
	_Alignas(struct inotify_event) char text[DOORBELL_BYTES];
	/* Same events in a row are one, so one read gets nearly all; what is left rings again. */
	ssize_t bytes = read(lmdb->doorbell_fd, text, sizeof(text));

	(void)watcher;
	(void)events;
	for (ssize_t at = 0; at + (ssize_t)sizeof(struct inotify_event) <= bytes;) {
		const struct inotify_event *event = (const void *)(text + at);
		bool is_lost = (event->mask & IN_Q_OVERFLOW) != 0;

		if (is_lost || event->wd == lmdb->durable_wd)
			meta_lmdb_worker_ring(&lmdb->workers.durable, false);
		if (is_lost || event->wd == lmdb->leased_wd)
			meta_lmdb_worker_ring(&lmdb->workers.leased,
			    is_lost || (event->mask & IN_CLOSE_WRITE) != 0);
		at += (ssize_t)(sizeof(*event) + event->len);
	}
}

/* ---- calls, on the loop ---- */

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

	assert(fn != NULL);
	if (rc != 0)
		return rc;
	rc = meta_lmdb_workers_submit(&lmdb_of(meta)->workers, &request);
	if (rc != 0)
		mt_free(request.txn);
	return rc;
}

static int
lmdb_list(struct meta *meta, const char *prefix, meta_list_fn fn, void *arg)
{
	struct lmdb_request request = { .kind = REQUEST_LIST, .list_fn = fn, .arg = arg };
	int rc;

	assert(fn != NULL);
	if (!meta_prefix_is_valid(prefix))
		return -EINVAL;
	request.prefix = mt_strdup(prefix);
	if (request.prefix == NULL)
		return -ENOMEM;
	rc = meta_lmdb_workers_submit(&lmdb_of(meta)->workers, &request);
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

	assert(fn != NULL);
	return ttl_ns == 0 ? -EINVAL : meta_lmdb_workers_submit(&lmdb_of(meta)->workers, &request);
}

static int
lmdb_lease_renew(struct meta *meta, uint64_t lease, meta_lease_fn fn, void *arg)
{
	struct lmdb_request request = { .kind = REQUEST_RENEW,
		.lease = lease,
		.lease_fn = fn,
		.arg = arg };

	assert(fn != NULL);
	return meta_lmdb_workers_submit(&lmdb_of(meta)->workers, &request);
}

static int
lmdb_lease_revoke(struct meta *meta, uint64_t lease, meta_lease_fn fn, void *arg)
{
	struct lmdb_request request = { .kind = REQUEST_REVOKE,
		.lease = lease,
		.lease_fn = fn,
		.arg = arg };

	assert(fn != NULL);
	return meta_lmdb_workers_submit(&lmdb_of(meta)->workers, &request);
}

static int
lmdb_watch(struct meta *meta, const char *prefix, meta_watch_fn fn, void *arg)
{
	return meta_watches_add(&lmdb_of(meta)->watches, prefix, fn, arg);
}

static void
lmdb_unwatch(struct meta *meta, meta_watch_fn fn, void *arg)
{
	meta_watches_remove(&lmdb_of(meta)->watches, fn, arg);
}

/* ---- opening and closing ---- */

static void
lmdb_free(struct meta_lmdb *lmdb)
{
	lmdb_store_close(&lmdb->workers.durable.store);
	lmdb_store_close(&lmdb->workers.leased.store);
	lmdb_leases_close(&lmdb->host);
	lmdb_sight_close(&lmdb->sight);
	if (lmdb->doorbell_fd >= 0)
		(void)close(lmdb->doorbell_fd);
	if (lmdb->claim_fd >= 0)
		(void)close(lmdb->claim_fd); /* and with it the lock */
	if (lmdb->directory_fd >= 0)
		(void)close(lmdb->directory_fd);
	meta_lmdb_workers_fini(&lmdb->workers);
	lmdb->base.magic = 0;
	mt_free(lmdb);
}

static void
lmdb_close(struct meta *meta)
{
	struct meta_lmdb *lmdb = lmdb_of(meta);

	meta_lmdb_workers_end(&lmdb->workers); /* what waits is done first */
	loop_fd_stop(lmdb->loop, &lmdb->answers);
	loop_fd_stop(lmdb->loop, &lmdb->doorbell);
	meta_watches_fini(&lmdb->watches);
	if (lmdb->ret_closed != NULL)
		*lmdb->ret_closed = true;
	lmdb_free(lmdb);
}

static const char *
lmdb_place(struct meta *meta)
{
	return lmdb_of(meta)->place;
}

static const char *
lmdb_displaced(struct meta *meta)
{
	return lmdb_sight_look(&lmdb_of(meta)->sight);
}

/* Room that somebody has made counts before the next change tells of it. */
static const char *
lmdb_failing(struct meta *meta)
{
	struct meta_lmdb *lmdb = lmdb_of(meta);

	if (lmdb->was_out_of_space && room_bytes(lmdb) >= LMDB_ROOM_BYTES)
		lmdb->failed_rc = 0;
	if (lmdb->failed_rc == 0)
		return NULL;
	(void)snprintf(lmdb->failing, sizeof(lmdb->failing), "%s%s", strerror(-lmdb->failed_rc),
	    lmdb->was_out_of_space ? ": its file system is full" : "");
	return lmdb->failing;
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
	.place = lmdb_place,
	.place_how = "was moved from another file system",
	.place_what = "data.mdb, inode@birth,",
	.displaced = lmdb_displaced,
	.failing = lmdb_failing,
};

static int
open_directory(struct meta_lmdb *lmdb, const char *path, char *ret_error, size_t error_bytes)
{
	int rc = 0;

	assert(lmdb->directory_fd < 0);
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

	assert(error_bytes > 0);
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
		    "gateway %" PRIu64 " runs already on this host (%s is locked; "
		    "cleave gateway list has it as %016" PRIx64 ")",
		    gateway_id, name, gateway_id);
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

	assert(lmdb->doorbell_fd < 0);
	assert(lmdb->host.directory_fd >= 0);
	if ((size_t)snprintf(file, sizeof(file), "%s/data.mdb", path) >= sizeof(file))
		return -ENAMETOOLONG;
	lmdb->doorbell_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (lmdb->doorbell_fd < 0)
		return -errno;
	lmdb->durable_wd = inotify_add_watch(lmdb->doorbell_fd, file, IN_MODIFY);
	lmdb->leased_wd =
	    inotify_add_watch(lmdb->doorbell_fd, lmdb->host.path, IN_MODIFY | IN_CLOSE_WRITE);
	if (lmdb->durable_wd < 0 || lmdb->leased_wd < 0)
		return -errno;
	loop_fd_init(&lmdb->doorbell, lmdb->doorbell_fd, lmdb_on_doorbell, lmdb);
	return loop_fd_start(lmdb->loop, &lmdb->doorbell, LOOP_READABLE);
}

static int
start_workers(struct meta_lmdb *lmdb, const char *path)
{
	int rc;

	assert(lmdb->workers.durable.store.env != NULL);
	assert(lmdb->workers.leased.store.env != NULL);
	rc = start_doorbell(lmdb, path);
	if (rc != 0)
		return rc;
	/* Leases of before may be over or due, their holders gone. */
	meta_lmdb_worker_ring(&lmdb->workers.leased, true);
	meta_lmdb_worker_ring(&lmdb->workers.durable, false);
	loop_fd_init(&lmdb->answers, lmdb->workers.answer_fd, lmdb_on_answers, lmdb);
	rc = loop_fd_start(lmdb->loop, &lmdb->answers, LOOP_READABLE);
	if (rc != 0)
		goto err_doorbell;
	rc = meta_lmdb_workers_start(&lmdb->workers);
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

	assert(loop != NULL);
	if (lmdb == NULL)
		return NULL;
	lmdb->base = (struct meta){ .magic = LMDB_MAGIC, .ops = &lmdb_ops };
	lmdb->loop = loop;
	lmdb->doorbell_fd = -1;
	lmdb->directory_fd = lmdb->claim_fd = -1;
	lmdb->host = (struct lmdb_leases){ .lock_fd = -1, .directory_fd = -1, .holder_fd = -1 };
	list_init(&lmdb->watches);
	if (meta_lmdb_workers_init(&lmdb->workers, &lmdb->host, read_clock_offset()) != 0) {
		mt_free(lmdb);
		return NULL;
	}
	return lmdb;
}

/* The two halves, with what keeps them together. */
/* A file that is no database, or not all of one, is not mended by trying again. */
static void
open_refuse(const char *path, int rc, char *ret_error, size_t error_bytes)
{
	bool is_broken = rc == MDB_INVALID || rc == MDB_CORRUPTED || rc == MDB_PAGE_NOTFOUND ||
	    rc == MDB_VERSION_MISMATCH;

	(void)snprintf(ret_error, error_bytes, "%s: %s%s", path, mdb_strerror(rc),
	    is_broken ? ": a store " META_LMDB_BROKEN_HELP : "");
}

static int
open_halves(struct meta_lmdb *lmdb, const char *path, char *ret_error, size_t error_bytes)
{
	struct lmdb_store *durable = &lmdb->workers.durable.store,
			  *leased = &lmdb->workers.leased.store;
	char boot[LMDB_BOOT_BYTES];
	int rc = lmdb_leases_open(&lmdb->host, lmdb->directory_fd, path, ret_error, error_bytes);

	assert(lmdb->directory_fd >= 0);
	if (rc != 0)
		return rc;
	leased->holder = lmdb->host.holder;
	leased->is_dead = lmdb_leases_is_dead;
	leased->is_dead_arg = &lmdb->host;
	rc = lmdb_store_open(leased, lmdb->host.path);
	if (rc != 0) {
		(void)snprintf(ret_error, error_bytes, "%s: %s", lmdb->host.path, mdb_strerror(rc));
		return rc;
	}
	rc = lmdb_store_open(durable, path);
	if (rc != 0) {
		open_refuse(path, rc, ret_error, error_bytes);
		return rc;
	}
	rc = lmdb_place_read(durable->env, lmdb->place);
	if (rc == 0)
		rc = lmdb_sight_open(&lmdb->sight, lmdb->loop, path, lmdb->place);
	if (rc != 0) {
		(void)snprintf(ret_error, error_bytes, "%s/data.mdb: %s", path, strerror(-rc));
		return rc;
	}
	if (!lmdb->host.is_first)
		return 0;
	rc = read_boot_id(boot);
	if (rc == 0)
		rc = lmdb_leases_retire(durable->env, durable->keys, boot,
		    lmdb_store_clock_ns(durable));
	if (rc == -EBUSY)
		(void)snprintf(ret_error, error_bytes,
		    "%s: a gateway of an older version holds a lease there: stop all of them, or "
		    "wait until the lease of one that was killed has ended",
		    path);
	else if (rc != 0)
		(void)snprintf(ret_error, error_bytes, "%s: %s", path, strerror(-rc));
	return rc;
}

struct meta *
meta_lmdb_open(struct loop *loop, const char *path, char *ret_error, size_t error_bytes)
{
	struct meta_lmdb *lmdb = lmdb_alloc(loop);
	int rc;

	assert(error_bytes > 0);
	if (lmdb == NULL) {
		(void)snprintf(ret_error, error_bytes,
		    "%s: not enough memory, or too many open files", path);
		return NULL;
	}
	if (open_directory(lmdb, path, ret_error, error_bytes) != 0 ||
	    open_halves(lmdb, path, ret_error, error_bytes) != 0)
		goto err_free;
	rc = start_workers(lmdb, path);
	if (rc != 0) {
		(void)snprintf(ret_error, error_bytes, "%s: %s", path, strerror(-rc));
		goto err_free;
	}
	return &lmdb->base;

err_free:
	lmdb_free(lmdb);
	return NULL;
}
