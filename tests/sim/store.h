/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.h -- the metadata store of a simulated cluster: in memory (meta_memory.h), or an etcd (fake_etcd.h)
 *
 * It outlives the processes that have it open, and keeps the world's time. Each seed has one or the other; what
 * fails on the way to it, and in it, is said here for both. What fails in an etcd alone: etcd_faults.h.
 */
#ifndef CLEAVE_TESTS_SIM_STORE_H
#define CLEAVE_TESTS_SIM_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/loop.h"
#include "cleave/meta.h"
#include "middletier/meta/meta_memory.h"
#include "middletier/meta/meta_store.h"
#include "support/fake_etcd.h"

#define SIM_STORE_OPEN_MAX 16u

struct sim_store_copy;

/* Zero means the default in brackets. */
struct sim_store_options {
	struct loop *loop; /* the world's nature */
	bool knows_deaths; /* of its users: it, or they, share a host */
	bool is_etcd;
	uint32_t member_count; /* of the etcd [3] */
	uint64_t try_ns;       /* how long one member may take [meta_etcd's] */
	bool has_user;         /* of the etcd: nobody else may ask it */
};

struct sim_store_user {
	struct meta *meta; /* NULL: free */
	struct etcd_http *way;
};

struct sim_store {
	struct sim_store_options options;
	struct meta_store *memory; /* one of the two */
	struct fake_etcd *etcd;
	struct sim_store_user users[SIM_STORE_OPEN_MAX];
	uint64_t set_back_ns; /* when it was last set back; 0: never */
};

/* The process that opens it: for an etcd. */
struct sim_store_process {
	const char *name;                  /* of this process alone; NULL: no gateway */
	bool (*is_dead)(const char *name); /* of who has claimed a gateway's id. NULL: who knows */
};

struct sim_store *sim_store_create(const struct sim_store_options *options);
/* sim_store_destroy -- after every process has closed it. NULL is a no-op. */
void sim_store_destroy(struct sim_store *store);
struct meta *sim_store_open(struct sim_store *store, struct loop *loop,
    const struct sim_store_process *process);
void sim_store_close(struct sim_store *store, struct meta *meta);
bool sim_store_is_etcd(const struct sim_store *store);
/* sim_store_held_bytes -- memory that is no process's, as far as checkers have to know it */
uint64_t sim_store_held_bytes(const struct sim_store *store);

/* ---- what is in it ---- */

/* sim_store_list -- at once. *@ret_items is one piece of memory: mt_free it. 0, -ENOMEM. */
int sim_store_list(struct sim_store *store, const char *prefix, struct meta_item **ret_items,
    uint32_t *ret_count);
/* sim_store_copy -- a backup. sim_store_restore: all is again what it was. */
struct sim_store_copy *sim_store_copy(struct sim_store *store);
void sim_store_restore(struct sim_store *store, const struct sim_store_copy *copy);
/* sim_store_copy_destroy -- NULL is a no-op. */
void sim_store_copy_destroy(struct sim_store_copy *copy);
/* sim_store_is_as -- are all durable keys as @copy has them? Of an etcd. */
bool sim_store_is_as(struct sim_store *store, const struct sim_store_copy *copy);
/*
 * sim_store_lease_left_ns -- how long @lease lives at least; 0: it is gone
 *
 * Nobody ends a lease of an etcd before its time after its last renewal.
 */
uint64_t sim_store_lease_left_ns(struct sim_store *store, uint64_t lease);
/* sim_store_has_lease -- of an etcd: nobody has ended it */
bool sim_store_has_lease(struct sim_store *store, uint64_t lease);
/* sim_store_oldest_lease_ns -- how long ago the lease that was renewed least lately was over; 0: all live */
uint64_t sim_store_oldest_lease_ns(struct sim_store *store);

/* ---- what fails, as meta_store.h says it ---- */

void sim_store_set_timeouts(struct sim_store *store, uint32_t lost_per_mille,
    uint32_t late_per_mille);
void sim_store_set_delay(struct sim_store *store, uint64_t min_ns, uint64_t max_ns);
void sim_store_set_down(struct sim_store *store, bool is_down);
/* sim_store_set_stalled -- of an etcd: the disks of most members, so that nothing goes on. */
void sim_store_set_stalled(struct sim_store *store, bool is_stalled);
/* sim_store_cut_off -- @meta's process and the store hear nothing of each other. NULL is a no-op. */
void sim_store_cut_off(struct sim_store *store, struct meta *meta, bool is_cut_off);
/* sim_store_ring -- as meta_memory_ring; nothing with an etcd, which knows nothing of processes. */
void sim_store_ring(struct sim_store *store, struct meta *meta, bool is_dead);

#endif /* CLEAVE_TESTS_SIM_STORE_H */
