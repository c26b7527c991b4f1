/* SPDX-License-Identifier: Apache-2.0 */
/* command_snapshot.c -- cleave snapshot create, list, delete, protect, rename, rollback; cleave clone */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "command.h"
#include "command_ask.h"
#include "table.h"

/* "a@s: taken", a line each. */
static int
say_group(struct command_question *question, int rc)
{
	const struct cleave_snapshot *snapshots = question->entries;
	struct command_session *session = question->session;

	if (rc == 0 && session->options->is_json)
		rc = command_print_json(question->reply, session->out);
	else
		for (uint32_t i = 0; rc == 0 && i < question->count; i++)
			fprintf(session->out, "%s: taken\n", snapshots[i].name);
	command_question_fini(question);
	return rc;
}

static int
create_group(struct command_session *session)
{
	const struct command_options *options = session->options;
	const char *names[CLEAVE_GROUP_VOLUMES_MAX] = { options->name };
	uint32_t count = 1 + options->file_count;
	struct command_question question;
	int rc;

	if (count > CLEAVE_GROUP_VOLUMES_MAX) {
		session->exit_status = COMMAND_EXIT_USAGE;
		return command_fail(session, -EINVAL, "at most %u volumes at a time, not %u",
		    CLEAVE_GROUP_VOLUMES_MAX, count);
	}
	for (uint32_t i = 1; i < count; i++)
		names[i] = options->files[i - 1];
	command_question_init(&question, session);
	rc = cleave_snapshot_create_group(session->client, &question.ask, names, count,
	    command_on_snapshots, &question);
	if (rc == -EINVAL) {
		command_question_fini(&question);
		return command_fail(session, rc,
		    "'%.128s' and those behind it: one is no name of a snapshot: VOLUME@SNAPSHOT",
		    names[0]);
	}
	return say_group(&question, command_wait(&question, rc));
}

int
command_snapshot_create(struct command_session *session)
{
	struct command_question question;

	assert(session->client != NULL);
	assert(session->options->name != NULL);
	if (session->options->file_count > 0)
		return create_group(session);
	command_question_init(&question, session);
	return command_say(&question,
	    command_wait(&question,
		cleave_snapshot_create(session->client, &question.ask, session->options->name,
		    command_on_snapshot, &question)),
	    "taken");
}

int
command_snapshot_delete(struct command_session *session)
{
	struct command_question question;

	assert(session->client != NULL);
	assert(session->options->name != NULL);
	command_question_init(&question, session);
	return command_say(&question,
	    command_wait(&question,
		cleave_snapshot_delete(session->client, &question.ask, session->options->name,
		    command_on_done, &question)),
	    "deleted");
}

static int
snapshot_protect(struct command_session *session, bool is_protected)
{
	struct command_question question;

	assert(session->options->name != NULL);
	command_question_init(&question, session);
	return command_say(&question,
	    command_wait(&question,
		cleave_snapshot_protect(session->client, &question.ask, session->options->name,
		    is_protected, command_on_done, &question)),
	    is_protected ? "protected" : "unprotected");
}

int
command_snapshot_protect(struct command_session *session)
{
	return snapshot_protect(session, true);
}

int
command_snapshot_unprotect(struct command_session *session)
{
	return snapshot_protect(session, false);
}

int
command_snapshot_rename(struct command_session *session)
{
	const struct command_options *options = session->options;
	struct command_question question;

	assert(options->name != NULL && options->new_name != NULL);
	command_question_init(&question, session);
	return command_say(&question,
	    command_wait(&question,
		cleave_snapshot_rename(session->client, &question.ask, options->name,
		    options->new_name, command_on_done, &question)),
	    "renamed");
}

int
command_snapshot_rollback(struct command_session *session)
{
	const struct command_options *options = session->options;
	unsigned flags = (options->is_forced ? CLEAVE_MANAGE_FORCE : 0u) |
	    (options->must_shrink ? CLEAVE_MANAGE_SHRINK : 0u);
	struct command_question question;

	assert(session->client != NULL);
	assert(options->name != NULL);
	command_question_init(&question, session);
	return command_say(&question,
	    command_wait(&question,
		cleave_snapshot_rollback(session->client, &question.ask, options->name, flags,
		    command_on_volume, &question)),
	    "rolled back");
}

