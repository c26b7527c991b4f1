/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_lane.c -- one-sided reads and writes: regions, and the lanes that carry the work
 *
 * A region is a memory region of the device with remote access; deregistering it revokes its key, and
 * what is under way ends before that returns.
 *
 * RDMA ends a connection over which something was asked for that the owner does not allow, with all
 * that is in flight on it. So this work has lanes of its own, one each way, made when it is needed
 * first; the peer's end of ours only answers. Both ends are told by messages on the control lane,
 * WIRE_LANE:
 *
 *	NONE --ASK, our number-->  ASKED      the peer makes its end, and connects it
 *	ASKED <--ANSWER, its number--  OPEN   work requests
 *	OPEN --one is refused--> BROKEN       the rest is flushed
 *	BROKEN --all came back--> NONE        the refused one has ended; the others go again, on a new lane
 *
 * A peer that asks again has given its old lane up: our end of that is destroyed. Reads and writes may
 * be carried out twice, which nobody can tell, as their memory is theirs until they have ended.
 *
 * In WIRE_LANE: flags ASK or ANSWER, object_id the number, status of an ANSWER.
 */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/metrics.h"
#include "cleave/status.h"
#include "core/dev_ptr_raw.h"
#include "core/event.h"
#include "core/one_sided.h"
#include "core/port.h"
#include "core/qp.h"
#include "core/region.h"
#include "core/send_post.h"
#include "verbs.h"

#define LANE_ASK 1u
#define LANE_ANSWER 2u
#define LANE_NUMBER_MAX 0xffffffu

/* Regions. */

int
verbs_region_open(struct dev_region *region)
{
	struct verbs_port *verbs = region->port->verbs;
	unsigned access = IBV_ACCESS_LOCAL_WRITE;
	struct ibv_mr *mr;
	uint64_t address;
	int err;

	CHECK_OBJ(region, SPLIT_REGION_MAGIC);
	assert(region->transport == NULL);
	if (verbs == NULL || verbs->pd == NULL)
		return -ENOTCONN;
	if ((region->rights & DEV_REGION_READ) != 0)
		access |= IBV_ACCESS_REMOTE_READ;
	if ((region->rights & DEV_REGION_WRITE) != 0)
		access |= IBV_ACCESS_REMOTE_WRITE;
	mr = verbs_memory_register(verbs, dev_ptr_raw(region->memory), region->bytes, access,
	    &address);
	err = errno;
	if (mr == NULL) {
		verbs_memory_reason(verbs, region->bytes, err);
		return err != 0 ? -err : -ENOMEM;
	}
	region->transport = mr;
	region->remote.address = address;
	region->remote.key = mr->rkey;
	return 0;
}

void
verbs_region_close(struct dev_region *region)
{
	CHECK_OBJ(region, SPLIT_REGION_MAGIC);
	if (region->transport != NULL)
		(void)ibv_dereg_mr(
		    region->transport); /* fails only while a window is bound: we bind none */
	region->transport = NULL;
}

void
verbs_regions_lose(struct verbs_port *verbs)
{
	struct dev_region **regions = verbs->port->regions;

	CHECK_OBJ(verbs, VERBS_PORT_MAGIC);
	for (uint32_t i = 0; regions != NULL && i < SPLIT_REGIONS_MAX; i++)
		if (regions[i] != NULL)
			verbs_region_close(regions[i]);
}

/* Our lane. */

void
verbs_kick_one_sided(struct split_qp *qp)
{
	send_kick_later(qp); /* with its neighbours, at the end of the turn */
}

static int
lane_make(struct verbs_qp *vq, struct verbs_lane *lane, uint32_t depth)
{
	struct ibv_qp_init_attr attr = { .send_cq = vq->verbs->cq,
		.recv_cq = vq->verbs->cq,
		.cap = { .max_send_wr = depth, .max_send_sge = 1 } };
	int rc;

	assert(depth > 0);
	lane->is_one_sided = true;
	lane->peer_number = 0;
	rc = verbs_lane_create(vq, lane, &attr);
	if (rc == 0)
		rc = verbs_lane_move(vq, lane, IBV_QPS_INIT);
	if (rc != 0)
		verbs_lane_destroy(lane);
	return rc;
}

