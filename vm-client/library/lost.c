/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lost.c -- a volume that another session took, or that was deleted: who did it
 *
 * Its requests fail at once; the answer to "who" comes later, from a gateway, and is for people alone.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "internal.h"

static void
lost_tell(struct cleave_volume *volume, const char *text)
{
	cleave_lost_fn fn = volume->lost_fn;

	assert(volume->fail_rc < 0);
	volume->lost_fn = NULL;
	volume_wake(volume); /* its end may have waited for this */
	if (fn != NULL && volume->close_fn == NULL)
		fn(volume, volume->fail_rc, text, volume->lost_arg);
}

/* @reply: of volume.show. False: it does not say. */
static bool
lost_read(const struct cleave_volume *volume, const char *reply, char *out, size_t bytes)
{
	json_t *root = reply == NULL ? NULL : json_loads(reply, 0, NULL);
	const json_t *shown = json_object_get(root, "volume");
	const json_t *holder = json_object_get(shown, "holder");
	bool is_known = (uint64_t)json_integer_value(json_object_get(shown, "id")) ==
	    volume->info.id;
	const char *client = json_string_value(json_object_get(holder, "client"));
	const char *address = json_string_value(json_object_get(holder, "address"));

	CHECK_OBJ(volume, VOLUME_MAGIC);
	assert(bytes > 0);
	if (is_known && client != NULL && address != NULL)
		(void)snprintf(out, bytes, "volume '%.64s': taken by %.64s at %.64s",
		    volume->info.name, client, address);
	else if (is_known)
		(void)snprintf(out, bytes,
		    "volume '%.64s': put out by an operator's --force (volume set --reads, snapshot rollback), or "
		    "by a client that has left: open it again",
		    volume->info.name);
	json_decref(root);
	return is_known;
}

static void
lost_on_answer(struct cleave_call *call, int rc, const char *reply, const char *error, void *arg)
{
	struct cleave_volume *volume = arg;
	char text[CLEAVE_ERROR_BYTES_MAX];

	(void)call;
	(void)error;
	CHECK_OBJ(volume, VOLUME_MAGIC);
	assert(call == &volume->lost_call && volume->is_lost_call_out);
	volume->is_lost_call_out = false;
	/* Whoever has it now has taken it from nobody, if our session ended for another reason. */
	if (rc != 0 || volume->fail_rc != -ESHUTDOWN ||
	    !lost_read(volume, reply, text, sizeof(text)))
		(void)snprintf(text, sizeof(text), "volume '%.64s': %s", volume->info.name,
		    cleave_error_text(volume->fail_rc));
	lost_tell(volume, text);
}

void
lost_begin(struct cleave_volume *volume)
{
	json_t *request;
	char *text;

	assert(volume->sm.state == VOLUME_FAILED);
	if (volume->lost_fn == NULL || volume->is_lost_call_out)
		return;
	request = json_pack("{s:s, s:s}", "op", "volume.show", "name", volume->info.name);
	text = request == NULL ? NULL : json_dumps(request, JSON_COMPACT);
	json_decref(request);
	volume->lost_call = (struct cleave_call){ .fn = lost_on_answer, .arg = volume };
	/* Not from here: a handler never runs inside what caused it. */
	volume->is_lost_call_out = text != NULL &&
	    cleave_control(volume->client, &volume->lost_call, text) == 0;
	if (volume->is_lost_call_out)
		call_hasten(&volume->lost_call, volume->client, CLIENT_PARTING_NS);
	free(text);
}

void
cleave_volume_on_lost(struct cleave_volume *volume, cleave_lost_fn fn, void *arg)
{
	CHECK_OBJ(volume, VOLUME_MAGIC);
	volume->lost_fn = fn;
	volume->lost_arg = arg;
	if (volume->sm.state == VOLUME_FAILED)
		lost_begin(volume);
}
