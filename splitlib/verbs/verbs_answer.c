/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_answer.c -- requests for connections are answered: taken, refused, or let wait for their turn
 *
 * An open one has brought its hello, and is answered as its owner says. A keyed one has not: it is taken as soon as
 * there is a place for its handshake (auth_admit), and its hello comes afterwards, sealed. Until then it is a request of
 * the connection manager's and costs nothing else.
 */
#include "base/check.h"
#include "verbs.h"

#include <errno.h>

#include "base/list.h"
#include "base/sm.h"
#include "core/auth.h"
#include "core/port.h"
#include "core/qp.h"
#include "core/send_assemble.h"
#include "verbs_hello.h"

#define VERBS_RETRY_COUNT 6u /* verbs_lane_move says what counts */
#define VERBS_RNR_RETRY_COUNT 7u

struct rdma_conn_param
verbs_param(struct verbs_qp *vq, const void *data, uint8_t bytes)
{
	CHECK_OBJ(vq, VERBS_QP_MAGIC);
	return (struct rdma_conn_param){
		.private_data = data,
		.private_data_len = bytes,
		.responder_resources = vq->reads_max,
		.initiator_depth = vq->reads_max,
		.flow_control = 1,
		.retry_count = VERBS_RETRY_COUNT,
		.rnr_retry_count = VERBS_RNR_RETRY_COUNT,
		.srq = vq->is_shared,
		.qp_num = vq->is_keyed ? vq->control.ibv->qp_num : vq->data.ibv->qp_num,
	};
}

/* Take it. Returns false where the queue pair has failed. */
static bool
answer_accept(struct verbs_qp *vq)
{
	uint8_t reply[VERBS_REPLY_BYTES];
	struct rdma_conn_param param;
	int rc;

	assert(verbs_is(vq, VERBS_OFFERED));
	vq->qp->port->reason[0] = '\0';
	rc = verbs_lanes_create(vq);
	if (rc == 0)
		rc = verbs_lanes_connect(vq);
	if (rc != 0) {
		(void)rdma_reject(vq->id, NULL, 0); /* or it runs into its time-out */
		verbs_fail_here(vq, -ECONNRESET);
		return false;
	}
	if (vq->is_keyed) {
		verbs_reply_pack_keyed(vq->control.ibv->qp_num, reply);
	} else {
		verbs_srq_fill(vq->verbs);
		verbs_post_receives(vq);
		verbs_reply_pack(vq->qp, vq->control.ibv->qp_num, reply);
	}
	param = verbs_param(vq, reply, sizeof(reply));
	if (rdma_accept(vq->id, &param) != 0) {
		qp_fail(vq->qp, -ECONNRESET, "accept: %s", strerrordesc_np(errno));
		return false;
	}
	sm_move(&vq->sm, VERBS_ANSWERED);
	vq->heard_ns = loop_now_ns(vq->verbs->port->loop);
	return true;
}

/* The owner has decided, or nobody asked it. */
void
verbs_answer(struct verbs_qp *vq)
{
	struct split_qp *qp = vq->qp;
	struct split_send *send = &qp->hello.send;
	uint8_t reply[VERBS_REPLY_BYTES];

	CHECK_OBJ(vq, VERBS_QP_MAGIC);
	assert(verbs_is(vq, VERBS_OFFERED));
	if (!list_contains(&send->link))
		return;
	send_prepare(qp, send);
	if (qp->is_rejecting) {
		verbs_reply_pack(qp, 0, reply);
		(void)rdma_reject(vq->id, reply, sizeof(reply)); /* or it runs into its time-out */
		send_complete(qp, send, 0);
		return;
	}
	assert(!vq->is_keyed);
	vq->is_shared = qp->is_pooled;
	if (answer_accept(vq))
		send_complete(qp, send, 0);
}

void
verbs_admit(struct verbs_qp *vq)
{
	CHECK_OBJ(vq, VERBS_QP_MAGIC);
	assert(vq->is_keyed && verbs_is(vq, VERBS_OFFERED));
	if (auth_admit(vq->qp) == 0)
		(void)answer_accept(vq);
}

void
verbs_on_admit_task(struct loop_task *task, void *arg)
{
	struct verbs_qp *vq = arg;

	assert(task == &vq->admit_task);
	(void)task;
	CHECK_OBJ(vq, VERBS_QP_MAGIC);
	if (vq->qp != NULL && qp_is_open(vq->qp) && verbs_is(vq, VERBS_OFFERED))
		verbs_admit(vq);
}
