/* SPDX-License-Identifier: Apache-2.0 */
/* test_disk_sight.c -- a node's file is moved, deleted, replaced, while it is open */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
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

Test(disk_sight, what_cannot_be_watched_is_told)
{
	struct disk_sight absent = { .loop = NULL };

	cr_assert_eq(disk_sight_begin(&absent, loop, other), -ENOENT);
	cr_assert_not(disk_sight_is_displaced(&absent));
	cr_assert_eq(disk_sight_begin(&absent, loop, "/dev/null"), 0, "not a file");
	disk_sight_end(&absent);
}
