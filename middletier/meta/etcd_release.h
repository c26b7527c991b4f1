/* SPDX-License-Identifier: Apache-2.0 */
/*
 * etcd_release.h -- what a process that has died left in an etcd goes at once, and not when its leases' time is over
 *
 * For whoever knows that a process has ended as soon as it has: its service manager. The claim of the
 * gateway's id says which process of which boot of which host it was; that it is gone is looked up here, and not
 * believed.
 */
#ifndef CLEAVE_MIDDLETIER_META_ETCD_RELEASE_H
#define CLEAVE_MIDDLETIER_META_ETCD_RELEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "meta/etcd_client.h"
#include "meta/etcd_lease.h"
#include "meta/meta_etcd.h"

struct etcd_release {
	struct etcd_client *client;
	struct sm sm;
	uint64_t gateway_id, deadline_ns;
	bool has_perhaps; /* deleted it */
	struct etcd_call *call;
	char other[2 * ETCD_LEASE_BY_BYTES]; /* who has the id */
	bool (*is_dead)(const char *process);
	meta_etcd_claim_fn fn;
	void *arg;
};

void etcd_release_init(struct etcd_release *release, struct etcd_client *client,
    bool (*is_dead)(const char *process));
/* etcd_release_fini -- what is under way ends without a word. */
void etcd_release_fini(struct etcd_release *release);
/* etcd_release_start -- see meta_etcd_release */
int etcd_release_start(struct etcd_release *release, uint64_t gateway_id, meta_etcd_claim_fn fn,
    void *arg);

#endif /* CLEAVE_MIDDLETIER_META_ETCD_RELEASE_H */
