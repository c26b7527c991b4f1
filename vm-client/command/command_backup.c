/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_backup.c -- cleave backup VOLUME@SNAPSHOT [--from OLD] FILE|-
 *
 *	VOLUME@NEW, or VOLUME@OLD@NEW and VOLUME@NEW --block status--> frames --reads of VOLUME@NEW--> zstd, CRCs
 *	--> FILE.part --> FILE
 *
 * VOLUME@OLD@NEW says what has changed, and nothing else: what is zeros VOLUME@NEW says.
 * A frame depends on the snapshots alone, so a backup that was cut off goes on behind its last whole frame.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/wire.h"
#include "command.h"
#include "command_ask.h"
#include "command_disk.h"
#include "command_file.h"
#include "command_frames.h"
#include "command_plan.h"
#include "table.h"

struct backup {
	struct command_session *session;
	char volume[CLEAVE_NAME_BYTES_MAX + 1], snapshot[CLEAVE_NAME_BYTES_MAX + 1];
	char from[CLEAVE_NAME_BYTES_MAX + 1]; /* a snapshot's name; "": all is told */
	struct backup_header header;
	struct command_file file;
	struct command_disk data, changes; /* changes is open if from is not "" */
	struct command_frames frames;
	struct command_plan plan;
};

/* ---- names, and what they stand for ---- */

static int
parse_names(struct backup *backup)
{
	const struct command_options *options = backup->session->options;
	const char *at = strchr(options->name, '@'), *from = options->from;
	size_t bytes = at == NULL ? 0 : (size_t)(at - options->name);

	if (at == NULL || strchr(at + 1, '@') != NULL ||
	    strlen(options->name) >= CLEAVE_NAME_BYTES_MAX)
		return command_fail(backup->session, -EINVAL,
		    "'%.64s' is no snapshot: VOLUME@SNAPSHOT is wanted, which does not change "
		    "meanwhile (--snapshot takes it first)",
		    options->name);
	(void)snprintf(backup->volume, sizeof(backup->volume), "%.*s", (int)bytes, options->name);
	(void)snprintf(backup->snapshot, sizeof(backup->snapshot), "%s", at + 1);
	if (from == NULL)
		return 0;
	if (strncmp(from, options->name, bytes + 1) == 0)
		from += bytes + 1;
	if (strchr(from, '@') != NULL)
		return command_fail(backup->session, -EINVAL,
		    "'%.64s' is no snapshot of volume '%.64s'", options->from, backup->volume);
	(void)snprintf(backup->from, sizeof(backup->from), "%s", from);
	return 0;
}

static const struct cleave_snapshot *
find_snapshot(const struct cleave_snapshot *snapshots, uint32_t count, const char *name)
{
	for (uint32_t i = 0; i < count; i++) {
		const char *at = strchr(snapshots[i].name, '@');

		if (at != NULL && strcmp(at + 1, name) == 0)
			return &snapshots[i];
	}
	return NULL;
}

static int
fail_parent(struct backup *backup)
{
	return command_fail(backup->session, -ENOENT,
	    "volume '%.64s' has no snapshot '%.64s' any more, so nobody knows what changed since: "
	    "make a full backup, without --from",
	    backup->volume, backup->from);
}

static int
fail_order(struct backup *backup)
{
	return command_fail(backup->session, -EINVAL, "snapshot '%.64s' is not older than '%.64s'",
	    backup->from, backup->snapshot);
}

/*
 * --snapshot: one that is there already is another moment's, but where it is a backup that goes on. None is taken for a
 * backup that would be refused afterwards.
 */
static int
take_snapshot(struct backup *backup, bool is_there, bool has_parent)
{
	struct command_question question;
	int rc;

	if (is_there && backup->file.found_bytes > 0)
		return 0;
	if (is_there)
		return command_fail(backup->session, -EEXIST,
		    "there is a snapshot '%.64s' already; leave --snapshot out to back that up, or take "
		    "another name",
		    backup->session->options->name);
	if (strcmp(backup->from, backup->snapshot) == 0)
		return fail_order(backup);
	if (!has_parent)
		return fail_parent(backup);
	rc = command_file_check_none(&backup->file);
	if (rc != 0)
		return rc;
	command_question_init(&question, backup->session);
	rc = command_wait(&question,
	    cleave_snapshot_create(backup->session->client, &question.ask,
		backup->session->options->name, command_on_snapshot, &question));
	command_question_fini(&question);
	return rc;
}

static void
fill_points(struct backup *backup, const struct cleave_snapshot *new,
    const struct cleave_snapshot *old)
{
	struct backup_header *header = &backup->header;
	uint64_t cluster_id = header->point.cluster_id;

	header->point.volume_id = new->volume_id;
	header->point.number = new->number;
	header->point.taken_s = new->created_s;
	header->size_bytes = new->size_bytes;
	(void)snprintf(header->volume, sizeof(header->volume), "%.63s", backup->volume);
	(void)snprintf(header->snapshot, sizeof(header->snapshot), "%.63s", backup->snapshot);
	if (old == NULL)
		return;
	header->parent = (struct backup_point){ .cluster_id = cluster_id,
		.volume_id = old->volume_id,
		.number = old->number,
		.taken_s = old->created_s };
	(void)snprintf(header->parent_snapshot, sizeof(header->parent_snapshot), "%.63s",
	    backup->from);
}

