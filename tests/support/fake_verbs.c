/* SPDX-License-Identifier: Apache-2.0 */
/* fake_verbs.c -- see fake_verbs.h */
#include "support/fake_verbs.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/guard.h"

#define QPS_MAX 4096u
#define QUEUE_MAX 1024u

struct fake_verbs fake_verbs;

struct receive {
	uint64_t wr_id;
	struct ibv_sge sges[2];
	int sge_count;
};

struct receive_queue {
	struct receive entries[QUEUE_MAX * 4];
	uint32_t head, tail;
};

struct sent {
	struct ibv_send_wr wr;
	struct ibv_sge sges[32];
	uint8_t inline_data[256];
};

struct fake_qp {
	struct ibv_qp ibv;
	enum ibv_qp_state state;
	uint32_t peer;
	unsigned access;
	struct receive_queue *receives;
	struct sent *sends; /* that wait */
	uint32_t send_head, send_tail;
};

struct fake_srq {
	struct ibv_srq ibv;
	struct receive_queue receives;
};

struct fake_cq {
	struct ibv_cq ibv;
	struct ibv_wc *wcs;
	uint32_t head, tail, cap;
	bool is_armed;
};

struct fake_channel {
	struct ibv_comp_channel ibv;
	struct ibv_cq *told[QUEUE_MAX];
	uint32_t head, tail;
	int write_fd;
};

struct verbs_context fake_device_contexts[FAKE_CONTEXTS];
uint32_t fake_device_index;
static struct ibv_device device = { .name = "fake0" };
static int async_pipe[2] = { -1, -1 };
static struct ibv_async_event async_events[16];
static uint32_t async_head, async_tail;
static struct fake_qp *qps[QPS_MAX];
static uint32_t qp_next;

bool
fake_must_fail(const char *name)
{
	if (fake_verbs.fail_name == NULL || strcmp(name, fake_verbs.fail_name) != 0)
		return false;
	if (fake_verbs.fail_nth == 0 || --fake_verbs.fail_nth > 0)
		return false;
	fake_verbs.fail_count++;
	errno = fake_verbs.fail_errno != 0 ? fake_verbs.fail_errno : ENOMEM;
	return true;
}

void *
fake_make(size_t bytes)
{
	void *object = calloc(1, bytes);

	assert(object != NULL);
	fake_verbs.object_count++;
	return object;
}

int
fake_unmake(void *object)
{
	fake_verbs.object_count--;
	free(object);
	return 0;
}

/* Completions. */

static void
complete(struct ibv_cq *ibv, const struct ibv_wc *wc)
{
	struct fake_cq *cq = (struct fake_cq *)ibv;

	assert(cq->tail - cq->head < cq->cap); /* a real one would be lost */
	cq->wcs[cq->tail++ % cq->cap] = *wc;
	if (cq->is_armed) {
		struct fake_channel *channel = (struct fake_channel *)cq->ibv.channel;

		cq->is_armed = false;
		channel->told[channel->tail++ % QUEUE_MAX] = ibv;
		assert(write(channel->write_fd, "x", 1) == 1);
	}
}

static void
complete_send(struct fake_qp *qp, const struct ibv_send_wr *wr, enum ibv_wc_status status)
{
	struct ibv_wc wc = { .wr_id = wr->wr_id, .status = status, .qp_num = qp->ibv.qp_num };

	if (status != IBV_WC_SUCCESS || (wr->send_flags & IBV_SEND_SIGNALED) != 0)
		complete(qp->ibv.send_cq, &wc);
}

static void
qp_break(struct fake_qp *qp)
{
	if (qp->state == IBV_QPS_ERR)
		return;
	qp->state = IBV_QPS_ERR;
	if (fake_verbs.is_stuck)
		return;
	for (; qp->send_head != qp->send_tail; qp->send_head++)
		complete_send(qp, &qp->sends[qp->send_head % QUEUE_MAX].wr, IBV_WC_WR_FLUSH_ERR);
	while (qp->ibv.srq == NULL && qp->receives->head != qp->receives->tail) {
		struct ibv_wc wc = {
			.wr_id =
			    qp->receives->entries[qp->receives->head++ % (QUEUE_MAX * 4)].wr_id,
			.status = IBV_WC_WR_FLUSH_ERR,
			.qp_num = qp->ibv.qp_num
		};

		complete(qp->ibv.recv_cq, &wc);
	}
}

static struct fake_qp *
qp_find(uint32_t number)
{
	return number < QPS_MAX ? qps[number] : NULL;
}

