/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_request.c -- a control request: taken on a port, run on the main loop, answered on the port
 *
 *	port: copy the text --post--> main: parse, check, run --post--> port: reply
 *	                                     |            ^
 *	                                     +-- mt_ask --+  every port, when they must know or tell
 *
 *	on main:    TAKEN ---> QUEUED ---> READING ---> RUNNING ---> ANSWERED
 *	                       a change    the tables     |  the op
 *	                       waits its   are read       |
 *	                       turn        ^--------------+  another gateway's change came first
 *
 * The text leaves device memory by dev_copy_to_host and the answer enters by dev_copy_from_host, into
 * the request's own receive: control texts are no payload of a block (I1). A port has
 * MT_CONTROL_IN_FLIGHT_MAX slots and answers BUSY when they are taken. Requests that change something
 * are run one after the other, in order of arrival; each ends in mt_control_finish.
 */
#include "control/control_request.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/num.h"
#include "base/plain.h"
#include "base/sm.h"
#include "catalog/volume_table.h"
#include "cleave/dev_ptr.h"
#include "cleave/level.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/status.h"
#include "cleave/wire.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "cluster/member_view.h"
#include "cluster/volume_refresh.h"
#include "common/alloc.h"
#include "common/event.h"
#include "common/metric.h"
#include "common/port.h"
#include "control/control_allow.h"
#include "session/session.h"

#define CONTROL_CONFLICTS_MAX 8u /* with other gateways' changes: then the request fails */
/* So long a request that only looks waits for the store: less than its client does (control.c of the library). */
#define CONTROL_LOOK_NS NUM_S(1)

static const struct sm_state control_table[MT_CONTROL_STATE_NR] = {
	[MT_CONTROL_TAKEN] = { "taken",
	    SM_TO(MT_CONTROL_QUEUED) | SM_TO(MT_CONTROL_READING) | SM_TO(MT_CONTROL_RUNNING) |
		SM_TO(MT_CONTROL_ANSWERED),
	    SM_INITIAL },
	[MT_CONTROL_QUEUED] = { "queued", SM_TO(MT_CONTROL_READING), 0 },
	[MT_CONTROL_READING] = { "reading", SM_TO(MT_CONTROL_RUNNING) | SM_TO(MT_CONTROL_ANSWERED),
	    0 },
	[MT_CONTROL_RUNNING] = { "running", SM_TO(MT_CONTROL_READING) | SM_TO(MT_CONTROL_ANSWERED),
	    0 },
	[MT_CONTROL_ANSWERED] = { "answered", 0, SM_FINAL },
};

/* ---- nobody new ---- */

void
mt_control_keep_out(struct mt_control_request *request, struct mt_volume_entry *entry)
{
	assert(request->sm.state == MT_CONTROL_RUNNING && request->op->is_change);
	assert(request->alone.id == 0 && entry->volume.id != 0);
	request->alone.id = entry->volume.id;
	request->alone.attach = entry->volume.attach;
	request->alone.is_fenced = false;
	entry->is_deleting = true;
}

void
mt_control_let_in(struct mt_control_request *request)
{
	struct mt_volume_entry *entry;

	if (request->alone.id == 0)
		return;
	entry = mt_volumes_by_id(&request->gateway->volumes, request->alone.id);
	if (entry != NULL)
		entry->is_deleting = false;
	request->alone.id = 0;
}

static void control_next(struct mt_gateway *gateway);
static void control_read(struct mt_control_request *request);
static void control_on_answer(struct loop_post *post, void *arg);

/* ---- its end, on main ---- */

/* {"error": text}. NULL: out of memory, as jansson's functions pass it on. */
static char *
control_error(const char *text)
{
	json_t *object = json_pack("{s:s}", "error", text);
	char *answer = object == NULL ? NULL : json_dumps(object, JSON_COMPACT);

	assert(text[0] != '\0');
	json_decref(object);
	return answer;
}

