/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grouper.h -- snapshots of several volumes at one point in time, in the middle of faults
 *
 * Two clients write numbers 1, 2, 3 ... to three volumes in turn, one write outstanding: when one client has its
 * answer, it tells the other, which then writes the next number, to another volume, and another shard. An operator
 * takes snapshots of all three volumes together, while another one may resize one of them, or have taken one of the
 * names. It is a violation when:
 *
 * - the snapshots together do not hold exactly the writes up to some number: not less than what was acknowledged before
 *   they were asked for, not more than what was issued when that was answered (I5, across volumes);
 * - they hold something else when they are read again;
 * - some of them are there, and others are not.
 *
 * One seed in eight has it, by a hash, with a generator of its own: the others decide what they always did.
 */
#ifndef CLEAVE_TESTS_SIM_GROUPER_H
#define CLEAVE_TESTS_SIM_GROUPER_H

#include <stdbool.h>
#include <stdint.h>

struct sim_cluster;
struct sim_grouper;

/* sim_grouper_is_in -- does a seed have it? Not where processes are of two releases. */
bool sim_grouper_is_in(uint64_t seed);
/*
 * sim_grouper_create -- of a cluster of the second level; works as soon as that is made
 *
 * NULL: this seed does without, or its manifests are so short (manifest_bytes) that groups have no room.
 */
struct sim_grouper *sim_grouper_create(struct sim_cluster *cluster, uint64_t seed);
/* sim_grouper_finish -- all is well: all is read, and deleted, within @limit_ns. NULL is none. */
void sim_grouper_finish(struct sim_grouper *grouper, uint64_t limit_ns);
/* sim_grouper_count -- how many groups were taken. NULL: 0. */
uint32_t sim_grouper_count(const struct sim_grouper *grouper);
/* sim_grouper_destroy -- NULL is none. */
void sim_grouper_destroy(struct sim_grouper *grouper);

#endif /* CLEAVE_TESTS_SIM_GROUPER_H */
