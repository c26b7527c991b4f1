/* SPDX-License-Identifier: Apache-2.0 */
/* read_note.c -- see read_note.h: one line of the log each, at most some a second */
#include "read/read_note.h"

#include <inttypes.h>

#include "base/check.h"
#include "base/log.h"
#include "base/metrics.h"
#include "cleave/wire.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/shard.h"
#include "extent/choose.h"
#include "extent/extent.h"
#include "extent/extent_copies.h"
#include "extent/extent_table.h"
#include "extent/node_link.h"
#include "read/read_path.h"
#include "read/read_piece.h"
#include "session/session.h"

void
mt_read_note_bad_copy(struct read_piece *piece, int rc)
{
	uint64_t *metrics = piece->state->port->metrics;
	struct mt_extent *extent =
	    mt_shard_extent(piece->read->shard, piece->stretch.location.extent_index);
	const struct wire_io *io = &piece->read->io;
	char text[MT_EXTENT_TEXT_BYTES] = "gone";

	assert(rc < 0);
	assert(piece->stretch.what == READ_STORED);
	metric_add(&metrics[MT_METRIC_replica_read_errors], 1);
	metric_add(&metrics[MT_METRIC_repairs_queued], 1);
	mt_chooser_note_bad(&piece->chooser, piece->replica_index);
	if (extent != NULL) {
		mt_extent_suspect(extent, piece->call.node->node_id);
		(void)mt_extent_text(extent, text);
	}
	log_limited(LOG_WARN,
	    "read: a copy is bad, another is read and this one will be verified node=%" PRIu32
	    " extent=%s offset_bytes=%" PRIu32 " volume=%" PRIu64 " segment=%" PRIu64
	    " block=%" PRIu64 " rc=%s",
	    piece->call.node->node_id, text, piece->stretch.location.offset_bytes,
	    piece->read->session->hello.volume_id, io->segment,
	    io->offset_bytes / CLEAVE_BLOCK_BYTES + piece->stretch.first, log_errno(rc));
}

void
mt_read_note_no_key(const struct read_piece *piece)
{
	const struct mt_volume *volume = &piece->read->session->volume;

	assert(piece->stretch.what == READ_STORED);
	log_limited(LOG_WARN,
	    "read: a data key is not here, the read is refused volume=%" PRIu64
	    " name=%s: give this gateway the --kek that wraps the key",
	    volume->id, volume->name);
}
