/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.c -- asking a gateway: one connection, a few calls at a time, retried until their deadline
 *
 *	DOWN --> CONNECTING --> UP --> DOWN
 *	             '----------'-> CLOSING --> DOWN      a call's time is over, a broken answer
 *
 * The connection is made when there is a call, to the gateways in turn. Everything that may be due
 * (connect, send, expire) is looked at by one task (control_on_task), which also sets one timer for
 * what comes next. A call whose time ends after it was sent is given back when the connection has
 * been closed: no answer, and no late effect that nobody waits for.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cleave/status.h"
#include "internal.h"

static const struct sm_state control_table[CONTROL_NR] = {
	[CONTROL_DOWN] = { "down", SM_TO(CONTROL_CONNECTING), SM_INITIAL },
	[CONTROL_CONNECTING] = { "connecting",
	    SM_TO(CONTROL_UP) | SM_TO(CONTROL_CLOSING) | SM_TO(CONTROL_DOWN), 0 },
	[CONTROL_UP] = { "up", SM_TO(CONTROL_CLOSING) | SM_TO(CONTROL_DOWN), 0 },
	[CONTROL_CLOSING] = { "closing", SM_TO(CONTROL_DOWN), 0 },
};

/* A request as it is sent: freed when the call has ended and the split library is done with it. */
struct control_send {
	struct split_send send;
	struct cleave_client *client;
	bool is_sending;
	bool is_orphan; /* its call has ended */
	bool has_by;    /* the text ends with who asks */
	struct loop_link link;
	/* The header and the text behind it, as they travel. */
	struct wire_header header __attribute__((aligned(8)));
	char text[];
};
_Static_assert(offsetof(struct control_send, text) ==
	offsetof(struct control_send, header) + WIRE_HEADER_BYTES,
    "the text goes behind its header");
_Static_assert(CLEAVE_CALL_BYTES_MAX + WIRE_HEADER_BYTES <= SPLIT_HEADER_BYTES_MAX,
    "a request goes out from host memory");

/* A gateway that takes longer to hand out a map has stopped, or its machine has: another is asked. */
#define CONTROL_PATIENCE_NS NUM_S(2)

static void control_on_task(struct loop_task *task, void *arg);
static void control_on_timer(struct loop_timer *timer, void *arg);

static struct cleave_call *
call_of(struct loop_link *link)
{
	return LIST_ENTRY(link, struct cleave_call, link);
}

static const char *
control_address(const struct cleave_client *client)
{
	return client_gateway(client, client->control.gateway_index);
}

int
control_init(struct cleave_client *client)
{
	struct control *control = &client->control;

	assert(control->reply == NULL);
	sm_init(&control->sm, "control", control_table, CONTROL_DOWN, 0);
	list_init(&control->waiting);
	list_init(&control->sent);
	list_init(&control->orphans);
	loop_task_init(&control->task, control_on_task, client);
	loop_timer_init(&control->timer, control_on_timer, client);
	wire_level_init(&control->level, 0);
	control_text_by(client->name, control->by);
	control->reply = client_malloc(CLIENT_MESSAGE_BYTES_MAX + 1);
	return control->reply == NULL ? -ENOMEM : 0;
}

/* The port is closed: nobody uses the memory of a send any more. */
void
control_fini(struct cleave_client *client)
{
	struct control *control = &client->control;
	struct loop_link *link;

	assert(control->qp == NULL);
	loop_task_cancel(client->loop, &control->task);
	loop_timer_stop(client->loop, &control->timer);
	while ((link = list_pop_front(&control->waiting)) != NULL)
		free(call_of(link)->message);
	while ((link = list_pop_front(&control->sent)) != NULL)
		free(call_of(link)->message);
	while ((link = list_pop_front(&control->orphans)) != NULL)
		free(LIST_ENTRY(link, struct control_send, link));
	free(control->reply);
	control->reply = NULL;
}

/* Calls. */

