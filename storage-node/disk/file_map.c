/* SPDX-License-Identifier: Apache-2.0 */
/* file_map.c -- a file's blocks by FIEMAP, MAP_EXTENTS at a time; whether its writes are direct, by statx */
#include "file_map.h"

#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "base/check.h"
#include "base/num.h"

#define MAP_EXTENTS 32u   /* asked for in one call */
#define MAP_CALLS_MAX 64u /* for one range: what needs more is in doubt */
#define MAP_FLAGS_GOOD ((uint32_t)(FIEMAP_EXTENT_LAST | FIEMAP_EXTENT_MERGED))

static bool
file_is_overwritten_in_place(int fd)
{
	struct statfs fs;

	assert(fd >= 0);
	return fstatfs(fd, &fs) == 0 &&
	    (fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == XFS_SUPER_MAGIC);
}

/* The answer of a call. The header's last member is the array that follows. */
union map_answer {
	struct fiemap map;
	uint8_t room[sizeof(struct fiemap) + MAP_EXTENTS * sizeof(struct fiemap_extent)];
};

static int
map_ask(int fd, uint64_t from_bytes, uint64_t end_bytes, union map_answer *ret_answer)
{
	assert(from_bytes < end_bytes);
	*ret_answer = (union map_answer){ .map = { .fm_start = from_bytes,
					      .fm_length = end_bytes - from_bytes,
					      .fm_extent_count = MAP_EXTENTS } };
	return ioctl(fd, FS_IOC_FIEMAP, &ret_answer->map);
}

/* The end of the written blocks from @from_bytes on, as far as one call tells; @from_bytes: the first is not. */
static uint64_t
map_written_to(int fd, uint64_t from_bytes, uint64_t end_bytes)
{
	union map_answer answer;
	uint64_t at = from_bytes;

	if (map_ask(fd, from_bytes, end_bytes, &answer) != 0)
		return from_bytes;
	for (uint32_t i = 0; i < answer.map.fm_mapped_extents; i++) {
		const struct fiemap_extent *extent = &answer.map.fm_extents[i];

		if (extent->fe_logical > at || (extent->fe_flags & ~MAP_FLAGS_GOOD) != 0)
			return from_bytes;
		at = num_max(at, extent->fe_logical + extent->fe_length);
	}
	return at;
}

/* Do some MAP_CALLS_MAX calls of @step, each from where the last one ended, get over all @bytes? */
static bool
map_holds(int fd, uint64_t offset_bytes, uint64_t bytes,
    uint64_t (*step)(int fd, uint64_t from_bytes, uint64_t end_bytes))
{
	uint64_t end_bytes = offset_bytes + bytes;
	uint64_t at = offset_bytes;

	assert(bytes > 0);
	assert(end_bytes > offset_bytes);
	for (uint32_t calls = 0; at < end_bytes && calls < MAP_CALLS_MAX; calls++) {
		uint64_t to = step(fd, at, end_bytes);

		assert(to >= at);
		if (to == at)
			return false;
		at = to;
	}
	return at >= end_bytes;
}

bool
file_is_written(int fd, uint64_t offset_bytes, uint64_t bytes)
{
	assert(bytes > 0);
	return file_is_overwritten_in_place(fd) &&
	    map_holds(fd, offset_bytes, bytes, map_written_to);
}

/* The end of the blocks that no other file has from @from_bytes on, as far as one call tells; @from_bytes: none. */
static uint64_t
map_own_to(int fd, uint64_t from_bytes, uint64_t end_bytes)
{
	union map_answer answer;
	uint64_t at = from_bytes;

	assert(from_bytes < end_bytes);
	if (map_ask(fd, from_bytes, end_bytes, &answer) != 0)
		return from_bytes;
	for (uint32_t i = 0; i < answer.map.fm_mapped_extents; i++) {
		const struct fiemap_extent *extent = &answer.map.fm_extents[i];

		if ((extent->fe_flags & FIEMAP_EXTENT_SHARED) != 0)
			return from_bytes;
		at = num_max(at, extent->fe_logical + extent->fe_length);
	}
	/* Holes are nobody's: the file ends before the range does, or no more extents follow. */
	return answer.map.fm_mapped_extents < MAP_EXTENTS ? end_bytes : at;
}

bool
file_is_shared(int fd, uint64_t offset_bytes, uint64_t bytes)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) == 0 && (fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == TMPFS_MAGIC))
		return false;
	return !map_holds(fd, offset_bytes, bytes, map_own_to);
}

bool
file_is_direct(int fd)
{
	struct statfs fs;
	struct statx stx;

	assert(fd >= 0);
	if (fstatfs(fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC)
		return true;
	return file_is_overwritten_in_place(fd) &&
	    statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stx) == 0 &&
	    (stx.stx_mask & STATX_DIOALIGN) != 0 && stx.stx_dio_offset_align != 0;
}
