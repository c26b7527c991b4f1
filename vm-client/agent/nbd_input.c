/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nbd_input.c -- see nbd_input.h
 *
 *	FLAGS: 4 bytes -> OPTIONS: heads with their data -> SERVING: heads of requests, payloads
 *
 * What is parsed was checked here or at its decoder (nbd_wire.c). A write's payload that is not in the buffer yet is
 * read to its place directly.
 */
#include "nbd_input.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "nbd_bitmap.h"
#include "nbd_command.h"

#define INPUT_TEXT_BYTES_HIGH (64u << 10)        /* of the handshake's answers, not yet sent */
#define INPUT_SKIP_BYTES_MAX (UINT64_C(1) << 32) /* payload of a request that is refused */
#define INPUT_GO_ON 1                            /* of a parser: there may be more to parse */

uint32_t
nbd_input_bytes(const struct nbd_connection *connection)
{
	assert(connection->input_at <= connection->input_end);
	return connection->input_end - connection->input_at;
}

bool
nbd_input_is_wanted(const struct nbd_connection *connection)
{
	CHECK_OBJ(connection, CONNECTION_MAGIC);
	if (!nbd_connection_is_open(connection) || connection->sm.state == NBD_CONNECTION_OPENING)
		return false;
	if (connection->is_parking && connection->server->is_carrying)
		return false;
	if (connection->receiving != NULL)
		return true; /* its memory is taken already */
	if (connection->is_parking)
		return false;
	/* A client that asks for lists and does not read them waits, too. */
	if (connection->sm.state != NBD_CONNECTION_SERVING &&
	    connection->text_bytes - connection->text_sent_bytes >= INPUT_TEXT_BYTES_HIGH)
		return false;
	if (connection->sm.state == NBD_CONNECTION_STARTTLS)
		return !nbd_send_has_output(connection);
	if (nbd_memory_is_waiting(connection))
		return false;
	return connection->request_count < NBD_REQUESTS_MAX &&
	    connection->in_flight_bytes < NBD_IN_FLIGHT_BYTES_MAX;
}

static const uint8_t *
input_take(struct nbd_connection *connection, uint32_t bytes)
{
	const uint8_t *at = connection->input + connection->input_at;

	assert(bytes <= nbd_input_bytes(connection));
	connection->input_at += bytes;
	return at;
}

/* Parsers. Each returns INPUT_GO_ON, 0: more bytes are needed or it must wait, or as nbd_input_parse. */

static int
input_broken(const char **ret_why, const char *why)
{
	*ret_why = why;
	return -EPROTO;
}

int
nbd_input_on_option(struct nbd_connection *connection, int rc, const char **ret_why)
{
	assert(rc <= 0);
	switch (rc) {
	case 0:
		return INPUT_GO_ON;
	case -EINPROGRESS:
		sm_move(&connection->sm, NBD_CONNECTION_OPENING);
		return 0;
	case -EALREADY:
		sm_move(&connection->sm, NBD_CONNECTION_STARTTLS);
		return 0;
	case -ESHUTDOWN:
		return rc;
	default:
		*ret_why = rc == -EPROTO ? "the handshake cannot go on" : cleave_error_text(rc);
		return rc;
	}
}

/* A list of all exports, or contexts, is long: is there memory for it? What is queued is counted once it is. */
static bool
take_text(struct nbd_connection *connection, uint32_t option)
{
	uint64_t bytes = option == NBD_OPT_LIST   ? nbd_option_list_bytes(connection)
	    : option == NBD_OPT_LIST_META_CONTEXT ? nbd_bitmap_list_bytes()
						  : 0;

	assert(connection->sm.state == NBD_CONNECTION_OPTIONS);
	if (!nbd_memory_take(connection, bytes))
		return false;
	nbd_memory_give(connection, bytes);
	return true;
}

static int
parse_option(struct nbd_connection *connection, const char **ret_why)
{
	struct nbd_option_head head;
	const uint8_t *data;

	assert(connection->sm.state == NBD_CONNECTION_OPTIONS);
	if (nbd_input_bytes(connection) < NBD_OPTION_BYTES || !nbd_input_is_wanted(connection))
		return 0;
	if (nbd_option_head_decode(connection->input + connection->input_at, &head) != 0)
		return input_broken(ret_why, "no option where one must be");
	if (head.length_bytes > NBD_OPTION_DATA_BYTES_MAX)
		return input_broken(ret_why, "an option's data is too long");
	if (nbd_input_bytes(connection) < NBD_OPTION_BYTES + head.length_bytes ||
	    !take_text(connection, head.option))
		return 0;
	data = input_take(connection, NBD_OPTION_BYTES + head.length_bytes) + NBD_OPTION_BYTES;
	return nbd_input_on_option(connection, nbd_option_run(connection, &head, data), ret_why);
}

static int
parse_flags(struct nbd_connection *connection, const char **ret_why)
{
	assert(connection->sm.state == NBD_CONNECTION_FLAGS);
	if (nbd_input_bytes(connection) < 4)
		return 0;
	if (nbd_client_flags(connection, input_take(connection, 4)) != 0)
		return input_broken(ret_why, "unknown client flags");
	sm_move(&connection->sm, NBD_CONNECTION_OPTIONS);
	return INPUT_GO_ON;
}

