/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_image.c -- cleave import, export: between a volume and an image file
 *
 *	FILE <-- qemu-img convert --> unix socket in a private folder <-- cleave-agent --> gateway
 *
 * The agent is started for the one copy, with a socket that listens already, so nobody waits for it. It
 * and qemu-img end with this process. An import that fails deletes the volume that it made, unless somebody else has
 * found that; an export appears under its name when it is whole.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/num.h"
#include "command.h"
#include "command_ask.h"
#include "command_disk.h"
#include "command_file.h"

#define IMAGE_TOOL "qemu-img"
#define IMAGE_LISTEN_FD 3 /* as LISTEN_FDS has it */
#define IMAGE_ARGUMENTS_MAX (COMMAND_AGENT_WORDS_MAX + 8)
#define IMAGE_INFO_BYTES_MAX (256u * 1024u)
#define IMAGE_EXIT_NO_PROGRAM 127

struct image_agent {
	char folder[64], socket[80], uri[128];
	pid_t pid;
};

static volatile sig_atomic_t image_child; /* the qemu-img that a signal is for */
static volatile sig_atomic_t image_signal;

/* ---- processes ---- */

static void
image_on_signal(int number)
{
	image_signal = number;
	if (image_child > 0)
		(void)kill((pid_t)image_child, SIGTERM);
}

static void
image_watch_signals(void)
{
	struct sigaction action = { .sa_handler = image_on_signal };

	(void)sigaction(SIGINT, &action, NULL);
	(void)sigaction(SIGTERM, &action, NULL);
}

/* In a child: what outlives its parent nobody would end. */
static void
end_with_parent(pid_t parent)
{
	assert(parent > 0);
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != parent)
		_exit(IMAGE_EXIT_NO_PROGRAM);
}

static int
wait_for(pid_t pid)
{
	int status;

	assert(pid > 0);
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return status;
}

/*
 * Run qemu-img. @ret_text: gets what it prints, at most @bytes with a NUL; NULL: it prints to our
 * standard output.
 */
static int
tool_run(struct command_session *session, const char *const argv[], char *ret_text, size_t bytes)
{
	int fds[2] = { -1, -1 }, status;
	size_t got = 0;
	ssize_t n;
	pid_t parent = getpid(), pid;

	assert(argv[0] != NULL && argv[1] != NULL);
	assert(ret_text == NULL || bytes > 0);
	assert(image_child == 0); /* a signal knows one */
	if (ret_text != NULL && pipe2(fds, O_CLOEXEC) != 0)
		return command_fail(session, -errno, "a pipe: %s", strerror(errno));
	(void)fflush(NULL);
	pid = fork();
	if (pid == 0) {
		end_with_parent(parent);
		if (fds[1] < 0 || dup2(fds[1], STDOUT_FILENO) >= 0)
			(void)execvp(argv[0], (char *const *)(uintptr_t)argv);
		_exit(IMAGE_EXIT_NO_PROGRAM);
	}
	image_child = pid;
	if (fds[1] >= 0)
		(void)close(fds[1]);
	while (pid > 0 && fds[0] >= 0 && got + 1 < bytes &&
	    ((n = read(fds[0], ret_text + got, bytes - 1 - got)) > 0 || (n < 0 && errno == EINTR)))
		got += n > 0 ? (size_t)n : 0;
	if (fds[0] >= 0)
		(void)close(fds[0]);
	if (ret_text != NULL)
		ret_text[got] = '\0';
	status = pid < 0 ? -errno : wait_for(pid);
	image_child = 0;
	if (status < 0)
		return command_fail(session, status, "%s: %s", argv[0], strerror(-status));
	if (image_signal != 0)
		return command_fail(session, -EINTR, "interrupted");
	if (WIFEXITED(status) && WEXITSTATUS(status) == IMAGE_EXIT_NO_PROGRAM)
		return command_fail(session, -ENOENT,
		    "%s cannot be run; Debian's package qemu-utils has it", argv[0]);
	/* The tool itself has said what was wrong. */
	return status == 0
	    ? 0
	    : command_fail(session, -EIO, "%s %s failed, and says above why", argv[0], argv[1]);
}

