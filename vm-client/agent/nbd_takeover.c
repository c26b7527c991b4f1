/* SPDX-License-Identifier: Apache-2.0 */
/* nbd_takeover.c -- the new agent's side of nbd_handover.h; it runs before the loop does, and blocks */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "nbd_bitmap.h"
#include "nbd_handover.h"
#include "nbd_packet.h"

static int
take_listener(struct nbd_server *server, const json_t *object, int fd)
{
	const char *path = "";

	if (fd < 0 || json_unpack((json_t *)(uintptr_t)object, "{s:s}", "path", &path) != 0)
		return -EBADMSG;
	if (nbd_server_is_exposed(server, fd))
		return -EPERM;
	return nbd_server_adopt(server, fd, path);
}

/* An export that was attached at run time, or that goes with its last client. One of our own goes before. */
static int
take_export(struct nbd_server *server, const json_t *object)
{
	const char *name;
	struct nbd_export *export;
	int is_read_only, is_on_demand = 0;

	if (json_unpack((json_t *)(uintptr_t)object, "{s:s, s:b, s?b}", "name", &name, "read_only",
		&is_read_only, "on_demand", &is_on_demand) != 0)
		return -EBADMSG;
	if (nbd_export_by_name(server, name) != NULL)
		return 0;
	export = nbd_export_add(server, name, is_read_only != 0 || server->options.is_read_only);
	if (export == NULL)
		return errno == EINVAL ? -EBADMSG : -errno;
	export->is_on_demand = is_on_demand != 0;
	export->is_attached = !export->is_on_demand;
	loop_defer(server->options.loop, &export->open_task); /* to free it, if nobody uses it */
	log_info("agent: attached name=%s by=predecessor", name);
	return 0;
}

/* The contexts that the predecessor gave: one that is not there any more is LOST, and what asks about it fails. */
static int
adopt_bitmaps(struct nbd_connection *connection, const char *export, const json_t *names)
{
	const json_t *name;
	size_t i;
	int rc = 0;

	if (json_array_size(names) > NBD_BITMAPS_MAX)
		return -EBADMSG;
	json_array_foreach((json_t *)(uintptr_t)names, i, name)
	{
		if (rc == 0 && json_string_length(name) == 0)
			rc = -EBADMSG;
		if (rc == 0)
			rc = nbd_bitmap_add(connection, export, json_string_value(name),
			    (uint32_t)json_string_length(name));
	}
	return rc;
}

/* The export of a connection, as its predecessor had it. */
struct given {
	const char *name;
	uint64_t volume_id; /* 0: the predecessor does not say */
	bool was_writing;
	const json_t *bitmaps; /* NULL: of a predecessor that has none */
};

/* A connection as it was: it serves as soon as its export is open. */
static int
adopt(struct nbd_server *server, int fd, const struct nbd_connection *as, const struct given *given,
    const struct nbd_carry *carry)
{
	const char *name = given->name;
	struct nbd_export *export = nbd_export_by_name(server, name); /* on demand, too */
	struct nbd_connection *connection;
	int rc;

	if (export == NULL)
		export = nbd_export_find(server, name, (uint32_t)strlen(name));

	assert(as->input_end <= NBD_INPUT_BYTES && carry->fd >= -1);
	if (export == NULL) {
		log_error("nbd: not handed over, it is not exported here name=%s peer=%s: name it "
			  "with --volume, or in the file of --exports",
		    name, as->peer);
		(void)close(fd);
		return -ENXIO;
	}
	connection = nbd_connection_create(server, fd, fd, as->peer, false);
	if (connection == NULL)
		return -ENOMEM;
	/* The volume's holder is the process that gives this, and it is about to go. */
	export->must_take = export->must_take || given->was_writing;
	if (given->volume_id != 0)
		export->given_id = given->volume_id;
	connection->style = as->style;
	connection->has_context = as->has_context;
	connection->skip_bytes = as->skip_bytes;
	memcpy(connection->input, as->input, as->input_end);
	connection->input_end = as->input_end;
	rc = nbd_carry_load(connection, carry);
	if (rc == 0)
		rc = adopt_bitmaps(connection, name, given->bitmaps);
	if (rc == 0)
		nbd_export_use(export, connection);
	return rc;
}

