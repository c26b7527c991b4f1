/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_resize.c -- cleave volume resize
 *
 * To make a volume smaller: ask whether it may be, open it, discard what is behind the new end, set the size. What
 * is discarded reads as zeros should the volume grow again.
 */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "command.h"
#include "command_ask.h"
#include "command_disk.h"

#define SHRINK_PIECE_BYTES                                                                         \
	NUM_GIB(16) /* discarded by one request: its end comes within a request's time */

static int
shrink_discard(struct command_session *session)
{
	const struct command_options *options = session->options;
	uint64_t at = options->size_bytes, end;
	struct command_disk disk;
	int rc = command_disk_open(&disk, session, options->name,
	    options->is_forced ? CLEAVE_OPEN_TAKE : 0);

	assert(options->must_shrink);
	if (rc != 0)
		return rc;
	end = cleave_volume_info(disk.volume)->size_bytes;
	while (at < end && rc == 0) {
		struct cleave_io io = { .op = CLEAVE_DISCARD,
			.offset_bytes = at,
			.length_bytes = num_min(end - at, SHRINK_PIECE_BYTES) };

		rc = command_disk_run(&disk, &io);
		at += io.length_bytes;
	}
	command_disk_close(&disk);
	return rc == 0
	    ? 0
	    : command_fail(session, rc,
		  "volume '%.64s' keeps its size: what is behind the new end could not be "
		  "discarded: %s",
		  session->options->name, cleave_error_text(rc));
}

static int
set_size(struct command_session *session, struct command_question *question, unsigned flags)
{
	const struct command_options *options = session->options;

	assert(options->size_bytes > 0 && options->size_bytes % CLEAVE_BLOCK_BYTES == 0);
	command_question_init(question, session);
	return command_wait(question,
	    cleave_volume_set_size(session->client, &question->ask, options->name,
		options->size_bytes, flags, command_on_volume, question));
}

/* 0: it may get the size that is wanted, and what is behind is gone. */
static int
shrink_prepare(struct command_session *session)
{
	const struct command_options *options = session->options;
	const struct cleave_volume_entry *volume;
	struct command_question question;
	uint64_t size_bytes = 0;
	int rc = set_size(session, &question,
	    CLEAVE_MANAGE_CHECK | CLEAVE_MANAGE_SHRINK |
		(options->is_forced ? CLEAVE_MANAGE_FORCE : 0u));

	assert(options->must_shrink);
	volume = question.entries;
	if (rc == 0)
		size_bytes = volume->info.size_bytes;
	command_question_fini(&question);
	return rc == 0 && options->size_bytes < size_bytes ? shrink_discard(session) : rc;
}

int
command_volume_resize(struct command_session *session)
{
	const struct command_options *options = session->options;
	struct command_question question;
	unsigned flags = options->is_forced ? CLEAVE_MANAGE_FORCE : 0u;
	int rc = 0;

	assert(options->name != NULL && options->size_bytes > 0);
	if (options->must_shrink) {
		rc = shrink_prepare(session);
		/* Our own session may be leaving still: it has put out every other. */
		flags = CLEAVE_MANAGE_FORCE | CLEAVE_MANAGE_SHRINK;
	}
	if (rc != 0)
		return rc;
	return command_say(&question, set_size(session, &question, flags), "resized");
}
