/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_user.c -- cleave user: what clients with a key may do with which volumes
 *
 * A right is typed as PATTERN:LETTERS, and printed so: a volume's name has no colon.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "command.h"
#include "command_ask.h"
#include "table.h"

#define USER_PAGES_MAX 1024u

/* ---- looked at ---- */

static bool
user_is_disabled(const json_t *user)
{
	return json_is_true(json_object_get(user, "disabled"));
}

static void
user_print_rights(const json_t *user, FILE *out)
{
	const json_t *right;
	size_t i;

	json_array_foreach(json_object_get(user, "rights"), i, right) fprintf(out, "%s%s:%s",
	    i == 0 ? "" : " ", command_text(right, "volumes"), command_text(right, "may"));
}

/* A page behind the last of @users, into them. 0; 1: there are more. */
static int
users_ask_page(struct command_session *session, json_t *users)
{
	const json_t *last = json_array_get(users, json_array_size(users) - 1);
	json_t *reply = NULL, *page;
	int rc = command_ask(session,
	    json_pack("{s:s, s:s*}", "op", "user.list", "after",
		last == NULL ? NULL : command_text(last, "name")),
	    false, &reply);

	page = json_object_get(reply, "users");
	if (rc == 0 && !json_is_array(page))
		rc = command_fail(session, -EPROTO, "the gateway's list of users cannot be read");
	if (rc == 0 && json_array_extend(users, page) != 0)
		rc = command_fail(session, -ENOMEM, "out of memory");
	if (rc == 0 && json_is_true(json_object_get(reply, "more")) && json_array_size(page) > 0)
		rc = 1;
	json_decref(reply);
	return rc;
}

int
command_ask_users(struct command_session *session, json_t **ret_reply)
{
	json_t *users = json_array();
	uint32_t pages = 0;
	int rc = users == NULL ? -ENOMEM : 1;

	while (rc == 1) {
		rc = pages++ < USER_PAGES_MAX
		    ? users_ask_page(session, users)
		    : command_fail(session, -EPROTO, "the gateway's list of users has no end");
	}
	*ret_reply = rc == 0 ? json_pack("{s:O}", "users", users) : NULL;
	json_decref(users);
	return rc == 0 && *ret_reply == NULL ? -ENOMEM : rc;
}

static int
users_print(const json_t *users, FILE *out)
{
	static const struct table_column columns[] = { { "USER", false }, { "STATE", false },
		{ "MAY", false } };
	struct table *table = table_create(columns, NUM_COUNT(columns));
	const json_t *user;
	size_t i;
	int rc;

	if (table == NULL)
		return -ENOMEM;
	json_array_foreach(users, i, user)
	{
		char *rights = NULL;
		size_t bytes = 0;
		FILE *text = open_memstream(&rights, &bytes);

		if (text != NULL) {
			user_print_rights(user, text);
			(void)fclose(text);
		}
		table_add(table, "%s", command_text(user, "name"));
		table_add(table, "%s", user_is_disabled(user) ? "disabled" : "enabled");
		table_add(table, "%s", rights == NULL || rights[0] == '\0' ? "-" : rights);
		free(rights);
	}
	rc = table_print(table, 0, out);
	table_destroy(table);
	return rc;
}

int
command_user_list(struct command_session *session)
{
	json_t *reply = NULL;
	int rc = command_ask_users(session, &reply);

	assert(session->client != NULL && session->out != NULL);
	if (rc == 0)
		rc = session->options->is_json
		    ? command_print_json(reply, session->out)
		    : users_print(json_object_get(reply, "users"), session->out);
	json_decref(reply);
	return rc;
}

int
command_user_show(struct command_session *session)
{
	const struct command_options *options = session->options;
	json_t *reply = NULL;
	const json_t *user, *right;
	size_t i;
	int rc = command_ask(session,
	    json_pack("{s:s, s:s}", "op", "user.show", "name", options->name), false, &reply);

	assert(options->name != NULL);
	user = json_object_get(reply, "user");
	if (rc == 0 && options->is_json) {
		rc = command_print_json(reply, session->out);
	} else if (rc == 0) {
		fprintf(session->out, "user: %s\nkey: client/%s\nstate: %s\n",
		    command_text(user, "name"), command_text(user, "name"),
		    user_is_disabled(user) ? "disabled: none of this counts" : "enabled");
		json_array_foreach(json_object_get(user, "rights"), i, right) fprintf(session->out,
		    "may: %s %s\n", command_text(right, "may"), command_text(right, "volumes"));
	}
	json_decref(reply);
	return rc;
}

/* ---- changed ---- */

/* Words PATTERN:LETTERS, as a request has them; NULL with an error set. */
static json_t *
user_rights(struct command_session *session)
{
	const struct command_options *options = session->options;
	json_t *rights = json_array();

	for (uint32_t i = 0; i < options->file_count; i++) {
		const char *word = options->files[i], *colon = strchr(word, ':');

		if (colon == NULL || colon == word || colon[1] == '\0') {
			(void)command_fail(session, -EINVAL,
			    "'%.80s' is no right: PATTERN:LETTERS, such as 'db-*:rw'", word);
			json_decref(rights);
			return NULL;
		}
		json_array_append_new(rights,
		    json_pack("{s:s%, s:s}", "volumes", word, (size_t)(colon - word), "may",
			colon + 1));
	}
	if (rights == NULL || json_array_size(rights) != options->file_count) {
		(void)command_fail(session, -ENOMEM, "out of memory");
		json_decref(rights);
		return NULL;
	}
	return rights;
}

static int
user_change(struct command_session *session, json_t *request, const char *done)
{
	json_t *reply = NULL;
	int rc = command_ask(session, request, true, &reply);

	if (rc == 0 && session->options->is_json)
		rc = command_print_json(reply, session->out);
	else if (rc == 0)
		fprintf(session->out, "%s: %s\n", session->options->name, done);
	json_decref(reply);
	return rc;
}

int
command_user_add(struct command_session *session)
{
	const struct command_options *options = session->options;
	json_t *rights;

	assert(options->name != NULL);
	rights = user_rights(session);
	if (rights == NULL)
		return -EINVAL;
	return user_change(session,
	    json_pack("{s:s, s:s, s:o, s:b}", "op", "user.add", "name", options->name, "rights",
		rights, "disabled", options->is_disable),
	    "added");
}

int
command_user_set(struct command_session *session)
{
	const struct command_options *options = session->options;
	json_t *rights = NULL, *request;

	assert(options->name != NULL);
	if (options->is_enable && options->is_disable)
		return command_fail(session, -EINVAL, "--enable and --disable: one of them");
	if (options->file_count == 0 && !options->is_enable && !options->is_disable)
		return command_fail(session, -EINVAL,
		    "say what it may, such as 'db-*:rw', or --disable, or --enable");
	if (options->file_count > 0) {
		rights = user_rights(session);
		if (rights == NULL)
			return -EINVAL;
	}
	request = json_pack("{s:s, s:s, s:o*}", "op", "user.set", "name", options->name, "rights",
	    rights);
	if (options->is_enable || options->is_disable)
		json_object_set_new(request, "disabled", json_boolean(options->is_disable));
	return user_change(session, request, "set");
}

int
command_user_remove(struct command_session *session)
{
	return user_change(session,
	    json_pack("{s:s, s:s}", "op", "user.remove", "name", session->options->name),
	    "removed");
}
