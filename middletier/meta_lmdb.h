/* SPDX-License-Identifier: Apache-2.0 */
/* meta_lmdb.h -- a metadata store in one directory, for the gateway of one host */
#ifndef CLEAVE_MIDDLETIER_META_LMDB_H
#define CLEAVE_MIDDLETIER_META_LMDB_H

#include <stddef.h>

#include "cleave/meta.h"

/*
 * meta_lmdb_open -- open or make the store in directory @path; completions come to @loop
 *
 * One process has it at a time (a lock on PATH/lock). A thread of its own does the work, so that no
 * commit blocks the loop.
 * Returns: the store, or NULL with a text in @ret_error that names what is wrong with which path.
 */
struct meta *meta_lmdb_open(struct loop *loop, const char *path, char *ret_error,
    size_t error_bytes);

#endif /* CLEAVE_MIDDLETIER_META_LMDB_H */
