/* SPDX-License-Identifier: Apache-2.0 */
/* lmdb_store.h -- half of a store in LMDB, and a request to it; lmdb_worker.h has its thread */
#ifndef CLEAVE_MIDDLETIER_META_LMDB_STORE_H
#define CLEAVE_MIDDLETIER_META_LMDB_STORE_H

#include <lmdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cleave/loop.h"
#include "cleave/meta.h"

struct meta_txn;

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

/*
 * A half of a store, of two: durable keys, on disk; or leases and the keys under
 * META_LEASED_PREFIX, in memory. It belongs to one worker; of the leased half, `env` and the tables
 * are also the durable half's worker's, under LMDB's own lock.
 */
struct lmdb_store {
	MDB_env *env;
	MDB_dbi keys, leases, state;
	struct lmdb_store *leased; /* NULL: this is the leased half */
	int64_t clock_offset_ns;   /* what this process's time namespace adds to the host's clock */
	uint64_t holder;           /* the leased half: who we are, for those that we grant */
	/* The leased half: has the process @holder ended? */
	bool (*is_dead)(void *arg, uint64_t holder);
	void *is_dead_arg;
	bool has_seen;           /* the first transaction is over */
	uint64_t seen_version;   /* of the newest change known here, own ones included */
	uint64_t start_version;  /* of the newest change when the present transaction began */
	size_t seen_commit;      /* LMDB's number of the last commit known here */
	uint64_t next_expiry_ns; /* 0: no lease */
	bool has_foreign;        /* leases of other processes live, as of the last transaction */
};

/*
 * lmdb_store_open -- the half in directory @path: the leased one, when store->leased is NULL
 *
 * Returns 0, or what mdb_strerror explains. lmdb_store_close: NULL env is a no-op.
 */
int lmdb_store_open(struct lmdb_store *store, const char *path);
void lmdb_store_close(struct lmdb_store *store);
/*
 * lmdb_store_run -- one transaction
 *
 * @request may be NULL: only expire leases, and look what other processes did. @is_bell: leases of
 * processes that have died end, too.
 * *@ret_others: keys changed that @request did not change: leases ended, or another process did it.
 */
void lmdb_store_run(struct lmdb_store *store, struct lmdb_request *request, bool is_bell,
    bool *ret_others);
/* lmdb_store_is_behind -- another process has committed since the last transaction here. Takes no lock. */
bool lmdb_store_is_behind(const struct lmdb_store *store);
/* lmdb_request_is_leased -- the leased half alone can answer it. */
bool lmdb_request_is_leased(const struct lmdb_request *request);

#endif /* CLEAVE_MIDDLETIER_META_LMDB_STORE_H */
