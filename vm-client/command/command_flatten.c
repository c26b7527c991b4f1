/* SPDX-License-Identifier: Apache-2.0 */
/* command_flatten.c -- cleave volume flatten: is there room for it? Begun, waited for, called off; how far it is */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "command.h"
#include "command_ask.h"
#include "table.h"

#define FLATTEN_LOOK_NS NUM_MS(250)
#define FLATTEN_TELL_NS NUM_S(5) /* how far it is, though no shard has ended */
#define FLATTEN_STILL_NS NUM_S(10)
#define FLATTEN_FREE_SHARE                                                                         \
	20u /* of a node's slots one in so many stays free: middletier/merge/flatten.c */

/* Bytes of one copy that a clone is yet to get of its origin. */
static uint64_t
bytes_left(const json_t *usage)
{
	const json_t *origin = json_object_get(usage, "origin");
	uint64_t bytes = command_u64(origin, "bytes");

	return bytes - num_min(bytes, command_u64(origin, "copied_bytes"));
}

/* ", 1.20 GiB of 4 GiB copied, about 5m 00s left" */
static void
print_copied(const json_t *usage, FILE *out)
{
	const json_t *origin = json_object_get(usage, "origin");
	uint64_t bytes_s = command_u64(origin, "bytes_s"), left = bytes_left(usage);
	char copied[TABLE_NUMBER_BYTES], bytes[TABLE_NUMBER_BYTES], time[TABLE_NUMBER_BYTES];

	assert(origin != NULL);
	fprintf(out, ", %s of %s copied",
	    table_format_size(command_u64(origin, "copied_bytes"), copied),
	    table_format_size(command_u64(origin, "bytes"), bytes));
	if (bytes_s > 0 && left > 0)
		fprintf(out, ", about %s left",
		    table_format_time((left / bytes_s + 1) * NUM_S(1), time));
}

void
command_print_flattening(const json_t *flattening, const json_t *usage, FILE *out)
{
	uint64_t count = command_u64(flattening, "shard_count");

	assert(out != NULL);
	if (flattening == NULL)
		return;
	fprintf(out, "flattening: %" PRIu64 " of %" PRIu64 " shards",
	    count - num_min(command_u64(flattening, "left"), count), count);
	if (json_object_get(usage, "origin") != NULL)
		print_copied(usage, out);
	fputc('\n', out);
}

void
command_status_flattening(struct command_session *session, const json_t *status)
{
	const json_t *list = json_object_get(status, "flattening");
	const json_t *first = json_array_get(list, 0);
	json_t *usage = NULL;

	if (first == NULL)
		return;
	/* Without it, how many shards are done has to do. */
	(void)command_usage(session, command_text(first, "name"), &usage);
	fprintf(session->out, "\nvolume %s: ", command_text(first, "name"));
	command_print_flattening(first, usage, session->out);
	if (json_array_size(list) > 1)
		fprintf(session->out, "%zu more are to be flattened behind it\n",
		    json_array_size(list) - 1);
	json_decref(usage);
}

/* ---- waiting ---- */

struct flatten_told {
	uint64_t left;              /* shards, as told last */
	uint64_t told_ns, heard_ns; /* when it was; it was said to be under way last */
};

/* Looks; 1: it is flattened. */
static int
flatten_look(struct command_session *session, const json_t *volume, struct flatten_told *told)
{
	const json_t *flattening = json_object_get(volume, "flattening");
	uint64_t left = command_u64(flattening, "left"), now_ns = loop_now_ns(session->loop);

	if (json_object_get(volume, "origin") == NULL)
		return 1;
	if (flattening == NULL) /* whom we ask has perhaps not read of it yet */
		return now_ns - told->heard_ns < FLATTEN_STILL_NS
		    ? 0
		    : command_fail(session, -ECANCELED,
			  "volume '%s' is not being flattened any more: was that called off meanwhile?",
			  session->options->name);
	told->heard_ns = now_ns;
	if ((left != told->left || now_ns - told->told_ns >= FLATTEN_TELL_NS) &&
	    !session->options->is_json) {
		json_t *usage = NULL;

		(void)command_usage(session, session->options->name, &usage);
		command_print_flattening(flattening, usage, session->out);
		(void)fflush(session->out);
		json_decref(usage);
		told->told_ns = now_ns;
	}
	told->left = left;
	return 0;
}

static int
ask_shown(struct command_session *session, json_t **ret_reply)
{
	return command_ask(session,
	    json_pack("{s:s, s:s}", "op", "volume.show", "name", session->options->name), false,
	    ret_reply);
}

