/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nbd_control.c -- see nbd_control.h
 *
 * A client's packet is answered in the handler that receives it, and the client stays for the next
 * one. Only "give" takes time: the client's socket belongs to the hand-over then.
 */
#include "nbd_control.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/unix_socket.h"
#include "base/uri_text.h"
#include "nbd_handover.h"
#include "nbd_persistent.h"

#define CONTROL_MAGIC 0x4c43424eu /* "NBCL" */
#define CONTROL_PATH_BYTES sizeof(((struct sockaddr_un *)0)->sun_path)
/* In a part: its packet stays far below what a unix socket takes (net.core.wmem_default, 208 KiB), however long texts are. */
#define CONTROL_PART_EXPORTS 32u

struct control_client {
	struct nbd_control *control;
	struct loop_fd watcher;
	int fd;
	bool is_used;
	bool is_taking; /* the hand-over is to this one */
	struct ucred peer;
};

struct nbd_control {
	uint32_t magic;
	struct nbd_server *server;
	struct loop_fd watcher;
	int fd;
	char path[CONTROL_PATH_BYTES];
	struct control_client clients[NBD_CONTROL_CLIENTS_MAX];
	struct control_client *taker;
	const struct nbd_export *listed[NBD_EXPORTS_MAX]; /* while a part is made */
	struct nbd_persistent *persistent;                /* NULL: nothing lasts */
	void (*on_given)(void *arg);
	void *arg;
};

void
nbd_uri(const struct nbd_server *server, const char *name, char *out, size_t bytes)
{
	bool is_secure = server->options.requires_tls;

	CHECK_OBJ(server, SERVER_MAGIC);
	assert(bytes > 0);
	out[0] = '\0';
	for (uint32_t i = 0; i < server->listener_count && out[0] == '\0'; i++) {
		if (server->listeners[i].path[0] == '\0')
			continue;
		(void)snprintf(out, bytes, "nbd%s+unix:///", is_secure ? "s" : "");
		uri_text_add(out, bytes, name);
		(void)snprintf(out + strlen(out), bytes - strlen(out), "?socket=");
		uri_text_add(out, bytes, server->listeners[i].path);
	}
}

/* ---- operations: an answer, or NULL for want of memory ---- */

static json_t *
fail(const char *text)
{
	return json_pack("{s:s}", "error", text);
}

static json_t *
export_json(const struct nbd_server *server, const struct nbd_export *export)
{
	char uri[NBD_URI_BYTES];

	CHECK_OBJ(server, SERVER_MAGIC);
	nbd_uri(server, export->name, uri, sizeof(uri));
	return json_pack("{s:s, s:s, s:i, s:I, s:b, s:b, s:s, s:s, s:b, s:s}", "name", export->name,
	    "state", export->is_lost ? "lost" : sm_state_name(&export->sm), "users",
	    (int)export->user_count, "size_bytes", (json_int_t) export->size_bytes, "read_only",
	    (int)export->is_read_only, "writing", (int)(export->is_writer && !export->is_lost),
	    "lost", export->lost_text, "uri", uri, "persistent", (int)export->is_persistent,
	    "problem", export->problem);
}

static int
compare_names(const void *a, const void *b)
{
	const struct nbd_export *const *one = a, *const *other = b;

	return strcmp((*one)->name, (*other)->name);
}

/* Exports in control->listed: all, as they came, or those of names behind @after, by name. How many. */
static uint32_t
control_find_exports(struct nbd_control *control, const char *after)
{
	struct nbd_server *server = control->server;
	struct loop_link *link, *next;
	uint32_t count = 0;

	CHECK_OBJ(server, SERVER_MAGIC);
	assert(server->export_count <= NBD_EXPORTS_MAX);
	LIST_FOREACH_SAFE(&server->exports, link, next) {
		const struct nbd_export *export = LIST_ENTRY(link, struct nbd_export, link);

		if (after == NULL || strcmp(export->name, after) > 0)
			control->listed[count++] = export;
	}
	if (after != NULL)
		qsort(control->listed, count, sizeof(control->listed[0]), compare_names);
	return count;
}

