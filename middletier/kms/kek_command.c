/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kek_command.c -- see kek_command.h
 *
 *	spawn --> write all of the request, which a pipe holds --> read what it says until it ends, or the time does
 *
 * The request is shorter than PIPE_BUF: writing it does not wait for the program. What it says is bounded; who says
 * more is killed.
 */
#include "kms/kek_command.h"

#include <errno.h>
#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/num.h"
#include "base/plain.h"
#include "base/reader.h"

#define COMMAND_ANSWER_BYTES 4096u
#define COMMAND_WORDS_BYTES 160u /* of its standard error, for people */
#define COMMAND_TEXT_BYTES (4u * ((MT_WRAPPED_BYTES_MAX + 2u) / 3u) + 256u)

_Static_assert(COMMAND_TEXT_BYTES <= PIPE_BUF, "a request is written at once");

/* A program that runs. */
struct command {
	pid_t pid;
	int in, out, err; /* our ends of its pipes; -1: closed */
	int clock;
	char request[COMMAND_TEXT_BYTES], answer[COMMAND_ANSWER_BYTES], words[COMMAND_WORDS_BYTES];
	size_t request_bytes, answer_bytes, words_bytes;
};

static void
close_one(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd); /* nothing that counts was written */
	*fd = -1;
}

/* ---- begin ---- */

/* All signals as a program expects them: this thread may block every one. */
static int
attributes_init(posix_spawnattr_t *attributes)
{
	const short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP;
	sigset_t none, all;
	int rc = -posix_spawnattr_init(attributes);

	if (rc != 0)
		return rc;
	(void)sigemptyset(&none);
	(void)sigfillset(&all);
	/* Each of these takes what is valid. */
	(void)posix_spawnattr_setsigmask(attributes, &none);
	(void)posix_spawnattr_setsigdefault(attributes, &all);
	(void)posix_spawnattr_setpgroup(attributes, 0);
	(void)posix_spawnattr_setflags(attributes, flags);
	return 0;
}

