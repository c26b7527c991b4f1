/* SPDX-License-Identifier: Apache-2.0 */
/* command_chain.c -- cleave backup verify, merge: files alone; no gateway is asked */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backup/backup_chain.h"
#include "base/check.h"
#include "command.h"
#include "command_file.h"
#include "table.h"

/* ---- verify ---- */

struct verify {
	struct command_session *session;
	struct backup_header previous; /* of the file before */
	bool has_previous;
	json_t *files; /* --json: the list */
};

/* All of a file, and that it follows the one before: 0, or a text. */
static int
verify_read(struct verify *verify, int fd, struct backup_reader **ret_reader, char *ret_error)
{
	struct backup_reader *reader;
	int rc = backup_reader_create(fd, &reader, ret_error);

	if (rc != 0)
		return rc;
	*ret_reader = reader;
	if (verify->has_previous && !backup_is_full(&reader->header))
		rc = backup_chain_follows(&verify->previous, &reader->header, ret_error);
	if (rc != 0)
		return rc;
	do {
		rc = backup_reader_next(reader);
	} while (rc == 1);
	if (rc != 0)
		(void)snprintf(ret_error, BACKUP_ERROR_BYTES, "%s", reader->error);
	verify->previous = reader->header;
	verify->has_previous = true;
	return rc;
}

static int
verify_say(struct verify *verify, const char *name, const struct backup_reader *reader)
{
	const struct backup_header *header = &reader->header;
	bool is_full = backup_is_full(header);
	char data[TABLE_NUMBER_BYTES], size[TABLE_NUMBER_BYTES], when[TABLE_NUMBER_BYTES];
	json_t *entry;

	if (verify->files == NULL) {
		fprintf(verify->session->out, "%s: whole: %s@%s%s%s, taken %s, %s of data of %s\n",
		    name, header->volume, header->snapshot, is_full ? "" : " since ",
		    header->parent_snapshot, table_format_date(header->point.taken_s, when),
		    table_format_size(reader->data_bytes, data),
		    table_format_size(header->size_bytes, size));
		return 0;
	}
	entry = json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I}", "file", name, "volume",
	    header->volume, "snapshot", header->snapshot, "from", header->parent_snapshot,
	    "taken_s", (json_int_t)header->point.taken_s, "size_bytes",
	    (json_int_t)header->size_bytes, "data_bytes", (json_int_t)reader->data_bytes, "frames",
	    (json_int_t)reader->frame_count);
	return json_array_append_new(verify->files, entry) == 0 ? 0 : -ENOMEM;
}

/* Every file is looked at; the first that is wrong is the error, others are told as they are found. */
static int
verify_all(struct verify *verify, const struct backup_source *sources, uint32_t count)
{
	struct command_session *session = verify->session;
	int first_rc = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct backup_reader *reader = NULL;
		char error[BACKUP_ERROR_BYTES];
		int rc = verify_read(verify, sources[i].fd, &reader, error);

		if (rc == 0) {
			rc = verify_say(verify, sources[i].name, reader);
			(void)snprintf(error, sizeof(error), "%s", strerror(ENOMEM));
		}
		if (rc != 0 && first_rc == 0)
			first_rc = command_fail(session, rc, "%.200s: %s", sources[i].name, error);
		else if (rc != 0)
			fprintf(stderr, "cleave: %s: %s\n", sources[i].name, error);
		backup_reader_destroy(reader);
	}
	return first_rc;
}

int
command_backup_verify(struct command_session *session)
{
	struct verify verify = { .session = session };
	struct backup_source *sources;
	int rc = command_open_sources(session, &sources);

	if (rc != 0)
		return rc;
	if (session->options->is_json)
		verify.files = json_array();
	rc = verify_all(&verify, sources, session->options->file_count);
	if (rc == 0 && verify.files != NULL) {
		json_t *reply = json_pack("{s:O}", "files", verify.files);

		rc = reply == NULL ? -ENOMEM : command_print_json(reply, session->out);
		json_decref(reply);
	}
	json_decref(verify.files);
	command_close_sources(session, sources);
	return rc;
}

/* ---- merge ---- */

static int
merge_frames(struct command_session *session, struct backup_chain *chain, struct command_file *file)
{
	uint64_t size_bytes = backup_chain_header(chain)->size_bytes;
	uint8_t *data = malloc(BACKUP_DATA_BYTES_MAX);
	struct backup_frame *frame = malloc(sizeof(*frame));
	int rc = data == NULL || frame == NULL ? command_fail(session, -ENOMEM, "out of memory")
					       : 1;

	while (rc == 1) {
		rc = backup_chain_next(chain, frame, data);
		if (rc < 0)
			(void)command_fail(session, rc, "%s", backup_chain_error(chain));
		if (rc != 1)
			break;
		rc = command_file_frame(file, frame);
		command_progress(session, frame->to_bytes, size_bytes);
		rc = rc == 0 ? 1 : rc;
	}
	free(data);
	free(frame);
	return rc;
}

/*
 * --force: OUT may be there. One that goes on from these files is the next of their chain, and its changes are in no other
 * file: whoever left OUT out has named that. What cannot be read is nobody's next.
 */
static int
merge_check_out(struct command_session *session, const struct backup_header *newest)
{
	const char *path = session->options->file;
	int fd = strcmp(path, "-") == 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct backup_reader *reader = NULL;
	char error[BACKUP_ERROR_BYTES];
	int rc = 0;

	if (fd < 0)
		return 0;
	if (backup_reader_create(fd, &reader, error) == 0 &&
	    backup_point_is_same(&reader->header.parent, &newest->point))
		rc = command_fail(session, -EEXIST,
		    "%.200s goes on from these files, as %.63s@%.63s: what has changed by then is in it alone. Name "
		    "the file that is to be made behind it",
		    path, reader->header.volume, reader->header.snapshot);
	backup_reader_destroy(reader);
	(void)close(fd);
	return rc;
}

static int
merge_into(struct command_session *session, struct backup_chain *chain)
{
	struct backup_header header = *backup_chain_header(chain);
	struct command_file file;
	int rc;

	rc = merge_check_out(session, &header);
	if (rc != 0)
		return rc;
	header.parent = (struct backup_point){ 0 };
	header.parent_snapshot[0] = '\0';
	command_new_id(header.id);
	header.created_s = command_now_s();
	rc = command_file_begin(&file, session, session->options->file);
	/* Merging is fast: it begins anew. */
	if (rc == 0)
		rc = command_file_start(&file, &header, false);
	if (rc == 0)
		rc = merge_frames(session, chain, &file);
	if (rc != 0) {
		command_file_abandon(&file);
		return rc;
	}
	rc = command_file_finish(&file);
	if (rc == 0 && file.part[0] != '\0' && !session->options->is_json)
		fprintf(session->out, "%s: %s@%s, of %" PRIu32 " files\n", file.path, header.volume,
		    header.snapshot, session->options->file_count);
	return rc;
}

int
command_backup_merge(struct command_session *session)
{
	char error[2 * BACKUP_ERROR_BYTES];
	struct backup_chain *chain;
	struct backup_source *sources;
	int rc = command_open_sources(session, &sources);

	if (rc != 0)
		return rc;
	rc = backup_chain_create(sources, session->options->file_count, &chain, error);
	if (rc != 0) {
		(void)command_fail(session, rc, "%s", error);
	} else {
		rc = merge_into(session, chain);
		backup_chain_destroy(chain);
	}
	command_close_sources(session, sources);
	return rc;
}
