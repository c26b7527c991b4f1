/* SPDX-License-Identifier: Apache-2.0 */
/* disk_probe.c -- a file or block device is opened for one process alone, and asked what it is */
#include "disk_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/disk.h"

/* Is the device's write cache volatile? Yes, where sysfs says nothing. */
static bool
device_cache_is_volatile(dev_t device)
{
	static const char *const formats[] = {
		"/sys/dev/block/%u:%u/queue/write_cache",
		"/sys/dev/block/%u:%u/../queue/write_cache", /* a partition */
	};

	for (size_t i = 0; i < NUM_COUNT(formats); i++) {
		char path[PATH_MAX], text[32] = "";
		FILE *file;
		bool was_read;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		(void)snprintf(path, sizeof(path), formats[i], major(device), minor(device));
#pragma GCC diagnostic pop
		file = fopen(path, "re");
		if (file == NULL)
			continue;
		was_read = fgets(text, sizeof(text), file) != NULL;
		(void)fclose(file); /* only read */
		if (was_read)
			return strncmp(text, "write through", 13) != 0;
	}
	return true;
}

static int
probe_file(struct disk_probe *probe)
{
	struct stat st;

	assert(probe->fd >= 0);
	if (flock(probe->fd, LOCK_EX | LOCK_NB) != 0)
		return errno == EWOULDBLOCK ? -EBUSY : -errno;
	/* The size, after the lock: the process that had it may have changed that. */
	if (fstat(probe->fd, &st) != 0)
		return -errno;
	/* Each write past a cached page has to throw it away first, which the kernel leaves to a worker. */
	(void)posix_fadvise(probe->fd, 0, 0, POSIX_FADV_DONTNEED); /* only a hint */
	probe->is_file = true;
	probe->capacity_bytes = (uint64_t)st.st_size;
	probe->is_cache_volatile = true;
	return 0;
}

static int
probe_device(struct disk_probe *probe, dev_t device)
{
	int sector_bytes = 512;

	assert(probe->fd >= 0);
	if (ioctl(probe->fd, BLKGETSIZE64, &probe->capacity_bytes) != 0)
		return -errno;
	if (ioctl(probe->fd, BLKSSZGET, &sector_bytes) != 0)
		return -errno;
	if (sector_bytes > (int)DISK_ALIGN)
		return -EINVAL;
	probe->is_cache_volatile = device_cache_is_volatile(device);
	return 0;
}

/* Lock the open file or device, and learn what it is. The descriptor is the caller's in either case. */
static int
probe_fill(struct disk_probe *probe)
{
	struct stat st;
	int rc = -EINVAL;

	assert(probe->capacity_bytes == 0);
	if (fstat(probe->fd, &st) != 0)
		return -errno;
	if (S_ISREG(st.st_mode))
		rc = probe_file(probe);
	else if (S_ISBLK(st.st_mode))
		rc = probe_device(probe, st.st_rdev);
	probe->capacity_bytes = num_round_down(probe->capacity_bytes, DISK_ALIGN);
	return rc;
}

static int
probe_open_path(const char *path)
{
	struct stat st;
	int flags = O_RDWR | O_DIRECT | O_CLOEXEC;
	int fd;

	/* Without O_CREAT, O_EXCL means: nobody else has this block device open so, nor mounted. */
	if (stat(path, &st) == 0 && S_ISBLK(st.st_mode))
		flags |= O_EXCL;
	fd = open(path, flags);
	return fd < 0 ? -errno : fd;
}

int
disk_probe_open(const char *path, struct disk_probe *ret_probe)
{
	struct disk_probe probe = { .fd = -1 };
	int rc;

	assert(path != NULL);
	rc = probe_open_path(path);
	if (rc < 0)
		return rc;
	probe.fd = rc;
	rc = probe_fill(&probe);
	if (rc != 0) {
		(void)close(probe.fd); /* nothing was written */
		return rc;
	}
	assert(num_is_aligned(probe.capacity_bytes, DISK_ALIGN));
	*ret_probe = probe;
	return 0;
}