static int
take_connection(struct nbd_server *server, const json_t *object, const int fds[NBD_PACKET_FDS_MAX],
    const uint8_t *data, size_t bytes)
{
	json_int_t volume_id = 0, skip_bytes = 0, output_bytes = 0, input_bytes = 0;
	struct nbd_connection as = { 0 };
	struct nbd_carry carry = { .fd = fds[1] };
	struct given given = { 0 };
	const char *peer;
	int style, has_context, was_writing = 0;

	if (fds[0] < 0 || bytes > NBD_INPUT_BYTES ||
	    json_unpack((json_t *)(uintptr_t)object,
		"{s:s, s?I, s?b, s:s, s:i, s:b, s?I, s?I, s?I, s?o}", "export", &given.name,
		"volume_id", &volume_id, "writing", &was_writing, "peer", &peer, "style", &style,
		"has_context", &has_context, "skip_bytes", &skip_bytes, "output_bytes",
		&output_bytes, "input_bytes", &input_bytes, "bitmaps", &given.bitmaps) != 0 ||
	    style < NBD_SIMPLE || style > NBD_EXTENDED || volume_id < 0 || skip_bytes < 0 ||
	    output_bytes < 0 || input_bytes < 0)
		return -EBADMSG;
	as.style = (enum nbd_reply_style)style;
	as.has_context = has_context != 0;
	as.skip_bytes = (uint64_t)skip_bytes;
	as.input = (uint8_t *)(uintptr_t)data;
	as.input_end = (uint32_t)bytes;
	carry.output_bytes = (uint64_t)output_bytes;
	carry.input_bytes = (uint64_t)input_bytes;
	(void)snprintf(as.peer, sizeof(as.peer), "%s", peer);
	given.volume_id = (uint64_t)volume_id;
	given.was_writing = was_writing != 0;
	return adopt(server, fds[0], &as, &given, &carry);
}

/* 0; 1 at the end; negative errno. */
static int
take_packet(struct nbd_server *server, int fd, uint8_t *buffer)
{
	const uint8_t *data;
	size_t bytes;
	int given[NBD_PACKET_FDS_MAX], rc = 1;
	json_t *object = nbd_packet_receive(fd, buffer, given, &data, &bytes);

	CHECK_OBJ(server, SERVER_MAGIC);
	if (object == NULL)
		return -errno;
	if (json_object_get(object, "listener") != NULL)
		rc = take_listener(server, json_object_get(object, "listener"), given[0]);
	else if (json_object_get(object, "connection") != NULL)
		rc = take_connection(server, json_object_get(object, "connection"), given, data,
		    bytes);
	else if (json_object_get(object, "export") != NULL)
		rc = take_export(server, json_object_get(object, "export"));
	else if (json_object_get(object, "kept") != NULL)
		rc = -EBUSY;
	else if (json_object_get(object, "end") == NULL)
		rc = -EBADMSG;
	json_decref(object);
	if (given[1] >= 0)
		(void)close(given[1]); /* it was read */
	return rc;
}

/* The predecessor says that its clients are ours, or it has died: in either case it reads them no more. */
static int
wait_for_leave(int fd, uint8_t *buffer)
{
	const uint8_t *data;
	size_t bytes;
	int given[NBD_PACKET_FDS_MAX], rc;
	json_t *object = nbd_packet_receive(fd, buffer, given, &data, &bytes);

	if (object == NULL)
		return errno == ECONNRESET ? 0 : -errno;
	rc = json_object_get(object, "yours") != NULL ? 0 : -EBUSY;
	json_decref(object);
	nbd_packet_close(given);
	return rc;
}

static int
take_all(struct nbd_server *server, int fd)
{
	uint8_t *buffer = client_malloc(NBD_PACKET_BYTES_MAX);
	int rc = buffer == NULL ? -ENOMEM : nbd_packet_limit(fd, NBD_HANDOVER_S);

	if (rc == 0)
		rc = nbd_packet_send(fd,
		    json_pack("{s:s, s:b, s:b, s:b}", "op", "give", "carries", 1, "bitmaps", 1,
			"exports", 1),
		    NULL, 0, NULL, 0);
	while (rc == 0)
		rc = take_packet(server, fd, buffer);
	if (rc > 0)
		rc = nbd_packet_send(fd, json_pack("{s:b}", "taken", 1), NULL, 0, NULL, 0);
	if (rc == 0)
		rc = wait_for_leave(fd, buffer);
	free(buffer);
	return rc;
}

static const char *
take_text(int rc)
{
	assert(rc < 0);
	if (rc == -EBUSY)
		return "the agent there keeps its clients";
	if (rc == -ENXIO)
		return "a client there uses what is not exported here: the agent there keeps its clients";
	if (rc == -EPERM)
		return "the agent there keeps its clients: of an address where it listens, " NBD_OPEN_TEXT;
	return strerror(-rc);
}

int
nbd_handover_take(struct nbd_server *server, const char *path, char *ret_error, size_t error_bytes)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	int rc = fd < 0 ? -errno : 0;

	CHECK_OBJ(server, SERVER_MAGIC);
	assert(!loop_is_running(server->options.loop)); /* this blocks */
	if (rc == 0 && strlen(path) >= sizeof(address.sun_path))
		rc = -ENAMETOOLONG;
	if (rc == 0) {
		memcpy(address.sun_path, path, strlen(path) + 1);
		if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
			rc = -errno;
	}
	if (rc == 0)
		rc = take_all(server, fd);
	if (rc != 0) {
		nbd_server_forget_listeners(server);
		(void)snprintf(ret_error, error_bytes, "%s: %s", path, take_text(rc));
	}
	if (fd >= 0)
		(void)close(fd);
	return rc;
}
