/* SPDX-License-Identifier: Apache-2.0 */
/* snapper_clone.h -- a snapper's clone: made, written to, rolled back, with its writer gone or put out */
#ifndef CLEAVE_TESTS_SIM_SNAPPER_CLONE_H
#define CLEAVE_TESTS_SIM_SNAPPER_CLONE_H

struct shot;
struct snapper;

/* snapper_clone -- there is none yet: one of @shot, and a mark to roll it back to. */
void snapper_clone(struct snapper *snapper, struct shot *shot);
/* snapper_roll -- the clone is written to, and rolled back. */
void snapper_roll(struct snapper *snapper);

#endif /* CLEAVE_TESTS_SIM_SNAPPER_CLONE_H */
