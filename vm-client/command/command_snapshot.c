/* SPDX-License-Identifier: Apache-2.0 */
/* command_snapshot.c -- cleave snapshot, clone, volume rename, volume resize */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/num.h"
#include "cleave/client.h"
#include "command.h"
#include "table.h"

#define LIST_PAGES_MAX 100000u
#define SHRINK_PIECE_BYTES NUM_GIB(16) /* discarded by one request */

/* Ask, and print the reply, or @done with the name in it. */
static int
ask_and_say(struct command_session *session, json_t *request, const char *done)
{
	const struct command_options *options = session->options;
	json_t *reply = NULL;
	int rc = command_ask(session, request, true, &reply);

	if (rc != 0)
		return rc;
	if (options->is_json)
		rc = command_print_json(reply, session->out);
	else
		fprintf(session->out, "%s: %s\n",
		    options->new_name != NULL ? options->new_name : options->name, done);
	json_decref(reply);
	return rc;
}

static json_t *
named_request(const struct command_session *session, const char *op)
{
	return json_pack("{s:s, s:s}", "op", op, "name", session->options->name);
}

int
command_snapshot_create(struct command_session *session)
{
	return ask_and_say(session, named_request(session, "snapshot.create"), "taken");
}

int
command_snapshot_delete(struct command_session *session)
{
	return ask_and_say(session, named_request(session, "snapshot.delete"), "deleted");
}

int
command_snapshot_rollback(struct command_session *session)
{
	json_t *request = named_request(session, "snapshot.rollback");

	if (request != NULL && session->options->is_forced)
		json_object_set_new(request, "force", json_true());
	if (request != NULL && session->options->must_shrink)
		json_object_set_new(request, "shrink", json_true());
	return ask_and_say(session, request, "rolled back");
}

int
command_clone(struct command_session *session)
{
	const struct command_options *options = session->options;

	return ask_and_say(session,
	    json_pack("{s:s, s:s, s:s}", "op", "clone", "name", options->name, "new",
		options->new_name),
	    "cloned");
}

int
command_volume_rename(struct command_session *session)
{
	const struct command_options *options = session->options;

	return ask_and_say(session,
	    json_pack("{s:s, s:s, s:s}", "op", "volume.rename", "name", options->name, "new",
		options->new_name),
	    "renamed");
}

/* ---- list ---- */

