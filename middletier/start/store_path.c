/* SPDX-License-Identifier: Apache-2.0 */
/* store_path.c -- see store_path.h */
#include "start/store_path.h"

#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "catalog/cluster_key.h"
#include "meta/meta_open.h"

#define PATH_BYTES 4096

/*
 * Anything but "it is not there", or has no byte, is for who opens it to say. An etcd is there before any cluster.
 */
bool
mt_store_path_has_store(const struct meta_where *where)
{
	const char *directory = meta_where_directory(where);
	char file[PATH_BYTES];
	struct stat status;

	if (directory == NULL)
		return true;
	if (snprintf(file, sizeof(file), "%s/data.mdb", directory) >= (int)sizeof(file))
		return true;
	if (stat(file, &status) == 0)
		return status.st_size > 0 || !S_ISREG(status.st_mode);
	return errno != ENOENT && errno != ENOTDIR;
}

int
mt_meta_where_check(const struct meta_where *where)
{
	if (mt_store_path_has_store(where))
		return 0;
	log_error("gateway: " MT_NO_CLUSTER_TEXT, where->place);
	return -ENOENT;
}

int
mt_store_path_check_new(const struct meta_where *where, char *ret_error, size_t error_bytes)
{
	const char *path = meta_where_directory(where);
	char copy[PATH_BYTES];
	int rc;

	assert(error_bytes > 0);
	if (path == NULL)
		return 0;
	assert(!mt_store_path_has_store(where));
	(void)snprintf(copy, sizeof(copy), "%s", path);
	/* The directory itself; or, where it is to be made, the one that it will be in. */
	if (access(path, F_OK) != 0 && errno == ENOENT)
		path = dirname(copy);
	if (access(path, W_OK | X_OK) == 0)
		return 0;
	rc = -errno;
	(void)snprintf(ret_error, error_bytes, "%s cannot be made: %s: %s", where->place, path,
	    strerror(-rc));
	return rc;
}
