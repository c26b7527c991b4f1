/* SPDX-License-Identifier: Apache-2.0 */
/*
 * etcd_lease.h -- leases of a store in etcd: granted, renewed, ended
 *
 * A lease is a key, not one of etcd's own leases: those end by the clock of whoever leads, and can end early
 * after a fail-over. A renewal puts the key again, with the value that it has. Who expires those that are not
 * renewed, and why that is safe: etcd_observer.h.
 */
#ifndef CLEAVE_MIDDLETIER_META_ETCD_LEASE_H
#define CLEAVE_MIDDLETIER_META_ETCD_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/loop.h"
#include "cleave/meta.h"

struct etcd_client;

#define ETCD_LEASE_BY_BYTES 128u

struct etcd_leases {
	struct etcd_client *client;
	char by[ETCD_LEASE_BY_BYTES]; /* who we are, for people */
	struct loop_link granted;     /* struct etcd_grant: those that we got */
	struct loop_link ops;         /* struct etcd_lease_op: under way */
};

void etcd_leases_init(struct etcd_leases *leases, struct etcd_client *client, const char *by);
/* etcd_leases_fini -- what is under way ends without a word. */
void etcd_leases_fini(struct etcd_leases *leases);

/* The seam's calls. 0: @fn is called once, later; -ENOMEM: never. */
int etcd_leases_grant(struct etcd_leases *leases, uint64_t ttl_ns, meta_lease_fn fn, void *arg);
int etcd_leases_renew(struct etcd_leases *leases, uint64_t lease, meta_lease_fn fn, void *arg);
int etcd_leases_revoke(struct etcd_leases *leases, uint64_t lease, meta_lease_fn fn, void *arg);

/*
 * etcd_leases_expire -- end @lease with its keys if it was last renewed at @revision
 *
 * rc: 0, -ENOENT it is gone; -EAGAIN it was renewed; -ETIMEDOUT, -ENOSPC, -EIO. Returns: 0, -ENOMEM.
 */
int etcd_leases_expire(struct etcd_leases *leases, uint64_t lease, uint64_t revision,
    meta_lease_fn fn, void *arg);
/* etcd_leases_give_up -- the store was set back: those that we got are over. */
void etcd_leases_give_up(struct etcd_leases *leases);
/* etcd_leases_is_over -- @lease was given up. */
bool etcd_leases_is_over(const struct etcd_leases *leases, uint64_t lease);

#endif /* CLEAVE_MIDDLETIER_META_ETCD_LEASE_H */
