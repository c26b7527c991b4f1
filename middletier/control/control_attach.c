/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_attach.c -- who opens a volume: for writing, one at a time; for reading, as many as want to
 *
 * An attach names the session that wants to write. While another one has the volume it is refused, with the
 * holder's name (-EUSERS on the wire), unless it says "take", or that one has been silent for the session time
 * (holding.c). Then: durable first, then on every port, of every gateway where it was taken, then answered. An attach that is repeated, by the session
 * that has the volume, is let in without a question: its answer was lost. A client that knows which volume it means says
 * its id: another one that has the name by now is refused, and taken from nobody.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mutant.h"
#include "base/num.h"
#include "catalog/holder.h"
#include "catalog/json.h"
#include "catalog/volume_table.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "cluster/holding.h"
#include "cluster/volume_change.h"
#include "control/control_allow.h"
#include "control/control_answer.h"
#include "control/control_attach.h"
#include "control/control_change.h"
#include "control/control_data_key.h"
#include "control/control_request.h"
#include "control/control_snapshot.h"

#define ATTACH_UNKNOWN_MS 500 /* a gateway does not answer: until the next try */

static void
attach_on_installed(struct mt_ask *ask, void *arg)
{
	struct mt_control_request *request = arg;

	assert(request->sm.state == MT_CONTROL_RUNNING);
	assert(ask->kind == MT_ASK_ATTACH && ask->volume.attach > 0);
	mt_control_finish(request,
	    json_pack("{s:o, s:I, s:o}", "volume", mt_json_volume(&ask->volume), "attach",
		(json_int_t)ask->volume.attach, "map", mt_json_map(ask->gateway, ask)));
}

/* request->volume.holder: from whom. */
static void
attach_log_taken(const struct mt_control_request *request, const struct mt_volume *volume)
{
	char holder[MT_HOLDER_TEXT_BYTES];

	assert(request->attach.is_taken);
	mt_holder_text(&request->volume, holder, sizeof(holder));
	mt_control_event(request, CLEAVE_EVENT_VOLUME_TAKEN, volume->name,
	    "volume: taken name=%s attach=%" PRIu64 " of=\"%s\" why=%s", volume->name,
	    volume->attach, holder, request->attach.is_take ? "asked" : "silent");
}

/* A gateway that is silent stops no take: it learns of it from the store, or from the new session. */
static void
attach_on_told(const struct mt_holder_answer *answer, void *arg)
{
	struct mt_control_request *request = arg;
	const struct mt_volume_entry *entry =
	    mt_volumes_by_name(&request->gateway->volumes, request->volume.name);
	int rc = -EAGAIN; /* another one came meanwhile */

	assert(request->sm.state == MT_CONTROL_RUNNING && request->attach.is_taken);
	if (answer->unknown_gateway != 0)
		log_warn(
		    "volume: taken, and a gateway does not say that it knows: who had it may write "
		    "there until it does name=%s gateway=%" PRIu64,
		    request->volume.name, answer->unknown_gateway);
	if (entry != NULL && entry->volume.session_id == request->attach.session_id)
		rc = mt_ask_ports(request->gateway, MT_ASK_ATTACH, &entry->volume,
		    attach_on_installed, request);
	if (rc != 0)
		mt_control_fail_volume(request, rc);
}

static void
attach_on_done(int rc, const struct mt_volume *volume, void *arg)
{
	struct mt_control_request *request = arg;

	assert(request->sm.state == MT_CONTROL_RUNNING);
	/* A refusal by a conflict runs it again, and then it may be another's to take. */
	request->attach.is_taken = rc == 0 && request->attach.is_taken;
	if (request->attach.is_taken)
		attach_log_taken(request, volume);
	else if (rc == 0)
		mt_control_event(request, CLEAVE_EVENT_VOLUME_OPENED, volume->name,
		    "volume: opened for writing name=%s attach=%" PRIu64, volume->name,
		    volume->attach);
	if (rc == 0 && request->attach.is_taken)
		rc = mt_holder_tell(request->gateway, volume, attach_on_told, request);
	else if (rc == 0)
		rc = mt_ask_ports(request->gateway, MT_ASK_ATTACH, volume, attach_on_installed,
		    request);
	if (rc != 0)
		mt_control_fail_volume(request, rc);
}

/* The request may have the volume. */
static void
attach_make(struct mt_control_request *request, const struct mt_volume_entry *entry)
{
	const struct mt_volume *volume = &entry->volume;
	int rc;

	assert(request->sm.state == MT_CONTROL_RUNNING);
	assert(request->attach.session_id != 0);
	request->attach.is_taken = volume->session_id != 0 &&
	    volume->session_id != request->attach.session_id;
	request->volume.holder = volume->holder;
	rc = mt_volume_attach(request->gateway, volume->name, request->attach.session_id,
	    &request->attach.holder, attach_on_done, request);
	if (rc != 0)
		mt_control_fail_volume(request, rc);
}