static int
command_spawn(struct command *command, const char *path, const int ends[3])
{
	char *argv[] = { (char *)(uintptr_t)path, NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	int rc = attributes_init(&attributes);

	if (rc != 0)
		return rc;
	rc = -posix_spawn_file_actions_init(&actions);
	if (rc != 0)
		goto err_attributes;
	for (int i = 0; i < 3 && rc == 0; i++)
		rc = -posix_spawn_file_actions_adddup2(&actions, ends[i], i);
	if (rc == 0)
		rc = -posix_spawn(&command->pid, path, &actions, &attributes, argv, environ);
	(void)posix_spawn_file_actions_destroy(&actions);
err_attributes:
	(void)posix_spawnattr_destroy(&attributes);
	return rc;
}

static int
command_begin(struct command *command, const char *path, uint64_t timeout_ns)
{
	const struct itimerspec until = { .it_value = { (time_t)(timeout_ns / NUM_S(1)),
					      (long)(timeout_ns % NUM_S(1)) } };
	int in[2] = { -1, -1 }, out[2] = { -1, -1 }, err[2] = { -1, -1 };
	int rc = -EIO;

	command->clock = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	if (command->clock >= 0 && timerfd_settime(command->clock, 0, &until, NULL) == 0 &&
	    pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0)
		rc = command_spawn(command, path, (const int[3]){ in[0], out[1], err[1] });
	else
		rc = -errno;
	close_one(&in[0]);
	close_one(&out[1]);
	close_one(&err[1]);
	command->in = in[1];
	command->out = out[0];
	command->err = err[0];
	return rc;
}

/* ---- run ---- */

/* Bytes that @fd has for us, into @text, where there is room for @max; what is beyond that is read, and forgotten. */
static void
command_take(int *fd, char *text, size_t max, size_t *bytes)
{
	char rest[512];
	bool has_room = *bytes < max;
	ssize_t got = has_room ? read(*fd, text + *bytes, max - *bytes)
			       : read(*fd, rest, sizeof(rest));

	if (got < 0 && errno == EINTR)
		return;
	if (got <= 0)
		close_one(fd);
	else if (has_room)
		*bytes += (size_t)got;
}

/* Until both its outputs are closed. 0; -ETIMEDOUT; -EMSGSIZE it says too much. */
static int
command_listen(struct command *command)
{
	while (command->out >= 0 || command->err >= 0) {
		/* A descriptor of -1 is passed over. */
		struct pollfd fds[] = { { .fd = command->out, .events = POLLIN },
			{ .fd = command->err, .events = POLLIN },
			{ .fd = command->clock, .events = POLLIN } };

		if (poll(fds, NUM_COUNT(fds), -1) < 0)
			continue; /* a signal */
		if (fds[0].revents != 0)
			command_take(&command->out, command->answer, sizeof(command->answer),
			    &command->answer_bytes);
		if (fds[1].revents != 0)
			command_take(&command->err, command->words, sizeof(command->words) - 1,
			    &command->words_bytes);
		if (command->answer_bytes == sizeof(command->answer))
			return -EMSGSIZE;
		if (fds[2].revents != 0)
			return -ETIMEDOUT;
	}
	return 0;
}

/* A program that has closed its outputs may still run: it is waited for as long as it has. Its status. */
static int
command_reap(struct command *command, int *rc)
{
	int status = 0;
	siginfo_t info = { .si_pid = 0 };
	int pid_fd = *rc == 0 ? pidfd_open(command->pid, 0) : -1;

	while (*rc == 0 && info.si_pid == 0) {
		struct pollfd fds[] = { { .fd = pid_fd, .events = POLLIN },
			{ .fd = command->clock, .events = POLLIN } };

		(void)poll(fds, NUM_COUNT(fds), -1); /* a signal: once more */
		(void)waitid(P_PID, (id_t)command->pid, &info, WEXITED | WNOHANG | WNOWAIT);
		if (info.si_pid == 0 && fds[1].revents != 0)
			*rc = -ETIMEDOUT;
	}
	close_one(&pid_fd);
	/* The processes that it has left behind, too; it is there until it is waited for. */
	(void)kill(-command->pid, SIGKILL);
	while (waitpid(command->pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

/* ---- what is asked, and answered ---- */

/*
 * The request, into @command. By hand, since a JSON library would leave a plain data key in memory that it frees; nothing
 * in it needs an escape. 0; -ENOMEM.
 */
static int
request_fill(const struct mt_kek *kek, const struct mt_kek_run *run, struct command *command)
{
	const gnutls_datum_t data = { .data = (unsigned char *)(uintptr_t)run->data,
		.size = (unsigned)run->data_bytes };
	gnutls_datum_t text;
	int bytes;

	assert(run->data_bytes >= 1 && run->data_bytes <= MT_WRAPPED_BYTES_MAX);
	assert(mt_kek_name_check(kek->name) == NULL);
	if (gnutls_base64_encode2(&data, &text) < 0)
		return -ENOMEM;
	bytes = snprintf(command->request, sizeof(command->request),
	    "{\"op\":\"%s\",\"kek\":\"%s\",\"data\":\"%.*s\"}", run->op, kek->name, (int)text.size,
	    (const char *)text.data);
	gnutls_memset(text.data, 0, text.size);
	gnutls_free(text.data);
	assert(bytes > 0 && (size_t)bytes < sizeof(command->request));
	command->request_bytes = (size_t)bytes;
	return 0;
}

/* The bytes in it; -EIO: it is no answer. */
static int
answer_parse(const char *answer, size_t bytes, uint8_t *ret_data)
{
	struct reader reader = { 0 };
	json_t *object = reader_load(&reader, answer, bytes);
	const char *text = json_string_value(json_object_get(object, "data"));
	gnutls_datum_t in = { .data = (unsigned char *)(uintptr_t)text }, out = { .data = NULL };
	int rc = -EIO;

	in.size = text == NULL ? 0 : (unsigned)strlen(text);
	if (in.size > 0 && gnutls_base64_decode2(&in, &out) >= 0) {
		if (out.size >= 1 && out.size <= MT_WRAPPED_BYTES_MAX) {
			memcpy(ret_data, out.data, out.size);
			rc = (int)out.size;
		}
		gnutls_memset(out.data, 0, out.size);
		gnutls_free(out.data);
	}
	/*
	 * A plain data key may be in the library's own copy, which is freed as it is. Copies that its lexer and GnuTLS
	 * made on the way, and have freed, are out of reach.
	 */
	if (in.size > 0)
		gnutls_memset(in.data, 0, in.size);
	json_decref(object);
	return rc;
}

/* The error in words. Always @rc. */
static int
command_blame(const struct mt_kek *kek, struct command *command, int rc, int status, char *why)
{
	char what[64];

	command->words[command->words_bytes] = '\0';
	command->words[strcspn(command->words, "\n")] = '\0';
	(void)plain_text(command->words);
	if (rc == -ETIMEDOUT)
		(void)snprintf(what, sizeof(what), "did not end in time, and was killed");
	else if (rc == -EMSGSIZE)
		(void)snprintf(what, sizeof(what), "said too much, and was killed");
	else if (WIFSIGNALED(status))
		(void)snprintf(what, sizeof(what), "was ended by signal %d", WTERMSIG(status));
	else if (WEXITSTATUS(status) != 0)
		(void)snprintf(what, sizeof(what), "ended with %d", WEXITSTATUS(status));
	else
		(void)snprintf(what, sizeof(what), "did not answer {\"data\":\"BASE64\"}");
	(void)snprintf(why, MT_ERROR_BYTES, "%.128s %s%s%s", kek->place, what,
	    command->words[0] == '\0' ? "" : ": ", command->words);
	return rc == -ETIMEDOUT ? rc : -EIO;
}

int
mt_kek_command(const struct mt_kek *kek, const struct mt_kek_run *run, uint8_t *ret_data, char *why)
{
	struct command command = { .pid = 0, .in = -1, .out = -1, .err = -1, .clock = -1 };
	int rc, status = 0;

	assert(kek->kind == MT_KEK_COMMAND);
	(void)snprintf(why, MT_ERROR_BYTES, "out of memory");
	rc = request_fill(kek, run, &command);
	if (rc != 0)
		return rc;
	rc = command_begin(&command, kek->place, run->timeout_ns);
	if (rc == 0) {
		/* A program that does not read it is judged by what it says. */
		(void)!write(command.in, command.request, command.request_bytes);
		close_one(&command.in);
		rc = command_listen(&command);
		status = command_reap(&command, &rc);
		if (rc == 0 && status == 0)
			rc = answer_parse(command.answer, command.answer_bytes, ret_data);
		if (rc <= 0)
			rc = command_blame(kek, &command, rc, status, why);
	} else {
		(void)snprintf(why, MT_ERROR_BYTES, "%.128s cannot be run: %s", kek->place,
		    strerrordesc_np(-rc));
		rc = -EIO;
	}
	close_one(&command.in);
	close_one(&command.out);
	close_one(&command.err);
	close_one(&command.clock);
	gnutls_memset(command.request, 0, sizeof(command.request));
	gnutls_memset(command.answer, 0, sizeof(command.answer));
	return rc;
}
