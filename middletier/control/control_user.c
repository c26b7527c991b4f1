/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_user.c -- users: what clients may do with which volumes
 *
 *	{"op":"user.list","after":NAME}                               {"users":[USER, ...],"more":false}
 *	{"op":"user.show","name":NAME}                                {"user":USER}
 *	{"op":"user.add","name":NAME,"rights":[{"volumes":PATTERN,"may":LETTERS}, ...],"disabled":false}
 *	{"op":"user.set","name":NAME,"rights":[...],"disabled":BOOL}  what is not named stays; as user.add: {"user":USER}
 *	{"op":"user.remove","name":NAME}                              {}
 *
 *	the users are read --> one transaction --> read anew: the ports know --> answered
 *
 * Other gateways know when their watch fires.
 */
#include "control/control_user.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "base/reader.h"
#include "catalog/user_key.h"
#include "cleave/level.h"
#include "cleave/meta.h"
#include "cluster/gateway_state.h"
#include "cluster/users.h"
#include "control/control_change.h"
#include "control/control_request.h"

#define USERS_PER_LIST 32u
#define USER_RIGHTS_TEXT_BYTES 128u /* of an event's text, which has more to say */

_Static_assert(MT_NAME_BYTES == SPLIT_NAME_BYTES_MAX, "change.new_name has a user's name");

/* ---- what is asked ---- */

/* The member "name", with the @count others of @more. False, and the request has ended. */
static bool
user_take(struct mt_control_request *request, const struct reader_member *more, uint32_t count)
{
	const char *name = "", *problem;
	struct reader_member members[4] = {
		{ "name", READER_TEXT, true, 0, 0, { .text = &name } },
	};
	char error[MT_ERROR_BYTES];
	int rc;

	assert(request->sm.state == MT_CONTROL_RUNNING && count < NUM_COUNT(members));
	for (uint32_t i = 0; i < count; i++)
		members[1 + i] = more[i];
	rc = reader_strict(request->in, members, 1 + count, error);
	problem = rc == 0 ? mt_user_name_check(name) : NULL;
	if (rc != 0)
		mt_control_fail(request, rc, error);
	else if (problem != NULL)
		mt_control_refuse(request, -EINVAL, "name: '%.80s' %s", name, problem);
	else
		(void)snprintf(request->change.new_name, sizeof(request->change.new_name), "%s",
		    name);
	return rc == 0 && problem == NULL;
}

/* The users as the store has them now, then @fn. */
static void
user_read(struct mt_control_request *request, void (*fn)(int rc, void *arg))
{
	assert(request->sm.state == MT_CONTROL_RUNNING);
	request->waiter = (struct mt_volumes_waiter){ .fn = fn, .arg = request };
	mt_users_read(request->gateway, &request->waiter);
}

/* user_read has come back: false, and the request has ended, or its port goes and takes it along. */
static bool
user_is_read(struct mt_control_request *request, int rc)
{
	if (rc != 0 && rc != -ECANCELED)
		mt_control_fail(request, rc, MT_CONTROL_NO_STORE);
	return rc == 0;
}

/* The request's user; NULL: there is none. */
static const struct mt_user *
user_find(const struct mt_control_request *request)
{
	assert(request->change.new_name[0] != '\0');
	return mt_user_table_find(&request->gateway->users.table, request->change.new_name);
}

static void
user_refuse_unknown(struct mt_control_request *request)
{
	mt_control_refuse(request, -ENOENT,
	    "user '%s': there is none: cleave user list shows them, cleave user add makes one",
	    request->change.new_name);
}

/* ---- looked at ---- */

static void
list_on_read(int rc, void *arg)
{
	struct mt_control_request *request = arg;
	const struct mt_user_table *table = &request->gateway->users.table;
	const char *after = json_string_value(json_object_get(request->in, "after"));
	json_t *list;
	bool is_more = false;

	if (!user_is_read(request, rc))
		return;
	list = json_array();
	for (uint32_t i = 0; i < table->count && !is_more; i++) {
		if (after != NULL && strcmp(table->entries[i].name, after) <= 0)
			continue;
		is_more = json_array_size(list) == USERS_PER_LIST;
		if (!is_more)
			json_array_append_new(list, mt_user_json(&table->entries[i]));
	}
	mt_control_finish(request, json_pack("{s:o, s:b}", "users", list, "more", is_more));
}

