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
 * Keys are kept as [u64 version][u64 lease][value]. A lease expires by the monotonic clock of the boot
 * that granted it; one of another boot is gone. The worker ends expired leases before each request
 * and, while there are any, when the next one is due.
 */
#include "meta_lmdb.h"

#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "alloc.h"
#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "meta_txn.h"

#define LMDB_MAGIC 0x424d444cu /* "LDMB" */
#define LMDB_MAP_BYTES ((size_t)1 << 30)
#define LMDB_BOOT_BYTES 36u
#define LMDB_ITEM_HEAD_BYTES 16u
#define LMDB_PATH_BYTES_MAX 4096u
#define LMDB_REQUESTS_MAX 4096u

enum request_kind { REQUEST_TXN, REQUEST_LIST, REQUEST_GRANT, REQUEST_RENEW, REQUEST_REVOKE };

struct lmdb_request {
	struct loop_link link; /* waiting or done */
	enum request_kind kind;
	struct meta_txn *txn;
	char *prefix;
	uint64_t lease, ttl_ns;
	meta_txn_fn txn_fn;
	meta_list_fn list_fn;
	meta_lease_fn lease_fn;
	void *arg;
	/* The answer. */
	int rc;
	struct meta_item *items; /* keys and values behind each other in `text` */
	uint32_t item_count;
	char *text;
	bool has_changed; /* watches are to be called */
};

struct lmdb_watch {
	struct loop_link link;
	meta_watch_fn fn;
	void *arg;
	char prefix[];
};

/* As stored. */
struct lmdb_lease {
	uint64_t ttl_ns;
	uint64_t expires_ns;
	char boot[LMDB_BOOT_BYTES];
};

struct meta_lmdb {
	struct meta base;
	struct loop *loop;
	struct loop_fd answers;
	int answer_fd, lock_fd;
	pthread_t worker;
	pthread_mutex_t mutex;
	pthread_cond_t has_work;
	struct loop_link waiting, done;
	uint32_t request_count;
	bool is_closing, has_expired;
	struct loop_link watches;
	bool *ret_closed; /* told when a handler closes the store under lmdb_on_answers */
	/* The worker's. */
	MDB_env *env;
	MDB_dbi keys, leases, state;
	char boot[LMDB_BOOT_BYTES];
	uint64_t next_expiry_ns; /* 0: no lease */
};

static uint64_t
clock_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now); /* tidy: allow call: the worker has no loop */
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int
errno_of(int mdb_rc)
{
	switch (mdb_rc) {
	case MDB_SUCCESS:
		return 0;
	case MDB_MAP_FULL:
	case ENOSPC:
		return -ENOSPC;
	case ENOMEM:
		return -ENOMEM;
	default:
		return -EIO;
	}
}

static MDB_val
val_of(const void *data, size_t bytes)
{
	return (MDB_val){ .mv_size = bytes, .mv_data = (void *)(uintptr_t)data };
}

/* ---- keys, inside a transaction ---- */

/* Version and lease of @key; version 0 when it is absent. Returns 0 or LMDB's error. */
static int
key_head(struct meta_lmdb *lmdb, MDB_txn *txn, const char *key, uint64_t *ret_version)
{
	MDB_val name = val_of(key, strlen(key)), value;
	int rc = mdb_get(txn, lmdb->keys, &name, &value);

	*ret_version = 0;
	if (rc == MDB_NOTFOUND)
		return 0;
	if (rc != 0)
		return rc;
	if (value.mv_size < LMDB_ITEM_HEAD_BYTES)
		return MDB_CORRUPTED;
	*ret_version = num_get_le64(value.mv_data);
	return 0;
}

/* The next number of a counter kept in `state`. */
static int
next_number(struct meta_lmdb *lmdb, MDB_txn *txn, const char *counter, uint64_t *ret_number)
{
	MDB_val name = val_of(counter, strlen(counter)), value;
	uint8_t bytes[8] = { 0 };
	uint64_t number = 0;
	int rc = mdb_get(txn, lmdb->state, &name, &value);

	if (rc == 0 && value.mv_size == sizeof(bytes))
		number = num_get_le64(value.mv_data);
	else if (rc != MDB_NOTFOUND)
		return rc == 0 ? MDB_CORRUPTED : rc;
	num_put_le64(bytes, ++number);
	value = val_of(bytes, sizeof(bytes));
	*ret_number = number;
	return mdb_put(txn, lmdb->state, &name, &value, 0);
}

