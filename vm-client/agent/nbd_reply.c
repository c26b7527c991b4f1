/* SPDX-License-Identifier: Apache-2.0 */
/* nbd_reply.c -- see nbd_reply.h */
#include "nbd_reply.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "nbd_command.h"

/*
 * Extents become descriptors where they are: those are no larger, so none is overwritten before it was
 * read. Blocks of which just a part was asked for end where the question does.
 */
static void
reply_make_status(struct nbd_request *request)
{
	enum nbd_reply_style style = request->connection->style;
	const struct nbd_request_head *head = &request->head;
	uint64_t at = request->first_bytes, descriptor_bytes = 0;
	uint32_t count = 0;

	assert(head->type == NBD_CMD_BLOCK_STATUS);
	_Static_assert(sizeof(struct cleave_extent) >= NBD_EXTENT_BYTES_MAX, "in place");
	for (uint32_t i = 0; i < request->ios[0].extent_count; i++) {
		struct cleave_extent extent;
		uint64_t begin = num_max(at, head->offset_bytes), end;

		memcpy(&extent, request->data + i * sizeof(extent), sizeof(extent));
		at += extent.length_bytes;
		end = num_min(at, nbd_command_end(head));
		if (begin >= end)
			continue;
		descriptor_bytes += nbd_put_extent(request->data + descriptor_bytes, style,
		    end - begin,
		    ((extent.flags & CLEAVE_EXTENT_HOLE) != 0 ? NBD_STATE_HOLE : 0) |
			((extent.flags & CLEAVE_EXTENT_ZERO) != 0 ? NBD_STATE_ZERO : 0));
		count++;
	}
	request->reply.head_bytes =
	    nbd_put_status(request->reply.head, style, head, NBD_CONTEXT_ID, count);
	request->reply.data = request->data;
	request->reply.data_bytes = descriptor_bytes;
}

void
nbd_reply_make(struct nbd_request *request)
{
	enum nbd_reply_style style = request->connection->style;
	const struct nbd_request_head *head = &request->head;
	uint64_t skew = head->offset_bytes - request->first_bytes;

	assert(request->io_out == 0); /* libcleave has nothing of its memory */
	assert(request->reply.data == NULL && request->reply.data_bytes == 0);
	/* An answer that says nothing would be asked for again for ever. */
	if (head->type == NBD_CMD_BLOCK_STATUS && request->rc == 0 &&
	    request->ios[0].extent_count == 0)
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
		reply_make_status(request);
	} else {
		request->reply.head_bytes = nbd_put_done(request->reply.head, style, head);
	}
}
