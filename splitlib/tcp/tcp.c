/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp.c -- queue pairs over TCP sockets
 *
 * A message is its header and the payload behind it; the first message each way is a hello. Sockets
 * do not block. A socket is watched for reading unless a message waits for a receive, and for writing
 * only while its buffer is full: sends go out at the end of the loop turn, as many messages as there
 * are in one sendmsg. Receiving is in tcp_receive.c.
 *
 * The guard is open inside the system calls alone.
 *
 * A listener that runs into a limit (descriptors, memory) where no guest gives way (guest.c) stops watching for
 * TCP_ACCEPT_PAUSE_NS: the connection stays in the backlog, and the loop does not spin on it.
 */
#include "tcp.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/guard.h"
#include "base/list.h"
#include "base/metrics.h"
#include "base/num.h"
#include "base/tcp_address.h"
#include "core/alloc.h"
#include "core/connect.h"
#include "core/guest.h"
#include "core/port.h"
#include "core/qp.h"
#include "core/qp_life.h"
#include "core/send_assemble.h"
#include "core/send_post.h"

#define TCP_SEND_IOV_MAX 512u
#define TCP_SEND_BYTES_MAX (512u * 1024u)
#define TCP_SEND_CALLS_MAX 8u /* for one queue pair, before others have their turn */
#define TCP_BACKLOG 1024
#define TCP_ACCEPTS_MAX 64u /* in one turn */
#define TCP_ACCEPT_PAUSE_NS NUM_MS(100)
#define TCP_KEEPALIVE_PROBES 3
#define TCP_DRAIN_BYTES (64u * 1024u)
#define TCP_SCRAP_BYTES (16u * 1024u)
#define TCP_STRAY_BYTES NUM_KIB(16)

struct tcp_listener {
	struct split_listener *listener;
	struct loop_fd watcher;
	struct loop_timer pause_timer;
};

static struct tcp_qp *
tcp_of(const struct split_qp *qp)
{
	return qp->transport;
}

void
tcp_update_interest(struct tcp_qp *tcp)
{
	unsigned events = 0;

	if (tcp->is_connected && !tcp->is_paused && !tcp->qp->is_rejecting)
		events |= LOOP_READABLE;
	if (!tcp->is_connected || tcp->is_send_blocked)
		events |= LOOP_WRITABLE;
	loop_fd_modify(tcp->qp->port->loop, &tcp->watcher, events);
}

static void
socket_set_int(int fd, int level, int option, int value)
{
	/* Each is a refinement: a socket without it still works, only less well. */
	(void)setsockopt(fd, level, option, &value, sizeof(value));
}

/* A peer that says nothing any more is found within @keepalive_ns, idle or not. */
static void
socket_set_options(int fd, uint64_t keepalive_ns)
{
	int keepalive_s = (int)num_min(num_max(keepalive_ns / NUM_S(1), 1), 86400);
	int probes_s = (int)num_max((uint64_t)keepalive_s / 2 / TCP_KEEPALIVE_PROBES, 1);
	int idle_s = keepalive_s - probes_s * TCP_KEEPALIVE_PROBES;

	socket_set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	socket_set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	socket_set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle_s > 1 ? idle_s : 1);
	socket_set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, probes_s);
	socket_set_int(fd, IPPROTO_TCP, TCP_KEEPCNT, TCP_KEEPALIVE_PROBES);
	socket_set_int(fd, IPPROTO_TCP, TCP_USER_TIMEOUT,
	    (int)num_min(num_max(keepalive_ns / NUM_MS(1), 1), INT32_MAX));
}

static void
tcp_send_once_failed(struct tcp_qp *tcp, int err)
{
	assert(err > 0);
	if (err == EINTR)
		send_kick_later(tcp->qp);
	else if (err == EAGAIN || err == EWOULDBLOCK)
		tcp->is_send_blocked = true;
	else if (err == ETIMEDOUT)
		qp_fail(tcp->qp, -ETIMEDOUT, "the peer is silent");
	else
		qp_fail(tcp->qp, -ECONNRESET, "send: %s", strerrordesc_np(err));
}

