/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_rotate.c -- cleave snapshot rotate: a snapshot by the clock, and those go that no rule keeps
 *
 * Names are all that is remembered: backup/backup_keep.h. A snapshot of another name is never deleted. Those of several
 * volumes are taken together, at one point in time; then each volume's are judged by themselves.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backup/backup_keep.h"
#include "base/check.h"
#include "command.h"
#include "command_ask.h"
#include "command_file.h"

struct rotate {
	struct command_session *session;
	const char *names[CLEAVE_GROUP_VOLUMES_MAX]; /* of the volumes */
	uint32_t volume_count;
	const char *volume;                 /* that is judged now */
	char taken[BACKUP_KEEP_NAME_BYTES]; /* this run's */
	struct cleave_snapshot *snapshots;  /* ours alone, by rising time */
	uint64_t *times_s;
	unsigned *reasons;
	uint32_t count;
	uint32_t failed_count; /* that could not be deleted */
	uint32_t future_count; /* whose time has not come */
	uint64_t now_s;
	json_t *kept, *deleted;
};

static const char *
name_of(const struct cleave_snapshot *snapshot)
{
	const char *at = strchr(snapshot->name, '@');

	return at == NULL ? "" : at + 1;
}

static int
by_time(const void *a, const void *b)
{
	/* Names of one length that begin with the year: their order is that of the times. */
	return strcmp(name_of(a), name_of(b));
}

/* Snapshots of all volumes, together. 0, or what command_wait says. */
static int
rotate_take_all(struct rotate *rotate)
{
	char texts[CLEAVE_GROUP_VOLUMES_MAX][CLEAVE_NAME_BYTES_MAX + 1];
	const char *names[CLEAVE_GROUP_VOLUMES_MAX];
	struct command_session *session = rotate->session;
	struct command_question question;
	int rc;

	for (uint32_t i = 0; i < rotate->volume_count; i++) {
		(void)snprintf(texts[i], sizeof(texts[i]), "%.63s@%s", rotate->names[i],
		    rotate->taken);
		names[i] = texts[i];
	}
	command_question_init(&question, session);
	/* A gateway of before knows of no group: a single one is asked for as ever. */
	rc = rotate->volume_count == 1
	    ? cleave_snapshot_create(session->client, &question.ask, names[0], command_on_snapshot,
		  &question)
	    : cleave_snapshot_create_group(session->client, &question.ask, names,
		  rotate->volume_count, command_on_snapshots, &question);
	rc = command_wait(&question, rc);
	command_question_fini(&question);
	for (uint32_t i = 0; i < rotate->volume_count && rc == 0 && !session->options->is_json; i++)
		fprintf(session->out, "%s: taken\n", names[i]);
	return rc;
}

/* Take one called after this minute; one that is there was taken by a run within it. */
static int
rotate_take(struct rotate *rotate)
{
	struct command_session *session = rotate->session;
	int rc;

	rotate->now_s = command_now_s();
	backup_keep_name(rotate->now_s, rotate->taken);
	if (session->options->is_dry_run)
		return 0;
	rc = rotate_take_all(rotate);
	if (rc != -EEXIST)
		return rc;
	session->error[0] = '\0';
	return 0;
}

/* --dry-run: the one that would be taken counts as the others do. */
static int
rotate_pretend(struct rotate *rotate, uint32_t *count)
{
	struct cleave_snapshot *more;

	for (uint32_t i = 0; i < *count; i++) {
		if (strcmp(name_of(&rotate->snapshots[i]), rotate->taken) == 0)
			return 0;
	}
	if (!rotate->session->options->is_dry_run)
		return 0;
	more = realloc(rotate->snapshots, (*count + 1) * sizeof(*more));
	if (more == NULL)
		return command_fail(rotate->session, -ENOMEM, "out of memory");
	rotate->snapshots = more;
	more[*count] = (struct cleave_snapshot){ 0 };
	(void)snprintf(more[*count].name, sizeof(more[*count].name), "%.63s@%s", rotate->volume,
	    rotate->taken);
	(*count)++;
	return 0;
}

/* A run for one of the volumes may have been within this minute, and none of the others was taken then. */
static int
rotate_check_taken(struct rotate *rotate, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (strcmp(name_of(&rotate->snapshots[i]), rotate->taken) == 0)
			return 0;
	}
	return command_fail(rotate->session, -EEXIST,
	    "%.63s@%s was not taken: of another of the volumes there is one already, and they are taken "
	    "together: run it again in a minute",
	    rotate->volume, rotate->taken);
}

static int
rotate_list(struct rotate *rotate)
{
	uint32_t count, ours = 0;
	int rc = command_snapshots_of(rotate->session, rotate->volume, &rotate->snapshots, &count);
	uint64_t time_s;

	if (rc != 0)
		return rc;
	for (uint32_t i = 0; i < count; i++) {
		if (backup_keep_time(name_of(&rotate->snapshots[i]), &time_s))
			rotate->snapshots[ours++] = rotate->snapshots[i];
	}
	rc = rotate_pretend(rotate, &ours);
	if (rc == 0)
		rc = rotate_check_taken(rotate, ours);
	if (rc != 0)
		return rc;
	rotate->count = ours;
	rotate->times_s = calloc(ours + 1, sizeof(*rotate->times_s));
	rotate->reasons = calloc(ours + 1, sizeof(*rotate->reasons));
	if (rotate->times_s == NULL || rotate->reasons == NULL)
		return command_fail(rotate->session, -ENOMEM, "out of memory");
	if (ours > 0)
		qsort(rotate->snapshots, ours, sizeof(*rotate->snapshots), by_time);
	for (uint32_t i = 0; i < ours; i++)
		(void)backup_keep_time(name_of(&rotate->snapshots[i]), &rotate->times_s[i]);
	return 0;
}

