/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volume.c -- requests on a volume: accepted, cut into messages, completed, or given up in time
 *
 * A request stays in volume->ios, in order of submission, until it completes; so a flush is complete
 * when it is the oldest. A request's time is what a gateway may take without doing anything of it: it begins anew with
 * each message that is answered, so a discard of terabytes takes as long as it takes; volume->due_ios is in that
 * order. Cutting, pumping and endings happen in
 * the volume's task, after the handlers that asked for it (volume_wake).
 *
 * Handlers of the caller run from here alone (io_complete), always as a last act; they may submit,
 * close and open, and never free what is in use: volumes and connections are freed by tasks.
 */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "internal.h"

static struct cleave_io *
io_of(struct loop_link *link)
{
	assert(link != NULL);
	return LIST_ENTRY(link, struct cleave_io, link);
}

bool
volume_is_live(const struct cleave_volume *volume)
{
	CHECK_OBJ(volume, VOLUME_MAGIC);
	return volume->sm.state == VOLUME_OPEN || volume->sm.state == VOLUME_DRAINING;
}

void
volume_wake(struct cleave_volume *volume)
{
	CHECK_OBJ(volume, VOLUME_MAGIC);
	loop_defer(volume->client->loop, &volume->task);
}

const struct cleave_volume_info *
cleave_volume_info(const struct cleave_volume *volume)
{
	CHECK_OBJ(volume, VOLUME_MAGIC);
	return &volume->info;
}

uint32_t
volume_shard_of(const struct cleave_volume *volume, uint64_t offset_bytes)
{
	CHECK_OBJ(volume, VOLUME_MAGIC);
	assert(volume->client->map != NULL);
	return wire_shard_of(volume->info.segment_base + offset_bytes / CLEAVE_SEGMENT_BYTES,
	    offset_bytes % CLEAVE_SEGMENT_BYTES, volume->client->map->shard_count);
}

struct connection *
volume_connection_of(struct cleave_volume *volume, uint32_t shard)
{
	CHECK_OBJ(volume, VOLUME_MAGIC);
	assert(volume->client->map != NULL);
	assert(shard < volume->client->map->shard_count);
	return volume->by_port[volume->client->map->port_of_shard[shard]];
}

/* Accepting. */

/* The request has memory of one kind, and enough of it. */
static bool
io_has_memory(const struct cleave_io *io)
{
	uint64_t bytes;

	if ((io->data != NULL) + (io->vector != NULL) + !dev_ptr_is_null(io->buffer) != 1)
		return false;
	if (io->vector == NULL)
		return true;
	if (io->vector_count == 0 || io->vector_count > CLEAVE_VECTOR_MAX)
		return false;
	bytes = vector_bytes(io->vector, io->vector_count);
	return io->vector_from_bytes <= bytes && io->length_bytes <= bytes - io->vector_from_bytes;
}

int
cleave_io_check(const struct cleave_io *io, uint64_t volume_size_bytes)
{
	bool has_data = io->op == CLEAVE_READ || io->op == CLEAVE_WRITE;

	if (io->op == CLEAVE_FLUSH)
		return 0;
	if ((unsigned)io->op > CLEAVE_BLOCK_STATUS || io->length_bytes == 0 ||
	    !num_is_aligned(io->offset_bytes, CLEAVE_BLOCK_BYTES) ||
	    !num_is_aligned(io->length_bytes, CLEAVE_BLOCK_BYTES))
		return -EINVAL;
	if (has_data && (io->length_bytes > CLEAVE_IO_BYTES_MAX || !io_has_memory(io)))
		return -EINVAL;
	if (io->op == CLEAVE_BLOCK_STATUS && (io->extents == NULL || io->extent_max == 0))
		return -EINVAL;
	if (io->offset_bytes > volume_size_bytes ||
	    io->length_bytes > volume_size_bytes - io->offset_bytes)
		return -ERANGE;
	return 0;
}

static int
volume_check_submit(const struct cleave_volume *volume, const struct cleave_io *io)
{
	bool is_change = message_is_write(io->op) && io->op != CLEAVE_FLUSH;
	int rc;

	assert(volume->io_count <= volume->client->options.queue_count_max);
	if (volume->fail_rc != 0)
		return volume->fail_rc;
	if (volume->sm.state != VOLUME_OPEN)
		return -ECANCELED;
	rc = cleave_io_check(io, volume->info.size_bytes);
	if (rc != 0)
		return rc;
	if (is_change && (volume->flags & CLEAVE_OPEN_READ_ONLY) != 0)
		return -EROFS;
	return volume->io_count < volume->client->options.queue_count_max ? 0 : -ENOBUFS;
}

