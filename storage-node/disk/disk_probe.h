/* SPDX-License-Identifier: Apache-2.0 */
/* disk_probe.h -- open a file or block device that becomes a disk, and learn what it is */
#ifndef CLEAVE_STORAGE_DISK_PROBE_H
#define CLEAVE_STORAGE_DISK_PROBE_H

#include <stdbool.h>
#include <stdint.h>

struct disk_probe {
	int fd;                  /* O_DIRECT, read and write, locked while it is open */
	bool is_file;            /* else a block device */
	uint64_t capacity_bytes; /* whole pages of DISK_ALIGN */
	bool is_cache_volatile;  /* writes need flushes; true also where the system does not know */
};

/*
 * disk_probe_open -- open @path for this process alone, and look what it is
 *
 * Returns 0 and *@ret_probe, whose descriptor is the caller's; -EBUSY another process has it; -EINVAL it takes no
 * O_DIRECT, is neither a file nor a block device, or has sectors larger than DISK_ALIGN; another negative errno as
 * open, flock and ioctl say. Blocks for as long as they do: at start alone.
 */
int disk_probe_open(const char *path, struct disk_probe *ret_probe);

#endif /* CLEAVE_STORAGE_DISK_PROBE_H */
