/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holes.c -- chunks that hold nothing, told a segment at a time
 *
 * A chunk of which the index knows nothing, in any span of a scope, reads as zeros. It has no write under way
 * either: what is admitted has its chunk in the index until it is answered (mt_index_promise), and a write that
 * was admitted fails only with its shard, or after the extent that may have it was sealed without it
 * (log_roll.c). So at the moment of the look the chunk is empty for everybody who reads it, now and after any
 * crash: a discard that is under way at that moment may count as done then, with no record and no memory.
 * Whether a snapshot is being taken does not matter: it sees zeros on both sides of a change that changes nothing.
 *
 * What is not admitted yet is another matter, and the client's: it asks for the sake of a discard once all changes
 * that it sent before, and that overlap, are over (I11).
 */
#include <string.h>

#include "base/crc32c.h"
#include "base/metrics.h"
#include "catalog/cluster_key.h"
#include "catalog/scope.h"
#include "cleave/dev_ptr.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/lease.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/shard.h"
#include "index/hole.h"
#include "read/holes.h"
#include "session/reply.h"
#include "session/session.h"
#include "write/write_path.h"

/* The holes of shards that this port serves, while the gateway has its lease (I7). */
static void
holes_fill(const struct mt_session *session, uint64_t segment, uint8_t bits[WIRE_HOLES_BYTES])
{
	const struct mt_port *port = session->port;
	uint32_t shard_count = port->cluster->shard_count;

	assert(shard_count > 0);
	memset(bits, 0, WIRE_HOLES_BYTES);
	if (port->shard_by_number == NULL || !mt_port_has_lease(port))
		return;
	for (uint32_t i = 0; i < CLEAVE_SEGMENT_CHUNKS; i++) {
		const struct mt_shard *shard = port->shard_by_number[wire_shard_of(segment,
		    i * CLEAVE_CHUNK_BYTES, shard_count)];

		if (shard != NULL && write_path_serves(shard) &&
		    mt_chunk_is_hole(shard->block_index, &session->volume.scope, segment,
			i * (uint32_t)CLEAVE_CHUNK_BLOCKS))
			bits[i / 8] |= (uint8_t)(1u << i % 8);
	}
}

void
mt_holes(struct mt_session *session, struct split_msg *msg, const struct wire_io *io)
{
	struct mt_port *port = session->port;
	struct dev_piece piece = { msg->payload, WIRE_HOLES_BYTES };
	uint8_t bits[WIRE_HOLES_BYTES];
	struct wire_header header;

	assert(io->opcode == WIRE_HOLES);
	assert(io->length_bytes == WIRE_HOLES_BYTES);
	holes_fill(session, io->segment, bits);
	metric_add(&port->metrics[MT_METRIC_hole_maps], 1);
	dev_copy_from_host(port->split, msg->payload, bits, sizeof(bits));
	wire_io_reply(&header, io, 0, crc32c(0, bits, sizeof(bits)), 0);
	mt_reply_tag(session, &header);
	split_msg_reply(msg, &header, &piece, 1, NULL, NULL);
}
