/* SPDX-License-Identifier: Apache-2.0 */
/* command_gateway.c -- cleave gateway list, drain, undrain */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/config_value.h"
#include "base/num.h"
#include "command.h"
#include "command_ask.h"
#include "table.h"

#define GATEWAY_WAIT_NS NUM_MS(200) /* between two looks at what is left */
#define GATEWAY_STILL_NS NUM_S(10)  /* without a shard less: a line says for what it waits */
#define GATEWAY_ID_DIGITS 16u

/* ---- list ---- */

/* Behind the table: drained gateways that do not live. */
static int
list_print(const struct command_question *question, FILE *out)
{
	int rc = command_print_gateways(question->entries, question->count, out);
	const json_t *id;
	size_t i;

	assert(question->reply != NULL && !question->is_done);
	json_array_foreach(json_object_get(question->reply, "drained_away"), i, id)
	    fprintf(out, "gateway %s: drained, and does not live\n", json_string_value(id));
	return rc;
}

int
command_gateway_list(struct command_session *session)
{
	struct command_question question;
	int rc;

	assert(session->client != NULL && session->out != NULL);
	command_question_init(&question, session);
	rc = command_wait(&question,
	    cleave_gateway_list(session->client, &question.ask, command_on_gateways, &question));
	if (rc == 0)
		rc = session->options->is_json ? command_print_json(question.reply, session->out)
					       : list_print(&question, session->out);
	command_question_fini(&question);
	return rc;
}

/* ---- drain, undrain ---- */

int
command_gateway_id(struct command_session *session, uint64_t *ret_id)
{
	const char *text = session->options->name;

	assert(command_has_operand(session->options->command, COMMAND_GATEWAY));
	assert(text != NULL);
	if (strlen(text) == GATEWAY_ID_DIGITS &&
	    strspn(text, "0123456789abcdefABCDEF") == GATEWAY_ID_DIGITS)
		*ret_id = strtoull(text, NULL, 16);
	else if (config_parse_u64(text, ret_id) != 0)
		*ret_id = 0;
	if (*ret_id != 0)
		return 0;
	return command_fail(session, -EINVAL, "'%s' is no gateway's id: see cleave gateway list",
	    text);
}

static int
gateway_change(struct command_session *session, uint64_t id, const char *op, const char *done)
{
	const struct command_options *options = session->options;
	char text[TABLE_NUMBER_BYTES];
	json_t *request = json_pack("{s:s, s:s}", "op", op, "gateway", table_format_id(id, text));
	json_t *reply = NULL;
	int rc;

	assert(id != 0 && op != NULL && done != NULL);
	if (options->is_forced && json_object_set_new(request, "force", json_true()) != 0) {
		json_decref(request);
		request = NULL;
	}
	rc = command_ask(session, request, true, &reply);
	if (rc == 0 && options->is_json)
		rc = command_print_json(reply, session->out);
	else if (rc == 0)
		fprintf(session->out, "gateway %s: %s\n", text, done);
	json_decref(reply);
	(void)fflush(session->out);
	return rc;
}

/* Until a gateway has no shard. */
struct gateway_wait {
	struct command_session *session;
	char id[TABLE_NUMBER_BYTES];
	uint64_t shown;    /* shards that were left when that was last printed */
	uint64_t shown_ns; /* and when that was */
	bool has_begun;    /* it was seen draining, or drained */
};

static void
wait_print(struct gateway_wait *wait, uint64_t left, uint32_t taker_count)
{
	struct command_session *session = wait->session;
	uint64_t now_ns = loop_now_ns(session->loop);
	bool is_still = left == wait->shown && now_ns - wait->shown_ns >= GATEWAY_STILL_NS;

	assert(wait->has_begun && strlen(wait->id) == GATEWAY_ID_DIGITS);
	assert(wait->shown_ns <= now_ns);
	if (left != wait->shown && !session->options->is_json)
		fprintf(session->out, "gateway %s: %" PRIu64 " shards left\n", wait->id, left);
	else if (is_still && taker_count == 0 && !session->options->is_json)
		fprintf(session->out,
		    "gateway %s: %" PRIu64
		    " shards left, and no other gateway lives that takes shards: start one, or keep this "
		    "one (cleave gateway undrain %s)\n",
		    wait->id, left, wait->id);
	else if (is_still && !session->options->is_json)
		fprintf(session->out,
		    "gateway %s: %" PRIu64
		    " shards left; each waits until all others are served, by a gateway that takes "
		    "shards and reaches the nodes: see cleave gateway list, cleave node list\n",
		    wait->id, left);
	if (left != wait->shown || is_still)
		wait->shown_ns = now_ns;
	wait->shown = left;
	(void)fflush(session->out);
}

/* 1: it has none; 0: look again; or the wait has failed. */
static int
wait_look(struct gateway_wait *wait, const json_t *reply)
{
	struct command_session *session = wait->session;
	const json_t *entry;
	const char *state = NULL;
	uint64_t left = 0;
	uint32_t taker_count = 0;
	size_t i;

	assert(reply != NULL && wait->id[0] != '\0');
	json_array_foreach(json_object_get(reply, "gateways"), i, entry)
	{
		if (strcmp(command_text(entry, "gateway"), wait->id) != 0) {
			taker_count += strcmp(command_text(entry, "state"), "serving") == 0;
			continue;
		}
		state = command_text(entry, "state");
		left = command_u64(entry, "shards_owned");
	}
	if (state == NULL || strcmp(state, "drained") == 0)
		return 1; /* who does not live has no shards */
	if (strcmp(state, "draining") == 0) {
		wait->has_begun = true;
		wait_print(wait, left, taker_count);
		return 0;
	}
	if (wait->has_begun || loop_now_ns(session->loop) - wait->shown_ns >= GATEWAY_STILL_NS)
		return command_fail(session, -ECANCELED,
		    "gateway %s is not drained any more: was it undrained meanwhile?", wait->id);
	return 0; /* whom we ask has not read it yet */
}

static int
wait_drained(struct command_session *session, uint64_t id)
{
	struct gateway_wait wait = { .session = session,
		.shown = UINT64_MAX,
		.shown_ns = loop_now_ns(session->loop) };
	int rc = 0;

	assert(id != 0 && session->options->must_wait);
	(void)table_format_id(id, wait.id);
	while (rc == 0) {
		json_t *reply = NULL;

		rc = command_ask(session, json_pack("{s:s}", "op", "gateways"), false, &reply);
		if (rc == 0)
			rc = wait_look(&wait, reply);
		json_decref(reply);
		if (rc == 0)
			command_pause(session, GATEWAY_WAIT_NS);
	}
	if (rc < 0)
		return rc;
	if (!session->options->is_json)
		fprintf(session->out,
		    "gateway %s: drained; it may be stopped, and has shards again after cleave "
		    "gateway undrain\n",
		    wait.id);
	return 0;
}

int
command_gateway_drain(struct command_session *session)
{
	uint64_t id;
	int rc = command_gateway_id(session, &id);

	assert(session->client != NULL && session->out != NULL);
	if (rc == 0)
		rc = gateway_change(session, id, "gateway.drain", "draining");
	if (rc == 0 && session->options->must_wait)
		rc = wait_drained(session, id);
	return rc;
}

int
command_gateway_undrain(struct command_session *session)
{
	uint64_t id;
	int rc = command_gateway_id(session, &id);

	assert(session->client != NULL && !session->options->must_wait);
	return rc == 0 ? gateway_change(session, id, "gateway.undrain", "has shards again") : rc;
}
