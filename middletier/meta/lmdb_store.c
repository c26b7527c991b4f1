/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lmdb_store.c -- requests as LMDB transactions; each half of the store has a worker for them
 *
 *	half      where                         what                            a commit waits for
 *	durable   the store's directory         all keys but those              the disk
 *	leased    memory that the host shares   leases, META_LEASED_PREFIX's    nothing
 *	          (lmdb_leases.c)               keys
 *
 * Who could see a lease dies with the host, so nothing of it need be durable; and what keeps it alive
 * must not wait for a disk, nor behind who waits for one.
 *
 * lmdb_table.c has what lies in the tables, lmdb_lease_table.c what becomes of leases. Every transaction of the
 * leased half ends expired leases first.
 *
 * Several processes have the environments open, each its own MDB_env. Every transaction here is one of
 * LMDB's write transactions, also where it only reads: its robust lock puts all processes in one
 * order, survives a killed holder, and there are no reader slots that could go stale. Each change of
 * a key, a deletion too, counts "version" up, so one look at it tells whether others did anything.
 *
 * A transaction of the durable half may compare leased keys: it looks at them with both locks held,
 * always taken in that order, and keeps the durable one until its commit. So it takes its place in the order
 * of both halves at that look: whoever reads a durable key later waits for the commit, and what happens to
 * leased keys meanwhile happens after it.
 */
#include "meta/lmdb_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "cleave/meta.h"
#include "common/alloc.h"
#include "meta/lmdb_lease_table.h"
#include "meta/lmdb_table.h"
#include "meta/meta_lmdb.h"
#include "meta/meta_txn.h"

#define LMDB_MAP_BYTES ((size_t)1 << 30)
#define LMDB_LEASED_MAP_BYTES ((size_t)1 << 26) /* 64 gateways of some KiB */

/* Another process may have made the map larger than it is here. */
static int
txn_begin(struct lmdb_store *store, MDB_txn **ret_txn)
{
	int rc = mdb_txn_begin(store->env, NULL, 0, ret_txn);

	assert(store->env != NULL);
	if (rc == MDB_MAP_RESIZED && (rc = mdb_env_set_mapsize(store->env, 0)) == 0)
		rc = mdb_txn_begin(store->env, NULL, 0, ret_txn);
	return meta_lmdb_errno(rc);
}

/* ---- requests, on the worker ---- */

bool
lmdb_request_is_leased(const struct lmdb_request *request)
{
	assert(request->kind != REQUEST_LIST || request->prefix != NULL);
	assert(request->kind != REQUEST_TXN || request->txn != NULL);
	if (request->kind == REQUEST_LIST)
		return meta_key_is_leased(request->prefix);
	return request->kind != REQUEST_TXN || meta_txn_is_leased(request->txn);
}

/* Compares the keys that lie in @store. 0; -EAGAIN a version differs. */
static int
txn_compare_keys(struct lmdb_store *store, MDB_txn *txn, const struct meta_txn *wanted)
{
	bool is_leased = store->leased == NULL;

	assert(wanted->count <= META_TXN_OPS_MAX);
	for (uint32_t i = 0; i < wanted->count; i++) {
		const struct meta_op *op = &wanted->ops[i];
		uint64_t version = 0;
		int rc;

		if (op->kind != META_COMPARE_VERSION || meta_key_is_leased(op->key) != is_leased)
			continue;
		rc = meta_lmdb_errno(meta_lmdb_key_version(store, txn, op->key, &version));
		if (rc != 0)
			return rc;
		if (version != op->version)
			return -EAGAIN;
	}
	return 0;
}

static bool
txn_compares_leased(const struct meta_txn *wanted)
{
	for (uint32_t i = 0; i < wanted->count; i++)
		if (meta_key_is_leased(wanted->ops[i].key))
			return true;
	return false;
}

/* 0; -EAGAIN a version differs; -ENOENT a lease is gone. */
static int
txn_compare(struct lmdb_store *store, MDB_txn *txn, const struct meta_txn *wanted)
{
	int rc = txn_compare_keys(store, txn, wanted);
	MDB_txn *look;

	assert(wanted->count > 0);
	if (rc == 0 && store->leased != NULL && txn_compares_leased(wanted)) {
		rc = txn_begin(store->leased, &look);
		if (rc != 0)
			return rc;
		rc = txn_compare_keys(store->leased, look, wanted);
		mdb_txn_abort(look);
	}
	for (uint32_t i = 0; rc == 0 && i < wanted->count; i++) {
		struct lmdb_lease lease;

		if (wanted->ops[i].lease != 0)
			rc = meta_lmdb_lease_get(store, txn, wanted->ops[i].lease, &lease);
	}
	return rc;
}

