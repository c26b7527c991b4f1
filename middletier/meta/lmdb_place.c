/* SPDX-License-Identifier: Apache-2.0 */
/* lmdb_place.c -- see lmdb_place.h */
#include "meta/lmdb_place.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "base/check.h"
#include "cleave/meta.h"

void
lmdb_place_write(const struct statx *file, char ret_place[META_PLACE_BYTES])
{
	time_t born = (time_t)file->stx_btime.tv_sec;
	char date[32];
	struct tm tm;

	(void)snprintf(ret_place, META_PLACE_BYTES, "%" PRIu64, (uint64_t)file->stx_ino);
	if ((file->stx_mask & STATX_BTIME) == 0 || gmtime_r(&born, &tm) == NULL ||
	    strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm) == 0)
		return;
	(void)snprintf(ret_place, META_PLACE_BYTES, "%" PRIu64 "@%s.%09" PRIu32 "Z",
	    (uint64_t)file->stx_ino, date, file->stx_btime.tv_nsec);
}

int
lmdb_place_read(MDB_env *env, char ret_place[META_PLACE_BYTES])
{
	struct statx file;
	int fd, rc = mdb_env_get_fd(env, &fd);

	assert(env != NULL);
	if (rc != 0)
		return -EIO;
	if (statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &file) != 0)
		return -errno;
	lmdb_place_write(&file, ret_place);
	return 0;
}
