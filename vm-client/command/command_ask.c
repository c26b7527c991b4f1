/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_ask.c -- see command_ask.h
 *
 * The client runs on a loop of this thread, one question a run of it. What a handler is told is copied: it is gone
 * when that returns.
 */
#include "command_ask.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"

#define ASK_AT_CONNECT_NS_MAX NUM_S(5)       /* for a gateway that may be gone */
#define LIST_ENTRIES_MAX (UINT32_C(1) << 20) /* of all pages: a gateway that never ends is broken */

void
command_question_init(struct command_question *question, struct command_session *session)
{
	assert(session->options != NULL && session->loop != NULL);
	assert(session->client != NULL);
	*question = (struct command_question){ .session = session };
}

void
command_question_fini(struct command_question *question)
{
	assert(question->entries != NULL || question->count == 0);
	json_decref(question->reply);
	free(question->entries);
	*question = (struct command_question){ .session = question->session };
}

/* Waiting. */

/* The thing that options->name names, by the command's words. */
static const char *
name_noun(const struct command_options *options)
{
	assert(options->name != NULL);
	if (options->command != NULL && command_has_operand(options->command, COMMAND_NODE))
		return "node";
	if (options->command != NULL && command_has_operand(options->command, COMMAND_GATEWAY))
		return "gateway";
	if (options->command != NULL &&
	    (command_has_operand(options->command, COMMAND_USER) ||
		command_has_operand(options->command, COMMAND_NEW_USER)))
		return "user";
	return strchr(options->name, '@') != NULL ? "snapshot" : "volume";
}

/* @error, with the name that it is about. @is_answer: it is a gateway's, which names what is wrong, not always of what. */
static int
fail_named(struct command_session *session, int rc, const char *error, bool is_answer)
{
	const char *name = session->options->name;

	assert(rc < 0);
	if (error == NULL)
		return command_fail(session, rc, "%s", cleave_error_text(rc));
	if (is_answer && name != NULL && strstr(error, name) == NULL)
		return command_fail(session, rc, "%s '%.128s': %s", name_noun(session->options),
		    name, error);
	return command_fail(session, rc, "%s", error);
}

/* The answer's text, as an object; NULL after session->error. */
static json_t *
load_reply(struct command_session *session, const char *text)
{
	assert(text != NULL);
	json_t *reply = json_loads(text, 0, NULL);

	assert(text != NULL);
	if (json_is_object(reply))
		return reply;
	json_decref(reply);
	(void)command_fail(session, -EPROTO, "the gateway's reply is no JSON object");
	return NULL;
}

static bool
question_is_done(void *arg)
{
	const struct command_question *question = arg;

	assert(question->session != NULL);
	return question->is_done;
}

static int
question_run(struct command_question *question)
{
	assert(question->session->client != NULL);
	assert(question->rc == 0 || question->is_done);
	(void)loop_run(question->session->loop, question_is_done, question);
	assert(question->is_done); /* the client gives up when its time is over */
	return question->rc;
}

#define NAMES_ARE                                                                                  \
	"names have 1 to 63 letters, digits, '.', '_' and '-', a snapshot's is VOLUME@SNAPSHOT"

/* A request that was not sent: something on the command line is not what a gateway could be asked. */
static int
fail_unsent(struct command_session *session, int rc)
{
	const char *name = session->options->name, *new_name = session->options->new_name;

	assert(rc < 0);
	if (rc == -EINVAL && new_name != NULL)
		return command_fail(session, rc, "'%.128s', '%.64s': " NAMES_ARE, name, new_name);
	if (rc == -EINVAL && name != NULL)
		return command_fail(session, rc, "'%.128s': " NAMES_ARE, name);
	return command_fail(session, rc, "the request: %s", cleave_error_text(rc));
}

int
command_wait(struct command_question *question, int rc)
{
	assert(question->session->client != NULL && question->rc == 0);
	assert(!question->is_done);
	if (rc != 0)
		return fail_unsent(question->session, rc);
	rc = question_run(question);
	question->is_done = false;
	return rc;
}

int
command_wait_pages(struct command_question *question, const char *member,
    int (*start)(struct command_question *question))
{
	json_t *all = json_array();
	int rc = all == NULL ? -ENOMEM : 0;

	assert(member != NULL && start != NULL);
	assert(question->count == 0 && question->reply == NULL);
	while (rc == 0) {
		rc = command_wait(question, start(question));
		if (rc == 0 &&
		    json_array_extend(all, json_object_get(question->reply, member)) != 0)
			rc = -ENOMEM;
		if (!question->is_more)
			break;
	}
	json_decref(question->reply);
	question->reply = json_pack("{s:o}", member, all);
	return rc == 0 && question->reply == NULL ? -ENOMEM : rc;
}