int
cleave_control(struct cleave_client *client, struct cleave_call *call, const char *request)
{
	struct control *control = &client->control;
	size_t bytes = strlen(request);
	struct control_send *message;

	CHECK_OBJ(client, CLIENT_MAGIC);
	assert(control->call_count <= CLEAVE_CALLS_MAX);
	assert(call->fn != NULL);
	if (bytes > CLEAVE_CALL_BYTES_MAX)
		return -EMSGSIZE;
	if (control->call_count == CLEAVE_CALLS_MAX)
		return -ENOBUFS;
	message = client_calloc(1, sizeof(*message) + bytes + strlen(control->by));
	if (message == NULL)
		return -ENOMEM;
	memcpy(message->text, request, bytes);
	message->client = client;
	call->link = (struct loop_link){ NULL, NULL };
	call->deadline_ns = loop_now_ns(client->loop) + client->options.control_timeout_ns;
	call->request_id = ++control->next_request_id;
	call->message = message;
	call->message_bytes = (uint32_t)(WIRE_HEADER_BYTES + bytes);
	call->attempts = 0;
	call->not_before_ns = 0;
	call->is_expired = false;
	list_push_back(&control->waiting, &call->link);
	control->call_count++;
	loop_defer(client->loop, &control->task);
	return 0;
}

/* The last act of whoever calls it. */
static void
call_finish(struct cleave_client *client, struct cleave_call *call, int rc, const char *reply,
    const char *error)
{
	struct control *control = &client->control;
	struct control_send *message = call->message;

	assert(control->call_count > 0 && message != NULL);
	assert((rc == 0) == (error == NULL));
	list_remove(&call->link);
	control->call_count--;
	call->message = NULL;
	if (message->is_sending) {
		message->is_orphan = true;
		list_push_back(&control->orphans, &message->link);
	} else {
		free(message);
	}
	call->fn(call, rc, reply, error, call->arg);
}

/* Ends a call that nobody answered, with a text that says what was tried. */
static void
call_expire(struct cleave_client *client, struct cleave_call *call)
{
	const char *why = client->control.error;
	char text[CLEAVE_ERROR_BYTES_MAX];

	assert(call->message != NULL);
	(void)snprintf(text, sizeof(text), "%.100s: no answer in time%s%.240s",
	    control_address(client), why[0] == '\0' ? "" : "; last: ", why);
	call_finish(client, call, -ETIMEDOUT, NULL, text);
}

static void
call_retry(struct cleave_client *client, struct cleave_call *call, uint64_t delay_ns)
{
	assert(call->message != NULL);
	list_remove(&call->link);
	call->not_before_ns = loop_now_ns(client->loop) + delay_ns;
	list_push_back(&client->control.waiting, &call->link);
}

static void
control_on_send(struct split_send *send, int rc, void *arg)
{
	struct control_send *message = arg;

	(void)send;
	(void)rc; /* a failure is followed by the connection's end */
	assert(message->is_sending && send == &message->send);
	message->is_sending = false;
	if (!message->is_orphan)
		return;
	list_remove(&message->link);
	free(message);
}

static int
call_send(struct cleave_client *client, struct cleave_call *call)
{
	struct control *control = &client->control;
	struct control_send *message = call->message;
	int rc;

	assert(control->sm.state == CONTROL_UP && !message->is_sending);
	message->header = (struct wire_header){
		.opcode = WIRE_CONTROL,
		.request_id = call->request_id,
	};
	message->send = (struct split_send){
		.header = &message->header,
		.header_bytes = WIRE_HEADER_BYTES +
		    control_text_say(message->text, call->message_bytes - WIRE_HEADER_BYTES,
			control->agreed_level < CLEAVE_LEVEL_BY ? "" : control->by,
			&message->has_by),
		.fn = control_on_send,
		.arg = message,
	};
	rc = split_send(control->qp, &message->send);
	if (rc != 0)
		return rc;
	message->is_sending = true;
	call->not_before_ns = loop_now_ns(client->loop); /* when it was sent, from here on */
	list_remove(&call->link);
	list_push_back(&control->sent, &call->link);
	return 0;
}

void
call_hasten(struct cleave_call *call, struct cleave_client *client, uint64_t ns)
{
	assert(call->message != NULL); /* it is on its way */
	call->deadline_ns = num_min(call->deadline_ns, loop_now_ns(client->loop) + ns);
}

/* Answers. */

static bool
status_is_transient(int rc)
{
	return rc == -EBUSY || rc == -EHOSTDOWN || rc == -EAGAIN || rc == -ENOMEM;
}