/* From the entries of one side to those of the other, as far as there is room. */
static void
copy_entries(const struct ibv_sge *from, int from_count, const struct ibv_sge *to, int to_count)
{
	uint32_t at = 0;
	int i = 0;

	guard_enter();
	for (int k = 0; k < from_count; k++)
		for (uint32_t done = 0; done < from[k].length;) {
			uint32_t part = from[k].length - done;

			assert(i < to_count);
			if (part > to[i].length - at)
				part = to[i].length - at;
			memcpy(fake_entry_memory(&to[i]) + at, fake_entry_memory(&from[k]) + done,
			    part);
			done += part;
			at += part;
			if (at == to[i].length) {
				i++;
				at = 0;
			}
		}
	guard_leave();
}

static uint32_t
entries_bytes(const struct ibv_sge *sges, int count)
{
	uint32_t bytes = 0;

	for (int i = 0; i < count; i++)
		bytes += sges[i].length;
	return bytes;
}

/* A read or write of the peer's memory. */
static void
deliver_one_sided(struct fake_qp *qp, struct fake_qp *peer, const struct ibv_send_wr *wr)
{
	bool is_write = wr->opcode == IBV_WR_RDMA_WRITE;
	unsigned right = is_write ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_READ;
	uint32_t bytes = entries_bytes(wr->sg_list, wr->num_sge);
	const struct fake_mr *mr = fake_mr_find(wr->wr.rdma.rkey);
	struct ibv_sge remote = { wr->wr.rdma.remote_addr, bytes, wr->wr.rdma.rkey };

	if (bytes > 0 &&
	    (mr == NULL || (mr->access & right) == 0 || !fake_mr_has(mr, remote.addr, bytes))) {
		fake_verbs.refused_count++;
		fake_verbs_async_event(IBV_EVENT_QP_ACCESS_ERR, peer->ibv.qp_num);
		qp_break(peer);
		complete_send(qp, wr, IBV_WC_REM_ACCESS_ERR);
		qp_break(qp);
		return;
	}
	if (is_write)
		copy_entries(wr->sg_list, wr->num_sge, &remote, 1);
	else
		copy_entries(&remote, 1, wr->sg_list, wr->num_sge);
	complete_send(qp, wr, IBV_WC_SUCCESS);
}

/* Returns false when it has to wait. */
static bool
deliver(struct fake_qp *qp, const struct ibv_send_wr *wr)
{
	struct fake_qp *peer = qp_find(qp->peer);
	struct receive *receive;
	struct ibv_wc wc = { 0 };
	bool is_one_sided = wr->opcode == IBV_WR_RDMA_READ ||
	    (wr->opcode == IBV_WR_RDMA_WRITE && wr->num_sge > 0);

	if (fake_verbs.next_status != IBV_WC_SUCCESS &&
	    (!fake_verbs.is_for_one_sided || is_one_sided)) {
		complete_send(qp, wr, fake_verbs.next_status);
		fake_verbs.next_status = IBV_WC_SUCCESS;
		qp_break(qp);
		return true;
	}
	if (fake_verbs.is_deaf || peer == NULL || peer->state == IBV_QPS_ERR)
		return false;
	if (wr->opcode == IBV_WR_RDMA_WRITE || wr->opcode == IBV_WR_RDMA_READ) {
		deliver_one_sided(qp, peer, wr);
		return true;
	}
	if (peer->receives->head == peer->receives->tail) {
		fake_verbs.not_ready_count++;
		return false;
	}
	receive = &peer->receives->entries[peer->receives->head++ % (QUEUE_MAX * 4)];
	wc.wr_id = receive->wr_id;
	wc.qp_num = peer->ibv.qp_num;
	wc.opcode = IBV_WC_RECV;
	wc.byte_len = entries_bytes(wr->sg_list, wr->num_sge);
	if (wc.byte_len > entries_bytes(receive->sges, receive->sge_count)) {
		wc.status = IBV_WC_LOC_LEN_ERR;
		complete(peer->ibv.recv_cq, &wc);
		qp_break(peer);
		complete_send(qp, wr, IBV_WC_REM_INV_REQ_ERR);
		qp_break(qp);
		return true;
	}
	copy_entries(wr->sg_list, wr->num_sge, receive->sges, receive->sge_count);
	if (wr->opcode == IBV_WR_SEND_WITH_IMM) {
		wc.wc_flags = IBV_WC_WITH_IMM;
		wc.imm_data = wr->imm_data;
	}
	if (fake_verbs.on_message != NULL) {
		struct ibv_recv_wr wanted = { .wr_id = receive->wr_id,
			.sg_list = receive->sges,
			.num_sge = receive->sge_count };

		guard_enter();
		fake_verbs.on_message(peer->ibv.qp_num, &wanted, &wc);
		guard_leave();
	}
	complete(peer->ibv.recv_cq, &wc);
	complete_send(qp, wr, IBV_WC_SUCCESS);
	return true;
}

