/* SPDX-License-Identifier: Apache-2.0 */
/*
 * find.c -- a block of a run is looked up in its batch's head, and read, in one request
 *
 * A gateway that knows which batch has a block, and not where in it, would read the batch's head, and then the frame.
 * Here both are done in its place:
 *
 *	head in memory (heads.c) ----------------------+
 *	                                               v
 *	else: read from the disk ---> checked, kept ---> which frames ---> read from the disk ---> head, frames
 *
 * The head is sent along, for nothing that a node says is believed: the gateway knows the batch's CRC, which covers the
 * descriptors, and these have the CRCs of the frames (I8). Payload does not leave device memory; the request's own
 * receive holds the answer, the head in front.
 */
#include "find.h"

#include <errno.h>

#include "base/check.h"
#include "base/mutant.h"
#include "base/num.h"
#include "change.h"
#include "extent.h"
#include "heads.h"
#include "hops.h"
#include "node_state.h"
#include "read.h"
#include "request.h"

_Static_assert(SN_RECEIVE_BYTES >= BATCH_HEAD_BYTES_MAX + WIRE_FIND_BYTES_MAX + 2 * DISK_ALIGN,
    "a receive holds a head and frames, each from whole blocks");

/* Where the frames are put in the receive: behind the head. */
static uint32_t
find_room_at(const struct sn_request *req)
{
	return (uint32_t)num_round_up(req->wire.length_bytes, DISK_ALIGN);
}

static void
find_end(struct sn_request *req, int rc)
{
	struct sn_extent *extent = req->extent;
	struct node *node = req->node;
	struct sn_find *find = &req->find;
	struct wire_node_reply reply = { .rc = rc };
	struct dev_piece pieces[2] = {
		{ .ptr = req->msg->payload, .bytes = req->wire.length_bytes },
		{ .ptr = dev_ptr_add(req->msg->payload, find_room_at(req) + find->skip_bytes),
		    .bytes = find->bytes },
	};

	assert(extent->read_count > 0);
	assert(node->reads_count > 0);
	extent->read_count--;
	node->reads_count--;
	if (rc != 0) {
		sn_request_fail(req, rc);
	} else {
		SN_COUNT(node, finds, 1);
		SN_COUNT(node, read_bytes, find->bytes);
		sn_hops_read(node, find->began_ns);
		reply.offset_bytes = find->at_bytes;
		reply.length_bytes = req->wire.length_bytes + find->bytes;
		sn_request_finish_pieces(req, &reply, pieces, find->bytes == 0 ? 1 : 2);
	}
	if (extent->read_count == 0)
		sn_change_on_settled(extent);
}

/* Have the disk read @bytes from @offset_bytes of the extent on, whole blocks, to @at of the receive. */
static void
find_read(struct sn_request *req, uint64_t offset_bytes, uint32_t bytes, uint32_t at,
    void (*fn)(struct disk_io *io, int rc, void *arg))
{
	struct sn_find *find = &req->find;
	struct node *node = req->node;

	assert(at + bytes <= SN_RECEIVE_BYTES);
	find->piece =
	    (struct dev_piece){ .ptr = dev_ptr_add(req->msg->payload, at), .bytes = bytes };
	find->io = (struct disk_io){
		.op = DISK_READ,
		.offset_bytes = ondisk_data_offset(&node->super, req->extent->slot.slot_index) +
		    offset_bytes,
		.pieces = &find->piece,
		.piece_count = 1,
		.fn = fn,
		.arg = req,
	};
	if (disk_submit(node->disk, &find->io) != 0)
		find_end(req, -EBUSY);
}

static void
find_on_frames(struct disk_io *io, int rc, void *arg)
{
	struct sn_request *req = arg;

	(void)io;
	CHECK_OBJ(req, SN_REQUEST_MAGIC);
	if (rc != 0)
		sn_read_note_failed(req, req->find.at_bytes, rc);
	find_end(req, rc == 0 ? 0 : -EIO);
}