static void
control_close(struct control *control)
{
	if (control->sm.state != CONTROL_UP && control->sm.state != CONTROL_CONNECTING)
		return;
	assert(control->qp != NULL);
	sm_move(&control->sm, CONTROL_CLOSING);
	split_qp_close(control->qp);
}

void
control_move_on(struct cleave_client *client)
{
	struct control *control = &client->control;

	CHECK_OBJ(client, CLIENT_MAGIC);
	if (client_gateway_count(client) == 1 || control->sm.state != CONTROL_UP ||
	    !list_is_empty(&control->sent))
		return;
	control->is_moving = true;
	control_close(control);
}

static void
call_on_answer(struct cleave_client *client, struct cleave_call *call, uint16_t status)
{
	const struct cleave_client_options *options = &client->options;
	struct control *control = &client->control;
	int rc = status_to_errno(status);

	assert(control->sm.state == CONTROL_UP);
	if (rc == 0) {
		control->error[0] = '\0';
		call_finish(client, call, 0, control->reply, NULL);
		return;
	}
	control_text_error(control->reply, status, control->error);
	if (status_is_transient(rc)) {
		call_retry(client, call,
		    retry_delay_ns(client->loop, call->attempts++, options->backoff_min_ns,
			options->backoff_max_ns));
		loop_defer(client->loop, &control->task);
		return;
	}
	call_finish(client, call, rc, control->reply, control->error);
}

static void
control_on_message(struct cleave_client *client, struct split_msg *msg)
{
	struct control *control = &client->control;
	struct wire_control answer;
	struct loop_link *link, *next;
	uint16_t status = msg->header->status;
	const char *field;

	assert(control->sm.state == CONTROL_UP);
	if (wire_control_decode(msg->header, &answer, &field) == 0 &&
	    (msg->header->opcode & WIRE_REPLY) != 0) {
		LIST_FOREACH_SAFE(&control->sent, link, next) {
			if (call_of(link)->request_id != answer.request_id)
				continue;
			dev_copy_to_host(client->port, control->reply, msg->payload,
			    answer.payload_bytes);
			control->reply[answer.payload_bytes] = '\0';
			call_on_answer(client, call_of(link), status);
			return;
		}
	}
	CLIENT_STAT(client, protocol_errors, 1);
	control_close(control);
}

static void
control_on_messages(struct split_qp *qp, struct split_msg *const *msgs, uint32_t count, void *arg)
{
	struct cleave_client *client = arg;

	(void)qp;
	CHECK_OBJ(client, CLIENT_MAGIC);
	for (uint32_t i = 0; i < count; i++) {
		if (client->control.sm.state == CONTROL_UP)
			control_on_message(client, msgs[i]);
		split_msg_release(msgs[i]);
	}
}

/* The connection. */

static bool
control_knows(struct cleave_client *client, const void *hello, uint32_t hello_bytes)
{
	struct wire_hello peer;
	const char *field;

	if (wire_hello_decode(hello, hello_bytes, &peer, &field) != 0)
		peer = (struct wire_hello){ .cluster_id = 0 };
	client->control.agreed_level = wire_level_agreed(&client->control.level, peer.level);
	if (!client_gateway_is_of(client, client->control.gateway_index, peer.cluster_id))
		return false;
	client->cluster_id = peer.cluster_id;
	return true;
}

static void
control_on_ready(struct split_qp *qp, const void *hello, uint32_t hello_bytes, void *arg)
{
	struct cleave_client *client = arg;
	struct control *control = &client->control;

	CHECK_OBJ(client, CLIENT_MAGIC);
	if (control->sm.state != CONTROL_CONNECTING)
		return;
	assert(control->qp == qp);
	sm_move(&control->sm, CONTROL_UP);
	if (!control_knows(client, hello, hello_bytes)) {
		control->foreign = "another cluster's gateway answers";
		control_close(control);
		return;
	}
	control->failures_in_row = control->refusals_in_row = 0;
	loop_defer(client->loop, &control->task);
}