static int
ask_snapshots(struct backup *backup)
{
	struct command_session *session = backup->session;
	const struct cleave_snapshot *new, *old;
	struct cleave_snapshot *snapshots;
	uint32_t count;
	int rc = command_snapshots_of(session, backup->volume, &snapshots, &count);

	if (rc != 0)
		return rc;
	new = find_snapshot(snapshots, count, backup->snapshot);
	if (session->options->must_snapshot) {
		old = find_snapshot(snapshots, count, backup->from);
		rc = take_snapshot(backup, new != NULL, backup->from[0] == '\0' || old != NULL);
		free(snapshots);
		if (rc != 0)
			return rc;
		rc = command_snapshots_of(session, backup->volume, &snapshots, &count);
		if (rc != 0)
			return rc;
		new = find_snapshot(snapshots, count, backup->snapshot);
	}
	old = backup->from[0] == '\0' ? NULL : find_snapshot(snapshots, count, backup->from);
	if (new == NULL)
		rc = command_fail(session, -ENOENT,
		    "volume '%.64s' has no snapshot '%.64s'; --snapshot takes it first",
		    backup->volume, backup->snapshot);
	else if (backup->from[0] != '\0' && old == NULL)
		rc = fail_parent(backup);
	else if (old != NULL && old->number >= new->number)
		rc = fail_order(backup);
	else
		fill_points(backup, new, old);
	free(snapshots);
	return rc;
}

/* The cluster, and the volume's own options, which a restored one gets. */
static int
ask_header(struct backup *backup)
{
	struct command_session *session = backup->session;
	const struct cleave_gateway_status *status;
	const struct cleave_volume_entry *volume;
	struct backup_header *header = &backup->header;
	struct command_question question;
	int rc;

	command_new_id(header->id);
	header->created_s = command_now_s();
	command_question_init(&question, session);
	rc = command_wait(&question,
	    cleave_gateway_status(session->client, &question.ask, command_on_status, &question));
	status = question.entries;
	if (rc == 0)
		header->point.cluster_id = status->cluster_id;
	command_question_fini(&question);
	if (rc != 0)
		return rc;
	command_question_init(&question, session);
	rc = command_wait(&question,
	    cleave_volume_show(session->client, &question.ask, backup->volume, command_on_volume,
		&question));
	volume = question.entries;
	if (rc == 0) {
		header->service_class = (uint32_t)volume->info.service_class;
		header->replicas = volume->info.replicas;
		header->level = volume->info.level;
		(void)snprintf(header->engine, sizeof(header->engine), "%.15s",
		    volume->info.engine);
	}
	command_question_fini(&question);
	return rc == 0 ? ask_snapshots(backup) : rc;
}

/* ---- all of it ---- */

static int
write_oldest(struct backup *backup)
{
	struct command_frame *slot = command_frames_wait(&backup->frames);
	int rc = slot->rc;

	if (rc != 0)
		return command_fail(backup->session, rc, "'%.64s': %s",
		    backup->session->options->name, cleave_error_text(rc));
	rc = command_file_frame(&backup->file, &slot->frame);
	if (rc == 0 && slot->frame.to_bytes < backup->plan.size_bytes)
		command_progress(backup->session, slot->frame.to_bytes, backup->plan.size_bytes);
	command_frames_release(&backup->frames);
	return rc;
}

static int
copy_frames(struct backup *backup)
{
	int rc = 0, more = 1;

	while (rc == 0 && (more == 1 || backup->frames.count > 0)) {
		struct command_frame *slot = more == 1 ? command_frames_room(&backup->frames)
						       : NULL;

		if (slot == NULL) {
			rc = write_oldest(backup);
			continue;
		}
		more = command_plan_frame(&backup->plan, slot);
		if (more < 0)
			rc = command_fail(backup->session, more, "'%.64s': %s",
			    backup->session->options->name, cleave_error_text(more));
		else if (more == 1)
			command_frames_submit(&backup->frames, CLEAVE_READ, false, CLEAVE_READ);
	}
	return rc;
}

/*
 * Both disks were opened by names, which may stand for others by now than when the head was made: a file that says what it is
 * not would be restored, or be taken for the base of another.
 */
static int
check_disks(const struct backup *backup)
{
	const struct cleave_volume_info *data = cleave_volume_info(backup->data.volume);
	const struct cleave_volume_info *changes = data;
	const struct backup_header *header = &backup->header;
	uint64_t id = header->point.number | WIRE_SNAPSHOT_ID;
	bool is_full = backup->from[0] == '\0', is_new, is_old;

	if (!is_full)
		changes = cleave_volume_info(backup->changes.volume);
	is_new = data->id == id && changes->id == id;
	/* The attach number of a difference is that of its older snapshot, and 1. */
	is_old = is_full || changes->attach == header->parent.number + 1;
	return is_new && is_old
	    ? 0
	    : command_fail(backup->session, -ENOENT,
		  "snapshot '%.63s@%.63s' is another one by now: it was deleted, or renamed, and made anew: "
		  "run it again",
		  backup->volume, is_new ? backup->from : backup->snapshot);
}

