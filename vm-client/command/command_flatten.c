/* SPDX-License-Identifier: Apache-2.0 */
/* command_flatten.c -- cleave volume flatten: begun, waited for, called off */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/loop.h"
#include "command.h"
#include "command_ask.h"
#include "table.h"

#define FLATTEN_LOOK_NS NUM_MS(250)
#define FLATTEN_STILL_NS NUM_S(10)

void
command_print_flattening(const json_t *volume, FILE *out)
{
	const json_t *flattening = json_object_get(volume, "flattening");
	uint64_t count = command_u64(flattening, "shard_count");

	assert(out != NULL);
	if (flattening != NULL)
		fprintf(out, "flattening: %" PRIu64 " of %" PRIu64 " shards\n",
		    count - num_min(command_u64(flattening, "left"), count), count);
}

/* How far it is; 1: it is flattened. */
static int
flatten_look(struct command_session *session, const json_t *volume, uint64_t *told,
    uint64_t *heard_ns)
{
	const json_t *flattening = json_object_get(volume, "flattening");
	uint64_t left = command_u64(flattening, "left"), now_ns = loop_now_ns(session->loop);

	if (json_object_get(volume, "origin") == NULL)
		return 1;
	if (flattening == NULL) /* whom we ask has perhaps not read of it yet */
		return now_ns - *heard_ns < FLATTEN_STILL_NS
		    ? 0
		    : command_fail(session, -ECANCELED,
			  "volume '%s' is not being flattened any more: was that called off meanwhile?",
			  session->options->name);
	*heard_ns = now_ns;
	if (left != *told && !session->options->is_json) {
		command_print_flattening(volume, session->out);
		(void)fflush(session->out);
	}
	*told = left;
	return 0;
}

/* Until the volume has no origin; what is copied meanwhile is printed, but for --json. */
static int
flatten_wait(struct command_session *session)
{
	uint64_t told = UINT64_MAX, heard_ns = loop_now_ns(session->loop);
	int rc = 0;

	assert(session->options->must_wait);
	while (rc == 0) {
		json_t *reply = NULL;

		rc = command_ask(session,
		    json_pack("{s:s, s:s}", "op", "volume.show", "name", session->options->name),
		    false, &reply);
		if (rc == 0)
			rc = flatten_look(session, json_object_get(reply, "volume"), &told,
			    &heard_ns);
		json_decref(reply);
		if (rc == 0)
			command_pause(session, FLATTEN_LOOK_NS);
	}
	return rc < 0 ? rc : 0;
}

int
command_volume_flatten(struct command_session *session)
{
	const struct command_options *options = session->options;
	json_t *reply = NULL;
	int rc;

	assert(options->name != NULL && session->client != NULL);
	if (options->is_cancel && options->must_wait)
		return command_fail(session, -EINVAL, "--cancel and --wait: one of them");
	rc = command_ask(session,
	    json_pack("{s:s, s:s, s:b}", "op", "volume.flatten", "name", options->name, "cancel",
		options->is_cancel),
	    true, &reply);
	if (rc == 0 && options->must_wait)
		rc = flatten_wait(session);
	if (rc == 0 && options->must_wait)
		json_object_set_new(reply, "left", json_integer(0));
	if (rc == 0 && options->is_json)
		rc = command_print_json(reply, session->out);
	else if (rc == 0)
		fprintf(session->out, "%s: %s\n", options->name,
		    options->is_cancel       ? "not flattened any more"
			: options->must_wait ? "flattened"
					     : "being flattened: cleave volume show says how far");
	json_decref(reply);
	return rc;
}
