/* SPDX-License-Identifier: Apache-2.0 */
/* command_node.c -- cleave node add, set, drain, undrain, remove, replace */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/config_value.h"
#include "base/num.h"
#include "command.h"
#include "command_ask.h"

#define NODE_HEARD_NS NUM_S(10) /* that a node which was added may take */
#define NODE_LOOK_NS NUM_MS(100)
#define NODE_WEIGHT_MAX 1000u
#define NODE_ADDRESS_BYTES 256u

static int
node_id(struct command_session *session, uint64_t *ret_id)
{
	const char *text = session->options->name;

	assert(command_has_operand(session->options->command, COMMAND_NODE));
	assert(text != NULL);
	if (config_parse_u64(text, ret_id) == 0 && *ret_id > 0 && *ret_id <= UINT32_MAX)
		return 0;
	return command_fail(session, -EINVAL, "'%s' is no node's number: see cleave node list",
	    text);
}

/* @text with the scheme that it has, or the usual one: a gateway's address is typed without one. NULL: NULL. */
static const char *
node_address(const char *text, char out[NODE_ADDRESS_BYTES])
{
	if (text == NULL || strstr(text, "://") != NULL)
		return text;
	(void)snprintf(out, NODE_ADDRESS_BYTES, "tcp://%s",
	    text); /* one that is cut is too long for the gateway, too */
	return out;
}

/* A change; says what the node is then. @ret_reply: with --json the answer goes there, instead; NULL: it is printed. */
static int
node_change(struct command_session *session, const struct cleave_node_change *change,
    const char *done, json_t **ret_reply)
{
	struct command_question question;
	const struct cleave_node_entry *node;
	int rc;

	assert((change->action == CLEAVE_NODE_ADD) == (change->id == 0));
	assert(done != NULL && session->out != NULL);
	command_question_init(&question, session);
	rc = command_wait(&question,
	    cleave_node_change(session->client, &question.ask, change, command_on_nodes,
		&question));
	node = question.entries;
	assert(rc != 0 || question.count == 1);
	if (rc == 0 && session->options->is_json && ret_reply != NULL)
		*ret_reply = json_incref(question.reply);
	else if (rc == 0 && session->options->is_json)
		rc = command_print_json(question.reply, session->out);
	else if (rc == 0)
		fprintf(session->out, "node %" PRIu64 " at %s: %s\n", node->id, node->address,
		    json_is_false(json_object_get(question.reply, "changed"))
			? "as it was, there was nothing to change"
			: done);
	command_question_fini(&question);
	return rc;
}

/* 0; -EINVAL: said what is wrong. */
static int
node_describe(struct command_session *session, struct cleave_node_change *change)
{
	const struct command_options *options = session->options;
	uint64_t weight = 0;

	assert(change->action == CLEAVE_NODE_ADD || change->action == CLEAVE_NODE_SET);
	change->domain = options->domain;
	change->note = options->note;
	if (options->limits.weight != NULL &&
	    (config_parse_u64(options->limits.weight, &weight) != 0 || weight < 1 ||
		weight > NODE_WEIGHT_MAX))
		return command_fail(session, -EINVAL,
		    "--weight: '%.60s' is not a number from 1 to %u", options->limits.weight,
		    NODE_WEIGHT_MAX);
	change->weight = (uint32_t)weight;
	return 0;
}

int
command_node_add(struct command_session *session)
{
	char address[NODE_ADDRESS_BYTES];
	struct cleave_node_change change = { .action = CLEAVE_NODE_ADD,
		.address = node_address(session->options->name, address) };

	assert(session->options->name != NULL);
	if (node_describe(session, &change) != 0)
		return -EINVAL;
	return node_change(session, &change, "added", NULL);
}

int
command_node_set(struct command_session *session)
{
	const struct command_options *options = session->options;
	char address[NODE_ADDRESS_BYTES];
	struct cleave_node_change change = { .action = CLEAVE_NODE_SET,
		.address = node_address(options->address, address),
		.has_maintenance = options->maintenance != NULL,
		.is_forced = options->is_forced };
	uint64_t ns = 0;
	int rc = node_id(session, &change.id);

	assert(session->client != NULL);
	if (rc == 0)
		rc = node_describe(session, &change);
	if (rc != 0)
		return rc;
	if (options->maintenance != NULL && strcmp(options->maintenance, "off") != 0 &&
	    config_parse_duration(options->maintenance, &ns) != 0)
		return command_fail(session, -EINVAL,
		    "--maintenance: '%s' is neither a time, such as 2h, nor off",
		    options->maintenance);
	change.maintenance_s = (ns + NUM_S(1) - 1) / NUM_S(1);
	if (change.address == NULL && change.domain == NULL && change.note == NULL &&
	    change.weight == 0 && !change.has_maintenance)
		return command_fail(session, -EINVAL,
		    "what is to be changed? See cleave help node set");
	return node_change(session, &change, "changed", NULL);
}

/* ---- leaving ---- */

/* @ret_reply: as of node_change. */
static int
node_drain(struct command_session *session, uint64_t id, json_t **ret_reply)
{
	const struct cleave_node_change change = { .action = CLEAVE_NODE_DRAIN,
		.id = id,
		.is_forced = session->options->is_forced };
	int rc = node_change(session, &change, "draining", ret_reply);

	assert(id > 0 && id <= UINT32_MAX);
	if (rc == 0 && session->options->must_wait)
		rc = command_wait_empty(session, id);
	return rc;
}

