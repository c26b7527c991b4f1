/* SPDX-License-Identifier: Apache-2.0 */
/*
 * format.c -- `cleave-storage format`: make a file or block device a node's empty disk
 *
 * All bytes on the disk are lost: a file is emptied and its blocks reserved anew, or written (--fill), a
 * block device zeroed. That is not for tidiness. Another cluster may give its first extents the names that
 * this disk's old bytes carry, and these would pass as its own.
 *
 * A disk that is formatted already, or a file with something in it, is refused without --force.
 */
#include "format.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/config.h"
#include "base/lock_holder.h"
#include "base/num.h"
#include "cleave/disk.h"
#include "cleave/wire.h"
#include "format_pages.h"
#include "ondisk.h"
#include "slot_size.h"

#define ZERO_STEP_BYTES NUM_MIB(4)   /* of one write */
#define FORMAT_LOOK_BYTES NUM_MIB(1) /* where whoever has a disk keeps a mark that says so */
_Static_assert(FORMAT_LOOK_BYTES > ONDISK_SLOTS_OFFSET,
    "all pages that format writes are looked at");

struct format_command {
	struct format_options format;
	const char *cluster_id;
	uint64_t node_id;
};

static const struct config_option format_table[] = {
	{ "disk", 0, CONFIG_STRING, offsetof(struct format_command, format.disk), "PATH",
	    "The file (made when it is absent) or block device.", NULL, true, 0, 0, NULL },
	{ "size", 0, CONFIG_SIZE, offsetof(struct format_command, format.size), "SIZE",
	    "Size of the file; by default what it has. Not for a block device.", NULL, false, 0,
	    NUM_GIB(1024) * 64, NULL },
	{ "slot-size", 0, CONFIG_SIZE, offsetof(struct format_command, format.slot_size), "SIZE",
	    "Bytes of a slot, which holds one extent; by default 64M, less on disks below 32G: a part in "
	    "512, 1M at least. Nodes of one cluster want one size: give the others' where their disks are "
	    "of another size (cleave --json node list: slot_bytes).",
	    NULL, false, NUM_KIB(64), NUM_MIB(64), NULL },
	{ "cluster-id", 0, CONFIG_STRING, offsetof(struct format_command, cluster_id), "HEX",
	    "The cluster it belongs to: up to 16 hex digits.", NULL, true, 0, 0, NULL },
	{ "node-id", 0, CONFIG_U64, offsetof(struct format_command, node_id), "N",
	    "The node's number in the cluster, from 1.", NULL, true, 1, UINT32_MAX, NULL },
	{ "fill", 0, CONFIG_FLAG, offsetof(struct format_command, format.is_filled), NULL,
	    "Write zeros over all of a file instead of only reserving its blocks: takes longer, and "
	    "spares the node the zeros and flushes that the first use of each block needs.",
	    NULL, false, 0, 0, NULL },
	{ "force", 0, CONFIG_FLAG, offsetof(struct format_command, format.is_forced), NULL,
	    "Format what is formatted already, or holds something else.", NULL, false, 0, 0, NULL },
	{ .name = NULL },
};

static const struct config_program format_program = {
	.name = "cleave-storage format",
	.synopsis = "--disk PATH --cluster-id HEX --node-id N [options]",
	.purpose = "Makes a file or block device the empty disk of a storage node.",
	.options = format_table,
};

static int __attribute__((format(printf, 2, 3)))
format_error(const struct format_options *options, const char *format, ...)
{
	va_list args;

	assert(options->command != NULL && options->disk != NULL);
	(void)fprintf(stderr, "cleave-storage %s: %s: ", options->command, options->disk);
	va_start(args, format);
	(void)vfprintf(stderr, format, args);
	va_end(args);
	(void)fprintf(stderr, "\n");
	return -1;
}

int
storage_parse_hex(const char *text, uint64_t *ret_value)
{
	size_t digits = strlen(text);
	uint64_t value;

	assert(ret_value != NULL);
	if (digits < 1 || digits > 16 || strspn(text, "0123456789abcdefABCDEF") != digits)
		return -EINVAL;
	value = strtoull(text, NULL, 16);
	if (value == 0)
		return -EINVAL;
	*ret_value = value;
	return 0;
}

