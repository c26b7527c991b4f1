/* SPDX-License-Identifier: Apache-2.0 */
/*
 * block_status.c -- what a range of a volume holds, from the index alone
 *
 *	discarded, never written    hole, zeros
 *	WRITE_ZEROES                zeros
 *	written, also zeros; lost   allocated
 *
 * The scope of a difference (scope.c) shows what has changed: a hole there is what has not. Zeros of it are not told:
 * its spans are of either end, in no order, and a tombstone may be what the older end alone has, or lie under data that
 * both have. Who wants to know asks the newer end.
 *
 * The range lies in one chunk; of a chunk about which something is known, the first
 * READ_STATUS_BLOCKS_MAX blocks are answered for. A byte a block is painted (paint.h).
 */
#include "read/block_status.h"

#include <string.h>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/list.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/port.h"
#include "common/shard.h"
#include "read/paint.h"
#include "read/read_path.h"
#include "session/session.h"

struct status_canvas {
	struct read_canvas canvas;
	uint8_t *flags; /* of each block */
	uint8_t mask;   /* flags that may be told; of a difference none: what is seen has changed */
};

static uint8_t
status_flags(uint8_t record_kind)
{
	switch (record_kind) {
	case RECORD_DISCARD:
		return WIRE_STATUS_HOLE | WIRE_STATUS_ZERO;
	case RECORD_ZEROES:
		return WIRE_STATUS_ZERO;
	default:
		return 0;
	}
}

static void
status_paint(struct read_canvas *canvas, const struct read_stroke *stroke)
{
	const struct status_canvas *status = LIST_ENTRY(canvas, struct status_canvas, canvas);

	memset(status->flags + stroke->at, status_flags(stroke->record_kind) & status->mask,
	    stroke->count);
}

/* The entries' bytes. */
static uint32_t
status_encode(const struct status_canvas *canvas, uint8_t *entries)
{
	uint32_t bytes = 0, count = canvas->canvas.count;

	assert(count <= READ_STATUS_BLOCKS_MAX);
	for (uint32_t at = 0; at < count;) {
		struct wire_status status = { .flags = canvas->flags[at] };

		do {
			status.block_count++;
			at++;
		} while (at < count && canvas->flags[at] == status.flags);
		wire_status_encode(entries + bytes, &status);
		bytes += WIRE_STATUS_ENTRY_BYTES;
	}
	return bytes;
}

static uint32_t
status_fill(const struct mt_read *read, uint8_t *entries, uint8_t *flags)
{
	struct status_canvas canvas = {
		.canvas = { (uint32_t)num_min(read->block_count, READ_STATUS_BLOCKS_MAX),
		    status_paint },
		.flags = flags,
		.mask = read->session->volume.is_difference ? 0 : UINT8_MAX,
	};

	memset(flags, status_flags(RECORD_DISCARD), canvas.canvas.count);
	mt_read_paint(read, &canvas.canvas);
	return status_encode(&canvas, entries);
}

void
mt_read_status(struct mt_read *read)
{
	struct mt_port *port = read->shard->port;
	uint8_t *entries = port->read->status_entries;
	bool is_known;

	assert(read->io.opcode == WIRE_BLOCK_STATUS);
	if (!mt_read_paint_is_ready(read, &is_known))
		return;
	if (is_known) {
		read->payload_bytes = status_fill(read, entries, entries + READ_STATUS_BYTES_MAX);
	} else {
		/* The same is true of all of it, however much that is. */
		wire_status_encode(entries,
		    &(struct wire_status){ read->block_count, status_flags(RECORD_DISCARD) });
		read->payload_bytes = WIRE_STATUS_ENTRY_BYTES;
	}
	read->payload_crc = crc32c(0, entries, read->payload_bytes);
	dev_copy_from_host(port->split, read->msg->payload, entries, read->payload_bytes);
	mt_read_on_painted(read, 0);
}
