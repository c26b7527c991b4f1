/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_node_wait.c -- how far a drain is, how fast, and what it waits for by name: node drain --wait, node list
 *
 *	node 3: 12 copies left, 12 MiB, moved 28 MiB, 3.9 MB/s of 8.4 MB/s allowed, about 3s to go
 *	  3 copies of shard 2 cannot move: no other domain has room (node 4 is full, node 5 is down)
 *	  9 copies of 4 shards must wait for their turn, at --repair-rate
 *
 * The gateway counts copies by what they wait for (middletier/upkeep/leaving.h); the nodes are named here.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "command.h"
#include "command_ask.h"
#include "table.h"

#define WAIT_PAUSE_NS NUM_S(1) /* between two looks at what is left */
#define WAIT_TEXT_BYTES 2048u
#define WAIT_NODES_MAX 8u /* named in a line */

/* By the names of the gateway's answer. The first are the worst. */
static const struct {
	const char *name, *text;
} wait_reasons[] = {
	{ "no_room", "cannot move: no other domain has room" },
	{ "failed", "could not be copied, and will be tried again: see the gateways' logs" },
	{ "lacking", "must wait until extents that lack copies have them" },
	{ "budget", "must wait for their turn, at --repair-rate" },
	{ "moving", "on the way" },
	{ "open", "in extents being written, which begin anew elsewhere soon" },
};

struct wait_text {
	char text[WAIT_TEXT_BYTES];
	size_t bytes;
};

static void __attribute__((format(printf, 2, 3)))
wait_add(struct wait_text *out, const char *format, ...)
{
	va_list arguments;
	int bytes;

	assert(out->bytes < sizeof(out->text));
	va_start(arguments, format);
	bytes =
	    vsnprintf(out->text + out->bytes, sizeof(out->text) - out->bytes, format, arguments);
	va_end(arguments);
	if (bytes > 0) /* cut where it is too long: it is for people */
		out->bytes = num_min(out->bytes + (size_t)bytes, sizeof(out->text) - 1);
}

/* Why a node other than the one that drains takes nothing; NULL: nothing keeps it but the copies that it has. */
static const char *
node_obstacle(const json_t *node)
{
	const char *state = command_text(node, "state");
	const char *member = command_text(node, "member");

	assert(node != NULL);
	if (strcmp(member, "draining") == 0)
		return "drains";
	if (strcmp(state, "up") != 0)
		return "is down";
	if (json_is_true(json_object_get(node, "full")))
		return "is full";
	return command_u64(node, "maintenance_s") > 0 ? "is in maintenance" : NULL;
}

/* "(node 4 is full, node 5 is down; the others have copies)". An answer that is missing is left out. */
static void
wait_add_nodes(struct command_session *session, uint64_t id, struct wait_text *out)
{
	json_t *reply = NULL, *node;
	const json_t *nodes;
	uint32_t count = 0;
	size_t i;

	assert(out->bytes > 0 && session->client != NULL);
	if (command_ask(session, json_pack("{s:s}", "op", "node.list"), false, &reply) != 0)
		return;
	nodes = json_object_get(reply, "nodes");
	json_array_foreach(nodes, i, node)
	{
		const char *obstacle = node_obstacle(node);

		if (obstacle == NULL || command_u64(node, "id") == id || count >= WAIT_NODES_MAX)
			continue;
		wait_add(out, "%s %" PRIu64 " %s", count == 0 ? " (node" : ", node",
		    command_u64(node, "id"), obstacle);
		count++;
	}
	wait_add(out,
	    count > 0 ? "; the others have a copy, or are of a domain that has)"
		      : " (each has a copy, or is of a domain that has)");
	json_decref(reply);
}

static void
wait_add_reasons(struct command_session *session, uint64_t id, const json_t *holds,
    struct wait_text *out)
{
	const json_t *waits = json_object_get(holds, "waits");

	assert(out->bytes > 0);
	for (size_t i = 0; i < NUM_COUNT(wait_reasons); i++) {
		const json_t *wait = json_object_get(waits, wait_reasons[i].name);
		uint64_t copies = command_u64(wait, "copies");

		if (copies == 0)
			continue;
		wait_add(out, "\n  %" PRIu64 " %s of ", copies, copies == 1 ? "copy" : "copies");
		if (command_u64(wait, "shards") == 1)
			wait_add(out, "shard %" PRIu64, command_u64(wait, "shard"));
		else
			wait_add(out, "%" PRIu64 " shards", command_u64(wait, "shards"));
		wait_add(out, " %s", wait_reasons[i].text);
		if (i == 0)
			wait_add_nodes(session, id, out);
	}
	if (command_u64(holds, "shards_unserved") > 0)
		wait_add(out,
		    "\n  %" PRIu64 " shards are served by nobody, and may have copies there",
		    command_u64(holds, "shards_unserved"));
	if (json_is_true(json_object_get(holds, "unknown")))
		wait_add(out, "\n  a gateway does not say what its shards have there");
}