/* ---- the disk as a descriptor ---- */

static int
disk_open(const struct format_options *options, struct format_disk *disk)
{
	struct stat st;
	int flags = O_RDWR | O_CLOEXEC;
	bool exists = stat(options->disk, &st) == 0;

	assert(disk->fd < 0);
	disk->is_new = !exists;
	disk->is_block = exists && S_ISBLK(st.st_mode);
	if (exists && !disk->is_block && !S_ISREG(st.st_mode))
		return format_error(options, "neither a file nor a block device");
	if (!exists && options->size == 0)
		return format_error(options, "does not exist; --size says how large to make it");
	if (disk->is_block && options->size != 0)
		return format_error(options, "--size is not for a block device");
	if (disk->is_block)
		flags |= O_EXCL;
	else if (!exists)
		flags |= O_CREAT | O_EXCL; /* of two at once one makes it, and may take it away */
	disk->fd = open(options->disk, flags, 0600);
	if (disk->fd < 0)
		return format_error(options, "%s",
		    errno == EBUSY        ? "in use: mounted, or opened by another process"
			: errno == EEXIST ? "in use by another process"
					  : strerror(errno));
	if (!disk->is_block && flock(disk->fd, LOCK_EX | LOCK_NB) != 0) {
		int rc = errno, holder = rc == EWOULDBLOCK ? lock_holder(options->disk) : 0;

		disk->is_new = false; /* another's by now */
		if (holder > 0)
			return format_error(options, "in use by process %d", holder);
		return format_error(options, "%s",
		    rc == EWOULDBLOCK ? "in use by another process" : strerror(rc));
	}
	if (disk->is_block && ioctl(disk->fd, BLKGETSIZE64, &disk->capacity_bytes) != 0)
		return format_error(options, "%s", strerror(errno));
	if (!disk->is_block)
		disk->capacity_bytes = options->size != 0 || !exists ? options->size
								     : (uint64_t)st.st_size;
	disk->capacity_bytes = num_round_down(disk->capacity_bytes, DISK_ALIGN);
	return 0;
}

/*
 * Judge the first bytes of a disk. A superblock's copy tells whose it is. Fence pages alone are what a format that was
 * killed leaves: they are written first. Most others keep their mark here, though not in the first page: Btrfs at
 * 64 KiB, a RAID's member at 4 KiB.
 */
static enum format_content
look_judge(const uint8_t *bytes, struct node_format *ret_format)
{
	static const uint8_t zeros[DISK_ALIGN];

	_Static_assert(FORMAT_LOOK_BYTES % DISK_ALIGN == 0, "whole pages are looked at");
	for (uint32_t i = 0; i < ONDISK_SUPER_COPIES; i++) {
		if (node_probe(bytes + ondisk_super_offset(i), ret_format) == 0)
			return FORMAT_DISK;
	}
	for (uint64_t at = 0; at < FORMAT_LOOK_BYTES; at += DISK_ALIGN) {
		if (memcmp(bytes + at, zeros, sizeof(zeros)) != 0 &&
		    !(at < ONDISK_SLOTS_OFFSET && ondisk_is_fence(bytes + at)))
			return FORMAT_OTHER;
	}
	return FORMAT_EMPTY;
}

int
format_look(int fd, enum format_content *ret_content, struct node_format *ret_format)
{
	uint8_t *bytes = calloc(1, FORMAT_LOOK_BYTES);
	uint64_t at = 0;
	ssize_t got = 1;
	int rc = 0;

	assert(ret_content != NULL && ret_format != NULL);
	assert(fd >= 0);
	if (bytes == NULL)
		return -ENOMEM;
	while (got > 0 && at < FORMAT_LOOK_BYTES) {
		got = pread(fd, bytes + at, FORMAT_LOOK_BYTES - at, (off_t)at);
		at += got > 0 ? (uint64_t)got : 0;
		rc = got < 0 ? -errno : 0;
	}
	if (rc == 0)
		*ret_content = look_judge(bytes, ret_format);
	free(bytes);
	return rc;
}

