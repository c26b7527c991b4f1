/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read.c -- any byte range of an extent's durable bytes
 *
 * The disk reads whole blocks into the request's own receive, whose device memory holds 256 KiB and
 * came with no payload; the answer is a piece of it. So a read needs no buffer of its own, and the
 * credits bound how many there are.
 */
#include "read.h"

#include <errno.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "change.h"
#include "extent.h"
#include "hops.h"
#include "node_state.h"
#include "request.h"

void
sn_read_note_failed(struct sn_request *req, uint64_t offset_bytes, int rc)
{
	struct node *node = req->node;

	assert(rc < 0);
	SN_COUNT(node, disk_errors, 1);
	SN_COUNT(node, reads_failed, 1);
	log_limited(LOG_WARN,
	    "read: the disk failed it extent=%u.%u.%llu offset_bytes=%llu rc=%s: the gateway reads "
	    "another copy; look for the disk's errors in the kernel's log",
	    req->wire.id.shard, req->wire.id.epoch, (unsigned long long)req->wire.id.counter,
	    (unsigned long long)offset_bytes, log_errno(rc));
}

static void
read_on_done(struct disk_io *io, int rc, void *arg)
{
	struct sn_request *req = arg;
	struct sn_extent *extent = req->extent;
	struct node *node = req->node;
	struct wire_node_reply reply = { .rc = rc == 0 ? 0 : -EIO };
	struct dev_piece piece;

	(void)io;
	CHECK_OBJ(req, SN_REQUEST_MAGIC);
	assert(extent->read_count > 0);
	assert(node->reads_count > 0);
	extent->read_count--;
	node->reads_count--;
	if (rc != 0) {
		sn_read_note_failed(req, req->wire.offset_bytes, rc);
		sn_request_finish(req, &reply, NULL);
	} else {
		SN_COUNT(node, reads, 1);
		SN_COUNT(node, read_bytes, req->wire.length_bytes);
		sn_hops_read(node, req->read.began_ns);
		piece = (struct dev_piece){
			.ptr = dev_ptr_add(req->msg->payload, req->read.skip_bytes),
			.bytes = req->wire.length_bytes,
		};
		reply.offset_bytes = req->wire.offset_bytes;
		reply.length_bytes = req->wire.length_bytes;
		sn_request_finish(req, &reply, &piece);
	}
	if (extent->read_count == 0)
		sn_change_on_settled(extent);
}

void
sn_read_start(struct sn_request *req)
{
	struct node *node = req->node;
	const struct wire_node *wire = &req->wire;
	struct sn_extent *extent = sn_extent_find(node, &wire->id);
	uint64_t end_bytes = wire->offset_bytes + wire->length_bytes;
	uint64_t from_bytes = num_round_down(wire->offset_bytes, DISK_ALIGN);
	uint64_t to_bytes = num_round_up(end_bytes, DISK_ALIGN);
	int rc;

	assert(wire->opcode == WIRE_EXTENT_READ || wire->opcode == WIRE_DIRECT_READ);
	assert(wire->length_bytes > 0);
	assert(node->sm.state == NODE_READY);
	if (extent == NULL || !sn_extent_is_held(extent)) {
		sn_request_fail(req, -ENOENT);
		return;
	}
	if (end_bytes > extent->durable_bytes) {
		sn_request_fail(req, -ERANGE);
		return;
	}
	if (to_bytes - from_bytes > SN_RECEIVE_BYTES) {
		sn_request_fail(req, -EMSGSIZE);
		return;
	}
	req->extent = extent;
	req->read = (struct sn_read){
		.piece = { .ptr = req->msg->payload, .bytes = (uint32_t)(to_bytes - from_bytes) },
		.skip_bytes = (uint32_t)(wire->offset_bytes - from_bytes),
		.began_ns = loop_now_ns(node->loop),
		.io = {
			.op = DISK_READ,
			.offset_bytes = ondisk_data_offset(&node->super,
			    extent->slot.slot_index) + from_bytes,
			.pieces = &req->read.piece,
			.piece_count = 1,
			.fn = read_on_done,
			.arg = req,
		},
	};
	extent->read_count++;
	node->reads_count++;
	rc = disk_submit(node->disk, &req->read.io);
	if (rc != 0) {
		extent->read_count--;
		node->reads_count--;
		sn_request_fail(req, -EBUSY);
	}
}
