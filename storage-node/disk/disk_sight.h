/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk_sight.h -- is the file that a node has open the one that is found by its path?
 *
 * A node goes on in its file when somebody deletes it, moves it, or puts another in its place. Nobody would notice
 * before the next start, when it is too late: a deleted file ends with the process.
 */
#ifndef CLEAVE_STORAGE_DISK_SIGHT_H
#define CLEAVE_STORAGE_DISK_SIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/loop.h"

/* All zero: nothing is watched, and nothing displaced. */
struct disk_sight {
	struct loop *loop;
	struct loop_fd watcher;
	bool is_watching;
	const char *path; /* borrowed */
	uint64_t device, inode;
	bool is_displaced;
};

/*
 * disk_sight_begin -- watch the file at @path, which was opened just now; @path is borrowed until disk_sight_end
 *
 * Sleeps until the kernel tells of the file (inotify). A block device is not watched. Not noticed: a folder above it that
 * is moved, or mounted over.
 *
 * Returns: 0; else a negative errno, and nothing is watched.
 * Threads: the loop's, as of all of these.
 */
int disk_sight_begin(struct disk_sight *sight, struct loop *loop, const char *path);
/* disk_sight_end -- a no-op where nothing is watched. */
void disk_sight_end(struct disk_sight *sight);
/* disk_sight_is_displaced -- is it gone from its path, as of the last that the kernel told? The log says so, once. */
bool disk_sight_is_displaced(const struct disk_sight *sight);

#endif /* CLEAVE_STORAGE_DISK_SIGHT_H */
