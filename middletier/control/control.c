/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.c -- control requests: taken on a port, run on the main loop, answered on the port
 *
 *	port: copy the text --post--> main: parse, check, run --post--> port: reply
 *	                                     |            ^
 *	                                     +-- mt_ask --+  every port, when they must know or tell
 *
 * The text leaves device memory by dev_copy_to_host and the answer enters by dev_copy_from_host, into
 * the request's own receive: control texts are no payload of a block (I1). A port has
 * MT_CONTROL_IN_FLIGHT_MAX slots and answers BUSY when they are taken. Requests that change something
 * are run one after the other, in order of arrival; each ends in mt_control_finish.
 */
#include "control/control.h"

#include <errno.h>
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
#include "catalog/json.h"
#include "catalog/volume_table.h"
#include "cleave/dev_ptr.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/status.h"
#include "cleave/wire.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "cluster/volume_refresh.h"
#include "common/alloc.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/shard.h"
#include "control/control_answer.h"
#include "control/control_attach.h"
#include "control/control_cut.h"
#include "control/control_holder.h"
#include "control/control_resize.h"
#include "control/control_snapshot.h"
#include "control/control_usage.h"
#include "control/control_volume.h"
#include "control/control_waits.h"
#include "port/port_snapshot.h"
#include "session/session.h"

struct mt_control_op {
	const char *name;
	bool is_change;
	bool is_volume; /* other gateways' changes are read first */
	/* Ends in mt_control_finish, mt_control_fail or mt_control_fail_volume: now or later, or runs again. */
	void (*run)(struct mt_control_request *request);
};

#define CONTROL_CONFLICTS_MAX 8u

static void control_next(struct mt_gateway *gateway);
static void control_run(struct mt_control_request *request);

/* Answers. */

static void control_on_answer(struct loop_post *post, void *arg);

/* The only end of a request on main; @request is the port's again. */
static void
control_answer(struct mt_control_request *request, int rc, char *answer)
{
	struct mt_gateway *gateway = request->gateway;

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
	assert(rc != 0);
	control_answer(request, rc, mt_json_error(text));
}

void
mt_control_fail_volume(struct mt_control_request *request, int rc)
{
	char text[MT_ERROR_BYTES];

	if (rc == -EAGAIN && request->conflict_count++ < CONTROL_CONFLICTS_MAX) {
		control_run(request);
		return;
	}
	(void)snprintf(text, sizeof(text), "volume '%s': %s", request->volume.name,
	    status_text(status_from_errno(rc)));
	mt_control_fail(request, rc, text);
}

void
mt_control_refuse(struct mt_control_request *request, int rc, const char *format, ...)
{
	char text[MT_ERROR_BYTES];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args); /* cut where too long */
	va_end(args);
	mt_control_fail(request, rc, text);
}

/* @out is taken over; NULL: out of memory. */
void
mt_control_fail_json(struct mt_control_request *request, int rc, json_t *out)
{
	char *answer = out == NULL ? NULL : json_dumps(out, JSON_COMPACT);

	assert(rc != 0);
	json_decref(out);
	control_answer(request, rc, answer);
}

