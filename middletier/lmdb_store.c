/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lmdb_store.c -- requests as LMDB transactions; all of it runs on the store's one worker
 *
 * Keys are kept as [u64 version][u64 lease][value] in table "keys"; "leases" has lease -> struct
 * lmdb_lease; "state" the two counters that versions and leases come from. A lease expires by the
 * monotonic clock of the boot that granted it, which all processes of a host share; one of another boot
 * is gone. Time namespaces shift that clock: what they add is taken off. Every request's transaction
 * ends expired leases first.
 *
 * Several processes have the environment open, each its own MDB_env. Every transaction here is one of
 * LMDB's write transactions, also where it only reads: its robust lock puts all processes in one
 * order, survives a killed holder, and there are no reader slots that could go stale. Each change of
 * a key, a deletion too, counts "version" up, so one look at it tells whether others did anything.
 */
#include "lmdb_store.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "alloc.h"
#include "base/num.h"

#define LMDB_MAP_BYTES ((size_t)1 << 30)
#define LMDB_ITEM_HEAD_BYTES 16u

/* As stored. */
struct lmdb_lease {
	uint64_t ttl_ns;
	uint64_t expires_ns;
	char boot[LMDB_BOOT_BYTES];
};

uint64_t
lmdb_store_clock_ns(const struct lmdb_store *store)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now); /* tidy: allow call: the worker has no loop */
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec -
	    (uint64_t)store->clock_offset_ns;
}

