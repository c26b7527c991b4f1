/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nbd_send.c -- what a connection has to say: text of the handshake first, then replies
 *
 * The data of a long read leaves in the parts in which it comes, as chunks of a structured reply: it is
 * still in the cache then, and the gateway makes the next one meanwhile. Parts that wait for the socket
 * grow together, so that a slow peer gets few long ones.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "nbd.h"

#define SEND_TEXT_BYTES_MAX (4u << 20) /* names of all exports */
#define SEND_TEXT_BYTES_MIN 4096u
#define SEND_TEXT_BYTES_KEPT 65536u

bool
nbd_send_has_output(const struct nbd_connection *connection)
{
	CHECK_OBJ(connection, CONNECTION_MAGIC);
	assert(connection->text_sent_bytes <= connection->text_bytes);
	return connection->text_sent_bytes < connection->text_bytes ||
	    !list_is_empty(&connection->replies);
}

static void
send_soon(struct nbd_connection *connection)
{
	if (!nbd_send_has_output(connection))
		nbd_memory_moved(connection, 0);
	loop_defer(connection->server->options.loop, &connection->send_task);
}

int
nbd_connection_text(struct nbd_connection *connection, const void *bytes, uint32_t count)
{
	uint32_t max = connection->text_max_bytes;

	CHECK_OBJ(connection, CONNECTION_MAGIC);
	assert(connection->text_bytes <= connection->text_max_bytes);
	if (connection->text_bytes + count > SEND_TEXT_BYTES_MAX)
		return -ENOMEM;
	while (max < connection->text_bytes + count)
		max = max == 0 ? SEND_TEXT_BYTES_MIN : 2 * max;
	if (max != connection->text_max_bytes) {
		uint8_t *text = client_realloc(connection->text, max);

		if (text == NULL)
			return -ENOMEM;
		nbd_memory_force(connection, max - connection->text_max_bytes);
		connection->text = text;
		connection->text_max_bytes = max;
	}
	send_soon(connection);
	memcpy(connection->text + connection->text_bytes, bytes, count);
	connection->text_bytes += count;
	return 0;
}

static void
send_output(struct nbd_connection *connection, struct nbd_output *output)
{
	assert(!list_contains(&output->link));
	send_soon(connection);
	list_push_back(&connection->replies, &output->link);
}

void
nbd_connection_reply(struct nbd_connection *connection, struct nbd_request *request)
{
	CHECK_OBJ(request, REQUEST_MAGIC);
	assert(request->connection == connection);
	request->reply.request = request;
	request->reply.is_last = true;
	send_output(connection, &request->reply);
}

/* ---- parts ---- */

static struct nbd_output *
newest_part(struct nbd_request *request)
{
	struct nbd_output *part;

	assert(request->part_count <= request->part_max);
	if (request->part_count == 0)
		return NULL;
	part = &request->parts[request->part_count - 1];
	return list_contains(&part->link) && !part->is_gathered ? part : NULL;
}

static void
part_set_head(struct nbd_output *part)
{
	const struct nbd_request *request = part->request;

	assert(part->data >= request->data);
	part->head_bytes = nbd_put_part(part->head, request->connection->style, &request->head,
	    request->first_bytes + (uint64_t)(part->data - request->data), part->data_bytes,
	    part->is_last);
}

void
nbd_connection_part(struct nbd_connection *connection, struct nbd_request *request,
    uint64_t offset_bytes, uint64_t bytes)
{
	const uint8_t *data = request->data + (offset_bytes - request->first_bytes);
	struct nbd_output *part = newest_part(request);

	assert(bytes > 0 && offset_bytes >= request->first_bytes);
	request->parts_bytes += bytes;
	if (part != NULL && part->data + part->data_bytes == data) {
		part->data_bytes += bytes;
		part_set_head(part);
		return;
	}
	assert(request->part_count < request->part_max);
	part = &request->parts[request->part_count++];
	*part = (struct nbd_output){ .request = request, .data = data, .data_bytes = bytes };
	part_set_head(part);
	send_output(connection, part);
}

bool
nbd_connection_end_parts(struct nbd_request *request)
{
	struct nbd_output *part = newest_part(request);

	CHECK_OBJ(request, REQUEST_MAGIC);
	if (part == NULL)
		return false;
	part->is_last = true;
	part_set_head(part);
	return true;
}

/* ---- sending ---- */

static int
add_iovec(struct iovec *iovecs, int count, const uint8_t *bytes, uint64_t total, uint64_t sent)
{
	assert(count < NBD_SEND_IOVECS_MAX);
	if (sent >= total)
		return count;
	iovecs[count] = (struct iovec){ (void *)(uintptr_t)(bytes + sent), (size_t)(total - sent) };
	return count + 1;
}

int
nbd_send_gather(struct nbd_connection *connection, struct iovec *iovecs)
{
	struct loop_link *link, *next;
	int count = add_iovec(iovecs, 0, connection->text, connection->text_bytes,
	    connection->text_sent_bytes);

	CHECK_OBJ(connection, CONNECTION_MAGIC);
	LIST_FOREACH_SAFE(&connection->replies, link, next) {
		struct nbd_output *output = LIST_ENTRY(link, struct nbd_output, link);
		uint64_t data_sent = output->sent_bytes <= output->head_bytes
		    ? 0
		    : output->sent_bytes - output->head_bytes;

		if (count + 2 > NBD_SEND_IOVECS_MAX)
			break;
		output->is_gathered = true;
		count =
		    add_iovec(iovecs, count, output->head, output->head_bytes, output->sent_bytes);
		count = add_iovec(iovecs, count, output->data, output->data_bytes, data_sent);
	}
	return count;
}

static void
text_done(struct nbd_connection *connection)
{
	assert(connection->text_sent_bytes == connection->text_bytes);
	connection->text_sent_bytes = connection->text_bytes = 0;
	if (connection->text_max_bytes <= SEND_TEXT_BYTES_KEPT)
		return;
	nbd_memory_give(connection, connection->text_max_bytes);
	free(connection->text);
	connection->text = NULL;
	connection->text_max_bytes = 0;
}

/* The bytes were those at the front of the output: first the handshake's text, then replies in order. */
void
nbd_send_done(struct nbd_connection *connection, uint64_t bytes)
{
	uint64_t text_bytes = num_min(bytes, connection->text_bytes - connection->text_sent_bytes);

	CHECK_OBJ(connection, CONNECTION_MAGIC);
	nbd_memory_moved(connection, bytes);
	connection->text_sent_bytes += (uint32_t)text_bytes;
	bytes -= text_bytes;
	if (connection->text_bytes > 0 && connection->text_sent_bytes == connection->text_bytes)
		text_done(connection);
	while (bytes > 0) {
		struct nbd_output *output =
		    LIST_ENTRY(list_first(&connection->replies), struct nbd_output, link);
		uint64_t left_bytes = output->head_bytes + output->data_bytes - output->sent_bytes;

		assert(output->is_gathered);
		if (bytes < left_bytes) {
			output->sent_bytes += bytes;
			return;
		}
		bytes -= left_bytes;
		list_remove(&output->link);
		if (output->is_last)
			nbd_request_sent(output->request);
	}
}
