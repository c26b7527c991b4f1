/* SPDX-License-Identifier: Apache-2.0 */
/*
 * block_status.c -- what a range of a volume holds, from the index alone
 *
 *	discarded, never written    hole, zeros
 *	WRITE_ZEROES                zeros
 *	written, also zeros; lost   allocated
 *
 * The range lies in one chunk. An answer may end before it does: where the index of a run is not in
 * memory, after READ_STATUS_BLOCKS_MAX blocks, so that nobody else waits for long. At its first block a
 * missing index is waited for.
 */
#include <errno.h>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/num.h"
#include "read.h"
#include "write.h"

static uint32_t
status_flags(enum mt_found found, const struct mt_location *location)
{
	if (found == MT_FOUND_NOTHING)
		return WIRE_STATUS_HOLE | WIRE_STATUS_ZERO;
	switch (location->record_kind) {
	case RECORD_DISCARD:
		return WIRE_STATUS_HOLE | WIRE_STATUS_ZERO;
	case RECORD_ZEROES:
		return WIRE_STATUS_ZERO;
	default:
		return 0;
	}
}

/* Nothing is known of the chunk in any of the volume's spans: the same is true of all its blocks. */
static bool
status_is_unknown(const struct mt_read *read, uint32_t block)
{
	const struct mt_scope *scope = &read->session->volume.scope;
	uint64_t in_volume = read->io.segment - scope->spans[0].segment_base;

	for (uint32_t i = 0; i < scope->span_count; i++) {
		uint64_t segment = scope->spans[i].segment_base + in_volume;

		if (mt_index_chunk(read->shard->block_index, mt_chunk_number(segment, block)) !=
		    NULL)
			return false;
	}
	return true;
}

/* The bytes of the entries; 0: the index of *@ret_run is wanted first. */
static uint32_t
status_fill(const struct mt_read *read, uint8_t *entries, struct mt_run **ret_run)
{
	uint32_t first = (uint32_t)(read->io.offset_bytes / CLEAVE_BLOCK_BYTES);
	uint32_t count = (uint32_t)num_min(read->block_count, READ_STATUS_BLOCKS_MAX);
	struct wire_status status = { 0 };
	struct mt_location location;
	uint32_t bytes = 0;

	if (status_is_unknown(read, first)) {
		status.block_count = read->block_count;
		status.flags = WIRE_STATUS_HOLE | WIRE_STATUS_ZERO;
		wire_status_encode(entries, &status);
		return WIRE_STATUS_ENTRY_BYTES;
	}
	for (uint32_t i = 0; i < count; i++) {
		enum mt_found found = mt_index_find(read->shard->block_index,
		    &read->session->volume.scope, read->io.segment, first + i, &location, ret_run);
		uint32_t flags;

		if (found == MT_FOUND_UNLOADED)
			break;
		flags = status_flags(found, &location);
		if (status.block_count > 0 && flags != status.flags) {
			wire_status_encode(entries + bytes, &status);
			bytes += WIRE_STATUS_ENTRY_BYTES;
			status.block_count = 0;
		}
		status.flags = flags;
		status.block_count++;
	}
	if (status.block_count == 0)
		return 0;
	wire_status_encode(entries + bytes, &status);
	return bytes + WIRE_STATUS_ENTRY_BYTES;
}

static void
status_on_index(int rc, void *arg)
{
	struct mt_read *read = arg;

	if (rc == 0 && loop_now_ns(read->shard->port->loop) >= read->deadline_ns)
		rc = -EHOSTDOWN; /* indexes go as fast as they come: the client asks again */
	if (read->shard->write->is_stopped)
		read_on_status(read, -EREMCHG);
	else if (rc == 0 || rc == -ESTALE)
		read_status(read);
	else
		read_on_status(read, rc == -EBADMSG ? -EIO : rc);
}

void
read_status(struct mt_read *read)
{
	struct mt_port *port = read->shard->port;
	uint8_t *entries = port->read->status_entries;
	struct mt_run *run = NULL;

	read->payload_bytes = status_fill(read, entries, &run);
	if (read->payload_bytes == 0) {
		read->waiter.fn = status_on_index;
		read->waiter.arg = read;
		mt_run_load(run, &read->waiter);
		return;
	}
	read->payload_crc = crc32c(0, entries, read->payload_bytes);
	dev_copy_from_host(port->split, read->msg->payload, entries, read->payload_bytes);
	read_on_status(read, 0);
}