/* Nobody can be reached, and nobody wants to wait for it. */
static void
control_fail_waiting(struct cleave_client *client, int rc)
{
	struct control *control = &client->control;
	struct loop_link *link;
	char text[CLEAVE_ERROR_BYTES_MAX];

	assert(rc < 0);
	memcpy(text, control->error, sizeof(text));
	for (uint32_t left = control->call_count;
	     left > 0 && (link = list_first(&control->waiting)) != NULL; left--)
		call_finish(client, call_of(link), rc, NULL, text);
}

/* A connection, or an attempt at one, has ended: its calls go on elsewhere, or fail. */
static void
control_on_failure(struct cleave_client *client, int rc, const char *reason)
{
	const struct cleave_client_options *options = &client->options;
	struct control *control = &client->control;
	uint32_t gateway_count = client_gateway_count(client);
	struct loop_link *link;

	assert(control->sm.state == CONTROL_DOWN && gateway_count > 0);
	/* People are told of those that they have configured. */
	if (control->error[0] == '\0' ||
	    !client_gateway_is_remembered(client, control->gateway_index))
		(void)snprintf(control->error, sizeof(control->error), "%.100s: %.120s",
		    control_address(client), reason == NULL ? "" : reason);
	while ((link = list_first(&control->sent)) != NULL) {
		struct cleave_call *call = call_of(link);

		if (call->is_expired)
			call_expire(client, call);
		else if (call->must_not_repeat)
			call_finish(client, call, -ECONNRESET, NULL, control->error);
		else
			call_retry(client, call, 0);
	}
	control->gateway_index = (control->gateway_index + 1) % gateway_count;
	control->connect_not_before_ns = loop_now_ns(client->loop) +
	    retry_delay_ns(client->loop, control->failures_in_row / gateway_count,
		options->backoff_min_ns, options->backoff_max_ns);
	control->failures_in_row++;
	control->refusals_in_row = rc == -EKEYREJECTED ? control->refusals_in_row + 1 : 0;
	if (control->refusals_in_row >= gateway_count ||
	    (options->is_impatient && control->failures_in_row >= gateway_count))
		control_fail_waiting(client, rc);
	loop_defer(client->loop, &control->task);
}

static void
control_on_closed(struct split_qp *qp, int rc, const char *reason, void *arg)
{
	struct cleave_client *client = arg;
	struct control *control = &client->control;
	bool is_old;

	CHECK_OBJ(client, CLIENT_MAGIC);
	assert(control->qp == qp);
	control->qp = NULL;
	is_old = control->sm.state == CONTROL_CONNECTING &&
	    wire_level_refused(&control->level, rc, loop_now_ns(client->loop));
	if (control->sm.state != CONTROL_CONNECTING)
		wire_level_forget(&control->level); /* it may be a newer one now */
	if (client->is_destroying)
		return;
	sm_move(&control->sm, CONTROL_DOWN);
	if (is_old) { /* the same gateway, with the level that all speak */
		loop_defer(client->loop, &control->task);
		return;
	}
	if (control->is_moving) {
		control->is_moving = false;
		control->gateway_index = (control->gateway_index + 1) %
		    client_gateway_count(client);
		loop_defer(client->loop, &control->task);
		return;
	}
	CLIENT_STAT(client, connection_losses, 1);
	control_on_failure(client, rc == 0 ? -ECONNRESET : rc,
	    control->foreign != NULL ? control->foreign : reason);
}

static const struct split_qp_ops control_qp_ops = {
	.on_ready = control_on_ready,
	.on_messages = control_on_messages,
	.on_closed = control_on_closed,
};

static void
control_connect(struct cleave_client *client)
{
	struct control *control = &client->control;
	struct wire_hello hello = { .role = WIRE_ROLE_CLIENT };
	uint8_t bytes[WIRE_HELLO_BYTES];
	struct split_connect_options options = {
		.address = control_address(client),
		.hello = bytes,
		.hello_bytes = sizeof(bytes),
		.timeout_ns = client_gateway_count(client) == 1
		    ? client->options.connect_timeout_ns
		    : num_min(client->options.connect_timeout_ns, CONTROL_PATIENCE_NS),
		.ops = &control_qp_ops,
		.peer_roles = SPLIT_ROLE_GATEWAY,
		.arg = client,
	};
	int rc;

	assert(control->sm.state == CONTROL_DOWN && control->qp == NULL);
	if (control->level_index != control->gateway_index) /* it may be of another release */
		wire_level_init(&control->level, 0);
	control->level_index = control->gateway_index;
	control->foreign = NULL;
	hello.level = wire_level_offer(&control->level, loop_now_ns(client->loop));
	wire_hello_encode(bytes, &hello);
	control->qp = connect_qp(client->port, &options);
	if (control->qp != NULL) {
		sm_move(&control->sm, CONTROL_CONNECTING);
		return;
	}
	rc = -errno;
	CLIENT_STAT(client, connection_losses, 1);
	control_on_failure(client, rc, rc == -EINVAL ? "not a valid address" : strerror(-rc));
}