static int
key_put(struct meta_lmdb *lmdb, MDB_txn *txn, const struct meta_op *op)
{
	MDB_val name = val_of(op->key, strlen(op->key)), value;
	uint64_t version;
	int rc = next_number(lmdb, txn, "version", &version);

	if (rc != 0)
		return rc;
	value = val_of(NULL, LMDB_ITEM_HEAD_BYTES + op->value_bytes);
	rc = mdb_put(txn, lmdb->keys, &name, &value, MDB_RESERVE);
	if (rc != 0)
		return rc;
	num_put_le64(value.mv_data, version);
	num_put_le64((uint8_t *)value.mv_data + 8, op->lease);
	if (op->value_bytes > 0)
		memcpy((uint8_t *)value.mv_data + LMDB_ITEM_HEAD_BYTES, op->value, op->value_bytes);
	return 0;
}

/* ---- leases, inside a transaction ---- */

static int
lease_get(struct meta_lmdb *lmdb, MDB_txn *txn, uint64_t id, struct lmdb_lease *ret_lease)
{
	uint8_t key[8] = { 0 };
	MDB_val name = val_of(key, sizeof(key)), value;
	int rc;

	num_put_le64(key, id);
	rc = mdb_get(txn, lmdb->leases, &name, &value);
	if (rc != 0)
		return rc == MDB_NOTFOUND ? -ENOENT : errno_of(rc);
	if (value.mv_size != sizeof(*ret_lease))
		return -EIO;
	memcpy(ret_lease, value.mv_data, sizeof(*ret_lease));
	return 0;
}

static int
lease_put(struct meta_lmdb *lmdb, MDB_txn *txn, uint64_t id, uint64_t ttl_ns)
{
	struct lmdb_lease lease = { .ttl_ns = ttl_ns, .expires_ns = clock_ns() + ttl_ns };
	uint8_t key[8] = { 0 };
	MDB_val name = val_of(key, sizeof(key)), value = val_of(&lease, sizeof(lease));

	memcpy(lease.boot, lmdb->boot, sizeof(lease.boot));
	num_put_le64(key, id);
	/* A wake-up too early, for a lease since renewed, is harmless. */
	if (lmdb->next_expiry_ns == 0 || lease.expires_ns < lmdb->next_expiry_ns)
		lmdb->next_expiry_ns = lease.expires_ns;
	return errno_of(mdb_put(txn, lmdb->leases, &name, &value, 0));
}

/* The lease and every key that hangs on it. */
static int
lease_end(struct meta_lmdb *lmdb, MDB_txn *txn, uint64_t id, bool *ret_changed)
{
	uint8_t key[8] = { 0 };
	MDB_val name = val_of(key, sizeof(key)), value;
	MDB_cursor *cursor;
	int rc;

	num_put_le64(key, id);
	rc = mdb_del(txn, lmdb->leases, &name, NULL);
	if (rc != 0 && rc != MDB_NOTFOUND)
		return errno_of(rc);
	rc = mdb_cursor_open(txn, lmdb->keys, &cursor);
	if (rc != 0)
		return errno_of(rc);
	while ((rc = mdb_cursor_get(cursor, &name, &value, MDB_NEXT)) == 0) {
		if (value.mv_size < LMDB_ITEM_HEAD_BYTES ||
		    num_get_le64((uint8_t *)value.mv_data + 8) != id)
			continue;
		rc = mdb_cursor_del(cursor, 0);
		if (rc != 0)
			break;
		*ret_changed = true;
	}
	mdb_cursor_close(cursor);
	return rc == MDB_NOTFOUND ? 0 : errno_of(rc);
}

static bool
lease_is_over(const struct meta_lmdb *lmdb, const struct lmdb_lease *lease, uint64_t now_ns)
{
	return lease->expires_ns <= now_ns ||
	    memcmp(lease->boot, lmdb->boot, sizeof(lease->boot)) != 0;
}

