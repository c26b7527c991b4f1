/* SPDX-License-Identifier: Apache-2.0 */
/* file_map.h -- what a file system has made of a file's blocks */
#ifndef CLEAVE_STORAGE_FILE_MAP_H
#define CLEAVE_STORAGE_FILE_MAP_H

#include <stdbool.h>
#include <stdint.h>

/*
 * file_is_written -- are all blocks of this range of @fd written ones, that a write goes over in place?
 *
 * Only of file systems that are known to do so (ext4, XFS); neither holes nor blocks that are
 * reserved, still in the page cache, shared with another file, or encoded. The file system may know it in memory
 * alone: a flush that is submitted later makes it durable. False where anything is in doubt.
 */
bool file_is_written(int fd, uint64_t offset_bytes, uint64_t bytes);

#endif /* CLEAVE_STORAGE_FILE_MAP_H */
