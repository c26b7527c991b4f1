/* SPDX-License-Identifier: Apache-2.0 */
/* command_disk.c -- see command_disk.h */
#include "command_disk.h"

#include <string.h>

#include "base/check.h"
#include "base/num.h"

#define DISCARD_PIECE_BYTES NUM_GIB(16) /* by one request: its end comes within a request's time */

static bool
disk_is_done(void *arg)
{
	assert(arg != NULL);
	return ((const struct command_disk *)arg)->is_done;
}

/* Until a handler has come; what it was told. */
static int
disk_wait(struct command_disk *disk)
{
	assert(disk->session->loop != NULL);
	(void)loop_run(disk->session->loop, disk_is_done, disk);
	assert(disk->is_done); /* each handler comes, at the latest when its time is over */
	disk->is_done = false;
	return disk->rc;
}

static void
disk_finish(struct command_disk *disk, int rc)
{
	assert(!disk->is_done);
	disk->rc = rc;
	disk->is_done = true;
}

static void
disk_on_open(struct cleave_volume *volume, int rc, const char *error, void *arg)
{
	struct command_disk *disk = arg;

	assert(disk->volume == NULL);
	assert((rc == 0) == (volume != NULL));
	disk->volume = volume;
	if (rc != 0)
		(void)command_fail(disk->session, rc, "%s",
		    error != NULL ? error : cleave_error_text(rc));
	disk_finish(disk, rc);
}

int
command_disk_open_as(struct command_disk *disk, struct command_session *session,
    const struct cleave_open_options *options)
{
	int rc;

	assert(session->client != NULL && options->name != NULL);
	*disk = (struct command_disk){ .session = session };
	rc = cleave_volume_open_as(session->client, options, disk_on_open, disk);
	if (rc != 0)
		return command_fail(session, rc, "volume '%.64s': %s", options->name,
		    cleave_error_text(rc));
	return disk_wait(disk);
}

int
command_disk_open(struct command_disk *disk, struct command_session *session, const char *name,
    unsigned flags)
{
	return command_disk_open_as(disk, session,
	    &(struct cleave_open_options){ .name = name, .flags = flags });
}

static void
disk_on_io(struct cleave_io *io, int rc, void *arg)
{
	struct command_disk *disk = arg;

	assert(io->arg == disk && disk->volume != NULL);
	/* Whoever asks on behind what was told would do so for ever; libcleave takes no such answer. */
	assert(rc != 0 || io->op != CLEAVE_BLOCK_STATUS || io->extent_count > 0);
	disk_finish(disk, rc);
}

int
command_disk_run(struct command_disk *disk, struct cleave_io *io)
{
	int rc;

	assert(io->fn == NULL && io->arg == NULL);
	assert(disk->volume != NULL && !disk->is_done);
	io->fn = disk_on_io;
	io->arg = disk;
	rc = cleave_submit(disk->volume, io);
	return rc != 0 ? rc : disk_wait(disk);
}

int
command_disk_discard_from(struct command_disk *disk, uint64_t from_bytes)
{
	uint64_t end = cleave_volume_info(disk->volume)->size_bytes;
	int rc = 0;

	assert(from_bytes % CLEAVE_BLOCK_BYTES == 0);
	for (uint64_t at = from_bytes; at < end && rc == 0; at += DISCARD_PIECE_BYTES) {
		struct cleave_io io = { .op = CLEAVE_DISCARD,
			.offset_bytes = at,
			.length_bytes = num_min(end - at, DISCARD_PIECE_BYTES) };

		rc = command_disk_run(disk, &io);
	}
	return rc;
}

static void
disk_on_closed(void *arg)
{
	assert(((const struct command_disk *)arg)->volume != NULL);
	disk_finish(arg, 0);
}

void
command_disk_close(struct command_disk *disk)
{
	assert(disk->volume != NULL && !disk->is_done);
	cleave_volume_close(disk->volume, disk_on_closed, disk);
	(void)disk_wait(disk);
	disk->volume = NULL;
}
