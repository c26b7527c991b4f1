/* SPDX-License-Identifier: Apache-2.0 */
/* lmdb_check.h -- is the file of a store in a directory whole? For --check-config, also beside gateways that use it */
#ifndef CLEAVE_MIDDLETIER_META_LMDB_CHECK_H
#define CLEAVE_MIDDLETIER_META_LMDB_CHECK_H

#include <stdbool.h>

/*
 * lmdb_check_is_whole -- can all that the store in directory @path has be read?
 *
 * Reads every key, in a process of its own: what is cut off ends whoever reads it as memory (SIGBUS). Changes nothing, and takes
 * no lock. Not while this process has a store open, nor with threads. Blocks, some seconds for each GiB.
 * Returns: false where LMDB refuses the file, or whoever reads it dies; true also where that cannot be told: there is
 * no file, this user may not read it, or others changed it all the while.
 */
bool lmdb_check_is_whole(const char *path);

#endif /* CLEAVE_MIDDLETIER_META_LMDB_CHECK_H */
