/* SPDX-License-Identifier: Apache-2.0 */
/* test_disk_sight.c -- a node's file is moved, deleted, replaced, while it is open */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "cleave/loop.h"
#include "storage-node/disk/disk_sight.h"
#include "tests/support/test_folder.h"

static char folder[64], path[128], other[128];
static struct loop *loop;
static struct disk_sight sight;
static int disk_fd;

static int
make_file(const char *name)
{
	int fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	cr_assert_geq(fd, 0);
	return fd;
}

static void
setup(void)
{
	test_folder_make(folder, sizeof(folder), "sight");
	(void)snprintf(path, sizeof(path), "%s/disk", folder);
	(void)snprintf(other, sizeof(other), "%s/other", folder);
	disk_fd = make_file(path);
	loop = loop_ev_create(1);
	cr_assert_not_null(loop);
	cr_assert_eq(disk_sight_begin(&sight, loop, path), 0);
}

static void
teardown(void)
{
	disk_sight_end(&sight);
	disk_sight_end(&sight); /* a no-op */
	loop_destroy(loop);
	(void)close(disk_fd);
	(void)unlink(path);
	(void)unlink(other);
	(void)rmdir(folder);
}

TestSuite(disk_sight, .init = setup, .fini = teardown, .timeout = 60);

static bool
is_displaced(void *arg)
{
	return disk_sight_is_displaced(&sight) == *(const bool *)arg;
}

static void
expect(bool is_wanted)
{
	cr_assert_eq(loop_run(loop, is_displaced, &is_wanted), 0);
}

Test(disk_sight, file_that_is_moved_away_and_back)
{
	cr_assert_not(disk_sight_is_displaced(&sight));
	cr_assert_eq(rename(path, other), 0);
	expect(true);
	cr_assert_eq(rename(other, path), 0);
	expect(false);
}

Test(disk_sight, file_that_is_deleted_though_another_takes_its_name)
{
	cr_assert_eq(unlink(path), 0);
	(void)close(make_file(path)); /* before the kernel's word is read */
	expect(true);
}

Test(disk_sight, file_that_is_deleted)
{
	cr_assert_eq(unlink(path), 0);
	expect(true);
}

Test(disk_sight, file_that_another_is_moved_over)
{
	(void)close(make_file(other));
	cr_assert_eq(rename(other, path), 0);
	expect(true);
}

/* ---- block devices ---- */

#define RIGHT_DEVICE makedev(7, 250)
#define OTHER_DEVICE makedev(7, 251)

/* Nobody opens them, so they need not be there. */
static void
make_device(const char *name, dev_t number)
{
	if (mknod(name, S_IFBLK | 0600, number) != 0)
		cr_skip_test("no device can be made here: %s", strerror(errno));
}

/* As the kernel does when it finds one. */
static void
watch_device(struct disk_sight *device, const char *name)
{
	make_device(path, RIGHT_DEVICE);
	*device = (struct disk_sight){ .loop = NULL };
	cr_assert_eq(disk_sight_begin(device, loop, name), 0);
	cr_assert_not(disk_sight_is_displaced(device));
}

static bool
is_device_displaced(void *arg)
{
	return disk_sight_is_displaced(arg);
}

static void
expect_displaced(struct disk_sight *device)
{
	cr_assert_eq(loop_run(loop, is_device_displaced, device), 0);
}

/* All that the kernel has told is read. */
static bool
is_heard(void *arg)
{
	int left = 0;

	cr_assert_eq(ioctl(((const struct disk_sight *)arg)->watcher.fd, FIONREAD, &left), 0);
	return left == 0;
}

static void
forget_file(void)
{
	disk_sight_end(&sight);
	cr_assert_eq(unlink(path), 0);
}

Test(disk_sight, device_that_is_pulled_and_comes_again)
{
	struct disk_sight device;

	forget_file();
	watch_device(&device, path);
	cr_assert_eq(unlink(path), 0);
	expect_displaced(&device);
	make_device(path, OTHER_DEVICE);
	cr_assert(disk_sight_is_displaced(&device), "another one has its name");
	cr_assert_eq(unlink(path), 0);
	make_device(path, RIGHT_DEVICE);
	cr_assert_not(disk_sight_is_displaced(&device));
	/* The new file is watched. */
	cr_assert_eq(unlink(path), 0);
	expect_displaced(&device);
	disk_sight_end(&device);
}

Test(disk_sight, device_that_another_one_is_moved_over)
{
	struct disk_sight device;

	forget_file();
	watch_device(&device, path);
	make_device(other, OTHER_DEVICE);
	cr_assert_eq(rename(other, path), 0);
	expect_displaced(&device);
	disk_sight_end(&device);
}

/* As those of /dev/disk/by-id. They are made anew, by a move, whenever somebody asks udev to. */
Test(disk_sight, device_whose_link_leads_elsewhere)
{
	struct disk_sight device;
	char link[160], fresh[160], elsewhere[160];

	(void)snprintf(link, sizeof(link), "%s/link", folder);
	(void)snprintf(fresh, sizeof(fresh), "%s/fresh", folder);
	(void)snprintf(elsewhere, sizeof(elsewhere), "%s/elsewhere", folder);
	forget_file();
	cr_assert_eq(symlink(path, link), 0);
	watch_device(&device, link);
	cr_assert_eq(symlink(path, fresh), 0);
	cr_assert_eq(rename(fresh, link), 0);
	cr_assert_eq(loop_run(loop, is_heard, &device), 0);
	cr_assert_not(disk_sight_is_displaced(&device));
	make_device(elsewhere, OTHER_DEVICE);
	cr_assert_eq(symlink(elsewhere, fresh), 0);
	cr_assert_eq(rename(fresh, link), 0);
	expect_displaced(&device);
	disk_sight_end(&device);
	(void)unlink(link);
	(void)unlink(elsewhere);
}

Test(disk_sight, what_cannot_be_watched_is_told)
{
	struct disk_sight absent = { .loop = NULL };

	cr_assert_eq(disk_sight_begin(&absent, loop, other), -ENOENT);
	cr_assert_not(disk_sight_is_displaced(&absent));
	cr_assert_eq(disk_sight_begin(&absent, loop, "/dev/null"), 0, "not a file");
	disk_sight_end(&absent);
}
