/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_etcd_http.c -- the way to a fake etcd and back; see fake_etcd.h
 *
 *	going --> coming --> (posted to the process)            a request: two timers of the service's loop
 *	going --> streaming --> ended --> (posted)              a stream
 *
 * Everything on its way belongs to the service, whether its process still lives or not. What of a stream a process
 * is handed comes in pieces of any length.
 */
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "fake_etcd.h"

#define LATE_NS NUM_S(8) /* at most; nobody waits for longer than 5 s */

struct fake_way {
	struct etcd_http base;
	struct fake_etcd *etcd;
	struct loop *loop;
	bool is_cut_off;
};

enum fake_phase { FAKE_GOING, FAKE_COMING, FAKE_STREAMING, FAKE_ENDED };

struct etcd_http_call {
	struct loop_link link; /* etcd->calls */
	struct fake_etcd *etcd;
	struct fake_way *way; /* NULL: nobody waits any more */
	enum fake_phase phase;
	struct loop_timer timer;
	struct loop_post post;
	bool is_posted, is_delivering;
	uint32_t member;
	char path[64];
	char *body, *token;
	uint64_t due_ns; /* nobody waits any longer */
	int rc;
	bool was_sent;
	uint32_t status;
	char *text;
	etcd_http_fn fn;
	void *arg;
	/* A stream. */
	etcd_http_bytes_fn bytes_fn; /* NULL: it is none */
	json_t *request;
	uint64_t next_revision; /* to be told of */
	bool is_silent;
	char *pending;
	size_t pending_bytes;
};

static uint64_t
etcd_delay(struct fake_etcd *etcd)
{
	return etcd->delay_min_ns +
	    loop_random_below(etcd->loop, etcd->delay_max_ns - etcd->delay_min_ns + 1);
}

static bool
has_bad_luck(struct fake_etcd *etcd, uint32_t per_mille)
{
	return per_mille > 0 && loop_random_below(etcd->loop, 1000) < per_mille;
}

static void
call_free(struct etcd_http_call *call)
{
	list_remove(&call->link);
	loop_timer_stop(call->etcd->loop, &call->timer);
	json_decref(call->request);
	free(call->body);
	free(call->token);
	free(call->text);
	free(call->pending);
	free(call);
}

static void call_on_timer(struct loop_timer *timer, void *arg);

/* ---- handing over ---- */

static void
call_post(struct etcd_http_call *call)
{
	if (call->is_posted)
		return;
	call->is_posted = true;
	loop_post(call->way->loop, &call->post);
}

static void
call_end(struct etcd_http_call *call)
{
	const struct etcd_http_answer answer = { .rc = call->rc,
		.was_sent = call->was_sent,
		.status = call->status,
		.body = call->text,
		.body_bytes = call->text == NULL ? 0 : strlen(call->text),
		.error = call->rc == 0 ? NULL : strerror(-call->rc) };

	call->is_delivering = true;
	call->fn(&answer, call->arg);
	call_free(call);
}

static void
call_deliver(struct etcd_http_call *call)
{
	size_t bytes = 1 + loop_random_below(call->etcd->loop, call->pending_bytes);
	char *piece = malloc(bytes);

	assert(piece != NULL);
	memcpy(piece, call->pending, bytes);
	memmove(call->pending, call->pending + bytes, call->pending_bytes - bytes);
	call->pending_bytes -= bytes;
	call->is_delivering = true;
	call->bytes_fn(piece, bytes, call->arg);
	call->is_delivering = false;
	free(piece);
	if (call->way == NULL)
		call_free(call);
	else if (call->pending_bytes > 0 || call->phase == FAKE_ENDED)
		call_post(call);
}

static void
call_on_post(struct loop_post *post, void *arg)
{
	struct etcd_http_call *call = arg;

	(void)post;
	call->is_posted = false;
	if (call->way == NULL)
		call_free(call);
	else if (call->pending_bytes > 0)
		call_deliver(call);
	else if (call->bytes_fn == NULL || call->phase == FAKE_ENDED)
		call_end(call);
}

/* ---- going and coming ---- */

/* Nobody hears of it before the process has given up to wait. */
static void
call_time_out(struct etcd_http_call *call, bool was_sent)
{
	uint64_t now_ns = loop_now_ns(call->etcd->loop);

	call->phase = FAKE_COMING;
	call->rc = -ETIMEDOUT;
	call->was_sent = was_sent;
	loop_timer_start(call->etcd->loop, &call->timer,
	    call->due_ns > now_ns ? call->due_ns - now_ns : 0);
}