/* @write_id: of the volume, which is written; 0: it is read. */
static void
agent_exec(const struct command_session *session, uint64_t write_id, int listen_fd, pid_t parent)
{
	const char *argv[IMAGE_ARGUMENTS_MAX + 1];
	char program[PATH_MAX], pid[16], id[24];
	int count = command_agent_words(session, program, argv);

	assert(listen_fd >= 0 && session->options->name != NULL);
	assert(session->options->gateways.count <= CLEAVE_GATEWAYS_MAX);
	/* A terminal's Ctrl-C is not for it: by our SIGTERM behind that it would not close the volume. */
	(void)setpgid(0, 0);
	end_with_parent(parent);
	argv[count++] = "--log-level";
	argv[count++] = "warn";
	argv[count++] = "--volume";
	argv[count++] = session->options->name;
	if (write_id != 0) {
		(void)snprintf(id, sizeof(id), "%" PRIu64, write_id);
		argv[count++] = "--volume-id";
		argv[count++] = id;
	} else {
		argv[count++] = "--read-only";
	}
	if (session->options->must_take) {
		argv[count++] = "--when-held";
		argv[count++] = "take";
	}
	assert((size_t)count <= IMAGE_ARGUMENTS_MAX);
	argv[count] = NULL;
	(void)snprintf(pid, sizeof(pid), "%d", (int)getpid());
	if (setenv("LISTEN_PID", pid, 1) != 0 || setenv("LISTEN_FDS", "1", 1) != 0)
		_exit(IMAGE_EXIT_NO_PROGRAM);
	/* A descriptor that is its own copy keeps its flags. */
	if (listen_fd == IMAGE_LISTEN_FD ? fcntl(listen_fd, F_SETFD, 0) >= 0
					 : dup2(listen_fd, IMAGE_LISTEN_FD) >= 0)
		(void)execvp(program, (char *const *)(uintptr_t)argv);
	fprintf(stderr, "cleave: %s: %s\n", program, strerror(errno));
	_exit(IMAGE_EXIT_NO_PROGRAM);
}

static void
agent_stop(struct image_agent *agent)
{
	if (agent->pid > 0) {
		(void)kill(agent->pid, SIGTERM);
		(void)wait_for(agent->pid);
	}
	if (agent->folder[0] != '\0') {
		(void)unlink(agent->socket);
		(void)rmdir(agent->folder);
	}
}

static int
agent_listen(struct image_agent *agent)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int rc;

	assert(agent->socket[0] == '/');
	if (fd < 0)
		return -errno;
	memcpy(address.sun_path, agent->socket, sizeof(agent->socket));
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 && listen(fd, 16) == 0)
		return fd;
	rc = -errno;
	(void)close(fd);
	return rc;
}

/* 0, or session->error; agent_stop in either case. @write_id: as agent_exec has it. */
static int
agent_start(struct command_session *session, uint64_t write_id, struct image_agent *ret_agent)
{
	pid_t parent = getpid();
	int fd;

	assert(session->options->name != NULL);
	*ret_agent = (struct image_agent){ .folder = "/tmp/cleave-image-XXXXXX" };
	if (mkdtemp(ret_agent->folder) == NULL) {
		fd = -errno;
		ret_agent->folder[0] = '\0';
		return command_fail(session, fd, "cannot make a folder in /tmp: %s", strerror(-fd));
	}
	(void)snprintf(ret_agent->socket, sizeof(ret_agent->socket), "%s/nbd", ret_agent->folder);
	(void)snprintf(ret_agent->uri, sizeof(ret_agent->uri), "nbd+unix:///?socket=%s",
	    ret_agent->socket);
	fd = agent_listen(ret_agent);
	if (fd < 0)
		return command_fail(session, fd, "%s: %s", ret_agent->socket, strerror(-fd));
	(void)fflush(NULL);
	ret_agent->pid = fork();
	if (ret_agent->pid == 0)
		agent_exec(session, write_id, fd, parent);
	if (ret_agent->pid < 0)
		(void)command_fail(session, -errno, "cannot start cleave-agent: %s",
		    strerror(errno));
	(void)close(fd); /* the agent's alone: with it goes who connects */
	return ret_agent->pid < 0 ? -EAGAIN : 0;
}

/* ---- import ---- */

/* "a:b" would be a protocol to qemu-img. */
static void
tool_path(const char *file, char out[PATH_MAX + 2])
{
	(void)snprintf(out, PATH_MAX + 2, "%s%.*s", file[0] == '/' ? "" : "./", PATH_MAX - 1, file);
}

