/* SPDX-License-Identifier: Apache-2.0 */
/* nbd_handover.c -- the old agent's side of nbd_handover.h; the new one's is nbd_takeover.c */
#include "nbd_handover.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "nbd_bitmap.h"
#include "nbd_packet.h"

#define HANDOVER_MAGIC 0x4f48424eu /* "NBHO" */

enum handover_state { HANDOVER_PARKING, HANDOVER_GIVEN, HANDOVER_DONE, HANDOVER_STATE_NR };

static const struct sm_state handover_table[HANDOVER_STATE_NR] = {
	[HANDOVER_PARKING] = { "parking", SM_TO(HANDOVER_GIVEN) | SM_TO(HANDOVER_DONE),
	    SM_INITIAL },
	[HANDOVER_GIVEN] = { "given", SM_TO(HANDOVER_DONE), 0 }, /* waits for "taken" */
	[HANDOVER_DONE] = { "done", 0, SM_FINAL },
};

struct nbd_handover {
	uint32_t magic;
	struct nbd_server *server;
	struct sm sm;
	int fd;
	struct loop_fd watcher;
	struct loop_task park_task; /* a connection came nearer to being parked */
	struct loop_timer timer;
	nbd_handover_fn fn;
	void *arg;
};

/* Nothing is read behind the requests that were taken, nobody new comes in; or all goes on. */
static void
server_park(struct nbd_server *server, bool is_parking)
{
	struct loop_link *link, *next;

	CHECK_OBJ(server, SERVER_MAGIC);
	server->is_parking = is_parking;
	nbd_server_watch(server);
	LIST_FOREACH_SAFE(&server->connections, link, next) {
		struct nbd_connection *connection = LIST_ENTRY(link, struct nbd_connection, link);

		connection->is_parking = is_parking;
		if (!is_parking)
			nbd_connection_freeze(connection, false);
		/* A client with bitmaps would be answered without them by a successor that knows none. */
		if (is_parking &&
		    (connection->sm.state != NBD_CONNECTION_SERVING ||
			(connection->bitmap_count > 0 && !server->is_giving_bitmaps)))
			nbd_connection_end(connection);
		else
			nbd_connection_resume(connection); /* or read no more: see its interests */
	}
}

/* Has libcleave something of it? */
static bool
connection_is_served(const struct nbd_connection *connection)
{
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&connection->requests, link, next) {
		const struct nbd_request *request = LIST_ENTRY(link, struct nbd_request, link);

		if (request->sm.state == NBD_REQUEST_WAITING ||
		    request->sm.state == NBD_REQUEST_FETCHING ||
		    request->sm.state == NBD_REQUEST_RUNNING)
			return true;
	}
	return false;
}

/* Half received and unsent bytes go along (nbd_carry.c), unless the successor is too old. */
static bool
connection_is_parked(const struct nbd_connection *connection)
{
	assert(connection->is_parking);
	if (connection->sm.state != NBD_CONNECTION_SERVING)
		return false;
	if (connection->server->is_carrying)
		return !connection_is_served(connection);
	return connection->request_count == 0 && connection->skip_bytes == 0 &&
	    connection->text_bytes == 0;
}

static void
handover_free(struct nbd_handover *handover)
{
	struct loop *loop = handover->server->options.loop;

	CHECK_OBJ(handover, HANDOVER_MAGIC);
	assert(handover->server->handover == handover);
	loop_task_cancel(loop, &handover->park_task);
	loop_timer_stop(loop, &handover->timer);
	loop_fd_stop(loop, &handover->watcher);
	handover->server->handover = NULL;
	handover->magic = 0;
	free(handover);
}

void
nbd_handover_cancel(struct nbd_handover *handover)
{
	struct nbd_server *server = handover->server;

	CHECK_OBJ(handover, HANDOVER_MAGIC);
	(void)nbd_packet_send(handover->fd, json_pack("{s:b}", "kept", 1), NULL, 0, NULL, 0);
	handover_free(handover);
	server_park(server, false);
}

/* The connections are another process's now: close our descriptors of them, and nothing more. */
static void
server_forget(struct nbd_server *server)
{
	struct loop_link *link;

	nbd_server_forget_listeners(server);
	while ((link = list_first(&server->connections)) != NULL)
		nbd_connection_destroy(LIST_ENTRY(link, struct nbd_connection, link));
}

/* -ECONNRESET: the successor has gone. Else it knows, or will: our end of the socket says the same as the message. */
static int
handover_say_yours(int fd)
{
	int rc = nbd_packet_send(fd, json_pack("{s:b}", "yours", 1), NULL, 0, NULL, 0);

	assert(fd >= 0);
	return rc == -EPIPE || rc == -ECONNRESET ? -ECONNRESET : 0;
}

