/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nbd_memory.c -- what all connections hold together is bounded
 *
 * A request's memory is taken before its head is taken from the input, all of it, and given back when
 * its reply has left: so replies that nobody reads count. Each connection has NBD_MEMORY_OWN_BYTES for
 * itself, so that small requests go whatever others do; beyond that all share the rest, and who finds no room
 * waits, first come, first served. An agent's connections never hold more than NBD_MEMORY_BYTES_MAX.
 *
 * Memory comes back when libcleave is done, which is its business, or when a client reads its reply, or
 * sends the rest of its payload. While others wait for memory a client that is slower at that than
 * NBD_STALL_BYTES in stall_ns is cut off, the one that has been silent longest first.
 *
 * What a predecessor's connection brought along as input (nbd_carry.c) is not counted: the
 * predecessor did, and it is gone before anything is read from the socket.
 */
#include <malloc.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "nbd.h"

#define MEMORY_SHARED_BYTES_MAX (NBD_MEMORY_BYTES_MAX - NBD_CONNECTIONS_MAX * NBD_MEMORY_OWN_BYTES)
#define MEMORY_TRIM_NS NUM_S(2)
#define MEMORY_TRIM_BYTES_MIN NUM_MIB(16) /* less than this is no burst */
#define MEMORY_STALL_LOOKS 4u             /* in stall_ns */

_Static_assert(NBD_MEMORY_BYTES_MAX > NBD_CONNECTIONS_MAX * NBD_MEMORY_OWN_BYTES &&
	MEMORY_SHARED_BYTES_MAX > UINT64_C(2) * NBD_PAYLOAD_BYTES_MAX,
    "any request finds room once the others have ended");

static uint64_t
shared_of(uint64_t held_bytes)
{
	return held_bytes > NBD_MEMORY_OWN_BYTES ? held_bytes - NBD_MEMORY_OWN_BYTES : 0;
}

/* How much of what is shared @bytes more would take. */
static uint64_t
growth_of(const struct nbd_connection *connection, uint64_t bytes)
{
	return shared_of(connection->held_bytes + bytes) - shared_of(connection->held_bytes);
}

static bool
memory_has_room(const struct nbd_memory *memory, uint64_t growth_bytes)
{
	assert(memory->shared_bytes <= memory->held_bytes);
	return growth_bytes == 0 || memory->shared_bytes + growth_bytes <= MEMORY_SHARED_BYTES_MAX;
}

void
nbd_memory_force(struct nbd_connection *connection, uint64_t bytes)
{
	struct nbd_memory *memory = &connection->server->memory;

	assert(connection->held_bytes <= memory->held_bytes);
	memory->shared_bytes += growth_of(connection, bytes);
	memory->held_bytes += bytes;
	memory->peak_bytes = num_max(memory->peak_bytes, memory->held_bytes);
	connection->held_bytes += bytes;
}

bool
nbd_memory_is_waiting(const struct nbd_connection *connection)
{
	CHECK_OBJ(connection, CONNECTION_MAGIC);
	return list_contains(&connection->memory_link);
}

static void
memory_wait(struct nbd_connection *connection, uint64_t bytes)
{
	struct nbd_server *server = connection->server;
	struct nbd_memory *memory = &server->memory;

	assert(!nbd_memory_is_waiting(connection) && bytes > 0);
	connection->wanted_bytes = bytes;
	memory->wanted_bytes += bytes;
	list_push_back(&memory->waiting, &connection->memory_link);
	if (!memory->stall_timer.is_active)
		loop_timer_start(server->options.loop, &memory->stall_timer,
		    server->options.stall_ns / MEMORY_STALL_LOOKS);
}

void
nbd_memory_leave(struct nbd_connection *connection)
{
	CHECK_OBJ(connection, CONNECTION_MAGIC);
	if (!nbd_memory_is_waiting(connection))
		return;
	list_remove(&connection->memory_link);
	connection->server->memory.wanted_bytes -= connection->wanted_bytes;
	connection->wanted_bytes = 0;
}

bool
nbd_memory_take(struct nbd_connection *connection, uint64_t bytes)
{
	struct nbd_memory *memory = &connection->server->memory;
	uint64_t granted_bytes = connection->granted_bytes, growth_bytes;

	assert(!nbd_memory_is_waiting(connection));
	connection->granted_bytes = 0;
	if (granted_bytes >= bytes) {
		if (granted_bytes > bytes)
			nbd_memory_give(connection, granted_bytes - bytes);
		return true;
	}
	if (granted_bytes > 0)
		nbd_memory_give(connection, granted_bytes);
	growth_bytes = growth_of(connection, bytes);
	if (growth_bytes > 0 &&
	    (!list_is_empty(&memory->waiting) || !memory_has_room(memory, growth_bytes))) {
		memory_wait(connection, bytes);
		return false;
	}
	nbd_memory_force(connection, bytes);
	return true;
}

void
nbd_memory_give(struct nbd_connection *connection, uint64_t bytes)
{
	struct nbd_server *server = connection->server;
	struct nbd_memory *memory = &server->memory;

	assert(connection->held_bytes >= bytes);
	connection->held_bytes -= bytes;
	memory->held_bytes -= bytes;
	memory->shared_bytes -= growth_of(connection, bytes);
	if (!list_is_empty(&memory->waiting))
		loop_defer(server->options.loop, &memory->task);
	if (!memory->trim_timer.is_active)
		loop_timer_start(server->options.loop, &memory->trim_timer, MEMORY_TRIM_NS);
}

