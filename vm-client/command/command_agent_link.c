/* SPDX-License-Identifier: Apache-2.0 */
/* command_agent_link.c -- see command_agent_link.h */
#include "command_agent_link.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/check.h"
#include "base/num.h"
#include "command.h"

#define AGENT_ENVIRONMENT "CLEAVE_AGENT"
#define AGENT_SOCKET_NAME "cleave-agent"
#define AGENT_SERVICE_SOCKET "/run/cleave/agent"
#define AGENT_SERVICE_CONFIG "/etc/cleave/agent.conf"
#define AGENT_REPLY_BYTES_MAX (256u * 1024u)
#define AGENT_ARGUMENTS_MAX (COMMAND_AGENT_WORDS_MAX + 4)
#define AGENT_START_S 30 /* that one which is started may take */

/* ---- asking ---- */

const char *
command_agent_given(const struct command_session *session)
{
	const char *given = session->options->agent;

	if (given == NULL)
		given = getenv(AGENT_ENVIRONMENT);
	return given == NULL || *given == '\0' ? NULL : given;
}

static int
agent_path(struct command_session *session, char out[PATH_MAX])
{
	const char *given = command_agent_given(session);
	const char *folder = getenv("XDG_RUNTIME_DIR");
	int n;

	assert(out != NULL);
	if (given != NULL)
		n = snprintf(out, PATH_MAX, "%s", given);
	else
		n = snprintf(out, PATH_MAX, "%s/%s",
		    folder != NULL && *folder != '\0' ? folder : "/run", AGENT_SOCKET_NAME);
	if ((size_t)n >= sizeof(((struct sockaddr_un *)0)->sun_path) - sizeof(".nbd"))
		return command_fail(session, -ENAMETOOLONG,
		    "--agent: %.80s...: too long for a unix socket", out);
	return 0;
}

static int
agent_connect(const struct command_session *session, const char *path)
{
	uint64_t ns = session->options->timeout_ns;
	/* Never zero, which is for ever: --timeout is at least a millisecond. */
	const struct timeval limit = { .tv_sec = (time_t)(ns / NUM_S(1)),
		.tv_usec = (suseconds_t)(ns % NUM_S(1) / NUM_US(1)) };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	int rc;

	assert(strlen(path) < sizeof(address.sun_path)); /* agent_path */
	if (fd < 0)
		return -errno;
	memcpy(address.sun_path, path, strlen(path) + 1);
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0 &&
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) == 0 &&
	    connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	rc = -errno;
	(void)close(fd);
	return rc;
}

int
command_agent_ask(struct command_session *session, int fd, json_t *request, json_t **ret_reply)
{
	char *text = request == NULL ? NULL : json_dumps(request, JSON_COMPACT);
	char *answer = malloc(AGENT_REPLY_BYTES_MAX);
	const char *error;
	json_t *reply = NULL;
	ssize_t n = -1;
	bool is_late = false;

	assert(*ret_reply == NULL);
	assert(fd >= 0);
	json_decref(request);
	if (text != NULL && answer != NULL && send(fd, text, strlen(text), MSG_NOSIGNAL) >= 0) {
		n = recv(fd, answer, AGENT_REPLY_BYTES_MAX, 0);
		is_late = n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
	}
	if (n > 0)
		reply = json_loadb(answer, (size_t)n, 0, NULL);
	free(text);
	free(answer);
	if (!json_is_object(reply)) {
		json_decref(reply);
		if (is_late)
			return command_fail(session, -ETIMEDOUT,
			    "the agent has not answered in time (--timeout)");
		return command_fail(session, -EPROTO,
		    "the agent does not answer, or has just ended: try again, and look into its "
		    "log");
	}
	error = json_string_value(json_object_get(reply, "error"));
	if (error != NULL) {
		(void)command_fail(session, -EINVAL, "agent: %.200s", error);
		json_decref(reply);
		return -EINVAL;
	}
	*ret_reply = reply;
	return 0;
}

/* The last of @list's exports; "": there are none. */
static const char *
last_name(const json_t *list)
{
	const json_t *exports = json_object_get(list, "exports");
	size_t count = json_array_size(exports);

	return count == 0 ? "" : command_text(json_array_get(exports, count - 1), "name");
}

