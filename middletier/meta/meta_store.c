/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meta_store.c -- the metadata service that meta_memory's handles speak to: keys, leases, copies of both
 *
 * Everything takes effect at once and whole. Leases are judged by the store's own loop. A watch is
 * told by meta_memory.c, which knows who listens.
 */
#include "meta/meta_store.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "common/alloc.h"
#include "meta/meta_memory.h"
#include "meta/meta_txn.h"

struct store_item {
	struct loop_link link; /* store->items, by key */
	uint64_t version;
	uint64_t lease;
	uint32_t value_bytes;
	char *value; /* behind the key */
	char key[];
};

struct store_lease {
	struct loop_link link; /* store->leases */
	struct meta_store *store;
	uint64_t id;
	uint64_t ttl_ns;
	uint64_t holder;         /* 0: nobody is asked whether it lives */
	bool is_ending;          /* its holder is dead */
	struct loop_timer timer; /* when it expires */
};

/* ---- the store's keys ---- */

static struct store_item *
store_find(struct meta_store *store, const char *key)
{
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&store->items, link, next) {
		struct store_item *item = LIST_ENTRY(link, struct store_item, link);

		if (strcmp(item->key, key) == 0)
			return item;
	}
	return NULL;
}

static void
store_remove(struct meta_store *store, struct store_item *item)
{
	assert(list_contains(&item->link));
	store->version_last++;
	meta_store_notify(store, item->key);
	list_remove(&item->link);
	mt_free(item);
}

static void
store_insert(struct meta_store *store, struct store_item *item)
{
	struct loop_link *link, *next;

	assert(!list_contains(&item->link));
	assert(item->version != 0);
	LIST_FOREACH_SAFE(&store->items, link, next) {
		if (strcmp(LIST_ENTRY(link, struct store_item, link)->key, item->key) > 0)
			break;
	}
	list_insert_before(link, &item->link);
}

static struct store_item *
store_item_create(const struct meta_op *op)
{
	size_t key_bytes = strlen(op->key) + 1;
	struct store_item *item = mt_calloc(1, sizeof(*item) + key_bytes + op->value_bytes);

	assert(op->value != NULL || op->value_bytes == 0);
	if (item == NULL)
		return NULL;
	item->lease = op->lease;
	item->value_bytes = op->value_bytes;
	item->value = item->key + key_bytes;
	memcpy(item->key, op->key, key_bytes);
	if (op->value_bytes > 0)
		memcpy(item->value, op->value, op->value_bytes);
	return item;
}

static void
store_put(struct meta_store *store, struct store_item *item)
{
	struct store_item *old = store_find(store, item->key);

	assert(item->version == 0);
	if (old != NULL) {
		list_remove(&old->link);
		mt_free(old);
	}
	item->version = ++store->version_last;
	store_insert(store, item);
	meta_store_notify(store, item->key);
}

/* ---- leases ---- */

static struct store_lease *
store_find_lease(struct meta_store *store, uint64_t id)
{
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&store->leases, link, next) {
		struct store_lease *lease = LIST_ENTRY(link, struct store_lease, link);

		if (lease->id == id)
			return lease;
	}
	return NULL;
}

static void
store_end_lease(struct meta_store *store, struct store_lease *lease)
{
	struct loop_link *link, *next;

	assert(list_contains(&lease->link));
	LIST_FOREACH_SAFE(&store->items, link, next) {
		struct store_item *item = LIST_ENTRY(link, struct store_item, link);

		if (item->lease == lease->id)
			store_remove(store, item);
	}
	loop_timer_stop(store->loop, &lease->timer);
	list_remove(&lease->link);
	mt_free(lease);
}

static void
store_on_lease_end(struct loop_timer *timer, void *arg)
{
	struct store_lease *lease = arg;

	assert(list_contains(&lease->link));
	(void)timer;
	store_end_lease(lease->store, lease);
}

