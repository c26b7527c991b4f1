/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_restore.c -- cleave restore FILE [FILE ...] NAME
 *
 *	files --chain--> frames --writes--> NAME.restore-ID --all is written, every end was right--> NAME
 *
 * ID is a number of these files. The volume NAME.restore-ID begins empty, and nothing but the content of these files is
 * ever written to it. So a restore that was killed is run again, and goes on: a frame none of whose blocks is a hole has been written.
 * Nobody finds half a volume under its name.
 *
 * With --force NAME itself is written over, from its beginning to its end, behind a snapshot of it (command_before.h),
 * after all files have been read once to see that they are right. Killed, it is run again, and begins anew: what is
 * there may be of before.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backup/backup_chain.h"
#include "base/check.h"
#include "base/num.h"
#include "command.h"
#include "command_ask.h"
#include "command_before.h"
#include "command_disk.h"
#include "command_file.h"
#include "command_frames.h"
#include "command_unfinished.h"

#define RESTORE_EXTENTS 1024u

struct restore {
	struct command_session *session;
	struct backup_source *sources;
	struct backup_chain *chain;
	char target[CLEAVE_VOLUME_NAME_BYTES_MAX + 1]; /* what is written to */
	uint64_t target_id;
	bool is_over;                      /* NAME itself: what is there is written over */
	bool is_new;                       /* the target has been made by this run: it is empty */
	bool is_begun;                     /* something was written to it */
	char before[COMMAND_BEFORE_BYTES]; /* the snapshot of what was there; "": there is none */
	struct command_disk disk;
	struct command_frames frames;
	struct cleave_extent extents[RESTORE_EXTENTS];
	uint8_t *read; /* BACKUP_DATA_BYTES_MAX: --verify */
};

/* ---- the volume that is written to ---- */

static int
target_create(struct restore *restore)
{
	struct command_session *session = restore->session;
	const struct backup_header *header = backup_chain_header(restore->chain);
	struct command_options options = *session->options;
	struct cleave_volume_options volume;

	if (options.size_bytes != 0 && options.size_bytes < header->size_bytes)
		return command_fail(session, -EINVAL,
		    "the volume had %" PRIu64
		    " bytes, which is more than --size: leave that out, or "
		    "make it larger",
		    header->size_bytes);
	if (options.size_bytes == 0)
		options.size_bytes = header->size_bytes;
	command_create_options(&options, &volume);
	volume.name = restore->target;
	/* Options that were not given are those that the volume had. */
	if (volume.service_class == CLEAVE_SERVICE_STANDARD &&
	    header->service_class <= CLEAVE_SERVICE_CAPACITY)
		volume.service_class = (enum cleave_service_class)header->service_class;
	if (volume.engine == NULL && header->engine[0] != '\0') {
		volume.engine = header->engine;
		volume.has_level = volume.has_level || header->level != 0;
		volume.level = options.level_text != NULL ? options.level : header->level;
	}
	if (volume.replicas == 0)
		volume.replicas = header->replicas;
	return command_make_volume(session, &volume, &restore->target_id);
}

/* NAME is there, and --force says that it is written over. */
static int
target_take(struct restore *restore, uint64_t size_bytes)
{
	const struct command_options *options = restore->session->options;
	uint64_t wanted_bytes = backup_chain_header(restore->chain)->size_bytes;

	restore->is_over = true;
	(void)snprintf(restore->target, sizeof(restore->target), "%.63s", options->name);
	if (size_bytes != wanted_bytes)
		return command_fail(restore->session, -EINVAL,
		    "volume '%.64s' has %" PRIu64 " bytes, the backup %" PRIu64
		    ": resize it first (cleave volume resize)",
		    options->name, size_bytes, wanted_bytes);
	return command_check_given(restore->session, options->name,
	    "restore under another name, which makes a volume");
}

static int
target_find(struct restore *restore)
{
	struct command_session *session = restore->session;
	const struct command_options *options = session->options;
	uint64_t size_bytes;
	int rc = command_volume_size(session, options->name, &size_bytes, &restore->target_id);

	if (rc == 0 && !options->is_forced)
		return command_fail(session, -EEXIST,
		    "volume '%.64s' exists; --force writes over it", options->name);
	if (rc == 0)
		return target_take(restore, size_bytes);
	if (rc != -ENOENT)
		return rc;
	command_restore_name(options->name, backup_chain_id(restore->chain), restore->target);
	rc = command_volume_size(session, restore->target, &size_bytes, &restore->target_id);
	if (rc == 0)
		/* A restore of these files was begun. */
		return command_check_given(session, restore->target,
		    "delete it (cleave volume delete), and the restore begins anew");
	if (rc != -ENOENT)
		return rc;
	restore->is_new = true;
	return target_create(restore);
}

/* ---- frames ---- */

static int
fail_io(struct restore *restore, int rc)
{
	return command_fail(restore->session, rc, "volume '%.64s': %s", restore->target,
	    cleave_error_text(rc));
}

