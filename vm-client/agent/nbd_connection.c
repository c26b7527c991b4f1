/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nbd_connection.c -- a client's socket: bytes in, bytes out
 *
 *	         STARTTLS
 *	          ^ v
 *	FLAGS -> OPTIONS <-> OPENING -> SERVING
 *	   \________\__________\__________\____> ENDING -> CLOSED -> (freed)
 *	                                    \______________^
 *	DISC, ABORT, the server stops: what was taken is answered, then the socket is closed. An error
 *	of the socket or the peer: CLOSED at once. CLOSED lasts until libcleave has given everything back.
 *
 * What has come is nbd_input.c's. While too much is in flight nothing is read (I9). Replies that become
 * ready in one turn leave in one system call.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "nbd.h"
#include "nbd_bitmap.h"
#include "nbd_input.h"
#include "nbd_tls.h"

static const struct sm_state connection_table[NBD_CONNECTION_STATE_NR] = {
	[NBD_CONNECTION_FLAGS] = { "flags",
	    SM_TO(NBD_CONNECTION_OPTIONS) | SM_TO(NBD_CONNECTION_ENDING) |
		SM_TO(NBD_CONNECTION_CLOSED),
	    SM_INITIAL },
	[NBD_CONNECTION_OPTIONS] = { "options",
	    SM_TO(NBD_CONNECTION_STARTTLS) | SM_TO(NBD_CONNECTION_OPENING) |
		SM_TO(NBD_CONNECTION_ENDING) | SM_TO(NBD_CONNECTION_CLOSED),
	    0 },
	[NBD_CONNECTION_STARTTLS] = { "starttls",
	    SM_TO(NBD_CONNECTION_OPTIONS) | SM_TO(NBD_CONNECTION_ENDING) |
		SM_TO(NBD_CONNECTION_CLOSED),
	    0 },
	[NBD_CONNECTION_OPENING] = { "opening",
	    SM_TO(NBD_CONNECTION_OPTIONS) | SM_TO(NBD_CONNECTION_SERVING) |
		SM_TO(NBD_CONNECTION_ENDING) | SM_TO(NBD_CONNECTION_CLOSED),
	    SM_INITIAL },
	[NBD_CONNECTION_SERVING] = { "serving",
	    SM_TO(NBD_CONNECTION_ENDING) | SM_TO(NBD_CONNECTION_CLOSED), 0 },
	[NBD_CONNECTION_ENDING] = { "ending", SM_TO(NBD_CONNECTION_CLOSED), 0 },
	[NBD_CONNECTION_CLOSED] = { "closed", 0, SM_FINAL },
};

static void connection_flush(struct nbd_connection *connection);
static void connection_parse(struct nbd_connection *connection);
static void connection_secure(struct nbd_connection *connection);

/* ---- interests ---- */

bool
nbd_connection_is_open(const struct nbd_connection *connection)
{
	CHECK_OBJ(connection, CONNECTION_MAGIC);
	return connection->sm.state < NBD_CONNECTION_ENDING;
}

static void
connection_watch(struct nbd_connection *connection)
{
	struct loop *loop = connection->server->options.loop;
	bool wants_input = nbd_input_is_wanted(connection);

	CHECK_OBJ(connection, CONNECTION_MAGIC);
	if (connection->sm.state == NBD_CONNECTION_CLOSED)
		return;
	if (wants_input &&
	    (connection->carried != NULL ||
		(connection->is_secure && connection->stream->has_pending(connection))))
		loop_defer(loop, &connection->read_task);
	if (wants_input != connection->is_reading) {
		connection->is_reading = wants_input;
		loop_fd_modify(loop, &connection->in_watcher, wants_input ? LOOP_READABLE : 0);
	}
}

static void
connection_watch_output(struct nbd_connection *connection, bool is_wanted)
{
	if (is_wanted == connection->is_writing)
		return;
	connection->is_writing = is_wanted;
	loop_fd_modify(connection->server->options.loop, &connection->out_watcher,
	    is_wanted ? LOOP_WRITABLE : 0);
}

/* ---- the end ---- */

