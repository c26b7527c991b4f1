/* SPDX-License-Identifier: Apache-2.0 */
/*
 * enemy.h -- enemies of a cluster with keys: who has none, who has a wrong one, and who wants more than its own allows
 *
 *	comes to            as what                                    has
 *	a node              a gateway; somebody who asks for status    no key, a client's, another node's, one of another authority
 *	a node              a gateway, under the owner's epoch         a gateway's: reads, appends, creates, freezes, cuts, deletes,
 *	                                                               verifies, fences
 *	a gateway           somebody who asks                          no key, a node's, one of another authority
 *	a gateway           a session of a volume                      a client's without a right, a gateway's
 *	a gateway           an operation                               a client's without a right, a gateway's
 *
 *	answers             in the place of a node that is down        no key, a gateway's, another node's, one of another authority
 *
 * It is a violation when any of that succeeds. At the end a client that has a right loses it, and its session has to end.
 * That honest processes go on all the while, the other checkers see.
 *
 * The seeds that have keys have it (run.h), with a generator of its own: the others decide what they always did.
 */
#ifndef CLEAVE_TESTS_SIM_ENEMY_H
#define CLEAVE_TESTS_SIM_ENEMY_H

#include <stdint.h>

struct sim_cluster;
struct sim_enemy;

/* sim_enemy_create -- of a cluster that has keys; begins at once. @volume: whose data it is after. */
struct sim_enemy *sim_enemy_create(struct sim_cluster *cluster, const char *volume, uint64_t seed);
/* sim_enemy_finish -- all is well: its last deed, and what a client that loses its right sees, within @limit_ns each. NULL is none. */
void sim_enemy_finish(struct sim_enemy *enemy, uint64_t limit_ns);
/* sim_enemy_destroy -- NULL is none. */
void sim_enemy_destroy(struct sim_enemy *enemy);
/* sim_enemy_deed_count -- all of them refused. NULL: 0. */
uint64_t sim_enemy_deed_count(const struct sim_enemy *enemy);

#endif /* CLEAVE_TESTS_SIM_ENEMY_H */
