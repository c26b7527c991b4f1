/* SPDX-License-Identifier: Apache-2.0 */
/* dev_event.c -- the paper's way to program a port: calls that return events (event.c) */
#include <errno.h>

#include "alloc.h"
#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "credit_grant.h"
#include "dev_memory.h"
#include "event.h"
#include "port.h"
#include "qp.h"
#include "transport.h"

struct dev_event *
dev_mixed_recv(struct split_qp *qp, void *h_buf, size_t h_size, dev_ptr d_buf, size_t d_size)
{
	struct dev_event *event;

	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	if (h_buf == NULL || h_size < WIRE_HEADER_BYTES || h_size > SPLIT_HEADER_BYTES_MAX ||
	    (d_size > 0 && dev_ptr_is_null(d_buf))) {
		errno = EINVAL;
		return NULL;
	}
	if (!qp_is(qp, SPLIT_QP_READY)) {
		errno = ENOTCONN;
		return NULL;
	}
	/* Sealed payloads are opened where they lie. */
	if (qp->sealed != NULL && d_size > 0 && !dev_memory_is_reached(qp->port, d_buf, d_size)) {
		errno = ENOTSUP;
		return NULL;
	}
	event = event_take(qp->port, EVENT_RECV);
	if (event == NULL)
		return NULL;
	event->qp = qp;
	event->host = h_buf;
	event->host_bytes = (uint32_t)h_size;
	event->device = d_buf;
	event->device_bytes = d_size;
	list_push_back(&qp->posted, &event->link);
	qp->posted_count++;
	credit_on_posted(qp);
	qp->ops->kick_receive(qp);
	return event;
}

static void
event_on_sent(struct split_send *send, int rc, void *arg)
{
	struct dev_event *event = arg;
	uint32_t bytes = 0;

	CHECK_OBJ(event, SPLIT_EVENT_MAGIC);
	assert(rc <= 0);
	if (rc == 0)
		for (uint32_t i = 0; i < send->piece_count; i++)
			bytes += send->pieces[i].bytes;
	event_complete(event, rc, bytes);
}

struct dev_event *
dev_mixed_sendv(struct split_qp *qp, void *h_buf, size_t h_size, const struct dev_piece *pieces,
    uint32_t piece_count)
{
	struct dev_event *event;
	int rc;

	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	if (h_size > SPLIT_HEADER_BYTES_MAX || piece_count > SPLIT_PIECES_MAX) {
		errno = EINVAL;
		return NULL;
	}
	event = event_take(qp->port, EVENT_SEND);
	if (event == NULL)
		return NULL;
	for (uint32_t i = 0; i < piece_count; i++)
		event->pieces[i] = pieces[i];
	event->qp = qp;
	event->send = (struct split_send){
		.header = h_buf,
		.header_bytes = (uint32_t)h_size,
		.pieces = event->pieces,
		.piece_count = piece_count,
		.fn = event_on_sent,
		.arg = event,
	};
	rc = split_send(qp, &event->send);
	if (rc == 0)
		return event;
	event_release(event);
	errno = -rc;
	return NULL;
}

struct dev_event *
dev_mixed_send(struct split_qp *qp, void *h_buf, size_t h_size, dev_ptr d_buf, size_t d_size)
{
	struct dev_piece piece = { .ptr = d_buf, .bytes = (uint32_t)d_size };

	if (d_size > WIRE_PAYLOAD_BYTES_MAX) {
		errno = EMSGSIZE;
		return NULL;
	}
	return dev_mixed_sendv(qp, h_buf, h_size, &piece, d_size > 0 ? 1 : 0);
}

static bool
func_fill(struct engine_job *job, enum dev_engine engine)
{
	static const struct {
		enum engine_job_kind kind;
		uint8_t codec_id;
	} jobs[DEV_ENGINE_NR] = {
		[DEV_ENGINE_COMPRESS_LZ4] = { ENGINE_JOB_COMPRESS, ENGINE_LZ4 },
		[DEV_ENGINE_DECOMPRESS_LZ4] = { ENGINE_JOB_DECOMPRESS, ENGINE_LZ4 },
		[DEV_ENGINE_COMPRESS_ZSTD] = { ENGINE_JOB_COMPRESS, ENGINE_ZSTD },
		[DEV_ENGINE_DECOMPRESS_ZSTD] = { ENGINE_JOB_DECOMPRESS, ENGINE_ZSTD },
		[DEV_ENGINE_COPY] = { ENGINE_JOB_COPY, ENGINE_NONE },
	};

	if ((unsigned)engine >= DEV_ENGINE_NR)
		return false;
	job->kind = jobs[engine].kind;
	job->codec_id = jobs[engine].codec_id;
	return true;
}

