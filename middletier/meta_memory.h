/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meta_memory.h -- a metadata store in memory, outside of the simulated processes that use it
 *
 * A *store* stands for the service: it outlives gateways, keeps time of its own (the loop it is given:
 * the simulation's nature) and takes a seeded while for everything. A *handle* is one process's
 * connection. A request that was sent takes effect even if the process dies meanwhile; its answer
 * then goes nowhere.
 */
#ifndef CLEAVE_MIDDLETIER_META_MEMORY_H
#define CLEAVE_MIDDLETIER_META_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/loop.h"
#include "cleave/meta.h"

struct meta_store;

/* Zero means the default in brackets. */
struct meta_store_options {
	struct loop *loop;     /* the store's: its clock, its chance */
	uint64_t delay_min_ns; /* one way [50 us] */
	uint64_t delay_max_ns; /* [500 us; at least delay_min_ns] */
	uint64_t timeout_ns;   /* after which a caller stops waiting [1 s] */
	bool knows_deaths;     /* the store and its users share a host; see meta_memory_ring */
};

/* meta_store_create -- NULL when out of memory. */
struct meta_store *meta_store_create(const struct meta_store_options *options);
/* meta_store_destroy -- after every handle was closed. NULL is a no-op. */
void meta_store_destroy(struct meta_store *store);

/* meta_memory_open -- a handle whose completions come to @loop. NULL when out of memory. */
struct meta *meta_memory_open(struct meta_store *store, struct loop *loop);

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
/* meta_memory_cut_off -- @meta's process and the store no longer hear each other. */
void meta_memory_cut_off(struct meta *meta, bool is_cut_off);

/*
 * meta_memory_ring -- something about @meta's process has changed: the store looks whether it lives
 *
 * If it @is_dead and the store knows of deaths, leases that were granted to it end soon; those of one that
 * stands still end by their time, as ever.
 */
void meta_memory_ring(struct meta *meta, bool is_dead);

/*
 * meta_store_snapshot -- all keys, leases and counters as they are now; NULL when out of memory
 * meta_store_restore -- all of that back, as from an old copy of the disk: what happened since is
 *	forgotten, versions are given again, leases of then that are over by now end, watches are
 *	called. Returns 0 or -ENOMEM (then leases may be missing).
 */
struct meta_snapshot;
struct meta_snapshot *meta_store_snapshot(struct meta_store *store);
int meta_store_restore(struct meta_store *store, const struct meta_snapshot *snapshot);
/* meta_snapshot_destroy -- NULL is a no-op. */
void meta_snapshot_destroy(struct meta_snapshot *snapshot);

/* meta_store_lease_left_ns -- how long @lease still lives by the store's clock; 0: it does not. */
uint64_t meta_store_lease_left_ns(struct meta_store *store, uint64_t lease);
/* meta_store_applied_count -- requests that took effect so far. */
uint64_t meta_store_applied_count(const struct meta_store *store);

#endif /* CLEAVE_MIDDLETIER_META_MEMORY_H */