int
command_say(struct command_question *question, int rc, const char *done)
{
	const struct command_session *session = question->session;
	const struct command_options *options = session->options;

	assert(rc != 0 || question->reply != NULL);
	assert(!question->is_done && done != NULL);
	assert(options->name != NULL);
	if (rc == 0 && options->is_json)
		rc = command_print_json(question->reply, session->out);
	else if (rc == 0)
		fprintf(session->out, "%s: %s\n",
		    options->new_name != NULL ? options->new_name : options->name, done);
	command_question_fini(question);
	return rc;
}

/* Handlers. */

/* A handler's arguments, and @count entries of @entry_bytes. */
static void
question_take(struct command_question *question, int rc, const char *error, const void *entries,
    uint32_t count, size_t entry_bytes)
{
	struct command_session *session = question->session;
	const char *answer = question->ask.answer;
	uint8_t *all;

	assert(count == 0 || (entries != NULL && entry_bytes > 0));
	assert(rc == 0 || count == 0);
	assert(!question->is_done);
	assert((rc == 0) == (error == NULL));
	question->is_done = true;
	question->is_more = false;
	json_decref(question->reply);
	question->reply = rc == 0 ? load_reply(session, answer) : NULL;
	if (rc != 0)
		(void)fail_named(session, rc, error, answer != NULL);
	else if (question->reply == NULL)
		rc = -EPROTO;
	else if (count > LIST_ENTRIES_MAX - question->count)
		rc = command_fail(session, -EPROTO, "the gateway's list does not end");
	question->rc = rc;
	if (rc != 0 || count == 0)
		return;
	all = realloc(question->entries, (question->count + count) * entry_bytes);
	if (all == NULL) {
		question->rc = command_fail(session, -ENOMEM, "out of memory");
		return;
	}
	memcpy(all + question->count * entry_bytes, entries, count * entry_bytes);
	question->entries = all;
	question->count += count;
}

/* The question that a handler is called for. */
static struct command_question *
question_of(struct cleave_ask *ask, void *arg)
{
	struct command_question *question = arg;

	(void)ask;
	assert(ask == &question->ask);
	return question;
}

void
command_on_done(struct cleave_ask *ask, int rc, const char *error, void *arg)
{
	question_take(question_of(ask, arg), rc, error, NULL, 0, 0);
}

void
command_on_volume(struct cleave_ask *ask, int rc, const struct cleave_volume_entry *volume,
    const char *error, void *arg)
{
	question_take(question_of(ask, arg), rc, error, volume, volume != NULL, sizeof(*volume));
}

void
command_on_volumes(struct cleave_ask *ask, int rc, const struct cleave_volume_page *page,
    const char *error, void *arg)
{
	struct command_question *question = question_of(ask, arg);

	if (page == NULL) {
		question_take(question, rc, error, NULL, 0, 0);
		return;
	}
	question_take(question, rc, error, page->volumes, page->volume_count,
	    sizeof(*page->volumes));
	question->is_more = page->is_more;
}

void
command_on_snapshot(struct cleave_ask *ask, int rc, const struct cleave_snapshot *snapshot,
    const char *error, void *arg)
{
	question_take(question_of(ask, arg), rc, error, snapshot, snapshot != NULL,
	    sizeof(*snapshot));
}

void
command_on_snapshots(struct cleave_ask *ask, int rc, const struct cleave_snapshot_page *page,
    const char *error, void *arg)
{
	struct command_question *question = question_of(ask, arg);

	if (page == NULL) {
		question_take(question, rc, error, NULL, 0, 0);
		return;
	}
	question_take(question, rc, error, page->snapshots, page->snapshot_count,
	    sizeof(*page->snapshots));
	question->is_more = page->is_more;
}

void
command_on_trash(struct cleave_ask *ask, int rc, const struct cleave_trash_page *page,
    const char *error, void *arg)
{
	struct command_question *question = question_of(ask, arg);

	if (page == NULL) {
		question_take(question, rc, error, NULL, 0, 0);
		return;
	}
	question_take(question, rc, error, page->volumes, page->volume_count,
	    sizeof(*page->volumes));
	question->is_more = page->is_more;
}

void
command_on_gateways(struct cleave_ask *ask, int rc, const struct cleave_gateway_entry *gateways,
    uint32_t count, const char *error, void *arg)
{
	question_take(question_of(ask, arg), rc, error, gateways, count, sizeof(*gateways));
}

void
command_on_nodes(struct cleave_ask *ask, int rc, const struct cleave_node_entry *nodes,
    uint32_t count, const char *error, void *arg)
{
	question_take(question_of(ask, arg), rc, error, nodes, count, sizeof(*nodes));
}

