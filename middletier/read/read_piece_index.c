/* SPDX-License-Identifier: Apache-2.0 */
/* read_piece_index.c -- a piece of a read waits for the index of a run, or for the page of it that knows its blocks */
#include <errno.h>

#include "base/check.h"
#include "base/sm.h"
#include "cleave/loop.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/shard.h"
#include "index/run_load.h"
#include "read/read_hops.h"
#include "read/read_path.h"
#include "read/read_piece.h"
#include "read/read_piece_index.h"
#include "write/write_path.h"

/* A node has sent more than the page that was wanted: perhaps what the index names now. */
static void
piece_take_found(struct read_piece *piece)
{
	const struct mt_run_found *found = &piece->waiter.found;

	assert(piece->source == NULL);
	piece->source = found->msg;
	piece->source_extent = found->extent_index;
	piece->source_id = found->extent;
	piece->source_offset_bytes = found->offset_bytes;
	piece->source_skip_bytes = found->skip_bytes;
	piece->replica_index = found->replica_index;
	piece->call.node = found->node;
	mt_read_hops_node(piece->read, found->node, found->took_ns, 0);
}

static void
piece_on_index(int rc, void *arg)
{
	struct read_piece *piece = arg;

	CHECK_OBJ(piece, READ_PIECE_MAGIC);
	assert(piece->sm.state == READ_PIECE_INDEXING);
	sm_move(&piece->sm, READ_PIECE_CHOOSING);
	if (piece->waiter.found.msg != NULL)
		piece_take_found(piece);
	if (rc == 0 && loop_now_ns(piece->state->port->loop) >= piece->read->deadline_ns) {
		mt_read_piece_drop_source(piece);
		rc = -EHOSTDOWN; /* indexes go as fast as they come: the client asks again */
	}
	if (rc == -EBADMSG) {
		mt_read_piece_fail_unreadable(piece);
		return;
	}
	if (rc != 0 && rc != -ESTALE && !piece->read->shard->write->is_stopped) {
		mt_read_piece_finish(piece, rc);
		return;
	}
	mt_read_piece_look_up(piece,
	    piece->stretch.first); /* anything may have changed meanwhile */
	mt_read_piece_choose(piece);
}

void
mt_read_piece_load_index(struct read_piece *piece)
{
	assert(piece->stretch.what == READ_UNLOADED);
	assert(piece->stretch.index_run != NULL);
	sm_move(&piece->sm, READ_PIECE_INDEXING);
	metric_add(&piece->state->port->metrics[MT_METRIC_index_waits], 1);
	piece->waiter.fn = piece_on_index;
	piece->waiter.arg = piece;
	mt_run_find_block(piece->stretch.index_run,
	    mt_read_stretch_chunk_block(&piece->stretch, piece->read), piece->stretch.count,
	    &piece->waiter);
}
