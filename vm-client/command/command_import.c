/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_import.c -- cleave import FILE NAME
 *
 *	FILE --qemu-img, agent--> NAME.importing-NUMBER --all is in it--> NAME
 *
 * Nobody finds half a volume under its name. An import that fails deletes the volume that it made, unless somebody else
 * has found that. One that was killed leaves it, under the name that says so; nothing goes on there, since qemu-img
 * begins anew.
 *
 * With --force NAME itself is written over, behind a snapshot of it (command_before.h). Killed, it is run again.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backup/backup_reader.h"
#include "base/check.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "command_ask.h"
#include "command_before.h"
#include "command_disk.h"
#include "command_image.h"
#include "command_unfinished.h"

#define IMAGE_INFO_BYTES_MAX (256u * 1024u)

struct import {
	struct command_session *session;
	char path[IMAGE_PATH_BYTES]; /* of the image, as qemu-img takes it */
	char *format;
	uint64_t image_bytes;
	char target[CLEAVE_VOLUME_NAME_BYTES_MAX + 1]; /* what is written to */
	uint64_t target_id;
	bool is_new;                       /* it was made by this run: it is empty */
	char before[COMMAND_BEFORE_BYTES]; /* the snapshot of what was there; "": there is none */
	uint64_t begun_ns;                 /* by the loop */
};

