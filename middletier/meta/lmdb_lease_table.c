/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lmdb_lease_table.c -- leases in the leased half of the store, inside a transaction
 *
 * Table "leases" has lease -> struct lmdb_lease. A lease expires by the host's monotonic clock. Time
 * namespaces shift that clock: what they add is taken off.
 */
#include "meta/lmdb_lease_table.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/num.h"
#include "meta/lmdb_store.h"
#include "meta/lmdb_table.h"

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

int
meta_lmdb_lease_get(struct lmdb_store *store, MDB_txn *txn, uint64_t id,
    struct lmdb_lease *ret_lease)
{
	uint8_t key[8] = { 0 };
	MDB_val name = meta_lmdb_val(key, sizeof(key)), value;
	int rc;

	assert(store->leased == NULL);
	num_put_le64(key, id);
	rc = mdb_get(txn, store->leases, &name, &value);
	if (rc != 0)
		return rc == MDB_NOTFOUND ? -ENOENT : meta_lmdb_errno(rc);
	if (value.mv_size != sizeof(*ret_lease))
		return -EIO;
	memcpy(ret_lease, value.mv_data, sizeof(*ret_lease));
	return 0;
}

int
meta_lmdb_lease_put(struct lmdb_store *store, MDB_txn *txn, uint64_t id, uint64_t ttl_ns,
    uint64_t holder)
{
	struct lmdb_lease lease = { .ttl_ns = ttl_ns,
		.expires_ns = lmdb_store_clock_ns(store) + ttl_ns,
		.holder = holder };
	uint8_t key[8] = { 0 };
	MDB_val name = meta_lmdb_val(key, sizeof(key)),
		value = meta_lmdb_val(&lease, sizeof(lease));

	assert(store->leased == NULL);
	assert(id != 0);
	num_put_le64(key, id);
	/* A wake-up too early, for a lease since renewed, is harmless. */
	if (store->next_expiry_ns == 0 || lease.expires_ns < store->next_expiry_ns)
		store->next_expiry_ns = lease.expires_ns;
	return meta_lmdb_errno(mdb_put(txn, store->leases, &name, &value, 0));
}

int
meta_lmdb_lease_end(struct lmdb_store *store, MDB_txn *txn, uint64_t id, bool *ret_changed)
{
	uint8_t key[8] = { 0 };
	MDB_val name = meta_lmdb_val(key, sizeof(key)), value;
	MDB_cursor *cursor;
	uint64_t version;
	bool has_keys = false;
	int rc;

	assert(store->leased == NULL);
	assert(id != 0);
	num_put_le64(key, id);
	rc = mdb_del(txn, store->leases, &name, NULL);
	if (rc != 0 && rc != MDB_NOTFOUND)
		return meta_lmdb_errno(rc);
	rc = mdb_cursor_open(txn, store->keys, &cursor);
	if (rc != 0)
		return meta_lmdb_errno(rc);
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
		rc = has_keys ? meta_lmdb_next_number(store, txn, "version", &version) : 0;
	*ret_changed |= has_keys;
	return meta_lmdb_errno(rc);
}

/* The lease's time is over; or @is_bell, and so is its holder's. */
static bool
lease_is_over(struct lmdb_store *store, const struct lmdb_lease *lease, uint64_t now_ns,
    bool is_bell)
{
	assert(!is_bell || store->is_dead != NULL);
	if (lease->expires_ns <= now_ns)
		return true;
	if (lease->holder == store->holder)
		return false;
	if (is_bell && store->is_dead(store->is_dead_arg, lease->holder))
		return true;
	store->has_foreign = true;
	return false;
}

/* Finds a lease that is over, or 0; and when the next one will be. */
static int
lease_find_over(struct lmdb_store *store, MDB_txn *txn, bool is_bell, uint64_t *ret_id)
{
	uint64_t now_ns = lmdb_store_clock_ns(store);
	MDB_cursor *cursor;
	MDB_val name, value;
	int rc = mdb_cursor_open(txn, store->leases, &cursor);

	assert(store->leased == NULL);
	*ret_id = 0;
	store->next_expiry_ns = 0;
	store->has_foreign = false;
	if (rc != 0)
		return meta_lmdb_errno(rc);
	while ((rc = mdb_cursor_get(cursor, &name, &value, MDB_NEXT)) == 0) {
		struct lmdb_lease lease;

		if (name.mv_size != 8 || value.mv_size != sizeof(lease)) {
			rc = MDB_CORRUPTED;
			break;
		}
		memcpy(&lease, value.mv_data, sizeof(lease));
		if (lease_is_over(store, &lease, now_ns, is_bell)) {
			*ret_id = num_get_le64(name.mv_data);
			break;
		}
		if (store->next_expiry_ns == 0 || lease.expires_ns < store->next_expiry_ns)
			store->next_expiry_ns = lease.expires_ns;
	}
	mdb_cursor_close(cursor);
	return rc == MDB_NOTFOUND ? 0 : meta_lmdb_errno(rc);
}

int
meta_lmdb_leases_expire(struct lmdb_store *store, MDB_txn *txn, bool is_bell, bool *ret_changed)
{
	uint64_t id;
	int rc;

	assert(!is_bell || store->leased == NULL);
	if (store->leased != NULL)
		return 0;
	while ((rc = lease_find_over(store, txn, is_bell, &id)) == 0 && id != 0) {
		rc = meta_lmdb_lease_end(store, txn, id, ret_changed);
		if (rc != 0)
			break;
	}
	return rc;
}
