/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_pair.c -- a queue pair's lanes: made, connected, ended
 *
 * An open connection has both lanes at once. A keyed one has its control lane first, and the data lane when its peer is
 * believed (verbs_greet.c); no peer may read or write memory over that, and over the control lane only write nothing,
 * as the keep-alive does.
 */
#include "verbs.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "core/alloc.h"
#include "core/device_memory.h"
#include "core/port.h"
#include "core/qp.h"
#include "core/sealed.h"

#define VERBS_INLINE_BYTES 128u
#define VERBS_RETRIES 6u /* 7 is the most there is, and means for ever to a software device */
#define VERBS_RNR_FOR_EVER 7u
#define VERBS_RNR_TIMER 12u       /* 640 us */
#define VERBS_ACK_TIMEOUT_MIN 14u /* 4.096 us << 14 = 67 ms */
#define VERBS_ACK_TIMEOUT_MAX 20u

static void
lane_hash(struct verbs_port *verbs, struct verbs_lane *lane)
{
	assert(!list_contains(&lane->hash_link));
	list_push_back(&verbs->hash[lane->ibv->qp_num % VERBS_HASH], &lane->hash_link);
}

struct verbs_lane *
verbs_lane_find(struct verbs_port *verbs, uint32_t number)
{
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&verbs->hash[number % VERBS_HASH], link, next) {
		struct verbs_lane *lane = LIST_ENTRY(link, struct verbs_lane, hash_link);

		if (lane->ibv->qp_num == number)
			return lane;
	}
	return NULL;
}

int
verbs_lane_create(struct verbs_qp *vq, struct verbs_lane *lane, struct ibv_qp_init_attr *attr)
{
	struct verbs_port *verbs = vq->verbs;

	CHECK_OBJ(vq, VERBS_QP_MAGIC);
	assert(lane->ibv == NULL);
	attr->qp_context = lane;
	attr->qp_type = IBV_QPT_RC;
	attr->cap.max_inline_data = VERBS_INLINE_BYTES;
	lane->owner = vq;
	lane->ibv = ibv_create_qp(verbs->pd, attr);
	if (lane->ibv == NULL) {
		/* Small devices cannot inline: everything is sent from where it is, then. */
		attr->cap.max_inline_data = 0;
		lane->ibv = ibv_create_qp(verbs->pd, attr);
	}
	if (lane->ibv == NULL)
		return verbs_device_errno(verbs, "queue pair");
	lane_hash(verbs, lane);
	return 0;
}

static int
lanes_memory_init(struct verbs_qp *vq)
{
	struct split_port *port = vq->verbs->port;

	assert(vq->ring == NULL);
	assert(vq->depth > 0);
	vq->ring = split_calloc(vq->depth, sizeof(*vq->ring));
	vq->slot_bytes = vq->is_keyed ? SEAL_HEAD_BYTES : WIRE_HEADER_BYTES;
	vq->slots = arena_alloc(&port->host, VERBS_CONTROL_COMPLETIONS * vq->slot_bytes, 64);
	return vq->ring != NULL && vq->slots != NULL ? 0 : -ENOMEM;
}

static int
control_create(struct verbs_qp *vq)
{
	struct ibv_qp_init_attr attr = { .send_cq = vq->verbs->control_cq,
		.recv_cq = vq->verbs->control_cq,
		.cap = { .max_send_wr = VERBS_CONTROL_SENDS,
		    .max_recv_wr = VERBS_CONTROL_WINDOW,
		    .max_send_sge = 1,
		    .max_recv_sge = 1 } };

	vq->control_credits = VERBS_CONTROL_WINDOW;
	return verbs_lane_create(vq, &vq->control, &attr);
}