static void
call_answer(struct etcd_http_call *call, int rc, bool was_sent)
{
	call->phase = FAKE_COMING;
	call->rc = rc;
	call->was_sent = was_sent;
	loop_timer_start(call->etcd->loop, &call->timer, etcd_delay(call->etcd));
}

static void
call_apply(struct etcd_http_call *call)
{
	call->status = fake_etcd_answer(call->etcd, call->member, call->path, call->token,
	    call->body, &call->text);
}

static void
stream_add(struct etcd_http_call *call, json_t *line)
{
	char *text = json_dumps(line, JSON_COMPACT);
	size_t bytes;

	assert(text != NULL);
	bytes = strlen(text);
	call->pending = realloc(call->pending, call->pending_bytes + bytes + 1);
	assert(call->pending != NULL);
	memcpy(call->pending + call->pending_bytes, text, bytes);
	call->pending[call->pending_bytes + bytes] = '\n';
	call->pending_bytes += bytes + 1;
	free(text);
	json_decref(line);
	if (call->way != NULL && !call->is_delivering)
		call_post(call);
}

static void
stream_end(struct etcd_http_call *call, int rc)
{
	loop_timer_stop(call->etcd->loop, &call->timer);
	call->phase = FAKE_ENDED;
	call->rc = rc;
	call->status = 200;
	if (call->way == NULL && !call->is_posted && !call->is_delivering)
		call_free(call);
	else if (call->way != NULL && !call->is_delivering)
		call_post(call);
}

static json_t *
stream_line(struct etcd_http_call *call, const char *member, json_t *value)
{
	return json_pack("{s:{s:o, s:o}}", "result", "header",
	    fake_etcd_header(call->etcd, call->member), member, value);
}

static void
stream_cancel_compacted(struct etcd_http_call *call)
{
	char text[32];
	json_t *line = stream_line(call, "canceled", json_true());

	(void)snprintf(text, sizeof(text), "%" PRIu64, call->etcd->compacted);
	json_object_set_new(json_object_get(line, "result"), "compact_revision", json_string(text));
	stream_add(call, line);
	stream_end(call, 0);
}

/* Tells what has changed since. */
static void
stream_tell(struct etcd_http_call *call)
{
	struct fake_etcd *etcd = call->etcd;
	json_t *events = json_array();
	uint32_t first = etcd->change_count;

	if (call->next_revision < etcd->compacted) {
		json_decref(events);
		stream_cancel_compacted(call);
		return;
	}
	while (first > 0 && etcd->changes[first - 1].revision >= call->next_revision)
		first--;
	for (uint32_t i = first; i < etcd->change_count; i++) {
		const struct fake_change *change = &etcd->changes[i];
		char revision[32], version[32];
		json_t *kv;

		if (!fake_etcd_in_range(call->request, change->key) ||
		    has_bad_luck(etcd, etcd->faults.withheld))
			continue;
		(void)snprintf(revision, sizeof(revision), "%" PRIu64, change->revision);
		(void)snprintf(version, sizeof(version), "%" PRIu64, change->version);
		kv = json_pack("{s:s, s:s}", "key", change->key, "mod_revision", revision);
		if (change->value != NULL) {
			json_object_set_new(kv, "value", json_string(change->value));
			json_object_set_new(kv, "version", json_string(version));
		}
		json_array_append_new(events,
		    change->value == NULL ? json_pack("{s:s, s:o}", "type", "DELETE", "kv", kv)
					  : json_pack("{s:o}", "kv", kv));
	}
	call->next_revision = num_max(call->next_revision, etcd->revision + 1);
	if (json_array_size(events) > 0)
		stream_add(call, stream_line(call, "events", events));
	else
		json_decref(events);
}

