/* SPDX-License-Identifier: Apache-2.0 */
/* command_status.c -- cleave status, which begins with health (command_health.c); node list */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "command.h"
#include "command_ask.h"
#include "command_health.h"
#include "table.h"

/* ---- status ---- */

/* Answers for `cleave status`, all of which is asked for before anything is printed. */
struct status_answers {
	struct command_question status, shards, nodes, gateways, level;
	struct command_health health;
	bool has_health; /* the gateways have answered, whatever failed behind that */
};

static int
status_ask(struct command_session *session, struct status_answers *answers)
{
	struct cleave_client *client = session->client;
	const struct command_options *options = session->options;
	int rc = command_wait(&answers->gateways,
	    cleave_gateway_list(client, &answers->gateways.ask, command_on_gateways,
		&answers->gateways));

	assert(client != NULL);
	if (rc == 0)
		rc = command_health_ask(session, answers->gateways.entries, answers->gateways.count,
		    &answers->health);
	answers->has_health = rc == 0;
	if (rc != 0 || options->is_quiet)
		return rc;
	rc = command_wait(&answers->status,
	    cleave_gateway_status(client, &answers->status.ask, command_on_status,
		&answers->status));
	if (rc == 0)
		rc = command_wait(&answers->nodes,
		    cleave_node_list(client, &answers->nodes.ask, command_on_nodes,
			&answers->nodes));
	if (rc == 0 && options->has_counters)
		rc = command_wait(&answers->shards,
		    cleave_shard_list(client, &answers->shards.ask, command_on_shards,
			&answers->shards));
	/* A gateway of level 1 does not know the question. */
	if (rc == 0)
		(void)command_wait(&answers->level,
		    cleave_cluster_level(client, &answers->level.ask, NULL, 0, command_on_level,
			&answers->level));
	return rc;
}

static int
print_summary(const struct status_answers *answers, FILE *out)
{
	const struct command_summary summary = {
		.status = answers->status.entries,
		.health = &answers->health,
		.nodes = answers->nodes.entries,
		.node_count = answers->nodes.count,
	};

	assert(answers->status.count == 1);
	return command_print_summary(&summary, out);
}

/* The gateway that was asked, its ports and shards, and all that they count. */
static int
print_counters(const struct status_answers *answers, FILE *out)
{
	int rc;

	assert(answers->status.count == 1 && answers->status.reply != NULL);
	fputc('\n', out);
	rc = command_print_status(answers->status.entries, answers->status.reply, out);
	if (rc == 0 && answers->shards.count > 0) { /* too many for one reply: none */
		fputc('\n', out);
		rc = command_print_shards(answers->shards.entries, answers->shards.count, out);
	}
	if (rc == 0)
		rc = command_print_ports(answers->status.reply, out);
	return rc;
}

static int
print_cluster(struct command_session *session, const struct status_answers *answers)
{
	FILE *out = session->out;
	int rc;

	command_health_print(&answers->health, out);
	fputc('\n', out);
	rc = print_summary(answers, out);
	if (rc == 0) {
		fputc('\n', out);
		rc = command_print_nodes(answers->nodes.entries, answers->nodes.count, out);
	}
	if (rc == 0) {
		fputc('\n', out);
		rc =
		    command_print_gateways(answers->gateways.entries, answers->gateways.count, out);
	}
	if (rc == 0)
		command_status_flattening(session, answers->status.reply);
	if (rc == 0 && answers->level.count > 0) {
		fputc('\n', out);
		command_print_level(answers->level.entries, out);
	}
	if (rc == 0 && session->options->has_counters)
		rc = print_counters(answers, out);
	return rc;
}

/* The asked gateway's words of itself, and "health": what all say. */
static int
print_status_json(const struct status_answers *answers, FILE *out)
{
	json_t *health = command_health_json(&answers->health);

	if (health == NULL || json_object_set_new(answers->status.reply, "health", health) != 0)
		return -ENOMEM;
	return command_print_json(answers->status.reply, out);
}

/* The health alone: no gateway has answered, or none all that was asked, with session->error. */
static void
print_failed(struct command_session *session, int rc, struct status_answers *answers)
{
	const struct command_options *options = session->options;
	struct command_health *health = &answers->health;
	json_t *object;

	if (!answers->has_health)
		command_health_fini(health);
	if (options->is_quiet ||
	    (!answers->has_health &&
		command_health_unreached(session, rc, session->error, health) != 0))
		return;
	if (!options->is_json) {
		command_health_print(health, session->out);
		return;
	}
	object = json_pack("{s:o}", "health", command_health_json(health));
	if (object != NULL)
		(void)command_print_json(object, session->out);
	json_decref(object);
}

int
command_status(struct command_session *session)
{
	const struct command_options *options = session->options;
	struct status_answers answers = { .health = { .reasons = NULL } };
	int rc;

	assert(session->client != NULL && session->out != NULL);
	command_question_init(&answers.status, session);
	command_question_init(&answers.shards, session);
	command_question_init(&answers.nodes, session);
	command_question_init(&answers.gateways, session);
	command_question_init(&answers.level, session);
	rc = status_ask(session, &answers);
	session->exit_status = (int)answers.health.level;
	if (rc != 0)
		session->exit_status = answers.has_health
		    ? (int)num_max(answers.health.level, CLEAVE_HEALTH_WARN)
		    : (int)CLEAVE_HEALTH_ERROR;
	if (rc != 0) {
		print_failed(session, rc, &answers);
	} else if (options->is_json && !options->is_quiet) {
		rc = print_status_json(&answers, session->out);
	} else if (!options->is_quiet) {
		rc = print_cluster(session, &answers);
	}
	command_health_fini(&answers.health);
	command_question_fini(&answers.level);
	command_question_fini(&answers.shards);
	command_question_fini(&answers.nodes);
	command_question_fini(&answers.gateways);
	command_question_fini(&answers.status);
	return rc;
}

/* Nodes that drain: how much is left, and what that waits for. A gateway may not say: the list is whole without. */
static void
node_print_draining(struct command_session *session, const struct command_question *question)
{
	const struct cleave_node_entry *nodes = question->entries;

	assert(question->session == session && !session->options->is_json);
	assert(question->entries != NULL || question->count == 0);
	for (uint32_t i = 0; i < question->count; i++) {
		if (strcmp(nodes[i].member, "draining") == 0)
			(void)command_print_left(session, nodes[i].id);
	}
}

int
command_node_list(struct command_session *session)
{
	struct command_question question;
	int rc;

	assert(session->client != NULL && session->out != NULL);
	command_question_init(&question, session);
	rc = command_wait(&question,
	    cleave_node_list(session->client, &question.ask, command_on_nodes, &question));
	if (rc == 0)
		rc = session->options->is_json
		    ? command_print_json(question.reply, session->out)
		    : command_print_nodes(question.entries, question.count, session->out);
	if (rc == 0 && !session->options->is_json)
		node_print_draining(session, &question);
	command_question_fini(&question);
	return rc;
}