void
mt_control_user_list(struct mt_control_request *request)
{
	const char *after = "";
	char error[MT_ERROR_BYTES];
	const struct reader_member members[] = {
		{ "after", READER_TEXT, false, 0, SPLIT_NAME_BYTES_MAX - 1, { .text = &after } },
	};
	int rc = reader_strict(request->in, members, NUM_COUNT(members), error);

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (rc != 0)
		mt_control_fail(request, rc, error);
	else
		user_read(request, list_on_read);
}

static void
show_on_read(int rc, void *arg)
{
	struct mt_control_request *request = arg;
	const struct mt_user *user;

	if (!user_is_read(request, rc))
		return;
	user = user_find(request);
	if (user == NULL)
		user_refuse_unknown(request);
	else
		mt_control_finish(request, json_pack("{s:o}", "user", mt_user_json(user)));
}

void
mt_control_user_show(struct mt_control_request *request)
{
	if (user_take(request, NULL, 0))
		user_read(request, show_on_read);
}

/* ---- changed ---- */

/* "db-*:rw golden:r", cut with "..." where it is longer. */
static void
user_rights_text(const struct mt_user *user, char ret_text[USER_RIGHTS_TEXT_BYTES])
{
	size_t bytes = 0;

	ret_text[0] = '\0';
	for (uint32_t i = 0; i < user->right_count; i++) {
		char may[MT_MAY_TEXT_BYTES], one[MT_PATTERN_BYTES + MT_MAY_TEXT_BYTES + 2];
		size_t next = (size_t)snprintf(one, sizeof(one), "%s%s:%s", i == 0 ? "" : " ",
		    user->rights[i].volumes, mt_may_text(user->rights[i].may, may));

		if (bytes + next + sizeof(" ...") > USER_RIGHTS_TEXT_BYTES) {
			(void)snprintf(ret_text + bytes, USER_RIGHTS_TEXT_BYTES - bytes, " ...");
			return;
		}
		memcpy(ret_text + bytes, one, next + 1);
		bytes += next;
	}
}

static void
change_on_known(int rc, void *arg)
{
	struct mt_control_request *request = arg;
	const char *what = strrchr(request->op->name, '.') + 1;
	const struct mt_user *user = user_find(request);
	char rights[USER_RIGHTS_TEXT_BYTES] = "";

	if (!user_is_read(request, rc))
		return;
	if (user != NULL)
		user_rights_text(user, rights);
	mt_control_event(request, CLEAVE_EVENT_USER_CHANGED, request->change.new_name,
	    "audit: user %s name=%s rights=\"%s\"%s", what, request->change.new_name, rights,
	    user != NULL && user->is_disabled ? " disabled" : "");
	mt_control_finish(request,
	    user == NULL ? json_object() : json_pack("{s:o}", "user", mt_user_json(user)));
}

/* The change is in the store; ports shall know before the answer. */
static void
change_on_made(struct mt_control_request *request)
{
	user_read(request, change_on_known);
}

/* @user as it shall be; version 0: it is new; NULL: the one of the request goes. */
static void
change_submit(struct mt_control_request *request, const struct mt_user *user, uint64_t version)
{
	char key[MT_USER_KEY_BYTES];
	char *text = user == NULL ? NULL : mt_user_encode(user);

	mt_user_key(request->change.new_name, key);
	{
		const struct meta_op ops[] = {
			mt_change_compare(key, version),
			user == NULL ? (struct meta_op){ .kind = META_DELETE, .key = key }
				     : mt_change_put(key, text),
		};

		mt_control_change(request, ops, NUM_COUNT(ops), change_on_made);
	}
	free(text);
}

/*
 * Letters for all volumes of a right's pattern: those of each right whose pattern has them all. A pattern fits another one's
 * text only then: '*' alone fits '*'.
 */
static unsigned
may_of_pattern(const struct mt_user *user, const char *volumes)
{
	unsigned may = 0;

	for (uint32_t i = 0; i < user->right_count; i++) {
		if (mt_pattern_fits(user->rights[i].volumes, volumes))
			may |= user->rights[i].may;
	}
	return may;
}

