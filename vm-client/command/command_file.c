/* SPDX-License-Identifier: Apache-2.0 */
/* command_file.c -- see command_file.h */
#include "command_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "backup/backup_chain.h"
#include "base/check.h"
#include "table.h"

static int
file_fail(struct command_file *file, int rc)
{
	assert(rc < 0);
	if (file->part[0] == '\0')
		return command_fail(file->session, rc, "standard output: %s", strerror(-rc));
	return command_fail(file->session, rc, "%.200s: %s%s", file->part, strerror(-rc),
	    rc == -ENOSPC || rc == -EDQUOT || rc == -EFBIG
		? ": make room, and run it again: it goes on where it ended"
		: "");
}

static int
begin_pipe(struct command_file *file)
{
	if (isatty(STDOUT_FILENO))
		return command_fail(file->session, -EINVAL,
		    "standard output is a terminal: name a FILE, or lead it into a program");
	file->fd = STDOUT_FILENO;
	return 0;
}

/* FILE.part is the file that is open, and no other one of that name. */
static bool
part_is_open(const struct command_file *file)
{
	struct stat open_one, named;

	assert(file->fd >= 0 && file->part[0] != '\0');
	return fstat(file->fd, &open_one) == 0 && lstat(file->part, &named) == 0 &&
	    open_one.st_ino == named.st_ino && open_one.st_dev == named.st_dev;
}

static int
fail_late(struct command_file *file)
{
	return command_fail(file->session, -EBUSY, "%.200s: another cleave wrote it just now",
	    file->part);
}

/* Opened and locked. One who creates it may be second to lock it: then it is the other's. */
static int
part_open(struct command_file *file)
{
	const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW;
	struct stat status;
	bool is_new;

	file->fd = open(file->part, flags | O_CREAT | O_EXCL, 0666);
	is_new = file->fd >= 0;
	if (!is_new && errno == EEXIST) {
		file->fd = open(file->part, flags);
		if (file->fd < 0 && errno == ENOENT)
			return fail_late(file);
	}
	if (file->fd < 0 && errno == ELOOP)
		return command_fail(file->session, -EEXIST,
		    "%.200s is in the way: it is a symbolic link, which is not followed; remove it",
		    file->part);
	if (file->fd < 0)
		return file_fail(file, -errno);
	if (flock(file->fd, LOCK_EX | LOCK_NB) != 0)
		return command_fail(file->session, -EBUSY, "%.200s: another cleave writes it",
		    file->part);
	/* The one who had it may have given it its name meanwhile. */
	if (!part_is_open(file))
		return fail_late(file);
	if (fstat(file->fd, &status) != 0)
		return file_fail(file, -errno);
	file->is_ours = is_new;
	file->found_bytes = (uint64_t)status.st_size;
	return 0;
}

int
command_file_begin(struct command_file *file, struct command_session *session, const char *path)
{
	struct stat status;
	bool is_there;

	assert(path != NULL);
	*file = (struct command_file){ .session = session, .path = path, .fd = -1 };
	/* A disk's limit and a reader who has gone are errors of write, not signals. */
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGXFSZ, SIG_IGN);
	if (strcmp(path, "-") == 0)
		return begin_pipe(file);
	if (snprintf(file->part, sizeof(file->part), "%s.part", path) >= (int)sizeof(file->part))
		return command_fail(session, -ENAMETOOLONG, "%.200s: the name is too long", path);
	is_there = lstat(path, &status) == 0;
	if (is_there && !S_ISREG(status.st_mode))
		return command_fail(session, -EEXIST, "%.200s is no regular file", path);
	if (is_there && !session->options->is_forced)
		return command_fail(session, -EEXIST, "%.200s exists; --force replaces it", path);
	return part_open(file);
}

/* ---- what was there ---- */

static bool
is_same_backup(const struct backup_header *a, const struct backup_header *b)
{
	return backup_point_is_same(&a->point, &b->point) &&
	    backup_point_is_same(&a->parent, &b->parent) && a->size_bytes == b->size_bytes;
}

/* FILE.part is shorter than a head: is it the beginning of one, of a backup that ended there? */
static bool
part_may_be_head(const struct command_file *file)
{
	char begin[sizeof(BACKUP_MAGIC)];
	ssize_t n = pread(file->fd, begin, sizeof(BACKUP_MAGIC) - 1, 0);

	return n >= 0 && memcmp(begin, BACKUP_MAGIC, (size_t)n) == 0;
}

