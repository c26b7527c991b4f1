/* SPDX-License-Identifier: Apache-2.0 */
/* disk_uring.h -- a file or block device as a disk, through io_uring and O_DIRECT */
#ifndef CLEAVE_STORAGE_DISK_URING_H
#define CLEAVE_STORAGE_DISK_URING_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/disk.h"

struct disk_uring_options {
	const char *path;
	uint32_t queue_depth; /* requests in the kernel at a time [128] */
	uint32_t waiting_max; /* requests that wait for a place there [4096] */
};

/*
 * disk_uring_open -- open @path exclusively and attach it to @loop
 *
 * Takes a lock that the kernel drops with the process: flock for a file, O_EXCL for a block device.
 * Returns: 0 and *@ret_disk. -EBUSY another process has it; -ENOENT, -EACCES ...; -EINVAL neither a
 * file nor a block device, or one that does not take 4096-byte direct I/O; -ENOSYS, -EPERM no
 * io_uring here; -ENOMEM.
 * Close: waits until the kernel has let go of every buffer; handlers that have not run by then never
 * will.
 * Threads: @loop's.
 */
int disk_uring_open(struct loop *loop, const struct disk_uring_options *options,
    struct disk **ret_disk);

/* disk_uring_is_file -- a regular file: blocks never written cost a journal entry when they are. */
bool disk_uring_is_file(const struct disk *disk);
/* disk_uring_is_direct -- what was acknowledged is with the device: of a file, file_is_direct. */
bool disk_uring_is_direct(const struct disk *disk);

/* Counters of the ring. */
struct disk_uring_counters {
	uint64_t enters_count;  /* io_uring_enter calls that submitted */
	uint64_t submits_count; /* requests they carried, resumed tails included */
	uint64_t inline_count;  /* writes that this thread made itself (inline_write.h) */
	uint64_t resumed_count; /* tails of short transfers */
	uint64_t redone_count; /* test builds: transfers done here, past a kernel worker's EFAULT */
};
const struct disk_uring_counters *disk_uring_counters(const struct disk *disk);

#endif /* CLEAVE_STORAGE_DISK_URING_H */