/* The image's format and how large the disk in it is. @ret_format: free() it. */
static int
image_info(struct command_session *session, const char *path, char **ret_format,
    uint64_t *ret_bytes)
{
	const struct command_options *options = session->options;
	const char *argv[] = { IMAGE_TOOL, "info", "--output=json", "-f", options->format, path,
		NULL };
	char *text = malloc(IMAGE_INFO_BYTES_MAX);
	json_t *info = NULL;
	const char *format;
	int rc;

	assert(*ret_format == NULL && path[0] != '\0');
	if (text == NULL)
		return command_fail(session, -ENOMEM, "out of memory");
	if (options->format == NULL) {
		argv[3] = path;
		argv[4] = NULL;
	}
	rc = tool_run(session, argv, text, IMAGE_INFO_BYTES_MAX);
	if (rc == 0)
		info = json_loads(text, 0, NULL);
	free(text);
	if (rc != 0)
		return rc;
	format = json_string_value(json_object_get(info, "format"));
	*ret_bytes = command_u64(info, "virtual-size");
	*ret_format = format == NULL ? NULL : strdup(format);
	json_decref(info);
	if (*ret_format == NULL || *ret_bytes == 0)
		return command_fail(session, -EINVAL,
		    "%.200s: an image of nothing: it has no bytes", path);
	return 0;
}

/*
 * A volume that is there gets the image, and zeros behind that, as a new one has: qemu-img writes no further than the
 * image, and of its last block that part alone. What is open here for a moment is closed before the agent opens it.
 *
 * Somebody else writes the volume: the refusal says who, and how to insist. An agent would say so in its log, and
 * qemu-img that a write failed. One who has died is waited for, as by every writer.
 */
static int
import_clear_end(struct command_session *session, uint64_t image_bytes, uint64_t id)
{
	const struct command_options *options = session->options;
	const struct cleave_open_options how = { .name = options->name,
		.flags = options->must_take ? CLEAVE_OPEN_TAKE : 0,
		.id = id };
	struct command_disk disk;
	int rc = command_disk_open_as(&disk, session, &how);

	if (rc != 0)
		return rc;
	rc = command_disk_discard_from(&disk, image_bytes - image_bytes % CLEAVE_BLOCK_BYTES);
	command_disk_close(&disk);
	return rc == 0
	    ? 0
	    : command_fail(session, rc,
		  "volume '%.64s': what is behind the image's end could not be discarded: %s",
		  options->name, cleave_error_text(rc));
}

/* There is no such volume: make it, as large as the image, or --size. @ret_id: its id. */
static int
import_create(struct command_session *session, uint64_t image_bytes, uint64_t *ret_id)
{
	const struct cleave_volume_entry *made;
	struct command_options options = *session->options;
	struct cleave_volume_options volume;
	struct command_question question;
	int rc;

	assert(image_bytes > 0);
	if (options.size_bytes == 0)
		options.size_bytes = num_round_up(image_bytes, CLEAVE_BLOCK_BYTES);
	if (options.size_bytes < image_bytes)
		return command_fail(session, -EINVAL,
		    "the image has %llu bytes, which is more than --size: leave that out, or "
		    "make it larger",
		    (unsigned long long)image_bytes);
	command_create_options(&options, &volume);
	command_question_init(&question, session);
	rc = command_wait(&question,
	    cleave_volume_create(session->client, &question.ask, &volume, command_on_volume,
		&question));
	made = question.entries;
	if (rc == 0)
		*ret_id = made->info.id;
	command_question_fini(&question);
	return rc;
}

/* The volume, made unless it is there. @ret_is_new: it was made. */
static int
import_volume(struct command_session *session, uint64_t image_bytes, uint64_t *ret_id,
    bool *ret_is_new)
{
	const struct command_options *options = session->options;
	uint64_t size_bytes;
	int rc = command_volume_size(session, options->name, &size_bytes, ret_id);

	assert(image_bytes > 0);
	*ret_is_new = rc == -ENOENT;
	if (rc == -ENOENT)
		return import_create(session, image_bytes, ret_id);
	if (rc != 0)
		return rc;
	if (!options->is_forced)
		return command_fail(session, -EEXIST,
		    "volume '%.64s' exists; --force writes over it", options->name);
	if (size_bytes < image_bytes)
		return command_fail(session, -ENOSPC,
		    "the image has %llu bytes, volume '%.64s' %llu: make that larger first "
		    "(cleave volume resize)",
		    (unsigned long long)image_bytes, options->name, (unsigned long long)size_bytes);
	rc = command_check_given(session, options->name,
	    "import under another name, which makes a volume");
	return rc != 0 ? rc : import_clear_end(session, image_bytes, *ret_id);
}

/*
 * The volume @id was made for an import that failed: session->error says why, and stays. It goes, if it has its name still,
 * and nobody uses it: then somebody else has found it, and the text says what to do.
 */