/*
 * A range of @bytes from @offset_bytes on: 1, some of it has a flag of @flags_any, or, where @is_absent, lacks them all; 0:
 * none has.
 */
static int
range_has(struct restore *restore, const struct backup_range *range, uint32_t flags, bool is_absent)
{
	uint64_t at = range->offset_bytes, end = at + range->length_bytes;

	while (at < end) {
		struct cleave_io io = { .op = CLEAVE_BLOCK_STATUS,
			.offset_bytes = at,
			.length_bytes = end - at,
			.extents = restore->extents,
			.extent_max = RESTORE_EXTENTS };
		int rc = command_disk_run(&restore->disk, &io);

		if (rc != 0)
			return fail_io(restore, rc);
		for (uint32_t i = 0; i < io.extent_count; i++) {
			if (((restore->extents[i].flags & flags) == 0) == is_absent)
				return 1;
			at += restore->extents[i].length_bytes;
		}
	}
	return 0;
}

/* An earlier run has written it: 1. One question for the whole frame, most often. */
static int
frame_is_there(struct restore *restore, const struct backup_frame *frame)
{
	for (uint32_t i = 0; i < frame->range_count; i++) {
		int rc;

		if (frame->ranges[i].data == NULL)
			continue;
		rc = range_has(restore, &frame->ranges[i], CLEAVE_EXTENT_HOLE, false);
		if (rc != 0)
			return rc < 0 ? rc : 0;
	}
	return 1;
}

static int
reap_oldest(struct restore *restore)
{
	struct command_frame *slot = command_frames_wait(&restore->frames);
	int rc = slot->rc;

	if (rc != 0)
		return fail_io(restore, rc);
	command_progress(restore->session, slot->frame.to_bytes,
	    backup_chain_header(restore->chain)->size_bytes);
	command_frames_release(&restore->frames);
	return 0;
}

/* The chain's next frame is under way, or was there: 1; 0: there is none. */
static int
write_next(struct restore *restore, struct command_frame *slot)
{
	int rc = backup_chain_next(restore->chain, &slot->frame, slot->data), is_there = 0;

	if (rc < 0)
		return command_fail(restore->session, rc, "%s", backup_chain_error(restore->chain));
	if (rc == 1 && !restore->is_new && !restore->is_over)
		is_there = frame_is_there(restore, &slot->frame);
	if (is_there < 0)
		return is_there;
	/* A volume that began empty has its zeros. */
	if (rc == 1 && is_there == 0) {
		restore->is_begun = true;
		command_frames_submit(&restore->frames, CLEAVE_WRITE, restore->is_over,
		    CLEAVE_DISCARD);
	}
	return rc;
}

static int
write_frames(struct restore *restore)
{
	int rc = 0, more = 1;

	while (rc == 0 && (more == 1 || restore->frames.count > 0)) {
		struct command_frame *slot = more == 1 ? command_frames_room(&restore->frames)
						       : NULL;

		if (slot == NULL) {
			rc = reap_oldest(restore);
			continue;
		}
		more = write_next(restore, slot);
		if (more < 0)
			rc = more;
	}
	return rc;
}

/* ---- reading the files more than once ---- */

static int
chain_open(struct restore *restore)
{
	char error[2 * BACKUP_ERROR_BYTES];
	int rc = backup_chain_create(restore->sources, restore->session->options->file_count,
	    &restore->chain, error);

	return rc == 0 ? 0 : command_fail(restore->session, rc, "%s", error);
}

static int
chain_reopen(struct restore *restore)
{
	backup_chain_destroy(restore->chain);
	restore->chain = NULL;
	for (uint32_t i = 0; i < restore->session->options->file_count; i++) {
		if (lseek(restore->sources[i].fd, 0, SEEK_SET) < 0)
			return command_fail(restore->session, -errno,
			    "%.200s: it is read twice for this, which a pipe cannot be",
			    restore->sources[i].name);
	}
	return chain_open(restore);
}

/* --force: nothing is written before all of it is known to be right. */
static int
check_all(struct restore *restore)
{
	int rc = 1;

	while (rc == 1) {
		struct command_frame *slot = command_frames_room(&restore->frames);

		rc = backup_chain_next(restore->chain, &slot->frame, slot->data);
	}
	if (rc < 0)
		return command_fail(restore->session, rc, "%s", backup_chain_error(restore->chain));
	return chain_reopen(restore);
}

/* ---- --verify ---- */

static int
differs(struct restore *restore, uint64_t offset_bytes)
{
	return command_fail(restore->session, -EIO,
	    "volume '%.64s' is not what was written to it, at byte %" PRIu64, restore->target,
	    offset_bytes);
}

static int
verify_data(struct restore *restore, const struct backup_range *range)
{
	struct cleave_io io = { .op = CLEAVE_READ,
		.offset_bytes = range->offset_bytes,
		.length_bytes = range->length_bytes,
		.data = restore->read };
	int rc = command_disk_run(&restore->disk, &io);

	assert(range->length_bytes <= BACKUP_DATA_BYTES_MAX);
	if (rc != 0)
		return fail_io(restore, rc);
	if (memcmp(restore->read, range->data, range->length_bytes) != 0)
		return differs(restore, range->offset_bytes);
	return 0;
}

