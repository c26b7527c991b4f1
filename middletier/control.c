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
 * are run one after the other, in order of arrival; each ends in control_finish.
 */
#include "control.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "base/check.h"
#include "base/log.h"
#include "cleave/status.h"

struct mt_control_op {
	const char *name;
	bool is_change;
	/* Ends in control_finish, control_fail or control_fail_volume: now or later. */
	void (*run)(struct mt_control_request *request);
};

static void control_next(struct mt_gateway *gateway);

/* Asking every port. */

static void
ask_on_answer(struct loop_post *post, void *arg)
{
	struct mt_ask_leg *leg = arg;
	struct mt_ask *ask = leg->ask;

	(void)post;
	assert(ask->left_count > 0);
	ask->left_count--;
	if (ask->left_count > 0)
		return;
	ask->fn(ask, ask->arg);
	for (uint32_t i = 0; i < ask->gateway->port_count; i++)
		mt_port_snapshot_fini(&ask->legs[i].snapshot);
	list_remove(&ask->link);
	mt_free(ask);
}

static void
ask_on_port(struct loop_post *post, void *arg)
{
	struct mt_ask_leg *leg = arg;
	struct mt_ask *ask = leg->ask;
	struct mt_port *port = leg->port;
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&port->sessions, link, next) {
		struct mt_session *session = LIST_ENTRY(link, struct mt_session, link);
		bool is_older = session->hello.attach < ask->volume.attach;

		if (session->hello.volume_id == 0 || session->hello.volume_id != ask->volume.id ||
		    !mt_session_is_live(session))
			continue;
		if (ask->kind == MT_ASK_DELETE || (ask->kind == MT_ASK_ATTACH && is_older))
			mt_session_close(session, -ESHUTDOWN);
		else
			leg->snapshot.asked_session_count++;
	}
	mt_port_snapshot_take(port, &leg->snapshot);
	post->fn = ask_on_answer;
	loop_post(mt_gateway_loop(port->gateway), post);
}

int
mt_ask_ports(struct mt_gateway *gateway, enum mt_ask_kind kind, const struct mt_volume *volume,
    mt_ask_fn fn, void *arg)
{
	struct mt_ask *ask;

	/* A port that has stopped answers nothing. */
	if (gateway->sm.state >= MT_GATEWAY_STOPPING)
		return -ESHUTDOWN;
	ask = mt_calloc(1, sizeof(*ask));
	if (ask == NULL)
		return -ENOMEM;
	ask->gateway = gateway;
	ask->kind = kind;
	if (volume != NULL)
		ask->volume = *volume;
	ask->fn = fn;
	ask->arg = arg;
	ask->left_count = gateway->port_count;
	list_push_back(&gateway->asks, &ask->link);
	for (uint32_t i = 0; i < gateway->port_count; i++) {
		struct mt_ask_leg *leg = &ask->legs[i];

		leg->ask = ask;
		leg->port = &gateway->ports[i];
		leg->post = (struct loop_post){ .fn = ask_on_port, .arg = leg };
		loop_post(leg->port->loop, &leg->post);
	}
	return 0;
}

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

static void
control_fail(struct mt_control_request *request, int rc, const char *text)
{
	assert(rc != 0);
	control_answer(request, rc, mt_json_error(text));
}

static void
control_fail_volume(struct mt_control_request *request, int rc)
{
	char text[MT_CONTROL_ERROR_BYTES];

	(void)snprintf(text, sizeof(text), "volume '%s': %s", request->volume.name,
	    status_text(status_from_errno(rc)));
	control_fail(request, rc, text);
}

/* @out is taken over; NULL: out of memory. */
static void
control_finish(struct mt_control_request *request, json_t *out)
{
	char *answer = out == NULL ? NULL : json_dumps(out, JSON_COMPACT);

	json_decref(out);
	if (answer == NULL) {
		control_fail(request, -ENOMEM, "the gateway is out of memory");
	} else if (strlen(answer) > MT_CONTROL_TEXT_BYTES_MAX) {
		free(answer);
		control_fail(request, -EMSGSIZE, "the answer is larger than 64 KiB");
	} else {
		control_answer(request, 0, answer);
	}
}

/* volume.* */

/* The member "name", into request->volume.name. */
static bool
control_take_name(struct mt_control_request *request, const char *name)
{
	const char *problem = mt_volume_name_check(name);
	char text[MT_CONTROL_ERROR_BYTES];

	if (problem != NULL) {
		(void)snprintf(text, sizeof(text), "name: %s", problem);
		control_fail(request, -EINVAL, text);
		return false;
	}
	(void)snprintf(request->volume.name, sizeof(request->volume.name), "%s", name);
	return true;
}