static void
handover_finish(struct nbd_handover *handover, int rc)
{
	struct nbd_server *server = handover->server;
	nbd_handover_fn fn = handover->fn;
	void *arg = handover->arg;
	int fd = handover->fd;

	CHECK_OBJ(handover, HANDOVER_MAGIC);
	assert(rc <= 0);
	sm_move(&handover->sm, HANDOVER_DONE);
	handover_free(handover);
	/* The successor serves only after this message: two must never read one client's bytes. */
	if (rc == 0)
		rc = handover_say_yours(fd);
	if (rc != 0)
		(void)nbd_packet_send(fd, json_pack("{s:b}", "kept", 1), NULL, 0, NULL, 0);
	if (rc == 0)
		server_forget(server);
	else
		server_park(server, false);
	fn(rc, arg);
}

static int
give_listener(int fd, const struct nbd_listener *listener)
{
	assert(listener->fd >= 0);
	return nbd_packet_send(fd, json_pack("{s:{s:s}}", "listener", "path", listener->path),
	    &listener->fd, 1, NULL, 0);
}

/* Exports of the options and of the file the successor has of its own, or is not meant to have. */
static bool
export_is_given(const struct nbd_export *export)
{
	return export->is_attached || (export->is_on_demand && export->user_count > 0);
}

static int
give_export(int fd, const struct nbd_export *export)
{
	assert(export_is_given(export));
	return nbd_packet_send(fd,
	    json_pack("{s:{s:s, s:b, s:b}}", "export", "name", export->name, "read_only",
		(int)export->is_read_only, "on_demand", (int)export->is_on_demand),
	    NULL, 0, NULL, 0);
}

/* The snapshots whose bitmaps the client has agreed upon, in the order of their ids. */
static json_t *
bitmap_names(const struct nbd_connection *connection)
{
	json_t *names = json_array();

	for (uint32_t i = 0; i < connection->bitmap_count; i++) {
		uint32_t bytes;
		const char *name = nbd_bitmap_since(connection->bitmaps[i].bitmap, &bytes);

		(void)json_array_append_new(names, json_stringn(name, bytes)); /* counted there */
	}
	return names;
}

static int
give_connection(int fd, const struct nbd_connection *connection)
{
	const struct cleave_volume *volume = connection->export->volume;
	struct nbd_carry carry;
	json_t *object;
	int rc = nbd_carry_save(connection, &carry), fds[NBD_PACKET_FDS_MAX];

	if (rc != 0)
		return rc;
	fds[0] = connection->in_fd;
	fds[1] = carry.fd;
	object = json_pack("{s:{s:s, s:I, s:b, s:s, s:i, s:b, s:I, s:I, s:I, s:o}}", "connection",
	    "export", connection->export->name, "volume_id",
	    (json_int_t)(volume == NULL ? 0 : cleave_volume_info(volume)->id), "writing",
	    (int)(connection->export->is_writer && !connection->export->is_lost), "peer",
	    connection->peer, "style", (int)connection->style, "has_context",
	    (int)connection->has_context, "skip_bytes", (json_int_t)connection->skip_bytes,
	    "output_bytes", (json_int_t)carry.output_bytes, "input_bytes",
	    (json_int_t)carry.input_bytes, "bitmaps", bitmap_names(connection));
	rc = nbd_packet_send(fd, object, fds, carry.fd >= 0 ? 2 : 1,
	    connection->input + connection->input_at,
	    carry.fd >= 0 ? 0 : connection->input_end - connection->input_at);
	if (carry.fd >= 0)
		(void)close(carry.fd);
	return rc;
}

/* All are parked: give them. */
static int
handover_give_all(struct nbd_handover *handover)
{
	struct nbd_server *server = handover->server;
	struct loop_link *link, *next;
	int rc = nbd_packet_limit(handover->fd, NBD_HANDOVER_S);

	assert(handover->sm.state == HANDOVER_PARKING);
	LIST_FOREACH_SAFE(&server->connections, link, next)
		nbd_connection_freeze(LIST_ENTRY(link, struct nbd_connection, link), true);
	for (uint32_t i = 0; i < server->listener_count && rc == 0; i++)
		rc = give_listener(handover->fd, &server->listeners[i]);
	LIST_FOREACH_SAFE(&server->exports, link, next) {
		const struct nbd_export *export = LIST_ENTRY(link, struct nbd_export, link);

		if (rc == 0 && server->is_giving_exports && export_is_given(export))
			rc = give_export(handover->fd, export);
	}
	LIST_FOREACH_SAFE(&server->connections, link, next) {
		if (rc == 0)
			rc = give_connection(handover->fd,
			    LIST_ENTRY(link, struct nbd_connection, link));
	}
	return rc != 0
	    ? rc
	    : nbd_packet_send(handover->fd, json_pack("{s:b}", "end", 1), NULL, 0, NULL, 0);
}

/* Connections under TLS: the session stays here, a plain connection goes. */
static void
handover_split_secure(struct nbd_server *server)
{
	struct loop_link *link, *next;

	assert(server->is_parking);
	LIST_FOREACH_SAFE(&server->connections, link, next) {
		struct nbd_connection *connection = LIST_ENTRY(link, struct nbd_connection, link);

		if (connection->is_secure && nbd_relay_create(connection) != 0)
			nbd_connection_break(connection, "its TLS session cannot be kept");
	}
}