/* Where the next byte of the payload that is received goes. */
static uint8_t *
payload_place(const struct nbd_connection *connection)
{
	const struct nbd_request *request = connection->receiving;

	assert(connection->received_bytes <= request->head.length_bytes);
	return (uint8_t *)(uintptr_t)request->reply.data + connection->received_bytes;
}

static uint64_t
payload_left_bytes(const struct nbd_connection *connection)
{
	const struct nbd_request *receiving = connection->receiving;

	CHECK_OBJ(receiving, REQUEST_MAGIC);
	assert(connection->received_bytes <= receiving->head.length_bytes);
	return receiving->head.length_bytes - connection->received_bytes;
}

/* Payload that is in the buffer already. */
static int
parse_payload(struct nbd_connection *connection)
{
	struct nbd_request *request = connection->receiving;
	uint32_t bytes =
	    (uint32_t)num_min(nbd_input_bytes(connection), payload_left_bytes(connection));

	assert(request->sm.state == NBD_REQUEST_RECEIVING);
	memcpy(payload_place(connection), input_take(connection, bytes), bytes);
	connection->received_bytes += bytes;
	nbd_memory_moved(connection, bytes);
	if (payload_left_bytes(connection) > 0)
		return 0;
	connection->receiving = NULL;
	nbd_request_received(request);
	return INPUT_GO_ON;
}

/* Payload of a request that was refused. */
static void
skip_payload(struct nbd_connection *connection)
{
	uint32_t bytes = (uint32_t)num_min(connection->skip_bytes, nbd_input_bytes(connection));

	(void)input_take(connection, bytes);
	connection->skip_bytes -= bytes;
}

static int
parse_request(struct nbd_connection *connection, const char **ret_why)
{
	uint32_t head_bytes = connection->style == NBD_EXTENDED ? NBD_EXTENDED_REQUEST_BYTES
								: NBD_REQUEST_BYTES;
	struct nbd_command_shape shape;
	struct nbd_request_head head;

	assert(connection->sm.state == NBD_CONNECTION_SERVING);
	if (connection->receiving != NULL)
		return parse_payload(connection);
	skip_payload(connection);
	if (connection->skip_bytes > 0)
		return 0;
	if (nbd_input_bytes(connection) < head_bytes || !nbd_input_is_wanted(connection))
		return 0;
	if (nbd_request_decode(connection->input + connection->input_at, connection->style,
		&head) != 0)
		return input_broken(ret_why, "no request where one must be");
	if (head.type == NBD_CMD_DISC)
		return -ESHUTDOWN;
	if (nbd_command_has_payload(connection, &head) && head.length_bytes > INPUT_SKIP_BYTES_MAX)
		return input_broken(ret_why, "a payload of more than 4 GiB");
	shape = nbd_command_shape_of(connection, &head);
	if (!nbd_memory_take(connection, nbd_request_bytes(&shape)))
		return 0;
	(void)input_take(connection, head_bytes);
	connection->received_bytes = 0;
	connection->receiving =
	    nbd_request_start(connection, &head, &shape, &connection->skip_bytes);
	if (connection->receiving != NULL && !nbd_send_has_output(connection))
		nbd_memory_moved(connection, 0);
	return INPUT_GO_ON;
}

int
nbd_input_parse(struct nbd_connection *connection, const char **ret_why)
{
	int rc = INPUT_GO_ON;

	assert(connection->is_busy); /* requests that end in it do not come back here */
	while (rc == INPUT_GO_ON && nbd_connection_is_open(connection)) {
		if (connection->sm.state == NBD_CONNECTION_FLAGS)
			rc = parse_flags(connection, ret_why);
		else if (connection->sm.state == NBD_CONNECTION_OPTIONS)
			rc = parse_option(connection, ret_why);
		else if (connection->sm.state == NBD_CONNECTION_SERVING)
			rc = parse_request(connection, ret_why);
		else
			rc = 0;
	}
	return rc == INPUT_GO_ON ? 0 : rc;
}

/* Reading. */

static ssize_t
read_some(struct nbd_connection *connection, void *data, uint64_t bytes)
{
	uint32_t count = nbd_carry_take(connection, data, bytes);

	assert(bytes > 0); /* none would look like the peer's end */
	return count > 0 ? (ssize_t)count : connection->stream->read(connection, data, bytes);
}

ssize_t
nbd_input_read(struct nbd_connection *connection)
{
	ssize_t n;

	if (connection->receiving != NULL && nbd_input_bytes(connection) == 0) {
		n = read_some(connection, payload_place(connection),
		    payload_left_bytes(connection));
		if (n > 0) {
			connection->received_bytes += (uint64_t)n;
			nbd_memory_moved(connection, (uint64_t)n);
		}
		return n;
	}
	if (connection->input_at > 0) {
		memmove(connection->input, connection->input + connection->input_at,
		    nbd_input_bytes(connection));
		connection->input_end -= connection->input_at;
		connection->input_at = 0;
	}
	assert(connection->input_end <= NBD_INPUT_BYTES);
	n = read_some(connection, connection->input + connection->input_end,
	    NBD_INPUT_BYTES - connection->input_end);
	if (n > 0)
		connection->input_end += (uint32_t)n;
	return n;
}
