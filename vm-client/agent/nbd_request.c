/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nbd_request.c -- one NBD command, from its head to its reply
 *
 *	          WRITE               room, no conflict      its edges are here
 *	start -> RECEIVING -> WAITING ----------------> FETCHING --------> RUNNING -> REPLYING -> DONE
 *	   \\__________________/   \\_________________________________________/
 *	     no payload                 whole blocks only
 *
 * NBD counts bytes, a volume blocks. A read reads the blocks around it. A change of part of a block
 * fetches that block, patches it, writes it whole; meanwhile no other change of that block may be
 * under way, in either direction, or one would undo the other. So changes are kept in
 * export->active, and one that overlaps another with either of them partial waits its turn in
 * export->waiting; nobody overtakes who waits for the same blocks. It waits for the last of those that
 * came before it, so that an end wakes those that can go on and not all. Changes of whole blocks only
 * do not wait for each other: libcleave keeps their order.
 *
 * When the connection goes while a request is with libcleave, the request ends by itself.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "nbd.h"
#include "nbd_bitmap.h"
#include "nbd_command.h"
#include "nbd_reply.h"

#define BLOCK CLEAVE_BLOCK_BYTES

static const struct sm_state request_table[NBD_REQUEST_STATE_NR] = {
	[NBD_REQUEST_RECEIVING] = { "receiving",
	    SM_TO(NBD_REQUEST_WAITING) | SM_TO(NBD_REQUEST_DONE), SM_INITIAL },
	[NBD_REQUEST_WAITING] = { "waiting",
	    SM_TO(NBD_REQUEST_FETCHING) | SM_TO(NBD_REQUEST_RUNNING) | SM_TO(NBD_REQUEST_REPLYING) |
		SM_TO(NBD_REQUEST_DONE),
	    SM_INITIAL },
	[NBD_REQUEST_FETCHING] = { "fetching",
	    SM_TO(NBD_REQUEST_RUNNING) | SM_TO(NBD_REQUEST_REPLYING) | SM_TO(NBD_REQUEST_DONE), 0 },
	[NBD_REQUEST_RUNNING] = { "running", SM_TO(NBD_REQUEST_REPLYING) | SM_TO(NBD_REQUEST_DONE),
	    0 },
	[NBD_REQUEST_REPLYING] = { "replying", SM_TO(NBD_REQUEST_DONE), 0 },
	[NBD_REQUEST_DONE] = { "done", 0, SM_FINAL },
};

static void request_on_io(struct cleave_io *io, int rc, void *arg);
static void request_on_part(struct cleave_io *io, uint64_t from_bytes, uint64_t bytes, void *arg);
static void request_submit(struct nbd_request *request);

static bool
is_change(const struct nbd_request *request)
{
	return nbd_command_is_change(request->head.type);
}

static bool
has_edges(const struct nbd_request *request)
{
	return request->has_edge[0] || request->has_edge[1];
}

/* ---- its end ---- */

static void
request_unlock(struct nbd_request *request)
{
	struct loop_link *link;

	CHECK_OBJ(request, REQUEST_MAGIC);
	list_remove(&request->lock_link);
	list_remove(&request->wait_link);
	while ((link = list_pop_front(&request->blocked)) != NULL)
		list_push_back(&request->export->ready, link);
}

static void
request_free(struct nbd_request *request)
{
	struct nbd_connection *connection = request->connection;
	struct nbd_buffers *buffers = &connection->server->buffers;

	assert(connection->request_count > 0);
	assert(connection->in_flight_bytes >= request->held_bytes);
	assert(request->export->edged_count >= has_edges(request));
	sm_move(&request->sm, NBD_REQUEST_DONE);
	request->export->edged_count -= has_edges(request);
	nbd_buffer_put(buffers, request->data, request->data_bytes);
	nbd_buffer_put(buffers, request->edges, 2 * (uint64_t)BLOCK);
	nbd_buffer_put(buffers, request->parts, request->part_max * sizeof(*request->parts));
	list_remove(&request->link);
	connection->request_count--;
	connection->in_flight_bytes -= request->held_bytes;
	nbd_memory_give(connection, request->held_bytes);
	if (!list_is_empty(&request->export->resizes))
		loop_defer(connection->server->options.loop, &request->export->resize_task);
	request->magic = 0;
	nbd_buffer_put_request(buffers, request);
	nbd_connection_request_gone(connection);
}