/* The only end of a request on main; @request is the port's again. */
static void
control_answer(struct mt_control_request *request, int rc, char *answer)
{
	struct mt_gateway *gateway = request->gateway;

	assert(request->is_busy && rc <= 0);
	mt_control_let_in(request);
	sm_move(&request->sm, MT_CONTROL_ANSWERED);
	request->rc = rc;
	request->answer = answer;
	json_decref(request->in);
	request->in = NULL;
	request->post = (struct loop_post){ .fn = control_on_answer, .arg = request };
	loop_post(request->port->loop, &request->post);
	if (gateway->control_current == request) {
		gateway->control_current = NULL;
		control_next(gateway);
	}
}

void
mt_control_fail(struct mt_control_request *request, int rc, const char *text)
{
	assert(rc < 0 && text[0] != '\0');
	control_answer(request, rc, control_error(text));
}

/* A status's text is of any object: of a volume it can be said better. */
static const char *
control_volume_text(int rc)
{
	assert(rc < 0);
	if (rc == -ENOENT)
		return "no such volume";
	if (rc == -EEXIST)
		return "there is a volume of this name already";
	if (rc == -ENOSPC) /* room at nodes is no request's that changes keys */
		return "the metadata store takes no changes: no space left (cleave status)";
	if (rc == -EIO || rc == -EROFS)
		return "the metadata store takes no changes: its disk fails (cleave status)";
	return status_text(status_from_errno(rc));
}

void
mt_control_fail_volume(struct mt_control_request *request, int rc)
{
	char text[MT_ERROR_BYTES];

	assert(rc < 0 && request->op->is_volume);
	if (rc == -EAGAIN && request->conflict_count++ < CONTROL_CONFLICTS_MAX) {
		control_read(request);
		return;
	}
	if (request->volume.name[0] == '\0') /* cluster.upgrade */
		(void)snprintf(text, sizeof(text), "the metadata store: %s",
		    status_text(status_from_errno(rc)));
	else
		(void)snprintf(text, sizeof(text), "volume '%s': %s", request->volume.name,
		    control_volume_text(rc));
	mt_control_fail(request, rc, text);
}

void
mt_control_refuse(struct mt_control_request *request, int rc, const char *format, ...)
{
	char text[MT_ERROR_BYTES];
	va_list args;

	assert(rc < 0);
	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args); /* cut where too long */
	va_end(args);
	mt_control_fail(request, rc, text);
}

bool
mt_control_has_level(struct mt_control_request *request, uint32_t level, const char *lacks)
{
	uint32_t is = request->gateway->cluster.level;

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (is >= level)
		return true;
	mt_control_refuse(request, -ENOTSUP,
	    "the cluster is of level %" PRIu32
	    ", %s: when every gateway and node runs this release, run cleave cluster upgrade",
	    (uint32_t)num_max(is, CLEAVE_LEVEL_MIN), lacks);
	return false;
}

bool
mt_control_may_count(struct mt_control_request *request)
{
	assert(request->sm.state == MT_CONTROL_RUNNING && request->op->is_change);
	if (mt_view_is_judged(&request->gateway->member))
		return true;
	mt_control_refuse(request, -EBUSY,
	    "nothing is made before shard 0 is served: whether the metadata store is an older copy is seen "
	    "there (cleave status)");
	return false;
}

/* @out is taken over; NULL: out of memory. */
void
mt_control_fail_json(struct mt_control_request *request, int rc, json_t *out)
{
	char *answer = out == NULL ? NULL : json_dumps(out, JSON_COMPACT);

	assert(rc < 0 && (out == NULL || json_object_get(out, "error") != NULL));
	json_decref(out);
	control_answer(request, rc, answer);
}

