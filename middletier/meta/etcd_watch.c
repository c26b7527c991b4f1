/* SPDX-License-Identifier: Apache-2.0 */
/*
 * etcd_watch.c -- one stream of all changes under our prefix; see etcd_watch.h
 *
 *	pausing --> listing --> opening --> live
 *	  ^  |         |           ^ |       |
 *	  |  +---------|-----------+ |       |     resumed behind the last change that is known
 *	  +------------+-------------+-------+     an error, the end of the stream, silence
 *
 * It is resumed behind the last *event*: what the header of a line says may be ahead of events that still come.
 */
#include "meta/etcd_watch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mutant.h"
#include "base/num.h"
#include "meta/etcd_call.h"
#include "meta/etcd_client.h"
#include "meta/etcd_http.h"
#include "meta/etcd_observer.h"

#define LIST_NS NUM_S(5)
#define OPEN_NS NUM_S(2)
#define ECHO_NS NUM_S(2)
#define MINUTE_NS NUM_S(60)
#define PAUSE_MIN_NS NUM_MS(20)
#define PAUSE_MAX_NS NUM_MS(500)
/* The largest transaction is 1 MiB of values; events bring no more than a few at once. */
#define LINE_BYTES_MAX (16u << 20)

enum watch_state { WATCH_PAUSING, WATCH_LISTING, WATCH_OPENING, WATCH_LIVE, WATCH_STATE_NR };

static const struct sm_state watch_table[WATCH_STATE_NR] = {
	[WATCH_PAUSING] = { "pausing", SM_TO(WATCH_LISTING) | SM_TO(WATCH_OPENING), SM_INITIAL },
	[WATCH_LISTING] = { "listing", SM_TO(WATCH_OPENING) | SM_TO(WATCH_PAUSING), 0 },
	[WATCH_OPENING] = { "opening", SM_TO(WATCH_LIVE) | SM_TO(WATCH_PAUSING), 0 },
	[WATCH_LIVE] = { "live", SM_TO(WATCH_PAUSING), 0 },
};

static struct loop *
watch_loop(const struct etcd_watch *watch)
{
	return watch->client->loop;
}

bool
etcd_watch_is_live(const struct etcd_watch *watch)
{
	return watch->sm.state == WATCH_LIVE;
}

/* ---- the end of a stream ---- */

static void
watch_drop(struct etcd_watch *watch)
{
	struct etcd_client *client = watch->client;

	etcd_call_cancel(watch->call);
	watch->call = NULL;
	if (watch->http_call != NULL)
		client->http->ops->cancel(client->http, watch->http_call);
	watch->http_call = NULL;
	etcd_text_fini(&watch->line);
	watch->expected_revision = watch->last_revision = 0;
	loop_timer_stop(client->loop, &watch->echo_timer);
}

/* From the next member, after a pause. */
static void
watch_again(struct etcd_watch *watch, const char *why)
{
	uint64_t pause_ns = PAUSE_MIN_NS +
	    loop_random_below(watch_loop(watch), PAUSE_MAX_NS - PAUSE_MIN_NS);

	assert(watch->sm.state != WATCH_PAUSING);
	log_debug("meta: etcd: the stream of changes begins anew endpoint=%s list=%d why=%s",
	    watch->client->endpoints[watch->endpoint].name, watch->must_list, why);
	etcd_client_trouble(watch->client, watch->endpoint, why);
	watch_drop(watch);
	etcd_client_skip(watch->client, ETCD_LINE_WATCH, watch->endpoint);
	sm_move(&watch->sm, WATCH_PAUSING);
	loop_timer_start(watch_loop(watch), &watch->timer, pause_ns);
}

void
etcd_watch_restart(struct etcd_watch *watch)
{
	watch->must_list = true;
	if (watch->sm.state != WATCH_PAUSING)
		watch_again(watch, "the store was set back");
	watch->on_change(NULL, watch->arg);
}

/* ---- silence ---- */

static void
watch_on_echo(struct loop_timer *timer, void *arg)
{
	struct etcd_watch *watch = arg;

	(void)timer;
	assert(watch->sm.state == WATCH_LIVE);
	assert(watch->expected_revision > watch->revision);
	watch_again(watch, "its stream of changes is behind or dead");
}