int64_t
lmdb_clock_offset_read(const char *text)
{
	const char *line = strstr(text, "monotonic");
	long long seconds, nanoseconds;

	if (line == NULL || sscanf(line, "monotonic %lld %lld", &seconds, &nanoseconds) != 2)
		return 0;
	return (int64_t)seconds * 1000000000 + (int64_t)nanoseconds;
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
key_head(struct lmdb_store *store, MDB_txn *txn, const char *key, uint64_t *ret_version)
{
	MDB_val name = val_of(key, strlen(key)), value;
	int rc = mdb_get(txn, store->keys, &name, &value);

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
next_number(struct lmdb_store *store, MDB_txn *txn, const char *counter, uint64_t *ret_number)
{
	MDB_val name = val_of(counter, strlen(counter)), value;
	uint8_t bytes[8] = { 0 };
	uint64_t number = 0;
	int rc = mdb_get(txn, store->state, &name, &value);

	if (rc == 0 && value.mv_size == sizeof(bytes))
		number = num_get_le64(value.mv_data);
	else if (rc != MDB_NOTFOUND)
		return rc == 0 ? MDB_CORRUPTED : rc;
	num_put_le64(bytes, ++number);
	value = val_of(bytes, sizeof(bytes));
	*ret_number = number;
	return mdb_put(txn, store->state, &name, &value, 0);
}

/* The last number that a counter gave. */
static int
last_number(struct lmdb_store *store, MDB_txn *txn, const char *counter, uint64_t *ret_number)
{
	MDB_val name = val_of(counter, strlen(counter)), value;
	int rc = mdb_get(txn, store->state, &name, &value);

	if (rc != 0 && rc != MDB_NOTFOUND)
		return rc;
	if (rc == 0 && value.mv_size != 8)
		return MDB_CORRUPTED;
	*ret_number = rc == 0 ? num_get_le64(value.mv_data) : 0;
	return 0;
}

static int
key_put(struct lmdb_store *store, MDB_txn *txn, const struct meta_op *op)
{
	MDB_val name = val_of(op->key, strlen(op->key)), value;
	uint64_t version;
	int rc = next_number(store, txn, "version", &version);

	if (rc != 0)
		return rc;
	value = val_of(NULL, LMDB_ITEM_HEAD_BYTES + op->value_bytes);
	rc = mdb_put(txn, store->keys, &name, &value, MDB_RESERVE);
	if (rc != 0)
		return rc;
	num_put_le64(value.mv_data, version);
	num_put_le64((uint8_t *)value.mv_data + 8, op->lease);
	if (op->value_bytes > 0)
		memcpy((uint8_t *)value.mv_data + LMDB_ITEM_HEAD_BYTES, op->value, op->value_bytes);
	return 0;
}

static int
key_delete(struct lmdb_store *store, MDB_txn *txn, const char *key)
{
	MDB_val name = val_of(key, strlen(key));
	uint64_t version;
	int rc = mdb_del(txn, store->keys, &name, NULL);

	if (rc == MDB_NOTFOUND)
		return 0;
	return rc != 0 ? rc : next_number(store, txn, "version", &version);
}

/* ---- leases, inside a transaction ---- */

static int
lease_get(struct lmdb_store *store, MDB_txn *txn, uint64_t id, struct lmdb_lease *ret_lease)
{
	uint8_t key[8] = { 0 };
	MDB_val name = val_of(key, sizeof(key)), value;
	int rc;

	num_put_le64(key, id);
	rc = mdb_get(txn, store->leases, &name, &value);
	if (rc != 0)
		return rc == MDB_NOTFOUND ? -ENOENT : errno_of(rc);
	if (value.mv_size != sizeof(*ret_lease))
		return -EIO;
	memcpy(ret_lease, value.mv_data, sizeof(*ret_lease));
	return 0;
}

static int
lease_put(struct lmdb_store *store, MDB_txn *txn, uint64_t id, uint64_t ttl_ns)
{
	struct lmdb_lease lease = { .ttl_ns = ttl_ns,
		.expires_ns = lmdb_store_clock_ns(store) + ttl_ns };
	uint8_t key[8] = { 0 };
	MDB_val name = val_of(key, sizeof(key)), value = val_of(&lease, sizeof(lease));

	memcpy(lease.boot, store->boot, sizeof(lease.boot));
	num_put_le64(key, id);
	/* A wake-up too early, for a lease since renewed, is harmless. */
	if (store->next_expiry_ns == 0 || lease.expires_ns < store->next_expiry_ns)
		store->next_expiry_ns = lease.expires_ns;
	return errno_of(mdb_put(txn, store->leases, &name, &value, 0));
}

/* The lease and every key that hangs on it. */
static int
lease_end(struct lmdb_store *store, MDB_txn *txn, uint64_t id, bool *ret_changed)
{
	uint8_t key[8] = { 0 };
	MDB_val name = val_of(key, sizeof(key)), value;
	MDB_cursor *cursor;
	uint64_t version;
	bool has_keys = false;
	int rc;

	num_put_le64(key, id);
	rc = mdb_del(txn, store->leases, &name, NULL);
	if (rc != 0 && rc != MDB_NOTFOUND)
		return errno_of(rc);
	rc = mdb_cursor_open(txn, store->keys, &cursor);
	if (rc != 0)
		return errno_of(rc);
	while ((rc = mdb_cursor_get(cursor, &name, &value, MDB_NEXT)) == 0) {
		if (value.mv_size < LMDB_ITEM_HEAD_BYTES ||
		    num_get_le64((uint8_t *)value.mv_data + 8) != id)
			continue;
		rc = mdb_cursor_del(cursor, 0);
		if (rc != 0)
			break;
		has_keys = true;
	}
	mdb_cursor_close(cursor);
	if (rc == MDB_NOTFOUND)
		rc = has_keys ? next_number(store, txn, "version", &version) : 0;
	*ret_changed |= has_keys;
	return errno_of(rc);
}

static bool
lease_is_over(const struct lmdb_store *store, const struct lmdb_lease *lease, uint64_t now_ns)
{
	return lease->expires_ns <= now_ns ||
	    memcmp(lease->boot, store->boot, sizeof(lease->boot)) != 0;
}

/* One lease that is over, or 0; and when the next one will be. */
static int
lease_find_over(struct lmdb_store *store, MDB_txn *txn, uint64_t *ret_id)
{
	uint64_t now_ns = lmdb_store_clock_ns(store);
	MDB_cursor *cursor;
	MDB_val name, value;
	int rc = mdb_cursor_open(txn, store->leases, &cursor);

	*ret_id = 0;
	store->next_expiry_ns = 0;
	if (rc != 0)
		return errno_of(rc);
	while ((rc = mdb_cursor_get(cursor, &name, &value, MDB_NEXT)) == 0) {
		struct lmdb_lease lease;

		if (name.mv_size != 8 || value.mv_size != sizeof(lease)) {
			rc = MDB_CORRUPTED;
			break;
		}
		memcpy(&lease, value.mv_data, sizeof(lease));
		if (lease_is_over(store, &lease, now_ns)) {
			*ret_id = num_get_le64(name.mv_data);
			break;
		}
		if (store->next_expiry_ns == 0 || lease.expires_ns < store->next_expiry_ns)
			store->next_expiry_ns = lease.expires_ns;
	}
	mdb_cursor_close(cursor);
	return rc == MDB_NOTFOUND ? 0 : errno_of(rc);
}

static int
leases_expire(struct lmdb_store *store, MDB_txn *txn, bool *ret_changed)
{
	uint64_t id;
	int rc;

	while ((rc = lease_find_over(store, txn, &id)) == 0 && id != 0) {
		rc = lease_end(store, txn, id, ret_changed);
		if (rc != 0)
			break;
	}
	return rc;
}

/* ---- requests, on the worker ---- */

/* 0; -EAGAIN a version differs; -ENOENT a lease is gone. */
static int
txn_compare(struct lmdb_store *store, MDB_txn *txn, const struct meta_txn *wanted)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < wanted->count; i++) {
		const struct meta_op *op = &wanted->ops[i];
		uint64_t version = 0;

		if (op->kind != META_COMPARE_VERSION)
			continue;
		rc = errno_of(key_head(store, txn, op->key, &version));
		if (rc == 0 && version != op->version)
			rc = -EAGAIN;
	}
	for (uint32_t i = 0; rc == 0 && i < wanted->count; i++) {
		struct lmdb_lease lease;

		if (wanted->ops[i].lease != 0)
			rc = lease_get(store, txn, wanted->ops[i].lease, &lease);
	}
	return rc;
}

