/* SPDX-License-Identifier: Apache-2.0 */
/*
 * one_sided.c -- dev_read and dev_write: a peer's region, reached without its owner's handlers
 *
 * A read or write of ours is an event, cut into pieces of at most ONE_SIDED_PIECE_BYTES. A piece is in
 * one of three lists of its queue pair:
 *
 *	free --one_sided_take--> flying --one_sided_end--> free, and the event when it was the last
 *	                          |  ^
 *	           one_sided_return  one_sided_take     (the transport could not carry it out)
 *	                          v  |
 *	                          again
 *
 * Over verbs:// a piece is a work request, and the peer's device answers (verbs_lane.c).
 * Elsewhere it is a message, and the peer's library answers (region.c). These messages need no receive, neither
 * does their answer: what is read goes to the event's memory straight away. So they cost no credit.
 */
#include "one_sided.h"

#include <errno.h>

#include "alloc.h"
#include "base/check.h"
#include "base/guard.h"
#include "base/list.h"
#include "base/metrics.h"
#include "base/num.h"
#include "cleave/status.h"
#include "credit.h"
#include "dev_memory.h"
#include "dev_ptr_raw.h"
#include "event.h"
#include "port.h"
#include "qp.h"
#include "region.h"
#include "send_post.h"
#include "transport.h"

static void
piece_on_sent(struct split_send *send, int rc, void *arg)
{
	/* The answer ends it, or the end of the queue pair. */
	(void)send;
	(void)rc;
	(void)arg;
}

static struct one_sided *
one_sided_get(struct split_qp *qp)
{
	struct one_sided *self = qp->one_sided;

	if (self != NULL)
		return self;
	self = split_calloc(1, sizeof(*self));
	if (self == NULL)
		return NULL;
	list_init(&self->waiting);
	list_init(&self->free);
	list_init(&self->again);
	list_init(&self->flying);
	for (uint32_t i = 0; i < ONE_SIDED_PIECES; i++)
		list_push_back(&self->free, &self->pieces[i].link);
	qp->one_sided = self;
	return self;
}

/* The event of which a piece has ended, or that will get no more pieces. */
static void
event_try_end(struct dev_event *event)
{
	int rc = event->one_sided_rc;

	assert(event->pieces_out <= ONE_SIDED_PIECES);
	assert(event->kind == EVENT_ONE_SIDED);
	assert(event->moved_bytes <= event->issued_bytes);
	if (rc != 0)
		list_remove(&event->link); /* out of waiting */
	if (event->pieces_out > 0 || (rc == 0 && event->issued_bytes < event->device_bytes))
		return;
	metric_add(&event->port->counters.one_sided_done, 1);
	if (rc == -EKEYREVOKED)
		metric_add(&event->port->counters.one_sided_refused, 1);
	event_complete(event, rc, (uint32_t)event->moved_bytes);
}

static void
event_fail(struct dev_event *event, int rc)
{
	CHECK_OBJ(event, SPLIT_EVENT_MAGIC);
	assert(rc < 0);
	if (event->one_sided_rc == 0)
		event->one_sided_rc = rc;
}

void
one_sided_end(struct split_qp *qp, struct one_sided_piece *piece, int rc)
{
	struct dev_event *event = piece->event;
	struct split_counters *counters = &qp->port->counters;

	CHECK_OBJ(event, SPLIT_EVENT_MAGIC);
	assert(rc <= 0);
	assert(event->kind == EVENT_ONE_SIDED);
	assert(event->pieces_out > 0);
	list_remove(&piece->link);
	list_push_front(&qp->one_sided->free, &piece->link);
	piece->event = NULL;
	event->pieces_out--;
	if (rc == 0) {
		event->moved_bytes += piece->bytes;
		metric_add(event->is_write ? &counters->device_bytes_out
					   : &counters->device_bytes_in,
		    piece->bytes);
	} else {
		event_fail(event, rc);
	}
	event_try_end(event);
}

void
one_sided_return(struct split_qp *qp, struct one_sided_piece *piece)
{
	assert(piece->event != NULL);
	assert(piece->event->pieces_out > 0);
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	list_remove(&piece->link);
	list_push_back(&qp->one_sided->again, &piece->link);
}

struct one_sided_piece *
one_sided_oldest(struct split_qp *qp)
{
	struct loop_link *link = list_first(&qp->one_sided->flying);

	assert(qp->one_sided != NULL);
	return link != NULL ? LIST_ENTRY(link, struct one_sided_piece, link) : NULL;
}

/* The next of those that go once more; those of an event that has failed end here. */
static struct one_sided_piece *
piece_take_again(struct split_qp *qp)
{
	struct loop_link *link;

	assert(qp->one_sided != NULL);
	while ((link = list_first(&qp->one_sided->again)) != NULL) {
		struct one_sided_piece *piece = LIST_ENTRY(link, struct one_sided_piece, link);

		if (piece->event->one_sided_rc == 0)
			return piece;
		one_sided_end(qp, piece, piece->event->one_sided_rc);
	}
	return NULL;
}