static struct store_lease *
store_add_lease(struct meta_store *store, uint64_t id, uint64_t ttl_ns, uint64_t left_ns)
{
	struct store_lease *lease = mt_calloc(1, sizeof(*lease));

	assert(id != 0);
	if (lease == NULL)
		return NULL;
	lease->store = store;
	lease->id = id;
	lease->ttl_ns = ttl_ns;
	loop_timer_init(&lease->timer, store_on_lease_end, lease);
	loop_timer_start(store->loop, &lease->timer, left_ns);
	list_push_back(&store->leases, &lease->link);
	return lease;
}

int
meta_store_grant(struct meta_store *store, uint64_t ttl_ns, uint64_t holder, uint64_t *ret_lease)
{
	struct store_lease *lease = store_add_lease(store, store->lease_last + 1, ttl_ns, ttl_ns);

	assert(ttl_ns > 0);
	if (lease == NULL)
		return -EIO;
	lease->holder = holder;
	*ret_lease = ++store->lease_last;
	return 0;
}

int
meta_store_renew(struct meta_store *store, uint64_t id)
{
	struct store_lease *lease = store_find_lease(store, id);

	CHECK_OBJ(store, META_STORE_MAGIC);
	if (lease == NULL)
		return -ENOENT;
	if (!lease->is_ending)
		loop_timer_start(store->loop, &lease->timer, lease->ttl_ns);
	return 0;
}

void
meta_store_end_holder(struct meta_store *store, uint64_t holder, uint64_t delay_ns)
{
	struct loop_link *link, *next;

	assert(holder != 0);
	LIST_FOREACH_SAFE(&store->leases, link, next) {
		struct store_lease *lease = LIST_ENTRY(link, struct store_lease, link);

		if (lease->holder != holder || lease->is_ending)
			continue;
		lease->is_ending = true;
		loop_timer_start(store->loop, &lease->timer, delay_ns);
	}
}

int
meta_store_revoke(struct meta_store *store, uint64_t id)
{
	struct store_lease *lease = store_find_lease(store, id);

	CHECK_OBJ(store, META_STORE_MAGIC);
	if (lease == NULL)
		return -ENOENT;
	store_end_lease(store, lease);
	return 0;
}

/* ---- requests take effect ---- */

/* 0; -EAGAIN a version differs; -ENOENT a lease is gone. */
static int
store_check_txn(struct meta_store *store, const struct meta_txn *txn)
{
	for (uint32_t i = 0; i < txn->count; i++) {
		const struct meta_op *op = &txn->ops[i];
		struct store_item *item = store_find(store, op->key);

		if (op->kind == META_COMPARE_VERSION &&
		    op->version != (item != NULL ? item->version : 0))
			return -EAGAIN;
	}
	for (uint32_t i = 0; i < txn->count; i++) {
		if (txn->ops[i].lease != 0 && store_find_lease(store, txn->ops[i].lease) == NULL)
			return -ENOENT;
	}
	return 0;
}

/* All or nothing, memory included: what is put is made before anything changes. */
int
meta_store_txn(struct meta_store *store, const struct meta_txn *txn)
{
	struct store_item *made[META_TXN_OPS_MAX] = { NULL };
	int rc = store_check_txn(store, txn);

	assert(txn->count >= 1);
	assert(txn->count <= META_TXN_OPS_MAX);
	for (uint32_t i = 0; rc == 0 && i < txn->count; i++) {
		if (txn->ops[i].kind != META_PUT)
			continue;
		made[i] = store_item_create(&txn->ops[i]);
		if (made[i] == NULL)
			rc = -EIO;
	}
	for (uint32_t i = 0; rc != 0 && i < txn->count; i++)
		mt_free(made[i]);
	for (uint32_t i = 0; rc == 0 && i < txn->count; i++) {
		struct store_item *old = store_find(store, txn->ops[i].key);

		if (txn->ops[i].kind == META_PUT)
			store_put(store, made[i]);
		else if (txn->ops[i].kind == META_DELETE && old != NULL)
			store_remove(store, old);
	}
	return rc;
}

