/* SPDX-License-Identifier: Apache-2.0 */
/*
 * direct.c -- a READ that is made past its gateway, at storage nodes
 *
 *	message --all blocks are in a map, a lease holds--> read: requests to nodes, a stretch of an extent each
 *	   ^                                                    |  another copy, while there is one
 *	   |  no copy is left; the lease did not last           v
 *	   '---------------------------------------------- all loaded: does the lease still hold? --> caller's memory
 *
 * The map (map_cache.c) says where the newest version of each block lies, and what its bytes are: stored CRC, codec, and
 * the CRC of each block. What comes from a node is checked against both CRCs while it is decompressed (LOAD), so bytes
 * of something else, old or broken, are never returned: another copy is asked. The lease is judged when the read begins
 * (maps_look) and again when its bytes are there (LEASES.md); where it did not last, the gateway is asked, as it is
 * where anything else is in doubt.
 *
 * Bytes are loaded into the message's own device memory, or a caller's device buffer, and go to a caller's host memory
 * once the lease was judged: so nothing is written there for a read that was given up, or is made elsewhere.
 *
 * A read whose message has gone (given up, or at its gateway by now) keeps its place until nodes have answered, or their
 * connections have ended.
 */
#include "direct.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/mutant.h"
#include "base/num.h"
#include "internal.h"
#include "map_page.h"
#include "message_payload.h"

_Static_assert(CLIENT_MESSAGE_BYTES_MAX / CLEAVE_BLOCK_BYTES <= ENGINE_RECORD_BLOCKS_MAX,
    "a read has room for the blocks of a message");
_Static_assert(DIRECT_REQUESTS_MAX <= 8, "a read's requests are bits of a byte");

static const struct sm_state request_table[DIRECT_REQUEST_STATE_NR] = {
	[DIRECT_REQUEST_IDLE] = { "idle", SM_TO(DIRECT_REQUEST_OUT), SM_INITIAL | SM_FINAL },
	[DIRECT_REQUEST_OUT] = { "out", SM_TO(DIRECT_REQUEST_ANSWERED), 0 },
	[DIRECT_REQUEST_ANSWERED] = { "answered", SM_TO(DIRECT_REQUEST_IDLE), 0 },
};

/* ---- what has to be read ---- */

/* The request that has @block's record, or can have it as well; NULL: one more is not possible. */
static struct direct_request *
plan_request(struct direct_read *read, const struct map_block *block, uint64_t map_at)
{
	const struct map_record *record = block->record;
	struct direct_request *last =
	    read->request_count == 0 ? NULL : &read->requests[read->request_count - 1];
	uint32_t end_bytes = record->offset_bytes + record->stored_bytes;

	if (last != NULL && last->source.extent == block->source->extent &&
	    last->source.from_bytes == block->source->from_bytes &&
	    record->offset_bytes >= last->offset_bytes &&
	    record->offset_bytes <= last->offset_bytes + last->length_bytes &&
	    end_bytes - last->offset_bytes <= WIRE_CLIENT_PAYLOAD_BYTES_MAX) {
		last->length_bytes =
		    (uint32_t)num_max(last->length_bytes, end_bytes - last->offset_bytes);
		return last;
	}
	if (read->request_count == DIRECT_REQUESTS_MAX)
		return NULL;
	last = &read->requests[read->request_count++];
	assert(last->sm.state == DIRECT_REQUEST_IDLE);
	last->source = *block->source;
	last->offset_bytes = record->offset_bytes;
	last->length_bytes = record->stored_bytes;
	last->map_at = map_at;
	last->map_serial = block->serial;
	last->tried = 0;
	return last;
}