/* Refuse a disk that holds something, unless --force is given. Returns 0; -1: told. */
static int
disk_check_empty(const struct format_options *options, const struct format_disk *disk)
{
	struct node_format found;
	enum format_content content;
	int rc = format_look(disk->fd, &content, &found);

	assert(disk->fd >= 0);
	if (rc != 0)
		return format_error(options, "cannot read: %s", strerror(-rc));
	if (options->is_forced)
		return 0;
	if (content == FORMAT_DISK)
		return format_error(options,
		    "formatted already, cluster %016llx node %u; --force formats it again, and its copies "
		    "are lost",
		    (unsigned long long)found.cluster_id, found.node_id);
	if (content == FORMAT_OTHER)
		return format_error(options,
		    "holds something else; --force formats it, and what it holds is lost");
	return 0;
}

static int
file_write_zeros(int fd, uint64_t bytes)
{
	uint8_t *zeros = calloc(1, ZERO_STEP_BYTES);
	int rc = zeros == NULL ? -ENOMEM : 0;

	assert(fd >= 0);
	assert(num_is_aligned(bytes, DISK_ALIGN));
	for (uint64_t at = 0; rc == 0 && at < bytes;) {
		ssize_t put = pwrite(fd, zeros, num_min(ZERO_STEP_BYTES, bytes - at), (off_t)at);

		if (put < 0 && errno != EINTR)
			rc = -errno;
		else if (put > 0)
			at += (uint64_t)put;
	}
	free(zeros);
	return rc;
}

/* A file that reads as zeros and whose blocks are its own, so that it cannot run out of space. */
static int
file_make_empty(const struct format_options *options, const struct format_disk *disk)
{
	int rc;

	assert(num_is_aligned(disk->capacity_bytes, DISK_ALIGN));
	assert(!disk->is_block);
	if (ftruncate(disk->fd, 0) != 0 || ftruncate(disk->fd, (off_t)disk->capacity_bytes) != 0)
		return format_error(options, "cannot resize: %s", strerror(errno));
	rc = fallocate(disk->fd, 0, 0, (off_t)disk->capacity_bytes) == 0 ? 0 : -errno;
	if (rc == -EOPNOTSUPP || (rc == 0 && options->is_filled))
		rc = file_write_zeros(disk->fd, disk->capacity_bytes);
	if (rc != 0)
		return format_error(options, "cannot reserve %llu bytes: %s",
		    (unsigned long long)disk->capacity_bytes, strerror(-rc));
	return 0;
}

static int
block_make_empty(const struct format_options *options, const struct format_disk *disk)
{
	uint64_t range[2] = { 0, disk->capacity_bytes };

	assert(!disk->is_new);
	assert(disk->is_block);
	if (ioctl(disk->fd, BLKZEROOUT, range) != 0)
		return format_error(options, "cannot zero it: %s", strerror(errno));
	return 0;
}

static int
format_put(void *arg, uint64_t offset_bytes, const void *page)
{
	const struct format_disk *disk = arg;
	ssize_t put = pwrite(disk->fd, page, DISK_ALIGN, (off_t)offset_bytes);

	assert(num_is_aligned(offset_bytes, DISK_ALIGN));
	assert(offset_bytes + DISK_ALIGN <= disk->capacity_bytes);
	if (put < 0)
		return -errno;
	return put == (ssize_t)DISK_ALIGN ? 0 : -EIO;
}

/* A new file's name must survive too. */
static int
folder_sync(const char *path)
{
	char copy[PATH_MAX];
	int fd, rc;

	assert(path[0] != '\0');
	(void)snprintf(copy, sizeof(copy), "%s", path);
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	rc = fsync(fd) == 0 ? 0 : -errno;
	(void)close(fd); /* nothing was written through it */
	return rc;
}