int
command_node_drain(struct command_session *session)
{
	uint64_t id;
	int rc = node_id(session, &id);

	assert(session->client != NULL && !session->options->is_lost);
	return rc == 0 ? node_drain(session, id, NULL) : rc;
}

/* Is node @id one that does not drain? False, too, where no gateway says so: then the change will. */
static bool
node_is_in(struct command_session *session, uint64_t id)
{
	struct command_question question;
	const struct cleave_node_entry *nodes;
	bool is_in = false;
	int rc;

	command_question_init(&question, session);
	rc = command_wait(&question,
	    cleave_node_list(session->client, &question.ask, command_on_nodes, &question));
	nodes = question.entries;
	for (uint32_t i = 0; rc == 0 && i < question.count; i++)
		is_in = is_in || (nodes[i].id == id && strcmp(nodes[i].member, "in") == 0);
	command_question_fini(&question);
	return is_in;
}

int
command_node_undrain(struct command_session *session)
{
	struct cleave_node_change change = { .action = CLEAVE_NODE_UNDRAIN };
	int rc = node_id(session, &change.id);
	const char *done;

	assert(session->client != NULL && !session->options->must_wait);
	if (rc != 0)
		return rc;
	done = node_is_in(session, change.id) ? "in use, and was not drained" : "in use again";
	return node_change(session, &change, done, NULL);
}

int
command_node_remove(struct command_session *session)
{
	const struct command_options *options = session->options;
	struct cleave_node_change change = { .action = options->is_lost ? CLEAVE_NODE_LOSE
									: CLEAVE_NODE_REMOVE,
		.is_forced = options->is_forced };
	int rc = node_id(session, &change.id);

	assert(session->client != NULL && session->options->with == NULL);
	return rc == 0 ? node_change(session, &change, "removed", NULL) : rc;
}

/* A node as the cluster has it. */
struct replacement {
	uint64_t id; /* 0: no node is there */
	bool is_in, is_heard;
};

static int
replacement_look(struct command_session *session, const char *address, struct replacement *ret_node)
{
	struct command_question question;
	const struct cleave_node_entry *nodes;
	int rc;

	assert(address != NULL);
	*ret_node = (struct replacement){ .id = 0 };
	command_question_init(&question, session);
	rc = command_wait(&question,
	    cleave_node_list(session->client, &question.ask, command_on_nodes, &question));
	nodes = question.entries;
	for (uint32_t i = 0; rc == 0 && i < question.count; i++) {
		if (strcmp(nodes[i].address, address) == 0)
			*ret_node = (struct replacement){ .id = nodes[i].id,
				.is_in = strcmp(nodes[i].member, "in") == 0,
				.is_heard = strcmp(nodes[i].state, "up") == 0 };
	}
	command_question_fini(&question);
	return rc;
}

/* The new node counts for the drain when the gateway has heard its room. One that an earlier try added is taken. */
static int
replacement_add(struct command_session *session, uint64_t replaced_id, json_t **ret_reply)
{
	char address[NODE_ADDRESS_BYTES];
	struct cleave_node_change change = { .action = CLEAVE_NODE_ADD,
		.address = node_address(session->options->with, address) };
	uint64_t until_ns = loop_now_ns(session->loop) + NODE_HEARD_NS;
	struct replacement node;
	int rc = replacement_look(session, change.address, &node);

	assert(replaced_id > 0 && session->options->with != NULL);
	if (rc == 0 && node.id == replaced_id)
		return command_fail(session, -EINVAL, "%s is the node that is to be replaced",
		    change.address);
	if (rc == 0)
		rc = node_describe(session, &change);
	if (rc == 0 && !node.is_in)
		rc = node_change(session, &change, "added", ret_reply);
	else if (rc == 0 && !session->options->is_json)
		fprintf(session->out, "node %" PRIu64 " at %s: added before\n", node.id,
		    change.address);
	while (rc == 0 && !node.is_heard && loop_now_ns(session->loop) < until_ns) {
		rc = replacement_look(session, change.address, &node);
		if (rc == 0 && !node.is_heard)
			command_pause(session, NODE_LOOK_NS);
	}
	return rc;
}

/* With --json: one object of the answers to both changes. */
static int
replacement_print(struct command_session *session, json_t *added, json_t *changed)
{
	json_t *node = json_object_get(added, "node");

	assert(session->options->is_json && changed != NULL);
	if (node != NULL && json_object_set(changed, "added", node) != 0)
		return -ENOMEM;
	return command_print_json(changed, session->out);
}

int
command_node_replace(struct command_session *session)
{
	const struct command_options *options = session->options;
	struct cleave_node_change lose = { .action = CLEAVE_NODE_LOSE,
		.is_forced = options->is_forced };
	json_t *added = NULL, *changed = NULL;
	int rc = node_id(session, &lose.id);

	assert(session->client != NULL);
	if (rc != 0)
		return rc;
	if (options->with == NULL)
		return command_fail(session, -EINVAL,
		    "the new node's address is missing: --with ADDR");
	rc = replacement_add(session, lose.id, &added);
	if (rc == 0 && options->is_lost)
		rc = node_change(session, &lose, "removed", &changed);
	else if (rc == 0)
		rc = node_drain(session, lose.id, &changed);
	if (rc == 0 && options->is_json)
		rc = replacement_print(session, added, changed);
	json_decref(added);
	json_decref(changed);
	return rc;
}
