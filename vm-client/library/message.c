/* SPDX-License-Identifier: Apache-2.0 */
/*
 * message.c -- one request on the wire, from a piece of a cleave_io to its answer
 *
 *	FREE --> BLOCKED --> QUEUED --> SENT ---------> FREE
 *	  |                  ^ ^ ^  \    | \             ^
 *	  '------------------' | |   \   |  '-> ANSWERED-'  the send completes after the answer
 *	                       | |    \  v
 *	    DELAYED, REMAPPING-' |     '-> FREE             given up
 *	                         '------- SENT              the connection was lost
 *
 * A READ that storage nodes are asked for (direct.c) is DIRECT first: FREE --> DIRECT --> FREE, or QUEUED where that
 * does not do. One that may be in its gateway's memory (peek.c) is PEEKING before that, in the same way.
 *
 * The send and its answer are two events in either order; a message is decided upon (message_decide)
 * when both have come, so its device memory is never reused under a send. A message that was sent
 * and is given up ends when its connection has ended: the port finishes or drops what an older
 * incarnation had sent before it admits the next one. Until then no port is sent a write (debt.c, I11).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "internal.h"
#include "message_payload.h"

/* Buffers a page further apart than they are long do not fight for cache sets. */
#define STAGING_STRIDE_BYTES (CLIENT_MESSAGE_BYTES_MAX + 4096u)

#define ENDED (SM_TO(MESSAGE_FREE))
#define AGAIN (SM_TO(MESSAGE_QUEUED) | SM_TO(MESSAGE_DELAYED) | SM_TO(MESSAGE_REMAPPING))

static const struct sm_state message_table[MESSAGE_STATE_NR] = {
	[MESSAGE_FREE] = { "free",
	    SM_TO(MESSAGE_BLOCKED) | SM_TO(MESSAGE_QUEUED) | SM_TO(MESSAGE_DIRECT) |
		SM_TO(MESSAGE_PEEKING),
	    SM_INITIAL | SM_FINAL },
	[MESSAGE_BLOCKED] = { "blocked", SM_TO(MESSAGE_QUEUED) | ENDED, 0 },
	[MESSAGE_QUEUED] = { "queued", SM_TO(MESSAGE_SENT) | ENDED, 0 },
	[MESSAGE_SENT] = { "sent", SM_TO(MESSAGE_ANSWERED) | AGAIN | ENDED, 0 },
	[MESSAGE_ANSWERED] = { "answered", AGAIN | ENDED, 0 },
	[MESSAGE_DELAYED] = { "delayed", SM_TO(MESSAGE_QUEUED) | ENDED, 0 },
	[MESSAGE_REMAPPING] = { "remapping", SM_TO(MESSAGE_QUEUED) | ENDED, 0 },
	[MESSAGE_DIRECT] = { "direct", SM_TO(MESSAGE_QUEUED) | ENDED, 0 },
	[MESSAGE_PEEKING] = { "peeking", SM_TO(MESSAGE_DIRECT) | SM_TO(MESSAGE_QUEUED) | ENDED, 0 },
};

static void message_on_timer(struct loop_timer *timer, void *arg);

int
messages_init(struct cleave_client *client)
{
	uint32_t count = client->options.message_count_max;

	assert(client->messages == NULL && count > 0 && count <= CLEAVE_MESSAGES_MAX);
	client->messages = client_calloc(count, sizeof(*client->messages));
	client->status = client_calloc(1, CLIENT_MESSAGE_BYTES_MAX);
	if (client->messages == NULL || client->status == NULL)
		return -ENOMEM;
	client->staging = dev_alloc(client->port, (size_t)STAGING_STRIDE_BYTES * count);
	if (dev_ptr_is_null(client->staging))
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		struct message *message = &client->messages[i];

		message->magic = MESSAGE_MAGIC;
		message->index = i;
		message->client = client;
		message->staging = dev_ptr_add(client->staging, (uint64_t)i * STAGING_STRIDE_BYTES);
		list_init(&message->waiters);
		loop_timer_init(&message->timer, message_on_timer, message);
		sm_init(&message->sm, "message", message_table, MESSAGE_FREE, i);
		list_push_back(&client->free, &message->queue_link);
	}
	return 0;
}