static struct one_sided_piece *
piece_cut(struct one_sided *self)
{
	struct loop_link *waiting = list_first(&self->waiting), *free = list_first(&self->free);
	struct one_sided_piece *piece;
	struct dev_event *event;

	if (waiting == NULL || free == NULL)
		return NULL;
	event = LIST_ENTRY(waiting, struct dev_event, link);
	piece = LIST_ENTRY(free, struct one_sided_piece, link);
	assert(piece->event == NULL);
	assert(event->issued_bytes < event->device_bytes);
	piece->event = event;
	piece->offset_bytes = event->issued_bytes;
	piece->bytes =
	    (uint32_t)num_min(event->device_bytes - event->issued_bytes, ONE_SIDED_PIECE_BYTES);
	piece->sequence = self->sequence_next++;
	event->issued_bytes += piece->bytes;
	event->pieces_out++;
	if (event->issued_bytes == event->device_bytes)
		list_remove(&event->link);
	return piece;
}

struct one_sided_piece *
one_sided_take(struct split_qp *qp)
{
	struct one_sided_piece *piece = piece_take_again(qp);

	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	if (piece == NULL)
		piece = piece_cut(qp->one_sided);
	if (piece == NULL)
		return NULL;
	list_remove(&piece->link);
	list_push_back(&qp->one_sided->flying, &piece->link);
	return piece;
}

bool
one_sided_is_wanted(const struct split_qp *qp)
{
	return qp->one_sided != NULL &&
	    (!list_is_empty(&qp->one_sided->waiting) || !list_is_empty(&qp->one_sided->again));
}

static uint64_t
piece_request_id(const struct split_qp *qp, const struct one_sided_piece *piece)
{
	assert(piece >= qp->one_sided->pieces && piece < qp->one_sided->pieces + ONE_SIDED_PIECES);
	return (uint64_t)piece->sequence << 32 | (uint64_t)(piece - qp->one_sided->pieces);
}

static void
piece_send(struct split_qp *qp, struct one_sided_piece *piece)
{
	const struct dev_event *event = piece->event;

	assert(event != NULL);
	assert(!list_contains(&piece->send.link));
	piece->device =
	    (struct dev_piece){ dev_ptr_add(event->device, piece->offset_bytes), piece->bytes };
	piece->header =
	    (struct wire_header){ .opcode = event->is_write ? WIRE_DEV_WRITE : WIRE_DEV_READ,
		    .request_id = piece_request_id(qp, piece),
		    .object_id = event->remote.address,
		    .offset_bytes = event->remote_offset_bytes + piece->offset_bytes,
		    .length_bytes = piece->bytes,
		    .epoch = event->remote.key };
	piece->send = (struct split_send){ .header = &piece->header,
		.header_bytes = WIRE_HEADER_BYTES,
		.pieces = &piece->device,
		.piece_count = event->is_write ? 1 : 0,
		.fn = piece_on_sent };
	send_post_library(qp, &piece->send);
}

static void
one_sided_kick(struct split_qp *qp)
{
	struct one_sided_piece *piece;

	assert(qp->one_sided != NULL);
	if (!qp_is(qp, SPLIT_QP_READY))
		return;
	if (qp->ops->kick_one_sided != NULL) {
		qp->ops->kick_one_sided(qp);
		return;
	}
	while ((piece = one_sided_take(qp)) != NULL)
		piece_send(qp, piece);
}

static int
event_check(const struct split_qp *qp, dev_ptr d_buf, size_t d_size,
    const struct dev_remote *remote, uint64_t offset_bytes, uint32_t right)
{
	if (qp->sealed != NULL)
		return -ENOTSUP;
	if (d_size == 0 || d_size > UINT32_MAX ||
	    !dev_memory_has(qp->port, dev_ptr_raw(d_buf), d_size))
		return -EINVAL;
	if ((remote->rights & right) == 0)
		return -EACCES;
	if (offset_bytes > remote->bytes || d_size > remote->bytes - offset_bytes)
		return -ERANGE;
	return qp_is(qp, SPLIT_QP_READY) ? 0 : -ENOTCONN;
}

static struct dev_event *
one_sided_start(struct split_qp *qp, dev_ptr d_buf, size_t d_size, const struct dev_remote *remote,
    uint64_t offset_bytes, bool is_write)
{
	struct dev_event *event;
	int rc;

	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	rc = event_check(qp, d_buf, d_size, remote, offset_bytes,
	    is_write ? DEV_REGION_WRITE : DEV_REGION_READ);
	if (rc == 0 && one_sided_get(qp) == NULL)
		rc = -ENOMEM;
	if (rc != 0) {
		errno = -rc;
		return NULL;
	}
	event = event_take(qp->port, EVENT_ONE_SIDED);
	if (event == NULL)
		return NULL;
	event->qp = qp;
	event->device = d_buf;
	event->device_bytes = d_size;
	event->remote = *remote;
	event->remote_offset_bytes = offset_bytes;
	event->is_write = is_write;
	event->issued_bytes = event->moved_bytes = 0;
	event->pieces_out = 0;
	event->one_sided_rc = 0;
	list_push_back(&qp->one_sided->waiting, &event->link);
	one_sided_kick(qp);
	return event;
}