/* The answer is what was true then: it is copied. */
int
meta_store_list(struct meta_store *store, const char *prefix, struct meta_item **ret_items,
    uint32_t *ret_count)
{
	struct loop_link *link, *next;
	size_t bytes = 0;
	uint32_t count = 0;
	struct meta_item *items;
	char *at;

	CHECK_OBJ(store, META_STORE_MAGIC);
	assert(meta_prefix_is_valid(prefix));
	LIST_FOREACH_SAFE(&store->items, link, next) {
		struct store_item *item = LIST_ENTRY(link, struct store_item, link);

		bytes += sizeof(struct meta_item) + strlen(item->key) + 1 + item->value_bytes;
		count++;
	}
	items = mt_calloc(1, bytes + 1);
	if (items == NULL)
		return -EIO;
	at = (char *)(items + count);
	count = 0;
	LIST_FOREACH_SAFE(&store->items, link, next) {
		struct store_item *item = LIST_ENTRY(link, struct store_item, link);
		size_t item_bytes = strlen(item->key) + 1 + item->value_bytes;

		if (!meta_key_has_prefix(item->key, prefix))
			continue;
		memcpy(at, item->key, item_bytes);
		items[count++] = (struct meta_item){ .key = at,
			.value = at + strlen(item->key) + 1,
			.value_bytes = item->value_bytes,
			.version = item->version };
		at += item_bytes;
	}
	assert((size_t)(at - (char *)items) <= bytes);
	*ret_items = items;
	*ret_count = count;
	return 0;
}

/* ---- copies of it ---- */

struct snapshot_lease {
	struct loop_link link; /* snapshot->leases */
	uint64_t id, ttl_ns, expires_ns;
};

struct meta_snapshot {
	struct loop_link items, leases;
	uint64_t version_last, lease_last;
};

static void
items_free(struct loop_link *items)
{
	struct loop_link *link;

	while ((link = list_pop_front(items)) != NULL)
		mt_free(LIST_ENTRY(link, struct store_item, link));
}

/* Keys and leases go; nobody is told. */
static void
store_forget(struct meta_store *store)
{
	struct loop_link *link;

	while ((link = list_pop_front(&store->leases)) != NULL) {
		struct store_lease *lease = LIST_ENTRY(link, struct store_lease, link);

		loop_timer_stop(store->loop, &lease->timer);
		mt_free(lease);
	}
	items_free(&store->items);
}

/* @to is a list of its own then, also after -ENOMEM. */
static int
items_copy(const struct loop_link *from, struct loop_link *to)
{
	const struct loop_link *link;

	list_init(to);
	for (link = from->next; link != from; link = link->next) {
		const struct store_item *item = LIST_ENTRY(link, const struct store_item, link);
		struct store_item *copy = store_item_create(&(struct meta_op){ .key = item->key,
		    .value = item->value,
		    .value_bytes = item->value_bytes,
		    .lease = item->lease });

		if (copy == NULL)
			return -ENOMEM;
		copy->version = item->version;
		list_push_back(to, &copy->link);
	}
	return 0;
}

struct meta_snapshot *
meta_store_snapshot(struct meta_store *store)
{
	struct meta_snapshot *snapshot = mt_calloc(1, sizeof(*snapshot));
	struct loop_link *link, *next;

	CHECK_OBJ(store, META_STORE_MAGIC);
	if (snapshot == NULL)
		return NULL;
	snapshot->version_last = store->version_last;
	snapshot->lease_last = store->lease_last;
	list_init(&snapshot->leases);
	if (items_copy(&store->items, &snapshot->items) != 0)
		goto err_snapshot;
	LIST_FOREACH_SAFE(&store->leases, link, next) {
		struct store_lease *lease = LIST_ENTRY(link, struct store_lease, link);
		struct snapshot_lease *copy = mt_calloc(1, sizeof(*copy));

		if (copy == NULL)
			goto err_snapshot;
		copy->id = lease->id;
		copy->ttl_ns = lease->ttl_ns;
		copy->expires_ns = lease->timer.due_ns;
		list_push_back(&snapshot->leases, &copy->link);
	}
	return snapshot;

err_snapshot:
	meta_snapshot_destroy(snapshot);
	return NULL;
}

void
meta_snapshot_destroy(struct meta_snapshot *snapshot)
{
	struct loop_link *link;

	if (snapshot == NULL)
		return;
	items_free(&snapshot->items);
	while ((link = list_pop_front(&snapshot->leases)) != NULL)
		mt_free(LIST_ENTRY(link, struct snapshot_lease, link));
	mt_free(snapshot);
}