/* Timers. */

/* When a sent call's gateway is given up. */
static uint64_t
call_due_ns(const struct cleave_client *client, const struct cleave_call *call)
{
	assert(call->message != NULL);
	if (call != &client->map_call || client_gateway_count(client) == 1)
		return call->deadline_ns;
	return num_min(call->deadline_ns, call->not_before_ns + CONTROL_PATIENCE_NS);
}

static void
control_expire(struct cleave_client *client, uint64_t now_ns)
{
	struct control *control = &client->control;
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&control->sent, link, next) {
		if (call_due_ns(client, call_of(link)) > now_ns)
			continue;
		call_of(link)->is_expired = call_of(link)->deadline_ns <= now_ns;
		control_close(control);
	}
	/* A handler may make new calls; they are not due, and come last. */
	LIST_FOREACH_SAFE(&control->waiting, link, next) {
		if (call_of(link)->deadline_ns <= now_ns) {
			call_expire(client, call_of(link));
			loop_defer(client->loop, &control->task);
			return;
		}
	}
}

static void
control_send_due(struct cleave_client *client, uint64_t now_ns)
{
	struct control *control = &client->control;
	struct loop_link *link, *next;

	assert(control->sm.state == CONTROL_UP);
	LIST_FOREACH_SAFE(&control->waiting, link, next) {
		struct cleave_call *call = call_of(link);

		if (call->not_before_ns <= now_ns && call_send(client, call) != 0) {
			control_close(control);
			return;
		}
	}
}

static void
control_set_timer(struct cleave_client *client, uint64_t now_ns)
{
	struct control *control = &client->control;
	uint64_t due_ns = UINT64_MAX;
	struct loop_link *link, *next;

	/* On the way to being closed there is nothing to wait for but the end. */
	LIST_FOREACH_SAFE(&control->sent, link, next)
		due_ns = num_min(due_ns,
		    control->sm.state == CONTROL_UP ? call_due_ns(client, call_of(link))
						    : call_of(link)->deadline_ns);
	LIST_FOREACH_SAFE(&control->waiting, link, next) {
		due_ns = num_min(due_ns, call_of(link)->deadline_ns);
		if (call_of(link)->not_before_ns > now_ns)
			due_ns = num_min(due_ns, call_of(link)->not_before_ns);
		if (control->sm.state == CONTROL_DOWN)
			due_ns = num_min(due_ns, control->connect_not_before_ns);
	}
	if (due_ns == UINT64_MAX)
		loop_timer_stop(client->loop, &control->timer);
	else
		loop_timer_start(client->loop, &control->timer,
		    due_ns > now_ns ? due_ns - now_ns : 0);
}

static void
control_on_task(struct loop_task *task, void *arg)
{
	struct cleave_client *client = arg;
	struct control *control = &client->control;
	uint64_t now_ns = loop_now_ns(client->loop);

	(void)task;
	CHECK_OBJ(client, CLIENT_MAGIC);
	assert(task == &control->task);
	control_expire(client, now_ns);
	if (control->sm.state == CONTROL_DOWN && !list_is_empty(&control->waiting) &&
	    control->connect_not_before_ns <= now_ns)
		control_connect(client);
	if (control->sm.state == CONTROL_UP)
		control_send_due(client, now_ns);
	control_set_timer(client, now_ns);
}

static void
control_on_timer(struct loop_timer *timer, void *arg)
{
	struct cleave_client *client = arg;

	(void)timer;
	CHECK_OBJ(client, CLIENT_MAGIC);
	assert(timer == &client->control.timer);
	loop_defer(client->loop, &client->control.task);
}
