/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lmdb_place.h -- what tells a store's data file from its copies: inode number and birth time
 *
 * Both stay when the file is renamed within its file system, and over reboots. The number of the device
 * does not, so it is left out. Where a file system knows no birth times, the inode number has to do. A file
 * whose *content* is replaced, and the copy of a whole file system, keep both.
 */
#ifndef CLEAVE_MIDDLETIER_META_LMDB_PLACE_H
#define CLEAVE_MIDDLETIER_META_LMDB_PLACE_H

#include <lmdb.h>
#include <sys/stat.h>

#include "cleave/meta.h"

struct statx;

/* lmdb_place_read -- of the file that @env has open: "INODE@TIME", or "INODE". 0 or negative errno. */
int lmdb_place_read(MDB_env *env, char ret_place[META_PLACE_BYTES]);
/* lmdb_place_write -- the same, of what statx() has told of a file. */
void lmdb_place_write(const struct statx *file, char ret_place[META_PLACE_BYTES]);

#endif /* CLEAVE_MIDDLETIER_META_LMDB_PLACE_H */