static void
qp_run(struct fake_qp *qp)
{
	while (qp->state == IBV_QPS_RTS && qp->send_head != qp->send_tail) {
		struct sent *sent = &qp->sends[qp->send_head % QUEUE_MAX];

		sent->wr.sg_list = sent->sges;
		if (sent->wr.send_flags & IBV_SEND_INLINE)
			sent->sges[0].addr = (uintptr_t)sent->inline_data;
		/* Out of the queue first: an error flushes the rest. */
		qp->send_head++;
		if (!deliver(qp, &sent->wr)) {
			qp->send_head--;
			return;
		}
	}
}

static void
all_run(void)
{
	for (uint32_t i = 0; i < qp_next && i < QPS_MAX; i++)
		if (qps[i] != NULL)
			qp_run(qps[i]);
}

/* The data path's calls, which verbs.h finds in the context. */

static int
fake_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct fake_qp *qp = (struct fake_qp *)ibv;

	fake_verbs.post_count++;
	for (; wr != NULL; wr = wr->next) {
		struct sent *sent = &qp->sends[qp->send_tail % QUEUE_MAX];

		*bad = wr;
		if (fake_must_fail("ibv_post_send"))
			return errno;
		assert(qp->send_tail - qp->send_head < QUEUE_MAX);
		fake_verbs.wr_count++;
		if ((wr->send_flags & IBV_SEND_SIGNALED) != 0)
			fake_verbs.signaled_count++;
		if ((uint32_t)wr->num_sge > fake_verbs.sge_count_max)
			fake_verbs.sge_count_max = (uint32_t)wr->num_sge;
		sent->wr = *wr;
		if (wr->num_sge > 0)
			memcpy(sent->sges, wr->sg_list, (size_t)wr->num_sge * sizeof(*sent->sges));
		if ((wr->send_flags & IBV_SEND_INLINE) == 0)
			fake_entries_check(wr->sg_list, wr->num_sge);
		if ((wr->send_flags & IBV_SEND_INLINE) != 0) {
			fake_verbs.inline_count++;
			assert(
			    wr->num_sge == 1 && wr->sg_list[0].length <= sizeof(sent->inline_data));
			sent->sges[0].lkey = 0;
			memcpy(sent->inline_data, (const void *)(uintptr_t)wr->sg_list[0].addr,
			    wr->sg_list[0].length);
		}
		qp->send_tail++;
		if (qp->state == IBV_QPS_ERR) {
			qp->send_tail--;
			complete_send(qp, wr, IBV_WC_WR_FLUSH_ERR);
		}
	}
	qp_run(qp);
	return 0;
}

static int
receives_add(struct receive_queue *queue, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad,
    const char *name)
{
	for (; wr != NULL; wr = wr->next) {
		struct receive *receive = &queue->entries[queue->tail % (QUEUE_MAX * 4)];

		*bad = wr;
		if (fake_must_fail(name))
			return errno;
		assert(queue->tail - queue->head < QUEUE_MAX * 4);
		*receive = (struct receive){ .wr_id = wr->wr_id, .sge_count = wr->num_sge };
		memcpy(receive->sges, wr->sg_list, (size_t)wr->num_sge * sizeof(*receive->sges));
		fake_entries_check(wr->sg_list, wr->num_sge);
		queue->tail++;
	}
	all_run();
	return 0;
}

static int
fake_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return receives_add(((struct fake_qp *)ibv)->receives, wr, bad, "ibv_post_recv");
}

static int
fake_post_srq_recv(struct ibv_srq *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	fake_verbs.srq_post_count++;
	return receives_add(&((struct fake_srq *)ibv)->receives, wr, bad, "ibv_post_srq_recv");
}

static int
fake_poll_cq(struct ibv_cq *ibv, int max, struct ibv_wc *wcs)
{
	struct fake_cq *cq = (struct fake_cq *)ibv;
	int count = 0;

	if (fake_must_fail("ibv_poll_cq"))
		return -1;
	while (count < max && cq->head != cq->tail)
		wcs[count++] = cq->wcs[cq->head++ % cq->cap];
	return count;
}

