/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_gateway_set.c -- cleave gateway set: the level of a gateway's log, and which requests are slow, while it runs
 *
 *	gateway 0000000000000001: log level debug, slow-op 100.0 ms
 *
 * Each gateway is asked itself, at its own address.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/config_value.h"
#include "base/log.h"
#include "base/num.h"
#include "command.h"
#include "command_ask.h"
#include "table.h"

#define SLOW_OP_NS_MAX NUM_S(3600) /* as --slow-op of a gateway has it */

/* NULL, with session->error set: the options say nothing, or what is none. */
static json_t *
request_of(struct command_session *session)
{
	const struct command_options *options = session->options;
	json_t *request = json_pack("{s:s}", "op", "gateway.set");
	enum log_level level;
	uint64_t ns;

	if (options->log_level == NULL && options->slow_op == NULL)
		(void)command_fail(session, -EINVAL,
		    "what is to be changed? See cleave help gateway set");
	else if (options->log_level != NULL && log_level_parse(options->log_level, &level) != 0)
		(void)command_fail(session, -EINVAL,
		    "--log-level: '%s' is not one of trace, debug, info, warn, error, off",
		    options->log_level);
	else if (options->slow_op != NULL &&
	    (config_parse_duration(options->slow_op, &ns) != 0 || ns > SLOW_OP_NS_MAX))
		(void)command_fail(session, -EINVAL,
		    "--slow-op: '%s' is not a time such as 100ms, and at most 1h",
		    options->slow_op);
	if (session->error[0] != '\0' || request == NULL) {
		json_decref(request);
		return NULL;
	}
	if (options->log_level != NULL)
		json_object_set_new(request, "log_level", json_string(log_level_choices[level]));
	if (options->slow_op != NULL)
		json_object_set_new(request, "slow_op_ns", json_integer((json_int_t)ns));
	return request;
}

static int
print_reply(struct command_session *session, const json_t *reply)
{
	uint64_t us = command_u64(reply, "slow_op_ns") / NUM_US(1);

	if (session->options->is_json)
		return command_print_json(reply, session->out);
	fprintf(session->out, "gateway %s: log level %s, slow-op ", command_text(reply, "gateway"),
	    command_text(reply, "log_level"));
	if (us == 0)
		fprintf(session->out, "off\n");
	else
		fprintf(session->out, "%" PRIu64 ".%" PRIu64 " ms\n", us / 1000, us % 1000 / 100);
	return 0;
}

/* The gateway's own answer, or that it has none. */
static int
set_one(struct command_session *session, const struct cleave_gateway_entry *gateway,
    const json_t *request)
{
	char id[TABLE_NUMBER_BYTES];
	json_t *reply = NULL;
	int rc = gateway->address[0] == '\0'
	    ? -EHOSTUNREACH
	    : command_ask_at(session, gateway->address, json_deep_copy(request), &reply);

	if (rc == 0)
		rc = print_reply(session, reply);
	else
		rc = command_fail(session, rc,
		    "gateway %s at %s does not answer, or is of a release before",
		    table_format_id(gateway->id, id), gateway->address);
	json_decref(reply);
	return rc;
}

int
command_gateway_set(struct command_session *session)
{
	bool is_all = strcmp(session->options->name, "all") == 0;
	struct command_question question;
	uint32_t found_count = 0;
	uint64_t id = 0;
	int rc = is_all ? 0 : command_gateway_id(session, &id);
	json_t *request = rc == 0 ? request_of(session) : NULL;

	if (rc == 0 && request == NULL)
		rc = session->error[0] != '\0' ? -EINVAL : -ENOMEM;
	if (rc != 0)
		return rc;
	command_question_init(&question, session);
	rc = command_wait(&question,
	    cleave_gateway_list(session->client, &question.ask, command_on_gateways, &question));
	for (uint32_t i = 0; rc >= 0 && i < question.count; i++) {
		const struct cleave_gateway_entry *gateway =
		    (const struct cleave_gateway_entry *)question.entries + i;
		int one;

		if (!is_all && gateway->id != id)
			continue;
		found_count++;
		one = set_one(session, gateway, request); /* the others are asked nevertheless */
		rc = one != 0 ? 1 : rc;
	}
	if (rc == 0 && found_count == 0)
		rc = command_fail(session, -ENOENT,
		    "no gateway '%s' lives: see cleave gateway list", session->options->name);
	command_question_fini(&question);
	json_decref(request);
	return rc > 0 ? -EHOSTUNREACH : rc;
}
