/* SPDX-License-Identifier: Apache-2.0 */
/*
 * message_payload.c -- see message_payload.h
 *
 *	write  caller's memory --gather, CRC--> device memory (staging) --> sent
 *	read   arrived --placed, or scattered--> caller's memory, CRC checked there
 *	       at nodes (direct.c): loaded, checked, into staging, or a caller's buffer --> caller's memory
 *	       out of a gateway's memory (peek.c): into staging, checked --> caller's memory
 *	status arrived --checked whole--> the request's extents
 */
#include "message_payload.h"

#include <errno.h>

#include "base/check.h"
#include "base/crc32c.h"

/* Flags of a reply's entries are given to callers as they come. */
_Static_assert((int)CLEAVE_EXTENT_HOLE == (int)WIRE_STATUS_HOLE &&
	(int)CLEAVE_EXTENT_ZERO == (int)WIRE_STATUS_ZERO,
    "extent flags");

static const enum wire_opcode message_opcodes[] = {
	[CLEAVE_READ] = WIRE_READ,
	[CLEAVE_WRITE] = WIRE_WRITE,
	[CLEAVE_DISCARD] = WIRE_DISCARD,
	[CLEAVE_WRITE_ZEROES] = WIRE_WRITE_ZEROES,
	[CLEAVE_BLOCK_STATUS] = WIRE_BLOCK_STATUS,
};

void
cleave_payload_encode(struct message *message)
{
	struct cleave_client *client = message->client;
	struct cleave_volume *volume = message->volume;
	uint64_t segment_index = message->offset_bytes / CLEAVE_SEGMENT_BYTES;
	struct wire_io io;

	assert(message->sm.state == MESSAGE_QUEUED && client->map != NULL);
	message->epoch = message->is_holes ? 0 : client->map->epoch_of_shard[message->shard];
	io = (struct wire_io){
		.opcode = message->is_holes ? WIRE_HOLES : message_opcodes[message->io->op],
		.service_class = (enum service_class)volume->info.service_class,
		.segment = volume->info.segment_base + segment_index,
		.offset_bytes = message->is_holes ? 0
						  : message->offset_bytes % CLEAVE_SEGMENT_BYTES,
		.length_bytes = message->length_bytes,
		.epoch = message->epoch,
		.vm_id = client->options.vm_id,
		.payload_crc = message->payload_crc,
	};

	message->request_id = ++volume->send_count << REQUEST_INDEX_BITS | message->index;
	io.request_id = message->request_id;
	wire_io_encode(&message->header, &io);
}

bool
cleave_payload_extent(struct cleave_io *io, const struct wire_status *status)
{
	uint64_t bytes = (uint64_t)status->block_count * CLEAVE_BLOCK_BYTES;

	assert(io->extent_count <= io->extent_max);
	if (io->extent_count > 0 && io->extents[io->extent_count - 1].flags == status->flags) {
		io->extents[io->extent_count - 1].length_bytes += bytes;
		return true;
	}
	if (io->extent_count == io->extent_max)
		return false;
	io->extents[io->extent_count++] =
	    (struct cleave_extent){ .length_bytes = bytes, .flags = status->flags };
	return true;
}

static uint32_t
device_crc(struct cleave_client *client, dev_ptr data, uint32_t bytes)
{
	struct engine_job job = { .kind = ENGINE_JOB_CRC, .src = data, .src_bytes = bytes };
	int rc = engine_submit(client->engines, &job);

	assert(rc == 1); /* inline, and the shape is right */
	return job.payload_crc;
}

/* The payload goes from the caller's memory to @message->staging. Returns its CRC. */
static uint32_t
payload_gather(struct message *message)
{
	uint32_t at, bytes, crc = 0;
	uint8_t *from;

	assert(message->length_bytes <= CLIENT_MESSAGE_BYTES_MAX);
	assert(io_has_host(message->io));
	for (at = 0; at < message->length_bytes; at += bytes) {
		bytes = io_stretch(message->io, message->io_offset_bytes + at,
		    message->length_bytes - at, &from);
		dev_copy_from_host(message->client->port, dev_ptr_add(message->staging, at), from,
		    bytes);
		crc = crc32c(crc, from, bytes);
	}
	return crc;
}

void
cleave_payload_stage(struct message *message)
{
	struct cleave_client *client = message->client;
	const struct cleave_io *io = message->io;

	assert(io->op == CLEAVE_WRITE && !message->is_staged && !message->is_sending);
	if (io_has_host(io)) {
		message->payload_crc = payload_gather(message);
		message->piece.ptr = message->staging;
	} else {
		message->piece.ptr = dev_ptr_add(io->buffer, message->io_offset_bytes);
		message->payload_crc =
		    device_crc(client, message->piece.ptr, message->length_bytes);
	}
	message->piece.bytes = message->length_bytes;
	message->is_staged = true;
}

/*
 * The caller's memory is written before the answer's CRC is known; so it is without this. It is there
 * until the message ends, and that is after its answer, or its connection.
 */
