/* SPDX-License-Identifier: Apache-2.0 */
/* meta_store.h -- what meta_store.c, the service, and meta_memory.c, the way to it, share */
#ifndef CLEAVE_MIDDLETIER_META_META_STORE_H
#define CLEAVE_MIDDLETIER_META_META_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/loop.h"
#include "meta/meta_memory.h"

struct meta_item;
struct meta_snapshot;
struct meta_store;
struct meta_txn;

/* meta_store_create -- NULL when out of memory. */
struct meta_store *meta_store_create(const struct meta_store_options *options);
/* meta_store_destroy -- after every handle was closed. NULL is a no-op. */
void meta_store_destroy(struct meta_store *store);

/*
 * meta_store_set_timeouts -- of 1000 requests, how many end in -ETIMEDOUT without an effect, and how
 * many with it
 */
void meta_store_set_timeouts(struct meta_store *store, uint32_t lost_per_mille,
    uint32_t late_per_mille);
/* meta_store_set_delay -- how long a message takes from now on, one way; @min_ns <= @max_ns. */
void meta_store_set_delay(struct meta_store *store, uint64_t min_ns, uint64_t max_ns);
/* meta_store_set_down -- nobody hears the store, requests time out; leases expire all the same. */
void meta_store_set_down(struct meta_store *store, bool is_down);
/*
 * meta_store_set_stalled -- the store's disk answers nothing: what is about durable keys waits, without a
 * time-out, until it is told false; leases and leased keys go on
 */
void meta_store_set_stalled(struct meta_store *store, bool is_stalled);
struct meta_snapshot *meta_store_snapshot(struct meta_store *store);
int meta_store_restore(struct meta_store *store, const struct meta_snapshot *snapshot);
/* meta_snapshot_destroy -- NULL is a no-op. */
void meta_snapshot_destroy(struct meta_snapshot *snapshot);

/* meta_store_lease_left_ns -- how long @lease still lives by the store's clock; 0: it does not. */
uint64_t meta_store_lease_left_ns(struct meta_store *store, uint64_t lease);
/* meta_store_applied_count -- requests that took effect so far. */
uint64_t meta_store_applied_count(const struct meta_store *store);

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

#endif /* CLEAVE_MIDDLETIER_META_META_STORE_H */
