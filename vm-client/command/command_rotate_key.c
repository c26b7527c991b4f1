/* SPDX-License-Identifier: Apache-2.0 */
/* command_rotate_key.c -- cleave volume rotate-key; cleave clone --encrypt */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "base/check.h"
#include "command.h"
#include "command_ask.h"

/* @request with --kek, where that was given. */
static json_t *
with_kek(const struct command_options *options, json_t *request)
{
	if (request != NULL && options->kek != NULL)
		json_object_set_new(request, "kek", json_string(options->kek));
	return request;
}

int
command_volume_rotate_key(struct command_session *session)
{
	const struct command_options *options = session->options;
	json_t *reply = NULL;
	int rc;

	assert(options->name != NULL && session->client != NULL);
	rc = command_ask(session,
	    with_kek(options,
		json_pack("{s:s, s:s}", "op", "volume.rotate_key", "name", options->name)),
	    true, &reply);
	if (rc == 0 && options->is_json)
		rc = command_print_json(reply, session->out);
	else if (rc == 0)
		fprintf(session->out,
		    "%s: key %" PRIu64 " from now on; key %" PRIu64 " is retiring\n", options->name,
		    command_u64(reply, "key"), command_u64(reply, "old"));
	json_decref(reply);
	return rc;
}

int
command_clone_encrypted(struct command_session *session)
{
	const struct command_options *options = session->options;
	json_t *reply = NULL;
	int rc;

	assert(options->is_encrypted || options->kek != NULL);
	rc = command_ask(session,
	    with_kek(options,
		json_pack("{s:s, s:s, s:s, s:b}", "op", "clone", "name", options->name, "new",
		    options->new_name, "encrypt", 1)),
	    true, &reply);
	if (rc == 0 && options->is_json)
		rc = command_print_json(reply, session->out);
	else if (rc == 0)
		fprintf(session->out, "%s: cloned, encrypted with key %" PRIu64 "\n",
		    options->new_name, command_u64(json_object_get(reply, "volume"), "key"));
	json_decref(reply);
	return rc;
}