static void
stream_begin(struct etcd_http_call *call)
{
	json_error_t error;
	json_t *body = json_loads(call->body, 0, &error);
	const json_t *create = json_object_get(body, "create_request");
	const char *start = json_string_value(json_object_get(create, "start_revision"));
	bool is_foreign = call->etcd->members[call->member].is_foreign;
	uint32_t status = is_foreign ? 0
				     : fake_etcd_check_token(call->etcd, call->token, &call->text);

	assert(create != NULL);
	if (status != 0) {
		call->pending = call->text;
		call->pending_bytes = strlen(call->text);
		call->text = NULL;
		stream_end(call, 0);
		call->status = status;
		json_decref(body);
		return;
	}
	call->request = json_deep_copy(create);
	call->next_revision = strtoull(start, NULL, 10);
	json_decref(body);
	call->phase = FAKE_STREAMING;
	stream_add(call, stream_line(call, "created", json_true()));
	/* In the other etcd nothing changes that we would hear of. */
	call->is_silent = is_foreign;
	if (call->next_revision <= call->etcd->compacted)
		stream_cancel_compacted(call);
	else
		loop_timer_start(call->etcd->loop, &call->timer, etcd_delay(call->etcd));
}

static void
stream_on_timer(struct etcd_http_call *call)
{
	struct fake_etcd *etcd = call->etcd;

	if (call->way->is_cut_off || etcd->members[call->member].is_hung) {
		loop_timer_start(etcd->loop, &call->timer, NUM_MS(100));
		return;
	}
	call->is_silent |= has_bad_luck(etcd, etcd->faults.silent);
	if (call->is_silent)
		return;
	if (has_bad_luck(etcd, etcd->faults.ended))
		stream_end(call, -ECONNRESET);
	else
		stream_tell(call);
}

static void
chance_changes(struct fake_etcd *etcd)
{
	if (has_bad_luck(etcd, etcd->faults.tokens))
		fake_etcd_expire_tokens(etcd);
	if (has_bad_luck(etcd, etcd->faults.compacted))
		fake_etcd_compact(etcd);
}

/* The request arrives once more, long after its process has been told that nobody answers. */
static void
call_delay(struct etcd_http_call *call)
{
	struct etcd_http_call *ghost = calloc(1, sizeof(*ghost));

	assert(ghost != NULL);
	ghost->etcd = call->etcd;
	ghost->member = call->member;
	memcpy(ghost->path, call->path, sizeof(ghost->path));
	ghost->body = strdup(call->body);
	ghost->token = call->token == NULL ? NULL : strdup(call->token);
	loop_timer_init(&ghost->timer, call_on_timer, ghost);
	list_push_back(&call->etcd->calls, &ghost->link);
	loop_timer_start(call->etcd->loop, &ghost->timer,
	    loop_random_below(call->etcd->loop, LATE_NS));
	call_time_out(call, true);
}

/* Changes that the old leader has told the others before it was none any more take effect. */
static void
call_doubt(struct etcd_http_call *call)
{
	if (loop_random_below(call->etcd->loop, 2) == 0)
		call_apply(call);
	free(call->text);
	call->status = fake_etcd_error(503, 14, "etcdserver: leader changed", &call->text);
	call_answer(call, 0, true);
}

/* A request is at its member. */
static void
call_arrive(struct etcd_http_call *call)
{
	struct fake_etcd *etcd = call->etcd;
	const struct fake_member *member = &etcd->members[call->member];
	const struct fake_etcd_faults *faults = &etcd->faults;

	chance_changes(etcd);
	if (call->way != NULL && call->way->is_cut_off) {
		call_time_out(call, true);
	} else if (member->is_down || has_bad_luck(etcd, faults->refused)) {
		call_answer(call, -ECONNREFUSED, false);
	} else if (member->is_hung || has_bad_luck(etcd, faults->lost)) {
		call_time_out(call, true);
	} else if (has_bad_luck(etcd, faults->unavailable) ||
	    (call->bytes_fn != NULL && etcd->are_streams_held)) {
		call->status = fake_etcd_error(503, 14, "etcdserver: no leader", &call->text);
		call_answer(call, 0, true);
	} else if (call->bytes_fn != NULL) {
		stream_begin(call);
	} else if (has_bad_luck(etcd, faults->busy)) {
		call->status =
		    fake_etcd_error(429, 8, "etcdserver: too many requests", &call->text);
		call_answer(call, 0, true);
	} else if (has_bad_luck(etcd, faults->late)) {
		call_delay(call);
	} else if (has_bad_luck(etcd, faults->doubtful)) {
		call_doubt(call);
	} else {
		call_apply(call);
		if (has_bad_luck(etcd, faults->unanswered))
			call_time_out(call, true);
		else
			call_answer(call, has_bad_luck(etcd, faults->empty) ? -ENODATA : 0, true);
	}
}

