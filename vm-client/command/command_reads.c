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

const char *const command_reads[] = { "gateway", "hot", "direct", NULL };

/* Past its gateways a volume can be read at these, as a gateway says. */
struct reads_told {
	uint32_t node_count,
	    keyless_count; /* nodes that take clients; of them, those that no gateway makes tickets for */
	char ids[128];     /* "1, 2, 3" of the others; what does not fit is cut */
	bool has_no_pages; /* sessions get none of its hot blocks */
};

/* 0, or a negative errno with the error set. */
static int
reads_ask(struct command_session *session, uint64_t volume_id, struct reads_told *ret_told)
{
	json_t *reply = NULL, *node, *pages;
	size_t i, used = 0;
	int rc = command_ask(session,
	    json_pack("{s:s, s:I}", "op", "volume.nodes", "id", (json_int_t)volume_id), false,
	    &reply);

	*ret_told = (struct reads_told){ .node_count = 0 };
	if (rc != 0)
		return rc;
	json_array_foreach(json_object_get(reply, "nodes"), i, node)
	{
		ret_told->node_count++;
		if (!json_is_true(json_object_get(node, "keyed")))
			ret_told->keyless_count++;
		else if (used < sizeof(ret_told->ids))
			used += (size_t)snprintf(ret_told->ids + used, sizeof(ret_told->ids) - used,
			    "%s%" PRIu64, used == 0 ? "" : ", ", command_u64(node, "id"));
	}
	pages = json_object_get(reply, "hot_pages");
	ret_told->has_no_pages = json_is_integer(pages) && json_integer_value(pages) == 0;
	json_decref(reply);
	return 0;
}

/* Why a volume is read at gateways, whatever its reads are; NULL: it is not, as far as can be told here. */
static const char *
reads_own_hindrance(const struct cleave_volume_entry *volume)
{
	const struct cleave_limits *limits = &volume->info.limits;

	if (volume->key_id != 0)
		return "it is encrypted";
	if (limits->iops != 0 || limits->bytes_s != 0 || limits->read_iops != 0 ||
	    limits->read_bytes_s != 0 || limits->write_iops != 0 || limits->write_bytes_s != 0)
		return "it has limits";
	return NULL;
}

/* The same of a volume whose reads are hot, or direct, by what a gateway says. */
static const char *
reads_hindrance(const struct cleave_volume_entry *volume, const struct reads_told *told)
{
	const char *own = reads_own_hindrance(volume);

	if (own != NULL)
		return own;
	if (strcmp(volume->reads, "hot") == 0)
		return told->has_no_pages
		    ? "connections have keys, or a port has less than 2 MiB of --hot-bytes"
		    : NULL;
	if (told->node_count == 0)
		return "no node takes clients (cleave-storage --direct)";
	if (told->node_count == told->keyless_count)
		return "no node's tickets can be made: the logs of nodes say why";
	return NULL;
}

int
command_reads_text(struct command_session *session, const struct cleave_volume_entry *volume,
    char *ret_text, size_t bytes)
{
	struct reads_told told;
	const char *why;
	int rc;

	(void)snprintf(ret_text, bytes, "%s", volume->reads);
	if (strcmp(volume->reads, "hot") != 0 && strcmp(volume->reads, "direct") != 0)
		return 0;
	rc = reads_ask(session, volume->info.id, &told);
	if (rc != 0)
		return rc;
	why = reads_hindrance(volume, &told);
	if (why != NULL)
		(void)snprintf(ret_text, bytes, "%s, but at gateways now: %s", volume->reads, why);
	else if (strcmp(volume->reads, "direct") == 0)
		(void)snprintf(ret_text, bytes, "direct, at nodes %s", told.ids);
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
	if (rc == 0 && strstr(text, ", but ") != NULL)
		fprintf(stderr, "cleave: volume '%s': %s\n", options->name, text);
	return command_say(&question, rc, "set");
}