/* Which bytes of its batch hold the blocks that are wanted: find->at_bytes and bytes, which is 0 where none do. */
static void
find_pick(struct sn_request *req, const struct sn_head *head)
{
	struct sn_find *find = &req->find;
	const struct wire_node *wire = &req->wire;
	uint32_t room = WIRE_FIND_BYTES_MAX - wire->length_bytes;
	struct record_iter it;
	struct record_desc frame;
	const char *field;

	find->at_bytes = wire->offset_bytes;
	record_iter_init(&it, head->bytes, &head->info);
	if (record_iter_skip_to(&it, wire->block, &field) != 0)
		return; /* never: the head has passed */
	while (record_iter_next(&it, &frame, &field) == 1) {
		uint32_t block = frame.block % CLEAVE_CHUNK_BLOCKS;

		if (block + frame.block_count <= (uint32_t)wire->block + MUTANT(find_wrong))
			continue;
		if (block >= (uint32_t)wire->block + wire->block_count ||
		    find->bytes + frame.stored_bytes > room)
			return;
		if (find->bytes == 0)
			find->at_bytes = wire->offset_bytes + frame.payload_offset_bytes;
		find->bytes += frame.stored_bytes; /* payloads lie one behind the other */
	}
}

/* @head is the batch's, and in the receive. */
static void
find_on_head(struct sn_request *req, const struct sn_head *head)
{
	struct sn_find *find = &req->find;
	uint64_t from_bytes, end_bytes;

	find_pick(req, head);
	end_bytes = find->at_bytes + find->bytes;
	if (find->bytes == 0) {
		find_end(req, 0);
		return;
	}
	if (end_bytes > req->extent->durable_bytes) {
		find_end(req, -ERANGE);
		return;
	}
	from_bytes = num_round_down(find->at_bytes, DISK_ALIGN);
	find->skip_bytes = (uint32_t)(find->at_bytes - from_bytes);
	find_read(req, from_bytes, (uint32_t)(num_round_up(end_bytes, DISK_ALIGN) - from_bytes),
	    find_room_at(req), find_on_frames);
}

static void
find_on_head_read(struct disk_io *io, int rc, void *arg)
{
	struct sn_request *req = arg;
	struct node *node = req->node;
	uint32_t bytes = req->wire.length_bytes;
	void *head = sn_heads_scratch(node);
	struct batch_check check = { .id = req->wire.id,
		.kind = EXTENT_RUN,
		.offset_bytes = req->wire.offset_bytes,
		.is_probe = true };

	(void)io;
	CHECK_OBJ(req, SN_REQUEST_MAGIC);
	if (rc != 0) {
		sn_read_note_failed(req, req->wire.offset_bytes, rc);
		find_end(req, -EIO);
		return;
	}
	SN_COUNT(node, heads_read, 1);
	dev_copy_to_host(node->port, head, req->msg->payload, bytes);
	if (batch_head_check(head, bytes, &check) != 0 || check.info.is_directory ||
	    BATCH_HEADER_BYTES + check.info.desc_bytes != bytes) {
		find_end(req, -EBADMSG);
		return;
	}
	find_on_head(req, sn_heads_put(node, req->extent, &check.info, head));
}

void
sn_find_start(struct sn_request *req)
{
	struct node *node = req->node;
	const struct wire_node *wire = &req->wire;
	struct sn_extent *extent = sn_extent_find(node, &wire->id);
	const struct sn_head *head;

	assert(wire->opcode == WIRE_EXTENT_FIND);
	assert(wire->block_count > 0);
	assert(node->sm.state == NODE_READY);
	if (extent == NULL || !sn_extent_is_held(extent)) {
		sn_request_fail(req, -ENOENT);
		return;
	}
	if (wire->offset_bytes + wire->length_bytes > extent->durable_bytes) {
		sn_request_fail(req, -ERANGE);
		return;
	}
	req->extent = extent;
	req->find = (struct sn_find){ .began_ns = loop_now_ns(node->loop) };
	extent->read_count++;
	node->reads_count++;
	head = sn_heads_get(node, extent, wire->offset_bytes);
	if (head == NULL) {
		find_read(req, wire->offset_bytes, find_room_at(req), 0, find_on_head_read);
	} else if (BATCH_HEADER_BYTES + head->info.desc_bytes != wire->length_bytes) {
		find_end(req, -EBADMSG);
	} else {
		dev_copy_from_host(node->port, req->msg->payload, head->bytes, wire->length_bytes);
		find_on_head(req, head);
	}
}