/* One lease that is over, or 0; and when the next one will be. */
static int
lease_find_over(struct meta_lmdb *lmdb, MDB_txn *txn, uint64_t *ret_id)
{
	uint64_t now_ns = clock_ns();
	MDB_cursor *cursor;
	MDB_val name, value;
	int rc = mdb_cursor_open(txn, lmdb->leases, &cursor);

	*ret_id = 0;
	lmdb->next_expiry_ns = 0;
	if (rc != 0)
		return errno_of(rc);
	while ((rc = mdb_cursor_get(cursor, &name, &value, MDB_NEXT)) == 0) {
		struct lmdb_lease lease;

		if (name.mv_size != 8 || value.mv_size != sizeof(lease)) {
			rc = MDB_CORRUPTED;
			break;
		}
		memcpy(&lease, value.mv_data, sizeof(lease));
		if (lease_is_over(lmdb, &lease, now_ns)) {
			*ret_id = num_get_le64(name.mv_data);
			break;
		}
		if (lmdb->next_expiry_ns == 0 || lease.expires_ns < lmdb->next_expiry_ns)
			lmdb->next_expiry_ns = lease.expires_ns;
	}
	mdb_cursor_close(cursor);
	return rc == MDB_NOTFOUND ? 0 : errno_of(rc);
}

static int
leases_expire(struct meta_lmdb *lmdb, MDB_txn *txn, bool *ret_changed)
{
	uint64_t id;
	int rc;

	while ((rc = lease_find_over(lmdb, txn, &id)) == 0 && id != 0) {
		rc = lease_end(lmdb, txn, id, ret_changed);
		if (rc != 0)
			break;
	}
	return rc;
}

/* ---- requests, on the worker ---- */

static int
txn_compare(struct meta_lmdb *lmdb, MDB_txn *txn, const struct meta_txn *wanted)
{
	for (uint32_t i = 0; i < wanted->count; i++) {
		const struct meta_op *op = &wanted->ops[i];
		struct lmdb_lease lease;
		uint64_t version;
		int rc = 0;

		if (op->lease != 0)
			rc = lease_get(lmdb, txn, op->lease, &lease);
		else if (op->kind == META_COMPARE_VERSION) {
			rc = errno_of(key_head(lmdb, txn, op->key, &version));
			if (rc == 0 && version != op->version)
				rc = -EAGAIN;
		}
		if (rc != 0)
			return rc;
	}
	return 0;
}

static int
txn_apply(struct meta_lmdb *lmdb, MDB_txn *txn, const struct meta_txn *wanted)
{
	for (uint32_t i = 0; i < wanted->count; i++) {
		const struct meta_op *op = &wanted->ops[i];
		MDB_val name = val_of(op->key, strlen(op->key));
		int rc = 0;

		if (op->kind == META_PUT)
			rc = key_put(lmdb, txn, op);
		else if (op->kind == META_DELETE)
			rc = mdb_del(txn, lmdb->keys, &name, NULL);
		if (rc != 0 && rc != MDB_NOTFOUND)
			return errno_of(rc);
	}
	return 0;
}

/* Keys from @prefix on: first their number and size, then, with room made, a copy. */
static int
list_walk(struct meta_lmdb *lmdb, MDB_txn *txn, struct lmdb_request *request, size_t *text_bytes)
{
	size_t prefix_bytes = strlen(request->prefix);
	MDB_val name = val_of(request->prefix, prefix_bytes), value;
	MDB_cursor *cursor;
	char *at = request->text;
	int rc = mdb_cursor_open(txn, lmdb->keys, &cursor);

	if (rc != 0)
		return errno_of(rc);
	request->item_count = 0;
	*text_bytes = 0;
	rc = mdb_cursor_get(cursor, &name, &value, prefix_bytes == 0 ? MDB_FIRST : MDB_SET_RANGE);
	for (; rc == 0; rc = mdb_cursor_get(cursor, &name, &value, MDB_NEXT)) {
		if (name.mv_size < prefix_bytes ||
		    memcmp(name.mv_data, request->prefix, prefix_bytes) != 0)
			break;
		if (value.mv_size < LMDB_ITEM_HEAD_BYTES) {
			rc = MDB_CORRUPTED;
			break;
		}
		if (at != NULL) {
			struct meta_item *item = &request->items[request->item_count];

			item->key = memcpy(at, name.mv_data, name.mv_size);
			at += name.mv_size;
			*at++ = '\0';
			item->version = num_get_le64(value.mv_data);
			item->value_bytes = (uint32_t)(value.mv_size - LMDB_ITEM_HEAD_BYTES);
			item->value = memcpy(at, (uint8_t *)value.mv_data + LMDB_ITEM_HEAD_BYTES,
			    item->value_bytes);
			at += item->value_bytes;
		}
		request->item_count++;
		*text_bytes += name.mv_size + 1 + value.mv_size - LMDB_ITEM_HEAD_BYTES;
	}
	mdb_cursor_close(cursor);
	return rc == MDB_NOTFOUND ? 0 : errno_of(rc);
}

