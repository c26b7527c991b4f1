/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gather.c -- several stretches of an extent's durable bytes, in one request
 *
 * A merge that is executed elsewhere reads what clients wrote from the log: a few KiB here and there. Each by itself
 * would be a message each way for the disk's one read.
 *
 *	the list, from the request's receive ---> a disk read of whole blocks each ---> the last is back: one answer
 *
 * As with read.c the request's own receive holds what is read, and the answer is made of pieces of that.
 */
#include "gather.h"

#include <errno.h>

#include "base/check.h"
#include "base/num.h"
#include "change.h"
#include "extent.h"
#include "hops.h"
#include "node_state.h"
#include "read.h"
#include "request.h"

_Static_assert(WIRE_GATHER_BYTES_MAX + 2 * WIRE_GATHER_MAX * DISK_ALIGN <= SN_RECEIVE_BYTES,
    "a receive holds all stretches, each of whole blocks");

/* All are back. */
static void
gather_end(struct sn_request *req)
{
	struct sn_extent *extent = req->extent;
	struct node *node = req->node;
	struct sn_gather *gather = &req->gather;
	struct wire_node_reply reply = { .rc = gather->rc, .length_bytes = req->wire.length_bytes };

	assert(gather->out_count == 0);
	assert(extent->read_count > 0);
	assert(node->reads_count > 0);
	extent->read_count--;
	node->reads_count--;
	if (gather->rc != 0) {
		sn_request_fail(req, gather->rc);
	} else {
		SN_COUNT(node, gathers, 1);
		SN_COUNT(node, read_bytes, req->wire.length_bytes);
		sn_hops_read(node, gather->began_ns);
		for (uint32_t i = 0; i < req->wire.stretch_count; i++) {
			const struct wire_stretch *stretch = &gather->stretches[i];

			gather->pieces[i] = (struct dev_piece){
				.ptr = dev_ptr_add(gather->pieces[i].ptr,
				    stretch->offset_bytes % DISK_ALIGN),
				.bytes = stretch->length_bytes,
			};
		}
		sn_request_finish_pieces(req, &reply, gather->pieces, req->wire.stretch_count);
	}
	if (extent->read_count == 0)
		sn_change_on_settled(extent);
}

static void
gather_on_read(struct disk_io *io, int rc, void *arg)
{
	struct sn_request *req = arg;
	struct sn_gather *gather = &req->gather;

	CHECK_OBJ(req, SN_REQUEST_MAGIC);
	assert(gather->out_count > 0);
	if (rc != 0) {
		sn_read_note_failed(req, gather->stretches[io - gather->ios].offset_bytes, rc);
		gather->rc = -EIO;
	}
	if (--gather->out_count == 0)
		gather_end(req);
}

/* Stretch number @i is read to @at of the receive. Returns the bytes that it takes there. */
static uint32_t
gather_read(struct sn_request *req, uint32_t i, uint32_t at)
{
	struct sn_gather *gather = &req->gather;
	const struct wire_stretch *stretch = &gather->stretches[i];
	struct node *node = req->node;
	uint64_t from_bytes = num_round_down(stretch->offset_bytes, DISK_ALIGN);
	uint32_t bytes =
	    (uint32_t)(num_round_up((uint64_t)stretch->offset_bytes + stretch->length_bytes,
			   DISK_ALIGN) -
		from_bytes);

	assert(at + bytes <= SN_RECEIVE_BYTES);
	gather->pieces[i] =
	    (struct dev_piece){ .ptr = dev_ptr_add(req->msg->payload, at), .bytes = bytes };
	gather->ios[i] = (struct disk_io){
		.op = DISK_READ,
		.offset_bytes = ondisk_data_offset(&node->super, req->extent->slot.slot_index) +
		    from_bytes,
		.pieces = &gather->pieces[i],
		.piece_count = 1,
		.fn = gather_on_read,
		.arg = req,
	};
	if (disk_submit(node->disk, &gather->ios[i]) == 0)
		gather->out_count++;
	else
		gather->rc = -EBUSY;
	return bytes;
}

/* The list is one, and all of it is durable. */
static int
gather_judge(const struct sn_request *req, const struct sn_extent *extent)
{
	const struct sn_gather *gather = &req->gather;
	const struct wire_stretch *last = &gather->stretches[req->wire.stretch_count - 1];

	if (extent == NULL || !sn_extent_is_held(extent))
		return -ENOENT;
	if ((uint64_t)last->offset_bytes + last->length_bytes > extent->durable_bytes)
		return -ERANGE;
	return 0;
}

void
sn_gather_start(struct sn_request *req)
{
	struct node *node = req->node;
	const struct wire_node *wire = &req->wire;
	struct sn_extent *extent = sn_extent_find(node, &wire->id);
	uint8_t list[WIRE_GATHER_MAX * WIRE_STRETCH_BYTES];
	const char *field;
	uint32_t at = 0;
	int rc;

	assert(wire->opcode == WIRE_EXTENT_GATHER);
	assert(wire->stretch_count > 0 && wire->stretch_count <= WIRE_GATHER_MAX);
	assert(node->sm.state == NODE_READY);
	dev_copy_to_host(node->port, list, req->msg->payload,
	    (size_t)wire->stretch_count * WIRE_STRETCH_BYTES);
	req->gather.out_count = 0;
	req->gather.rc = 0;
	req->gather.began_ns = loop_now_ns(node->loop);
	rc = wire_gather_decode(list, wire->stretch_count, wire->length_bytes,
	    req->gather.stretches, &field);
	rc = rc != 0 ? -EINVAL : gather_judge(req, extent);
	if (rc != 0) {
		sn_request_fail(req, rc);
		return;
	}
	req->extent = extent;
	extent->read_count++;
	node->reads_count++;
	for (uint32_t i = 0; req->gather.rc == 0 && i < wire->stretch_count; i++)
		at += gather_read(req, i, at);
	if (req->gather.out_count == 0)
		gather_end(req);
}
