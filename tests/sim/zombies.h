/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zombies.h -- old words that are heard late: a request that is about to delete, copy or cut, held back
 *
 *	zombie      a gateway stands still in the middle of a repair, or with such a request out, until
 *	            its lease is over and others own its shards; then it goes on where it was
 *	stranded    such a request stays in the network while its connection breaks: its sender connects
 *	            anew and repeats it, or does something else; it is heard seconds later
 *
 * Both wait for the moment: for seconds of virtual time at most, then what the gateway does will do.
 */
#ifndef CLEAVE_TESTS_SIM_ZOMBIES_H
#define CLEAVE_TESTS_SIM_ZOMBIES_H

#include "faults.h"

/* sim_zombies_inject -- @self: a zombie or stranded fault, at the gateway @index. */
void sim_zombies_inject(struct sim_faults *faults, struct sim_fault_active *self, uint32_t index);

#endif /* CLEAVE_TESTS_SIM_ZOMBIES_H */