/* @out is taken over; NULL: out of memory. */
void
mt_control_finish(struct mt_control_request *request, json_t *out)
{
	char *answer = out == NULL ? NULL : json_dumps(out, JSON_COMPACT);

	assert(request->sm.state == MT_CONTROL_RUNNING);
	json_decref(out);
	if (answer == NULL) {
		mt_control_fail(request, -ENOMEM, "the gateway is out of memory");
	} else if (strlen(answer) > MT_CONTROL_TEXT_BYTES_MAX) {
		free(answer);
		mt_control_fail(request, -EMSGSIZE, "the answer is larger than 64 KiB");
	} else {
		control_answer(request, 0, answer);
	}
}

/* ---- on main ---- */

/* The tables are as the store was when the request came, or as they were read last. */
static void
control_start(struct mt_control_request *request)
{
	assert(!request->op->is_volume || request->sm.state == MT_CONTROL_READING);
	sm_move(&request->sm, MT_CONTROL_RUNNING);
	if (mt_control_allow(request))
		request->op->run(request);
}

static struct loop *
control_loop(const struct mt_control_request *request)
{
	assert(request->is_busy);
	return request->gateway->options.loop;
}

static void
control_on_fresh(int rc, void *arg)
{
	struct mt_control_request *request = arg;

	assert(request->sm.state == MT_CONTROL_READING);
	loop_timer_stop(control_loop(request), &request->look_timer);
	if (rc == -ECANCELED)
		return; /* the port goes, and takes its slots along */
	/* The tables as they were read last will do for those who only look. */
	if (rc != 0 && request->op->is_change)
		mt_control_fail(request, rc, MT_CONTROL_NO_STORE);
	else
		control_start(request);
}

/*
 * The store has not answered: its disk stalls, or a process that is stopped holds its lock. Nobody can change
 * anything meanwhile, or hardly, and who only looks gets what was read last.
 */
static void
control_on_look_timer(struct loop_timer *timer, void *arg)
{
	struct mt_control_request *request = arg;

	(void)timer;
	assert(request->sm.state == MT_CONTROL_READING && !request->op->is_change);
	list_remove(&request->waiter.link);
	log_limited(LOG_WARN,
	    "control: the metadata store does not answer: what was read of it last is told op=%s",
	    request->op->name);
	control_start(request);
}

/* The changes of other gateways are read before it runs, for the first time or again. */
static void
control_read(struct mt_control_request *request)
{
	assert(request->op->is_volume);
	mt_control_let_in(request);
	sm_move(&request->sm, MT_CONTROL_READING);
	memset(&request->volume, 0, sizeof(request->volume));
	request->waiter.fn = control_on_fresh;
	request->waiter.arg = request;
	if (!request->op->is_change)
		loop_timer_start(control_loop(request), &request->look_timer, CONTROL_LOOK_NS);
	mt_volumes_refresh(request->gateway, &request->waiter);
}

static void
control_begin(struct mt_control_request *request)
{
	assert(request->sm.state == MT_CONTROL_TAKEN || request->sm.state == MT_CONTROL_QUEUED);
	if (request->op->is_volume)
		control_read(request);
	else
		control_start(request);
}

static void
control_next(struct mt_gateway *gateway)
{
	while (gateway->control_current == NULL) {
		struct loop_link *link = list_pop_front(&gateway->control_queue);
		struct mt_control_request *request;

		if (link == NULL)
			return;
		request = LIST_ENTRY(link, struct mt_control_request, link);
		assert(request->sm.state == MT_CONTROL_QUEUED && request->op->is_change);
		gateway->control_current = request;
		control_begin(request);
	}
}

void
mt_control_run(struct mt_control_request *request, const struct mt_control_op *op)
{
	struct mt_gateway *gateway = request->gateway;

	assert(request->sm.state == MT_CONTROL_TAKEN);
	assert(!op->is_change || op->is_volume); /* a change is judged by fresh tables */
	request->op = op;
	if (!op->is_change) {
		control_begin(request);
		return;
	}
	sm_move(&request->sm, MT_CONTROL_QUEUED);
	list_push_back(&gateway->control_queue, &request->link);
	control_next(gateway);
}

