/* SPDX-License-Identifier: Apache-2.0 */
/*
 * limiter.h -- a volume that has a limit from its first session on, until an eighth of its work is done
 *
 * It is a violation when more is done than the limit allows: by the clients' own pace, whatever dies and is taken over
 * meanwhile; where that is switched off (a mutant), by what each port lets go. And when the limit cannot be lifted, or
 * the workload does not end after that, which others find.
 *
 * It has a generator of its own: seeds without it decide what they always did.
 */
#ifndef CLEAVE_TESTS_SIM_LIMITER_H
#define CLEAVE_TESTS_SIM_LIMITER_H

#include <stdint.h>

struct sim_cluster;
struct sim_limiter;
struct workload;

/* sim_limiter_create -- before @workload starts: sets the limit, running the world meanwhile. */
struct sim_limiter *sim_limiter_create(struct sim_cluster *cluster, struct workload *workload,
    uint64_t seed);
/* sim_limiter_finish -- the limit is lifted, within @limit_ns. NULL is none. */
void sim_limiter_finish(struct sim_limiter *limiter, uint64_t limit_ns);
/* sim_limiter_destroy -- NULL is none. */
void sim_limiter_destroy(struct sim_limiter *limiter);

#endif /* CLEAVE_TESTS_SIM_LIMITER_H */