static bool
is_kept(const struct rotate *rotate, uint32_t index)
{
	const struct cleave_snapshot *snapshot = &rotate->snapshots[index];

	return rotate->reasons[index] != 0 || snapshot->clone_count > 0 || snapshot->is_protected ||
	    strcmp(name_of(snapshot), rotate->taken) == 0;
}

/* A snapshot that cannot be deleted now (a clone was just made of it) is told, and tried again by the next run. */
static void
rotate_delete(struct rotate *rotate, const struct cleave_snapshot *snapshot)
{
	struct command_session *session = rotate->session;
	struct command_question question;
	int rc = 0;

	if (!session->options->is_dry_run) {
		command_question_init(&question, session);
		rc = command_wait(&question,
		    cleave_snapshot_delete(session->client, &question.ask, snapshot->name,
			command_on_done, &question));
		command_question_fini(&question);
	}
	if (rc != 0 && rc != -ENOENT) { /* another run may have been faster */
		rotate->failed_count++;
		fprintf(stderr, "cleave: %s stays: %s\n", snapshot->name, session->error);
		return;
	}
	session->error[0] = '\0';
	if (!session->options->is_json)
		fprintf(session->out, "%s: %s\n", snapshot->name,
		    session->options->is_dry_run ? "would be deleted" : "deleted");
}

static int
rotate_apply(struct rotate *rotate)
{
	const struct command_options *options = rotate->session->options;
	const struct backup_keep keep = { .hourly = (uint32_t)options->hourly,
		.daily = (uint32_t)options->daily,
		.weekly = (uint32_t)options->weekly };
	int rc = 0;

	backup_keep_apply(&keep, rotate->now_s, rotate->times_s, rotate->count, rotate->reasons);
	for (uint32_t i = 0; i < rotate->count && rc == 0; i++) {
		const struct cleave_snapshot *snapshot = &rotate->snapshots[i];
		bool stays = is_kept(rotate, i);

		if (!stays)
			rotate_delete(rotate, snapshot);
		if (rotate->reasons[i] == BACKUP_KEEP_FUTURE) {
			rotate->future_count++;
			fprintf(stderr, "cleave: %s stays: its time has not come\n",
			    snapshot->name);
		}
		rc = json_array_append_new(stays ? rotate->kept : rotate->deleted,
			 json_string(snapshot->name)) == 0
		    ? 0
		    : -ENOMEM;
	}
	return rc;
}

static int
rotate_say(struct rotate *rotate)
{
	struct command_session *session = rotate->session;
	json_t *reply;
	int rc;

	if (rotate->failed_count > 0)
		return command_fail(session, -EBUSY,
		    "%u snapshots could not be deleted; the next run tries again",
		    rotate->failed_count);
	if (rotate->future_count > 0)
		return command_fail(session, -EBUSY,
		    "%u snapshots are of a time that has not come, and no rule judges them: is this host's "
		    "clock right? If it was ahead then, delete them (cleave snapshot delete)",
		    rotate->future_count);
	if (!session->options->is_json)
		return 0;
	reply = json_pack("{s:s, s:b, s:O, s:O}", "taken", rotate->taken, "dry_run",
	    session->options->is_dry_run, "kept", rotate->kept, "deleted", rotate->deleted);
	rc = reply == NULL ? -ENOMEM : command_print_json(reply, session->out);
	json_decref(reply);
	return rc;
}

static void
rotate_forget(struct rotate *rotate)
{
	free(rotate->snapshots);
	free(rotate->times_s);
	free(rotate->reasons);
	rotate->snapshots = NULL;
	rotate->times_s = NULL;
	rotate->reasons = NULL;
	rotate->count = 0;
}

static int
rotate_volume(struct rotate *rotate, const char *volume)
{
	int rc;

	rotate->volume = volume;
	rc = rotate_list(rotate);
	if (rc == 0)
		rc = rotate_apply(rotate);
	rotate_forget(rotate);
	return rc;
}

/* The rules are checked, and the names are not too many. */
static int
rotate_begin(struct rotate *rotate)
{
	const struct command_options *options = rotate->session->options;

	assert(options->name != NULL);
	rotate->session->exit_status = COMMAND_EXIT_USAGE;
	if (options->hourly == 0 && options->daily == 0 && options->weekly == 0)
		return command_fail(rotate->session, -EINVAL,
		    "no rule was given: --hourly, --daily or --weekly says how many are kept");
	if (options->file_count >= CLEAVE_GROUP_VOLUMES_MAX)
		return command_fail(rotate->session, -EINVAL,
		    "at most %u volumes at a time, not %u", CLEAVE_GROUP_VOLUMES_MAX,
		    options->file_count + 1);
	rotate->session->exit_status = 0;
	rotate->names[rotate->volume_count++] = options->name;
	for (uint32_t i = 0; i < options->file_count; i++)
		rotate->names[rotate->volume_count++] = options->files[i];
	rotate->kept = json_array();
	rotate->deleted = json_array();
	return rotate->kept == NULL || rotate->deleted == NULL ? -ENOMEM : 0;
}

int
command_snapshot_rotate(struct command_session *session)
{
	struct rotate rotate = { .session = session };
	int rc = rotate_begin(&rotate);

	if (rc == 0)
		rc = rotate_take(&rotate);
	for (uint32_t i = 0; i < rotate.volume_count && rc == 0; i++)
		rc = rotate_volume(&rotate, rotate.names[i]);
	if (rc == 0)
		rc = rotate_say(&rotate);
	json_decref(rotate.kept);
	json_decref(rotate.deleted);
	return rc;
}