static void
control_on_main(struct loop_post *post, void *arg)
{
	struct mt_control_request *request = arg;

	assert(request->is_busy && request->sm.state == MT_CONTROL_TAKEN);
	(void)post;
	request->begin(request);
}

void
mt_control_drop_all(struct mt_gateway *gateway)
{
	CHECK_OBJ(gateway, MT_GATEWAY_MAGIC);
	gateway->control_current = NULL;
	while (list_pop_front(&gateway->control_queue) != NULL)
		continue; /* the slots are the ports' */
	mt_look_drop(&gateway->health_look);
	mt_look_drop(&gateway->status_look);
	mt_asks_drop(gateway);
}

/* ---- on the port ---- */

int
mt_control_init(struct mt_port *port)
{
	assert(port->control_requests == NULL);
	port->control_requests =
	    mt_calloc(MT_CONTROL_IN_FLIGHT_MAX, sizeof(*port->control_requests));
	return port->control_requests == NULL ? -ENOMEM : 0;
}

static void
control_release(struct mt_control_request *request)
{
	assert(request->is_busy || request->text == NULL);
	json_decref(request->in);
	json_decref(request->change.missing);
	mt_free(request->text);
	free(request->answer);
	*request = (struct mt_control_request){ 0 };
}

void
mt_control_fini(struct mt_port *port)
{
	if (port->control_requests == NULL)
		return;
	for (uint32_t i = 0; i < MT_CONTROL_IN_FLIGHT_MAX; i++)
		control_release(&port->control_requests[i]);
	mt_free(port->control_requests);
	port->control_requests = NULL;
}

static void
control_header(struct wire_header *header, uint64_t request_id, int rc)
{
	assert(rc <= 0);
	*header = (struct wire_header){
		.opcode = WIRE_CONTROL | WIRE_REPLY,
		.request_id = request_id,
		.status = status_from_errno(rc),
	};
}

/* A client of a release that has no word for a data key is told to come again. */
static int
control_rc(const struct mt_control_request *request)
{
	if (request->answer == NULL)
		return -ENOMEM;
	return request->rc == -ENOMEDIUM && request->session->level < CLEAVE_LEVEL_ENCRYPTED
	    ? -EHOSTDOWN
	    : request->rc;
}

static void
control_on_answer(struct loop_post *post, void *arg)
{
	struct mt_control_request *request = arg;
	struct mt_session *session = request->session;
	struct split_msg *msg = request->msg;
	struct wire_header header;
	uint32_t bytes = 0;

	assert(msg != NULL);
	(void)post;
	assert(request->is_busy && request->sm.state == MT_CONTROL_ANSWERED);
	if (request->answer != NULL) {
		bytes = (uint32_t)strlen(request->answer);
		assert(bytes <= MT_CONTROL_TEXT_BYTES_MAX);
		dev_copy_from_host(request->port->split, msg->payload, request->answer, bytes);
	}
	control_header(&header, request->request_id, control_rc(request));
	if (request->rc != 0)
		metric_add(&request->port->metrics[MT_METRIC_requests_refused], 1);
	if (request->attach.is_taken)
		metric_add(&request->port->metrics[MT_METRIC_sessions_taken], 1);
	if (request->attach.is_held)
		metric_add(&request->port->metrics[MT_METRIC_sessions_held], 1);
	split_msg_reply(msg, &header, &(struct dev_piece){ msg->payload, bytes }, bytes > 0, NULL,
	    NULL);
	control_release(request);
	mt_session_request_done(session, false);
}

static struct mt_control_request *
control_slot(struct mt_port *port)
{
	assert(port->control_requests != NULL);
	for (uint32_t i = 0; i < MT_CONTROL_IN_FLIGHT_MAX; i++) {
		if (!port->control_requests[i].is_busy)
			return &port->control_requests[i];
	}
	return NULL;
}

