/* SPDX-License-Identifier: Apache-2.0 */
/* lmdb_sight.c -- see lmdb_sight.h */
#include "meta/lmdb_sight.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "common/alloc.h"
#include "meta/lmdb_place.h"

/* Looks in a row that have an error before it is told; a file that is not there is told at once. */
#define SIGHT_FAILURES_MAX 2u

struct lmdb_sight_look {
	struct errand errand;
	struct lmdb_sight *sight; /* the loop's; the thread does not touch it */
	char path[PATH_MAX];
	char place[META_PLACE_BYTES];
	int rc; /* 0: found, and what it is is in found */
	char found[META_PLACE_BYTES];
};

static struct lmdb_sight_look *
look_of(struct errand *errand)
{
	return NUM_CONTAINER_OF(errand, struct lmdb_sight_look, errand);
}

/* On a thread of its own. */
static void
look_work(struct errand *errand)
{
	struct lmdb_sight_look *look = look_of(errand);
	struct statx file;

	look->rc = 0;
	if (statx(AT_FDCWD, look->path, 0, STATX_INO | STATX_BTIME, &file) != 0)
		look->rc = -errno;
	else
		lmdb_place_write(&file, look->found);
}

static void
look_done(struct errand *errand)
{
	struct lmdb_sight_look *look = look_of(errand);
	struct lmdb_sight *sight = look->sight;

	assert(sight->out == look);
	sight->out = NULL;
	sight->text[0] = '\0';
	sight->failures = look->rc == 0 ? 0 : sight->failures + 1;
	if (look->rc == -ENOENT || look->rc == -ENOTDIR)
		(void)snprintf(sight->text, sizeof(sight->text), "it was moved or deleted: %s",
		    look->path);
	else if (look->rc != 0 && sight->failures >= SIGHT_FAILURES_MAX)
		(void)snprintf(sight->text, sizeof(sight->text), "it cannot be looked at: %s: %s",
		    strerror(-look->rc), look->path);
	else if (look->rc == 0 && strcmp(look->found, look->place) != 0)
		(void)snprintf(sight->text, sizeof(sight->text),
		    "it is another file than the one that is in use: %s", look->path);
	mt_free(look);
}

static void
look_drop(struct errand *errand)
{
	mt_free(look_of(errand));
}

int
lmdb_sight_open(struct lmdb_sight *sight, struct loop *loop, const char *directory,
    const char *place)
{
	char *path = realpath(directory, NULL);
	int rc;

	assert(!sight->is_open && place[0] != '\0');
	if (path == NULL)
		return -errno;
	*sight = (struct lmdb_sight){ .out = NULL };
	rc = (size_t)snprintf(sight->path, sizeof(sight->path), "%s/data.mdb", path) >=
		sizeof(sight->path)
	    ? -ENAMETOOLONG
	    : errand_desk_init(&sight->desk, loop);
	free(path);
	(void)snprintf(sight->place, sizeof(sight->place), "%s", place);
	sight->is_open = rc == 0;
	return rc;
}

void
lmdb_sight_close(struct lmdb_sight *sight)
{
	if (!sight->is_open)
		return;
	errand_desk_fini(&sight->desk);
	sight->is_open = false;
	sight->out = NULL;
}

const char *
lmdb_sight_look(struct lmdb_sight *sight)
{
	struct lmdb_sight_look *look;

	assert(sight->is_open);
	look = sight->out == NULL ? mt_calloc(1, sizeof(*look)) : NULL;
	if (look != NULL) {
		look->errand.work = look_work;
		look->errand.done = look_done;
		look->errand.drop = look_drop;
		look->sight = sight;
		memcpy(look->path, sight->path, sizeof(look->path));
		memcpy(look->place, sight->place, sizeof(look->place));
		if (errand_start(&sight->desk, &look->errand) == 0)
			sight->out = look;
		else
			mt_free(look); /* there is no thread for it: the next time */
	}
	return sight->text[0] != '\0' ? sight->text : NULL;
}