void *
cleave_payload_place(struct message *message)
{
	uint8_t *to;

	CHECK_OBJ(message, MESSAGE_MAGIC);
	assert(message->sm.state == MESSAGE_SENT);
	if (!io_has_host(message->io) || message->is_given_up || message->is_placed)
		return NULL;
	/* A payload for more than one stretch of a vector is scattered when it is here. */
	if (io_stretch(message->io, message->io_offset_bytes, message->length_bytes, &to) <
	    message->length_bytes)
		return NULL;
	message->is_placed = true;
	return to;
}

/* The payload of @msg, unless it has been placed there, goes to the caller's memory. Returns its CRC. */
static uint32_t
payload_scatter(struct message *message, const struct split_msg *msg)
{
	uint32_t at, bytes, crc = 0;
	uint8_t *to;

	assert(message->length_bytes <= CLIENT_MESSAGE_BYTES_MAX);
	assert(io_has_host(message->io));
	for (at = 0; at < message->length_bytes; at += bytes) {
		bytes = io_stretch(message->io, message->io_offset_bytes + at,
		    message->length_bytes - at, &to);
		if (msg->placed == NULL)
			dev_copy_to_host(message->client->port, to, dev_ptr_add(msg->payload, at),
			    bytes);
		crc = crc32c(crc, to, bytes);
	}
	return crc;
}

/* The bytes at @from go to the caller's host memory. */
static void
payload_copy_out(struct message *message, dev_ptr from)
{
	uint32_t at, bytes;
	uint8_t *to;

	assert(io_has_host(message->io));
	for (at = 0; at < message->length_bytes; at += bytes) {
		bytes = io_stretch(message->io, message->io_offset_bytes + at,
		    message->length_bytes - at, &to);
		dev_copy_to_host(message->client->port, to, dev_ptr_add(from, at), bytes);
	}
}

void
cleave_payload_loaded(struct message *message)
{
	/* A caller's buffer was loaded to at once. */
	if (io_has_host(message->io))
		payload_copy_out(message, message->staging);
}

bool
cleave_payload_is(const struct message *message, dev_ptr block, uint32_t crc)
{
	assert(message->length_bytes == CLEAVE_BLOCK_BYTES);
	return device_crc(message->client, block, CLEAVE_BLOCK_BYTES) == crc;
}

/* The bytes at @from go to the caller's buffer. */
static void
payload_copy_over(struct message *message, dev_ptr from)
{
	struct engine_job job = {
		.kind = ENGINE_JOB_COPY,
		.src = from,
		.src_bytes = message->length_bytes,
		.dst = dev_ptr_add(message->io->buffer, message->io_offset_bytes),
		.dst_cap_bytes = message->length_bytes,
	};
	int rc = engine_submit(message->client->engines, &job);

	assert(rc == 1); /* inline, and the shape is right */
	(void)rc;
}

void
cleave_payload_peeked(struct message *message, dev_ptr block)
{
	assert(message->length_bytes == CLEAVE_BLOCK_BYTES);
	if (io_has_host(message->io))
		payload_copy_out(message, block);
	else
		payload_copy_over(message, block);
}

int
cleave_payload_take(struct message *message, const struct wire_io_reply *reply,
    const struct split_msg *msg)
{
	struct cleave_client *client = message->client;
	const struct cleave_io *io = message->io;
	uint32_t crc;

	assert(io->op == CLEAVE_READ && reply->rc == 0);
	if (io_has_host(io)) {
		crc = payload_scatter(message, msg);
	} else {
		payload_copy_over(message, msg->payload);
		crc = device_crc(client, dev_ptr_add(io->buffer, message->io_offset_bytes),
		    message->length_bytes);
	}
	message->is_damaged = crc != reply->payload_crc;
	return message->is_damaged ? -EBADMSG : 0;
}

int
cleave_payload_take_status(struct message *message, const struct wire_io_reply *reply,
    dev_ptr payload)
{
	struct cleave_client *client = message->client;
	uint32_t left_count = message->length_bytes / CLEAVE_BLOCK_BYTES;
	struct wire_status status;
	const char *field;

	assert(message->io->op == CLEAVE_BLOCK_STATUS && message->told_bytes == 0);
	dev_copy_to_host(client->port, client->status, payload, reply->payload_bytes);
	message->is_damaged = crc32c(0, client->status, reply->payload_bytes) != reply->payload_crc;
	if (message->is_damaged)
		return -EBADMSG;
	/* All of it is checked before anything is told. */
	for (uint32_t at = 0; at < reply->payload_bytes; at += WIRE_STATUS_ENTRY_BYTES) {
		if (wire_status_decode(client->status + at, left_count, &status, &field) != 0)
			return -EBADMSG;
		left_count -= status.block_count;
	}
	for (uint32_t at = 0; at < reply->payload_bytes; at += WIRE_STATUS_ENTRY_BYTES) {
		(void)wire_status_decode(client->status + at, UINT32_MAX, &status, &field);
		message->is_full = !cleave_payload_extent(message->io, &status);
		if (message->is_full)
			break;
		message->told_bytes += status.block_count * (uint32_t)CLEAVE_BLOCK_BYTES;
	}
	return 0;
}
