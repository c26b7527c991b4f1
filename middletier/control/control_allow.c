/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_allow.c -- whether who asks may: the right of an op (cluster/rights.h), for the volumes that a request names
 *
 *	a role that has the right ------------------------------> it runs
 *	a client: each volume that the request names, by the op's names:
 *	  no letter for one ------------------------------------> "no such volume", whether there is one or not
 *	  not the letters that the right needs -----------------> RIGHT, with the letters
 *	  a name that is to be made: not "a" -------------------> RIGHT, whether there is such a volume or not
 *	  a volume that gets another name: letters more --------> RIGHT: who may alter one could read it, then
 *
 * So no answer depends on what is there of that which a client may not see: nobody looks it up.
 */
#include "control/control_allow.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mutant.h"
#include "base/num.h"
#include "base/plain.h"
#include "base/reader.h"
#include "catalog/volume.h"
#include "cluster/gateway_state.h"
#include "cluster/rights.h"
#include "control/control_request.h"
#include "control/control_trash.h"
#include "session/session.h"

#define ALLOW_NAME_BYTES (2 * MT_NAME_BYTES) /* what is longer is no volume's: the op refuses it */

const struct split_subject *
mt_control_subject(const struct mt_control_request *request)
{
	assert(request->is_busy && request->session != NULL);
	return request->session->has_subject ? &request->session->subject : NULL;
}

bool
mt_control_sees(const struct mt_control_request *request, const char *name)
{
	return mt_right_sees(request->gateway, mt_control_subject(request), name);
}

bool
mt_control_knows(const struct mt_control_request *request, const char *name)
{
	return mt_right_may(request->gateway, mt_control_subject(request), name) != 0;
}

bool
mt_control_may_open(const struct mt_control_request *request, const char *name)
{
	return mt_right_judge(request->gateway, mt_control_subject(request), name,
		   MT_RIGHT_VOLUME_READ) == 0;
}

/* ---- refused ---- */

static void
allow_audit(const struct mt_control_request *request, const char *name, int rc)
{
	char who[SPLIT_SUBJECT_TEXT_BYTES_MAX], plain[ALLOW_NAME_BYTES];

	(void)snprintf(plain, sizeof(plain), "%s", name);
	log_limited(LOG_WARN, "audit: refused op=%s volume=%s by=%s peer=%s rc=%s",
	    request->op->name, plain_text(plain),
	    split_subject_text(mt_control_subject(request), who), request->peer, log_errno(rc));
}

bool
mt_control_may(const struct mt_control_request *request, const char *name)
{
	if (mt_right_judge(request->gateway, mt_control_subject(request), name,
		request->op->right) == 0)
		return true;
	allow_audit(request, name, -ENOENT);
	return false;
}

static void
allow_refuse_role(struct mt_control_request *request)
{
	char who[SPLIT_SUBJECT_TEXT_BYTES_MAX];

	allow_audit(request, "", -ENOKEY);
	mt_control_refuse(request, -ENOKEY,
	    "%s may not ask for %s: ask with a key that may, an admin's (--key)",
	    split_subject_text(mt_control_subject(request), who), request->op->name);
}

/* @name may not be there, to that client: it is told what is told where it is not. */
static bool
allow_hide(struct mt_control_request *request, const char *name)
{
	allow_audit(request, name, -ENOENT);
	if (request->op->names == MT_NAMES_TRASH)
		mt_control_trash_refuse_unknown(request,
		    json_string_value(json_object_get(request->in, "name"))); /* perhaps an id */
	else
		mt_control_refuse(request, -ENOENT, "volume '%s': no such volume", name);
	return false;
}

static bool
allow_refuse(struct mt_control_request *request, const char *name, enum mt_right right)
{
	const struct split_subject *subject = mt_control_subject(request);
	char who[SPLIT_SUBJECT_TEXT_BYTES_MAX], has[MT_MAY_TEXT_BYTES], needs[MT_MAY_TEXT_BYTES];
	unsigned may = mt_right_may(request->gateway, subject, name);

	allow_audit(request, name, -ENOKEY);
	mt_control_refuse(request, -ENOKEY,
	    "volume '%s': %s may not do that: it has '%s' and needs '%s', which an admin gives "
	    "(cleave user set)",
	    name, split_subject_text(subject, who), mt_may_text(may, has),
	    mt_right_letters(right, needs));
	return false;
}

/* ---- judged: each returns false where the request has ended ---- */

/* NAME, or what is before the '@'. */
static void
allow_volume_of(const char *text, char ret_name[ALLOW_NAME_BYTES])
{
	const char *at = strchrnul(text, '@');
	size_t bytes = num_min((uint64_t)(at - text), ALLOW_NAME_BYTES - 1);

	memcpy(ret_name, text, bytes);
	ret_name[bytes] = '\0';
}