/* @out is taken over; NULL: out of memory. */
void
mt_control_finish(struct mt_control_request *request, json_t *out)
{
	char *answer = out == NULL ? NULL : json_dumps(out, JSON_COMPACT);

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

/* map, node.list, status. */

static void
control_ask(struct mt_control_request *request, enum mt_ask_kind kind, mt_ask_fn fn)
{
	char error[MT_ERROR_BYTES];
	int rc = mt_json_read(request->in, NULL, 0, error);

	if (rc == 0) {
		(void)snprintf(error, sizeof(error), "the gateway cannot answer now");
		rc = mt_ask_ports(request->gateway, kind, NULL, fn, request);
	}
	if (rc != 0)
		mt_control_fail(request, rc, error);
}

static void
control_on_map(struct mt_ask *ask, void *arg)
{
	mt_control_finish(arg, json_pack("{s:o}", "map", mt_json_map(ask->gateway, ask)));
}

static void
control_map(struct mt_control_request *request)
{
	control_ask(request, MT_ASK_SNAPSHOT, control_on_map);
}

static void
control_on_nodes(struct mt_ask *ask, void *arg)
{
	mt_control_finish(arg, json_pack("{s:o}", "nodes", mt_json_nodes(ask->gateway, ask)));
}

static void
control_nodes(struct mt_control_request *request)
{
	control_ask(request, MT_ASK_SNAPSHOT, control_on_nodes);
}

static void
control_on_status(struct mt_ask *ask, void *arg)
{
	bool has_shards = ask->gateway->cluster.shard_count <= MT_STATUS_SHARDS_MAX;
	json_t *status = mt_json_status(ask->gateway, ask, has_shards);

	if (has_shards && json_dumpb(status, NULL, 0, JSON_COMPACT) > MT_CONTROL_TEXT_BYTES_MAX) {
		json_decref(status);
		status = mt_json_status(ask->gateway, ask, false); /* their number has to do */
	}
	mt_control_finish(arg, status);
}

static void
control_status(struct mt_control_request *request)
{
	control_ask(request, MT_ASK_SNAPSHOT, control_on_status);
}

static void
control_on_waits(struct mt_ask *ask, void *arg)
{
	mt_control_finish(arg, mt_json_waits(ask));
}

/* Asked by clients whose requests get no answer: what do our shards wait for? */
static void
control_waits(struct mt_control_request *request)
{
	control_ask(request, MT_ASK_SNAPSHOT, control_on_waits);
}

static void
control_on_scrub(struct mt_ask *ask, void *arg)
{
	json_int_t count = 0;

	for (uint32_t i = 0; i < ask->gateway->port_count; i++) {
		const struct mt_port_snapshot *snapshot = &ask->legs[i].snapshot;

		for (uint32_t k = 0; snapshot->shards != NULL && k < snapshot->shard_count; k++)
			count += snapshot->shards[k].state == MT_SHARD_SERVING;
	}
	mt_control_finish(arg, json_pack("{s:I}", "shards", count));
}

static void
control_scrub(struct mt_control_request *request)
{
	control_ask(request, MT_ASK_SCRUB, control_on_scrub);
}

static void
control_on_sweep(struct mt_ask *ask, void *arg)
{
	mt_control_finish(arg, mt_json_orphans(ask));
}

static void
control_sweep(struct mt_control_request *request)
{
	bool must_confirm = false;
	const struct mt_json_member members[] = {
		{ .name = "confirm", .kind = MT_JSON_BOOL, .ret.flag = &must_confirm },
	};
	char error[MT_ERROR_BYTES];
	int rc = mt_json_read(request->in, members, NUM_COUNT(members), error);

	if (rc == 0) {
		(void)snprintf(error, sizeof(error), "the gateway cannot answer now");
		rc = mt_ask_ports(request->gateway,
		    must_confirm ? MT_ASK_SWEEP_CONFIRM : MT_ASK_SWEEP, NULL, control_on_sweep,
		    request);
	}
	if (rc != 0)
		mt_control_fail(request, rc, error);
}

static void
control_gateways(struct mt_control_request *request)
{
	char error[MT_ERROR_BYTES];
	int rc = mt_json_read(request->in, NULL, 0, error);

	if (rc != 0)
		mt_control_fail(request, rc, error);
	else
		mt_control_finish(request, mt_json_gateways(request->gateway));
}

static const struct mt_control_op control_ops[] = {
	{ "volume.create", true, true, mt_control_volume_create },
	{ "volume.list", false, true, mt_control_volume_list },
	{ "volume.show", false, true, mt_control_volume_show },
	{ "volume.usage", false, true, mt_control_volume_usage },
	{ "volume.delete", true, true, mt_control_volume_delete },
	{ "volume.attach", true, true, mt_control_volume_attach },
	{ "volume.detach", true, true, mt_control_volume_detach },
	{ "volume.open", false, true, mt_control_volume_open },
	{ "volume.holder", false, false, mt_control_volume_holder },
	{ "volume.rename", true, true, mt_control_volume_rename },
	{ "volume.resize", true, true, mt_control_volume_resize },
	{ "snapshot.create", true, true, mt_control_snapshot_create },
	{ "snapshot.list", false, true, mt_control_snapshot_list },
	{ "snapshot.delete", true, true, mt_control_snapshot_delete },
	{ "snapshot.rollback", true, true, mt_control_snapshot_rollback },
	{ "clone", true, true, mt_control_clone },
	{ "cut", false, false, mt_control_cut },
	{ "map", false, false, control_map },
	{ "gateways", false, false, control_gateways },
	{ "node.list", false, false, control_nodes },
	{ "status", false, false, control_status },
	{ "waits", false, false, control_waits },
	{ "scrub", false, false, control_scrub },
	{ "sweep", false, false, control_sweep },
};

/* On main. */

static const struct mt_control_op *
control_op_of(struct mt_control_request *request, char error[MT_ERROR_BYTES])
{
	json_error_t where;
	const char *name;

	request->in =
	    json_loadb(request->text, request->text_bytes, JSON_REJECT_DUPLICATES, &where);
	if (!json_is_object(request->in)) {
		(void)snprintf(error, MT_ERROR_BYTES, "not a JSON object: %.150s",
		    request->in == NULL ? where.text : "another value");
		return NULL;
	}
	name = json_string_value(json_object_get(request->in, "op"));
	if (name == NULL) {
		(void)snprintf(error, MT_ERROR_BYTES, "op: missing, or not a string");
		return NULL;
	}
	for (size_t i = 0; i < NUM_COUNT(control_ops); i++) {
		if (strcmp(control_ops[i].name, name) == 0)
			return &control_ops[i];
	}
	(void)snprintf(error, MT_ERROR_BYTES, "op: '%.64s' is unknown", name);
	return NULL;
}

static void
control_on_fresh(int rc, void *arg)
{
	struct mt_control_request *request = arg;

	if (rc == -ECANCELED)
		return; /* the port goes, and takes its slots along */
	/* The tables as they were read last will do for those who only look. */
	if (rc != 0 && request->op->is_change)
		mt_control_fail(request, rc, "the metadata store cannot be read");
	else
		request->op->run(request);
}

static void
control_run(struct mt_control_request *request)
{
	if (!request->op->is_volume) {
		request->op->run(request);
		return;
	}
	memset(&request->volume, 0, sizeof(request->volume));
	request->waiter.fn = control_on_fresh;
	request->waiter.arg = request;
	mt_volumes_refresh(request->gateway, &request->waiter);
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
		gateway->control_current = request;
		control_run(request);
	}
}