static void
attach_refuse(struct mt_control_request *request, const struct mt_volume *volume,
    const struct mt_holder_answer *answer)
{
	char holder[MT_HOLDER_TEXT_BYTES], why[64] = "";
	char text[MT_ERROR_BYTES + MT_HOLDER_TEXT_BYTES];
	json_t *out;

	assert(answer->is_held && !request->attach.is_take);
	mt_holder_text(volume, holder, sizeof(holder));
	if (answer->unknown_gateway != 0)
		(void)snprintf(why, sizeof(why), "; gateway %" PRIu64 " does not say if it lives",
		    answer->unknown_gateway);
	else if (!answer->is_connected)
		(void)snprintf(why, sizeof(why), "; silent, gone in %" PRIu64 " ms",
		    answer->left_ns / NUM_MS(1));
	(void)snprintf(text, sizeof(text), "in use by %s%s: stop that, or take it (--take)", holder,
	    why);
	log_limited(LOG_INFO, "volume: attach refused name=%s by=\"%s\" address=%s holder=\"%s\"%s",
	    volume->name, request->attach.holder.client, request->attach.holder.address, holder,
	    why);
	request->attach.is_held = true;
	out = json_pack("{s:s}", "error", text);
	if (out != NULL && mt_json_put_holder(out, volume) == 0 && !answer->is_connected)
		json_object_set_new(out, "retry_ms",
		    json_integer(answer->unknown_gateway != 0
			    ? ATTACH_UNKNOWN_MS
			    : (json_int_t)(answer->left_ns / NUM_MS(1)) + 1));
	mt_control_fail_json(request, -EUSERS, out);
}

/* A request whose client has gone while it waited would end a session that lives, for nobody. */
static bool
attach_is_left(struct mt_control_request *request)
{
	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (!mt_control_is_left(request))
		return false;
	log_limited(LOG_INFO, "volume: attach dropped, its client has gone name=%s",
	    request->volume.name);
	mt_control_fail(request, -ECANCELED, "the client has gone");
	return true;
}

static void
attach_on_holder(const struct mt_holder_answer *answer, void *arg)
{
	struct mt_control_request *request = arg;
	const struct mt_volume_entry *entry =
	    mt_volumes_by_name(&request->gateway->volumes, request->volume.name);

	assert(request->sm.state == MT_CONTROL_RUNNING);
	assert(answer->is_held || answer->left_ns == 0);
	if (attach_is_left(request))
		return;
	if (entry == NULL)
		mt_control_fail_volume(request, -ENOENT);
	else if (entry->volume.attach != answer->attach ||
	    entry->volume.id != request->attach.asked_id)
		mt_control_fail_volume(request, -EAGAIN); /* another one came first */
	else if (answer->is_held)
		attach_refuse(request, &entry->volume, answer);
	else
		attach_make(request, entry);
}

static void
attach_begin(struct mt_control_request *request)
{
	const struct mt_volume_entry *entry =
	    mt_volumes_by_name(&request->gateway->volumes, request->volume.name);
	int rc;

	assert(request->sm.state == MT_CONTROL_RUNNING);
	assert(request->attach.session_id != 0);
	if (entry == NULL) {
		mt_control_fail_volume(request, -ENOENT);
		return;
	}
	if (mt_change_is_other_opened(request, &entry->volume) ||
	    mt_control_data_key_lacks(request, &entry->volume, entry->volume.name))
		return;
	if (request->attach.is_take || entry->volume.session_id == 0 ||
	    entry->volume.session_id == request->attach.session_id || MUTANT(exclusive_ignored)) {
		attach_make(request, entry);
		return;
	}
	request->attach.asked_id = entry->volume.id;
	rc = mt_holder_ask(request->gateway, &entry->volume, attach_on_holder, request);
	if (rc != 0)
		mt_control_fail_volume(request, rc);
}

/* For people, and in JSON: printable, whatever it says. */
static void
attach_take_text(char *out, size_t bytes, const char *text)
{
	assert(bytes > 1);
	(void)snprintf(out, bytes, "%.*s", (int)bytes - 1, text);
	for (char *at = out; *at != '\0'; at++) {
		if (*at < ' ' || *at > '~' || *at == '"')
			*at = '?';
	}
}

static void
attach_take_holder(struct mt_control_request *request, const char *client)
{
	struct mt_holder *holder = &request->attach.holder;

	assert(request->sm.state == MT_CONTROL_RUNNING);
	attach_take_text(holder->client, sizeof(holder->client), client);
	if (request->by[0] == '\0') /* a client of a release before says it here alone */
		mt_control_set_by(request, client);
	attach_take_text(holder->address, sizeof(holder->address), mt_control_peer(request));
	attach_take_text(holder->gateway, sizeof(holder->gateway), request->port->address);
	holder->since_s = mt_gateway_time_s(request->gateway);
}