/* The part is another backup's, or none that can be read. */
static int
refuse_part(struct command_file *file, const char *why)
{
	return command_fail(file->session, -EEXIST,
	    "%.200s is in the way: %s; remove it, or begin anew with --force", file->part, why);
}

/* 1: FILE.part is whole. 0: file->writer goes on, or is NULL: there is nothing to go on from. */
static int
file_resume(struct command_file *file, const struct backup_header *header, bool may_resume)
{
	struct backup_reader *reader = NULL;
	char text[BACKUP_ERROR_BYTES], why[BACKUP_ERROR_BYTES];
	bool is_forced = file->session->options->is_forced;
	int rc = backup_reader_create(file->fd, &reader, text);

	if (rc == -ENODATA && !part_may_be_head(file)) {
		rc = -EBADMSG;
		(void)snprintf(text, sizeof(text), "it is no backup");
	}
	if (rc == -ENODATA || (rc == -EBADMSG && is_forced))
		return 0;
	if (rc == -EBADMSG)
		return refuse_part(file, text);
	if (rc != 0)
		return command_fail(file->session, rc, "%.200s: %s", file->part, text);
	if (!is_same_backup(&reader->header, header)) {
		(void)snprintf(why, sizeof(why), "it is of %.63s@%.63s%s%.63s",
		    reader->header.volume, reader->header.snapshot,
		    backup_is_full(&reader->header) ? "" : " since ",
		    reader->header.parent_snapshot);
		backup_reader_destroy(reader);
		return is_forced ? 0 : refuse_part(file, why);
	}
	if (!may_resume) {
		backup_reader_destroy(reader);
		return 0;
	}
	do {
		rc = backup_reader_next(reader);
	} while (rc == 1);
	if (rc == 0)
		rc = 1;
	else if (rc == -ENODATA || rc == -EBADMSG)
		rc = backup_writer_resume(file->fd, reader, &file->writer);
	if (rc < 0)
		(void)file_fail(file, rc);
	backup_reader_destroy(reader);
	return rc;
}

int
command_file_start(struct command_file *file, const struct backup_header *header, bool may_resume)
{
	int rc = 0;

	assert(file->fd >= 0 && file->writer == NULL);
	if (file->part[0] != '\0' && file->found_bytes > 0) {
		rc = file_resume(file, header, may_resume);
		if (rc != 0 || file->writer != NULL)
			return rc;
	}
	if (file->part[0] != '\0' &&
	    (ftruncate(file->fd, 0) != 0 || lseek(file->fd, 0, SEEK_SET) < 0))
		return file_fail(file, -errno);
	rc = backup_writer_create(file->fd, header, &file->writer);
	return rc == 0 ? 0 : file_fail(file, rc);
}

int
command_file_check_none(struct command_file *file)
{
	static const struct backup_header none = { .size_bytes = 0 };
	int rc = 0;

	assert(file->fd >= 0 && file->writer == NULL);
	if (file->part[0] != '\0' && file->found_bytes > 0)
		rc = file_resume(file, &none, false);
	assert(rc <= 0 && file->writer == NULL);
	/* command_file_start reads it from its beginning. */
	if (rc == 0 && file->part[0] != '\0' && lseek(file->fd, 0, SEEK_SET) < 0)
		return file_fail(file, -errno);
	return rc;
}

int
command_file_frame(struct command_file *file, const struct backup_frame *frame)
{
	int rc = backup_writer_frame(file->writer, frame);

	return rc == 0 ? 0 : file_fail(file, rc);
}

/* ---- the end ---- */

/* @path, which has got that name, has it after a loss of power, too. */
static int
sync_folder(const char *path)
{
	const char *slash = strrchr(path, '/');
	char folder[PATH_MAX];
	int fd, rc;

	(void)snprintf(folder, sizeof(folder), "%.*s", slash == NULL ? 1 : (int)(slash - path) + 1,
	    slash == NULL ? "." : path);
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	rc = fsync(fd) == 0 ? 0 : -errno;
	(void)close(fd);
	return rc;
}

int
command_give_name(const char *path, const char *name, bool may_replace)
{
	struct stat status;
	int rc = renameat2(AT_FDCWD, path, AT_FDCWD, name, may_replace ? 0 : RENAME_NOREPLACE);

	if (rc != 0 && errno == EINVAL && !may_replace) {
		/* The file system cannot look and rename in one. */
		if (lstat(name, &status) == 0)
			return -EEXIST;
		rc = rename(path, name);
	}
	return rc == 0 ? sync_folder(name) : -errno;
}

