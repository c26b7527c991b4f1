/* SPDX-License-Identifier: Apache-2.0 */
/* snapper_clone.h -- a snapper's clone: made, written to, rolled back, with its writer gone or put out */
#ifndef CLEAVE_TESTS_SIM_SNAPPER_CLONE_H
#define CLEAVE_TESTS_SIM_SNAPPER_CLONE_H

#include <stdbool.h>

struct shot;
struct snapper;

/* snapper_clone -- there is none yet: one of @shot, and a mark to roll it back to. */
void snapper_clone(struct snapper *snapper, struct shot *shot);
/* snapper_roll -- the clone is written to, and rolled back. */
void snapper_roll(struct snapper *snapper);

/* snapper_flatten -- the clone is flattened from now on; what it must hold is kept. */
void snapper_flatten(struct snapper *snapper);
/* snapper_let_go -- the clone's origin is deleted: tried until it can be. False: there is none, or it has been. */
bool snapper_let_go(struct snapper *snapper);

#endif /* CLEAVE_TESTS_SIM_SNAPPER_CLONE_H */