/* A change that is expected has come, or not yet. */
static void
watch_echo(struct etcd_watch *watch)
{
	assert(watch->expected_revision <= watch->last_revision);
	if (watch->expected_revision == 0 || watch->revision < watch->expected_revision)
		return;
	loop_timer_stop(watch_loop(watch), &watch->echo_timer);
	watch->expected_revision = watch->last_revision > watch->revision ? watch->last_revision
									  : 0;
	if (watch->expected_revision != 0)
		loop_timer_start(watch_loop(watch), &watch->echo_timer, ECHO_NS);
}

void
etcd_watch_expect(struct etcd_watch *watch, uint64_t revision)
{
	assert(revision > 0);
	if (watch->sm.state != WATCH_LIVE || revision <= watch->revision)
		return;
	watch->last_revision = num_max(watch->last_revision, revision);
	if (watch->expected_revision != 0)
		return; /* an older one comes first */
	watch->expected_revision = revision;
	loop_timer_start(watch_loop(watch), &watch->echo_timer, ECHO_NS);
}

/* ---- lines ---- */

/* False: memory for a lease is lacking. */
static bool
watch_on_event(struct etcd_watch *watch, const struct etcd_kv *kv)
{
	const char *key = etcd_client_name(watch->client, kv->key, ETCD_KEYS);
	const char *lease = etcd_client_name(watch->client, kv->key, ETCD_LEASES);

	assert(watch->sm.state == WATCH_OPENING || watch->sm.state == WATCH_LIVE);
	watch->revision = num_max(watch->revision, kv->mod_revision);
	if (lease != NULL && etcd_observer_see(watch->observer, lease, kv) != 0)
		return false;
	if (key != NULL)
		watch->on_change(key, watch->arg);
	return true;
}

static void
watch_on_created(struct etcd_watch *watch)
{
	assert(watch->sm.state == WATCH_OPENING);
	loop_timer_stop(watch_loop(watch), &watch->timer);
	sm_move(&watch->sm, WATCH_LIVE);
	/* Behind a list nothing tells what has changed before it. */
	if (watch->must_list)
		watch->on_change(NULL, watch->arg);
	watch->must_list = false;
}

/* False: the stream is of no use any more; *@ret_why says why. */
static bool
watch_on_answer(struct etcd_watch *watch, const struct etcd_answer *answer, const char **ret_why)
{
	assert(answer->message != NULL || !(answer->is_error || answer->is_canceled));
	*ret_why = answer->message;
	if (answer->is_canceled && answer->compact_revision > 0 && MUTANT(watch_gap_ignored)) {
		watch->revision = num_max(watch->revision, answer->compact_revision);
		return false;
	}
	if (answer->is_error || answer->is_canceled) {
		/* Compacted, refused, or the member has no leader: to list is right in each case. */
		watch->must_list = true;
		return false;
	}
	*ret_why = "it belongs to another etcd";
	if (!etcd_client_hear(watch->client, watch->endpoint, answer->cluster_id, answer->revision))
		return false;
	if (answer->is_created && watch->sm.state == WATCH_OPENING)
		watch_on_created(watch);
	*ret_why = "out of memory";
	for (uint32_t i = 0; i < answer->kv_count; i++) {
		if (!watch_on_event(watch, &answer->kvs[i])) {
			watch->must_list = true;
			return false;
		}
	}
	watch_echo(watch);
	return true;
}

static bool
watch_on_line(struct etcd_watch *watch, const char *line, size_t count)
{
	char text[ETCD_TROUBLE_BYTES];
	struct etcd_answer answer;
	const char *why;
	bool is_good;

	assert(watch->http_call != NULL);
	if (count == 0)
		return true;
	watch->heard_count++;
	if (etcd_answer_decode(line, count, &answer) != 0) {
		watch->must_list = true;
		watch_again(watch, "a line of its stream cannot be read");
		return false;
	}
	is_good = watch_on_answer(watch, &answer, &why);
	(void)snprintf(text, sizeof(text), "%s", is_good ? "" : why);
	etcd_answer_fini(&answer);
	if (!is_good)
		watch_again(watch, text);
	return is_good;
}

