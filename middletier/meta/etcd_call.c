/* SPDX-License-Identifier: Apache-2.0 */
/*
 * etcd_call.c -- one request to an etcd of several members; see etcd_call.h
 *
 * A call:
 *
 *	          +--> naming ---+   says who we are, where there is no token
 *	waiting --+--> proving --+--> sent --> done
 *	   ^      |       |      |      |
 *	   +------+-------+------+------+   the next member, at once or after a pause
 *
 * "Proving": a member that has not answered yet, or not since its connection broke, is asked for its cluster's
 * id first. A transaction that reached another cluster could not be taken back.
 *
 * What of an error means that nothing happened, and what "perhaps", decides call_on_error.
 */
#include "meta/etcd_call.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mutant.h"
#include "base/num.h"
#include "base/sm.h"
#include "common/alloc.h"
#include "meta/etcd_client.h"

#define CALL_MAGIC 0x4c414345u /* "ECAL" */
#define PAUSE_MIN_NS NUM_MS(50)
#define PAUSE_MAX_NS NUM_MS(150)
#define SAID_BYTES 120u /* quoted of a server that is no etcd */

enum call_state { CALL_WAITING, CALL_NAMING, CALL_PROVING, CALL_SENT, CALL_DONE, CALL_STATE_NR };

static const struct sm_state call_table[CALL_STATE_NR] = {
	[CALL_WAITING] = { "waiting",
	    SM_TO(CALL_NAMING) | SM_TO(CALL_PROVING) | SM_TO(CALL_SENT) | SM_TO(CALL_DONE),
	    SM_INITIAL },
	[CALL_NAMING] = { "naming", SM_TO(CALL_WAITING) | SM_TO(CALL_DONE), 0 },
	[CALL_PROVING] = { "proving", SM_TO(CALL_WAITING) | SM_TO(CALL_DONE), 0 },
	[CALL_SENT] = { "sent", SM_TO(CALL_WAITING) | SM_TO(CALL_DONE), 0 },
	[CALL_DONE] = { "done", 0, SM_FINAL },
};

struct etcd_call {
	uint32_t magic; /* CALL_MAGIC */
	struct sm sm;
	struct loop_link link; /* client->calls */
	struct etcd_client *client;
	enum etcd_line line;
	const char *path;
	struct etcd_text body;
	bool may_repeat, is_linear, is_change;
	bool has_named;           /* it has asked for a token already */
	bool has_another;         /* it has tried another password already */
	uint32_t password_number; /* that it has named itself with */
	uint32_t endpoint;
	uint32_t failed_in_row; /* members, since the last pause */
	uint64_t began_ns, deadline_ns;
	uint64_t known_revision; /* when it was sent */
	uint32_t generation;
	struct etcd_http_call *http_call;
	struct loop_timer timer; /* of waiting */
	etcd_call_fn fn;
	void *arg;
};

static void call_step(struct etcd_call *call);

static void
call_free(struct etcd_call *call)
{
	struct etcd_client *client = call->client;

	CHECK_OBJ(call, CALL_MAGIC);
	assert(client->call_count > 0);
	client->call_count--;
	list_remove(&call->link);
	loop_timer_stop(client->loop, &call->timer);
	if (call->http_call != NULL)
		client->http->ops->cancel(client->http, call->http_call);
	etcd_text_fini(&call->body);
	call->magic = 0;
	mt_free(call);
}

void
etcd_call_cancel(struct etcd_call *call)
{
	if (call != NULL)
		call_free(call);
}

/* A lease depends on how long its calls take, and on nothing else. */
static void
call_measure(const struct etcd_call *call)
{
	struct etcd_client *client = call->client;
	uint64_t took_ns = loop_now_ns(client->loop) - call->began_ns;

	assert(loop_now_ns(client->loop) >= call->began_ns);
	if (call->line == ETCD_LINE_LEASE && etcd_latency_add(&client->latency, took_ns))
		log_warn("meta: etcd is slow: 1 of 100 renewals takes longer than a sixth of the "
			 "lease, which may end for it p99_ms=%" PRIu64 " last_ms=%" PRIu64
			 " limit_ms=%" PRIu64,
		    etcd_latency_p99(&client->latency) / NUM_MS(1), took_ns / NUM_MS(1),
		    client->latency.limit_ns / NUM_MS(1));
}