static bool
plan_frame(struct direct_read *read, const struct message *message, const struct map_block *block,
    uint32_t at)
{
	struct direct_frame *frame = &read->frames[read->frame_count++];
	const struct map_record *record = block->record;
	const struct direct_request *request;

	*frame = (struct direct_frame){ .first = (uint8_t)at, .count = 1, .request = DIRECT_ZEROS };
	if (block->source == NULL)
		return true;
	request =
	    plan_request(read, block, message->offset_bytes + (uint64_t)at * CLEAVE_BLOCK_BYTES);
	if (request == NULL)
		return false;
	frame->request = (uint8_t)(request - read->requests);
	frame->in_record = (uint8_t)block->in_record;
	frame->record_blocks = record->record_blocks;
	frame->codec_id = record->codec_id;
	frame->offset_bytes = record->offset_bytes;
	frame->stored_bytes = record->stored_bytes;
	frame->stored_crc = record->stored_crc;
	return true;
}

/* Where all blocks of @message lie, by one lease. False: a gateway has to be asked. */
static bool
plan(struct direct_read *read, const struct message *message)
{
	uint32_t count = message->length_bytes / (uint32_t)CLEAVE_BLOCK_BYTES;
	const struct map_record *last = NULL;
	struct map_block block;

	assert(count > 0 && count <= ENGINE_RECORD_BLOCKS_MAX);
	read->frame_count = read->request_count = 0;
	for (uint32_t i = 0; i < count; i++) {
		if (!maps_look(message->volume, message->offset_bytes + i * CLEAVE_BLOCK_BYTES,
			&block) ||
		    (i > 0 && block.epoch != read->epoch))
			return false;
		read->shard = block.shard;
		read->epoch = block.epoch;
		read->crcs[i] = block.block_crc;
		if (block.record == last)
			read->frames[read->frame_count - 1].count++;
		else if (!plan_frame(read, message, &block, i))
			return false;
		last = block.record;
	}
	return true;
}

/* ---- a read's life ---- */

static struct direct_read *
read_of(struct loop_link *link)
{
	return LIST_ENTRY(link, struct direct_read, link);
}

/* The place of a read is free again, once nothing of it is with the split library or a node. */
static void
read_settle(struct direct_read *read)
{
	assert(read->message == NULL);
	for (uint32_t i = 0; i < DIRECT_REQUESTS_MAX; i++) {
		if (read->requests[i].sm.state != DIRECT_REQUEST_IDLE)
			return;
	}
	if (!list_contains(&read->link))
		list_push_back(&read->direct->free, &read->link);
}

/* The message leaves its read. */
static struct message *
read_let_go(struct direct_read *read)
{
	struct message *message = read->message;

	assert(message != NULL && message->direct == read);
	read->message = NULL;
	message->direct = NULL;
	return message;
}

/* The gateway is asked instead; why is counted by who knows. */
static void
read_fall_back(struct direct_read *read)
{
	struct message *message = read_let_go(read);

	read_settle(read);
	message_route(message);
}

/* Where block @at of the message is loaded to. */
static dev_ptr
read_at(const struct direct_read *read, uint32_t at)
{
	const struct message *message = read->message;
	dev_ptr to = io_has_host(message->io)
	    ? message->staging
	    : dev_ptr_add(message->io->buffer, message->io_offset_bytes);

	return dev_ptr_add(to, (uint64_t)at * CLEAVE_BLOCK_BYTES);
}

static void
read_zero(const struct direct_read *read, const struct direct_frame *frame)
{
	struct engine_job job = { .kind = ENGINE_JOB_ZERO,
		.src_bytes = frame->count * (uint32_t)CLEAVE_BLOCK_BYTES,
		.dst = read_at(read, frame->first),
		.dst_cap_bytes = frame->count * (uint32_t)CLEAVE_BLOCK_BYTES };
	int rc = engine_submit(read->direct->volume->client->engines, &job);

	assert(rc == 1); /* inline, and the shape is right */
	(void)rc;
}

/* All that nodes have is loaded. The last act of whoever calls it. */
static void
read_finish(struct direct_read *read)
{
	struct cleave_volume *volume = read->direct->volume;
	struct message *message = read->message;

	if (!leases_hold(volume, read->shard, read->epoch) && !MUTANT(direct_lease_unjudged)) {
		CLIENT_STAT(volume->client, direct_unleased, 1);
		read_fall_back(read);
		return;
	}
	for (uint32_t i = 0; i < read->frame_count; i++) {
		if (read->frames[i].request == DIRECT_ZEROS)
			read_zero(read, &read->frames[i]);
	}
	(void)read_let_go(read);
	read_settle(read);
	CLIENT_STAT(volume->client, direct_reads, 1);
	direct_note_read(read, message);
	message_on_direct(message);
}

