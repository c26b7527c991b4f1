/* SPDX-License-Identifier: Apache-2.0 */
/* file_map.h -- what a file system makes of a file's blocks, and of direct writes to them */
#ifndef CLEAVE_STORAGE_FILE_MAP_H
#define CLEAVE_STORAGE_FILE_MAP_H

#include <stdbool.h>
#include <stdint.h>

/*
 * file_is_written -- are all blocks of this range of @fd written ones, that a write goes over in place?
 *
 * True only of file systems that are known to do so (ext4, XFS), and where no block is a hole, reserved, still in
 * the page cache, shared with another file, or encoded. The file system may know it in memory alone: a flush that is
 * submitted later makes it durable. False where anything is in doubt. @bytes > 0. Asks the kernel, up to 64 times:
 * not on the way of a request. The same holds for file_is_shared.
 */
bool file_is_written(int fd, uint64_t offset_bytes, uint64_t bytes);

/*
 * file_is_shared -- does another file have some blocks of this range of @fd, too (a copy by reflink)?
 *
 * A write to such a block goes to a new one, so the file system's own flush is needed for it. True also where the
 * file system does not answer for all of the range; false for one that shares no blocks (ext4).
 */
bool file_is_shared(int fd, uint64_t offset_bytes, uint64_t bytes);

/*
 * file_is_direct -- has a direct write to @fd that was acknowledged left this machine's memory?
 *
 * O_DIRECT alone does not say so: a file system may take the flag and write to the page cache (ext4 with
 * data=journal, one that compresses or keeps checksums). Only ext4 and XFS are believed, where statx tells of direct
 * writes (Linux 6.1), and tmpfs, which has no disk.
 */
bool file_is_direct(int fd);

#endif /* CLEAVE_STORAGE_FILE_MAP_H */
