/* SPDX-License-Identifier: Apache-2.0 */
/* command_volume.c -- cleave volume create, list, show, delete */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/num.h"
#include "command.h"
#include "table.h"

#define LIST_PAGES_MAX 100000u

json_t *
command_create_request(const struct command_options *options)
{
	json_t *request = json_pack("{s:s, s:s, s:I}", "op", "volume.create", "name", options->name,
	    "size_bytes", (json_int_t)options->size_bytes);
	int rc = 0;

	if (request == NULL)
		return NULL;
	if (options->service_class != 0)
		rc |= json_object_set_new(request, "service_class",
		    json_string(command_service_classes[options->service_class]));
	if (options->engine != 0)
		rc |= json_object_set_new(request, "engine",
		    json_string(command_engines[options->engine]));
	if (options->level_text != NULL)
		rc |= json_object_set_new(request, "level", json_integer(options->level));
	if (options->replicas != 0)
		rc |= json_object_set_new(request, "replicas",
		    json_integer((json_int_t)options->replicas));
	if (rc == 0)
		return request;
	json_decref(request);
	return NULL;
}

/* Whom its key names; of one that died without a word no gateway may have heard for a while. */
static const char *
command_holder(const json_t *volume)
{
	const json_t *holder = json_object_get(volume, "holder");

	return holder == NULL ? "-" : command_text(holder, "client");
}