/* The first one that waits, or who needs no more than is its own by now. NULL: nobody's turn. */
static struct nbd_connection *
memory_next(struct nbd_memory *memory)
{
	struct loop_link *link, *next;
	bool is_first = true;

	LIST_FOREACH_SAFE(&memory->waiting, link, next) {
		struct nbd_connection *connection =
		    LIST_ENTRY(link, struct nbd_connection, memory_link);
		uint64_t growth_bytes = growth_of(connection, connection->wanted_bytes);

		if (growth_bytes == 0 || (is_first && memory_has_room(memory, growth_bytes)))
			return connection;
		is_first = false;
	}
	return NULL;
}

static void
memory_on_task(struct loop_task *task, void *arg)
{
	struct nbd_server *server = arg;
	struct nbd_connection *connection;

	(void)task;
	assert(task == &server->memory.task);
	while ((connection = memory_next(&server->memory)) != NULL) {
		uint64_t bytes = connection->wanted_bytes;

		/* The memory is the connection's from now on, or those behind it would be in its way. */
		nbd_memory_leave(connection);
		nbd_memory_force(connection, bytes);
		connection->granted_bytes = bytes;
		nbd_connection_resume(connection);
	}
}

/* ---- who does not read ---- */

void
nbd_memory_moved(struct nbd_connection *connection, uint64_t bytes)
{
	CHECK_OBJ(connection, CONNECTION_MAGIC);
	connection->moved_bytes += bytes;
	if (bytes > 0 && connection->moved_bytes < NBD_STALL_BYTES)
		return;
	connection->moved_bytes = 0;
	connection->moved_ns = loop_now_ns(connection->server->options.loop);
}

/* The connection holds memory that others wait for, and its client has to act first. */
static bool
is_stalled(const struct nbd_connection *connection)
{
	const struct nbd_server_options *options = &connection->server->options;

	return connection->sm.state != NBD_CONNECTION_CLOSED &&
	    shared_of(connection->held_bytes) > 0 &&
	    (nbd_send_has_output(connection) || connection->receiving != NULL) &&
	    loop_now_ns(options->loop) - connection->moved_ns >= options->stall_ns;
}

static struct nbd_connection *
longest_stalled(struct nbd_server *server)
{
	struct nbd_connection *found = NULL;
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&server->connections, link, next) {
		struct nbd_connection *connection = LIST_ENTRY(link, struct nbd_connection, link);

		if (is_stalled(connection) &&
		    (found == NULL || connection->moved_ns < found->moved_ns))
			found = connection;
	}
	return found;
}

static void
memory_on_stall_timer(struct loop_timer *timer, void *arg)
{
	struct nbd_server *server = arg;
	struct nbd_memory *memory = &server->memory;
	struct nbd_connection *connection;

	assert(timer == &memory->stall_timer);
	/* Memory that is given back now is taken by the task: until then it counts as room. */
	while (!list_is_empty(&memory->waiting) && !memory_has_room(memory, memory->wanted_bytes) &&
	    (connection = longest_stalled(server)) != NULL) {
		log_limited(LOG_WARN,
		    "nbd: cut off, it does not read its replies or send its payload, and others "
		    "wait for memory peer=%s held_bytes=%llu waiting_bytes=%llu",
		    connection->peer, (unsigned long long)connection->held_bytes,
		    (unsigned long long)memory->wanted_bytes);
		nbd_connection_break(connection, "stalled, while others wait for memory");
	}
	if (!list_is_empty(&memory->waiting))
		loop_timer_start(server->options.loop, timer,
		    server->options.stall_ns / MEMORY_STALL_LOOKS);
}

/* ---- giving back to the system ---- */

/* After a burst: buffers that were kept, and what the allocator keeps. */
static void
memory_on_trim_timer(struct loop_timer *timer, void *arg)
{
	struct nbd_server *server = arg;
	struct nbd_memory *memory = &server->memory;
	bool has_fallen = memory->peak_bytes >= MEMORY_TRIM_BYTES_MIN &&
	    memory->held_bytes <= memory->peak_bytes / 2;

	assert(timer == &memory->trim_timer);
	if (nbd_buffers_trim(&server->buffers) > 0 || has_fallen)
		(void)malloc_trim(0); /* that there was nothing is as well */
	memory->peak_bytes = memory->held_bytes;
	if (server->buffers.free_bytes > 0)
		loop_timer_start(server->options.loop, timer, MEMORY_TRIM_NS);
}

void
nbd_memory_init(struct nbd_server *server)
{
	struct nbd_memory *memory = &server->memory;

	CHECK_OBJ(server, SERVER_MAGIC);
	list_init(&memory->waiting);
	loop_task_init(&memory->task, memory_on_task, server);
	loop_timer_init(&memory->stall_timer, memory_on_stall_timer, server);
	loop_timer_init(&memory->trim_timer, memory_on_trim_timer, server);
}

void
nbd_memory_fini(struct nbd_server *server)
{
	struct loop *loop = server->options.loop;

	assert(server->memory.held_bytes == 0);
	loop_task_cancel(loop, &server->memory.task);
	loop_timer_stop(loop, &server->memory.stall_timer);
	loop_timer_stop(loop, &server->memory.trim_timer);
}
