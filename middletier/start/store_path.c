/* SPDX-License-Identifier: Apache-2.0 */
/* store_path.c -- see store_path.h */
#include "start/store_path.h"

#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "catalog/cluster_key.h"

#define PATH_BYTES 4096

/* Anything but "it is not there" is for who opens it to say. */
bool
mt_store_path_has_store(const char *meta_path)
{
	char file[PATH_BYTES];

	if (snprintf(file, sizeof(file), "%s/data.mdb", meta_path) >= (int)sizeof(file))
		return true;
	return access(file, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

int
mt_meta_path_check(const char *meta_path)
{
	if (mt_store_path_has_store(meta_path))
		return 0;
	log_error("gateway: " MT_NO_CLUSTER_TEXT, meta_path);
	return -ENOENT;
}

int
mt_store_path_check_new(const char *meta_path, char *ret_error, size_t error_bytes)
{
	char copy[PATH_BYTES];
	const char *path = meta_path;
	int rc;

	assert(!mt_store_path_has_store(meta_path));
	(void)snprintf(copy, sizeof(copy), "%s", meta_path);
	/* The directory itself; or, where it is to be made, the one that it will be in. */
	if (access(path, F_OK) != 0 && errno == ENOENT)
		path = dirname(copy);
	if (access(path, W_OK | X_OK) == 0)
		return 0;
	rc = -errno;
	(void)snprintf(ret_error, error_bytes, "%s cannot be made: %s: %s", meta_path, path,
	    strerror(-rc));
	return rc;
}
