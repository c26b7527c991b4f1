/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_wire.c -- arbitrary bytes as hellos and headers
 *
 * The first byte may make the frame pass, so that the fuzzer reaches the groups. Whatever a decoder
 * lets through must encode to the bytes that it came from; whatever it refuses must be named.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/num.h"
#include "cleave/hot.h"
#include "cleave/job.h"
#include "cleave/lease_read.h"
#include "splitlib/core/wire.h"

#define CHOICE_STAMP 1u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void
check_same(const struct wire_header *header, struct wire_header *again)
{
	wire_frame_stamp(again, header->payload_bytes, header->credits);
	assert(memcmp(header, again, sizeof(*header)) == 0);
}

static void
check_groups(const struct wire_header *header)
{
	struct wire_header again;
	struct wire_node_reply node_reply;
	struct wire_io_reply io_reply;
	struct wire_control control;
	struct wire_direct direct;
	struct wire_lease lease;
	struct wire_mirror mirror;
	struct wire_job job;
	struct wire_node node;
	struct wire_io io;
	const char *field = NULL;

	if (wire_io_decode(header, &io, &field) == 0) {
		wire_io_encode(&again, &io);
		check_same(header, &again);
	} else {
		assert(field != NULL);
	}
	if (wire_node_decode(header, &node, &field) == 0) {
		wire_node_encode(&again, &node);
		check_same(header, &again);
	}
	if (wire_node_reply_decode(header, &node_reply, &field) == 0) {
		assert(node_reply.rc <= 0);
		wire_node_reply_encode(&again, &node_reply);
		check_same(header, &again);
	}
	if (wire_io_reply_decode(header, &io_reply, &field) == 0)
		assert(io_reply.rc <= 0 && io_reply.length_bytes <= CLEAVE_CHUNK_BYTES);
	if (wire_lease_decode(header, &lease, &field) == 0) {
		assert(lease.rc <= 0);
		wire_lease_encode(&again, &lease);
		check_same(header, &again);
	}
	if (wire_mirror_decode(header, &mirror, &field) == 0) {
		assert(mirror.rc <= 0 && mirror.payload_bytes <= WIRE_MIRROR_BYTES_MAX);
		wire_mirror_encode(&again, &mirror);
		check_same(header, &again);
	}
	if (wire_job_decode(header, &job, &field) == 0) {
		assert(job.rc <= 0 && job.offset_bytes <= job.recipe_bytes);
		wire_job_encode(&again, &job);
		check_same(header, &again);
	}
	if (wire_direct_decode(header, &direct, &field) == 0) {
		wire_direct_encode(&again, &direct);
		check_same(header, &again);
	}
	if (wire_control_decode(header, &control, &field) == 0)
		assert(control.payload_bytes <= WIRE_CLIENT_PAYLOAD_BYTES_MAX);
}

/* Entries, as a client walks them: whatever they say, it stays within its range. */
static void
check_status(const uint8_t *data, size_t bytes)
{
	uint32_t left_count = CLEAVE_CHUNK_BLOCKS;
	uint8_t again[WIRE_STATUS_ENTRY_BYTES];
	struct wire_status status;
	const char *field = NULL;

	for (size_t at = 0; at + WIRE_STATUS_ENTRY_BYTES <= bytes; at += WIRE_STATUS_ENTRY_BYTES) {
		if (wire_status_decode(data + at, left_count, &status, &field) != 0) {
			assert(field != NULL);
			return;
		}
		assert(status.block_count > 0 && status.block_count <= left_count);
		left_count -= status.block_count;
		wire_status_encode(again, &status);
		assert(memcmp(again, data + at, sizeof(again)) == 0);
	}
}

/* Tickets, as a node walks them: what passes is a range of an extent, for a slot that there is. */
static void
check_tickets(const uint8_t *data, size_t bytes)
{
	uint8_t again[WIRE_TICKET_BYTES];
	struct wire_ticket_key key;
	struct wire_ticket ticket;
	const char *field = NULL;

	for (size_t at = 0; at + WIRE_TICKET_BYTES <= bytes; at += WIRE_TICKET_BYTES) {
		field = NULL;
		if (wire_ticket_decode(data + at, &ticket, &field) != 0) {
			assert(field != NULL);
			continue;
		}
		assert(ticket.from_bytes < ticket.to_bytes);
		assert(ticket.to_bytes <= CLEAVE_CHUNK_BYTES);
		assert(ticket.slot < WIRE_TICKET_SLOTS_MAX);
		wire_ticket_encode(again, &ticket);
		assert(memcmp(again, data + at, sizeof(again)) == 0);
	}
	field = NULL;
	if (wire_ticket_key_decode(data, (uint32_t)num_min(bytes, WIRE_PAYLOAD_BYTES_MAX), &key,
		&field) != 0)
		assert(field != NULL);
}

/* A page of a list, as its readers walk it: what passes has an id that packs, to what it came from. */
static void
check_listed(const uint8_t *data, size_t bytes)
{
	struct wire_extent_entry entry;
	struct wire_listed listed;
	const char *field = NULL;

	for (size_t at = 0; at + sizeof(entry) <= bytes; at += sizeof(entry)) {
		memcpy(&entry, data + at, sizeof(entry));
		if (wire_listed_decode(&entry, UINT32_MAX, &listed, &field) != 0) {
			assert(field != NULL);
			field = NULL;
			continue;
		}
		assert(extent_id_pack(&listed.id) == entry.extent);
		assert(listed.length_bytes <= CLEAVE_CHUNK_BYTES);
		if (wire_list_check_cursor(entry.incarnation, entry.fence_epoch, entry.mark_bytes,
			&field) == 0)
			assert(entry.mark_bytes == 0 || entry.mark_bytes > entry.incarnation);
	}
}