int
format_write(const struct format_options *options, const struct node_format *format,
    struct format_disk *disk)
{
	char reason[FORMAT_REASON_BYTES_MAX];
	int rc;

	assert(format->cluster_id != 0 && format->node_id != 0);
	assert(disk->fd >= 0);
	assert(format->capacity_bytes == disk->capacity_bytes);
	if (disk->is_block ? block_make_empty(options, disk) : file_make_empty(options, disk))
		return -1;
	rc = node_format(format, format_put, disk, reason);
	if (rc != 0)
		return format_error(options, "%s", reason);
	if (fsync(disk->fd) != 0)
		return format_error(options, "cannot sync: %s", strerror(errno));
	rc = disk->is_new ? folder_sync(options->disk) : 0;
	if (rc != 0)
		return format_error(options, "cannot sync its folder: %s", strerror(-rc));
	return 0;
}

static int
format_no_put(void *arg, uint64_t offset_bytes, const void *page)
{
	(void)arg;
	(void)offset_bytes;
	(void)page;
	return 0;
}

/*
 * Compare the disk's slots with those that a cluster takes. Of three disks like it each holds a copy of everything,
 * so every extent of every shard has a slot here. A disk with too few for one shard is refused, one with too few for
 * the default number of shards is warned of. Returns 0; -1: told.
 */
static int
format_check_room(const struct format_options *options, const struct node_format *format)
{
	uint64_t slots = node_format_slot_count(format), wanted = CLEAVE_SLOTS_PER_SHARD_MIN;

	assert(format->capacity_bytes > 0);
	assert(slots > 0); /* node_format had nothing against it */
	if (slots >= wanted * CLEAVE_SHARDS_DEFAULT)
		return 0;
	if (slots < wanted)
		return format_error(options,
		    "%llu slots of %llu bytes are too few: one shard takes %llu. Give it a larger "
		    "disk or --size, or a smaller --slot-size",
		    (unsigned long long)slots, (unsigned long long)format->slot_bytes,
		    (unsigned long long)wanted);
	(void)format_error(options,
	    "warning: %llu slots are too few for the %u shards that a cluster has by default, on three "
	    "disks like this one: they take %llu slots or more of each, %llu bytes. Give it a larger "
	    "disk or --size, a smaller --slot-size, or make the cluster with --shards %llu or less",
	    (unsigned long long)slots, CLEAVE_SHARDS_DEFAULT,
	    (unsigned long long)(wanted * CLEAVE_SHARDS_DEFAULT),
	    (unsigned long long)(wanted * CLEAVE_SHARDS_DEFAULT * format->slot_bytes),
	    (unsigned long long)(slots / wanted));
	return 0;
}

static void
format_print_room(const struct node_format *format)
{
	uint64_t slots = node_format_slot_count(format);
	uint64_t taken = CLEAVE_SLOTS_PER_SHARD_MIN * CLEAVE_SHARDS_DEFAULT;
	const struct ondisk_super super = { .slot_bytes = format->slot_bytes };
	uint64_t reserved = node_format_reserve(slots, ondisk_capacity(&super));
	uint64_t left = slots - num_min(slots, taken + reserved);

	assert(slots > 0);
	(void)printf(
	    "%llu slots, %llu bytes; as one of three such disks, a cluster of %u shards (the "
	    "default) takes %llu of them for its logs and manifests, %llu bytes, %llu are kept for "
	    "what gives room back, and %llu bytes remain for data, %llu %%\n",
	    (unsigned long long)slots, (unsigned long long)(slots * format->slot_bytes),
	    CLEAVE_SHARDS_DEFAULT, (unsigned long long)taken,
	    (unsigned long long)(taken * format->slot_bytes), (unsigned long long)reserved,
	    (unsigned long long)(left * format->slot_bytes),
	    (unsigned long long)(left * 100 / slots));
}