void
messages_fini(struct cleave_client *client)
{
	for (uint32_t i = 0; client->messages != NULL && i < client->options.message_count_max; i++)
		loop_timer_stop(client->loop, &client->messages[i].timer);
	free(client->messages);
	free(client->status);
	client->messages = NULL;
	client->status = NULL;
}

/* Starting. */

static bool
message_has_payload(const struct message *message)
{
	return message->io->op == CLEAVE_WRITE;
}

/* QUEUED at whoever serves its shard now. */
static void
message_enqueue(struct message *message)
{
	struct cleave_volume *volume = message->volume;

	assert(message->sm.state == MESSAGE_QUEUED);
	message->shard = volume_shard_of(volume, message->offset_bytes);
	message->connection = message->is_holes ? holes_route(message)
						: volume_connection_of(volume, message->shard);
	list_push_back(message->connection != NULL ? &message->connection->queue
						   : &volume->homeless,
	    &message->queue_link);
	volume_wake(volume);
}

void
message_route(struct message *message)
{
	CHECK_OBJ(message, MESSAGE_MAGIC);
	list_remove(&message->queue_link);
	if (message->sm.state != MESSAGE_QUEUED)
		sm_move(&message->sm, MESSAGE_QUEUED);
	message_enqueue(message);
}

/* To its blocker's queue, or, without one, QUEUED. */
static void
message_block_or_route(struct message *message)
{
	struct message *blocker = NULL;

	assert(message->sm.state == MESSAGE_FREE || message->sm.state == MESSAGE_BLOCKED);
	list_remove(&message->queue_link);
	if (message->is_write)
		blocker = overlap_find(&message->volume->overlap, message);
	if (blocker == NULL) {
		message_route(message);
		return;
	}
	if (message->sm.state != MESSAGE_BLOCKED)
		sm_move(&message->sm, MESSAGE_BLOCKED);
	list_push_back(&blocker->waiters, &message->queue_link);
}

/* How much of @io, from @from_bytes on, one message takes. */
static uint32_t
piece_length(const struct cleave_io *io, uint64_t from_bytes)
{
	bool has_data = io->op == CLEAVE_READ || io->op == CLEAVE_WRITE;
	uint64_t at = io->offset_bytes + from_bytes;
	uint64_t length = io->length_bytes - from_bytes;

	assert(from_bytes < io->length_bytes);
	length = num_min(length, CLEAVE_CHUNK_BYTES - at % CLEAVE_CHUNK_BYTES);
	return (uint32_t)num_min(length, has_data ? CLIENT_MESSAGE_BYTES_MAX : CLEAVE_CHUNK_BYTES);
}

/*
 * A status: what is known is told, and the rest is asked for next. False: there is nothing left, or no room for
 * it.
 */
static bool
message_ask(struct message *message)
{
	struct cleave_io *io = message->io;
	uint64_t bytes = message->io_offset_bytes < message->known_bytes
	    ? holes_run(message->holes, io, message->io_offset_bytes, message->known_bytes)
	    : 0;
	const struct wire_status hole = { .block_count = (uint32_t)(bytes / CLEAVE_BLOCK_BYTES),
		.flags = WIRE_STATUS_HOLE | WIRE_STATUS_ZERO };

	assert(io->op == CLEAVE_BLOCK_STATUS);
	if (message->is_full)
		return false;
	message->is_full = bytes > 0 && !cleave_payload_extent(io, &hole);
	if (!message->is_full)
		message->io_offset_bytes += bytes;
	if (message->is_full || message->io_offset_bytes == io->length_bytes)
		return false;
	message->offset_bytes = io->offset_bytes + message->io_offset_bytes;
	message->length_bytes = piece_length(io, message->io_offset_bytes);
	message->is_holes = false;
	if (message->io_offset_bytes >= message->known_bytes &&
	    holes_are_wanted(io, message->io_offset_bytes))
		holes_begin(message);
	return true;
}

