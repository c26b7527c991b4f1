/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge_read.c -- a window's sources that nodes are asked for
 *
 *	sources, by place    s1 s2 ...... s3 .................. s4       of one extent
 *	stretches           [s1 s2 ...... s3]                  [s4]     what lies close together is read along
 *	the request          READ of the only stretch, or GATHER of up to WIRE_GATHER_MAX
 *
 * Clients write here and there, so a window's sources in a log are a few KiB each, far from one another, and a message for
 * each would cost more than what is done with them. A source that failed is read by itself: any of several may be the
 * bad one. A node of before GATHER is asked for one stretch after the other.
 */
#include "merge/merge_read.h"

#include <errno.h>

#include "base/check.h"
#include "base/metrics.h"
#include "base/sm.h"
#include "cleave/gather.h"
#include "cleave/level.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/limits.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/shard.h"
#include "extent/choose.h"
#include "extent/extent.h"
#include "extent/extent_copies.h"
#include "extent/extent_table.h"
#include "extent/node_error.h"
#include "extent/node_link.h"
#include "index/ring.h"
#include "merge/merge_exec.h"
#include "merge/merge_loss.h"
#include "merge/merge_window.h"

#define MERGE_GAP_BYTES 8192u /* between two sources: read along rather than asked for apart */

_Static_assert(MT_RECEIVE_BYTES <= WIRE_GATHER_BYTES_MAX,
    "as much as a receive holds may be asked for");

bool
mt_merge_source_is_in_ring(const struct merge_exec *exec, const struct merge_source *source)
{
	return !source->is_ring_bad &&
	    mt_ring_contains(exec->shard->ring, source->location.ring_position);
}

void
mt_merge_read_try_release(struct merge_read *read)
{
	if (read->is_out || read->job_count > 0 || read->next < read->count)
		return;
	if (read->msg != NULL)
		split_msg_release(read->msg);
	read->msg = NULL;
	read->is_used = false;
}

/* ---- answers ---- */

dev_ptr
mt_merge_read_at(const struct merge_read *read, const struct merge_source *source)
{
	uint32_t offset_bytes = source->location.offset_bytes, at = 0;

	assert(read->msg != NULL);
	for (uint32_t i = 0; i < read->stretch_count; i++) {
		const struct wire_stretch *stretch = &read->stretches[i];

		if (offset_bytes - stretch->offset_bytes < stretch->length_bytes)
			return dev_ptr_add(read->msg->payload,
			    at + offset_bytes - stretch->offset_bytes);
		at += stretch->length_bytes;
	}
	assert(false);
	return DEV_PTR_NULL;
}

static void
read_failed(struct merge_exec *exec, struct merge_read *read, int rc)
{
	struct merge_window *window = &exec->window;

	for (uint32_t i = 0; i < read->count; i++) {
		struct merge_source *source = &window->sources[window->order[read->first + i]];

		mt_merge_source_want(window, source);
		mt_chooser_note_failed(&source->chooser, read->replica_index);
		/* Any of several may be the bad one: they are read one by one. */
		if (mt_is_copy_bad(rc) && read->count == 1)
			mt_merge_loss_note_refused(exec, source, read->replica_index, rc);
	}
	read->next = read->count;
	mt_merge_read_try_release(read);
}

static void
read_on_answer(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg)
{
	struct merge_read *read = arg;
	struct merge_exec *exec = read->exec;

	(void)reply;
	assert(exec->out_count > 0);
	exec->out_count--;
	read->is_out = false;
	read->msg = msg;
	if (rc == 0 && (msg == NULL || msg->payload_bytes != call->request.length_bytes))
		rc = -EMSGSIZE;
	if (exec->is_cancelled) {
		read->next = read->count;
		mt_merge_read_try_release(read);
	} else if (rc != 0) {
		read_failed(exec, read, rc);
	} else {
		exec->read_bytes += msg->payload_bytes;
		metric_add(&exec->port->metrics[MT_METRIC_merge_log_read_bytes],
		    read->is_of_log ? msg->payload_bytes : 0);
	}
	merge_exec_tell(exec, 0);
}

/* ---- questions ---- */

