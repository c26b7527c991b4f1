/* SPDX-License-Identifier: Apache-2.0 */
/* nbd_server.c -- where clients come in, and the lists of connections and exports */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "base/tcp_address.h"
#include "base/unix_socket.h"
#include "nbd.h"
#include "nbd_bitmap.h"
#include "nbd_handover.h"

#define SERVER_BACKLOG 128
#define SERVER_ACCEPTS_MAX 16       /* in a turn */
#define SERVER_SEND_BYTES (1 << 20) /* of a unix socket, where the system allows it */
#define SERVER_PAUSE_NS NUM_S(1)
#define SERVER_KEEPALIVE_S 60 /* then every quarter of it, four times */

/*
 * A volume that its last client has left, and a gateway has not heard of it, or lets us in to write just now: who wants it
 * next would be kept out.
 */
static bool
server_is_held(const struct nbd_server *server)
{
	struct loop_link *link, *next;

	if (server->is_given)
		return false;
	LIST_FOREACH_SAFE(&server->exports, link, next) {
		const struct nbd_export *export = LIST_ENTRY(link, struct nbd_export, link);

		if (export->sm.state == NBD_EXPORT_CLOSING || export->is_opening_writer ||
		    export->is_attaching)
			return true;
	}
	return false;
}

static void
server_on_empty_task(struct loop_task *task, void *arg)
{
	struct nbd_server *server = arg;

	(void)task;
	CHECK_OBJ(server, SERVER_MAGIC);
	assert(task == &server->empty_task);
	if (server->connection_count == 0 && (server->relay_count == 0 || !server->is_given) &&
	    !server_is_held(server) && server->options.on_empty != NULL)
		server->options.on_empty(server->options.arg);
}

/* ---- accepting ---- */

void
nbd_server_watch(struct nbd_server *server)
{
	bool accepts = !server->is_parking && !server->is_paused;

	CHECK_OBJ(server, SERVER_MAGIC);
	for (uint32_t i = 0; i < server->listener_count; i++) {
		if (server->listeners[i].is_listening)
			loop_fd_modify(server->options.loop, &server->listeners[i].watcher,
			    accepts ? LOOP_READABLE : 0);
	}
}

static void
server_resume(struct nbd_server *server)
{
	if (!server->is_paused)
		return;
	loop_timer_stop(server->options.loop, &server->accept_timer);
	server->is_paused = false;
	nbd_server_watch(server);
}

static void
server_on_accept_timer(struct loop_timer *timer, void *arg)
{
	struct nbd_server *server = arg;

	(void)timer;
	CHECK_OBJ(server, SERVER_MAGIC);
	assert(timer == &server->accept_timer);
	server_resume(server);
}

/* A listener whose client cannot be taken stays readable: look again when a connection has gone. */
static void
server_pause(struct nbd_server *server)
{
	log_limited(LOG_WARN, "nbd: accept: %s; %u connections", strerror(errno),
	    server->connection_count);
	server->is_paused = true;
	nbd_server_watch(server);
	loop_timer_start(server->options.loop, &server->accept_timer, SERVER_PAUSE_NS);
}

void
nbd_server_connection_gone(struct nbd_server *server)
{
	CHECK_OBJ(server, SERVER_MAGIC);
	assert(server->connection_count > 0);
	server->connection_count--;
	server_resume(server);
	if (server->connection_count == 0 && (server->is_stopping || server->is_single))
		loop_defer(server->options.loop, &server->empty_task);
}

void
nbd_server_export_closed(struct nbd_server *server)
{
	CHECK_OBJ(server, SERVER_MAGIC);
	if (server->is_stopping || server->is_single)
		loop_defer(server->options.loop, &server->empty_task);
}

void
nbd_server_relay_gone(struct nbd_server *server)
{
	CHECK_OBJ(server, SERVER_MAGIC);
	assert(server->relay_count > 0);
	server->relay_count--;
	if (server->relay_count == 0 && server->is_stopping)
		loop_defer(server->options.loop, &server->empty_task);
}