void
command_on_shards(struct cleave_ask *ask, int rc, const struct cleave_shard_entry *shards,
    uint32_t count, const char *error, void *arg)
{
	question_take(question_of(ask, arg), rc, error, shards, count, sizeof(*shards));
}

void
command_on_level(struct cleave_ask *ask, int rc, const struct cleave_cluster_level *level,
    const char *error, void *arg)
{
	question_take(question_of(ask, arg), rc, error, level, level != NULL, sizeof(*level));
}

void
command_on_status(struct cleave_ask *ask, int rc, const struct cleave_gateway_status *status,
    const char *error, void *arg)
{
	question_take(question_of(ask, arg), rc, error, status, status != NULL, sizeof(*status));
}

/* Requests that cleave/manage.h has no call for. */

static void
question_on_answer(struct cleave_call *call, int rc, const char *reply, const char *error,
    void *arg)
{
	struct command_question *question = arg;

	assert(!question->is_done && question->reply == NULL);
	assert(call == &question->call);
	question->is_done = true;
	question->rc = rc;
	if (rc != 0) {
		(void)fail_named(question->session, rc, error, reply != NULL);
		return;
	}
	question->reply = load_reply(question->session, reply);
	if (question->reply == NULL)
		question->rc = -EPROTO;
}

int
command_ask(struct command_session *session, json_t *request, bool must_not_repeat,
    json_t **ret_reply)
{
	char *text = request == NULL ? NULL : json_dumps(request, JSON_COMPACT);
	struct command_question question;
	int rc;

	assert(session->client != NULL && *ret_reply == NULL);
	json_decref(request);
	if (text == NULL)
		return command_fail(session, -ENOMEM, "out of memory, or a name that is not UTF-8");
	command_question_init(&question, session);
	question.call = (struct cleave_call){ .must_not_repeat = must_not_repeat,
		.fn = question_on_answer,
		.arg = &question };
	rc = cleave_control(session->client, &question.call, text);
	free(text);
	if (rc != 0)
		return command_fail(session, rc, "the request: %s", cleave_error_text(rc));
	rc = question_run(&question);
	if (rc == 0)
		*ret_reply = question.reply;
	return rc;
}

int
command_session_at(struct command_session *session, const char *address,
    struct command_session *ret_other)
{
	const struct cleave_client_options options = {
		.loop = session->loop,
		.gateways = &address,
		.gateway_count = 1,
		.control_timeout_ns = session->options->timeout_ns,
		.connect_timeout_ns = num_min(session->options->timeout_ns, ASK_AT_CONNECT_NS_MAX),
		.is_impatient = true,
		.forgets_gateways = true, /* this one, or none */
		.key = session->options->secure.key,
		.security = session->options->secure.security,
		.revoked = session->options->secure.revoked,
	};
	char error[CLEAVE_ERROR_BYTES_MAX] = "";

	assert(session->options->timeout_ns > 0);
	assert(address[0] != '\0');
	*ret_other = (struct command_session){ .options = session->options,
		.loop = session->loop,
		.out = session->out };
	return cleave_client_create(&options, &ret_other->client, error);
}

int
command_ask_at(struct command_session *session, const char *address, json_t *request,
    json_t **ret_reply)
{
	struct command_session other;
	int rc = command_session_at(session, address, &other);

	assert(*ret_reply == NULL);
	if (rc != 0) {
		json_decref(request);
		return rc;
	}
	rc = command_ask(&other, request, false, ret_reply);
	cleave_client_destroy(other.client);
	return rc;
}

/* ---- between two questions ---- */

static void
pause_on_timer(struct loop_timer *timer, void *arg)
{
	assert(!*(const bool *)arg);
	(void)timer;
	*(bool *)arg = true;
}

static bool
pause_is_over(void *arg)
{
	return *(bool *)arg;
}

void
command_pause(struct command_session *session, uint64_t ns)
{
	struct loop_timer timer;
	bool is_over = false;

	assert(ns > 0);
	loop_timer_init(&timer, pause_on_timer, &is_over);
	loop_timer_start(session->loop, &timer, ns);
	(void)loop_run(session->loop, pause_is_over, &is_over);
}

int
command_make_volume(struct command_session *session, const struct cleave_volume_options *options,
    uint64_t *ret_id)
{
	struct command_question question;
	int rc;

	command_question_init(&question, session);
	rc = command_wait(&question,
	    cleave_volume_create(session->client, &question.ask, options, command_on_volume,
		&question));
	if (rc == 0)
		*ret_id = ((const struct cleave_volume_entry *)question.entries)->info.id;
	command_question_fini(&question);
	return rc;
}