/* All that are due are due after the same time, so they are in order. */
static void
io_set_deadline(struct cleave_io *io)
{
	const struct cleave_client *client = io->volume->client;
	uint64_t timeout_ns = client->options.io_timeout_ns;

	assert(io->rc == 0 && io->volume->client->options.io_timeout_ns > 0);
	list_remove(&io->due_link);
	if (timeout_ns == CLEAVE_FOREVER || io->op == CLEAVE_FLUSH)
		return;
	io->deadline_ns = loop_now_ns(client->loop) + timeout_ns;
	list_push_back(&io->volume->due_ios, &io->due_link);
}

void
volume_on_progress(struct cleave_volume *volume, struct cleave_io *io)
{
	assert(io->volume == volume);
	volume->progress_ns = loop_now_ns(volume->client->loop);
	if (io->rc == 0)
		io_set_deadline(io);
}

int
cleave_submit(struct cleave_volume *volume, struct cleave_io *io)
{
	struct cleave_client *client = volume->client;
	int rc;

	CHECK_OBJ(volume, VOLUME_MAGIC);
	assert(io->fn != NULL);
	rc = volume_check_submit(volume, io);
	if (rc != 0)
		return rc;
	io->volume = volume;
	io->rc = 0;
	io->split_bytes = io->asked_bytes = 0;
	io->extent_count = 0;
	io->message_count = 0;
	io->link = io->split_link = io->due_link = (struct loop_link){ NULL, NULL };
	io_set_deadline(io);
	list_push_back(&volume->ios, &io->link);
	if (io->op != CLEAVE_FLUSH)
		list_push_back(message_is_write(io->op) ? &volume->split_ios : &volume->split_reads,
		    &io->split_link);
	volume->io_count++;
	if (!volume->timer.is_active && !list_is_empty(&volume->due_ios))
		loop_timer_start(client->loop, &volume->timer, client->options.io_timeout_ns);
	volume_wake(volume);
	return 0;
}

/* No gateway has been asked for anything of it: those before it, which go on, have all messages. */
static bool
io_is_behind_others(const struct cleave_io *io)
{
	const struct cleave_client *client = io->volume->client;

	return io->message_count == 0 &&
	    loop_now_ns(client->loop) - io->volume->progress_ns < client->options.io_timeout_ns;
}

/* Cutting. */

/* The pieces of the first change may have to be asked for first (holes.c), and limits be kept (pace.c). */
static bool
volume_has_change_split(const struct cleave_volume *volume)
{
	CHECK_OBJ(volume, VOLUME_MAGIC);
	return !list_is_empty(&volume->split_ios) && volume->asker == NULL &&
	    pace_wait_ns(volume, true) == 0;
}

static bool
volume_has_read_split(const struct cleave_volume *volume)
{
	return !list_is_empty(&volume->split_reads) && pace_wait_ns(volume, false) == 0;
}

bool
volume_has_split(const struct cleave_volume *volume)
{
	return volume_has_change_split(volume) || volume_has_read_split(volume);
}

/* Changes keep their order; a read does not wait for all of a discard of terabytes. */
void
volume_split_one(struct cleave_volume *volume)
{
	bool is_read = !volume_has_change_split(volume) ||
	    (volume->is_split_read_next && volume_has_read_split(volume));
	struct loop_link *first = list_first(is_read ? &volume->split_reads : &volume->split_ios);
	struct cleave_io *io = LIST_ENTRY(first, struct cleave_io, split_link);

	assert(volume_has_split(volume) && !list_is_empty(&volume->client->free));
	assert(io->split_bytes < io->length_bytes);
	volume->is_split_read_next = !is_read;
	/* Waiting for limits was no part of its time. */
	if (io_is_behind_others(io) || (io->message_count == 0 && volume->pace.tag != 0))
		io_set_deadline(io);
	message_start(volume, io);
	if (io->split_bytes == io->length_bytes)
		list_remove(&io->split_link);
}

static void
volume_split(struct cleave_volume *volume)
{
	struct cleave_client *client = volume->client;

	if (!volume_is_live(volume) || list_contains(&volume->split_wait))
		return;
	/* I/O that waits for messages comes first. */
	while (volume_has_split(volume) && list_is_empty(&client->split_wait) &&
	    !list_is_empty(&client->free))
		volume_split_one(volume);
	if (volume_has_split(volume)) {
		list_push_back(&client->split_wait, &volume->split_wait);
		if (!list_is_empty(&client->free))
			loop_defer(client->loop, &client->split_task);
	}
	pace_watch(volume);
}

/* Completing. */