void
nbd_request_sent(struct nbd_request *request)
{
	CHECK_OBJ(request, REQUEST_MAGIC);
	assert(request->sm.state == NBD_REQUEST_REPLYING);
	nbd_metrics_count_sent(request);
	request_free(request);
}

void
nbd_request_drop(struct nbd_request *request)
{
	CHECK_OBJ(request, REQUEST_MAGIC);
	request_unlock(request);
	request_free(request);
}

/* The sole exit of what was started: unlock, reply. @request may be gone. */
static void
request_finish(struct nbd_request *request)
{
	struct nbd_export *export = request->export;

	request_unlock(request);
	request->reply.data = NULL;
	request->reply.data_bytes = 0;
	nbd_reply_make(request);
	sm_move(&request->sm, NBD_REQUEST_REPLYING);
	assert(request->parts == NULL || request->rc != 0 ||
	    request->parts_bytes == request->head.length_bytes ||
	    request->connection->sm.state == NBD_CONNECTION_CLOSED);
	if (request->connection->sm.state == NBD_CONNECTION_CLOSED)
		request_free(request);
	else if (request->rc != 0 || !nbd_connection_end_parts(request))
		nbd_connection_reply(request->connection, request);
	/* Whatever its command was, libcleave has room again. */
	nbd_request_retry(export);
}

void
nbd_request_end(struct nbd_request *request, int rc)
{
	CHECK_OBJ(request, REQUEST_MAGIC);
	assert(rc <= 0);
	request->rc = rc;
	request_finish(request);
}

/* ---- running ---- */

/* Copy between the edges' blocks and the payload around which they lie. */
static void
request_patch(struct nbd_request *request)
{
	uint64_t skew = request->head.offset_bytes - request->first_bytes;
	uint64_t tail = request->end_bytes - nbd_command_end(&request->head);
	uint8_t *last = request->edges + BLOCK;

	assert(has_edges(request) && request->rc == 0);
	if (request->head.type == NBD_CMD_WRITE) {
		if (skew > 0)
			memcpy(request->data, request->edges, skew);
		if (tail > 0)
			memcpy(request->data + request->data_bytes - tail,
			    (request->has_edge[1] ? last : request->edges) + BLOCK - tail, tail);
		return;
	}
	/* Zeroes: within the first block from skew on, within the last one up to tail. */
	if (request->has_edge[0] && request->end_bytes - request->first_bytes == BLOCK) {
		memset(request->edges + skew, 0, BLOCK - skew - tail);
		return;
	}
	if (request->has_edge[0])
		memset(request->edges + skew, 0, BLOCK - skew);
	if (request->has_edge[1])
		memset(last, 0, BLOCK - tail);
}

static void
request_add_io(struct nbd_request *request, enum cleave_op op, uint64_t offset_bytes,
    uint64_t length_bytes, void *data)
{
	assert(request->io_count < NBD_REQUEST_IOS_MAX || length_bytes == 0);
	if (length_bytes == 0)
		return;
	request->ios[request->io_count++] = (struct cleave_io){ .op = op,
		.offset_bytes = offset_bytes,
		.length_bytes = length_bytes,
		.data = data,
		.fn = request_on_io,
		.arg = request };
}

static void
request_plan_edges(struct nbd_request *request)
{
	assert(request->sm.state == NBD_REQUEST_WAITING && has_edges(request));
	request->io_next = request->io_count = 0;
	if (request->has_edge[0])
		request_add_io(request, CLEAVE_READ, request->first_bytes, BLOCK, request->edges);
	if (request->has_edge[1])
		request_add_io(request, CLEAVE_READ, request->end_bytes - BLOCK, BLOCK,
		    request->edges + BLOCK);
}