struct dev_event *
dev_read(struct split_qp *qp, dev_ptr d_buf, size_t d_size, const struct dev_remote *remote,
    uint64_t offset_bytes)
{
	return one_sided_start(qp, d_buf, d_size, remote, offset_bytes, false);
}

struct dev_event *
dev_write(struct split_qp *qp, dev_ptr d_buf, size_t d_size, const struct dev_remote *remote,
    uint64_t offset_bytes)
{
	return one_sided_start(qp, d_buf, d_size, remote, offset_bytes, true);
}

static void
pieces_end_all(struct split_qp *qp, struct loop_link *list, int rc)
{
	struct loop_link *link;

	assert(rc < 0);
	while ((link = list_first(list)) != NULL)
		one_sided_end(qp, LIST_ENTRY(link, struct one_sided_piece, link), rc);
}

void
one_sided_refuse(struct split_qp *qp, int rc)
{
	struct loop_link *link;

	assert(qp->one_sided != NULL);
	assert(rc < 0);
	pieces_end_all(qp, &qp->one_sided->again, rc);
	while ((link = list_first(&qp->one_sided->waiting)) != NULL) {
		struct dev_event *event = LIST_ENTRY(link, struct dev_event, link);

		event_fail(event, rc);
		event_try_end(event);
	}
}

void
one_sided_flush(struct split_qp *qp, int rc)
{
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	if (qp->one_sided == NULL)
		return;
	assert(rc < 0);
	pieces_end_all(qp, &qp->one_sided->flying, rc);
	one_sided_refuse(qp, rc);
}

void
one_sided_fini(struct split_qp *qp)
{
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	region_answers_free(qp);
	split_free(qp->one_sided);
	qp->one_sided = NULL;
}

/* Messages of both sides. */

static const char *
header_check(const struct wire_header *header)
{
	bool is_reply = (header->opcode & WIRE_REPLY) != 0;
	bool has_payload = (header->opcode & ~WIRE_REPLY) ==
	    (is_reply ? WIRE_DEV_READ : WIRE_DEV_WRITE);

	if (header->service_class != 0 || header->engine != 0 || header->vm_id != 0 ||
	    header->flags != 0 || header->payload_crc != 0)
		return "flags";
	if (header->length_bytes == 0 || header->length_bytes > ONE_SIDED_PIECE_BYTES)
		return "length_bytes";
	if (header->status >= CLEAVE_STATUS_NR || (!is_reply && header->status != 0))
		return "status";
	if (header->payload_bytes !=
	    (has_payload && header->status == 0 ? header->length_bytes : 0))
		return "payload_bytes";
	return NULL;
}

/* The answer to a piece of ours. */
static int
reply_begin(struct split_qp *qp, const struct wire_header *header, const char **ret_field)
{
	uint32_t index = (uint32_t)header->request_id;
	struct one_sided_piece *piece;

	assert((header->opcode & WIRE_REPLY) != 0);
	*ret_field = "request_id";
	if (qp->one_sided == NULL || index >= ONE_SIDED_PIECES)
		return -EPROTO;
	piece = &qp->one_sided->pieces[index];
	if (piece->event == NULL || piece_request_id(qp, piece) != header->request_id ||
	    list_contains(&piece->send.link)) /* not out yet */
		return -EPROTO;
	*ret_field = "opcode";
	if (header->opcode != (piece->header.opcode | WIRE_REPLY))
		return -EPROTO;
	*ret_field = "length_bytes";
	if (header->length_bytes != piece->bytes)
		return -EPROTO;
	qp->fill = (struct recv_fill){ .kind = RECV_ONE_SIDED,
		.piece = piece,
		.device = dev_ptr_raw(piece->device.ptr),
		.device_left = header->payload_bytes,
		.rc = status_to_errno(header->status) };
	return 0;
}

int
one_sided_begin(struct split_qp *qp, const struct wire_header *header, const char **ret_field)
{
	int rc;

	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	assert(one_sided_is(header->opcode));
	metric_add(&qp->port->counters.host_bytes_in, WIRE_HEADER_BYTES);
	*ret_field = qp->ops->kick_one_sided != NULL ? "opcode" : header_check(header);
	if (*ret_field != NULL)
		return -EPROTO;
	rc = (header->opcode & WIRE_REPLY) != 0 ? reply_begin(qp, header, ret_field)
						: region_serve(qp, header, ret_field);
	if (rc == 0 && credit_on_header(qp, header) != 0) {
		*ret_field = "credits";
		rc = -EPROTO;
	}
	return rc;
}

void
one_sided_finish(struct split_qp *qp, const struct recv_fill *fill)
{
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	assert((fill->answer != NULL) != (fill->piece != NULL));
	if (fill->answer != NULL) {
		region_answer(qp, fill->answer);
		return;
	}
	one_sided_end(qp, fill->piece, fill->rc);
	one_sided_kick(qp);
}
