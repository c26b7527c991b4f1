/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zero.c -- write zeros over one slot ahead of its first use
 *
 * For regular files: the first write into blocks that a file system has only reserved makes the flush
 * behind it commit metadata. One slot that never held an extent is zeroed whenever none is ready, in
 * small steps, one at a time; while appends are in flight there is a pause between two steps. Slots
 * that held extents before need none of this, nor do those of a file that was written ahead.
 *
 * A slot that is being zeroed cannot be claimed, so the last ones that log extents may take are left alone.
 */
#include "zero.h"

#include <errno.h>
#include <stdlib.h>

#include "alloc.h"
#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/num.h"
#include "disk/disk_host.h"
#include "extent.h"
#include "node_state.h"

#define ZERO_STEP_BYTES (1024u * 1024u) /* of one write */

/*
 * From one step to the next while appends are in flight. A step makes the next flush commit metadata, which
 * costs several writes in turn: with few and large steps most flushes meet none.
 */
#define ZERO_PAUSE_NS NUM_MS(8)

struct sn_zero {
	struct sn_extent *extent; /* being zeroed; NULL: none */
	uint64_t done_bytes;
	void *zeros; /* ZERO_STEP_BYTES; NULL: not wanted */
	struct disk_io io;
	struct dev_piece piece;
	struct loop_timer timer;
	bool is_writing;
	bool is_stopping;
};

static void
zero_end(struct node *node, bool is_good)
{
	struct sn_zero *zero = node->zero;
	struct sn_extent *extent = zero->extent;

	assert(node->is_zeroing);
	assert(extent != NULL);
	assert(!zero->is_writing);
	zero->extent = NULL;
	node->is_zeroing = false;
	extent->is_prewritten = is_good;
	sm_move(&extent->sm, EXTENT_FREE);
	sn_extent_add_free(extent);
	sn_node_idle_check(node);
}

static void
zero_on_written(struct disk_io *io, int rc, void *arg)
{
	struct node *node = arg;
	struct sn_zero *zero = node->zero;

	(void)io;
	assert(zero->is_writing);
	assert(zero->extent != NULL);
	zero->is_writing = false;
	if (rc != 0) {
		SN_COUNT(node, disk_errors, 1);
		log_limited(LOG_WARN,
		    "zero: the disk failed a write of zeros, the slot stays as it is slot=%u rc=%s: look for "
		    "the disk's errors in the kernel's log",
		    zero->extent->slot.slot_index, log_errno(rc));
		zero_end(node, false);
		return; /* not again before the next create */
	}
	zero->done_bytes += zero->piece.bytes;
	SN_COUNT(node, zeroed_bytes, zero->piece.bytes);
	if (zero->done_bytes == sn_capacity(node) || node->is_read_only || zero->is_stopping) {
		zero_end(node, zero->done_bytes == sn_capacity(node));
		return;
	}
	loop_timer_start(node->loop, &zero->timer, node->appends_count > 0 ? ZERO_PAUSE_NS : 0);
}

static void
zero_on_timer(struct loop_timer *timer, void *arg)
{
	struct node *node = arg;
	struct sn_zero *zero = node->zero;
	uint64_t left_bytes = sn_capacity(node) - zero->done_bytes;

	(void)timer;
	assert(zero->extent != NULL);
	assert(!zero->is_writing);
	assert(left_bytes > 0);
	zero->piece = disk_host_piece(zero->zeros, (uint32_t)num_min(left_bytes, ZERO_STEP_BYTES));
	zero->io = (struct disk_io){
		.op = DISK_WRITE,
		.offset_bytes = ondisk_data_offset(&node->super, zero->extent->slot.slot_index) +
		    zero->done_bytes,
		.pieces = &zero->piece,
		.piece_count = 1,
		.fn = zero_on_written,
		.arg = node,
	};
	zero->is_writing = true;
	if (disk_submit(node->disk, &zero->io) != 0) {
		zero->is_writing = false;
		loop_timer_start(node->loop, timer, ZERO_PAUSE_NS);
	}
}

void
sn_zero_kick(struct node *node)
{
	struct sn_zero *zero = node->zero;
	struct sn_extent *extent;

	if (zero->zeros == NULL || zero->extent != NULL || node->is_read_only || zero->is_stopping)
		return;
	assert(!node->is_zeroing);
	if (!list_is_empty(&node->free_used) || list_is_empty(&node->free_virgin))
		return; /* one is ready, or none is left to make ready */
	if (node->free_count <= sn_extent_reserve(node, EXTENT_LOG) + 1)
		return;
	extent = LIST_ENTRY(list_pop_front(&node->free_virgin), struct sn_extent, link);
	node->free_count--;
	if (sn_extent_look_written(extent)) {
		sn_extent_add_free(extent);
		return;
	}
	sm_move(&extent->sm, EXTENT_ZEROING);
	zero->extent = extent;
	node->is_zeroing = true;
	zero->done_bytes = 0;
	loop_timer_start(node->loop, &zero->timer, 0);
}

void
sn_zero_stop(struct node *node)
{
	struct sn_zero *zero = node->zero;

	assert(!zero->is_stopping);
	zero->is_stopping = true;
	loop_timer_stop(node->loop, &zero->timer);
	if (zero->extent != NULL && !zero->is_writing)
		zero_end(node, false);
}

int
sn_zero_init(struct node *node)
{
	struct sn_zero *zero = sn_calloc(1, sizeof(*zero));

	assert(node->zero == NULL);
	if (zero == NULL)
		return -ENOMEM;
	node->zero = zero;
	loop_timer_init(&zero->timer, zero_on_timer, node);
	if (!node->options.must_prewrite)
		return 0;
	zero->zeros = sn_page_alloc(ZERO_STEP_BYTES);
	return zero->zeros == NULL ? -ENOMEM : 0;
}

void
sn_zero_fini(struct node *node)
{
	if (node->zero == NULL)
		return;
	loop_timer_stop(node->loop, &node->zero->timer);
	free(node->zero->zeros);
	free(node->zero);
	node->zero = NULL;
}