/* @source, which is behind all that @read takes, comes with it: the bytes that the answer is longer. 0: it does not. */
static uint32_t
read_take(struct merge_read *read, const struct merge_source *source, uint32_t room_bytes,
    bool may_part)
{
	struct wire_stretch *last = &read->stretches[read->stretch_count - 1];
	uint32_t begin = source->location.offset_bytes, bytes = source->location.stored_bytes;
	uint32_t end = last->offset_bytes + last->length_bytes;
	uint32_t more_bytes = begin + bytes > end ? begin + bytes - end : 0;

	if (begin <= end + MERGE_GAP_BYTES) {
		if (more_bytes > room_bytes)
			return 0;
		last->length_bytes += more_bytes;
		read->count++;
		return more_bytes;
	}
	if (!may_part || bytes > room_bytes)
		return 0;
	read->stretches[read->stretch_count++] =
	    (struct wire_stretch){ .offset_bytes = begin, .length_bytes = bytes };
	read->count++;
	return bytes;
}

/* The sources that come with window->order[@read->first], in @stretch_max stretches at most. Returns the bytes of the answer. */
static uint32_t
read_fill(const struct merge_exec *exec, struct merge_read *read, uint32_t stretch_max)
{
	const struct merge_window *window = &exec->window;
	const struct merge_source *source = &window->sources[window->order[read->first]];
	uint32_t bytes = source->location.stored_bytes;

	read->stretches[0] = (struct wire_stretch){ .offset_bytes = source->location.offset_bytes,
		.length_bytes = bytes };
	read->stretch_count = read->count = 1;
	while (source->chooser.tried == 0 && read->first + read->count < window->source_count &&
	    bytes < MT_RECEIVE_BYTES) {
		const struct merge_source *next =
		    &window->sources[window->order[read->first + read->count]];
		bool may_part = read->stretch_count < stretch_max &&
		    !mt_merge_source_is_in_ring(exec, next);
		uint32_t count = read->count;

		if (next->sm.state != MERGE_SOURCE_WANTED || next->chooser.tried != 0 ||
		    next->location.extent_index != source->location.extent_index)
			break;
		bytes += read_take(read, next, MT_RECEIVE_BYTES - bytes, may_part);
		if (read->count == count)
			break;
	}
	return bytes;
}

/* The request for what @read has been filled with. */
static void
read_request(struct merge_read *read, uint32_t bytes)
{
	struct mt_call *call = &read->call;

	if (read->stretch_count == 1) {
		call->request.opcode = WIRE_EXTENT_READ;
		call->request.offset_bytes = read->stretches[0].offset_bytes;
	} else {
		call->request.opcode = WIRE_EXTENT_GATHER;
		call->request.stretch_count = (uint16_t)read->stretch_count;
		call->host = read->host;
		call->head_bytes = read->stretch_count * WIRE_STRETCH_BYTES;
		wire_gather_encode(read->host + WIRE_HEADER_BYTES, read->stretches,
		    read->stretch_count);
	}
	call->request.length_bytes = bytes;
}

bool
mt_merge_read_send(struct merge_exec *exec, struct merge_read *read, uint32_t first)
{
	struct merge_window *window = &exec->window;
	struct merge_source *source = &window->sources[window->order[first]];
	struct mt_extent *extent = mt_shard_extent(exec->shard, source->location.extent_index);
	struct mt_copies copies;
	struct mt_link *node;
	uint32_t bytes;
	int index;

	if (extent == NULL)
		return false;
	copies = mt_extent_copies(extent);
	index = mt_chooser_pick(&source->chooser, exec->port, &copies, &node);
	if (index < 0)
		return false;
	*read =
	    (struct merge_read){ .exec = exec, .first = first, .replica_index = (uint8_t)index };
	read->is_of_log = extent->kind == EXTENT_LOG;
	bytes =
	    read_fill(exec, read, node->agreed_level >= CLEAVE_LEVEL_GATHER ? WIRE_GATHER_MAX : 1);
	read->call.request = (struct wire_node){ .id = extent->id, .epoch = exec->shard->epoch };
	read->call.fn = read_on_answer;
	read->call.arg = read;
	read_request(read, bytes);
	if (mt_link_call(node, &read->call) != 0) {
		mt_chooser_note_failed(&source->chooser, (uint32_t)index);
		return true; /* another may do */
	}
	exec->out_count++;
	read->is_out = read->is_used = true;
	for (uint32_t i = 0; i < read->count; i++)
		sm_move(&window->sources[window->order[first + i]].sm, MERGE_SOURCE_ASKED);
	return true;
}