static int
txn_apply(struct lmdb_store *store, MDB_txn *txn, const struct meta_txn *wanted)
{
	assert(wanted->count > 0);
	for (uint32_t i = 0; i < wanted->count; i++) {
		const struct meta_op *op = &wanted->ops[i];
		int rc = 0;

		if (op->kind == META_PUT)
			rc = meta_lmdb_key_put(store, txn, op);
		else if (op->kind == META_DELETE)
			rc = meta_lmdb_key_delete(store, txn, op->key);
		if (rc != 0)
			return meta_lmdb_errno(rc);
	}
	return 0;
}

/* Where a list's answer goes: first its size alone, then, with room made, a copy. */
struct list_answer {
	struct lmdb_request *request;
	char *at; /* NULL: count */
	size_t text_bytes;
};

static void
list_add(struct list_answer *answer, const MDB_val *name, const MDB_val *value)
{
	struct lmdb_request *request = answer->request;
	struct meta_item *item;

	assert(value->mv_size >= LMDB_ITEM_HEAD_BYTES);
	answer->text_bytes += name->mv_size + 1 + value->mv_size - LMDB_ITEM_HEAD_BYTES;
	request->item_count++;
	if (answer->at == NULL)
		return;
	item = &request->items[request->item_count - 1];
	item->key = memcpy(answer->at, name->mv_data, name->mv_size);
	answer->at += name->mv_size;
	*answer->at++ = '\0';
	item->version = num_get_le64(value->mv_data);
	item->value_bytes = (uint32_t)(value->mv_size - LMDB_ITEM_HEAD_BYTES);
	item->value =
	    memcpy(answer->at, (uint8_t *)value->mv_data + LMDB_ITEM_HEAD_BYTES, item->value_bytes);
	answer->at += item->value_bytes;
}

/* Keys of @store that begin with the request's prefix. */
static int
list_walk(struct lmdb_store *store, MDB_txn *txn, struct list_answer *answer)
{
	const char *prefix = answer->request->prefix;
	size_t prefix_bytes = strlen(prefix);
	MDB_val name = meta_lmdb_val(prefix, prefix_bytes), value;
	MDB_cursor *cursor;
	int rc = mdb_cursor_open(txn, store->keys, &cursor);

	assert(answer->request->kind == REQUEST_LIST);
	if (rc != 0)
		return meta_lmdb_errno(rc);
	rc = mdb_cursor_get(cursor, &name, &value, prefix_bytes == 0 ? MDB_FIRST : MDB_SET_RANGE);
	for (; rc == 0; rc = mdb_cursor_get(cursor, &name, &value, MDB_NEXT)) {
		if (name.mv_size < prefix_bytes || memcmp(name.mv_data, prefix, prefix_bytes) != 0)
			break;
		if (value.mv_size < LMDB_ITEM_HEAD_BYTES) {
			rc = MDB_CORRUPTED;
			break;
		}
		list_add(answer, &name, &value);
	}
	mdb_cursor_close(cursor);
	return rc == MDB_NOTFOUND ? 0 : meta_lmdb_errno(rc);
}

/* @leased NULL: of one half alone. */
static int
list_halves(struct lmdb_store *store, MDB_txn *txn, MDB_txn *leased, struct list_answer *answer)
{
	int rc;

	assert(leased == NULL || store->leased != NULL);
	answer->request->item_count = 0;
	answer->at = answer->request->text;
	answer->text_bytes = 0;
	rc = list_walk(store, txn, answer);
	if (rc == 0 && leased != NULL)
		rc = list_walk(store->leased, leased, answer);
	return rc;
}

static int
item_compare(const void *a, const void *b)
{
	return strcmp(((const struct meta_item *)a)->key, ((const struct meta_item *)b)->key);
}