/* All is in FILE.part, which becomes FILE. */
static int
file_name(struct command_file *file)
{
	int rc;

	if (fsync(file->fd) != 0)
		return file_fail(file, -errno);
	if (!part_is_open(file))
		return command_fail(file->session, -EBUSY,
		    "%.200s: it was removed meanwhile, or another file has that name; %.200s was not made: "
		    "run it again",
		    file->part, file->path);
	rc = command_give_name(file->part, file->path, file->session->options->is_forced);
	if (rc == -EEXIST)
		return command_fail(file->session, rc,
		    "%.200s exists, and did not when this began; what was to be it is %.200s: --force replaces it",
		    file->path, file->part);
	return rc == 0 ? 0 : file_fail(file, rc);
}

int
command_file_finish(struct command_file *file)
{
	int rc = file->writer == NULL ? 0 : backup_writer_end(file->writer);

	assert(file->fd >= 0);
	if (rc != 0)
		(void)file_fail(file, rc);
	else if (file->part[0] != '\0')
		rc = file_name(file);
	command_file_abandon(file);
	return rc;
}

void
command_file_abandon(struct command_file *file)
{
	struct stat status;

	assert(file->path != NULL);
	/* Nothing to go on from. One that was there stays: another cleave may write it. After a finish the name is gone. */
	if (file->is_ours && fstat(file->fd, &status) == 0 && status.st_size == 0 &&
	    part_is_open(file))
		(void)unlink(file->part);
	backup_writer_destroy(file->writer);
	file->writer = NULL;
	if (file->fd >= 0 && file->part[0] != '\0')
		(void)close(file->fd);
	file->fd = -1;
	file->is_ours = false;
}

/* ---- files that are read ---- */

int
command_open_sources(struct command_session *session, struct backup_source **ret_sources)
{
	const struct command_options *options = session->options;
	struct backup_source *sources = calloc(options->file_count, sizeof(*sources));
	bool has_input = false;

	assert(options->file_count > 0);
	if (sources == NULL)
		return command_fail(session, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < options->file_count; i++)
		sources[i] = (struct backup_source){ .name = options->files[i], .fd = -1 };
	for (uint32_t i = 0; i < options->file_count; i++) {
		bool is_input = strcmp(sources[i].name, "-") == 0;
		int rc = is_input && has_input ? -EINVAL : 0;

		has_input = has_input || is_input;
		sources[i].fd = is_input ? STDIN_FILENO
					 : open(sources[i].name, O_RDONLY | O_CLOEXEC);
		if (rc == 0 && sources[i].fd < 0)
			rc = -errno;
		if (rc == 0)
			continue;
		rc = command_fail(session, rc, "%.200s: %s", sources[i].name,
		    rc == -EINVAL ? "there is one standard input" : strerror(-rc));
		command_close_sources(session, sources);
		return rc;
	}
	*ret_sources = sources;
	return 0;
}

void
command_close_sources(struct command_session *session, struct backup_source *sources)
{
	for (uint32_t i = 0; sources != NULL && i < session->options->file_count; i++) {
		if (sources[i].fd > STDIN_FILENO)
			(void)close(sources[i].fd);
	}
	free(sources);
}

/* ---- what both share ---- */

void
command_progress(struct command_session *session, uint64_t done_bytes, uint64_t all_bytes)
{
	char done[TABLE_NUMBER_BYTES], all[TABLE_NUMBER_BYTES];

	assert(done_bytes <= all_bytes && all_bytes > 0);
	if (!session->options->has_progress)
		return;
	fprintf(stderr, "\r%3u %%  %s of %s    %s",
	    (unsigned)((double)done_bytes * 100.0 / (double)all_bytes),
	    table_format_size(done_bytes, done), table_format_size(all_bytes, all),
	    done_bytes == all_bytes ? "\n" : "");
}

void
command_new_id(uint8_t id[BACKUP_ID_BYTES])
{
	ssize_t got = getrandom(id, BACKUP_ID_BYTES, 0);

	assert(got == BACKUP_ID_BYTES); /* so few never fail, nor are fewer */
}

uint64_t
command_now_s(void)
{
	struct timespec now;

	/* tidy: allow call: a name and a head say the time of the day, which a loop does not know */
	(void)clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec;
}
