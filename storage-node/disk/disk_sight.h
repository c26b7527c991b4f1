/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk_sight.h -- is what a node has open as its disk what is found by its path?
 *
 * A node goes on in its file when somebody deletes it, moves it, or puts another in its place. Nobody would notice
 * before the next start, when it is too late: a deleted file ends with the process. A block device that is pulled, or
 * whose name leads to another one, is told likewise, though nobody writes.
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
	bool is_device;
	const char *path;       /* borrowed */
	uint64_t device, inode; /* of a file, those that it lies at; of a device, its own number */
	bool is_displaced;
};

/*
 * disk_sight_begin -- watch what is found at @path, and was opened just now; @path is borrowed until disk_sight_end
 *
 * Sleeps until the kernel tells of the file, the device's name, or the link that leads there (inotify): it takes a
 * device's name away when the device goes. Not noticed: a folder above it that is moved, or mounted over; a link on
 * the way that is not the last; a device that goes where /dev is none of the kernel's, as in a container. What is
 * neither a file nor a block device is not watched.
 *
 * Returns: 0; else a negative errno, and nothing is watched.
 * Threads: the loop's, as of all of these.
 */
int disk_sight_begin(struct disk_sight *sight, struct loop *loop, const char *path);
/* disk_sight_end -- a no-op where nothing is watched. */
void disk_sight_end(struct disk_sight *sight);
/*
 * disk_sight_is_displaced -- is it gone from its path, as of the last that the kernel told? The log says so, once.
 *
 * Where it is, it is looked for again now.
 */
bool disk_sight_is_displaced(struct disk_sight *sight);

#endif /* CLEAVE_STORAGE_DISK_SIGHT_H */