/* The last act of whoever calls it. */
static void
connection_try_free(struct nbd_connection *connection)
{
	struct nbd_server *server = connection->server;

	CHECK_OBJ(connection, CONNECTION_MAGIC);
	if (connection->sm.state != NBD_CONNECTION_CLOSED || connection->request_count > 0 ||
	    connection->is_busy)
		return;
	if (connection->export != NULL)
		nbd_export_leave(connection->export, connection);
	nbd_bitmap_drop_all(connection);
	loop_task_cancel(server->options.loop, &connection->send_task);
	loop_task_cancel(server->options.loop, &connection->read_task);
	list_remove(&connection->link);
	nbd_memory_give(connection, connection->held_bytes);
	free(connection->input);
	free(connection->text);
	free(connection->carried);
	connection->magic = 0;
	free(connection);
	nbd_server_connection_gone(server);
}

/* Close the socket; requests that libcleave has go on, those that only wait for the socket end. */
static void
connection_close(struct nbd_connection *connection)
{
	struct loop *loop = connection->server->options.loop;
	bool was_busy = connection->is_busy;
	struct loop_link *link;

	CHECK_OBJ(connection, CONNECTION_MAGIC);
	sm_move(&connection->sm, NBD_CONNECTION_CLOSED);
	loop_fd_stop(loop, &connection->in_watcher);
	loop_fd_stop(loop, &connection->out_watcher);
	loop_timer_stop(loop, &connection->handshake_timer);
	connection->is_reading = false; /* also for a read task that is queued */
	nbd_memory_leave(connection);
	nbd_bitmap_list_cancel(connection);
	nbd_tls_end(connection);
	(void)close(connection->in_fd);
	if (connection->out_fd != connection->in_fd)
		(void)close(connection->out_fd);
	connection->is_busy = true;
	if (connection->receiving != NULL)
		nbd_request_drop(connection->receiving);
	connection->receiving = NULL;
	while ((link = list_pop_front(&connection->replies)) != NULL) {
		const struct nbd_output *output = LIST_ENTRY(link, struct nbd_output, link);

		if (output->is_last)
			nbd_request_drop(output->request);
	}
	connection->is_busy = was_busy;
}

void
nbd_connection_break(struct nbd_connection *connection, const char *why)
{
	CHECK_OBJ(connection, CONNECTION_MAGIC);
	if (connection->sm.state == NBD_CONNECTION_CLOSED)
		return;
	log_limited(LOG_INFO, "nbd: closed peer=%s state=%s reason=\"%s\"", connection->peer,
	    sm_state_name(&connection->sm), why);
	connection_close(connection);
	connection_try_free(connection);
}

void
nbd_connection_destroy(struct nbd_connection *connection)
{
	struct loop_link *link;

	CHECK_OBJ(connection, CONNECTION_MAGIC);
	if (connection->sm.state != NBD_CONNECTION_CLOSED)
		connection_close(connection);
	connection->is_busy = true;
	while ((link = list_first(&connection->requests)) != NULL)
		nbd_request_drop(LIST_ENTRY(link, struct nbd_request, link));
	connection->is_busy = false;
	/* The volumes went with their client. */
	if (connection->export != NULL)
		connection->export->volume = NULL;
	for (uint32_t i = 0; i < connection->bitmap_count; i++)
		connection->bitmaps[i].bitmap->volume = NULL;
	connection_try_free(connection);
}

/* ENDING, and nothing left to do? Every handler comes by here. */
static void
connection_try_close(struct nbd_connection *connection)
{
	CHECK_OBJ(connection, CONNECTION_MAGIC);
	if (connection->sm.state == NBD_CONNECTION_ENDING && connection->request_count == 0 &&
	    !nbd_send_has_output(connection))
		connection_close(connection);
	if (connection->is_parking && connection->server->handover != NULL)
		nbd_handover_soon(connection->server->handover);
	connection_try_free(connection);
}

void
nbd_connection_resume(struct nbd_connection *connection)
{
	CHECK_OBJ(connection, CONNECTION_MAGIC);
	connection_parse(connection);
}

void
nbd_connection_freeze(struct nbd_connection *connection, bool is_frozen)
{
	CHECK_OBJ(connection, CONNECTION_MAGIC);
	if (connection->sm.state == NBD_CONNECTION_CLOSED)
		return;
	connection->is_frozen = is_frozen;
	if (is_frozen)
		connection_watch_output(connection, false);
	else if (nbd_send_has_output(connection))
		loop_defer(connection->server->options.loop, &connection->send_task);
}

