/* SPDX-License-Identifier: Apache-2.0 */
/* meta_etcd.h -- a metadata store in an etcd, for the gateways of several hosts */
#ifndef CLEAVE_MIDDLETIER_META_META_ETCD_H
#define CLEAVE_MIDDLETIER_META_META_ETCD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cleave/loop.h"
#include "cleave/meta.h"
#include "meta/etcd_http.h"

/* Zero means the default in brackets. Texts are copied. */
struct meta_etcd_options {
	struct loop *loop;
	struct etcd_http *http;       /* taken: closed with the store, also by an open that fails */
	const char *const *endpoints; /* what @http calls 0, 1, ...: for people */
	uint32_t endpoint_count;
	const char *prefix;          /* of all keys; ends with '/' */
	const char *user, *password; /* NULL: nobody in particular */
	const char
	    *password_file;  /* read anew where etcd refuses the password [it stays as it is] */
	const char *by;      /* who this is, for people who look into the store [nothing] */
	const char *process; /* who this is, for is_dead of others [nothing] */
	/* Has the process that called itself so surely ended? Then its claim ends at once. NULL: who knows. */
	bool (*is_dead)(const char *process);
	uint64_t try_ns; /* how long one member may take [1 s] */
	bool compacts;   /* keep the history short: the whole etcd is ours */
	bool
	    has_place; /* another etcd with this one's content is a copy: tell its cluster's id as the place */
	bool measures; /* ask each minute how full it is, each second which members answer */
};

/*
 * meta_etcd_open -- a handle of the store whose keys begin with @prefix; completions come to its loop
 *
 * Nothing is asked here: see meta_etcd_is_ready. A version of a key is the generation of the store (see
 * etcd_client.h) and etcd's own revision of it, so it means something to this handle alone.
 * Returns: the store; NULL out of memory, or a prefix or a number of endpoints that cannot be.
 */
struct meta *meta_etcd_open(const struct meta_etcd_options *options);
/* meta_etcd_is_ready -- it has been reached, and its changes are told from now on. */
bool meta_etcd_is_ready(const struct meta *meta);
/*
 * meta_etcd_trouble -- why the last try failed, for people; "" it did not
 *
 * *@ret_is_refused: to try again is of no use (a wrong password, another etcd).
 */
const char *meta_etcd_trouble(const struct meta *meta, bool *ret_is_refused);

/* rc: 0 it is ours; -EBUSY @other runs; -EIO, -ENOMEM. */
typedef void (*meta_etcd_claim_fn)(int rc, const char *other, void *arg);
/*
 * meta_etcd_claim -- be the only process of this store that is gateway @gateway_id
 *
 * Kept by a lease of @ttl_ns, which ends with the store. Where another process has it, and has not surely
 * died, waits for the end of that one's lease, since it may have. @fn is called once with what came of it; after 0 once more, with
 * -EBUSY, if the claim was lost in an outage and another process has it now. Once a handle.
 * Returns: 0, -EBUSY this handle has claimed an id already, -ENOMEM.
 */
int meta_etcd_claim(struct meta *meta, uint64_t gateway_id, uint64_t ttl_ns, meta_etcd_claim_fn fn,
    void *arg);

/*
 * meta_etcd_release -- what a process that was gateway @gateway_id has left goes: its claim, its key, their leases
 *
 * Only where the claim's process has surely died, and only what was that one's. Once a handle. @fn is told 0;
 * -ENOENT nobody has that id; -EBUSY @other has it, and lives, or it cannot be told from here whether it does;
 * -ETIMEDOUT, -EIO.
 * Returns: 0, -EBUSY, -ENOMEM.
 */
int meta_etcd_release(struct meta *meta, uint64_t gateway_id, meta_etcd_claim_fn fn, void *arg);

#endif /* CLEAVE_MIDDLETIER_META_META_ETCD_H */