int
verbs_data_create(struct verbs_qp *vq)
{
	struct verbs_port *verbs = vq->verbs;
	struct ibv_qp_init_attr attr = { .send_cq = verbs->cq, .recv_cq = verbs->cq };
	int rc;

	CHECK_OBJ(vq, VERBS_QP_MAGIC);
	attr.cap.max_send_wr = vq->depth;
	attr.cap.max_send_sge = verbs->sge_max;
	attr.srq = vq->is_shared ? verbs->srq : NULL;
	attr.cap.max_recv_wr = vq->is_shared ? 0 : VERBS_RECEIVES_POSTED;
	attr.cap.max_recv_sge = vq->is_shared ? 0 : 2;
	rc = verbs_lane_create(vq, &vq->data, &attr);
	if (rc == 0)
		vq->inline_max = attr.cap.max_inline_data;
	return rc;
}

int
verbs_lanes_create(struct verbs_qp *vq)
{
	struct verbs_port *verbs = vq->verbs;
	int rc;

	CHECK_OBJ(vq, VERBS_QP_MAGIC);
	assert(vq->control.ibv == NULL);
	if (verbs->qp_count >= verbs->qp_count_max)
		return -ENOBUFS;
	verbs->qp_count++;
	vq->is_counted = true;
	vq->depth =
	    (uint32_t)num_min(VERBS_SEND_DEPTH, num_max((uint64_t)verbs->attr.max_qp_wr / 2, 1));
	rc = lanes_memory_init(vq);
	if (rc == 0 && vq->is_keyed)
		rc = verbs_greeting_create(vq);
	if (rc == 0 && !vq->is_keyed)
		rc = verbs_data_create(vq);
	if (rc == 0)
		rc = control_create(vq);
	if (rc != 0)
		verbs_lanes_destroy(vq);
	return rc;
}

void
verbs_lane_destroy(struct verbs_lane *lane)
{
	if (lane->ibv == NULL)
		return;
	list_remove(&lane->hash_link);
	(void)ibv_destroy_qp(lane->ibv); /* fails only for one that is attached to multicast */
	lane->ibv = NULL;
}

void
verbs_lanes_destroy(struct verbs_qp *vq)
{
	CHECK_OBJ(vq, VERBS_QP_MAGIC);
	verbs_lane_destroy(&vq->theirs);
	verbs_lane_destroy(&vq->mine);
	verbs_lane_destroy(&vq->data);
	verbs_lane_destroy(&vq->control);
	assert(vq->verbs->one_sided_count >= vq->one_sided_count);
	vq->verbs->one_sided_count -= vq->one_sided_count;
	vq->one_sided_count = 0;
	verbs_sends_take_back(vq);
	for (; vq->receives_posted > 0; vq->receives_posted--) {
		verbs_slot_give(vq->verbs,
		    &vq->receive_slots[vq->receive_first % VERBS_RECEIVES_POSTED]);
		vq->receive_first++;
	}
	verbs_greeting_destroy(vq);
	arena_free(&vq->verbs->port->host, vq->slots);
	vq->slots = NULL;
	split_free(vq->ring);
	vq->ring = NULL;
	if (vq->is_counted)
		vq->verbs->qp_count--;
	vq->is_counted = vq->is_data_up = false;
}

/* The acknowledgement time-out with which a silent peer is found within half of the keep-alive. */
static uint8_t
ack_timeout(const struct split_port *port)
{
	uint64_t budget_ns = port->options.keepalive_ns / 2 / (VERBS_RETRIES + 1);
	uint8_t timeout = VERBS_ACK_TIMEOUT_MIN;

	while (timeout < VERBS_ACK_TIMEOUT_MAX && (UINT64_C(4096) << (timeout + 1)) <= budget_ns)
		timeout++;
	return timeout;
}

/* The peer's device may do this over @lane besides sending; what it may reach, regions say. */
static unsigned
lane_access(const struct verbs_qp *vq, const struct verbs_lane *lane)
{
	if (!vq->is_keyed)
		return IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
	return lane == &vq->control ? IBV_ACCESS_REMOTE_WRITE : 0;
}

