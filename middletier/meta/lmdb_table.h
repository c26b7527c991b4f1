/* SPDX-License-Identifier: Apache-2.0 */
/* lmdb_table.h -- keys and counters in the tables of a half of the store, inside a transaction */
#ifndef CLEAVE_MIDDLETIER_META_LMDB_TABLE_H
#define CLEAVE_MIDDLETIER_META_LMDB_TABLE_H

#include <lmdb.h>
#include <stddef.h>
#include <stdint.h>

struct lmdb_store;
struct meta_op;

#define LMDB_ITEM_HEAD_BYTES 16u /* version and lease, before a key's value */

/* meta_lmdb_errno -- what LMDB's error is to a caller of the store: 0, -ENOSPC, -ENOMEM, -EIO. */
int meta_lmdb_errno(int mdb_rc);
/* meta_lmdb_val -- @bytes bytes at @data, which LMDB only reads. */
MDB_val meta_lmdb_val(const void *data, size_t bytes);

/* These return 0 or LMDB's error, and are called by the half's worker, inside @txn of its own environment. */

/* meta_lmdb_key_version -- 0: @key is absent. */
int meta_lmdb_key_version(struct lmdb_store *store, MDB_txn *txn, const char *key,
    uint64_t *ret_version);
/* meta_lmdb_next_number -- counts @counter of table "state" up. */
int meta_lmdb_next_number(struct lmdb_store *store, MDB_txn *txn, const char *counter,
    uint64_t *ret_number);
/* meta_lmdb_last_number -- that @counter gave; 0: none yet. */
int meta_lmdb_last_number(struct lmdb_store *store, MDB_txn *txn, const char *counter,
    uint64_t *ret_number);
/* meta_lmdb_key_put -- a META_PUT takes effect, under the next version. */
int meta_lmdb_key_put(struct lmdb_store *store, MDB_txn *txn, const struct meta_op *op);
/* meta_lmdb_key_delete -- a key that is not there is no error, and no change. */
int meta_lmdb_key_delete(struct lmdb_store *store, MDB_txn *txn, const char *key);

#endif /* CLEAVE_MIDDLETIER_META_LMDB_TABLE_H */