static json_t *
control_list(struct nbd_control *control, const json_t *in)
{
	const char *after = json_string_value(json_object_get(in, "after"));
	uint32_t count = control_find_exports(control, after);
	bool is_more = after != NULL && count > CONTROL_PART_EXPORTS;
	json_t *exports = json_array(), *out;

	for (uint32_t i = 0; i < (is_more ? CONTROL_PART_EXPORTS : count); i++) {
		if (json_array_append_new(exports,
			export_json(control->server, control->listed[i])) != 0) {
			json_decref(exports);
			return NULL;
		}
	}
	out = json_pack("{s:o}", "exports", exports);
	if (after != NULL && out != NULL)
		json_object_set_new(out, "more", json_boolean(is_more));
	if (control->persistent == NULL || out == NULL)
		return out;
	json_object_set_new(out, "exports_file",
	    json_string(nbd_persistent_path(control->persistent)));
	json_object_set_new(out, "exports_file_problems",
	    nbd_persistent_problems(control->persistent));
	return out;
}

static json_t *
control_attach(struct nbd_control *control, const struct ucred *peer, const json_t *in)
{
	struct nbd_server *server = control->server;
	struct nbd_export *export;
	const char *name;
	int is_read_only = 0, is_persistent = 0;
	bool is_new;
	char uri[NBD_URI_BYTES];

	CHECK_OBJ(server, SERVER_MAGIC);
	if (json_unpack((json_t *)(uintptr_t)in, "{s:s, s?b, s?b}", "name", &name, "read_only",
		&is_read_only, "persistent", &is_persistent) != 0)
		return fail("attach: needs a name");
	if (is_persistent && control->persistent == NULL)
		return fail(
		    "it has no --exports FILE, so what it exports ends with it: have exports = "
		    "/etc/cleave/exports in its configuration");
	if (strchr(name, '@') != NULL)
		is_read_only = 1; /* a snapshot */
	export = nbd_export_by_name(server, name);
	if (export != NULL && export->is_read_only != (is_read_only != 0))
		return fail(export->is_read_only ? "it is attached read-only"
						 : "it is attached for writing");
	if (export != NULL && is_persistent && !export->is_persistent)
		export->outlives_file = !export->is_on_demand;
	is_new = export == NULL || export->is_on_demand;
	if (export == NULL)
		export = nbd_export_add(server, name, is_read_only != 0);
	if (export == NULL)
		return fail(errno == EINVAL ? "this is no volume's name" : strerror(errno));
	export->is_on_demand = false;
	export->is_attached = export->is_attached || (is_new && !is_persistent);
	nbd_uri(server, name, uri, sizeof(uri));
	log_info("agent: attached name=%s%s uid=%u pid=%d", name,
	    is_persistent ? " persistent=yes" : "", peer->uid, (int)peer->pid);
	if (!is_persistent)
		return json_pack("{s:s}", "uri", uri);
	export->is_persistent = true;
	nbd_persistent_look(control->persistent, export);
	return json_pack("{s:s, s:s}", "uri", uri, "exports_file",
	    nbd_persistent_path(control->persistent));
}

static json_t *
control_detach(struct nbd_control *control, const struct ucred *peer, const json_t *in)
{
	struct nbd_server *server = control->server;
	struct loop_link *link, *next;
	struct nbd_export *export;
	const char *name;
	int is_forced = 0;

	CHECK_OBJ(server, SERVER_MAGIC);
	if (json_unpack((json_t *)(uintptr_t)in, "{s:s, s?b}", "name", &name, "force",
		&is_forced) != 0)
		return fail("detach: needs a name");
	export = nbd_export_by_name(server, name);
	if (export == NULL)
		return fail("it is not attached");
	if (export->user_count > 0 && !is_forced) {
		char text[CLEAVE_NAME_BYTES_MAX + 128];

		(void)snprintf(text, sizeof(text),
		    "'%s' is in use, by connections=%u: end what uses it, or say --force, which cuts them off",
		    name, export->user_count);
		return fail(text);
	}
	/* The export goes when its last client has. */
	export->is_on_demand = true;
	export->is_attached = false;
	export->is_persistent = false;
	LIST_FOREACH_SAFE(&server->connections, link, next) {
		struct nbd_connection *connection = LIST_ENTRY(link, struct nbd_connection, link);

		if (connection->export == export)
			nbd_connection_end(connection);
	}
	loop_defer(server->options.loop, &export->open_task);
	log_info("agent: detached name=%s uid=%u pid=%d", name, peer->uid, (int)peer->pid);
	if (control->persistent == NULL)
		return json_object();
	return json_pack("{s:s}", "exports_file", nbd_persistent_path(control->persistent));
}