void
nbd_connection_end(struct nbd_connection *connection)
{
	CHECK_OBJ(connection, CONNECTION_MAGIC);
	if (!nbd_connection_is_open(connection))
		return;
	sm_move(&connection->sm, NBD_CONNECTION_ENDING);
	nbd_memory_leave(connection);
	/* A payload that is half here will not be waited for. */
	if (connection->receiving != NULL) {
		struct nbd_request *request = connection->receiving;
		bool was_busy = connection->is_busy;

		connection->receiving = NULL;
		connection->is_busy = true;
		nbd_request_drop(request);
		connection->is_busy = was_busy;
	}
	connection_watch(connection);
	connection_try_close(connection);
}

/* ---- output ---- */

/* The caller's last act: the connection may end in it. */
static void
connection_flush(struct nbd_connection *connection)
{
	struct iovec iovecs[NBD_SEND_IOVECS_MAX];
	ssize_t n = 0;

	assert(!connection->is_busy);
	if (connection->is_frozen)
		return;
	connection->is_busy = true;
	while (nbd_send_has_output(connection)) {
		n = connection->stream->writev(connection, iovecs,
		    nbd_send_gather(connection, iovecs));
		if (n < 0)
			break;
		nbd_send_done(connection, (uint64_t)n);
	}
	connection->is_busy = false;
	if (n < 0 && n != -EAGAIN && n != -EINTR) {
		nbd_connection_break(connection, strerror((int)-n));
		return;
	}
	connection_watch_output(connection, nbd_send_has_output(connection));
	if (connection->sm.state == NBD_CONNECTION_STARTTLS && !nbd_send_has_output(connection)) {
		connection_secure(connection);
		return;
	}
	/* Input in the buffer may have waited for room: the socket will not tell of it. */
	if (connection->sm.state != NBD_CONNECTION_STARTTLS && nbd_input_bytes(connection) > 0 &&
	    nbd_input_is_wanted(connection)) {
		connection_parse(connection);
		return;
	}
	connection_watch(connection);
	connection_try_close(connection);
}

/*
 * The answer to STARTTLS has left: go on with the handshake. What was agreed upon in plain is void, and
 * bytes that came behind STARTTLS in plain are somebody's injection.
 */
static void
connection_secure(struct nbd_connection *connection)
{
	const char *text = "bytes in plain behind STARTTLS";
	bool wants_output = false;
	int rc = 0;

	assert(connection->sm.state == NBD_CONNECTION_STARTTLS);
	if (connection->tls_session == NULL && connection->input_at < connection->input_end)
		rc = -EPROTO;
	else if (connection->tls_session == NULL)
		rc = nbd_tls_begin(connection->server->options.tls, connection);
	if (rc == -ENOMEM)
		text = "out of memory";
	if (rc == 0)
		rc = nbd_tls_handshake(connection, &wants_output, &text);
	if (rc != 0 && rc != -EAGAIN) {
		log_limited(LOG_WARN, "nbd: TLS handshake failed peer=%s reason=\"%s\"",
		    connection->peer, text);
		nbd_connection_break(connection, text);
		return;
	}
	connection_watch_output(connection, wants_output);
	if (rc == 0) {
		connection->is_secure = true;
		connection->style = NBD_SIMPLE;
		connection->has_context = false;
		nbd_bitmap_drop_all(connection);
		if (connection->export != NULL)
			nbd_export_leave(connection->export, connection);
		sm_move(&connection->sm, NBD_CONNECTION_OPTIONS);
	}
	connection_watch(connection);
}

static void
connection_on_send_task(struct loop_task *task, void *arg)
{
	struct nbd_connection *connection = arg;

	(void)task;
	CHECK_OBJ(connection, CONNECTION_MAGIC);
	assert(task == &connection->send_task);
	if (connection->sm.state != NBD_CONNECTION_CLOSED && !connection->is_writing)
		connection_flush(connection);
	else if (connection->server->handover != NULL)
		nbd_handover_soon(
		    connection->server->handover); /* nothing runs any more, perhaps */
}

static void
connection_on_writable(struct loop_fd *watcher, unsigned events, void *arg)
{
	struct nbd_connection *connection = arg;

	(void)watcher;
	(void)events;
	CHECK_OBJ(connection, CONNECTION_MAGIC);
	assert(watcher == &connection->out_watcher);
	if (connection->sm.state == NBD_CONNECTION_STARTTLS && !nbd_send_has_output(connection))
		connection_secure(connection);
	else
		connection_flush(connection);
}