/* Lines end with a newline, and come in pieces of any size. */
static void
watch_on_bytes(const char *bytes, size_t count, void *arg)
{
	struct etcd_watch *watch = arg;
	struct etcd_text *line = &watch->line;

	assert(watch->sm.state == WATCH_OPENING || watch->sm.state == WATCH_LIVE);
	while (count > 0) {
		const char *end = memchr(bytes, '\n', count);
		size_t piece = end == NULL ? count : (size_t)(end - bytes);

		if (line->count + piece > LINE_BYTES_MAX || !etcd_text_append(line, bytes, piece)) {
			watch->must_list = true;
			watch_again(watch, "a line of its stream is too long");
			return;
		}
		if (end == NULL)
			return;
		/* The line's memory stays; what handles it may drop its text. */
		piece++;
		bytes += piece;
		count -= piece;
		if (!watch_on_line(watch, line->bytes, line->count))
			return;
		line->count = 0;
	}
}

static void
watch_on_end(const struct etcd_http_answer *answer, void *arg)
{
	struct etcd_watch *watch = arg;
	char text[ETCD_TROUBLE_BYTES];

	assert(watch->sm.state == WATCH_OPENING || watch->sm.state == WATCH_LIVE);
	watch->http_call = NULL;
	(void)snprintf(text, sizeof(text), "%s",
	    answer->rc != 0 ? answer->error : "its stream of changes has ended");
	/* An error may stand in a last line without an end; listing finds out who is refused what. */
	if (answer->rc == 0)
		watch->must_list |= answer->status != 200;
	watch_again(watch, text);
}

/* ---- opening ---- */

static void
watch_open(struct etcd_watch *watch)
{
	struct etcd_client *client = watch->client;
	struct etcd_text body = { 0 };
	char revision[64];

	assert(watch->call == NULL);
	assert(watch->http_call == NULL);
	assert(watch->line.count == 0);
	watch->endpoint = client->current[ETCD_LINE_WATCH];
	(void)snprintf(revision, sizeof(revision),
	    ",\"start_revision\":\"%" PRIu64 "\",\"progress_notify\":true}}", watch->revision + 1);
	etcd_text_add(&body, "{\"create_request\":{");
	etcd_json_range(&body, client->prefix, true);
	etcd_text_add(&body, revision);
	sm_move(&watch->sm, WATCH_OPENING);
	loop_timer_start(client->loop, &watch->timer, OPEN_NS);
	if (!body.has_failed)
		watch->http_call = client->http->ops->stream(client->http,
		    &(struct etcd_http_request){ .endpoint = watch->endpoint,
			.line = ETCD_LINE_WATCH,
			.path = "/v3/watch",
			.body = body.bytes,
			.body_bytes = body.count,
			.token = client->token,
			.timeout_ns = OPEN_NS },
		    watch_on_bytes, watch_on_end, watch);
	etcd_text_fini(&body);
	if (watch->http_call == NULL)
		watch_again(watch, "out of memory");
}

static void
watch_on_listed(int rc, struct etcd_answer *answer, void *arg)
{
	struct etcd_watch *watch = arg;
	const char *why = watch->client->trouble;

	assert(watch->sm.state == WATCH_LISTING);
	watch->call = NULL;
	if (rc == 0) {
		etcd_observer_see_none(watch->observer);
		for (uint32_t i = 0; i < answer->kv_count && rc == 0; i++) {
			const char *name =
			    etcd_client_name(watch->client, answer->kvs[i].key, ETCD_LEASES);

			if (name != NULL)
				rc = etcd_observer_see(watch->observer, name, &answer->kvs[i]);
		}
		why = "out of memory";
	}
	if (rc != 0) {
		char text[ETCD_TROUBLE_BYTES];

		(void)snprintf(text, sizeof(text), "%s", why);
		sm_move(&watch->sm, WATCH_PAUSING);
		loop_timer_start(watch_loop(watch), &watch->timer, PAUSE_MAX_NS);
		return;
	}
	etcd_observer_see_all(watch->observer);
	watch->revision = answer->revision;
	watch_open(watch);
}