static int
request_list(struct lmdb_store *store, MDB_txn *txn, struct lmdb_request *request)
{
	struct list_answer answer = { .request = request };
	MDB_txn *leased = NULL;
	int rc = 0;

	assert(request->items == NULL);
	assert(request->text == NULL);
	/* A prefix that is shorter than theirs has leased keys behind it, too. */
	if (store->leased != NULL && meta_key_has_prefix(META_LEASED_PREFIX, request->prefix))
		rc = txn_begin(store->leased, &leased);
	if (rc == 0)
		rc = list_halves(store, txn, leased, &answer);
	if (rc == 0 && request->item_count > 0) {
		request->items = mt_calloc(request->item_count, sizeof(*request->items));
		request->text = mt_calloc(1, answer.text_bytes);
		rc = request->items == NULL || request->text == NULL
		    ? -ENOMEM
		    : list_halves(store, txn, leased, &answer);
	}
	if (leased != NULL)
		mdb_txn_abort(leased);
	if (rc == 0 && request->item_count > 0)
		qsort(request->items, request->item_count, sizeof(*request->items), item_compare);
	return rc;
}

static int
request_do(struct lmdb_store *store, MDB_txn *txn, struct lmdb_request *request)
{
	struct lmdb_lease lease;
	int rc;

	assert(lmdb_request_is_leased(request) == (store->leased == NULL));
	switch (request->kind) {
	case REQUEST_TXN:
		rc = txn_compare(store, txn, request->txn);
		if (rc != 0)
			return rc;
		request->has_changed = true;
		return txn_apply(store, txn, request->txn);
	case REQUEST_LIST:
		return request_list(store, txn, request);
	case REQUEST_GRANT:
		rc = meta_lmdb_errno(meta_lmdb_next_number(store, txn, "lease", &request->lease));
		return rc != 0 ? rc
			       : meta_lmdb_lease_put(store, txn, request->lease, request->ttl_ns,
				     store->holder);
	case REQUEST_RENEW:
		rc = meta_lmdb_lease_get(store, txn, request->lease, &lease);
		return rc != 0
		    ? rc
		    : meta_lmdb_lease_put(store, txn, request->lease, lease.ttl_ns, lease.holder);
	case REQUEST_REVOKE:
		rc = meta_lmdb_lease_get(store, txn, request->lease, &lease);
		return rc != 0
		    ? rc
		    : meta_lmdb_lease_end(store, txn, request->lease, &request->has_changed);
	}
	return -EINVAL;
}

/* A request that was refused leaves no trace; expired leases stay expired. */
static bool
is_refusal(int rc)
{
	return rc == -EAGAIN || rc == -ENOENT;
}

/* Did others change keys before this transaction? */
static int
others_look(struct lmdb_store *store, MDB_txn *txn, bool *ret_others)
{
	uint64_t version = 0;
	int rc = meta_lmdb_last_number(store, txn, "version", &version);

	store->start_version = version;
	if (rc == 0 && store->has_seen && version != store->seen_version)
		*ret_others = true;
	return meta_lmdb_errno(rc);
}

/*
 * The newest transaction, as this process knows it from now on. LMDB spends no number on a transaction that changed nothing: only
 * one that surely did may count its own, or the next commit of another process would go unseen.
 */
static int
run_commit(struct lmdb_store *store, MDB_txn *txn, const struct lmdb_request *request)
{
	bool is_lease = request != NULL && request->rc == 0 &&
	    (request->kind == REQUEST_GRANT || request->kind == REQUEST_RENEW);
	uint64_t version = 0;
	bool is_changed;
	size_t commit = mdb_txn_id(txn);
	int rc = meta_lmdb_errno(meta_lmdb_last_number(store, txn, "version", &version));

	if (rc != 0) {
		mdb_txn_abort(txn);
		return rc;
	}
	is_changed = is_lease || version != store->start_version;
	rc = meta_lmdb_errno(mdb_txn_commit(txn));
	if (rc != 0)
		return rc;
	store->has_seen = true;
	store->seen_version = version;
	store->seen_commit = is_changed ? commit : commit - 1;
	return 0;
}