static void
call_on_timer(struct loop_timer *timer, void *arg)
{
	struct etcd_http_call *call = arg;

	(void)timer;
	if (call->way == NULL && call->phase != FAKE_GOING) {
		if (!call->is_posted && !call->is_delivering)
			call_free(call);
	} else if (call->phase == FAKE_GOING) {
		call_arrive(call);
	} else if (call->phase == FAKE_STREAMING) {
		stream_on_timer(call);
	} else if (call->rc != -ETIMEDOUT &&
	    (loop_now_ns(call->etcd->loop) > call->due_ns || call->way->is_cut_off)) {
		call_time_out(call, true);
	} else {
		if (call->bytes_fn != NULL)
			call->phase = FAKE_ENDED;
		call_post(call);
	}
}

void
fake_etcd_notify(struct fake_etcd *etcd)
{
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&etcd->calls, link, next) {
		struct etcd_http_call *call = LIST_ENTRY(link, struct etcd_http_call, link);

		if (call->phase == FAKE_STREAMING && call->way != NULL && !call->timer.is_active)
			loop_timer_start(etcd->loop, &call->timer,
			    etcd_delay(etcd) + etcd->members[call->member].stream_lag_ns);
	}
}

uint64_t
fake_etcd_calls_bytes(const struct fake_etcd *etcd)
{
	const struct loop_link *link;
	uint64_t bytes = 0;

	for (link = etcd->calls.next; link != &etcd->calls; link = link->next) {
		struct etcd_http_call *call =
		    LIST_ENTRY((struct loop_link *)link, struct etcd_http_call, link);

		bytes += malloc_usable_size(call) + malloc_usable_size(call->body) +
		    malloc_usable_size(call->token) + malloc_usable_size(call->text) +
		    malloc_usable_size(call->pending);
	}
	return bytes;
}

/* ---- the seam ---- */

static struct etcd_http_call *
way_call(struct etcd_http *http, const struct etcd_http_request *request,
    etcd_http_bytes_fn bytes_fn, etcd_http_fn fn, void *arg)
{
	struct fake_way *way = NUM_CONTAINER_OF(http, struct fake_way, base);
	struct etcd_http_call *call = calloc(1, sizeof(*call));

	assert(call != NULL);
	assert(request->endpoint < way->etcd->member_count);
	assert(strlen(request->body) == request->body_bytes);
	call->etcd = way->etcd;
	call->way = way;
	call->member = request->endpoint;
	(void)snprintf(call->path, sizeof(call->path), "%s", request->path);
	call->body = strdup(request->body);
	call->token = request->token == NULL ? NULL : strdup(request->token);
	call->due_ns = loop_now_ns(way->etcd->loop) + request->timeout_ns;
	call->bytes_fn = bytes_fn;
	call->fn = fn;
	call->arg = arg;
	call->post = (struct loop_post){ .fn = call_on_post, .arg = call };
	loop_timer_init(&call->timer, call_on_timer, call);
	list_push_back(&way->etcd->calls, &call->link);
	loop_timer_start(way->etcd->loop, &call->timer, etcd_delay(way->etcd));
	return call;
}

static struct etcd_http_call *
way_post(struct etcd_http *http, const struct etcd_http_request *request, etcd_http_fn fn,
    void *arg)
{
	return way_call(http, request, NULL, fn, arg);
}

/* A request on its way arrives all the same. */
static void
way_cancel(struct etcd_http *http, struct etcd_http_call *call)
{
	(void)http;
	assert(call->way != NULL);
	call->way = NULL;
	if (call->is_delivering || call->is_posted)
		return;
	if (call->phase != FAKE_GOING || call->bytes_fn != NULL)
		call_free(call);
}

static void
way_close(struct etcd_http *http)
{
	struct fake_way *way = NUM_CONTAINER_OF(http, struct fake_way, base);
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&way->etcd->calls, link, next) {
		struct etcd_http_call *call = LIST_ENTRY(link, struct etcd_http_call, link);

		if (call->way == way)
			way_cancel(http, call);
	}
	free(way);
}

static const struct etcd_http_ops way_ops = {
	.name = "fake",
	.post = way_post,
	.stream = way_call,
	.cancel = way_cancel,
	.close = way_close,
};