static void
import_undo(struct command_session *session, uint64_t id)
{
	const char *name = session->options->name;
	const struct cleave_delete_options how = { .name = name,
		.flags = CLEAVE_MANAGE_PURGE,
		.id = id };
	struct command_question question;
	char error[sizeof(session->error)], why[sizeof(session->error)];
	int rc;

	assert(session->error[0] != '\0' && name != NULL && id != 0);
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
import_copy(struct command_session *session, const char *path, const char *format, uint64_t id,
    bool is_new)
{
	const char *argv[16];
	struct image_agent agent;
	int count = 0, rc = agent_start(session, id, &agent);

	assert(format != NULL);
	argv[count++] = IMAGE_TOOL;
	argv[count++] = "convert";
	argv[count++] = "-n";
	argv[count++] = "-W"; /* in any order: it is a disk */
	if (session->options->has_progress)
		argv[count++] = "-p";
	if (is_new)
		argv[count++] = "--target-is-zero";
	argv[count++] = "-f";
	argv[count++] = format;
	argv[count++] = "-O";
	argv[count++] = "raw";
	argv[count++] = path;
	argv[count++] = agent.uri;
	assert(count < (int)NUM_COUNT(argv));
	argv[count] = NULL;
	if (rc == 0)
		rc = tool_run(session, argv, NULL, 0);
	agent_stop(&agent);
	return rc;
}

int
command_import(struct command_session *session)
{
	const struct command_options *options = session->options;
	char path[PATH_MAX + 2], *format = NULL;
	uint64_t image_bytes = 0, id = 0;
	bool is_new = false;
	int rc;

	assert(options->file != NULL && options->name != NULL);
	image_watch_signals();
	tool_path(options->file, path);
	rc = image_info(session, path, &format, &image_bytes);
	if (rc == 0)
		rc = import_volume(session, image_bytes, &id, &is_new);
	if (rc == 0) {
		rc = import_copy(session, path, format, id, is_new);
		if (rc != 0 && is_new)
			import_undo(session, id);
	}
	free(format);
	return rc;
}

/* ---- export ---- */

static const char *
export_format(const struct command_options *options)
{
	const char *dot = strrchr(options->file, '.');

	assert(options->file != NULL);
	if (options->format != NULL)
		return options->format;
	return dot != NULL && strcmp(dot, ".qcow2") == 0 ? "qcow2" : "raw";
}

/* An empty file beside the one that it becomes, with the rights that a new file gets. */
static int
export_begin(struct command_session *session, char path[PATH_MAX + 16])
{
	const struct command_options *options = session->options;
	mode_t mask = umask(0);
	struct stat status;
	bool is_there = lstat(options->file, &status) == 0;
	char whole[PATH_MAX + 2];
	int fd;

	assert(options->file != NULL);
	(void)umask(mask);
	path[0] = '\0';
	if (is_there && !S_ISREG(status.st_mode))
		return command_fail(session, -EEXIST, "%.200s is no regular file", options->file);
	if (is_there && !options->is_forced)
		return command_fail(session, -EEXIST, "%.200s exists; --force replaces it",
		    options->file);
	tool_path(options->file, whole);
	(void)snprintf(path, PATH_MAX + 16, "%s.XXXXXX", whole);
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0) {
		path[0] = '\0';
		return command_fail(session, -errno, "%.200s: %s", options->file, strerror(errno));
	}
	(void)fchmod(fd, 0666 & ~mask);
	(void)close(fd);
	return 0;
}

static int
export_finish(struct command_session *session, const char *path)
{
	assert(path[0] != '\0' && session->options->file != NULL);
	const char *file = session->options->file;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int rc = fd < 0 || fsync(fd) != 0 || rename(path, file) != 0 ? -errno
								     : command_sync_folder(file);

	assert(rc <= 0);
	if (fd >= 0)
		(void)close(fd);
	return rc == 0 ? 0 : command_fail(session, rc, "%.200s: %s", file, strerror(-rc));
}

int
command_export(struct command_session *session)
{
	const char *argv[] = { IMAGE_TOOL, "convert", "-W", "-f", "raw", "-O",
		export_format(session->options), NULL, NULL,
		session->options->has_progress ? "-p" : NULL, NULL };
	struct image_agent agent = { .pid = 0 };
	char path[PATH_MAX + 16] = "";
	int rc;

	assert(session->options->file != NULL && session->options->name != NULL);
	image_watch_signals();
	rc = command_find_volume(session);
	if (rc == 0)
		rc = command_check_use(session);
	if (rc == 0)
		rc = export_begin(session, path);
	if (rc == 0)
		rc = agent_start(session, 0, &agent);
	argv[7] = agent.uri;
	argv[8] = path;
	if (rc == 0)
		rc = tool_run(session, argv, NULL, 0);
	agent_stop(&agent);
	if (rc == 0)
		rc = export_finish(session, path);
	if (rc != 0 && path[0] != '\0')
		(void)unlink(path);
	return rc;
}