static void
control_on_main(struct loop_post *post, void *arg)
{
	struct mt_control_request *request = arg;
	struct mt_gateway *gateway = request->gateway;
	char error[MT_ERROR_BYTES];

	(void)post;
	request->op = control_op_of(request, error);
	if (request->op == NULL) {
		mt_control_fail(request, -EINVAL, error);
	} else if (!gateway->volumes.is_loaded || gateway->sm.state >= MT_GATEWAY_FAILED) {
		mt_control_fail(request, -EHOSTDOWN, "the gateway is starting or stopping");
	} else if (request->op->is_change) {
		list_push_back(&gateway->control_queue, &request->link);
		control_next(gateway);
	} else {
		control_run(request);
	}
}

void
mt_control_drop_all(struct mt_gateway *gateway)
{
	gateway->control_current = NULL;
	while (list_pop_front(&gateway->control_queue) != NULL)
		continue; /* the slots are the ports' */
	mt_asks_drop(gateway);
}

/* On the port. */

int
mt_control_init(struct mt_port *port)
{
	port->control_requests =
	    mt_calloc(MT_CONTROL_IN_FLIGHT_MAX, sizeof(*port->control_requests));
	return port->control_requests == NULL ? -ENOMEM : 0;
}

static void
control_release(struct mt_control_request *request)
{
	json_decref(request->in);
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
	*header = (struct wire_header){
		.opcode = WIRE_CONTROL | WIRE_REPLY,
		.request_id = request_id,
		.status = status_from_errno(rc),
	};
}

static void
control_on_answer(struct loop_post *post, void *arg)
{
	struct mt_control_request *request = arg;
	struct mt_session *session = request->session;
	struct split_msg *msg = request->msg;
	struct wire_header header;
	uint32_t bytes = 0;

	(void)post;
	if (request->answer != NULL) {
		bytes = (uint32_t)strlen(request->answer);
		dev_copy_from_host(request->port->split, msg->payload, request->answer, bytes);
	}
	control_header(&header, request->request_id,
	    request->answer == NULL ? -ENOMEM : request->rc);
	if (request->rc != 0)
		metric_add(&request->port->metrics[MT_METRIC_requests_refused], 1);
	if (request->is_taken)
		metric_add(&request->port->metrics[MT_METRIC_sessions_taken], 1);
	if (request->is_held)
		metric_add(&request->port->metrics[MT_METRIC_sessions_held], 1);
	split_msg_reply(msg, &header, &(struct dev_piece){ msg->payload, bytes }, bytes > 0, NULL,
	    NULL);
	control_release(request);
	mt_session_request_done(session, false);
}

static struct mt_control_request *
control_slot(struct mt_port *port)
{
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

	for (uint32_t i = 0; requests != NULL && i < MT_CONTROL_IN_FLIGHT_MAX; i++) {
		if (requests[i].is_busy && requests[i].session == session)
			__atomic_store_n(&requests[i].is_left, true, __ATOMIC_RELEASE);
	}
}

bool
mt_control_is_left(const struct mt_control_request *request)
{
	return __atomic_load_n(&request->is_left, __ATOMIC_ACQUIRE);
}

const char *
mt_control_peer(const struct mt_control_request *request)
{
	return request->peer;
}

void
mt_control_on_message(struct mt_session *session, struct split_msg *msg,
    const struct wire_control *control)
{
	struct mt_port *port = session->port;
	struct mt_control_request *request = control_slot(port);
	char *text = request == NULL ? NULL : mt_calloc(1, control->payload_bytes + 1u);
	struct wire_header header;

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
		.is_busy = true,
		.text = text,
		.text_bytes = control->payload_bytes,
	};
	(void)snprintf(request->peer, sizeof(request->peer), "%.63s", split_qp_peer(session->qp));
	mt_session_begin(session, false);
	request->post = (struct loop_post){ .fn = control_on_main, .arg = request };
	loop_post(port->main_loop, &request->post);
}