struct etcd_http *
fake_etcd_open(struct fake_etcd *etcd, struct loop *loop)
{
	struct fake_way *way = calloc(1, sizeof(*way));

	assert(way != NULL);
	*way = (struct fake_way){ .base = { .ops = &way_ops }, .etcd = etcd, .loop = loop };
	return &way->base;
}

/* ---- on demand ---- */

void
fake_etcd_cut_off(struct etcd_http *http, bool is_cut_off)
{
	NUM_CONTAINER_OF(http, struct fake_way, base)->is_cut_off = is_cut_off;
}

void
fake_etcd_set_faults(struct fake_etcd *etcd, const struct fake_etcd_faults *faults)
{
	etcd->faults = *faults;
}

void
fake_etcd_set_delay(struct fake_etcd *etcd, uint64_t min_ns, uint64_t max_ns)
{
	assert(min_ns <= max_ns);
	etcd->delay_min_ns = min_ns;
	etcd->delay_max_ns = max_ns;
}

static void
streams_end(struct fake_etcd *etcd, uint32_t member)
{
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&etcd->calls, link, next) {
		struct etcd_http_call *call = LIST_ENTRY(link, struct etcd_http_call, link);

		if (call->phase == FAKE_STREAMING &&
		    (member == etcd->member_count || call->member == member))
			stream_end(call, -ECONNRESET);
	}
}

void
fake_etcd_end_streams(struct fake_etcd *etcd)
{
	streams_end(etcd, etcd->member_count);
}

void
fake_etcd_hold_streams(struct fake_etcd *etcd, bool is_on)
{
	etcd->are_streams_held = is_on;
	if (is_on)
		fake_etcd_end_streams(etcd);
}

void
fake_etcd_silence_streams(struct fake_etcd *etcd)
{
	struct loop_link *link;

	for (link = etcd->calls.next; link != &etcd->calls; link = link->next) {
		struct etcd_http_call *call = LIST_ENTRY(link, struct etcd_http_call, link);

		call->is_silent |= call->phase == FAKE_STREAMING;
	}
}

void
fake_etcd_set_down(struct fake_etcd *etcd, uint32_t member, bool is_down)
{
	assert(member < etcd->member_count);
	etcd->members[member].is_down = is_down;
	if (is_down)
		streams_end(etcd, member);
}

void
fake_etcd_set_hung(struct fake_etcd *etcd, uint32_t member, bool is_hung)
{
	assert(member < etcd->member_count);
	etcd->members[member].is_hung = is_hung;
}

void
fake_etcd_set_stream_lag(struct fake_etcd *etcd, uint32_t member, uint64_t lag_ns)
{
	assert(member < etcd->member_count);
	etcd->members[member].stream_lag_ns = lag_ns;
}

void
fake_etcd_set_foreign(struct fake_etcd *etcd, uint32_t member, bool is_foreign)
{
	assert(member < etcd->member_count);
	etcd->members[member].is_foreign = is_foreign;
}

void
fake_etcd_set_no_etcd(struct fake_etcd *etcd, uint32_t member, bool is_no_etcd)
{
	assert(member < etcd->member_count);
	etcd->members[member].is_no_etcd = is_no_etcd;
}

void
fake_etcd_set_full(struct fake_etcd *etcd, bool is_full)
{
	etcd->is_full = is_full;
}

uint32_t
fake_etcd_stream_count(const struct fake_etcd *etcd)
{
	const struct loop_link *link;
	uint32_t count = 0;

	for (link = etcd->calls.next; link != &etcd->calls; link = link->next)
		count += LIST_ENTRY(link, const struct etcd_http_call, link)->phase ==
		    FAKE_STREAMING;
	return count;
}

void
fake_etcd_destroy(struct fake_etcd *etcd)
{
	struct loop_link *link;

	if (etcd == NULL)
		return;
	while ((link = list_first(&etcd->calls)) != NULL)
		call_free(LIST_ENTRY(link, struct etcd_http_call, link));
	for (uint32_t i = 0; i < etcd->change_count; i++) {
		free(etcd->changes[i].key);
		free(etcd->changes[i].value);
	}
	free(etcd->changes);
	fake_etcd_keys_forget(etcd);
	fake_etcd_destroy(etcd->foreign);
	free(etcd->keys);
	free(etcd->user);
	free(etcd->password);
	free(etcd);
}