static void
control_on_created(int rc, const struct mt_volume *volume, void *arg)
{
	struct mt_control_request *request = arg;

	if (rc != 0) {
		control_fail_volume(request, rc);
		return;
	}
	log_info("volume: created name=%s size_bytes=%" PRIu64, volume->name, volume->size_bytes);
	control_finish(request, json_pack("{s:o}", "volume", mt_json_volume(volume)));
}

/* Engine and level: what was asked for, else what the service class means. */
static const char *
control_take_engine(struct mt_volume *volume, const char *engine_name, const int64_t *level)
{
	static const uint8_t defaults[SERVICE_CLASS_NR] = {
		[SERVICE_STANDARD] = ENGINE_LZ4,
		[SERVICE_LATENCY] = ENGINE_NONE,
		[SERVICE_CAPACITY] = ENGINE_ZSTD,
	};
	const struct engine_ops *engine = engine_by_id(defaults[volume->service_class]);

	if (engine_name != NULL)
		engine = engine_by_name(engine_name);
	if (engine == NULL)
		return "engine: must be none, lz4 or zstd";
	volume->codec_id = engine->wire_id;
	volume->level = engine->level_default;
	if (*level == INT64_MIN)
		return NULL;
	if (*level < engine->level_min || *level > engine->level_max)
		return "level: out of the engine's range";
	volume->level = (int)*level;
	return NULL;
}

static const char *
control_take_wish(struct mt_control_request *request, const char *service_class, const char *engine,
    const int64_t *level)
{
	struct mt_volume *volume = &request->volume;
	uint32_t min_replicas = request->gateway->options.min_replicas;

	if (volume->size_bytes % CLEAVE_BLOCK_BYTES != 0)
		return "size_bytes: must be a multiple of 4096";
	if (service_class != NULL &&
	    mt_service_class_parse(service_class, &volume->service_class) != 0)
		return "service_class: must be standard, latency or capacity";
	if (volume->replica_count < min_replicas)
		return "replicas: fewer than the gateway's --min-replicas";
	return control_take_engine(volume, engine, level);
}

static void
control_create(struct mt_control_request *request)
{
	struct mt_volume *volume = &request->volume;
	const char *name = NULL, *service_class = NULL, *engine = NULL, *problem;
	uint64_t replicas = MT_REPLICAS_MAX;
	int64_t level = INT64_MIN;
	char error[MT_CONTROL_ERROR_BYTES];
	const struct mt_json_member members[] = {
		{ "name", MT_JSON_TEXT, true, 0, 0, { .text = &name } },
		{ "size_bytes", MT_JSON_U64, true, CLEAVE_BLOCK_BYTES, CLEAVE_VOLUME_BYTES_MAX,
		    { .u64 = &volume->size_bytes } },
		{ "service_class", MT_JSON_TEXT, false, 0, 0, { .text = &service_class } },
		{ "engine", MT_JSON_TEXT, false, 0, 0, { .text = &engine } },
		{ "level", MT_JSON_I64, false, 0, 0, { .i64 = &level } },
		{ "replicas", MT_JSON_U64, false, 1, MT_REPLICAS_MAX, { .u64 = &replicas } },
	};
	int rc = mt_json_read(request->in, members, NUM_COUNT(members), error);

	if (rc != 0) {
		control_fail(request, rc, error);
		return;
	}
	if (!control_take_name(request, name))
		return;
	volume->replica_count = (uint32_t)replicas;
	problem = control_take_wish(request, service_class, engine, &level);
	if (problem != NULL) {
		control_fail(request, -EINVAL, problem);
		return;
	}
	rc = mt_volume_create(request->gateway, volume, control_on_created, request);
	if (rc != 0)
		control_fail_volume(request, rc);
}

static void
control_list(struct mt_control_request *request)
{
	struct mt_volumes *volumes = &request->gateway->volumes;
	const char *after = "";
	char error[MT_CONTROL_ERROR_BYTES];
	const struct mt_json_member members[] = {
		{ "after", MT_JSON_TEXT, false, 0, CLEAVE_VOLUME_NAME_BYTES_MAX,
		    { .text = &after } },
	};
	int rc = mt_json_read(request->in, members, NUM_COUNT(members), error);
	uint32_t first, end;
	json_t *list;

	if (rc != 0) {
		control_fail(request, rc, error);
		return;
	}
	first = mt_volumes_after(volumes, after);
	end = (uint32_t)num_min(volumes->count, (uint64_t)first + MT_VOLUMES_PER_LIST);
	list = json_array();
	for (uint32_t i = first; i < end; i++)
		json_array_append_new(list, mt_json_volume(&volumes->entries[i].volume));
	control_finish(request,
	    json_pack("{s:o, s:b}", "volumes", list, "more", end < volumes->count));
}

