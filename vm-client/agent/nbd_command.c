/* SPDX-License-Identifier: Apache-2.0 */
/* nbd_command.c -- see nbd_command.h */
#include "nbd_command.h"

#include <errno.h>

#include "base/check.h"
#include "base/num.h"
#include "nbd_bitmap.h"

#define BLOCK CLEAVE_BLOCK_BYTES
#define COMMAND_STATUS_BYTES_MAX NUM_GIB(1) /* a question that goes on behind is asked again */
#define COMMAND_PART_BYTES_MIN 65536u       /* what libcleave tells of at a time */

bool
nbd_command_is_change(uint16_t type)
{
	return type == NBD_CMD_WRITE || type == NBD_CMD_TRIM || type == NBD_CMD_WRITE_ZEROES;
}

uint64_t
nbd_command_end(const struct nbd_request_head *head)
{
	assert(head->length_bytes <= UINT64_MAX - head->offset_bytes);
	return head->offset_bytes + head->length_bytes;
}

static uint16_t
flags_allowed(uint16_t type, enum nbd_reply_style style)
{
	assert(style <= NBD_EXTENDED);
	switch (type) {
	case NBD_CMD_READ:
		return style == NBD_SIMPLE ? 0 : NBD_CMD_FLAG_DF;
	case NBD_CMD_WRITE:
		return NBD_CMD_FLAG_FUA | (style == NBD_EXTENDED ? NBD_CMD_FLAG_PAYLOAD_LEN : 0);
	case NBD_CMD_TRIM:
		return NBD_CMD_FLAG_FUA;
	case NBD_CMD_WRITE_ZEROES:
		return NBD_CMD_FLAG_FUA | NBD_CMD_FLAG_NO_HOLE | NBD_CMD_FLAG_FAST_ZERO;
	case NBD_CMD_BLOCK_STATUS:
		return NBD_CMD_FLAG_REQ_ONE;
	default:
		return 0;
	}
}

bool
nbd_command_has_payload(const struct nbd_connection *connection,
    const struct nbd_request_head *head)
{
	return head->type == NBD_CMD_WRITE ||
	    (connection->style == NBD_EXTENDED && (head->flags & NBD_CMD_FLAG_PAYLOAD_LEN) != 0);
}

static int
command_check(const struct nbd_connection *connection, const struct nbd_request_head *head)
{
	const struct nbd_export *export = connection->export;
	bool is_beyond;

	assert(export != NULL);
	if ((head->flags & ~flags_allowed(head->type, connection->style)) != 0)
		return -EINVAL;
	if (head->type == NBD_CMD_FLUSH)
		return head->offset_bytes == 0 && head->length_bytes == 0 ? 0 : -EINVAL;
	if (head->type == NBD_CMD_RESIZE)
		return nbd_resize_check(export, head);
	if (head->type >= NBD_CMD_NR || head->length_bytes == 0)
		return -EINVAL;
	if (export->is_read_only && nbd_command_is_change(head->type))
		return -EPERM;
	if ((head->type == NBD_CMD_READ || head->type == NBD_CMD_WRITE) &&
	    head->length_bytes > NBD_PAYLOAD_BYTES_MAX)
		return head->type == NBD_CMD_READ && connection->style != NBD_SIMPLE ? -EOVERFLOW
										     : -EINVAL;
	is_beyond = head->length_bytes > export->size_bytes ||
	    head->offset_bytes > export->size_bytes - head->length_bytes;
	if (is_beyond && (head->type == NBD_CMD_WRITE || head->type == NBD_CMD_WRITE_ZEROES))
		return -ENOSPC;
	if (is_beyond)
		return -EINVAL;
	if (head->type == NBD_CMD_BLOCK_STATUS && nbd_status_contexts(connection) == 0)
		return -EINVAL;
	return 0;
}

static void
shape_blocks(struct nbd_command_shape *shape, const struct nbd_request_head *head)
{
	assert(head->type < NBD_CMD_NR);
	shape->first_bytes = num_round_down(head->offset_bytes, BLOCK);
	shape->end_bytes = num_round_up(nbd_command_end(head), BLOCK);
	if (head->type == NBD_CMD_TRIM) {
		shape->first_bytes = num_round_up(head->offset_bytes, BLOCK);
		shape->end_bytes =
		    num_max(shape->first_bytes, num_round_down(nbd_command_end(head), BLOCK));
	} else if (head->type == NBD_CMD_BLOCK_STATUS) {
		shape->end_bytes =
		    num_min(shape->end_bytes, shape->first_bytes + COMMAND_STATUS_BYTES_MAX);
	} else if (head->type == NBD_CMD_RESIZE) {
		shape->first_bytes = shape->end_bytes = 0;
	}
}

struct nbd_command_shape
nbd_command_shape_of(const struct nbd_connection *connection, const struct nbd_request_head *head)
{
	struct nbd_command_shape shape = { .rc = command_check(connection, head) };
	bool has_head_edge, has_tail_edge;

	if (shape.rc != 0)
		return shape;
	assert(head->type < NBD_CMD_NR);
	assert(head->length_bytes <= UINT64_MAX - head->offset_bytes);
	has_head_edge = !num_is_aligned(head->offset_bytes, BLOCK);
	has_tail_edge = !num_is_aligned(nbd_command_end(head), BLOCK);
	shape_blocks(&shape, head);
	assert(shape.first_bytes <= shape.end_bytes);
	if (head->type == NBD_CMD_READ || head->type == NBD_CMD_WRITE)
		shape.data_bytes = shape.end_bytes - shape.first_bytes;
	else if (head->type == NBD_CMD_BLOCK_STATUS)
		shape.data_bytes = nbd_status_bytes(connection);
	/* Is it a read that is answered in parts? Then there is room for all that can come. */
	if (head->type == NBD_CMD_READ && connection->style != NBD_SIMPLE &&
	    (head->flags & NBD_CMD_FLAG_DF) == 0 && shape.data_bytes >= 2 * COMMAND_PART_BYTES_MIN)
		shape.part_max = (uint32_t)(shape.data_bytes / COMMAND_PART_BYTES_MIN) +
		    2; /* one for a chunk's border */
	if (head->type != NBD_CMD_WRITE && head->type != NBD_CMD_WRITE_ZEROES)
		return shape;
	/* A single block has one edge, not two. */
	shape.has_edge[1] = has_tail_edge &&
	    (!has_head_edge || shape.end_bytes - shape.first_bytes > BLOCK);
	shape.has_edge[0] = has_head_edge;
	return shape;
}