static int
fake_req_notify_cq(struct ibv_cq *ibv, int is_solicited)
{
	(void)is_solicited;
	fake_verbs.arm_count++;
	if (fake_must_fail("ibv_req_notify_cq"))
		return errno;
	((struct fake_cq *)ibv)->is_armed = true;
	return 0;
}

/* Objects. */

int
ibv_query_device(struct ibv_context *c, struct ibv_device_attr *attr)
{
	(void)c;
	if (fake_must_fail("ibv_query_device"))
		return errno;
	*attr = (struct ibv_device_attr){ .max_sge = fake_verbs.max_sge,
		.max_cqe = fake_verbs.max_cqe,
		.max_srq_wr = fake_verbs.max_srq_wr,
		.max_qp_wr = 1024,
		.max_qp_rd_atom = 16 };
	return 0;
}

struct ibv_pd *
ibv_alloc_pd(struct ibv_context *c)
{
	struct ibv_pd *pd;

	if (fake_must_fail("ibv_alloc_pd"))
		return NULL;
	pd = fake_make(sizeof(*pd));
	pd->context = c;
	return pd;
}

int
ibv_dealloc_pd(struct ibv_pd *pd)
{
	return fake_unmake(pd);
}

const char *
ibv_get_device_name(struct ibv_device *d)
{
	return d->name;
}

struct ibv_comp_channel *
ibv_create_comp_channel(struct ibv_context *c)
{
	struct fake_channel *channel;
	int fds[2];

	if (fake_must_fail("ibv_create_comp_channel"))
		return NULL;
	channel = fake_make(sizeof(*channel));
	assert(pipe(fds) == 0);
	channel->ibv.context = c;
	channel->ibv.fd = fds[0];
	channel->write_fd = fds[1];
	return &channel->ibv;
}

int
ibv_destroy_comp_channel(struct ibv_comp_channel *ibv)
{
	close(ibv->fd);
	close(((struct fake_channel *)ibv)->write_fd);
	return fake_unmake(ibv);
}

int
ibv_get_cq_event(struct ibv_comp_channel *ibv, struct ibv_cq **cq, void **cq_context)
{
	struct fake_channel *channel = (struct fake_channel *)ibv;
	char byte;

	if (read(ibv->fd, &byte, 1) != 1)
		return -1;
	*cq = channel->told[channel->head++ % QUEUE_MAX];
	*cq_context = NULL;
	return 0;
}

void
ibv_ack_cq_events(struct ibv_cq *cq, unsigned int count)
{
	(void)cq;
	(void)count;
}

struct ibv_cq *
ibv_create_cq(struct ibv_context *c, int cqe, void *cq_context, struct ibv_comp_channel *channel,
    int vector)
{
	struct fake_cq *cq;

	(void)vector;
	if (fake_must_fail("ibv_create_cq"))
		return NULL;
	cq = fake_make(sizeof(*cq));
	cq->ibv.context = c;
	cq->ibv.channel = channel;
	cq->ibv.cq_context = cq_context;
	cq->cap = (uint32_t)cqe;
	cq->wcs = calloc(cq->cap, sizeof(*cq->wcs));
	return &cq->ibv;
}

int
ibv_destroy_cq(struct ibv_cq *cq)
{
	free(((struct fake_cq *)cq)->wcs);
	return fake_unmake(cq);
}

struct ibv_srq *
ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct fake_srq *srq;

	(void)attr;
	if (fake_must_fail("ibv_create_srq"))
		return NULL;
	srq = fake_make(sizeof(*srq));
	srq->ibv.context = pd->context;
	return &srq->ibv;
}

int
ibv_destroy_srq(struct ibv_srq *srq)
{
	return fake_unmake(srq);
}

struct ibv_qp *
ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct fake_qp *qp;

	if (fake_must_fail("ibv_create_qp"))
		return NULL;
	if (fake_verbs.has_no_inline && attr->cap.max_inline_data > 0) {
		errno = EINVAL;
		return NULL;
	}
	assert(qp_next < QPS_MAX);
	qp = fake_make(sizeof(*qp));
	qp->ibv = (struct ibv_qp){ .context = pd->context,
		.qp_context = attr->qp_context,
		.pd = pd,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.qp_num = qp_next };
	qp->receives = attr->srq != NULL ? &((struct fake_srq *)attr->srq)->receives
					 : calloc(1, sizeof(*qp->receives));
	qp->sends = calloc(QUEUE_MAX, sizeof(*qp->sends));
	qps[qp_next++] = qp;
	return &qp->ibv;
}