static void
print_holder(struct table *table, const json_t *holder)
{
	time_t since = (time_t)command_u64(holder, "since_s");
	char when[32];
	struct tm tm;

	table_add(table, "writer");
	if (holder == NULL) {
		table_add(table, "-");
		return;
	}
	if (gmtime_r(&since, &tm) == NULL ||
	    strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
		when[0] = '\0';
	table_add(table, "%s at %s, since %s", command_text(holder, "client"),
	    command_text(holder, "address"), when);
}

int
command_print_volume(const json_t *reply, FILE *out)
{
	static const struct table_column columns[] = { { NULL, false }, { NULL, false } };
	static const char *const counts[] = { "id", "segment_base", "segment_count", "attach" };
	const json_t *volume = json_object_get(reply, "volume");
	struct table *table = table_create(columns, NUM_COUNT(columns));
	char size[TABLE_NUMBER_BYTES];
	int rc;

	table_add(table, "name");
	table_add(table, "%s", command_text(volume, "name"));
	table_add(table, "size");
	table_add(table, "%s (%" PRIu64 " bytes)",
	    table_format_size(command_u64(volume, "size_bytes"), size),
	    command_u64(volume, "size_bytes"));
	table_add(table, "service class");
	table_add(table, "%s", command_text(volume, "service_class"));
	table_add(table, "engine");
	table_add(table, "%s, level %" JSON_INTEGER_FORMAT, command_text(volume, "engine"),
	    json_integer_value(json_object_get(volume, "level")));
	table_add(table, "replicas");
	table_add(table, "%" PRIu64, command_u64(volume, "replicas"));
	for (size_t i = 0; i < NUM_COUNT(counts); i++) {
		table_add(table, "%s", counts[i]);
		table_add(table, "%" PRIu64, command_u64(volume, counts[i]));
	}
	print_holder(table, json_object_get(volume, "holder"));
	if (json_object_get(reply, "usage") != NULL)
		command_print_usage(table, json_object_get(reply, "usage"),
		    command_u64(volume, "size_bytes"));
	rc = table_print(table, 0, out);
	table_destroy(table);
	return rc;
}

int
command_print_volumes(const json_t *reply, FILE *out)
{
	static const struct table_column columns[] = {
		{ "NAME", false },
		{ "SIZE", true },
		{ "CLASS", false },
		{ "ENGINE", false },
		{ "LEVEL", true },
		{ "REPLICAS", true },
		{ "ID", true },
		{ "WRITER", false },
	};
	struct table *table = table_create(columns, NUM_COUNT(columns));
	char size[TABLE_NUMBER_BYTES];
	const json_t *volume;
	size_t i;
	int rc;

	json_array_foreach(json_object_get(reply, "volumes"), i, volume)
	{
		table_add(table, "%s", command_text(volume, "name"));
		table_add(table, "%s", table_format_size(command_u64(volume, "size_bytes"), size));
		table_add(table, "%s", command_text(volume, "service_class"));
		table_add(table, "%s", command_text(volume, "engine"));
		table_add(table, "%" JSON_INTEGER_FORMAT,
		    json_integer_value(json_object_get(volume, "level")));
		table_add(table, "%" PRIu64, command_u64(volume, "replicas"));
		table_add(table, "%" PRIu64, command_u64(volume, "id"));
		table_add(table, "%s", command_holder(volume));
	}
	rc = table_print(table, 0, out);
	table_destroy(table);
	return rc;
}

/* Print, and @reply's end. */
static int
print_reply(struct command_session *session, json_t *reply)
{
	int rc = session->options->is_json ? command_print_json(reply, session->out)
					   : command_print_volume(reply, session->out);

	json_decref(reply);
	return rc;
}

int
command_volume_create(struct command_session *session)
{
	json_t *reply = NULL;
	int rc = command_ask(session, command_create_request(session->options), true, &reply);

	return rc != 0 ? rc : print_reply(session, reply);
}

int
command_volume_show(struct command_session *session)
{
	json_t *reply = NULL, *usage = NULL;
	int rc = command_ask(session,
	    json_pack("{s:s, s:s}", "op", "volume.show", "name", session->options->name), false,
	    &reply);

	if (rc == 0)
		rc = command_usage(session, &usage);
	if (rc == 0 && json_object_set_new(reply, "usage", usage) != 0)
		rc = -ENOMEM;
	if (rc == 0)
		return print_reply(session, reply);
	json_decref(reply);
	return rc;
}

int
command_volume_delete(struct command_session *session)
{
	json_t *request = json_pack("{s:s, s:s, s:b, s:b}", "op", "volume.delete", "name",
	    session->options->name, "force", session->options->is_forced, "snapshots",
	    session->options->has_snapshots);
	json_t *reply = NULL;
	int rc = command_ask(session, request, true, &reply);

	if (rc != 0)
		return rc;
	if (session->options->is_json)
		rc = command_print_json(reply, session->out);
	else
		fprintf(session->out, "volume '%s': deleted\n", session->options->name);
	json_decref(reply);
	return rc;
}

/* Adds the page behind *@ret_after to @volumes; *@ret_after: "" when it was the last one. */
static int
list_page(struct command_session *session, json_t *volumes, char ret_after[CLEAVE_ERROR_BYTES_MAX])
{
	json_t *request = json_pack("{s:s, s:s}", "op", "volume.list", "after", ret_after);
	json_t *reply = NULL, *page, *last;
	int rc = command_ask(session, request, false, &reply);

	if (rc != 0)
		return rc;
	page = json_object_get(reply, "volumes");
	if (!json_is_array(page)) {
		rc = command_fail(session, -EPROTO, "the gateway's reply names no volumes");
		goto out;
	}
	last = json_array_get(page, json_array_size(page) - 1);
	if (json_is_true(json_object_get(reply, "more")) && last != NULL) {
		/* Names rise: one that does not would keep us here forever. */
		if (strcmp(command_text(last, "name"), ret_after) <= 0)
			rc = command_fail(session, -EPROTO, "the gateway repeats its volumes");
		(void)snprintf(ret_after, CLEAVE_ERROR_BYTES_MAX, "%s", command_text(last, "name"));
	} else {
		ret_after[0] = '\0';
	}
	if (rc == 0 && json_array_extend(volumes, page) != 0)
		rc = -ENOMEM;
out:
	json_decref(reply);
	return rc;
}

int
command_volume_list(struct command_session *session)
{
	char after[CLEAVE_ERROR_BYTES_MAX] = "";
	json_t *volumes = json_array(), *reply;
	int rc = volumes == NULL ? -ENOMEM : 0;

	for (uint32_t i = 0; i < LIST_PAGES_MAX && rc == 0; i++) {
		rc = list_page(session, volumes, after);
		if (after[0] == '\0')
			break;
	}
	reply = json_pack("{s:o, s:b}", "volumes", volumes, "more", after[0] != '\0');
	if (rc == 0 && reply == NULL)
		rc = -ENOMEM;
	if (rc == 0)
		rc = session->options->is_json ? command_print_json(reply, session->out)
					       : command_print_volumes(reply, session->out);
	json_decref(reply);
	return rc;
}