static void
peer_text(int fd, char *out, size_t bytes)
{
	struct sockaddr_storage address;
	socklen_t length = sizeof(address);
	char host[48], port[8];

	assert(fd >= 0 && bytes > 0);
	if (getpeername(fd, (struct sockaddr *)&address, &length) != 0 ||
	    address.ss_family == AF_UNIX ||
	    getnameinfo((struct sockaddr *)&address, length, host, sizeof(host), port, sizeof(port),
		NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		(void)snprintf(out, bytes, "unix");
	else
		(void)snprintf(out, bytes, "%s:%s", host, port);
}

/*
 * Somebody new needs a place: the oldest of those that have shown nothing gives way. Who has agreed
 * upon an export, or waits for it to open, keeps its own.
 */
static bool
server_make_place(struct nbd_server *server)
{
	struct loop_link *link, *next;

	CHECK_OBJ(server, SERVER_MAGIC);
	LIST_FOREACH_SAFE(&server->connections, link, next) {
		struct nbd_connection *connection = LIST_ENTRY(link, struct nbd_connection, link);

		if (connection->sm.state >= NBD_CONNECTION_OPENING &&
		    connection->sm.state != NBD_CONNECTION_ENDING)
			continue;
		log_limited(LOG_WARN,
		    "nbd: cut off, it uses no export, and its place is needed peer=%s "
		    "connections=%u",
		    connection->peer, server->connection_count);
		nbd_connection_break(connection, "its place is needed");
		return true;
	}
	return false;
}

static void
server_take(struct nbd_server *server, int fd)
{
	int one = 1, idle_s = SERVER_KEEPALIVE_S, every_s = SERVER_KEEPALIVE_S / 4, tries = 4;
	int send_bytes = SERVER_SEND_BYTES;
	char peer[64];

	assert(fd >= 0 && server->connection_count <= NBD_CONNECTIONS_MAX);
	if (server->connection_count == NBD_CONNECTIONS_MAX)
		(void)server_make_place(server); /* counted below */
	if (server->connection_count == NBD_CONNECTIONS_MAX) {
		log_limited(LOG_WARN, "nbd: refused, there are %u connections",
		    NBD_CONNECTIONS_MAX);
		(void)close(fd);
		return;
	}
	/* Options of TCP: they fail on a unix socket, which does not need them. */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof(every_s));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof(tries));
	peer_text(fd, peer, sizeof(peer));
	/* A large reply leaves in one or two turns, not ten. TCP finds its own size. */
	if (strcmp(peer, "unix") == 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_bytes, sizeof(send_bytes));
	if (nbd_connection_create(server, fd, fd, peer, true) == NULL)
		log_limited(LOG_WARN, "nbd: out of memory, refused peer=%s", peer);
}

/* accept says EMFILE also when nobody waits. */
static bool
is_waited_at(int fd)
{
	struct pollfd wanted = { .fd = fd, .events = POLLIN };
	int error = errno;
	bool is_waited = poll(&wanted, 1, 0) > 0;

	assert(fd >= 0);
	errno = error;
	return is_waited;
}

static void
server_on_accept(struct loop_fd *watcher, unsigned events, void *arg)
{
	struct nbd_listener *listener = arg;

	(void)events;
	assert(watcher == &listener->watcher && listener->is_listening);
	for (int i = 0; i < SERVER_ACCEPTS_MAX; i++) {
		int fd = accept4(watcher->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			server_take(listener->server, fd);
			continue;
		}
		if ((errno == EMFILE || errno == ENFILE) && !is_waited_at(watcher->fd))
			return;
		if (errno == EMFILE || errno == ENFILE) {
			if (server_make_place(listener->server))
				continue;
			errno = EMFILE;
		}
		if (errno == EMFILE || errno == ENOBUFS || errno == ENOMEM)
			server_pause(listener->server);
		else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			log_limited(LOG_WARN, "nbd: accept: %s", strerror(errno));
		return;
	}
}

/* ---- listening ---- */

static int
refuse(char *ret_error, size_t error_bytes, const char *address, const char *why, int rc)
{
	assert(rc < 0);
	(void)snprintf(ret_error, error_bytes, "%s: %s", address, why);
	return rc;
}

static int
server_watch(struct nbd_server *server, int fd, const char *path)
{
	struct nbd_listener *listener = &server->listeners[server->listener_count];
	int rc;

	assert(fd >= 0 && server->listener_count <= NBD_LISTENERS_MAX);
	if (server->listener_count == NBD_LISTENERS_MAX)
		return -ENOSPC;
	*listener = (struct nbd_listener){ .server = server, .fd = fd };
	(void)snprintf(listener->path, sizeof(listener->path), "%s", path);
	loop_fd_init(&listener->watcher, fd, server_on_accept, listener);
	rc = loop_fd_start(server->options.loop, &listener->watcher, LOOP_READABLE);
	if (rc != 0)
		return rc;
	listener->is_listening = true;
	server->listener_count++;
	return 0;
}