void
mt_control_on_left(struct mt_session *session)
{
	struct mt_control_request *requests = session->port->control_requests;

	assert(session->port != NULL);
	for (uint32_t i = 0; requests != NULL && i < MT_CONTROL_IN_FLIGHT_MAX; i++) {
		if (requests[i].is_busy && requests[i].session == session)
			__atomic_store_n(&requests[i].is_left, true, __ATOMIC_RELEASE);
	}
}

bool
mt_control_is_left(const struct mt_control_request *request)
{
	assert(request->is_busy);
	return __atomic_load_n(&request->is_left, __ATOMIC_ACQUIRE);
}

void
mt_control_event(const struct mt_control_request *request, enum cleave_event_code code,
    const char *object, const char *format, ...)
{
	struct mt_gateway *gateway = request->gateway;
	char text[MT_EVENT_TEXT_BYTES];
	va_list args;

	assert(request->is_busy);
	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	mt_event_by(gateway->shared.events, loop_now_ns(gateway->options.loop), code, object,
	    &(struct mt_event_who){ .by = request->by, .from = request->peer }, "%s", text);
}

void
mt_control_set_by(struct mt_control_request *request, const char *by)
{
	assert(by != NULL);
	(void)snprintf(request->by, sizeof(request->by), "%.*s", (int)sizeof(request->by) - 1, by);
	(void)plain_text(request->by);
	for (char *at = request->by; *at != '\0'; at++) {
		if (*at == '"') /* it stands in quotes, in lines that people believe */
			*at = '?';
	}
}

void
mt_control_take_by(struct mt_control_request *request)
{
	const char *by = json_string_value(json_object_get(request->in, "by"));

	assert(request->by[0] == '\0');
	if (by != NULL) {
		mt_control_set_by(request, by);
		(void)json_object_del(request->in, "by");
	}
	if (mt_control_subject(request) != NULL)
		mt_control_set_by(request,
		    split_subject_text(mt_control_subject(request),
			(char[SPLIT_SUBJECT_TEXT_BYTES_MAX]){ 0 }));
}

const char *
mt_control_who(const struct mt_control_request *request, char ret_text[MT_EVENT_WHO_TEXT_BYTES])
{
	assert(request->is_busy);
	return mt_event_who_text(&(struct mt_event_who){ .by = request->by, .from = request->peer },
	    ret_text);
}

const char *
mt_control_peer(const struct mt_control_request *request)
{
	assert(request->is_busy);
	return request->peer;
}

void
mt_control_take(struct mt_session *session, struct split_msg *msg,
    const struct wire_control *control, void (*begin)(struct mt_control_request *request))
{
	struct mt_port *port = session->port;
	struct mt_control_request *request = control_slot(port);
	char *text = request == NULL ? NULL : mt_calloc(1, control->payload_bytes + 1u);
	struct wire_header header;

	assert(session->qp != NULL && control->payload_bytes <= MT_CONTROL_TEXT_BYTES_MAX);
	if (text == NULL) {
		metric_add(&port->metrics[MT_METRIC_requests_refused], 1);
		control_header(&header, control->request_id, request == NULL ? -EBUSY : -ENOMEM);
		split_msg_reply(msg, &header, NULL, 0, NULL, NULL);
		return;
	}
	dev_copy_to_host(port->split, text, msg->payload, control->payload_bytes);
	text[control->payload_bytes] = '\0';
	*request = (struct mt_control_request){
		.port = port,
		.gateway = port->gateway,
		.session = session,
		.msg = msg,
		.request_id = control->request_id,
		.begin = begin,
		.is_busy = true,
		.text = text,
		.text_bytes = control->payload_bytes,
	};
	loop_timer_init(&request->look_timer, control_on_look_timer, request);
	sm_init(&request->sm, "control", control_table, MT_CONTROL_TAKEN,
	    (uint32_t)(request - port->control_requests));
	(void)snprintf(request->peer, sizeof(request->peer), "%.63s", split_qp_peer(session->qp));
	mt_session_begin(session, false);
	request->post = (struct loop_post){ .fn = control_on_main, .arg = request };
	loop_post(port->main_loop, &request->post);
}
