/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connection.c -- a volume's queue pair to one port of a gateway, kept up as long as it is wanted
 *
 *	DOWN --(timer)--> CONNECTING --> UP --> CLOSING --(on_closed)--> DOWN or GONE
 *	  ^                   |          |
 *	  '----(on_closed)----'----------'
 *
 * Each attempt says hello with the session's id and an incarnation that is higher than any before,
 * so that the port finishes or drops what an older one had sent before it admits this one. Writes that
 * may be over by that are settled then (debt.c).
 *
 * A port of this host is reached by its unix socket, where it has one (local.h). When that attempt fails the next one
 * is by the address that the map has, and the one after that by the socket again. One that came by the address keeps
 * looking, once a second while it has something to send: its gateway listens there a moment before it has a socket, and what
 * was left of the gateway before it is none.
 * Only who is at the address has the last word on a volume: a socket may be another gateway's, of a folder that two share.
 *
 * Volumes of two clusters may have one id, and sessions that write nothing need show no more. So hellos name the cluster, and
 * a gateway of another one, which has come to the address, is sent nothing. What it says is no volume's end: it is asked again
 * later, and by then it may have gone, or the map say another address.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "internal.h"
#include "local.h"
#include "message_payload.h"

static const struct sm_state connection_table[CONNECTION_STATE_NR] = {
	[CONNECTION_DOWN] = { "down", SM_TO(CONNECTION_CONNECTING) | SM_TO(CONNECTION_GONE),
	    SM_INITIAL },
	[CONNECTION_CONNECTING] = { "connecting",
	    SM_TO(CONNECTION_UP) | SM_TO(CONNECTION_CLOSING) | SM_TO(CONNECTION_DOWN), 0 },
	[CONNECTION_UP] = { "up", SM_TO(CONNECTION_CLOSING) | SM_TO(CONNECTION_DOWN), 0 },
	[CONNECTION_CLOSING] = { "closing", SM_TO(CONNECTION_DOWN), 0 },
	[CONNECTION_GONE] = { "gone", 0, SM_FINAL },
};

/* Without an answer for so long the map is asked for: its gateway may have lost the shard. */
#define CONNECTION_SLOW_NS NUM_MS(1500)
/* By its address, although the client has a folder of sockets: it looks there so often. */
#define CONNECTION_LOCAL_NS NUM_S(1)
#define FOREIGN "another cluster's gateway answers"

static void connection_on_timer(struct loop_timer *timer, void *arg);
static void connection_on_slow(struct loop_timer *timer, void *arg);

struct connection *
connection_create(struct cleave_volume *volume, const char *address)
{
	struct connection *connection = client_calloc(1, sizeof(*connection));

	assert(strlen(address) < sizeof(connection->address));
	if (connection == NULL)
		return NULL;
	connection->magic = CONNECTION_MAGIC;
	connection->volume = volume;
	connection->is_wanted = true;
	memcpy(connection->address, address, strlen(address) + 1);
	wire_level_init(&connection->level, 0);
	list_init(&connection->queue);
	list_init(&connection->sent);
	list_init(&connection->peek.out);
	sm_init(&connection->sm, "connection", connection_table, CONNECTION_DOWN, volume->sm.id);
	loop_timer_init(&connection->timer, connection_on_timer, connection);
	loop_timer_init(&connection->slow_timer, connection_on_slow, connection);
	loop_timer_start(volume->client->loop, &connection->timer, 0);
	list_push_back(&volume->connections, &connection->link);
	return connection;
}

void
connection_free(struct connection *connection)
{
	struct cleave_volume *volume = connection->volume;
	struct loop_link *link;

	assert(connection->sm.state == CONNECTION_DOWN);
	assert(list_is_empty(&connection->sent) && list_is_empty(&connection->peek.out));
	sm_move(&connection->sm, CONNECTION_GONE);
	loop_timer_stop(volume->client->loop, &connection->timer);
	loop_timer_stop(volume->client->loop, &connection->slow_timer);
	list_remove(&connection->link);
	for (uint32_t i = 0; i < CLIENT_PORTS_MAX; i++) {
		if (volume->by_port[i] == connection)
			volume->by_port[i] = NULL;
	}
	while ((link = list_first(&connection->queue)) != NULL)
		message_route(LIST_ENTRY(link, struct message, queue_link));
	connection->magic = 0;
	leases_forget(connection);
	free(connection);
	volume_wake(volume);
}

/*
 * A peer that is silent: a stopped process keeps its connections, a dead machine as well, for a while.
 * If its shards have moved the next map takes them away, and with them what was sent here.
 */