int
verbs_lane_move(struct verbs_qp *vq, struct verbs_lane *lane, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask = 0;

	CHECK_OBJ(vq, VERBS_QP_MAGIC);
	assert(state == IBV_QPS_INIT || state == IBV_QPS_RTR || state == IBV_QPS_RTS);
	if (rdma_init_qp_attr(vq->id, &attr, &mask) != 0) {
		(void)verbs_device_errno(vq->verbs, "queue pair attributes");
		return -ECONNRESET; /* the connection manager is through with it */
	}
	attr.qp_state = state;
	if (state == IBV_QPS_INIT) {
		attr.qp_access_flags = lane_access(vq, lane);
		mask |= IBV_QP_ACCESS_FLAGS;
	} else if (state == IBV_QPS_RTR) {
		if (lane->peer_number != 0)
			attr.dest_qp_num = lane->peer_number;
		attr.min_rnr_timer = VERBS_RNR_TIMER;
		attr.max_dest_rd_atomic = vq->reads_max;
		mask |= IBV_QP_MIN_RNR_TIMER;
	} else {
		attr.timeout = ack_timeout(vq->verbs->port);
		attr.retry_cnt = VERBS_RETRIES;
		attr.rnr_retry = VERBS_RNR_FOR_EVER;
		attr.max_rd_atomic = vq->reads_max;
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;
	}
	errno = ibv_modify_qp(lane->ibv, &attr, mask);
	if (errno == 0)
		return 0;
	return verbs_device_errno(vq->verbs,
	    state == IBV_QPS_RTR ? "queue pair to RTR (GID or MTU)" : "queue pair state");
}

/* The receives of the control lane; a keyed one's first are long. */
static int
control_post_receives(struct verbs_qp *vq)
{
	uint32_t greetings = vq->is_keyed ? verbs_greeting_count(vq) : 0;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < VERBS_CONTROL_WINDOW; i++)
		rc = i < greetings ? verbs_greeting_post(vq, i) : verbs_post_control_receive(vq, i);
	return rc;
}

/* The data lane, the control lane, or both, state by state. */
static int
lanes_connect(struct verbs_qp *vq, bool has_data, bool has_control)
{
	static const enum ibv_qp_state states[] = { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS };
	int rc = 0;

	CHECK_OBJ(vq, VERBS_QP_MAGIC);
	assert(!vq->is_data_up);
	for (uint32_t i = 0; rc == 0 && i < NUM_COUNT(states); i++) {
		if (has_data)
			rc = verbs_lane_move(vq, &vq->data, states[i]);
		if (rc == 0 && has_control)
			rc = verbs_lane_move(vq, &vq->control, states[i]);
		if (rc == 0 && has_control && states[i] == IBV_QPS_INIT)
			rc = control_post_receives(vq);
	}
	vq->is_data_up = rc == 0 && has_data;
	return rc;
}

int
verbs_lanes_connect(struct verbs_qp *vq)
{
	return lanes_connect(vq, !vq->is_keyed, true);
}

int
verbs_data_connect(struct verbs_qp *vq)
{
	return lanes_connect(vq, true, false);
}

void
verbs_lanes_fail(struct verbs_qp *vq)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	CHECK_OBJ(vq, VERBS_QP_MAGIC);
	/* If the device refuses it is gone, and destroying the queue pair ends its access. */
	(void)ibv_modify_qp(vq->control.ibv, &attr, IBV_QP_STATE);
	if (vq->data.ibv != NULL)
		(void)ibv_modify_qp(vq->data.ibv, &attr, IBV_QP_STATE);
	if (vq->mine.ibv != NULL)
		(void)ibv_modify_qp(vq->mine.ibv, &attr, IBV_QP_STATE);
	if (vq->theirs.ibv != NULL)
		(void)ibv_modify_qp(vq->theirs.ibv, &attr, IBV_QP_STATE);
}