static void
call_finish(struct etcd_call *call, int rc, struct etcd_answer *answer)
{
	etcd_call_fn fn = call->fn;
	void *arg = call->arg;
	struct etcd_answer none = { 0 };

	assert(call->http_call == NULL);
	assert(rc != 0 || answer != NULL);
	sm_move(&call->sm, CALL_DONE);
	call_measure(call);
	call_free(call);
	fn(rc, answer != NULL ? answer : &none, arg);
}

/* The next member; after all of them a pause. */
static void
call_again(struct etcd_call *call, const char *why)
{
	struct etcd_client *client = call->client;
	uint64_t now_ns = loop_now_ns(client->loop), pause_ns = 0;

	assert(call->http_call == NULL);
	etcd_client_trouble(client, call->endpoint, why);
	etcd_client_tell_silence(client);
	etcd_client_skip(client, call->line, call->endpoint);
	if (++call->failed_in_row >= client->endpoint_count) {
		call->failed_in_row = 0;
		pause_ns = PAUSE_MIN_NS +
		    loop_random_below(client->loop, PAUSE_MAX_NS - PAUSE_MIN_NS);
	}
	if (now_ns + pause_ns >= call->deadline_ns) {
		call_finish(call, -ETIMEDOUT, NULL);
		return;
	}
	sm_move(&call->sm, CALL_WAITING);
	loop_timer_start(client->loop, &call->timer, pause_ns);
}

/* No answer, or none that counts: did it perhaps happen? */
static void
call_fail(struct etcd_call *call, bool was_sent, const char *why)
{
	struct etcd_client *client = call->client;

	assert(call->http_call == NULL);
	assert(call->sm.state != CALL_WAITING);
	assert(call->sm.state != CALL_DONE);
	etcd_client_prove(client, call->endpoint, false);
	if (call->sm.state == CALL_SENT && was_sent && !call->may_repeat) {
		etcd_client_trouble(client, call->endpoint, why);
		etcd_client_tell_silence(client);
		etcd_client_skip(client, call->line, call->endpoint);
		call_finish(call, -ETIMEDOUT, NULL);
	} else {
		call_again(call, why);
	}
}

/* A token that has expired; once a call, since a second one that is refused was no better. */
static bool
call_names_itself(struct etcd_call *call)
{
	assert(call->http_call == NULL);
	if (call->client->user == NULL || call->has_named)
		return false;
	etcd_client_forget_token(call->client);
	call->client->is_user_needless = false;
	return true;
}

static bool
answer_is_about_tokens(const struct etcd_answer *answer)
{
	assert(answer->is_error);
	assert(answer->message != NULL);
	return answer->code == ETCD_CODE_UNAUTHENTICATED ||
	    strstr(answer->message, "invalid auth token") != NULL ||
	    strstr(answer->message, "user name is empty") != NULL ||
	    /* A JWT of before somebody changed a user or a role, whoever that is; nothing was done. */
	    strstr(answer->message, "revision of auth store is old") != NULL;
}

/*
 * An error of etcd itself. What it refuses before it has asked the other members did not happen. What it gave
 * up afterwards (no leader any more, its own time-out) may have.
 */