static int
request_list(struct meta_lmdb *lmdb, MDB_txn *txn, struct lmdb_request *request)
{
	size_t text_bytes;
	int rc = list_walk(lmdb, txn, request, &text_bytes);

	if (rc != 0 || request->item_count == 0)
		return rc;
	request->items = mt_calloc(request->item_count, sizeof(*request->items));
	request->text = mt_calloc(1, text_bytes);
	if (request->items == NULL || request->text == NULL)
		return -ENOMEM;
	return list_walk(lmdb, txn, request, &text_bytes);
}

static int
request_do(struct meta_lmdb *lmdb, MDB_txn *txn, struct lmdb_request *request)
{
	struct lmdb_lease lease;
	int rc;

	switch (request->kind) {
	case REQUEST_TXN:
		rc = txn_compare(lmdb, txn, request->txn);
		if (rc != 0)
			return rc;
		request->has_changed = true;
		return txn_apply(lmdb, txn, request->txn);
	case REQUEST_LIST:
		return request_list(lmdb, txn, request);
	case REQUEST_GRANT:
		rc = errno_of(next_number(lmdb, txn, "lease", &request->lease));
		return rc != 0 ? rc : lease_put(lmdb, txn, request->lease, request->ttl_ns);
	case REQUEST_RENEW:
		rc = lease_get(lmdb, txn, request->lease, &lease);
		return rc != 0 ? rc : lease_put(lmdb, txn, request->lease, lease.ttl_ns);
	case REQUEST_REVOKE:
		rc = lease_get(lmdb, txn, request->lease, &lease);
		return rc != 0 ? rc : lease_end(lmdb, txn, request->lease, &request->has_changed);
	}
	return -EINVAL;
}

/* @request may be NULL: only expire leases. *@ret_expired: keys went with them. */
static void
request_run(struct meta_lmdb *lmdb, struct lmdb_request *request, bool *ret_expired)
{
	MDB_txn *txn;
	int rc = errno_of(mdb_txn_begin(lmdb->env, NULL, 0, &txn));
	int result = rc;

	*ret_expired = false;
	if (rc == 0) {
		rc = leases_expire(lmdb, txn, ret_expired);
		result = rc;
		if (rc == 0 && request != NULL)
			result = request_do(lmdb, txn, request);
		/* What a request was refused for leaves no trace; expired leases stay expired. */
		if (rc != 0 || (result != 0 && result != -EAGAIN && result != -ENOENT)) {
			mdb_txn_abort(txn);
			*ret_expired = false;
		} else {
			rc = errno_of(mdb_txn_commit(txn));
			result = rc != 0 ? rc : result;
		}
	}
	if (request != NULL) {
		request->rc = result;
		request->has_changed &= result == 0;
	}
}