static int
verify_frames(struct restore *restore)
{
	int rc = chain_reopen(restore), more = 1;

	while (rc == 0 && more == 1) {
		struct command_frame *slot = command_frames_room(&restore->frames);

		more = backup_chain_next(restore->chain, &slot->frame, slot->data);
		if (more < 0)
			return command_fail(restore->session, more, "%s",
			    backup_chain_error(restore->chain));
		for (uint32_t i = 0; more == 1 && i < slot->frame.range_count && rc == 0; i++) {
			const struct backup_range *range = &slot->frame.ranges[i];

			if (range->data != NULL) {
				rc = verify_data(restore, range);
				continue;
			}
			rc = range_has(restore, range, CLEAVE_EXTENT_ZERO | CLEAVE_EXTENT_HOLE,
			    true);
			if (rc == 1)
				rc = differs(restore, range->offset_bytes);
		}
	}
	return rc;
}

/* ---- all of it ---- */

static int
write_target(struct restore *restore)
{
	struct command_session *session = restore->session;
	const struct cleave_open_options how = { .name = restore->target,
		.flags = session->options->must_take ? CLEAVE_OPEN_TAKE : 0,
		.id = restore->target_id };
	int rc = command_disk_open_as(&restore->disk, session, &how);

	if (rc != 0)
		return rc;
	rc = command_frames_init(&restore->frames, session, restore->disk.volume);
	if (rc == 0 && restore->is_over)
		rc = check_all(restore);
	if (rc == 0 && restore->is_over)
		rc = command_before_keep(&restore->disk, restore->target, "restore",
		    restore->before);
	if (rc == 0)
		rc = write_frames(restore);
	if (rc == 0 && session->options->must_verify)
		rc = verify_frames(restore);
	command_frames_fini(&restore->frames);
	command_disk_close(&restore->disk);
	return rc;
}

static int
restore_say(struct restore *restore)
{
	const struct backup_header *header = backup_chain_header(restore->chain);
	struct command_session *session = restore->session;
	json_t *reply;
	int rc;

	if (!session->options->is_json) {
		fprintf(session->out, "%s: restored, as %s@%s was\n", session->options->name,
		    header->volume, header->snapshot);
		command_before_tell(session, restore->before);
		return 0;
	}
	reply = json_pack("{s:s, s:s, s:s, s:I}", "name", session->options->name, "volume",
	    header->volume, "snapshot", header->snapshot, "size_bytes",
	    (json_int_t)header->size_bytes);
	if (reply != NULL && restore->before[0] != '\0')
		json_object_set_new(reply, "kept", json_string(restore->before));
	rc = reply == NULL ? -ENOMEM : command_print_json(reply, session->out);
	json_decref(reply);
	return rc;
}

/* A failed one leaves what it made: run again it goes on. The text says so. */
static int
keep_target(struct restore *restore, int rc)
{
	char error[sizeof(restore->session->error)];

	memcpy(error, restore->session->error, sizeof(error));
	return command_fail(restore->session, rc,
	    "%.400s; what has been restored is in volume '%s': run it again to go on, or delete that",
	    error, restore->target);
}

/* A volume that was there is whole, old or new, only if nothing was written or all was. */
static int
tell_target(struct restore *restore, int rc)
{
	char error[sizeof(restore->session->error)];

	assert(rc < 0 && restore->is_over);
	memcpy(error, restore->session->error, sizeof(error));
	if (!restore->is_begun)
		return command_fail(restore->session, rc, "%.400s; volume '%s' is as it was", error,
		    restore->target);
	return command_before_fail(restore->session, rc, restore->target, restore->before);
}

static int
restore_run(struct restore *restore)
{
	int rc = chain_open(restore);

	if (rc == 0)
		rc = target_find(restore);
	if (rc != 0)
		return rc;
	rc = write_target(restore);
	if (rc == 0 && !restore->is_over)
		rc = command_finish_name(restore->session, restore->target);
	if (rc != 0)
		return restore->is_over ? tell_target(restore, rc) : keep_target(restore, rc);
	return restore_say(restore);
}

int
command_restore(struct command_session *session)
{
	struct restore *restore = calloc(1, sizeof(*restore));
	int rc = restore == NULL ? -ENOMEM : 0;

	assert(session->options->name != NULL && session->options->file_count > 0);
	if (restore != NULL) {
		restore->session = session;
		restore->read = malloc(BACKUP_DATA_BYTES_MAX);
		rc = restore->read == NULL ? -ENOMEM : 0;
	}
	if (rc == 0)
		rc = command_open_sources(session, &restore->sources);
	else
		(void)command_fail(session, rc, "out of memory");
	if (rc == 0)
		rc = restore_run(restore);
	if (restore != NULL) {
		backup_chain_destroy(restore->chain);
		command_close_sources(session, restore->sources);
		free(restore->read);
		free(restore);
	}
	return rc;
}