void
lmdb_store_run(struct lmdb_store *store, struct lmdb_request *request, bool is_bell,
    bool *ret_others)
{
	bool has_others = false, has_expired = false;
	MDB_txn *txn;
	int rc = txn_begin(store, &txn);
	int result = rc;

	assert(store->env != NULL);
	assert(!is_bell || store->leased == NULL);
	if (rc == 0) {
		rc = others_look(store, txn, &has_others);
		if (rc == 0)
			rc = meta_lmdb_leases_expire(store, txn, is_bell, &has_expired);
		result = rc;
		if (rc == 0 && request != NULL)
			result = request->rc = request_do(store, txn, request);
		if (rc != 0 || (result != 0 && !is_refusal(result))) {
			mdb_txn_abort(txn);
			has_expired = has_others = false; /* the next one sees it again */
		} else {
			rc = run_commit(store, txn, request);
			if (rc != 0)
				has_expired = has_others = false;
			result = rc != 0 ? rc : result;
		}
	}
	/* A store that fails is asked again, but not at once and for ever. */
	if (rc != 0)
		store->next_expiry_ns = lmdb_store_clock_ns(store) + NUM_S(1);
	*ret_others = has_others || has_expired;
	if (request != NULL) {
		request->rc = result;
		request->has_changed &= result == 0;
	}
}

bool
lmdb_store_is_behind(const struct lmdb_store *store)
{
	MDB_envinfo info;

	assert(store->env != NULL);
	return !store->has_seen || mdb_env_info(store->env, &info) != 0 ||
	    info.me_last_txnid > store->seen_commit;
}

/* Versions and leases go on where those of a leased half before this one ended. */
static int
state_begin(struct lmdb_store *store, MDB_txn *txn)
{
	static const char *const counters[] = { "version", "lease" };
	uint8_t bytes[8];
	int rc = 0;

	assert(store->leased == NULL);
	/* The clock runs faster than either has been counted up since this boot. */
	num_put_le64(bytes, lmdb_store_clock_ns(store));
	for (uint32_t i = 0; rc == 0 && i < NUM_COUNT(counters); i++) {
		MDB_val name = meta_lmdb_val(counters[i], strlen(counters[i]));
		MDB_val value = meta_lmdb_val(bytes, sizeof(bytes));

		rc = mdb_put(txn, store->state, &name, &value, MDB_NOOVERWRITE);
		rc = rc == MDB_KEYEXIST ? 0 : rc;
	}
	return rc;
}

static int
tables_open(struct lmdb_store *store, MDB_txn *txn)
{
	int rc = mdb_dbi_open(txn, "keys", MDB_CREATE, &store->keys);

	if (rc == 0)
		rc = mdb_dbi_open(txn, "state", MDB_CREATE, &store->state);
	if (rc != 0 || store->leased != NULL)
		return rc;
	rc = mdb_dbi_open(txn, "leases", MDB_CREATE, &store->leases);
	return rc != 0 ? rc : state_begin(store, txn);
}

/*
 * LMDB asserts what it reads in its file, where that was written over under it, and then aborts. Nothing of ours is wrong, and no
 * transaction can end: the process does, with its leases, as one that a start refuses.
 */
static void
store_on_assert(MDB_env *env, const char *text)
{
	const char *path = "?";

	(void)mdb_env_get_path(env, &path);
	log_error(
	    "meta: %s/data.mdb was written over while it was in use: a store " META_LMDB_BROKEN_HELP
	    " (LMDB: %s)",
	    path, text);
	_exit(EXIT_FAILURE);
}

int
lmdb_store_open(struct lmdb_store *store, const char *path)
{
	bool is_leased = store->leased == NULL;
	MDB_txn *txn;
	int rc;

	assert(store->env == NULL);
	rc = mdb_env_create(&store->env);
	if (rc != 0)
		return rc;
	if ((rc = mdb_env_set_mapsize(store->env,
		 is_leased ? LMDB_LEASED_MAP_BYTES : LMDB_MAP_BYTES)) != 0 ||
	    (rc = mdb_env_set_maxdbs(store->env, 3)) != 0 ||
	    (rc = mdb_env_set_assert(store->env, store_on_assert)) != 0 ||
	    (rc = mdb_env_open(store->env, path, MDB_NOTLS | (is_leased ? MDB_NOSYNC : 0), 0600)) !=
		0 ||
	    (rc = mdb_reader_check(store->env, NULL)) != 0 ||
	    (rc = mdb_txn_begin(store->env, NULL, 0, &txn)) != 0)
		return rc;
	rc = tables_open(store, txn);
	if (rc != 0) {
		mdb_txn_abort(txn);
		return rc;
	}
	return mdb_txn_commit(txn);
}

void
lmdb_store_close(struct lmdb_store *store)
{
	if (store->env != NULL)
		mdb_env_close(store->env);
	store->env = NULL;
}
