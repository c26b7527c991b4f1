/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_agent.c -- cleave attach, detach, exports: a volume as a disk of this machine
 *
 * They ask the agent of this machine at its control socket (nbd_control.h has the questions):
 *
 *	--agent, $CLEAVE_AGENT             that one; attach starts it where none answers
 *	the service's, /run/cleave/agent   where it may be asked, or is set up (/etc/cleave/agent.conf) and does not run
 *	cleave-agent of this user          attach starts it where none answers
 *
 * The agent outlives the command. What it exports lasts no longer than it does, but for attach --persistent: a line in the
 * file that the agent reads at its start (library/exports_file.h), which is written here: a service may not write it.
 */
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
#include "library/exports_file.h"
#include "table.h"

#define AGENT_ENVIRONMENT "CLEAVE_AGENT"
#define AGENT_SOCKET_NAME "cleave-agent"
#define AGENT_SERVICE_SOCKET "/run/cleave/agent"
#define AGENT_SERVICE_CONFIG "/etc/cleave/agent.conf"
#define AGENT_SERVICE_EXPORTS "/etc/cleave/exports"
#define AGENT_REPLY_BYTES_MAX (256u * 1024u)
#define AGENT_ARGUMENTS_MAX (COMMAND_AGENT_WORDS_MAX + 4)
#define AGENT_WAIT_S 30

/* ---- asking ---- */

/* The agent that was named; NULL: none was. */
static const char *
agent_given(const struct command_session *session)
{
	const char *given = session->options->agent;

	if (given == NULL)
		given = getenv(AGENT_ENVIRONMENT);
	return given == NULL || *given == '\0' ? NULL : given;
}