/*
 * Whoever writes reads, too, so w alone opens nothing: it is a mistake, told before a client finds it. With s it rolls
 * back. False, and the request has ended.
 */
static bool
change_check_writers(struct mt_control_request *request, const struct mt_user *user)
{
	for (uint32_t i = 0; i < user->right_count; i++) {
		const char *volumes = user->rights[i].volumes;
		unsigned may = may_of_pattern(user, volumes);
		char text[MT_MAY_TEXT_BYTES];

		if ((user->rights[i].may & MT_MAY_WRITE) == 0 ||
		    (may & (MT_MAY_READ | MT_MAY_SNAPSHOT)) != 0)
			continue;
		mt_control_refuse(request, -EINVAL,
		    "rights: '%s' has w and no r, without which nothing can be written: make it '%s:%s'",
		    volumes, volumes, mt_may_text(user->rights[i].may | MT_MAY_READ, text));
		return false;
	}
	return true;
}

/* @user becomes as the request says. False, and the request has ended. */
static bool
change_take(struct mt_control_request *request, struct mt_user *user)
{
	const json_t *rights = json_object_get(request->in, "rights");
	const json_t *is_disabled = json_object_get(request->in, "disabled");
	const char *problem = rights == NULL ? NULL : mt_user_rights_read(rights, user);

	if (is_disabled != NULL)
		user->is_disabled = json_is_true(is_disabled);
	if (problem != NULL)
		mt_control_fail(request, -EINVAL, problem);
	return problem == NULL && (rights == NULL || change_check_writers(request, user));
}

static void
add_on_read(int rc, void *arg)
{
	struct mt_control_request *request = arg;
	struct mt_user user = { .version = 0 };

	if (!user_is_read(request, rc))
		return;
	if (user_find(request) != NULL) {
		mt_control_refuse(request, -EEXIST,
		    "there is a user '%s' already: cleave user set changes what it may",
		    request->change.new_name);
		return;
	}
	if (request->gateway->users.table.count == MT_USERS_MAX) {
		mt_control_refuse(request, -ENOSPC,
		    "there are %u users, as many as can be: remove one first", MT_USERS_MAX);
		return;
	}
	(void)snprintf(user.name, sizeof(user.name), "%s", request->change.new_name);
	if (change_take(request, &user))
		change_submit(request, &user, 0);
}

static void
set_on_read(int rc, void *arg)
{
	struct mt_control_request *request = arg;
	const struct mt_user *old;
	struct mt_user user;

	if (!user_is_read(request, rc))
		return;
	old = user_find(request);
	if (old == NULL) {
		user_refuse_unknown(request);
		return;
	}
	user = *old;
	if (change_take(request, &user))
		change_submit(request, &user, old->version);
}

static void
remove_on_read(int rc, void *arg)
{
	struct mt_control_request *request = arg;
	const struct mt_user *old;

	if (!user_is_read(request, rc))
		return;
	old = user_find(request);
	if (old == NULL)
		user_refuse_unknown(request);
	else
		change_submit(request, NULL, old->version);
}

/* Without users a gateway of the release before would ask nobody for a right. */
static bool
change_is_allowed(struct mt_control_request *request)
{
	assert(request->op->is_change);
	return mt_control_has_level(request, CLEAVE_LEVEL_USERS, "which has no users");
}

static void
change_begin(struct mt_control_request *request, bool must_have_rights,
    void (*fn)(int rc, void *arg))
{
	json_t *rights = NULL;
	bool is_disabled = false;
	const struct reader_member members[] = {
		{ "rights", READER_ARRAY, must_have_rights, 0, 0, { .array = &rights } },
		{ "disabled", READER_BOOL, false, 0, 0, { .flag = &is_disabled } },
	};

	if (change_is_allowed(request) && user_take(request, members, NUM_COUNT(members)))
		user_read(request, fn);
}

void
mt_control_user_add(struct mt_control_request *request)
{
	change_begin(request, true, add_on_read);
}

void
mt_control_user_set(struct mt_control_request *request)
{
	change_begin(request, false, set_on_read);
}

void
mt_control_user_remove(struct mt_control_request *request)
{
	if (change_is_allowed(request) && user_take(request, NULL, 0))
		user_read(request, remove_on_read);
}