static void
direct_on_task(struct loop_task *task, void *arg)
{
	struct direct *direct = arg;
	struct loop_link *link;

	assert(task == &direct->task);
	(void)task;
	while ((link = list_pop_front(&direct->done)) != NULL) {
		struct direct_read *read = read_of(link);

		if (read->message != NULL)
			read_finish(read);
		else
			read_settle(read);
	}
}

/* All requests of @read, which is the first free one. False: not all can be asked for, and nothing waits for any. */
static bool
read_send(struct direct_read *read)
{
	bool is_sent = true;

	for (uint32_t i = 0; i < read->request_count && is_sent; i++)
		is_sent = direct_request_can_be_sent(&read->requests[i]);
	if (!is_sent)
		return false;
	list_remove(&read->link);
	for (uint32_t i = 0; i < read->request_count && is_sent; i++)
		is_sent = direct_request_send(&read->requests[i]) == 0;
	if (!is_sent)
		read_settle(read);
	return is_sent;
}

bool
direct_start(struct message *message)
{
	struct direct *direct = message->volume->direct;
	struct cleave_client *client = message->client;
	struct direct_read *read;

	if (direct == NULL || direct->is_closing || message->io->op != CLEAVE_READ)
		return false;
	leases_use(message->volume);
	if (list_is_empty(&direct->free)) {
		CLIENT_STAT(client, direct_crowded, 1);
		return false;
	}
	read = read_of(list_first(&direct->free));
	if (!plan(read, message)) {
		if (maps_are_leased(message->volume, message->offset_bytes))
			CLIENT_STAT(client, direct_unmapped, 1);
		else
			CLIENT_STAT(client, direct_unleased, 1);
		return false;
	}
	if (!read_send(read)) {
		CLIENT_STAT(client, direct_unreached, 1);
		return false;
	}
	read->message = message;
	read->left_count = read->request_count;
	message->direct = read;
	if (read->request_count == 0) {
		list_push_back(&direct->done, &read->link);
		loop_defer(direct->volume->client->loop, &direct->task);
	}
	return true;
}

void
direct_cancel(struct message *message)
{
	struct direct_read *read = message->direct;

	assert(read != NULL && read->message == message);
	(void)read_let_go(read);
	read_settle(read);
}

/* ---- answers ---- */

static int
load_frame(const struct direct_read *read, const struct direct_frame *frame, dev_ptr stored)
{
	struct engine_job job = { .kind = ENGINE_JOB_LOAD,
		.codec_id = frame->codec_id,
		.src = stored,
		.src_bytes = frame->stored_bytes,
		.dst = read_at(read, frame->first),
		.dst_cap_bytes = frame->count * (uint32_t)CLEAVE_BLOCK_BYTES,
		.stored_crc = frame->stored_crc,
		.record_blocks = frame->record_blocks,
		.first_block = frame->in_record,
		.block_count = frame->count };
	int rc;

	memcpy(job.block_crcs, read->crcs + frame->first, frame->count * sizeof(job.block_crcs[0]));
	rc = engine_submit(read->direct->volume->client->engines, &job);
	return rc == 1 ? job.rc : rc;
}

int
direct_request_load(struct direct_request *request, const struct split_msg *msg)
{
	const struct direct_read *read = request->read;
	uint8_t index = (uint8_t)(request - read->requests);
	int rc = 0;

	for (uint32_t i = 0; i < read->frame_count && read->message != NULL && rc == 0; i++) {
		const struct direct_frame *frame = &read->frames[i];

		if (frame->request == index)
			rc = load_frame(read, frame,
			    dev_ptr_add(msg->payload, frame->offset_bytes - request->offset_bytes));
	}
	if (rc == 0)
		return 0;
	CLIENT_STAT(read->direct->volume->client, checksum_errors, 1);
	direct_note_suspect(request);
	return rc;
}