void
mt_control_volume_attach(struct mt_control_request *request)
{
	const char *name = NULL, *session = NULL, *client = "";
	char error[MT_ERROR_BYTES];
	const struct reader_member members[] = {
		{ "name", READER_TEXT, false, 0, 0, { .text = &name } },
		{ "session", READER_TEXT, true, 0, 0, { .text = &session } },
		{ "take", READER_BOOL, false, 0, 0, { .flag = &request->attach.is_take } },
		{ "client", READER_TEXT, false, 0, 0, { .text = &client } },
		{ "id", READER_U64, false, 1, INT64_MAX, { .u64 = &request->attach.id } },
	};
	int rc = reader_strict(request->in, members, NUM_COUNT(members), error);

	assert(request->sm.state == MT_CONTROL_RUNNING);
	assert(request->op->is_change);
	if (rc != 0) {
		mt_control_fail(request, rc, error);
		return;
	}
	if (mt_hex_parse(session, &request->attach.session_id) != 0 ||
	    request->attach.session_id == 0) {
		mt_control_fail(request, -EINVAL, "session: must be 16 hex digits, not all 0");
		return;
	}
	if (!mt_change_name_opened(request, &name))
		return;
	if (strchr(name, '@') != NULL) {
		mt_control_open_snapshot(request, name);
		return;
	}
	if (!mt_change_take_name(request, name, request->volume.name) || attach_is_left(request))
		return;
	attach_take_holder(request, client);
	attach_begin(request);
}

/* ---- closed ---- */

static void
detach_on_done(int rc, const struct mt_volume *volume, void *arg)
{
	struct mt_control_request *request = arg;

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (rc == 0) {
		log_debug("volume: closed name=%s", volume->name);
		mt_control_finish(request, json_object());
	} else {
		mt_control_fail_volume(request, rc);
	}
}

void
mt_control_volume_detach(struct mt_control_request *request)
{
	const struct mt_volume_entry *entry;
	const char *session = NULL;
	uint64_t id = 0;
	char error[MT_ERROR_BYTES];
	const struct reader_member members[] = {
		{ "id", READER_U64, true, 1, INT64_MAX, { .u64 = &id } },
		{ "session", READER_TEXT, true, 0, 0, { .text = &session } },
	};
	int rc = reader_strict(request->in, members, NUM_COUNT(members), error);

	assert(request->sm.state == MT_CONTROL_RUNNING);
	assert(request->op->is_change);
	if (rc == 0 && mt_hex_parse(session, &request->attach.session_id) != 0) {
		(void)snprintf(error, sizeof(error), "session: must be 16 hex digits");
		rc = -EINVAL;
	}
	if (rc != 0) {
		mt_control_fail(request, rc, error);
		return;
	}
	entry = mt_volumes_by_id(&request->gateway->volumes, id);
	rc = entry != NULL && !mt_control_may_open(request, entry->volume.name)
	    ? -ENOENT
	    : mt_volume_detach(request->gateway, id, request->attach.session_id, detach_on_done,
		  request);
	/* Somebody else has it by now, or nobody: it is closed. */
	if (rc == -ENOENT)
		mt_control_finish(request, json_object());
	else if (rc != 0)
		mt_control_fail_volume(request, rc);
}

/* ---- for reading ---- */

static void
open_on_map(struct mt_ask *ask, void *arg)
{
	assert(((struct mt_control_request *)arg)->sm.state == MT_CONTROL_RUNNING);
	mt_control_finish(arg,
	    json_pack("{s:o, s:i, s:b, s:o}", "volume", mt_json_volume(&ask->volume), "attach", 0,
		"read_only", 1, "map", mt_json_map(ask->gateway, ask)));
}

void
mt_control_volume_open(struct mt_control_request *request)
{
	const struct mt_volume_entry *entry;
	const char *name = NULL;
	char error[MT_ERROR_BYTES];
	const struct reader_member members[] = {
		{ "name", READER_TEXT, false, 0, 0, { .text = &name } },
		{ "id", READER_U64, false, 1, INT64_MAX, { .u64 = &request->attach.id } },
	};
	int rc = reader_strict(request->in, members, NUM_COUNT(members), error);

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (rc != 0) {
		mt_control_fail(request, rc, error);
		return;
	}
	if (!mt_change_name_opened(request, &name))
		return;
	if (strchr(name, '@') != NULL) {
		mt_control_open_snapshot(request, name);
		return;
	}
	if (!mt_change_take_name(request, name, request->volume.name))
		return;
	entry = mt_volumes_by_name(&request->gateway->volumes, name);
	if (entry != NULL &&
	    (mt_change_is_other_opened(request, &entry->volume) ||
		mt_control_data_key_lacks(request, &entry->volume, name)))
		return;
	rc = entry == NULL
	    ? -ENOENT
	    : mt_ask_ports(request->gateway, MT_ASK_STATUS, &entry->volume, open_on_map, request);
	if (rc != 0)
		mt_control_fail_volume(request, rc);
}