/* A TRIM is of the whole blocks in it; may be of none. */
static void
request_plan(struct nbd_request *request)
{
	uint64_t first = request->first_bytes, end = request->end_bytes;

	assert(first <= end);
	request->io_next = request->io_count = 0;
	switch (request->head.type) {
	case NBD_CMD_READ:
		request_add_io(request, CLEAVE_READ, first, end - first, request->data);
		if (request->parts != NULL)
			request->ios[0].part_fn = request_on_part;
		break;
	case NBD_CMD_WRITE:
		request_add_io(request, CLEAVE_WRITE, first, end - first, request->data);
		break;
	case NBD_CMD_BLOCK_STATUS:
		nbd_status_plan(request, request_on_io);
		break;
	case NBD_CMD_TRIM:
		request_add_io(request, CLEAVE_DISCARD, first, end - first, NULL);
		break;
	case NBD_CMD_WRITE_ZEROES:
		if (request->has_edge[0])
			request_add_io(request, CLEAVE_WRITE, first, BLOCK, request->edges);
		if (request->has_edge[1])
			request_add_io(request, CLEAVE_WRITE, end - BLOCK, BLOCK,
			    request->edges + BLOCK);
		first += request->has_edge[0] ? BLOCK : 0;
		end -= request->has_edge[1] ? BLOCK : 0;
		request_add_io(request,
		    (request->head.flags & NBD_CMD_FLAG_NO_HOLE) != 0 ? CLEAVE_WRITE_ZEROES
								      : CLEAVE_DISCARD,
		    first, end - first, NULL);
		break;
	default:
		break;
	}
}

/* A step's requests have all ended. */
static void
request_on_step(struct nbd_request *request)
{
	assert(request->io_out == 0);
	if (request->sm.state == NBD_REQUEST_FETCHING && request->rc == 0) {
		request_patch(request);
		request_plan(request);
		sm_move(&request->sm, NBD_REQUEST_RUNNING);
		request_submit(request);
		return;
	}
	request_finish(request);
}

/* An error that its client has from the cluster, and not from a mistake of its own. A lost volume was told of. */
static void
request_log_failed(const struct nbd_request *request, int rc)
{
	static const char *const names[] = {
		[NBD_CMD_READ] = "read",
		[NBD_CMD_WRITE] = "write",
		[NBD_CMD_FLUSH] = "flush",
		[NBD_CMD_TRIM] = "trim",
		[NBD_CMD_WRITE_ZEROES] = "write of zeroes",
	};
	uint32_t type = request->head.type;

	if (request->export->is_lost || rc == -ECANCELED)
		return;
	log_limited(LOG_ERROR,
	    "export: a %s has failed, its client gets an error name=%s offset_bytes=%llu bytes=%llu "
	    "rc=%s",
	    type < NUM_COUNT(names) && names[type] != NULL ? names[type] : "request",
	    request->export->name, (unsigned long long)request->head.offset_bytes,
	    (unsigned long long)request->head.length_bytes, log_errno(rc));
}

static void
request_on_io(struct cleave_io *io, int rc, void *arg)
{
	struct nbd_request *request = arg;

	CHECK_OBJ(request, REQUEST_MAGIC);
	assert(request->io_out > 0);
	request->io_out--;
	if (rc != 0 && request->head.type == NBD_CMD_BLOCK_STATUS)
		rc = nbd_status_error(request, io, rc);
	if (rc != 0 && request->rc == 0)
		request_log_failed(request, rc);
	if (request->rc == 0)
		request->rc = rc;
	if (request->io_next < request->io_count && request->rc == 0)
		request_submit(request);
	else if (request->io_out == 0)
		request_on_step(request);
}

static void
request_on_part(struct cleave_io *io, uint64_t from_bytes, uint64_t bytes, void *arg)
{
	struct nbd_request *request = arg;
	uint64_t begin = num_max(request->first_bytes + from_bytes, request->head.offset_bytes);
	uint64_t end =
	    num_min(request->first_bytes + from_bytes + bytes, nbd_command_end(&request->head));

	(void)io;
	CHECK_OBJ(request, REQUEST_MAGIC);
	assert(io == &request->ios[0] && request->parts != NULL);
	if (begin < end && request->connection->sm.state != NBD_CONNECTION_CLOSED)
		nbd_connection_part(request->connection, request, begin, end - begin);
}

/*
 * An I/O that libcleave has no room for is submitted when another of this request completes; a request of which
 * nothing is under way is put among those that wait.
 */
static void
request_submit(struct nbd_request *request)
{
	struct nbd_export *export = request->export;
	bool is_status = request->head.type == NBD_CMD_BLOCK_STATUS;
	int rc = 0;

	assert(request->io_next <= request->io_count);
	while (request->io_next < request->io_count && rc >= 0) {
		struct cleave_io *io = &request->ios[request->io_next];

		rc = is_status ? nbd_status_submit(request, io) : cleave_submit(export->volume, io);
		request->io_next += rc >= 0;
		request->io_out += rc == 0;
	}
	rc = rc > 0 ? 0 : rc;
	if (request->io_out > 0) {
		if (rc != 0 && rc != -ENOBUFS) {
			request->rc = rc;
			request->io_next = request->io_count;
		}
		return;
	}
	if (rc == -ENOBUFS) {
		list_remove(&request->lock_link);
		list_push_front(&export->waiting, &request->lock_link);
		list_push_front(&export->ready, &request->wait_link);
		return;
	}
	request->rc = rc;
	request_finish(request);
}