/* Gives a new message its piece of the I/O. */
static void
message_take_piece(struct message *message)
{
	struct cleave_volume *volume = message->volume;
	struct cleave_io *io = message->io;

	assert(io->split_bytes < io->length_bytes);
	message->length_bytes = piece_length(io, io->split_bytes);
	message->span_bytes = message->length_bytes;
	if (io->op == CLEAVE_BLOCK_STATUS) {
		/* By one message, piece after piece: where an answer ends is not known before. */
		io->split_bytes = io->length_bytes;
		(void)message_ask(message);
	} else if (message_is_zeroing(io->op) && io->split_bytes >= io->asked_bytes &&
	    holes_are_wanted(io, io->split_bytes)) {
		message->span_bytes = holes_end(io, io->split_bytes) - io->split_bytes;
		holes_begin(message);
		volume->asker = message;
	} else {
		io->split_bytes += message->length_bytes;
		holes_skip(volume, io);
	}
}

void
message_start(struct cleave_volume *volume, struct cleave_io *io)
{
	struct message *message =
	    LIST_ENTRY(list_pop_front(&volume->client->free), struct message, queue_link);

	CHECK_OBJ(message, MESSAGE_MAGIC);
	assert(volume_is_live(volume));
	assert(message->sm.state == MESSAGE_FREE && !message->is_sending);
	message->volume = volume;
	message->io = io;
	message->order = volume->message_order++;
	message->begun_ns = loop_now_ns(volume->client->loop);
	message->offset_bytes = io->offset_bytes + io->split_bytes;
	message->io_offset_bytes = io->split_bytes;
	message->attempts = message->checksum_errors = message->told_bytes = 0;
	message->is_write = message_is_write(io->op);
	message->is_staged = message->is_given_up = message->is_full = false;
	message->is_holes = message->is_paced = false;
	message->known_bytes = 0;
	message->debt.incarnation = 0;
	message->rc = 0;
	message_take_piece(message);
	pace_take(volume, message);
	maps_on_start(message);
	io->message_count++;
	list_push_back(&volume->messages, &message->all_link);
	stall_watch(volume);
	if (message->is_write)
		overlap_add(&volume->overlap, message);
	if (peek_start(message))
		sm_move(&message->sm, MESSAGE_PEEKING);
	else if (direct_start(message))
		sm_move(&message->sm, MESSAGE_DIRECT);
	else
		message_block_or_route(message);
	CLIENT_STAT(volume->client, overlaps, message->sm.state == MESSAGE_BLOCKED);
}

/* The last act of whoever calls it. */
static void
message_finish(struct message *message, int rc)
{
	struct cleave_client *client = message->client;
	struct cleave_volume *volume = message->volume;
	struct cleave_io *io = message->io;
	struct loop_link *link;

	assert(!message->is_sending);
	loop_timer_stop(client->loop, &message->timer);
	list_remove(&message->queue_link);
	list_remove(&message->all_link);
	overlap_remove(&volume->overlap, message);
	sm_move(&message->sm, MESSAGE_FREE);
	if (rc == 0 && io->op == CLEAVE_READ && io->part_fn != NULL)
		io->part_fn(io, message->io_offset_bytes, message->length_bytes, io->arg);
	if (message->is_holes)
		holes_finish(message, rc);
	message->volume = NULL;
	message->connection = NULL;
	message->io = NULL;
	if (rc != 0 && message->is_write)
		debts_add(volume, &message->debt);
	while ((link = list_first(&message->waiters)) != NULL)
		message_block_or_route(LIST_ENTRY(link, struct message, queue_link));
	/* The memory that was used last is still in the cache. */
	list_push_front(&client->free, &message->queue_link);
	if (!list_is_empty(&client->split_wait))
		loop_defer(client->loop, &client->split_task);
	volume_message_done(volume, io, rc);
}

static void
message_leave_sent(struct message *message)
{
	assert(message->connection->sent_count > 0);
	list_remove(&message->queue_link);
	message->connection->sent_count--;
	message->connection = NULL;
}

void
message_give_up(struct message *message, int rc)
{
	CHECK_OBJ(message, MESSAGE_MAGIC);
	assert(rc < 0);
	if (message->volume->asker == message)
		message->volume->asker = NULL; /* others need not wait for its connection's end */
	if (message->sm.state == MESSAGE_SENT || message->sm.state == MESSAGE_ANSWERED ||
	    message->is_peeking) {
		if (message->is_given_up)
			return;
		message->is_given_up = true;
		message->rc = rc;
		connection_reset(message->connection);
		return;
	}
	if (message->sm.state == MESSAGE_DIRECT)
		direct_cancel(message);
	message_finish(message, rc);
}