int
command_agent_list(struct command_session *session, int fd, const char *op, json_t **ret_reply)
{
	json_t *whole = NULL, *part = NULL;
	int rc =
	    command_agent_ask(session, fd, json_pack("{s:s, s:s}", "op", op, "after", ""), &whole);
	bool is_more = rc == 0 && json_is_true(json_object_get(whole, "more"));

	assert(*ret_reply == NULL);
	while (is_more) {
		const char *after = last_name(whole);

		rc = command_agent_ask(session, fd,
		    json_pack("{s:s, s:s}", "op", "list", "after", after), &part);
		if (rc == 0 && strcmp(last_name(part), after) <= 0 &&
		    json_array_size(json_object_get(part, "exports")) > 0)
			rc = command_fail(session, -EPROTO, "the agent's list has no order");
		if (rc == 0 &&
		    json_array_extend(json_object_get(whole, "exports"),
			json_object_get(part, "exports")) != 0)
			rc = command_fail(session, -EPROTO, "the agent's list has no exports");
		is_more = rc == 0 && json_is_true(json_object_get(part, "more")) &&
		    json_array_size(json_object_get(part, "exports")) > 0;
		json_decref(part);
		part = NULL;
	}
	(void)json_object_del(whole, "more");
	if (rc == 0)
		*ret_reply = whole;
	else
		json_decref(whole);
	return rc;
}

/* ---- starting one ---- */

static void
agent_program(char out[PATH_MAX])
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	assert(out != NULL);
	(void)snprintf(out, PATH_MAX, "cleave-agent");
	if (n <= 0)
		return;
	self[n] = '\0';
	if (snprintf(out, PATH_MAX, "%s/cleave-agent", dirname(self)) >= PATH_MAX ||
	    access(out, X_OK) != 0)
		(void)snprintf(out, PATH_MAX, "cleave-agent");
}

int
command_agent_words(const struct command_session *session, char program[PATH_MAX],
    const char **ret_argv)
{
	const struct command_options *options = session->options;
	const char *const pairs[][2] = { { "--key", options->secure.key },
		{ "--security", options->secure.security },
		{ "--revoked", options->secure.revoked } };
	int count = 0;

	agent_program(program);
	ret_argv[count++] = program;
	for (uint32_t i = 0; i < options->gateways.count; i++) {
		ret_argv[count++] = "--gateway";
		ret_argv[count++] = options->gateways.items[i];
	}
	for (uint32_t i = 0; i < NUM_COUNT(pairs); i++) {
		if (pairs[i][1] == NULL)
			continue; /* the environment is the agent's, too */
		ret_argv[count++] = pairs[i][0];
		ret_argv[count++] = pairs[i][1];
	}
	assert((size_t)count <= COMMAND_AGENT_WORDS_MAX);
	return count;
}

/* In the child: a process of its own session, whose log goes to @log. Does not return. */
static void
agent_exec(const struct command_session *session, const char *control, int log)
{
	char program[PATH_MAX], listen[PATH_MAX + 16];
	const char *argv[AGENT_ARGUMENTS_MAX + 1];
	int count = command_agent_words(session, program, argv);

	assert(log >= 0 && control[0] != '\0');
	(void)snprintf(listen, sizeof(listen), "unix:%s.nbd", control);
	argv[count++] = "--control";
	argv[count++] = control;
	argv[count++] = "--listen";
	argv[count++] = listen;
	assert((size_t)count <= AGENT_ARGUMENTS_MAX);
	argv[count] = NULL;
	(void)setsid();
	if (dup2(log, STDERR_FILENO) >= 0 && dup2(open("/dev/null", O_RDWR), STDIN_FILENO) >= 0 &&
	    dup2(STDIN_FILENO, STDOUT_FILENO) >= 0)
		(void)execvp(program, (char *const *)(uintptr_t)argv);
	_exit(127);
}

