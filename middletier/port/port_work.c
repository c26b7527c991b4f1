/* SPDX-License-Identifier: Apache-2.0 */
/*
 * port_work.c -- merges that gateways execute for each other: a port's own may go to others, others' jobs come here
 *
 *	main: mt_port_work_names --the newest--> port: merge/merge_away --JOB_LOAD, JOB_ASSIGN--> another gateway's port
 *	another gateway's port --JOB_LOAD, JOB_ASSIGN, JOB_CANCEL--> mt_port_work_take --> worker/ --its end--> the answer
 *
 * The message with the last part of a recipe is kept until its job has ended, as is one that gives a job up. Both are
 * answered then, or go with their connection.
 */
#include "port/port_work.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/log.h"
#include "base/sm.h"
#include "cleave/dev_ptr.h"
#include "cleave/job.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/port.h"
#include "common/settings.h"
#include "extent/peer_link.h"
#include "merge/merge_away.h"
#include "merge/merge_by_away.h"
#include "port/port.h"
#include "port/port_life.h"
#include "port/port_mailbox.h"
#include "session/session.h"
#include "worker/worker.h"

/* ---- where ours may go ---- */

static void
work_on_names(void *arg, const void *value)
{
	struct mt_port *port = arg;

	CHECK_OBJ(port, MT_PORT_MAGIC);
	if (port->sm.state <= MT_PORT_RUNNING)
		mt_merge_by_away_names(port->merge_work, value);
}

void
mt_port_work_names(struct mt_port *port, const struct mt_away_names *names)
{
	CHECK_OBJ(port, MT_PORT_MAGIC);
	assert(names->count <= MT_GATEWAYS_MAX);
	if (port->life->work_names != NULL)
		mt_port_mailbox_put(port->life->work_names, names);
}

/* ---- what comes ---- */

static void
work_reply(struct split_msg *msg, const struct wire_job *request, int rc)
{
	const struct wire_job answer = { .opcode = request->opcode,
		.is_reply = true,
		.request_id = request->request_id,
		.job = request->job,
		.rc = rc };
	struct wire_header header;

	wire_job_encode(&header, &answer);
	split_msg_reply(msg, &header, NULL, 0, NULL, NULL);
}

/* How much room there is. */
static void
work_reply_load(const struct mt_port *port, struct split_msg *msg, const struct wire_job *request)
{
	const struct wire_job answer = { .opcode = WIRE_JOB_LOAD,
		.is_reply = true,
		.request_id = request->request_id,
		.free_count = mt_worker_free_count(port),
		.busy = mt_worker_busy(port) };
	struct wire_header header;

	wire_job_encode(&header, &answer);
	split_msg_reply(msg, &header, NULL, 0, NULL, NULL);
}

/* A message that waited for its job's end, answered. */
static void
work_reply_kept(struct split_msg *msg, int rc)
{
	struct wire_job request;
	const char *field;
	int decode_rc = wire_job_decode(msg->header, &request, &field);

	assert(decode_rc == 0); /* it has passed before */
	work_reply(msg, &request, rc);
}

static void
work_on_told(int rc, void *arg)
{
	(void)rc; /* what was told, or not, is not needed any more */
	mt_worker_free(arg);
}

/* A job has ended: with what was made in the answer. */
static void
work_on_end(struct mt_worker_job *job, const struct mt_worker_end *end, void *arg)
{
	const struct mt_port *port = arg;
	struct split_msg *msg = end->ticket;
	const struct dev_piece piece = { end->told, end->told_bytes };
	struct wire_job answer = { .opcode = WIRE_JOB_ASSIGN, .is_reply = true };
	struct wire_header header;

	CHECK_OBJ(port, MT_PORT_MAGIC);
	assert(msg != NULL);
	if (end->rc != 0) {
		work_reply_kept(msg, end->rc);
		if (end->canceled != NULL)
			work_reply_kept(end->canceled, 0);
		mt_worker_free(job);
		return;
	}
	assert(end->canceled == NULL);
	answer.request_id = msg->header->request_id;
	answer.job = msg->header->object_id;
	wire_job_encode(&header, &answer);
	split_msg_reply(msg, &header, &piece, 1, work_on_told, job);
}

/* -EPROTO: a part that is not the next. */
static int
work_assign(struct mt_session *session, struct split_msg *msg, const struct wire_job *request,
    const char **ret_field)
{
	struct mt_port *port = session->port;
	const struct mt_worker_part part = { .owner = session,
		.number = request->job,
		.offset_bytes = request->offset_bytes,
		.recipe_bytes = request->recipe_bytes,
		.payload_bytes = request->payload_bytes,
		.payload = msg->payload };
	int rc = mt_worker_take(port->worker, &part, msg, ret_field);

	if (rc == -EINVAL)
		return -EPROTO;
	split_qp_keep(session->qp);
	if (rc == -EBADMSG)
		log_limited(LOG_WARN, "worker: what came is no recipe peer=%s field=%s",
		    split_qp_peer(session->qp), *ret_field);
	if (rc != 1)
		work_reply(msg, request, rc);
	return 0;
}

static void
work_cancel(struct mt_session *session, struct split_msg *msg, const struct wire_job *request)
{
	int rc = mt_worker_cancel(session->port->worker, session, request->job, msg);

	if (rc != 1)
		work_reply(msg, request, rc);
}

bool
mt_port_work_is_message(const struct split_msg *msg)
{
	return msg->header->opcode == WIRE_JOB_ASSIGN || msg->header->opcode == WIRE_JOB_CANCEL ||
	    msg->header->opcode == WIRE_JOB_LOAD;
}

int
mt_port_work_take(struct mt_session *session, struct split_msg *msg, const char **ret_field)
{
	struct mt_port *port = session->port;
	struct wire_job request;
	int rc = wire_job_decode(msg->header, &request, ret_field);

	assert(session->qp != NULL);
	if (rc != 0)
		return rc;
	if (session->hello.role != WIRE_ROLE_GATEWAY) {
		*ret_field = "opcode";
		return -EPROTO;
	}
	if (port->worker == NULL)
		work_reply(msg, &request, -ENOTSUP);
	else if (request.opcode == WIRE_JOB_LOAD)
		work_reply_load(port, msg, &request);
	else if (request.opcode == WIRE_JOB_CANCEL)
		work_cancel(session, msg, &request);
	else
		rc = work_assign(session, msg, &request, ret_field);
	return rc;
}

void
mt_port_work_left(struct mt_session *session)
{
	mt_worker_left(session->port->worker, session);
}

/* ---- its life ---- */

int
mt_port_work_init(struct mt_port *port)
{
	const struct mt_settings *settings = port->settings;
	int rc = mt_worker_init(port, port->life->options->device_bytes, work_on_end, port);

	assert(port->life->work_names == NULL);
	if (rc != 0 || !settings->has_offload)
		return rc;
	port->life->work_names =
	    mt_port_mailbox_create(port->loop, sizeof(struct mt_away_names), work_on_names, port);
	if (port->life->work_names == NULL)
		return -ENOMEM;
	return port->peer_links == NULL ? mt_peer_links_init(port) : 0;
}

void
mt_port_work_stop(struct mt_port *port)
{
	mt_worker_stop(port);
}

void
mt_port_work_fini(struct mt_port *port)
{
	mt_worker_fini(port);
	mt_port_mailbox_destroy(port->life->work_names);
	port->life->work_names = NULL;
}