/* How much is left, and at the present rate how long it takes. @first_bytes: at @begun_ns; 0: not known. */
static void
wait_add_left(struct command_session *session, uint64_t id, const json_t *holds,
    uint64_t first_bytes, uint64_t begun_ns, struct wait_text *out)
{
	uint64_t bytes = command_u64(holds, "bytes"), copies = command_u64(holds, "copies");
	uint64_t ns = loop_now_ns(session->loop) - begun_ns;
	uint64_t moved = first_bytes > bytes ? first_bytes - bytes : 0;
	char text[TABLE_NUMBER_BYTES];

	assert(out->bytes == 0);
	assert(begun_ns <= loop_now_ns(session->loop));
	wait_add(out, "node %" PRIu64 ": %" PRIu64 " %s left, %s", id, copies,
	    copies == 1 ? "copy" : "copies", table_format_size(bytes, text));
	if (moved == 0 || ns == 0)
		return;
	wait_add(out, ", moved %s", table_format_size(moved, text));
	wait_add(out, ", %.1f MB/s", (double)moved * 1e3 / (double)ns);
	if (command_u64(holds, "rate") > 0)
		wait_add(out, " of %.1f MB/s allowed", (double)command_u64(holds, "rate") / 1e6);
	wait_add(out, ", about %s to go",
	    table_format_time((uint64_t)((double)bytes / (double)moved * (double)ns), text));
}

static int
wait_ask(struct command_session *session, uint64_t id, json_t **ret_reply)
{
	return command_ask(session,
	    json_pack("{s:s, s:I}", "op", "node.show", "node", (json_int_t)id), false, ret_reply);
}

/* A look. It prints what has changed since the last: the figures, or what is waited for. */
static int
wait_look(struct command_session *session, uint64_t id, uint64_t begun_ns, uint64_t *first_bytes,
    struct wait_text *shown, bool *ret_is_empty)
{
	struct wait_text left = { .bytes = 0 }, reasons = { .bytes = 0 };
	json_t *reply = NULL;
	const json_t *holds;
	int rc = wait_ask(session, id, &reply);

	assert(begun_ns <= loop_now_ns(session->loop) && !*ret_is_empty);
	assert(shown->bytes < sizeof(shown->text));
	if (rc != 0)
		return rc;
	holds = json_object_get(reply, "holds");
	*ret_is_empty = json_is_true(json_object_get(holds, "empty"));
	*first_bytes = num_max(*first_bytes, command_u64(holds, "bytes"));
	if (!session->options->is_json) {
		wait_add(&reasons, "%" PRIu64, command_u64(holds, "copies"));
		wait_add_reasons(session, id, holds, &reasons);
		wait_add_left(session, id, holds, *first_bytes, begun_ns, &left);
		if (strcmp(reasons.text, shown->text) != 0)
			fprintf(session->out, "%s%s\n", left.text,
			    reasons.text + strcspn(reasons.text, "\n"));
		(void)fflush(session->out);
		*shown = reasons;
	}
	json_decref(reply);
	return 0;
}

int
command_wait_empty(struct command_session *session, uint64_t id)
{
	uint64_t begun_ns = loop_now_ns(session->loop), first_bytes = 0;
	struct wait_text shown = { .bytes = 0 };
	bool is_empty = false;

	assert(id > 0 && session->client != NULL);
	for (;;) {
		int rc = wait_look(session, id, begun_ns, &first_bytes, &shown, &is_empty);

		if (rc != 0)
			return rc;
		if (is_empty)
			break;
		command_pause(session, WAIT_PAUSE_NS);
	}
	if (!session->options->is_json)
		fprintf(session->out,
		    "node %" PRIu64 ": empty; take it out with cleave node remove %" PRIu64 "\n",
		    id, id);
	return 0;
}

int
command_print_left(struct command_session *session, uint64_t id)
{
	struct wait_text out = { .bytes = 0 };
	json_t *reply = NULL;
	const json_t *holds;
	int rc = wait_ask(session, id, &reply);

	assert(session->client != NULL && !session->options->is_json);
	if (rc != 0)
		return rc;
	holds = json_object_get(reply, "holds");
	if (json_is_true(json_object_get(holds, "empty"))) {
		fprintf(session->out,
		    "node %" PRIu64 ": empty; take it out with cleave node remove %" PRIu64 "\n",
		    id, id);
	} else {
		wait_add_left(session, id, holds, 0, 0, &out);
		wait_add_reasons(session, id, holds, &out);
		fprintf(session->out, "%s\n", out.text);
	}
	json_decref(reply);
	return 0;
}
