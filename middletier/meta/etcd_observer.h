/* SPDX-License-Identifier: Apache-2.0 */
/*
 * etcd_observer.h -- all leases of a store in etcd, observed; those that nobody renews are ended
 *
 * Every process watches all leases, and counts by its own clock how long ago it saw each renewed: four timers of
 * a quarter of its time in a row, so that one jump of a clock, or one stop of the process, fakes one quarter
 * at most. Then it deletes the lease, together with the keys that belong to it, if it is as it was seen.
 *
 * Why that is safe (I7): a renewal takes effect after it was sent, and is seen later still. The owner counts
 * from the sending, less an eighth; who observes counts the whole time from the seeing. An end that comes
 * after a renewal compares with a key that has changed, and fails; a renewal after an end finds no key.
 */
#ifndef CLEAVE_MIDDLETIER_META_ETCD_OBSERVER_H
#define CLEAVE_MIDDLETIER_META_ETCD_OBSERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/loop.h"

struct etcd_kv;
struct etcd_leases;

struct etcd_observer {
	struct loop *loop;
	struct etcd_leases *leases;
	struct loop_link seen; /* struct etcd_lease: all that there are */
	uint32_t seen_count;
};

void etcd_observer_init(struct etcd_observer *observer, struct loop *loop,
    struct etcd_leases *leases);
/* etcd_observer_fini -- after the end of the leases, whose handlers are ours. */
void etcd_observer_fini(struct etcd_observer *observer);

/* etcd_observer_see -- the key of lease @name is @kv, as a list or an event says. 0; -ENOMEM it is not observed. */
int etcd_observer_see(struct etcd_observer *observer, const char *name, const struct etcd_kv *kv);
/* etcd_observer_knows -- is lease @name observed? */
bool etcd_observer_knows(const struct etcd_observer *observer, const char *name);
/* etcd_observer_see_none -- what is seen until etcd_observer_see_all is all that there is. */
void etcd_observer_see_none(struct etcd_observer *observer);
void etcd_observer_see_all(struct etcd_observer *observer);

#endif /* CLEAVE_MIDDLETIER_META_ETCD_OBSERVER_H */