static void
connection_on_slow(struct loop_timer *timer, void *arg)
{
	struct connection *connection = arg;
	struct cleave_client *client = connection->volume->client;
	struct loop_link *oldest = list_first(&connection->sent);
	uint64_t now_ns = loop_now_ns(client->loop), since_ns = now_ns - CONNECTION_SLOW_NS;
	uint64_t peek_ns = peek_oldest_ns(connection);

	CHECK_OBJ(connection, CONNECTION_MAGIC);
	assert(timer == &connection->slow_timer);
	if (oldest != NULL)
		since_ns =
		    num_min(peek_ns, LIST_ENTRY(oldest, struct message, queue_link)->sent_ns);
	else if (peek_ns != UINT64_MAX)
		since_ns = peek_ns;
	else if (connection->sm.state == CONNECTION_UP || list_is_empty(&connection->queue))
		return;
	if (now_ns - since_ns >= CONNECTION_SLOW_NS) {
		client_want_map(client);
		since_ns = now_ns;
	}
	loop_timer_start(client->loop, timer, since_ns + CONNECTION_SLOW_NS - now_ns);
}

void
connection_watch(struct connection *connection)
{
	CHECK_OBJ(connection, CONNECTION_MAGIC);
	assert(connection->sm.state != CONNECTION_GONE);
	if (!connection->slow_timer.is_active)
		loop_timer_start(connection->volume->client->loop, &connection->slow_timer,
		    CONNECTION_SLOW_NS);
}

/* After an end: wait, then try again. */
static void
connection_retry_later(struct connection *connection)
{
	struct cleave_client *client = connection->volume->client;

	assert(connection->sm.state == CONNECTION_DOWN);
	loop_timer_start(client->loop, &connection->timer,
	    retry_delay_ns(client->loop, connection->failures_in_row++,
		client->options.backoff_min_ns, client->options.backoff_max_ns));
	client_want_map(client);
}

/* A socket that has not just failed. */
static bool
connection_finds_local(struct connection *connection)
{
	struct local_socket found;

	if (!local_find(connection->volume->client->local, connection->address, &found) ||
	    (connection->was_refused && local_is_same(&found, &connection->socket)))
		return false;
	connection->socket = found;
	return true;
}

/* Up by its address: what is in flight is sent again where it goes next. */
static void
connection_look(struct connection *connection)
{
	struct cleave_client *client = connection->volume->client;

	assert(connection->sm.state == CONNECTION_UP);
	if (connection->is_local || client->local[0] == '\0')
		return;
	connection->looked_ns = loop_now_ns(client->loop);
	if (connection_finds_local(connection))
		connection_reset(connection);
}

/* Something is sent: it looks again, soon, where it has not for a while. Who sends nothing sleeps (I12). */
static void
connection_look_soon(struct connection *connection)
{
	struct cleave_client *client = connection->volume->client;
	uint64_t now_ns = loop_now_ns(client->loop),
		 due_ns = connection->looked_ns + CONNECTION_LOCAL_NS;

	assert(connection->sm.state == CONNECTION_UP);
	if (!connection->is_local && client->local[0] != '\0' && !connection->timer.is_active)
		loop_timer_start(client->loop, &connection->timer,
		    num_max(due_ns, now_ns) - now_ns);
}

void
connection_pump(struct connection *connection)
{
	uint32_t depth_max = connection->volume->client->options.connection_depth_max;
	struct loop_link *link, *next;

	CHECK_OBJ(connection, CONNECTION_MAGIC);
	LIST_FOREACH_SAFE(&connection->queue, link, next) {
		struct message *message = LIST_ENTRY(link, struct message, queue_link);
		int rc;

		if (connection->sm.state != CONNECTION_UP || connection->sent_count >= depth_max)
			return;
		if (message_is_held(message)) {
			client_want_map(connection->volume->client);
			continue;
		}
		if (message->is_holes && connection->agreed_level < CLEAVE_LEVEL_HOLES) {
			message_skip_holes(message);
			volume_wake(connection->volume);
			return; /* the queue may be another one now */
		}
		rc = message_send(message);
		if (rc == 0) {
			connection_look_soon(connection);
			continue;
		}
		/* A full send queue drains and wakes us; anything else cannot work here. */
		if (rc != -ENOBUFS || connection->sent_count == 0)
			connection_reset(connection);
		return;
	}
}

void
connection_reset(struct connection *connection)
{
	CHECK_OBJ(connection, CONNECTION_MAGIC);
	if (connection->sm.state != CONNECTION_UP && connection->sm.state != CONNECTION_CONNECTING)
		return;
	sm_move(&connection->sm, CONNECTION_CLOSING);
	split_qp_close(connection->qp);
}

