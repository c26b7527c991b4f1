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
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/num.h"
#include "command.h"
#include "command_agent_link.h"
#include "library/exports_file.h"
#include "table.h"

#define AGENT_SERVICE_EXPORTS "/etc/cleave/exports"

/* An agent that nobody named does not choose what a user, who may be root, writes to. 0, or session->error. */
static int
agent_check_file(struct command_session *session, const char *path)
{
	assert(path != NULL);
	if (command_agent_given(session) != NULL || path[0] == '\0' ||
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
	rc = command_agent_ask(session, fd, json_pack("{s:s, s:s}", "op", "reload", "after", ""),
	    &exports);
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
		rc = command_agent_open(session, true, &fd);
	if (rc != 0)
		return rc;
	rc = command_agent_ask(session, fd,
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
	int fd, rc = command_agent_open(session, false, &fd);

	assert(options->name != NULL);
	if (rc != 0)
		return rc;
	rc = command_agent_list(session, fd, "list", &list);
	if (rc == 0)
		is_there = list_has(list, options->name);
	if (rc == 0 && is_there)
		rc = command_agent_ask(session, fd,
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
	int fd, rc = command_agent_open(session, false, &fd);

	assert(session->options->name == NULL);
	if (rc != 0)
		return rc;
	rc = command_agent_list(session, fd, session->options->must_reload ? "reload" : "list",
	    &reply);
	(void)close(fd);
	if (rc != 0)
		return rc;
	rc = session->options->is_json ? command_print_json(reply, session->out)
				       : print_exports(reply, session->out);
	json_decref(reply);
	return rc;
}
