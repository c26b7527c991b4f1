/* SPDX-License-Identifier: Apache-2.0 */
/* command_ask_all.c -- see command_ask_all.h */
#include "command_ask_all.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/loop.h"

struct command_asked *
command_ask_all_init(struct command_session *session, const struct cleave_gateway_entry *gateways,
    uint32_t count)
{
	struct command_asked *asked = calloc(num_max(count, 1), sizeof(*asked));

	assert(count == 0 || gateways != NULL);
	if (asked == NULL) {
		(void)command_fail(session, -ENOMEM, "out of memory");
		return NULL;
	}
	for (uint32_t i = 0; i < count; i++) {
		asked[i].gateway = &gateways[i];
		asked[i].rc = -ENODATA;
	}
	return asked;
}

void
command_ask_all_fini(struct command_asked *asked, uint32_t count)
{
	assert(asked != NULL);
	for (uint32_t i = 0; i < count; i++) {
		json_decref(asked[i].question);
		json_decref(asked[i].reply);
		cleave_client_destroy(asked[i].client);
	}
	free(asked);
}

static void
asked_fail(struct command_asked *one, int rc, const char *error)
{
	assert(rc < 0);
	one->rc = rc;
	(void)snprintf(one->error, sizeof(one->error), "%s",
	    error != NULL && error[0] != '\0' ? error : cleave_error_text(rc));
}

static void
asked_on_answer(struct cleave_call *call, int rc, const char *reply, const char *error, void *arg)
{
	struct command_asked *one = arg;

	assert(call == &one->call && *one->left > 0);
	one->rc = rc;
	if (rc != 0)
		asked_fail(one, rc, error);
	else
		one->reply = json_loads(reply, 0, NULL);
	if (rc == 0 && !json_is_object(one->reply))
		asked_fail(one, -EPROTO, "its reply is no JSON object");
	--*one->left;
}

/* A connection of its own: the session's client would ask another gateway where this one is silent. */
static int
asked_open(struct command_session *session, struct command_asked *one, uint64_t timeout_ns)
{
	const char *address = one->gateway->address;
	const struct cleave_client_options options = {
		.loop = session->loop,
		.gateways = &address,
		.gateway_count = 1,
		.control_timeout_ns = timeout_ns,
		.connect_timeout_ns = timeout_ns,
		.is_impatient = true,
		.forgets_gateways = true, /* this one, or none */
		.key = session->options->secure.key,
		.security = session->options->secure.security,
		.revoked = session->options->secure.revoked,
	};

	if (address[0] == '\0')
		return -EHOSTUNREACH;
	return one->client != NULL ? 0 : cleave_client_create(&options, &one->client, one->error);
}

static void
asked_start(struct command_session *session, struct command_asked *one, uint64_t timeout_ns,
    uint32_t *left)
{
	char *text = json_dumps(one->question, JSON_COMPACT);
	int rc;

	json_decref(one->question);
	json_decref(one->reply);
	one->question = one->reply = NULL;
	one->error[0] = '\0';
	one->left = left;
	one->call = (struct cleave_call){ .fn = asked_on_answer, .arg = one };
	rc = text == NULL ? -ENOMEM : asked_open(session, one, timeout_ns);
	if (rc == 0)
		rc = cleave_control(one->client, &one->call, text);
	if (rc == 0)
		++*left;
	else
		asked_fail(one, rc, one->error);
	free(text);
}

static bool
all_have_answered(void *arg)
{
	return *(const uint32_t *)arg == 0;
}

void
command_ask_all(struct command_session *session, struct command_asked *asked, uint32_t count,
    uint64_t within_ns)
{
	uint64_t timeout_ns = num_min(session->options->timeout_ns, within_ns);
	uint32_t left = 0;

	assert(session->loop != NULL && timeout_ns > 0);
	for (uint32_t i = 0; i < count; i++) {
		if (asked[i].question != NULL)
			asked_start(session, &asked[i], timeout_ns, &left);
	}
	if (left > 0)
		(void)loop_run(session->loop, all_have_answered, &left);
	assert(left == 0); /* each gives up when its time is over */
}

int
command_ask_all_refused(struct command_session *session, const struct command_asked *asked,
    uint32_t count)
{
	assert(asked != NULL);
	for (uint32_t i = 0; i < count; i++) {
		if (asked[i].rc == -ENOKEY)
			return command_fail(session, -ENOKEY, "%s", asked[i].error);
	}
	return 0;
}