static int
lane_connect(struct verbs_qp *vq, struct verbs_lane *lane, uint32_t peer_number)
{
	int rc;

	assert(peer_number != 0);
	lane->peer_number = peer_number;
	rc = verbs_lane_move(vq, lane, IBV_QPS_RTR);
	return rc == 0 ? verbs_lane_move(vq, lane, IBV_QPS_RTS) : rc;
}

static void
lane_fail_qp(struct verbs_qp *vq)
{
	qp_fail(vq->qp, -ECONNRESET, "one-sided: the connection is ending");
}

/* There is no lane, and there will be none soon: what waits for it ends. */
static void
lane_give_up(struct verbs_qp *vq, int rc)
{
	assert(rc < 0);
	verbs_lane_destroy(&vq->mine);
	vq->lane_state = VERBS_LANE_NONE;
	if (rc == -ECONNRESET)
		lane_fail_qp(vq);
	else
		one_sided_refuse(vq->qp, -ENOBUFS);
}

static void
lane_ask(struct verbs_qp *vq)
{
	int rc = lane_make(vq, &vq->mine, ONE_SIDED_PIECES);

	assert(vq->lane_state == VERBS_LANE_NONE);
	if (rc != 0) {
		lane_give_up(vq, rc);
		return;
	}
	vq->lane_state = VERBS_LANE_ASKED;
	vq->is_ask_due = true;
}

/* Posts a work request. Returns false when the queue pair has failed. */
static bool
piece_post(struct verbs_qp *vq, const struct one_sided_piece *piece)
{
	const struct dev_event *event = piece->event;
	uint8_t *memory = (uint8_t *)dev_ptr_raw(event->device) + piece->offset_bytes;
	struct ibv_sge sge;
	struct ibv_send_wr wr = { .wr_id = verbs_wr_id(VERBS_WORK_ONE_SIDED, 0),
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = event->is_write ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = event->remote.address + event->remote_offset_bytes +
			piece->offset_bytes,
		    .rkey = event->remote.key } };
	struct ibv_send_wr *bad;
	bool is_ours = verbs_entry(vq->verbs, memory, piece->bytes, &sge);
	int rc;

	assert(vq->lane_state == VERBS_LANE_OPEN);
	if (!is_ours) {
		/* dev_read has looked: it was when there was another device. */
		qp_fail(vq->qp, -EINVAL, "one-sided: memory of a device that is gone");
		return false;
	}
	rc = ibv_post_send(vq->mine.ibv, &wr, &bad);
	metric_add(&vq->verbs->port->counters.send_calls, 1);
	if (rc != 0) {
		qp_fail(vq->qp, -ECONNRESET, "one-sided: %s", strerrordesc_np(rc));
		return false;
	}
	vq->one_sided_count++;
	vq->verbs->one_sided_count++;
	return true;
}

void
verbs_one_sided_post(struct verbs_qp *vq)
{
	const struct one_sided_piece *piece;

	CHECK_OBJ(vq, VERBS_QP_MAGIC);
	if (!one_sided_is_wanted(vq->qp))
		return;
	if (vq->lane_state == VERBS_LANE_NONE)
		lane_ask(vq);
	while (vq->lane_state == VERBS_LANE_OPEN && qp_is_open(vq->qp)) {
		if (vq->verbs->one_sided_count == VERBS_ONE_SIDED_MAX) {
			verbs_post_block(vq);
			return;
		}
		piece = one_sided_take(vq->qp);
		if (piece == NULL || !piece_post(vq, piece))
			return;
	}
}

/* How a piece ends that the lane could not survive. */
static int
status_to_piece_rc(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_SUCCESS:
		return 0;
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_INV_REQ_ERR: /* what some devices say of an access */
		return -EKEYREVOKED;
	default:
		return -EIO;
	}
}

/* The first that went wrong on an open lane. */
static void
lane_break(struct verbs_qp *vq, enum ibv_wc_status status)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	assert(status != IBV_WC_SUCCESS);
	assert(vq->lane_state == VERBS_LANE_OPEN);
	/* Not a piece, but the connection: nothing else will work any more, either. */
	if (status == IBV_WC_WR_FLUSH_ERR || status == IBV_WC_RETRY_EXC_ERR ||
	    status == IBV_WC_RESP_TIMEOUT_ERR)
		verbs_fail_status(vq, status);
	vq->lane_state = VERBS_LANE_BROKEN;
	/* The lane should be in error already; if the device refuses, closing ends its access. */
	(void)ibv_modify_qp(vq->mine.ibv, &attr, IBV_QP_STATE);
}

