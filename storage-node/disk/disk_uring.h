/* SPDX-License-Identifier: Apache-2.0 */
/* disk_uring.h -- a file or block device as a disk, through io_uring and O_DIRECT */
#ifndef CLEAVE_STORAGE_DISK_URING_H
#define CLEAVE_STORAGE_DISK_URING_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/disk.h"

struct disk_uring_options {
	const char *path;     /* a file or block device; used during the call */
	uint32_t queue_depth; /* requests in the kernel at a time [128; at most 1024] */
	uint32_t waiting_max; /* requests that wait for a place there, before -ENOBUFS [4096] */
};

/*
 * disk_uring_open -- open options->path for this process alone, and attach it to @loop
 *
 * Takes a lock that the kernel drops with the process: flock for a file, O_EXCL for a block device. Closing the disk
 * waits until the kernel has let go of every buffer; handlers that have not run by then never will.
 * Ownership: the disk is the caller's until disk_close; @loop is borrowed until then, @options during the call.
 * Returns:   0 and *@ret_disk.
 * Errors:    -EBUSY another process has it; -EINVAL neither a file nor a block device, or it takes no direct I/O of
 *            4096 bytes; -ENOSYS, -EPERM no io_uring here; -ENOMEM; -ENOENT, -EACCES and others of open.
 * Threads:   the loop's.
 */
int disk_uring_open(struct loop *loop, const struct disk_uring_options *options,
    struct disk **ret_disk);

/* disk_uring_is_file -- is @disk, of disk_uring_open, a regular file? Its first writes cost journal entries. */
bool disk_uring_is_file(const struct disk *disk);
/* disk_uring_is_direct -- is an acknowledged write with the device? Of a file, file_is_direct; else true. */
bool disk_uring_is_direct(const struct disk *disk);

/* Counts since disk_uring_open. */
struct disk_uring_counters {
	uint64_t enters_count;  /* io_uring_enter calls that submitted */
	uint64_t submits_count; /* requests they carried, resumed tails included */
	uint64_t inline_count;  /* writes that this thread made itself (inline_write.h) */
	uint64_t resumed_count; /* tails of short transfers */
	uint64_t redone_count; /* test builds: transfers done here, past a kernel worker's EFAULT */
};
/* disk_uring_counters -- the disk's, valid until it is closed; for tests and benchmarks. */
const struct disk_uring_counters *disk_uring_counters(const struct disk *disk);

#endif /* CLEAVE_STORAGE_DISK_URING_H */
