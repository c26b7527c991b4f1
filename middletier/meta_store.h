/* SPDX-License-Identifier: Apache-2.0 */
/* meta_store.h -- what meta_store.c, the service, and meta_memory.c, the way to it, share */
#ifndef CLEAVE_MIDDLETIER_META_STORE_H
#define CLEAVE_MIDDLETIER_META_STORE_H

#include "meta_memory.h"
#include "meta_txn.h"

#define META_STORE_MAGIC 0x524f5453u /* "STOR" */

struct meta_store {
	uint32_t magic; /* META_STORE_MAGIC */
	struct meta_store_options options;
	struct loop *loop;
	struct loop_link items, leases, handles, requests, watches;
	uint64_t version_last, lease_last, holder_last;
	uint32_t lost_per_mille, late_per_mille;
	bool is_down, is_stalled;
	uint64_t applied_count;
};

/* A request takes effect, at once and whole. 0, or what its handler is told. */
int meta_store_txn(struct meta_store *store, const struct meta_txn *txn);
/* *@ret_items is one piece of memory: mt_free it. */
int meta_store_list(struct meta_store *store, const char *prefix, struct meta_item **ret_items,
    uint32_t *ret_count);
/* @holder: the handle that asks; see meta_store_end_holder. */
int meta_store_grant(struct meta_store *store, uint64_t ttl_ns, uint64_t holder,
    uint64_t *ret_lease);
int meta_store_renew(struct meta_store *store, uint64_t lease);
int meta_store_revoke(struct meta_store *store, uint64_t lease);

/* meta_store_end_holder -- leases granted to @holder end in @delay_ns, whoever renews them. */
void meta_store_end_holder(struct meta_store *store, uint64_t holder, uint64_t delay_ns);

/* Of meta_memory.c. */
/* meta_store_notify -- @key changed; NULL: any may have. */
void meta_store_notify(struct meta_store *store, const char *key);
/* meta_store_unpark -- requests that wait for a disk that stalled go on. */
void meta_store_unpark(struct meta_store *store);
/* meta_store_drop_travellers -- what closed handles have left under way is freed. */
void meta_store_drop_travellers(struct meta_store *store);

#endif /* CLEAVE_MIDDLETIER_META_STORE_H */
