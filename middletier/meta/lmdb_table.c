/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lmdb_table.c -- keys and counters in the tables of a half of the store, inside a transaction
 *
 * Keys are kept as [u64 version][u64 lease][value] in table "keys"; "state" has the two counters that
 * versions and leases come from. Each change of a key, a deletion too, counts "version" up.
 */
#include "meta/lmdb_table.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/meta.h"
#include "meta/lmdb_store.h"

int
meta_lmdb_errno(int mdb_rc)
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

MDB_val
meta_lmdb_val(const void *data, size_t bytes)
{
	return (MDB_val){ .mv_size = bytes, .mv_data = (void *)(uintptr_t)data };
}

int
meta_lmdb_key_version(struct lmdb_store *store, MDB_txn *txn, const char *key,
    uint64_t *ret_version)
{
	MDB_val name = meta_lmdb_val(key, strlen(key)), value;
	int rc = mdb_get(txn, store->keys, &name, &value);

	assert(key[0] != '\0');
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

int
meta_lmdb_next_number(struct lmdb_store *store, MDB_txn *txn, const char *counter,
    uint64_t *ret_number)
{
	MDB_val name = meta_lmdb_val(counter, strlen(counter)), value;
	uint8_t bytes[8] = { 0 };
	uint64_t number = 0;
	int rc = mdb_get(txn, store->state, &name, &value);

	if (rc == 0 && value.mv_size == sizeof(bytes))
		number = num_get_le64(value.mv_data);
	else if (rc != MDB_NOTFOUND)
		return rc == 0 ? MDB_CORRUPTED : rc;
	num_put_le64(bytes, ++number);
	value = meta_lmdb_val(bytes, sizeof(bytes));
	*ret_number = number;
	return mdb_put(txn, store->state, &name, &value, 0);
}

int
meta_lmdb_last_number(struct lmdb_store *store, MDB_txn *txn, const char *counter,
    uint64_t *ret_number)
{
	MDB_val name = meta_lmdb_val(counter, strlen(counter)), value;
	int rc = mdb_get(txn, store->state, &name, &value);

	if (rc != 0 && rc != MDB_NOTFOUND)
		return rc;
	if (rc == 0 && value.mv_size != 8)
		return MDB_CORRUPTED;
	*ret_number = rc == 0 ? num_get_le64(value.mv_data) : 0;
	return 0;
}

int
meta_lmdb_key_put(struct lmdb_store *store, MDB_txn *txn, const struct meta_op *op)
{
	MDB_val name = meta_lmdb_val(op->key, strlen(op->key)), value;
	uint64_t version;
	int rc = meta_lmdb_next_number(store, txn, "version", &version);

	assert(op->kind == META_PUT);
	assert(op->lease == 0 || store->leased == NULL);
	if (rc != 0)
		return rc;
	value = meta_lmdb_val(NULL, LMDB_ITEM_HEAD_BYTES + op->value_bytes);
	rc = mdb_put(txn, store->keys, &name, &value, MDB_RESERVE);
	if (rc != 0)
		return rc;
	num_put_le64(value.mv_data, version);
	num_put_le64((uint8_t *)value.mv_data + 8, op->lease);
	if (op->value_bytes > 0)
		memcpy((uint8_t *)value.mv_data + LMDB_ITEM_HEAD_BYTES, op->value, op->value_bytes);
	return 0;
}

int
meta_lmdb_key_delete(struct lmdb_store *store, MDB_txn *txn, const char *key)
{
	MDB_val name = meta_lmdb_val(key, strlen(key));
	uint64_t version;
	int rc = mdb_del(txn, store->keys, &name, NULL);

	assert(key[0] != '\0');
	if (rc == MDB_NOTFOUND)
		return 0;
	return rc != 0 ? rc : meta_lmdb_next_number(store, txn, "version", &version);
}