static int
agent_path(struct command_session *session, char out[PATH_MAX])
{
	const char *given = agent_given(session);
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
agent_connect(const char *path)
{
	const struct timeval limit = { .tv_sec = AGENT_WAIT_S };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	int rc;

	assert(strlen(path) < sizeof(address.sun_path)); /* agent_path */
	if (fd < 0)
		return -errno;
	memcpy(address.sun_path, path, strlen(path) + 1);
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0 &&
	    connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	rc = -errno;
	(void)close(fd);
	return rc;
}

/* @request is taken over. 0 and the reply, an object; else session->error. */
static int
agent_ask(struct command_session *session, int fd, json_t *request, json_t **ret_reply)
{
	char *text = request == NULL ? NULL : json_dumps(request, JSON_COMPACT);
	char *answer = malloc(AGENT_REPLY_BYTES_MAX);
	const char *error;
	json_t *reply = NULL;
	ssize_t n = -1;

	assert(*ret_reply == NULL);
	assert(fd >= 0);
	json_decref(request);
	if (text != NULL && answer != NULL && send(fd, text, strlen(text), MSG_NOSIGNAL) >= 0)
		n = recv(fd, answer, AGENT_REPLY_BYTES_MAX, 0);
	if (n > 0)
		reply = json_loadb(answer, (size_t)n, 0, NULL);
	free(text);
	free(answer);
	if (!json_is_object(reply)) {
		json_decref(reply);
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

/*
 * All exports, part by part, as one answer to @op, "list" or "reload". An agent of a release that knows no parts has one.
 * 0 and the reply, an object; else session->error.
 */
static int
agent_list(struct command_session *session, int fd, const char *op, json_t **ret_reply)
{
	json_t *whole = NULL, *part = NULL;
	int rc = agent_ask(session, fd, json_pack("{s:s, s:s}", "op", op, "after", ""), &whole);
	bool is_more = rc == 0 && json_is_true(json_object_get(whole, "more"));

	assert(*ret_reply == NULL);
	while (is_more) {
		const char *after = last_name(whole);

		rc = agent_ask(session, fd, json_pack("{s:s, s:s}", "op", "list", "after", after),
		    &part);
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
			if (poll(fds, 2, AGENT_WAIT_S * 1000) <= 0 || fds[1].revents != 0)
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

/* ---- commands ---- */

/*
 * The service's agent, where nobody named another one. 0 and *@ret_fd, which is -1 where there is no service, or it is not
 * this user's to ask: then another agent is meant.
 */
static int
agent_open_service(struct command_session *session, int *ret_fd)
{
	int fd;

	*ret_fd = -1;
	if (agent_given(session) != NULL)
		return 0;
	fd = agent_connect(AGENT_SERVICE_SOCKET);
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

/* Connected to the agent, which is started where @may_start and none answers. */
static int
agent_open(struct command_session *session, bool may_start, int *ret_fd)
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
	fd = agent_connect(path);
	if ((fd == -ENOENT || fd == -ECONNREFUSED) && session->options->is_persistent)
		return command_fail(session, fd,
		    "no agent answers at %.90s, and one that is started for this would not outlive the "
		    "machine's restart: set the service up, see cleave-agent(8)",
		    path);
	if ((fd == -ENOENT || fd == -ECONNREFUSED) && may_start) {
		rc = agent_start(session, path);
		if (rc != 0)
			return rc;
		fd = agent_connect(path);
	}
	if (fd < 0)
		return command_fail(session, fd, "no agent answers at %.90s: %s", path,
		    strerror(-fd));
	*ret_fd = fd;
	return 0;
}

/* An agent that nobody named does not choose what a user, who may be root, writes to. 0, or session->error. */
static int
agent_check_file(struct command_session *session, const char *path)
{
	assert(path != NULL);
	if (agent_given(session) != NULL || path[0] == '\0' ||
	    strcmp(path, AGENT_SERVICE_EXPORTS) == 0)
		return 0;
	return command_fail(session, -EPERM,
	    "the agent's file of exports is %.100s, not " AGENT_SERVICE_EXPORTS
	    ": name that agent with --agent PATH to have it written",
	    path);
}

/* "": it has none, or is of a release that tells none. */
static const char *
exports_file_of(const json_t *reply)
{
	const char *path = json_string_value(json_object_get(reply, "exports_file"));

	return path == NULL ? "" : path;
}

/* The line, and the agent reads it: from then on the file has what the agent exports. @reply: to the attach. */
static int
attach_persist(struct command_session *session, int fd, const json_t *reply)
{
	const struct command_options *options = session->options;
	const char *path = exports_file_of(reply);
	struct exports_line line = { .is_read_only = options->is_read_only };
	char error[EXPORTS_FILE_ERROR_BYTES];
	json_t *exports = NULL;
	int rc;

	assert(options->is_persistent && options->name != NULL);
	if (path[0] == '\0')
		return command_fail(session, -ENOTSUP,
		    "'%.64s' is attached, but not for good: the agent is of a release that cannot do that",
		    options->name);
	rc = agent_check_file(session, path);
	if (rc != 0)
		return rc;
	(void)snprintf(line.name, sizeof(line.name), "%s", options->name);
	rc = exports_file_put(path, &line, error);
	if (rc != 0)
		return command_fail(session, rc, "'%.64s' is attached, but not for good: %.300s",
		    options->name, error);
	rc = agent_ask(session, fd, json_pack("{s:s, s:s}", "op", "reload", "after", ""), &exports);
	json_decref(exports);
	return rc;
}

/* 0, also when there is no line for it. */
static int
detach_forget(struct command_session *session, const char *path, bool *ret_had_line)
{
	char error[EXPORTS_FILE_ERROR_BYTES];
	int rc = agent_check_file(session, path);

	*ret_had_line = false;
	if (rc != 0)
		return rc;
	rc = path[0] == '\0' ? 1 : exports_file_remove(path, session->options->name, error);
	*ret_had_line = rc == 0;
	return rc < 0
	    ? command_fail(session, rc,
		  "'%.64s' is not attached any more, but will be when the agent is started again: "
		  "%.300s",
		  session->options->name, error)
	    : 0;
}

/* A name of nothing is refused here, not when a client comes. */
static int
attach_find(struct command_session *session)
{
	const char *name = session->options->name;
	struct cleave_snapshot *snapshots = NULL;
	struct cleave_volume_info info;
	uint32_t count = 0, i = 0;
	int rc = command_find_volume(session, &info);

	if (rc != 0 || strchr(name, '@') == NULL)
		return rc;
	rc = command_snapshots_of(session, info.name, &snapshots, &count);
	while (rc == 0 && i < count && strcmp(snapshots[i].name, name) != 0)
		i++;
	free(snapshots);
	return rc == 0 && i == count
	    ? command_fail(session, -ENOENT, "snapshot '%.128s': no such snapshot", name)
	    : rc;
}

int
command_attach(struct command_session *session)
{
	const struct command_options *options = session->options;
	json_t *reply = NULL;
	int fd, rc;

	assert(options->name != NULL);
	rc = attach_find(session);
	if (rc == 0)
		rc = agent_open(session, true, &fd);
	if (rc != 0)
		return rc;
	rc = agent_ask(session, fd,
	    json_pack("{s:s, s:s, s:b, s:b}", "op", "attach", "name", options->name, "read_only",
		(int)options->is_read_only, "persistent", (int)options->is_persistent),
	    &reply);
	if (rc == 0 && options->is_persistent)
		rc = attach_persist(session, fd, reply);
	(void)close(fd);
	if (rc != 0) {
		json_decref(reply);
		return rc;
	}
	if (options->is_json)
		rc = command_print_json(reply, session->out);
	else
		fprintf(session->out, "%s\n", command_text(reply, "uri"));
	json_decref(reply);
	return rc;
}

static bool
list_has(const json_t *list, const char *name)
{
	const json_t *export;
	size_t i;

	assert(name != NULL);
	json_array_foreach(json_object_get(list, "exports"), i, export)
	{
		if (strcmp(command_text(export, "name"), name) == 0)
			return true;
	}
	return false;
}

/* A line of the file goes also where the agent exports nothing for it, because it was not read yet. */
int
command_detach(struct command_session *session)
{
	const struct command_options *options = session->options;
	json_t *list = NULL, *reply = NULL;
	bool had_line = false, is_there = false;
	int fd, rc = agent_open(session, false, &fd);

	assert(options->name != NULL);
	if (rc != 0)
		return rc;
	rc = agent_list(session, fd, "list", &list);
	if (rc == 0)
		is_there = list_has(list, options->name);
	if (rc == 0 && is_there)
		rc = agent_ask(session, fd,
		    json_pack("{s:s, s:s, s:b}", "op", "detach", "name", options->name, "force",
			(int)options->is_forced),
		    &reply);
	if (rc == 0)
		rc = detach_forget(session, exports_file_of(list), &had_line);
	if (rc == 0 && !is_there && !had_line)
		rc = command_fail(session, -ENOENT, "'%.64s' is not attached", options->name);
	(void)close(fd);
	/* The agent was told nothing of a line alone: it has no reply. */
	if (rc == 0 && options->is_json && reply == NULL)
		reply = json_object();
	if (rc == 0 && options->is_json)
		rc = reply == NULL ? -ENOMEM : command_print_json(reply, session->out);
	json_decref(reply);
	json_decref(list);
	return rc;
}

static int
print_exports(const json_t *reply, FILE *out)
{
	static const struct table_column columns[] = { { "NAME", false }, { "STATE", false },
		{ "ACCESS", false }, { "CLIENTS", true }, { "PERSISTENT", false }, { "URI", false },
		{ "PROBLEM", false } };
	struct table *table = table_create(columns, NUM_COUNT(columns));
	const json_t *export, *problem;
	size_t i;
	int rc;

	assert(reply != NULL && out != NULL);
	json_array_foreach(json_object_get(reply, "exports"), i, export)
	{
		const char *lost = command_text(export, "lost");

		table_add(table, "%s", command_text(export, "name"));
		table_add(table, "%s", command_text(export, "state"));
		table_add(table, "%s",
		    json_is_true(json_object_get(export, "read_only")) ? "read" : "write");
		table_add(table, "%llu", (unsigned long long)command_u64(export, "users"));
		table_add(table, "%s",
		    json_is_true(json_object_get(export, "persistent")) ? "yes" : "no");
		table_add(table, "%s", command_text(export, "uri"));
		table_add(table, "%s", lost[0] != '\0' ? lost : command_text(export, "problem"));
	}
	rc = table_print(table, 0, out);
	table_destroy(table);
	json_array_foreach(json_object_get(reply, "exports_file_problems"), i, problem)
	    fprintf(out, "%s\n", json_string_value(problem));
	return rc;
}

int
command_exports(struct command_session *session)
{
	json_t *reply = NULL;
	int fd, rc = agent_open(session, false, &fd);

	assert(session->options->name == NULL);
	if (rc != 0)
		return rc;
	rc = agent_list(session, fd, session->options->must_reload ? "reload" : "list", &reply);
	(void)close(fd);
	if (rc != 0)
		return rc;
	rc = session->options->is_json ? command_print_json(reply, session->out)
				       : print_exports(reply, session->out);
	json_decref(reply);
	return rc;
}
