/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nbd_carry.c -- what a connection has begun to receive, or not yet sent, goes along when it is handed over
 *
 * In a file in memory: first the bytes of replies that its client has not taken, then requests as they
 * came: the one whose payload is half here, and reads of whose data nothing has left, which are done
 * again; then what was read from the socket. The next agent sends the former before anything else, and reads the latter before the socket. So
 * whoever is slow, in either direction, holds up nobody's hand-over, and little goes along.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/num.h"
#include "nbd.h"

static int
write_all(int fd, const void *bytes, uint64_t count)
{
	const uint8_t *at = bytes;

	assert(fd >= 0 && (bytes != NULL || count == 0));
	while (count > 0) {
		ssize_t n = write(fd, at, count);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		at += n;
		count -= (uint64_t)n;
	}
	return 0;
}

/* Writes the rest of @bytes, once *@sent of this and what follows have gone. */
static int
write_left(int fd, const uint8_t *bytes, uint64_t count, uint64_t *sent)
{
	uint64_t gone = num_min(*sent, count);

	*sent -= gone;
	return count == gone ? 0 : write_all(fd, bytes + gone, count - gone);
}

static bool
is_untouched(const struct nbd_connection *connection, const struct nbd_output *output)
{
	/* TLS may have made a record of the first output that the socket did not take: see nbd_relay.c. */
	return list_contains(&output->link) && output->sent_bytes == 0 &&
	    connection->replies.next != &output->link;
}

/* A read that has its data, which is as large as may be, and has sent nothing of it. */
static bool
is_done_again(const struct nbd_request *request)
{
	const struct nbd_connection *connection = request->connection;

	/* With bytes to be skipped its head would be taken for these. */
	if (request->head.type != NBD_CMD_READ || request->sm.state != NBD_REQUEST_REPLYING ||
	    request->rc != 0 || connection->skip_bytes > 0)
		return false;
	for (uint32_t i = 0; i < request->part_count; i++) {
		if (!is_untouched(connection, &request->parts[i]))
			return false;
	}
	return request->part_count > 0 || is_untouched(connection, &request->reply);
}

static int
save_output(const struct nbd_connection *connection, int fd)
{
	uint64_t sent = connection->text_sent_bytes;
	struct loop_link *link, *next;
	int rc = write_left(fd, connection->text, connection->text_bytes, &sent);

	assert(connection->text_sent_bytes <= connection->text_bytes);
	LIST_FOREACH_SAFE(&connection->replies, link, next) {
		const struct nbd_output *output = LIST_ENTRY(link, struct nbd_output, link);

		if (is_done_again(output->request))
			continue;
		sent = output->sent_bytes;
		if (rc == 0)
			rc = write_left(fd, output->head, output->head_bytes, &sent);
		if (rc == 0)
			rc = write_left(fd, output->data, output->data_bytes, &sent);
	}
	return rc;
}

static int
save_head(const struct nbd_connection *connection, const struct nbd_request *request, int fd)
{
	uint8_t head[NBD_EXTENDED_REQUEST_BYTES];

	assert(connection->style == NBD_EXTENDED || request->head.length_bytes <= UINT32_MAX);
	return write_all(fd, head, nbd_put_request(head, connection->style, &request->head));
}

static int
save_input(const struct nbd_connection *connection, int fd)
{
	const struct nbd_request *receiving = connection->receiving;
	struct loop_link *link, *next;
	int rc = 0;

	assert(receiving == NULL || receiving->sm.state == NBD_REQUEST_RECEIVING);
	assert(connection->input_at <= connection->input_end);
	LIST_FOREACH_SAFE(&connection->requests, link, next) {
		const struct nbd_request *request = LIST_ENTRY(link, struct nbd_request, link);

		if (rc == 0 && is_done_again(request))
			rc = save_head(connection, request, fd);
	}
	if (receiving != NULL && rc == 0)
		rc = save_head(connection, receiving, fd);
	if (receiving != NULL && rc == 0)
		rc = write_all(fd, receiving->reply.data, connection->received_bytes);
	if (rc == 0)
		rc = write_all(fd, connection->input + connection->input_at,
		    connection->input_end - connection->input_at);
	return rc;
}

