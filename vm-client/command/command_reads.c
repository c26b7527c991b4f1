/* SPDX-License-Identifier: Apache-2.0 */
/* command_reads.c -- cleave volume set --reads: where a volume is read; and how that is shown */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "command.h"
#include "command_ask.h"

const char *const command_reads[] = { "gateway", "direct", NULL };

/* Nodes where a volume can be read past its gateway. */
struct reads_nodes {
	uint32_t count,
	    keyless_count; /* that take clients; of them, those that no gateway makes tickets for */
	char ids[128];     /* "1, 2, 3" of the others; what does not fit is cut */
};

/* 0, or a negative errno with the error set. */
static int
reads_ask_nodes(struct command_session *session, uint64_t volume_id, struct reads_nodes *ret_nodes)
{
	json_t *reply = NULL, *node;
	size_t i, used = 0;
	int rc = command_ask(session,
	    json_pack("{s:s, s:I}", "op", "volume.nodes", "id", (json_int_t)volume_id), false,
	    &reply);

	*ret_nodes = (struct reads_nodes){ .count = 0 };
	if (rc != 0)
		return rc;
	json_array_foreach(json_object_get(reply, "nodes"), i, node)
	{
		ret_nodes->count++;
		if (!json_is_true(json_object_get(node, "keyed")))
			ret_nodes->keyless_count++;
		else if (used < sizeof(ret_nodes->ids))
			used += (size_t)snprintf(ret_nodes->ids + used,
			    sizeof(ret_nodes->ids) - used, "%s%" PRIu64, used == 0 ? "" : ", ",
			    command_u64(node, "id"));
	}
	json_decref(reply);
	return 0;
}

/* Why a volume whose reads are direct is read at gateways all the same; NULL: it is not, as far as can be told here. */
static const char *
reads_hindrance(const struct cleave_volume_entry *volume, const struct reads_nodes *nodes)
{
	const struct cleave_limits *limits = &volume->info.limits;

	if (volume->key_id != 0)
		return "it is encrypted";
	if (limits->iops != 0 || limits->bytes_s != 0 || limits->read_iops != 0 ||
	    limits->read_bytes_s != 0 || limits->write_iops != 0 || limits->write_bytes_s != 0)
		return "it has limits";
	if (nodes->count == 0)
		return "no node takes clients (cleave-storage --direct)";
	if (nodes->count == nodes->keyless_count)
		return "no node's tickets can be made: the logs of nodes say why";
	return NULL;
}

int
command_reads_text(struct command_session *session, const struct cleave_volume_entry *volume,
    char *ret_text, size_t bytes)
{
	struct reads_nodes nodes;
	const char *why;
	int rc;

	(void)snprintf(ret_text, bytes, "%s", volume->reads);
	if (strcmp(volume->reads, "direct") != 0)
		return 0;
	rc = reads_ask_nodes(session, volume->info.id, &nodes);
	if (rc != 0)
		return rc;
	why = reads_hindrance(volume, &nodes);
	if (why != NULL)
		(void)snprintf(ret_text, bytes, "direct, but at gateways now: %s", why);
	else
		(void)snprintf(ret_text, bytes, "direct, at nodes %s", nodes.ids);
	return 0;
}

int
command_set_reads(struct command_session *session)
{
	const struct command_options *options = session->options;
	char text[COMMAND_READS_TEXT_BYTES] = "";
	struct command_question question;
	int rc;

	assert(options->name != NULL && options->reads != NULL);
	command_question_init(&question, session);
	rc = command_wait(&question,
	    cleave_volume_set_reads(session->client, &question.ask, options->name, options->reads,
		options->is_forced ? CLEAVE_MANAGE_FORCE : 0, command_on_volume, &question));
	if (rc == 0)
		rc = command_reads_text(session, question.entries, text, sizeof(text));
	if (rc == 0 && strncmp(text, "direct, but", strlen("direct, but")) == 0)
		fprintf(stderr, "cleave: volume '%s': %s\n", options->name, text);
	return command_say(&question, rc, "set");
}