/* ---- waiting ---- */

static bool
is_conflict(const struct nbd_request *a, const struct nbd_request *b)
{
	return is_change(a) && is_change(b) && (has_edges(a) || has_edges(b)) &&
	    a->first_bytes < b->end_bytes && b->first_bytes < a->end_bytes;
}

/* The last one that was asked for before, and is under way or waits; NULL: none. */
static struct nbd_request *
request_blocker(struct nbd_request *request)
{
	struct nbd_export *export = request->export;
	bool is_waiting = list_contains(&request->lock_link);
	struct loop_link *link;

	CHECK_OBJ(request, REQUEST_MAGIC);
	/* Where all change whole blocks nobody is looked for: many may be under way. */
	if (!is_change(request) || export->edged_count == 0)
		return NULL;
	link = is_waiting ? request->lock_link.prev : export->waiting.prev;
	for (; link != &export->waiting; link = link->prev) {
		struct nbd_request *other = LIST_ENTRY(link, struct nbd_request, lock_link);

		if (is_conflict(other, request))
			return other;
	}
	for (link = export->active.prev; link != &export->active; link = link->prev) {
		struct nbd_request *other = LIST_ENTRY(link, struct nbd_request, lock_link);

		if (is_conflict(other, request))
			return other;
	}
	return NULL;
}

/* The request may begin, or go on where libcleave had no room. */
static void
request_begin(struct nbd_request *request)
{
	assert(request->sm.state == NBD_REQUEST_WAITING || request->io_next < request->io_count);
	list_remove(&request->lock_link);
	if (is_change(request))
		list_push_back(&request->export->active, &request->lock_link);
	if (request->sm.state == NBD_REQUEST_WAITING) {
		if (has_edges(request)) {
			request_plan_edges(request);
			sm_move(&request->sm, NBD_REQUEST_FETCHING);
		} else {
			request_plan(request);
			sm_move(&request->sm, NBD_REQUEST_RUNNING);
		}
	}
	request_submit(request);
}

/* The request waits until the volume is open for writing. False: it may begin. */
static bool
request_must_attach(struct nbd_request *request)
{
	struct nbd_export *export = request->export;

	CHECK_OBJ(request, REQUEST_MAGIC);
	if (!is_change(request) || !nbd_attach_is_due(export))
		return false;
	if (!list_contains(&request->lock_link))
		list_push_back(&export->waiting, &request->lock_link);
	list_push_back(&export->unattached, &request->wait_link);
	nbd_attach_start(export);
	return true;
}

void
nbd_request_retry(struct nbd_export *export)
{
	struct loop_link *link;

	CHECK_OBJ(export, EXPORT_MAGIC);
	/* Each that begins may end at once and come here again: one at a time, from the front. */
	if (export->is_retrying)
		return;
	export->is_retrying = true;
	while ((link = list_pop_front(&export->ready)) != NULL) {
		struct nbd_request *request = LIST_ENTRY(link, struct nbd_request, wait_link);
		struct nbd_request *blocker = request_blocker(request);

		if (blocker != NULL) {
			list_push_back(&blocker->blocked, link);
			continue;
		}
		if (request_must_attach(request))
			continue;
		request_begin(request);
		if (list_first(&export->ready) == link)
			break; /* no room again */
	}
	export->is_retrying = false;
}

static void
request_queue(struct nbd_request *request)
{
	struct nbd_request *blocker = request_blocker(request);

	assert(request->sm.state == NBD_REQUEST_WAITING);
	if (blocker == NULL && request_must_attach(request))
		return;
	if (blocker == NULL) {
		request_begin(request);
		return;
	}
	list_push_back(&request->export->waiting, &request->lock_link);
	list_push_back(&blocker->blocked, &request->wait_link);
}

/* ---- starting ---- */

