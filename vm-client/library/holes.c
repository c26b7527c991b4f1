/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holes.c -- long discards, zero writes and statuses: which chunks hold nothing is asked first, a segment at a time
 *
 *	port 0 --> port 1 --> ... --> the bits of all are taken together
 *
 * Each port answers for the shards that it serves. A port without a connection that is up is passed over, once
 * one was asked: its chunks count as if they held something, and are asked for one by one.
 *
 * A status tells of holes without another message. A discard or zero write is done with them: what asks for its
 * sake is ordered like a change (overlap.c) and held back like one (debt.c). So when a port looks, every change of
 * this session that overlaps and came before is over, and those that came later are not sent yet. A chunk that
 * holds nothing at that moment holds nothing after the change, either (I11, middletier/read/holes.c).
 *
 * A change is asked about a segment at a time, before any message is made of it, or of a change behind it.
 */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/crc32c.h"
#include "internal.h"

uint64_t
holes_end(const struct cleave_io *io, uint64_t from_bytes)
{
	uint64_t in_segment = (io->offset_bytes + from_bytes) % CLEAVE_SEGMENT_BYTES;

	assert(from_bytes <= io->length_bytes);
	return num_min(io->length_bytes, from_bytes + CLEAVE_SEGMENT_BYTES - in_segment);
}

bool
holes_are_wanted(const struct cleave_io *io, uint64_t from_bytes)
{
	uint64_t first = (io->offset_bytes + from_bytes) / CLEAVE_CHUNK_BYTES;
	uint64_t end = io->offset_bytes + holes_end(io, from_bytes);

	assert(io->volume != NULL); /* it was submitted */
	return num_round_up(end, CLEAVE_CHUNK_BYTES) / CLEAVE_CHUNK_BYTES - first >=
	    io->volume->client->options.holes_chunks_min;
}

uint64_t
holes_run(const uint8_t *holes, const struct cleave_io *io, uint64_t from_bytes,
    uint64_t until_bytes)
{
	uint64_t to_bytes = from_bytes;

	assert(from_bytes <= until_bytes && until_bytes <= io->length_bytes);
	while (to_bytes < until_bytes) {
		uint64_t at = io->offset_bytes + to_bytes;
		uint64_t chunk = at % CLEAVE_SEGMENT_BYTES / CLEAVE_CHUNK_BYTES;

		if ((holes[chunk / 8] >> chunk % 8 & 1) == 0)
			break;
		to_bytes =
		    num_min(until_bytes, to_bytes + CLEAVE_CHUNK_BYTES - at % CLEAVE_CHUNK_BYTES);
	}
	return to_bytes - from_bytes;
}

/* The first port from @from on that can be asked now; CLIENT_PORTS_MAX: none. */
static uint32_t
port_up(const struct cleave_volume *volume, uint32_t from)
{
	assert(from <= CLIENT_PORTS_MAX);
	while (from < CLIENT_PORTS_MAX &&
	    (volume->by_port[from] == NULL || volume->by_port[from]->sm.state != CONNECTION_UP))
		from++;
	return from;
}

void
holes_begin(struct message *message)
{
	assert(!message->is_sending);
	message->is_holes = true;
	message->holes_port = 0;
	message->length_bytes = WIRE_HOLES_BYTES;
	memset(message->holes, 0, sizeof(message->holes));
}

struct connection *
holes_route(struct message *message)
{
	struct cleave_volume *volume = message->volume;
	uint32_t port = port_up(volume, message->holes_port);

	assert(message->is_holes);
	if (port == CLIENT_PORTS_MAX) /* as others wait: for one that may come up */
		for (port = 0; port < CLIENT_PORTS_MAX - 1 && volume->by_port[port] == NULL;)
			port++;
	message->holes_port = port;
	return volume->by_port[port];
}

int
holes_take(struct message *message, const struct wire_io_reply *reply, dev_ptr payload)
{
	struct cleave_client *client = message->client;

	assert(message->is_holes && reply->rc == 0);
	dev_copy_to_host(client->port, client->status, payload, WIRE_HOLES_BYTES);
	message->is_damaged = crc32c(0, client->status, WIRE_HOLES_BYTES) != reply->payload_crc;
	if (message->is_damaged)
		return -EBADMSG;
	for (uint32_t i = 0; i < WIRE_HOLES_BYTES; i++)
		message->holes[i] |= client->status[i];
	return 0;
}

bool
holes_next(struct message *message)
{
	uint32_t port = port_up(message->volume, message->holes_port + 1);

	assert(message->is_holes);
	volume_on_progress(message->volume, message->io);
	message->attempts = message->checksum_errors = 0;
	message->begun_ns = loop_now_ns(message->client->loop);
	if (port == CLIENT_PORTS_MAX)
		return false;
	message->holes_port = port;
	return true;
}

void
holes_skip(struct cleave_volume *volume, struct cleave_io *io)
{
	uint64_t bytes = io->split_bytes < io->asked_bytes
	    ? holes_run(volume->holes, io, io->split_bytes, io->asked_bytes)
	    : 0;

	assert(io->volume == volume && io->split_bytes <= io->length_bytes);
	CLIENT_STAT(volume->client, holes_skipped,
	    num_round_up(bytes, CLEAVE_CHUNK_BYTES) / CLEAVE_CHUNK_BYTES);
	io->split_bytes += bytes;
	if (io->split_bytes == io->length_bytes)
		list_remove(&io->split_link);
}

void
holes_finish(struct message *message, int rc)
{
	struct cleave_volume *volume = message->volume;
	struct cleave_io *io = message->io;

	assert(message->is_holes);
	if (volume->asker != message)
		return;
	volume->asker = NULL;
	volume_wake(volume);
	if (rc != 0)
		return;
	memcpy(volume->holes, message->holes, sizeof(volume->holes));
	io->asked_bytes = holes_end(io, io->split_bytes);
	holes_skip(volume, io);
}