static void
handover_on_park_task(struct loop_task *task, void *arg)
{
	struct nbd_handover *handover = arg;
	struct loop_link *link, *next;
	int rc;

	(void)task;
	CHECK_OBJ(handover, HANDOVER_MAGIC);
	if (handover->sm.state != HANDOVER_PARKING)
		return;
	LIST_FOREACH_SAFE(&handover->server->connections, link, next) {
		if (!connection_is_parked(LIST_ENTRY(link, struct nbd_connection, link)))
			return;
	}
	handover_split_secure(handover->server);
	rc = handover_give_all(handover);
	if (rc != 0) {
		handover_finish(handover, rc);
		return;
	}
	sm_move(&handover->sm, HANDOVER_GIVEN);
	loop_timer_start(handover->server->options.loop, &handover->timer, NUM_S(NBD_HANDOVER_S));
}

void
nbd_handover_soon(struct nbd_handover *handover)
{
	CHECK_OBJ(handover, HANDOVER_MAGIC);
	loop_defer(handover->server->options.loop, &handover->park_task);
}

/* 0: "taken" has come; -ECONNRESET: anything else, which is an end without it; -EAGAIN: nothing yet. */
static int
handover_hear(const struct nbd_handover *handover)
{
	char text[NBD_PACKET_HEAD_BYTES_MAX];
	ssize_t n = recv(handover->fd, text, sizeof(text), MSG_DONTWAIT);

	assert(handover->fd >= 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return -EAGAIN;
	return n > 0 && handover->sm.state == HANDOVER_GIVEN && memmem(text, (size_t)n, "taken", 5)
	    ? 0
	    : -ECONNRESET;
}

static void
handover_on_readable(struct loop_fd *watcher, unsigned events, void *arg)
{
	struct nbd_handover *handover = arg;
	int rc;

	(void)watcher;
	(void)events;
	CHECK_OBJ(handover, HANDOVER_MAGIC);
	rc = handover_hear(handover);
	if (rc != -EAGAIN)
		handover_finish(handover, rc);
}

/*
 * A client that was in its handshake and does not read, stops nobody; nor does, where that cannot go
 * along, one that is in the middle of a payload, or does not read its replies. Where it is the gateway
 * that is slow the clients have done nothing wrong: this is no time for a hand-over.
 */
static void
handover_on_timer(struct loop_timer *timer, void *arg)
{
	struct nbd_handover *handover = arg;
	struct loop_link *link, *next;
	int rc;

	(void)timer;
	CHECK_OBJ(handover, HANDOVER_MAGIC);
	if (handover->sm.state != HANDOVER_PARKING) {
		/* An agent that stood still may have the answer and not have seen it. */
		rc = handover_hear(handover);
		handover_finish(handover, rc == -EAGAIN ? -ETIMEDOUT : rc);
		return;
	}
	LIST_FOREACH_SAFE(&handover->server->connections, link, next) {
		if (connection_is_served(LIST_ENTRY(link, struct nbd_connection, link))) {
			handover_finish(handover, -EBUSY);
			return;
		}
	}
	LIST_FOREACH_SAFE(&handover->server->connections, link, next) {
		struct nbd_connection *connection = LIST_ENTRY(link, struct nbd_connection, link);

		if (!connection_is_parked(connection))
			nbd_connection_break(connection, "it cannot be handed over");
	}
	nbd_handover_soon(handover);
	loop_timer_start(handover->server->options.loop, &handover->timer, NUM_S(NBD_HANDOVER_S));
}

struct nbd_handover *
nbd_handover_give(struct nbd_server *server, int fd, bool is_carrying, nbd_handover_fn fn,
    void *arg)
{
	struct loop *loop = server->options.loop;
	struct nbd_handover *handover = client_calloc(1, sizeof(*handover));

	CHECK_OBJ(server, SERVER_MAGIC);
	assert(fn != NULL && fd >= 0 && server->handover == NULL);
	if (handover == NULL)
		return NULL;
	handover->magic = HANDOVER_MAGIC;
	handover->server = server;
	handover->fd = fd;
	handover->fn = fn;
	handover->arg = arg;
	sm_init(&handover->sm, "nbd handover", handover_table, HANDOVER_PARKING, (uint32_t)fd);
	loop_task_init(&handover->park_task, handover_on_park_task, handover);
	loop_timer_init(&handover->timer, handover_on_timer, handover);
	loop_fd_init(&handover->watcher, fd, handover_on_readable, handover);
	if (loop_fd_start(loop, &handover->watcher, LOOP_READABLE) != 0) {
		free(handover);
		return NULL;
	}
	loop_timer_start(loop, &handover->timer, NUM_S(NBD_HANDOVER_S) / 2);
	server->handover = handover;
	server->is_carrying = is_carrying;
	server_park(server, true);
	nbd_handover_soon(handover);
	return handover;
}