uint64_t
nbd_request_bytes(const struct nbd_command_shape *shape)
{
	assert(shape->rc == 0 || shape->data_bytes == 0);
	return sizeof(struct nbd_request) + shape->data_bytes +
	    (shape->has_edge[0] || shape->has_edge[1] ? 2 * (uint64_t)BLOCK : 0) +
	    shape->part_max * sizeof(struct nbd_output);
}

static int
request_alloc_memory(struct nbd_request *request, const struct nbd_command_shape *shape)
{
	struct nbd_buffers *buffers = &request->connection->server->buffers;

	assert(request->data == NULL && request->parts == NULL && request->edges == NULL);
	request->first_bytes = shape->first_bytes;
	request->end_bytes = shape->end_bytes;
	if (shape->data_bytes > 0) {
		request->data = nbd_buffer_get(buffers, shape->data_bytes);
		if (request->data == NULL)
			return -ENOMEM;
		request->data_bytes = shape->data_bytes;
	}
	if (shape->part_max > 0) {
		request->parts = nbd_buffer_get(buffers, shape->part_max * sizeof(*request->parts));
		if (request->parts == NULL)
			return -ENOMEM;
		request->part_max = shape->part_max;
	}
	memcpy(request->has_edge, shape->has_edge, sizeof(request->has_edge));
	request->export->edged_count += has_edges(request);
	if (!has_edges(request))
		return 0;
	request->edges = nbd_buffer_get(buffers, 2 * (uint64_t)BLOCK);
	return request->edges == NULL ? -ENOMEM : 0;
}

static struct nbd_request *
request_alloc(struct nbd_connection *connection, const struct nbd_request_head *head,
    uint64_t held_bytes, bool receives)
{
	struct nbd_request *request = nbd_buffer_get_request(&connection->server->buffers);

	assert(connection->export != NULL);
	if (request == NULL) {
		nbd_memory_give(connection, held_bytes);
		return NULL;
	}
	request->begun_ns = loop_now_ns(connection->server->options.loop);
	request->held_bytes = held_bytes;
	request->magic = REQUEST_MAGIC;
	request->connection = connection;
	request->export = connection->export;
	request->head = *head;
	list_init(&request->blocked);
	sm_init(&request->sm, "nbd request", request_table,
	    receives ? NBD_REQUEST_RECEIVING : NBD_REQUEST_WAITING, (uint32_t)head->cookie);
	list_push_back(&connection->requests, &request->link);
	connection->request_count++;
	connection->in_flight_bytes += held_bytes;
	return request;
}

struct nbd_request *
nbd_request_start(struct nbd_connection *connection, const struct nbd_request_head *head,
    const struct nbd_command_shape *shape, uint64_t *ret_skip_bytes)
{
	int rc = shape->rc;
	bool receives = head->type == NBD_CMD_WRITE && rc == 0;
	struct nbd_request *request =
	    request_alloc(connection, head, nbd_request_bytes(shape), receives);

	CHECK_OBJ(connection, CONNECTION_MAGIC);
	assert(connection->sm.state == NBD_CONNECTION_SERVING);
	*ret_skip_bytes = 0;
	if (request == NULL) {
		nbd_connection_break(connection, "out of memory");
		return NULL;
	}
	if (rc == 0)
		rc = request_alloc_memory(request, shape);
	if (rc != 0 && nbd_command_has_payload(connection, head))
		*ret_skip_bytes = head->length_bytes;
	if (rc != 0) {
		if (request->sm.state == NBD_REQUEST_RECEIVING)
			sm_move(&request->sm, NBD_REQUEST_WAITING);
		request->rc = rc;
		request_finish(request);
		return NULL;
	}
	if (receives) {
		request->reply.data = request->data + (head->offset_bytes - request->first_bytes);
		return request;
	}
	if (head->type == NBD_CMD_READ || head->type == NBD_CMD_BLOCK_STATUS ||
	    (is_change(request) && request->first_bytes < request->end_bytes))
		request_queue(request);
	else if (head->type == NBD_CMD_RESIZE)
		nbd_resize_start(request);
	else
		request_finish(request); /* FLUSH, CACHE, a TRIM of no whole block */
	return NULL;
}

void
nbd_request_received(struct nbd_request *request)
{
	CHECK_OBJ(request, REQUEST_MAGIC);
	assert(request->head.type == NBD_CMD_WRITE);
	sm_move(&request->sm, NBD_REQUEST_WAITING);
	request_queue(request);
}