/* Makes a system call. Returns whether another one may do more. */
static bool
tcp_send_once(struct tcp_qp *tcp)
{
	struct split_qp *qp = tcp->qp;
	struct iovec iov[TCP_SEND_IOV_MAX];
	struct msghdr message = { .msg_iov = iov };
	uint64_t wanted_bytes;
	ssize_t sent_bytes;
	int err;

	assert(tcp->is_connected);
	assert(!tcp->is_send_blocked);
	message.msg_iovlen =
	    send_gather(qp, iov, TCP_SEND_IOV_MAX, TCP_SEND_BYTES_MAX, &wanted_bytes);
	if (message.msg_iovlen == 0)
		return false;
	guard_enter();
	sent_bytes = sendmsg(tcp->watcher.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	err = errno;
	guard_leave();
	metric_add(&qp->port->counters.send_calls, 1);
	if (sent_bytes < 0) {
		tcp_send_once_failed(tcp, err);
		return false;
	}
	assert((uint64_t)sent_bytes <= wanted_bytes);
	if ((uint64_t)sent_bytes < wanted_bytes)
		tcp->is_send_blocked = true;
	send_advance(qp, (uint64_t)sent_bytes);
	return !tcp->is_send_blocked && qp_is_open(qp);
}

void
tcp_kick_send(struct split_qp *qp)
{
	struct tcp_qp *tcp = tcp_of(qp);

	if (tcp == NULL || !tcp->is_connected || tcp->is_send_blocked)
		return;
	for (uint32_t calls = 0; calls < TCP_SEND_CALLS_MAX; calls++)
		if (!tcp_send_once(tcp))
			break;
	if (!qp_is_open(qp))
		return;
	if (tcp->is_send_blocked)
		tcp_update_interest(tcp);
	else if (!list_is_empty(&qp->sendable))
		send_kick_later(qp);
}

static void
tcp_on_resume_task(struct loop_task *task, void *arg)
{
	(void)task;
	tcp_receive(arg);
}

void
tcp_kick_receive(struct split_qp *qp)
{
	struct tcp_qp *tcp = tcp_of(qp);

	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	if (!tcp->is_paused)
		return;
	tcp->is_paused = false;
	tcp_update_interest(tcp);
	loop_defer(qp->port->loop, &tcp->resume_task);
}

static void
tcp_on_connected(struct tcp_qp *tcp)
{
	struct split_qp *qp = tcp->qp;
	socklen_t bytes = sizeof(int);
	int err = 0;

	assert(!tcp->is_connected);
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	if (getsockopt(tcp->watcher.fd, SOL_SOCKET, SO_ERROR, &err, &bytes) != 0)
		err = errno;
	if (err != 0) {
		qp_fail(qp, err == ETIMEDOUT ? -ETIMEDOUT : -ECONNREFUSED, "connect: %s",
		    strerrordesc_np(err));
		return;
	}
	tcp->is_connected = true;
	tcp_update_interest(tcp);
	connect_on_open(qp);
}

static void
tcp_on_fd(struct loop_fd *watcher, unsigned events, void *arg)
{
	struct tcp_qp *tcp = arg;
	struct split_qp *qp = tcp->qp;

	(void)watcher;
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	if (!qp_is_open(qp))
		return;
	if (!tcp->is_connected) {
		tcp_on_connected(tcp);
		return;
	}
	if ((events & LOOP_READABLE) != 0)
		tcp_on_readable(tcp);
	if ((events & LOOP_WRITABLE) != 0 && tcp->is_send_blocked && qp_is_open(qp)) {
		tcp->is_send_blocked = false;
		tcp_update_interest(tcp);
		tcp_kick_send(qp);
	}
}

int
tcp_attach(struct split_qp *qp, int fd, bool is_connected)
{
	struct tcp_qp *tcp = split_calloc(1, sizeof(*tcp));
	int rc = 0;

	assert(fd >= 0);
	assert(qp->transport == NULL);
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	if (tcp == NULL)
		return -ENOMEM;
	tcp->qp = qp;
	tcp->is_local = qp->ops == &transport_unix_ops;
	tcp->is_connected = is_connected;
	tcp->guess_count = 1;
	loop_task_init(&tcp->resume_task, tcp_on_resume_task, tcp);
	loop_fd_init(&tcp->watcher, fd, tcp_on_fd, tcp);
	if (qp->port->strays.memory == NULL)
		rc = arena_init(&qp->port->strays, TCP_STRAY_BYTES, ARENA_DEVICE);
	if (rc == 0)
		rc = loop_fd_start(qp->port->loop, &tcp->watcher,
		    is_connected ? LOOP_READABLE : LOOP_WRITABLE);
	if (rc != 0) {
		split_free(tcp);
		return rc;
	}
	if (!tcp->is_local)
		socket_set_options(fd, qp->port->options.keepalive_ns);
	qp->transport = tcp;
	return 0;
}

static int
tcp_connect(struct split_qp *qp, const char *host_port)
{
	struct sockaddr_storage address;
	socklen_t bytes;
	int fd, rc;

	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	rc = tcp_address_parse(host_port, &address, &bytes);
	if (rc != 0)
		return rc;
	tcp_address_format(&address, qp->peer);
	fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	rc = tcp_attach(qp, fd, false);
	if (rc != 0) {
		(void)close(fd); /* nothing was written */
		return rc;
	}
	/* Whatever is wrong with the peer is told by on_closed, also when it shows at once. */
	if (connect(fd, (const struct sockaddr *)&address, bytes) != 0 && errno != EINPROGRESS)
		qp_fail(qp, -ECONNREFUSED, "connect: %s", strerrordesc_np(errno));
	return 0;
}

ssize_t
tcp_skip(const struct tcp_qp *tcp, size_t bytes)
{
	uint8_t scrap[TCP_SCRAP_BYTES];

	assert(bytes > 0);
	if (!tcp->is_local)
		return recv(tcp->watcher.fd, NULL, bytes, MSG_TRUNC | MSG_DONTWAIT);
	/* A unix socket takes bytes away only by giving them. */
	return recv(tcp->watcher.fd, scrap, num_min(bytes, sizeof(scrap)), MSG_DONTWAIT);
}

void
tcp_close(struct split_qp *qp)
{
	struct tcp_qp *tcp = tcp_of(qp);
	int fd = tcp->watcher.fd;

	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	assert(tcp->qp == qp);
	loop_fd_stop(qp->port->loop, &tcp->watcher);
	loop_task_cancel(qp->port->loop, &tcp->resume_task);
	/*
	 * Closing with bytes unread resets the connection, and the reset may overtake a refusal that
	 * is on its way. What comes later than this still can: then the peer sees a reset.
	 */
	(void)shutdown(fd, SHUT_WR); /* fails when the peer is gone */
	(void)tcp_skip(tcp, TCP_DRAIN_BYTES);
	(void)close(fd); /* the descriptor is gone whatever it returns */
	qp->transport = NULL;
	split_free(tcp);
}

static void
tcp_accept(struct tcp_listener *self, int fd, const struct sockaddr_storage *peer)
{
	char address[SPLIT_ADDRESS_BYTES_MAX];
	struct split_qp *qp;

	CHECK_OBJ(self->listener, SPLIT_LISTENER_MAGIC);
	assert(fd >= 0);
	if (peer->ss_family == AF_UNIX)
		unix_peer_format(fd, address);
	else
		tcp_address_format(peer, address);
	qp = connect_accept(self->listener, address);
	/* Full, or out of memory: the peer sees a reset and may try again later. */
	if (qp == NULL) {
		(void)close(fd);
		return;
	}
	if (tcp_attach(qp, fd, true) != 0) {
		qp_free(qp);
		(void)close(fd);
	}
}

static bool
accept_error_is_limit(int err)
{
	return err == EMFILE || err == ENFILE || err == ENOBUFS || err == ENOMEM;
}

/* Without a descriptor accept4 fails also when nobody waits. */
static bool
is_waited_at(int fd)
{
	struct pollfd wanted = { .fd = fd, .events = POLLIN };

	assert(fd >= 0);
	return poll(&wanted, 1, 0) > 0;
}

static void
tcp_on_accept(struct loop_fd *watcher, unsigned events, void *arg)
{
	struct tcp_listener *self = arg;
	struct split_port *port = self->listener->port;
	struct loop *loop = port->loop;
	int err;

	(void)events;
	CHECK_OBJ(self->listener, SPLIT_LISTENER_MAGIC);
	for (uint32_t i = 0; i < TCP_ACCEPTS_MAX; i++) {
		struct sockaddr_storage peer = { 0 };
		socklen_t bytes = sizeof(peer);
		int fd = accept4(watcher->fd, (struct sockaddr *)&peer, &bytes,
		    SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			tcp_accept(self, fd, &peer);
			continue;
		}
		err = errno;
		if (accept_error_is_limit(err)) {
			if (!is_waited_at(watcher->fd))
				return;
			if ((err == EMFILE || err == ENFILE) && guest_make_room(port))
				continue;
			connect_on_full(port, NULL, -err);
			loop_fd_modify(loop, watcher, 0);
			loop_timer_start(loop, &self->pause_timer, TCP_ACCEPT_PAUSE_NS);
			return;
		}
		if (err == EAGAIN || err == EWOULDBLOCK)
			return;
		/* A connection that died in the backlog: the next one may be well. */
	}
}

static void
tcp_on_accept_pause_end(struct loop_timer *timer, void *arg)
{
	struct tcp_listener *self = arg;

	(void)timer;
	CHECK_OBJ(self->listener, SPLIT_LISTENER_MAGIC);
	loop_fd_modify(self->listener->port->loop, &self->watcher, LOOP_READABLE);
}

/* Returns a listening socket or a negative errno. */
static int
listen_socket(const char *host_port, char *ret_address)
{
	struct sockaddr_storage address;
	socklen_t bytes;
	int fd, rc;

	rc = tcp_address_parse(host_port, &address, &bytes);
	if (rc != 0)
		return rc;
	fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	socket_set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (bind(fd, (const struct sockaddr *)&address, bytes) != 0 ||
	    listen(fd, TCP_BACKLOG) != 0) {
		rc = -errno;
		goto err_fd;
	}
	bytes = sizeof(address);
	if (getsockname(fd, (struct sockaddr *)&address, &bytes) != 0) {
		rc = -errno;
		goto err_fd;
	}
	tcp_address_format(&address, ret_address);
	return fd;

err_fd:
	(void)close(fd); /* nothing was written */
	return rc;
}

int
tcp_listen_at(struct split_listener *listener, int fd)
{
	struct tcp_listener *self = split_calloc(1, sizeof(*self));
	int rc;

	CHECK_OBJ(listener, SPLIT_LISTENER_MAGIC);
	assert(listener->transport == NULL && fd >= 0);
	if (self == NULL)
		return -ENOMEM;
	self->listener = listener;
	loop_timer_init(&self->pause_timer, tcp_on_accept_pause_end, self);
	loop_fd_init(&self->watcher, fd, tcp_on_accept, self);
	rc = loop_fd_start(listener->port->loop, &self->watcher, LOOP_READABLE);
	if (rc == 0)
		listener->transport = self;
	else
		split_free(self);
	return rc;
}

static int
tcp_listen(struct split_listener *listener, const char *host_port, char *ret_address)
{
	int fd = listen_socket(host_port, ret_address);
	int rc;

	if (fd < 0)
		return fd;
	rc = tcp_listen_at(listener, fd);
	if (rc != 0)
		(void)close(fd); /* nothing was written */
	return rc;
}

void
tcp_unlisten(struct split_listener *listener)
{
	struct tcp_listener *self = listener->transport;
	int fd = self->watcher.fd;

	assert(self->listener == listener);
	CHECK_OBJ(listener, SPLIT_LISTENER_MAGIC);
	loop_timer_stop(listener->port->loop, &self->pause_timer);
	loop_fd_stop(listener->port->loop, &self->watcher);
	(void)close(fd); /* nothing was written */
	split_free(self);
	listener->transport = NULL;
}

const struct transport_ops transport_tcp_ops = {
	.scheme = "tcp",
	.has_names = true,
	.listen = tcp_listen,
	.unlisten = tcp_unlisten,
	.connect = tcp_connect,
	.close = tcp_close,
	.kick_send = tcp_kick_send,
	.kick_receive = tcp_kick_receive,
};
