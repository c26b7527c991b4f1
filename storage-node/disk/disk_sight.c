/* SPDX-License-Identifier: Apache-2.0 */
/* disk_sight.c -- see disk_sight.h */
#include "disk_sight.h"

#include <errno.h>
#include <limits.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"

/*
 * A file that is open is not deleted but loses a name (IN_ATTRIB). Its mode and times change seldom, by hand alone; those
 * of a device's name when udev looks at it anew.
 */
#define SIGHT_EVENTS (IN_ATTRIB | IN_MOVE_SELF | IN_DELETE_SELF)
#define SIGHT_READ_BYTES (sizeof(struct inotify_event) + NAME_MAX + 1)

/* Is @st what is open: that file; or that device, whichever file in /dev stands for it? */
static bool
sight_is_it(const struct disk_sight *sight, const struct stat *st)
{
	if (sight->is_device)
		return S_ISBLK(st->st_mode) && (uint64_t)st->st_rdev == sight->device;
	return (uint64_t)st->st_dev == sight->device && (uint64_t)st->st_ino == sight->inode;
}

/*
 * Both are watched, the file that is found by the path now and a link that leads there: either may be new. Returns 0, or
 * a negative errno of the file.
 */
static int
sight_watch(struct disk_sight *sight)
{
	int fd = sight->watcher.fd;
	int rc = inotify_add_watch(fd, sight->path, SIGHT_EVENTS) < 0 ? -errno : 0;

	(void)inotify_add_watch(fd, sight->path, SIGHT_EVENTS | IN_DONT_FOLLOW);
	return rc;
}

static void
sight_look(struct disk_sight *sight)
{
	struct stat st;
	bool was_displaced = sight->is_displaced;
	int rc = stat(sight->path, &st) == 0 ? 0 : -errno;

	assert(sight->is_watching);
	if (rc == 0)
		sight->is_displaced = !sight_is_it(sight, &st);
	else if (rc == -ENOENT || rc == -ENOTDIR)
		sight->is_displaced = true; /* another error says nothing of it */
	if (sight->is_displaced && !was_displaced)
		log_error(
		    "disk: it is no longer found by its path, and this node could not start again "
		    "disk=%s: was it moved, put it back, and do not stop the node before; was it "
		    "deleted, drain the node while it runs, or cleave node replace",
		    sight->path);
	else if (was_displaced && !sight->is_displaced)
		log_info("disk: it is found by its path again disk=%s", sight->path);
}

static void
sight_on_event(struct loop_fd *watcher, unsigned events, void *arg)
{
	_Alignas(struct inotify_event) char told[SIGHT_READ_BYTES];
	struct disk_sight *sight = arg;

	(void)events;
	while (read(watcher->fd, told, sizeof(told)) > 0)
		; /* that something was told is enough */
	/* Where nothing is there any more, who asks looks again. */
	(void)sight_watch(sight);
	sight_look(sight);
}

int
disk_sight_begin(struct disk_sight *sight, struct loop *loop, const char *path)
{
	struct stat st;
	int fd, rc;

	assert(!sight->is_watching);
	if (stat(path, &st) != 0)
		return -errno;
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
		return 0;
	fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (fd < 0)
		return -errno;
	*sight = (struct disk_sight){ .loop = loop,
		.path = path,
		.is_device = S_ISBLK(st.st_mode),
		.device = S_ISBLK(st.st_mode) ? (uint64_t)st.st_rdev : (uint64_t)st.st_dev,
		.inode = (uint64_t)st.st_ino };
	loop_fd_init(&sight->watcher, fd, sight_on_event, sight);
	rc = sight_watch(sight);
	if (rc == 0)
		rc = loop_fd_start(loop, &sight->watcher, LOOP_READABLE);
	if (rc != 0) {
		(void)close(fd); /* nothing was written */
		return rc;
	}
	sight->is_watching = true;
	sight_look(sight); /* it may have gone before it was watched */
	return 0;
}

void
disk_sight_end(struct disk_sight *sight)
{
	if (!sight->is_watching)
		return;
	loop_fd_stop(sight->loop, &sight->watcher);
	(void)close(sight->watcher.fd); /* nothing was written */
	sight->is_watching = false;
}

bool
disk_sight_is_displaced(struct disk_sight *sight)
{
	/* A device that comes back has a new file, of which nobody tells. */
	if (sight->is_watching && sight->is_displaced) {
		(void)sight_watch(sight);
		sight_look(sight);
	}
	return sight->is_displaced;
}
