/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peeker.h -- sessions read hot blocks out of their gateways' memory, and what would show them something old
 *
 * In these seeds volumes may be read past gateways, which have pages of hot blocks for their sessions, and devices of
 * hosts answer reads of them (sim_net_offload): also while their process stands, and in two parts. Histories judge what
 * sessions read so as they judge all reads.
 *
 * And in the middle of faults a newer session takes a volume, and the older one's host is cut off from all gateways but
 * the one that it reads from, so nobody tells it. That gateway stands still for longer than its lease; or it cannot reach
 * the store, nor other gateways, so that it loses its lease, and the older session's clock stands still. Never both: leases
 * do not bear that. Or nobody takes the volume, and a change is under way: peeker_change.h. One in four of these seeds,
 * by another hash, but those on an etcd, has that alone, and often.
 *
 * It is a violation, too, when a page of a session's has a block of another volume: its client could read that.
 */
#ifndef CLEAVE_TESTS_SIM_PEEKER_H
#define CLEAVE_TESTS_SIM_PEEKER_H

#include <stdbool.h>
#include <stdint.h>

struct cleave_volume;
struct sim_cluster;
struct sim_cluster_options;
struct sim_peeker;
struct workload;
struct workload_options;

/* sim_peeks_are_in -- do sessions of this seed read so, where all processes are of one release, and have no keys? */
bool sim_peeks_are_in(uint64_t seed);
/*
 * sim_peeks_are_changing -- is it one of these seeds in which each such fault is a change that is under way
 *
 * Leases are short there, and the network is fast: the next owner is there while a session may still read by itself.
 */
bool sim_peeks_are_changing(uint64_t seed);
/* sim_peeks_choose -- where they do: what that takes. Returns how many gateways there are, of @gateways or more. */
uint32_t sim_peeks_choose(uint64_t seed, struct sim_cluster_options *options, uint32_t gateways);
/* sim_peeks_tune -- @volume was opened: its session reads tags of pages as often as it can. */
void sim_peeks_tune(struct sim_cluster *cluster, struct cleave_volume *volume);
/* sim_peeks_work -- what requests of such a seed are, where @workload says that it peeks. */
void sim_peeks_work(struct workload_options *workload);
/* sim_peeker_create -- NULL: this seed does without. It has a generator of its own. */
struct sim_peeker *sim_peeker_create(struct sim_cluster *cluster, struct workload *const *workloads,
    uint32_t workload_count, uint64_t seed);
/*
 * sim_peeker_inject -- the faults' turn: perhaps that one, too: until when, of the world's clock; 0: not now
 *
 * sim_peeker_expire -- it may be over. NULL is none.
 */
uint64_t sim_peeker_inject(struct sim_peeker *peeker);
void sim_peeker_expire(struct sim_peeker *peeker);
/* sim_peeker_forbids_pauses -- a client's clock stands still: no gateway may, too. NULL is none. */
bool sim_peeker_forbids_pauses(const struct sim_peeker *peeker);
/* sim_peeker_is_alone -- what goes on may go on undisturbed, or hardly anybody ever reads on. NULL is none. */
bool sim_peeker_is_alone(const struct sim_peeker *peeker);
/* sim_peeker_check -- pages of sessions have their volumes' blocks alone. NULL is none. */
void sim_peeker_check(const struct sim_peeker *peeker);
/* sim_peeker_heal -- all is well from here on. NULL is none. */
void sim_peeker_heal(struct sim_peeker *peeker);
void sim_peeker_destroy(struct sim_peeker *peeker);

#endif /* CLEAVE_TESTS_SIM_PEEKER_H */
