/* SPDX-License-Identifier: Apache-2.0 */
/* command_image.c -- see command_image.h */
#include "command_image.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "command_disk.h"
#include "table.h"

#define IMAGE_LISTEN_FD 3 /* as LISTEN_FDS has it */
#define IMAGE_ARGUMENTS_MAX (COMMAND_AGENT_WORDS_MAX + 8)
#define IMAGE_EXIT_NO_PROGRAM 127
#define IMAGE_EXTENTS 1024u             /* of an answer */
#define IMAGE_STRETCH_BYTES NUM_GIB(64) /* asked about by one request */

static volatile sig_atomic_t image_child; /* the qemu-img that a signal is for */
static volatile sig_atomic_t image_signal;

static void
image_on_signal(int number)
{
	image_signal = number;
	if (image_child > 0)
		(void)kill((pid_t)image_child, SIGTERM);
}

void
command_image_watch_signals(void)
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

/*
 * As fork. Signals of the child end it from its first moment on: with our handler it would forget one that comes before it is
 * another program, and run on.
 */
static pid_t
image_fork(void)
{
	sigset_t signals, before;
	pid_t pid;

	(void)sigemptyset(&signals);
	(void)sigaddset(&signals, SIGINT);
	(void)sigaddset(&signals, SIGTERM);
	(void)sigprocmask(SIG_BLOCK, &signals, &before);
	(void)fflush(NULL);
	pid = fork();
	if (pid == 0) {
		(void)signal(SIGINT, SIG_DFL);
		(void)signal(SIGTERM, SIG_DFL);
	}
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
	return pid;
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

struct image_watch {
	struct loop_fd watcher;
	bool has_ended;
};

static void
image_on_end(struct loop_fd *watcher, unsigned events, void *arg)
{
	struct image_watch *watch = arg;

	(void)events;
	assert(watcher == &watch->watcher);
	watch->has_ended = true;
}

static bool
image_has_ended(void *arg)
{
	return ((const struct image_watch *)arg)->has_ended;
}

/*
 * The child's end, for as long as it takes: the loop runs meanwhile. A client that stands still, and does not give back what
 * its gateway has lent it, loses its connection, and with it the next request, which is one that must not be repeated.
 */
static int
wait_beside(struct command_session *session, pid_t pid)
{
	struct image_watch watch = { .has_ended = false };
	int fd = pidfd_open(pid, 0);

	assert(session->loop != NULL);
	if (fd >= 0) {
		loop_fd_init(&watch.watcher, fd, image_on_end, &watch);
		if (loop_fd_start(session->loop, &watch.watcher, LOOP_READABLE) == 0)
			(void)loop_run(session->loop, image_has_ended, &watch);
		loop_fd_stop(session->loop, &watch.watcher);
		(void)close(fd);
	}
	return wait_for(pid);
}

int
command_image_run(struct command_session *session, const char *const argv[], char *ret_text,
    size_t bytes)
{
	int fds[2] = { -1, -1 }, status;
	size_t got = 0;
	ssize_t n;
	pid_t parent = getpid(), pid;

	assert(argv[0] != NULL && argv[1] != NULL);
	assert(ret_text == NULL || bytes > 0);
	assert(image_child == 0); /* a signal knows one */
	if (image_signal != 0)
		return command_fail(session, -EINTR, "interrupted");
	if (ret_text != NULL && pipe2(fds, O_CLOEXEC) != 0)
		return command_fail(session, -errno, "a pipe: %s", strerror(errno));
	pid = image_fork();
	if (pid == 0) {
		end_with_parent(parent);
		/* --progress: a program that reads our JSON finds nothing else there. */
		if (fds[1] < 0 && session->options->is_json)
			(void)dup2(STDERR_FILENO, STDOUT_FILENO);
		if (fds[1] < 0 || dup2(fds[1], STDOUT_FILENO) >= 0)
			(void)execvp(argv[0], (char *const *)(uintptr_t)argv);
		_exit(IMAGE_EXIT_NO_PROGRAM);
	}
	image_child = pid;
	if (pid > 0 && image_signal != 0)
		(void)kill(pid, SIGTERM); /* it came before there was whom to end */
	if (fds[1] >= 0)
		(void)close(fds[1]);
	while (pid > 0 && fds[0] >= 0 && got + 1 < bytes &&
	    ((n = read(fds[0], ret_text + got, bytes - 1 - got)) > 0 || (n < 0 && errno == EINTR)))
		got += n > 0 ? (size_t)n : 0;
	if (fds[0] >= 0)
		(void)close(fds[0]);
	if (ret_text != NULL)
		ret_text[got] = '\0';
	status = pid < 0 ? -errno : wait_beside(session, pid);
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

/* @id, @is_written: as command_image_start has them. */
static void
agent_exec(const struct command_session *session, const char *name, uint64_t volume_id,
    bool is_written, int listen_fd, pid_t parent)
{
	const char *argv[IMAGE_ARGUMENTS_MAX + 1];
	char program[PATH_MAX], pid[16], id[24];
	int count = command_agent_words(session, program, argv);

	assert(listen_fd >= 0 && name != NULL);
	assert(session->options->gateways.count <= CLEAVE_GATEWAYS_MAX);
	/* A terminal's Ctrl-C is not for it: by our SIGTERM behind that it would not close the volume. */
	(void)setpgid(0, 0);
	end_with_parent(parent);
	argv[count++] = "--log-level";
	argv[count++] = "warn";
	argv[count++] = "--volume";
	argv[count++] = name;
	if (volume_id != 0) {
		(void)snprintf(id, sizeof(id), "%" PRIu64, volume_id);
		argv[count++] = "--volume-id";
		argv[count++] = id;
	}
	if (!is_written)
		argv[count++] = "--read-only";
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
folder_remove(const struct image_agent *agent)
{
	assert(agent->folder[0] == '/');
	(void)unlink(agent->socket);
	(void)rmdir(agent->folder);
}

/*
 * A process that removes the folder when this one has ended, however it does: nobody else would behind a kill -9. It lives for
 * as long as the pipe's other end is open, here alone, and hears no signal of a terminal. Without it we do that.
 */
static void
guard_start(struct image_agent *agent)
{
	int fds[2];
	char byte;

	if (pipe2(fds, O_CLOEXEC) != 0)
		return;
	agent->guard = image_fork();
	if (agent->guard == 0) {
		(void)setsid();
		(void)dup2(fds[0], STDIN_FILENO);
		(void)close_range(STDIN_FILENO + 1, UINT_MAX, 0);
		while (read(STDIN_FILENO, &byte, 1) < 0 && errno == EINTR)
			;
		folder_remove(agent);
		_exit(0);
	}
	(void)close(fds[0]);
	agent->guard_fd = fds[1];
	if (agent->guard < 0)
		(void)close(fds[1]);
}

void
command_image_stop(struct image_agent *agent)
{
	if (agent->pid > 0) {
		(void)kill(agent->pid, SIGTERM);
		(void)wait_for(agent->pid);
	}
	if (agent->guard > 0) {
		(void)close(agent->guard_fd);
		(void)wait_for(agent->guard);
	} else if (agent->folder[0] != '\0') {
		folder_remove(agent);
	}
}

/* A path of these stands in a URI as it is. */
#define IMAGE_PATH_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-"

/* In $TMPDIR; in /tmp where that is none, or too long for a socket's path. 0, or -errno with session->error set. */
static int
folder_make(struct command_session *session, struct image_agent *agent)
{
	static const char name[] = "/cleave-image-XXXXXX";
	const char *place = getenv("TMPDIR");

	_Static_assert(sizeof(agent->socket) == sizeof(((struct sockaddr_un *)0)->sun_path) &&
		sizeof(agent->folder) + sizeof("/nbd") <= sizeof(agent->socket),
	    "a socket has room for its path");
	if (place == NULL || place[0] != '/' || place[strspn(place, IMAGE_PATH_LETTERS)] != '\0' ||
	    strlen(place) + sizeof(name) > sizeof(agent->folder))
		place = "/tmp";
	(void)snprintf(agent->folder, sizeof(agent->folder), "%s%s", place, name);
	if (mkdtemp(agent->folder) != NULL)
		return 0;
	agent->folder[0] = '\0';
	return command_fail(session, -errno, "cannot make a folder in %s: %s", place,
	    strerror(errno));
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

int
command_image_start(struct command_session *session, const char *name, uint64_t id, bool is_written,
    struct image_agent *ret_agent)
{
	pid_t parent = getpid();
	int fd;

	assert(name != NULL);
	*ret_agent = (struct image_agent){ .pid = 0 };
	fd = folder_make(session, ret_agent);
	if (fd < 0)
		return fd;
	(void)snprintf(ret_agent->socket, sizeof(ret_agent->socket), "%s/nbd", ret_agent->folder);
	guard_start(ret_agent);
	(void)snprintf(ret_agent->uri, sizeof(ret_agent->uri), "nbd+unix:///?socket=%s",
	    ret_agent->socket);
	fd = agent_listen(ret_agent);
	if (fd < 0)
		return command_fail(session, fd, "%s: %s", ret_agent->socket, strerror(-fd));
	ret_agent->pid = image_fork();
	if (ret_agent->pid == 0)
		agent_exec(session, name, id, is_written, fd, parent);
	if (ret_agent->pid < 0)
		(void)command_fail(session, -errno, "cannot start cleave-agent: %s",
		    strerror(errno));
	(void)close(fd); /* the agent's alone: with it goes who connects */
	return ret_agent->pid < 0 ? -EAGAIN : 0;
}

void
command_image_path(const char *file, char out[IMAGE_PATH_BYTES])
{
	(void)snprintf(out, IMAGE_PATH_BYTES, "%s%.*s", file[0] == '/' ? "" : "./", PATH_MAX - 1,
	    file);
}

/* Bytes of an open disk that are neither holes nor zeros. 0; a negative errno; -EINTR: a signal came. */
static int
data_of(struct command_disk *disk, uint64_t size_bytes, uint64_t *ret_bytes)
{
	static struct cleave_extent extents[IMAGE_EXTENTS];
	uint64_t data_bytes = 0;
	int rc = 0;

	for (uint64_t at = 0; at < size_bytes && rc == 0;) {
		struct cleave_io io = { .op = CLEAVE_BLOCK_STATUS,
			.offset_bytes = at,
			.length_bytes = num_min(size_bytes - at, IMAGE_STRETCH_BYTES),
			.extents = extents,
			.extent_max = IMAGE_EXTENTS };

		rc = image_signal != 0 ? -EINTR : command_disk_run(disk, &io);
		for (uint32_t i = 0; rc == 0 && i < io.extent_count; i++) {
			if ((extents[i].flags & (CLEAVE_EXTENT_HOLE | CLEAVE_EXTENT_ZERO)) == 0)
				data_bytes += extents[i].length_bytes;
			at += extents[i].length_bytes;
		}
	}
	if (rc == 0)
		*ret_bytes = data_bytes;
	return rc;
}

/* UINT64_MAX: nobody says. The copy is whole all the same. *@ret_size_bytes: of the volume, or as it was. */
static uint64_t
image_data_bytes(struct command_session *session, uint64_t *ret_size_bytes)
{
	struct command_disk disk;
	uint64_t bytes = UINT64_MAX;

	if (command_disk_open(&disk, session, session->options->name, CLEAVE_OPEN_READ_ONLY) == 0) {
		*ret_size_bytes = cleave_volume_info(disk.volume)->size_bytes;
		(void)data_of(&disk, *ret_size_bytes, &bytes);
		command_disk_close(&disk);
	}
	session->error[0] = '\0';
	return bytes;
}

static int
image_say_json(struct command_session *session, const struct image_done *done, uint64_t data_bytes,
    uint64_t ms)
{
	json_t *reply = json_pack("{s:s, s:s, s:s, s:I, s:I}", "volume", session->options->name,
	    "file", done->file, "format", done->format, "size_bytes", (json_int_t)done->size_bytes,
	    "duration_ms", (json_int_t)ms);
	int rc;

	if (reply != NULL && data_bytes != UINT64_MAX)
		json_object_set_new(reply, "data_bytes", json_integer((json_int_t)data_bytes));
	if (reply != NULL && !done->is_import)
		json_object_set_new(reply, "file_bytes",
		    json_integer((json_int_t)done->file_bytes));
	if (reply != NULL && done->kept != NULL && done->kept[0] != '\0')
		json_object_set_new(reply, "kept", json_string(done->kept));
	rc = reply == NULL ? -ENOMEM : command_print_json(reply, session->out);
	json_decref(reply);
	return rc;
}

int
command_image_say(struct command_session *session, const struct image_done *done)
{
	uint64_t ms = (loop_now_ns(session->loop) - done->begun_ns) / NUM_MS(1);
	uint64_t size_bytes = done->size_bytes, data_bytes;
	char size[TABLE_NUMBER_BYTES];
	FILE *out = session->out;

	data_bytes = image_data_bytes(session, &size_bytes);
	if (done->is_import)
		size_bytes = done->size_bytes; /* the volume may be larger than the image */
	if (session->options->is_json) {
		struct image_done known = *done;

		known.size_bytes = size_bytes;
		return image_say_json(session, &known, data_bytes, ms);
	}
	fprintf(out, done->is_import ? "%s: imported from %s" : "%s: exported from %s",
	    done->is_import ? session->options->name : done->file,
	    done->is_import ? done->file : session->options->name);
	fprintf(out, ", %s: %s in %" PRIu64 " blocks", done->format,
	    table_format_size(size_bytes, size),
	    num_round_up(size_bytes, CLEAVE_BLOCK_BYTES) / CLEAVE_BLOCK_BYTES);
	if (data_bytes != UINT64_MAX)
		fprintf(out, ", %" PRIu64 " of them data", data_bytes / CLEAVE_BLOCK_BYTES);
	if (!done->is_import)
		fprintf(out, "; the file takes %s", table_format_size(done->file_bytes, size));
	fprintf(out, "; %" PRIu64 ".%" PRIu64 " s\n", ms / 1000, ms % 1000 / 100);
	return 0;
}
