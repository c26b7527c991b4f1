/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nbd_status.c -- NBD_CMD_BLOCK_STATUS: one question of libcleave's for each context, one part of the reply for each
 *
 *	contexts     base:allocation (id 1)    qemu:dirty-bitmap:A (2)    qemu:dirty-bitmap:B (3)
 *	request->ios asks the export's volume  asks the difference        asks the difference
 *	data         |extents ..               |head|extents ..           |head|extents ..
 *
 * Extents become descriptors where they are, part behind part: descriptors are no larger than extents, and heads have
 * room of their own, so nothing is overwritten before it was read.
 */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "library/retry.h"
#include "nbd_bitmap.h"
#include "nbd_command.h"

#define STATUS_AREA_BYTES 16384u /* of a context: room for 1,020 extents */

/* A context's number among the connection's: 0 is base:allocation where that was agreed upon. */
struct status_context {
	uint32_t id;               /* on the wire */
	struct nbd_bitmap *bitmap; /* NULL: base:allocation */
};

static struct status_context
status_context(const struct nbd_connection *connection, uint32_t index)
{
	assert(index < nbd_status_contexts(connection));
	if (connection->has_context && index == 0)
		return (struct status_context){ NBD_CONTEXT_ID, NULL };
	index -= connection->has_context;
	return (struct status_context){ NBD_CONTEXT_ID_BITMAP + index,
		connection->bitmaps[index].bitmap };
}

static uint8_t *
status_area(const struct nbd_request *request, uint32_t index)
{
	assert((index + 1) * (uint64_t)STATUS_AREA_BYTES <= request->data_bytes);
	return request->data + (size_t)index * STATUS_AREA_BYTES;
}

uint32_t
nbd_status_contexts(const struct nbd_connection *connection)
{
	CHECK_OBJ(connection, CONNECTION_MAGIC);
	return (uint32_t)connection->has_context + connection->bitmap_count;
}

uint64_t
nbd_status_bytes(const struct nbd_connection *connection)
{
	return nbd_status_contexts(connection) * (uint64_t)STATUS_AREA_BYTES;
}

/* ---- asking ---- */

static void
status_plan_one(struct nbd_request *request, uint32_t index)
{
	const struct nbd_bitmap *bitmap = status_context(request->connection, index).bitmap;
	struct cleave_io *io = &request->ios[index];
	uint64_t end = request->end_bytes;

	assert(request->first_bytes < end);
	*io = (struct cleave_io){ .op = CLEAVE_BLOCK_STATUS, .offset_bytes = request->first_bytes };
	io->extents = (struct cleave_extent *)(void *)(status_area(request, index) +
	    NBD_REPLY_HEAD_BYTES_MAX);
	io->extent_max = (request->head.flags & NBD_CMD_FLAG_REQ_ONE) != 0
	    ? 1
	    : (STATUS_AREA_BYTES - NBD_REPLY_HEAD_BYTES_MAX) / sizeof(struct cleave_extent);
	/* Behind the end that a bitmap knows its volume has grown since: that is changed, as far as is known here. */
	if (bitmap != NULL && bitmap->volume != NULL)
		end = num_min(end, cleave_volume_info(bitmap->volume)->size_bytes);
	if (end > request->first_bytes) {
		io->length_bytes = end - request->first_bytes;
		return;
	}
	io->length_bytes = 0;
	io->extents[0] = (struct cleave_extent){ request->end_bytes - request->first_bytes, 0 };
	io->extent_count = 1;
}

void
nbd_status_plan(struct nbd_request *request, cleave_io_fn fn)
{
	assert(request->head.type == NBD_CMD_BLOCK_STATUS);
	assert(request->io_count == 0);
	while (request->io_count < nbd_status_contexts(request->connection)) {
		struct cleave_io *io = &request->ios[request->io_count];

		status_plan_one(request, request->io_count++);
		io->fn = fn;
		io->arg = request;
	}
}

static struct nbd_bitmap *
status_bitmap(const struct nbd_request *request, const struct cleave_io *io)
{
	assert(io >= request->ios && io < request->ios + request->io_count);
	return status_context(request->connection, (uint32_t)(io - request->ios)).bitmap;
}

