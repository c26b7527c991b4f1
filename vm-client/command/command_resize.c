/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_resize.c -- cleave volume resize
 *
 * To make a volume smaller: ask whether it may be, open it, discard what is behind the new end, set the size, each of
 * the same volume, by its id. What is discarded reads as zeros should the volume grow again.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "command.h"
#include "command_ask.h"
#include "command_disk.h"

#define SHRINK_PIECE_BYTES                                                                         \
	NUM_GIB(16) /* discarded by one request: its end comes within a request's time */

/* The volume @id, which has been looked at, and no other of its name: 0, and what is behind the new end is gone. */
static int
shrink_discard(struct command_session *session, uint64_t id)
{
	const struct command_options *options = session->options;
	uint64_t at = options->size_bytes, end;
	const struct cleave_open_options how = { .name = options->name,
		.flags = options->is_forced ? CLEAVE_OPEN_TAKE : 0,
		.id = id };
	struct command_disk disk;
	int rc = command_disk_open_as(&disk, session, &how);

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

/* 0: it may get the size that is wanted, what is behind is gone, and the volume is *@ret_id. */
static int
shrink_prepare(struct command_session *session, uint64_t *ret_id, bool *ret_is_discarded)
{
	const struct command_options *options = session->options;
	const struct cleave_volume_entry *volume;
	struct command_question question;
	uint64_t size_bytes = 0;
	int rc;

	assert(options->must_shrink);
	command_question_init(&question, session);
	rc = command_wait(&question,
	    cleave_volume_set_size(session->client, &question.ask, options->name,
		options->size_bytes,
		CLEAVE_MANAGE_CHECK | CLEAVE_MANAGE_SHRINK |
		    (options->is_forced ? CLEAVE_MANAGE_FORCE : 0u),
		command_on_volume, &question));
	volume = question.entries;
	if (rc == 0) {
		size_bytes = volume->info.size_bytes;
		*ret_id = volume->info.id;
	}
	command_question_fini(&question);
	if (rc == 0 && options->size_bytes < size_bytes) {
		rc = shrink_discard(session, *ret_id);
		*ret_is_discarded = rc == 0;
	}
	return rc;
}

/* Our session has ended by then, or is said to be in the way: whoever has opened the volume since is put out by --force alone. */
static int
shrink(struct command_session *session)
{
	const struct command_options *options = session->options;
	char error[sizeof(session->error)];
	bool is_discarded = false;
	json_t *reply = NULL;
	uint64_t id = 0;
	int rc = shrink_prepare(session, &id, &is_discarded);

	if (rc != 0)
		return rc;
	/* cleave_volume_set_size says no id. */
	rc = command_ask(session,
	    json_pack("{s:s, s:s, s:I, s:I, s:b, s:b}", "op", "volume.resize", "name",
		options->name, "id", (json_int_t)id, "size_bytes", (json_int_t)options->size_bytes,
		"shrink", 1, "force", (int)options->is_forced),
	    true, &reply);
	if (rc != 0 && is_discarded) {
		memcpy(error, session->error, sizeof(error));
		return command_fail(session, rc,
		    "%.500s; what is behind the new end of volume %" PRIu64 " is discarded already",
		    error, id);
	}
	if (rc == 0 && options->is_json)
		rc = command_print_json(reply, session->out);
	else if (rc == 0)
		fprintf(session->out, "%s: resized\n", options->name);
	json_decref(reply);
	return rc;
}

int
command_volume_resize(struct command_session *session)
{
	const struct command_options *options = session->options;
	struct command_question question;

	assert(options->name != NULL && options->size_bytes > 0);
	assert(options->size_bytes % CLEAVE_BLOCK_BYTES == 0);
	if (options->must_shrink)
		return shrink(session);
	command_question_init(&question, session);
	return command_say(&question,
	    command_wait(&question,
		cleave_volume_set_size(session->client, &question.ask, options->name,
		    options->size_bytes, options->is_forced ? CLEAVE_MANAGE_FORCE : 0u,
		    command_on_volume, &question)),
	    "resized");
}
