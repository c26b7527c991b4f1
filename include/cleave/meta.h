/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meta.h -- the metadata seam: compare-and-swap on small keys, leases, watches
 *
 * What etcd can give, and no more: versioned keys, one small transaction, leases that expire, watches
 * that say "look again". Stores: meta_lmdb (one directory, the processes of one host), meta_etcd (an
 * etcd, those of several hosts), meta_memory (the simulator). Keys are text, '/'-separated. What a user may rely on:
 *
 * - A transaction happens as a whole or not at all, and durably before its handler is called.
 *   It changes a key once at most.
 * - Transactions and lists of all processes happen in one order that agrees with real time: who was
 *   answered is seen by every request that is sent afterwards.
 * - A key's version grows with each put, also over a deletion: equal versions mean the same value. It is the process's
 *   own; what all processes of the store have in common of it is under META_VERSION_COMMON.
 * - -ETIMEDOUT means "perhaps": read again, and let a compare decide.
 * - Keys under META_LEASED_PREFIX are those that may be put with a lease. They are as durable as the
 *   leases: a store may lose them with whoever could hold one. A transaction that changes any of them
 *   is about them alone; others may compare them.
 * - A key put with a lease goes when that lease ends; put again, it belongs to the last put's lease
 *   (or to none) alone.
 * - A lease ends no sooner than its time after the grant or renewal was *sent*, and some time after
 *   it is over; from then on each use of it is -ENOENT. Clocks judge it that run at most a sixteenth
 *   faster than its owner's: the store's, or those of all who have it open. It ends
 *   sooner in one case: the store knows for sure that the process that it was granted to does nothing
 *   any more: it has died, or closed the store.
 * - What is asked about leases and leased keys alone waits for nothing durable: a disk that stalls does
 *   not delay a renewal. (In an etcd: the disk of one member of three.)
 * - After a change under its prefix by any process, a lease's end included, a watch is called: once
 *   or more for any number of changes, some time later, perhaps for no change at all. What is listed
 *   after the call includes the change. A change before the watch was made may call it or not: watch
 *   first, then list.
 * - Requests of one process are not kept in order by themselves: wait for the answer.
 *
 * Every call completes into a handler on the loop, never inside the call. A handler's views of keys
 * and values are valid during it alone.
 */
#ifndef CLEAVE_META_H
#define CLEAVE_META_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/loop.h"

#define META_KEY_BYTES_MAX 255u
#define META_VALUE_BYTES_MAX 65536u
#define META_TXN_OPS_MAX 130u         /* an etcd takes 128 compares, and 128 changes */
#define META_TXN_BYTES_MAX (1u << 20) /* of all its values */
#define META_LEASED_PREFIX "gateways/"
#define META_VERSION_COMMON ((UINT64_C(1) << 48) - 1)
#define META_PLACE_BYTES 64u /* of a place, with its NUL */

struct meta;

struct meta_item {
	const char *key;
	const void *value;
	uint32_t value_bytes;
	uint64_t version; /* grows with each change of the key; 0: absent */
};

enum meta_op_kind {
	META_COMPARE_VERSION, /* version must be equal; 0: must be absent */
	META_PUT, /* lease 0: stays; else (META_LEASED_PREFIX only) goes when the lease does */
	META_DELETE,
};

struct meta_op {
	enum meta_op_kind kind;
	const char *key;
	const void *value;
	uint32_t value_bytes;
	uint64_t version;
	uint64_t lease;
};

/* rc: 0; -EAGAIN a compare failed, nothing happened; -EIO, -ENOSPC, -ETIMEDOUT (may have happened). */
typedef void (*meta_txn_fn)(int rc, void *arg);
/* @items is sorted by key. rc: 0, -EIO, -ETIMEDOUT. */
typedef void (*meta_list_fn)(int rc, const struct meta_item *items, uint32_t count, void *arg);
typedef void (*meta_lease_fn)(int rc, uint64_t lease, void *arg);
/* Something under the watched prefix changed (or may have). */
typedef void (*meta_watch_fn)(void *arg);

#define META_BAD_NAMES_BYTES 200u

/* How a store does, for monitors. */
struct meta_report {
	uint64_t unreachable_s;   /* for so long every try has failed; 0: the last one did not */
	uint64_t request_last_ns; /* how long the last request about a lease took */
	uint64_t request_p99_ns;  /* and all but one of 100 of the last ones */
	uint64_t database_bytes;  /* of the server that was asked last; 0: none has answered yet */
	uint64_t quota_bytes;     /* with as much it takes no writes any more */
	uint32_t
	    member_count; /* servers that are asked; of them, those that give no good answer: */
	uint32_t bad_count;
	uint64_t bad_ns;                      /* the first of them for so long */
	char bad_names[META_BAD_NAMES_BYTES]; /* "http://b:2379 (no leader)", for people */
};

struct meta_ops {
	const char *name;
	/*
	 * Leases end only while some process has the store open, for as long as they live: whoever waits for the
	 * end of another's must stay.
	 */
	bool are_leases_observed;
	/* Whoever lists all of a prefix for each of its changes waits so long in between; 0: as it likes. */
	uint64_t relist_min_ns;
	/* Returns 0: @fn is called exactly once; -ENOMEM, -EINVAL: never. Inputs are copied. */
	int (*txn)(struct meta *meta, const struct meta_op *ops, uint32_t count, meta_txn_fn fn,
	    void *arg);
	/* All keys that start with @prefix (a whole key: that key alone or with its suffixes). */
	int (*list)(struct meta *meta, const char *prefix, meta_list_fn fn, void *arg);
	int (*lease_grant)(struct meta *meta, uint64_t ttl_ns, meta_lease_fn fn, void *arg);
	/* rc -ENOENT: the lease is gone. The holder counts its time from before the call. */
	int (*lease_renew)(struct meta *meta, uint64_t lease, meta_lease_fn fn, void *arg);
	int (*lease_revoke)(struct meta *meta, uint64_t lease, meta_lease_fn fn, void *arg);
	int (*watch)(struct meta *meta, const char *prefix, meta_watch_fn fn, void *arg);
	void (*unwatch)(struct meta *meta, meta_watch_fn fn, void *arg);
	void (*close)(struct meta *meta); /* outstanding handlers are not called any more */
	/*
	 * Optional; NULL, and "": the store does not know. What tells the durable keys from every copy of them, such as
	 * their file: text of [0-9TZ@:.-], the same for all processes and after each boot. At once.
	 */
	const char *(*place)(struct meta *meta);
	/* For people, with @place: how a store comes to another one, and what a place is. */
	const char *place_how, *place_what;
	/*
	 * Optional; NULL: the store is in no file. What of its files is not found where they were opened, though they
	 * are in use: a text, valid until the next call; NULL: nothing, as was found lately. At once.
	 */
	const char *(*displaced)(struct meta *meta);
	/*
	 * Optional; NULL: that is not known. Why the store takes no changes of durable keys, as the last one has found: a
	 * text, valid until the next call; NULL: it takes them. At once.
	 */
	const char *(*failing)(struct meta *meta);
	/* Optional; NULL: it has nothing to tell. At once. */
	void (*report)(struct meta *meta, struct meta_report *ret_report);
};

struct meta {
	uint32_t magic;
	const struct meta_ops *ops;
};

#endif /* CLEAVE_META_H */