int
command_clone(struct command_session *session)
{
	const struct command_options *options = session->options;
	struct command_question question;

	assert(options->name != NULL && options->new_name != NULL);
	if (options->is_encrypted || options->kek != NULL)
		return command_clone_encrypted(session);
	command_question_init(&question, session);
	return command_say(&question,
	    command_wait(&question,
		cleave_snapshot_clone(session->client, &question.ask, options->name,
		    options->new_name, command_on_volume, &question)),
	    "cloned");
}

/* List. */

/* A snapshot's volume has no name while it is being deleted. */
static void
cell_name(struct table *table, const void *entry)
{
	const struct cleave_snapshot *snapshot = entry;

	table_add(table, "%s%s", snapshot->name[0] == '@' ? "?" : "", snapshot->name);
}

static void
cell_taken(struct table *table, const void *entry)
{
	const struct cleave_snapshot *snapshot = entry;
	char when[TABLE_NUMBER_BYTES];

	table_add(table, "%s", table_format_date(snapshot->created_s, when));
}

static void
cell_protected(struct table *table, const void *entry)
{
	table_add(table, "%s", ((const struct cleave_snapshot *)entry)->is_protected ? "yes" : "-");
}

/* The same number stands beside all that were taken at one point in time. */
static void
cell_group(struct table *table, const void *entry)
{
	const struct cleave_snapshot *snapshot = entry;

	if (snapshot->group == 0)
		table_add(table, "-");
	else
		table_add(table, "%" PRIu64, snapshot->group);
}

int
command_print_snapshots(const struct cleave_snapshot *snapshots, uint32_t count, FILE *out)
{
	static const struct table_field fields[] = {
		TABLE_FIELD_OF("NAME", false, cell_name),
		TABLE_FIELD("SIZE", TABLE_BYTES, struct cleave_snapshot, size_bytes),
		TABLE_FIELD_OF("TAKEN", false, cell_taken),
		TABLE_FIELD("CLONES", TABLE_U32, struct cleave_snapshot, clone_count),
		TABLE_FIELD_OF("PROTECTED", false, cell_protected),
		TABLE_FIELD("NUMBER", TABLE_U64, struct cleave_snapshot, number),
		TABLE_FIELD_OF("GROUP", false, cell_group),
	};

	assert(out != NULL);
	assert(snapshots != NULL || count == 0);
	return table_print_list(fields, NUM_COUNT(fields), snapshots, count, sizeof(*snapshots),
	    out);
}

static int
list_start(struct command_question *question)
{
	const struct cleave_snapshot *snapshots = question->entries;

	assert(question->session->client != NULL);
	assert(question->entries != NULL || question->count == 0);
	return cleave_snapshot_list(question->session->client, &question->ask,
	    question->session->options->name,
	    question->count == 0 ? 0 : snapshots[question->count - 1].number, command_on_snapshots,
	    question);
}

int
command_ask_snapshots(struct command_question *question)
{
	return command_wait_pages(question, "snapshots", list_start);
}

int
command_snapshots_of(struct command_session *session, const char *volume,
    struct cleave_snapshot **ret_snapshots, uint32_t *ret_count)
{
	struct command_options options = *session->options;
	struct command_session asking = *session;
	struct command_question question;
	int rc;

	assert(session->client != NULL && volume != NULL);
	options.name = volume;
	asking.options = &options;
	command_question_init(&question, &asking);
	rc = command_ask_snapshots(&question);
	if (rc == 0) {
		*ret_snapshots = question.entries;
		*ret_count = question.count;
		question.entries = NULL;
		question.count = 0;
	} else {
		memcpy(session->error, asking.error, sizeof(session->error));
	}
	command_question_fini(&question);
	return rc;
}

int
command_snapshot_list(struct command_session *session)
{
	struct command_question question;
	int rc;

	assert(session->client != NULL && session->out != NULL);
	command_question_init(&question, session);
	rc = command_ask_snapshots(&question);
	if (rc == 0)
		rc = session->options->is_json
		    ? command_print_json(question.reply, session->out)
		    : command_print_snapshots(question.entries, question.count, session->out);
	command_question_fini(&question);
	return rc;
}
