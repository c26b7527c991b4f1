/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nbd_relay.c -- TLS for a connection that is plain: what is left of one that was handed over
 *
 *	client --TLS--> in_fd  [up]  -> fd --plain--> the connection, here or in another process
 *	       <--TLS-- out_fd [down] <- fd <--------
 *
 * A TLS session's keys cannot be given away, a socket can. So when an agent hands over, each TLS
 * connection becomes two: the session, which stays, and a plain connection over a socket pair, which goes.
 * The old process lives until its last such client has gone.
 *
 * Each direction has one buffer and is read when that is empty: whoever does not read holds up the
 * other side, no more. Either side's end is passed on once what it sent before has left.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "nbd.h"
#include "nbd_tls.h"

#define RELAY_MAGIC 0x4c52424eu /* "NBRL" */
#define RELAY_BYTES (128u << 10)
#define RELAY_STEPS_MAX 16 /* in a turn */
#define RELAY_SEND_BYTES (1 << 20)

struct relay_buffer {
	uint8_t *bytes; /* RELAY_BYTES */
	uint32_t at, end;
	uint32_t skip_bytes; /* of what comes: it has gone */
	bool is_last;        /* nothing comes behind it */
};

struct nbd_relay {
	uint32_t magic;
	struct loop_link link; /* server->relays */
	struct nbd_server *server;
	char peer[64];
	void *session;
	int in_fd, out_fd; /* the client's */
	int fd;            /* our end of the pair */
	struct loop_fd in_watcher, out_watcher, watcher;
	struct loop_task task; /* go on: also what TLS has decrypted is no news to the loop */
	struct relay_buffer up, down;
};

static bool
is_empty(const struct relay_buffer *buffer)
{
	assert(buffer->at <= buffer->end && buffer->end <= RELAY_BYTES);
	return buffer->at == buffer->end;
}

/* ---- the end ---- */

static void
relay_destroy(struct nbd_relay *relay)
{
	struct nbd_server *server = relay->server;
	struct loop *loop = server->options.loop;

	CHECK_OBJ(relay, RELAY_MAGIC);
	loop_task_cancel(loop, &relay->task);
	loop_fd_stop(loop, &relay->in_watcher);
	loop_fd_stop(loop, &relay->out_watcher);
	loop_fd_stop(loop, &relay->watcher);
	nbd_tls_close(relay->session);
	(void)close(relay->in_fd);
	if (relay->out_fd != relay->in_fd)
		(void)close(relay->out_fd);
	(void)close(relay->fd);
	list_remove(&relay->link);
	free(relay->up.bytes);
	free(relay->down.bytes);
	relay->magic = 0;
	free(relay);
	nbd_server_relay_gone(server);
}

void
nbd_relays_destroy(struct nbd_server *server)
{
	struct loop_link *link;

	CHECK_OBJ(server, SERVER_MAGIC);
	while ((link = list_first(&server->relays)) != NULL)
		relay_destroy(LIST_ENTRY(link, struct nbd_relay, link));
}

/* ---- bytes ---- */

/* @n: what a read into @buffer returned. False: nothing came. */
static bool
took(struct relay_buffer *buffer, ssize_t n)
{
	assert(is_empty(buffer));
	if (n > 0) {
		buffer->at = (uint32_t)num_min(buffer->skip_bytes, (uint64_t)n);
		buffer->end = (uint32_t)n;
		buffer->skip_bytes -= buffer->at;
	}
	if (n == 0 || (n < 0 && n != -EAGAIN && n != -EINTR))
		buffer->is_last = true; /* an error of the reading side, too, is its end */
	return n > 0;
}

/* @n: what a write from @buffer returned. False: nothing left. */
static bool
gave(struct relay_buffer *buffer, ssize_t n)
{
	assert(!is_empty(buffer));
	if (n > 0) {
		/*
		 * The first record may be one that the client's socket did not take before: the rest of the
		 * stream is what it was, so TLS sends that one, and says how long it is.
		 */
		if ((uint32_t)n > buffer->end - buffer->at)
			buffer->skip_bytes = (uint32_t)n - (buffer->end - buffer->at);
		buffer->at = (uint32_t)num_min(buffer->end, buffer->at + (uint64_t)n);
		return true;
	}
	if (n != -EAGAIN && n != -EINTR) {
		buffer->at = buffer->end = 0; /* nobody will take it */
		buffer->is_last = true;
	}
	return false;
}

static ssize_t
errno_or(ssize_t n)
{
	return n < 0 ? -errno : n;
}

