/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meta_open.h -- a metadata store, wherever --meta says that it is
 *
 *	DIR, lmdb://DIR                             a directory, for the gateways of one host (meta_lmdb.h)
 *	etcd://HOST:PORT[,HOST:PORT...][/PREFIX]    an etcd, for the gateways of several (meta_etcd.h)
 *	etcds://...                                 the same over TLS
 *
 * In an etcd the keys begin with /PREFIX/<cluster id>/; PREFIX is "cleave" where none is given.
 */
#ifndef CLEAVE_MIDDLETIER_META_META_OPEN_H
#define CLEAVE_MIDDLETIER_META_META_OPEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cleave/loop.h"
#include "cleave/meta.h"

/* Where it is, and who we are there. Texts are borrowed. */
struct meta_where {
	const char *place; /* as above */
	uint64_t cluster_id;
	uint64_t gateway_id; /* for people who look into the store; 0: a command */
	const char *ca, *cert,
	    *key; /* etcds: files in PEM; NULL: the system's authorities; no certificate */
	const char *user, *password_file; /* etcd: NULL: nobody in particular */
	bool keeps_history;               /* etcd: others compact it */
};

/* meta_where_directory -- of a store in a directory; NULL: it is an etcd */
const char *meta_where_directory(const struct meta_where *where);
/* meta_where_check -- is @where->place understood? NULL; else what is wrong with it, for a usage message. */
const char *meta_where_check(const struct meta_where *where);

/*
 * meta_open -- open the store; for an etcd, wait until it answers
 *
 * Runs @loop meanwhile, for half a minute at most; loop_stop ends it. Not from a handler, for an etcd.
 * Returns: the store, or NULL with a text in @ret_error that names what is wrong with what.
 */
struct meta *meta_open(const struct meta_where *where, struct loop *loop, char *ret_error,
    size_t error_bytes);

/*
 * meta_open_claim -- be the only process of this store that is gateway where->gateway_id
 *
 * As meta_lmdb_claim_id or meta_etcd_claim. @lease_ns: how long the claim may outlive us, in an etcd. Runs
 * @loop. @on_lost: another process has it, after an outage of the etcd that was longer than that: stop.
 * Returns: 0; -EBUSY, or another errno, with a text in @ret_error.
 */
int meta_open_claim(const struct meta_where *where, struct meta *meta, struct loop *loop,
    uint64_t lease_ns, void (*on_lost)(void *arg), void *arg, char *ret_error, size_t error_bytes);

/*
 * meta_open_release -- gateway @gateway_id has died: what it held goes now, and not with the time of its lease
 *
 * For an etcd: see meta_etcd_release. In a directory the leases of the dead have ended when it was opened. Runs
 * @loop. Returns: 0; -EBUSY it lives; another errno. @ret_text says what was found.
 */
int meta_open_release(const struct meta_where *where, struct meta *meta, struct loop *loop,
    uint64_t gateway_id, char *ret_text, size_t text_bytes);

#endif /* CLEAVE_MIDDLETIER_META_META_OPEN_H */