static int
listen_unix(struct nbd_server *server, const char *path)
{
	struct sockaddr_un address;
	int fd, rc;

	CHECK_OBJ(server, SERVER_MAGIC);
	rc = unix_socket_address(path, &address);
	if (rc == 0)
		rc = unix_socket_clear(&address, SOCK_STREAM);
	if (rc != 0)
		return rc;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
	    listen(fd, SERVER_BACKLOG) != 0)
		rc = -errno;
	else
		rc = server_watch(server, fd, path);
	if (rc != 0)
		(void)close(fd);
	return rc;
}

/* An address of the network is; sockets of this machine, and its loopback, are not. */
static bool
is_exposed_at(const struct nbd_server *server, const struct sockaddr_storage *address)
{
	bool is_tcp = address->ss_family == AF_INET || address->ss_family == AF_INET6;

	return is_tcp && !server->options.knows_clients && !server->options.is_open &&
	    !tcp_address_is_loopback(address);
}

bool
nbd_server_is_exposed(const struct nbd_server *server, int fd)
{
	struct sockaddr_storage address = { .ss_family = AF_UNSPEC };
	socklen_t bytes = sizeof(address);

	assert(fd >= 0);
	return getsockname(fd, (struct sockaddr *)&address, &bytes) == 0 &&
	    is_exposed_at(server, &address);
}

static int
listen_at(struct nbd_server *server, const struct addrinfo *info)
{
	int one = 1, rc = 0;
	int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
	    bind(fd, info->ai_addr, info->ai_addrlen) != 0)
		rc = -errno;
	else if (nbd_server_is_exposed(server, fd))
		rc = -EPERM;
	else if (listen(fd, SERVER_BACKLOG) != 0)
		rc = -errno;
	if (rc == 0)
		rc = server_watch(server, fd, "");
	if (rc != 0)
		(void)close(fd);
	return rc;
}

static int
listen_tcp(struct nbd_server *server, const char *text)
{
	struct addrinfo hints = { .ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM };
	const char *colon = strrchr(text, ':');
	struct addrinfo *infos;
	char host[256];
	size_t bytes;
	int rc;

	if (colon == NULL || (size_t)(colon - text) >= sizeof(host))
		return -EINVAL;
	if (*text == '[' && colon > text && colon[-1] == ']') {
		bytes = (size_t)(colon - text) - 2;
		memcpy(host, text + 1, bytes);
	} else {
		bytes = (size_t)(colon - text);
		memcpy(host, text, bytes);
	}
	host[bytes] = '\0';
	if (getaddrinfo(host[0] == '\0' ? NULL : host, colon + 1, &hints, &infos) != 0)
		return -EINVAL;
	rc = listen_at(server, infos);
	freeaddrinfo(infos);
	return rc;
}

/* As a client would name it: with the port that the system chose. */
static void
bound_text(int fd, const char *path, char *out, size_t bytes)
{
	struct sockaddr_storage address;
	socklen_t length = sizeof(address);
	char host[48], port[8];

	if (*path != '\0')
		(void)snprintf(out, bytes, "unix:%s", path);
	else if (getsockname(fd, (struct sockaddr *)&address, &length) == 0 &&
	    getnameinfo((struct sockaddr *)&address, length, host, sizeof(host), port, sizeof(port),
		NI_NUMERICHOST | NI_NUMERICSERV) == 0)
		(void)snprintf(out, bytes,
		    strchr(host, ':') != NULL ? "tcp://[%s]:%s" : "tcp://%s:%s", host, port);
}