int
meta_store_restore(struct meta_store *store, const struct meta_snapshot *snapshot)
{
	uint64_t now_ns = loop_now_ns(store->loop);
	const struct loop_link *link;
	struct loop_link items;
	int rc = items_copy(&snapshot->items, &items);

	CHECK_OBJ(store, META_STORE_MAGIC);
	if (rc != 0) {
		items_free(&items);
		return rc;
	}
	store_forget(store);
	while (!list_is_empty(&items))
		list_push_back(&store->items, list_pop_front(&items));
	store->version_last = snapshot->version_last;
	store->lease_last = snapshot->lease_last;
	for (link = snapshot->leases.next; link != &snapshot->leases; link = link->next) {
		const struct snapshot_lease *old =
		    LIST_ENTRY(link, const struct snapshot_lease, link);
		/* A lease that is over ends at once, as the store finds it. */
		uint64_t left_ns = old->expires_ns > now_ns ? old->expires_ns - now_ns : 0;

		if (store_add_lease(store, old->id, old->ttl_ns, left_ns) == NULL)
			rc = -ENOMEM;
	}
	meta_store_notify(store, NULL);
	return rc;
}

/* ---- the store ---- */

struct meta_store *
meta_store_create(const struct meta_store_options *options)
{
	struct meta_store *store = mt_calloc(1, sizeof(*store));

	assert(options->loop != NULL);
	if (store == NULL)
		return NULL;
	store->magic = META_STORE_MAGIC;
	store->options = *options;
	store->loop = options->loop;
	if (store->options.delay_min_ns == 0)
		store->options.delay_min_ns = NUM_US(50);
	if (store->options.delay_max_ns == 0)
		store->options.delay_max_ns = NUM_US(500);
	store->options.delay_max_ns =
	    num_max(store->options.delay_max_ns, store->options.delay_min_ns);
	if (store->options.timeout_ns == 0)
		store->options.timeout_ns = NUM_S(1);
	list_init(&store->items);
	list_init(&store->leases);
	list_init(&store->handles);
	list_init(&store->requests);
	list_init(&store->watches);
	return store;
}

void
meta_store_destroy(struct meta_store *store)
{
	if (store == NULL)
		return;
	CHECK_OBJ(store, META_STORE_MAGIC);
	meta_store_drop_travellers(store);
	store_forget(store);
	store->magic = 0;
	mt_free(store);
}

void
meta_store_set_timeouts(struct meta_store *store, uint32_t lost_per_mille, uint32_t late_per_mille)
{
	CHECK_OBJ(store, META_STORE_MAGIC);
	assert(lost_per_mille <= 1000);
	assert(late_per_mille <= 1000);
	store->lost_per_mille = lost_per_mille;
	store->late_per_mille = late_per_mille;
}

void
meta_store_set_delay(struct meta_store *store, uint64_t min_ns, uint64_t max_ns)
{
	CHECK_OBJ(store, META_STORE_MAGIC);
	assert(min_ns <= max_ns);
	store->options.delay_min_ns = min_ns;
	store->options.delay_max_ns = max_ns;
}

void
meta_store_set_down(struct meta_store *store, bool is_down)
{
	CHECK_OBJ(store, META_STORE_MAGIC);
	store->is_down = is_down;
}

void
meta_store_set_stalled(struct meta_store *store, bool is_stalled)
{
	CHECK_OBJ(store, META_STORE_MAGIC);
	store->is_stalled = is_stalled;
	if (!is_stalled)
		meta_store_unpark(store);
}

uint64_t
meta_store_lease_left_ns(struct meta_store *store, uint64_t lease)
{
	const struct store_lease *found = store_find_lease(store, lease);
	uint64_t now_ns = loop_now_ns(store->options.loop);

	CHECK_OBJ(store, META_STORE_MAGIC);
	if (found == NULL || !found->timer.is_active || found->timer.due_ns <= now_ns)
		return 0;
	return found->timer.due_ns - now_ns;
}

uint64_t
meta_store_applied_count(const struct meta_store *store)
{
	CHECK_OBJ(store, META_STORE_MAGIC);
	return store->applied_count;
}