static bool
log_says_ready(const char *log_path)
{
	char text[4096];
	int fd = open(log_path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	assert(log_path[0] != '\0');
	if (fd >= 0)
		(void)close(fd);
	text[n > 0 ? n : 0] = '\0';
	return strstr(text, "agent: ready") != NULL;
}

/* Until its log says that it is ready, or it has ended. */
static bool
agent_wait_ready(const char *log_path, pid_t pid)
{
	char events[sizeof(struct inotify_event) + NAME_MAX + 1];
	struct pollfd fds[2] = { { .fd = inotify_init1(IN_CLOEXEC), .events = POLLIN },
		{ .fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN } };
	bool is_ready = false;

	assert(pid > 0);
	if (fds[0].fd >= 0 && fds[1].fd >= 0 &&
	    inotify_add_watch(fds[0].fd, log_path, IN_MODIFY) >= 0) {
		while (!(is_ready = log_says_ready(log_path))) {
			if (poll(fds, 2, AGENT_START_S * 1000) <= 0 || fds[1].revents != 0)
				break;
			(void)!read(fds[0].fd, events,
			    sizeof(events)); /* only that there was one */
		}
	}
	for (int i = 0; i < 2; i++)
		if (fds[i].fd >= 0)
			(void)close(fds[i].fd);
	return is_ready;
}

static int
agent_start(struct command_session *session, const char *control)
{
	char log_path[PATH_MAX + 8];
	int log;
	pid_t pid;

	assert(session->options->gateways.count <= CLEAVE_GATEWAYS_MAX);
	assert(control[0] != '\0');
	(void)snprintf(log_path, sizeof(log_path), "%s.log", control);
	log = open(log_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (log < 0)
		return command_fail(session, -errno, "%.200s: %s", log_path, strerror(errno));
	pid = fork();
	if (pid == 0)
		agent_exec(session, control, log);
	(void)close(log);
	if (pid < 0)
		return command_fail(session, -errno, "cannot start cleave-agent: %s",
		    strerror(errno));
	if (!agent_wait_ready(log_path, pid))
		return command_fail(session, -ECHILD, "cleave-agent did not start, see %.200s",
		    log_path);
	return 0;
}

/* ---- which one ---- */

/*
 * The service's agent, where nobody named another one. 0 and *@ret_fd, which is -1 where there is no service, or it is not
 * this user's to ask: then another agent is meant.
 */
static int
agent_open_service(struct command_session *session, int *ret_fd)
{
	int fd;

	*ret_fd = -1;
	if (command_agent_given(session) != NULL)
		return 0;
	fd = agent_connect(session, AGENT_SERVICE_SOCKET);
	if (fd >= 0) {
		*ret_fd = fd;
		return 0;
	}
	if ((fd != -ENOENT && fd != -ECONNREFUSED) || access(AGENT_SERVICE_CONFIG, R_OK) != 0)
		return 0;
	return command_fail(session, fd,
	    "this machine's agent does not run (" AGENT_SERVICE_SOCKET
	    ", set up in " AGENT_SERVICE_CONFIG "): systemctl enable --now cleave-agent.service; "
	    "or name another one with --agent PATH");
}

int
command_agent_open(struct command_session *session, bool may_start, int *ret_fd)
{
	char path[PATH_MAX];
	int rc = agent_open_service(session, ret_fd);
	int fd;

	assert(session->out != NULL && ret_fd != NULL);
	if (rc == 0 && *ret_fd >= 0)
		return 0;
	if (rc == 0)
		rc = agent_path(session, path);
	if (rc != 0)
		return rc;
	fd = agent_connect(session, path);
	if ((fd == -ENOENT || fd == -ECONNREFUSED) && session->options->is_persistent)
		return command_fail(session, fd,
		    "no agent answers at %.90s, and one that is started for this would not outlive the "
		    "machine's restart: set the service up, see cleave-agent(8)",
		    path);
	if ((fd == -ENOENT || fd == -ECONNREFUSED) && may_start) {
		rc = agent_start(session, path);
		if (rc != 0)
			return rc;
		fd = agent_connect(session, path);
	}
	if (fd < 0)
		return command_fail(session, fd, "no agent answers at %.90s: %s", path,
		    strerror(-fd));
	*ret_fd = fd;
	return 0;
}