/* The answer to a LEASE, as a client walks it: each entry once, of shards that there are. */
static void
check_lease(const uint8_t *data, size_t bytes)
{
	uint8_t again[WIRE_LEASE_HEAD_BYTES];
	struct wire_lease_entry entry = { 0, 0 };
	struct wire_lease_head head;
	struct dev_remote page;
	const char *field = NULL;
	uint32_t from = 0;

	if (wire_lease_head_decode(data, (uint32_t)num_min(bytes, WIRE_LEASE_BYTES_MAX), &head,
		&field) != 0) {
		assert(field != NULL);
		return;
	}
	wire_lease_head_encode(again, &head);
	assert(memcmp(again, data, sizeof(again)) == 0);
	data += WIRE_LEASE_HEAD_BYTES;
	for (uint32_t i = 0; i < head.shard_count; i++, data += WIRE_LEASE_ENTRY_BYTES) {
		if (wire_lease_entry_decode(data, from, CLEAVE_SHARDS_DEFAULT, &entry, &field) != 0)
			return;
		assert(entry.shard >= from && entry.shard < CLEAVE_SHARDS_DEFAULT);
		from = entry.shard + 1;
		wire_lease_entry_encode(again, &entry);
		assert(memcmp(again, data, WIRE_LEASE_ENTRY_BYTES) == 0);
	}
	for (uint32_t i = 0; i < head.page_count; i++, data += DEV_REMOTE_BYTES) {
		if (wire_hot_page_decode(data, &page, &field) != 0)
			return;
		assert(page.bytes == HOT_PAGE_BYTES && page.rights == DEV_REGION_READ);
		assert(page.address <= UINT64_MAX - HOT_PAGE_BYTES);
	}
}

/* A run of a LEASE, as a gateway looks at it. */
static void
check_lease_read(const uint8_t *data, size_t bytes)
{
	uint8_t again[WIRE_LEASE_READ_BYTES];
	struct wire_lease_read read;
	const char *field = NULL;

	if (bytes < WIRE_LEASE_READ_BYTES)
		return;
	if (wire_lease_read_decode(data, &read, &field) != 0) {
		assert(field != NULL);
		return;
	}
	wire_lease_read_encode(again, &read);
	assert(memcmp(again, data, sizeof(again)) == 0);
}

/* The head of a slot, as a client has read it. */
static void
check_hot(const uint8_t *data, size_t bytes)
{
	uint8_t again[HOT_HEAD_BYTES];
	struct wire_hot_head head;

	if (bytes < HOT_HEAD_BYTES || wire_hot_head_decode(data, &head) != 0)
		return;
	assert((head.control & 1) != 0 && head.control >> 1 == (head.version & INT64_MAX));
	wire_hot_head_encode(again, &head);
	assert(memcmp(again, data, sizeof(again)) == 0);
}

/* Heads of batches, as an heir walks them: each lies within the message. */
static void
check_mirror(const uint8_t *data, size_t bytes)
{
	uint8_t again[WIRE_MIRROR_ENTRY_BYTES + BATCH_HEAD_BYTES_MAX];
	struct wire_mirror_entry entry;
	const char *field = NULL;
	size_t at = 0;

	while (at < bytes) {
		uint32_t entry_bytes, left = (uint32_t)num_min(bytes - at, WIRE_MIRROR_BYTES_MAX);

		if (wire_mirror_entry_decode(data + at, left, &entry, &field) != 0) {
			assert(field != NULL);
			return;
		}
		entry_bytes =
		    wire_mirror_entry_encode(again, &entry, data + at + WIRE_MIRROR_ENTRY_BYTES);
		assert(entry_bytes <= left && memcmp(again, data + at, entry_bytes) == 0);
		at += entry_bytes;
	}
}

static void
check_hello(const uint8_t *data, size_t bytes)
{
	uint8_t again[WIRE_HELLO_BYTES];
	struct wire_hello hello;
	const char *field = NULL;

	if (wire_hello_decode(data, (uint32_t)num_min(bytes, 4096), &hello, &field) != 0) {
		assert(field != NULL);
		return;
	}
	wire_hello_encode(again, &hello);
	assert(memcmp(again, data, sizeof(again)) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct wire_header header;
	const char *field = NULL;
	uint8_t choice;

	if (bytes < 1)
		return 0;
	choice = data[0];
	data++;
	bytes--;
	check_hello(data, bytes);
	check_status(data, bytes);
	check_listed(data, bytes);
	check_lease(data, bytes);
	check_lease_read(data, bytes);
	check_hot(data, bytes);
	check_tickets(data, bytes);
	check_mirror(data, bytes);
	if (bytes < sizeof(header))
		return 0;
	memcpy(&header, data, sizeof(header));
	if ((choice & CHOICE_STAMP) != 0)
		wire_frame_stamp(&header, header.payload_bytes % (WIRE_PAYLOAD_BYTES_MAX + 1),
		    header.credits);
	if (wire_frame_check(&header, &field) == 0)
		check_groups(&header);
	else
		assert(field != NULL);
	return 0;
}