static bool
allow_name(struct mt_control_request *request, const char *text, enum mt_right right)
{
	char name[ALLOW_NAME_BYTES];
	int rc;

	allow_volume_of(text, name);
	rc = mt_right_judge(request->gateway, mt_control_subject(request), name, right);
	if (rc == -ENOENT)
		return allow_hide(request, name);
	return rc == 0 || allow_refuse(request, name, right);
}

/* A volume that is to be made, or to be called so. */
static bool
allow_new(struct mt_control_request *request, const char *name)
{
	const struct split_subject *subject = mt_control_subject(request);

	return mt_right_judge(request->gateway, subject, name, MT_RIGHT_ALTER) == 0 ||
	    allow_refuse(request, name, MT_RIGHT_ALTER);
}

/* The volume @name shall be called @new_name: whoever may not read it now may not then. */
static bool
allow_renamed(struct mt_control_request *request, const char *name, const char *new_name)
{
	const struct split_subject *subject = mt_control_subject(request);
	unsigned before = mt_right_may(request->gateway, subject, name);
	unsigned then = mt_right_may(request->gateway, subject, new_name);
	char who[SPLIT_SUBJECT_TEXT_BYTES_MAX], more[MT_MAY_TEXT_BYTES];

	if (!allow_new(request, new_name))
		return false;
	if ((then & ~before) == 0)
		return true;
	allow_audit(request, new_name, -ENOKEY);
	mt_control_refuse(request, -ENOKEY,
	    "volume '%s': %s would get '%s' more for it under the name '%s', which an admin alone may "
	    "give",
	    name, split_subject_text(subject, who), mt_may_text(then & ~before, more), new_name);
	return false;
}

static bool
allow_list(struct mt_control_request *request)
{
	const json_t *names = json_object_get(request->in, "names"), *name;
	size_t i;

	json_array_foreach(names, i, name)
	{
		if (json_is_string(name) &&
		    !allow_name(request, json_string_value(name), request->op->right))
			return false;
	}
	return true;
}

/* A client's request, of an op that names volumes, which it may ask for. */
static bool
allow_client(struct mt_control_request *request)
{
	const char *name = json_string_value(json_object_get(request->in, "name"));
	const char *new_name = json_string_value(json_object_get(request->in, "new"));
	enum mt_right right = request->op->right;

	if (request->op->names == MT_NAMES_LIST)
		return allow_list(request);
	if (name == NULL || request->op->names == MT_NAMES_ID)
		return true; /* the op looks for itself, or refuses it */
	if (request->op->names == MT_NAMES_NEW)
		return allow_new(request, name);
	if (request->op->names == MT_NAMES_TRASH)
		name = mt_control_trash_name(request, name);
	else if (right == MT_RIGHT_VOLUME_WRITE && strchr(name, '@') != NULL)
		right = MT_RIGHT_VOLUME_READ; /* nobody writes a snapshot */
	if (!allow_name(request, name, right))
		return false;
	if (new_name == NULL || request->op->names == MT_NAMES_NAME)
		return true;
	return right == MT_RIGHT_ALTER ? allow_renamed(request, name, new_name)
				       : allow_new(request, new_name);
}

bool
mt_control_allow(struct mt_control_request *request)
{
	const struct split_subject *subject = mt_control_subject(request);
	bool is_by_volume = request->op->names != MT_NAMES_NONE;

	if (subject == NULL || (MUTANT(right_unasked) && request->op->right == MT_RIGHT_ALTER))
		return true;
	if (!mt_right_allows(subject->role, is_by_volume ? MT_MAY_ALL : 0, request->op->right)) {
		allow_refuse_role(request);
		return false;
	}
	if (subject->role != SPLIT_ROLE_CLIENT || !is_by_volume)
		return true;
	if (!request->gateway->users.is_loaded) {
		mt_control_fail(request, -EHOSTDOWN,
		    "the gateway has not read yet what its users may: ask again");
		return false;
	}
	return allow_client(request);
}

const struct mt_volume_entry *
mt_control_volume_with_id(struct mt_control_request *request, uint64_t id,
    bool (*may)(const struct mt_control_request *request, const char *name))
{
	const struct mt_volume_entry *entry;

	assert(request->sm.state == MT_CONTROL_RUNNING);
	entry = mt_volumes_by_id(&request->gateway->volumes, id);
	if (entry == NULL || !may(request, entry->volume.name)) {
		mt_control_refuse(request, -ENOENT, "id: there is no volume %" PRIu64, id);
		return NULL;
	}
	return entry;
}

const struct mt_volume_entry *
mt_control_volume_of_id(struct mt_control_request *request,
    bool (*may)(const struct mt_control_request *request, const char *name))
{
	uint64_t id = 0;
	char error[MT_ERROR_BYTES];
	const struct reader_member members[] = {
		{ "id", READER_U64, true, 1, INT64_MAX, { .u64 = &id } },
	};
	int rc = reader_strict(request->in, members, NUM_COUNT(members), error);

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (rc == 0)
		return mt_control_volume_with_id(request, id, may);
	mt_control_fail(request, rc, error);
	return NULL;
}