static void
worker_wait(struct meta_lmdb *lmdb)
{
	if (lmdb->next_expiry_ns == 0) {
		(void)pthread_cond_wait(&lmdb->has_work, &lmdb->mutex);
		return;
	}
	struct timespec until = { .tv_sec = (time_t)(lmdb->next_expiry_ns / 1000000000u),
		.tv_nsec = (long)(lmdb->next_expiry_ns % 1000000000u) };

	(void)pthread_cond_timedwait(&lmdb->has_work, &lmdb->mutex, &until);
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
		bool is_over = lmdb->next_expiry_ns != 0 && lmdb->next_expiry_ns <= clock_ns();
		bool has_expired;
		uint64_t one = 1;

		if (request == NULL && lmdb->is_closing)
			break;
		if (request == NULL && !is_over) {
			worker_wait(lmdb);
			continue;
		}
		(void)pthread_mutex_unlock(&lmdb->mutex);
		request_run(lmdb, request, &has_expired);
		(void)pthread_mutex_lock(&lmdb->mutex);
		lmdb->has_expired |= has_expired;
		if (request != NULL)
			list_push_back(&lmdb->done, &request->link);
		/* Fails only when the counter is full, and then the loop is awake anyway. */
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

/* @request NULL: leases have expired, anything may have changed. Stops when the store is closed. */
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
	bool is_closed = false, has_expired;

	(void)watcher;
	(void)events;
	(void)!read(lmdb->answer_fd, &count, sizeof(count)); /* only resets it */
	lmdb->ret_closed = &is_closed;
	(void)pthread_mutex_lock(&lmdb->mutex);
	has_expired = lmdb->has_expired;
	lmdb->has_expired = false;
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
	if (has_expired)
		watches_call(lmdb, NULL, &is_closed);
	if (!is_closed)
		lmdb->ret_closed = NULL;
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
	if (lmdb->env != NULL)
		mdb_env_close(lmdb->env);
	if (lmdb->answer_fd >= 0)
		(void)close(lmdb->answer_fd);
	if (lmdb->lock_fd >= 0)
		(void)close(lmdb->lock_fd); /* and with it the lock */
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
lock_directory(struct meta_lmdb *lmdb, const char *path, char *ret_error, size_t error_bytes)
{
	char lock[LMDB_PATH_BYTES_MAX];

	if ((size_t)snprintf(lock, sizeof(lock), "%s/lock", path) >= sizeof(lock)) {
		(void)snprintf(ret_error, error_bytes, "the path is too long");
		return -ENAMETOOLONG;
	}
	if (mkdir(path, 0700) != 0 && errno != EEXIST) {
		(void)snprintf(ret_error, error_bytes, "%s: %s", path, strerror(errno));
		return -errno;
	}
	lmdb->lock_fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (lmdb->lock_fd < 0) {
		(void)snprintf(ret_error, error_bytes, "%s: %s", lock, strerror(errno));
		return -errno;
	}
	if (flock(lmdb->lock_fd, LOCK_EX | LOCK_NB) != 0) {
		(void)snprintf(ret_error, error_bytes, "%s: in use by another process", path);
		return -EBUSY;
	}
	return 0;
}

static int
open_tables(struct meta_lmdb *lmdb, const char *path)
{
	MDB_txn *txn;
	int rc = mdb_env_create(&lmdb->env);

	if (rc != 0)
		return rc;
	if ((rc = mdb_env_set_mapsize(lmdb->env, LMDB_MAP_BYTES)) != 0 ||
	    (rc = mdb_env_set_maxdbs(lmdb->env, 3)) != 0 ||
	    (rc = mdb_env_open(lmdb->env, path, MDB_NOTLS, 0600)) != 0 ||
	    (rc = mdb_txn_begin(lmdb->env, NULL, 0, &txn)) != 0)
		return rc;
	if ((rc = mdb_dbi_open(txn, "keys", MDB_CREATE, &lmdb->keys)) != 0 ||
	    (rc = mdb_dbi_open(txn, "leases", MDB_CREATE, &lmdb->leases)) != 0 ||
	    (rc = mdb_dbi_open(txn, "state", MDB_CREATE, &lmdb->state)) != 0) {
		mdb_txn_abort(txn);
		return rc;
	}
	return mdb_txn_commit(txn);
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

static int
start_worker(struct meta_lmdb *lmdb)
{
	int rc;

	lmdb->answer_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (lmdb->answer_fd < 0)
		return -errno;
	loop_fd_init(&lmdb->answers, lmdb->answer_fd, lmdb_on_answers, lmdb);
	rc = loop_fd_start(lmdb->loop, &lmdb->answers, LOOP_READABLE);
	if (rc != 0)
		return rc;
	rc = pthread_create(&lmdb->worker, NULL, worker_main, lmdb);
	if (rc != 0)
		loop_fd_stop(lmdb->loop, &lmdb->answers);
	return -rc;
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
	lmdb->answer_fd = lmdb->lock_fd = -1;
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
	if (lock_directory(lmdb, path, ret_error, error_bytes) != 0)
		goto err_free;
	rc = open_tables(lmdb, path);
	if (rc != 0) {
		(void)snprintf(ret_error, error_bytes, "%s: %s", path, mdb_strerror(rc));
		goto err_free;
	}
	rc = read_boot_id(lmdb->boot);
	if (rc == 0)
		rc = start_worker(lmdb);
	if (rc != 0) {
		(void)snprintf(ret_error, error_bytes, "%s: %s", path, strerror(-rc));
		goto err_free;
	}
	return &lmdb->base;

err_free:
	lmdb_free(lmdb);
	return NULL;
}