static void
call_on_error(struct etcd_call *call, struct etcd_answer *answer)
{
	struct etcd_client *client = call->client;
	char text[ETCD_TROUBLE_BYTES];

	assert(answer->is_error);
	if (answer_is_about_tokens(answer)) {
		if (call_names_itself(call)) {
			sm_move(&call->sm, CALL_WAITING);
			loop_timer_start(client->loop, &call->timer, 0);
			return;
		}
		(void)snprintf(text, sizeof(text), "%s: %s", answer->message,
		    client->user == NULL ? "it wants a user: see --meta-user" : client->user);
		etcd_client_refuse(client, call->endpoint, text);
		call_finish(call, -EACCES, answer);
	} else if (answer->code == ETCD_CODE_PERMISSION_DENIED) {
		(void)snprintf(text, sizeof(text),
		    "%s: user %s needs a role with readwrite on the prefix %s", answer->message,
		    client->user == NULL ? "(none)" : client->user, client->prefix);
		etcd_client_refuse(client, call->endpoint, text);
		call_finish(call, -EACCES, answer);
	} else if (answer->code == ETCD_CODE_RESOURCE_EXHAUSTED &&
	    strstr(answer->message, "space exceeded") != NULL) {
		log_limited(LOG_ERROR,
		    "meta: etcd is full: make room by `etcdctl compact` and `etcdctl defrag`, then "
		    "`etcdctl alarm disarm` endpoint=%s",
		    etcd_client_endpoint_name(client, call->endpoint));
		call_finish(call, -ENOSPC, answer);
	} else if (answer->code == ETCD_CODE_OUT_OF_RANGE) {
		call_finish(call, -ERANGE, answer);
	} else if (answer->code == ETCD_CODE_RESOURCE_EXHAUSTED &&
	    strstr(answer->message, "too many requests") != NULL) {
		call_again(call, answer->message);
	} else if (answer->code == ETCD_CODE_INVALID_ARGUMENT ||
	    answer->code == ETCD_CODE_RESOURCE_EXHAUSTED ||
	    answer->code == ETCD_CODE_FAILED_PRECONDITION) {
		etcd_client_trouble(client, call->endpoint, answer->message);
		log_limited(LOG_ERROR, "meta: etcd refuses a request: %s", client->trouble);
		call_finish(call, -EIO, answer);
	} else {
		call_fail(call, true, answer->message);
	}
}

/* The answer to the request itself. */
static void
call_on_result(struct etcd_call *call, struct etcd_answer *answer)
{
	struct etcd_client *client = call->client;
	bool is_void = call->generation != client->generation;

	assert(call->sm.state == CALL_SENT);
	assert(!answer->is_error);
	if (!etcd_client_is_ours(client, call->endpoint, answer->cluster_id)) {
		call_fail(call, true, "it belongs to another etcd");
		return;
	}
	etcd_client_be_good(client, call->endpoint);
	if (!is_void && call->is_linear && answer->revision < call->known_revision &&
	    !MUTANT(generation_ignored)) {
		etcd_client_set_back(client, answer->revision, call->known_revision,
		    answer->revision);
		is_void = true;
	}
	if (!is_void)
		client->revision = num_max(client->revision, answer->revision);
	if (!is_void && call->is_change && answer->has_succeeded)
		client->on_change(answer->revision, client->arg);
	call_finish(call, is_void ? -ETIMEDOUT : 0, answer);
}

static void
call_on_proof(struct etcd_call *call, const struct etcd_answer *answer)
{
	struct etcd_client *client = call->client;

	assert(call->sm.state == CALL_PROVING);
	assert(!answer->is_error);
	if (!etcd_client_is_ours(client, call->endpoint, answer->cluster_id)) {
		call_fail(call, false, "it belongs to another etcd");
		return;
	}
	etcd_client_prove(client, call->endpoint, true);
	sm_move(&call->sm, CALL_WAITING);
	call_step(call);
}

/* Somebody may have changed the password, here and in the file. One that is refused, too, is for people. */
static void
call_on_wrong_password(struct etcd_call *call, struct etcd_answer *answer)
{
	struct etcd_client *client = call->client;
	char text[ETCD_TROUBLE_BYTES], why[ETCD_TROUBLE_BYTES] = "";

	assert(call->sm.state == CALL_NAMING);
	if (!call->has_another && etcd_client_password_again(client, call->password_number, why)) {
		call->has_another = true;
		sm_move(&call->sm, CALL_WAITING);
		loop_timer_start(client->loop, &call->timer, 0);
		return;
	}
	(void)snprintf(text, sizeof(text), "user %s: %.100s%s%.100s", client->user, answer->message,
	    why[0] == '\0' ? "" : ": ",
	    why[0] == '\0' && client->password_file != NULL ? client->password_file : why);
	etcd_client_refuse(client, call->endpoint, text);
	call_finish(call, -EACCES, answer);
}