/* To qemu-img every file is a raw image, a backup, too: none is imported as one, unless --format says so. */
static int
image_is_no_backup(struct import *import)
{
	const struct command_options *options = import->session->options;
	int fd = options->format != NULL ? -1
					 : open(options->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct backup_reader *reader = NULL;
	char error[BACKUP_ERROR_BYTES];
	int rc = 0;

	if (fd < 0)
		return 0; /* qemu-img says what is wrong with the file */
	if (backup_reader_create(fd, &reader, error) == 0)
		rc = command_fail(import->session, -EINVAL,
		    "%.200s is a backup, of %.63s@%.63s, and no image: cleave restore makes a volume of it",
		    options->file, reader->header.volume, reader->header.snapshot);
	backup_reader_destroy(reader);
	(void)close(fd);
	return rc;
}

/* A file that @info, or what is in it, names beside the image itself; NULL: none. The text is @info's. */
static const char *
other_file(const json_t *info, const char *path)
{
	const char *key, *other = NULL;
	json_t *value;
	size_t i;

	if (json_is_array(info)) {
		json_array_foreach(info, i, value)
		{
			other = other != NULL ? other : other_file(value, path);
		}
		return other;
	}
	json_object_foreach((json_t *)(uintptr_t)info, key, value)
	{
		const char *text = json_string_value(value);

		if (text != NULL &&
		    (strcmp(key, "backing-filename") == 0 || strcmp(key, "data-file") == 0 ||
			(strcmp(key, "filename") == 0 && strcmp(text, path) != 0)))
			return text;
		if (json_is_object(value) || json_is_array(value))
			other = other != NULL ? other : other_file(value, path);
	}
	return other;
}

/*
 * Nobody has said what the image is, so its first bytes have: on a raw disk those are a guest's, who may name any file of
 * this host there, and would find it in the volume.
 */
static int
image_stands_alone(struct import *import, const json_t *info)
{
	const char *other = other_file(info, import->path);

	return other == NULL
	    ? 0
	    : command_fail(import->session, -EPERM,
		  "%.200s looks like an image that is made of another file, '%.200s', too: a guest "
		  "may have written that to a raw disk. --format raw imports it as it is, --format "
		  "%.16s what it names as well",
		  import->path, other, import->format);
}

/* The image's format and how large the disk in it is. */
static int
image_info(struct import *import)
{
	struct command_session *session = import->session;
	const struct command_options *options = session->options;
	const char *argv[] = { IMAGE_TOOL, "info", "--output=json", "-f", options->format,
		import->path, NULL };
	char *text = malloc(IMAGE_INFO_BYTES_MAX);
	json_t *info = NULL;
	const char *format;
	int rc;

	assert(import->format == NULL && import->path[0] != '\0');
	if (text == NULL)
		return command_fail(session, -ENOMEM, "out of memory");
	if (options->format == NULL) {
		argv[3] = import->path;
		argv[4] = NULL;
	}
	rc = command_image_run(session, argv, text, IMAGE_INFO_BYTES_MAX);
	if (rc == 0)
		info = json_loads(text, 0, NULL);
	free(text);
	if (rc != 0)
		return rc;
	format = json_string_value(json_object_get(info, "format"));
	import->image_bytes = command_u64(info, "virtual-size");
	import->format = format == NULL ? NULL : strdup(format);
	if (import->format == NULL || import->image_bytes == 0)
		rc = command_fail(session, -EINVAL, "%.200s: an image of nothing: it has no bytes",
		    import->path);
	else if (options->format == NULL)
		rc = image_stands_alone(import, info);
	json_decref(info);
	return rc;
}

/*
 * A volume that is there gets the image, and zeros behind that, as a new one has: qemu-img writes no further than the
 * image, and of its last block that part alone. What is open here for a moment is closed before the agent opens it.
 *
 * Somebody else writes the volume: the refusal says who, and how to insist. An agent would say so in its log, and
 * qemu-img that a write failed. One who has died is waited for, as by every writer.
 */
static int
import_clear_end(struct import *import)
{
	struct command_session *session = import->session;
	const struct command_options *options = session->options;
	const struct cleave_open_options how = { .name = options->name,
		.flags = options->must_take ? CLEAVE_OPEN_TAKE : 0,
		.id = import->target_id };
	struct command_disk disk;
	int rc = command_disk_open_as(&disk, session, &how);

	if (rc != 0)
		return rc;
	rc = command_before_keep(&disk, options->name, "import", import->before);
	if (rc == 0) {
		rc = command_disk_discard_from(&disk,
		    import->image_bytes - import->image_bytes % CLEAVE_BLOCK_BYTES);
		if (rc != 0) {
			(void)command_fail(session, rc,
			    "volume '%.64s': what is behind the image's end could not be discarded: %s",
			    options->name, cleave_error_text(rc));
			(void)command_before_fail(session, rc, options->name, import->before);
		}
	}
	command_disk_close(&disk);
	return rc;
}

/* There is no such volume: make what becomes it, as large as the image, or --size. */
static int
import_create(struct import *import)
{
	struct command_session *session = import->session;
	struct command_options options = *session->options;
	struct cleave_volume_options volume;
	char error[sizeof(session->error)];
	int rc;

	assert(import->image_bytes > 0);
	if (options.size_bytes == 0)
		options.size_bytes = num_round_up(import->image_bytes, CLEAVE_BLOCK_BYTES);
	if (options.size_bytes < import->image_bytes)
		return command_fail(session, -EINVAL,
		    "the image has %llu bytes, which is more than --size: leave that out, or "
		    "make it larger",
		    (unsigned long long)import->image_bytes);
	command_import_name(options.name, import->target);
	command_create_options(&options, &volume);
	volume.name = import->target;
	rc = command_make_volume(session, &volume, &import->target_id);
	import->is_new = rc == 0;
	if (rc == -ENOKEY) {
		memcpy(error, session->error, sizeof(error));
		rc = command_fail(session, rc,
		    "%.400s. An import goes there first: with a name so long, or a gateway of an "
		    "older release, it needs the letters rwa for both names, as '%.50s*:rwa' gives",
		    error, options.name);
	}
	return rc;
}

/* The volume that is written to: made, unless there is one of the name. */
static int
import_volume(struct import *import)
{
	struct command_session *session = import->session;
	const struct command_options *options = session->options;
	uint64_t size_bytes;
	int rc = command_volume_size(session, options->name, &size_bytes, &import->target_id);

	assert(import->image_bytes > 0);
	if (rc == -ENOENT)
		return import_create(import);
	if (rc != 0)
		return rc;
	if (!options->is_forced)
		return command_fail(session, -EEXIST,
		    "volume '%.64s' exists; --force writes over it", options->name);
	if (size_bytes < import->image_bytes)
		return command_fail(session, -ENOSPC,
		    "the image has %llu bytes, volume '%.64s' %llu: make that larger first "
		    "(cleave volume resize)",
		    (unsigned long long)import->image_bytes, options->name,
		    (unsigned long long)size_bytes);
	(void)snprintf(import->target, sizeof(import->target), "%.63s", options->name);
	rc = command_check_given(session, options->name,
	    "import under another name, which makes a volume");
	return rc != 0 ? rc : import_clear_end(import);
}

/*
 * The volume was made for an import that failed: session->error says why, and stays. It goes, if it has its name still,
 * and nobody uses it: then somebody else has found it, and the text says what to do.
 */
static void
import_undo(struct import *import)
{
	struct command_session *session = import->session;
	const char *name = import->target;
	uint64_t id = import->target_id;
	const struct cleave_delete_options how = { .name = name,
		.flags = CLEAVE_MANAGE_PURGE,
		.id = id };
	struct command_question question;
	char error[sizeof(session->error)], why[sizeof(session->error)];
	int rc;

	assert(session->error[0] != '\0' && id != 0);
	memcpy(error, session->error, sizeof(error));
	command_question_init(&question, session);
	rc = command_wait(&question,
	    cleave_volume_delete_as(session->client, &question.ask, &how, command_on_done,
		&question));
	command_question_fini(&question);
	memcpy(why, session->error, sizeof(why));
	memcpy(session->error, error, sizeof(error));
	if (rc == -ENOENT)
		(void)command_fail(session, rc,
		    "%.300s; what was made for it, id %" PRIu64
		    ", is not called '%.64s' any more: if it is there, delete it by the name that it has now",
		    error, id, name);
	else if (rc != 0)
		(void)command_fail(session, rc,
		    "%.300s; volume '%.64s', id %" PRIu64
		    ", %s still there, with a part of the image in it: %.200s. To remove it: cleave volume delete "
		    "%.64s --purge",
		    error, name, id, rc == -ENOTEMPTY ? "is" : "may be", why, name);
}

static int
import_copy(struct import *import)
{
	const char *argv[16];
	struct image_agent agent;
	int count = 0,
	    rc = command_image_start(import->session, import->target, import->target_id, true,
		&agent);

	assert(import->format != NULL);
	argv[count++] = IMAGE_TOOL;
	argv[count++] = "convert";
	argv[count++] = "-n";
	argv[count++] = "-W"; /* in any order: it is a disk */
	if (import->session->options->has_progress)
		argv[count++] = "-p";
	if (import->is_new)
		argv[count++] = "--target-is-zero";
	argv[count++] = "-f";
	argv[count++] = import->format;
	argv[count++] = "-O";
	argv[count++] = "raw";
	argv[count++] = import->path;
	argv[count++] = agent.uri;
	assert(count < (int)NUM_COUNT(argv));
	argv[count] = NULL;
	if (rc == 0)
		rc = command_image_run(import->session, argv, NULL, 0);
	command_image_stop(&agent);
	return rc;
}

/* All of the image is in the volume: one that was made gets its name. If it cannot, it stays: it is whole. */
static int
import_finish(struct import *import)
{
	struct command_session *session = import->session;
	char error[sizeof(session->error)];
	int rc = import->is_new ? command_finish_name(session, import->target) : 0;

	if (rc == 0)
		return 0;
	memcpy(error, session->error, sizeof(error));
	return command_fail(session, rc,
	    "%.400s; the whole image is in volume '%.64s', id %" PRIu64
	    ": give that its name (cleave volume rename), or delete it",
	    error, import->target, import->target_id);
}

static int
import_say(const struct import *import)
{
	return command_image_say(import->session,
	    &(struct image_done){ .is_import = true,
		.file = import->session->options->file,
		.format = import->format,
		.kept = import->before,
		.size_bytes = import->image_bytes,
		.begun_ns = import->begun_ns });
}

static int
import_run(struct import *import)
{
	int rc = image_is_no_backup(import);

	if (rc == 0)
		rc = image_info(import);
	if (rc == 0)
		rc = import_volume(import);
	if (rc != 0)
		return rc;
	rc = import_copy(import);
	if (rc == 0)
		command_before_tell(import->session, import->before);
	if (rc == 0) {
		rc = import_finish(import);
		return rc != 0 ? rc : import_say(import);
	}
	if (import->is_new)
		import_undo(import);
	else
		(void)command_before_fail(import->session, rc, import->target, import->before);
	return rc;
}

int
command_import(struct command_session *session)
{
	struct import import = { .session = session, .begun_ns = loop_now_ns(session->loop) };
	int rc;

	assert(session->options->file != NULL && session->options->name != NULL);
	command_image_watch_signals();
	command_image_path(session->options->file, import.path);
	rc = import_run(&import);
	free(import.format);
	return rc;
}