void
verbs_on_one_sided(struct verbs_qp *vq, const struct ibv_wc *wc)
{
	struct split_qp *qp = vq->qp;
	struct one_sided_piece *piece;

	CHECK_OBJ(vq, VERBS_QP_MAGIC);
	assert(vq->one_sided_count > 0);
	assert(vq->verbs->one_sided_count > 0);
	vq->one_sided_count--;
	vq->verbs->one_sided_count--;
	if (qp == NULL)
		return;
	piece = one_sided_oldest(qp); /* a lane completes in order */
	if (wc->status == IBV_WC_SUCCESS)
		vq->heard_ns = loop_now_ns(qp->port->loop);
	else if (vq->lane_state == VERBS_LANE_OPEN)
		lane_break(vq, wc->status);
	if (wc->status == IBV_WC_WR_FLUSH_ERR || (wc->status != IBV_WC_SUCCESS && !qp_is_open(qp)))
		one_sided_return(qp, piece); /* goes again, or ends with the queue pair */
	else
		one_sided_end(qp, piece, status_to_piece_rc(wc->status));
	if (vq->lane_state == VERBS_LANE_BROKEN && vq->one_sided_count == 0) {
		verbs_lane_destroy(&vq->mine);
		vq->lane_state = VERBS_LANE_NONE;
	}
	if (qp_is_open(qp) && one_sided_is_wanted(qp))
		send_kick_later(qp);
}

/* Lanes by messages. */

bool
verbs_lane_header(struct verbs_qp *vq, struct wire_header *ret_header)
{
	CHECK_OBJ(vq, VERBS_QP_MAGIC);
	*ret_header = (struct wire_header){ .opcode = WIRE_LANE };
	if (vq->is_answer_due) {
		vq->is_answer_due = false;
		ret_header->flags = LANE_ANSWER;
		ret_header->status = vq->answer_status;
		ret_header->object_id = vq->theirs.ibv != NULL ? vq->theirs.ibv->qp_num : 0;
		return true;
	}
	if (vq->is_ask_due) {
		vq->is_ask_due = false;
		ret_header->flags = LANE_ASK;
		ret_header->object_id = vq->mine.ibv->qp_num;
		return true;
	}
	return false;
}

static void
on_ask(struct verbs_qp *vq, uint32_t number)
{
	int rc;

	assert(number != 0);
	verbs_lane_destroy(&vq->theirs);
	rc = lane_make(vq, &vq->theirs, 1);
	if (rc == 0)
		rc = lane_connect(vq, &vq->theirs, number);
	if (rc != 0)
		verbs_lane_destroy(&vq->theirs);
	if (rc == -ECONNRESET)
		lane_fail_qp(vq);
	vq->answer_status = status_from_errno(rc != 0 ? -ENOMEM : 0);
	vq->is_answer_due = true;
	send_kick_later(vq->qp);
}

static void
on_answer(struct verbs_qp *vq, const struct wire_header *header)
{
	int rc = header->status != 0 ? -ENOBUFS : 0;

	assert(vq->lane_state == VERBS_LANE_ASKED);
	if (rc == 0)
		rc = lane_connect(vq, &vq->mine, (uint32_t)header->object_id);
	if (rc != 0) {
		lane_give_up(vq, rc);
		return;
	}
	vq->lane_state = VERBS_LANE_OPEN;
	send_kick_later(vq->qp);
}

int
verbs_on_lane_message(struct verbs_qp *vq, const struct wire_header *header)
{
	bool is_answer = header->flags == LANE_ANSWER;

	CHECK_OBJ(vq, VERBS_QP_MAGIC);
	if (header->flags != LANE_ASK && !is_answer)
		return -EPROTO;
	if (header->object_id > LANE_NUMBER_MAX || header->status >= CLEAVE_STATUS_NR ||
	    (header->status != 0) != (header->object_id == 0))
		return -EPROTO;
	if (is_answer) {
		if (vq->lane_state != VERBS_LANE_ASKED || vq->is_ask_due)
			return -EPROTO;
		on_answer(vq, header);
		return 0;
	}
	/* The peer has not heard of the last answer yet. */
	if (vq->is_answer_due || header->status != 0)
		return -EPROTO;
	on_ask(vq, (uint32_t)header->object_id);
	return 0;
}