static bool
relay_step(struct nbd_relay *relay)
{
	struct relay_buffer *up = &relay->up, *down = &relay->down;
	bool has_moved = false;

	CHECK_OBJ(relay, RELAY_MAGIC);
	if (is_empty(up) && !up->is_last)
		has_moved |= took(up, nbd_tls_read(relay->session, up->bytes, RELAY_BYTES));
	if (!is_empty(up))
		has_moved |= gave(up,
		    errno_or(send(relay->fd, up->bytes + up->at, up->end - up->at,
			MSG_NOSIGNAL | MSG_DONTWAIT)));
	if (is_empty(down) && !down->is_last)
		has_moved |=
		    took(down, errno_or(recv(relay->fd, down->bytes, RELAY_BYTES, MSG_DONTWAIT)));
	if (!is_empty(down)) {
		const struct iovec iovec = { down->bytes + down->at, down->end - down->at };

		has_moved |= gave(down, nbd_tls_writev(relay->session, &iovec, 1));
	}
	return has_moved;
}

/* The caller's last act: it may be the relay's end. */
static void
relay_run(struct nbd_relay *relay)
{
	struct loop *loop = relay->server->options.loop;
	const struct relay_buffer *up = &relay->up, *down = &relay->down;
	bool has_moved = true;

	CHECK_OBJ(relay, RELAY_MAGIC);
	for (int i = 0; i < RELAY_STEPS_MAX && has_moved; i++)
		has_moved = relay_step(relay);
	if ((up->is_last && is_empty(up)) || (down->is_last && is_empty(down))) {
		log_info("nbd: TLS client gone that was handed over peer=%s", relay->peer);
		relay_destroy(relay);
		return;
	}
	if (has_moved)
		loop_defer(loop, &relay->task);
	loop_fd_modify(loop, &relay->in_watcher, is_empty(up) ? LOOP_READABLE : 0);
	loop_fd_modify(loop, &relay->out_watcher, is_empty(down) ? 0 : LOOP_WRITABLE);
	loop_fd_modify(loop, &relay->watcher,
	    (is_empty(down) ? (unsigned)LOOP_READABLE : 0) |
		(is_empty(up) ? 0 : (unsigned)LOOP_WRITABLE));
}

static void
relay_on_event(struct loop_fd *watcher, unsigned events, void *arg)
{
	struct nbd_relay *relay = arg;

	(void)watcher;
	(void)events;
	CHECK_OBJ(relay, RELAY_MAGIC);
	relay_run(relay);
}

static void
relay_on_task(struct loop_task *task, void *arg)
{
	struct nbd_relay *relay = arg;

	(void)task;
	CHECK_OBJ(relay, RELAY_MAGIC);
	assert(task == &relay->task);
	relay_run(relay);
}

/* ---- the beginning ---- */

static struct nbd_relay *
relay_alloc(struct nbd_connection *connection, int fd)
{
	struct nbd_relay *relay = client_calloc(1, sizeof(*relay));

	assert(fd >= 0 && connection->is_secure);
	if (relay == NULL)
		return NULL;
	relay->up.bytes = client_malloc(RELAY_BYTES);
	relay->down.bytes = client_malloc(RELAY_BYTES);
	if (relay->up.bytes == NULL || relay->down.bytes == NULL) {
		free(relay->up.bytes);
		free(relay->down.bytes);
		free(relay);
		return NULL;
	}
	relay->magic = RELAY_MAGIC;
	relay->server = connection->server;
	memcpy(relay->peer, connection->peer, sizeof(relay->peer));
	relay->fd = fd;
	loop_task_init(&relay->task, relay_on_task, relay);
	loop_fd_init(&relay->watcher, fd, relay_on_event, relay);
	return relay;
}

static int
relay_watch(struct nbd_relay *relay)
{
	struct loop *loop = relay->server->options.loop;
	int rc;

	CHECK_OBJ(relay, RELAY_MAGIC);
	loop_fd_init(&relay->in_watcher, relay->in_fd, relay_on_event, relay);
	loop_fd_init(&relay->out_watcher, relay->out_fd, relay_on_event, relay);
	rc = loop_fd_start(loop, &relay->in_watcher, LOOP_READABLE);
	if (rc == 0)
		rc = loop_fd_start(loop, &relay->out_watcher, 0);
	return rc == 0 ? loop_fd_start(loop, &relay->watcher, LOOP_READABLE) : rc;
}

int
nbd_relay_create(struct nbd_connection *connection)
{
	struct nbd_server *server = connection->server;
	int send_bytes = RELAY_SEND_BYTES, fds[2], rc;
	struct nbd_relay *relay;

	assert(connection->is_secure);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0)
		return -errno;
	for (int i = 0; i < 2; i++)
		(void)setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &send_bytes, sizeof(send_bytes));
	relay = relay_alloc(connection, fds[0]);
	if (relay == NULL) {
		(void)close(fds[0]);
		(void)close(fds[1]);
		return -ENOMEM;
	}
	/* From here on the client's sockets are the relay's. */
	rc = nbd_connection_make_plain(connection, fds[1], &relay->session, &relay->in_fd,
	    &relay->out_fd);
	list_push_back(&server->relays, &relay->link);
	server->relay_count++;
	if (rc == 0)
		rc = relay_watch(relay);
	if (rc != 0) {
		relay_destroy(relay);
		return rc;
	}
	loop_defer(server->options.loop, &relay->task);
	return 0;
}