static void
control_show(struct mt_control_request *request)
{
	const struct mt_volume_entry *entry;
	const char *name = NULL;
	char error[MT_CONTROL_ERROR_BYTES];
	const struct mt_json_member members[] = {
		{ "name", MT_JSON_TEXT, true, 0, 0, { .text = &name } },
	};
	int rc = mt_json_read(request->in, members, NUM_COUNT(members), error);

	if (rc != 0) {
		control_fail(request, rc, error);
		return;
	}
	if (!control_take_name(request, name))
		return;
	entry = mt_volumes_by_name(&request->gateway->volumes, name);
	if (entry == NULL)
		control_fail_volume(request, -ENOENT);
	else
		control_finish(request,
		    json_pack("{s:o}", "volume", mt_json_volume(&entry->volume)));
}

/* Deleting: nobody new may come in, nobody may be there (or is put out), then the durable mark. */

static void
control_delete_fail(struct mt_control_request *request, int rc)
{
	struct mt_volume_entry *entry =
	    mt_volumes_by_name(&request->gateway->volumes, request->volume.name);

	if (entry != NULL)
		entry->is_deleting = false;
	control_fail_volume(request, rc);
}

static void
control_on_sessions_closed(struct mt_ask *ask, void *arg)
{
	(void)ask;
	control_finish(arg, json_object());
}

static void
control_on_deleted(int rc, const struct mt_volume *volume, void *arg)
{
	struct mt_control_request *request = arg;

	if (rc == 0) {
		log_info("volume: deleted name=%s id=%" PRIu64, volume->name, volume->id);
		rc = mt_ask_ports(request->gateway, MT_ASK_DELETE, volume,
		    control_on_sessions_closed, request);
	}
	if (rc != 0)
		control_delete_fail(request, rc);
}

static void
control_on_sessions_counted(struct mt_ask *ask, void *arg)
{
	struct mt_control_request *request = arg;
	uint32_t session_count = 0;
	int rc = 0;

	for (uint32_t i = 0; i < ask->gateway->port_count; i++)
		session_count += ask->legs[i].snapshot.asked_session_count;
	if (session_count > 0 && !request->is_forced)
		rc = -ENOTEMPTY;
	if (rc == 0)
		rc = mt_volume_delete(request->gateway, request->volume.name, control_on_deleted,
		    request);
	if (rc != 0)
		control_delete_fail(request, rc);
}

static void
control_delete(struct mt_control_request *request)
{
	struct mt_volume_entry *entry;
	const char *name = NULL;
	char error[MT_CONTROL_ERROR_BYTES];
	const struct mt_json_member members[] = {
		{ "name", MT_JSON_TEXT, true, 0, 0, { .text = &name } },
		{ "force", MT_JSON_BOOL, false, 0, 0, { .flag = &request->is_forced } },
	};
	int rc = mt_json_read(request->in, members, NUM_COUNT(members), error);

	if (rc != 0) {
		control_fail(request, rc, error);
		return;
	}
	if (!control_take_name(request, name))
		return;
	entry = mt_volumes_by_name(&request->gateway->volumes, name);
	if (entry == NULL) {
		control_fail_volume(request, -ENOENT);
		return;
	}
	entry->is_deleting = true;
	rc = mt_ask_ports(request->gateway, MT_ASK_SNAPSHOT, &entry->volume,
	    control_on_sessions_counted, request);
	if (rc != 0)
		control_delete_fail(request, rc);
}

/* Attaching: durable first, then on every port, then answered. */

static void
control_on_attach_installed(struct mt_ask *ask, void *arg)
{
	struct mt_control_request *request = arg;

	control_finish(request,
	    json_pack("{s:o, s:I, s:o}", "volume", mt_json_volume(&ask->volume), "attach",
		(json_int_t)ask->volume.attach, "map", mt_json_map(ask->gateway, ask)));
}

static void
control_on_attached(int rc, const struct mt_volume *volume, void *arg)
{
	struct mt_control_request *request = arg;

	if (rc == 0)
		rc = mt_ask_ports(request->gateway, MT_ASK_ATTACH, volume,
		    control_on_attach_installed, request);
	if (rc != 0)
		control_fail_volume(request, rc);
}

static void
control_attach(struct mt_control_request *request)
{
	const char *name = NULL, *session = NULL;
	char error[MT_CONTROL_ERROR_BYTES];
	const struct mt_json_member members[] = {
		{ "name", MT_JSON_TEXT, true, 0, 0, { .text = &name } },
		{ "session", MT_JSON_TEXT, true, 0, 0, { .text = &session } },
	};
	int rc = mt_json_read(request->in, members, NUM_COUNT(members), error);

	if (rc != 0) {
		control_fail(request, rc, error);
		return;
	}
	if (mt_hex_parse(session, &request->session_id) != 0) {
		control_fail(request, -EINVAL, "session: must be 16 hex digits");
		return;
	}
	if (!control_take_name(request, name))
		return;
	rc = mt_volume_attach(request->gateway, name, request->session_id, control_on_attached,
	    request);
	if (rc != 0)
		control_fail_volume(request, rc);
}

