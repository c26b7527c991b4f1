/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trasher.h -- an operator deletes volumes, and wants some of them back, in the middle of faults
 *
 * One volume after the other is made, written, perhaps kept as a snapshot, and deleted with a short time in the trash.
 * Perhaps another one takes its name. Then it is restored, early or late. It is a violation when
 * it is gone before its time, comes back over another volume of its name, or has lost its block or its snapshot; or
 * when the trash does not empty itself once all is well.
 *
 * One seed in eight has it, by a hash, with a generator of its own: the others decide what they always did.
 */
#ifndef CLEAVE_TESTS_SIM_TRASHER_H
#define CLEAVE_TESTS_SIM_TRASHER_H

#include <stdbool.h>
#include <stdint.h>

struct sim_cluster;
struct sim_trasher;

/* sim_trasher_is_in -- does a seed have it? Not where processes are of two releases. */
bool sim_trasher_is_in(uint64_t seed);
/* sim_trasher_create -- of a cluster of the second level; works as soon as that is made. NULL: this seed does without. */
struct sim_trasher *sim_trasher_create(struct sim_cluster *cluster, uint64_t seed);
/* sim_trasher_finish -- all is well: what it does ends, and the trash is empty, within @limit_ns. NULL is none. */
void sim_trasher_finish(struct sim_trasher *trasher, uint64_t limit_ns);
/* sim_trasher_destroy -- NULL is none. */
void sim_trasher_destroy(struct sim_trasher *trasher);

#endif /* CLEAVE_TESTS_SIM_TRASHER_H */
