/* SPDX-License-Identifier: Apache-2.0 */
/* join.h -- `cleave-storage join` */
#ifndef CLEAVE_STORAGE_JOIN_H
#define CLEAVE_STORAGE_JOIN_H

/*
 * join_main -- the whole command: parse @argv (argv[0] is "join"), and bring the disk as far as it can be brought
 *
 * Returns the exit code: 0: the disk was formatted, or is a member's; STORAGE_EXIT_USAGE; STORAGE_EXIT_FAILURE, with
 * a line on standard error. Blocks.
 */
int join_main(int argc, char *const argv[]);

#endif /* CLEAVE_STORAGE_JOIN_H */