int
nbd_server_listen(struct nbd_server *server, const char *address, char *ret_bound,
    size_t bound_bytes, char *ret_error, size_t error_bytes)
{
	int rc;

	CHECK_OBJ(server, SERVER_MAGIC);
	if (server->listener_count == NBD_LISTENERS_MAX)
		return refuse(ret_error, error_bytes, address, "too many addresses", -ENOSPC);
	if (strncmp(address, "unix:", 5) == 0)
		rc = listen_unix(server, address + 5);
	else if (strncmp(address, "tcp://", 6) == 0)
		rc = listen_tcp(server, address + 6);
	else
		return refuse(ret_error, error_bytes, address,
		    "neither unix:PATH nor tcp://HOST:PORT", -EINVAL);
	if (rc != 0)
		return refuse(ret_error, error_bytes, address,
		    rc == -EINVAL      ? "no HOST:PORT, or no such host is known here"
			: rc == -EPERM ? NBD_OPEN_TEXT
				       : strerror(-rc),
		    rc);
	bound_text(server->listeners[server->listener_count - 1].fd,
	    server->listeners[server->listener_count - 1].path, ret_bound, bound_bytes);
	return 0;
}

int
nbd_server_adopt(struct nbd_server *server, int fd, const char *path)
{
	int flags = fcntl(fd, F_GETFL);

	CHECK_OBJ(server, SERVER_MAGIC);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
	    fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
		return -errno;
	return server_watch(server, fd, path);
}

void
nbd_server_forget_listeners(struct nbd_server *server)
{
	CHECK_OBJ(server, SERVER_MAGIC);
	for (uint32_t i = 0; i < server->listener_count; i++)
		server->listeners[i].path[0] = '\0';
}

/* ---- life ---- */

struct nbd_server *
nbd_server_create(const struct nbd_server_options *options)
{
	struct nbd_server *server = client_calloc(1, sizeof(*server));

	assert(options->loop != NULL);
	if (server == NULL)
		return NULL;
	server->magic = SERVER_MAGIC;
	server->options = *options;
	list_init(&server->exports);
	list_init(&server->connections);
	list_init(&server->relays);
	list_init(&server->bitmaps);
	list_init(&server->listings);
	loop_task_init(&server->empty_task, server_on_empty_task, server);
	loop_timer_init(&server->accept_timer, server_on_accept_timer, server);
	nbd_memory_init(server);
	return server;
}

static void
server_stop_listening(struct nbd_server *server)
{
	CHECK_OBJ(server, SERVER_MAGIC);
	for (uint32_t i = 0; i < server->listener_count; i++) {
		struct nbd_listener *listener = &server->listeners[i];

		if (!listener->is_listening)
			continue;
		listener->is_listening = false;
		loop_fd_stop(server->options.loop, &listener->watcher);
		(void)close(listener->fd);
		if (listener->path[0] != '\0')
			(void)unlink(listener->path); /* gone already is as well */
	}
}

void
nbd_server_stop(struct nbd_server *server)
{
	struct loop_link *link, *next;

	CHECK_OBJ(server, SERVER_MAGIC);
	if (server->is_given)
		nbd_relays_destroy(server);
	if (server->is_stopping)
		return;
	if (server->handover != NULL)
		nbd_handover_cancel(server->handover);
	server->is_stopping = true;
	server_stop_listening(server);
	LIST_FOREACH_SAFE(&server->connections, link, next)
		nbd_connection_end(LIST_ENTRY(link, struct nbd_connection, link));
	if (server->connection_count == 0)
		loop_defer(server->options.loop, &server->empty_task);
}

void
nbd_server_give_up(struct nbd_server *server)
{
	CHECK_OBJ(server, SERVER_MAGIC);
	assert(server->connection_count == 0);
	server->is_stopping = server->is_given = true;
	server_stop_listening(server);
	loop_defer(server->options.loop, &server->empty_task);
}

void
nbd_server_destroy(struct nbd_server *server)
{
	struct loop_link *link;

	if (server == NULL)
		return;
	CHECK_OBJ(server, SERVER_MAGIC);
	server->options.on_empty = NULL;
	if (server->handover != NULL)
		nbd_handover_cancel(server->handover);
	server_stop_listening(server);
	while ((link = list_first(&server->connections)) != NULL)
		nbd_connection_destroy(LIST_ENTRY(link, struct nbd_connection, link));
	nbd_relays_destroy(server);
	nbd_bitmap_list_fini_all(server);
	nbd_bitmap_fini_all(server);
	while ((link = list_first(&server->exports)) != NULL)
		nbd_export_free(LIST_ENTRY(link, struct nbd_export, link));
	loop_task_cancel(server->options.loop, &server->empty_task);
	loop_timer_stop(server->options.loop, &server->accept_timer);
	nbd_memory_fini(server);
	nbd_buffers_fini(&server->buffers);
	server->magic = 0;
	free(server);
}
