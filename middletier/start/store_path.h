/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_path.h -- the directory of a metadata store, before anybody opens it: opening makes what is not there
 *
 * An etcd has no directory: it is there, and nothing of it is to be made.
 */
#ifndef CLEAVE_MIDDLETIER_START_STORE_PATH_H
#define CLEAVE_MIDDLETIER_START_STORE_PATH_H

#include <stdbool.h>
#include <stddef.h>

struct meta_where;

/* mt_store_path_has_store -- something is there that opening would not make; also where that cannot be told. */
bool mt_store_path_has_store(const struct meta_where *where);
/* mt_meta_where_check -- 0; -ENOENT: no metadata store is in that directory, and the log says so. */
int mt_meta_where_check(const struct meta_where *where);
/*
 * mt_store_path_check_new -- could a store be made there? A long recovery is not to end at a mistyped path
 *
 * Looks, and makes nothing. Returns 0; a negative errno, and @ret_error says what is wrong with which path.
 */
int mt_store_path_check_new(const struct meta_where *where, char *ret_error, size_t error_bytes);

#endif /* CLEAVE_MIDDLETIER_START_STORE_PATH_H */
