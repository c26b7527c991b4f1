/* SPDX-License-Identifier: Apache-2.0 */
/*
 * direct_tell.c -- what gateways are told of reads past them, with each LEASE: how many there were, for people to see; of
 * which runs, so that what is read often is stored for readers; which copies did not hold what a map says, so that these
 * are verified
 *
 * A LEASE tells of runs, and of one copy, on the connection of their shard, whose owner alone can see to it. Of one read
 * in WIRE_LEASE_SAMPLE the run is noted, by dice, and runs for which there is no room are not told of: heat is no exact
 * figure, and a volume that reads from so many runs at a time makes none of them hot soon.
 */
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "direct.h"
#include "internal.h"

/* ---- what is noted ---- */

/* Untold reads of that run; NULL: there are none, and no room. */
static struct wire_lease_read *
run_noted(struct direct *direct, const struct wire_map_source *source, uint64_t offset_bytes)
{
	struct wire_lease_read *run;

	for (uint32_t i = 0; i < direct->run_count; i++) {
		run = &direct->runs[i];
		if (run->extent == source->extent && run->from_bytes == source->from_bytes)
			return run;
	}
	if (direct->run_count == WIRE_LEASE_READS_MAX)
		return NULL;
	run = &direct->runs[direct->run_count++];
	*run = (struct wire_lease_read){ .segment = direct->volume->info.segment_base +
		    offset_bytes / CLEAVE_SEGMENT_BYTES,
		.chunk = (uint32_t)(offset_bytes % CLEAVE_SEGMENT_BYTES / CLEAVE_CHUNK_BYTES),
		.extent = source->extent,
		.from_bytes = source->from_bytes };
	return run;
}

static void
note_frame(struct wire_lease_read *run, const struct direct_frame *frame)
{
	bool is_dear = ENGINE_CODEC(frame->codec_id) == ENGINE_ZSTD;

	if (run->stored_bytes <= UINT32_MAX - frame->stored_bytes)
		run->stored_bytes += frame->stored_bytes;
	if (is_dear || run->codec_id == 0)
		run->codec_id = frame->codec_id;
}

/* By their requests, of which each is of one run; those that are of the same one are no more than a read of it. */
static void
note_runs(const struct direct_read *read, const struct message *message)
{
	bool is_small = message->length_bytes < WIRE_LEASE_SMALL_BYTES;

	for (uint32_t i = 0; i < read->frame_count; i++) {
		const struct direct_frame *frame = &read->frames[i];
		bool is_first = i == 0 || read->frames[i - 1].request != frame->request;
		const struct wire_map_source *source =
		    frame->request == DIRECT_ZEROS ? NULL : &read->requests[frame->request].source;
		struct wire_lease_read *run = source == NULL
		    ? NULL
		    : run_noted(read->direct, source,
			  message->offset_bytes + frame->first * CLEAVE_BLOCK_BYTES);

		if (run == NULL || run->read_count == UINT16_MAX)
			continue;
		note_frame(run, frame);
		run->read_count += is_first;
		run->small_count += is_first && is_small;
	}
}

void
direct_note_read(const struct direct_read *read, const struct message *message)
{
	struct direct *direct = read->direct;

	if (direct->untold_count == UINT32_MAX)
		return;
	direct->untold_count++;
	direct->untold_bytes += message->length_bytes;
	if (num_mix_u64(++direct->sampled_count) % WIRE_LEASE_SAMPLE == 0)
		note_runs(read, message);
}

void
direct_note_suspect(struct direct_request *request)
{
	struct direct *direct = request->read->direct;
	const struct direct_suspect suspect = { .extent = request->source.extent,
		.node_id = request->node->id };
	struct direct_suspect *room = NULL;

	for (uint32_t i = 0; i < DIRECT_SUSPECTS_MAX; i++) {
		if (direct->suspects[i].extent == suspect.extent &&
		    direct->suspects[i].node_id == suspect.node_id)
			return;
		if (direct->suspects[i].extent == 0)
			room = &direct->suspects[i];
	}
	if (room != NULL)
		*room = suspect;
}

/* ---- what is told ---- */

static bool
run_is_of(const struct connection *connection, const struct wire_lease_read *run)
{
	return volume_connection_of(connection->volume, extent_id_unpack(run->extent).shard) ==
	    connection;
}

/* Nothing is told of runs where there is no memory. */
static void
tell_runs(struct connection *connection, struct wire_lease *lease)
{
	const struct direct *direct = connection->volume->direct;
	struct lease_message *message = connection->lease.message;
	uint32_t count = 0;

	if (direct->run_count == 0)
		return;
	if (message == NULL)
		message = connection->lease.message = client_calloc(1, sizeof(*message));
	if (message == NULL)
		return;
	for (uint32_t i = 0; i < direct->run_count; i++) {
		if (!run_is_of(connection, &direct->runs[i]))
			continue;
		wire_lease_read_encode(message->reads + WIRE_LEASE_READS_HEAD_BYTES +
			count * WIRE_LEASE_READ_BYTES,
		    &direct->runs[i]);
		count++;
	}
	if (count > 0)
		lease->payload_bytes = wire_lease_reads_seal(message->reads, count);
}

void
direct_tell(struct connection *connection, struct wire_lease *lease)
{
	struct cleave_volume *volume = connection->volume;
	const struct direct *direct = volume->direct;

	if (direct == NULL)
		return;
	lease->read_count = direct->untold_count;
	lease->read_bytes = direct->untold_bytes;
	for (uint32_t i = 0; i < DIRECT_SUSPECTS_MAX && lease->suspect == 0; i++) {
		uint64_t extent = direct->suspects[i].extent;

		if (extent == 0 ||
		    volume_connection_of(volume, extent_id_unpack(extent).shard) != connection)
			continue;
		lease->suspect = extent;
		lease->suspect_node = direct->suspects[i].node_id;
	}
	tell_runs(connection, lease);
}

static void
told_runs(const struct connection *connection)
{
	struct direct *direct = connection->volume->direct;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < direct->run_count; i++) {
		if (!run_is_of(connection, &direct->runs[i]))
			direct->runs[kept++] = direct->runs[i];
	}
	direct->run_count = kept;
}

void
direct_told(const struct connection *connection, const struct wire_lease *lease)
{
	struct direct *direct = connection->volume->direct;

	if (direct == NULL)
		return;
	direct->untold_count -= lease->read_count;
	direct->untold_bytes -= lease->read_bytes;
	for (uint32_t i = 0; i < DIRECT_SUSPECTS_MAX; i++) {
		if (direct->suspects[i].extent == lease->suspect &&
		    direct->suspects[i].node_id == lease->suspect_node)
			memset(&direct->suspects[i], 0, sizeof(direct->suspects[i]));
	}
	if (lease->payload_bytes > 0)
		told_runs(connection);
}
