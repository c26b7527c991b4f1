/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_resize.c -- cleave volume resize
 *
 * To make a volume smaller: ask whether it may be, open it, discard what is behind the new end, set the size, each of
 * the same volume, by its id. What is discarded reads as zeros should the volume grow again. Where no gateway has heard of
 * the end of our session, it is in our way until its time is over: that is waited for, by its number.
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

#define SHRINK_OWN_NS NUM_S(60) /* longer than any session time in use */
#define SHRINK_OWN_PAUSE_NS NUM_MS(500)

struct shrinking {
	uint64_t id; /* of the volume that has been looked at */
	uint64_t
	    attach; /* of our session, which has discarded what is behind the new end; 0: there was none */
};

/* No other volume of that name: 0, and what is behind the new end is gone. */
static int
shrink_discard(struct command_session *session, struct shrinking *shrinking)
{
	const struct command_options *options = session->options;
	const struct cleave_open_options how = { .name = options->name,
		.flags = options->is_forced ? CLEAVE_OPEN_TAKE : 0,
		.id = shrinking->id };
	struct command_disk disk;
	int rc = command_disk_open_as(&disk, session, &how);

	assert(options->must_shrink);
	if (rc != 0)
		return rc;
	rc = command_disk_discard_from(&disk, options->size_bytes);
	if (rc == 0)
		shrinking->attach = cleave_volume_info(disk.volume)->attach;
	command_disk_close(&disk);
	return rc == 0
	    ? 0
	    : command_fail(session, rc,
		  "volume '%.64s' keeps its size: what is behind the new end could not be "
		  "discarded: %s",
		  session->options->name, cleave_error_text(rc));
}

/* 0: it may get the size that is wanted, and what is behind is gone. */
static int
shrink_prepare(struct command_session *session, struct shrinking *ret_shrinking)
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
		ret_shrinking->id = volume->info.id;
	}
	command_question_fini(&question);
	if (rc == 0 && options->size_bytes < size_bytes)
		rc = shrink_discard(session, ret_shrinking);
	return rc;
}

/* Is it our own session that has the volume, of whose end nobody has heard? */
static bool
shrink_is_held_by_us(struct command_session *session, const struct shrinking *shrinking)
{
	json_t *reply = NULL, *holder = NULL;
	json_int_t id = 0, attach = 0;
	bool is_ours;

	if (shrinking->attach == 0 ||
	    command_ask(session,
		json_pack("{s:s, s:s}", "op", "volume.show", "name", session->options->name), false,
		&reply) != 0)
		return false;
	is_ours = json_unpack(reply, "{s:{s:I, s:I, s:o}}", "volume", "id", &id, "attach", &attach,
		      "holder", &holder) == 0 &&
	    (uint64_t)id == shrinking->id && (uint64_t)attach == shrinking->attach;
	json_decref(reply);
	return is_ours;
}

/* The size is set. Our session has ended, or is waited for; whoever else has opened the volume is put out by --force alone. */
static int
shrink_set(struct command_session *session, const struct shrinking *shrinking, json_t **ret_reply)
{
	const struct command_options *options = session->options;
	uint64_t until_ns = loop_now_ns(session->loop) + SHRINK_OWN_NS;
	char error[sizeof(session->error)];

	for (;;) {
		/* cleave_volume_set_size says no id. */
		int rc = command_ask(session,
		    json_pack("{s:s, s:s, s:I, s:I, s:b, s:b}", "op", "volume.resize", "name",
			options->name, "id", (json_int_t)shrinking->id, "size_bytes",
			(json_int_t)options->size_bytes, "shrink", 1, "force",
			(int)options->is_forced),
		    true, ret_reply);

		if (rc != -ENOTEMPTY)
			return rc;
		memcpy(error, session->error, sizeof(error));
		if (loop_now_ns(session->loop) >= until_ns ||
		    !shrink_is_held_by_us(session, shrinking)) {
			memcpy(session->error, error, sizeof(error));
			return rc;
		}
		session->error[0] = '\0';
		command_pause(session, SHRINK_OWN_PAUSE_NS);
	}
}

static int
shrink(struct command_session *session)
{
	struct shrinking shrinking = { .id = 0 };
	char error[sizeof(session->error)];
	json_t *reply = NULL;
	int rc = shrink_prepare(session, &shrinking);

	if (rc != 0)
		return rc;
	rc = shrink_set(session, &shrinking, &reply);
	if (rc != 0 && shrinking.attach != 0) {
		memcpy(error, session->error, sizeof(error));
		return command_fail(session, rc,
		    "%.500s; what is behind the new end of volume %" PRIu64 " is discarded already",
		    error, shrinking.id);
	}
	if (rc == 0 && session->options->is_json)
		rc = command_print_json(reply, session->out);
	else if (rc == 0)
		fprintf(session->out, "%s: resized\n", session->options->name);
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