static json_t *
control_reload(struct nbd_control *control, const json_t *in)
{
	if (control->persistent == NULL)
		return fail("it has no --exports FILE to read");
	nbd_persistent_load(control->persistent);
	return control_list(control, in);
}

/* ---- clients ---- */

static void
client_close(struct control_client *client)
{
	assert(client->is_used && client->fd >= 0);
	loop_fd_stop(client->control->server->options.loop, &client->watcher);
	(void)close(client->fd);
	*client = (struct control_client){ 0 };
}

static void
control_on_handover(int rc, void *arg)
{
	struct nbd_control *control = arg;
	struct control_client *client = control->taker;

	CHECK_OBJ(control, CONTROL_MAGIC);
	control->taker = NULL;
	(void)close(client->fd);
	*client = (struct control_client){ 0 };
	if (rc != 0) {
		log_warn("agent: not handed over, going on rc=%s", log_errno(rc));
		return;
	}
	log_info("agent: handed over");
	control->path[0] = '\0'; /* the successor's by now */
	control->on_given(control->arg);
}

static json_t *
control_give(struct nbd_control *control, struct control_client *client, const json_t *in)
{
	bool is_carrying = json_is_true(json_object_get(in, "carries"));
	struct nbd_server *server = control->server;

	assert(client->is_used && client->control == control);
	if (server->handover != NULL || server->is_stopping)
		return fail("the agent is going already");
	log_info("agent: handing over to a successor uid=%u pid=%d", client->peer.uid,
	    (int)client->peer.pid);
	loop_fd_stop(server->options.loop, &client->watcher);
	control->taker = client;
	server->is_giving_bitmaps = json_is_true(json_object_get(in, "bitmaps"));
	server->is_giving_exports = json_is_true(json_object_get(in, "exports"));
	if (nbd_handover_give(server, client->fd, is_carrying, control_on_handover, control) ==
	    NULL) {
		control->taker = NULL;
		return loop_fd_start(server->options.loop, &client->watcher, LOOP_READABLE) == 0
		    ? fail("out of memory")
		    : NULL;
	}
	return NULL;
}

static json_t *
control_run(struct nbd_control *control, struct control_client *client, const char *text,
    size_t bytes)
{
	json_t *in = json_loadb(text, bytes, JSON_DISABLE_EOF_CHECK, NULL), *out;
	const char *op = json_string_value(json_object_get(in, "op"));

	CHECK_OBJ(control, CONTROL_MAGIC);
	if (op == NULL)
		out = fail("not a JSON object with an op");
	else if (strcmp(op, "list") == 0)
		out = control_list(control, in);
	else if (strcmp(op, "reload") == 0)
		out = control_reload(control, in);
	else if (strcmp(op, "attach") == 0)
		out = control_attach(control, &client->peer, in);
	else if (strcmp(op, "detach") == 0)
		out = control_detach(control, &client->peer, in);
	else if (strcmp(op, "give") == 0)
		out = control_give(control, client, in);
	else
		out = fail("this op is not known here");
	json_decref(in);
	return out;
}

/* @out is taken over; NULL: memory is out. False: the client is of no use any more. */
static bool
client_answer(const struct control_client *client, json_t *out)
{
	char *text = out == NULL ? NULL : json_dumps(out, JSON_COMPACT);
	bool is_sent, is_too_long;

	assert(client->is_used && client->fd >= 0);
	is_sent = text != NULL && send(client->fd, text, strlen(text), MSG_NOSIGNAL) >= 0;
	is_too_long = text != NULL && !is_sent && errno == EMSGSIZE;
	free(text);
	json_decref(out);
	if (!is_too_long)
		return is_sent;
	return client_answer(client,
	    fail(
		"there are too many exports for one answer, which is too long for its socket: a newer "
		"cleave asks for parts"));
}

static void
client_on_readable(struct loop_fd *watcher, unsigned events, void *arg)
{
	struct control_client *client = arg;
	char text[NBD_CONTROL_BYTES_MAX];
	ssize_t n = recv(watcher->fd, text, sizeof(text), MSG_DONTWAIT);
	json_t *out;

	(void)events;
	assert(watcher == &client->watcher && client->is_used);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		client_close(client);
		return;
	}
	out = control_run(client->control, client, text, (size_t)n);
	if (out == NULL && client->control->taker == client)
		return;
	if (!client_answer(client, out))
		client_close(client);
}