/* Where nobody has to say who he is, we do not. */
static void
call_on_token(struct etcd_call *call, struct etcd_answer *answer)
{
	struct etcd_client *client = call->client;

	assert(call->sm.state == CALL_NAMING);
	assert(client->user != NULL);
	if (answer->is_error && answer->code == ETCD_CODE_FAILED_PRECONDITION) {
		log_limited(LOG_WARN,
		    "meta: etcd has no users: --meta-user is of no use endpoint=%s",
		    etcd_client_endpoint_name(client, call->endpoint));
		/* Not for good: it may be of another etcd. */
		client->is_user_needless = true;
	} else if (answer->is_error && answer->code == ETCD_CODE_INVALID_ARGUMENT) {
		call_on_wrong_password(call, answer);
		return;
	} else if (answer->is_error || answer->token == NULL) {
		call_again(call, answer->is_error ? answer->message : "no token came");
		return;
	} else {
		etcd_client_forget_token(client);
		client->token = mt_strdup(answer->token); /* none: asked for again */
		call->has_named = client->token != NULL;
	}
	sm_move(&call->sm, CALL_WAITING);
	loop_timer_start(client->loop, &call->timer, 0);
}

/* The first line of what is no answer of an etcd: it may say why, as a server of TLS does. */
static void
call_quote(const struct etcd_http_answer *http, char ret_said[SAID_BYTES])
{
	size_t count = 0;

	assert(http->body != NULL || http->body_bytes == 0);
	while (count < SAID_BYTES - 1 && count < http->body_bytes && http->body[count] >= ' ' &&
	    http->body[count] <= '~') {
		ret_said[count] = http->body[count];
		count++;
	}
	ret_said[count] = '\0';
}

/* An answer of HTTP came. */
static void
call_on_answer(struct etcd_call *call, const struct etcd_http_answer *http)
{
	struct etcd_answer answer;
	char text[ETCD_TROUBLE_BYTES], said[SAID_BYTES];
	int rc = etcd_answer_decode(http->body, http->body_bytes, &answer);

	assert(http->rc == 0);
	assert(call->http_call == NULL);
	if (rc == -ENOMEM) {
		call_fail(call, true, "out of memory");
		return;
	}
	if (rc != 0) {
		call_quote(http, said);
		(void)snprintf(text, sizeof(text),
		    "this is no etcd, or no version 3.4 (HTTP %u: '%s')", http->status, said);
		etcd_client_suspect(call->client, call->endpoint, text);
		call_fail(call, http->status == 200 || http->status >= 500, text);
		return;
	}
	if (call->sm.state == CALL_NAMING)
		call_on_token(call, &answer);
	else if (answer.is_error)
		call_on_error(call, &answer);
	else if (call->sm.state == CALL_PROVING)
		call_on_proof(call, &answer);
	else
		call_on_result(call, &answer);
	etcd_answer_fini(&answer);
}

static void
call_on_http(const struct etcd_http_answer *http, void *arg)
{
	struct etcd_call *call = arg;

	CHECK_OBJ(call, CALL_MAGIC);
	assert(call->sm.state == CALL_NAMING || call->sm.state == CALL_PROVING ||
	    call->sm.state == CALL_SENT);
	call->http_call = NULL;
	if (http->rc == 0 && http->body_bytes > 0) {
		call_on_answer(call, http);
		return;
	}
	if (http->rc == -EKEYREJECTED)
		etcd_client_suspect(call->client, call->endpoint, http->error);
	/* Some versions answer nothing at all to a token that has expired. */
	if (http->rc == 0 || http->rc == -ENODATA)
		(void)call_names_itself(call);
	call_fail(call, http->rc == 0 || http->was_sent,
	    http->rc == 0 ? "its answer was empty" : http->error);
}

/* ---- steps ---- */

static void
call_post(struct etcd_call *call, enum call_state state, struct etcd_http_request *request)
{
	struct etcd_client *client = call->client;

	assert(call->http_call == NULL);
	assert(call->endpoint < client->endpoint_count);
	request->endpoint = call->endpoint;
	request->line = call->line;
	request->token = state == CALL_NAMING ? NULL : client->token;
	assert(request->timeout_ns > 0);
	sm_move(&call->sm, state);
	call->http_call = client->http->ops->post(client->http, request, call_on_http, call);
	if (call->http_call == NULL)
		call_again(call, "out of memory");
}

static void
call_post_name(struct etcd_call *call, uint64_t timeout_ns)
{
	struct etcd_text body = { 0 };

	assert(call->client->user != NULL);
	assert(call->client->password != NULL);
	call->password_number = call->client->password_number;
	etcd_text_add(&body, "{\"name\":");
	etcd_text_string(&body, call->client->user);
	etcd_text_add(&body, ",\"password\":");
	etcd_text_string(&body, call->client->password);
	etcd_text_add(&body, "}");
	if (body.has_failed)
		body.count = 0; /* refused, tried again */
	call_post(call, CALL_NAMING,
	    &(struct etcd_http_request){ .path = "/v3/auth/authenticate",
		.body = body.count == 0 ? "{}" : body.bytes,
		.body_bytes = body.count == 0 ? 2 : body.count,
		.timeout_ns = timeout_ns });
	etcd_text_fini(&body);
}