/* Returns 0, @format->slot_bytes is set; -1: told. */
static int
format_choose_slots(const struct format_options *options, struct node_format *format)
{
	const struct slot_size_ask ask = { .capacity_bytes = format->capacity_bytes,
		.given_bytes = options->slot_size,
		.others_bytes = options->others_slot_size };
	char text[SLOT_SIZE_TEXT_BYTES];
	int rc = slot_size_choose(&ask, &format->slot_bytes, text);

	assert(rc <= 0);
	if (text[0] != '\0')
		(void)format_error(options, "%s", text);
	return rc == 0 ? 0 : -1;
}

int
format_open(const struct format_options *options, struct node_format *format,
    struct format_disk *ret_disk)
{
	char reason[FORMAT_REASON_BYTES_MAX];
	struct stat st;
	int rc;

	assert(options->command != NULL && options->disk != NULL);
	assert(format->cluster_id != 0 && format->node_id != 0);
	*ret_disk = (struct format_disk){ .fd = -1 };
	if (getrandom(format->disk_uuid, sizeof(format->disk_uuid), 0) !=
	    (ssize_t)sizeof(format->disk_uuid))
		return format_error(options, "no random bytes: %s", strerror(errno));
	rc = disk_open(options, ret_disk);
	if (rc == 0)
		rc = disk_check_empty(options, ret_disk);
	if (rc == 0) {
		format->capacity_bytes = ret_disk->capacity_bytes;
		/* For people, and all that is known of time here: when the file was last touched. */
		if (fstat(ret_disk->fd, &st) == 0)
			format->created_unix_ns = (uint64_t)st.st_ctim.tv_sec * NUM_S(1) +
			    (uint64_t)st.st_ctim.tv_nsec;
		rc = format_choose_slots(options, format);
		/* Would it do? Ask before anything is lost. */
		if (rc == 0 && node_format(format, format_no_put, NULL, reason) != 0)
			rc = format_error(options, "%s", reason);
	}
	if (rc == 0)
		rc = format_check_room(options, format);
	return rc;
}

int
format_close(const struct format_options *options, struct format_disk *disk, int rc)
{
	assert(rc <= 0);
	/* A file that did not become a disk should not stay behind. */
	if (rc != 0 && disk->fd >= 0 && disk->is_new)
		(void)unlink(options->disk);
	if (disk->fd >= 0 && close(disk->fd) != 0 && rc == 0)
		rc = format_error(options, "cannot close: %s", strerror(errno));
	disk->fd = -1;
	return rc;
}

void
format_say(const struct format_options *options, const struct node_format *format)
{
	assert(format->cluster_id != 0 && format->node_id != 0);
	(void)printf("formatted %s cluster=%016llx node=%u slot_bytes=%llu\n", options->disk,
	    (unsigned long long)format->cluster_id, format->node_id,
	    (unsigned long long)format->slot_bytes);
	format_print_room(format);
	(void)fflush(stdout);
}

static int
format_run(const struct format_options *options, struct node_format *format)
{
	struct format_disk disk;
	int rc = format_open(options, format, &disk);

	if (rc == 0)
		rc = format_write(options, format, &disk);
	rc = format_close(options, &disk, rc);
	if (rc == 0)
		format_say(options, format);
	return rc;
}

int
format_main(int argc, char *const argv[])
{
	struct format_command command = { 0 };
	struct config_result result = { 0 };
	struct node_format format = { 0 };
	int rc = config_parse(&format_program, argc, argv, &command, &result);

	if (rc != 0) {
		config_result_fini(&result);
		return rc == 1 ? 0 : STORAGE_EXIT_USAGE;
	}
	if (storage_parse_hex(command.cluster_id, &format.cluster_id) != 0) {
		(void)fprintf(stderr,
		    "cleave-storage format: --cluster-id: '%s': 1 to 16 hex digits "
		    "are wanted, and not 0\n",
		    command.cluster_id);
		config_result_fini(&result);
		return STORAGE_EXIT_USAGE;
	}
	command.format.command = "format";
	format.node_id = (uint32_t)command.node_id;
	rc = format_run(&command.format, &format);
	config_result_fini(&result);
	return rc == 0 ? 0 : STORAGE_EXIT_FAILURE;
}
