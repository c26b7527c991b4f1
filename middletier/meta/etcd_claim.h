/* SPDX-License-Identifier: Apache-2.0 */
/*
 * etcd_claim.h -- the one process of a store that is a certain gateway
 *
 *	id/GATEWAY = '1' LEASE BY [newline PROCESS]     under a lease of its own, which this renews
 */
#ifndef CLEAVE_MIDDLETIER_META_ETCD_CLAIM_H
#define CLEAVE_MIDDLETIER_META_ETCD_CLAIM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "cleave/loop.h"
#include "meta/etcd_client.h"
#include "meta/etcd_lease.h"
#include "meta/meta_etcd.h"

struct etcd_claim {
	struct etcd_client *client;
	struct etcd_leases *leases;
	struct sm sm;
	uint64_t gateway_id, ttl_ns, lease;
	uint64_t busy_until_ns; /* another one may be dead until then; 0: nobody else was met */
	bool has_held;
	struct etcd_call *call;
	struct loop_timer timer;
	char value[2 * ETCD_LEASE_BY_BYTES]; /* BY and PROCESS */
	char other[2 * ETCD_LEASE_BY_BYTES]; /* the same, of who has it */
	bool (*is_dead)(const char *process);
	meta_etcd_claim_fn fn;
	void *arg;
};

void etcd_claim_init(struct etcd_claim *claim, struct etcd_client *client,
    struct etcd_leases *leases, const char *process, bool (*is_dead)(const char *process));
/* etcd_claim_fini -- before the leases' end. The claim goes with its lease. */
void etcd_claim_fini(struct etcd_claim *claim);
/* etcd_claim_start -- see meta_etcd_claim */
int etcd_claim_start(struct etcd_claim *claim, uint64_t gateway_id, uint64_t ttl_ns,
    meta_etcd_claim_fn fn, void *arg);

#endif /* CLEAVE_MIDDLETIER_META_ETCD_CLAIM_H */
