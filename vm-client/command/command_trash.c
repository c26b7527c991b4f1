/* SPDX-License-Identifier: Apache-2.0 */
/* command_trash.c -- cleave trash list, restore, purge */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "base/num.h"
#include "command.h"
#include "command_ask.h"
#include "table.h"

/* List. */

static void
cell_deleted(struct table *table, const void *entry)
{
	const struct cleave_trash_entry *volume = entry;
	char when[TABLE_NUMBER_BYTES];

	table_add(table, "%s", table_format_date(volume->deleted_s, when));
}

static void
cell_by(struct table *table, const void *entry)
{
	const struct cleave_trash_entry *volume = entry;

	table_add(table, "%s", volume->by[0] == '\0' ? "-" : volume->by);
}

static void
cell_purged(struct table *table, const void *entry)
{
	const struct cleave_trash_entry *volume = entry;
	char time[TABLE_NUMBER_BYTES];

	if (volume->left_s == 0)
		table_add(table, "now");
	else
		table_add(table, "in %s", table_format_time(NUM_S(volume->left_s), time));
}

int
command_print_trash(const struct cleave_trash_entry *volumes, uint32_t count, FILE *out)
{
	static const struct table_field fields[] = {
		TABLE_FIELD("NAME", TABLE_TEXT, struct cleave_trash_entry, name),
		TABLE_FIELD("ID", TABLE_U64, struct cleave_trash_entry, id),
		TABLE_FIELD("SIZE", TABLE_BYTES, struct cleave_trash_entry, size_bytes),
		TABLE_FIELD("SNAPSHOTS", TABLE_U32, struct cleave_trash_entry, snapshot_count),
		TABLE_FIELD_OF("DELETED", false, cell_deleted),
		TABLE_FIELD_OF("BY", false, cell_by),
		TABLE_FIELD_OF("PURGED", false, cell_purged),
	};

	assert(out != NULL);
	assert(volumes != NULL || count == 0);
	return table_print_list(fields, NUM_COUNT(fields), volumes, count, sizeof(*volumes), out);
}

static int
list_start(struct command_question *question)
{
	const struct cleave_trash_entry *volumes = question->entries;

	assert(question->session->client != NULL);
	return cleave_trash_list(question->session->client, &question->ask,
	    question->count == 0 ? 0 : volumes[question->count - 1].id, command_on_trash, question);
}

int
command_ask_trash(struct command_question *question)
{
	return command_wait_pages(question, "volumes", list_start);
}

int
command_trash_list(struct command_session *session)
{
	struct command_question question;
	int rc;

	assert(session->client != NULL && session->out != NULL);
	command_question_init(&question, session);
	rc = command_ask_trash(&question);
	if (rc == 0)
		rc = session->options->is_json
		    ? command_print_json(question.reply, session->out)
		    : command_print_trash(question.entries, question.count, session->out);
	command_question_fini(&question);
	return rc;
}

/* By an id, and no name: cleave/trash.h has no call for it. */

static int
ask_by_id(struct command_session *session, const char *op, const char *id, json_t **ret_reply)
{
	const char *new_name = session->options->new_name;
	json_t *request = json_pack("{s:s, s:s, s:b}", "op", op, "name", id, "by_id", 1);

	if (request != NULL && new_name != NULL)
		json_object_set_new(request, "new", json_string(new_name));
	return command_ask(session, request, true, ret_reply);
}

/* Restore. */

static int
restore_by_id(struct command_session *session)
{
	json_t *reply = NULL;
	int rc = ask_by_id(session, "trash.restore", session->options->name, &reply);

	if (rc == 0 && session->options->is_json)
		rc = command_print_json(reply, session->out);
	else if (rc == 0)
		fprintf(session->out, "%s: restored\n",
		    command_text(json_object_get(reply, "volume"), "name"));
	json_decref(reply);
	return rc;
}

int
command_trash_restore(struct command_session *session)
{
	const struct command_options *options = session->options;
	const struct cleave_volume_entry *volume;
	struct command_question question;
	int rc;

	assert(options->name != NULL);
	if (options->is_id)
		return restore_by_id(session);
	command_question_init(&question, session);
	rc = command_wait(&question,
	    cleave_trash_restore(session->client, &question.ask, options->name, options->new_name,
		command_on_volume, &question));
	volume = question.entries;
	if (rc == 0 && options->is_json)
		rc = command_print_json(question.reply, session->out);
	else if (rc == 0)
		fprintf(session->out, "%s: restored\n", volume->info.name);
	command_question_fini(&question);
	return rc;
}

/* Purge. */

static int
purge_by_id(struct command_session *session)
{
	json_t *reply = NULL;
	int rc = ask_by_id(session, "trash.purge", session->options->name, &reply);

	if (rc == 0 && session->options->is_json)
		rc = command_print_json(reply, session->out);
	else if (rc == 0)
		fprintf(session->out, "%s: purged\n", session->options->name);
	json_decref(reply);
	return rc;
}

static int
purge_one(struct command_session *session, const struct cleave_trash_entry *volume)
{
	struct command_question question;
	char id[TABLE_NUMBER_BYTES];
	json_t *reply = NULL;
	int rc;

	(void)snprintf(id, sizeof(id), "%" PRIu64, volume->id);
	rc = ask_by_id(session, "trash.purge", id, &reply);
	json_decref(reply);
	/* A gateway of an older release knows no by_id, and takes a number for an id first. */
	if (rc == -EINVAL) {
		command_question_init(&question, session);
		rc = command_wait(&question,
		    cleave_trash_purge(session->client, &question.ask, id, command_on_done,
			&question));
		command_question_fini(&question);
	}
	if (rc == -ENOENT) /* its time was over, or somebody else was first */
		return 0;
	if (rc == 0 && !session->options->is_json)
		fprintf(session->out, "%s, id %s: purged\n", volume->name, id);
	return rc;
}

/* As many as can be; what keeps one from it, the last one, is the error. */
static int
purge_all(struct command_session *session)
{
	const struct cleave_trash_entry *volumes;
	struct command_question question;
	int rc, failed_rc = 0;

	command_question_init(&question, session);
	rc = command_ask_trash(&question);
	volumes = question.entries;
	for (uint32_t i = 0; rc == 0 && i < question.count; i++) {
		int one_rc = purge_one(session, &volumes[i]);

		if (one_rc != 0)
			failed_rc = one_rc;
	}
	if (rc == 0)
		rc = failed_rc;
	if (rc == 0 && session->options->is_json)
		rc = command_print_json(question.reply, session->out);
	else if (rc == 0 && question.count == 0)
		fprintf(session->out, "the trash is empty\n");
	command_question_fini(&question);
	return rc;
}

int
command_trash_purge(struct command_session *session)
{
	const struct command_options *options = session->options;
	struct command_question question;

	if (options->is_all != (options->name == NULL))
		return command_fail(session, -EINVAL,
		    "say which volume of the trash, by its name or id, or --all");
	if (options->is_all)
		return purge_all(session);
	if (options->is_id)
		return purge_by_id(session);
	command_question_init(&question, session);
	return command_say(&question,
	    command_wait(&question,
		cleave_trash_purge(session->client, &question.ask, options->name, command_on_done,
		    &question)),
	    "purged");
}