static void
event_on_job_done(struct engine_job *job, void *arg)
{
	struct dev_event *event = arg;

	CHECK_OBJ(event, SPLIT_EVENT_MAGIC);
	assert(event->kind == EVENT_FUNC);
	assert(event->port->events_running_count > 0);
	event->port->events_running_count--;
	event_complete(event, job->rc, job->rc == 0 ? job->dst_bytes : 0);
}

struct dev_event *
dev_func(struct split_port *port, dev_ptr src, size_t src_size, dev_ptr dst, size_t dst_size,
    enum dev_engine engine)
{
	struct dev_event *event;
	int rc;

	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	if (port->options.engines == NULL || port->options.engine_ops == NULL ||
	    !dev_memory_is_reached(port, src, src_size) ||
	    !dev_memory_is_reached(port, dst, dst_size)) {
		errno = ENOTSUP;
		return NULL;
	}
	event = event_take(port, EVENT_FUNC);
	if (event == NULL)
		return NULL;
	event->job = (struct engine_job){
		.src = src,
		.src_bytes = (uint32_t)num_min(src_size, UINT32_MAX),
		.dst = dst,
		.dst_cap_bytes = (uint32_t)num_min(dst_size, UINT32_MAX),
		.fn = event_on_job_done,
		.arg = event,
	};
	if (!func_fill(&event->job, engine)) {
		event_release(event);
		errno = EINVAL;
		return NULL;
	}
	port->events_running_count++;
	rc = port->options.engine_ops->submit(port->options.engines, &event->job);
	if (rc < 0) {
		port->events_running_count--;
		event_release(event);
		errno = -rc;
		return NULL;
	}
	if (rc == 1)
		event_on_job_done(&event->job, event);
	return event;
}

static bool
event_is_done(void *arg)
{
	const struct dev_event *event = arg;

	CHECK_OBJ(event, SPLIT_EVENT_MAGIC);
	return event->is_done;
}

int
dev_poll(struct dev_event *event, struct dev_completion *ret_completion)
{
	CHECK_OBJ(event, SPLIT_EVENT_MAGIC);
	assert(event->kind != EVENT_FREE);
	assert(event->fn == NULL); /* its handler gets it */
	if (!event->is_done) {
		int rc;

		if (loop_is_running(event->port->loop))
			return -EAGAIN;
		rc = loop_run(event->port->loop, event_is_done, event);
		if (!event->is_done)
			return rc != 0 ? rc : -EINTR; /* somebody stopped the loop */
	}
	*ret_completion = event->completion;
	event_release(event);
	return 0;
}

uint32_t
dev_poll_many(struct split_port *port, struct dev_completion *ret_completions, uint32_t max)
{
	struct loop_link *link;
	uint32_t count = 0;

	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	while (count < max && (link = list_first(&port->events_done)) != NULL) {
		struct dev_event *event = LIST_ENTRY(link, struct dev_event, link);

		ret_completions[count++] = event->completion;
		event_release(event);
	}
	return count;
}

void
dev_event_on(struct dev_event *event,
    void (*fn)(const struct dev_completion *completion, void *arg), void *arg)
{
	CHECK_OBJ(event, SPLIT_EVENT_MAGIC);
	assert(event->kind != EVENT_FREE);
	event_call(event, fn, arg);
}

int
dev_event_cancel(struct dev_event *event)
{
	struct split_qp *qp = event->qp;

	CHECK_OBJ(event, SPLIT_EVENT_MAGIC);
	assert(event->kind != EVENT_FREE);
	if (event->is_done || qp == NULL || !qp_is(qp, SPLIT_QP_READY) ||
	    event->kind == EVENT_ONE_SIDED)
		return 0;
	if (event->kind == EVENT_SEND) {
		if (split_send_cancel(qp, &event->send) == 0)
			return 0;
	} else {
		/* Out of the queue: the message is coming in. */
		if (!list_contains(&event->link) ||
		    (qp->ops->may_cancel != NULL && !qp->ops->may_cancel(qp, event)))
			return 0;
		list_remove(&event->link);
		qp->posted_count--;
	}
	event_complete(event, -ECANCELED, 0);
	return 1;
}

static bool
ready_is_known(void *arg)
{
	const struct split_port *port = arg;

	CHECK_OBJ(port, SPLIT_PORT_MAGIC);
	return port->awaited_qp == NULL;
}

int
dev_wait_ready(struct split_qp *qp)
{
	struct split_port *port = qp->port;
	int rc;

	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	if (qp_is(qp, SPLIT_QP_READY))
		return 0;
	if (qp_is(qp, SPLIT_QP_CLOSED))
		return qp->close_rc != 0 ? qp->close_rc : -ECANCELED;
	port->awaited_qp = qp;
	port->awaited_rc = -EINTR;
	rc = loop_run(port->loop, ready_is_known, port);
	/* @qp may be gone by now. */
	port->awaited_qp = NULL;
	return rc != 0 ? rc : port->awaited_rc;
}