void
connection_retire(struct connection *connection)
{
	CHECK_OBJ(connection, CONNECTION_MAGIC);
	connection->is_wanted = false;
	if (connection->sm.state == CONNECTION_DOWN)
		connection_free(connection);
	else
		connection_reset(connection);
}

/* Called by the split library. */

/* Is @peer of another cluster than the volume? Those of level 1 do not say. */
static bool
connection_is_foreign(const struct connection *connection, const struct wire_hello *peer)
{
	uint64_t cluster_id = connection->volume->cluster_id;

	return cluster_id != 0 && peer->cluster_id != 0 && peer->cluster_id != cluster_id;
}

static void
connection_on_ready(struct split_qp *qp, const void *hello, uint32_t hello_bytes, void *arg)
{
	struct connection *connection = arg;
	struct cleave_volume *volume = connection->volume;
	struct wire_hello peer;
	const char *field;

	CHECK_OBJ(connection, CONNECTION_MAGIC);
	if (connection->sm.state != CONNECTION_CONNECTING)
		return;
	assert(connection->qp == qp);
	sm_move(&connection->sm, CONNECTION_UP);
	CLIENT_STAT(volume->client, connects, 1);
	if (wire_hello_decode(hello, hello_bytes, &peer, &field) != 0 ||
	    peer.role != WIRE_ROLE_GATEWAY ||
	    wire_level_agreed(&connection->level, peer.level) == 0) {
		CLIENT_STAT(volume->client, protocol_errors, 1);
		connection_reset(connection);
		return;
	}
	connection->agreed_level = peer.level;
	connection->is_foreign = connection_is_foreign(connection, &peer);
	if (connection->is_foreign)
		connection_reset(connection);
	else
		connection_look(connection);
	if (connection->sm.state != CONNECTION_UP)
		return;
	leases_on_ready(connection);
	debts_settle(volume);
	volume_wake(volume);
}

/* The message that @reply answers; NULL: none of this connection's, or another length. */
static struct message *
connection_find(struct connection *connection, const struct wire_io_reply *reply)
{
	struct cleave_client *client = connection->volume->client;
	uint32_t index = (uint32_t)(reply->request_id & REQUEST_INDEX_MASK);
	struct message *message;

	assert(connection->sm.state == CONNECTION_UP);
	if (index >= client->options.message_count_max)
		return NULL;
	message = &client->messages[index];
	if (message->sm.state != MESSAGE_SENT || message->connection != connection ||
	    message->request_id != reply->request_id ||
	    message->header.opcode != (uint8_t)reply->opcode)
		return NULL;
	if (reply->opcode == WIRE_READ && reply->rc == 0 &&
	    reply->length_bytes != message->length_bytes)
		return NULL;
	return message;
}

/* A read's data goes to where its caller wants it: once, whatever the gateway sends. */
static void *
connection_on_place(struct split_qp *qp, const struct wire_header *header, void *arg)
{
	struct connection *connection = arg;
	struct wire_io_reply reply;
	struct message *message;
	const char *field;

	(void)qp;
	CHECK_OBJ(connection, CONNECTION_MAGIC);
	if (connection->sm.state != CONNECTION_UP ||
	    wire_io_reply_decode(header, &reply, &field) != 0 || reply.rc != 0 ||
	    reply.opcode != WIRE_READ)
		return NULL;
	message = connection_find(connection, &reply);
	return message != NULL ? cleave_payload_place(message) : NULL;
}

static void
connection_on_message(struct connection *connection, struct split_msg *msg)
{
	struct wire_io_reply reply;
	struct message *message = NULL;
	const char *field;

	assert(connection->sm.state == CONNECTION_UP);
	if (msg->header->opcode == (WIRE_LEASE | WIRE_REPLY) && leases_on_message(connection, msg))
		return;
	if (msg->header->opcode == (WIRE_CHUNK_MAP | WIRE_REPLY) &&
	    maps_on_message(connection, msg))
		return;
	if (wire_io_reply_decode(msg->header, &reply, &field) == 0)
		message = connection_find(connection, &reply);
	if (message == NULL) {
		CLIENT_STAT(connection->volume->client, protocol_errors, 1);
		connection_reset(connection);
		return;
	}
	if (connection->agreed_level >= CLEAVE_LEVEL_LIMITS)
		pace_on_tag(connection->volume, reply.limits_tag);
	leases_on_reply(connection->volume, message->shard, &reply, message->sent_boot_ns);
	if (reply.is_mapped)
		maps_on_mapped(message);
	message_on_reply(message, &reply, msg);
}