/* All leases. False: out of memory. */
static bool
watch_ask(struct etcd_watch *watch, enum etcd_line line, etcd_call_fn fn)
{
	struct etcd_client *client = watch->client;
	struct etcd_text body = { 0 };
	char key[ETCD_KEY_BYTES_MAX];

	assert(watch->call == NULL);
	etcd_client_key(client, key, ETCD_LEASES, "");
	etcd_text_add(&body, "{");
	etcd_json_range(&body, key, true);
	etcd_text_add(&body, "}");
	watch->call = etcd_call_start(client,
	    &(struct etcd_call_options){ .line = line,
		.path = "/v3/kv/range",
		.body = &body,
		.may_repeat = true,
		.is_linear = true,
		.budget_ns = LIST_NS,
		.fn = fn,
		.arg = watch });
	return watch->call != NULL;
}

static void
watch_list(struct etcd_watch *watch)
{
	assert(watch->must_list);
	sm_move(&watch->sm, WATCH_LISTING);
	if (!watch_ask(watch, ETCD_LINE_WATCH, watch_on_listed))
		watch_again(watch, "out of memory");
}

/* ---- each minute ---- */

/* A lease that the stream has not told of: its time is counted from now on. Of the others it has told enough. */
static void
watch_on_looked(int rc, struct etcd_answer *answer, void *arg)
{
	struct etcd_watch *watch = arg;

	assert(watch->sm.state == WATCH_LIVE);
	watch->call = NULL;
	for (uint32_t i = 0; i < answer->kv_count && rc == 0; i++) {
		const char *name = etcd_client_name(watch->client, answer->kvs[i].key, ETCD_LEASES);

		if (name != NULL && !etcd_observer_knows(watch->observer, name))
			(void)etcd_observer_see(watch->observer, name,
			    &answer->kvs[i]); /* in a minute */
	}
}

/* An event that etcd has lost is made up for; and so is a stream that has died without a word. */
static void
watch_on_minute(struct loop_timer *timer, void *arg)
{
	struct etcd_watch *watch = arg;

	assert((watch->http_call != NULL) ==
	    (watch->sm.state == WATCH_OPENING || watch->sm.state == WATCH_LIVE));
	loop_timer_start(watch_loop(watch), timer, MINUTE_NS);
	if (watch->sm.state == WATCH_LIVE && watch->heard_count == 0)
		watch_again(watch, "its stream of changes was silent for a minute");
	else if (watch->sm.state == WATCH_LIVE && watch->call == NULL)
		(void)watch_ask(watch, ETCD_LINE_REQUEST, watch_on_looked); /* in a minute */
	watch->heard_count = 0;
	watch->on_change(NULL, watch->arg);
}

static void
watch_on_timer(struct loop_timer *timer, void *arg)
{
	struct etcd_watch *watch = arg;

	assert(watch->call == NULL);
	(void)timer;
	assert(watch->sm.state == WATCH_PAUSING || watch->sm.state == WATCH_OPENING);
	if (watch->sm.state == WATCH_OPENING) {
		/* As for a revision that is not yet: such a stream says nothing, for ever. */
		watch->must_list = true;
		watch_again(watch, "its stream of changes does not begin");
	} else if (watch->must_list) {
		watch_list(watch);
	} else {
		watch_open(watch);
	}
}

/* ---- beginning and end ---- */

void
etcd_watch_init(struct etcd_watch *watch, struct etcd_client *client,
    struct etcd_observer *observer, void (*on_change)(const char *key, void *arg), void *arg)
{
	CHECK_OBJ(client, ETCD_CLIENT_MAGIC);
	assert(on_change != NULL);
	*watch = (struct etcd_watch){ .client = client,
		.observer = observer,
		.on_change = on_change,
		.arg = arg,
		.must_list = true };
	sm_init(&watch->sm, "etcd-watch", watch_table, WATCH_PAUSING, 0);
	loop_timer_init(&watch->timer, watch_on_timer, watch);
	loop_timer_init(&watch->echo_timer, watch_on_echo, watch);
	loop_timer_init(&watch->minute_timer, watch_on_minute, watch);
	loop_timer_start(client->loop, &watch->timer, 0);
	loop_timer_start(client->loop, &watch->minute_timer, MINUTE_NS);
}

void
etcd_watch_fini(struct etcd_watch *watch)
{
	struct loop *loop = watch_loop(watch);

	CHECK_OBJ(watch->client, ETCD_CLIENT_MAGIC);
	watch_drop(watch);
	loop_timer_stop(loop, &watch->timer);
	loop_timer_stop(loop, &watch->minute_timer);
	etcd_text_fini(&watch->line);
}