/*
 * Root, and who runs the agent: nobody else exports volumes, or takes them over, whatever has become of the socket's
 * mode, and whoever was given a descriptor of it.
 */
static bool
control_may_ask(int fd, struct ucred *ret_peer)
{
	socklen_t bytes = sizeof(*ret_peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret_peer, &bytes) != 0)
		return false;
	if (ret_peer->uid == 0 || ret_peer->uid == geteuid())
		return true;
	log_limited(LOG_WARN, "agent: control socket: refused uid=%u pid=%d", ret_peer->uid,
	    (int)ret_peer->pid);
	return false;
}

static void
control_on_accept(struct loop_fd *watcher, unsigned events, void *arg)
{
	struct nbd_control *control = arg;
	int fd = accept4(watcher->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct ucred peer;

	(void)events;
	CHECK_OBJ(control, CONTROL_MAGIC);
	assert(watcher == &control->watcher);
	if (fd < 0)
		return; /* it went again, or comes again */
	if (!control_may_ask(fd, &peer)) {
		(void)close(fd);
		return;
	}
	for (uint32_t i = 0; i < NBD_CONTROL_CLIENTS_MAX; i++) {
		struct control_client *client = &control->clients[i];

		if (client->is_used)
			continue;
		*client = (struct control_client){ .control = control,
			.fd = fd,
			.is_used = true,
			.peer = peer };
		loop_fd_init(&client->watcher, fd, client_on_readable, client);
		if (loop_fd_start(control->server->options.loop, &client->watcher, LOOP_READABLE) ==
		    0)
			return;
		client->is_used = false;
		break;
	}
	(void)close(fd);
}

/* ---- life ---- */

static int
control_listen(struct nbd_control *control, const char *path)
{
	struct sockaddr_un address;
	int rc = unix_socket_address(path, &address);

	assert(control->fd < 0);
	if (rc == 0)
		rc = unix_socket_clear(&address, SOCK_SEQPACKET);
	if (rc != 0)
		return rc;
	control->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (control->fd < 0)
		return -errno;
	if (bind(control->fd, (struct sockaddr *)&address, sizeof(address)) != 0)
		return -errno;
	memcpy(control->path, path, strlen(path) + 1);
	if (chmod(path, 0600) != 0 || listen(control->fd, (int)NBD_CONTROL_CLIENTS_MAX) != 0)
		return -errno;
	loop_fd_init(&control->watcher, control->fd, control_on_accept, control);
	return loop_fd_start(control->server->options.loop, &control->watcher, LOOP_READABLE);
}

struct nbd_control *
nbd_control_create(struct nbd_server *server, const char *path, void (*on_given)(void *arg),
    void *arg, char *ret_error, size_t error_bytes)
{
	struct nbd_control *control = client_calloc(1, sizeof(*control));
	int rc = control == NULL ? -ENOMEM : 0;

	CHECK_OBJ(server, SERVER_MAGIC);
	assert(on_given != NULL);
	if (rc == 0) {
		control->magic = CONTROL_MAGIC;
		control->server = server;
		control->fd = -1;
		control->on_given = on_given;
		control->arg = arg;
		rc = control_listen(control, path);
	}
	if (rc == 0)
		return control;
	(void)snprintf(ret_error, error_bytes, "%s: %s", path, strerror(-rc));
	if (control != NULL && control->fd >= 0)
		(void)close(control->fd);
	free(control);
	return NULL;
}

void
nbd_control_persist(struct nbd_control *control, struct nbd_persistent *persistent)
{
	CHECK_OBJ(control, CONTROL_MAGIC);
	control->persistent = persistent;
}

void
nbd_control_destroy(struct nbd_control *control)
{
	if (control == NULL)
		return;
	CHECK_OBJ(control, CONTROL_MAGIC);
	if (control->taker != NULL)
		nbd_handover_cancel(control->server->handover);
	for (uint32_t i = 0; i < NBD_CONTROL_CLIENTS_MAX; i++) {
		if (control->clients[i].is_used && &control->clients[i] != control->taker)
			client_close(&control->clients[i]);
		else if (control->clients[i].is_used)
			(void)close(control->clients[i].fd);
	}
	loop_fd_stop(control->server->options.loop, &control->watcher);
	(void)close(control->fd);
	if (control->path[0] != '\0')
		(void)unlink(control->path);
	control->magic = 0;
	free(control);
}