/* map, node.list, status. */

static void
control_ask(struct mt_control_request *request, mt_ask_fn fn)
{
	char error[MT_CONTROL_ERROR_BYTES];
	int rc = mt_json_read(request->in, NULL, 0, error);

	if (rc == 0) {
		(void)snprintf(error, sizeof(error), "the gateway cannot answer now");
		rc = mt_ask_ports(request->gateway, MT_ASK_SNAPSHOT, NULL, fn, request);
	}
	if (rc != 0)
		control_fail(request, rc, error);
}

static void
control_on_map(struct mt_ask *ask, void *arg)
{
	control_finish(arg, json_pack("{s:o}", "map", mt_json_map(ask->gateway, ask)));
}

static void
control_map(struct mt_control_request *request)
{
	control_ask(request, control_on_map);
}

static void
control_on_nodes(struct mt_ask *ask, void *arg)
{
	control_finish(arg, json_pack("{s:o}", "nodes", mt_json_nodes(ask->gateway, ask)));
}

static void
control_nodes(struct mt_control_request *request)
{
	control_ask(request, control_on_nodes);
}

static void
control_on_status(struct mt_ask *ask, void *arg)
{
	bool has_shards = ask->gateway->cluster.shard_count <= MT_STATUS_SHARDS_MAX;

	control_finish(arg, mt_json_status(ask->gateway, ask, has_shards));
}

static void
control_status(struct mt_control_request *request)
{
	control_ask(request, control_on_status);
}

static const struct mt_control_op control_ops[] = {
	{ "volume.create", true, control_create },
	{ "volume.list", false, control_list },
	{ "volume.show", false, control_show },
	{ "volume.delete", true, control_delete },
	{ "volume.attach", true, control_attach },
	{ "map", false, control_map },
	{ "node.list", false, control_nodes },
	{ "status", false, control_status },
};

/* On main. */

static const struct mt_control_op *
control_op_of(struct mt_control_request *request, char error[MT_CONTROL_ERROR_BYTES])
{
	json_error_t where;
	const char *name;

	request->in =
	    json_loadb(request->text, request->text_bytes, JSON_REJECT_DUPLICATES, &where);
	if (!json_is_object(request->in)) {
		(void)snprintf(error, MT_CONTROL_ERROR_BYTES, "not a JSON object: %.150s",
		    request->in == NULL ? where.text : "another value");
		return NULL;
	}
	name = json_string_value(json_object_get(request->in, "op"));
	if (name == NULL) {
		(void)snprintf(error, MT_CONTROL_ERROR_BYTES, "op: missing, or not a string");
		return NULL;
	}
	for (size_t i = 0; i < NUM_COUNT(control_ops); i++) {
		if (strcmp(control_ops[i].name, name) == 0)
			return &control_ops[i];
	}
	(void)snprintf(error, MT_CONTROL_ERROR_BYTES, "op: '%.64s' is unknown", name);
	return NULL;
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
		request->op->run(request);
	}
}

static void
control_on_main(struct loop_post *post, void *arg)
{
	struct mt_control_request *request = arg;
	struct mt_gateway *gateway = request->gateway;
	char error[MT_CONTROL_ERROR_BYTES];

	(void)post;
	request->op = control_op_of(request, error);
	if (request->op == NULL) {
		control_fail(request, -EINVAL, error);
	} else if (!gateway->volumes.is_loaded || gateway->sm.state >= MT_GATEWAY_FAILED) {
		control_fail(request, -EHOSTDOWN, "the gateway is starting or stopping");
	} else if (request->op->is_change) {
		list_push_back(&gateway->control_queue, &request->link);
		control_next(gateway);
	} else {
		request->op->run(request);
	}
}

void
mt_control_drop_all(struct mt_gateway *gateway)
{
	struct loop_link *link, *next;

	gateway->control_current = NULL;
	while (list_pop_front(&gateway->control_queue) != NULL)
		continue; /* the slots are the ports' */
	LIST_FOREACH_SAFE(&gateway->asks, link, next) {
		struct mt_ask *ask = LIST_ENTRY(link, struct mt_ask, link);

		for (uint32_t i = 0; i < gateway->port_count; i++)
			mt_port_snapshot_fini(&ask->legs[i].snapshot);
		list_remove(link);
		mt_free(ask);
	}
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
	mt_session_begin(session, false);
	request->post = (struct loop_post){ .fn = control_on_main, .arg = request };
	loop_post(mt_gateway_loop(port->gateway), &request->post);
}
