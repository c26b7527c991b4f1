/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meta_memory.c -- a metadata store in memory; see meta_memory.h
 *
 * meta_store.c is the service; this file is the way to it and back, and what a handle holds.
 *
 * A request travels to the store (a timer on the store's loop), takes effect there at once and whole,
 * and its answer travels back (the same timer again, then a post to the caller's loop). Everything
 * in flight belongs to the store, in `requests` and `watches`, whether its handle still lives or
 * not: what a closed handle has left behind on a loop is freed when that loop comes to it, or with
 * the store.
 */
#include "meta/meta_memory.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/mutant.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "common/alloc.h"
#include "meta/meta_store.h"
#include "meta/meta_txn.h"

#define MEMORY_MAGIC 0x4d454d4du  /* "MEMM" */
#define REQUEST_MAGIC 0x5145524du /* "MREQ" */

struct meta_memory {
	struct meta base;
	struct loop_link link; /* store->handles */
	struct meta_store *store;
	struct loop *loop;
	uint64_t holder;
	bool is_cut_off;
};

enum request_kind { REQUEST_TXN, REQUEST_LIST, REQUEST_GRANT, REQUEST_RENEW, REQUEST_REVOKE };

struct store_request {
	uint32_t magic;
	enum request_kind kind;
	struct loop_link link; /* store->requests */
	struct meta_store *store;
	struct meta_memory *handle; /* NULL: closed, nobody waits */
	struct loop_timer timer;
	struct loop_post post;
	bool is_posted, is_applied;
	bool is_parked; /* waits for the store's disk */
	struct meta_txn *txn;
	char *prefix;
	uint64_t lease, ttl_ns, holder;
	meta_txn_fn txn_fn;
	meta_list_fn list_fn;
	meta_lease_fn lease_fn;
	void *arg;
	int rc;
	struct meta_item *items;
	uint32_t item_count;
};

struct store_watch {
	struct loop_link link; /* store->watches */
	struct meta_store *store;
	struct meta_memory *handle; /* NULL: gone */
	struct loop_timer timer;
	struct loop_post post;
	bool is_posted;
	meta_watch_fn fn;
	void *arg;
	char prefix[];
};

static uint64_t
store_delay(struct meta_store *store)
{
	uint64_t min_ns = store->options.delay_min_ns;

	assert(min_ns <= store->options.delay_max_ns);
	return min_ns + loop_random_below(store->loop, store->options.delay_max_ns - min_ns + 1);
}

void
meta_store_notify(struct meta_store *store, const char *key)
{
	struct loop_link *link, *next;

	CHECK_OBJ(store, META_STORE_MAGIC);
	LIST_FOREACH_SAFE(&store->watches, link, next) {
		struct store_watch *watch = LIST_ENTRY(link, struct store_watch, link);

		if (watch->handle != NULL && !watch->is_posted && !watch->timer.is_active &&
		    (key == NULL || meta_key_has_prefix(key, watch->prefix)))
			loop_timer_start(store->loop, &watch->timer, store_delay(store));
	}
}

/* ---- requests travel ---- */

static int
store_apply(struct meta_store *store, struct store_request *request)
{
	assert(request->is_applied);
	switch (request->kind) {
	case REQUEST_TXN:
		return meta_store_txn(store, request->txn);
	case REQUEST_LIST:
		return meta_store_list(store, request->prefix, &request->items,
		    &request->item_count);
	case REQUEST_GRANT:
		return meta_store_grant(store, request->ttl_ns, request->holder, &request->lease);
	case REQUEST_RENEW:
		return meta_store_renew(store, request->lease);
	case REQUEST_REVOKE:
		return meta_store_revoke(store, request->lease);
	}
	return -EINVAL;
}

static void
request_free(struct store_request *request)
{
	CHECK_OBJ(request, REQUEST_MAGIC);
	list_remove(&request->link);
	loop_timer_stop(request->store->loop, &request->timer);
	mt_free(request->txn);
	mt_free(request->prefix);
	mt_free(request->items);
	request->magic = 0;
	mt_free(request);
}

static void
request_on_post(struct loop_post *post, void *arg)
{
	struct store_request *request = arg;

	(void)post;
	CHECK_OBJ(request, REQUEST_MAGIC);
	request->is_posted = false;
	if (request->handle == NULL) {
		request_free(request);
		return;
	}
	/* The handler may close the handle: nothing may happen to the request then. */
	request->handle = NULL;
	list_remove(&request->link);
	if (request->kind == REQUEST_TXN)
		request->txn_fn(request->rc, request->arg);
	else if (request->kind == REQUEST_LIST)
		request->list_fn(request->rc, request->rc == 0 ? request->items : NULL,
		    request->rc == 0 ? request->item_count : 0, request->arg);
	else
		request->lease_fn(request->rc, request->rc == 0 ? request->lease : 0, request->arg);
	request_free(request);
}

static bool
store_has_bad_luck(struct meta_store *store, uint32_t per_mille)
{
	assert(per_mille <= 1000);
	return per_mille > 0 && loop_random_below(store->loop, 1000) < per_mille;
}

static bool
request_is_leased(const struct store_request *request)
{
	if (MUTANT(lease_behind_disk))
		return false;
	if (request->kind == REQUEST_LIST)
		return meta_key_is_leased(request->prefix);
	return request->kind != REQUEST_TXN || meta_txn_is_leased(request->txn);
}

void
meta_store_unpark(struct meta_store *store)
{
	struct loop_link *link, *next;

	CHECK_OBJ(store, META_STORE_MAGIC);
	assert(!store->is_stalled);
	LIST_FOREACH_SAFE(&store->requests, link, next) {
		struct store_request *request = LIST_ENTRY(link, struct store_request, link);

		if (!request->is_parked)
			continue;
		request->is_parked = false;
		loop_timer_start(store->loop, &request->timer, store_delay(store));
	}
}

static void
request_on_timer(struct loop_timer *timer, void *arg)
{
	struct store_request *request = arg;
	struct meta_store *store = request->store;
	bool is_cut_off = store->is_down ||
	    (request->handle != NULL && request->handle->is_cut_off);
	uint64_t delay_ns = store_delay(store);

	CHECK_OBJ(request, REQUEST_MAGIC);
	if (!request->is_applied && !is_cut_off && store->is_stalled &&
	    !request_is_leased(request)) {
		request->is_parked = true;
		return;
	}
	if (!request->is_applied) {
		request->is_applied = true;
		if (is_cut_off || store_has_bad_luck(store, store->lost_per_mille)) {
			request->rc = -ETIMEDOUT;
			delay_ns = store->options.timeout_ns;
		} else {
			request->rc = store_apply(store, request);
			store->applied_count++;
		}
		if (store_has_bad_luck(store, store->late_per_mille)) {
			request->rc = -ETIMEDOUT;
			delay_ns = store->options.timeout_ns;
		}
		loop_timer_start(store->loop, timer, delay_ns);
		return;
	}
	if (request->handle == NULL) {
		request_free(request);
		return;
	}
	if (is_cut_off && request->rc != -ETIMEDOUT) {
		request->rc = -ETIMEDOUT;
		loop_timer_start(store->loop, timer, store->options.timeout_ns);
		return;
	}
	request->is_posted = true;
	loop_post(request->handle->loop, &request->post);
}

static struct store_request *
request_create(struct meta *meta, enum request_kind kind, void *arg)
{
	struct meta_memory *handle = (struct meta_memory *)meta;
	struct store_request *request = mt_calloc(1, sizeof(*request));

	CHECK_OBJ(meta, MEMORY_MAGIC);
	if (request == NULL)
		return NULL;
	request->magic = REQUEST_MAGIC;
	request->kind = kind;
	request->store = handle->store;
	request->handle = handle;
	request->holder = handle->holder;
	request->arg = arg;
	request->post = (struct loop_post){ .fn = request_on_post, .arg = request };
	loop_timer_init(&request->timer, request_on_timer, request);
	list_push_back(&handle->store->requests, &request->link);
	return request;
}

static void
request_send(struct store_request *request)
{
	struct meta_store *store = request->store;

	assert(!request->timer.is_active);
	assert(request->handle != NULL);
	loop_timer_start(store->loop, &request->timer, store_delay(store));
}

/* ---- the seam ---- */

static int
memory_txn(struct meta *meta, const struct meta_op *ops, uint32_t count, meta_txn_fn fn, void *arg)
{
	struct meta_txn *txn;
	struct store_request *request;
	int rc = meta_txn_copy(ops, count, &txn);

	assert(fn != NULL);
	if (rc != 0)
		return rc;
	request = request_create(meta, REQUEST_TXN, arg);
	if (request == NULL) {
		mt_free(txn);
		return -ENOMEM;
	}
	request->txn = txn;
	request->txn_fn = fn;
	request_send(request);
	return 0;
}

static int
memory_list(struct meta *meta, const char *prefix, meta_list_fn fn, void *arg)
{
	struct store_request *request;

	assert(fn != NULL);
	if (!meta_prefix_is_valid(prefix))
		return -EINVAL;
	request = request_create(meta, REQUEST_LIST, arg);
	if (request == NULL)
		return -ENOMEM;
	request->prefix = mt_strdup(prefix);
	if (request->prefix == NULL) {
		request_free(request);
		return -ENOMEM;
	}
	request->list_fn = fn;
	request_send(request);
	return 0;
}

static int
memory_lease(struct meta *meta, enum request_kind kind, uint64_t lease, uint64_t ttl_ns,
    meta_lease_fn fn, void *arg)
{
	struct store_request *request = request_create(meta, kind, arg);

	assert(fn != NULL);
	if (request == NULL)
		return -ENOMEM;
	request->lease = lease;
	request->ttl_ns = ttl_ns;
	request->lease_fn = fn;
	request_send(request);
	return 0;
}

static int
memory_lease_grant(struct meta *meta, uint64_t ttl_ns, meta_lease_fn fn, void *arg)
{
	if (ttl_ns == 0)
		return -EINVAL;
	return memory_lease(meta, REQUEST_GRANT, 0, ttl_ns, fn, arg);
}

static int
memory_lease_renew(struct meta *meta, uint64_t lease, meta_lease_fn fn, void *arg)
{
	return memory_lease(meta, REQUEST_RENEW, lease, 0, fn, arg);
}

static int
memory_lease_revoke(struct meta *meta, uint64_t lease, meta_lease_fn fn, void *arg)
{
	return memory_lease(meta, REQUEST_REVOKE, lease, 0, fn, arg);
}

static void
watch_free(struct store_watch *watch)
{
	list_remove(&watch->link);
	loop_timer_stop(watch->store->loop, &watch->timer);
	mt_free(watch);
}

static void
watch_on_post(struct loop_post *post, void *arg)
{
	struct store_watch *watch = arg;

	assert(watch->is_posted);
	(void)post;
	watch->is_posted = false;
	if (watch->handle == NULL)
		watch_free(watch);
	else
		watch->fn(watch->arg);
}

static void
watch_on_timer(struct loop_timer *timer, void *arg)
{
	struct store_watch *watch = arg;

	assert(watch->handle != NULL);
	assert(!watch->is_posted);
	if (watch->store->is_down || watch->handle->is_cut_off) {
		/* A silent watcher hears of the change when it is heard again. */
		loop_timer_start(watch->store->loop, timer, watch->store->options.timeout_ns);
		return;
	}
	watch->is_posted = true;
	loop_post(watch->handle->loop, &watch->post);
}

static int
memory_watch(struct meta *meta, const char *prefix, meta_watch_fn fn, void *arg)
{
	struct meta_memory *handle = (struct meta_memory *)meta;
	struct store_watch *watch;

	CHECK_OBJ(meta, MEMORY_MAGIC);
	assert(fn != NULL);
	if (!meta_prefix_is_valid(prefix))
		return -EINVAL;
	watch = mt_calloc(1, sizeof(*watch) + strlen(prefix) + 1);
	if (watch == NULL)
		return -ENOMEM;
	watch->store = handle->store;
	watch->handle = handle;
	watch->fn = fn;
	watch->arg = arg;
	watch->post = (struct loop_post){ .fn = watch_on_post, .arg = watch };
	loop_timer_init(&watch->timer, watch_on_timer, watch);
	memcpy(watch->prefix, prefix, strlen(prefix) + 1);
	list_push_back(&handle->store->watches, &watch->link);
	return 0;
}

/* Nobody is called any more; what the caller's loop still holds is freed when it comes by. */
static void
watch_drop(struct store_watch *watch)
{
	assert(watch->handle != NULL);
	loop_timer_stop(watch->store->loop, &watch->timer);
	watch->handle = NULL;
	if (!watch->is_posted)
		watch_free(watch);
}

static void
memory_unwatch(struct meta *meta, meta_watch_fn fn, void *arg)
{
	struct meta_memory *handle = (struct meta_memory *)meta;
	struct loop_link *link, *next;

	CHECK_OBJ(meta, MEMORY_MAGIC);
	LIST_FOREACH_SAFE(&handle->store->watches, link, next) {
		struct store_watch *watch = LIST_ENTRY(link, struct store_watch, link);

		if (watch->handle == handle && watch->fn == fn && watch->arg == arg)
			watch_drop(watch);
	}
}

static void
memory_close(struct meta *meta)
{
	struct meta_memory *handle = (struct meta_memory *)meta;
	struct meta_store *store = handle->store;
	struct loop_link *link, *next;

	CHECK_OBJ(meta, MEMORY_MAGIC);
	LIST_FOREACH_SAFE(&store->watches, link, next) {
		struct store_watch *watch = LIST_ENTRY(link, struct store_watch, link);

		if (watch->handle == handle)
			watch_drop(watch);
	}
	/* A request under way still arrives; one that was answered is dropped by its post. */
	LIST_FOREACH_SAFE(&store->requests, link, next) {
		struct store_request *request = LIST_ENTRY(link, struct store_request, link);

		if (request->handle != handle)
			continue;
		request->handle = NULL;
		if (handle->is_cut_off && !request->is_posted)
			request_free(request);
	}
	list_remove(&handle->link);
	meta->magic = 0;
	mt_free(handle);
}

static const struct meta_ops meta_memory_ops = {
	.name = "memory",
	.txn = memory_txn,
	.list = memory_list,
	.lease_grant = memory_lease_grant,
	.lease_renew = memory_lease_renew,
	.lease_revoke = memory_lease_revoke,
	.watch = memory_watch,
	.unwatch = memory_unwatch,
	.close = memory_close,
};

struct meta *
meta_memory_open(struct meta_store *store, struct loop *loop)
{
	struct meta_memory *handle;

	CHECK_OBJ(store, META_STORE_MAGIC);
	assert(loop != NULL);
	handle = mt_calloc(1, sizeof(*handle));
	if (handle == NULL)
		return NULL;
	handle->base = (struct meta){ .magic = MEMORY_MAGIC, .ops = &meta_memory_ops };
	handle->store = store;
	handle->loop = loop;
	handle->holder = ++store->holder_last;
	list_push_back(&store->handles, &handle->link);
	return &handle->base;
}

void
meta_store_drop_travellers(struct meta_store *store)
{
	struct loop_link *link;

	assert(list_is_empty(&store->handles));
	while ((link = list_first(&store->requests)) != NULL)
		request_free(LIST_ENTRY(link, struct store_request, link));
	while ((link = list_first(&store->watches)) != NULL)
		watch_free(LIST_ENTRY(link, struct store_watch, link));
}

void
meta_memory_cut_off(struct meta *meta, bool is_cut_off)
{
	CHECK_OBJ(meta, MEMORY_MAGIC);
	((struct meta_memory *)meta)->is_cut_off = is_cut_off;
}

void
meta_memory_ring(struct meta *meta, bool is_dead)
{
	struct meta_memory *handle = (struct meta_memory *)meta;
	struct meta_store *store = handle->store;

	CHECK_OBJ(meta, MEMORY_MAGIC);
	if (!store->options.knows_deaths || handle->is_cut_off)
		return;
	if (is_dead || MUTANT(death_assumed))
		meta_store_end_holder(store, handle->holder, store_delay(store));
}
