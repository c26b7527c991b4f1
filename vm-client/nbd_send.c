/* SPDX-License-Identifier: Apache-2.0 */
/* nbd_send.c -- what a connection has to say: text of the handshake first, then replies */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "nbd.h"

#define SEND_TEXT_BYTES_MAX (4u << 20) /* names of all exports */
#define SEND_TEXT_BYTES_MIN 4096u

bool
nbd_send_has_output(const struct nbd_connection *connection)
{
	return connection->text_sent_bytes < connection->text_bytes ||
	    !list_is_empty(&connection->replies);
}

static void
send_soon(struct nbd_connection *connection)
{
	loop_defer(connection->server->options.loop, &connection->send_task);
}

int
nbd_connection_text(struct nbd_connection *connection, const void *bytes, uint32_t count)
{
	uint32_t max = connection->text_max_bytes;

	if (connection->text_bytes + count > SEND_TEXT_BYTES_MAX)
		return -ENOMEM;
	while (max < connection->text_bytes + count)
		max = max == 0 ? SEND_TEXT_BYTES_MIN : 2 * max;
	if (max != connection->text_max_bytes) {
		uint8_t *text = realloc(connection->text, max);

		if (text == NULL)
			return -ENOMEM;
		connection->text = text;
		connection->text_max_bytes = max;
	}
	memcpy(connection->text + connection->text_bytes, bytes, count);
	connection->text_bytes += count;
	send_soon(connection);
	return 0;
}

void
nbd_connection_reply(struct nbd_connection *connection, struct nbd_request *request)
{
	list_push_back(&connection->replies, &request->send_link);
	send_soon(connection);
}

static int
add_iovec(struct iovec *iovecs, int count, const uint8_t *bytes, uint64_t total, uint64_t sent)
{
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

	LIST_FOREACH_SAFE(&connection->replies, link, next) {
		struct nbd_request *request = LIST_ENTRY(link, struct nbd_request, send_link);
		uint64_t data_sent = request->sent_bytes <= request->reply_bytes
		    ? 0
		    : request->sent_bytes - request->reply_bytes;

		if (count + 2 > NBD_SEND_IOVECS_MAX)
			break;
		count = add_iovec(iovecs, count, request->reply, request->reply_bytes,
		    request->sent_bytes);
		count = add_iovec(iovecs, count, request->reply_data, request->reply_data_bytes,
		    data_sent);
	}
	return count;
}

/* Whose were they? */
void
nbd_send_done(struct nbd_connection *connection, uint64_t bytes)
{
	uint64_t text_bytes = num_min(bytes, connection->text_bytes - connection->text_sent_bytes);

	connection->text_sent_bytes += (uint32_t)text_bytes;
	bytes -= text_bytes;
	if (connection->text_sent_bytes == connection->text_bytes)
		connection->text_sent_bytes = connection->text_bytes = 0;
	while (bytes > 0) {
		struct nbd_request *request =
		    LIST_ENTRY(list_first(&connection->replies), struct nbd_request, send_link);
		uint64_t left_bytes = request->reply_bytes + request->reply_data_bytes -
		    request->sent_bytes;

		if (bytes < left_bytes) {
			request->sent_bytes += bytes;
			return;
		}
		bytes -= left_bytes;
		list_remove(&request->send_link);
		nbd_request_sent(request);
	}
}