static void
call_post_proof(struct etcd_call *call, uint64_t timeout_ns)
{
	struct etcd_text body = { 0 };

	assert(!etcd_client_is_proven(call->client, call->endpoint));
	etcd_text_add(&body, "{");
	etcd_json_range(&body, call->client->prefix, false);
	/* Any member can answer this alone: it is about the member. */
	etcd_text_add(&body, ",\"count_only\":true,\"serializable\":true}");
	call_post(call, CALL_PROVING,
	    &(struct etcd_http_request){ .path = "/v3/kv/range",
		.body = body.has_failed ? "{}" : body.bytes,
		.body_bytes = body.has_failed ? 2 : body.count,
		.timeout_ns = timeout_ns });
	etcd_text_fini(&body);
}

static void
call_step(struct etcd_call *call)
{
	struct etcd_client *client = call->client;
	uint64_t now_ns = loop_now_ns(client->loop);
	uint64_t left_ns = call->deadline_ns - now_ns, try_ns = num_min(left_ns, client->try_ns);

	assert(call->sm.state == CALL_WAITING);
	if (now_ns >= call->deadline_ns || call->generation != client->generation) {
		call_finish(call, -ETIMEDOUT, NULL);
		return;
	}
	call->endpoint = client->current[call->line];
	if (client->user != NULL && client->token == NULL && !client->is_user_needless) {
		call_post_name(call, try_ns);
	} else if (!etcd_client_is_proven(client, call->endpoint)) {
		call_post_proof(call, try_ns);
	} else {
		call->known_revision = client->revision;
		call_post(call, CALL_SENT,
		    &(struct etcd_http_request){ .path = call->path,
			.body = call->body.bytes,
			.body_bytes = call->body.count,
			/* After a try that may happen once only there is none. */
			.timeout_ns = call->may_repeat ? try_ns : left_ns });
	}
}

static void
call_on_timer(struct loop_timer *timer, void *arg)
{
	struct etcd_call *call = arg;

	(void)timer;
	CHECK_OBJ(call, CALL_MAGIC);
	call_step(call);
}

struct etcd_call *
etcd_call_start(struct etcd_client *client, const struct etcd_call_options *options)
{
	struct etcd_call *call;

	CHECK_OBJ(client, ETCD_CLIENT_MAGIC);
	assert(options->line < ETCD_LINE_NR);
	assert(options->budget_ns > 0);
	assert(options->fn != NULL);
	call = client->call_count == ETCD_CALLS_MAX || options->body->has_failed
	    ? NULL
	    : mt_calloc(1, sizeof(*call));
	if (call == NULL) {
		etcd_text_fini(options->body);
		return NULL;
	}
	call->magic = CALL_MAGIC;
	sm_init(&call->sm, "etcd-call", call_table, CALL_WAITING, options->line);
	call->client = client;
	call->line = options->line;
	call->path = options->path;
	call->body = *options->body;
	*options->body = (struct etcd_text){ 0 };
	call->may_repeat = options->may_repeat;
	call->is_linear = options->is_linear;
	call->is_change = options->is_change;
	call->began_ns = loop_now_ns(client->loop);
	call->deadline_ns = call->began_ns + options->budget_ns;
	call->generation = client->generation;
	call->fn = options->fn;
	call->arg = options->arg;
	loop_timer_init(&call->timer, call_on_timer, call);
	list_push_back(&client->calls, &call->link);
	client->call_count++;
	/* Not from here: a step may end the call. */
	loop_timer_start(client->loop, &call->timer, 0);
	return call;
}

void
etcd_call_cancel_all(struct etcd_client *client)
{
	struct loop_link *link;

	CHECK_OBJ(client, ETCD_CLIENT_MAGIC);
	while ((link = list_first(&client->calls)) != NULL)
		call_free(LIST_ENTRY(link, struct etcd_call, link));
	assert(client->call_count == 0);
}