int
nbd_carry_save(const struct nbd_connection *connection, struct nbd_carry *ret_carry)
{
	struct nbd_carry carry = { .fd = -1 };
	off_t middle = 0, end = 0;
	int rc;

	CHECK_OBJ(connection, CONNECTION_MAGIC);
	assert(connection->is_parking && connection->is_frozen);
	if (!nbd_send_has_output(connection) && connection->receiving == NULL) {
		*ret_carry = carry;
		return 0;
	}
	carry.fd = memfd_create("nbd", MFD_CLOEXEC);
	if (carry.fd < 0)
		return -errno;
	rc = save_output(connection, carry.fd);
	if (rc == 0)
		middle = lseek(carry.fd, 0, SEEK_CUR);
	if (rc == 0)
		rc = save_input(connection, carry.fd);
	if (rc == 0)
		end = lseek(carry.fd, 0, SEEK_CUR);
	if (rc != 0) {
		(void)close(carry.fd);
		return rc;
	}
	carry.output_bytes = (uint64_t)middle;
	carry.input_bytes = (uint64_t)(end - middle);
	*ret_carry = carry;
	return 0;
}

/* @bytes of @fd from @offset on, as allocated memory; NULL: errno. */
static uint8_t *
read_all(int fd, uint64_t offset, uint64_t bytes)
{
	uint8_t *memory = client_malloc(bytes);

	assert(fd >= 0 && bytes > 0 && bytes <= NBD_CARRY_BYTES_MAX);
	if (memory != NULL && pread(fd, memory, bytes, (off_t)offset) != (ssize_t)bytes) {
		free(memory);
		errno = EBADMSG;
		return NULL;
	}
	return memory;
}

int
nbd_carry_load(struct nbd_connection *connection, const struct nbd_carry *carry)
{
	struct stat status;

	assert(connection->text == NULL && connection->carried == NULL);
	if (carry->fd < 0)
		return carry->output_bytes == 0 && carry->input_bytes == 0 ? 0 : -EBADMSG;
	if (fstat(carry->fd, &status) != 0)
		return -errno;
	if (carry->output_bytes > NBD_CARRY_BYTES_MAX || carry->input_bytes > NBD_CARRY_BYTES_MAX ||
	    carry->output_bytes + carry->input_bytes != (uint64_t)status.st_size)
		return -EBADMSG;
	if (carry->output_bytes > 0) {
		connection->text = read_all(carry->fd, 0, carry->output_bytes);
		if (connection->text == NULL)
			return -errno;
		connection->text_bytes = connection->text_max_bytes = (uint32_t)carry->output_bytes;
		nbd_memory_force(connection, carry->output_bytes);
	}
	if (carry->input_bytes > 0) {
		connection->carried = read_all(carry->fd, carry->output_bytes, carry->input_bytes);
		if (connection->carried == NULL)
			return -errno;
		connection->carried_bytes = (uint32_t)carry->input_bytes;
	}
	return 0;
}

uint32_t
nbd_carry_take(struct nbd_connection *connection, void *data, uint64_t bytes)
{
	uint32_t count =
	    (uint32_t)num_min(bytes, connection->carried_bytes - connection->carried_at);

	assert(connection->carried_at <= connection->carried_bytes);
	if (count == 0)
		return 0;
	memcpy(data, connection->carried + connection->carried_at, count);
	connection->carried_at += count;
	if (connection->carried_at == connection->carried_bytes) {
		free(connection->carried);
		connection->carried = NULL;
		connection->carried_at = connection->carried_bytes = 0;
	}
	return count;
}