static int
txn_apply(struct lmdb_store *store, MDB_txn *txn, const struct meta_txn *wanted)
{
	for (uint32_t i = 0; i < wanted->count; i++) {
		const struct meta_op *op = &wanted->ops[i];
		int rc = 0;

		if (op->kind == META_PUT)
			rc = key_put(store, txn, op);
		else if (op->kind == META_DELETE)
			rc = key_delete(store, txn, op->key);
		if (rc != 0)
			return errno_of(rc);
	}
	return 0;
}

/* Keys from @prefix on: first their number and size, then, with room made, a copy. */
static int
list_walk(struct lmdb_store *store, MDB_txn *txn, struct lmdb_request *request, size_t *text_bytes)
{
	size_t prefix_bytes = strlen(request->prefix);
	MDB_val name = val_of(request->prefix, prefix_bytes), value;
	MDB_cursor *cursor;
	char *at = request->text;
	int rc = mdb_cursor_open(txn, store->keys, &cursor);

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
request_list(struct lmdb_store *store, MDB_txn *txn, struct lmdb_request *request)
{
	size_t text_bytes;
	int rc = list_walk(store, txn, request, &text_bytes);

	if (rc != 0 || request->item_count == 0)
		return rc;
	request->items = mt_calloc(request->item_count, sizeof(*request->items));
	request->text = mt_calloc(1, text_bytes);
	if (request->items == NULL || request->text == NULL)
		return -ENOMEM;
	return list_walk(store, txn, request, &text_bytes);
}

static int
request_do(struct lmdb_store *store, MDB_txn *txn, struct lmdb_request *request)
{
	struct lmdb_lease lease;
	int rc;

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
		rc = errno_of(next_number(store, txn, "lease", &request->lease));
		return rc != 0 ? rc : lease_put(store, txn, request->lease, request->ttl_ns);
	case REQUEST_RENEW:
		rc = lease_get(store, txn, request->lease, &lease);
		return rc != 0 ? rc : lease_put(store, txn, request->lease, lease.ttl_ns);
	case REQUEST_REVOKE:
		rc = lease_get(store, txn, request->lease, &lease);
		return rc != 0 ? rc : lease_end(store, txn, request->lease, &request->has_changed);
	}
	return -EINVAL;
}

/* Another process may have made the map larger than it is here. */
static int
txn_begin(struct lmdb_store *store, MDB_txn **ret_txn)
{
	int rc = mdb_txn_begin(store->env, NULL, 0, ret_txn);

	if (rc == MDB_MAP_RESIZED && (rc = mdb_env_set_mapsize(store->env, 0)) == 0)
		rc = mdb_txn_begin(store->env, NULL, 0, ret_txn);
	return errno_of(rc);
}

/* What a request was refused for leaves no trace; expired leases stay expired. */
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
	int rc = last_number(store, txn, "version", &version);

	store->start_version = version;
	if (rc == 0 && store->has_seen && version != store->seen_version)
		*ret_others = true;
	return errno_of(rc);
}

/*
 * What this process knows from now on. LMDB spends no number on a transaction that changed nothing: only
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
	int rc = errno_of(last_number(store, txn, "version", &version));

	if (rc != 0) {
		mdb_txn_abort(txn);
		return rc;
	}
	is_changed = is_lease || version != store->start_version;
	rc = errno_of(mdb_txn_commit(txn));
	if (rc != 0)
		return rc;
	store->has_seen = true;
	store->seen_version = version;
	store->seen_commit = is_changed ? commit : commit - 1;
	return 0;
}

void
lmdb_store_run(struct lmdb_store *store, struct lmdb_request *request, bool *ret_others)
{
	bool has_others = false, has_expired = false;
	MDB_txn *txn;
	int rc = txn_begin(store, &txn);
	int result = rc;

	if (rc == 0) {
		rc = others_look(store, txn, &has_others);
		if (rc == 0)
			rc = leases_expire(store, txn, &has_expired);
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

	return !store->has_seen || mdb_env_info(store->env, &info) != 0 ||
	    info.me_last_txnid > store->seen_commit;
}

int
lmdb_store_open(struct lmdb_store *store, const char *path)
{
	MDB_txn *txn;
	int rc = mdb_env_create(&store->env);

	if (rc != 0)
		return rc;
	if ((rc = mdb_env_set_mapsize(store->env, LMDB_MAP_BYTES)) != 0 ||
	    (rc = mdb_env_set_maxdbs(store->env, 3)) != 0 ||
	    (rc = mdb_env_open(store->env, path, MDB_NOTLS, 0600)) != 0 ||
	    (rc = mdb_reader_check(store->env, NULL)) != 0 ||
	    (rc = mdb_txn_begin(store->env, NULL, 0, &txn)) != 0)
		return rc;
	if ((rc = mdb_dbi_open(txn, "keys", MDB_CREATE, &store->keys)) != 0 ||
	    (rc = mdb_dbi_open(txn, "leases", MDB_CREATE, &store->leases)) != 0 ||
	    (rc = mdb_dbi_open(txn, "state", MDB_CREATE, &store->state)) != 0) {
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