/* The map may be older than what it tells of: its window is asked for anew. */
static bool
is_of_the_map(int rc)
{
	return rc == -ENOENT || rc == -ERANGE || rc == -EKEYREVOKED || rc == -EBADMSG;
}

void
direct_request_over(struct direct_request *request, int rc)
{
	struct direct_read *read = request->read;
	bool is_sent;

	if (read->message == NULL) {
		read_settle(read);
		return;
	}
	if (rc == 0) {
		assert(read->left_count > 0);
		if (--read->left_count == 0)
			read_finish(read);
		return;
	}
	is_sent = volume_is_live(read->direct->volume) && direct_request_send(request) == 0;
	if (is_of_the_map(rc))
		maps_doubt(read->direct->volume, request->map_at, request->map_serial, !is_sent);
	if (is_sent) {
		CLIENT_STAT(read->direct->volume->client, direct_retries, 1);
		return;
	}
	if (rc == -EBADMSG)
		CLIENT_STAT(read->direct->volume->client, direct_damaged, 1);
	else
		CLIENT_STAT(read->direct->volume->client, direct_unreached, 1);
	read_fall_back(read);
}

/* ---- a volume's ---- */

static void
read_init(struct direct *direct, uint32_t index)
{
	struct direct_read *read = &direct->reads[index];

	read->direct = direct;
	read->index = index;
	for (uint32_t i = 0; i < DIRECT_REQUESTS_MAX; i++) {
		struct direct_request *request = &read->requests[i];
		uint32_t number = index * DIRECT_REQUESTS_MAX + i;

		request->read = read;
		request->ticket_piece =
		    (struct dev_piece){ .ptr = dev_ptr_add(direct->tickets,
					    (uint64_t)number * DIRECT_TICKET_STRIDE),
			    .bytes = WIRE_TICKET_BYTES };
		sm_init(&request->sm, "direct_request", request_table, DIRECT_REQUEST_IDLE, number);
	}
	list_push_back(&direct->free, &read->link);
}

int
direct_want(struct cleave_volume *volume)
{
	const struct maps_options maps = { .bytes_max = 0 };
	struct direct *direct;

	assert(volume->sm.state == VOLUME_OPEN && volume->direct == NULL);
	if (leases_want(volume, true) != 0 || maps_want(volume, &maps) != 0)
		return -ENOMEM;
	direct = client_calloc(1, sizeof(*direct));
	if (direct == NULL)
		return -ENOMEM;
	list_init(&direct->free);
	list_init(&direct->done);
	loop_task_init(&direct->task, direct_on_task, direct);
	direct->volume = volume;
	direct->reads = client_calloc(DIRECT_READS_MAX, sizeof(*direct->reads));
	direct->tickets = direct->reads == NULL
	    ? DEV_PTR_NULL
	    : dev_alloc(volume->client->port,
		  (size_t)DIRECT_READS_MAX * DIRECT_REQUESTS_MAX * DIRECT_TICKET_STRIDE);
	if (dev_ptr_is_null(direct->tickets)) {
		free(direct->reads);
		free(direct);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < DIRECT_READS_MAX; i++)
		read_init(direct, i);
	volume->direct = direct;
	direct_nodes_ask(direct);
	return 0;
}

bool
direct_close(struct cleave_volume *volume)
{
	return volume->direct != NULL && direct_nodes_close(volume->direct);
}

void
direct_fini(struct cleave_volume *volume)
{
	struct direct *direct = volume->direct;

	if (direct == NULL)
		return;
	direct_nodes_fini(direct);
	loop_task_cancel(volume->client->loop, &direct->task);
	if (!volume->client->is_destroying) /* its port is gone, then */
		dev_free(volume->client->port, direct->tickets);
	free(direct->reads);
	free(direct);
	volume->direct = NULL;
}
