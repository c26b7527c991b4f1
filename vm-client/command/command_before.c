/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_before.c -- see command_before.h
 *
 * A deleted volume is in the trash for a while. One that import or restore writes over by mistake, under a wrong name, say,
 * would be gone at once. It is written over where it is, since its snapshots, clones, limits and keys are its own, and
 * whoever has it open for reading goes on: so a snapshot has what was there, whole, whatever becomes of the command.
 */
#include "command_before.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "command_ask.h"
#include "command_file.h"

#define BEFORE_EXTENTS 1024u

/* 1: the volume holds nothing; 0: it does. */
static int
disk_is_empty(struct command_disk *disk)
{
	static struct cleave_extent extents[BEFORE_EXTENTS];
	uint64_t end = cleave_volume_info(disk->volume)->size_bytes, at = 0;

	while (at < end) {
		struct cleave_io io = { .op = CLEAVE_BLOCK_STATUS,
			.offset_bytes = at,
			.length_bytes = end - at,
			.extents = extents,
			.extent_max = BEFORE_EXTENTS };
		int rc = command_disk_run(disk, &io);

		if (rc != 0)
			return rc;
		for (uint32_t i = 0; i < io.extent_count; i++) {
			if ((extents[i].flags & CLEAVE_EXTENT_HOLE) == 0)
				return 0;
			at += extents[i].length_bytes;
		}
	}
	return 1;
}

/*
 * The name may be another volume's by now: its snapshot would keep nothing of what is written over. A gateway of an older
 * release is told no id, and then it is looked at whose the snapshot is.
 */
static int
before_create(struct command_disk *disk, const char *snapshot)
{
	struct command_session *session = disk->session;
	uint64_t id = cleave_volume_info(disk->volume)->id;
	json_t *reply = NULL;
	int rc = command_ask(session,
	    json_pack("{s:s, s:s, s:I}", "op", "snapshot.create", "name", snapshot, "id",
		(json_int_t)id),
	    true, &reply);

	if (rc == -EINVAL) {
		session->error[0] = '\0';
		rc = command_ask(session,
		    json_pack("{s:s, s:s}", "op", "snapshot.create", "name", snapshot), true,
		    &reply);
	}
	if (rc == 0 && command_u64(json_object_get(reply, "snapshot"), "volume_id") != id)
		rc = command_fail(session, -ENOENT, "snapshot '%.200s' is of another volume",
		    snapshot);
	json_decref(reply);
	return rc;
}

int
command_before_keep(struct command_disk *disk, const char *name, const char *verb,
    char ret_name[COMMAND_BEFORE_BYTES])
{
	struct command_session *session = disk->session;
	char error[sizeof(session->error)];
	uint8_t id[BACKUP_ID_BYTES];
	uint32_t number;
	int rc;

	_Static_assert(sizeof(id) >= sizeof(number), "a number is a part of an id");
	assert(disk->volume != NULL);
	ret_name[0] = '\0';
	if (session->options->is_purge)
		return 0;
	rc = disk_is_empty(disk);
	if (rc < 0)
		return command_fail(session, rc, "volume '%.64s': %s", name, cleave_error_text(rc));
	if (rc == 1)
		return 0;
	command_new_id(id);
	memcpy(&number, id, sizeof(number));
	(void)snprintf(ret_name, COMMAND_BEFORE_BYTES, "%.63s@before-%.16s-%08" PRIx32, name, verb,
	    number);
	rc = before_create(disk, ret_name);
	if (rc == 0)
		return 0;
	ret_name[0] = '\0';
	memcpy(error, session->error, sizeof(error));
	return command_fail(session, rc,
	    "%.400s; nothing was written: a snapshot was to keep what is in volume '%.64s'. --purge "
	    "writes over that for good",
	    error, name);
}

void
command_before_tell(const struct command_session *session, const char *name)
{
	if (name[0] != '\0' && !session->options->is_json)
		fprintf(session->out,
		    "%s: what was there before: cleave snapshot rollback brings it back, cleave snapshot "
		    "delete lets it go\n",
		    name);
}

int
command_before_fail(struct command_session *session, int rc, const char *volume, const char *name)
{
	char error[sizeof(session->error)];

	assert(rc < 0);
	memcpy(error, session->error, sizeof(error));
	if (name[0] == '\0')
		return command_fail(session, rc,
		    "%.400s; volume '%.64s' may be in part as it was, in part as what is written to it: run it "
		    "again, with --force, until it ends well",
		    error, volume);
	return command_fail(session, rc,
	    "%.400s; volume '%.64s' may be in part as it was, in part as what is written to it: run it again, with "
	    "--force --purge, until it ends well, or bring back what was there: cleave snapshot rollback %s",
	    error, volume, name);
}
