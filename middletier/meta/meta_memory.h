/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meta_memory.h -- a metadata store in memory, outside of the simulated processes that use it
 *
 * A *store* stands for the service: it outlives gateways, keeps time of its own (the loop it is given:
 * the simulation's nature) and takes a seeded while for everything. A *handle* is one process's
 * connection. A request that was sent takes effect even if the process dies meanwhile; its answer
 * then goes nowhere.
 */
#ifndef CLEAVE_MIDDLETIER_META_META_MEMORY_H
#define CLEAVE_MIDDLETIER_META_META_MEMORY_H

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

/* meta_memory_open -- a handle whose completions come to @loop. NULL when out of memory. */
struct meta *meta_memory_open(struct meta_store *store, struct loop *loop);
/* meta_memory_cut_off -- @meta's process and the store no longer hear each other. */
void meta_memory_cut_off(struct meta *meta, bool is_cut_off);

/*
 * meta_memory_ring -- something about @meta's process has changed: the store looks whether it lives
 *
 * If it @is_dead and the store knows of deaths, leases that were granted to it end soon; those of one that
 * stands still end by their time, as ever.
 */
void meta_memory_ring(struct meta *meta, bool is_dead);

/* Called by meta_memory.c. */
/* meta_store_notify -- @key changed; NULL: any may have. */
void meta_store_notify(struct meta_store *store, const char *key);
/* meta_store_unpark -- requests that wait for a disk that stalled go on. */
void meta_store_unpark(struct meta_store *store);
/* meta_store_drop_travellers -- what closed handles have left under way is freed. */
void meta_store_drop_travellers(struct meta_store *store);

#endif /* CLEAVE_MIDDLETIER_META_META_MEMORY_H */