void
message_on_direct(struct message *message)
{
	CHECK_OBJ(message, MESSAGE_MAGIC);
	assert(message->io->op == CLEAVE_READ);
	if (message->sm.state == MESSAGE_DIRECT)
		cleave_payload_loaded(message);
	else
		assert(message->sm.state == MESSAGE_PEEKING && !message->is_peeking);
	message->volume->stall.was_answered = true;
	message_finish(message, 0);
}

/* Asks for the rest of a status. False: there is nothing left, or no room for it. */
static bool
message_go_on(struct message *message)
{
	assert(message->told_bytes <= message->length_bytes);
	message->io_offset_bytes += message->told_bytes;
	message->told_bytes = 0;
	message->attempts = message->checksum_errors = 0;
	message->begun_ns = loop_now_ns(message->client->loop);
	volume_on_progress(message->volume, message->io);
	return message_ask(message);
}

/* True: it goes on, to the next port that could be asked for holes, or with what it was made for. */
static bool
message_on_holes(struct message *message)
{
	assert(message->is_holes);
	if (holes_next(message))
		return true;
	if (message->is_write)
		return false;
	message->known_bytes = holes_end(message->io, message->io_offset_bytes);
	return message_ask(message);
}

void
message_skip_holes(struct message *message)
{
	assert(message->is_holes && message->sm.state == MESSAGE_QUEUED);
	if (message_on_holes(message))
		message_route(message);
	else
		message_finish(message, 0);
}

/* Sent, not answered, and the connection is gone: it may take effect, for a while yet. */
static void
message_owe(struct message *message)
{
	const struct connection *connection = message->connection;

	assert(connection->incarnation > 0);
	message->debt.incarnation = connection->incarnation;
	message->debt.shard = message->shard;
	message->debt.epoch = message->epoch;
	memcpy(message->debt.address, connection->address, sizeof(message->debt.address));
}

void
message_on_lost(struct message *message)
{
	struct cleave_volume *volume = message->volume;

	CHECK_OBJ(message, MESSAGE_MAGIC);
	assert(!message->is_sending);
	if (message->sm.state == MESSAGE_SENT && message->is_write && !message->is_holes)
		message_owe(message);
	message_leave_sent(message);
	if (message->is_given_up) {
		message_finish(message, message->rc);
		return;
	}
	if (!volume_is_live(volume)) {
		message_finish(message, volume->fail_rc);
		return;
	}
	if (message->told_bytes > 0 && !message_go_on(message)) {
		message_finish(message, 0);
		return;
	}
	CLIENT_STAT(message->client, messages_resent, 1);
	message_route(message);
}

static void
message_on_timer(struct loop_timer *timer, void *arg)
{
	struct message *message = arg;

	(void)timer;
	CHECK_OBJ(message, MESSAGE_MAGIC);
	assert(timer == &message->timer);
	assert(message->sm.state == MESSAGE_DELAYED);
	pace_resume(message);
	message_route(message);
}

static void
message_delay(struct message *message)
{
	struct cleave_client *client = message->client;

	assert(!message->is_sending);
	CLIENT_STAT(client, messages_delayed, 1);
	sm_move(&message->sm, MESSAGE_DELAYED);
	list_push_back(&message->volume->delayed, &message->queue_link);
	loop_timer_start(client->loop, &message->timer,
	    retry_delay_ns(client->loop, message->attempts++, client->options.backoff_min_ns,
		client->options.backoff_max_ns));
}

static void
message_remap(struct message *message)
{
	struct cleave_client *client = message->client;

	assert(!message->is_sending);
	CLIENT_STAT(client, messages_remapped, 1);
	message->attempts++;
	if (message->map_serial != client->map_serial) {
		message_route(message); /* a newer one came meanwhile */
		return;
	}
	sm_move(&message->sm, MESSAGE_REMAPPING);
	list_push_back(&message->volume->remapping, &message->queue_link);
	client_want_map(client);
}

void
message_on_map(struct message *message)
{
	assert(message->sm.state == MESSAGE_REMAPPING);
	message_route(message);
}

/* The answer is a part of what it was made for: there is more to be asked. */
static bool
message_has_more(struct message *message)
{
	return message->is_holes ? message_on_holes(message)
				 : message->told_bytes > 0 && message_go_on(message);
}