/* The last act of whoever calls it. */
static void
io_complete(struct cleave_io *io)
{
	struct cleave_volume *volume = io->volume;
	struct cleave_client *client = volume->client;
	struct loop_link *head;

	assert(io->rc <= 0);
	assert(io->rc != 0 || io->op == CLEAVE_FLUSH || io->split_bytes == io->length_bytes);
	assert(volume->io_count > 0);
	assert(io->message_count == 0);
	list_remove(&io->split_link);
	list_remove(&io->due_link);
	list_remove(&io->link);
	volume->io_count--;
	if (io->rc == 0)
		CLIENT_STAT(client, ios_completed, 1);
	else
		CLIENT_STAT(client, ios_failed, 1);
	head = list_first(&volume->ios);
	if (head == NULL || io_of(head)->op == CLEAVE_FLUSH)
		volume_wake(volume);
	io->fn(io, io->rc, io->arg);
}

void
volume_message_done(struct cleave_volume *volume, struct cleave_io *io, int rc)
{
	assert(rc <= 0);
	assert(io->volume == volume);
	assert(io->message_count > 0);
	io->message_count--;
	if (rc != 0 && io->rc == 0)
		io->rc = rc;
	if (rc == 0)
		volume_on_progress(volume, io);
	/* After an error what is left would only be work. */
	if (io->rc != 0) {
		list_remove(&io->split_link);
		list_remove(&io->due_link);
	}
	if (io->message_count == 0 && !list_contains(&io->split_link))
		io_complete(io);
}

/* Give up what is left of @io; its sent messages hold it until their connections have ended. */
static void
io_give_up(struct cleave_io *io, int rc)
{
	struct cleave_volume *volume = io->volume;
	struct loop_link *link, *next;

	assert(rc < 0);
	io->rc = rc;
	list_remove(&io->due_link);
	io->message_count++; /* so that it does not complete in this loop */
	LIST_FOREACH_SAFE(&volume->messages, link, next) {
		struct message *message = LIST_ENTRY(link, struct message, all_link);

		if (message->io == io)
			message_give_up(message, rc);
	}
	volume_message_done(volume, io, rc);
}

static void
volume_complete_flushes(struct cleave_volume *volume)
{
	struct loop_link *link;

	assert(volume->fail_rc == 0 || volume->sm.state >= VOLUME_FAILED);
	assert(volume->fail_rc <= 0);
	while ((link = list_first(&volume->ios)) != NULL && io_of(link)->op == CLEAVE_FLUSH) {
		io_of(link)->rc = volume->fail_rc;
		io_complete(io_of(link));
	}
}

static struct cleave_io *
volume_next_due(struct cleave_volume *volume)
{
	struct loop_link *link = list_first(&volume->due_ios);

	return link == NULL ? NULL : LIST_ENTRY(link, struct cleave_io, due_link);
}

void
volume_timer_on(struct loop_timer *timer, void *arg)
{
	struct cleave_volume *volume = arg;
	struct loop *loop = volume->client->loop;
	uint64_t now_ns = loop_now_ns(loop);
	struct cleave_io *io;

	CHECK_OBJ(volume, VOLUME_MAGIC);
	assert(timer == &volume->timer);
	while ((io = volume_next_due(volume)) != NULL && io->deadline_ns <= now_ns) {
		if (io_is_behind_others(io) || pace_holds(io)) {
			io_set_deadline(io);
			continue;
		}
		CLIENT_STAT(volume->client, timeouts, 1);
		io_give_up(io, -ETIMEDOUT);
	}
	if (io != NULL)
		loop_timer_start(loop, timer, io->deadline_ns - now_ns);
}

/* Ending. */

void
volume_fail(struct cleave_volume *volume, int rc)
{
	assert(rc < 0);
	if (!volume_is_live(volume))
		return;
	volume->fail_rc = rc;
	sm_move(&volume->sm, VOLUME_FAILED);
	lost_begin(volume);
	volume_wake(volume);
}

static void
volume_retire_connections(struct cleave_volume *volume)
{
	struct loop_link *link, *next;

	assert(volume->sm.state >= VOLUME_FAILED);
	LIST_FOREACH_SAFE(&volume->connections, link, next)
		connection_retire(LIST_ENTRY(link, struct connection, link));
}

/*
 * FAILED: everything is given up; what was sent ends with its connection. Nothing can be submitted
 * any more, so the list only gets shorter, by the request that was just given up.
 */
static void
volume_end_all(struct cleave_volume *volume)
{
	struct loop_link *link, *next;

	assert(volume->sm.state == VOLUME_FAILED && volume->fail_rc < 0);
	list_remove(&volume->split_wait);
	LIST_FOREACH_SAFE(&volume->ios, link, next) {
		if (io_of(link)->op != CLEAVE_FLUSH)
			io_give_up(io_of(link), volume->fail_rc);
	}
	volume_retire_connections(volume);
}