/* ---- input ---- */

/* The end that nbd_input_parse, or an option, asks for, if it does. Unless it is busy @connection may be gone. */
static void
connection_obey(struct nbd_connection *connection, int rc, const char *why)
{
	assert(rc <= 0);
	if (rc == -ESHUTDOWN)
		nbd_connection_end(connection);
	else if (rc != 0)
		nbd_connection_break(connection, why);
}

/* Input is acted upon as far as it goes. The caller's last act. */
static void
connection_parse(struct nbd_connection *connection)
{
	const char *why = NULL;
	int rc;

	assert(!connection->is_busy);
	connection->is_busy = true;
	rc = nbd_input_parse(connection, &why);
	connection_obey(connection, rc, why);
	connection->is_busy = false;
	connection_watch(connection);
	connection_try_close(connection);
}

static void
connection_take_input(struct nbd_connection *connection)
{
	ssize_t n;

	assert(connection->sm.state != NBD_CONNECTION_CLOSED);
	if (connection->sm.state == NBD_CONNECTION_STARTTLS) {
		if (!nbd_send_has_output(connection))
			connection_secure(connection);
		return;
	}
	n = nbd_input_read(connection);
	if (n == 0)
		nbd_connection_break(connection, "the peer has closed");
	else if (n < 0 && n != -EAGAIN && n != -EINTR)
		nbd_connection_break(connection, strerror((int)-n));
	else if (n > 0)
		connection_parse(connection);
}

static void
connection_on_readable(struct loop_fd *watcher, unsigned events, void *arg)
{
	struct nbd_connection *connection = arg;

	(void)watcher;
	(void)events;
	CHECK_OBJ(connection, CONNECTION_MAGIC);
	assert(watcher == &connection->in_watcher);
	if (connection->is_reading)
		connection_take_input(connection);
}

/* Bytes that TLS has decrypted, or that were carried here, do not make the socket readable. */
static void
connection_on_read_task(struct loop_task *task, void *arg)
{
	struct nbd_connection *connection = arg;

	(void)task;
	CHECK_OBJ(connection, CONNECTION_MAGIC);
	assert(task == &connection->read_task);
	if (connection->is_reading)
		connection_take_input(connection);
}

void
nbd_connection_request_gone(struct nbd_connection *connection)
{
	CHECK_OBJ(connection, CONNECTION_MAGIC);
	/* Within a handler of ours: that goes on where it was. */
	if (connection->is_busy)
		return;
	if (connection->sm.state == NBD_CONNECTION_SERVING && nbd_input_bytes(connection) > 0)
		connection_parse(connection);
	else
		connection_try_close(connection);
}

void
nbd_connection_on_option(struct nbd_connection *connection, int rc)
{
	const char *why = NULL;

	CHECK_OBJ(connection, CONNECTION_MAGIC);
	if (rc != 0) {
		(void)nbd_input_on_option(connection, rc, &why);
		connection_obey(connection, rc, why);
		return;
	}
	if (connection->sm.state == NBD_CONNECTION_OPENING)
		sm_move(&connection->sm, NBD_CONNECTION_OPTIONS);
	connection_parse(connection);
}

void
nbd_connection_on_export(struct nbd_connection *connection, int rc, const char *error)
{
	CHECK_OBJ(connection, CONNECTION_MAGIC);
	if (connection->sm.state != NBD_CONNECTION_OPENING)
		return;
	if (rc == 0 &&
	    (list_contains(&connection->wait_link) || connection->listing != NULL ||
		nbd_bitmap_is_waiting(connection)))
		return; /* something else is waited for, too */
	if (!connection->is_adopted) {
		nbd_connection_on_option(connection, nbd_option_on_export(connection, rc, error));
		return;
	}
	if (rc != 0) {
		nbd_connection_break(connection, "its export cannot be opened here");
		return;
	}
	sm_move(&connection->sm, NBD_CONNECTION_SERVING);
	if (nbd_send_has_output(connection))
		loop_defer(connection->server->options.loop, &connection->send_task);
	connection_parse(connection);
}

