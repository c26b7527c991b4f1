/* SPDX-License-Identifier: Apache-2.0 */
/* nbd_reply.c -- see nbd_reply.h */
#include "nbd_reply.h"

#include <errno.h>

#include "base/check.h"
#include "nbd_bitmap.h"

/* An answer that says nothing of a context would be asked for again for ever. */
static bool
reply_is_empty(const struct nbd_request *request)
{
	if (request->head.type != NBD_CMD_BLOCK_STATUS || request->rc != 0)
		return false;
	for (uint32_t i = 0; i < request->io_count; i++) {
		if (request->ios[i].extent_count == 0)
			return true;
	}
	return false;
}

void
nbd_reply_make(struct nbd_request *request)
{
	enum nbd_reply_style style = request->connection->style;
	const struct nbd_request_head *head = &request->head;
	uint64_t skew = head->offset_bytes - request->first_bytes;

	assert(request->io_out == 0); /* libcleave has nothing of its memory */
	assert(request->reply.data == NULL && request->reply.data_bytes == 0);
	if (reply_is_empty(request))
		request->rc = -EIO;
	if (request->rc != 0) {
		nbd_export_on_error(request->export, request->rc);
		/* A read beyond the end is invalid; only changes run out of space. */
		request->reply.head_bytes = nbd_put_error(request->reply.head, style, head,
		    head->type == NBD_CMD_READ && request->rc == -ERANGE
			? NBD_EINVAL
			: nbd_error_of(request->rc),
		    0);
	} else if (head->type == NBD_CMD_READ && request->parts == NULL) {
		request->reply.head_bytes = nbd_put_data(request->reply.head, style, head);
		request->reply.data = request->data + skew;
		request->reply.data_bytes = head->length_bytes;
	} else if (head->type == NBD_CMD_BLOCK_STATUS) {
		nbd_status_reply(request);
	} else {
		request->reply.head_bytes = nbd_put_done(request->reply.head, style, head);
	}
}