static void
volume_check_end(struct cleave_volume *volume)
{
	CHECK_OBJ(volume, VOLUME_MAGIC);
	if (volume->close_fn == NULL || volume->io_count > 0 || volume->size_fn != NULL ||
	    volume->is_lost_call_out)
		return;
	if (volume->sm.state == VOLUME_DRAINING && leases_return(volume))
		return;
	if (volume->sm.state == VOLUME_DRAINING || volume->sm.state == VOLUME_FAILED) {
		sm_move(&volume->sm, VOLUME_CLOSING);
		volume_retire_connections(volume);
	}
	if (volume->sm.state == VOLUME_CLOSING && !direct_close(volume) &&
	    list_is_empty(&volume->connections) && !volume_detach(volume)) {
		void (*fn)(void *arg) = volume->close_fn;
		void *arg = volume->close_arg;

		sm_move(&volume->sm, VOLUME_CLOSED);
		volume_free(volume);
		fn(arg);
	}
}

void
volume_task_on(struct loop_task *task, void *arg)
{
	struct cleave_volume *volume = arg;
	struct loop_link *link, *next;

	(void)task;
	CHECK_OBJ(volume, VOLUME_MAGIC);
	assert(task == &volume->task);
	if (volume->sm.state == VOLUME_FAILED)
		volume_end_all(volume);
	volume_split(volume);
	LIST_FOREACH_SAFE(&volume->connections, link, next)
		connection_pump(LIST_ENTRY(link, struct connection, link));
	volume_complete_flushes(volume);
	volume_check_end(volume);
}

static void
close_nobody_waits(void *arg)
{
	(void)arg;
}

void
cleave_volume_close(struct cleave_volume *volume, void (*fn)(void *arg), void *arg)
{
	CHECK_OBJ(volume, VOLUME_MAGIC);
	assert(volume->sm.state == VOLUME_OPEN || volume->sm.state == VOLUME_FAILED);
	assert(volume->close_fn == NULL);
	volume->close_fn = fn != NULL ? fn : close_nobody_waits;
	volume->close_arg = arg;
	if (volume->sm.state == VOLUME_OPEN)
		sm_move(&volume->sm, VOLUME_DRAINING);
	volume_wake(volume);
}

/* Following the map. */

static struct connection *
volume_connection_to(struct cleave_volume *volume, const char *address)
{
	struct loop_link *link, *next;

	assert(volume->client->map != NULL);
	LIST_FOREACH_SAFE(&volume->connections, link, next) {
		struct connection *connection = LIST_ENTRY(link, struct connection, link);

		if (strcmp(connection->address, address) == 0)
			return connection;
	}
	return connection_create(volume, address);
}

static void
volume_reroute(struct cleave_volume *volume)
{
	struct loop_link *link, *next;

	assert(volume->client->map != NULL);
	assert(volume_is_live(volume));
	LIST_FOREACH_SAFE(&volume->messages, link, next) {
		struct message *message = LIST_ENTRY(link, struct message, all_link);

		if (message->sm.state == MESSAGE_QUEUED)
			message_route(message);
		else if (message->sm.state == MESSAGE_REMAPPING)
			message_on_map(message);
	}
}

void
volume_on_map(struct cleave_volume *volume)
{
	const struct client_map *map = volume->client->map;
	bool is_used[CLIENT_PORTS_MAX] = { false };
	struct loop_link *link, *next;

	CHECK_OBJ(volume, VOLUME_MAGIC);
	assert(map != NULL && map->port_count <= CLIENT_PORTS_MAX);
	if (!volume_is_live(volume))
		return;
	for (uint32_t i = 0; i < map->shard_count; i++)
		is_used[map->port_of_shard[i]] = true;
	LIST_FOREACH_SAFE(&volume->connections, link, next)
		LIST_ENTRY(link, struct connection, link)->is_wanted = false;
	memset(volume->by_port, 0, sizeof(volume->by_port));
	for (uint32_t i = 0; i < map->port_count; i++) {
		struct connection *connection =
		    is_used[i] ? volume_connection_to(volume, map->ports[i]) : NULL;

		if (!is_used[i])
			continue; /* a gateway that owns nothing is asked for maps alone */
		if (connection == NULL) {
			client_want_map(volume->client); /* out of memory: again, later */
			continue;
		}
		connection->is_wanted = true;
		volume->by_port[i] = connection;
	}
	volume_reroute(volume);
	LIST_FOREACH_SAFE(&volume->connections, link, next) {
		struct connection *connection = LIST_ENTRY(link, struct connection, link);

		if (!connection->is_wanted)
			connection_retire(connection);
	}
	debts_settle(volume);
}