int
nbd_connection_make_plain(struct nbd_connection *connection, int fd, void **ret_session,
    int *ret_in_fd, int *ret_out_fd)
{
	struct loop *loop = connection->server->options.loop;
	int rc;

	CHECK_OBJ(connection, CONNECTION_MAGIC);
	assert(connection->sm.state == NBD_CONNECTION_SERVING);
	loop_fd_stop(loop, &connection->in_watcher);
	loop_fd_stop(loop, &connection->out_watcher);
	loop_task_cancel(loop, &connection->read_task);
	*ret_session = connection->tls_session;
	*ret_in_fd = connection->in_fd;
	*ret_out_fd = connection->out_fd;
	connection->tls_session = NULL;
	connection->stream = &nbd_plain_stream;
	connection->is_secure = false;
	connection->in_fd = connection->out_fd = fd;
	connection->is_reading = connection->is_writing = false;
	loop_fd_init(&connection->in_watcher, fd, connection_on_readable, connection);
	loop_fd_init(&connection->out_watcher, fd, connection_on_writable, connection);
	rc = loop_fd_start(loop, &connection->in_watcher, 0);
	if (rc == 0)
		rc = loop_fd_start(loop, &connection->out_watcher, 0);
	if (rc == 0)
		connection_watch(connection);
	return rc;
}

/* ---- the beginning ---- */

static void
connection_on_handshake_timer(struct loop_timer *timer, void *arg)
{
	struct nbd_connection *connection = arg;

	CHECK_OBJ(connection, CONNECTION_MAGIC);
	assert(timer == &connection->handshake_timer);
	/* The agent is the slow side while a client waits for its export. */
	if (connection->sm.state == NBD_CONNECTION_OPENING)
		loop_timer_start(connection->server->options.loop, timer,
		    connection->server->options.handshake_ns);
	else if (connection->sm.state < NBD_CONNECTION_OPENING)
		nbd_connection_break(connection, "the handshake takes too long");
}

static struct nbd_connection *
connection_alloc(void)
{
	struct nbd_connection *connection = client_calloc(1, sizeof(*connection));

	if (connection == NULL)
		return NULL;
	connection->input = client_malloc(NBD_INPUT_BYTES);
	if (connection->input == NULL) {
		free(connection);
		return NULL;
	}
	return connection;
}

struct nbd_connection *
nbd_connection_create(struct nbd_server *server, int in_fd, int out_fd, const char *peer,
    bool is_new)
{
	struct nbd_connection *connection = connection_alloc();
	struct loop *loop = server->options.loop;

	CHECK_OBJ(server, SERVER_MAGIC);
	assert(in_fd >= 0 && out_fd >= 0);
	if (connection == NULL)
		goto err;
	connection->magic = CONNECTION_MAGIC;
	connection->server = server;
	connection->in_fd = in_fd;
	connection->out_fd = out_fd;
	connection->stream = &nbd_plain_stream;
	(void)snprintf(connection->peer, sizeof(connection->peer), "%s", peer);
	list_init(&connection->replies);
	list_init(&connection->requests);
	sm_init(&connection->sm, "nbd connection", connection_table,
	    is_new ? NBD_CONNECTION_FLAGS : NBD_CONNECTION_OPENING, (uint32_t)in_fd);
	connection->is_adopted = !is_new;
	loop_task_init(&connection->send_task, connection_on_send_task, connection);
	loop_task_init(&connection->read_task, connection_on_read_task, connection);
	loop_timer_init(&connection->handshake_timer, connection_on_handshake_timer, connection);
	loop_fd_init(&connection->in_watcher, in_fd, connection_on_readable, connection);
	loop_fd_init(&connection->out_watcher, out_fd, connection_on_writable, connection);
	if (loop_fd_start(loop, &connection->in_watcher, LOOP_READABLE) != 0)
		goto err_connection;
	if (loop_fd_start(loop, &connection->out_watcher, 0) != 0)
		goto err_watcher;
	/* Without a greeting the client would take the first answer for one. */
	if (is_new && nbd_greet(connection) != 0)
		goto err_watchers;
	connection->is_reading = true;
	list_push_back(&server->connections, &connection->link);
	server->connection_count++;
	if (is_new)
		loop_timer_start(loop, &connection->handshake_timer, server->options.handshake_ns);
	connection_watch(connection);
	return connection;

err_watchers:
	loop_fd_stop(loop, &connection->out_watcher);
err_watcher:
	loop_fd_stop(loop, &connection->in_watcher);
err_connection:
	free(connection->input);
	free(connection);
err:
	(void)close(in_fd);
	if (out_fd != in_fd)
		(void)close(out_fd);
	return NULL;
}