static void
connection_on_messages(struct split_qp *qp, struct split_msg *const *msgs, uint32_t count,
    void *arg)
{
	struct connection *connection = arg;

	(void)qp;
	CHECK_OBJ(connection, CONNECTION_MAGIC);
	for (uint32_t i = 0; i < count; i++) {
		if (connection->sm.state == CONNECTION_UP)
			connection_on_message(connection, msgs[i]);
		split_msg_release(msgs[i]);
	}
	volume_wake(connection->volume);
}

/* A key that is not believed may be renewed, or the gateway's be: requests wait, and stall.c says for what. */
static void
connection_note_refused(struct connection *connection, int rc, const char *reason)
{
	(void)snprintf(connection->refused, sizeof(connection->refused), "%s",
	    reason != NULL && (rc == -EKEYREJECTED || strcmp(reason, FOREIGN) == 0) ? reason : "");
}

static void
connection_on_closed(struct split_qp *qp, int rc, const char *reason, void *arg)
{
	struct connection *connection = arg;
	struct cleave_volume *volume = connection->volume;
	bool is_asking = connection->sm.state == CONNECTION_CONNECTING;
	bool is_old = is_asking &&
	    wire_level_refused(&connection->level, rc, loop_now_ns(volume->client->loop));
	bool is_foreign = connection->is_foreign || (is_asking && rc == -EXDEV);
	struct loop_link *link;

	CHECK_OBJ(connection, CONNECTION_MAGIC);
	assert(connection->qp == qp);
	connection->qp = NULL;
	connection_note_refused(connection, rc, is_foreign ? FOREIGN : reason);
	connection->was_refused = (is_asking || is_foreign) && connection->is_local && !is_old;
	connection->is_foreign = false;
	if (!is_asking)
		wire_level_forget(&connection->level); /* the gateway may be a newer one now */
	if (volume->client->is_destroying)
		return;
	CLIENT_STAT(volume->client, connection_losses, 1);
	leases_on_closed(connection);
	peeks_forget(connection);
	maps_on_closed(connection);
	sm_move(&connection->sm, CONNECTION_DOWN);
	if (is_asking && !is_old && !is_foreign && !connection->is_local && retry_is_fatal(rc))
		volume_fail(volume, rc);
	if (is_old && connection->is_wanted && volume_is_live(volume))
		loop_timer_start(volume->client->loop, &connection->timer, 0);
	else if (connection->is_wanted && volume_is_live(volume))
		connection_retry_later(connection);
	/* Messages that are sent again join a queue, never this list: it gets shorter. */
	while ((link = list_first(&connection->sent)) != NULL)
		message_on_lost(LIST_ENTRY(link, struct message, queue_link));
	if (!connection->is_wanted || !volume_is_live(volume))
		connection_free(connection);
}

static const struct split_qp_ops connection_qp_ops = {
	.on_ready = connection_on_ready,
	.on_messages = connection_on_messages,
	.on_place = connection_on_place,
	.on_closed = connection_on_closed,
};

static void
connection_on_timer(struct loop_timer *timer, void *arg)
{
	struct connection *connection = arg;
	struct cleave_volume *volume = connection->volume;
	struct wire_hello hello = {
		.level = wire_level_offer(&connection->level, loop_now_ns(volume->client->loop)),
		.role = WIRE_ROLE_CLIENT,
		.cluster_id = volume->cluster_id,
		.volume_id = volume->info.id,
		.session_id = volume->session_id,
		.attach = volume->info.attach,
		.incarnation = ++volume->incarnation,
	};
	uint8_t bytes[WIRE_HELLO_BYTES];
	struct split_connect_options options = {
		.address = connection->address,
		.hello = bytes,
		.hello_bytes = sizeof(bytes),
		.timeout_ns = volume->client->options.connect_timeout_ns,
		.ops = &connection_qp_ops,
		.arg = connection,
		.peer_roles = SPLIT_ROLE_GATEWAY,
	};

	(void)timer;
	CHECK_OBJ(connection, CONNECTION_MAGIC);
	assert(timer == &connection->timer && connection->sm.state != CONNECTION_GONE);
	if (connection->sm.state == CONNECTION_UP)
		connection_look(connection);
	if (connection->sm.state != CONNECTION_DOWN)
		return;
	assert(connection->qp == NULL);
	connection->incarnation = hello.incarnation;
	wire_hello_encode(bytes, &hello);
	connection->is_local = connection_finds_local(connection);
	if (connection->is_local)
		options.address = connection->socket.address;
	connection->qp = connect_qp(volume->client->port, &options);
	if (connection->qp == NULL) {
		connection->was_refused = connection->is_local;
		CLIENT_STAT(volume->client, connection_losses, 1);
		connection_retry_later(connection);
		return;
	}
	sm_move(&connection->sm, CONNECTION_CONNECTING);
	connection_watch(connection);
}