static int
open_disks(struct backup *backup)
{
	bool is_full = backup->from[0] == '\0', has_changes = false;
	char name[CLEAVE_NAME_BYTES_MAX + 1];
	int rc = command_disk_open(&backup->data, backup->session, backup->session->options->name,
	    CLEAVE_OPEN_READ_ONLY);

	if (rc != 0)
		return rc;
	if (!is_full &&
	    snprintf(name, sizeof(name), "%s@%s@%s", backup->volume, backup->from,
		backup->snapshot) >= (int)sizeof(name))
		rc = command_fail(backup->session, -EINVAL, "the names are too long");
	if (rc == 0 && !is_full) {
		rc = command_disk_open(&backup->changes, backup->session, name,
		    CLEAVE_OPEN_READ_ONLY);
		has_changes = rc == 0;
	}
	if (rc == 0)
		rc = check_disks(backup);
	if (rc != 0 && has_changes)
		command_disk_close(&backup->changes);
	if (rc != 0)
		command_disk_close(&backup->data);
	return rc;
}

/* The writer stands where the frames have to go on. */
static int
copy_volume(struct backup *backup)
{
	bool is_full = backup->from[0] == '\0';
	int rc = open_disks(backup);

	if (rc != 0)
		return rc;
	command_plan_init(&backup->plan, &backup->data, is_full ? NULL : &backup->changes,
	    backup->header.size_bytes, backup->file.writer->at_bytes);
	rc = command_frames_init(&backup->frames, backup->session, backup->data.volume);
	if (rc == 0)
		rc = copy_frames(backup);
	command_frames_fini(&backup->frames);
	command_plan_fini(&backup->plan);
	if (!is_full)
		command_disk_close(&backup->changes);
	command_disk_close(&backup->data);
	if (rc == 0)
		command_progress(backup->session, backup->plan.size_bytes, backup->plan.size_bytes);
	return rc;
}

static int
say_done(const struct backup *backup, uint64_t file_bytes, uint64_t data_bytes,
    uint64_t found_bytes)
{
	FILE *out = backup->session->out;
	char size[TABLE_NUMBER_BYTES], data[TABLE_NUMBER_BYTES];
	json_t *reply;
	int rc;

	if (backup->file.part[0] == '\0')
		return 0; /* the stream has the place */
	if (!backup->session->options->is_json) {
		fprintf(out, "%s: %s%s%s, %s of data in %s%s\n", backup->file.path,
		    backup->session->options->name, backup->from[0] == '\0' ? "" : " since ",
		    backup->from, table_format_size(data_bytes, data),
		    table_format_size(file_bytes, size), found_bytes > 0 ? ", gone on with" : "");
		return 0;
	}
	reply = json_pack("{s:s, s:s, s:I, s:I, s:I}", "file", backup->file.path, "snapshot",
	    backup->session->options->name, "data_bytes", (json_int_t)data_bytes, "file_bytes",
	    (json_int_t)file_bytes, "resumed_bytes", (json_int_t)found_bytes);
	rc = reply == NULL ? -ENOMEM : command_print_json(reply, out);
	json_decref(reply);
	return rc;
}

static int
backup_into_file(struct backup *backup)
{
	uint64_t found_bytes = 0, data_bytes = 0, file_bytes;
	int rc = ask_header(backup);

	if (rc == 0)
		rc = command_file_start(&backup->file, &backup->header, true);
	if (rc < 0) {
		command_file_abandon(&backup->file);
		return rc;
	}
	file_bytes = backup->file.found_bytes; /* of one that is whole */
	if (rc == 0) {
		if (backup->file.found_bytes > 0 && backup->file.writer->frame_count > 0)
			found_bytes = backup->file.writer->file_bytes;
		rc = copy_volume(backup);
		data_bytes = backup->file.writer->data_bytes;
		file_bytes = backup->file.writer->file_bytes + BACKUP_FRAME_HEADER_BYTES;
		if (rc != 0) {
			command_file_abandon(&backup->file);
			return rc;
		}
	}
	rc = command_file_finish(&backup->file);
	return rc == 0 ? say_done(backup, file_bytes, data_bytes, found_bytes) : rc;
}

int
command_backup(struct command_session *session)
{
	struct backup *backup = calloc(1, sizeof(*backup));
	int rc;

	assert(session->options->name != NULL && session->options->file != NULL);
	if (backup == NULL)
		return command_fail(session, -ENOMEM, "out of memory");
	backup->session = session;
	rc = parse_names(backup);
	if (rc == 0) {
		rc = command_file_begin(&backup->file, session, session->options->file);
		if (rc == 0)
			rc = backup_into_file(backup);
		else
			command_file_abandon(&backup->file);
	}
	free(backup);
	return rc;
}