int
command_print_snapshots(const json_t *reply, FILE *out)
{
	static const struct table_column columns[] = {
		{ "NAME", false },
		{ "SIZE", true },
		{ "TAKEN", false },
		{ "CLONES", true },
		{ "NUMBER", true },
	};
	struct table *table = table_create(columns, NUM_COUNT(columns));
	char size[TABLE_NUMBER_BYTES], when[32];
	const json_t *snapshot;
	size_t i;
	int rc;

	json_array_foreach(json_object_get(reply, "snapshots"), i, snapshot)
	{
		time_t taken = (time_t)command_u64(snapshot, "created_s");
		struct tm tm;

		if (gmtime_r(&taken, &tm) == NULL ||
		    strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
			when[0] = '\0';
		table_add(table, "%s@%s", command_text(snapshot, "volume"),
		    command_text(snapshot, "name"));
		table_add(table, "%s",
		    table_format_size(command_u64(snapshot, "size_bytes"), size));
		table_add(table, "%s", when);
		table_add(table, "%" PRIu64, command_u64(snapshot, "clones"));
		table_add(table, "%" PRIu64, command_u64(snapshot, "number"));
	}
	rc = table_print(table, 0, out);
	table_destroy(table);
	return rc;
}

/* Adds the page behind *@ret_after to @snapshots; *@ret_after: 0 when it was the last one. */
static int
list_page(struct command_session *session, json_t *snapshots, uint64_t *ret_after)
{
	json_t *request =
	    json_pack("{s:s, s:I}", "op", "snapshot.list", "after", (json_int_t)*ret_after);
	json_t *reply = NULL, *page, *last;
	uint64_t after;
	int rc;

	if (request != NULL && session->options->name != NULL)
		json_object_set_new(request, "name", json_string(session->options->name));
	rc = command_ask(session, request, false, &reply);
	if (rc != 0)
		return rc;
	page = json_object_get(reply, "snapshots");
	if (!json_is_array(page))
		rc = command_fail(session, -EPROTO, "the gateway's reply names no snapshots");
	last = json_array_get(page, json_array_size(page) - 1);
	after = json_is_true(json_object_get(reply, "more")) ? command_u64(last, "number") : 0;
	if (rc == 0 && after != 0 && after <= *ret_after)
		rc = command_fail(session, -EPROTO, "the gateway repeats its snapshots");
	*ret_after = after;
	if (rc == 0 && json_array_extend(snapshots, page) != 0)
		rc = -ENOMEM;
	json_decref(reply);
	return rc;
}

int
command_snapshot_list(struct command_session *session)
{
	json_t *snapshots = json_array(), *reply;
	uint64_t after = 0;
	int rc = snapshots == NULL ? -ENOMEM : 0;

	for (uint32_t i = 0; i < LIST_PAGES_MAX && rc == 0; i++) {
		rc = list_page(session, snapshots, &after);
		if (after == 0)
			break;
	}
	reply = json_pack("{s:o}", "snapshots", snapshots);
	if (rc == 0 && reply == NULL)
		rc = -ENOMEM;
	if (rc == 0)
		rc = session->options->is_json ? command_print_json(reply, session->out)
					       : command_print_snapshots(reply, session->out);
	json_decref(reply);
	return rc;
}

/* ---- resize ---- */

/* A step of the shrinking session: a handler has come. */
struct shrink {
	struct command_session *session;
	struct cleave_volume *volume;
	int rc;
	bool is_done;
};

static bool
shrink_is_done(void *arg)
{
	return ((const struct shrink *)arg)->is_done;
}

static int
shrink_wait(struct shrink *shrink)
{
	(void)loop_run(shrink->session->loop, shrink_is_done, shrink);
	shrink->is_done = false;
	return shrink->rc;
}

static void
shrink_on_open(struct cleave_volume *volume, int rc, const char *error, void *arg)
{
	struct shrink *shrink = arg;

	shrink->volume = volume;
	shrink->rc = rc;
	shrink->is_done = true;
	if (rc != 0)
		(void)command_fail(shrink->session, rc, "%s", error);
}

static void
shrink_on_io(struct cleave_io *io, int rc, void *arg)
{
	struct shrink *shrink = arg;

	(void)io;
	shrink->rc = rc;
	shrink->is_done = true;
}

static void
shrink_on_closed(void *arg)
{
	struct shrink *shrink = arg;

	shrink->is_done = true;
}

/* Blocks behind the new end read as zeros from now on, should the volume grow again. */
static int
shrink_discard(struct command_session *session)
{
	struct shrink shrink = { .session = session };
	uint64_t at = session->options->size_bytes, end;
	int rc = cleave_volume_open(session->client, session->options->name,
	    session->options->is_forced ? CLEAVE_OPEN_TAKE : 0, shrink_on_open, &shrink);

	if (rc != 0)
		return command_fail(session, rc, "%s", strerror(-rc));
	rc = shrink_wait(&shrink);
	if (rc != 0)
		return rc;
	end = cleave_volume_info(shrink.volume)->size_bytes;
	while (at < end && rc == 0) {
		struct cleave_io io = { .op = CLEAVE_DISCARD,
			.offset_bytes = at,
			.length_bytes = num_min(end - at, SHRINK_PIECE_BYTES),
			.fn = shrink_on_io,
			.arg = &shrink };

		rc = cleave_submit(shrink.volume, &io);
		if (rc == 0)
			rc = shrink_wait(&shrink);
		at += io.length_bytes;
	}
	cleave_volume_close(shrink.volume, shrink_on_closed, &shrink);
	shrink.rc = rc;
	(void)shrink_wait(&shrink);
	return rc == 0 ? 0 : command_fail(session, rc, "discarding the end: %s", strerror(-rc));
}

static json_t *
resize_request(const struct command_session *session, bool is_check, bool is_forced)
{
	const struct command_options *options = session->options;

	return json_pack("{s:s, s:s, s:I, s:b, s:b, s:b}", "op", "volume.resize", "name",
	    options->name, "size_bytes", (json_int_t)options->size_bytes, "shrink",
	    (int)options->must_shrink, "check", (int)is_check, "force", (int)is_forced);
}

int
command_volume_resize(struct command_session *session)
{
	const struct command_options *options = session->options;
	json_t *reply = NULL;
	uint64_t size_bytes;
	int rc;

	if (options->must_shrink) {
		rc = command_ask(session, resize_request(session, true, options->is_forced), false,
		    &reply);
		if (rc != 0)
			return rc;
		size_bytes = command_u64(json_object_get(reply, "volume"), "size_bytes");
		json_decref(reply);
		rc = options->size_bytes < size_bytes ? shrink_discard(session) : 0;
		if (rc != 0)
			return rc;
	}
	/* Our own session may be leaving still: it has put out every other. */
	return ask_and_say(session,
	    resize_request(session, false, options->is_forced || options->must_shrink), "resized");
}