int
nbd_status_error(struct nbd_request *request, const struct cleave_io *io, int rc)
{
	struct nbd_bitmap *bitmap = status_bitmap(request, io);

	assert(rc < 0);
	if (bitmap == NULL)
		return rc;
	if (retry_is_fatal(rc) && bitmap->sm.state == NBD_BITMAP_OPEN) {
		log_warn("bitmap: lost, its clients' questions fail name=%s rc=%s text=\"%s\"",
		    bitmap->name, log_errno(rc), cleave_error_text(rc));
		nbd_bitmap_lose(bitmap, rc);
	}
	return -EIO;
}

int
nbd_status_submit(struct nbd_request *request, struct cleave_io *io)
{
	struct nbd_bitmap *bitmap = status_bitmap(request, io);
	int rc;

	assert(request->export->volume != NULL);
	if (bitmap == NULL)
		return cleave_submit(request->export->volume, io);
	if (bitmap->sm.state != NBD_BITMAP_OPEN)
		return -EIO;
	/* Another volume has had the export's name when one of the two was opened. */
	if (cleave_volume_info(bitmap->volume)->segment_base !=
	    cleave_volume_info(request->export->volume)->segment_base)
		return nbd_status_error(request, io, -ENOENT);
	if (io->length_bytes == 0)
		return 1;
	rc = cleave_submit(bitmap->volume, io);
	return rc == 0 || rc == -ENOBUFS ? rc : nbd_status_error(request, io, rc);
}

/* ---- answering ---- */

static uint32_t
status_flags(const struct cleave_extent *extent, bool is_bitmap)
{
	bool is_hole = (extent->flags & CLEAVE_EXTENT_HOLE) != 0;

	if (is_bitmap)
		return is_hole ? 0 : NBD_STATE_DIRTY; /* a hole of a difference has not changed */
	return (is_hole ? NBD_STATE_HOLE : 0) |
	    ((extent->flags & CLEAVE_EXTENT_ZERO) != 0 ? NBD_STATE_ZERO : 0);
}

/*
 * Descriptors of context @index at @out, which may be where its extents are. Blocks of which just a part was asked
 * for end where the question does. Returns how many there are.
 */
static uint32_t
status_put_extents(const struct nbd_request *request, uint32_t index, uint8_t *out)
{
	bool is_bitmap = status_context(request->connection, index).bitmap != NULL;
	enum nbd_reply_style style = request->connection->style;
	uint64_t at = request->first_bytes, bytes = 0;
	uint32_t flags = 0, count = 0;

	_Static_assert(sizeof(struct cleave_extent) >= NBD_EXTENT_BYTES_MAX, "in place");
	for (uint32_t i = 0; i < request->ios[index].extent_count; i++) {
		struct cleave_extent extent;
		uint64_t begin = num_max(at, request->head.offset_bytes), end;

		memcpy(&extent, &request->ios[index].extents[i], sizeof(extent));
		at += extent.length_bytes;
		end = num_min(at, nbd_command_end(&request->head));
		if (begin >= end)
			continue;
		if (bytes > 0 && status_flags(&extent, is_bitmap) != flags) {
			out += nbd_put_extent(out, style, bytes, flags);
			bytes = 0;
			count++;
		}
		flags = status_flags(&extent, is_bitmap);
		bytes += end - begin;
	}
	if (bytes == 0)
		return count;
	(void)nbd_put_extent(out, style, bytes, flags);
	return count + 1;
}

void
nbd_status_reply(struct nbd_request *request)
{
	enum nbd_reply_style style = request->connection->style;
	uint32_t context_count = nbd_status_contexts(request->connection);
	uint32_t extent_bytes = style == NBD_EXTENDED ? 16 : 8;
	uint8_t head[NBD_REPLY_HEAD_BYTES_MAX], *out = request->data;

	assert(request->head.type == NBD_CMD_BLOCK_STATUS && request->rc == 0);
	for (uint32_t i = 0; i < context_count; i++) {
		/* The first part's head is the reply's own. A head is as long whatever it says. */
		struct nbd_status_head status = { .context_id =
						      status_context(request->connection, i).id,
			.is_last = i + 1 == context_count };
		uint32_t head_bytes = nbd_put_status(head, style, &request->head, &status);

		out += i > 0 ? head_bytes : 0;
		status.extent_count = status_put_extents(request, i, out);
		(void)nbd_put_status(head, style, &request->head, &status);
		memcpy(i > 0 ? out - head_bytes : request->reply.head, head, head_bytes);
		if (i == 0)
			request->reply.head_bytes = head_bytes;
		out += (size_t)status.extent_count * extent_bytes;
	}
	request->reply.data = request->data;
	request->reply.data_bytes = (uint64_t)(out - request->data);
}
