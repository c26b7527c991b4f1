/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leases.h -- sessions that have read leases, and what nobody may have meanwhile
 *
 * Volumes of these seeds may be read past gateways, and each session has leases, as a client that reads by itself
 * would (middletier/session/LEASES.md). None reads so yet. What such reads need is checked instead: when a change is
 * acknowledged, no older session of the volume has a lease, by its own clock at that moment, on a shard that holds
 * any of it. A newer one may: it came when the change was done, and knows of it. A roll-back is a change by no session:
 * snapper_clone.c looks when one is answered.
 */
#ifndef CLEAVE_TESTS_SIM_LEASES_H
#define CLEAVE_TESTS_SIM_LEASES_H

#include "cluster.h"
#include "history.h"

struct sim_leases;

/* sim_leases_is_in -- have sessions of this seed leases, where all processes are of one release? */
bool sim_leases_is_in(uint64_t seed);
/* sim_leases_create -- of the volume @name, whose blocks are where @history has them. */
struct sim_leases *sim_leases_create(struct sim_cluster *cluster, const char *name,
    const struct history *history);
void sim_leases_destroy(struct sim_leases *leases);
/* sim_leases_add -- @process has opened @volume, and has leases from here on; it may have others of before. */
void sim_leases_add(struct sim_leases *leases, const void *process, struct cleave_volume *volume);
/* sim_leases_forget -- @process is dead. */
void sim_leases_forget(struct sim_leases *leases, const void *process);
/* sim_leases_on_change -- a change of @count blocks from @first on, sent by @volume's session, was acknowledged. */
void sim_leases_on_change(struct sim_leases *leases, const struct cleave_volume *volume,
    uint32_t first, uint32_t count);

#endif /* CLEAVE_TESTS_SIM_LEASES_H */