int
ibv_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
	struct fake_qp *qp = (struct fake_qp *)ibv;

	if (fake_must_fail("ibv_modify_qp"))
		return errno;
	if (fake_verbs.has_no_device)
		return EIO;
	if (attr->qp_state == IBV_QPS_ERR) {
		qp_break(qp);
		return 0;
	}
	if ((mask & IBV_QP_ACCESS_FLAGS) != 0)
		qp->access = attr->qp_access_flags;
	if ((mask & IBV_QP_DEST_QPN) != 0)
		qp->peer = attr->dest_qp_num;
	qp->state = attr->qp_state;
	return 0;
}

int
ibv_destroy_qp(struct ibv_qp *ibv)
{
	struct fake_qp *qp = (struct fake_qp *)ibv;

	/* As the kernel does: no event tells of what is gone. */
	for (uint32_t i = async_head; i != async_tail; i++)
		if (async_events[i % 16].element.qp == ibv)
			async_events[i % 16].event_type = IBV_EVENT_COMM_EST;
	qps[ibv->qp_num] = NULL;
	if (ibv->srq == NULL)
		free(qp->receives);
	free(qp->sends);
	return fake_unmake(qp);
}

int
ibv_get_async_event(struct ibv_context *c, struct ibv_async_event *event)
{
	char byte;

	(void)c;
	if (read(async_pipe[0], &byte, 1) != 1)
		return -1;
	*event = async_events[async_head++ % 16];
	return 0;
}

void
ibv_ack_async_event(struct ibv_async_event *event)
{
	(void)event;
}

/* For tests. */

/* A context's file: it is the pipe until somebody puts another in its place. */
static void
file_renew(int *fd)
{
	if (*fd > 0)
		close(*fd);
	*fd = dup(async_pipe[0]);
	assert(*fd > 0);
}

bool
fake_verbs_is_let_go(uint32_t index)
{
	struct stat command, async;

	assert(fstat(fake_device_contexts[index].context.cmd_fd, &command) == 0);
	assert(fstat(fake_device_contexts[index].context.async_fd, &async) == 0);
	return S_ISCHR(command.st_mode) && S_ISCHR(async.st_mode);
}

void
fake_verbs_reset(void)
{
	fake_verbs = (struct fake_verbs){ .max_sge = 32, .max_cqe = 65536, .max_srq_wr = 65536 };
	qp_next = 17;
	if (async_pipe[0] < 0)
		assert(pipe(async_pipe) == 0);
	for (uint32_t i = FAKE_CONTEXTS; i > 0; i--) {
		fake_device_index = i - 1;
		fake_context.device = &device;
		fake_context.abi_compat = __VERBS_ABI_IS_EXTENDED;
		fake_device_contexts[fake_device_index].sz = sizeof(fake_device_contexts[0]);
		fake_context.ops.post_send = fake_post_send;
		fake_context.ops.post_recv = fake_post_recv;
		fake_context.ops.post_srq_recv = fake_post_srq_recv;
		fake_context.ops.poll_cq = fake_poll_cq;
		fake_context.ops.req_notify_cq = fake_req_notify_cq;
		file_renew(&fake_context.async_fd);
		file_renew(&fake_context.cmd_fd);
		fake_memory_reset();
	}
}

/* Programs that know nothing of the fake get it as it is. */
__attribute__((constructor)) static void
fake_verbs_begin(void)
{
	fake_verbs_reset();
}

void
fake_verbs_async_event(enum ibv_event_type type, uint32_t number)
{
	struct ibv_async_event *event = &async_events[async_tail++ % 16];

	event->event_type = type;
	event->element.qp = number != 0 ? &qps[number]->ibv : NULL;
	assert(write(async_pipe[1], "x", 1) == 1);
}

void
fake_verbs_time_out(void)
{
	for (uint32_t i = 0; i < qp_next; i++) {
		struct fake_qp *qp = qps[i];

		if (qp == NULL || qp->state != IBV_QPS_RTS || qp->send_head == qp->send_tail)
			continue;
		complete_send(qp, &qp->sends[qp->send_head++ % QUEUE_MAX].wr, IBV_WC_RETRY_EXC_ERR);
		qp_break(qp);
	}
}

unsigned
fake_verbs_access(uint32_t number)
{
	return qps[number]->access;
}

void
fake_verbs_break(uint32_t number)
{
	qp_break(qps[number]);
}
