/* SPDX-License-Identifier: Apache-2.0 */
/* store_path.h -- the directory of a metadata store, before anybody opens it: opening makes what is not there */
#ifndef CLEAVE_MIDDLETIER_START_STORE_PATH_H
#define CLEAVE_MIDDLETIER_START_STORE_PATH_H

#include <stdbool.h>
#include <stddef.h>

/* mt_store_path_has_store -- something is there that opening would not make; also where that cannot be told. */
bool mt_store_path_has_store(const char *meta_path);
/* mt_meta_path_check -- 0; -ENOENT: there is no metadata store in @meta_path, and the log says so. */
int mt_meta_path_check(const char *meta_path);
/*
 * mt_store_path_check_new -- could a store be made there? A long recovery is not to end at a mistyped path
 *
 * Looks, and makes nothing. Returns 0; a negative errno, and @ret_error says what is wrong with which path.
 */
int mt_store_path_check_new(const char *meta_path, char *ret_error, size_t error_bytes);

#endif /* CLEAVE_MIDDLETIER_START_STORE_PATH_H */
