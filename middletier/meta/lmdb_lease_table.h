/* SPDX-License-Identifier: Apache-2.0 */
/* lmdb_lease_table.h -- leases in the leased half of the store, inside a transaction */
#ifndef CLEAVE_MIDDLETIER_META_LMDB_LEASE_TABLE_H
#define CLEAVE_MIDDLETIER_META_LMDB_LEASE_TABLE_H

#include <lmdb.h>
#include <stdbool.h>
#include <stdint.h>

struct lmdb_store;

/* As stored. */
struct lmdb_lease {
	uint64_t ttl_ns;
	uint64_t expires_ns;
	uint64_t holder; /* the process that it was granted to */
};

/* lmdb_store_clock_ns -- the clock that leases are judged by: the host's, the same for all processes. */
uint64_t lmdb_store_clock_ns(const struct lmdb_store *store);
/* lmdb_clock_offset_read -- of the monotonic clock, from the text of /proc/self/timens_offsets. */
int64_t lmdb_clock_offset_read(const char *text);

/* These return 0 or a negative errno, and are called by the leased half's worker, inside its @txn. */

/* meta_lmdb_lease_get -- -ENOENT: it has ended, or never was. */
int meta_lmdb_lease_get(struct lmdb_store *store, MDB_txn *txn, uint64_t id,
    struct lmdb_lease *ret_lease);
/* meta_lmdb_lease_put -- @id is granted, or renewed, for @ttl_ns from now on. */
int meta_lmdb_lease_put(struct lmdb_store *store, MDB_txn *txn, uint64_t id, uint64_t ttl_ns,
    uint64_t holder);
/* meta_lmdb_lease_end -- the lease and every key that hangs on it go. *@ret_changed is set if there was a key. */
int meta_lmdb_lease_end(struct lmdb_store *store, MDB_txn *txn, uint64_t id, bool *ret_changed);
/*
 * meta_lmdb_leases_expire -- leases whose time is over end, and with @is_bell those of processes that have died
 *
 * store->next_expiry_ns and has_foreign are what is left. Of the durable half, which has none: 0.
 */
int meta_lmdb_leases_expire(struct lmdb_store *store, MDB_txn *txn, bool is_bell,
    bool *ret_changed);

#endif /* CLEAVE_MIDDLETIER_META_LMDB_LEASE_TABLE_H */