/* Until the volume has no origin; what is copied meanwhile is printed, but for --json. */
static int
flatten_wait(struct command_session *session)
{
	struct flatten_told told = { .left = UINT64_MAX, .heard_ns = loop_now_ns(session->loop) };
	int rc = 0;

	assert(session->options->must_wait);
	while (rc == 0) {
		json_t *reply = NULL;

		rc = ask_shown(session, &reply);
		if (rc == 0)
			rc = flatten_look(session, json_object_get(reply, "volume"), &told);
		json_decref(reply);
		if (rc == 0)
			command_pause(session, FLATTEN_LOOK_NS);
	}
	return rc < 0 ? rc : 0;
}

/* ---- room ---- */

/* Bytes that copies of clones may take: of nodes that take new data, without what flattening leaves free. */
static int
ask_room(struct command_session *session, uint64_t *ret_bytes)
{
	struct command_question question;
	const struct cleave_node_entry *nodes;
	int rc;

	command_question_init(&question, session);
	rc = command_wait(&question,
	    cleave_node_list(session->client, &question.ask, command_on_nodes, &question));
	nodes = question.entries;
	assert(rc != 0 || nodes != NULL || question.count == 0);
	*ret_bytes = 0;
	for (uint32_t i = 0; i < question.count && rc == 0; i++) {
		uint64_t kept = nodes[i].slots_reserved + nodes[i].slots_total / FLATTEN_FREE_SHARE;

		if (strcmp(nodes[i].state, "up") == 0 && !nodes[i].is_read_only &&
		    strcmp(nodes[i].member, "draining") != 0)
			*ret_bytes += (nodes[i].slots_free - num_min(kept, nodes[i].slots_free)) *
			    nodes[i].slot_bytes;
	}
	command_question_fini(&question);
	return rc;
}

/* Is there room for what the clone shares with its origin? -ENOSPC, with the words. */
static int
check_room_of(struct command_session *session, const json_t *volume)
{
	uint64_t replicas = command_u64(volume, "replicas"), needed, room = 0;
	char share_text[TABLE_NUMBER_BYTES], needed_text[TABLE_NUMBER_BYTES];
	char room_text[TABLE_NUMBER_BYTES];
	json_t *usage = NULL;
	int rc = command_usage(session, session->options->name, &usage);

	assert(json_object_get(volume, "origin") != NULL);
	needed = bytes_left(usage) * replicas;
	if (rc == 0)
		rc = ask_room(session, &room);
	if (rc == 0 && needed > room)
		rc = command_fail(session, -ENOSPC,
		    "volume '%s' shares %s with its origin, %s of the nodes with its %" PRIu64
		    " copies, and they have room for %s: add nodes or delete something first; with --force it is "
		    "begun, and waits while nodes are nearly full",
		    session->options->name, table_format_size(bytes_left(usage), share_text),
		    table_format_size(needed, needed_text), replicas,
		    table_format_size(room, room_text));
	json_decref(usage);
	return rc;
}

/* Before it is begun; the gateway refuses what is no clone, and one that is under way has been asked already. */
static int
check_room(struct command_session *session)
{
	const json_t *volume;
	json_t *reply = NULL;
	int rc;

	if (session->options->is_forced || session->options->is_cancel)
		return 0;
	rc = ask_shown(session, &reply);
	volume = json_object_get(reply, "volume");
	if (rc == 0 && json_object_get(volume, "origin") != NULL &&
	    json_object_get(volume, "flattening") == NULL)
		rc = check_room_of(session, volume);
	json_decref(reply);
	return rc;
}

int
command_volume_flatten(struct command_session *session)
{
	const struct command_options *options = session->options;
	json_t *reply = NULL;
	int rc;

	assert(options->name != NULL && session->client != NULL);
	if (options->is_cancel && options->must_wait)
		return command_fail(session, -EINVAL, "--cancel and --wait: one of them");
	rc = check_room(session);
	if (rc != 0)
		return rc;
	rc = command_ask(session,
	    json_pack("{s:s, s:s, s:b}", "op", "volume.flatten", "name", options->name, "cancel",
		options->is_cancel),
	    true, &reply);
	if (rc == 0 && options->must_wait)
		rc = flatten_wait(session);
	if (rc == 0 && options->must_wait)
		json_object_set_new(reply, "left", json_integer(0));
	if (rc == 0 && options->is_json)
		rc = command_print_json(reply, session->out);
	else if (rc == 0)
		fprintf(session->out, "%s: %s\n", options->name,
		    options->is_cancel       ? "not flattened any more"
			: options->must_wait ? "flattened"
					     : "being flattened: cleave volume show says how far");
	json_decref(reply);
	return rc;
}