/* The send has completed and the answer is there. */
static void
message_decide(struct message *message)
{
	struct cleave_volume *volume = message->volume;
	int rc = message->rc;
	enum retry_verdict verdict;

	assert(message->sm.state == MESSAGE_ANSWERED && !message->is_sending);
	message_leave_sent(message);
	if (rc == 0 && !message->is_given_up && volume_is_live(volume) &&
	    message_has_more(message)) {
		pace_route(message);
		return;
	}
	if (rc == 0 || message->is_given_up || !volume_is_live(volume)) {
		message_finish(message, rc);
		return;
	}
	verdict = retry_verdict_io(rc, !message->is_write || message->is_holes);
	if (message->is_damaged)
		verdict = RETRY_CHECKSUM; /* found here: the gateway's copy is good */
	switch (verdict) {
	case RETRY_CHECKSUM:
		message->is_staged = false;
		if (++message->checksum_errors >= CLIENT_CHECKSUM_TRIES_MAX)
			break;
		message_delay(message);
		return;
	case RETRY_LATER:
		message_delay(message);
		return;
	case RETRY_REMAP:
		message_remap(message);
		return;
	case RETRY_FATAL:
		volume_fail(volume, rc);
		break;
	case RETRY_NONE:
		break;
	}
	message_finish(message, rc);
}

/* Sending. */

static void
message_on_send(struct split_send *send, int rc, void *arg)
{
	struct message *message = arg;

	(void)send;
	CHECK_OBJ(message, MESSAGE_MAGIC);
	assert(send == &message->send);
	assert(message->is_sending);
	message->is_sending = false;
	if (message->client->is_destroying)
		return;
	/* A failure is followed by the connection's end, which decides about all of its messages. */
	if (message->sm.state == MESSAGE_ANSWERED)
		message_decide(message);
	else
		assert(message->sm.state == MESSAGE_SENT || rc != 0);
}

int
message_send(struct message *message)
{
	struct connection *connection = message->connection;
	bool has_payload = message_has_payload(message);
	int rc;

	CHECK_OBJ(message, MESSAGE_MAGIC);
	assert(message->sm.state == MESSAGE_QUEUED);
	assert(!message->is_sending);
	assert(!message_is_held(message));
	if (has_payload && !message->is_staged)
		cleave_payload_stage(message);
	cleave_payload_encode(message);
	message->send = (struct split_send){
		.header = &message->header,
		.header_bytes = WIRE_HEADER_BYTES,
		.pieces = &message->piece,
		.piece_count = has_payload ? 1 : 0,
		.fn = message_on_send,
		.arg = message,
	};
	message->sent_boot_ns = leases_now_ns(message->volume);
	rc = split_send(connection->qp, &message->send);
	if (rc != 0)
		return rc;
	CLIENT_STAT(message->client, messages_sent, 1);
	message->map_serial = message->client->map_serial;
	message->sent_ns = loop_now_ns(message->client->loop);
	message->is_sending = true;
	message->debt.incarnation = 0;
	message->is_placed = false;
	sm_move(&message->sm, MESSAGE_SENT);
	list_remove(&message->queue_link);
	list_push_back(&connection->sent, &message->queue_link);
	connection->sent_count++;
	connection_watch(connection);
	return 0;
}

/* Answers. */

void
message_on_reply(struct message *message, const struct wire_io_reply *reply, struct split_msg *msg)
{
	CHECK_OBJ(message, MESSAGE_MAGIC);
	assert(message->sm.state == MESSAGE_SENT);
	if (message->is_given_up)
		return; /* its connection is being closed */
	message->rc = reply->rc;
	message->is_damaged = false;
	if (reply->rc == 0 && message->is_holes)
		message->rc = holes_take(message, reply, msg->payload);
	else if (reply->rc == 0 && message->io->op == CLEAVE_BLOCK_STATUS)
		message->rc = cleave_payload_take_status(message, reply, msg->payload);
	else if (reply->rc == 0 && !message->is_write)
		message->rc = cleave_payload_take(message, reply, msg);
	if (message->rc == -EBADMSG)
		CLIENT_STAT(message->client, checksum_errors, 1);
	message->connection->failures_in_row = 0;
	message->volume->stall.was_answered |= message->rc == 0;
	sm_move(&message->sm, MESSAGE_ANSWERED);
	if (!message->is_sending)
		message_decide(message);
}
